//! Memory for direct I/O, which must start at a multiple of the device's logical block size. What is
//! written from it is left to the caller.

use std::ops::{Deref, DerefMut};

/// A block of 4096 bytes that starts at a multiple of 4096.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; AlignedBuffer::ALIGNMENT_BYTES]);

/// Bytes on the heap that start at a multiple of 4096, zero at first: fit for `O_DIRECT` on every
/// device with logical blocks of up to 4 KiB, as long as offset and count are multiples of its blocks
/// as well.
pub struct AlignedBuffer {
    pages: Box<[Page]>,
    size_bytes: usize,
}

impl AlignedBuffer {
    /// What the address is a multiple of, in bytes.
    pub const ALIGNMENT_BYTES: usize = 4096;

    /// A buffer of `size_bytes` (any size), all zero.
    #[must_use]
    pub fn new(size_bytes: usize) -> Self {
        let page_count = size_bytes.div_ceil(Self::ALIGNMENT_BYTES);
        Self {
            pages: vec![Page([0; Self::ALIGNMENT_BYTES]); page_count].into_boxed_slice(),
            size_bytes,
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `Page` is an array of bytes without padding (its size is its alignment), so that the
        // boxed pages are `pages.len() * 4096` initialised bytes in a row, and `size_bytes` is no more.
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.size_bytes) }
    }
}

impl DerefMut for AlignedBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the exclusive borrow of `self` extends over the result.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), self.size_bytes) }
    }
}

impl std::fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBuffer").field("size_bytes", &self.size_bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_buffer_is_aligned_zero_and_its_own() {
        let mut held: Vec<AlignedBuffer> = Vec::new();
        for size_bytes in [0, 1, 512, 4095, 4096, 4097, 65536, 1 << 20] {
            let mut buffer = AlignedBuffer::new(size_bytes);
            assert_eq!(buffer.len(), size_bytes);
            assert_eq!(buffer.as_ptr() as usize % AlignedBuffer::ALIGNMENT_BYTES, 0);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(size_bytes as u8 | 1);
            held.push(buffer);
        }
        for buffer in &held {
            assert!(buffer.iter().all(|&byte| byte == buffer.len() as u8 | 1));
        }
    }
}
