//! The calls of a ring, each queued for a free slot and made when the queue is handed over. Offsets and
//! counts are in bytes. Every method panics where the slot is in use or does not exist, a fault of the
//! caller, and fails at once with `EBADF` for a file that the ring no longer has.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::time::Duration;

use io_uring::types::{Fd, Fixed, FsyncFlags, Timespec};
use io_uring::{opcode, squeue};
use rustix::io::Errno;

use super::{NAME_BYTES, NO_FILE, Ring, RingFile, SlotIndex, Use};
use crate::calls::{CallResult, OpenFlags};

impl Ring {
    /// The number of a file, which stays for the call of the slot.
    #[inline]
    fn number(&mut self, slot: SlotIndex, file: RingFile) -> CallResult<RawFd> {
        self.assert_free(slot);
        let held = self.files.get(file.0 as usize).and_then(|held| held.file.as_ref());
        let number = held.ok_or(Errno::BADF)?.as_raw_fd();
        self.slot_files[slot] = [file.0, NO_FILE];
        Ok(number)
    }

    /// Numbers of two directories.
    fn numbers(
        &mut self,
        slot: SlotIndex,
        first: RingFile,
        second: RingFile,
    ) -> CallResult<(RawFd, RawFd)> {
        let of_second = self.number(slot, second)?;
        let of_first = self.number(slot, first)?;
        self.slot_files[slot] = [first.0, second.0];
        Ok((of_first, of_second))
    }

    #[inline]
    fn assert_free(&self, slot: SlotIndex) {
        assert!(self.uses[slot] == Use::Free, "slot {slot} is in use");
    }

    /// Where the buffer of a free slot begins, which holds `count_bytes`.
    #[inline]
    fn place_for(&self, slot: SlotIndex, count_bytes: usize) -> *mut u8 {
        self.assert_free(slot);
        assert!(count_bytes <= self.buffer_bytes, "{count_bytes} bytes do not fit into the buffer");
        self.place(slot)
    }

    /// Copies a name to the slot; `ENAMETOOLONG` for one that no call would take.
    fn keep_name(
        &mut self,
        slot: SlotIndex,
        which: usize,
        name: &CStr,
    ) -> CallResult<*const libc::c_char> {
        self.assert_free(slot);
        let bytes = name.to_bytes_with_nul();
        if bytes.len() > NAME_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        let kept = &mut self.memory.slots[slot].names[which];
        kept.clear();
        kept.extend_from_slice(bytes);
        Ok(kept.as_ptr().cast())
    }

    #[inline]
    fn queue(&mut self, slot: SlotIndex, entry: squeue::Entry) {
        self.queue_as(slot, Use::Plain, entry);
    }

    #[inline]
    fn queue_as(&mut self, slot: SlotIndex, used: Use, entry: squeue::Entry) {
        self.assert_free(slot);
        let entry = entry.user_data(slot as u64);
        for index in self.slot_files[slot] {
            if index != NO_FILE {
                self.files[index as usize].calls += 1;
            }
        }
        // SAFETY: the methods of this module, the only callers, point to the memory of `slot` alone.
        unsafe { self.push(slot, used, &entry) };
    }

    /// Reads `count_bytes` at `offset_bytes` into the slot's buffer. The result is the count that was
    /// read, less at the end of the file.
    ///
    /// # Errors
    /// The ring has no such file.
    #[inline]
    pub fn read(
        &mut self,
        slot: SlotIndex,
        file: RingFile,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> CallResult<()> {
        let number = self.number(slot, file)?;
        let place = self.place_for(slot, count_bytes);
        let count = count_bytes as u32;
        let entry = match (self.registers_buffers, file.0 < self.registered_files) {
            (false, false) => {
                opcode::Read::new(Fd(number), place, count).offset(offset_bytes).build()
            }
            (false, true) => {
                opcode::Read::new(Fixed(file.0), place, count).offset(offset_bytes).build()
            }
            (true, false) => opcode::ReadFixed::new(Fd(number), place, count, slot as u16)
                .offset(offset_bytes)
                .build(),
            (true, true) => opcode::ReadFixed::new(Fixed(file.0), place, count, slot as u16)
                .offset(offset_bytes)
                .build(),
        };
        self.queue(slot, entry);
        Ok(())
    }

    /// Writes the first `count_bytes` of the slot's buffer at `offset_bytes`. The result is the count
    /// that was written, which may be less.
    ///
    /// # Errors
    /// The ring has no such file.
    #[inline]
    pub fn write(
        &mut self,
        slot: SlotIndex,
        file: RingFile,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> CallResult<()> {
        self.write_from(slot, file, 0, offset_bytes, count_bytes)
    }

    /// Writes `count_bytes` of the slot's buffer from its byte `start` on: the rest of a write that took
    /// less than it was given.
    ///
    /// # Errors
    /// The ring has no such file.
    #[inline]
    pub fn write_from(
        &mut self,
        slot: SlotIndex,
        file: RingFile,
        start: usize,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> CallResult<()> {
        let number = self.number(slot, file)?;
        let place = self.place_for(slot, start + count_bytes).wrapping_add(start).cast_const();
        let count = count_bytes as u32;
        let entry = match (self.registers_buffers, file.0 < self.registered_files) {
            (false, false) => {
                opcode::Write::new(Fd(number), place, count).offset(offset_bytes).build()
            }
            (false, true) => {
                opcode::Write::new(Fixed(file.0), place, count).offset(offset_bytes).build()
            }
            (true, false) => opcode::WriteFixed::new(Fd(number), place, count, slot as u16)
                .offset(offset_bytes)
                .build(),
            (true, true) => opcode::WriteFixed::new(Fixed(file.0), place, count, slot as u16)
                .offset(offset_bytes)
                .build(),
        };
        self.queue(slot, entry);
        Ok(())
    }

    /// Makes a file durable. Calls that are under way at the same time are not waited for.
    ///
    /// # Errors
    /// The ring has no such file.
    pub fn fsync(&mut self, slot: SlotIndex, file: RingFile) -> CallResult<()> {
        let number = self.number(slot, file)?;
        self.queue(slot, opcode::Fsync::new(Fd(number)).build());
        Ok(())
    }

    /// Makes its data durable, as [`Ring::fsync`].
    ///
    /// # Errors
    /// The ring has no such file.
    pub fn fdatasync(&mut self, slot: SlotIndex, file: RingFile) -> CallResult<()> {
        let number = self.number(slot, file)?;
        self.queue(slot, opcode::Fsync::new(Fd(number)).flags(FsyncFlags::DATASYNC).build());
        Ok(())
    }

    /// Asks for `count_bytes` from `offset_bytes` on to be written and waits for that; 0 bytes: up to the
    /// end.
    ///
    /// # Errors
    /// The ring has no such file.
    pub fn sync_file_range(
        &mut self,
        slot: SlotIndex,
        file: RingFile,
        offset_bytes: u64,
        count_bytes: u32,
    ) -> CallResult<()> {
        let number = self.number(slot, file)?;
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        let call = opcode::SyncFileRange::new(Fd(number), count_bytes);
        self.queue(slot, call.offset(offset_bytes).flags(flags).build());
        Ok(())
    }

    /// Reserves `count_bytes` from `offset_bytes` on; the size grows with it.
    ///
    /// # Errors
    /// The ring has no such file.
    pub fn fallocate(
        &mut self,
        slot: SlotIndex,
        file: RingFile,
        offset_bytes: u64,
        count_bytes: u64,
    ) -> CallResult<()> {
        let number = self.number(slot, file)?;
        let call = opcode::Fallocate::new(Fd(number), count_bytes).offset(offset_bytes);
        self.queue(slot, call.build());
        Ok(())
    }

    /// Gives `count_bytes` from `offset_bytes` on back to the filesystem; the size stays.
    ///
    /// # Errors
    /// The ring has no such file.
    pub fn punch(
        &mut self,
        slot: SlotIndex,
        file: RingFile,
        offset_bytes: u64,
        count_bytes: u64,
    ) -> CallResult<()> {
        let number = self.number(slot, file)?;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let call = opcode::Fallocate::new(Fd(number), count_bytes).offset(offset_bytes).mode(mode);
        self.queue(slot, call.build());
        Ok(())
    }

    /// Sets the size; see [`Ring::makes_truncate`].
    ///
    /// # Errors
    /// The ring has no such file.
    pub fn truncate(&mut self, slot: SlotIndex, file: RingFile, size_bytes: u64) -> CallResult<()> {
        let number = self.number(slot, file)?;
        self.queue(slot, opcode::Ftruncate::new(Fd(number), size_bytes).build());
        Ok(())
    }

    /// Opens `name` in `dir`; the completion holds the file, which the ring owns.
    ///
    /// # Errors
    /// The ring has no such directory, or the name is too long.
    pub fn open(
        &mut self,
        slot: SlotIndex,
        dir: RingFile,
        name: &CStr,
        flags: OpenFlags,
    ) -> CallResult<()> {
        let number = self.number(slot, dir)?;
        let name = self.keep_name(slot, 0, name)?;
        let flags = flags.open_flags().bits() as i32;
        let call = opcode::OpenAt::new(Fd(number), name).flags(flags).mode(0o666);
        self.queue_as(slot, Use::Open, call.build());
        Ok(())
    }

    /// Closes a file. The ring no longer has it from now on.
    ///
    /// # Errors
    /// The ring has no such file, or (`EBUSY`) calls on it are under way.
    pub fn close(&mut self, slot: SlotIndex, file: RingFile) -> CallResult<()> {
        self.assert_free(slot);
        let owned = self.take_file(file)?;
        self.slot_files[slot] = [NO_FILE; 2];
        self.queue(slot, opcode::Close::new(Fd(owned.into_raw_fd())).build());
        Ok(())
    }

    /// Asks for size, kind and inode number of `name` in `dir`, for [`Ring::facts`]; a symbolic link is
    /// not followed.
    ///
    /// # Errors
    /// The ring has no such directory, or the name is too long.
    pub fn stat(&mut self, slot: SlotIndex, dir: RingFile, name: &CStr) -> CallResult<()> {
        let number = self.number(slot, dir)?;
        let name = self.keep_name(slot, 0, name)?;
        let found: *mut libc::statx = &raw mut self.memory.slots[slot].attributes;
        let call = opcode::Statx::new(Fd(number), name, found.cast())
            .flags(libc::AT_SYMLINK_NOFOLLOW)
            .mask(libc::STATX_BASIC_STATS);
        self.queue(slot, call.build());
        Ok(())
    }

    /// Removes the file `name` from `dir`.
    ///
    /// # Errors
    /// The ring has no such directory, or the name is too long.
    pub fn unlink(&mut self, slot: SlotIndex, dir: RingFile, name: &CStr) -> CallResult<()> {
        let number = self.number(slot, dir)?;
        let name = self.keep_name(slot, 0, name)?;
        self.queue(slot, opcode::UnlinkAt::new(Fd(number), name).build());
        Ok(())
    }

    /// Removes the empty directory `name` from `dir`.
    ///
    /// # Errors
    /// The ring has no such directory, or the name is too long.
    pub fn rmdir(&mut self, slot: SlotIndex, dir: RingFile, name: &CStr) -> CallResult<()> {
        let number = self.number(slot, dir)?;
        let name = self.keep_name(slot, 0, name)?;
        let call = opcode::UnlinkAt::new(Fd(number), name).flags(libc::AT_REMOVEDIR);
        self.queue(slot, call.build());
        Ok(())
    }

    /// Makes the directory `name` in `dir` (mode 0777 less the umask).
    ///
    /// # Errors
    /// The ring has no such directory, or the name is too long.
    pub fn mkdir(&mut self, slot: SlotIndex, dir: RingFile, name: &CStr) -> CallResult<()> {
        let number = self.number(slot, dir)?;
        let name = self.keep_name(slot, 0, name)?;
        self.queue(slot, opcode::MkDirAt::new(Fd(number), name).mode(0o777).build());
        Ok(())
    }

    /// Renames `old` in `old_dir` to `new` in `new_dir`, in place of what had that name.
    ///
    /// # Errors
    /// The ring has no such directory, or a name is too long.
    pub fn rename(
        &mut self,
        slot: SlotIndex,
        (old_dir, old): (RingFile, &CStr),
        (new_dir, new): (RingFile, &CStr),
    ) -> CallResult<()> {
        let (from, to) = self.numbers(slot, old_dir, new_dir)?;
        let (old, new) = (self.keep_name(slot, 0, old)?, self.keep_name(slot, 1, new)?);
        self.queue(slot, opcode::RenameAt::new(Fd(from), old, Fd(to), new).build());
        Ok(())
    }

    /// Gives the file `old` in `old_dir` the further name `new` in `new_dir`.
    ///
    /// # Errors
    /// The ring has no such directory, or a name is too long.
    pub fn link(
        &mut self,
        slot: SlotIndex,
        (old_dir, old): (RingFile, &CStr),
        (new_dir, new): (RingFile, &CStr),
    ) -> CallResult<()> {
        let (from, to) = self.numbers(slot, old_dir, new_dir)?;
        let (old, new) = (self.keep_name(slot, 0, old)?, self.keep_name(slot, 1, new)?);
        self.queue(slot, opcode::LinkAt::new(Fd(from), old, Fd(to), new).build());
        Ok(())
    }

    /// Makes the symbolic link `name` in `dir`, which holds `target`.
    ///
    /// # Errors
    /// The ring has no such directory, or a name is too long.
    pub fn symlink(
        &mut self,
        slot: SlotIndex,
        target: &CStr,
        dir: RingFile,
        name: &CStr,
    ) -> CallResult<()> {
        let number = self.number(slot, dir)?;
        let (target, name) = (self.keep_name(slot, 0, target)?, self.keep_name(slot, 1, name)?);
        self.queue(slot, opcode::SymlinkAt::new(Fd(number), target, name).build());
        Ok(())
    }

    /// Ends after `duration`, with `ETIME`.
    pub fn timeout(&mut self, slot: SlotIndex, duration: Duration) {
        self.assert_free(slot);
        self.slot_files[slot] = [NO_FILE; 2];
        let time = &mut self.memory.slots[slot].time;
        *time = Timespec::from(duration);
        let time: *const Timespec = &raw const *time;
        self.queue(slot, opcode::Timeout::new(time).build());
    }
}
