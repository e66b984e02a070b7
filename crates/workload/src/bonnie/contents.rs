//! What each chunk of the large file holds after each phase, so that it can be checked whenever it is
//! read back. Chunks are written once in order, then one byte of each is changed (rewrite), then one
//! byte of some of them once more (seeks).

use fsdyno_model::payload::Payload;
use fsdyno_sys::buffer::AlignedBuffer;

use crate::payload::{PayloadSource, content_key, name_hash};

/// Key of the large file's contents.
const KEY: u64 = content_key(name_hash(b"bonnie"), 0, 0);
/// Payload is made so many bytes at a time at least, and then cut into chunks.
const STAGE_BYTES: usize = 4096;
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
    /// `None`: zeros, of which one is counted up before each chunk, as in the original.
    source: Option<PayloadSource>,
    chunk_bytes: usize,
}

impl Contents {
    /// The contents for `payload` in chunks of `chunk_bytes`, a power of two; `seed` makes another
    /// run's data different.
    #[must_use]
    pub fn new(payload: Payload, seed: u64, chunk_bytes: usize) -> Contents {
        let source = match payload {
            Payload::Original => None,
            Payload::Realistic { .. } => Some(PayloadSource::new(payload, seed)),
        };
        Contents { source, chunk_bytes }
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
        match &self.source {
            Some(source) => source.fill(KEY, index * self.chunk_bytes as u64, chunk),
            None => {
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
        match &self.source {
            Some(source) => source.fill(KEY, offset, bytes),
            None => {
                for (byte, place) in bytes.iter_mut().zip(offset..) {
                    *byte = (place & 0x7f) as u8;
                }
            }
        }
    }

    /// Makes the chunks in order, to be written.
    #[must_use]
    pub fn writer(&self) -> ChunkWriter<'_> {
        ChunkWriter {
            contents: self,
            buffer: AlignedBuffer::new(self.chunk_bytes.max(STAGE_BYTES)),
            next: 0,
        }
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
        match &self.contents.source {
            Some(source) => {
                let start = (index * chunk_bytes as u64) as usize & (self.buffer.len() - 1);
                if start == 0 {
                    source.fill(KEY, index * chunk_bytes as u64, &mut self.buffer);
                }
                &self.buffer[start..start + chunk_bytes]
            }
            None => {
                let chunk = &mut self.buffer[..chunk_bytes];
                let byte = &mut chunk[self.contents.place(index)];
                *byte = byte.wrapping_add(1);
                chunk
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_expected() {
        for payload in [Payload::Original, Payload::DEFAULT] {
            for chunk_bytes in [256usize, 1024, 8192, 65536] {
                let contents = Contents::new(payload, 7, chunk_bytes);
                let mut writer = contents.writer();
                let mut expected = vec![0; chunk_bytes];
                for index in 0..600 {
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
