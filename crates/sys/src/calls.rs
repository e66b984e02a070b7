//! The system calls of the measured region, behind the trait [`Calls`]: [`Real`] makes them, [`Null`]
//! makes none and measures what the harness itself costs. No call here allocates, locks or formats;
//! errors are bare [`Errno`]. What is called when, and timed how, is left to the caller.

use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RawDirEntry, SeekFrom, Stat};
use rustix::io::Errno;

pub mod more;

/// Result of one call in the hot loop.
pub type CallResult<T> = Result<T, Errno>;

/// How [`Calls::create`] opens its file, which is always write-only and made if absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateFlags {
    /// Every write goes to the end (`O_APPEND`).
    pub append: bool,
    /// What the file held is cut off (`O_TRUNC`).
    pub truncate: bool,
    /// The file must not exist yet (`O_EXCL`).
    pub exclusive: bool,
}

impl CreateFlags {
    /// A new, empty file, whether or not one was there: C's `fopen(.., "w")`.
    pub const TRUNCATE: Self = Self { append: false, truncate: true, exclusive: false };
    /// A file to be written at its end: C's `fopen(.., "a")`.
    pub const APPEND: Self = Self { append: true, truncate: false, exclusive: false };
    /// A file that nobody made before.
    pub const EXCLUSIVE: Self = Self { append: false, truncate: false, exclusive: true };

    #[inline(always)]
    fn open_flags(self) -> OFlags {
        let mut flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        if self.append {
            flags |= OFlags::APPEND;
        }
        if self.truncate {
            flags |= OFlags::TRUNC;
        }
        if self.exclusive {
            flags |= OFlags::EXCL;
        }
        flags
    }
}

/// How [`Calls::open_with`] opens its file. Neither `read` nor `write` means read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Made (mode 0666 less the umask) if absent (`O_CREAT`).
    pub create: bool,
    /// What the file held is cut off (`O_TRUNC`).
    pub truncate: bool,
    /// With `create`: the file must not exist yet (`O_EXCL`).
    pub exclusive: bool,
    /// Every write goes to the end (`O_APPEND`).
    pub append: bool,
    /// Past the page cache (`O_DIRECT`): buffers, offsets and counts must be aligned to the logical
    /// block size, see [`crate::buffer::AlignedBuffer`]; `EINVAL` where the filesystem cannot.
    pub direct: bool,
    /// Every write returns once it is durable (`O_SYNC`).
    pub sync: bool,
    /// Every write returns once its data are durable, and what is needed to read them (`O_DSYNC`).
    pub dsync: bool,
}

impl OpenFlags {
    /// What `Default` gives, for constants.
    pub const NONE: Self = Self {
        read: false,
        write: false,
        create: false,
        truncate: false,
        exclusive: false,
        append: false,
        direct: false,
        sync: false,
        dsync: false,
    };
    /// An existing file, to be read.
    pub const READ: Self = Self { read: true, ..Self::NONE };
    /// An existing file, to be written.
    pub const WRITE: Self = Self { write: true, ..Self::NONE };
    /// An existing file, to be read and written.
    pub const READ_WRITE: Self = Self { read: true, write: true, ..Self::NONE };

    #[inline(always)]
    pub(crate) const fn open_flags(self) -> OFlags {
        const fn when(asked: bool, flag: OFlags) -> OFlags {
            if asked { flag } else { OFlags::empty() }
        }
        let access = match (self.read, self.write) {
            (_, false) => OFlags::RDONLY,
            (false, true) => OFlags::WRONLY,
            (true, true) => OFlags::RDWR,
        };
        access
            .union(OFlags::CLOEXEC)
            .union(when(self.create, OFlags::CREATE))
            .union(when(self.truncate, OFlags::TRUNC))
            .union(when(self.exclusive, OFlags::EXCL))
            .union(when(self.append, OFlags::APPEND))
            .union(when(self.direct, OFlags::DIRECT))
            .union(when(self.sync, OFlags::SYNC))
            .union(when(self.dsync, OFlags::DSYNC))
    }
}

/// What kind of thing a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link, never followed here.
    Symlink,
    /// Device, pipe or socket.
    Other,
    /// Not stated; only directory listings of some filesystems say so, [`Calls::stat`] then knows.
    Unknown,
}

impl From<FileType> for FileKind {
    #[inline]
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            FileType::Unknown => FileKind::Unknown,
            _ => FileKind::Other,
        }
    }
}

/// What [`Calls::stat`] and [`Calls::stat_open`] find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Size in bytes.
    pub size: u64,
    /// File, directory, link or other.
    pub kind: FileKind,
    /// Inode number.
    pub ino: u64,
}

impl FileFacts {
    #[inline(always)]
    fn of(found: &Stat) -> Self {
        Self {
            size: found.st_size as u64,
            kind: FileType::from_raw_mode(found.st_mode).into(),
            ino: found.st_ino,
        }
    }
}

/// The calls a workload makes. Names are relative to an open directory and NUL-terminated, so that
/// nothing is copied, and the kernel walks no long path.
///
/// Use it by static dispatch (`fn run<C: Calls>(calls: &C)`); every method is then inlined.
pub trait Calls {
    /// An open file or directory.
    type Fd: fmt::Debug + Send + Sync;

    /// Opens the directory at `path`, from which all names start. Not for the hot loop.
    fn open_root(&self, path: &Path) -> CallResult<Self::Fd>;
    /// Opens the directory `name` in `dir`, without following a symbolic link.
    fn open_dir(&self, dir: &Self::Fd, name: &CStr) -> CallResult<Self::Fd>;
    /// Opens the file `name` in `dir` for reading.
    fn open_read(&self, dir: &Self::Fd, name: &CStr) -> CallResult<Self::Fd>;
    /// Opens the file `name` in `dir` for writing, and makes it (mode 0666 less the umask) if absent.
    fn create(&self, dir: &Self::Fd, name: &CStr, flags: CreateFlags) -> CallResult<Self::Fd>;
    /// Opens the file `name` in `dir` as `flags` say.
    fn open_with(&self, dir: &Self::Fd, name: &CStr, flags: OpenFlags) -> CallResult<Self::Fd>;
    /// Writes all of `bytes` at the file position, in as many calls as the kernel makes of it.
    /// A device that takes 0 bytes is reported as `EIO`.
    fn write_all(&self, fd: &Self::Fd, bytes: &[u8]) -> CallResult<()>;
    /// Writes all of `bytes` at `offset_bytes`, as [`Calls::write_all`] does; the file position stays.
    fn write_all_at(&self, fd: &Self::Fd, bytes: &[u8], offset_bytes: u64) -> CallResult<()>;
    /// Reads at the file position: the count of bytes, 0 at the end.
    fn read(&self, fd: &Self::Fd, buffer: &mut [u8]) -> CallResult<usize>;
    /// Reads at `offset_bytes`: the count of bytes, 0 at the end; the file position stays.
    fn read_at(&self, fd: &Self::Fd, buffer: &mut [u8], offset_bytes: u64) -> CallResult<usize>;
    /// Sets the file position, in bytes from the start.
    fn seek(&self, fd: &Self::Fd, offset_bytes: u64) -> CallResult<()>;
    /// Asks for `count_bytes` from `offset_bytes` on to be read into the page cache; waits for the
    /// submission of the reads, not for their end. `EINVAL` where there is no page cache.
    fn readahead(&self, fd: &Self::Fd, offset_bytes: u64, count_bytes: usize) -> CallResult<()>;
    /// Closes, and says what dropping would swallow: some filesystems report a failed write only here.
    fn close(&self, fd: Self::Fd) -> CallResult<()>;
    /// Removes the file `name` from `dir`.
    fn unlink(&self, dir: &Self::Fd, name: &CStr) -> CallResult<()>;
    /// Removes the empty directory `name` from `dir`.
    fn rmdir(&self, dir: &Self::Fd, name: &CStr) -> CallResult<()>;
    /// Renames `old` in `old_dir` to `new` in `new_dir`, in place of what had that name.
    fn rename(
        &self,
        old_dir: &Self::Fd,
        old: &CStr,
        new_dir: &Self::Fd,
        new: &CStr,
    ) -> CallResult<()>;
    /// Gives the file `old` in `old_dir` (a symbolic link itself, not its target) a further name.
    fn link(
        &self,
        old_dir: &Self::Fd,
        old: &CStr,
        new_dir: &Self::Fd,
        new: &CStr,
    ) -> CallResult<()>;
    /// Makes the symbolic link `name` in `dir`, which holds `target`.
    fn symlink(&self, target: &CStr, dir: &Self::Fd, name: &CStr) -> CallResult<()>;
    /// Makes the directory `name` in `dir` (mode 0777 less the umask).
    fn mkdir(&self, dir: &Self::Fd, name: &CStr) -> CallResult<()>;
    /// Size, kind and inode number of `name` in `dir`; a symbolic link is not followed.
    fn stat(&self, dir: &Self::Fd, name: &CStr) -> CallResult<FileFacts>;
    /// Size, kind and inode number of an open file.
    fn stat_open(&self, fd: &Self::Fd) -> CallResult<FileFacts>;
    /// Sets the size of an open file, in bytes.
    fn truncate(&self, fd: &Self::Fd, size_bytes: u64) -> CallResult<()>;
    /// Makes the data and metadata of one file durable.
    fn fsync(&self, fd: &Self::Fd) -> CallResult<()>;
    /// Makes the data of one file durable, and the metadata needed to read it.
    fn fdatasync(&self, fd: &Self::Fd) -> CallResult<()>;
    /// Makes the whole filesystem that holds `fd` durable.
    fn syncfs(&self, fd: &Self::Fd) -> CallResult<()>;
    /// Calls `visit` with the name, kind and inode number of each entry of the open directory `dir`
    /// except `.` and `..`, from its current position, reading through `buffer` (see [`dir_buffer`]).
    fn list<F>(&self, dir: &Self::Fd, buffer: &mut [MaybeUninit<u8>], visit: F) -> CallResult<()>
    where
        F: FnMut(&CStr, FileKind, u64);
}

/// The kernel's own calls, one each, without libc in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct Real;

/// No calls at all: each returns success at once. What a workload still costs with it is the cost of
/// the harness. Reads return 0 bytes (end of file), listings are empty, `stat` says an empty file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

const EMPTY_FILE: FileFacts = FileFacts { size: 0, kind: FileKind::File, ino: 0 };
const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);
const READ_DIRECTORY: OFlags = READ.union(OFlags::DIRECTORY);

impl Calls for Real {
    type Fd = OwnedFd;

    fn open_root(&self, path: &Path) -> CallResult<OwnedFd> {
        rustix::fs::openat(CWD, path, READ_DIRECTORY, Mode::empty())
    }

    #[inline]
    fn open_dir(&self, dir: &OwnedFd, name: &CStr) -> CallResult<OwnedFd> {
        rustix::fs::openat(dir, name, READ_DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty())
    }

    #[inline]
    fn open_read(&self, dir: &OwnedFd, name: &CStr) -> CallResult<OwnedFd> {
        rustix::fs::openat(dir, name, READ, Mode::empty())
    }

    #[inline]
    fn create(&self, dir: &OwnedFd, name: &CStr, flags: CreateFlags) -> CallResult<OwnedFd> {
        rustix::fs::openat(dir, name, flags.open_flags(), Mode::from_raw_mode(0o666))
    }

    #[inline]
    fn open_with(&self, dir: &OwnedFd, name: &CStr, flags: OpenFlags) -> CallResult<OwnedFd> {
        rustix::fs::openat(dir, name, flags.open_flags(), Mode::from_raw_mode(0o666))
    }

    #[inline]
    fn write_all(&self, fd: &OwnedFd, mut bytes: &[u8]) -> CallResult<()> {
        while !bytes.is_empty() {
            match rustix::io::write(fd, bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    #[inline]
    fn write_all_at(
        &self,
        fd: &OwnedFd,
        mut bytes: &[u8],
        mut offset_bytes: u64,
    ) -> CallResult<()> {
        while !bytes.is_empty() {
            match rustix::io::pwrite(fd, bytes, offset_bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset_bytes += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    #[inline]
    fn read(&self, fd: &OwnedFd, buffer: &mut [u8]) -> CallResult<usize> {
        loop {
            match rustix::io::read(fd, &mut *buffer) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    #[inline]
    fn read_at(&self, fd: &OwnedFd, buffer: &mut [u8], offset_bytes: u64) -> CallResult<usize> {
        loop {
            match rustix::io::pread(fd, &mut *buffer, offset_bytes) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    #[inline]
    fn seek(&self, fd: &OwnedFd, offset_bytes: u64) -> CallResult<()> {
        rustix::fs::seek(fd, SeekFrom::Start(offset_bytes)).map(drop)
    }

    #[inline]
    fn readahead(&self, fd: &OwnedFd, offset_bytes: u64, count_bytes: usize) -> CallResult<()> {
        let offset_bytes = i64::try_from(offset_bytes).map_err(|_| Errno::INVAL)?;
        // SAFETY: the descriptor is open, and the call takes no pointer.
        match unsafe { libc::readahead(fd.as_raw_fd(), offset_bytes, count_bytes) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    #[inline]
    fn close(&self, fd: OwnedFd) -> CallResult<()> {
        // SAFETY: `into_raw_fd` gives up ownership, so nothing else will close or use this number.
        unsafe { rustix::io::try_close(fd.into_raw_fd()) }
    }

    #[inline]
    fn unlink(&self, dir: &OwnedFd, name: &CStr) -> CallResult<()> {
        rustix::fs::unlinkat(dir, name, AtFlags::empty())
    }

    #[inline]
    fn rmdir(&self, dir: &OwnedFd, name: &CStr) -> CallResult<()> {
        rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
    }

    #[inline]
    fn rename(
        &self,
        old_dir: &OwnedFd,
        old: &CStr,
        new_dir: &OwnedFd,
        new: &CStr,
    ) -> CallResult<()> {
        rustix::fs::renameat(old_dir, old, new_dir, new)
    }

    #[inline]
    fn link(&self, old_dir: &OwnedFd, old: &CStr, new_dir: &OwnedFd, new: &CStr) -> CallResult<()> {
        rustix::fs::linkat(old_dir, old, new_dir, new, AtFlags::empty())
    }

    #[inline]
    fn symlink(&self, target: &CStr, dir: &OwnedFd, name: &CStr) -> CallResult<()> {
        rustix::fs::symlinkat(target, dir, name)
    }

    #[inline]
    fn mkdir(&self, dir: &OwnedFd, name: &CStr) -> CallResult<()> {
        rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o777))
    }

    #[inline]
    fn stat(&self, dir: &OwnedFd, name: &CStr) -> CallResult<FileFacts> {
        // newfstatat(2), as C's lstat: it copies out less than statx(2) and measures faster.
        let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileFacts::of(&found))
    }

    #[inline]
    fn stat_open(&self, fd: &OwnedFd) -> CallResult<FileFacts> {
        Ok(FileFacts::of(&rustix::fs::fstat(fd)?))
    }

    #[inline]
    fn truncate(&self, fd: &OwnedFd, size_bytes: u64) -> CallResult<()> {
        rustix::fs::ftruncate(fd, size_bytes)
    }

    #[inline]
    fn fsync(&self, fd: &OwnedFd) -> CallResult<()> {
        rustix::fs::fsync(fd)
    }

    #[inline]
    fn fdatasync(&self, fd: &OwnedFd) -> CallResult<()> {
        rustix::fs::fdatasync(fd)
    }

    #[inline]
    fn syncfs(&self, fd: &OwnedFd) -> CallResult<()> {
        rustix::fs::syncfs(fd)
    }

    #[inline]
    fn list<F>(&self, dir: &OwnedFd, buffer: &mut [MaybeUninit<u8>], mut visit: F) -> CallResult<()>
    where
        F: FnMut(&CStr, FileKind, u64),
    {
        let mut reader = DirReader::new(dir.as_fd(), buffer);
        while let Some(entry) = reader.next_entry()? {
            if !entry.is_dot() {
                visit(entry.name(), entry.kind(), entry.ino());
            }
        }
        Ok(())
    }
}

/// What libc's last call on this thread failed with.
#[cold]
fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// One line each: there is nothing to do.
#[rustfmt::skip]
impl Calls for Null {
    type Fd = ();

    #[inline] fn open_root(&self, _: &Path) -> CallResult<()> { Ok(()) }
    #[inline] fn open_dir(&self, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn open_read(&self, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn create(&self, (): &(), _: &CStr, _: CreateFlags) -> CallResult<()> { Ok(()) }
    #[inline] fn write_all(&self, (): &(), _: &[u8]) -> CallResult<()> { Ok(()) }
    #[inline] fn open_with(&self, (): &(), _: &CStr, _: OpenFlags) -> CallResult<()> { Ok(()) }
    #[inline] fn write_all_at(&self, (): &(), _: &[u8], _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn read(&self, (): &(), _: &mut [u8]) -> CallResult<usize> { Ok(0) }
    #[inline] fn read_at(&self, (): &(), _: &mut [u8], _: u64) -> CallResult<usize> { Ok(0) }
    #[inline] fn seek(&self, (): &(), _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn readahead(&self, (): &(), _: u64, _: usize) -> CallResult<()> { Ok(()) }
    #[inline] fn close(&self, (): ()) -> CallResult<()> { Ok(()) }
    #[inline] fn unlink(&self, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn rmdir(&self, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn rename(&self, (): &(), _: &CStr, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn link(&self, (): &(), _: &CStr, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn symlink(&self, _: &CStr, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn mkdir(&self, (): &(), _: &CStr) -> CallResult<()> { Ok(()) }
    #[inline] fn stat(&self, (): &(), _: &CStr) -> CallResult<FileFacts> { Ok(EMPTY_FILE) }
    #[inline] fn stat_open(&self, (): &()) -> CallResult<FileFacts> { Ok(EMPTY_FILE) }
    #[inline] fn truncate(&self, (): &(), _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn fsync(&self, (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn fdatasync(&self, (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn syncfs(&self, (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn list<F>(&self, (): &(), _: &mut [MaybeUninit<u8>], _: F) -> CallResult<()>
    where F: FnMut(&CStr, FileKind, u64) { Ok(()) }
}

/// A buffer for directory listings: 32 KiB, the size that the C library uses.
pub fn dir_buffer() -> Box<[MaybeUninit<u8>]> {
    Box::new_uninit_slice(32 << 10)
}

/// One entry of a directory.
#[derive(Debug)]
pub struct DirEntry<'a> {
    raw: RawDirEntry<'a>,
}

impl DirEntry<'_> {
    /// Name within the directory.
    #[inline]
    pub fn name(&self) -> &CStr {
        self.raw.file_name()
    }

    /// Kind as the directory states it; some filesystems say [`FileKind::Unknown`].
    #[inline]
    pub fn kind(&self) -> FileKind {
        self.raw.file_type().into()
    }

    /// Inode number as the directory states it.
    #[inline]
    pub fn ino(&self) -> u64 {
        self.raw.ino()
    }

    /// True for `.` and `..`.
    #[inline]
    pub fn is_dot(&self) -> bool {
        matches!(self.name().to_bytes(), b"." | b"..")
    }
}

/// Lists an open directory without allocating: `getdents64` into the caller's buffer.
pub struct DirReader<'a> {
    raw: RawDir<'a, BorrowedFd<'a>>,
}

impl fmt::Debug for DirReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirReader").field("buffer_empty", &self.raw.is_buffer_empty()).finish()
    }
}

impl<'a> DirReader<'a> {
    /// Reads `dir` on from its current position through `buffer`, which must hold the longest name
    /// (300 bytes do); a smaller one makes [`DirReader::next_entry`] return `EINVAL`.
    pub fn new(dir: BorrowedFd<'a>, buffer: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { raw: RawDir::new(dir, buffer) }
    }

    /// The next entry, `.` and `..` included (see [`DirEntry::is_dot`]), or `None` at the end.
    #[inline]
    pub fn next_entry(&mut self) -> CallResult<Option<DirEntry<'_>>> {
        match self.raw.next() {
            None => Ok(None),
            Some(Err(errno)) => Err(errno),
            Some(Ok(raw)) => Ok(Some(DirEntry { raw })),
        }
    }
}

#[cfg(test)]
mod tests;
