//! Runs the jobs of one phase in threads of their own, all begun at once and ended together: by time,
//! by a number of tasks, when the work of the foreground is used up, by the first failure, or by a
//! signal. What a job does is left to [`super::psync`] and
//! [`super::uring`], when it begins its tasks to [`super::pace`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_sys::calls::more::MoreCalls;

use super::planner::JobNumber;
use super::program::{Program, programs};
use super::psync;
use super::semaphores::Semaphores;
use super::uring;
use super::world::World;
use crate::context::Progress;
use crate::engine::definition::{Engine, Group, Phase};
use crate::failure::{Unavailable, check_interrupt};
use crate::recorder::Recorder;

/// How often a signal is looked for and progress is told.
const GLANCE: Duration = Duration::from_millis(50);
/// Progress of one phase, in units.
pub const PROGRESS_UNITS: u64 = 1000;
/// Most tasks that a job takes for itself at a time.
const TICKETS: u64 = 64;

/// What a job did.
#[derive(Debug)]
pub struct JobOutcome {
    /// Number of its group in the phase.
    pub group: usize,
    /// What it measured.
    pub recorder: Recorder,
    /// Tasks that were given up because an operation found nothing, with the number of the operation
    /// that was the last.
    pub skipped: u64,
    /// See `skipped`.
    pub skipped_at: Option<usize>,
}

#[derive(Debug, Default)]
struct Lives {
    ready: usize,
    going: bool,
    live: usize,
    foreground: usize,
    stopped: bool,
    failed: Option<anyhow::Error>,
    outcomes: Vec<JobOutcome>,
}

/// What the jobs of a phase share.
#[derive(Debug)]
pub struct Stage<'p> {
    /// The filesets.
    pub world: &'p World<'p>,
    /// Set when the phase has ended: no operation begins any more.
    pub stop: AtomicBool,
    /// Its semaphores.
    pub semaphores: Semaphores,
    /// Tasks of the foreground that nobody has taken yet; `None` where they are not counted.
    tickets: Option<AtomicU64>,
    tickets_chunk: u64,
    lives: Mutex<Lives>,
    changed: Condvar,
}

/// One job, as its thread sees it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'p> {
    /// What it shares.
    pub stage: &'p Stage<'p>,
    /// What it does.
    pub program: &'p Program<'p>,
    /// Which it is.
    pub number: JobNumber,
}

impl<'p> Stage<'p> {
    fn new(world: &'p World<'p>, phase: &Phase) -> Stage<'p> {
        let jobs: usize = phase.groups.iter().map(|group| group.jobs as usize).sum();
        let in_front = phase.groups.iter().filter(|group| !group.background);
        let foreground: usize = in_front.map(|group| group.jobs as usize).sum();
        let lives = Lives { live: jobs, foreground, ..Lives::default() };
        let tasks = phase.end.tasks;
        let share = tasks.unwrap_or(0) / (16 * foreground.max(1) as u64);
        Stage {
            world,
            stop: AtomicBool::new(false),
            semaphores: Semaphores::new(world.definition.semaphores.len(), jobs),
            tickets: tasks.map(AtomicU64::new),
            tickets_chunk: share.clamp(1, TICKETS),
            lives: Mutex::new(lives),
            changed: Condvar::new(),
        }
    }

    /// Takes the right to do some tasks of the foreground: how many, 0 when all are taken.
    pub fn take_tickets(&self) -> u64 {
        let Some(tickets) = &self.tickets else { return u64::MAX };
        let chunk = self.tickets_chunk;
        let take = |left: u64| Some(left.saturating_sub(chunk));
        let taken = tickets.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_or(0, |left| left.min(chunk))
    }

    /// Waits for `duration`, or less when the phase ends; false once it has ended.
    pub fn pause(&self, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        let mut lives = self.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if lives.stopped || left.is_zero() {
                return !lives.stopped;
            }
            let woken = self.changed.wait_timeout(lives, left);
            lives = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until all are ready and the phase begins; false where it never does.
    fn wait_for_start(&self) -> bool {
        let mut lives = self.lock();
        lives.ready += 1;
        self.changed.notify_all();
        while !lives.going && !lives.stopped {
            lives = self.changed.wait(lives).unwrap_or_else(PoisonError::into_inner);
        }
        !lives.stopped
    }

    fn wait_until_ready(&self) {
        let mut lives = self.lock();
        while lives.ready < lives.live {
            lives = self.changed.wait(lives).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end_job(&self, background: bool, outcome: Result<JobOutcome, anyhow::Error>) {
        let mut lives = self.lock();
        match outcome {
            Ok(outcome) => lives.outcomes.push(outcome),
            Err(error) => {
                lives.failed.get_or_insert(error);
            }
        }
        lives.live -= 1;
        lives.foreground -= usize::from(!background);
        let over = lives.live == 0 || lives.foreground == 0 || lives.failed.is_some();
        if over {
            // At once: nobody need wake up for that.
            self.end(&mut lives);
        }
        drop(lives);
        self.semaphores.leave();
    }

    fn end_phase(&self) {
        self.end(&mut self.lock());
    }

    /// The semaphores first: who sees the end and leaves must not make those who wait think that nobody
    /// posts any more.
    fn end(&self, lives: &mut Lives) {
        self.semaphores.stop();
        self.stop.store(true, Ordering::Relaxed);
        lives.stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Lives> {
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Share of the phase that is done at `elapsed`, in [`PROGRESS_UNITS`].
    fn progress(&self, phase: &Phase, programs: &[Program<'_>], elapsed: Duration) -> u64 {
        let by_time = phase.end.runtime.map(|whole| elapsed.as_secs_f64() / whole.as_secs_f64());
        let by_tasks =
            self.tickets.as_ref().zip(phase.end.tasks).map(|(left, whole)| {
                1.0 - left.load(Ordering::Relaxed) as f64 / whole.max(1) as f64
            });
        let once = programs.iter().filter_map(|program| program.share_taken(self.world));
        let share = once.chain(by_time).chain(by_tasks).fold(0.0, f64::max);
        (share.clamp(0.0, 1.0) * PROGRESS_UNITS as f64) as u64
    }
}

/// The measured part of a phase: to be run exactly once.
pub struct Go<'s, 'p> {
    stage: &'s Stage<'p>,
    programs: &'s [Program<'p>],
    phase: &'s Phase,
    progress: &'s Progress,
}

impl Go<'_, '_> {
    /// Lets the jobs begin and waits until all have ended; gives what they did.
    ///
    /// # Errors
    /// The first failure of a job, or the request to stop.
    pub fn run(self) -> anyhow::Result<Vec<JobOutcome>> {
        let Go { stage, programs, phase, progress } = self;
        let start = Instant::now();
        let deadline = phase.end.runtime.map(|runtime| start + runtime);
        let mut interrupted = Ok(());
        let mut told = 0;
        let mut lives = stage.lock();
        lives.going = true;
        stage.changed.notify_all();
        while lives.live > 0 {
            let now = Instant::now();
            let expired = deadline.is_some_and(|deadline| now >= deadline);
            interrupted = interrupted.and(check_interrupt());
            if (expired || interrupted.is_err()) && !lives.stopped {
                drop(lives);
                stage.end_phase();
                lives = stage.lock();
                continue;
            }
            let done = stage.progress(phase, programs, now - start);
            progress.advance(done.saturating_sub(told));
            told = told.max(done);
            let left = deadline.map_or(GLANCE, |deadline| deadline.saturating_duration_since(now));
            let glance = if lives.stopped { GLANCE } else { left.min(GLANCE) };
            let woken = stage.changed.wait_timeout(lives, glance);
            lives = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        progress.advance(PROGRESS_UNITS.saturating_sub(told));
        if let Some(error) = lives.failed.take() {
            return Err(error);
        }
        interrupted?;
        let mut outcomes = std::mem::take(&mut lives.outcomes);
        outcomes.sort_by_key(|outcome| outcome.group);
        Ok(outcomes)
    }
}

/// Runs the phase `index` with the filesets below `root`. `measure` is given what is to be measured.
///
/// # Errors
/// The first failure of a job, the request to stop, or that of `measure`.
pub fn run_phase<C, T>(
    world: &World<'_>,
    (calls, root): (&C, &C::Fd),
    index: usize,
    progress: &Progress,
    measure: impl FnOnce(Go<'_, '_>) -> anyhow::Result<T>,
) -> anyhow::Result<T>
where
    C: MoreCalls + Sync,
{
    let phase = &world.definition.phases[index];
    let programs = programs(world, phase).map_err(anyhow::Error::msg)?;
    for program in &programs {
        uring::check(program.group)?;
    }
    let directories = world.open(calls, root)?;
    let stage = Stage::new(world, phase);
    let lanes: u64 = programs.iter().map(|program| lanes(program.group)).sum();
    std::thread::scope(|scope| {
        let (stage, directories, programs) = (&stage, &directories[..], &programs[..]);
        for (group, program) in programs.iter().enumerate() {
            for job in 0..program.group.jobs {
                let number = JobNumber { phase: index, group, job, shared: lanes > 1 };
                let job = Job { stage, program, number };
                scope.spawn(move || live(job, calls, directories));
            }
        }
        stage.wait_until_ready();
        let outcome = measure(Go { stage, programs, phase, progress });
        // Where it was not run after all.
        stage.end_phase();
        outcome
    })
}

/// Most tasks of a group that are under way at once.
fn lanes(group: &Group) -> u64 {
    let iodepth = match group.engine {
        Engine::Psync => 1,
        Engine::IoUring { iodepth } => iodepth,
    };
    u64::from(group.jobs) * u64::from(iodepth)
}

/// Does the work of one job by its engine.
fn execute<C: MoreCalls>(
    job: Job<'_>,
    calls: &C,
    directories: &[C::Fd],
) -> anyhow::Result<JobOutcome> {
    let start = || job.stage.wait_for_start();
    let Engine::IoUring { iodepth } = job.program.group.engine else {
        return psync::run(job, calls, directories, start);
    };
    let own = directories.iter().map(|directory| calls.duplicate(directory));
    let own = own.collect::<Result<Option<Vec<_>>, _>>().map_err(std::io::Error::from)?;
    let nobody = || Unavailable("io_uring makes no null calls: choose the engine psync".to_owned());
    uring::run(job, own.ok_or_else(nobody)?, iodepth, start)
}

/// The life of one thread.
fn live<C: MoreCalls>(job: Job<'_>, calls: &C, directories: &[C::Fd]) {
    let background = job.program.group.background;
    let work = std::panic::AssertUnwindSafe(|| execute(job, calls, directories));
    let outcome = std::panic::catch_unwind(work);
    let panic = match outcome {
        Ok(outcome) => return job.stage.end_job(background, outcome),
        Err(panic) => panic,
    };
    // All must end before the panic goes on, which takes the whole runner with it.
    job.stage.end_job(background, Err(anyhow::anyhow!("a job panicked")));
    std::panic::resume_unwind(panic);
}
