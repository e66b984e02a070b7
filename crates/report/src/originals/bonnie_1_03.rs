//! What bonnie++ 1.03e prints: the table for people and the line of CSV, 27 fields, byte for byte in
//! their form. Which figures of a trial they show is in [`super::bonnie_2_00`].
//!
//! The run is that of bonnie++ 2.00, whatever the format: see the differences of the workload.

use super::bonnie_2_00::{
    FILES, FILES_HEAD, FILES_SUBHEAD, FILES_UNITS, IO, IO_HEAD, IO_SUBHEAD, Sheet, fields, pair,
    seeks, whole,
};
use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "bonnie-1.03",
    workload: "bonnie",
    doc: "the table and the line of CSV (27 fields) of bonnie++ 1.03e",
    headed: false,
    render: |trial, setting: &Setting<'_>| {
        let sheet = Sheet::new(trial, setting.params);
        format!("{}{}\n", table(&sheet), csv(&sheet))
    },
    remark: |trial, setting: &Setting<'_>| Sheet::new(trial, setting.params).remark(),
};

const VERSION: &str = "Version 1.03e       ";
const DEFAULT_CHUNK_BYTES: u64 = 8192;
/// Column of the seeks.
const SEEKS: usize = 5;

/// Size of the large file, with the chunk where it is not the default: `16G`, `300M:4k`, `1G:512`.
fn size(sheet: &Sheet) -> Option<String> {
    let size = sheet.size()?;
    Some(match sheet.chunk_bytes {
        DEFAULT_CHUNK_BYTES => size,
        bytes if bytes >= 1024 => format!("{size}:{}k", bytes / 1024),
        bytes => format!("{size}:{bytes}"),
    })
}

pub(super) fn table(sheet: &Sheet) -> String {
    let mut text = String::new();
    let size = size(sheet);
    if let Some(size) = &size {
        let is_default = sheet.chunk_bytes == DEFAULT_CHUNK_BYTES;
        let head = if is_default { "Machine        Size " } else { "Machine   Size:chnk " };
        text.push_str(&format!("{VERSION}{IO_HEAD}{IO_SUBHEAD}{head}"));
        text.push_str("K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP\n");
        text.push_str(&sheet.row_label(size));
        for column in IO {
            let rate = if column == SEEKS { seeks } else { whole };
            text.push_str(&pair(sheet.cells[column], rate));
        }
        text.push('\n');
    }
    let Some(label) = sheet.files_label() else { return text };
    let blank = " ".repeat(20);
    let (head, subhead) = match size {
        Some(_) => (blank.clone(), blank),
        None => (VERSION.to_owned(), sheet.name_column()),
    };
    text.push_str(&format!("{head}{FILES_HEAD}{subhead}{FILES_SUBHEAD}"));
    text.push_str(&format!("{}{FILES_UNITS}{label:>19}", sheet.files_head()));
    for column in FILES {
        text.push_str(&pair(sheet.cells[column], whole));
    }
    text.push('\n');
    text
}

/// The 27 fields.
pub(super) fn csv(sheet: &Sheet) -> String {
    let mut line = vec![sheet.name.clone(), size(sheet).unwrap_or_default()];
    for column in IO {
        let decimal = |rate: f64| format!("{rate:.1}");
        let rate = if column == SEEKS { decimal } else { whole };
        line.extend(fields(sheet.cells[column], rate));
    }
    line.push(sheet.files_label().unwrap_or_default());
    for column in FILES {
        line.extend(fields(sheet.cells[column], whole));
    }
    line.join(",")
}
