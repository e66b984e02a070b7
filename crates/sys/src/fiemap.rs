//! Where the data of an open file lies: its extents, as `FS_IOC_FIEMAP` tells them (`linux/fiemap.h`,
//! `Documentation/filesystems/fiemap.rst` of Linux). What a good layout would be is left to the caller.

use std::fmt;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, opcode};

use crate::calls::CallResult;

/// Extents that the kernel tells in one call.
const BATCH_COUNT: usize = 256;

/// `struct fiemap_extent`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with the extents behind it.
#[repr(C)]
struct RawMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH_COUNT],
}

const HEADER_BYTES: usize = std::mem::offset_of!(RawMap, extents);
const FS_IOC_FIEMAP: Opcode = opcode::read_write::<[u8; HEADER_BYTES]>(b'f', 11);

const FLAG_SYNC: u32 = 1;
const FLAG_XATTR: u32 = 2;

const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELALLOC: u32 = 0x4;
const ENCODED: u32 = 0x8;
const NOT_ALIGNED: u32 = 0x100;
const DATA_INLINE: u32 = 0x200;
const DATA_TAIL: u32 = 0x400;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// What to do before extents are told, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Writes the file back first, so that nothing is left without a place.
    pub sync: bool,
    /// The extents of the extended attributes instead of those of the data.
    pub xattr: bool,
}

/// Memory for the kernel's answers, to be used for any number of files; 14 KiB.
pub struct ExtentBuffer(Box<RawMap>);

impl ExtentBuffer {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        let none = RawExtent {
            logical: 0,
            physical: 0,
            length: 0,
            reserved64: [0; 2],
            flags: 0,
            reserved: [0; 3],
        };
        Self(Box::new(RawMap {
            start: 0,
            length: 0,
            flags: 0,
            mapped_extents: 0,
            extent_count: 0,
            reserved: 0,
            extents: [none; BATCH_COUNT],
        }))
    }
}

impl Default for ExtentBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ExtentBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtentBuffer").field("mapped_extents", &self.0.mapped_extents).finish()
    }
}

/// A stretch of a file that lies in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it starts in the file.
    pub logical_bytes: u64,
    /// Where it starts on the device, or, on btrfs, in the address space of the filesystem. Means
    /// nothing where [`Extent::is_unknown`]; btrfs says 0 for what is stored inline.
    pub physical_bytes: u64,
    /// How long it is in the file; what is compressed is shorter on the device.
    pub length_bytes: u64,
    flags: u32,
}

impl Extent {
    /// An extent that the kernel has not told, with flags of `linux/fiemap.h`; for tests.
    #[must_use]
    pub fn new(logical_bytes: u64, physical_bytes: u64, length_bytes: u64, flags: u32) -> Extent {
        Extent { logical_bytes, physical_bytes, length_bytes, flags }
    }

    fn of(raw: &RawExtent) -> Extent {
        Extent::new(raw.logical, raw.physical, raw.length, raw.flags)
    }

    /// The last one of the file.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    /// It has no place, or none that is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.flags & UNKNOWN != 0
    }

    /// It is still in memory and has no place yet.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.flags & DELALLOC != 0
    }

    /// It is compressed or encrypted on the device.
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        self.flags & ENCODED != 0
    }

    /// It may start or end within a block.
    #[must_use]
    pub fn is_unaligned(&self) -> bool {
        self.flags & NOT_ALIGNED != 0
    }

    /// It is stored in the metadata of the file.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.flags & DATA_INLINE != 0
    }

    /// It shares its block with the ends of other files.
    #[must_use]
    pub fn is_tail(&self) -> bool {
        self.flags & DATA_TAIL != 0
    }

    /// Space is set aside for it, but nothing was written.
    #[must_use]
    pub fn is_unwritten(&self) -> bool {
        self.flags & UNWRITTEN != 0
    }

    /// Other files have it too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.flags & SHARED != 0
    }

    /// Whether it lies behind `previous` on the device as it does in the file, so that both are one
    /// fragment: right behind it, or with a gap that is as long as the hole between them. (filefrag(8)
    /// counts so as well.) How long a compressed extent is on the device is not told, only that it is
    /// no longer than in the file: what starts within that length counts as right behind it.
    #[must_use]
    pub fn continues(&self, previous: &Extent) -> bool {
        if (self.flags | previous.flags) & (UNKNOWN | DATA_INLINE) != 0 {
            return false;
        }
        let distance = self.physical_bytes.checked_sub(previous.physical_bytes);
        let length = previous.length_bytes;
        distance.is_some_and(|distance| {
            distance == length
                || self.logical_bytes.checked_sub(previous.logical_bytes) == Some(distance)
                || previous.is_encoded() && (1..length).contains(&distance)
        })
    }
}

/// Calls `visit` with each extent of the open file `fd` (a directory too, where the filesystem tells),
/// in the order of the file. Holes are not told. Allocates nothing.
///
/// # Errors
/// `EOPNOTSUPP` where the filesystem does not tell (tmpfs), `EBADR` where it cannot do what `options`
/// ask.
pub fn visit_extents(
    fd: impl AsFd,
    options: MapOptions,
    buffer: &mut ExtentBuffer,
    mut visit: impl FnMut(&Extent),
) -> CallResult<()> {
    let mut start = 0;
    loop {
        // What was synced need not be synced again for the next batch.
        let options = MapOptions { sync: options.sync && start == 0, ..options };
        let found = ask(&fd, options, buffer, start, BATCH_COUNT)?;
        for raw in found {
            visit(&Extent::of(raw));
        }
        let Some(last) = found.last().map(Extent::of) else { return Ok(()) };
        let next = last.logical_bytes.saturating_add(last.length_bytes);
        // A filesystem that does not get on would keep us here for ever.
        if last.is_last() || next <= start {
            return Ok(());
        }
        start = next;
    }
}

/// The first extent of the open file `fd`; `None` where it has none: an empty file, a hole.
///
/// # Errors
/// As [`visit_extents`].
pub fn first_extent(
    fd: impl AsFd,
    options: MapOptions,
    buffer: &mut ExtentBuffer,
) -> CallResult<Option<Extent>> {
    Ok(ask(fd, options, buffer, 0, 1)?.first().map(Extent::of))
}

fn ask(
    fd: impl AsFd,
    options: MapOptions,
    buffer: &mut ExtentBuffer,
    start: u64,
    count: usize,
) -> Result<&[RawExtent], Errno> {
    let map = &mut *buffer.0;
    map.start = start;
    map.length = u64::MAX;
    map.flags =
        if options.sync { FLAG_SYNC } else { 0 } | if options.xattr { FLAG_XATTR } else { 0 };
    map.mapped_extents = 0;
    map.extent_count = count.min(BATCH_COUNT) as u32;
    // SAFETY: FS_IOC_FIEMAP reads and writes one `struct fiemap`, whose layout `RawMap` has, and writes
    // at most `extent_count` extents behind it, for which there is room; all fields are integers.
    let request = unsafe { ioctl::Updater::<FS_IOC_FIEMAP, RawMap>::new(map) };
    // SAFETY: as above.
    match unsafe { ioctl::ioctl(fd, request) } {
        Ok(()) => Ok(&map.extents[..(map.mapped_extents as usize).min(count)]),
        Err(Errno::NOTTY) => Err(Errno::OPNOTSUPP),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!((HEADER_BYTES, size_of::<RawExtent>()), (32, 56));
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(FS_IOC_FIEMAP as u64, 0xc020_660b);
    }

    #[test]
    fn contiguous_extents_are_told_from_others() {
        let first = Extent::new(0, 1000, 100, 0);
        let packed = Extent::new(0, 1000, 100, ENCODED);
        for (previous, next, expected) in [
            (first, Extent::new(100, 1100, 10, LAST), true),
            (first, Extent::new(500, 1100, 10, LAST), true),
            (first, Extent::new(500, 1500, 10, LAST), true),
            (first, Extent::new(500, 1499, 10, LAST), false),
            (first, Extent::new(100, 1050, 10, 0), false),
            (first, Extent::new(100, 1200, 10, 0), false),
            (first, Extent::new(100, 900, 10, 0), false),
            (first, Extent::new(100, 1100, 10, UNKNOWN | DELALLOC), false),
            (first, Extent::new(100, 1100, 10, DATA_INLINE), false),
            (packed, Extent::new(100, 1050, 10, 0), true),
            (packed, Extent::new(100, 1100, 10, 0), true),
            (packed, Extent::new(100, 1101, 10, 0), false),
            (packed, Extent::new(100, 1000, 10, 0), false),
            (packed, Extent::new(100, 999, 10, 0), false),
        ] {
            assert_eq!(next.continues(&previous), expected, "{previous:?} {next:?}");
        }
    }

    #[test]
    fn what_has_no_extents_says_so() {
        let mut buffer = ExtentBuffer::new();
        for path in ["/proc/self/status", "/dev/null"] {
            let file = std::fs::File::open(path).unwrap();
            let visited = visit_extents(&file, MapOptions::default(), &mut buffer, |_| ());
            assert_eq!(visited, Err(Errno::OPNOTSUPP), "{path}");
            let first = first_extent(&file, MapOptions::default(), &mut buffer);
            assert_eq!(first, Err(Errno::OPNOTSUPP), "{path}");
        }
    }
}
