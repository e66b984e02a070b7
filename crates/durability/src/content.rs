//! Contents that say what they are: every 16 bytes name the file, their place in it and the write that
//! put them there. Whatever is found after a power cut is so known as right, old, another's or no data.

/// Bytes of a record. All lengths and places of writes are multiples of it.
pub const RECORD: u64 = 16;

/// What 16 bytes turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Zeros: a hole, or room that was given and never written.
    Zeros,
    /// A record.
    Record {
        /// The file that it was written to.
        file: u32,
        /// Number of the operation that wrote it.
        operation: u32,
        /// Its place there, in records.
        place: u32,
    },
    /// Nothing that this run wrote.
    Foreign,
}

fn check(seed: u64, file: u32, operation: u32, place: u32) -> u32 {
    let mut mixed = seed ^ (u64::from(file) << 32 | u64::from(operation));
    for number in [u64::from(place), 0x5bd1_e995] {
        mixed = (mixed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
    }
    // Never zero, so that no record is taken for a hole.
    (mixed >> 32) as u32 | 1
}

/// The bytes that `operation` writes to `file` at `offset`.
#[must_use]
pub fn bytes(seed: u64, file: u32, operation: u32, offset: u64, length: u64) -> Vec<u8> {
    let first = (offset / RECORD) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    for place in first..first + (length / RECORD) as u32 {
        for number in [file, operation, place, check(seed, file, operation, place)] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

/// What a record's bytes are.
#[must_use]
pub fn look(seed: u64, record: &[u8]) -> Found {
    if record.iter().all(|byte| *byte == 0) {
        return Found::Zeros;
    }
    let mut numbers = record.chunks_exact(4).map(|part| {
        let part: [u8; 4] = part.try_into().unwrap_or_default();
        u32::from_le_bytes(part)
    });
    let mut next = || numbers.next().unwrap_or_default();
    let (file, operation, place, sum) = (next(), next(), next(), next());
    if sum == check(seed, file, operation, place) {
        Found::Record { file, operation, place }
    } else {
        Found::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_says_what_it_is() {
        let mut written = bytes(7, 3, 9, 4096, 64);
        assert_eq!(written.len(), 64);
        let at = |bytes: &[u8], index: usize| look(7, &bytes[index * 16..index * 16 + 16]);
        for index in 0..4u32 {
            let found = Found::Record { file: 3, operation: 9, place: 256 + index };
            assert_eq!(at(&written, index as usize), found);
        }
        assert_eq!(look(8, &written[..16]), Found::Foreign, "of another run");
        written[20] ^= 1;
        assert_eq!(at(&written, 1), Found::Foreign);
        assert_eq!(look(7, &[0; 16]), Found::Zeros);
    }
}
