//! Definitions for tests, and how they are run without a context.

use std::path::Path;
use std::time::Duration;

use fsdyno_model::payload::Payload;
use fsdyno_sys::calls::more::MoreCalls;
use fsdyno_workload::context::Progress;
use fsdyno_workload::engine::definition::*;
use fsdyno_workload::engine::run::conduct::{JobOutcome, run_phase};
use fsdyno_workload::engine::run::world::World;

pub const SEED: u64 = 42;

pub fn fileset(name: &str, entries: u64, preallocated: f64, size: Distribution) -> Fileset {
    let kind = EntryKind::File;
    let tree = Tree::Flat;
    Fileset { name: name.to_owned(), kind, entries, preallocated, size, tree, list: None }
}

pub fn group(name: &str, jobs: u32, steps: Vec<Step>) -> Group {
    Group {
        name: name.to_owned(),
        jobs,
        background: false,
        record_as: None,
        rate_per_s: None,
        even: true,
        think: Duration::ZERO,
        engine: Engine::Psync,
        begin: Vec::new(),
        tasks: vec![Task { weight: 1.0, steps }],
    }
}

pub fn phase(name: &str, end: End, groups: Vec<Group>) -> Phase {
    Phase {
        name: name.to_owned(),
        metric: "tasks_per_s".to_owned(),
        cold: None,
        sync: false,
        end,
        baseline: None,
        groups,
    }
}

pub fn definition(filesets: Vec<Fileset>, phases: Vec<Phase>) -> Definition {
    let payload = Payload::DEFAULT;
    Definition { payload, sync: false, filesets, semaphores: vec!["sem".to_owned()], phases }
}

pub const USED_UP: End = End { runtime: None, tasks: None };

pub fn tasks(count: u64) -> End {
    End { runtime: None, tasks: Some(count) }
}

pub fn millis(count: u64) -> End {
    End { runtime: Some(Duration::from_millis(count)), tasks: None }
}

pub fn steps(ops: impl IntoIterator<Item = Op>) -> Vec<Step> {
    ops.into_iter().map(Step::Do).collect()
}

/// Runs all phases on `calls` below `root`; gives what the jobs of each did.
pub fn run<C: MoreCalls + Sync>(
    world: &World<'_>,
    calls: &C,
    root: &Path,
) -> anyhow::Result<Vec<Vec<JobOutcome>>> {
    let root = calls.open_root(root).map_err(std::io::Error::from)?;
    world.prepare(calls, &root)?;
    let progress = Progress::default();
    (0..world.definition.phases.len())
        .map(|index| run_phase(world, (calls, &root), index, &progress, |go| go.run()))
        .collect()
}
