//! Forms in which `fsdyno report` hands results out, but for those of the classic tools: one file each,
//! one list. Names, help and the choice by the extension of a file are made from the list. What is
//! collected for them is left to the caller.

pub mod csv;
pub mod html;
pub mod json;
pub mod markdown;
pub mod parquet;
pub mod png;
pub mod prometheus;
pub mod svg;
pub mod tables;

use std::io::{self, Write};
use std::path::Path;

use fsdyno_model::report_data::ReportData;

use tables::{Needs, Table};

/// Where a form is written to. The writer of Parquet asks for something that may change its thread.
pub type Output<'a> = &'a mut (dyn Write + Send);

/// What of the results is asked for.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// Which table, of the forms that hold one.
    pub table: &'static Table,
    /// Which picture, of the forms that are one.
    pub picture: Picture,
}

impl Default for ExportOptions {
    fn default() -> ExportOptions {
        ExportOptions { table: tables::ALL[0], picture: Picture::Ratios }
    }
}

/// What a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// Every target beside the first one.
    Ratios,
    /// What the disk did over time in a traced trial.
    Io,
}

/// One form.
#[derive(Debug)]
pub struct ExportFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for the help.
    pub doc: &'static str,
    /// Extensions of its files; the first is that of files whose name we choose.
    pub extensions: &'static [&'static str],
    /// Whether it is text, which can go to a terminal.
    pub is_text: bool,
    /// Whether it is a page or a picture, which goes to a file unless told otherwise.
    pub is_file: bool,
    /// Whether it is one of two pictures.
    pub is_picture: bool,
    /// Whether one file holds several runs.
    pub holds_several: bool,
    /// Whether it holds one of [`tables::ALL`].
    pub has_tables: bool,
    /// What has to be collected besides the result document.
    pub needs: fn(&ExportOptions) -> Needs,
    /// Writes these runs; one run where it does not hold several.
    pub write: fn(&[ReportData], &ExportOptions, Output<'_>) -> io::Result<()>,
}

/// The list.
pub static ALL: &[&ExportFormat] = &[
    &html::FORMAT,
    &markdown::FORMAT,
    &csv::FORMAT,
    &json::FORMAT,
    &svg::FORMAT,
    &png::FORMAT,
    &parquet::FORMAT,
    &prometheus::FORMAT,
];

/// The form called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static ExportFormat> {
    ALL.iter().copied().find(|format| format.name == name)
}

/// The form of a file by the extension of its name.
#[must_use]
pub fn by_extension(path: &Path) -> Option<&'static ExportFormat> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    ALL.iter().copied().find(|format| format.extensions.contains(&extension.as_str()))
}

/// A form that needs nothing but the result document.
fn document_only(_: &ExportOptions) -> Needs {
    Needs::DOCUMENT
}

/// A number in the fewest digits that read back the same.
pub(crate) fn shortest(real: f64) -> String {
    // Digits alone would be hundreds for the greatest and the least.
    if real != 0.0 && !(1e-5..1e16).contains(&real.abs()) {
        format!("{real:e}")
    } else {
        real.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_are_unique_and_every_file_is_listed() {
        let mut extensions: Vec<&str> = Vec::new();
        for format in ALL {
            assert!(std::ptr::eq(find(format.name).unwrap(), *format), "{}", format.name);
            assert!(format.doc.len() > 20, "{}", format.name);
            for extension in format.extensions {
                assert!(!extensions.contains(extension), "{extension}");
                extensions.push(extension);
                let found = by_extension(Path::new(&format!("x.{}", extension.to_uppercase())));
                assert!(std::ptr::eq(found.unwrap(), *format), "{extension}");
            }
        }
        assert!(by_extension(Path::new("results")).is_none());
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exports");
        let files = std::fs::read_dir(directory).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name != "mod.rs" && Path::new(&name).extension().is_some_and(|it| it == "rs")
        });
        assert_eq!(files.count(), ALL.len());
    }
}
