//! Results as tables in Markdown, run after run.

use std::io;

use fsdyno_model::report_data::ReportData;

use super::{ExportFormat, ExportOptions, Output, document_only};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "markdown",
    doc: "Tables in Markdown, with the verdict and what was run",
    extensions: &["md"],
    is_text: true,
    is_file: false,
    is_picture: false,
    holds_several: true,
    has_tables: false,
    needs: document_only,
    write,
};

fn write(runs: &[ReportData], _: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    for (index, run) in runs.iter().enumerate() {
        if index > 0 {
            output.write_all(b"\n")?;
        }
        let text = crate::markdown::render(&run.result);
        output.write_all(text.trim_end().as_bytes())?;
        output.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::tables;

    #[test]
    fn runs_follow_each_other() {
        let runs = [tables::fixture::run(), tables::fixture::run()];
        let mut bytes = Vec::new();
        (FORMAT.write)(&runs, &ExportOptions::default(), &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let one = crate::markdown::render(&runs[0].result);
        assert_eq!(text.matches(one.lines().next().unwrap()).count(), 2);
    }
}
