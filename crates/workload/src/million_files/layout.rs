//! Why one order is faster than another: how closely readdir order follows the inode numbers and the
//! places on the device, how many files lie within the metadata, in how many pieces the others are, and
//! how far data lie from metadata. The values of the phase `layout`; rows of the list of metrics say
//! what each means.

use std::os::fd::OwnedFd;

use fsdyno_sys::calls::{Calls, Real};

use super::name::{FileName, Share};
use super::order::list_files;
use super::place::{Blocks, FirstExtent, Mapper};
use super::rank::{Placed, spearman};
use crate::context::Progress;
use crate::failure::{call_failed, check_interrupt, name_failed};
use crate::recorder::{Operation, Recorder};

/// Files between two looks at whether to stop.
const BATCH_FILES: usize = 256;
/// Key of a file that has no place of its own; none lies at the last byte of the address space.
const NOWHERE: u64 = u64::MAX;
const MIB: f64 = 1_048_576.0;

/// Distances are kept in units of this many bytes.
const DISTANCE_UNIT: u64 = 4096;
/// A distance that is not known; one so long, 16 TiB, is not told apart from it.
const UNKNOWN: u32 = u32::MAX;

/// One file, 24 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(4))]
struct Spot {
    ino: u64,
    /// First extent in bytes, or [`NOWHERE`].
    physical: u64,
    /// Index of the file until it is mapped; then its distance from the metadata, or [`UNKNOWN`].
    index_or_distance: u32,
    /// In readdir order; in the end, among those files that have a place.
    position: u32,
}

impl Placed for Spot {
    fn position(&self) -> u32 {
        self.position
    }
}

/// Mean of values, each with a weight.
#[derive(Debug, Clone, Copy, Default)]
struct WeightedMean {
    sum: f64,
    weight: f64,
}

impl WeightedMean {
    fn add(&mut self, value: Option<f64>, count: usize) {
        if let Some(value) = value {
            self.sum += value * count as f64;
            self.weight += count as f64;
        }
    }

    fn mean(self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.sum / self.weight)
    }
}

/// Figures of all directories together.
#[derive(Debug)]
pub struct Layout {
    /// Files of the directories so far.
    spots: Vec<Spot>,
    mapper: Mapper,
    inode_correlation: WeightedMean,
    disk_correlation: WeightedMean,
    /// Files with extents, those that are inline among them, and the extents of them all.
    mapped_files: u64,
    inline_files: u64,
    extents: u64,
}

impl Layout {
    /// Nothing yet; room for `file_count` files.
    #[must_use]
    pub fn new(file_count: usize) -> Layout {
        Layout {
            spots: Vec::with_capacity(file_count),
            mapper: Mapper::new(),
            inode_correlation: WeightedMean::default(),
            disk_correlation: WeightedMean::default(),
            mapped_files: 0,
            inline_files: 0,
            extents: 0,
        }
    }

    /// Adds the files of one directory.
    ///
    /// # Errors
    /// The call that failed first; what [`list_files`] finds wrong.
    pub fn add(
        &mut self,
        root: &OwnedFd,
        share: &Share,
        recorder: &mut Recorder,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let start = self.spots.len();
        let failed = |call| move |errno| call_failed(call, share.shown(), errno);
        let mut buffer = fsdyno_sys::calls::dir_buffer();
        recorder.begin();
        let directory = Real.open_dir(root, &share.path).map_err(failed("open"))?;
        let spots = &mut self.spots;
        list_files(&directory, share, &mut buffer, |index, ino| {
            let position = (spots.len() - start) as u32;
            spots.push(Spot { ino, physical: NOWHERE, index_or_distance: index, position });
        })?;
        recorder.end(Operation::List);
        let blocks = self.mapper.directory_blocks(&directory);
        let blocks = blocks.map_err(failed("ioctl FS_IOC_FIEMAP"))?;
        recorder.begin();
        // Readdir order of a large directory may be none at all on the device; inode order is quicker.
        self.spots[start..].sort_unstable_by_key(|spot| spot.ino);
        for batch in (start..self.spots.len()).step_by(BATCH_FILES) {
            check_interrupt()?;
            let end = self.spots.len().min(batch + BATCH_FILES);
            for spot in batch..end {
                self.map(&directory, share, &blocks, spot, recorder)?;
            }
            progress.advance((end - batch) as u64);
        }
        Real.close(directory).map_err(failed("close"))?;
        self.correlate(start);
        Ok(())
    }

    /// Finds where the file `spot` lies, and how far from its metadata.
    fn map(
        &mut self,
        directory: &OwnedFd,
        share: &Share,
        blocks: &Blocks,
        spot: usize,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let spot = &mut self.spots[spot];
        let name = FileName::new(std::mem::replace(&mut spot.index_or_distance, UNKNOWN));
        recorder.files += 1;
        if !self.mapper.is_able() {
            return Ok(());
        }
        let failed =
            |call| move |errno| name_failed(call, &share.directory, name.as_c_str(), errno);
        let file = Real.open_read(directory, name.as_c_str()).map_err(failed("open"))?;
        recorder.end(Operation::Open);
        let map = self.mapper.map(&file).map_err(failed("ioctl FS_IOC_FIEMAP"))?;
        recorder.end(Operation::Map);
        let inode = self.mapper.inode_place(&file).map_err(failed("ioctl FS_IOC_FIEMAP"))?;
        recorder.begin();
        Real.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        let Some(map) = map else { return Ok(()) };
        self.extents += map.extent_count;
        self.mapped_files += u64::from(map.extent_count > 0);
        match map.first {
            FirstExtent::At { physical_bytes } => {
                spot.physical = physical_bytes;
                let distance = match inode {
                    Some(place) => Some(physical_bytes.abs_diff(place)),
                    None => blocks.distance_bytes(physical_bytes),
                };
                let units = distance.and_then(|bytes| u32::try_from(bytes / DISTANCE_UNIT).ok());
                spot.index_or_distance = units.unwrap_or(UNKNOWN);
            }
            FirstExtent::Inline => self.inline_files += 1,
            FirstExtent::None => {}
        }
        Ok(())
    }

    /// Compares the orders of the files from `start` on, which are those of one directory.
    fn correlate(&mut self, start: usize) {
        let spots = &mut self.spots[start..];
        self.inode_correlation.add(spearman(spots, |spot| spot.ino), spots.len());
        spots.sort_unstable_by_key(|spot| (spot.physical == NOWHERE, spot.position));
        let count = spots.partition_point(|spot| spot.physical != NOWHERE);
        let placed = &mut spots[..count];
        (0..).zip(&mut *placed).for_each(|(position, spot)| spot.position = position);
        self.disk_correlation.add(spearman(placed, |spot| spot.physical), count);
    }

    /// The figures by the names of their metrics; what is not known is `None`.
    #[must_use]
    pub fn values(mut self) -> [(&'static str, Option<f64>); 5] {
        let of_mapped =
            |count: u64| (self.mapped_files > 0).then(|| count as f64 / self.mapped_files as f64);
        let (inline_share, extents) = (of_mapped(self.inline_files), of_mapped(self.extents));
        [
            ("readdir_inode_correlation", self.inode_correlation.mean()),
            ("readdir_disk_correlation", self.disk_correlation.mean()),
            ("inline_share", inline_share),
            ("extents_per_file", extents),
            ("metadata_data_distance_mib", self.median_distance_mib()),
        ]
    }

    fn median_distance_mib(&mut self) -> Option<f64> {
        let known = self.spots.iter().filter(|spot| spot.index_or_distance != UNKNOWN).count();
        // The unknown ones are the greatest.
        let middle = known.checked_sub(1)? / 2;
        let (_, spot, _) =
            self.spots.select_nth_unstable_by_key(middle, |spot| spot.index_or_distance);
        Some(f64::from(spot.index_or_distance) * DISTANCE_UNIT as f64 / MIB)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BYTES_PER_FILE;
    use super::*;

    #[test]
    fn a_file_takes_what_is_allowed() {
        assert_eq!(size_of::<Spot>(), BYTES_PER_FILE);
        assert_eq!(Layout::new(1000).spots.capacity(), 1000);
    }

    #[test]
    fn figures_of_files_that_are_known() {
        let mut layout = Layout::new(8);
        let mib = |mib: u64| mib << 20;
        // Inode numbers ascend in readdir order; places descend, and two files have none.
        for (position, physical, distance) in [
            (0, mib(900), 100),
            (1, NOWHERE, UNKNOWN),
            (2, mib(800), 300),
            (3, mib(700), 200),
            (4, NOWHERE, UNKNOWN),
        ] {
            let ino = 1000 + u64::from(position);
            layout.spots.push(Spot { ino, physical, index_or_distance: distance, position });
        }
        (layout.mapped_files, layout.inline_files, layout.extents) = (4, 1, 6);
        layout.correlate(0);
        // A second directory the other way round, three times as heavy as one file.
        for position in 0..3 {
            let (ino, physical) = (50 - u64::from(position), NOWHERE);
            layout.spots.push(Spot { ino, physical, index_or_distance: UNKNOWN, position });
        }
        layout.correlate(5);
        let values = layout.values();
        let value = |name| values.iter().find(|value| value.0 == name).unwrap().1;
        assert_eq!(value("readdir_inode_correlation"), Some((5.0 - 3.0) / 8.0));
        assert_eq!(value("readdir_disk_correlation"), Some(-1.0));
        assert_eq!(value("inline_share"), Some(0.25));
        assert_eq!(value("extents_per_file"), Some(1.5));
        assert_eq!(value("metadata_data_distance_mib"), Some(200.0 / 256.0));
        assert!(Layout::new(0).values().iter().all(|value| value.1.is_none()));
    }
}
