//! Throughput and requests over time, from completions; metadata and journal apart.

use fsdyno_model::io_graph::IoClass;

use super::bins::{Bins, Fold};
use super::pass::{Completion, Pass, is_read, is_write};

/// What was finished in one bin.
#[derive(Debug, Clone, Default)]
pub(super) struct Finished {
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub discard_bytes: u64,
    pub metadata_bytes: u64,
    pub journal_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
}

impl Fold for Finished {
    fn fold(&mut self, next: &Finished) {
        self.read_bytes = self.read_bytes.saturating_add(next.read_bytes);
        self.write_bytes = self.write_bytes.saturating_add(next.write_bytes);
        self.discard_bytes = self.discard_bytes.saturating_add(next.discard_bytes);
        self.metadata_bytes = self.metadata_bytes.saturating_add(next.metadata_bytes);
        self.journal_bytes = self.journal_bytes.saturating_add(next.journal_bytes);
        self.reads += next.reads;
        self.writes += next.writes;
        self.flushes += next.flushes;
    }
}

/// Throughput and requests over time.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    /// By bin.
    pub bins: Bins<Finished>,
}

impl Pass for Flow {
    #[inline]
    fn complete(&mut self, completion: &Completion) {
        let bin = self.bins.at(completion.bin);
        let bytes = completion.bytes;
        bin.flushes += u64::from(completion.is_flush);
        if is_read(completion.class) {
            bin.reads += 1;
            bin.read_bytes = bin.read_bytes.saturating_add(bytes);
        } else if is_write(completion.class) {
            bin.writes += 1;
            bin.write_bytes = bin.write_bytes.saturating_add(bytes);
        } else if completion.class == IoClass::Discard {
            bin.discard_bytes = bin.discard_bytes.saturating_add(bytes);
        }
        match completion.class {
            IoClass::ReadMetadata | IoClass::WriteMetadata => {
                bin.metadata_bytes = bin.metadata_bytes.saturating_add(bytes)
            }
            IoClass::WriteJournal => bin.journal_bytes = bin.journal_bytes.saturating_add(bytes),
            _ => {}
        }
    }

    fn fold(&mut self) {
        self.bins.fold();
    }
}
