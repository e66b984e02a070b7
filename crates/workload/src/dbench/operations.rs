//! The calls that dbench makes for each operation. Which operation comes next, and how long it took, is
//! left to [`super::client`].

use std::os::fd::OwnedFd;
use std::time::Duration;

use fsdyno_sys::Errno;
use fsdyno_sys::calls::{CallResult, Calls, FileFacts, Real};
use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps};

use super::client::{ClientPath, Contents, Handle, State, moved};
use super::program::{Action, PathIndex, Place, Step, Then};
use super::status::{Expected, NOT_OPEN};
use super::tree::delete_tree;
use crate::payload::{GOLDEN, mix};
use crate::recorder::{Operation, Recorder};

/// Files are private, as the original makes them.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Places in files stay below this.
const PLACE_MASK: u64 = (1 << 62) - 1;

impl State<'_> {
    #[inline]
    pub(super) fn carry_out(&mut self, step: &Step, recorder: &mut Recorder) -> CallResult<()> {
        match step.action {
            Action::Read { slot, place, size, done } => {
                let count = self.read((slot, place, size), recorder);
                recorder.read_bytes += count.unwrap_or(0) as u64;
                moved(count, done, &mut recorder.bytes)
            }
            Action::QueryPath { path } => self.look_up(path, recorder),
            Action::Open { path, slot, flags } => {
                let opened = self.open(path, slot, flags, recorder);
                self.finish(opened, step.then, path, recorder)
            }
            Action::Close { slot } => {
                let handle = self.handles[slot as usize].take().ok_or(NOT_OPEN)?;
                let closed = Real.close(handle.fd);
                recorder.end(Operation::Close);
                closed
            }
            Action::QueryFile { slot } => {
                let found = Real.stat_open(&self.handle(slot)?.fd);
                recorder.end(Operation::Stat);
                found.map(drop)
            }
            Action::Find { path } => self.find(path, step.expected, recorder),
            Action::Unlink { path } => {
                let _ = self.seek(path, recorder);
                let removed = Real.unlink(self.root, &self.path(path).name);
                recorder.end(Operation::Unlink);
                self.finish(removed, step.then, path, recorder)
            }
            Action::QueryFs => {
                let answer = rustix::fs::fstatfs(self.root).map(drop);
                recorder.end(Operation::Statfs);
                answer
            }
            Action::SetFile { slot } => self.set_times(slot, recorder),
            Action::Flush { slot } => {
                let flushed = Real.fsync(&self.handle(slot)?.fd);
                recorder.end(Operation::Fsync);
                flushed
            }
            Action::Rename { old, new } => {
                let renamed = self.rename(old, new, recorder);
                self.finish(renamed, step.then, new, recorder)
            }
            Action::Lock { slot } => {
                let locked = self.lock(slot);
                recorder.end(Operation::Lock);
                locked
            }
            Action::Unlock { slot } => {
                let fd = &self.handle(slot)?.fd;
                let unlocked = rustix::fs::flock(fd, FlockOperation::Unlock);
                recorder.end(Operation::Unlock);
                unlocked
            }
            _ => self.carry_out_rare(step, recorder),
        }
    }

    fn carry_out_rare(&mut self, step: &Step, recorder: &mut Recorder) -> CallResult<()> {
        match step.action {
            Action::OpenDirectory { path, slot, makes } => {
                let opened = self.open_directory(path, slot, makes, recorder);
                self.finish(opened, step.then, path, recorder)
            }
            Action::Mkdir { path } => {
                let _ = self.seek(path, recorder);
                let made = self.make_directory(path, recorder);
                self.finish(made, step.then, path, recorder)
            }
            Action::Rmdir { path } => {
                let _ = self.seek(path, recorder);
                let removed = Real.rmdir(self.root, &self.path(path).name);
                recorder.end(Operation::Rmdir);
                self.finish(removed, step.then, path, recorder)
            }
            Action::Deltree { path } => {
                let keeps = self.manner.keeps_directories;
                delete_tree(self.root, &self.path(path).name, keeps, recorder)
            }
            _ => {
                self.control(step);
                recorder.begin();
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn path(&self, path: PathIndex) -> &ClientPath {
        &self.paths[path.resolve(&self.drawn)]
    }

    #[inline(always)]
    fn handle(&self, slot: u32) -> CallResult<&Handle> {
        self.handles[slot as usize].as_ref().ok_or(NOT_OPEN)
    }

    #[inline(always)]
    fn place(&mut self, place: Place) -> u64 {
        self.place = match place {
            Place::Fixed(place) => place,
            Place::Next(step) => self.place.wrapping_add(step) & PLACE_MASK,
            Place::Drawn(index) => {
                let drawn = self.program.places[index as usize];
                self.draw_count += 1;
                let random = mix(self.draw_count.wrapping_mul(GOLDEN)) % drawn.below;
                random / u64::from(drawn.align) * u64::from(drawn.align) + drawn.add
            }
        };
        self.place
    }

    /// Asks for the attributes of a path; where it is absent its directory is read through.
    #[inline]
    fn look_up(&mut self, path: PathIndex, recorder: &mut Recorder) -> CallResult<()> {
        let found = Real.stat(self.root, &self.path(path).name).map(drop);
        recorder.end(Operation::Stat);
        if found.is_err() && self.manner.resolves {
            let _ = self.read_directory(path, recorder);
        }
        found
    }

    /// The same before an operation that needs it only to find another spelling.
    #[inline]
    fn seek(&mut self, path: PathIndex, recorder: &mut Recorder) -> CallResult<()> {
        if self.manner.resolves { self.look_up(path, recorder) } else { Ok(()) }
    }

    /// Reads the directory of a path through.
    fn read_directory(&mut self, path: PathIndex, recorder: &mut Recorder) -> CallResult<()> {
        let parent = &self.paths[path.resolve(&self.drawn)].parent;
        let directory = Real.open_dir(self.root, parent)?;
        recorder.end(Operation::Open);
        let listed = Real.list(&directory, &mut self.list_buffer, |_, _, _| {});
        recorder.end(Operation::List);
        let closed = Real.close(directory);
        recorder.end(Operation::Close);
        listed.and(closed)
    }

    #[inline]
    fn open(
        &mut self,
        path: PathIndex,
        slot: u32,
        flags: OFlags,
        recorder: &mut Recorder,
    ) -> CallResult<()> {
        let _ = self.seek(path, recorder);
        let name = &self.path(path).name;
        let opened = match rustix::fs::openat(self.root, name, flags, FILE_MODE) {
            Err(Errno::ISDIR) => Real.open_dir(self.root, name),
            other => other,
        };
        let is_created = flags.contains(OFlags::CREATE);
        recorder.end(if is_created { Operation::Create } else { Operation::Open });
        self.keep(path, slot, opened?, recorder)
    }

    fn open_directory(
        &mut self,
        path: PathIndex,
        slot: u32,
        makes: bool,
        recorder: &mut Recorder,
    ) -> CallResult<()> {
        let _ = self.seek(path, recorder);
        if makes {
            self.make_directory(path, recorder)?;
        }
        let opened = Real.open_dir(self.root, &self.path(path).name);
        recorder.end(Operation::Open);
        self.keep(path, slot, opened?, recorder)
    }

    /// Keeps what was opened, and asks for its attributes.
    #[inline]
    fn keep(
        &mut self,
        path: PathIndex,
        slot: u32,
        fd: OwnedFd,
        recorder: &mut Recorder,
    ) -> CallResult<()> {
        let facts = Real.stat_open(&fd);
        recorder.end(Operation::Stat);
        recorder.files += 1;
        let key = self.keys[path.resolve(&self.drawn)];
        self.handles[slot as usize] = Some(Handle { fd, key });
        facts.map(|_: FileFacts| ())
    }

    /// A directory that is there already is fine, as it is for the original.
    fn make_directory(&mut self, path: PathIndex, recorder: &mut Recorder) -> CallResult<()> {
        let made = Real.mkdir(self.root, &self.path(path).name);
        recorder.end(Operation::Mkdir);
        if made == Err(Errno::EXIST) { Ok(()) } else { made }
    }

    /// The pattern is looked for as a name, and its directory read; entries are not compared with it.
    fn find(
        &mut self,
        path: PathIndex,
        expected: Expected,
        recorder: &mut Recorder,
    ) -> CallResult<()> {
        let _ = self.seek(path, recorder);
        let read = self.read_directory(path, recorder);
        if read.is_ok() && expected == Expected::NotFound { Err(Errno::NOENT) } else { read }
    }

    fn rename(
        &mut self,
        old: PathIndex,
        new: PathIndex,
        recorder: &mut Recorder,
    ) -> CallResult<()> {
        let _ = self.seek(old, recorder);
        let _ = self.seek(new, recorder);
        let (old, new) = (old.resolve(&self.drawn), new.resolve(&self.drawn));
        let (from, to) = (&self.paths[old].name, &self.paths[new].name);
        let renamed = Real.rename(self.root, from, self.root, to);
        recorder.end(Operation::Rename);
        if renamed.is_ok() && old != new {
            self.keys[new] = self.keys[old];
            self.fresh_key = self.fresh_key.wrapping_add(GOLDEN);
            self.keys[old] = mix(self.fresh_key);
        }
        renamed
    }

    /// Sets the times back a little, as the original does.
    fn set_times(&mut self, slot: u32, recorder: &mut Recorder) -> CallResult<()> {
        const BACK_S: i64 = 10;
        let fd = &self.handle(slot)?.fd;
        let found = rustix::fs::fstat(fd)?;
        recorder.end(Operation::Stat);
        let back = |seconds: i64| Timespec { tv_sec: seconds - BACK_S, tv_nsec: 0 };
        let (last_access, last_modification) = (back(found.st_atime), back(found.st_mtime));
        let set = rustix::fs::futimens(fd, &Timestamps { last_access, last_modification });
        recorder.end(Operation::Utimens);
        set
    }

    /// Waits for the lock, but not beyond the end.
    fn lock(&mut self, slot: u32) -> CallResult<()> {
        loop {
            let fd = &self.handle(slot)?.fd;
            match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::AGAIN) if !self.is_over() => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                other => return other,
            }
        }
    }

    #[inline]
    fn read(
        &mut self,
        (slot, place, size): (u32, Place, u32),
        recorder: &mut Recorder,
    ) -> CallResult<usize> {
        let place = self.place(place);
        let handle = self.handles[slot as usize].as_ref().ok_or(NOT_OPEN)?;
        let buffer = &mut self.read_buffer[..size as usize];
        let count = Real.read_at(&handle.fd, buffer, place);
        recorder.end(Operation::Read);
        count
    }

    #[inline]
    pub(super) fn write<W: Contents>(
        &mut self,
        writing: &mut W,
        (slot, place, size): (u32, Place, u32),
        since: &mut u64,
        recorder: &mut Recorder,
    ) -> CallResult<usize> {
        let place = self.place(place);
        let handle = self.handles[slot as usize].as_ref().ok_or(NOT_OPEN)?;
        let bytes = writing.bytes(self.pattern, handle.key, place, size as usize);
        recorder.begin();
        // Making the payload is not the operation's.
        *since = self.timer.now();
        let written = Real.write_all_at(&handle.fd, bytes, place);
        recorder.end(Operation::Write);
        written?;
        if self.program.steps[self.step - 1].then == Then::SyncFile {
            let synced = Real.fsync(&handle.fd);
            recorder.end(Operation::Fsync);
            synced?;
        }
        Ok(bytes.len())
    }

    /// What is asked to follow an operation that succeeded.
    #[inline]
    fn finish(
        &self,
        outcome: CallResult<()>,
        then: Then,
        path: PathIndex,
        recorder: &mut Recorder,
    ) -> CallResult<()> {
        outcome?;
        if then != Then::SyncDirectory {
            return Ok(());
        }
        let directory = Real.open_dir(self.root, &self.path(path).parent)?;
        recorder.end(Operation::Open);
        let synced = Real.fsync(&directory);
        recorder.end(Operation::Fsync);
        let closed = Real.close(directory);
        recorder.end(Operation::Close);
        synced.and(closed)
    }
}
