//! Random definitions, done to a filesystem in memory and to a real one: the same tree is left on both,
//! and it is the one that the engine believes in.

use fsdyno_sys::calls::Real;
use fsdyno_workload::engine::definition::*;
use fsdyno_workload::engine::run::world::World;
use proptest::prelude::*;

use crate::build::*;
use crate::model::Model;
use crate::tree::{assert_believed, found};

/// Filesets of every plan: two of files, one of directories, one of links.
const FILES: [FilesetIndex; 2] = [0, 1];
const DIRECTORIES: FilesetIndex = 2;
const LINKS: FilesetIndex = 3;

fn picks() -> impl Strategy<Value = Pick> {
    prop_oneof![
        4 => Just(Pick::Random),
        2 => Just(Pick::Sequential),
        1 => Just(Pick::Zipf(0.9)),
        1 => (0u64..5).prop_map(Pick::Index),
    ]
}

fn sizes() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        (0u64..20_000).prop_map(Distribution::Fixed),
        (0u64..5000).prop_map(|min| Distribution::Uniform { min, max: min + 9000 }),
        Just(Distribution::Gamma { mean: 6000.0, shape: 1.5, max: 50_000 }),
        Just(Distribution::Lognormal { median: 3000.0, sigma: 1.0, max: 50_000 }),
        Just(Distribution::Zipf { min: 512, max: 30_000, theta: 1.1 }),
        Just(Distribution::Empirical(vec![(0, 1.0), (100, 3.0), (9000, 1.0)])),
    ]
}

fn accesses() -> impl Strategy<Value = Access> {
    prop_oneof![
        Just(Access::Sequential),
        Just(Access::Random),
        Just(Access::Zipf(1.1)),
        (1u64..9000).prop_map(Access::Strided),
    ]
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        (1u64..9000).prop_map(|block_bytes| Amount::Whole { block_bytes: block_bytes * 3 }),
        (1u64..9000, 0u64..4)
            .prop_map(|(block_bytes, count)| Amount::Blocks { block_bytes, count }),
    ]
}

/// Operations on the file in slot 0.
fn on_open() -> impl Strategy<Value = Op> {
    let slot = 0;
    let blocks = || (accesses(), amounts());
    prop_oneof![
        blocks().prop_map(move |(access, amount)| Op::Read { slot, access, amount }),
        blocks().prop_map(move |(access, amount)| Op::Write { slot, access, amount }),
        blocks().prop_map(move |(access, amount)| Op::Overwrite { slot, access, amount }),
        blocks().prop_map(move |(access, amount)| Op::Rewrite { slot, access, amount }),
        blocks().prop_map(move |(access, amount)| Op::MmapRead { slot, access, amount }),
        blocks().prop_map(move |(access, amount)| Op::MmapWrite { slot, access, amount }),
        sizes().prop_map(move |bytes| Op::Append { slot, bytes }),
        sizes().prop_map(move |size| Op::Truncate { slot, size }),
        sizes().prop_map(move |size| Op::Fallocate { slot, size }),
        (1u64..9000).prop_map(move |bytes| Op::Punch { slot, bytes }),
        Just(Op::Fsync { slot }),
        Just(Op::Lock { slot }),
    ]
}

/// Operations on names.
fn on_names() -> impl Strategy<Value = Op> {
    let sets = || prop::sample::select(FILES.to_vec());
    let pair = || (sets(), picks(), sets());
    prop_oneof![
        (sets(), picks()).prop_map(|(fileset, pick)| Op::Stat { fileset, pick }),
        (sets(), picks()).prop_map(|(fileset, pick)| Op::Readdir { fileset, pick }),
        (sets(), picks()).prop_map(|(fileset, pick)| Op::Unlink { fileset, pick }),
        picks().prop_map(|pick| Op::Unlink { fileset: LINKS, pick }),
        picks().prop_map(|pick| Op::Mkdir { fileset: DIRECTORIES, pick }),
        picks().prop_map(|pick| Op::Rmdir { fileset: DIRECTORIES, pick }),
        pair().prop_map(|(fileset, pick, into)| Op::Rename { fileset, pick, into }),
        pair().prop_map(|(fileset, pick, into)| Op::Link { fileset, pick, into }),
        pair().prop_map(|(fileset, pick, into)| Op::CopyFileRange { fileset, pick, into }),
        (sets(), picks()).prop_map(|(fileset, pick)| Op::Symlink { fileset, pick, into: LINKS }),
    ]
}

/// A task that works on names, opens a file, works on it, and closes it or leaves it open. Only what
/// comes before the work may find nothing: a task that is given up after it, again and again, would let
/// its file grow without end.
fn bodies() -> impl Strategy<Value = Vec<Step>> {
    let open = (prop::sample::select(FILES.to_vec()), picks(), any::<bool>()).prop_map(
        |(fileset, pick, new)| {
            let (slot, direct) = (0, false);
            if new {
                Op::Create { fileset, pick, slot, direct }
            } else {
                Op::Open { fileset, pick, slot, write: true, direct }
            }
        },
    );
    let work = prop::collection::vec(on_open(), 0..5);
    let names = prop::collection::vec(on_names(), 0..3);
    (open, work, 0u64..4, any::<bool>(), names).prop_map(|(open, work, count, close, names)| {
        let mut body = steps(names);
        body.extend([Step::Do(open), Step::Repeat { count, steps: steps(work) }]);
        if close {
            body.push(Step::Do(Op::Close { slot: 0 }));
        }
        body
    })
}

fn trees() -> impl Strategy<Value = Tree> {
    prop_oneof![
        Just(Tree::Flat),
        (1u64..9).prop_map(Tree::Width),
        (1u32..3, 1u64..4).prop_map(|(depth, branch)| Tree::Levels { depth, branch }),
    ]
}

fn definitions() -> impl Strategy<Value = Definition> {
    let task =
        (1u32..5, bodies()).prop_map(|(weight, steps)| Task { weight: f64::from(weight), steps });
    let tasks_of = prop::collection::vec(task, 1..4);
    let phases = prop::collection::vec((1u64..40, tasks_of), 1..3);
    (phases, prop::collection::vec((trees(), 0.0..1.0, sizes()), 4), 5u64..30).prop_map(
        |(phases, sets, entries)| {
            let names = ["files", "more", "directories", "links"];
            let kinds =
                [EntryKind::File, EntryKind::File, EntryKind::Directory, EntryKind::Symlink];
            let filesets = sets.into_iter().zip(names).zip(kinds);
            let filesets = filesets.map(|(((tree, share, size), name), kind)| {
                let plain = fileset(name, entries, share, size);
                Fileset { tree, kind, ..plain }
            });
            let phases = phases.into_iter().enumerate().map(|(index, (count, tasks_of))| {
                let mut user = group("user", 1, Vec::new());
                user.tasks = tasks_of;
                phase(&format!("p{index}"), tasks(count), vec![user])
            });
            definition(filesets.collect(), phases.collect())
        },
    )
}

/// Plans that find nothing to work on for ever end with an error, which is as good here as any end.
fn ran(outcome: anyhow::Result<Vec<Vec<impl Sized>>>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains("found nothing to work on"), "{error:#}");
            false
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_plan_leaves_the_same_tree_in_memory_and_on_disk(definition in definitions()) {
        let model = Model::default();
        let believed = World::new(&definition, SEED).unwrap();
        let done = ran(run(&believed, &model, "/".as_ref()));
        assert_believed(&believed, &model.tree());
        // What cannot be done takes its time to say so: once is enough.
        if done {
            let directory = tempfile::tempdir().unwrap();
            let world = World::new(&definition, SEED).unwrap();
            prop_assert!(ran(run(&world, &Real, directory.path())));
            prop_assert_eq!(found(directory.path()), model.tree());
            prop_assert_eq!(world.believed(), believed.believed());
        }
    }
}
