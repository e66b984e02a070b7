//! Runs a [`Definition`]: filesets are made, phases are run one after the other and recorded, and what
//! is left at the end is handed over. How a definition is written is left to [`crate::engine::data`].
//!
//! ```text
//! Definition ─ programs ─▶ planner of each job ─ calls ─▶ executor (psync, uring) ─ latencies ─▶ recorder
//!                              │ names, sizes, contents
//!                              ▼
//!                    world: layouts and entries, shared by all jobs
//! ```

pub mod blocks;
pub mod conduct;
pub mod draw;
pub mod entries;
pub mod failed;
pub mod layout;
pub mod pace;
pub mod pick;
pub mod planner;
pub mod program;
pub mod psync;
pub mod records;
pub mod semaphores;
pub mod trees;
pub mod uring;
pub mod world;

use anyhow::Context as _;
use fsdyno_model::record::Warning;
use fsdyno_sys::calls::Real;

use crate::context::Context;
use crate::engine::definition::{Definition, Op, Step};
use crate::fragmentation;
use conduct::{PROGRESS_UNITS, run_phase};
use records::{Baselines, record_phase};
use world::World;

pub use program::check;

/// Runs it: every phase that finishes is handed to the context.
///
/// # Errors
/// The call that failed, with the path; what the machine or the filesystem lacks as
/// [`crate::failure::Unavailable`].
pub fn run(context: &mut Context<'_>, definition: &Definition) -> anyhow::Result<()> {
    check(definition).map_err(anyhow::Error::msg)?;
    let world = World::new(definition, context.seed).map_err(anyhow::Error::msg)?;
    context.progress.set_total(definition.phases.len() as u64 * PROGRESS_UNITS);
    world.prepare(&Real, context.root())?;
    let deleting = definition.phases.iter().rposition(|phase| {
        let tasks = phase.groups.iter().flat_map(|group| &group.tasks);
        tasks.into_iter().any(|task| deletes(&task.steps))
    });
    let mut baselines = Baselines::default();
    for (index, phase) in definition.phases.iter().enumerate() {
        if deleting == Some(index) {
            fragmentation::survey(context)?;
        }
        if let Some(cold) = phase.cold {
            context.make_cold(cold)?;
        }
        // Known to a reader of a failure, also before the clock starts.
        context.progress.enter(&phase.name);
        let root = (&Real, context.root());
        let (records, skipped) = run_phase(&world, root, index, context.progress, |go| {
            record_phase(context, phase, &mut baselines, go)
        })?;
        for record in records {
            context.finish_phase(record)?;
        }
        if let Some(message) = skipped {
            context.warn(Warning {
                code: "tasks-skipped".to_owned(),
                message: format!("{}: {message}", phase.name),
                advice: "make the fileset larger, or change how much of it is preallocated"
                    .to_owned(),
            })?;
        }
    }
    let manifest = world.manifest();
    context.hand_over(manifest).context("hand over the list of files")
}

fn deletes(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Do(op) => matches!(op, Op::Unlink { .. } | Op::Rmdir { .. }),
        Step::Repeat { steps, .. } => deletes(steps),
    })
}
