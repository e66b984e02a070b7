//! What the kernel's memory management holds and does: the counters of `/proc/vmstat`. Which of them
//! matter for a filesystem is chosen here; what caused them is left to the caller.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Result, SysError};

const PATH: &str = "/proc/vmstat";
/// Longer than any kernel's.
const LIMIT_BYTES: usize = 64 << 10;

/// States of this moment, and counts since boot. What a kernel lacks is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Dirty pages of files, not yet under writeback, in bytes.
    pub dirty_bytes: Option<u64>,
    /// Pages under writeback, in bytes.
    pub writeback_bytes: Option<u64>,
    /// The page cache, shared memory and buffers of block devices included, in bytes.
    pub page_cache_bytes: Option<u64>,
    /// Memory used for nothing, in bytes.
    pub free_bytes: Option<u64>,
    /// Kernel memory that can be given back: inodes, directory entries, in bytes.
    pub reclaimable_slab_bytes: Option<u64>,
    /// Bytes read from block devices since boot.
    pub paged_in_bytes: Option<u64>,
    /// Bytes written to block devices since boot.
    pub paged_out_bytes: Option<u64>,
    /// Page faults since boot.
    pub faults: Option<u64>,
    /// Page faults that had to wait for a device since boot.
    pub major_faults: Option<u64>,
    /// Bytes of file pages that were made dirty since boot.
    pub dirtied_bytes: Option<u64>,
    /// Bytes of file pages that writeback has written since boot.
    pub written_bytes: Option<u64>,
    /// Bytes of pages that were looked at to be reclaimed since boot.
    pub scanned_bytes: Option<u64>,
    /// Bytes of pages that were reclaimed since boot.
    pub reclaimed_bytes: Option<u64>,
    /// Bytes of file pages that were read again soon after they had been reclaimed, since boot.
    pub refaulted_bytes: Option<u64>,
}

/// Reads [`MemoryStats`] from a kept descriptor.
#[derive(Debug)]
pub struct VirtualMemory {
    file: File,
    page_bytes: u64,
    buffer: Vec<u8>,
}

impl VirtualMemory {
    /// Opens `/proc/vmstat`.
    ///
    /// # Errors
    /// Where `/proc` is not mounted.
    pub fn open() -> Result<Self> {
        let path = Path::new(PATH);
        let file = File::open(path).map_err(|error| SysError::from_io("open", path, &error))?;
        let page_bytes = rustix::param::page_size() as u64;
        Ok(Self { file, page_bytes, buffer: vec![0; LIMIT_BYTES] })
    }

    /// The figures of this moment. Costs about 20 µs.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn read(&mut self) -> Result<MemoryStats> {
        let mut length = 0;
        // The kernel gives at most a page at a time.
        while length < self.buffer.len() {
            let count = self
                .file
                .read_at(&mut self.buffer[length..], length as u64)
                .map_err(|error| SysError::from_io("read", Path::new(PATH), &error))?;
            if count == 0 {
                break;
            }
            length += count;
        }
        Ok(parse(&self.buffer[..length], self.page_bytes))
    }
}

/// Lines are `NAME COUNT`. Pages are turned into bytes; `pgpgin` and `pgpgout` are in KiB.
fn parse(text: &[u8], page_bytes: u64) -> MemoryStats {
    let mut stats = MemoryStats::default();
    for line in text.split(|byte| *byte == b'\n') {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else { continue };
        let (field, unit, adds) = match &line[..space] {
            b"nr_dirty" => (&mut stats.dirty_bytes, page_bytes, false),
            b"nr_writeback" => (&mut stats.writeback_bytes, page_bytes, false),
            b"nr_file_pages" => (&mut stats.page_cache_bytes, page_bytes, false),
            b"nr_free_pages" => (&mut stats.free_bytes, page_bytes, false),
            b"nr_slab_reclaimable" => (&mut stats.reclaimable_slab_bytes, page_bytes, false),
            b"pgpgin" => (&mut stats.paged_in_bytes, 1024, false),
            b"pgpgout" => (&mut stats.paged_out_bytes, 1024, false),
            b"pgfault" => (&mut stats.faults, 1, false),
            b"pgmajfault" => (&mut stats.major_faults, 1, false),
            b"nr_dirtied" => (&mut stats.dirtied_bytes, page_bytes, false),
            b"nr_written" => (&mut stats.written_bytes, page_bytes, false),
            b"pgscan_kswapd" | b"pgscan_direct" => (&mut stats.scanned_bytes, page_bytes, true),
            b"pgsteal_kswapd" | b"pgsteal_direct" => (&mut stats.reclaimed_bytes, page_bytes, true),
            // Before Linux 5.9 files and anonymous memory were counted together.
            b"workingset_refault_file" | b"workingset_refault" => {
                (&mut stats.refaulted_bytes, page_bytes, false)
            }
            _ => continue,
        };
        let count = std::str::from_utf8(&line[space + 1..]).ok().and_then(|it| it.parse().ok());
        let Some(value) = count.and_then(|count: u64| count.checked_mul(unit)) else { continue };
        *field = Some(if adds { field.unwrap_or(0).saturating_add(value) } else { value });
    }
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_and_the_unknown_stays_unknown() {
        let text = b"nr_dirty 3\nnr_file_pages 10\npgpgin 7\npgfault 9\npgsteal_kswapd 1\n\
                     pgsteal_direct 2\npgscan_direct_throttle 5\nnr_written x\nodd\nnr_dirtied -1\n";
        let expected = MemoryStats {
            dirty_bytes: Some(3 * 4096),
            page_cache_bytes: Some(10 * 4096),
            paged_in_bytes: Some(7 * 1024),
            faults: Some(9),
            reclaimed_bytes: Some(3 * 4096),
            ..MemoryStats::default()
        };
        assert_eq!(parse(text, 4096), expected);
        assert_eq!(parse(b"\xff \xff\n", 4096), MemoryStats::default());
    }

    #[test]
    fn this_kernel_tells_all_that_matters() {
        let mut memory = VirtualMemory::open().unwrap();
        let stats = memory.read().unwrap();
        assert!(stats.page_cache_bytes.is_some_and(|bytes| bytes > 0), "{stats:?}");
        assert!(stats.dirty_bytes.is_some() && stats.writeback_bytes.is_some(), "{stats:?}");
        // What stands at the end of the file is read too.
        assert!(stats.faults.is_some() && stats.scanned_bytes.is_some(), "{stats:?}");
    }
}
