//! A whole run of `million-files`: one phase for each operation, what lies between them, and the sample
//! that is compared. The calls on single files are in [`super::visit`].

use std::sync::{Mutex, PoisonError};

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::Warning;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::descriptors;

use super::layout::Layout;
use super::name::Share;
use super::order::Order;
use super::place::Mapper;
use super::stage::Stage;
use super::visit::{BUFFER_BYTES, TAR_RECORD_BYTES, Visitor, file_key};
use crate::contents::{MANIFEST_FILES, PayloadBuffer, Reservoir, verify_now};
use crate::context::Context;
use crate::failure::call_failed;
use crate::fragmentation;
use crate::jobs;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::Recorder;

/// Name of the phase that tells why orders differ.
pub const LAYOUT: &str = "layout";
/// What a table shows for every operation.
const METRIC: &str = "elapsed_s";
/// What it shows for the layout.
const LAYOUT_METRIC: &str = "readdir_inode_correlation";
/// About the most that is compared before the files are removed.
const SAMPLE_BYTES: u64 = 256 << 20;
/// Descriptors that are left to the rest of this process, besides those that are open already: kernel
/// threads that appear during the run are watched too.
const SPARE_DESCRIPTORS: u64 = 64;
/// Descriptors that a job needs besides its batch: for its directory and to list it.
const JOB_DESCRIPTORS: u64 = 4;
/// Taken to be open where they cannot be counted.
const UNCOUNTED_DESCRIPTORS: u64 = 512;

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    files: u64,
    size_bytes: u64,
    stages: Vec<Stage>,
    cold: Cold,
    numjobs: u64,
    batch_files: u64,
    payload: Payload,
    durability: Durability,
}

impl Settings {
    /// Checks `params` against each other.
    ///
    /// # Errors
    /// A sentence that says what does not fit.
    pub fn new(params: &Params) -> Result<Settings, String> {
        let (files, size_bytes) = (params.number("files"), params.number("size"));
        let numjobs = params.number("numjobs");
        if numjobs > files {
            return Err(format!("numjobs={numjobs} is more than files={files}: use fewer jobs"));
        }
        if files.checked_mul(size_bytes).is_none() {
            return Err(
                "files times size is more than can be counted: use smaller files".to_owned()
            );
        }
        let durability = if params.flag("sync") { Durability::Target } else { Durability::None };
        Ok(Settings {
            files,
            size_bytes,
            stages: Stage::parse_list(params.text("operations"))?,
            cold: Cold::parse(params.text("cold"))?,
            numjobs,
            batch_files: params.number("batch"),
            payload: Payload::parse(params.text("payload"))?,
            durability,
        })
    }

    /// Files in all.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Directories that they are spread over.
    #[must_use]
    pub fn numjobs(&self) -> u64 {
        self.numjobs
    }

    /// Size of each file.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// Runs it.
///
/// # Errors
/// The call that failed, with the path; contents that differ from what was written; a signal.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let mut settings = Settings::new(context.params).map_err(anyhow::Error::msg)?;
    let shares = Share::divide(settings.files, settings.numjobs);
    for share in shares.iter().filter(|share| !share.directory.is_empty()) {
        Real.mkdir(context.root(), &share.path)
            .map_err(|errno| call_failed("mkdir", share.shown(), errno))?;
    }
    if settings.stages.iter().any(|stage| matches!(stage, Stage::ReadAcp | Stage::ReadPhysical)) {
        settings.batch_files = affordable_batch(context, &settings)?;
    }
    context.progress.set_total((settings.stages.len() as u64 + 1) * settings.files);
    for stage in settings.stages.clone() {
        match stage {
            Stage::Create => {
                create(context, &settings, &shares)?;
                measure_layout(context, &settings, &shares)?;
                settle_access_times(context, &settings, &shares)?;
            }
            Stage::Delete => {
                context.make_cold(settings.cold)?;
                context.progress.enter("verify");
                let sample =
                    manifest(context, &settings, sample_of(&settings, &shares, context.seed));
                context.note_verified(verify_now(context.root_path(), sample)?);
                fragmentation::survey(context)?;
                context.make_cold(settings.cold)?;
                work(context, &settings, &shares, stage)?;
            }
            _ => {
                context.make_cold(settings.cold)?;
                work(context, &settings, &shares, stage)?;
            }
        }
    }
    let left = match settings.stages.last() {
        Some(Stage::Delete) => Vec::new(),
        _ => sample_of(&settings, &shares, context.seed),
    };
    context.hand_over(manifest(context, &settings, left))
}

fn manifest(context: &Context<'_>, settings: &Settings, files: Vec<ManifestFile>) -> Manifest {
    Manifest { payload: settings.payload, seed: context.seed, files }
}

fn sample_of(settings: &Settings, shares: &[Share], seed: u64) -> Vec<ManifestFile> {
    let size_bytes = settings.size_bytes;
    let affordable = SAMPLE_BYTES / size_bytes.max(1);
    let mut chosen = Reservoir::new(MANIFEST_FILES.min(1 + affordable as usize), seed);
    for share in shares {
        for index in share.files.clone() {
            chosen.offer(|| ManifestFile {
                path: share.path_of(index),
                size_bytes,
                content_key: file_key(index),
            });
        }
    }
    chosen.into_vec()
}

/// The batch that is asked for, or the largest that the limit of open files allows, which is said.
fn affordable_batch(context: &Context<'_>, settings: &Settings) -> anyhow::Result<u64> {
    let wanted = settings.batch_files.min(settings.files.div_ceil(settings.numjobs));
    let limit = descriptors::raise_limit();
    let open = descriptors::open_count().unwrap_or(UNCOUNTED_DESCRIPTORS);
    let batch = largest_batch(limit, open, settings.numjobs);
    if wanted <= batch {
        return Ok(wanted);
    }
    context.warn(Warning {
        code: "smaller-batches".to_owned(),
        message: format!("only {batch} files are opened at a time instead of {wanted}"),
        advice: "raise `ulimit -Hn` or use a smaller batch".to_owned(),
    })?;
    Ok(batch)
}

/// Files that each of `numjobs` jobs may have open at a time, where `open` of `limit` descriptors are
/// taken already; one at least.
fn largest_batch(limit: u64, open: u64, numjobs: u64) -> u64 {
    let spare = SPARE_DESCRIPTORS + numjobs.saturating_mul(JOB_DESCRIPTORS);
    (limit.saturating_sub(open.saturating_add(spare)) / numjobs.max(1)).max(1)
}

fn create(context: &Context<'_>, settings: &Settings, shares: &[Share]) -> anyhow::Result<()> {
    let written = settings.size_bytes.clamp(1, BUFFER_BYTES as u64) as usize;
    let buffers: Vec<Mutex<PayloadBuffer>> = shares
        .iter()
        .map(|_| Mutex::new(PayloadBuffer::new(settings.payload, context.seed, written)))
        .collect();
    each_job(context, settings, shares, Stage::Create, |job, visitor, recorder| {
        let mut buffer = buffers[job].lock().unwrap_or_else(PoisonError::into_inner);
        visitor.create(&mut buffer, recorder)
    })
}

/// Lets each file be read once while it is in memory, so that none of the phases that read has to write
/// access times for the others too.
fn settle_access_times(
    context: &Context<'_>,
    settings: &Settings,
    shares: &[Share],
) -> anyhow::Result<()> {
    let reads = [Stage::ReadTar, Stage::ReadAcp, Stage::ReadPhysical];
    if settings.size_bytes == 0 || !settings.stages.iter().any(|stage| reads.contains(stage)) {
        return Ok(());
    }
    jobs::run(shares.len(), &mut Recorder::new(), |job, _| {
        let (root, share) = (context.root(), &shares[job]);
        Visitor::new(root, share, settings.size_bytes, context.progress)?.settle_access_times()
    })
}

/// Measures one operation on files that exist.
fn work(
    context: &Context<'_>,
    settings: &Settings,
    shares: &[Share],
    stage: Stage,
) -> anyhow::Result<()> {
    let untold = Mutex::new(false);
    each_job(context, settings, shares, stage, |job, visitor, recorder| {
        let share = &shares[job];
        let mut order = Order::list(context.root(), share, recorder)?;
        match stage {
            Stage::ReadAcp => order.sort(),
            Stage::ReadPhysical => {
                let mut mapper = Mapper::new();
                order.sort_by_place(visitor.directory(), share, &mut mapper, recorder)?;
                if !mapper.is_able() {
                    *untold.lock().unwrap_or_else(PoisonError::into_inner) = true;
                }
            }
            _ => {}
        }
        let buffer_bytes = if stage == Stage::ReadTar { TAR_RECORD_BYTES } else { BUFFER_BYTES };
        let mut buffer = vec![0; (settings.size_bytes.min(buffer_bytes as u64)) as usize];
        recorder.begin();
        let files = order.entries();
        match stage {
            Stage::Create | Stage::List => {
                recorder.files += files.len() as u64;
                context.progress.advance(files.len() as u64);
                Ok(())
            }
            Stage::Find => visitor.find(files, recorder),
            Stage::ReadTar => visitor.read_as_tar(files, &mut buffer, recorder),
            Stage::ReadAcp | Stage::ReadPhysical => {
                let batch_files = settings.batch_files as usize;
                visitor.read_in_batches(files, batch_files, &mut buffer, recorder)
            }
            Stage::Delete => visitor.delete(files, recorder),
        }
    })?;
    if untold.into_inner().unwrap_or_else(PoisonError::into_inner) {
        context.warn(Warning {
            code: "no-extents".to_owned(),
            message: "read-physical read the files in inode order".to_owned(),
            advice:
                "the filesystem does not tell where files lie (FIEMAP): leave read-physical out"
                    .to_owned(),
        })?;
    }
    Ok(())
}

/// Measures one phase as one sample: what every job does in its directory.
fn each_job(
    context: &Context<'_>,
    settings: &Settings,
    shares: &[Share],
    stage: Stage,
    body: impl Fn(usize, &Visitor<'_>, &mut Recorder) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new(stage.word(), METRIC);
    let root = context.root();
    tally.measure(context, "all files", settings.durability, |recorder| {
        jobs::run(shares.len(), recorder, |job, recorder| {
            let visitor = Visitor::new(root, &shares[job], settings.size_bytes, context.progress)?;
            recorder.begin();
            body(job, &visitor, recorder)
        })
    })?;
    context.finish_phase(tally.into_record())
}

fn measure_layout(
    context: &Context<'_>,
    settings: &Settings,
    shares: &[Share],
) -> anyhow::Result<()> {
    let mut tally = PhaseTally::new(LAYOUT, LAYOUT_METRIC);
    let mut layout = Layout::new(settings.files as usize);
    tally.measure(context, "all files", Durability::None, |recorder| {
        let mut add = |share| layout.add(context.root(), share, recorder, context.progress);
        shares.iter().try_for_each(&mut add)
    })?;
    for (metric, value) in layout.values() {
        if let Some(value) = value {
            tally.value(metric, value);
        }
    }
    context.finish_phase(tally.into_record())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_all_jobs_fit_into_the_limit() {
        assert_eq!(largest_batch(1024, 150, 1), 1024 - 150 - 64 - 4);
        assert_eq!(largest_batch(u64::MAX, 150, 1), u64::MAX - 218);
        for (limit, open, jobs) in [(1024, 150, 8), (1024, 150, 100), (300, 140, 3), (20_000, 9, 7)]
        {
            let batch = largest_batch(limit, open, jobs);
            assert!(batch >= 1 && open + jobs * (batch + JOB_DESCRIPTORS) < limit, "{batch}");
        }
        // Where not even that is left, the call that fails tells.
        assert_eq!(largest_batch(100, 150, 4), 1);
        assert_eq!(largest_batch(100, u64::MAX, 1024), 1);
    }
}
