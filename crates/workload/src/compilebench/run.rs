//! A whole run: carries out the steps of the sequence, decides what is synced and what is cold, and
//! books every sample to its phase. Single operations are in [`super::tree`].

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::wire::Manifest;
use fsdyno_sys::caches::sync_all;
use fsdyno_sys::calls::Real;

use super::manifest::{Change, Histories};
use super::sequence::{Op, Sequence, SequenceConfig, Stage, Step, Tag};
use super::tree::{TreeName, TreeWorker, Writing};
use crate::contents::PayloadBuffer;
use crate::context::Context;
use crate::dataset::{Dataset, FileEntry, FileList, load};
use crate::fragmentation;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::Recorder;
use crate::rng::RngSpec;
use crate::walk::Visit;

/// Whose rules a run follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Those of compilebench 0.6, with its defects.
    Original,
    /// With the differences listed in the catalogue.
    Corrected,
}

/// The parameters of a run, read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of trees and operations.
    pub sequence: SequenceConfig,
    /// Generator of the sequence.
    pub rng: RngSpec,
    /// Whether its seed is that of the trial.
    pub rng_is_of_trial: bool,
    /// Whose rules.
    pub mode: Mode,
    /// Whether anything is made durable, and any cache dropped.
    pub sync: bool,
    /// Bytes per read and write.
    pub buffer_bytes: usize,
    /// What is written.
    pub payload: Payload,
    /// `builtin`, or the directory with the four dataset files.
    pub datasets: String,
    /// Of so many files of the dataset one is taken.
    pub one_in: u64,
}

impl Settings {
    /// Reads the parameters; `seed` is that of the trial.
    ///
    /// # Errors
    /// A text that is no payload or no generator, and parameters that do not go together.
    pub fn new(params: &Params, seed: u64) -> anyhow::Result<Settings> {
        let corrected = params.text("mode") == "corrected";
        let sequence = SequenceConfig {
            trees: u32::try_from(params.number("trees"))?,
            runs: params.number("runs"),
            makej: params.flag("makej"),
        };
        anyhow::ensure!(
            sequence.trees > 0 || (sequence.runs > 0 && !sequence.makej),
            "trees=0 leaves nothing to do: use trees=1 or more"
        );
        Ok(Settings {
            sequence,
            rng: RngSpec::parse(params.text("rng"), seed)?,
            rng_is_of_trial: params.text("rng") == RngSpec::OF_TRIAL,
            mode: if corrected { Mode::Corrected } else { Mode::Original },
            sync: params.flag("sync"),
            buffer_bytes: usize::try_from(params.number("buffer"))?,
            payload: Payload::parse(params.text("payload")).map_err(anyhow::Error::msg)?,
            datasets: params.text("datasets").to_owned(),
            one_in: params.number("one_in"),
        })
    }

    /// The dataset that the trees are made from.
    ///
    /// # Errors
    /// A dataset file that cannot be read or is malformed, with its line; a dataset that `one_in` leaves
    /// nothing of.
    pub fn load_dataset(&self) -> anyhow::Result<Dataset> {
        let mut dataset = if self.dataset_is_builtin() {
            Dataset::twin()
        } else {
            load(Path::new(&self.datasets))?
        };
        dataset.keep_one_in(self.one_in);
        anyhow::ensure!(
            !dataset.list(FileList::Tree).is_empty(),
            "one_in={} leaves no file of the dataset {}: use less",
            self.one_in,
            self.datasets
        );
        Ok(dataset)
    }

    /// Whether the dataset is the one that needs no files.
    #[must_use]
    pub fn dataset_is_builtin(&self) -> bool {
        self.datasets == "builtin"
    }

    /// The steps of the run on `dataset`.
    #[must_use]
    pub fn steps(&self, dataset: &Dataset) -> Sequence {
        let objects = dataset.list(FileList::Objects).len();
        Sequence::new(self.sequence, self.rng.generator(), objects)
    }
}

/// Name of the phase that samples of `tag` belong to.
#[must_use]
pub const fn phase_name(tag: Tag) -> &'static str {
    match tag {
        Tag::InitialCreate => "initial-create",
        Tag::Create => "create",
        Tag::Patch => "patch",
        Tag::Compile => "compile",
        Tag::Clean => "clean",
        Tag::ReadTree => "read",
        Tag::ReadCompiledTree => "read-compiled",
        Tag::DeleteTree => "delete",
        Tag::DeleteCompiledTree => "delete-compiled",
        Tag::StatTree => "stat",
        Tag::StatCompiledTree => "stat-compiled",
    }
}

/// Name of the metric that a table shows for `tag`.
fn primary_metric(tag: Tag, mode: Mode) -> &'static str {
    match (tag.is_in_seconds(), mode) {
        (true, _) => "sample_mean_elapsed_s",
        (false, Mode::Original) => "sample_mean_throughput_mib_per_s",
        (false, Mode::Corrected) => "throughput_mib_per_s",
    }
}

/// Does the whole run. Phases are handed over when no further sample of theirs can come; when the run
/// fails, those whose samples are complete are handed over before the error is returned.
///
/// # Errors
/// What failed first.
pub fn run(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    let dataset = settings.load_dataset()?;
    let steps = settings.steps(&dataset);
    context.progress.set_total(steps.step_count());
    let payload = PayloadBuffer::new(settings.payload, context.seed, settings.buffer_bytes);
    let worker = TreeWorker::new(Real, context.root(), dataset.paths(), payload);
    let lists = FileList::ALL.map(|list| dataset.list(list).to_vec());
    let mut run = Run {
        context,
        settings,
        worker,
        lists,
        histories: Histories::default(),
        tallies: BTreeMap::new(),
        measuring: None,
    };
    let objects = dataset.list(FileList::Objects);
    let order = steps.object_order().iter().map(|index| objects[*index as usize]);
    run.lists[FileList::Objects as usize] = order.collect();
    if settings.mode == Mode::Original {
        context.progress.enter("native-order");
        for list in [FileList::Tree, FileList::Patch, FileList::PatchedObjects] {
            run.take_native_order(&dataset, list)?;
        }
    }
    let outcome = run.all_steps(steps);
    if let Some(tag) = run.measuring.filter(|_| outcome.is_err()) {
        run.tallies.remove(&tag);
    }
    let handed_over = run.hand_over_phases();
    outcome?;
    handed_over?;
    context.progress.enter("manifest");
    let files = run.histories.sample(dataset.paths(), &run.lists, context.seed)?;
    context.hand_over(Manifest { payload: settings.payload, seed: context.seed, files })
}

struct Run<'a, 'c> {
    context: &'a Context<'c>,
    settings: &'a Settings,
    worker: TreeWorker<'a, Real>,
    /// By [`FileList`], in the order in which they are written.
    lists: [Vec<FileEntry>; 4],
    histories: Histories,
    tallies: BTreeMap<Tag, PhaseTally>,
    /// Phase of the sample that is under way.
    measuring: Option<Tag>,
}

impl Run<'_, '_> {
    fn all_steps(&mut self, steps: Sequence) -> anyhow::Result<()> {
        let mut stage = None;
        for step in steps {
            if let Some(ended) = stage.replace(step.stage).filter(|ended| *ended != step.stage) {
                self.end_stage(ended)?;
            }
            if self.starts_cold(&step) {
                self.context.drop_caches()?;
            }
            self.measure(&step)?;
            self.context.progress.advance(1);
        }
        stage.map_or(Ok(()), |ended| self.end_stage(ended))
    }

    /// Whether caches are dropped before the step.
    fn starts_cold(&self, step: &Step) -> bool {
        let third_read_is_warm = self.settings.mode == Mode::Original;
        let cold_read = step.stage == Stage::MakejRead && !third_read_is_warm;
        self.settings.sync && (step.stage.drops_caches_before_each() || cold_read)
    }

    /// What lies between two stages, in no statistic.
    fn end_stage(&mut self, stage: Stage) -> anyhow::Result<()> {
        if stage == Stage::MakejRead {
            // The next stage deletes everything.
            fragmentation::survey(self.context)?;
        }
        if self.settings.sync {
            if stage.syncs_after() && self.settings.mode == Mode::Original {
                sync_all();
            }
            if stage.drops_caches_after() {
                self.context.drop_caches()?;
            }
        }
        // Stages share no phase.
        self.hand_over_phases()
    }

    /// Hands over all phases measured so far.
    fn hand_over_phases(&mut self) -> anyhow::Result<()> {
        let tallies = std::mem::take(&mut self.tallies);
        tallies.into_values().try_for_each(|tally| self.context.finish_phase(tally.into_record()))
    }

    fn durability(&self, stage: Stage) -> Durability {
        match self.settings.mode {
            _ if !self.settings.sync => Durability::None,
            Mode::Corrected => Durability::Target,
            Mode::Original if stage.syncs_inside_each() => Durability::Machine,
            Mode::Original => Durability::None,
        }
    }

    fn measure(&mut self, step: &Step) -> anyhow::Result<()> {
        let mode = self.settings.mode;
        let tag = if mode == Mode::Original { step.original_tag } else { step.tag };
        let durability = self.durability(step.stage);
        let name = TreeName::new(&step.tree.to_string())?;
        let version = self.histories.next_version(step.tree);
        let new_tally = || PhaseTally::new(phase_name(tag), primary_metric(tag, mode));
        let tally = self.tallies.entry(tag).or_insert_with(new_tally);
        let files = step.files.map_or(&[][..], |list| &self.lists[list as usize]);
        let worker = &mut self.worker;
        self.measuring = Some(tag);
        tally.measure(self.context, name.text(), durability, |recorder| {
            execute(worker, step, (&name, version), files, mode, recorder)
        })?;
        self.measuring = None;
        let change = match (step.op, mode) {
            (Op::Create | Op::Compile, Mode::Original) => Change::Appended,
            (Op::Create | Op::Compile | Op::Patch, _) => Change::Written,
            (Op::Clean, _) => Change::Removed,
            (Op::Read | Op::Stat, _) => return Ok(()),
            (Op::Delete, _) => {
                self.histories.forget(step.tree);
                return Ok(());
            }
        };
        if let Some(list) = step.files {
            self.histories.remember(step.tree, list, change);
        }
        Ok(())
    }

    /// Puts a list into the order in which this filesystem lists its files: writes them, looks, and
    /// deletes them again.
    fn take_native_order(&mut self, dataset: &Dataset, list: FileList) -> anyhow::Result<()> {
        let mut number = 0;
        let name = loop {
            let name = TreeName::new(&format!("native-{number}"))?;
            if !self.worker.exists(&name)? {
                break name;
            }
            number += 1;
        };
        let files = &mut self.lists[list as usize];
        let recorder = &mut Recorder::new();
        self.worker.make_top(&name, recorder)?;
        self.worker.write(&name, files, Writing::Append, 0, recorder)?;
        let mut native = Vec::with_capacity(files.len());
        self.worker.list(&name, |path| {
            native.extend(dataset.position(list, path).map(|index| files[index]));
        })?;
        anyhow::ensure!(
            native.len() == files.len(),
            "list {}: {} files were written but {} are listed",
            name.text(),
            files.len(),
            native.len()
        );
        self.worker.walk(&name, Visit::Delete, recorder)?;
        self.worker.remove_top(&name)?;
        *files = native;
        Ok(())
    }
}

/// The calls of one step.
pub(crate) fn execute(
    worker: &mut TreeWorker<'_, Real>,
    step: &Step,
    (name, version): (&TreeName, u64),
    files: &[FileEntry],
    mode: Mode,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let unlink = step.unlink_first;
    let writing = match (step.op, mode) {
        (Op::Patch, Mode::Original) => Writing::PatchAppend { unlink },
        (Op::Patch, Mode::Corrected) => Writing::Patch { unlink },
        (_, Mode::Original) => Writing::Append,
        (_, Mode::Corrected) => Writing::Replace,
    };
    match step.op {
        Op::Create => {
            worker.make_top(name, recorder)?;
            worker.write(name, files, writing, version, recorder)
        }
        Op::Patch | Op::Compile => worker.write(name, files, writing, version, recorder),
        Op::Clean => worker.clean(name, files, recorder),
        Op::Read => worker.walk(name, Visit::Read, recorder),
        Op::Stat => worker.walk(name, Visit::Stat, recorder),
        Op::Delete => worker.walk(name, Visit::Delete, recorder),
    }
}
