//! What each chunk of the large file holds after each phase, so that it can be checked whenever it is
//! read back. Chunks are written once in order, then one byte of each is changed (rewrite), then one
//! byte of some of them once more (seeks).
//!
//! Making payload for every chunk would take a third of the time of the phase where the filesystem is in
//! memory. Therefore it is made once for 1 MiB and repeated, with eight random bytes of each block of
//! 4 KiB made anew: no two blocks are alike, and a compressor, whose window is smaller, saves the stated
//! share. Only where duplicates are asked for, every chunk is made by itself.

use fsdyno_model::payload::Payload;
use fsdyno_sys::buffer::AlignedBuffer;

use crate::payload::{BLOCK_BYTES, GOLDEN, PayloadSource, content_key, mix, name_hash};

/// Key of the large file's contents.
const KEY: u64 = content_key(name_hash(b"bonnie"), 0, 0);
/// Length of the payload that is repeated: the longest chunk, and eight times what a filesystem
/// compresses at once.
const REPEATED_BYTES: usize = 1 << 20;
/// What a seeker writes: a fixed byte, so that two seekers that meet in one chunk leave the same.
const SEEK_MARK: u8 = 0x5a;

/// The last thing that happened to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was written.
    Written,
    /// It was rewritten.
    Rewritten,
    /// A seeker wrote it.
    Sought,
}

/// The contents of the large file.
#[derive(Debug)]
pub struct Contents {
    kind: Kind,
    chunk_bytes: usize,
}

#[derive(Debug)]
enum Kind {
    /// Zeros, of which one is counted up before each chunk, as in the original.
    Counted,
    /// What is repeated, and the seed of what is not.
    Repeated { payload: Vec<u8>, seed: u64 },
    /// Every block by itself.
    Made(PayloadSource),
}

impl Contents {
    /// The contents for `payload` in chunks of `chunk_bytes`, a power of two; `seed` makes another
    /// run's data different.
    #[must_use]
    pub fn new(payload: Payload, seed: u64, chunk_bytes: usize) -> Contents {
        let source = PayloadSource::new(payload, seed);
        let kind = match payload {
            Payload::Original => Kind::Counted,
            Payload::Realistic { duplication_percent: 0, .. } => {
                let mut payload = vec![0; REPEATED_BYTES];
                source.fill(KEY, 0, &mut payload);
                Kind::Repeated { payload, seed: mix(seed ^ KEY) }
            }
            Payload::Realistic { .. } => Kind::Made(source),
        };
        Contents { kind, chunk_bytes }
    }

    /// Bytes of one chunk.
    #[must_use]
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// The byte of chunk `index` that is changed.
    #[inline(always)]
    fn place(&self, index: u64) -> usize {
        index as usize & (self.chunk_bytes - 1)
    }

    /// Changes one byte of the chunk `index`, as it was written, for the rewrite.
    #[inline(always)]
    pub fn rewrite(&self, index: u64, chunk: &mut [u8]) {
        let byte = &mut chunk[self.place(index)];
        *byte = byte.wrapping_add(1);
    }

    /// Changes the same byte for a seeker.
    #[inline(always)]
    pub fn mark(&self, index: u64, chunk: &mut [u8]) {
        chunk[self.place(index)] = SEEK_MARK;
    }

    /// Fills `chunk` with what the chunk `index` must hold after `change`.
    pub fn expect(&self, index: u64, change: Change, chunk: &mut [u8]) {
        match &self.kind {
            Kind::Made(source) => source.fill(KEY, index * self.chunk_bytes as u64, chunk),
            Kind::Repeated { payload, seed } => {
                let offset = index * self.chunk_bytes as u64;
                let start = offset as usize % REPEATED_BYTES;
                chunk.copy_from_slice(&payload[start..start + self.chunk_bytes]);
                stamp(*seed, offset, chunk);
            }
            Kind::Counted => {
                for (place, byte) in chunk.iter_mut().enumerate() {
                    let since = index.checked_sub(place as u64);
                    *byte = since.map_or(0, |since| (since / self.chunk_bytes as u64 + 1) as u8);
                }
            }
        }
        match change {
            Change::Written => {}
            Change::Rewritten => self.rewrite(index, chunk),
            Change::Sought => self.mark(index, chunk),
        }
    }

    /// The bytes that are written one at a time, from `offset` on: those that the original counts, or
    /// payload.
    pub fn fill_chars(&self, offset: u64, bytes: &mut [u8]) {
        match &self.kind {
            Kind::Made(source) => source.fill(KEY, offset, bytes),
            Kind::Repeated { payload, .. } => {
                let repeated = payload.iter().cycle().skip(offset as usize % REPEATED_BYTES);
                bytes.iter_mut().zip(repeated).for_each(|(byte, payload)| *byte = *payload);
            }
            Kind::Counted => {
                for (byte, place) in bytes.iter_mut().zip(offset..) {
                    *byte = (place & 0x7f) as u8;
                }
            }
        }
    }

    /// Makes the chunks in order, to be written.
    #[must_use]
    pub fn writer(&self) -> ChunkWriter<'_> {
        let mut buffer = AlignedBuffer::new(match &self.kind {
            Kind::Repeated { payload, .. } => payload.len(),
            _ => self.chunk_bytes.max(BLOCK_BYTES),
        });
        if let Kind::Repeated { payload, .. } = &self.kind {
            buffer.copy_from_slice(payload);
        }
        ChunkWriter { contents: self, buffer, next: 0 }
    }
}

/// Makes the chunks of the large file one after the other.
#[derive(Debug)]
pub struct ChunkWriter<'a> {
    contents: &'a Contents,
    buffer: AlignedBuffer,
    /// Index of the next chunk.
    next: u64,
}

impl ChunkWriter<'_> {
    /// The next chunk, from the first on.
    #[inline]
    pub fn next_chunk(&mut self) -> &[u8] {
        let (index, chunk_bytes) = (self.next, self.contents.chunk_bytes);
        self.next += 1;
        let offset = index * chunk_bytes as u64;
        // Both lengths are powers of two.
        let start = offset as usize & (self.buffer.len() - 1);
        match &self.contents.kind {
            Kind::Made(source) => {
                if start == 0 {
                    source.fill(KEY, offset, &mut self.buffer);
                }
                &self.buffer[start..start + chunk_bytes]
            }
            Kind::Repeated { seed, .. } => {
                let chunk = &mut self.buffer[start..start + chunk_bytes];
                stamp(*seed, offset, chunk);
                chunk
            }
            Kind::Counted => {
                let chunk = &mut self.buffer[..chunk_bytes];
                let byte = &mut chunk[self.contents.place(index)];
                *byte = byte.wrapping_add(1);
                chunk
            }
        }
    }
}

/// Makes the first bytes of each block that begins in `bytes`, which are at `offset` in the file, differ
/// from those of all other blocks.
#[inline(always)]
fn stamp(seed: u64, offset: u64, bytes: &mut [u8]) {
    if !offset.is_multiple_of(BLOCK_BYTES as u64) {
        return;
    }
    for (block_index, block) in (offset / BLOCK_BYTES as u64..).zip(bytes.chunks_mut(BLOCK_BYTES)) {
        let word = mix(seed.wrapping_add(block_index.wrapping_mul(GOLDEN))).to_le_bytes();
        block[..word.len()].copy_from_slice(&word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_expected() {
        let duplicated =
            Payload::Realistic { compressibility_percent: 50, duplication_percent: 20 };
        for payload in [Payload::Original, Payload::DEFAULT, duplicated] {
            for chunk_bytes in [256usize, 1024, 8192, 65536, 1 << 20] {
                let contents = Contents::new(payload, 7, chunk_bytes);
                let mut writer = contents.writer();
                let mut expected = vec![0; chunk_bytes];
                for index in 0..600.min((16 << 20) / chunk_bytes as u64) {
                    let mut chunk = writer.next_chunk().to_vec();
                    contents.expect(index, Change::Written, &mut expected);
                    assert!(chunk == expected, "{payload:?} {chunk_bytes} {index}");
                    contents.rewrite(index, &mut chunk);
                    contents.expect(index, Change::Rewritten, &mut expected);
                    assert!(chunk == expected);
                    contents.mark(index, &mut chunk);
                    contents.mark(index, &mut chunk);
                    contents.expect(index, Change::Sought, &mut expected);
                    assert!(chunk == expected);
                }
            }
        }
    }

    #[test]
    fn no_two_blocks_are_alike_and_the_stated_share_is_saved() {
        for percent in [0, 50, 75] {
            let payload =
                Payload::Realistic { compressibility_percent: percent, duplication_percent: 0 };
            let contents = Contents::new(payload, 7, 8192);
            let mut writer = contents.writer();
            let mut seen = std::collections::HashSet::new();
            let (mut written, mut saved) = (0, 0);
            let mut extent = Vec::new();
            for _ in 0..1024 {
                let chunk = writer.next_chunk();
                for block in chunk.chunks(BLOCK_BYTES) {
                    assert!(seen.insert(xxhash_rust::xxh3::xxh3_128(block)));
                }
                extent.extend_from_slice(chunk);
                if extent.len() == 128 << 10 {
                    written += extent.len();
                    let size = zstd::bulk::compress(&extent, 3).unwrap().len();
                    saved += extent.len().saturating_sub(size);
                    extent.clear();
                }
            }
            let share = 100.0 * saved as f64 / written as f64;
            assert!((share - f64::from(percent)).abs() < 3.0, "{share} % for {percent} %");
        }
    }

    #[test]
    fn the_original_counts_one_byte_up_before_each_chunk() {
        let contents = Contents::new(Payload::Original, 0, 256);
        let mut writer = contents.writer();
        assert_eq!(writer.next_chunk()[..3], [1, 0, 0]);
        assert_eq!(writer.next_chunk()[..3], [1, 1, 0]);
        (2..256).for_each(|_| drop(writer.next_chunk().to_vec()));
        assert_eq!(writer.next_chunk()[..3], [2, 1, 1]);
        let mut chars = [0; 4];
        contents.fill_chars(126, &mut chars);
        assert_eq!(chars, [126, 127, 0, 1]);
    }
}
