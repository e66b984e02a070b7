//! The result document: one of a run, a list of several.

use std::io;

use fsdyno_model::report_data::ReportData;

use super::{ExportFormat, ExportOptions, Output, document_only};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "json",
    doc: "The result document, as docs/results.schema.json describes it; a list of several runs",
    extensions: &["json"],
    is_text: true,
    is_file: false,
    is_picture: false,
    holds_several: true,
    has_tables: false,
    needs: document_only,
    write,
};

fn write(runs: &[ReportData], _: &ExportOptions, mut output: Output<'_>) -> io::Result<()> {
    if let [run] = runs {
        return crate::json::write(&run.result, &mut output);
    }
    let documents: Vec<_> = runs.iter().map(|run| &run.result).collect();
    serde_json::to_writer_pretty(&mut output, &documents)?;
    output.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use fsdyno_model::result::RunResult;

    use super::*;
    use crate::exports::tables;

    fn written(runs: &[ReportData]) -> Vec<u8> {
        let mut bytes = Vec::new();
        (FORMAT.write)(runs, &ExportOptions::default(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn one_run_is_its_document_and_several_are_a_list() {
        let run = tables::fixture::run();
        let document: RunResult =
            serde_json::from_slice(&written(std::slice::from_ref(&run))).unwrap();
        assert_eq!(document, run.result);
        let list: Vec<RunResult> = serde_json::from_slice(&written(&[run.clone(), run])).unwrap();
        assert_eq!(list, [document.clone(), document]);
    }
}
