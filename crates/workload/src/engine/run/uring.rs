//! The engine `io_uring`: one thread of a job keeps several tasks under way, each in a lane of its own
//! with one call at a time; all calls that are ready go to the kernel together. Which call is next is
//! left to the planner. A call's latency is counted from when it goes to the kernel until its end was
//! seen, a task's from when it began or was due.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fsdyno_sys::Errno;
use fsdyno_sys::calls::CallResult;
use fsdyno_sys::clock::Timer;
use fsdyno_sys::ring::{Completion, Ring, RingFile, RingSettings, SlotIndex};

use super::conduct::{Job, JobOutcome, Stage};
use super::draw::exponential_ns;
use super::failed::{failure, short};
use super::planner::{Call, Lane, PLACES, Planner, TO};
use crate::engine::data::is_served_by_io_uring;
use crate::engine::definition::{Engine, Group, Op, Step};
use crate::failure::Unavailable;
use crate::payload::PayloadSource;
use crate::recorder::{Operation, Recorder};
use crate::rng::Xoshiro;

/// Most memory for the buffers of a job.
const BUFFERS_BYTES: u64 = 1 << 30;
/// Longest wait without a look at whether the phase has ended.
const GLANCE: Duration = Duration::from_millis(50);
/// How long to rest where no lane can go on, for another job has what they need.
const REST: Duration = Duration::from_micros(50);
/// Tasks given up in a row before the job slows down, and before it fails.
const SKIPS_AT_ONCE: u64 = 100;
const SKIPS: u64 = 20_000;

/// Where a lane is.
#[derive(Clone, Copy)]
enum State<'p> {
    /// Between two tasks.
    Idle,
    /// Its last call gave so much.
    Ready(u64),
    /// This call is under way; of a write so many bytes are done.
    UnderWay { call: Call<'p>, done: u64, asked_again: bool },
    /// Pauses until so many nanoseconds from the start, within a task or after it.
    Pausing { until_ns: u64, in_task: bool },
    /// Has no further task.
    Over,
}

/// One task after the other.
struct Track<'p> {
    lane: Lane,
    files: [Option<RingFile>; PLACES],
    state: State<'p>,
    /// Nanoseconds from the start at which the task began or was due.
    began_ns: u64,
    /// Tick at which the call under way went to the kernel.
    entered: u64,
}

/// When tasks are due, where they begin at set times.
struct Dues {
    rate: f64,
    even: bool,
    count: u64,
    next_ns: f64,
}

impl Dues {
    fn new(rate: f64, even: bool, rng: &mut Xoshiro) -> Dues {
        let next_ns = if even { 0.0 } else { exponential_ns(rng, rate) };
        Dues { rate, even, count: 0, next_ns }
    }

    fn advance(&mut self, rng: &mut Xoshiro) {
        self.count += 1;
        if self.even {
            self.next_ns = self.count as f64 / self.rate * 1e9;
        } else {
            self.next_ns += exponential_ns(rng, self.rate);
        }
    }
}

struct Executor<'p> {
    job: Job<'p>,
    ring: Ring,
    directories: Vec<RingFile>,
    source: PayloadSource,
    recorder: Recorder,
    timer: Timer,
    start: u64,
    /// Nanoseconds from the start at the last look at the clock.
    now_ns: u64,
    dues: Option<Dues>,
    /// Tasks that the job may still begin.
    tickets: u64,
    skipped: u64,
    skipped_at: Option<usize>,
    in_a_row: u64,
    /// Lanes whose call goes to the kernel next.
    queued: Vec<SlotIndex>,
}

/// Finds out whether the tasks of `group` can be done, where it is one for io_uring.
///
/// # Errors
/// [`Unavailable`]: an operation that only psync does.
pub fn check(group: &Group) -> anyhow::Result<()> {
    fn unserved(steps: &[Step]) -> Option<&Op> {
        steps.iter().find_map(|step| match step {
            Step::Do(op) => (!is_served_by_io_uring(op)).then_some(op),
            Step::Repeat { steps, .. } => unserved(steps),
        })
    }
    if group.engine == Engine::Psync {
        return Ok(());
    }
    match group.tasks.iter().find_map(|task| unserved(&task.steps)) {
        None if group.begin.is_empty() => Ok(()),
        None => Err(Unavailable(format!(
            "group {}: with io_uring no steps come before the tasks: choose the engine psync",
            group.name
        ))
        .into()),
        Some(_) => Err(Unavailable(format!(
            "group {}: io_uring does not serve all of its operations: choose the engine psync",
            group.name
        ))
        .into()),
    }
}

fn truncates(steps: &[Step]) -> bool {
    steps.iter().any(|step| match step {
        Step::Do(op) => matches!(op, Op::Truncate { .. }),
        Step::Repeat { steps, .. } => truncates(steps),
    })
}

fn set_up(job: Job<'_>, iodepth: u32) -> anyhow::Result<Ring> {
    let program = job.program;
    let buffer_bytes = program.read_bytes.max(program.write_bytes);
    if buffer_bytes.saturating_mul(u64::from(iodepth)) > BUFFERS_BYTES {
        anyhow::bail!(
            "group {}: blocks of {buffer_bytes} bytes times iodepth={iodepth} take more than 1 GiB: \
             use less of one",
            program.group.name
        );
    }
    let settings =
        RingSettings { depth: iodepth, buffer_bytes: buffer_bytes as usize, registered: false };
    let ring =
        Ring::new(settings).map_err(|error| Unavailable(format!("engine io_uring: {error}")))?;
    if !ring.makes_metadata_calls() {
        let reason = "engine io_uring: this kernel makes no metadata calls through it (Linux 5.15)";
        return Err(Unavailable(reason.to_owned()).into());
    }
    if program.group.tasks.iter().any(|task| truncates(&task.steps)) && !ring.makes_truncate() {
        let reason = "engine io_uring: this kernel does not truncate through it (Linux 6.9)";
        return Err(Unavailable(reason.to_owned()).into());
    }
    Ok(ring)
}

/// Does the work of `job` once `start` says so, with up to `iodepth` tasks under way. `directories` are
/// those of the filesets.
///
/// # Errors
/// The call that failed, with the path; [`Unavailable`] where there is no io_uring.
pub fn run(
    job: Job<'_>,
    directories: Vec<OwnedFd>,
    iodepth: u32,
    start: impl FnOnce() -> bool,
) -> anyhow::Result<JobOutcome> {
    let Job { stage, program, number } = job;
    let world = stage.world;
    let mut ring = set_up(job, iodepth)?;
    let directories = directories.into_iter().map(|directory| ring.add_file(directory)).collect();
    let mut planner = Planner::new(world, program, &stage.stop, number);
    let track = || Track {
        lane: Lane::new(world),
        files: [None; PLACES],
        state: State::Idle,
        began_ns: 0,
        entered: 0,
    };
    let mut tracks: Vec<Track<'_>> = (0..iodepth).map(|_| track()).collect();
    let dues = program.group.rate_per_s;
    let dues = dues.map(|rate| Dues::new(rate, program.group.even, &mut planner.rng));
    let timer = Timer::new();
    let mut executor = Executor {
        job,
        ring,
        directories,
        source: PayloadSource::new(world.definition.payload, world.seed),
        recorder: Recorder::new(),
        timer,
        start: 0,
        now_ns: 0,
        dues,
        tickets: 0,
        skipped: 0,
        skipped_at: None,
        in_a_row: 0,
        queued: Vec::with_capacity(iodepth as usize),
    };
    if start() {
        executor.start = timer.now();
        executor.work(&mut planner, &mut tracks)?;
    }
    for track in &mut tracks {
        planner.release(&mut track.lane);
    }
    let Executor { recorder, skipped, skipped_at, .. } = executor;
    Ok(JobOutcome { group: number.group, recorder, skipped, skipped_at })
}

impl<'p> Executor<'p> {
    fn stage(&self) -> &'p Stage<'p> {
        self.job.stage
    }

    /// Lets all lanes go on until none has a further task.
    fn work(&mut self, planner: &mut Planner<'p>, tracks: &mut [Track<'p>]) -> anyhow::Result<()> {
        loop {
            let mut over = 0;
            for (slot, track) in tracks.iter_mut().enumerate() {
                self.go_on(planner, slot, track)?;
                over += usize::from(matches!(track.state, State::Over));
            }
            if over == tracks.len() {
                return Ok(());
            }
            self.wait(tracks)?;
            while let Some(completion) = self.ring.next_completion() {
                self.take(planner, completion, tracks)?;
            }
        }
    }

    fn look_at_clock(&mut self) -> u64 {
        let now = self.timer.now();
        self.now_ns = self.timer.between_ns(self.start, now);
        now
    }

    /// Plans and queues the next call of a lane, where it has none under way.
    fn go_on(
        &mut self,
        planner: &mut Planner<'p>,
        slot: SlotIndex,
        track: &mut Track<'p>,
    ) -> anyhow::Result<()> {
        loop {
            let result = match track.state {
                State::Over | State::UnderWay { .. } => return Ok(()),
                State::Pausing { until_ns, in_task } => {
                    if self.now_ns < until_ns && !self.stage().stop.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    track.state = if in_task { State::Ready(0) } else { State::Idle };
                    continue;
                }
                State::Idle => {
                    if !self.begin(planner, track) {
                        return Ok(());
                    }
                    0
                }
                State::Ready(result) => result,
            };
            let call = planner.next(&mut track.lane, result);
            match call {
                Call::Done => self.end(track),
                Call::Skipped(number) => self.give_up(number, track)?,
                Call::UsedUp | Call::Stopped => track.state = State::Over,
                Call::Sleep(duration) => {
                    let until_ns = self.now_ns + duration.as_nanos() as u64;
                    track.state = State::Pausing { until_ns, in_task: true };
                }
                Call::Blocked => {
                    let stopped = self.stage().stop.load(Ordering::Relaxed);
                    track.state = if stopped { State::Over } else { State::Ready(0) };
                    return Ok(());
                }
                Call::Short { .. } | Call::Empty { .. } => {
                    return Err(short(&call, planner.subject(&track.lane, &call)));
                }
                _ => {
                    self.queue(slot, &call, track, 0).map_err(|errno| {
                        failure(&call, planner.subject(&track.lane, &call), errno)
                    })?;
                    track.state = State::UnderWay { call, done: 0, asked_again: false };
                    return Ok(());
                }
            }
        }
    }

    /// Begins a task where one is due; a lane for which there is none is over.
    fn begin(&mut self, planner: &mut Planner<'p>, track: &mut Track<'p>) -> bool {
        if self.stage().stop.load(Ordering::Relaxed) {
            track.state = State::Over;
            return false;
        }
        let due_ns = self.dues.as_ref().map(|dues| dues.next_ns as u64);
        if due_ns.is_some_and(|due_ns| due_ns > self.now_ns) {
            return false;
        }
        if !self.job.program.group.background {
            if self.tickets == 0 {
                self.tickets = self.stage().take_tickets();
            }
            if self.tickets == 0 {
                track.state = State::Over;
                return false;
            }
            self.tickets -= 1;
        }
        if let Some(dues) = &mut self.dues {
            dues.advance(&mut planner.rng);
        }
        track.began_ns = due_ns.unwrap_or(self.now_ns);
        planner.begin(&mut track.lane);
        true
    }

    /// Counts a task that is done.
    fn end(&mut self, track: &mut Track<'p>) {
        self.in_a_row = 0;
        let latency_ns = self.now_ns.saturating_sub(track.began_ns);
        self.recorder.record_ns(Operation::Task, latency_ns);
        self.rest(track, self.job.program.group.think);
    }

    fn rest(&mut self, track: &mut Track<'p>, pause: Duration) {
        let until_ns = self.now_ns + pause.as_nanos() as u64;
        let pauses = self.dues.is_none() && !pause.is_zero();
        track.state =
            if pauses { State::Pausing { until_ns, in_task: false } } else { State::Idle };
    }

    /// A task that found nothing to work on does not count.
    fn give_up(&mut self, number: usize, track: &mut Track<'p>) -> anyhow::Result<()> {
        (self.skipped, self.skipped_at) = (self.skipped + 1, Some(number));
        self.in_a_row += 1;
        let program = self.job.program;
        self.tickets = self.tickets.saturating_add(u64::from(!program.group.background));
        if self.in_a_row == SKIPS {
            anyhow::bail!(
                "group {}: {} has found nothing to work on {SKIPS} times in a row: make the fileset \
                 larger or change how much of it is preallocated",
                program.group.name,
                program.op_name(number)
            );
        }
        let until_ns = self.now_ns + REST.as_nanos() as u64;
        track.state = if self.in_a_row > SKIPS_AT_ONCE {
            State::Pausing { until_ns, in_task: false }
        } else {
            State::Idle
        };
        Ok(())
    }

    /// Hands over what is queued and waits until a call has ended or something else is to be done.
    fn wait(&mut self, tracks: &mut [Track<'p>]) -> anyhow::Result<()> {
        let entered = self.timer.now();
        for slot in self.queued.drain(..) {
            tracks[slot].entered = entered;
        }
        let mut limit = None;
        let mut sooner = |left: Duration| {
            limit = Some(limit.map_or(left, |limit: Duration| limit.min(left)));
        };
        for track in tracks.iter() {
            match track.state {
                State::Pausing { until_ns, .. } => {
                    sooner(Duration::from_nanos(until_ns.saturating_sub(self.now_ns)).min(GLANCE));
                }
                State::Ready(_) => sooner(REST),
                State::Idle => {
                    let due_ns = self.dues.as_ref().map_or(0, |dues| dues.next_ns as u64);
                    sooner(Duration::from_nanos(due_ns.saturating_sub(self.now_ns)).min(GLANCE));
                }
                State::UnderWay { .. } | State::Over => {}
            }
        }
        let entered = match limit {
            _ if self.ring.in_flight() == 0 => {
                self.stage().pause(limit.unwrap_or(REST));
                Ok(())
            }
            None => self.ring.submit_and_wait(1),
            Some(limit) => self.ring.submit_and_wait_for(1, limit),
        };
        self.look_at_clock();
        let name = &self.job.program.group.name;
        entered.map_err(|errno| anyhow::anyhow!("group {name}: io_uring_enter: {errno}"))
    }

    /// Counts a call that has ended, or goes on with one that has not done all.
    fn take(
        &mut self,
        planner: &mut Planner<'p>,
        completion: Completion,
        tracks: &mut [Track<'p>],
    ) -> anyhow::Result<()> {
        let Completion { slot, result, opened } = completion;
        let track = &mut tracks[slot];
        let State::UnderWay { call, done, asked_again } = track.state else { return Ok(()) };
        let failed = |planner: &Planner<'_>, lane: &Lane, errno| {
            failure(&call, planner.subject(lane, &call), errno)
        };
        let (again, done) = match (result, &call) {
            (Err(Errno::INTR | Errno::AGAIN), _) => (true, done),
            (Err(errno), _) => return Err(failed(planner, &track.lane, errno)),
            (Ok(0), Call::Write { count, .. }) if *count > done => {
                return Err(failed(planner, &track.lane, Errno::IO));
            }
            (Ok(found), Call::Write { count, .. }) => {
                let done = done + u64::from(found);
                (done < *count, done)
            }
            // A signal may cut a read; the end of the file cuts it again.
            (Ok(found), Call::Read { count, .. }) => {
                let found = u64::from(found);
                (found < *count && found > 0 && !asked_again, found)
            }
            (Ok(_), _) => (false, 0),
        };
        if again {
            let done = if matches!(call, Call::Write { .. }) { done } else { 0 };
            self.queue(slot, &call, track, done)
                .map_err(|errno| failed(planner, &track.lane, errno))?;
            track.state = State::UnderWay { call, done, asked_again: true };
            return Ok(());
        }
        if let (Call::Open { place, .. }, Some(file)) = (&call, opened) {
            track.files[*place] = Some(file);
        }
        let latency_ns =
            self.now_ns.saturating_sub(self.timer.between_ns(self.start, track.entered));
        self.count(&call, done, latency_ns);
        track.state = State::Ready(done);
        Ok(())
    }

    fn count(&mut self, call: &Call<'_>, done: u64, latency_ns: u64) {
        let recorder = &mut self.recorder;
        let (operation, files) = match call {
            Call::Open { flags, .. } if flags.create => (Operation::Create, 1),
            Call::Open { .. } => (Operation::Open, 1),
            Call::Close { .. } => (Operation::Close, 0),
            Call::Read { .. } => {
                recorder.bytes += done;
                recorder.read_bytes += done;
                (Operation::Read, 0)
            }
            Call::Write { .. } => {
                recorder.bytes += done;
                (Operation::Write, 0)
            }
            Call::Fsync { .. } => (Operation::Fsync, 0),
            Call::Fdatasync { .. } => (Operation::Fdatasync, 0),
            Call::SyncFileRange { .. } => (Operation::SyncFileRange, 0),
            Call::Truncate { .. } => (Operation::Truncate, 0),
            Call::Fallocate { .. } => (Operation::Fallocate, 0),
            Call::Punch { .. } => (Operation::Punch, 0),
            Call::Stat { .. } => (Operation::Stat, 1),
            Call::Unlink { .. } => (Operation::Unlink, 1),
            Call::Mkdir { .. } => (Operation::Mkdir, 1),
            Call::Rmdir { .. } => (Operation::Rmdir, 1),
            Call::Rename { .. } => (Operation::Rename, 1),
            Call::Link { .. } => (Operation::Link, 1),
            Call::Symlink { .. } => (Operation::Symlink, 1),
            // None of these is ever queued.
            _ => return,
        };
        recorder.files += files;
        recorder.record_ns(operation, latency_ns);
    }

    /// Queues a call; a write from its byte `done` on.
    fn queue(
        &mut self,
        slot: SlotIndex,
        call: &Call<'_>,
        track: &mut Track<'p>,
        done: u64,
    ) -> CallResult<()> {
        self.queued.push(slot);
        let Executor { ring, directories, source, .. } = self;
        let Track { lane, files, .. } = track;
        let (name, second) = (lane.name.as_cstr(), lane.second.as_cstr());
        let open = |place: usize| files[place].ok_or(Errno::BADF);
        match *call {
            Call::Open { set, place, flags } => {
                let name = if place == TO { second } else { name };
                ring.open(slot, directories[set], name, flags)
            }
            Call::Close { place } => {
                let file = files[place].take().ok_or(Errno::BADF)?;
                ring.close(slot, file)
            }
            Call::Read { place, offset, count } => {
                ring.read(slot, open(place)?, offset, count as usize)
            }
            Call::Write { place, offset, count, key } => {
                if done == 0 {
                    source.fill(key, offset, &mut ring.buffer_mut(slot)[..count as usize]);
                }
                let left = (count - done) as usize;
                ring.write_from(slot, open(place)?, done as usize, offset + done, left)
            }
            Call::Fsync { place } => ring.fsync(slot, open(place)?),
            Call::Fdatasync { place } => ring.fdatasync(slot, open(place)?),
            Call::SyncFileRange { place } => ring.sync_file_range(slot, open(place)?, 0, 0),
            Call::Truncate { place, size_bytes } => ring.truncate(slot, open(place)?, size_bytes),
            Call::Fallocate { place, size_bytes } => {
                ring.fallocate(slot, open(place)?, 0, size_bytes)
            }
            Call::Punch { place, offset, count } => ring.punch(slot, open(place)?, offset, count),
            Call::Stat { set } => ring.stat(slot, directories[set], name),
            Call::Unlink { set } => ring.unlink(slot, directories[set], name),
            Call::Mkdir { set } => ring.mkdir(slot, directories[set], name),
            Call::Rmdir { set } => ring.rmdir(slot, directories[set], name),
            Call::Rename { from, to } => {
                ring.rename(slot, (directories[from], name), (directories[to], second))
            }
            Call::Link { from, to } => {
                ring.link(slot, (directories[from], name), (directories[to], second))
            }
            Call::Symlink { to } => {
                ring.symlink(slot, lane.target.as_cstr(), directories[to], second)
            }
            // All others were refused before, or are no calls.
            _ => Err(Errno::NOSYS),
        }
    }
}
