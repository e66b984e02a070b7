//! The tables that CSV and Parquet hold: one file each, one list. A table is tidy: a row is one thing,
//! a column always means the same, and what is not known is absent. How a table is written is left to
//! the forms.

pub mod activity;
pub mod io;
pub mod latency;
pub mod results;
pub mod samples;
pub mod yardstick;

#[cfg(test)]
pub mod fixture;

use fsdyno_model::record::Role;
use fsdyno_model::report_data::ReportData;

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, UTF-8.
    Text,
    /// A whole number, 64 bits, signed.
    Integer,
    /// A number, 64 bits.
    Real,
    /// True or false.
    Flag,
}

impl Kind {
    /// For the documentation.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::Real => "real",
            Kind::Flag => "boolean",
        }
    }
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// Nothing is known.
    Null,
    /// Of a [`Kind::Text`].
    Text(&'a str),
    /// Of a [`Kind::Integer`].
    Integer(i64),
    /// Of a [`Kind::Real`].
    Real(f64),
    /// Of a [`Kind::Flag`].
    Flag(bool),
}

impl Value<'_> {
    /// A count, a size or a time; one beyond 63 bits is the greatest that a column holds.
    #[must_use]
    pub fn integer(value: u64) -> Value<'static> {
        Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// The same of one that may not be known.
    #[must_use]
    pub fn maybe(value: Option<u64>) -> Value<'static> {
        value.map_or(Value::Null, Value::integer)
    }
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name, unit last.
    pub name: &'static str,
    /// What its cells are.
    pub kind: Kind,
    /// What it means, for the documentation.
    pub doc: &'static str,
}

/// Trials whose course over time has to be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timelines {
    /// None.
    None,
    /// One of each target and workload: the traced one where there is one.
    Shown,
    /// Every one.
    Every,
}

/// What has to be collected besides the result document and the latency curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Of which trials.
    pub timelines: Timelines,
    /// Whether their block traces have to be analysed.
    pub graphs: bool,
    /// Whether what the machine did has to be read.
    pub activity: bool,
}

impl Needs {
    /// Nothing.
    pub const DOCUMENT: Needs =
        Needs { timelines: Timelines::None, graphs: false, activity: false };
}

/// Takes the rows of a table: as many cells as it has columns.
pub type Sink<'a> = &'a mut dyn FnMut(&[Value<'_>]) -> std::io::Result<()>;

/// One table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Name on the command line.
    pub name: &'static str,
    /// What a row is, for the help.
    pub doc: &'static str,
    /// The columns.
    pub columns: &'static [Column],
    /// What it is made of.
    pub needs: Needs,
    /// Hands its rows over, run after run.
    pub rows: fn(&[ReportData], Sink<'_>) -> std::io::Result<()>,
}

/// The list; the first is the default.
pub static ALL: &[&Table] = &[
    &results::TABLE,
    &samples::TABLE,
    &latency::TABLE,
    &activity::TABLE,
    &io::TABLE,
    &yardstick::TABLE,
];

/// The table called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Table> {
    ALL.iter().copied().find(|table| table.name == name)
}

const fn text(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: Kind::Text, doc }
}

const fn integer(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: Kind::Integer, doc }
}

const fn real(name: &'static str, doc: &'static str) -> Column {
    Column { name, kind: Kind::Real, doc }
}

const RUN: Column = text("run", "identifier of the run");
const WORKLOAD: Column = text("workload", "label of the workload");
const TARGET: Column = text("target", "label of the target");
const TRIAL: Column = integer("trial", "number of the trial, from 1; also of its block");
const ROLE: Column =
    text("role", "`measured`; `explain` for a traced trial, whose figures count nowhere");
const OUTCOME: Column = text("outcome", "how the trial ended; only `completed` ones count");
const PHASE: Column = text("phase", "name of the phase");
const TIME_NS: Column =
    integer("time_ns", "`CLOCK_MONOTONIC`, the clock of `started_ns` in the table `samples`");

/// The word of a role, as in results.
const fn role(role: Role) -> &'static str {
    match role {
        Role::Measured => "measured",
        Role::Explain => "explain",
    }
}

/// Every table with its columns as `docs/EXPORTS.md` shows them, in Markdown.
#[must_use]
pub fn documentation() -> String {
    let mut text = String::new();
    for table in ALL {
        text.push_str(&format!("### `{}`: {}\n\n", table.name, table.doc));
        text.push_str("| column | type | meaning |\n|---|---|---|\n");
        for column in table.columns {
            let (name, kind, doc) = (column.name, column.kind.word(), column.doc);
            text.push_str(&format!("| `{name}` | {kind} | {doc} |\n"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed_and_every_cell_is_of_its_column() {
        let runs = [fixture::run()];
        for table in ALL {
            assert!(std::ptr::eq(find(table.name).unwrap(), *table), "{}", table.name);
            (table.rows)(&runs, &mut |row| {
                assert_eq!(row.len(), table.columns.len(), "{}", table.name);
                for (value, column) in row.iter().zip(table.columns) {
                    let kind = match value {
                        Value::Null => column.kind,
                        Value::Text(_) => Kind::Text,
                        Value::Integer(_) => Kind::Integer,
                        Value::Real(_) => Kind::Real,
                        Value::Flag(_) => Kind::Flag,
                    };
                    assert_eq!(kind, column.kind, "{} {}", table.name, column.name);
                }
                Ok(())
            })
            .unwrap();
        }
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/exports/tables");
        let files = std::fs::read_dir(directory).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name != "mod.rs" && name != "fixture.rs"
        });
        assert_eq!(files.count(), ALL.len());
    }

    #[test]
    fn the_documentation_holds_every_column() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/EXPORTS.md");
        let page = std::fs::read_to_string(page).unwrap();
        for line in documentation().lines() {
            assert!(page.contains(line), "docs/EXPORTS.md lacks: {line}");
        }
    }
}
