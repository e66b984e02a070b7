//! A run in virtual time made again: each of its trials, beside what was recorded. Nothing is stored; how it
//! is told is left to the verb.

use std::thread;

use fsdyno_model::guest::{GuestFacts, GuestKernel};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_sys::process;
use serde::Serialize;

use super::course::{step, taken_down};
use super::crew::{Crew, Told};
use super::difference::{Change, GUEST_DIFFERED, first_difference};
use super::progress::Progress;
use super::schedule::{self, Planned};
use super::{Ground, RunOptions, new_identifier};
use crate::bad_input;
use crate::store::StoredRun;

/// What came of making a run again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reproduction {
    /// What its times depend on and what is another here: the kernel, QEMU, the initial file system.
    pub changed: Vec<Change>,
    /// Its trials, in their order.
    pub trials: Vec<Trial>,
}

/// One trial that was made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Number of the trial, from 1.
    pub trial: u32,
    /// Guests that were made, until one recorded the same.
    pub guests: u32,
    /// Where one of these guests parted that recorded something else; null where none did.
    pub guest_differed: Option<String>,
    /// What differs first; null where the whole record is the same.
    pub differs: Option<Change>,
}

/// Makes the trials of a run again and compares. `None` when that was interrupted.
///
/// # Errors
/// Bad input: the run is in real time; no guest can be run here.
pub fn reproduce(
    run: &StoredRun,
    recorded: &[TrialRecord],
    options: &RunOptions,
) -> anyhow::Result<Option<Reproduction>> {
    let plan = &run.plan;
    if !plan.place.is_virtual() {
        return Err(bad_input(format!(
            "run {} is in real time, which no two runs share: fsdyno compare --clock virtual makes one that \
             can be made again",
            run.id
        )));
    }
    process::install_signal_handlers()?;
    let ground = Ground::prepare(&new_identifier(), plan, options)?;
    let made = trials(plan, recorded, &ground, options);
    let here = ground.guests.as_ref().and_then(|guests| guests.environment.guest.clone());
    let closed = ground.workspace.close();
    let trials = made?;
    closed
        .map_err(|left| anyhow::anyhow!("not everything could be removed: {}", left.join("; ")))?;
    let changed = changes(run.environment.guest.as_ref(), here.as_ref());
    Ok(trials.map(|trials| Reproduction { changed, trials }))
}

fn trials(
    plan: &Plan,
    recorded: &[TrialRecord],
    ground: &Ground,
    options: &RunOptions,
) -> anyhow::Result<Option<Vec<Trial>>> {
    let known = |planned: &Planned| {
        let of_this = |record: &&TrialRecord| {
            planned.is_of(plan, record) && record.outcome == Outcome::Completed
        };
        recorded.iter().find(of_this)
    };
    let mut due = schedule::schedule(plan);
    due.retain(|planned| planned.role == Role::Measured && known(planned).is_some());
    if due.is_empty() {
        return Err(bad_input("no trial of this run completed: there is nothing to make again"));
    }
    let Some(guests) = &ground.guests else {
        anyhow::bail!("a run in virtual time has guests");
    };
    let setting = super::trial::Setting {
        plan,
        workspace: &ground.workspace,
        memory_limit_bytes: None,
        may_drop_caches: false,
        trace_directory: ground.workspace.directory().to_owned(),
        aged_directory: None,
        keep_aged: false,
    };
    let steps: Vec<_> = due.iter().map(|planned| step(plan, planned)).collect();
    let mut progress = Progress::new(&steps, None, guests.jobs, options.quiet);
    let consoles = ground.workspace.directory().join("consoles");
    let mut made: Vec<Option<Trial>> = vec![None; due.len()];
    let made_all = thread::scope(|scope| {
        let mut crew = Crew::new(scope, &setting, guests, &consoles);
        let mut left = due.iter().enumerate();
        let mut result = Ok(());
        loop {
            while result.is_ok()
                && !process::interrupted()
                && crew.has_room(true)
                && let Some((index, planned)) = left.next()
            {
                progress.begin(&planned.name(plan), steps[index]);
                crew.start(index, planned, known(planned));
            }
            match crew.next() {
                None => return result,
                Some(Told::At { index, stage, done }) => progress.at(steps[index], &stage, done),
                Some(Told::Ended { index, record, leftover }) => {
                    progress.end(steps[index], &record.outcome);
                    made[index] = known(&due[index]).map(|was| Trial::compared(was, &record));
                    result = result.and(taken_down(&record, leftover));
                }
            }
        }
    });
    progress.finish();
    made_all?;
    Ok(if process::interrupted() { None } else { made.into_iter().collect() })
}

impl Trial {
    fn compared(was: &TrialRecord, is: &TrialRecord) -> Trial {
        let differed = is.warnings.iter().find(|warning| warning.code == GUEST_DIFFERED);
        Trial {
            target: is.target.clone(),
            workload: is.workload.clone(),
            trial: is.trial,
            guests: is.virtual_time.as_ref().map_or(1, |of_time| of_time.guests),
            guest_differed: differed.map(|warning| warning.message.clone()),
            differs: first_difference(was, is),
        }
    }
}

/// One hash of each kernel, in their order.
fn hashes(facts: &GuestFacts, hash: fn(&GuestKernel) -> &String) -> String {
    facts.kernels.iter().map(|kernel| hash(kernel).as_str()).collect::<Vec<_>>().join(" ")
}

/// What virtual time depends on and is another here.
fn changes(was: Option<&GuestFacts>, is: Option<&GuestFacts>) -> Vec<Change> {
    let (Some(was), Some(is)) = (was, is) else { return Vec::new() };
    let pairs = [
        ("kernel_hash", hashes(was, |kernel| &kernel.hash), hashes(is, |kernel| &kernel.hash)),
        (
            "initramfs_hash",
            hashes(was, |kernel| &kernel.initramfs_hash),
            hashes(is, |kernel| &kernel.initramfs_hash),
        ),
        (
            "qemu_version",
            was.qemu_version.clone().unwrap_or_default(),
            is.qemu_version.clone().unwrap_or_default(),
        ),
        ("qemu_flags", was.qemu_flags.join(" "), is.qemu_flags.join(" ")),
    ];
    let differing = pairs.into_iter().filter(|(_, was, is)| was != is);
    differing.map(|(name, was, is)| Change::new("the guest", name, was, is)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_time_depends_on_is_compared() {
        let with = |hash: &str| {
            let kernel = GuestKernel { hash: hash.to_owned(), ..GuestKernel::default() };
            GuestFacts { kernels: vec![kernel], ..GuestFacts::default() }
        };
        let was = with("a");
        assert_eq!(changes(Some(&was), Some(&was)), []);
        let is = with("b");
        assert_eq!(changes(Some(&was), Some(&is))[0].name, "kernel_hash");
    }
}
