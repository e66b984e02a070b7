//! Where a file and a directory lie on the device, as far as the filesystem tells (FIEMAP). What follows
//! from it is left to [`super::order`] and [`super::layout`].

use std::os::fd::OwnedFd;

use fsdyno_sys::Errno;
use fsdyno_sys::calls::CallResult;
use fsdyno_sys::fiemap::{Extent, ExtentBuffer, MapOptions, first_extent, visit_extents};

/// Where the contents of a file begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstExtent {
    /// Outside of the metadata.
    At {
        /// Start in bytes from the start of the device (btrfs: of its address space).
        physical_bytes: u64,
    },
    /// Within the metadata.
    Inline,
    /// Nowhere yet, or not told: an empty file, one that was not written back.
    None,
}

/// The extents of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMap {
    /// The first.
    pub first: FirstExtent,
    /// How many, whether inline or not; those that lie right behind each other are one.
    pub extent_count: u64,
}

impl FirstExtent {
    fn of(extent: &Extent) -> FirstExtent {
        if extent.is_inline() {
            FirstExtent::Inline
        } else if extent.is_unknown() || extent.is_delayed() {
            FirstExtent::None
        } else {
            FirstExtent::At { physical_bytes: extent.physical_bytes }
        }
    }
}

/// Asks for extents, until the filesystem turns out to tell none.
#[derive(Debug)]
pub struct Mapper {
    buffer: ExtentBuffer,
    is_able: bool,
    tells_inodes: Option<bool>,
}

impl Mapper {
    /// One that has not asked yet.
    #[must_use]
    pub fn new() -> Mapper {
        Mapper { buffer: ExtentBuffer::new(), is_able: true, tells_inodes: None }
    }

    /// Whether the filesystem tells extents, as far as is known.
    #[must_use]
    pub fn is_able(&self) -> bool {
        self.is_able
    }

    /// The first extent of `file`; [`FirstExtent::None`] where the filesystem tells none.
    ///
    /// # Errors
    /// Any but that the filesystem cannot tell.
    pub fn first_extent(&mut self, file: &OwnedFd) -> CallResult<FirstExtent> {
        let found = first_extent(file, MapOptions::default(), &mut self.buffer);
        Ok(self.told(found)?.flatten().map_or(FirstExtent::None, |extent| FirstExtent::of(&extent)))
    }

    /// All extents of `file`; `None` where the filesystem tells none.
    ///
    /// # Errors
    /// As [`Mapper::first_extent`].
    pub fn map(&mut self, file: &OwnedFd) -> CallResult<Option<FileMap>> {
        let mut previous: Option<Extent> = None;
        let mut map = FileMap { first: FirstExtent::None, extent_count: 0 };
        let visited = visit_extents(file, MapOptions::default(), &mut self.buffer, |extent| {
            match previous.replace(*extent) {
                None => map.first = FirstExtent::of(extent),
                Some(previous) if extent.continues(&previous) => return,
                Some(_) => {}
            }
            map.extent_count += 1;
        });
        Ok(self.told(visited)?.map(|()| map))
    }

    /// Where the inode of `file` lies, in bytes: known where extended attributes are stored within it.
    /// The first file that is asked for tells whether the others are asked.
    ///
    /// # Errors
    /// As [`Mapper::first_extent`].
    pub fn inode_place(&mut self, file: &OwnedFd) -> CallResult<Option<u64>> {
        if !self.is_able || self.tells_inodes == Some(false) {
            return Ok(None);
        }
        let options = MapOptions { xattr: true, ..MapOptions::default() };
        let place = match first_extent(file, options, &mut self.buffer) {
            Ok(extent) => extent
                .filter(|extent| extent.is_inline() && !extent.is_unknown())
                .map(|extent| extent.physical_bytes)
                .filter(|place| *place > 0),
            // EBADR: it has extents, but tells none of attributes.
            Err(Errno::BADR | Errno::OPNOTSUPP | Errno::INVAL) => None,
            Err(errno) => return Err(errno),
        };
        self.tells_inodes.get_or_insert(place.is_some());
        Ok(place)
    }

    /// The extents of the open `directory`, ascending; empty where the filesystem tells none.
    ///
    /// # Errors
    /// Any but that the filesystem cannot tell.
    pub fn directory_blocks(&mut self, directory: &OwnedFd) -> CallResult<Blocks> {
        let mut blocks = Vec::new();
        let visited = visit_extents(directory, MapOptions::default(), &mut self.buffer, |extent| {
            if let FirstExtent::At { physical_bytes } = FirstExtent::of(extent) {
                blocks.push((physical_bytes, physical_bytes.saturating_add(extent.length_bytes)));
            }
        });
        match visited {
            // Many filesystems that tell the extents of files tell none of directories.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::ISDIR | Errno::BADR) => {}
            Err(errno) => return Err(errno),
        }
        blocks.sort_unstable();
        Ok(Blocks(blocks))
    }

    fn told<T>(&mut self, answer: CallResult<T>) -> CallResult<Option<T>> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(Errno::OPNOTSUPP) => {
                self.is_able = false;
                Ok(None)
            }
            Err(errno) => Err(errno),
        }
    }
}

impl Default for Mapper {
    fn default() -> Mapper {
        Mapper::new()
    }
}

/// Stretches of the device, start and end in bytes, ascending and apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks(Vec<(u64, u64)>);

impl Blocks {
    /// Bytes between `place` and the nearest byte of these stretches; 0 within one of them; `None` where
    /// there are none.
    #[must_use]
    pub fn distance_bytes(&self, place: u64) -> Option<u64> {
        let after = self.0.partition_point(|(start, _)| *start <= place);
        let below = after.checked_sub(1).map(|before| place.saturating_sub(self.0[before].1));
        let above = self.0.get(after).map(|(start, _)| start - place);
        below.into_iter().chain(above).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_to_the_nearest_stretch() {
        let blocks = Blocks(vec![(4096, 8192), (20_000, 24_096)]);
        for (place, distance) in [
            (0, 4096),
            (4096, 0),
            (8191, 0),
            (8192, 0),
            (9000, 808),
            (19_000, 1000),
            (50_000, 25_904),
        ] {
            assert_eq!(blocks.distance_bytes(place), Some(distance), "{place}");
        }
        assert_eq!(Blocks(vec![]).distance_bytes(7), None);
    }

    #[test]
    fn what_has_no_place_has_none() {
        let of = |flags| FirstExtent::of(&Extent::new(0, 4096, 512, flags));
        assert_eq!(of(0x1), FirstExtent::At { physical_bytes: 4096 });
        assert_eq!(of(0x300), FirstExtent::Inline);
        assert_eq!(of(0x2), FirstExtent::None);
        assert_eq!(of(0x6), FirstExtent::None);
    }
}
