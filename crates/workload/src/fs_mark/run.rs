//! The phases of the workload `fs-mark`: what is timed, made durable and cold, and what is noted of each
//! iteration. Single calls are in [`super::files`].

use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use fsdyno_model::payload::Payload;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::clock::now_ns;

use super::files::Job;
use super::rows::{JobFigures, row, sum_of_rates};
use super::settings::{After, Settings};
use crate::contents::{MANIFEST_FILES, Reservoir, verify_now, verify_zeros};
use crate::context::Context;
use crate::failure::{call_failed, check_interrupt};
use crate::fragmentation;
use crate::jobs;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::{Operation, Recorder};

/// Files between two looks at whether to stop; each may wait for the device.
const BATCH_FILES: u64 = 32;
/// About the most that is compared.
const SAMPLE_BYTES: u64 = 256 << 20;

/// A job and what it did in the iteration that is under way.
struct Worker {
    job: Job,
    elapsed_ns: u64,
    figures: JobFigures,
}

/// Runs the workload.
///
/// # Errors
/// Parameters that do not fit, the call that failed first, contents that changed.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params, context.seed).map_err(anyhow::Error::msg)?;
    let per_loop = settings.files_of_all_jobs() * if settings.keep { 1 } else { 2 };
    context.progress.set_total(per_loop * settings.loops);
    let workers: Vec<Mutex<Worker>> = (0..settings.jobs)
        .map(|index| {
            let job = Job::new(&settings, index, context.seed);
            Mutex::new(Worker { job, elapsed_ns: 0, figures: JobFigures::default() })
        })
        .collect();
    if !settings.is_original {
        make_directories(context, &settings)?;
    }
    let metric = if settings.is_original { "jobs_files_per_s" } else { "files_per_s" };
    let mut created = PhaseTally::new("create", metric);
    let mut removed = PhaseTally::new("unlink", "files_per_s");
    let mut sum_s = 0.0;
    let sample_files = sample_files(&settings);
    let mut sample = Reservoir::new(sample_files, context.seed);
    for loop_index in 0..settings.loops {
        for worker in &workers {
            lock(worker).job.turn_to(loop_index, !settings.is_original);
        }
        create(context, &settings, &workers, (&mut created, loop_index))?;
        let is_last = loop_index + 1 == settings.loops;
        if settings.keep || is_last {
            offer(&mut sample, &settings, &workers);
        }
        if !settings.keep {
            if is_last {
                let chosen = std::mem::replace(&mut sample, Reservoir::new(1, 0)).into_vec();
                verify(context, settings.payload, chosen)?;
                fragmentation::survey(context)?;
            }
            context.make_cold(settings.cold)?;
            unlink(context, &settings, &workers, (&mut removed, loop_index))?;
        }
        let used_percent = used_percent(context)?;
        sum_s += note(&mut created, &settings, &workers, (loop_index, used_percent));
    }
    let all_files = (settings.files_of_all_jobs() * settings.loops) as f64;
    created.value("jobs_files_per_s", all_files / sum_s);
    context.finish_phase(created.into_record())?;
    let mut left = Vec::new();
    if settings.keep {
        let chosen = sample.into_vec();
        verify(context, settings.payload, chosen.clone())?;
        fragmentation::survey(context)?;
        if settings.payload != Payload::Original {
            left = chosen;
        }
    } else {
        context.finish_phase(removed.into_record())?;
    }
    let (payload, seed) = (settings.payload, context.seed);
    context.hand_over(Manifest { payload, seed, files: left })
}

fn lock(worker: &Mutex<Worker>) -> std::sync::MutexGuard<'_, Worker> {
    worker.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make_directories(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    for directory in settings.layout.directory_names() {
        let name = CString::new(directory.as_str()).context("the name of a directory")?;
        Real.mkdir(context.root(), &name)
            .map_err(|errno| call_failed("mkdir", directory, errno))?;
    }
    Ok(())
}

/// One sample of the phase `create`: all jobs, one iteration.
fn create(
    context: &Context<'_>,
    settings: &Settings,
    workers: &[Mutex<Worker>],
    (tally, loop_index): (&mut PhaseTally, u64),
) -> anyhow::Result<()> {
    let durability = durability(settings);
    let subject = format!("iteration {}", loop_index + 1);
    tally.measure(context, &subject, durability, |recorder| {
        each_job(settings, workers, recorder, |worker, recorder| {
            let start_ns = now_ns();
            recorder.begin();
            match (settings.is_original, settings.method.before_close) {
                (true, true) => create_files::<true, true>(context, settings, worker, recorder),
                (true, false) => create_files::<true, false>(context, settings, worker, recorder),
                (false, true) => create_files::<false, true>(context, settings, worker, recorder),
                (false, false) => create_files::<false, false>(context, settings, worker, recorder),
            }?;
            worker.elapsed_ns = now_ns() - start_ns;
            if !is_alone(settings) {
                worker.figures = JobFigures::new(recorder, settings.files, worker.elapsed_ns);
            }
            Ok(())
        })
    })?;
    if is_alone(settings) {
        let mut worker = lock(&workers[0]);
        worker.figures = JobFigures::new(tally.recorder(), settings.files, worker.elapsed_ns);
    }
    Ok(())
}

/// Whether the recorder of a phase counts one job in one iteration, so that its figures can be taken from
/// it when the time of the phase is over. They take some hundred microseconds.
fn is_alone(settings: &Settings) -> bool {
    settings.jobs == 1 && settings.loops == 1
}

fn durability(settings: &Settings) -> Durability {
    if settings.sync { Durability::Target } else { Durability::None }
}

/// Runs `body` for each worker, on a recorder that has counted nothing but this iteration's calls of it.
fn each_job(
    settings: &Settings,
    workers: &[Mutex<Worker>],
    recorder: &mut Recorder,
    body: impl Fn(&mut Worker, &mut Recorder) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    if workers.len() > 1 || is_alone(settings) {
        return jobs::run(workers.len(), recorder, |index, recorder| {
            body(&mut lock(&workers[index]), recorder)
        });
    }
    let mut own = Recorder::new();
    let outcome = body(&mut lock(&workers[0]), &mut own);
    recorder.merge(&own);
    outcome
}

fn create_files<const ORIGINAL: bool, const FSYNC: bool>(
    context: &Context<'_>,
    settings: &Settings,
    worker: &mut Worker,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let calls = (&Real, context.root());
    for files in batches(settings.files) {
        check_interrupt()?;
        let count = files.end - files.start;
        worker.job.create::<_, ORIGINAL, FSYNC>(calls, files, recorder)?;
        context.progress.advance(count);
    }
    if settings.method.sync {
        if ORIGINAL {
            fsdyno_sys::caches::sync_all();
        } else {
            let target = || context.root_path().display().to_string();
            Real.syncfs(context.root()).map_err(|errno| call_failed("syncfs", target(), errno))?;
        }
        recorder.end(Operation::Sync);
    }
    let job = &worker.job;
    match settings.method.after {
        After::Nothing => {}
        After::First => job.sync_again::<_, ORIGINAL>(calls, 0..1, recorder)?,
        After::InOrder => {
            for files in batches(settings.files) {
                check_interrupt()?;
                job.sync_again::<_, ORIGINAL>(calls, files, recorder)?;
            }
        }
        After::Reverse => {
            for files in batches(settings.files) {
                check_interrupt()?;
                let mirrored = files.map(|index| settings.files - 1 - index);
                job.sync_again::<_, ORIGINAL>(calls, mirrored, recorder)?;
            }
        }
    }
    Ok(())
}

/// Pieces of all files of a job, in order.
fn batches(files: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let starts = (0..files).step_by(BATCH_FILES as usize);
    starts.map(move |start| start..files.min(start + BATCH_FILES))
}

/// One sample of the phase `unlink`.
fn unlink(
    context: &Context<'_>,
    settings: &Settings,
    workers: &[Mutex<Worker>],
    (tally, loop_index): (&mut PhaseTally, u64),
) -> anyhow::Result<()> {
    let subject = format!("iteration {}", loop_index + 1);
    tally.measure(context, &subject, durability(settings), |recorder| {
        each_job(settings, workers, recorder, |worker, recorder| {
            recorder.begin();
            for files in batches(settings.files) {
                check_interrupt()?;
                let count = files.end - files.start;
                worker.job.unlink((&Real, context.root()), files, recorder)?;
                context.progress.advance(count);
            }
            if !is_alone(settings) {
                worker.figures.add_unlink(recorder);
            }
            Ok(())
        })
    })?;
    if is_alone(settings) {
        lock(&workers[0]).figures.add_unlink(tally.recorder());
    }
    Ok(())
}

/// How full the target is, as fs_mark counts it: what ordinary users cannot have, in whole percent.
fn used_percent(context: &Context<'_>) -> anyhow::Result<f64> {
    let space = fsdyno_sys::file::free_space(context.root_path())?;
    let used = (space.total - space.available.min(space.total)) as f64;
    Ok((100.0 * used / (space.total.max(1)) as f64).floor())
}

/// Stores the row of an iteration; gives the time that its files take at the sum of the jobs' rates, in
/// seconds.
fn note(
    tally: &mut PhaseTally,
    settings: &Settings,
    workers: &[Mutex<Worker>],
    (loop_index, used_percent): (u64, f64),
) -> f64 {
    let jobs: Vec<JobFigures> = workers.iter().map(|worker| lock(worker).figures).collect();
    let number = loop_index + 1;
    for (name, value) in row(&jobs) {
        tally.value(&format!("iteration_{number}_{name}"), value);
    }
    let count = number * settings.files_of_all_jobs();
    tally.value(&format!("iteration_{number}_count"), count as f64);
    tally.value(&format!("iteration_{number}_used_percent"), used_percent);
    settings.files_of_all_jobs() as f64 / sum_of_rates(&jobs)
}

/// Files to compare.
fn sample_files(settings: &Settings) -> usize {
    let affordable = SAMPLE_BYTES / settings.size_bytes.max(1);
    MANIFEST_FILES.min(1 + affordable as usize)
}

fn offer(sample: &mut Reservoir<ManifestFile>, settings: &Settings, workers: &[Mutex<Worker>]) {
    for worker in workers {
        let worker = lock(worker);
        for index in 0..settings.files {
            sample.offer(|| {
                let (path, content_key) = worker.job.file(index);
                ManifestFile { path, size_bytes: settings.size_bytes, content_key }
            });
        }
    }
}

/// Compares files with what was written into them.
fn verify(context: &Context<'_>, payload: Payload, files: Vec<ManifestFile>) -> anyhow::Result<()> {
    context.progress.enter("verify");
    let record = if payload == Payload::Original {
        verify_zeros(context.root(), &files)?
    } else {
        verify_now(context.root_path(), Manifest { payload, seed: context.seed, files })?
    };
    context.note_verified(record);
    Ok(())
}
