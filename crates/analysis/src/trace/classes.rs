//! What requests were for: data, metadata, journal, read or written.

use fsdyno_model::io_graph::{ClassIo, IoClass};

use super::pass::{Completion, Pass};

/// Requests and bytes finished, by class.
#[derive(Debug, Clone, Default)]
pub(super) struct Classes {
    counts: [(u64, u64); IoClass::ALL.len()],
}

impl Classes {
    /// All classes, in order.
    pub fn table(&self) -> Vec<ClassIo> {
        let row =
            |(class, (requests, bytes)): (IoClass, (u64, u64))| ClassIo { class, requests, bytes };
        IoClass::ALL.into_iter().zip(self.counts).map(row).collect()
    }
}

impl Pass for Classes {
    #[inline]
    fn complete(&mut self, completion: &Completion) {
        let (requests, bytes) = &mut self.counts[completion.class as usize];
        *requests += 1;
        *bytes = bytes.saturating_add(completion.bytes);
    }
}
