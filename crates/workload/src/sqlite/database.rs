//! Connections to the database: opened with the settings of a run, which are read back, and closed.
//! Errors of SQLite name the statement and the file. What is done over a connection is left to others.

use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use fsdyno_sys::Errno;
use rusqlite::types::Value;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use super::settings::Settings;
use crate::failure::{Unavailable, call_failed};
use crate::recorder::{Operation, Recorder};

/// Name of the database in the working directory.
pub const FILE: &str = "database.sqlite";
/// How long a connection waits for the lock of another.
const BUSY_LIMIT: Duration = Duration::from_secs(120);

/// Opens the database in `directory`, which is made where there is none, with the settings of the run.
///
/// # Errors
/// SQLite's, named; [`Unavailable`] where the filesystem cannot hold a write-ahead log; a setting that
/// is not in force when it is read back.
pub fn open(directory: &Path, settings: &Settings) -> anyhow::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(directory.join(FILE), flags);
    let connection = opened.map_err(failed("open"))?;
    connection.busy_timeout(BUSY_LIMIT).map_err(failed("busy_timeout on"))?;
    let synchronous = match settings.synchronous.as_str() {
        "off" => 0,
        "normal" => 1,
        _ => 2,
    };
    let number = |number: u64| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let kibibytes = number(settings.cache_bytes / 1024);
    let cache = match kibibytes {
        Value::Integer(count) => Value::Integer(-count),
        other => other,
    };
    // The size of pages comes first: the mode of the journal makes the file.
    for (name, value) in [
        ("page_size", number(settings.page_bytes)),
        ("journal_mode", Value::Text(settings.journal.clone())),
        ("synchronous", Value::Integer(synchronous)),
        ("cache_size", cache),
        ("mmap_size", Value::Integer(0)),
        ("temp_store", Value::Integer(2)),
        ("wal_autocheckpoint", number(settings.checkpoint_pages)),
    ] {
        set(&connection, name, &value)?;
    }
    Ok(connection)
}

/// Sets a PRAGMA and reads it back.
fn set(connection: &Connection, name: &'static str, value: &Value) -> anyhow::Result<()> {
    let word = match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        _ => String::new(),
    };
    let ask = |text: String| -> rusqlite::Result<Option<Value>> {
        let mut statement = connection.prepare(&text)?;
        let mut rows = statement.query([])?;
        rows.next()?.map(|row| row.get(0)).transpose()
    };
    let explained = |error| explain(&format!("PRAGMA {name}={word} on"), error);
    ask(format!("PRAGMA {name}={word}")).map_err(explained)?;
    let found = ask(format!("PRAGMA {name}")).map_err(explained)?;
    // Where memory maps are compiled out or not to be had there is nothing to turn off.
    if found.as_ref() == Some(value) || (name == "mmap_size" && found.is_none()) {
        return Ok(());
    }
    let found = found.map_or_else(|| "nothing".to_owned(), |found| format!("{found:?}"));
    if name == "journal_mode" && word == "wal" {
        let reason = format!(
            "this filesystem cannot hold a write-ahead log of SQLite, which maps shared memory \
             (journal_mode is {found}): use journal=delete"
        );
        return Err(Unavailable(reason).into());
    }
    Err(anyhow!("PRAGMA {name}={word} on {FILE}: SQLite says {found} when asked"))
}

/// Closes a connection; the last one of a database with a write-ahead log copies what is in it into the
/// database and removes it, counted as a close. Where `is_last`, this is made sure of.
///
/// # Errors
/// SQLite's, named; a log that could not be copied.
pub fn close(
    connection: Connection,
    settings: &Settings,
    is_last: bool,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    if is_last && settings.is_wal() {
        let busy: i64 = connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
            .map_err(failed("PRAGMA wal_checkpoint on"))?;
        ensure!(busy == 0, "PRAGMA wal_checkpoint on {FILE}: another connection is in the way");
    }
    connection.close().map_err(|(_, error)| explain("close", error))?;
    recorder.end(Operation::Close);
    Ok(())
}

/// Makes the error of `statement` (which ends with a preposition) on the database.
pub fn failed(statement: &'static str) -> impl Fn(Error) -> anyhow::Error {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => call_failed(statement, FILE, Errno::NOSPC).into(),
        Some(ErrorCode::ReadOnly) => call_failed(statement, FILE, Errno::ROFS).into(),
        _ => explain(statement, error),
    }
}

/// The same for a statement that is known only now.
#[cold]
pub fn explain(statement: &str, error: Error) -> anyhow::Error {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            ": ENOSPC: the target is full: make room on it or an image larger (--size), or the \
             workload smaller, see its parameters"
        }
        Some(ErrorCode::SystemIoFailure) => {
            ": the device or filesystem failed, or is full: see the kernel log (dmesg)"
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            ": the file is not what was written: check the device and the kernel log (dmesg)"
        }
        Some(ErrorCode::CannotOpen) => {
            ": check the rights on the working directory and the length of its path"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            ": another connection held its lock for two minutes: use fewer numjobs"
        }
        _ => "",
    };
    match &error {
        Error::SqliteFailure(code, _) => {
            anyhow!("{statement} {FILE}: {error} (SQLite's code {}){advice}", code.extended_code)
        }
        _ => anyhow!("{statement} {FILE}: {error}{advice}"),
    }
}
