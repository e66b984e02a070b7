//! A disk as it is after a power cut, in memory: nothing of it is left when its owner ends, however that
//! ends, and no writeback to any disk is waited for.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use fsdyno_lab::emulator::write_log::{Entry, WriteLog};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};

use crate::cut::{Cut, Cuts, Fate};

/// Bytes that are compared with zeros at once.
const PIECE: usize = 4096;

/// A file in memory of a disk's size.
#[derive(Debug)]
pub struct MemoryImage(File);

impl MemoryImage {
    /// An image of zeros.
    ///
    /// # Errors
    /// Where the kernel gives no memory.
    pub fn new(size_bytes: u64) -> io::Result<MemoryImage> {
        let file = File::from(memfd_create("fsdyno-disk", MemfdFlags::CLOEXEC)?);
        file.set_len(size_bytes)?;
        Ok(MemoryImage(file))
    }

    /// By which path this process, and root, finds it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()))
    }

    /// Bytes of it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.0, flags, offset, bytes)?)
    }
}

/// What was on a disk at the beginning: only what is not zero.
#[derive(Debug)]
pub struct Base {
    size_bytes: u64,
    /// Pieces with their places, in order.
    pieces: Vec<(u64, Vec<u8>)>,
}

impl Base {
    /// The disk after the first `count` entries of `log`, all of them done.
    ///
    /// # Errors
    /// A sentence where the log cannot be read.
    pub fn new(log: &WriteLog, count: u64, size_bytes: u64) -> Result<Base, String> {
        let failed = |error: io::Error| format!("the disk before the first operation: {error}");
        let image = MemoryImage::new(size_bytes).map_err(failed)?;
        for entry in &log.entries()[..count as usize] {
            apply(&image, log, *entry, &Fate::Whole, 1).map_err(failed)?;
        }
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut piece = vec![0; PIECE];
        let mut at = rustix::fs::seek(&image.0, rustix::fs::SeekFrom::Data(0)).ok();
        while let Some(start) = at {
            let hole = rustix::fs::seek(&image.0, rustix::fs::SeekFrom::Hole(start))
                .map_err(|errno| failed(errno.into()))?;
            let mut offset = start;
            while offset < hole {
                let length = PIECE.min((hole - offset) as usize);
                image.read(offset, &mut piece[..length]).map_err(failed)?;
                if piece[..length].iter().any(|byte| *byte != 0) {
                    push(&mut pieces, offset, &piece[..length]);
                }
                offset += length as u64;
            }
            at = rustix::fs::seek(&image.0, rustix::fs::SeekFrom::Data(hole)).ok();
        }
        Ok(Base { size_bytes, pieces })
    }

    /// Bytes that are not zero, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// The disk after a power cut.
    ///
    /// # Errors
    /// A sentence where there is no memory or the log cannot be read.
    pub fn after(&self, cuts: &Cuts<'_>, cut: Cut) -> Result<MemoryImage, String> {
        let failed = |error: io::Error| format!("the disk after cut {}: {error}", cut.number);
        let image = MemoryImage::new(self.size_bytes).map_err(failed)?;
        for (offset, bytes) in &self.pieces {
            image.0.write_all_at(bytes, *offset).map_err(failed)?;
        }
        let (log, block) = (cuts.log(), cuts.rules().block_bytes);
        for (number, fate) in cuts.fates(cut) {
            let entry = log.entries()[number as usize];
            apply(&image, log, entry, &fate, block).map_err(failed)?;
        }
        Ok(image)
    }
}

fn push(pieces: &mut Vec<(u64, Vec<u8>)>, offset: u64, bytes: &[u8]) {
    match pieces.last_mut() {
        Some((start, known)) if *start + known.len() as u64 == offset => known.extend(bytes),
        _ => pieces.push((offset, bytes.to_vec())),
    }
}

fn apply(
    image: &MemoryImage,
    log: &WriteLog,
    entry: Entry,
    fate: &Fate,
    block_bytes: u64,
) -> io::Result<()> {
    let (offset, bytes, at) = match entry {
        Entry::Zero { offset, bytes } => return image.zero(offset, bytes),
        Entry::Write { offset, bytes, at } => (offset, u64::from(bytes), at),
        Entry::Flush | Entry::Done { .. } => return Ok(()),
    };
    let mut buffer = vec![0; bytes as usize];
    log.read(at, &mut buffer)?;
    let Fate::Blocks(keep) = fate else { return image.0.write_all_at(&buffer, offset) };
    let first = offset / block_bytes;
    for (block, _) in (first..).zip(keep).filter(|(_, keep)| **keep) {
        let from = (block * block_bytes).max(offset);
        let to = ((block + 1) * block_bytes).min(offset + bytes);
        image.0.write_all_at(&buffer[(from - offset) as usize..(to - offset) as usize], from)?;
    }
    Ok(())
}
