//! The free space of a mounted filesystem, piece by piece: `FS_IOC_GETFSMAP` (`linux/fsmap.h`) where
//! ext2, ext3, ext4 or xfs is mounted, the free space tree of btrfs. How fragmented that is, is left to
//! the caller.

mod btrfs;

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, opcode};

use crate::calls::CallResult;

/// Records that the kernel tells in one call.
const BATCH_COUNT: usize = 512;

/// `struct fsmap`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawRecord {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` with the records behind it.
#[repr(C)]
struct RawMap {
    input_flags: u32,
    output_flags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [RawRecord; 2],
    records: [RawRecord; BATCH_COUNT],
}

const HEADER_BYTES: usize = std::mem::offset_of!(RawMap, records);
const FS_IOC_GETFSMAP: Opcode = opcode::read_write::<[u8; HEADER_BYTES]>(b'X', 59);

const SPECIAL_OWNER: u32 = 0x10;
const LAST: u32 = 0x20;
const OWNER_FREE: u64 = 1;
const BTRFS_MAGIC: u64 = 0x9123_683e;

/// Calls `visit` with the start and the length in bytes of each free extent of the filesystem that
/// holds the open file or directory `fd`. Sync the filesystem first: space that is promised but not
/// yet allocated counts as free.
///
/// Addresses are those of the device; on btrfs, within block groups, those of the filesystem, and
/// space that belongs to no block group is told as well, by its address on its device.
///
/// # Errors
/// `EOPNOTSUPP` where the filesystem does not tell (tmpfs; btrfs without a free space tree), `EPERM`
/// where it tells only root (btrfs).
pub fn visit_free_extents(fd: impl AsFd, visit: impl FnMut(u64, u64)) -> CallResult<()> {
    let statistics = rustix::fs::fstatfs(&fd)?;
    // The type is signed on some architectures and 32 bits wide on others.
    if statistics.f_type as u64 & 0xffff_ffff == BTRFS_MAGIC {
        let block_size_bytes = u64::try_from(statistics.f_bsize).map_err(|_| Errno::INVAL)?;
        return btrfs::visit_free_extents(fd.as_fd(), block_size_bytes, visit);
    }
    visit_fsmap(fd, visit)
}

fn visit_fsmap(fd: impl AsFd, mut visit: impl FnMut(u64, u64)) -> CallResult<()> {
    let highest = RawRecord {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        ..RawRecord::default()
    };
    let mut map = Box::new(RawMap {
        input_flags: 0,
        output_flags: 0,
        count: BATCH_COUNT as u32,
        entries: 0,
        reserved: [0; 6],
        keys: [RawRecord::default(), highest],
        records: [RawRecord::default(); BATCH_COUNT],
    });
    loop {
        // SAFETY: FS_IOC_GETFSMAP reads and writes one `struct fsmap_head`, whose layout `RawMap` has,
        // and writes at most `count` records behind it, for which there is room; all are integers.
        let request = unsafe { ioctl::Updater::<FS_IOC_GETFSMAP, RawMap>::new(&mut map) };
        // SAFETY: as above.
        match unsafe { ioctl::ioctl(&fd, request) } {
            Ok(()) => {}
            Err(Errno::NOTTY) => return Err(Errno::OPNOTSUPP),
            Err(errno) => return Err(errno),
        }
        let found = &map.records[..(map.entries as usize).min(BATCH_COUNT)];
        for record in found {
            if record.flags & SPECIAL_OWNER != 0 && record.owner == OWNER_FREE {
                visit(record.physical, record.length);
            }
        }
        match found.last() {
            Some(last) if last.flags & LAST == 0 => map.keys[0] = *last,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!((HEADER_BYTES, size_of::<RawRecord>()), (192, 64));
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(FS_IOC_GETFSMAP as u64, 0xc0c0_583b);
    }

    #[test]
    fn what_does_not_tell_says_so() {
        for path in ["/proc", "/sys"] {
            let directory = std::fs::File::open(path).unwrap();
            let visited = visit_free_extents(&directory, |_, _| ());
            assert_eq!(visited, Err(Errno::OPNOTSUPP), "{path}");
        }
    }
}
