//! The phases of the workload `sqlite`: what is timed, made durable and cold, and what is checked at the
//! end. What is done within them is in [`super::records`] and [`super::orders`].

use std::sync::{Mutex, PoisonError};

use anyhow::{bail, ensure};
use fsdyno_model::wire::Manifest;
use rusqlite::Connection;

use super::database::{self, FILE, failed};
use super::orders::{Client, Done};
use super::records::{self, Expected};
use super::settings::Settings;
use super::{order_checks, order_loading};
use crate::contents::differing;
use crate::context::Context;
use crate::fragmentation;
use crate::jobs;
use crate::payload::{mix, name_hash};
use crate::phase::PhaseTally;
use crate::recorder::{Operation, Recorder};
use crate::transactions;

const OPERATIONS: &str = "operations_per_s";
const TRANSACTIONS: &str = "transactions_per_s";
/// Faults of the database that SQLite is asked to tell.
const FAULTS: usize = 10;

/// Runs the workload.
///
/// # Errors
/// Parameters that do not fit, the statement that failed first, a database that is not whole.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params, context.seed).map_err(anyhow::Error::msg)?;
    let updates = settings.transactions + settings.mixed_transactions;
    context.progress.set_total(2 * settings.rows + settings.reads + updates);
    let mut expected = load(context, &settings)?;
    context.make_cold(settings.cold)?;
    point_reads(context, &settings, &expected)?;
    update(context, &settings, &mut expected)?;
    context.make_cold(settings.cold)?;
    scan(context, &settings, &expected)?;
    let done = mixed(context, &settings)?;
    fragmentation::survey(context)?;
    context.make_cold(settings.cold)?;
    check_integrity(context, &settings)?;
    compare(context, &settings, &expected, done)?;
    let (payload, seed) = (settings.payload, settings.seed);
    context.hand_over(Manifest { payload, seed, files: Vec::new() })
}

/// Measures one phase in one sample: opens a connection, gives it to `body`, closes it.
fn measure<T>(
    context: &Context<'_>,
    settings: &Settings,
    tally: &mut PhaseTally,
    body: impl FnOnce(&Connection, &mut Recorder) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut result = None;
    tally.measure(context, FILE, settings.durability, |recorder| {
        let connection = database::open(context.root_path(), settings)?;
        recorder.end(Operation::Open);
        result = Some(body(&connection, recorder)?);
        recorder.begin();
        database::close(connection, settings, true, recorder)
    })?;
    Ok(result.expect("a phase that succeeded has a result"))
}

fn finish(context: &Context<'_>, tally: PhaseTally) -> anyhow::Result<()> {
    let mut record = tally.into_record();
    record.files = None;
    context.finish_phase(record)
}

fn load(context: &Context<'_>, settings: &Settings) -> anyhow::Result<Expected> {
    let mut tally = PhaseTally::new("load", OPERATIONS);
    let expected = measure(context, settings, &mut tally, |connection, recorder| {
        let advance = |rows| context.progress.advance(rows);
        let expected = records::load(connection, settings, recorder, advance)?;
        order_loading::load(connection, settings, recorder)?;
        Ok(expected)
    })?;
    finish(context, tally)?;
    Ok(expected)
}

fn point_reads(
    context: &Context<'_>,
    settings: &Settings,
    expected: &Expected,
) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new("point-reads", OPERATIONS);
    tally.measure(context, FILE, settings.durability, |recorder| {
        jobs::run(settings.jobs, recorder, |job, recorder| {
            let connection = database::open(context.root_path(), settings)?;
            recorder.end(Operation::Open);
            let count = share(settings.reads, settings.jobs, job);
            let work = (expected.rows(), count, seed_of(settings, "point-reads", job));
            let advance = |rows| context.progress.advance(rows);
            records::read_randomly(&connection, work, recorder, advance)?;
            recorder.begin();
            database::close(connection, settings, settings.jobs == 1, recorder)
        })
    })?;
    finish(context, tally)
}

fn update(
    context: &Context<'_>,
    settings: &Settings,
    expected: &mut Expected,
) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new("updates", TRANSACTIONS);
    measure(context, settings, &mut tally, |connection, recorder| {
        let advance = |count| context.progress.advance(count);
        records::update(connection, settings, expected, recorder, advance)
    })?;
    transactions::tell(&mut tally);
    finish(context, tally)
}

fn scan(context: &Context<'_>, settings: &Settings, expected: &Expected) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new("scan", OPERATIONS);
    let rows = measure(context, settings, &mut tally, |connection, recorder| {
        records::scan(connection, recorder, |rows| context.progress.advance(rows))
    })?;
    finish(context, tally)?;
    if rows != expected.rows() {
        let wanted = expected.rows();
        return Err(differing(&format!("{FILE}: the scan found {rows} rows instead of {wanted}")));
    }
    Ok(())
}

fn mixed(context: &Context<'_>, settings: &Settings) -> anyhow::Result<Done> {
    let total = Mutex::new(Done::default());
    let mut tally = PhaseTally::new("mixed", TRANSACTIONS);
    tally.measure(context, FILE, settings.durability, |recorder| {
        jobs::run(settings.jobs, recorder, |job, recorder| {
            let connection = database::open(context.root_path(), settings)?;
            recorder.end(Operation::Open);
            let seed = seed_of(settings, "mixed", job);
            let mut client = Client::new(&connection, settings.warehouses, seed)?;
            let count = share(settings.mixed_transactions, settings.jobs, job);
            let done = client.run(count, recorder, |count| context.progress.advance(count))?;
            total.lock().unwrap_or_else(PoisonError::into_inner).add(done);
            drop(client);
            recorder.begin();
            database::close(connection, settings, settings.jobs == 1, recorder)
        })
    })?;
    transactions::tell(&mut tally);
    finish(context, tally)?;
    Ok(total.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Has SQLite look through all of the database, as a phase.
fn check_integrity(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new("integrity", "elapsed_s");
    measure(context, settings, &mut tally, |connection, recorder| {
        integrity(connection)?;
        recorder.end(Operation::Query);
        Ok(())
    })?;
    finish(context, tally)
}

/// Runs `PRAGMA integrity_check`.
///
/// # Errors
/// What SQLite finds to be wrong.
pub fn integrity(connection: &Connection) -> anyhow::Result<()> {
    let explained = failed("PRAGMA integrity_check on");
    let statement = connection.prepare(&format!("PRAGMA integrity_check({FAULTS})"));
    let mut statement = statement.map_err(&explained)?;
    let found = statement.query_map([], |row| row.get(0)).map_err(&explained)?;
    let found: Vec<String> = found.collect::<rusqlite::Result<_>>().map_err(&explained)?;
    match found.first().map(String::as_str) {
        Some("ok") => Ok(()),
        Some(first) => bail!(
            "PRAGMA integrity_check on {FILE}: {} (and {} more): check the device and the kernel log",
            first.replace('\n', "; "),
            found.len() - 1
        ),
        None => bail!("PRAGMA integrity_check on {FILE}: SQLite says nothing"),
    }
}

/// Compares rows with what was written, and the tables of the orders with each other and with what was
/// committed.
fn compare(
    context: &Context<'_>,
    settings: &Settings,
    expected: &Expected,
    done: Done,
) -> anyhow::Result<()> {
    context.progress.enter("verify");
    let connection = database::open(context.root_path(), settings)?;
    let mut record = records::compare(&connection, settings, expected)?;
    record.mismatches.extend(order_checks::faults(&connection, done)?);
    database::close(connection, settings, true, &mut Recorder::new())?;
    let (wrong, first) = (record.mismatches.len(), record.mismatches.first().cloned());
    if let Some(first) = first {
        return Err(differing(&format!("{first} ({wrong} faults)")));
    }
    context.note_verified(record);
    let log = context.root_path().join(format!("{FILE}-wal"));
    ensure!(!log.exists(), "{FILE}-wal is still there after the last connection was closed");
    Ok(())
}

/// The part of `total` that the job with this index does.
fn share(total: u64, jobs: usize, job: usize) -> u64 {
    let (jobs, job) = (jobs as u64, job as u64);
    total / jobs + u64::from(job < total % jobs)
}

fn seed_of(settings: &Settings, phase: &str, job: usize) -> u64 {
    mix(settings.seed ^ name_hash(phase.as_bytes()).wrapping_add(job as u64))
}
