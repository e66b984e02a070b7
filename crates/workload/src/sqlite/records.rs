//! One large table of rows with a number and contents: loaded, read by key, changed, scanned, compared.
//! What is timed around that is left to [`super::run`].

use fsdyno_model::record::VerifyRecord;
use rusqlite::{Connection, Statement};

use super::database::{FILE, failed};
use super::settings::Settings;
use crate::contents::{MANIFEST_FILES, PayloadBuffer};
use crate::failure::check_interrupt;
use crate::payload::{content_key, mix, name_hash};
use crate::recorder::{Operation, Recorder};
use crate::rng::{Draw as _, Xoshiro};

/// Rows between two looks at whether to stop.
const BATCH_ROWS: u64 = 256;
const TABLE: &str =
    "CREATE TABLE record (id INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL)";
const INSERT: &str = "INSERT INTO record (id, version, body) VALUES (?1, ?2, ?3)";

/// The key of the contents of the row `id` after it was changed `version` times.
#[must_use]
pub fn row_key(id: u64, version: u32) -> u64 {
    const OWNER: u64 = name_hash(b"sqlite");
    content_key(OWNER, id, u64::from(version))
}

/// What the table must hold: how often each row was changed, that of id 1 first.
#[derive(Debug, Default)]
pub struct Expected {
    versions: Vec<u32>,
}

impl Expected {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.versions.len() as u64
    }
}

/// Makes the table and fills it in the order of its key, in transactions of `batch_rows`.
///
/// # Errors
/// The statement that failed, or a request to stop.
pub fn load(
    connection: &Connection,
    settings: &Settings,
    recorder: &mut Recorder,
    mut advance: impl FnMut(u64),
) -> anyhow::Result<Expected> {
    let mut buffer =
        PayloadBuffer::new(settings.payload, settings.seed, settings.row_bytes as usize);
    connection.execute_batch(TABLE).map_err(failed("CREATE TABLE record in"))?;
    let mut insert = connection.prepare(INSERT).map_err(failed("prepare INSERT INTO record in"))?;
    let mut id = 0;
    while id < settings.rows {
        let end = settings.rows.min(id + settings.batch_rows);
        connection.execute_batch("BEGIN IMMEDIATE").map_err(failed("BEGIN on"))?;
        while id < end {
            if id % BATCH_ROWS == 0 {
                check_interrupt()?;
                advance(BATCH_ROWS);
            }
            id += 1;
            put(&mut insert, (id, 0, settings.row_bytes), &mut buffer, recorder)
                .map_err(failed("INSERT INTO record in"))?;
        }
        connection.execute_batch("COMMIT").map_err(failed("COMMIT on"))?;
        recorder.end(Operation::Commit);
    }
    Ok(Expected { versions: vec![0; settings.rows as usize] })
}

/// Runs a statement that takes id, version and contents.
#[inline]
fn put(
    statement: &mut Statement<'_>,
    (id, version, row_bytes): (u64, u32, u64),
    buffer: &mut PayloadBuffer,
    recorder: &mut Recorder,
) -> rusqlite::Result<()> {
    let body = buffer.bytes(row_key(id, version), 0, row_bytes);
    recorder.begin();
    statement.execute((id as i64, version, body))?;
    recorder.end(Operation::Update);
    recorder.bytes += row_bytes;
    Ok(())
}

/// Reads `count` rows of random keys.
///
/// # Errors
/// The statement that failed, a row that is missing, or a request to stop.
pub fn read_randomly(
    connection: &Connection,
    (rows, count, seed): (u64, u64, u64),
    recorder: &mut Recorder,
    mut advance: impl FnMut(u64),
) -> anyhow::Result<()> {
    let mut rng = Xoshiro::new(seed);
    let explained = failed("SELECT FROM record by key in");
    let select = connection.prepare("SELECT body FROM record WHERE id = ?1");
    let mut select = select.map_err(&explained)?;
    for index in 0..count {
        if index % BATCH_ROWS == 0 {
            check_interrupt()?;
            advance(BATCH_ROWS);
        }
        let id = 1 + rng.below(rows) as i64;
        let size: rusqlite::Result<usize> =
            select.query_row([id], |row| Ok(row.get_ref(0)?.as_blob()?.len()));
        let size = size.map_err(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => {
                crate::contents::differing(&format!("{FILE}: row {id} is missing"))
            }
            error => explained(error),
        })? as u64;
        recorder.end(Operation::Query);
        recorder.bytes += size;
        recorder.read_bytes += size;
    }
    Ok(())
}

/// Reads all rows in the order of their key; gives their number.
///
/// # Errors
/// The statement that failed, or a request to stop.
pub fn scan(
    connection: &Connection,
    recorder: &mut Recorder,
    mut advance: impl FnMut(u64),
) -> anyhow::Result<u64> {
    let explained = failed("SELECT FROM record ORDER BY id in");
    let select = connection.prepare("SELECT id, body FROM record ORDER BY id");
    let mut select = select.map_err(&explained)?;
    let mut rows = select.query([]).map_err(&explained)?;
    let mut count = 0;
    while let Some(row) = rows.next().map_err(&explained)? {
        let body = row.get_ref(1).map_err(&explained)?;
        let size = body.as_blob().map_or(0, <[u8]>::len) as u64;
        recorder.end(Operation::Query);
        recorder.bytes += size;
        recorder.read_bytes += size;
        if count % BATCH_ROWS == 0 {
            check_interrupt()?;
            advance(BATCH_ROWS);
        }
        count += 1;
    }
    Ok(count)
}

/// Runs the transactions: each gives `operations` random rows new contents and adds one row.
///
/// # Errors
/// The statement that failed, or a request to stop.
pub fn update(
    connection: &Connection,
    settings: &Settings,
    expected: &mut Expected,
    recorder: &mut Recorder,
    mut advance: impl FnMut(u64),
) -> anyhow::Result<()> {
    let mut rng = Xoshiro::new(mix(settings.seed ^ name_hash(b"updates")));
    let row_bytes = settings.row_bytes;
    let mut buffer = PayloadBuffer::new(settings.payload, settings.seed, row_bytes as usize);
    let prepared = |text| connection.prepare(text).map_err(failed("prepare a statement on"));
    let mut begin = prepared("BEGIN IMMEDIATE")?;
    let mut commit = prepared("COMMIT")?;
    let mut insert = prepared(INSERT)?;
    let mut change = prepared("UPDATE record SET version = ?2, body = ?3 WHERE id = ?1")?;
    expected.versions.reserve(settings.transactions as usize);
    for _ in 0..settings.transactions {
        check_interrupt()?;
        let start_ns = fsdyno_sys::clock::now_ns();
        recorder.begin();
        begin.execute([]).map_err(failed("BEGIN IMMEDIATE on"))?;
        recorder.end(Operation::Lock);
        for _ in 0..settings.operations {
            let index = rng.below(expected.rows()) as usize;
            let version = &mut expected.versions[index];
            *version += 1;
            let row = (index as u64 + 1, *version, row_bytes);
            put(&mut change, row, &mut buffer, recorder).map_err(failed("UPDATE record in"))?;
        }
        expected.versions.push(0);
        let row = (expected.rows(), 0, row_bytes);
        put(&mut insert, row, &mut buffer, recorder).map_err(failed("INSERT INTO record in"))?;
        commit.execute([]).map_err(failed("COMMIT on"))?;
        recorder.end(Operation::Commit);
        recorder.record_ns(Operation::Task, fsdyno_sys::clock::now_ns() - start_ns);
        advance(1);
    }
    Ok(())
}

/// Compares the number of rows, and the contents of up to 2000 of them, evenly spread, with what was
/// written.
///
/// # Errors
/// The statement that failed, or a request to stop. What differs is in the record.
pub fn compare(
    connection: &Connection,
    settings: &Settings,
    expected: &Expected,
) -> anyhow::Result<VerifyRecord> {
    let mut record = VerifyRecord { files: 1, ..VerifyRecord::default() };
    let count: i64 = connection
        .query_row("SELECT count(*) FROM record", [], |row| row.get(0))
        .map_err(failed("SELECT count(*) FROM record in"))?;
    if count as u64 != expected.rows() {
        let text = format!("{FILE}: record holds {count} rows instead of {}", expected.rows());
        record.mismatches.push(text);
    }
    let explained = failed("SELECT FROM record by key in");
    let select = connection.prepare("SELECT version, body FROM record WHERE id = ?1");
    let mut select = select.map_err(&explained)?;
    let mut buffer =
        PayloadBuffer::new(settings.payload, settings.seed, settings.row_bytes as usize);
    let step = (expected.versions.len() / MANIFEST_FILES).max(1);
    for index in (0..expected.versions.len()).step_by(step) {
        check_interrupt()?;
        let (id, version) = (index as u64 + 1, expected.versions[index]);
        let body = buffer.bytes(row_key(id, version), 0, settings.row_bytes);
        let mut rows = select.query([id as i64]).map_err(&explained)?;
        let fault = match rows.next().map_err(&explained)? {
            None => Some("is missing".to_owned()),
            Some(row) => {
                let found: u32 = row.get(0).map_err(&explained)?;
                let bytes = row.get_ref(1).map_err(&explained)?;
                match bytes.as_blob() {
                    _ if found != version => {
                        Some(format!("was changed {found} times instead of {version}"))
                    }
                    Ok(bytes) if bytes == body => None,
                    _ => Some("holds other contents".to_owned()),
                }
            }
        };
        record.bytes += settings.row_bytes;
        record.mismatches.extend(fault.map(|fault| format!("{FILE}: row {id} {fault}")));
        if record.mismatches.len() > 20 {
            break;
        }
    }
    Ok(record)
}
