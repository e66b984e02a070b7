//! Requests that are done by several others: which belong to which, and how many are still to come.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Numbers are spread by a multiplication; they come from a counter.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// A table by numbers.
pub(crate) type NumberMap<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// Parts and the jobs that they are of. A job is known by a number of the user's.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    next: u64,
    jobs: NumberMap<u64>,
    left: NumberMap<u32>,
}

impl Parts {
    /// A number for a part of `job`.
    pub(crate) fn add(&mut self, job: u64) -> u64 {
        self.next += 1;
        self.jobs.insert(self.next, job);
        *self.left.entry(job).or_insert(0) += 1;
        self.next
    }

    /// The part `part` is done; gives its job and whether that was the last of it.
    pub(crate) fn end(&mut self, part: u64) -> Option<(u64, bool)> {
        let job = self.jobs.remove(&part)?;
        let left = self.left.get_mut(&job)?;
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.left.remove(&job);
        }
        Some((job, is_last))
    }
}
