//! The yardstick: short pieces of fixed work for one processor and for the device under a place, and the
//! median of their times. A piece of the processor's work is long enough to be interrupted by what else
//! runs, so that a busy machine shows; a stall spoils one piece and not the median. When it is worked, and
//! what is concluded, is left to the callers.

use std::ffi::CStr;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::path::Path;

use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{Calls as _, OpenFlags, Real};
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::{Errno, SysError};

use crate::failure::{call_failed, check_interrupt};
use crate::payload::{GOLDEN, mix};
use crate::read_speed;

/// Name of the file that is made for it.
pub const FILE: &CStr = c"yardstick";
/// Its size.
pub const FILE_BYTES: u64 = 16 << 20;
/// What is read and written at once.
pub const BLOCK_BYTES: u64 = 4096;

/// Steps of a piece of computing: some milliseconds.
const STEPS: u32 = 4 << 20;
/// Bytes that are copied at once: more than a processor of today keeps near itself.
const COPY_BYTES: usize = 8 << 20;
/// Copies of a piece.
const COPIES: u32 = 2;
/// Fewest pieces, however long they take.
const FEWEST: usize = 5;
/// Most operations of one kind on a device, so that a fast one is not worn out.
const MOST_OPERATIONS: usize = 2000;
/// Most flushes.
const MOST_FLUSHES: usize = 200;
/// Seed of the places that are drawn, the same for every reading.
const SEED: u64 = 1;

/// Times of a device, medians in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceTimes {
    /// Reading a block at a place drawn at random.
    pub read_ns: f64,
    /// Writing one; `None` where it is only read.
    pub write_ns: Option<f64>,
    /// Writing one and making it durable; `None` where it is only read.
    pub flush_ns: Option<f64>,
}

/// Time of one step of computing, in nanoseconds; works for about `limit_ns`.
///
/// # Errors
/// When a signal asks to stop.
pub fn compute_ns(limit_ns: u64) -> anyhow::Result<f64> {
    let mut word = SEED;
    let piece = median_ns(limit_ns, usize::MAX, |_| {
        for _ in 0..STEPS {
            // Each step needs the one before, so that it is latency that is timed.
            word = mix(word.wrapping_add(GOLDEN));
        }
        word = black_box(word);
        Ok(())
    })?;
    Ok(piece / f64::from(STEPS))
}

/// Time of copying 1 KiB, in nanoseconds; works for about `limit_ns`.
///
/// # Errors
/// When a signal asks to stop.
pub fn copy_ns_per_kib(limit_ns: u64) -> anyhow::Result<f64> {
    let source = vec![0x5a_u8; COPY_BYTES];
    // Written once before, so that no page is missing.
    let mut copy = vec![1_u8; COPY_BYTES];
    let piece = median_ns(limit_ns, usize::MAX, |_| {
        for _ in 0..COPIES {
            copy.copy_from_slice(black_box(&source));
            black_box(&mut copy);
        }
        Ok(())
    })?;
    Ok(piece / f64::from(COPIES) / (COPY_BYTES as f64 / 1024.0))
}

/// Makes the file of the yardstick in the directory at `path`, written in full and durable.
///
/// # Errors
/// When a call fails or a signal asks to stop.
pub fn make_file(path: &Path, limit_ns: u64) -> anyhow::Result<()> {
    let size_bytes = read_speed::write_trial_file(path, FILE, FILE_BYTES, limit_ns)?;
    anyhow::ensure!(
        size_bytes == FILE_BYTES,
        "{}: {FILE_BYTES} bytes could not be written in time",
        path.display()
    );
    Ok(())
}

/// Times the device by the file in the directory at `path`, each of the three for about `limit_ns`.
///
/// # Errors
/// When the file cannot be reached past the page cache, a call fails, or a signal asks to stop.
pub fn file_times(path: &Path, limit_ns: u64) -> anyhow::Result<DeviceTimes> {
    let failed = |call, errno| call_failed(call, path.display().to_string(), errno);
    let directory = Real.open_root(path).map_err(|errno| failed("open", errno))?;
    let flags = OpenFlags { direct: true, ..OpenFlags::READ_WRITE };
    let file = Real.open_with(&directory, FILE, flags).map_err(|errno| match errno {
        Errno::INVAL => failed("open", errno).with_detail("it has no direct I/O"),
        _ => failed("open", errno),
    })?;
    let read_ns = reads(&file, path, FILE_BYTES, limit_ns)?;
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES as usize);
    for (index, word) in buffer.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&mix(index as u64 + GOLDEN).to_le_bytes());
    }
    let write = |piece: usize| {
        Real.write_all_at(&file, &buffer, offset(piece, FILE_BYTES))
            .map_err(|errno| failed("write", errno).into())
    };
    let write_ns = median_ns(limit_ns, MOST_OPERATIONS, &write)?;
    let flush = |piece: usize| -> anyhow::Result<()> {
        write(piece)?;
        Ok(Real.fdatasync(&file).map_err(|errno| failed("fdatasync", errno))?)
    };
    let flush_ns = median_ns(limit_ns, MOST_FLUSHES, flush)?;
    Ok(DeviceTimes { read_ns, write_ns: Some(write_ns), flush_ns: Some(flush_ns) })
}

/// Times the block device at `path` by reading it for about `limit_ns`; nothing is written.
///
/// # Errors
/// When it cannot be read past the page cache, a call fails, or a signal asks to stop.
pub fn device_times(path: &Path, limit_ns: u64) -> anyhow::Result<DeviceTimes> {
    let source = read_speed::Source::uncached_at(&path.canonicalize()?)?;
    anyhow::ensure!(source.direct, "{}: it has no direct I/O", path.display());
    let size_bytes = fsdyno_sys::block::size_bytes(path)?;
    let read_ns = reads(&source.file, path, size_bytes, limit_ns)?;
    Ok(DeviceTimes { read_ns, write_ns: None, flush_ns: None })
}

fn reads(file: &OwnedFd, path: &Path, size_bytes: u64, limit_ns: u64) -> anyhow::Result<f64> {
    let mut buffer = AlignedBuffer::new(BLOCK_BYTES as usize);
    median_ns(limit_ns, MOST_OPERATIONS, |piece| {
        match Real.read_at(file, &mut buffer, offset(piece, size_bytes)) {
            Ok(count) if count as u64 == BLOCK_BYTES => Ok(()),
            Ok(_) => anyhow::bail!("{}: it is shorter than it was", path.display()),
            Err(errno) => Err(SysError::at_path("read", path, errno).into()),
        }
    })
}

/// Where the block of a piece lies: drawn at random, the same for every reading.
fn offset(piece: usize, size_bytes: u64) -> u64 {
    let blocks = (size_bytes / BLOCK_BYTES).max(1);
    mix(SEED ^ (piece as u64).wrapping_mul(GOLDEN)) % blocks * BLOCK_BYTES
}

/// Median time of pieces of work, in nanoseconds: as many as begin within `limit_ns`, at least five and no
/// more than `most`.
fn median_ns(
    limit_ns: u64,
    most: usize,
    mut work: impl FnMut(usize) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut times_ns = Vec::with_capacity(most.min(4096));
    let end_ns = now_ns() + limit_ns;
    loop {
        check_interrupt()?;
        let start_ns = now_ns();
        if times_ns.len() >= FEWEST && (start_ns >= end_ns || times_ns.len() >= most) {
            break;
        }
        work(times_ns.len())?;
        times_ns.push(now_ns() - start_ns);
    }
    times_ns.sort_unstable();
    let middle = times_ns.len() / 2;
    let below = times_ns[if times_ns.len() % 2 == 1 { middle } else { middle - 1 }];
    Ok(f64::midpoint(below as f64, times_ns[middle] as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_pieces_bears_a_stall() {
        let mut begun = 0;
        let median = median_ns(0, 100, |piece| {
            assert_eq!(piece, begun);
            begun += 1;
            if piece == 2 {
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
            Ok(())
        });
        assert_eq!(begun, FEWEST, "no time, but five pieces");
        assert!(median.unwrap() < 30e6);
        let mut begun = 0;
        median_ns(u64::MAX >> 1, 7, |_| {
            begun += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(begun, 7, "and no more than are allowed");
    }

    #[test]
    fn places_are_blocks_within_the_device_and_always_the_same() {
        let mut seen = std::collections::BTreeSet::new();
        for piece in 0..2000 {
            let offset = offset(piece, FILE_BYTES);
            assert!(offset.is_multiple_of(BLOCK_BYTES) && offset + BLOCK_BYTES <= FILE_BYTES);
            seen.insert(offset);
        }
        assert!(seen.len() > 1500, "{}", seen.len());
        assert_eq!(offset(3, 100), 0, "a device of less than a block");
        assert_eq!(offset(7, FILE_BYTES), offset(7, FILE_BYTES));
    }

    #[test]
    fn more_work_takes_more_time() {
        assert!(compute_ns(1).unwrap() > 0.1);
        assert!(copy_ns_per_kib(1).unwrap() > 1.0);
    }

    #[test]
    fn a_place_is_timed_and_keeps_its_file() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        make_file(directory.path(), 60_000_000_000).unwrap();
        match file_times(directory.path(), 1_000_000) {
            Ok(times) => {
                assert!(times.read_ns > 0.0 && times.write_ns.unwrap() > 0.0, "{times:?}");
                assert!(times.flush_ns.unwrap() > 0.0, "{times:?}");
            }
            Err(error) => println!("skipped: {error:#}"),
        }
        let file = directory.path().join("yardstick");
        assert_eq!(std::fs::metadata(file).unwrap().len(), FILE_BYTES);
        assert!(file_times(Path::new("/nowhere"), 1).is_err());
        let error = device_times(Path::new("/dev/null"), 1).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}
