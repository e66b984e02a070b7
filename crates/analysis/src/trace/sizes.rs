//! Sizes of the requests issued, by powers of two.

use fsdyno_model::io_graph::SizeCount;

use super::pass::{Dispatch, Pass, is_read, is_write};

/// A class for each bit of a size, and one for no data.
const CLASSES: usize = 65;

/// Counts of sizes.
#[derive(Debug, Clone)]
pub(super) struct Sizes {
    /// Reads and writes.
    counts: [(u64, u64); CLASSES],
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes { counts: [(0, 0); CLASSES] }
    }
}

impl Sizes {
    /// The classes from the smallest to the largest that occurred.
    pub fn table(&self) -> Vec<SizeCount> {
        let is_used = |(reads, writes): &(u64, u64)| reads + writes > 0;
        let first = self.counts.iter().position(is_used).unwrap_or(0);
        let end = self.counts.iter().rposition(is_used).map_or(0, |last| last + 1);
        let row = |class: usize| SizeCount {
            from_bytes: if class == 0 { 0 } else { 1 << (class - 1) },
            reads: self.counts[class].0,
            writes: self.counts[class].1,
        };
        (first..end).map(row).collect()
    }
}

impl Pass for Sizes {
    #[inline]
    fn dispatch(&mut self, dispatch: &Dispatch) {
        let class = (64 - dispatch.bytes.leading_zeros()) as usize;
        let (reads, writes) = &mut self.counts[class];
        *reads += u64::from(is_read(dispatch.class));
        *writes += u64::from(is_write(dispatch.class));
    }
}
