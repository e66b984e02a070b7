//! What an emulated disk holds: a file, and apart from it, where that is asked for, the writes that are
//! only in the disk's cache: killing the server is then a power cut, and loses them. How long anything
//! takes is not decided here.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

const BLOCK: usize = 4096;
/// Most bytes of zeros that are written at once where the filesystem below cannot make holes.
const ZEROS: usize = 1 << 20;

/// Blocks that are in the cache only.
#[derive(Debug)]
struct Cache {
    blocks: HashMap<u64, Box<[u8; BLOCK]>>,
    /// In the order of their first write; one that was written out is left in it until its turn.
    order: VecDeque<u64>,
    most_blocks: usize,
}

/// The contents of a disk.
#[derive(Debug)]
pub struct Store {
    file: File,
    cache: Option<Cache>,
}

impl Store {
    /// The contents of `file`; where `volatile_bytes` is more than 0, so many bytes of writes are kept apart
    /// until a flush, or until there are more.
    #[must_use]
    pub fn new(file: File, volatile_bytes: u64) -> Store {
        let most_blocks = usize::try_from(volatile_bytes).unwrap_or(usize::MAX) / BLOCK;
        let cache = (most_blocks > 0).then(|| Cache {
            blocks: HashMap::new(),
            order: VecDeque::new(),
            most_blocks,
        });
        Store { file, cache }
    }

    /// Fills `buffer` with what is at `offset`; what lies beyond the file reads as zeros.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => {
                    buffer[filled..].fill(0);
                    break;
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let Some(cache) = self.cache.as_ref().filter(|cache| !cache.blocks.is_empty()) else {
            return Ok(());
        };
        for (block, within, part) in parts(offset, buffer.len()) {
            if let Some(bytes) = cache.blocks.get(&block) {
                buffer[part.clone()].copy_from_slice(&bytes[within..within + part.len()]);
            }
        }
        Ok(())
    }

    /// Takes `data` at `offset`; with `fua` it is durable at once.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        if self.cache.is_none() || fua {
            self.file.write_all_at(data, offset)?;
        }
        let Some(mut cache) = self.cache.take() else { return Ok(()) };
        let done = self.write_cached(&mut cache, offset, data, fua);
        self.cache = Some(cache);
        done
    }

    fn write_cached(
        &self,
        cache: &mut Cache,
        offset: u64,
        data: &[u8],
        fua: bool,
    ) -> io::Result<()> {
        for (block, within, part) in parts(offset, data.len()) {
            let known = cache.blocks.get_mut(&block);
            let bytes = match known {
                Some(bytes) => bytes,
                None if fua => continue,
                None => {
                    let mut bytes = Box::new([0; BLOCK]);
                    if part.len() < BLOCK {
                        let _ = self.file.read_at(&mut bytes[..], block * BLOCK as u64)?;
                    }
                    cache.order.push_back(block);
                    cache.blocks.entry(block).or_insert(bytes)
                }
            };
            bytes[within..within + part.len()].copy_from_slice(&data[part]);
        }
        while cache.blocks.len() > cache.most_blocks
            && let Some(block) = cache.order.pop_front()
        {
            if let Some(bytes) = cache.blocks.remove(&block) {
                self.file.write_all_at(&bytes[..], block * BLOCK as u64)?;
            }
        }
        Ok(())
    }

    /// Makes everything that was written durable, as far as the disk's power goes.
    ///
    /// # Errors
    /// Those of the file.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(cache) = &mut self.cache else { return Ok(()) };
        while let Some(block) = cache.order.pop_front() {
            if let Some(bytes) = cache.blocks.remove(&block) {
                self.file.write_all_at(&bytes[..], block * BLOCK as u64)?;
            }
        }
        Ok(())
    }

    /// Makes `bytes` at `offset` read as zeros; `keep` where their space stays allocated.
    ///
    /// # Errors
    /// Those of the file.
    pub fn clear(&mut self, offset: u64, bytes: u64, keep: bool) -> io::Result<()> {
        if let Some(cache) = &mut self.cache {
            let block = BLOCK as u64;
            let whole = offset.div_ceil(block)..(offset + bytes) / block;
            if !cache.blocks.is_empty() {
                cache.blocks.retain(|number, _| !whole.contains(number));
            }
        }
        let flags = if keep { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        let flags = flags | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, flags, offset, bytes).is_ok() {
            return Ok(());
        }
        let zeros = vec![0; ZEROS];
        let mut at = offset;
        while at < offset + bytes {
            let count = (offset + bytes - at).min(ZEROS as u64) as usize;
            self.file.write_all_at(&zeros[..count], at)?;
            at += count as u64;
        }
        Ok(())
    }
}

/// The blocks of a range: number, first byte within, and which bytes of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= length {
            return None;
        }
        let position = offset + at as u64;
        let within = (position % BLOCK as u64) as usize;
        let count = (BLOCK - within).min(length - at);
        let part = at..at + count;
        at += count;
        Some((position / BLOCK as u64, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(volatile_bytes: u64) -> (tempfile::NamedTempFile, Store) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let store = Store::new(file.reopen().unwrap(), volatile_bytes);
        (file, store)
    }

    fn read(store: &Store, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![9; length];
        store.read(offset, &mut buffer).unwrap();
        buffer
    }

    #[test]
    fn what_is_not_flushed_is_not_in_the_file() {
        let (file, mut store) = store(64 << 10);
        store.write(100, b"first", false).unwrap();
        store.flush().unwrap();
        store.write(4094, b"second", false).unwrap();
        store.write(100, b"third", false).unwrap();
        store.write(9000, b"forced", true).unwrap();
        assert_eq!(read(&store, 4094, 6), b"second");
        assert_eq!(read(&store, 100, 5), b"third");
        // The server is killed: what was flushed or forced is there, the rest is not.
        let after = Store::new(file.reopen().unwrap(), 0);
        assert_eq!(read(&after, 100, 5), b"first");
        assert_eq!(read(&after, 4094, 6), [0; 6]);
        assert_eq!(read(&after, 9000, 6), b"forced");
    }

    #[test]
    fn a_full_cache_writes_the_oldest_out() {
        let (file, mut store) = store(8 << 10);
        for block in 0..4u64 {
            store.write(block * 4096, &[block as u8 + 1; 4096], false).unwrap();
        }
        let after = Store::new(file.reopen().unwrap(), 0);
        let found: Vec<u8> = (0..4).map(|block| read(&after, block * 4096, 1)[0]).collect();
        assert_eq!(found, [1, 2, 0, 0]);
        assert_eq!(read(&store, 3 * 4096, 1), [4]);
    }

    #[test]
    fn what_is_cleared_reads_as_zeros() {
        for (volatile_bytes, keep) in [(0, false), (64 << 10, false), (0, true), (64 << 10, true)] {
            let (_file, mut store) = store(volatile_bytes);
            store.write(0, &[7; 3 * 4096], false).unwrap();
            store.clear(4096, 4096, keep).unwrap();
            assert_eq!(read(&store, 4096, 4096), [0; 4096]);
            assert_eq!((read(&store, 4095, 1), read(&store, 8192, 1)), (vec![7], vec![7]));
        }
        let (_file, store) = store(0);
        assert_eq!(read(&store, (1 << 20) - 2, 4), [0; 4]);
    }
}
