//! The same definitions by psync and by io_uring.

use std::time::{Duration, Instant};

use fsdyno_sys::calls::Real;
use fsdyno_sys::ring::{Ring, RingSettings};
use fsdyno_workload::engine::definition::*;
use fsdyno_workload::engine::run::world::World;
use fsdyno_workload::failure::Unavailable;
use fsdyno_workload::recorder::Operation;

use crate::build::*;
use crate::tree::{Tree as Found, assert_believed, found};

const WHOLE: Amount = Amount::Whole { block_bytes: 64 << 10 };

/// Whether there is an io_uring that makes all calls; says so where not.
fn is_there() -> bool {
    match Ring::new(RingSettings { depth: 1, buffer_bytes: 1, registered: false }) {
        Ok(ring) if ring.makes_metadata_calls() && ring.makes_truncate() => return true,
        Ok(_) => println!("skipped: io_uring of this kernel lacks calls"),
        Err(error) => println!("skipped: {error}"),
    }
    false
}

/// All kinds of work that io_uring serves, in several tasks.
fn tasks_of_all_kinds() -> Vec<Task> {
    let (fileset, pick, slot, direct) = (0, Pick::Random, 0, false);
    let access = Access::Sequential;
    let bytes = Distribution::Uniform { min: 1, max: 9000 };
    let size = Distribution::Uniform { min: 0, max: 30_000 };
    let block = Amount::Blocks { block_bytes: 4096, count: 2 };
    let lists = [
        vec![
            Op::Create { fileset, pick, slot, direct },
            Op::Write { slot, access, amount: WHOLE },
            Op::Fsync { slot },
            Op::Close { slot },
        ],
        vec![
            Op::Open { fileset, pick, slot, write: true, direct },
            Op::Append { slot, bytes },
            Op::Fdatasync { slot },
            Op::SyncFileRange { slot },
            Op::Close { slot },
        ],
        vec![
            Op::Open { fileset, pick, slot, write: true, direct },
            Op::Overwrite { slot, access: Access::Random, amount: block.clone() },
            Op::Read { slot, access: Access::Random, amount: block },
            Op::Close { slot },
        ],
        vec![
            Op::Open { fileset, pick, slot, write: true, direct },
            Op::Truncate { slot, size: size.clone() },
            Op::Fallocate { slot, size },
            Op::Punch { slot, bytes: 4096 },
            Op::Close { slot },
            Op::Stat { fileset, pick },
        ],
        vec![
            Op::Open { fileset, pick, slot, write: false, direct },
            Op::Read { slot, access, amount: WHOLE },
            Op::Close { slot },
            Op::Unlink { fileset, pick },
        ],
        vec![
            Op::Rename { fileset, pick, into: 0 },
            Op::Link { fileset, pick, into: 0 },
            Op::Symlink { fileset, pick, into: 2 },
            Op::Unlink { fileset: 2, pick },
            Op::Mkdir { fileset: 1, pick },
            Op::Rmdir { fileset: 1, pick },
            Op::Sleep { duration: Duration::from_micros(10) },
        ],
    ];
    lists.map(|ops| Task { weight: 1.0, steps: steps(ops) }).into()
}

fn all_kinds(engine: Engine, jobs: u32) -> Definition {
    let size = Distribution::Gamma { mean: 12_000.0, shape: 1.5, max: 200_000 };
    let mut files = fileset("files", 200, 0.6, size);
    files.tree = Tree::Width(20);
    let mut directories = fileset("directories", 60, 0.5, Distribution::Fixed(0));
    directories.kind = EntryKind::Directory;
    let mut links = fileset("links", 60, 0.5, Distribution::Fixed(0));
    links.kind = EntryKind::Symlink;
    let mut group = group("all", jobs, Vec::new());
    (group.engine, group.tasks) = (engine, tasks_of_all_kinds());
    definition(vec![files, directories, links], vec![phase("run", tasks(600), vec![group])])
}

/// Runs it; gives what is there afterwards, and the calls of each kind.
fn left_by(engine: Engine, jobs: u32) -> (Found, Vec<(String, u64)>) {
    let definition = all_kinds(engine, jobs);
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(&definition, SEED).unwrap();
    let outcomes = run(&world, &Real, directory.path()).unwrap();
    let tree = found(directory.path());
    assert!(assert_believed(&world, &tree) > 10);
    let done: u64 = outcomes[0].iter().map(|job| job.recorder.count(Operation::Task)).sum();
    assert_eq!(done, 600, "{engine:?}");
    let calls = outcomes[0][0].recorder.operations().into_iter().collect();
    (tree, calls)
}

#[test]
fn one_task_at_a_time_leaves_the_same_tree() {
    if !is_there() {
        return;
    }
    let (tree, calls) = left_by(Engine::Psync, 1);
    let (same, same_calls) = left_by(Engine::IoUring { iodepth: 1 }, 1);
    assert!(tree == same);
    assert_eq!(calls, same_calls);
}

#[test]
fn many_tasks_at_a_time_leave_what_the_engine_believes() {
    if !is_there() {
        return;
    }
    for (iodepth, jobs) in [(2, 1), (32, 1), (16, 3)] {
        left_by(Engine::IoUring { iodepth }, jobs);
    }
}

#[test]
fn what_io_uring_does_not_serve_is_refused() {
    let (fileset, pick) = (0, Pick::Random);
    let mut group = group("all", 1, steps([Op::Readdir { fileset, pick }]));
    group.engine = Engine::IoUring { iodepth: 4 };
    let files = fileset_of_ten();
    let definition = definition(vec![files], vec![phase("run", tasks(5), vec![group])]);
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(&definition, SEED).unwrap();
    let error = run(&world, &Real, directory.path()).unwrap_err();
    assert!(error.is::<Unavailable>() && error.to_string().contains("psync"), "{error}");
}

fn fileset_of_ten() -> Fileset {
    fileset("files", 10, 1.0, Distribution::Fixed(1000))
}

#[test]
fn tasks_begin_at_set_times_and_pauses_are_kept() {
    if !is_there() {
        return;
    }
    let (fileset, pick) = (0, Pick::Random);
    let mut open = group("open", 1, steps([Op::Stat { fileset, pick }]));
    (open.engine, open.rate_per_s) = (Engine::IoUring { iodepth: 4 }, Some(1000.0));
    let mut thinking = open.clone();
    (thinking.rate_per_s, thinking.think) = (None, Duration::from_millis(10));
    // 100 at 1000 a second, and 4 lanes of 5 tasks with 10 ms after each.
    for (group, count, least) in [(open, 100, 99), (thinking, 20, 40)] {
        let phases = vec![phase("run", tasks(count), vec![group])];
        let definition = definition(vec![fileset_of_ten()], phases);
        let directory = tempfile::tempdir().unwrap();
        let world = World::new(&definition, SEED).unwrap();
        let start = Instant::now();
        let outcomes = run(&world, &Real, directory.path()).unwrap();
        assert_eq!(outcomes[0][0].recorder.count(Operation::Task), count);
        assert!(start.elapsed() >= Duration::from_millis(least), "{:?}", start.elapsed());
    }
}
