//! The loop of `random-io` that keeps many calls under way through io_uring. All that are ready go to the
//! kernel together, and all that have ended are taken together; the latency of a call is counted from
//! when it goes to the kernel, that of the operation from when it was prepared or due.

use std::time::Duration;

use anyhow::Context as _;
use fsdyno_sys::Errno;
use fsdyno_sys::calls::{CallResult, Calls, Real};
use fsdyno_sys::clock::Timer;
use fsdyno_sys::ring::{Completion, Ring, RingFile, RingSettings, SlotIndex};

use super::draw::{Direction, Pace, Place};
use super::settings::{Engine, Settings};
use super::{Job, SyncSchedule, wait_until};
use crate::failure::{Unavailable, call_failed, check_interrupt};
use crate::random_io::files::read_full;
use crate::recorder::{Operation, Recorder};

/// Longest wait without a look at whether to stop.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

/// Finds out whether there is io_uring where it is asked for.
///
/// # Errors
/// [`Unavailable`].
pub fn check(settings: &Settings) -> anyhow::Result<()> {
    if matches!(settings.engine, Engine::IoUring { .. }) {
        make(settings)?;
    }
    Ok(())
}

fn make(settings: &Settings) -> anyhow::Result<Ring> {
    let made = Ring::new(RingSettings {
        depth: settings.iodepth,
        buffer_bytes: settings.block_bytes,
        registered: settings.engine == Engine::IoUring { registered: true },
    });
    made.map_err(|error| anyhow::Error::new(Unavailable(format!("engine=io_uring: {error}"))))
}

/// The call of a slot.
#[derive(Clone, Copy)]
struct UnderWay {
    operation: Operation,
    block: u64,
    /// Nanoseconds from the start at which it was prepared or due.
    since_ns: u64,
    /// Tick at which it went to the kernel.
    entered: u64,
}

/// Works until the job's limit.
///
/// # Errors
/// The call that failed first, or a signal asks to stop.
pub fn run<P: Place, D: Direction, A: Pace>(
    job: Job<'_>,
    place: P,
    direction: D,
    pace: A,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let mut ring = make(job.settings)?;
    let owned = job.file.try_clone().with_context(|| format!("open {} again", job.name))?;
    let file = ring.add_file(owned);
    if job.settings.engine == (Engine::IoUring { registered: true }) {
        ring.register_files().map_err(|errno| call_failed("register", job.name, errno))?;
    }
    for slot in 0..ring.depth() {
        // Touched before it is timed, and for constant payloads all that is needed.
        job.source.fill(job.key, 0, ring.buffer_mut(slot));
    }
    let idle = UnderWay { operation: Operation::Read, block: 0, since_ns: 0, entered: 0 };
    let timer = Timer::new();
    let mut work = Work {
        schedule: SyncSchedule::new(job.settings.sync_after),
        under_way: vec![idle; ring.depth()],
        free: (0..ring.depth()).rev().collect(),
        queued: Vec::with_capacity(ring.depth()),
        fills: D::IS_MIXED || !job.source.is_constant(),
        block_bytes: job.settings.block_bytes,
        due_sync: None,
        prepared: 0,
        ended: 0,
        start: timer.now(),
        now_ns: 0,
        timer,
        file,
        ring,
        job,
        place,
        direction,
        pace,
    };
    work.run(recorder)
}

struct Work<'a, P, D, A> {
    ring: Ring,
    file: RingFile,
    job: Job<'a>,
    place: P,
    direction: D,
    pace: A,
    schedule: SyncSchedule,
    under_way: Vec<UnderWay>,
    free: Vec<SlotIndex>,
    /// Slots that go to the kernel next.
    queued: Vec<SlotIndex>,
    /// Whether a buffer must be filled before each write.
    fills: bool,
    block_bytes: usize,
    /// A sync that waits for a free slot.
    due_sync: Option<Operation>,
    /// Reads and writes that were prepared, and that have ended.
    prepared: u64,
    ended: u64,
    timer: Timer,
    start: u64,
    /// Nanoseconds from the start at the last look at the clock.
    now_ns: u64,
}

impl<P: Place, D: Direction, A: Pace> Work<'_, P, D, A> {
    fn run(&mut self, recorder: &mut Recorder) -> anyhow::Result<()> {
        loop {
            check_interrupt()?;
            let is_over = self.fill()?;
            if self.ring.in_flight() == 0 {
                if is_over {
                    break;
                }
                let due_ns = self.pace.due_ns().min(self.job.limit.runtime_ns);
                wait_until(&self.timer, self.start, due_ns)?;
                self.look_at_clock();
                continue;
            }
            self.enter(is_over)
                .map_err(|errno| call_failed("io_uring_enter", self.job.name, errno))?;
            let now = self.look_at_clock();
            while let Some(completion) = self.ring.next_completion() {
                self.end(completion, now, recorder)?;
            }
        }
        recorder.files += 1;
        Ok(())
    }

    #[inline]
    fn look_at_clock(&mut self) -> u64 {
        let now = self.timer.now();
        self.now_ns = self.timer.between_ns(self.start, now);
        now
    }

    /// Prepares operations for all free slots, as far as they are due: whether there will be none more.
    #[inline]
    fn fill(&mut self) -> anyhow::Result<bool> {
        let limit = self.job.limit;
        while let Some(slot) = self.free.pop() {
            if let Some(operation) = self.due_sync.take() {
                self.queue_sync(slot, operation)?;
                continue;
            }
            let mut since_ns = self.now_ns;
            if A::IS_OPEN {
                since_ns = self.pace.due_ns();
            }
            let is_over = self.prepared >= limit.operations || self.now_ns >= limit.runtime_ns;
            if is_over || (A::IS_OPEN && since_ns > self.now_ns) {
                self.free.push(slot);
                return Ok(is_over);
            }
            self.pace.advance();
            self.queue(slot, since_ns)?;
        }
        Ok(false)
    }

    #[inline]
    fn queue(&mut self, slot: SlotIndex, since_ns: u64) -> anyhow::Result<()> {
        let block = self.place.next();
        let offset = block * self.block_bytes as u64;
        let (operation, queued);
        if self.direction.is_read() {
            operation = Operation::Read;
            queued = self.ring.read(slot, self.file, offset, self.block_bytes);
        } else {
            if self.fills {
                self.job.source.fill(self.job.key, offset, self.ring.buffer_mut(slot));
            }
            operation = Operation::Write;
            queued = self.ring.write(slot, self.file, offset, self.block_bytes);
            self.due_sync = self.schedule.after_write();
        }
        queued.map_err(|errno| call_failed(operation.name(), self.job.name, errno))?;
        self.prepared += 1;
        self.under_way[slot] = UnderWay { operation, block, since_ns, entered: 0 };
        self.queued.push(slot);
        Ok(())
    }

    fn queue_sync(&mut self, slot: SlotIndex, operation: Operation) -> anyhow::Result<()> {
        let queued = match operation {
            Operation::Fsync => self.ring.fsync(slot, self.file),
            _ => self.ring.fdatasync(slot, self.file),
        };
        queued.map_err(|errno| call_failed(operation.name(), self.job.name, errno))?;
        let since_ns = self.now_ns;
        self.under_way[slot] = UnderWay { operation, block: 0, since_ns, entered: 0 };
        self.queued.push(slot);
        Ok(())
    }

    /// Hands over what is queued and waits for one call to end; with set times until the next is due.
    #[inline]
    fn enter(&mut self, is_over: bool) -> CallResult<()> {
        let entered = self.timer.now();
        for slot in self.queued.drain(..) {
            self.under_way[slot].entered = entered;
        }
        if A::IS_OPEN && !is_over && !self.free.is_empty() {
            let left_ns = self.pace.due_ns().saturating_sub(self.now_ns);
            let limit = Duration::from_nanos(left_ns).min(LONGEST_WAIT);
            return self.ring.submit_and_wait_for(1, limit);
        }
        self.ring.submit_and_wait(1)
    }

    #[inline]
    fn end(&mut self, ended: Completion, now: u64, recorder: &mut Recorder) -> anyhow::Result<()> {
        let Completion { slot, result, .. } = ended;
        let UnderWay { operation, block, since_ns, entered } = self.under_way[slot];
        self.free.push(slot);
        recorder.record_ns(operation, self.timer.between_ns(entered, now));
        let is_block = matches!(operation, Operation::Read | Operation::Write);
        if result != Ok(if is_block { self.block_bytes as u32 } else { 0 }) {
            self.finish(slot, operation, block, result)?;
        }
        if !is_block {
            return Ok(());
        }
        recorder.record_ns(Operation::Task, self.now_ns.saturating_sub(since_ns));
        recorder.bytes += self.block_bytes as u64;
        if operation == Operation::Read {
            recorder.read_bytes += self.block_bytes as u64;
        } else {
            self.job.written.note(block);
        }
        self.ended += 1;
        self.job.pulse.beat(self.ended, self.now_ns);
        Ok(())
    }

    /// Does what is left of a call that did less than it was asked for.
    #[cold]
    fn finish(
        &mut self,
        slot: SlotIndex,
        operation: Operation,
        block: u64,
        result: CallResult<u32>,
    ) -> anyhow::Result<()> {
        let done = match result {
            Ok(count) => count as usize,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(errno) => return Err(call_failed(operation.name(), self.job.name, errno).into()),
        };
        let offset = block * self.block_bytes as u64 + done as u64;
        let file = self.job.file;
        let finished = match operation {
            Operation::Read => read_full(file, &mut self.ring.buffer_mut(slot)[done..], offset),
            Operation::Write => Real.write_all_at(file, &self.ring.buffer(slot)[done..], offset),
            Operation::Fsync => Real.fsync(file),
            _ => Real.fdatasync(file),
        };
        Ok(finished.map_err(|errno| call_failed(operation.name(), self.job.name, errno))?)
    }
}
