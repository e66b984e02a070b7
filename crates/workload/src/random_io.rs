//! The workload `random-io`: blocks of one size read and written in files that were laid out before, at
//! random or one after the other, by one of two engines. What its parameters are called is in
//! [`crate::catalog::random_io`].
//!
//! | part | holds |
//! |---|---|
//! | [`settings`] | the parameters, checked against each other |
//! | [`draw`] | which block is next, whether it is read or written, and when |
//! | [`files`] | laying the files out, opening them, reading a sample back |
//! | [`psync`] | the loop that makes one call after the other |
//! | [`uring`] | the loop that keeps many calls under way |

pub mod draw;
pub mod files;
pub mod psync;
pub mod settings;
pub mod uring;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use fsdyno_model::wire::Manifest;
use fsdyno_sys::clock::Timer;

use crate::context::{Context, Progress};
use crate::failure::{Interrupted, check_interrupt};
use crate::fragmentation;
use crate::jobs;
use crate::payload::PayloadSource;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::{Operation, Recorder};
use draw::{Choices, Direction, Pace, Place};
use files::{Files, Written};
use settings::{Engine, Settings, SyncAfter};

/// Name of the metric that tables show.
const METRIC: &str = "operations_per_s";
/// Operations between two looks at how far a job is.
const PULSE_OPERATIONS: u64 = 256;
const NS_PER_MS: f64 = 1e6;

/// When a job ends: whichever comes first.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// After so many reads and writes.
    pub operations: u64,
    /// After so long.
    pub runtime_ns: u64,
}

/// What a job works on.
#[derive(Debug)]
pub struct Job<'a> {
    /// All parameters.
    pub settings: &'a Settings,
    /// The file.
    pub file: &'a OwnedFd,
    /// Its name, for errors.
    pub name: &'a str,
    /// Where what is written comes from, with the key of the file.
    pub source: &'a PayloadSource,
    /// Key of what is written.
    pub key: u64,
    /// The blocks that this job wrote.
    pub written: &'a mut Written,
    /// When it ends.
    pub limit: Limit,
    /// How far it is.
    pub pulse: Pulse<'a>,
}

/// Says now and then how far a job is: in operations where their number is known, else in milliseconds.
#[derive(Debug)]
pub struct Pulse<'a> {
    progress: Option<&'a Progress>,
    in_operations: bool,
    told: u64,
}

impl Pulse<'_> {
    /// To be called with what is done so far; does something once in some hundred operations.
    #[inline]
    pub fn beat(&mut self, operations: u64, elapsed_ns: u64) {
        if operations.is_multiple_of(PULSE_OPERATIONS) {
            self.tell(operations, elapsed_ns);
        }
    }

    fn tell(&mut self, operations: u64, elapsed_ns: u64) {
        let done = if self.in_operations { operations } else { elapsed_ns / 1_000_000 };
        if let Some(progress) = self.progress {
            progress.advance(done.saturating_sub(self.told));
        }
        self.told = done;
    }
}

/// Counts writes, and says when one is to be followed by a call that makes them durable.
#[derive(Debug)]
pub struct SyncSchedule {
    fsync_every: u64,
    fdatasync_every: u64,
    until_fsync: u64,
    until_fdatasync: u64,
}

impl SyncSchedule {
    /// Neither after a number of writes: 0.
    #[must_use]
    pub fn new(sync_after: SyncAfter) -> SyncSchedule {
        let every = |writes: u64| if writes == 0 { u64::MAX } else { writes };
        let (fsync_every, fdatasync_every) =
            (every(sync_after.fsync_writes), every(sync_after.fdatasync_writes));
        SyncSchedule {
            fsync_every,
            fdatasync_every,
            until_fsync: fsync_every,
            until_fdatasync: fdatasync_every,
        }
    }

    /// Counts a write: the call that is due after it.
    #[inline]
    pub fn after_write(&mut self) -> Option<Operation> {
        self.until_fsync -= 1;
        self.until_fdatasync -= 1;
        if self.until_fdatasync == 0 {
            self.until_fdatasync = self.fdatasync_every;
            // A full sync at the same place makes the lesser one needless.
            if self.until_fsync != 0 {
                return Some(Operation::Fdatasync);
            }
        }
        if self.until_fsync == 0 {
            self.until_fsync = self.fsync_every;
            return Some(Operation::Fsync);
        }
        None
    }
}

/// Waits until `due_ns` after `start`, the last tenth of a millisecond awake.
///
/// # Errors
/// A signal asks to stop.
pub fn wait_until(timer: &Timer, start: u64, due_ns: u64) -> Result<(), Interrupted> {
    const AWAKE_NS: u64 = 100_000;
    const LONGEST_NS: u64 = 50_000_000;
    loop {
        check_interrupt()?;
        let left_ns = due_ns.saturating_sub(timer.between_ns(start, timer.now()));
        if left_ns == 0 {
            return Ok(());
        }
        if left_ns > AWAKE_NS {
            let rest_ns = (left_ns - AWAKE_NS).min(LONGEST_NS);
            std::thread::sleep(std::time::Duration::from_nanos(rest_ns));
        } else {
            std::hint::spin_loop();
        }
    }
}

struct RunJob<'a, 'j> {
    job: Job<'j>,
    recorder: &'a mut Recorder,
}

impl Choices for RunJob<'_, '_> {
    type Output = anyhow::Result<()>;

    fn with<P: Place, D: Direction, A: Pace>(
        self,
        place: P,
        direction: D,
        pace: A,
    ) -> Self::Output {
        match self.job.settings.engine {
            Engine::Psync => psync::run(self.job, place, direction, pace, self.recorder),
            Engine::IoUring { .. } => uring::run(self.job, place, direction, pace, self.recorder),
        }
    }
}

/// Runs all jobs once, until `limit`.
fn run_jobs(
    settings: &Settings,
    files: &Files,
    written: &[Mutex<Written>],
    (limit, seed): (Limit, u64),
    progress: Option<&Progress>,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    jobs::run(settings.numjobs, recorder, |job_index, recorder| {
        let file_index = settings.file_of(job_index);
        let mut written = written[job_index].lock().unwrap_or_else(PoisonError::into_inner);
        let in_operations = settings.operations.is_some();
        let job = Job {
            settings,
            file: &files.open[file_index],
            name: &files.names[file_index],
            source: &files.source,
            key: files::key(file_index, files::VERSION_WRITTEN),
            written: &mut written,
            limit,
            pulse: Pulse { progress, in_operations, told: 0 },
        };
        draw::choose(settings, job_index, seed, RunJob { job, recorder })
    })
}

/// Runs the workload.
///
/// # Errors
/// What failed; [`crate::failure::Unavailable`] where the machine or the filesystem lacks what is asked for.
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params).map_err(anyhow::Error::msg)?;
    uring::check(&settings)?;
    let jobs = settings.numjobs as u64;
    let total = match settings.operations {
        Some(operations) => operations * jobs,
        None => settings.runtime_ns.unwrap_or(0) / 1_000_000 * jobs,
    };
    context.progress.set_total(total);
    files::lay_out(context, &settings)?;
    context.make_cold(settings.cold)?;
    let files = Files::open(context, &settings)?;
    let written: Vec<Mutex<Written>> =
        (0..settings.numjobs).map(|_| Mutex::new(Written::new(settings.blocks))).collect();
    if settings.ramp_ns > 0 {
        context.progress.enter("ramp");
        let limit = Limit { operations: u64::MAX, runtime_ns: settings.ramp_ns };
        let seed = !context.seed;
        run_jobs(&settings, &files, &written, (limit, seed), None, &mut Recorder::new())?;
    }
    measure(context, &settings, &files, &written)?;
    let source = files.source;
    drop(files.open);
    let merged = Written::merge(&settings, written);
    context.progress.enter("verify");
    context.note_verified(files::verify(
        context.root(),
        &settings,
        &source,
        &merged,
        context.seed,
    )?);
    fragmentation::survey(context)?;
    let left = if merged.iter().any(Written::is_touched) {
        Vec::new()
    } else {
        files::manifest(&settings)
    };
    context.hand_over(Manifest { payload: settings.payload, seed: context.seed, files: left })
}

fn measure(
    context: &Context<'_>,
    settings: &Settings,
    files: &Files,
    written: &[Mutex<Written>],
) -> anyhow::Result<()> {
    let durability = if settings.sync { Durability::Target } else { Durability::None };
    let limit = Limit {
        operations: settings.operations.unwrap_or(u64::MAX),
        runtime_ns: settings.runtime_ns.unwrap_or(u64::MAX),
    };
    let mut tally = PhaseTally::new(settings.mix.phase(), METRIC);
    tally.measure(context, "all files", durability, |recorder| {
        let draws = (limit, context.seed);
        run_jobs(settings, files, written, draws, Some(context.progress), recorder)
    })?;
    for (metric, value) in task_values(tally.recorder()) {
        tally.value(metric, value);
    }
    context.finish_phase(tally.into_record())
}

/// Number of reads and writes, and their latency in milliseconds, counted from the time at which each was
/// due where they begin at set times.
fn task_values(recorder: &Recorder) -> Vec<(&'static str, f64)> {
    let counts = [Operation::Task, Operation::Read, Operation::Write];
    // Where the loop records no tasks, each is one call of one kind.
    let timed = counts.into_iter().find(|operation| recorder.count(*operation) > 0);
    let tasks = recorder.count(Operation::Read) + recorder.count(Operation::Write);
    let mut values = vec![("tasks", tasks as f64)];
    for (metric, quantile) in
        [("task_p50_ms", 0.5), ("task_p99_ms", 0.99), ("task_p999_ms", 0.999), ("task_max_ms", 1.0)]
    {
        if let Some(ns) = timed.and_then(|operation| recorder.quantile_ns(operation, quantile)) {
            values.push((metric, ns as f64 / NS_PER_MS));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_follow_every_so_many_writes() {
        let shown = |fsync_writes, fdatasync_writes| -> String {
            let mut schedule = SyncSchedule::new(SyncAfter { fsync_writes, fdatasync_writes });
            let letter = |due| match due {
                None => '.',
                Some(Operation::Fsync) => 'f',
                Some(_) => 'd',
            };
            (0..12).map(|_| letter(schedule.after_write())).collect()
        };
        assert_eq!(shown(0, 0), "............");
        assert_eq!(shown(1, 0), "ffffffffffff");
        assert_eq!(shown(4, 0), "...f...f...f");
        assert_eq!(shown(0, 3), "..d..d..d..d");
        assert_eq!(shown(4, 2), ".d.f.d.f.d.f");
    }
}
