//! Aging by compilebench's mixture: source trees are created, then drawn operations compile, patch,
//! clean, delete and create trees. The sequence and what is done to trees are
//! [`crate::compilebench`]'s; nothing is timed, and the trees stay. The operations that only read are
//! drawn but left out, since they change nothing.

use fsdyno_model::age::{AgeRecord, Compilebench};
use fsdyno_model::payload::Payload;
use fsdyno_sys::calls::{Calls as _, Real};

use super::Ground;
use crate::compilebench::run::{Mode, Settings, execute};
use crate::compilebench::sequence::{Op, SequenceConfig};
use crate::compilebench::tree::{TreeName, TreeWorker};
use crate::contents::PayloadBuffer;
use crate::context::Progress;
use crate::dataset::{Dataset, FileEntry, FileList};
use crate::failure::call_failed;
use crate::recorder::Recorder;
use crate::rng::RngSpec;

/// Bytes per write.
const BUFFER_BYTES: usize = 256 << 10;

/// The settings of compilebench that `spec` stands for.
#[must_use]
pub fn settings(spec: &Compilebench, seed: u64) -> Settings {
    Settings {
        sequence: SequenceConfig { trees: spec.trees, runs: spec.rounds, makej: false },
        rng: RngSpec::Xoshiro(seed),
        rng_is_of_trial: false,
        mode: Mode::Corrected,
        sync: true,
        buffer_bytes: BUFFER_BYTES,
        payload: Payload::DEFAULT,
        datasets: "builtin".to_owned(),
        one_in: 1,
    }
}

/// Does it in the directory of `ground`.
///
/// # Errors
/// The call that failed first, or the request to stop.
pub(super) fn run(
    spec: &Compilebench,
    ground: &Ground<'_>,
    progress: &Progress,
    record: &mut AgeRecord,
) -> anyhow::Result<()> {
    let settings = settings(spec, ground.seed);
    let dataset = Dataset::twin();
    let steps = settings.steps(&dataset);
    progress.set_total(steps.step_count());
    let payload = PayloadBuffer::new(settings.payload, ground.seed, settings.buffer_bytes);
    let mut worker = TreeWorker::new(Real, ground.root, dataset.paths(), payload);
    let mut lists: [Vec<FileEntry>; 4] = FileList::ALL.map(|list| dataset.list(list).to_vec());
    let objects = dataset.list(FileList::Objects);
    lists[FileList::Objects as usize] =
        steps.object_order().iter().map(|index| objects[*index as usize]).collect();
    for (version, step) in (1..).zip(steps) {
        if !matches!(step.op, Op::Read | Op::Stat) {
            let name = TreeName::new(&step.tree.to_string())?;
            let files = step.files.map_or(&[][..], |list| &lists[list as usize]);
            let mut recorder = Recorder::new();
            execute(&mut worker, &step, (&name, version), files, settings.mode, &mut recorder)?;
            if matches!(step.op, Op::Create | Op::Patch | Op::Compile) {
                record.written_bytes += recorder.bytes;
                record.created_files += files.len() as u64;
            }
            Real.syncfs(ground.root).map_err(|errno| call_failed("syncfs", ground.path, errno))?;
        }
        progress.advance(1);
    }
    Ok(())
}
