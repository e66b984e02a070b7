//! The report as a page: one file that needs no other. How it looks is left to [`crate::page`].

use std::io;

use fsdyno_model::report_data::ReportData;

use super::tables::{Needs, Timelines};
use super::{ExportFormat, ExportOptions, Output};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "html",
    doc: "A page with verdict, tables, charts and I/O graphs, in one file that needs no network",
    extensions: &["html", "htm"],
    is_text: true,
    is_file: true,
    is_picture: false,
    holds_several: false,
    has_tables: false,
    needs: |_| Needs { timelines: Timelines::Shown, graphs: true, activity: true },
    write,
};

fn write(runs: &[ReportData], _: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    runs.iter().try_for_each(|run| output.write_all(crate::page::run_page(run).as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::tables::fixture;

    #[test]
    fn a_page_is_whole() {
        let mut bytes = Vec::new();
        write(&[fixture::run()], &ExportOptions::default(), &mut bytes).unwrap();
        let page = String::from_utf8(bytes).unwrap();
        assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
        assert!(page.trim_end().ends_with("</html>"));
    }
}
