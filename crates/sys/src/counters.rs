//! What a block device has done: the kernel's own counters, read from a kept descriptor. What caused
//! the traffic is left to the caller; the counters know only requests.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::block::DeviceNumber;
use crate::error::{Result, SysError};

/// The unit of the kernel's block counters, whatever the device's own sector is.
const SECTOR_BYTES: u64 = 512;

/// Cumulative counters of a block device since it appeared; a difference of two readings after
/// [`DeviceStats::since`]. Fields that older kernels lack are `None`: discards came with Linux 4.18,
/// flushes with 5.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Completed read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time that reads spent between submission and completion, summed, in nanoseconds.
    pub read_wait_ns: u64,
    /// Completed write requests.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time that writes spent between submission and completion, summed, in nanoseconds.
    pub write_wait_ns: u64,
    /// Completed discard requests.
    pub discards: Option<u64>,
    /// Bytes discarded.
    pub discard_bytes: Option<u64>,
    /// Completed flush requests. The kernel counts them on whole disks only: 0 on a partition.
    pub flushes: Option<u64>,
    /// Time that flushes took, summed, in nanoseconds.
    pub flush_wait_ns: Option<u64>,
    /// Requests in flight at this moment.
    pub in_flight: u64,
    /// Time with at least one request in flight, in nanoseconds (counted in milliseconds or coarser).
    pub io_ticks_ns: u64,
    /// Time weighted by the number of requests in flight, in nanoseconds.
    pub time_in_queue_ns: u64,
}

impl DeviceStats {
    /// What happened since `earlier`.
    ///
    /// Counters that went back (some are 32 bits wide on 32-bit kernels) give 0. What is in flight is
    /// a state: that of the later reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let optional = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            read_wait_ns: self.read_wait_ns.saturating_sub(earlier.read_wait_ns),
            writes: self.writes.saturating_sub(earlier.writes),
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            write_wait_ns: self.write_wait_ns.saturating_sub(earlier.write_wait_ns),
            discards: optional(self.discards, earlier.discards),
            discard_bytes: optional(self.discard_bytes, earlier.discard_bytes),
            flushes: optional(self.flushes, earlier.flushes),
            flush_wait_ns: optional(self.flush_wait_ns, earlier.flush_wait_ns),
            in_flight: self.in_flight,
            io_ticks_ns: self.io_ticks_ns.saturating_sub(earlier.io_ticks_ns),
            time_in_queue_ns: self.time_in_queue_ns.saturating_sub(earlier.time_in_queue_ns),
        }
    }
}

/// Reads the counters of one block device, whole disk or partition.
#[derive(Debug)]
pub struct DeviceCounters {
    stat: File,
    path: PathBuf,
}

impl DeviceCounters {
    /// Opens the counters of the device `number`.
    ///
    /// # Errors
    /// `ENOENT` where there is no such device, or sysfs is not mounted.
    pub fn open(number: DeviceNumber) -> Result<Self> {
        let path = number.sysfs_path().join("stat");
        let stat = File::open(&path).map_err(|error| SysError::from_io("open", &path, &error))?;
        Ok(Self { stat, path })
    }

    /// The counters of this moment. Costs a microsecond or two.
    ///
    /// # Errors
    /// `ENODEV` once the device is gone; `EBADMSG` where the text has not the documented form.
    pub fn read(&self) -> Result<DeviceStats> {
        let mut buffer = [0; 512];
        let count = self
            .stat
            .read_at(&mut buffer, 0)
            .map_err(|error| SysError::from_io("read", &self.path, &error))?;
        let text = String::from_utf8_lossy(&buffer[..count]);
        parse_stat(&text).ok_or_else(|| {
            SysError::malformed(
                self.path.display().to_string(),
                "fewer than 11 counts in a device's stat",
            )
        })
    }
}

/// The fields of `/sys/block/*/stat`, as listed in the kernel's Documentation/block/stat.rst.
fn parse_stat(text: &str) -> Option<DeviceStats> {
    let mut fields = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let mut next = || fields.next().flatten();
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    let ns = |milliseconds: u64| milliseconds.saturating_mul(1_000_000);
    let (reads, _merged, read_bytes, read_wait_ns) =
        (next()?, next()?, bytes(next()?), ns(next()?));
    let (writes, _merged, write_bytes, write_wait_ns) =
        (next()?, next()?, bytes(next()?), ns(next()?));
    let (in_flight, io_ticks_ns, time_in_queue_ns) = (next()?, ns(next()?), ns(next()?));
    let (discards, _merged, discard_bytes, _wait) = (next(), next(), next().map(bytes), next());
    let (flushes, flush_wait_ns) = (next(), next().map(ns));
    Some(DeviceStats {
        reads,
        read_bytes,
        read_wait_ns,
        writes,
        write_bytes,
        write_wait_ns,
        discards,
        discard_bytes,
        flushes,
        flush_wait_ns,
        in_flight,
        io_ticks_ns,
        time_in_queue_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_the_kernel_documents_them() {
        let modern = parse_stat("  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n").unwrap();
        let expected = DeviceStats {
            reads: 1,
            read_bytes: 3 * 512,
            read_wait_ns: 4_000_000,
            writes: 5,
            write_bytes: 7 * 512,
            write_wait_ns: 8_000_000,
            discards: Some(12),
            discard_bytes: Some(14 * 512),
            flushes: Some(16),
            flush_wait_ns: Some(17_000_000),
            in_flight: 9,
            io_ticks_ns: 10_000_000,
            time_in_queue_ns: 11_000_000,
        };
        assert_eq!(modern, expected);
        let old = parse_stat("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.discards, old.discard_bytes, old.flushes), (None, None, None));
        assert_eq!(old.writes, 5);
    }

    #[test]
    fn broken_text_is_refused() {
        for text in [
            "",
            "1 2 3",
            "a b c d e f g h i j k",
            "1 2 3 4 5 6 7 8 9 10",
            "-1 2 3 4 5 6 7 8 9 10 11",
        ] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
        assert_eq!(
            parse_stat("1 1 18446744073709551615 1 1 1 1 1 1 1 1").unwrap().read_bytes,
            u64::MAX
        );
    }

    #[test]
    fn differences_keep_the_unknown_unknown() {
        let now = DeviceStats { reads: 7, flushes: Some(3), discards: None, ..Default::default() };
        let then =
            DeviceStats { reads: 5, flushes: Some(1), discards: Some(1), ..Default::default() };
        let gone = now.since(&then);
        assert_eq!((gone.reads, gone.flushes, gone.discards), (2, Some(2), None));
        assert_eq!(then.since(&now).reads, 0);
    }

    #[test]
    fn an_absent_device_is_not_found() {
        let error = DeviceCounters::open(DeviceNumber { major: 4095, minor: 7 }).unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }
}
