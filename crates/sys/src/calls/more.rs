//! Calls that only some workloads make: ranges, mappings, copies within the kernel, extended attributes,
//! locks. As in [`crate::calls`], none allocates, locks or formats. What is called when is left to the
//! caller.

use std::ffi::CStr;

use rustix::io::Errno;

use super::{CallResult, Calls, Null, Real};

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
    /// Copies `buffer.len()` bytes from `offset_bytes` on out of a mapping made for this call.
    fn mmap_read(&self, fd: &Self::Fd, buffer: &mut [u8], offset_bytes: u64) -> CallResult<()>;
    /// Copies `bytes` to `offset_bytes` into a shared mapping made for this call. The file must hold
    /// that range already.
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
}

macro_rules! answers {
    ($type:ty, $answer:expr, $count:expr) => {
        impl MoreCalls for $type {
            fn sync_file_range(&self, _: &Self::Fd, _: u64, _: u64) -> CallResult<()> {
                $answer
            }
            fn fallocate(&self, _: &Self::Fd, _: u64, _: u64) -> CallResult<()> {
                $answer
            }
            fn punch(&self, _: &Self::Fd, _: u64, _: u64) -> CallResult<()> {
                $answer
            }
            fn mmap_read(&self, _: &Self::Fd, _: &mut [u8], _: u64) -> CallResult<()> {
                $answer
            }
            fn mmap_write(&self, _: &Self::Fd, _: &[u8], _: u64) -> CallResult<()> {
                $answer
            }
            fn copy_file_range(
                &self,
                _: &Self::Fd,
                _: &Self::Fd,
                _: u64,
                _: usize,
            ) -> CallResult<usize> {
                $count
            }
            fn reflink(&self, _: &Self::Fd, _: &Self::Fd) -> CallResult<()> {
                $answer
            }
            fn set_xattr(&self, _: &Self::Fd, _: &CStr, _: &[u8]) -> CallResult<()> {
                $answer
            }
            fn get_xattr(&self, _: &Self::Fd, _: &CStr, _: &mut [u8]) -> CallResult<usize> {
                $count
            }
            fn lock(&self, _: &Self::Fd) -> CallResult<()> {
                $answer
            }
            fn unlock(&self, _: &Self::Fd) -> CallResult<()> {
                $answer
            }
            fn statfs(&self, _: &Self::Fd) -> CallResult<()> {
                $answer
            }
        }
    };
}

answers!(Null, Ok(()), Ok(0));
answers!(Real, Err(Errno::NOSYS), Err(Errno::NOSYS));
