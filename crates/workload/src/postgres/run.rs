//! The phases of the workload `postgres`: what is timed, made durable and cold, and what is checked at
//! the end.

use anyhow::{Context as _, anyhow, ensure};
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::wire::Manifest;
use fsdyno_sys::child::last_words;
use fsdyno_sys::clock::now_ns;

use super::bench::{self, Script};
use super::cluster::{Cluster, DIRECTORY, run as run_program, with_advice};
use super::server::Server;
use super::settings::Settings;
use crate::contents::differing;
use crate::context::Context;
use crate::failure::Interrupted;
use crate::fragmentation;
use crate::payload::mix;
use crate::phase::PhaseTally;
use crate::recorder::Recorder;
use crate::transactions;

const ELAPSED: &str = "elapsed_s";
const TRANSACTIONS: &str = "transactions_per_s";
/// Steps of progress: the phases and the check.
const STEPS: u64 = 5;

/// Sums that every transaction keeps equal, and the rows of the history.
const SUMS: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
                    (SELECT sum(tbalance) FROM pgbench_tellers), \
                    (SELECT sum(bbalance) FROM pgbench_branches), \
                    (SELECT coalesce(sum(delta), 0) FROM pgbench_history), \
                    (SELECT count(*) FROM pgbench_history), \
                    (SELECT count(*) FROM pgbench_accounts)";
/// Accounts of one unit of scale.
const ACCOUNTS: u64 = 100_000;

/// Checks the parameters against each other.
///
/// # Errors
/// A sentence.
pub fn check(params: &Params) -> Result<(), String> {
    Settings::new(params).map(drop)
}

/// Runs the workload.
///
/// # Errors
/// [`Unavailable`](crate::failure::Unavailable) where PostgreSQL is not there; the program that failed
/// first; a database that is not whole.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params).map_err(anyhow::Error::msg)?;
    context.progress.set_total(STEPS);
    let cluster = Cluster::new(context.root_path(), &settings)?;
    let phase = PhaseTally::new("initdb", ELAPSED);
    measure(context, &settings, phase, None, |_| cluster.initialize())?;

    let server = cluster.start()?;
    let phase = PhaseTally::new("load", ELAPSED);
    measure(context, &settings, phase, Some(server), |_| bench::load(&cluster, &settings))?;

    let mut committed = 0;
    for script in [Script::TpcB, Script::SelectOnly] {
        context.make_cold(settings.cold)?;
        let count = measure_script(context, &settings, &cluster, script)?;
        committed += if script == Script::TpcB { count } else { 0 };
    }
    fragmentation::survey(context)?;
    context.make_cold(settings.cold)?;
    verify(context, &settings, &cluster, committed)?;
    let (payload, seed) = (Payload::Original, context.seed);
    context.hand_over(Manifest { payload, seed, files: Vec::new() })
}

/// Measures one phase in one sample: `body` (time to return), then the server stops in good order and
/// the target is synced (time until durable).
fn measure(
    context: &Context<'_>,
    settings: &Settings,
    mut tally: PhaseTally,
    server: Option<Server>,
    body: impl FnOnce(&mut Recorder) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let returned_ns = sample(context, settings, &mut tally, server, body)?;
    finish(context, tally, returned_ns)
}

/// Gives the time at which `body` returned.
fn sample(
    context: &Context<'_>,
    settings: &Settings,
    tally: &mut PhaseTally,
    server: Option<Server>,
    body: impl FnOnce(&mut Recorder) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut returned_ns = 0;
    tally.measure(context, DIRECTORY, settings.durability, |recorder| {
        let outcome = body(recorder);
        returned_ns = now_ns();
        outcome.map_err(|error| explain(error, server.as_ref()))?;
        server.map_or(Ok(()), Server::stop)
    })?;
    context.progress.advance(1);
    Ok(returned_ns)
}

/// A server that broke down is the reason for what its clients say.
fn explain(error: anyhow::Error, server: Option<&Server>) -> anyhow::Error {
    let log = server.map(Server::log).unwrap_or_default();
    if log.is_empty() || error.is::<Interrupted>() {
        return error;
    }
    let words = last_words("", &log);
    with_advice(anyhow!("{error:#} (the server's log ends with: {words})"), &log)
}

fn finish(context: &Context<'_>, tally: PhaseTally, returned_ns: u64) -> anyhow::Result<()> {
    let mut record = tally.into_record();
    record.files = None;
    for sample in &mut record.samples {
        if let Some(started_ns) = sample.started_ns {
            sample.elapsed_return_ns = returned_ns.saturating_sub(started_ns);
            record.elapsed_return_ns = sample.elapsed_return_ns;
        }
    }
    context.finish_phase(record)
}

/// Gives the number of transactions.
fn measure_script(
    context: &Context<'_>,
    settings: &Settings,
    cluster: &Cluster,
    script: Script,
) -> anyhow::Result<u64> {
    let program = bench::program(cluster, settings, script, mix(context.seed));
    let mut tally = PhaseTally::new(script.phase(), TRANSACTIONS);
    context.progress.enter(script.phase());
    let server = cluster.start()?;
    let mut report = String::new();
    let returned_ns = sample(context, settings, &mut tally, Some(server), |_| {
        report = run_program(&program)?.stdout;
        Ok(())
    })?;
    let count = bench::processed(&report)?;
    bench::take_latencies(cluster, script, tally.recorder_mut())?;
    transactions::tell(&mut tally);
    let logged = tally.recorder().count(crate::recorder::Operation::Task);
    ensure!(
        logged == count,
        "pgbench: its report tells {count} transactions and its logs {logged}"
    );
    finish(context, tally, returned_ns)?;
    Ok(count)
}

/// Compares the tables with each other and with what was committed, the indexes with the tables, and
/// every page with its checksum.
fn verify(
    context: &Context<'_>,
    settings: &Settings,
    cluster: &Cluster,
    committed: u64,
) -> anyhow::Result<()> {
    context.progress.enter("verify");
    let server = cluster.start()?;
    let row = cluster.ask(SUMS)?;
    let numbers: Vec<i64> = row.iter().filter_map(|text| text.parse().ok()).collect();
    let &[accounts, tellers, branches, history, rows, account_count] = numbers.as_slice() else {
        return Err(anyhow!("psql: an answer of another form: {row:?}"));
    };
    let fault = |text: String| Err(differing(&format!("{DIRECTORY}: {text}")));
    if [tellers, branches, history].iter().any(|sum| *sum != accounts) {
        return fault(format!(
            "the sums of accounts, tellers, branches and history are {accounts}, {tellers}, {branches} \
             and {history}"
        ));
    }
    // A run that ends by time may leave out what was under way in its report.
    let most = committed + settings.clients;
    if !(committed..=most).contains(&rows.unsigned_abs()) {
        return fault(format!("the history has {rows} rows after {committed} transactions"));
    }
    if account_count.unsigned_abs() != settings.scale * ACCOUNTS {
        return fault(format!("there are {account_count} accounts"));
    }
    cluster.check_structure().context("check tables and indexes")?;
    server.stop()?;
    if let Some(record) = cluster.check_pages().context("check the pages")? {
        context.note_verified(record);
    }
    context.progress.advance(1);
    Ok(())
}
