//! io_uring for the measured region: a ring whose slots own all memory that the kernel works on, so that
//! nothing can be freed or moved under a call that is under way. Which calls are made when, and what
//! their results mean, is left to the caller; the calls themselves are in [`submit`](Ring::read).
//!
//! A slot is one call at a time: its buffer, its names and its place for attributes. It is free, then
//! queued by one of the typed methods ([`Ring::read`], [`Ring::open`], …), handed to the kernel by
//! [`Ring::submit_and_wait`], and free again when [`Ring::next_completion`] has given its result. Files
//! are owned by the ring as well ([`Ring::add_file`]), so that a queued number cannot come to mean another.

mod submit;

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::io::Errno;

use crate::buffer::AlignedBuffer;
use crate::calls::{CallResult, FileFacts, FileKind};

/// Longest name that a slot takes, in bytes, with its NUL.
const NAME_BYTES: usize = 4096;
/// How long to rest where an old kernel cannot wait with a limit.
const REST: Duration = Duration::from_micros(100);

/// What a ring is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSettings {
    /// Number of slots: the most calls that are under way at once, 1 … 32768.
    pub depth: u32,
    /// Bytes of the buffer of each slot.
    pub buffer_bytes: usize,
    /// Whether buffers and files are registered with the kernel, which saves it looking them up for each
    /// call of [`Ring::read`] and [`Ring::write`]. Files are then those that [`Ring::add_file`] got before
    /// the first call; later ones are used as they are.
    pub registered: bool,
}

/// Why there is no ring: it is no fault of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// What io_uring_setup answered.
    pub errno: Errno,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self.errno {
            Errno::NOSYS => "the kernel has no io_uring: it takes Linux 5.6 or newer",
            Errno::PERM => {
                "io_uring is forbidden here: see kernel.io_uring_disabled (sysctl) and the limits of \
                 the container"
            }
            Errno::NOMEM => "there is no memory to lock for io_uring: raise `ulimit -l`",
            Errno::MFILE | Errno::NFILE => "too many files are open: raise `ulimit -n`",
            _ => "io_uring cannot be set up",
        };
        write!(f, "{reason} ({})", crate::error::describe(self.errno))
    }
}

impl std::error::Error for Unavailable {}

/// Index of a slot, 0 … depth − 1.
pub type SlotIndex = usize;

/// A file or directory that a ring owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingFile(u32);

/// A file with the number of calls on it that are under way. A kernel may look a number up as late as in
/// a thread of its own, so a file stays until that is 0.
struct Held {
    file: Option<OwnedFd>,
    calls: u32,
}

/// No file, where a slot names one.
const NO_FILE: u32 = u32::MAX;

/// The kind of call that a slot makes, as far as its result is treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Plain,
    Open,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its slot, free again.
    pub slot: SlotIndex,
    /// What the call returned: a count of bytes or 0.
    pub result: CallResult<u32>,
    /// The file that it opened.
    pub opened: Option<RingFile>,
}

/// Memory of a slot besides its buffer, never moved.
struct Slot {
    names: [Vec<u8>; 2],
    attributes: libc::statx,
    time: Timespec,
}

/// Everything that the kernel may look at while calls are under way.
struct Memory {
    buffers: AlignedBuffer,
    slots: Box<[Slot]>,
}

/// A ring with its slots and files. It stays in the thread that made it. Dropping it waits for the calls
/// that are under way.
pub struct Ring {
    io: IoUring,
    memory: ManuallyDrop<Memory>,
    /// Where the buffer of the first slot begins. Buffers are reached through it alone, one at a time.
    first_buffer: NonNull<u8>,
    uses: Vec<Use>,
    /// The files that the call of each slot works on.
    slot_files: Vec<[u32; 2]>,
    /// Bytes from the buffer of one slot to that of the next.
    stride_bytes: usize,
    buffer_bytes: usize,
    files: Vec<Held>,
    free_files: Vec<u32>,
    /// Calls that were queued and have not ended.
    in_flight: u32,
    registers_buffers: bool,
    /// Files below this index are registered.
    registered_files: u32,
    /// Only the thread that made the ring may use it.
    thread: PhantomData<*mut ()>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("depth", &self.uses.len())
            .field("buffer_bytes", &self.buffer_bytes)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets up a ring, with what makes it fastest on this kernel.
    ///
    /// # Errors
    /// When the kernel has no io_uring, refuses it, or takes no such depth.
    pub fn new(settings: RingSettings) -> Result<Ring, Unavailable> {
        let io = set_up(settings.depth).map_err(|error| Unavailable { errno: errno_of(&error) })?;
        let depth = settings.depth as usize;
        let stride_bytes =
            settings.buffer_bytes.max(1).next_multiple_of(AlignedBuffer::ALIGNMENT_BYTES);
        let slot = || Slot {
            names: [Vec::with_capacity(NAME_BYTES), Vec::with_capacity(NAME_BYTES)],
            // SAFETY: the structure consists of integers, for which zeros are values.
            attributes: unsafe { std::mem::zeroed() },
            time: Timespec::new(),
        };
        let mut memory = ManuallyDrop::new(Memory {
            buffers: AlignedBuffer::new(stride_bytes * depth),
            slots: (0..depth).map(|_| slot()).collect(),
        });
        let first_buffer = NonNull::from(&mut *memory.buffers).cast();
        let mut ring = Ring {
            io,
            memory,
            first_buffer,
            uses: vec![Use::Free; depth],
            slot_files: vec![[NO_FILE; 2]; depth],
            stride_bytes,
            buffer_bytes: settings.buffer_bytes,
            files: Vec::new(),
            free_files: Vec::new(),
            in_flight: 0,
            registers_buffers: false,
            registered_files: 0,
            thread: PhantomData,
        };
        if settings.registered {
            ring.register_buffers().map_err(|error| Unavailable { errno: errno_of(&error) })?;
        }
        Ok(ring)
    }

    fn register_buffers(&mut self) -> std::io::Result<()> {
        let vectors: Vec<libc::iovec> = (0..self.uses.len())
            .map(|slot| libc::iovec {
                iov_base: self.place(slot).cast(),
                iov_len: self.stride_bytes,
            })
            .collect();
        // SAFETY: the vectors lie within `memory.buffers`, which is freed after all calls have ended, or
        // never.
        unsafe { self.io.submitter().register_buffers(&vectors)? };
        self.registers_buffers = true;
        Ok(())
    }

    /// Has the kernel look the files up once for all calls, those that the ring owns now. Without it, or
    /// where it is refused, they are looked up for each call.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn register_files(&mut self) -> CallResult<()> {
        let number = |held: &Held| held.file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let numbers: Vec<RawFd> = self.files.iter().map(number).collect();
        self.io.submitter().register_files(&numbers).map_err(|error| errno_of(&error))?;
        self.registered_files = numbers.len() as u32;
        Ok(())
    }

    /// Whether the kernel knows all calls that this module makes (Linux 5.15; but for
    /// [`Ring::truncate`], Linux 6.9). Reads, writes and syncs are known wherever a ring can be set up.
    #[must_use]
    pub fn makes_metadata_calls(&self) -> bool {
        self.knows(&[
            opcode::OpenAt::CODE,
            opcode::Close::CODE,
            opcode::Statx::CODE,
            opcode::UnlinkAt::CODE,
            opcode::RenameAt::CODE,
            opcode::MkDirAt::CODE,
            opcode::SymlinkAt::CODE,
            opcode::LinkAt::CODE,
            opcode::Fallocate::CODE,
        ])
    }

    /// Whether the kernel knows [`Ring::truncate`].
    #[must_use]
    pub fn makes_truncate(&self) -> bool {
        self.knows(&[opcode::Ftruncate::CODE])
    }

    fn knows(&self, codes: &[u8]) -> bool {
        let mut probe = Probe::new();
        self.io.submitter().register_probe(&mut probe).is_ok()
            && codes.iter().all(|code| probe.is_supported(*code))
    }

    /// Number of slots.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.uses.len()
    }

    /// Number of calls that were queued and have not ended.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight as usize
    }

    /// Gives the ring a file or directory for its calls.
    pub fn add_file(&mut self, file: OwnedFd) -> RingFile {
        let held = Held { file: Some(file), calls: 0 };
        match self.free_files.pop() {
            Some(index) => {
                self.files[index as usize] = held;
                RingFile(index)
            }
            None => {
                self.files.push(held);
                RingFile(self.files.len() as u32 - 1)
            }
        }
    }

    /// Takes a file back.
    ///
    /// # Errors
    /// `EBADF` for a file that the ring no longer has, `EBUSY` while calls on it are under way.
    pub fn take_file(&mut self, file: RingFile) -> CallResult<OwnedFd> {
        let held = self.files.get_mut(file.0 as usize).ok_or(Errno::BADF)?;
        if held.calls > 0 {
            return Err(Errno::BUSY);
        }
        let taken = held.file.take().ok_or(Errno::BADF)?;
        // The number of a registered file would go on meaning what was registered.
        if file.0 >= self.registered_files {
            self.free_files.push(file.0);
        }
        Ok(taken)
    }

    /// Where the buffer of a slot begins.
    #[inline]
    fn place(&self, slot: SlotIndex) -> *mut u8 {
        self.first_buffer.as_ptr().wrapping_add(slot * self.stride_bytes)
    }

    /// The buffer of a free slot.
    ///
    /// # Panics
    /// When the slot is in use or does not exist: a fault of the caller.
    #[inline]
    #[must_use]
    pub fn buffer(&self, slot: SlotIndex) -> &[u8] {
        assert!(self.uses[slot] == Use::Free, "slot {slot} is in use");
        // SAFETY: each slot's buffer lies within `memory.buffers`, and nobody writes to a free one while
        // the ring is borrowed.
        unsafe { std::slice::from_raw_parts(self.place(slot), self.buffer_bytes) }
    }

    /// The same to be written to.
    ///
    /// # Panics
    /// As [`Ring::buffer`].
    #[inline]
    pub fn buffer_mut(&mut self, slot: SlotIndex) -> &mut [u8] {
        assert!(self.uses[slot] == Use::Free, "slot {slot} is in use");
        // SAFETY: as in `buffer`; the exclusive borrow of the ring extends over the result.
        unsafe { std::slice::from_raw_parts_mut(self.place(slot), self.buffer_bytes) }
    }

    /// What [`Ring::stat`] found last in a free slot.
    ///
    /// # Panics
    /// As [`Ring::buffer`].
    #[must_use]
    pub fn facts(&self, slot: SlotIndex) -> FileFacts {
        assert!(self.uses[slot] == Use::Free, "slot {slot} is in use");
        let found = &self.memory.slots[slot].attributes;
        let kind = match u32::from(found.stx_mode) & libc::S_IFMT {
            libc::S_IFREG => FileKind::File,
            libc::S_IFDIR => FileKind::Directory,
            libc::S_IFLNK => FileKind::Symlink,
            _ => FileKind::Other,
        };
        FileFacts { size: found.stx_size, kind, ino: found.stx_ino }
    }

    /// Hands all queued calls to the kernel.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn submit(&mut self) -> CallResult<()> {
        while !self.io.submission().is_empty() {
            enter(|| self.io.submit())?;
        }
        Ok(())
    }

    /// Hands all queued calls to the kernel and waits until `want` calls have ended or a signal came.
    ///
    /// # Errors
    /// When the kernel refuses.
    #[inline]
    pub fn submit_and_wait(&mut self, want: usize) -> CallResult<()> {
        let want = want.min(self.in_flight());
        enter(|| self.io.submit_and_wait(want))?;
        // A kernel may take fewer at a time than were queued.
        self.submit()
    }

    /// The same, for at most `limit`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn submit_and_wait_for(&mut self, want: usize, limit: Duration) -> CallResult<()> {
        let want = want.min(self.in_flight());
        if self.io.params().is_feature_ext_arg() {
            let time = Timespec::from(limit);
            let arguments = SubmitArgs::new().timespec(&time);
            enter(|| self.io.submitter().submit_with_args(want, &arguments))?;
        } else {
            self.submit()?;
            std::thread::sleep(limit.min(REST));
        }
        self.submit()
    }

    /// The next call that has ended; `None` where none has so far.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion> {
        let entry = self.io.completion().next()?;
        Some(self.complete(&entry))
    }

    #[inline]
    fn complete(&mut self, entry: &cqueue::Entry) -> Completion {
        let slot = entry.user_data() as usize;
        let used = std::mem::replace(&mut self.uses[slot], Use::Free);
        self.in_flight -= 1;
        for index in std::mem::replace(&mut self.slot_files[slot], [NO_FILE; 2]) {
            if index != NO_FILE {
                self.files[index as usize].calls -= 1;
            }
        }
        let result = entry.result();
        if result < 0 {
            return Completion {
                slot,
                result: Err(Errno::from_raw_os_error(-result)),
                opened: None,
            };
        }
        if used == Use::Open {
            // SAFETY: the kernel opened it for this call just now and told nobody else its number.
            let file = unsafe { OwnedFd::from_raw_fd(result) };
            return Completion { slot, result: Ok(0), opened: Some(self.add_file(file)) };
        }
        Completion { slot, result: Ok(result as u32), opened: None }
    }

    /// Queues `entry` for `slot`.
    ///
    /// # Safety
    /// All memory that `entry` points to belongs to the slot.
    #[inline]
    unsafe fn push(&mut self, slot: SlotIndex, used: Use, entry: &squeue::Entry) {
        // SAFETY: what the entry points to is the slot's, which nobody reads, writes or frees until the
        // call has ended: `uses` says so, and dropping waits. There is room, because the queue has as many
        // entries as there are slots, and each slot queues one.
        let pushed = unsafe { self.io.submission().push(entry) };
        pushed.expect("the queue has an entry for each slot");
        self.uses[slot] = used;
        self.in_flight += 1;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.next_completion().is_some() {
                continue;
            }
            if self.submit_and_wait(1).is_err() {
                // The kernel may still write to the memory: better lost than used by somebody else.
                return;
            }
        }
        // SAFETY: no call is under way, and nothing uses the memory after this.
        unsafe { ManuallyDrop::drop(&mut self.memory) }
    }
}

/// The first set of flags that this kernel takes: task work only when it is waited for (Linux 6.1), no
/// interruptions (5.19), nothing special.
fn set_up(depth: u32) -> std::io::Result<IoUring> {
    let deferred = IoUring::builder()
        .dontfork()
        .setup_submit_all()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(depth);
    if !is_unknown(&deferred) {
        return deferred;
    }
    let cooperative =
        IoUring::builder().dontfork().setup_submit_all().setup_coop_taskrun().build(depth);
    if !is_unknown(&cooperative) {
        return cooperative;
    }
    IoUring::builder().dontfork().build(depth)
}

fn is_unknown<T>(built: &std::io::Result<T>) -> bool {
    matches!(built, Err(error) if error.raw_os_error() == Some(libc::EINVAL))
}

/// Enters the kernel; a signal, a time limit and a lack of room that passes are no errors.
#[inline]
fn enter(call: impl FnOnce() -> std::io::Result<usize>) -> CallResult<()> {
    match call() {
        Ok(_) => Ok(()),
        Err(error) => match errno_of(&error) {
            Errno::INTR | Errno::TIME | Errno::BUSY | Errno::AGAIN => Ok(()),
            errno => Err(errno),
        },
    }
}

#[cold]
fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
