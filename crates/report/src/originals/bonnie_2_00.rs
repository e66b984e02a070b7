//! What bonnie++ 2.00a prints: the table for people and the line of CSV in its format 1.98, byte for
//! byte in their form, and the figures of a trial as both formats of bonnie++ need them.
//!
//! The original has defects that parsers cannot rely on; here the right value stands in its place: the
//! table shows the rates of small files (there: their number instead of each), the chunk size is in
//! field 6 where it is not the default (there: never), and the number of directories is in field 24,
//! where the original's own programs read it (there: in 25). The field of the seed is empty.

use fsdyno_model::param::{ParamValue, Params};
use fsdyno_model::record::{PhaseRecord, TrialRecord};

use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "bonnie-2.00",
    workload: "bonnie",
    doc: "the table and the line of CSV (format 1.98) of bonnie++ 2.00a",
    headed: false,
    render: |trial, setting: &Setting<'_>| {
        let sheet = Sheet::new(trial, setting.params);
        format!("{}{}\n", table(&sheet), csv(&sheet))
    },
    remark: |trial, setting: &Setting<'_>| Sheet::new(trial, setting.params).remark(),
};

/// Phases in the order of the columns.
const PHASES: [&str; 12] = [
    "write-char",
    "write-block",
    "rewrite",
    "read-char",
    "read-block",
    "seeks",
    "create-sequential",
    "stat-sequential",
    "delete-sequential",
    "create-random",
    "stat-random",
    "delete-random",
];
/// Column of the seeks.
const SEEKS: usize = 5;
/// Columns about the large file.
pub(super) const IO: std::ops::Range<usize> = 0..6;
/// Columns about small files.
pub(super) const FILES: std::ops::Range<usize> = 6..12;
/// What takes less time than this is not shown.
const SHORTEST_NS: u64 = 500_000_000;
const DEFAULT_CHUNK_BYTES: u64 = 8192;
const DEFAULT_SEEKS: u64 = 8192;
const MIB: u64 = 1 << 20;
/// Width of the first column.
const LABEL_WIDTH: usize = 19;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    /// The phase did not run.
    Blank,
    /// It took less than half a second.
    TooShort,
    /// It ran.
    Rate {
        /// KiB, seeks or files per second.
        per_second: f64,
        /// Processor time for elapsed time, truncated; `None` where it is not known.
        cpu_percent: Option<u64>,
    },
}

/// The figures of one trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sheet {
    /// Name of the machine: the label of the target.
    pub(super) name: String,
    /// Size of the large file; `None` where there was none.
    pub(super) size_mib: Option<u64>,
    /// Bytes of a chunk.
    pub(super) chunk_bytes: u64,
    seeks: u64,
    seekers: u64,
    /// Small files, in units of 1024; `None` where there were none.
    pub(super) files: Option<u64>,
    /// Greatest size of a small file, `link` or `symlink`; empty for 0.
    max: String,
    /// Least size of a small file.
    min_bytes: u64,
    dirs: u64,
    pub(super) cells: [Cell; 12],
    latency_ns: [Option<u64>; 12],
}

fn elapsed_ns(record: &PhaseRecord) -> u64 {
    record.elapsed_durable_ns.unwrap_or(record.elapsed_return_ns)
}

fn cell(column: usize, record: &PhaseRecord) -> Cell {
    let elapsed_ns = elapsed_ns(record);
    if elapsed_ns < SHORTEST_NS {
        return Cell::TooShort;
    }
    let amount = match PHASES[column] {
        "seeks" => record.operations.get("read").copied().unwrap_or(0) as f64,
        // Each byte is read and written, and counts once.
        "rewrite" => record.read_bytes as f64 / 1024.0,
        _ if IO.contains(&column) => record.bytes as f64 / 1024.0,
        _ => record.files.unwrap_or(0) as f64,
    };
    let cpu_percent = record.values.get("original_cpu_percent").map(|percent| *percent as u64);
    Cell::Rate { per_second: amount * 1e9 / elapsed_ns as f64, cpu_percent }
}

impl Sheet {
    /// The figures of `trial`, a run with `params`.
    pub(super) fn new(trial: &TrialRecord, params: &Params) -> Sheet {
        let phase = |name: &str| trial.phases.iter().find(|record| record.name == name);
        let records = PHASES.map(phase);
        let mut cells = [Cell::Blank; 12];
        let mut latency_ns = [None; 12];
        for (column, record) in records.iter().enumerate() {
            let Some(record) = record else { continue };
            cells[column] = cell(column, record);
            latency_ns[column] = record.values.get("max_latency_ns").map(|ns| *ns as u64);
        }
        let number = |name| value(params, name).and_then(|text| text.parse().ok());
        // Only a run knows what `auto` meant.
        let size_bytes = phase("write-block").map(|record| record.bytes);
        let max = value(params, "max").unwrap_or_default();
        let max_bytes = fsdyno_model::units::parse_bytes(&max).ok();
        Sheet {
            // What parts the fields cannot be in one.
            name: trial.target.replace([',', '\n'], ";"),
            size_mib: size_bytes.map(|bytes| bytes / MIB),
            chunk_bytes: number("chunk").unwrap_or(DEFAULT_CHUNK_BYTES),
            seeks: number("seeks").unwrap_or(DEFAULT_SEEKS),
            seekers: number("seekers").unwrap_or(0),
            files: records[FILES].iter().any(Option::is_some).then(|| number("files")).flatten(),
            max: match max_bytes {
                Some(0) => String::new(),
                Some(bytes) => bytes.to_string(),
                None => max,
            },
            min_bytes: number("min").unwrap_or(0),
            dirs: number("dirs").unwrap_or(1),
            cells,
            latency_ns,
        }
    }

    /// What to do where no rate is shown, since every phase was too short.
    pub(super) fn remark(&self) -> Option<&'static str> {
        let is_shown = |cell: &Cell| matches!(cell, Cell::Rate { .. });
        let is_hidden = self.cells.contains(&Cell::TooShort) && !self.cells.iter().any(is_shown);
        is_hidden.then_some(
            "every phase took less than 0.5 s, for which bonnie++ prints +++++: use a larger size and more files",
        )
    }

    /// Size of the large file as both tools write it: `2G`, `300M`.
    pub(super) fn size(&self) -> Option<String> {
        self.size_mib.map(|mib| match mib {
            0 => "0M".to_owned(),
            _ if mib.is_multiple_of(1024) => format!("{}G", mib / 1024),
            _ => format!("{mib}M"),
        })
    }

    /// Bytes of a chunk: `256`, `16k`, `1m`; nothing for the default.
    fn chunk(&self) -> String {
        match self.chunk_bytes {
            DEFAULT_CHUNK_BYTES => String::new(),
            bytes if bytes.is_multiple_of(MIB) => format!("{}m", bytes / MIB),
            bytes if bytes.is_multiple_of(1024) => format!("{}k", bytes / 1024),
            bytes => bytes.to_string(),
        }
    }

    /// Number and sizes of small files: `16`, `16:1000:10/7`, `16:link`.
    pub(super) fn files_label(&self) -> Option<String> {
        let mut label = self.files?.to_string();
        if self.max.bytes().all(|byte| byte.is_ascii_digit()) && !self.max.is_empty() {
            label.push_str(&format!(":{}:{}", self.max, self.min_bytes));
        } else if !self.max.is_empty() {
            label.push_str(&format!(":{}", self.max));
        }
        if self.dirs > 1 {
            label.push_str(&format!("/{}", self.dirs));
        }
        Some(label)
    }

    /// Head of the first column above small files, 20 wide.
    pub(super) fn files_head(&self) -> &'static str {
        match (self.min_bytes, self.max.as_str()) {
            (0, "") => "              files ",
            (0, _) => "files:max           ",
            _ => "files:max:min       ",
        }
    }

    /// The name, cut off where the size to the right needs the room.
    pub(super) fn row_label(&self, size: &str) -> String {
        // One space parts the two.
        let room = (LABEL_WIDTH - 1).saturating_sub(size.chars().count());
        let name: String = self.name.chars().take(room).collect();
        format!("{name:room$} {size}")
    }

    /// The name alone, 20 wide.
    pub(super) fn name_column(&self) -> String {
        let name: String = self.name.chars().take(LABEL_WIDTH).collect();
        format!("{name:<19} ")
    }
}

fn value(params: &Params, name: &str) -> Option<String> {
    params.iter().find(|(known, _)| *known == name).map(|(_, value)| match value {
        ParamValue::Number(number) => number.to_string(),
        other => other.to_string(),
    })
}

/// Rate and processor time of a column in a table, ten wide.
pub(super) fn pair(cell: Cell, rate: impl Fn(f64) -> String) -> String {
    match cell {
        Cell::Blank => " ".repeat(10),
        Cell::TooShort => " +++++ +++".to_owned(),
        Cell::Rate { per_second, cpu_percent } => {
            let percent = cpu_percent.map_or_else(String::new, |percent| percent.to_string());
            format!(" {:>5} {percent:>3}", rate(per_second))
        }
    }
}

/// The same as two fields.
pub(super) fn fields(cell: Cell, rate: impl Fn(f64) -> String) -> [String; 2] {
    match cell {
        Cell::Blank => [String::new(), String::new()],
        Cell::TooShort => ["+++++".to_owned(), "+++".to_owned()],
        Cell::Rate { per_second, cpu_percent } => {
            [rate(per_second), cpu_percent.map_or_else(String::new, |percent| percent.to_string())]
        }
    }
}

/// A whole number, truncated as in the original.
pub(super) fn whole(rate: f64) -> String {
    (rate as u64).to_string()
}

/// Seeks: one decimal below 1000.
pub(super) fn seeks(rate: f64) -> String {
    if rate >= 1000.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// KiB per second, four significant places at most.
fn suffixed(kib: f64) -> String {
    let mib = kib / 1024.0;
    match kib {
        _ if kib < 10_000.0 => format!("{}k", kib as u64),
        _ if mib < 100.0 => format!("{mib:.1}m"),
        // Rounded to the nearest, where everything else is cut off.
        _ if mib < 1000.0 => format!("{}m", (mib + 0.5) as u64),
        _ => format!("{:.1}g", mib / 1024.0),
    }
}

/// Microseconds below 0.1 s, milliseconds below 100 s, then seconds.
fn latency(nanoseconds: Option<u64>) -> String {
    match nanoseconds.map(|ns| ns / 1000) {
        None | Some(0) => String::new(),
        Some(us) if us < 100_000 => format!("{us}us"),
        Some(us) if us < 100_000_000 => format!("{}ms", us / 1000),
        Some(us) => format!("{}s", us / 1_000_000),
    }
}

fn latency_row(latency_ns: &[Option<u64>]) -> String {
    let columns = latency_ns.iter().map(|ns| format!(" {:>9}", latency(*ns)));
    format!("Latency          {}\n", columns.collect::<String>())
}

pub(super) const IO_HEAD: &str = "------Sequential Output------ --Sequential Input- --Random-\n";
pub(super) const IO_SUBHEAD: &str =
    "                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--\n";
pub(super) const FILES_HEAD: &str = "------Sequential Create------ --------Random Create--------\n";
pub(super) const FILES_SUBHEAD: &str =
    "-Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--\n";
pub(super) const FILES_UNITS: &str =
    " /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP\n";
const VERSION: &str = "Version 2.00a       ";

fn table(sheet: &Sheet) -> String {
    let mut text = String::new();
    if let Some(size) = sheet.size() {
        text.push_str(&format!("{VERSION}{IO_HEAD}{IO_SUBHEAD}Name:Size etc       {FILES_UNITS}"));
        let label = match (sheet.chunk(), sheet.seeks) {
            (chunk, DEFAULT_SEEKS) if chunk.is_empty() => size,
            (chunk, DEFAULT_SEEKS) => format!("{size}:{chunk}"),
            (chunk, seeks) => format!("{size}:{chunk}::{seeks}"),
        };
        text.push_str(&sheet.row_label(&label));
        for column in IO {
            let rate = if column == SEEKS { seeks } else { suffixed };
            text.push_str(&pair(sheet.cells[column], rate));
        }
        text.push('\n');
        text.push_str(&latency_row(&sheet.latency_ns[IO]));
    }
    let Some(label) = sheet.files_label() else {
        text.push('\n');
        return text;
    };
    text.push_str(&format!("{VERSION}{FILES_HEAD}{}{FILES_SUBHEAD}", sheet.name_column()));
    text.push_str(&format!("{}{FILES_UNITS}{label:>LABEL_WIDTH$}", sheet.files_head()));
    for column in FILES {
        text.push_str(&pair(sheet.cells[column], whole));
    }
    text.push('\n');
    text.push_str(&latency_row(&sheet.latency_ns[FILES]));
    text
}

/// The 50 fields.
fn csv(sheet: &Sheet) -> String {
    let mut line: Vec<String> = ["1.98", "2.00a", &sheet.name, "1", ""].map(str::to_owned).to_vec();
    let present = |shown: bool, text: String| if shown { text } else { String::new() };
    let (io, files) = (sheet.size_mib.is_some(), sheet.files.is_some());
    line.push(sheet.size().unwrap_or_default());
    line.push(present(io, sheet.chunk()));
    line.push(present(io, sheet.seeks.to_string()));
    line.push(present(io, sheet.seekers.to_string()));
    for column in IO {
        let rate = if column == SEEKS { seeks } else { whole };
        line.extend(fields(sheet.cells[column], rate));
    }
    line.push(sheet.files.map_or_else(String::new, |files| files.to_string()));
    line.push(present(files, sheet.max.clone()));
    line.push(present(files && sheet.min_bytes > 0, sheet.min_bytes.to_string()));
    line.push(present(files && sheet.dirs > 1, sheet.dirs.to_string()));
    line.push(String::new());
    for column in FILES {
        line.extend(fields(sheet.cells[column], whole));
    }
    line.extend(sheet.latency_ns.map(latency));
    line.join(",")
}

#[cfg(test)]
mod tests;
