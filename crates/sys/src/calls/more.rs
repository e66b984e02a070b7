//! Calls that only some workloads make: ranges, mappings, copies within the kernel, extended attributes,
//! locks. As in [`crate::calls`], none allocates, locks or formats. What is called when is left to the
//! caller.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, FlockOperation, XattrFlags};
use rustix::io::{Errno, retry_on_intr};

use super::{CallResult, Calls, Null, Real, last_errno};

/// Further calls of a workload, used as [`Calls`] are.
pub trait MoreCalls: Calls {
    /// Asks for `count_bytes` from `offset_bytes` on to be written to the device and waits for that
    /// (`sync_file_range` with all three flags); says nothing of metadata. 0 bytes: up to the end.
    fn sync_file_range(&self, fd: &Self::Fd, offset_bytes: u64, count_bytes: u64)
    -> CallResult<()>;
    /// Reserves `count_bytes` from `offset_bytes` on; the size grows with it. `EOPNOTSUPP` where the
    /// filesystem cannot.
    fn fallocate(&self, fd: &Self::Fd, offset_bytes: u64, count_bytes: u64) -> CallResult<()>;
    /// Gives `count_bytes` from `offset_bytes` on back to the filesystem; they read as zeros, and the
    /// size stays.
    fn punch(&self, fd: &Self::Fd, offset_bytes: u64, count_bytes: u64) -> CallResult<()>;
    /// Copies `buffer.len()` bytes from `offset_bytes` on out of a mapping made for this call. The file
    /// must hold that range: `EIO` where it is shorter. Who cuts it off during the call, or a device
    /// that cannot read the range, ends the process by a signal (`SIGBUS`), as with every mapping.
    fn mmap_read(&self, fd: &Self::Fd, buffer: &mut [u8], offset_bytes: u64) -> CallResult<()>;
    /// Copies `bytes` to `offset_bytes` into a shared mapping made for this call. The file must be open
    /// for reading and writing and hold that range already: `EIO` where it is shorter. The signal is as
    /// in [`MoreCalls::mmap_read`]; it also ends a process which writes to a hole on a full filesystem.
    fn mmap_write(&self, fd: &Self::Fd, bytes: &[u8], offset_bytes: u64) -> CallResult<()>;
    /// Has the kernel copy `count_bytes` from `from` to the same place in `to`: the count copied, 0 at
    /// the end of `from`.
    fn copy_file_range(
        &self,
        from: &Self::Fd,
        to: &Self::Fd,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> CallResult<usize>;
    /// Lets `to` share all extents of `from` (`FICLONE`). `EOPNOTSUPP` where the filesystem cannot.
    fn reflink(&self, from: &Self::Fd, to: &Self::Fd) -> CallResult<()>;
    /// Sets the extended attribute `name` (with its namespace: `user.…`).
    fn set_xattr(&self, fd: &Self::Fd, name: &CStr, value: &[u8]) -> CallResult<()>;
    /// Reads the extended attribute `name`: the count of bytes. `ENODATA` where there is none.
    fn get_xattr(&self, fd: &Self::Fd, name: &CStr, value: &mut [u8]) -> CallResult<usize>;
    /// Locks the whole file for this open file alone (`flock`), waiting for it.
    fn lock(&self, fd: &Self::Fd) -> CallResult<()>;
    /// Unlocks it.
    fn unlock(&self, fd: &Self::Fd) -> CallResult<()>;
    /// Asks how full the filesystem is that holds `fd`.
    fn statfs(&self, fd: &Self::Fd) -> CallResult<()>;
    /// A further descriptor of what is open as `fd`, for a [`crate::ring::Ring`] to own; `None` where
    /// calls are null. Not for the hot loop.
    fn duplicate(&self, fd: &Self::Fd) -> CallResult<Option<OwnedFd>>;
}

/// All of the range has been written when the call returns.
const WRITE_AND_WAIT: libc::c_uint = libc::SYNC_FILE_RANGE_WAIT_BEFORE
    | libc::SYNC_FILE_RANGE_WRITE
    | libc::SYNC_FILE_RANGE_WAIT_AFTER;

impl MoreCalls for Real {
    #[inline]
    fn sync_file_range(&self, fd: &OwnedFd, offset_bytes: u64, count_bytes: u64) -> CallResult<()> {
        let (offset, count) = (signed(offset_bytes)?, signed(count_bytes)?);
        // SAFETY: the descriptor is open, and the call takes no pointer.
        match unsafe { libc::sync_file_range(fd.as_raw_fd(), offset, count, WRITE_AND_WAIT) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    #[inline]
    fn fallocate(&self, fd: &OwnedFd, offset_bytes: u64, count_bytes: u64) -> CallResult<()> {
        let flags = FallocateFlags::empty();
        retry_on_intr(|| rustix::fs::fallocate(fd, flags, offset_bytes, count_bytes))
    }

    #[inline]
    fn punch(&self, fd: &OwnedFd, offset_bytes: u64, count_bytes: u64) -> CallResult<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| rustix::fs::fallocate(fd, flags, offset_bytes, count_bytes))
    }

    #[inline]
    fn mmap_read(&self, fd: &OwnedFd, buffer: &mut [u8], offset_bytes: u64) -> CallResult<()> {
        if buffer.is_empty() {
            return Ok(());
        }
        let mapping = Mapping::new(fd, offset_bytes, buffer.len(), libc::PROT_READ)?;
        // SAFETY: the mapping holds `buffer.len()` readable bytes from `first` on, and memory of this
        // process's own does not overlap with what was mapped just now.
        unsafe {
            mapping.first().copy_to_nonoverlapping(buffer.as_mut_ptr(), buffer.len());
        }
        mapping.unmap()
    }

    #[inline]
    fn mmap_write(&self, fd: &OwnedFd, bytes: &[u8], offset_bytes: u64) -> CallResult<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::new(fd, offset_bytes, bytes.len(), protection)?;
        // SAFETY: the mapping holds `bytes.len()` writable bytes from `first` on, and memory of this
        // process's own does not overlap with what was mapped just now.
        unsafe {
            mapping.first().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        mapping.unmap()
    }

    #[inline]
    fn copy_file_range(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> CallResult<usize> {
        retry_on_intr(|| {
            let (mut place, mut same) = (offset_bytes, offset_bytes);
            rustix::fs::copy_file_range(from, Some(&mut place), to, Some(&mut same), count_bytes)
        })
    }

    #[inline]
    fn reflink(&self, from: &OwnedFd, to: &OwnedFd) -> CallResult<()> {
        retry_on_intr(|| rustix::fs::ioctl_ficlone(to, from))
    }

    #[inline]
    fn set_xattr(&self, fd: &OwnedFd, name: &CStr, value: &[u8]) -> CallResult<()> {
        rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty())
    }

    #[inline]
    fn get_xattr(&self, fd: &OwnedFd, name: &CStr, value: &mut [u8]) -> CallResult<usize> {
        rustix::fs::fgetxattr(fd, name, value)
    }

    #[inline]
    fn lock(&self, fd: &OwnedFd) -> CallResult<()> {
        retry_on_intr(|| rustix::fs::flock(fd, FlockOperation::LockExclusive))
    }

    #[inline]
    fn unlock(&self, fd: &OwnedFd) -> CallResult<()> {
        rustix::fs::flock(fd, FlockOperation::Unlock)
    }

    #[inline]
    fn statfs(&self, fd: &OwnedFd) -> CallResult<()> {
        rustix::fs::fstatfs(fd).map(drop)
    }

    fn duplicate(&self, fd: &OwnedFd) -> CallResult<Option<OwnedFd>> {
        rustix::io::fcntl_dupfd_cloexec(fd, 0).map(Some)
    }
}

#[inline]
fn signed(count: u64) -> CallResult<i64> {
    i64::try_from(count).map_err(|_| Errno::INVAL)
}

/// A range of a file in memory, shared with all that have the file open.
struct Mapping {
    start: *mut libc::c_void,
    size_bytes: usize,
    /// From the start of the page to the start of the range.
    lead_bytes: usize,
}

impl Mapping {
    #[inline]
    fn new(
        fd: &OwnedFd,
        offset_bytes: u64,
        count_bytes: usize,
        protection: libc::c_int,
    ) -> CallResult<Mapping> {
        let end = offset_bytes.checked_add(count_bytes as u64).ok_or(Errno::INVAL)?;
        // Touching what lies behind the last page of the file would end the process.
        if end > rustix::fs::fstat(fd)?.st_size as u64 {
            return Err(Errno::IO);
        }
        let lead_bytes = (offset_bytes % rustix::param::page_size() as u64) as usize;
        let size_bytes = lead_bytes.checked_add(count_bytes).ok_or(Errno::INVAL)?;
        let offset = signed(offset_bytes - lead_bytes as u64)?;
        // SAFETY: without an address the kernel chooses one where nothing is mapped, so that no memory
        // of this process is replaced.
        let start = unsafe {
            let fd = fd.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), size_bytes, protection, libc::MAP_SHARED, fd, offset)
        };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Mapping { start, size_bytes, lead_bytes })
    }

    /// Where the range begins.
    #[inline]
    fn first(&self) -> *mut u8 {
        self.start.cast::<u8>().wrapping_add(self.lead_bytes)
    }

    /// Takes it out of memory again; on every path here, for nothing between can fail.
    #[inline]
    fn unmap(self) -> CallResult<()> {
        // SAFETY: the range is the one that was mapped, and no reference into it was ever made.
        match unsafe { libc::munmap(self.start, self.size_bytes) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}

/// One line each: there is nothing to do.
#[rustfmt::skip]
impl MoreCalls for Null {
    #[inline] fn sync_file_range(&self, (): &(), _: u64, _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn fallocate(&self, (): &(), _: u64, _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn punch(&self, (): &(), _: u64, _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn mmap_read(&self, (): &(), _: &mut [u8], _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn mmap_write(&self, (): &(), _: &[u8], _: u64) -> CallResult<()> { Ok(()) }
    #[inline] fn copy_file_range(&self, (): &(), (): &(), _: u64, _: usize) -> CallResult<usize> { Ok(0) }
    #[inline] fn reflink(&self, (): &(), (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn set_xattr(&self, (): &(), _: &CStr, _: &[u8]) -> CallResult<()> { Ok(()) }
    #[inline] fn get_xattr(&self, (): &(), _: &CStr, _: &mut [u8]) -> CallResult<usize> { Ok(0) }
    #[inline] fn lock(&self, (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn unlock(&self, (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn statfs(&self, (): &()) -> CallResult<()> { Ok(()) }
    #[inline] fn duplicate(&self, (): &()) -> CallResult<Option<OwnedFd>> { Ok(None) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::PathBuf;

    use super::*;
    use crate::calls::OpenFlags;

    /// A directory on a disk and, where there is one, a directory in memory.
    fn directories() -> Vec<tempfile::TempDir> {
        let mut found = vec![tempfile::tempdir().unwrap()];
        let memory = PathBuf::from("/dev/shm");
        match tempfile::tempdir_in(&memory) {
            Ok(directory) => found.push(directory),
            Err(error) => println!("skipped: no directory in {}: {error}", memory.display()),
        }
        found
    }

    fn open(directory: &tempfile::TempDir, name: &CStr) -> OwnedFd {
        let root = Real.open_root(directory.path()).unwrap();
        let flags = OpenFlags { create: true, ..OpenFlags::READ_WRITE };
        Real.open_with(&root, name, flags).unwrap()
    }

    fn letters(count: usize) -> Vec<u8> {
        (0..count).map(|index| b'a' + (index % 23) as u8).collect()
    }

    #[test]
    fn mappings_read_and_write_what_the_file_holds_and_refuse_the_rest() {
        for directory in directories() {
            let file = open(&directory, c"f");
            let mut expected = letters(10_000);
            Real.write_all(&file, &expected).unwrap();
            for (offset, count) in [(0, 10_000), (0, 1), (4095, 2), (4096, 4096), (9999, 1), (5, 0)]
            {
                let mut buffer = vec![0; count];
                Real.mmap_read(&file, &mut buffer, offset as u64).unwrap();
                assert_eq!(buffer, expected[offset..offset + count], "{offset} {count}");
                let written = vec![b'0' + (offset % 10) as u8; count];
                Real.mmap_write(&file, &written, offset as u64).unwrap();
                expected[offset..offset + count].copy_from_slice(&written);
                assert_eq!(fs::read(directory.path().join("f")).unwrap(), expected);
            }
            for (offset, errno) in
                [(9_999, Errno::IO), (1 << 40, Errno::IO), (u64::MAX - 1, Errno::INVAL)]
            {
                assert_eq!(Real.mmap_read(&file, &mut [0; 2], offset), Err(errno), "{offset}");
                assert_eq!(Real.mmap_write(&file, &[0; 2], offset), Err(errno), "{offset}");
            }
            let root = Real.open_root(directory.path()).unwrap();
            let unwritable = Real.open_read(&root, c"f").unwrap();
            assert_eq!(Real.mmap_write(&unwritable, b"x", 0), Err(Errno::ACCESS));
            assert_eq!(fs::read(directory.path().join("f")).unwrap(), expected);
        }
    }

    #[test]
    fn space_is_reserved_and_given_back() {
        for directory in directories() {
            let file = open(&directory, c"f");
            Real.fallocate(&file, 0, 1 << 20).unwrap();
            let meta = || fs::metadata(directory.path().join("f")).unwrap();
            assert_eq!(meta().len(), 1 << 20);
            assert!(meta().blocks() * 512 >= 1 << 20, "{}", meta().blocks());
            Real.write_all(&file, &letters(1 << 20)).unwrap();
            Real.sync_file_range(&file, 0, 0).unwrap();
            Real.sync_file_range(&file, 4096, 8192).unwrap();
            let before = meta().blocks();
            Real.punch(&file, 64 << 10, 512 << 10).unwrap();
            assert_eq!(meta().len(), 1 << 20);
            assert!(meta().blocks() + 1000 < before, "{} of {before}", meta().blocks());
            let found = fs::read(directory.path().join("f")).unwrap();
            let mut expected = letters(1 << 20);
            expected[64 << 10..576 << 10].fill(0);
            assert!(found == expected);
            assert_eq!(Real.fallocate(&file, 0, 0), Err(Errno::INVAL));
            assert_eq!(Real.sync_file_range(&file, u64::MAX, 1), Err(Errno::INVAL));
            Real.statfs(&file).unwrap();
        }
    }

    #[test]
    fn the_kernel_copies_from_place_to_place() {
        for directory in directories() {
            let (from, to) = (open(&directory, c"from"), open(&directory, c"to"));
            let content = letters(100_000);
            Real.write_all(&from, &content).unwrap();
            let mut offset = 0;
            loop {
                match Real.copy_file_range(&from, &to, offset, 30_000).unwrap() {
                    0 => break,
                    count => offset += count as u64,
                }
            }
            assert_eq!(offset, 100_000);
            assert!(fs::read(directory.path().join("to")).unwrap() == content);
            match Real.reflink(&from, &to) {
                Ok(()) => assert!(fs::read(directory.path().join("to")).unwrap() == content),
                Err(errno) => assert!(
                    matches!(errno, Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL),
                    "{errno}"
                ),
            }
        }
    }

    #[test]
    fn attributes_are_set_and_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = open(&directory, c"f");
        let mut value = [0; 100];
        match Real.get_xattr(&file, c"user.colour", &mut value) {
            Err(Errno::OPNOTSUPP) => return println!("skipped: no extended attributes here"),
            found => assert_eq!(found, Err(Errno::NODATA)),
        }
        for text in [&b"blue"[..], b"", &[7; 100]] {
            Real.set_xattr(&file, c"user.colour", text).unwrap();
            let count = Real.get_xattr(&file, c"user.colour", &mut value).unwrap();
            assert_eq!(&value[..count], text);
        }
        assert_eq!(Real.get_xattr(&file, c"user.colour", &mut [0; 99]), Err(Errno::RANGE));
        assert_eq!(Real.set_xattr(&file, c"nowhere.x", b"1"), Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn a_lock_holds_the_others_off() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (open(&directory, c"f"), open(&directory, c"f"));
        Real.lock(&first).unwrap();
        let try_lock = || rustix::fs::flock(&second, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(try_lock(), Err(Errno::WOULDBLOCK));
        Real.unlock(&first).unwrap();
        assert_eq!(try_lock(), Ok(()));
    }
}
