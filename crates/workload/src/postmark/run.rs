//! The phases of the workload `postmark`: what is timed, made durable and cold, and what is noted of
//! each. Single operations are in [`super::files`].

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use fsdyno_model::record::Warning;
use fsdyno_model::wire::Manifest;
use fsdyno_sys::calls::{Calls, Real};

use super::counts::Counts;
use super::files::Pool;
use super::sequence::Stage;
use super::settings::Settings;
use super::verify::{sample_files, verify};
use crate::context::Context;
use crate::failure::{call_failed, check_interrupt};
use crate::fragmentation;
use crate::jobs;
use crate::phase::{Durability, PhaseTally};

/// The name and the primary metric of the phase of a stage.
#[must_use]
pub const fn phase_of(stage: Stage) -> (&'static str, &'static str) {
    match stage {
        Stage::Create => ("create", "files_per_s"),
        Stage::Transactions => ("transactions", "transactions_per_s"),
        Stage::Delete => ("delete", "files_per_s"),
    }
}

/// Runs the workload.
///
/// # Errors
/// Parameters that do not fit, the call that failed first, contents that changed; with the rules of
/// the original, transactions that find no file.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params, context.seed).map_err(anyhow::Error::msg)?;
    let config = settings.sequence;
    let per_pool = 2 * u64::from(config.number) + 2 * u64::from(config.transactions);
    context.progress.set_total(per_pool * u64::from(settings.pools));
    let pools: Vec<Mutex<Pool>> = (0..settings.pools)
        .map(|index| Mutex::new(Pool::new(&settings, index, context.seed)))
        .collect();
    let directories = directories(&settings);
    for directory in &directories {
        let name = CString::new(directory.as_str()).context("the name of a directory")?;
        Real.mkdir(context.root(), &name)
            .map_err(|errno| call_failed("mkdir", directory.as_str(), errno))?;
    }
    measure(context, &settings, &pools, Stage::Create)?;
    context.make_cold(settings.cold)?;
    measure(context, &settings, &pools, Stage::Transactions)?;
    tell_early_end(context, &settings, &pools)?;

    context.progress.enter("verify");
    let limit = sample_files(settings.pools, config.size_high);
    for (pool, index) in pools.iter().zip(0..) {
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        let what = (settings.sequence_of(index), settings.payload, context.seed);
        context.note_verified(verify(context.root_path(), &pool, what, limit)?);
    }
    fragmentation::survey(context)?;
    context.make_cold(settings.cold)?;
    measure(context, &settings, &pools, Stage::Delete)?;
    for directory in directories.iter().rev() {
        let name = CString::new(directory.as_str()).context("the name of a directory")?;
        Real.rmdir(context.root(), &name)
            .map_err(|errno| call_failed("rmdir", directory.as_str(), errno))?;
    }
    let (payload, seed) = (settings.payload, context.seed);
    context.hand_over(Manifest { payload, seed, files: Vec::new() })
}

/// Every directory, each after the one that it lies in.
fn directories(settings: &Settings) -> Vec<String> {
    let mut directories = Vec::new();
    for index in 0..settings.pools {
        let prefix = settings.prefix_of(index);
        if let Some(pool) = prefix.strip_suffix('/') {
            directories.push(pool.to_owned());
        }
        let subdirectories = 0..settings.sequence.made_subdirectories();
        directories.extend(subdirectories.map(|subdirectory| format!("{prefix}s{subdirectory}")));
    }
    directories
}

/// Measures one stage of all pools in one sample.
fn measure(
    context: &Context<'_>,
    settings: &Settings,
    pools: &[Mutex<Pool>],
    stage: Stage,
) -> anyhow::Result<()> {
    let (name, metric) = phase_of(stage);
    let durability = if settings.sync { Durability::Target } else { Durability::None };
    let mut tally = PhaseTally::new(name, metric);
    tally.measure(context, "all files", durability, |recorder| {
        jobs::run(pools.len(), recorder, |index, recorder| {
            let mut pool = pools[index].lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                check_interrupt()?;
                let done = pool.batch(&Real, context.root(), stage, recorder)?;
                if done == 0 {
                    break;
                }
                context.progress.advance(done as u64);
            }
            if stage == Stage::Transactions && settings.is_original && pool.sequence().ended_early()
            {
                let done = pool.sequence().transactions_done();
                anyhow::bail!(
                    "out of files! after {done} of {} transactions, where the original ends \
                     without a report: increase number, decrease transactions, or use \
                     mode=corrected",
                    settings.sequence.transactions
                );
            }
            Ok(())
        })
    })?;
    if stage == Stage::Transactions {
        note(&mut tally, settings, pools);
    }
    context.finish_phase(tally.into_record())
}

/// Stores what the transactions did.
fn note(tally: &mut PhaseTally, settings: &Settings, pools: &[Mutex<Pool>]) {
    let mut counts = Counts::default();
    let mut transactions = 0;
    for pool in pools {
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        counts.merge(&pool.counts);
        transactions += u64::from(pool.sequence().transactions_done());
    }
    for (metric, value) in [
        ("transactions", transactions),
        ("created_files", counts.created_mixed),
        ("read_files", counts.read),
        ("appended_files", counts.appended),
        ("deleted_files", counts.deleted_mixed),
    ] {
        tally.value(metric, value as f64);
    }
    if settings.is_original {
        tally.value("counted_read_bytes", f64::from(counts.read_bytes_float));
        tally.value("counted_written_bytes", f64::from(counts.written_bytes_float));
    }
}

/// Says where transactions ended because no file was left.
fn tell_early_end(
    context: &Context<'_>,
    settings: &Settings,
    pools: &[Mutex<Pool>],
) -> anyhow::Result<()> {
    let done = pools.iter().filter_map(|pool| {
        let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = pool.sequence();
        sequence.ended_early().then(|| sequence.transactions_done())
    });
    let Some(least) = done.min() else { return Ok(()) };
    context.warn(Warning {
        code: "out-of-files".to_owned(),
        message: format!(
            "the transactions ended after {least} of {}, because every file was deleted",
            settings.sequence.transactions
        ),
        advice: "increase number or decrease transactions".to_owned(),
    })
}
