//! Turns the tasks of a group into single calls, one after the other, and keeps what is known of the
//! target in step with them. What has begun of one task is in a [`Lane`]; a job that keeps several
//! tasks under way has as many lanes and one planner. Who makes the calls, and their timing, is left
//! to the executors ([`super::psync`]); the calls of reading and writing are planned in
//! [`super::blocks`], those on names in [`super::trees`].

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_sys::calls::OpenFlags;

use super::entries::{Glimpse, Inode};
use super::layout::NameBuffer;
use super::pick::{Common, Memory, Picked, Want, pick, pick_any};
use super::program::{Action, Instruction, NESTING, Program};
use super::world::{Set, World};
use crate::engine::definition::{FilesetIndex, Op, Pick, SLOTS, Slot};
use crate::payload::mix;
use crate::rng::Xoshiro;

/// Open files of a lane: those of the definition, and two of the planner's own.
pub const PLACES: usize = SLOTS + 2;
/// Place of a file that is copied from or replayed, or of a directory that is listed.
pub const FROM: Slot = SLOTS;
/// Place of a file that is copied to.
pub const TO: Slot = SLOTS + 1;

/// Stage of an operation that first closes what is in its slot.
const VACATING: u8 = u8::MAX;

/// What is to be done next. Names are in the lane: [`Lane::name`], [`Lane::second`] and
/// [`Lane::target`]; directories are those of filesets. Unless said otherwise what it gives does not
/// matter to the planner. `place` is that of an open file of the lane, `set` the fileset whose directory a
/// name is relative to, `offset` and `count` are in bytes.
#[allow(missing_docs, reason = "each field is explained above, once for all calls")]
#[derive(Debug, Clone, Copy)]
pub enum Call<'p> {
    /// Opens the file `name`, or `second` where the place is [`TO`].
    Open { set: FilesetIndex, place: Slot, flags: OpenFlags },
    /// Opens the directory `name` at [`FROM`].
    OpenDirectory { set: FilesetIndex },
    /// Closes.
    Close { place: Slot },
    /// Reads; gives the count of bytes.
    Read { place: Slot, offset: u64, count: u64 },
    /// Writes the payload of `key`.
    Write { place: Slot, offset: u64, count: u64, key: u64 },
    /// Writes what the last `Read` of this lane has read.
    WriteBack { place: Slot, offset: u64, count: u64 },
    /// Reads through a mapping.
    MmapRead { place: Slot, offset: u64, count: u64 },
    /// Writes the payload of `key` through a mapping.
    MmapWrite { place: Slot, offset: u64, count: u64, key: u64 },
    /// fsync.
    Fsync { place: Slot },
    /// fdatasync.
    Fdatasync { place: Slot },
    /// sync_file_range of the whole file.
    SyncFileRange { place: Slot },
    /// Sets the size.
    Truncate { place: Slot, size_bytes: u64 },
    /// Reserves from the beginning on.
    Fallocate { place: Slot, size_bytes: u64 },
    /// Punches a hole.
    Punch { place: Slot, offset: u64, count: u64 },
    /// Locks and at once unlocks.
    LockUnlock { place: Slot },
    /// Sets an extended attribute of so many bytes.
    SetXattr { place: Slot, name: &'p CStr, count: u64 },
    /// Reads it; that it is absent is no error.
    GetXattr { place: Slot, name: &'p CStr },
    /// Attributes of `name`.
    Stat { set: FilesetIndex },
    /// Lists the directory at [`FROM`].
    List,
    /// Removes the file `name`.
    Unlink { set: FilesetIndex },
    /// Makes the directory `name`.
    Mkdir { set: FilesetIndex },
    /// Removes it.
    Rmdir { set: FilesetIndex },
    /// Renames `name` to `second`.
    Rename { from: FilesetIndex, to: FilesetIndex },
    /// Links `name` as `second`.
    Link { from: FilesetIndex, to: FilesetIndex },
    /// Makes the link `second`, which holds `target`.
    Symlink { to: FilesetIndex },
    /// Copies from [`FROM`] to the same place in [`TO`]; gives the count of bytes.
    CopyRange { offset: u64, count: u64 },
    /// Shares the extents of [`FROM`] with [`TO`].
    Reflink,
    /// Waits for a time.
    Sleep(Duration),
    /// Burns processor time.
    Hog(u64),
    /// Adds to a semaphore.
    Post { semaphore: usize, count: u64 },
    /// Takes from it.
    Wait { semaphore: usize, count: u64 },
    /// No call: the last `Read` or `CopyRange` should have given more.
    Short { place: Slot, offset: u64, expected: u64, found: u64 },
    /// No call: the step works on a slot in which nothing is open.
    Empty { place: Slot },
    /// No call: somebody else has the file for now; ask again a little later.
    Blocked,
    /// No call: the task is done.
    Done,
    /// No call: the task was given up, since the operation of that number found nothing to work on.
    Skipped(usize),
    /// No call: the work of the job is used up.
    UsedUp,
    /// No call: the phase has ended.
    Stopped,
}

/// An entry that was picked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Entry {
    /// Its fileset.
    pub fileset: FilesetIndex,
    /// Its index there.
    pub index: u64,
    /// Its inode, where it exists.
    pub inode: Inode,
}

/// A file in a slot.
#[derive(Debug, Clone, Copy)]
pub struct OpenFile {
    /// Which.
    pub entry: Entry,
    /// Where the next sequential block begins.
    pub position: u64,
    /// Where this pass over the file with strides began.
    pub pass: u64,
    /// Whether calls must be aligned.
    pub direct: bool,
}

/// What has begun of the operation under way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub entry: Entry,
    pub into: Entry,
    /// Blocks that are left.
    pub left: u64,
    pub offset: u64,
    pub end: u64,
    /// Bytes that the call under way moves, or must give.
    pub count: u64,
    pub key: u64,
    pub glimpse: Option<Glimpse>,
}

/// One task under way.
#[derive(Debug)]
pub struct Lane {
    task: usize,
    pc: usize,
    pub(super) stage: u8,
    counters: [u64; NESTING],
    pub(super) files: [Option<OpenFile>; SLOTS],
    /// Slots that this task has opened, as bits.
    opened: u32,
    /// The operation that found nothing, plus 1.
    skipped: usize,
    closing: Option<Slot>,
    pub(super) work: Work,
    /// See [`Call`].
    pub name: NameBuffer,
    /// See [`Call`].
    pub second: NameBuffer,
    /// See [`Call`].
    pub target: NameBuffer,
}

impl Lane {
    /// One in which nothing has begun.
    #[must_use]
    pub fn new(world: &World<'_>) -> Lane {
        Lane {
            task: 0,
            pc: 0,
            stage: 0,
            counters: [0; NESTING],
            files: [None; SLOTS],
            opened: 0,
            skipped: 0,
            closing: None,
            work: Work::default(),
            name: world.name_buffer(),
            second: world.name_buffer(),
            target: world.name_buffer(),
        }
    }
}

/// Plans the work of one job.
#[derive(Debug)]
pub struct Planner<'p> {
    pub(super) world: &'p World<'p>,
    pub(super) program: &'p Program<'p>,
    stop: &'p AtomicBool,
    /// Draws of this job.
    pub rng: Xoshiro,
    pub(super) memories: Vec<Memory>,
    next_content: u32,
    /// Whether anybody else works at the same time.
    pub(super) shared: bool,
}

/// Which job of which group of which phase it is.
#[derive(Debug, Clone, Copy)]
pub struct JobNumber {
    /// Number of the phase.
    pub phase: usize,
    /// Number of the group in the phase.
    pub group: usize,
    /// Number of the job in the group.
    pub job: u32,
    /// Whether anybody else works at the same time, be it another lane.
    pub shared: bool,
}

impl<'p> Planner<'p> {
    /// The plan of one job, which goes on until `stop`.
    #[must_use]
    pub fn new(
        world: &'p World<'p>,
        program: &'p Program<'p>,
        stop: &'p AtomicBool,
        number: JobNumber,
    ) -> Planner<'p> {
        let JobNumber { phase, group, job, shared } = number;
        let stream = (phase as u64) << 48 | (group as u64) << 32 | u64::from(job);
        let mut memories = vec![Memory::default(); program.taken.len()];
        for instruction in program.tasks.iter().flatten() {
            if let Instruction::Do(action) = instruction
                && let Some((fileset, Pick::Sequential)) = action.op.entry()
            {
                let entries = u128::from(world.sets[fileset].layout.entries);
                let start = entries * u128::from(job) / u128::from(program.group.jobs);
                memories[action.number].cursor = start as u64;
            }
        }
        Planner {
            world,
            program,
            stop,
            rng: Xoshiro::new(mix(world.seed ^ mix(stream))),
            memories,
            // No other number of this run, short of billions of files.
            next_content: 1 << 31 | mix(stream) as u32,
            shared,
        }
    }

    /// Draws a task and puts it at its beginning; files stay open.
    #[inline]
    pub fn begin(&mut self, lane: &mut Lane) {
        let task = self.program.weights.draw(&mut self.rng);
        self.enter(lane, task);
    }

    /// Puts `lane` at the beginning of the task with this number.
    #[inline]
    pub fn enter(&mut self, lane: &mut Lane, task: usize) {
        lane.task = task;
        (lane.pc, lane.stage, lane.opened, lane.skipped) = (0, 0, 0, 0);
    }

    /// What is to be done next, `result` being what the last call of this lane gave. The last call
    /// has succeeded: after a failure nothing is asked any more.
    #[inline]
    pub fn next(&mut self, lane: &mut Lane, result: u64) -> Call<'p> {
        if lane.skipped > 0 {
            return self.give_up(lane);
        }
        let program = self.program;
        let task = &program.tasks[lane.task];
        loop {
            let Some(instruction) = task.get(lane.pc) else { return Call::Done };
            match instruction {
                Instruction::Do(action) => {
                    if lane.stage == 0 && self.stop.load(Ordering::Relaxed) {
                        return Call::Stopped;
                    }
                    if let Some(call) = self.act(lane, action, result) {
                        return call;
                    }
                    lane.pc += 1;
                    lane.stage = 0;
                }
                Instruction::Repeat { count, counter, end } => {
                    lane.counters[*counter] = *count;
                    lane.pc = if *count == 0 { *end } else { lane.pc + 1 };
                }
                Instruction::Again { start, counter } => {
                    lane.counters[*counter] -= 1;
                    lane.pc = if lane.counters[*counter] == 0 { lane.pc + 1 } else { *start };
                }
            }
        }
    }

    /// The next call of `action`; `None` where it is done.
    #[inline]
    fn act(&mut self, lane: &mut Lane, action: &'p Action<'p>, result: u64) -> Option<Call<'p>> {
        match action.op {
            Op::Create { slot, direct, .. } => self.open(lane, action, (*slot, true, *direct)),
            Op::Open { slot, write, direct, .. } => {
                self.open(lane, action, (*slot, *write, *direct))
            }
            Op::Close { slot } => self.close(lane, *slot),
            Op::Read { slot, access, amount } => {
                self.read(lane, action, (*slot, *access, amount), result)
            }
            Op::Write { slot, access, amount } => {
                self.write(lane, action, (*slot, *access, amount))
            }
            Op::Append { slot, .. } => self.append(lane, action, *slot),
            Op::Overwrite { slot, access, amount } => {
                self.overwrite(lane, action, (*slot, *access, amount), false)
            }
            Op::MmapWrite { slot, access, amount } => {
                self.overwrite(lane, action, (*slot, *access, amount), true)
            }
            Op::Rewrite { slot, access, amount } => {
                self.rewrite(lane, action, (*slot, *access, amount), result)
            }
            Op::MmapRead { slot, access, amount } => {
                self.mmap_read(lane, action, (*slot, *access, amount))
            }
            Op::Truncate { slot, .. } => self.resize(lane, action, *slot, true),
            Op::Fallocate { slot, .. } => self.resize(lane, action, *slot, false),
            Op::Punch { slot, bytes } => self.punch(lane, *slot, *bytes),
            Op::Stat { .. } => self.stat(lane, action),
            Op::Readdir { .. } => self.readdir(lane, action),
            Op::Unlink { .. } | Op::Rmdir { .. } => self.remove(lane, action),
            Op::Mkdir { .. } => self.mkdir(lane, action),
            Op::Rename { into, .. } => self.rename(lane, action, *into),
            Op::Link { into, .. } => self.link(lane, action, *into),
            Op::Symlink { into, .. } => self.symlink(lane, action, *into),
            Op::CopyFileRange { into, .. } => self.copy(lane, action, (*into, false), result),
            Op::Reflink { into, .. } => self.copy(lane, action, (*into, true), result),
            Op::Replay { fileset } => self.replay(lane, action, *fileset, result),
            _ => Self::single(lane, action),
        }
    }

    /// An operation that is one call, and changes nothing that the planner knows.
    fn single(lane: &mut Lane, action: &'p Action<'p>) -> Option<Call<'p>> {
        if lane.stage != 0 {
            return None;
        }
        lane.stage = 1;
        let xattr = || action.xattr.as_deref().unwrap_or_default();
        let (slot, call) = match action.op {
            Op::Fsync { slot } => (Some(*slot), Call::Fsync { place: *slot }),
            Op::Fdatasync { slot } => (Some(*slot), Call::Fdatasync { place: *slot }),
            Op::SyncFileRange { slot } => (Some(*slot), Call::SyncFileRange { place: *slot }),
            Op::Lock { slot } => (Some(*slot), Call::LockUnlock { place: *slot }),
            Op::SetXattr { slot, bytes, .. } => {
                (Some(*slot), Call::SetXattr { place: *slot, name: xattr(), count: *bytes })
            }
            Op::GetXattr { slot, .. } => {
                (Some(*slot), Call::GetXattr { place: *slot, name: xattr() })
            }
            Op::Sleep { duration } => (None, Call::Sleep(*duration)),
            Op::Hog { rounds } => (None, Call::Hog(*rounds)),
            Op::Post { semaphore, count } => {
                (None, Call::Post { semaphore: *semaphore, count: *count })
            }
            Op::Wait { semaphore, count } => {
                (None, Call::Wait { semaphore: *semaphore, count: *count })
            }
            // All others are planned elsewhere.
            _ => return None,
        };
        match slot {
            Some(place) if lane.files[place].is_none() => Some(Call::Empty { place }),
            _ => Some(call),
        }
    }

    /// Opens or makes a file.
    #[inline]
    fn open(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        (slot, write, direct): (Slot, bool, bool),
    ) -> Option<Call<'p>> {
        let new = matches!(action.op, Op::Create { .. });
        if lane.stage == 0 && lane.files[slot].is_some() {
            lane.stage = VACATING;
            return Some(Call::Close { place: slot });
        }
        if lane.stage == VACATING {
            self.closed(lane, slot);
            lane.stage = 0;
        }
        if lane.stage == 0 {
            let want = if new { Want::Absent } else { Want::Use };
            let entry = match self.pick(lane, action, want) {
                Ok(entry) => entry,
                Err(call) => return Some(call),
            };
            lane.work.entry = entry;
            lane.stage = 1;
            let (read, create, exclusive) = (true, new, new);
            let flags = OpenFlags { read, write, create, exclusive, direct, ..OpenFlags::NONE };
            return Some(Call::Open { set: entry.fileset, place: slot, flags });
        }
        if new {
            let content = self.fresh_content();
            let entry = &mut lane.work.entry;
            let name = self.world.sets[entry.fileset].name(entry.index);
            entry.inode = self.world.entries.new_inode(name, content);
            self.world.entries.appear(name, entry.inode);
        }
        lane.files[slot] = Some(OpenFile { entry: lane.work.entry, position: 0, pass: 0, direct });
        lane.opened |= 1 << slot;
        None
    }

    fn close(&mut self, lane: &mut Lane, slot: Slot) -> Option<Call<'p>> {
        if lane.stage == 0 {
            lane.stage = 1;
            let open = lane.files[slot].is_some();
            return Some(if open {
                Call::Close { place: slot }
            } else {
                Call::Empty { place: slot }
            });
        }
        self.closed(lane, slot);
        None
    }

    fn closed(&self, lane: &mut Lane, slot: Slot) {
        if let Some(file) = lane.files[slot].take() {
            self.world.entries.leave(file.entry.inode);
        }
        lane.opened &= !(1 << slot);
    }

    /// Closes what the task that is given up has opened.
    fn give_up(&mut self, lane: &mut Lane) -> Call<'p> {
        if let Some(slot) = lane.closing.take() {
            self.closed(lane, slot);
        }
        if lane.opened == 0 {
            return Call::Skipped(lane.skipped - 1);
        }
        let place = lane.opened.trailing_zeros() as Slot;
        lane.closing = Some(place);
        Call::Close { place }
    }

    /// Forgets what is open, which the executor has closed or closes without being asked.
    pub fn release(&mut self, lane: &mut Lane) {
        (0..SLOTS).for_each(|slot| self.closed(lane, slot));
        lane.closing = None;
    }

    /// Takes an entry of the fileset of `action` and writes its name; else what is to be done instead.
    #[inline]
    pub(super) fn pick(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        want: Want,
    ) -> Result<Entry, Call<'p>> {
        let (fileset, how) = action.op.entry().unwrap_or((0, Pick::Random));
        let set = &self.world.sets[fileset];
        let memory = &mut self.memories[action.number];
        let taken = &self.program.taken[action.number];
        let common = Common { taken, jobs: u64::from(self.program.group.jobs) };
        match pick((&self.world.entries, set), (how, want), memory, common, &mut self.rng) {
            Picked::Entry(index, inode) => {
                set.layout.path(index, &mut lane.name);
                Ok(Entry { fileset, index, inode })
            }
            Picked::Nothing => Err(self.skip(lane, action)),
            Picked::UsedUp => Err(Call::UsedUp),
        }
    }

    /// Takes any entry of `fileset` that does not exist and writes its name as the second.
    pub(super) fn pick_into(&mut self, lane: &mut Lane, fileset: FilesetIndex) -> Option<Entry> {
        let set = &self.world.sets[fileset];
        let (index, inode) = pick_any((&self.world.entries, set), Want::Absent, &mut self.rng)?;
        set.layout.path(index, &mut lane.second);
        Some(Entry { fileset, index, inode })
    }

    /// Gives the task up.
    pub(super) fn skip(&mut self, lane: &mut Lane, action: &'p Action<'p>) -> Call<'p> {
        lane.skipped = action.number + 1;
        self.give_up(lane)
    }

    /// Has the operation begin anew later, with the entry that it had picked.
    pub(super) fn later(&mut self, action: &'p Action<'p>) -> Call<'p> {
        if action.op.is_finite() {
            self.memories[action.number].cursor -= 1;
        }
        Call::Blocked
    }

    /// The number of contents that no other file has.
    pub(super) fn fresh_content(&mut self) -> u32 {
        self.next_content = self.next_content.wrapping_add(1);
        self.next_content
    }

    pub(super) fn set(&self, entry: Entry) -> &'p Set {
        let world = self.world;
        &world.sets[entry.fileset]
    }

    /// The paths that `call` works on, for messages.
    #[must_use]
    pub fn subject(&self, lane: &Lane, call: &Call<'_>) -> String {
        let path = |entry: Entry| self.set(entry).layout.full_path(entry.index);
        let of_place = |place: Slot| match lane.files.get(place) {
            Some(Some(file)) => path(file.entry),
            Some(None) => path(lane.work.entry),
            None if place == TO => path(lane.work.into),
            None => path(lane.work.entry),
        };
        match *call {
            Call::Open { place, .. } if place == TO => path(lane.work.into),
            Call::Open { .. } => path(lane.work.entry),
            Call::Close { place }
            | Call::Read { place, .. }
            | Call::Write { place, .. }
            | Call::WriteBack { place, .. }
            | Call::MmapRead { place, .. }
            | Call::MmapWrite { place, .. }
            | Call::Fsync { place }
            | Call::Fdatasync { place }
            | Call::SyncFileRange { place }
            | Call::Truncate { place, .. }
            | Call::Fallocate { place, .. }
            | Call::Punch { place, .. }
            | Call::LockUnlock { place }
            | Call::SetXattr { place, .. }
            | Call::GetXattr { place, .. }
            | Call::Short { place, .. } => of_place(place),
            Call::Rename { .. } | Call::Link { .. } | Call::CopyRange { .. } | Call::Reflink => {
                format!("{} to {}", path(lane.work.entry), path(lane.work.into))
            }
            Call::Symlink { .. } => path(lane.work.into),
            _ => path(lane.work.entry),
        }
    }
}
