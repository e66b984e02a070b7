//! `fsdyno query`: questions in SQL to the results database, which is only read.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use fsdyno_model::record::Warning;
use fsdyno_model::report_data::ReportData;
use fsdyno_model::result::RunResult;
use fsdyno_report::exports::tables::{Value, results};
use fsdyno_report::rows::{self, Cell};
use rusqlite::limits::Limit;
use rusqlite::types::{Null, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, Statement, ToSql};

use super::output::{self, StoreArgs};
use crate::bad_input;
use crate::run::progress::say;
use crate::store::Store;

/// Arguments of `fsdyno query`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// One statement; `-`: read it from standard input [default: list tables and views]
    #[arg(value_name = "SQL")]
    sql: Option<String>,

    /// Print JSON: a list of objects
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print comma-separated values
    #[arg(long)]
    csv: bool,

    #[command(flatten)]
    store: StoreArgs,
}

const AFTER_HELP: &str = "\
Nothing can be changed. Besides the tables of the database (docs/FORMAT.md) there are trials, phases, \
operations, samples, warnings and yardstick with run, workload, target and trial in every row; results, a row for \
each figure of each trial; and summary, the medians with their intervals (docs/EXPORTS.md).

Examples:

  fsdyno query \"SELECT target, phase, median FROM summary WHERE is_primary\"
  fsdyno query --csv \"SELECT * FROM samples WHERE phase = 'create'\" > create.csv";

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: what SQLite says of the statement; those of the database and of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let path = self.store.path()?;
        // Brings a database of an older version up to date.
        let store = Store::open_existing(&path)?;
        let connection = open(&path)?;
        let Some(sql) = &self.sql else {
            self.print_list(&listed(&connection)?)?;
            return Ok(true);
        };
        let sql = match sql.as_str() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
                text
            }
            sql => sql.to_owned(),
        };
        let is_named = |table: &str| sql.to_ascii_lowercase().contains(table);
        let wanted: Vec<Filled> =
            FILLED.iter().copied().filter(|(table, _)| is_named(table)).collect();
        if !wanted.is_empty() {
            fill(&connection, &store, &wanted)?;
        }
        self.print(&answer(&connection, &sql)?)?;
        Ok(true)
    }

    /// The columns of a table are many words: here they are wrapped instead of cut.
    fn print_list(&self, listed: &Answer) -> anyhow::Result<()> {
        if self.json || self.csv {
            return self.print(listed);
        }
        let word = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            _ => String::new(),
        };
        let words: Vec<Vec<String>> =
            listed.rows.iter().map(|row| row.iter().map(word).collect()).collect();
        let width = output::table_options().width;
        output::print(&fsdyno_report::list::columns(&["NAME", "KIND", "COLUMNS"], &words, width))
    }

    fn print(&self, answer: &Answer) -> anyhow::Result<()> {
        let text = if self.json {
            rows::json(&answer.head, &answer.rows)
        } else if self.csv {
            rows::csv(&answer.head, &answer.rows)?
        } else {
            rows::table(&answer.head, &answer.rows)
        };
        output::print(&text)
    }
}

/// Rows with the names of their columns.
struct Answer {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// Opens the database for reading, with the views.
fn open(path: &Path) -> anyhow::Result<Connection> {
    let opened = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.execute_batch(include_str!("query/views.sql"))?;
        // Other files can be neither read nor made.
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        Ok(connection)
    };
    opened().with_context(|| format!("cannot read the results database {}", path.display()))
}

/// A table that is computed from the records, and what fills it from one run.
type Filled = (&'static str, fn(&Connection, &RunResult) -> anyhow::Result<()>);

/// The list.
const FILLED: [Filled; 3] =
    [("results", fill_results), ("summary", fill_summary), ("warnings", fill_warnings)];

/// Fills the tables that are computed from the records, of all runs.
fn fill(connection: &Connection, store: &Store, wanted: &[Filled]) -> anyhow::Result<()> {
    connection.execute_batch("BEGIN")?;
    for line in store.runs()? {
        let id = &line.id;
        let result = store.run(Some(id)).and_then(|run| output::result_of(store, &run));
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                say(&format!("fsdyno: run {id} is left out: {error:#}"));
                continue;
            }
        };
        for (_, fill) in wanted {
            fill(connection, &result)?;
        }
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}

fn fill_results(connection: &Connection, result: &RunResult) -> anyhow::Result<()> {
    let mut insert = insert(connection, "results", results::TABLE.columns.len())?;
    let result = result.clone();
    let data =
        ReportData { result, comparisons: Vec::new(), curves: Vec::new(), timelines: Vec::new() };
    (results::TABLE.rows)(&[data], &mut |row| {
        let row = rusqlite::params_from_iter(row.iter().map(|value| Bound(*value)));
        insert.execute(row).map(|_| ()).map_err(std::io::Error::other)
    })?;
    Ok(())
}

fn fill_summary(connection: &Connection, result: &RunResult) -> anyhow::Result<()> {
    let mut insert = insert(connection, "summary", 14)?;
    for row in &result.summary {
        insert.execute(rusqlite::params![
            result.run.id,
            row.workload,
            row.target,
            row.phase,
            row.metric,
            row.unit,
            row.primary,
            row.n,
            row.median,
            row.mean,
            row.ci95_low,
            row.ci95_high,
            row.best,
            row.tied_with_best,
        ])?;
    }
    Ok(())
}

fn fill_warnings(connection: &Connection, result: &RunResult) -> anyhow::Result<()> {
    let mut insert = insert(connection, "warnings", 7)?;
    let run = &result.run.id;
    for Warning { code, message, advice } in &result.run.warnings {
        insert.execute((run, Null, Null, Null, code, message, advice))?;
    }
    for trial in &result.trials {
        let (workload, target, number) = (&trial.workload, &trial.target, trial.trial);
        for Warning { code, message, advice } in &trial.warnings {
            insert.execute((run, workload, target, number, code, message, advice))?;
        }
    }
    Ok(())
}

fn insert<'a>(
    connection: &'a Connection,
    table: &str,
    columns: usize,
) -> rusqlite::Result<Statement<'a>> {
    let places = vec!["?"; columns].join(", ");
    connection.prepare(&format!("INSERT INTO temp.{table} VALUES ({places})"))
}

/// A cell on its way into the database.
struct Bound<'a>(Value<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Integer(integer) => ValueRef::Integer(integer),
            Value::Real(real) => ValueRef::Real(real),
            Value::Flag(flag) => ValueRef::Integer(i64::from(flag)),
        }))
    }
}

/// What the database answers; it can change nothing from here on.
fn answer(connection: &Connection, sql: &str) -> anyhow::Result<Answer> {
    connection.pragma_update(None, "query_only", "ON")?;
    let said = |error: rusqlite::Error| bad_input(format!("SQL: {}", sentence(&error)));
    let mut statement = connection.prepare(sql).map_err(said)?;
    if !statement.readonly() {
        return Err(bad_input("SQL: the results database is only read here, and this would write"));
    }
    let head: Vec<String> = statement.column_names().map(str::to_owned).collect();
    if head.is_empty() {
        return Err(bad_input(
            "SQL: only what reads is answered, such as SELECT (fsdyno query alone lists the tables)",
        ));
    }
    let mut rows = Vec::new();
    let mut found = statement.query([]).map_err(said)?;
    while let Some(row) = found.next().map_err(said)? {
        let cells = (0..head.len()).map(|column| row.get_ref(column).map(cell));
        rows.push(cells.collect::<rusqlite::Result<_>>().map_err(said)?);
    }
    Ok(Answer { head, rows })
}

/// What SQLite says, without what the library adds to it.
fn sentence(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::MultipleStatement => "one statement at a time".to_owned(),
        other => other.to_string(),
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(integer) => Cell::Integer(integer),
        ValueRef::Real(real) => Cell::Real(real),
        ValueRef::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Cell::Text(format!("<{} bytes>", bytes.len())),
    }
}

/// The tables and views with their columns, ours first.
fn listed(connection: &Connection) -> anyhow::Result<Answer> {
    let mut statement = connection.prepare(
        "SELECT name, kind, (SELECT group_concat(name, ' ') FROM pragma_table_info(all_tables.name)) FROM (
            SELECT name, 'computed' AS kind, rowid FROM temp.sqlite_schema WHERE type = 'table'
            UNION ALL SELECT name, 'view', rowid FROM temp.sqlite_schema WHERE type = 'view'
            UNION ALL SELECT name, 'table', rowid FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
         ) AS all_tables",
    )?;
    let rows = statement.query_map([], |row| {
        (0..3).map(|column| row.get_ref(column).map(cell)).collect::<rusqlite::Result<Vec<Cell>>>()
    })?;
    let head = ["name", "kind", "columns"].map(str::to_owned).to_vec();
    Ok(Answer { head, rows: rows.collect::<Result<_, _>>()? })
}
