//! Files as containers: allocate them fully, find their holes, ask for free space, make a directory's entries
//! durable, stay within one filesystem.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::Errno;

use crate::calls::{CallResult, Calls, Real};
use crate::error::{Result, SysError};

/// Unit of the zeros written by [`write_zeros`], in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// A filesystem with less than this free is full.
const FULL_BYTES: u64 = 1 << 20;

/// Reserves `size_bytes` for the open file, so that no write within them can run out of space: by
/// fallocate, or by writing zeros where the filesystem has none. The file is at least so long then.
///
/// Reserved is not written: the first write to each part still has its filesystem convert it, which
/// costs time. Use [`write_zeros`] where that must not fall into a measurement.
///
/// # Errors
/// `ENOSPC` or `EDQUOT` where there is not enough room; part of it may then be taken.
pub fn allocate(file: impl AsFd, size_bytes: u64) -> Result<()> {
    if size_bytes == 0 {
        return Ok(());
    }
    match rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size_bytes)
    }) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, size_bytes),
        other => {
            other.map_err(|errno| SysError::new("fallocate", format!("{size_bytes} bytes"), errno))
        }
    }
}

/// Writes `size_bytes` zeros from the start of the open file, whatever it held.
///
/// # Errors
/// `ENOSPC` or `EDQUOT` where there is not enough room; part of it is then written.
pub fn write_zeros(file: impl AsFd, size_bytes: u64) -> Result<()> {
    let zeros = vec![0u8; CHUNK_BYTES];
    let mut offset = 0;
    while offset < size_bytes {
        let length =
            usize::try_from(size_bytes - offset).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let failed = |errno| SysError::new("write", format!("{length} zeros at {offset}"), errno);
        match rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, &zeros[..length], offset)) {
            Ok(0) => return Err(failed(Errno::IO)),
            Ok(count) => offset += count as u64,
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(())
}

/// Space of a filesystem, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// In all.
    pub total: u64,
    /// Free, what is reserved for root included.
    pub free: u64,
    /// Free for ordinary users.
    pub available: u64,
}

/// Space of the filesystem that holds `path`.
///
/// # Errors
/// Where `path` does not exist.
pub fn free_space(path: &Path) -> Result<FreeSpace> {
    let found =
        rustix::fs::statvfs(path).map_err(|errno| SysError::at_path("statvfs", path, errno))?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(FreeSpace {
        total: bytes(found.f_blocks),
        free: bytes(found.f_bfree),
        available: bytes(found.f_bavail),
    })
}

/// Whether next to nothing is free for ordinary users where `path` is: what grows in pieces, such as memory in a
/// file, cannot grow there. False where it cannot be told.
#[must_use]
pub fn is_full(path: &Path) -> bool {
    free_space(path).is_ok_and(|space| space.available < FULL_BYTES)
}

/// The next piece of a file that is no hole, in bytes, at or after `from`; `None` where only a hole follows. A
/// filesystem that knows no holes gives all the rest. Moves the place at which the file is read.
///
/// # Errors
/// Where it cannot be looked at.
pub fn next_data(file: impl AsFd, from: u64) -> Result<Option<Range<u64>>> {
    let failed = |errno| SysError::new("lseek", format!("to data from {from}"), errno);
    let start = match rustix::fs::seek(&file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).map_err(failed)?;
    Ok(Some(start..end))
}

/// Makes the entries of the directory `path` durable: files made, renamed or removed in it.
///
/// # Errors
/// Where it is no directory, or its disk fails.
pub fn sync_directory(path: &Path) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| SysError::at_path("open directory", path, errno))?;
    rustix::fs::fsync(directory).map_err(|errno| SysError::at_path("fsync", path, errno))
}

/// Opens the directory `name` in `dir` unless another filesystem is mounted there; a symbolic link is
/// not followed. Before Linux 5.6 nothing keeps it from a mount.
///
/// # Errors
/// `EXDEV` where something is mounted on it; otherwise as [`Calls::open_dir`].
pub fn open_dir_within(dir: &OwnedFd, name: &CStr) -> CallResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat2(dir, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        Err(Errno::NOSYS) => Real.open_dir(dir, name),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn allocation_takes_space_and_leaves_zeros() {
        const SIZE: u64 = (CHUNK_BYTES as u64) * 2 + 777;
        let directory = tempfile::tempdir().unwrap();
        let ways: [fn(&File, u64) -> Result<()>; 2] =
            [|file, size| allocate(file, size), |file, size| write_zeros(file, size)];
        for (index, way) in ways.into_iter().enumerate() {
            let path = directory.path().join(format!("image{index}"));
            let file = File::create(&path).unwrap();
            way(&file, SIZE).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!(metadata.len(), SIZE);
            assert!(metadata.blocks() * 512 >= SIZE, "only {} sectors taken", metadata.blocks());
            assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 0));
            allocate(&file, 0).unwrap();
        }
        sync_directory(directory.path()).unwrap();
    }

    #[test]
    fn what_cannot_be_done_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        let file = File::create(&path).unwrap();
        assert!(allocate(&file, 1 << 60).is_err());
        assert!(sync_directory(&path).is_err());
        let read_only = File::open(&path).unwrap();
        assert_eq!(write_zeros(&read_only, 1).unwrap_err().errno, Errno::BADF);
        assert!(
            write_zeros(File::options().write(true).open("/dev/full").unwrap(), 1)
                .unwrap_err()
                .is_no_space()
        );
        assert!(free_space(Path::new("/no/such/path")).unwrap_err().is_not_found());
    }

    #[test]
    fn holes_are_passed_over() {
        use std::os::unix::fs::FileExt as _;
        const AT: u64 = 1 << 20;
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("sparse")).unwrap();
        file.set_len(4 * AT).unwrap();
        file.write_all_at(b"data", AT).unwrap();
        let found = next_data(&file, 0).unwrap().unwrap();
        assert!(found.start <= AT && found.end >= AT + 4, "{found:?}");
        assert_eq!(next_data(&file, AT + 2).unwrap().unwrap(), AT + 2..found.end);
        assert_eq!(next_data(&file, 4 * AT).unwrap(), None);
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(next_data(socket, 0).is_err());
        assert!(!is_full(directory.path()) && !is_full(Path::new("/no/such/path")));
    }

    #[test]
    fn mounts_are_not_entered() {
        let root = Real.open_root(Path::new("/")).unwrap();
        assert_eq!(open_dir_within(&root, c"proc").unwrap_err(), Errno::XDEV);
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        std::os::unix::fs::symlink("d", directory.path().join("link")).unwrap();
        let here = Real.open_root(directory.path()).unwrap();
        assert!(open_dir_within(&here, c"d").is_ok());
        assert!(open_dir_within(&here, c"link").is_err());
        assert_eq!(open_dir_within(&here, c"none").unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn free_space_is_ordered() {
        let space = free_space(Path::new("/")).unwrap();
        assert!(space.total >= space.free && space.free >= space.available && space.total > 0);
    }
}
