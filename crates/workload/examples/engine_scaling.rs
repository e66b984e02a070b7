//! Prints what the engine of workloads that are data costs per task on calls that do nothing, with one
//! job and with two, and how much more two do: `ITEM ONE TWO` in tasks per second, one line each. The line
//! `arithmetic` is of threads that share nothing: what the machine itself gives to two.

use std::time::Duration;

use fsdyno_model::payload::Payload;
use fsdyno_sys::calls::{Calls, Null};
use fsdyno_workload::context::Progress;
use fsdyno_workload::engine::definition::{
    Definition, Distribution, End, Engine, EntryKind, Fileset, Group, Op, Phase, Pick, Step, Task,
    Tree,
};
use fsdyno_workload::engine::run::conduct::run_phase;
use fsdyno_workload::engine::run::world::World;

const ENTRIES: u64 = 2_000_000;
const ROUNDS: usize = 9;
const ARITHMETIC_ROUNDS: u64 = 200_000_000;

fn phase(name: &str, jobs: u32, ops: Vec<Op>) -> Phase {
    let group = Group {
        name: "user".to_owned(),
        jobs,
        background: false,
        record_as: None,
        rate_per_s: None,
        even: true,
        think: Duration::ZERO,
        engine: Engine::Psync,
        begin: Vec::new(),
        tasks: vec![Task { weight: 1.0, steps: ops.into_iter().map(Step::Do).collect() }],
    };
    Phase {
        name: name.to_owned(),
        metric: "tasks_per_s".to_owned(),
        cold: None,
        sync: false,
        end: End { runtime: None, tasks: None },
        baseline: None,
        groups: vec![group],
    }
}

fn definition(jobs: u32) -> Definition {
    let (fileset, pick, slot) = (0, Pick::Once, 0);
    let files = Fileset {
        name: "files".to_owned(),
        kind: EntryKind::File,
        entries: ENTRIES,
        preallocated: 0.0,
        size: Distribution::Fixed(0),
        tree: Tree::Flat,
        list: None,
    };
    let create = vec![Op::Create { fileset, pick, slot, direct: false }, Op::Close { slot }];
    Definition {
        payload: Payload::Original,
        sync: false,
        filesets: vec![files],
        semaphores: Vec::new(),
        phases: vec![
            phase("create", jobs, create),
            phase("stat", jobs, vec![Op::Stat { fileset, pick }]),
            phase("delete", jobs, vec![Op::Unlink { fileset, pick }]),
        ],
    }
}

/// Tasks per second of each phase.
fn speeds(jobs: u32) -> anyhow::Result<Vec<f64>> {
    let definition = definition(jobs);
    let world = World::new(&definition, 1).map_err(anyhow::Error::msg)?;
    Null.open_root("/".as_ref())?;
    world.prepare(&Null, &())?;
    let progress = Progress::default();
    let speed = |index| {
        run_phase(&world, (&Null, &()), index, &progress, |go| {
            let start = std::time::Instant::now();
            go.run()?;
            Ok(ENTRIES as f64 / start.elapsed().as_secs_f64())
        })
    };
    (0..definition.phases.len()).map(speed).collect()
}

/// Rounds per second of threads that only calculate.
fn arithmetic(threads: u32) -> f64 {
    let count = || {
        let mut value = 1u64;
        for round in 0..ARITHMETIC_ROUNDS {
            value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(round));
        }
        value
    };
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(count);
        }
    });
    (ARITHMETIC_ROUNDS * u64::from(threads)) as f64 / start.elapsed().as_secs_f64()
}

fn main() -> anyhow::Result<()> {
    let mut best = [[0f64; 2]; 4];
    for _ in 0..ROUNDS {
        for jobs in [1, 2] {
            let speeds = speeds(jobs)?.into_iter().chain([arithmetic(jobs)]);
            for (item, speed) in speeds.enumerate() {
                let known = &mut best[item][jobs as usize - 1];
                *known = known.max(speed);
            }
        }
    }
    for (item, [one, two]) in ["create", "stat", "delete", "arithmetic"].into_iter().zip(best) {
        println!("{item} {one:.0} {two:.0}");
    }
    Ok(())
}
