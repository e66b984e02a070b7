//! Trees that several jobs leave behind.

use fsdyno_sys::calls::Real;
use fsdyno_workload::engine::definition::*;
use fsdyno_workload::engine::run::world::World;
use fsdyno_workload::recorder::Operation;

use crate::build::*;
use crate::tree::{assert_believed, found};

const WHOLE: Amount = Amount::Whole { block_bytes: 1 << 20 };

#[test]
fn several_jobs_leave_what_the_engine_believes() {
    let size = Distribution::Gamma { mean: 16_384.0, shape: 1.5, max: 1 << 20 };
    let mut files = fileset("files", 300, 0.8, size);
    files.tree = Tree::Width(20);
    let (fileset, pick, slot, direct) = (0, Pick::Random, 0, false);
    let sequential = Access::Sequential;
    let bytes = Distribution::Uniform { min: 1, max: 16_384 };
    let work = steps([
        Op::Create { fileset, pick, slot, direct },
        Op::Write { slot, access: sequential, amount: WHOLE },
        Op::Close { slot },
        Op::Open { fileset, pick, slot, write: true, direct },
        Op::Append { slot, bytes },
        Op::Close { slot },
        Op::Open { fileset, pick, slot, write: true, direct },
        Op::Write { slot, access: sequential, amount: WHOLE },
        Op::Close { slot },
        Op::Open { fileset, pick, slot, write: false, direct },
        Op::Read { slot, access: sequential, amount: WHOLE },
        Op::Close { slot },
        Op::Unlink { fileset, pick },
        Op::Stat { fileset, pick },
    ]);
    let definition =
        definition(vec![files], vec![phase("run", tasks(2000), vec![group("user", 4, work)])]);
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(&definition, SEED).unwrap();
    let outcomes = run(&world, &Real, directory.path()).unwrap();
    let compared = assert_believed(&world, &found(directory.path()));
    assert!(compared > 200, "{compared}");
    let counted: u64 = outcomes[0].iter().map(|job| job.recorder.count(Operation::Task)).sum();
    assert_eq!(counted, 2000);
}
