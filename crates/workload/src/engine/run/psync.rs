//! The engine `psync`: the thread of a job makes each call itself and waits for it. Which call is next
//! is left to the planner.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fsdyno_sys::Errno;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::more::MoreCalls;
use fsdyno_sys::calls::{CallResult, Calls, dir_buffer};

use super::conduct::{Job, JobOutcome};
use super::failed::{failure, short};
use super::pace::Pace;
use super::planner::{Call, FROM, Lane, PLACES, Planner, TO};
use super::semaphores::Waited;
use crate::contents::PayloadBuffer;
use crate::recorder::{Operation, Recorder};

/// Memory that the hog touches, in bytes.
const HOG_BYTES: usize = 1 << 20;
/// Tasks given up in a row before the job slows down, and before it fails.
const SKIPS_AT_ONCE: u64 = 100;
const SKIPS: u64 = 20_000;
/// How long it waits between them then, for others to make what it looks for.
const SKIP_PAUSE: Duration = Duration::from_micros(50);

/// Makes calls.
struct Executor<'p, C: Calls> {
    calls: &'p C,
    directories: &'p [C::Fd],
    files: [Option<C::Fd>; PLACES],
    read: AlignedBuffer,
    payload: PayloadBuffer,
    listing: Box<[MaybeUninit<u8>]>,
    touched: Vec<u8>,
    hand: usize,
    recorder: Recorder,
}

/// Why a lane makes no further call.
enum End {
    Done,
    Skipped(usize),
    Over,
}

/// Does the work of `job` once `start` says so.
///
/// # Errors
/// The call that failed, with the path.
pub fn run<C: MoreCalls>(
    job: Job<'_>,
    calls: &C,
    directories: &[C::Fd],
    start: impl FnOnce() -> bool,
) -> anyhow::Result<JobOutcome> {
    let Job { stage, program, number } = job;
    let world = stage.world;
    let mut planner = Planner::new(world, program, &stage.stop, number);
    let mut lane = Lane::new(world);
    let hogs = program.hogs();
    let mut executor = Executor {
        calls,
        directories,
        files: std::array::from_fn(|_| None),
        read: AlignedBuffer::new(program.read_bytes as usize),
        payload: PayloadBuffer::new(
            world.definition.payload,
            world.seed,
            program.write_bytes as usize,
        ),
        listing: dir_buffer(),
        touched: vec![0; if hogs { HOG_BYTES } else { 0 }],
        hand: 0,
        recorder: Recorder::new(),
    };
    let (mut skipped, mut skipped_at, mut in_a_row) = (0, None, 0);
    executor.begin(job, &mut planner, &mut lane)?;
    if start() {
        executor.recorder.begin();
        let mut pace = Pace::new(stage, program.group);
        while pace.begin(&mut planner.rng, &mut executor.recorder) {
            planner.begin(&mut lane);
            match executor.task(job, &mut planner, &mut lane)? {
                End::Done => {
                    in_a_row = 0;
                    pace.end(&mut executor.recorder);
                }
                End::Skipped(action) => {
                    (skipped, skipped_at, in_a_row) = (skipped + 1, Some(action), in_a_row + 1);
                    pace.give_up();
                    if in_a_row == SKIPS {
                        anyhow::bail!(
                            "group {}: {} has found nothing to work on {SKIPS} times in a row: \
                             make the fileset larger or change how much of it is preallocated",
                            program.group.name,
                            program.op_name(action)
                        );
                    }
                    if number.shared && in_a_row > SKIPS_AT_ONCE {
                        stage.pause(SKIP_PAUSE);
                        executor.recorder.begin();
                    }
                }
                End::Over => break,
            }
        }
    }
    planner.release(&mut lane);
    Ok(JobOutcome { group: number.group, recorder: executor.recorder, skipped, skipped_at })
}

impl<C: MoreCalls> Executor<'_, C> {
    /// Does the steps that come before the tasks of the group, which count nowhere.
    fn begin<'p>(
        &mut self,
        job: Job<'p>,
        planner: &mut Planner<'p>,
        lane: &mut Lane,
    ) -> anyhow::Result<()> {
        let program = job.program;
        let Some(first) = program.first else { return Ok(()) };
        planner.enter(lane, first);
        self.recorder.begin();
        match self.task(job, planner, lane)? {
            End::Done | End::Over => {}
            End::Skipped(number) => anyhow::bail!(
                "group {}: {} has found nothing to work on before the phase began: make the fileset \
                 larger or change how much of it is preallocated",
                program.group.name,
                program.op_name(number)
            ),
        }
        self.recorder = Recorder::new();
        Ok(())
    }

    /// Makes the calls of the task that `lane` is at the beginning of.
    #[inline]
    fn task(
        &mut self,
        job: Job<'_>,
        planner: &mut Planner<'_>,
        lane: &mut Lane,
    ) -> anyhow::Result<End> {
        let mut result = 0;
        loop {
            let call = planner.next(lane, result);
            result = match call {
                Call::Done => return Ok(End::Done),
                Call::Skipped(number) => return Ok(End::Skipped(number)),
                Call::UsedUp | Call::Stopped => return Ok(End::Over),
                Call::Sleep(duration) => {
                    job.stage.pause(duration);
                    self.recorder.begin();
                    0
                }
                Call::Hog(rounds) => {
                    self.hog(rounds);
                    0
                }
                Call::Post { semaphore, count } => {
                    job.stage.semaphores.post(semaphore, count);
                    self.recorder.begin();
                    0
                }
                Call::Wait { semaphore, count } => {
                    let waited = job.stage.semaphores.wait(semaphore, count);
                    self.recorder.begin();
                    match waited {
                        Waited::Taken => 0,
                        Waited::Stopped => return Ok(End::Over),
                        // What only loads ends with those that it waits for.
                        Waited::Stuck if job.program.group.background => return Ok(End::Over),
                        Waited::Stuck => anyhow::bail!(
                            "group {}: every job waits for a semaphore that nobody posts any more",
                            job.program.group.name
                        ),
                    }
                }
                Call::Blocked => {
                    if job.stage.stop.load(Ordering::Relaxed) {
                        return Ok(End::Over);
                    }
                    std::thread::yield_now();
                    0
                }
                Call::Short { .. } | Call::Empty { .. } => {
                    return Err(short(&call, planner.subject(lane, &call)));
                }
                _ => match self.make(&call, lane) {
                    Ok(result) => result,
                    Err(errno) => return Err(failure(&call, planner.subject(lane, &call), errno)),
                },
            };
        }
    }

    /// Touches memory here and there.
    fn hog(&mut self, rounds: u64) {
        for _ in 0..rounds {
            // Steps of a prime, so that every byte is met.
            self.hand = (self.hand + 40_961) % HOG_BYTES;
            let byte = &mut self.touched[self.hand];
            *byte = std::hint::black_box(byte.wrapping_add(1));
        }
        self.recorder.begin();
    }

    /// Makes one call and counts it.
    #[inline]
    fn make(&mut self, call: &Call<'_>, lane: &Lane) -> CallResult<u64> {
        let Executor { calls, directories, recorder, .. } = self;
        let name = lane.name.as_cstr();
        let operation = match *call {
            Call::Open { set, place, flags } => {
                let name = if place == TO { lane.second.as_cstr() } else { name };
                let file = calls.open_with(&directories[set], name, flags)?;
                self.files[place] = Some(file);
                recorder.files += 1;
                if flags.create { Operation::Create } else { Operation::Open }
            }
            Call::OpenDirectory { set } => {
                self.files[FROM] = Some(calls.open_dir(&directories[set], name)?);
                Operation::Open
            }
            Call::Close { place } => {
                if let Some(file) = self.files[place].take() {
                    calls.close(file)?;
                }
                Operation::Close
            }
            Call::Stat { set } => {
                calls.stat(&directories[set], name)?;
                recorder.files += 1;
                Operation::Stat
            }
            Call::Unlink { set } => {
                calls.unlink(&directories[set], name)?;
                recorder.files += 1;
                Operation::Unlink
            }
            Call::Mkdir { set } => {
                calls.mkdir(&directories[set], name)?;
                recorder.files += 1;
                Operation::Mkdir
            }
            Call::Rmdir { set } => {
                calls.rmdir(&directories[set], name)?;
                recorder.files += 1;
                Operation::Rmdir
            }
            Call::Rename { from, to } => {
                calls.rename(&directories[from], name, &directories[to], lane.second.as_cstr())?;
                recorder.files += 1;
                Operation::Rename
            }
            Call::Link { from, to } => {
                calls.link(&directories[from], name, &directories[to], lane.second.as_cstr())?;
                recorder.files += 1;
                Operation::Link
            }
            Call::Symlink { to } => {
                let target = lane.target.as_cstr();
                calls.symlink(target, &directories[to], lane.second.as_cstr())?;
                recorder.files += 1;
                Operation::Symlink
            }
            Call::List => {
                let directory = open(&self.files, FROM)?;
                calls.list(directory, &mut self.listing, |_, _, _| {})?;
                Operation::List
            }
            _ => return self.transfer(call),
        };
        recorder.end(operation);
        Ok(0)
    }

    /// The same for calls that read and write.
    #[inline]
    fn transfer(&mut self, call: &Call<'_>) -> CallResult<u64> {
        let Executor { calls, recorder, files, payload, read, .. } = self;
        match *call {
            Call::Read { place, offset, count } => {
                let found =
                    calls.read_at(open(files, place)?, &mut read[..count as usize], offset)?;
                recorder.end(Operation::Read);
                recorder.bytes += found as u64;
                recorder.read_bytes += found as u64;
                Ok(found as u64)
            }
            Call::MmapRead { place, offset, count } => {
                calls.mmap_read(open(files, place)?, &mut read[..count as usize], offset)?;
                recorder.end(Operation::MmapRead);
                recorder.bytes += count;
                recorder.read_bytes += count;
                Ok(count)
            }
            Call::Write { place, offset, count, key } => {
                let bytes = payload.bytes(key, offset, count);
                calls.write_all_at(open(files, place)?, bytes, offset)?;
                recorder.end(Operation::Write);
                recorder.bytes += count;
                Ok(count)
            }
            Call::WriteBack { place, offset, count } => {
                calls.write_all_at(open(files, place)?, &read[..count as usize], offset)?;
                recorder.end(Operation::Write);
                recorder.bytes += count;
                Ok(count)
            }
            Call::MmapWrite { place, offset, count, key } => {
                let bytes = payload.bytes(key, offset, count);
                calls.mmap_write(open(files, place)?, bytes, offset)?;
                recorder.end(Operation::MmapWrite);
                recorder.bytes += count;
                Ok(count)
            }
            Call::CopyRange { offset, count } => {
                let (from, to) = (open(files, FROM)?, open(files, TO)?);
                let done = calls.copy_file_range(from, to, offset, count.min(1 << 30) as usize)?;
                recorder.end(Operation::CopyRange);
                recorder.bytes += done as u64;
                Ok(done as u64)
            }
            _ => self.change(call),
        }
    }

    /// The same for calls on an open file that move no data.
    fn change(&mut self, call: &Call<'_>) -> CallResult<u64> {
        let Executor { calls, recorder, files, payload, read, .. } = self;
        let operation = match *call {
            Call::Fsync { place } => {
                calls.fsync(open(files, place)?)?;
                Operation::Fsync
            }
            Call::Fdatasync { place } => {
                calls.fdatasync(open(files, place)?)?;
                Operation::Fdatasync
            }
            Call::SyncFileRange { place } => {
                calls.sync_file_range(open(files, place)?, 0, 0)?;
                Operation::SyncFileRange
            }
            Call::Truncate { place, size_bytes } => {
                calls.truncate(open(files, place)?, size_bytes)?;
                Operation::Truncate
            }
            Call::Fallocate { place, size_bytes } => {
                calls.fallocate(open(files, place)?, 0, size_bytes)?;
                Operation::Fallocate
            }
            Call::Punch { place, offset, count } => {
                calls.punch(open(files, place)?, offset, count)?;
                Operation::Punch
            }
            Call::LockUnlock { place } => {
                calls.lock(open(files, place)?)?;
                recorder.end(Operation::Lock);
                calls.unlock(open(files, place)?)?;
                Operation::Unlock
            }
            Call::SetXattr { place, name, count } => {
                let value = payload.bytes(0, 0, count);
                calls.set_xattr(open(files, place)?, name, value)?;
                Operation::SetXattr
            }
            Call::GetXattr { place, name } => {
                match calls.get_xattr(open(files, place)?, name, read) {
                    Ok(_) | Err(Errno::NODATA) => Operation::GetXattr,
                    Err(errno) => return Err(errno),
                }
            }
            Call::Reflink => {
                calls.reflink(open(files, FROM)?, open(files, TO)?)?;
                Operation::Reflink
            }
            // All others are no calls, or were made above.
            _ => return Err(Errno::NOSYS),
        };
        recorder.end(operation);
        Ok(0)
    }
}

/// The file at a place, which the planner has had opened.
#[inline]
fn open<F>(files: &[Option<F>; PLACES], place: usize) -> CallResult<&F> {
    files[place].as_ref().ok_or(Errno::BADF)
}
