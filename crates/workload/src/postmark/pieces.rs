//! How many bytes each call moves when a file is written or read in blocks: all of them in calls of one
//! block, or through the buffer of C's standard input and output, as glibc calls the kernel for it.

/// Size of the buffer of an open file in glibc, where the filesystem states blocks of this size, as
/// those with pages of 4 KiB do.
pub const STDIO_BYTES: u64 = 4096;

/// Whole buffers within `bytes`.
fn whole_buffers(bytes: u64) -> u64 {
    bytes - bytes % STDIO_BYTES
}

/// How blocks become calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunking {
    /// Every call moves this many bytes, the last one what is left.
    Even(u64),
    /// Blocks of this size, at least as large as the buffer, go through it: what fills whole buffers is
    /// moved past it.
    Stdio(u64),
}

impl Chunking {
    /// For blocks of `block_bytes`, through the buffer or not.
    #[must_use]
    pub fn new(block_bytes: u64, is_buffered: bool) -> Chunking {
        match is_buffered {
            false => Chunking::Even(block_bytes),
            // Smaller blocks only ever fill the buffer.
            true if block_bytes < STDIO_BYTES => Chunking::Even(STDIO_BYTES),
            true => Chunking::Stdio(block_bytes),
        }
    }

    /// The most that one call moves.
    #[must_use]
    pub fn most_bytes(self) -> u64 {
        match self {
            Chunking::Even(bytes) | Chunking::Stdio(bytes) => bytes,
        }
    }

    /// Sizes of the calls that write `size_bytes`.
    #[must_use]
    pub fn writes(self, size_bytes: u64) -> Writes {
        Writes {
            chunking: self,
            left: size_bytes,
            fed: 0,
            held: 0,
            past: 0,
            is_first: true,
            size_bytes,
        }
    }

    /// Sizes that the calls ask for which read a file of `size_bytes`; the last may get less.
    #[must_use]
    pub fn reads(self, size_bytes: u64) -> Reads {
        Reads { chunking: self, left: size_bytes, unasked: size_bytes, wanted: 0, held: 0 }
    }
}

/// See [`Chunking::writes`].
#[derive(Debug, Clone)]
pub struct Writes {
    chunking: Chunking,
    /// Bytes that no call has moved yet.
    left: u64,
    size_bytes: u64,
    /// Bytes handed to the buffer or past it.
    fed: u64,
    /// Bytes in the buffer.
    held: u64,
    /// Bytes that go past the buffer next.
    past: u64,
    is_first: bool,
}

impl Iterator for Writes {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let count = match self.chunking {
            Chunking::Even(bytes) => bytes.min(self.left),
            Chunking::Stdio(block_bytes) => self.through_buffer(block_bytes),
        };
        self.left -= count;
        Some(count)
    }
}

impl Writes {
    fn through_buffer(&mut self, block_bytes: u64) -> u64 {
        if self.past > 0 {
            return std::mem::take(&mut self.past);
        }
        while self.fed < self.size_bytes {
            let block = block_bytes.min(self.size_bytes - self.fed);
            self.fed += block;
            // The first block finds no buffer yet; each later one fills up what is free in it.
            let free = if std::mem::take(&mut self.is_first) { 0 } else { STDIO_BYTES - self.held };
            let fill = block.min(free);
            self.held += fill;
            let rest = block - fill;
            if rest > 0 {
                self.past = whole_buffers(rest);
                let flushed = std::mem::replace(&mut self.held, rest - self.past);
                if flushed > 0 {
                    return flushed;
                }
                if self.past > 0 {
                    return std::mem::take(&mut self.past);
                }
            }
        }
        std::mem::take(&mut self.held)
    }
}

/// See [`Chunking::reads`].
#[derive(Debug, Clone)]
pub struct Reads {
    chunking: Chunking,
    /// Bytes that no call has moved yet.
    left: u64,
    /// Bytes that no block has asked for yet.
    unasked: u64,
    /// Bytes that the current block still wants.
    wanted: u64,
    /// Bytes in the buffer.
    held: u64,
}

impl Iterator for Reads {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let count = match self.chunking {
            Chunking::Even(bytes) => bytes.min(self.left),
            Chunking::Stdio(block_bytes) => self.through_buffer(block_bytes),
        };
        self.left -= count.min(self.left);
        Some(count)
    }
}

impl Reads {
    fn through_buffer(&mut self, block_bytes: u64) -> u64 {
        loop {
            if self.wanted == 0 {
                self.wanted = block_bytes.min(self.unasked);
                self.unasked -= self.wanted;
            }
            let taken = self.wanted.min(self.held);
            self.held -= taken;
            self.wanted -= taken;
            if self.wanted >= STDIO_BYTES {
                let past = whole_buffers(self.wanted);
                self.wanted -= past;
                return past;
            }
            if self.wanted > 0 {
                self.held = STDIO_BYTES.min(self.left);
                return STDIO_BYTES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(block_bytes: u64, is_buffered: bool, size_bytes: u64) -> Vec<u64> {
        Chunking::new(block_bytes, is_buffered).writes(size_bytes).collect()
    }

    fn reads(block_bytes: u64, is_buffered: bool, size_bytes: u64) -> Vec<u64> {
        Chunking::new(block_bytes, is_buffered).reads(size_bytes).collect()
    }

    /// What the system calls of PostMark 1.53 with glibc 2.36 were seen to be. Small blocks are read
    /// as far as the file goes, where glibc asks for a whole buffer and gets no more.
    #[test]
    fn calls_are_those_of_glibc() {
        assert_eq!(writes(512, true, 9181), [4096, 4096, 989]);
        assert_eq!(writes(512, true, 4096), [4096]);
        assert_eq!(writes(512, true, 6), [6]);
        assert_eq!(writes(512, false, 1390), [512, 512, 366]);
        assert_eq!(writes(512, false, 1024), [512, 512]);
        assert_eq!(writes(3000, true, 23_889), [4096, 4096, 4096, 4096, 4096, 3409]);
        assert_eq!(writes(10_000, true, 23_889), [8192, 4096, 4096, 4096, 3409]);
        assert_eq!(writes(10_000, true, 8577), [8192, 385]);
        assert_eq!(writes(8192, true, 28_889), [8192, 4096, 4096, 4096, 4096, 4096, 217]);
        assert_eq!(writes(8192, true, 599), [599]);
        assert_eq!(reads(512, true, 5642), [4096, 1546]);
        assert_eq!(reads(512, true, 4096), [4096]);
        assert_eq!(reads(512, false, 1387), [512, 512, 363]);
        assert_eq!(reads(10_000, true, 25_424), [8192, 4096, 4096, 4096, 4096, 4096]);
        assert_eq!(reads(10_000, true, 8577), [8192, 4096]);
    }

    proptest::proptest! {
        #[test]
        fn every_byte_is_moved_once(block in 1u64..40_000, is_buffered: bool, size in 0u64..200_000) {
            let chunking = Chunking::new(block, is_buffered);
            proptest::prop_assert_eq!(chunking.writes(size).sum::<u64>(), size);
            let mut left = size;
            for asked in chunking.reads(size) {
                proptest::prop_assert!(left > 0 && asked > 0 && asked <= chunking.most_bytes().max(STDIO_BYTES));
                left -= asked.min(left);
            }
            proptest::prop_assert_eq!(left, 0);
        }
    }
}
