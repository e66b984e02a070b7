//! A picture as SVG: every target beside the first one, or what a disk did over time. How it is drawn is
//! left to [`crate::io_picture`].

use std::io;

use fsdyno_model::report_data::ReportData;

use super::tables::{Needs, Timelines};
use super::{ExportFormat, ExportOptions, Output, Picture};
use crate::io_picture::{self, PictureInput, PictureOptions};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "svg",
    doc: "A picture (--what): every target beside the first one, or the I/O graph of each traced trial",
    extensions: &["svg"],
    is_text: true,
    is_file: true,
    is_picture: true,
    holds_several: false,
    has_tables: false,
    needs,
    write,
};

/// Pictures need nothing else whatever their form.
pub(super) fn needs(options: &ExportOptions) -> Needs {
    match options.picture {
        Picture::Ratios => Needs::DOCUMENT,
        Picture::Io => Needs { timelines: Timelines::Shown, graphs: true, activity: true },
    }
}

fn write(runs: &[ReportData], options: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    runs.iter().try_for_each(|run| output.write_all(draw(run, options.picture).as_bytes()))
}

/// The picture of a run. In an I/O graph the traced trials that it holds lie over each other.
pub(super) fn draw(run: &ReportData, picture: Picture) -> String {
    let options = PictureOptions::default();
    match picture {
        // As high as its rows need.
        Picture::Ratios => io_picture::ratios_svg(run, &PictureOptions { height: 0, ..options }),
        Picture::Io => {
            let inputs: Vec<PictureInput<'_>> = run
                .timelines
                .iter()
                .filter_map(|timeline| {
                    Some(PictureInput {
                        graph: timeline.graph.as_ref()?,
                        activity: timeline.activity.as_ref(),
                        phases: &timeline.phases,
                    })
                })
                .collect();
            io_picture::svg_titled(&inputs, Some(&title(run)), &options)
        }
    }
}

/// What was run, and where its figures are: `compilebench on ext4 · run 20260102-030405`.
fn title(run: &ReportData) -> String {
    let mut traced: Vec<String> = run
        .timelines
        .iter()
        .filter(|timeline| timeline.graph.is_some())
        .map(|timeline| format!("{} on {}", timeline.workload, timeline.target))
        .collect();
    traced.dedup();
    format!("{} · run {}", traced.join(", "), run.result.run.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::tables::fixture;

    #[test]
    fn both_pictures_are_drawn() {
        let run = fixture::run();
        for picture in [Picture::Ratios, Picture::Io] {
            let mut bytes = Vec::new();
            let options = ExportOptions { picture, ..ExportOptions::default() };
            write(std::slice::from_ref(&run), &options, &mut bytes).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
            // Labels are text, never markup.
            assert!(!text.contains("ext4:\"a"), "{text}");
            if picture == Picture::Io {
                assert!(text.contains(&format!("· run {}", run.result.run.id)), "{text}");
            }
        }
    }
}
