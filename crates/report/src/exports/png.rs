//! A picture as PNG: what [`super::svg`] draws, in pixels.

use std::io;

use fsdyno_model::report_data::ReportData;

use super::svg;
use super::{ExportFormat, ExportOptions, Output};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "png",
    doc: "The same picture as svg, in pixels",
    extensions: &["png"],
    is_text: false,
    is_file: true,
    is_picture: true,
    holds_several: false,
    has_tables: false,
    needs: svg::needs,
    write,
};

fn write(runs: &[ReportData], options: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    runs.iter().try_for_each(|run| {
        let pixels = crate::io_picture::png(&svg::draw(run, options.picture));
        if pixels.is_empty() {
            return Err(io::Error::other("the picture is too large for pixels: take svg"));
        }
        output.write_all(&pixels)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::tables::fixture;

    #[test]
    fn a_picture_has_pixels() {
        let mut bytes = Vec::new();
        write(&[fixture::run()], &ExportOptions::default(), &mut bytes).unwrap();
        let reader = ::png::Decoder::new(io::Cursor::new(bytes)).read_info().unwrap();
        let (width, height) = reader.info().size();
        assert!(width > 400 && height > 100, "{width} × {height}");
    }
}
