//! What one thread measures in the hot loop: the latency of every call by kind, and bytes.
//! When a phase begins and ends, and what is read at its edges, is left to [`crate::phase`].
//!
//! Time stamps are chained: the end of one call is the start of the next, so that a record costs one
//! reading of the clock and one counter. Nothing here allocates, locks or formats until the end.

use std::collections::BTreeMap;

use fsdyno_model::record::LatencyHistogram;
use fsdyno_sys::clock::Timer;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};

/// Significant decimal digits of every histogram.
const DIGITS: u8 = 3;
/// Longest latency told apart: one hour. What takes longer is counted there.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Open a file to write it, and make it where it is absent.
    Create,
    /// Open a file or a directory.
    Open,
    /// Write one buffer.
    Write,
    /// Read one buffer, or the end of the file.
    Read,
    /// Close a file or a directory.
    Close,
    /// Ask for the attributes of a file or a directory.
    Stat,
    /// Read a whole directory.
    List,
    /// Remove a file.
    Unlink,
    /// Make a directory.
    Mkdir,
    /// Remove a directory.
    Rmdir,
    /// Set the size of a file.
    Truncate,
    /// Make a file durable.
    Fsync,
    /// Give a file another name.
    Rename,
    /// Give a file one more name.
    Link,
    /// Move the position in a file.
    Seek,
    /// Ask for data to be read soon.
    Readahead,
    /// Ask where the extents of a file lie.
    Map,
    /// Make a symbolic link.
    Symlink,
    /// Set the permission bits of a file or a directory.
    Chmod,
    /// Set the times of a file or a directory.
    Utimens,
    /// Make the data of a file durable, and what is needed to read them.
    Fdatasync,
    /// Ask for a range of a file to be written to the device.
    SyncFileRange,
    /// Reserve space for a file.
    Fallocate,
    /// Give a range of a file back to the filesystem.
    Punch,
    /// Read a range of a file through a mapping.
    MmapRead,
    /// Write a range of a file through a mapping.
    MmapWrite,
    /// Have the kernel copy contents from one file to another.
    CopyRange,
    /// Let a file share the extents of another.
    Reflink,
    /// Set an extended attribute.
    SetXattr,
    /// Read an extended attribute.
    GetXattr,
    /// Lock a file.
    Lock,
    /// Unlock a file.
    Unlock,
    /// Ask how full the filesystem is.
    Statfs,
    /// Make a whole filesystem durable, or all of them.
    Sync,
    /// Run one statement of a database that reads.
    Query,
    /// Run one statement of a database that writes.
    Update,
    /// End a transaction of a database.
    Commit,
    /// One whole piece of work of several calls; where work begins at set times, from the time that was set.
    Task,
}

impl Operation {
    /// All kinds, each at the index that is its number.
    pub const ALL: [Operation; 38] = [
        Operation::Create,
        Operation::Open,
        Operation::Write,
        Operation::Read,
        Operation::Close,
        Operation::Stat,
        Operation::List,
        Operation::Unlink,
        Operation::Mkdir,
        Operation::Rmdir,
        Operation::Truncate,
        Operation::Fsync,
        Operation::Rename,
        Operation::Link,
        Operation::Seek,
        Operation::Readahead,
        Operation::Map,
        Operation::Symlink,
        Operation::Chmod,
        Operation::Utimens,
        Operation::Fdatasync,
        Operation::SyncFileRange,
        Operation::Fallocate,
        Operation::Punch,
        Operation::MmapRead,
        Operation::MmapWrite,
        Operation::CopyRange,
        Operation::Reflink,
        Operation::SetXattr,
        Operation::GetXattr,
        Operation::Lock,
        Operation::Unlock,
        Operation::Statfs,
        Operation::Sync,
        Operation::Query,
        Operation::Update,
        Operation::Commit,
        Operation::Task,
    ];

    /// Name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Open => "open",
            Operation::Write => "write",
            Operation::Read => "read",
            Operation::Close => "close",
            Operation::Stat => "stat",
            Operation::List => "list",
            Operation::Unlink => "unlink",
            Operation::Mkdir => "mkdir",
            Operation::Rmdir => "rmdir",
            Operation::Truncate => "truncate",
            Operation::Fsync => "fsync",
            Operation::Rename => "rename",
            Operation::Link => "link",
            Operation::Seek => "seek",
            Operation::Readahead => "readahead",
            Operation::Map => "map",
            Operation::Symlink => "symlink",
            Operation::Chmod => "chmod",
            Operation::Utimens => "utimens",
            Operation::Fdatasync => "fdatasync",
            Operation::SyncFileRange => "sync_file_range",
            Operation::Fallocate => "fallocate",
            Operation::Punch => "punch",
            Operation::MmapRead => "mmap_read",
            Operation::MmapWrite => "mmap_write",
            Operation::CopyRange => "copy_file_range",
            Operation::Reflink => "reflink",
            Operation::SetXattr => "set_xattr",
            Operation::GetXattr => "get_xattr",
            Operation::Lock => "lock",
            Operation::Unlock => "unlock",
            Operation::Statfs => "statfs",
            Operation::Sync => "sync",
            Operation::Query => "query",
            Operation::Update => "update",
            Operation::Commit => "commit",
            Operation::Task => "task",
        }
    }
}

/// The latencies of the calls of one kind, in nanoseconds, as exact as a histogram is: three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// Number of calls.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The longest.
    pub max_ns: u64,
}

/// Counts and times the calls of one thread.
#[derive(Debug)]
pub struct Recorder {
    timer: Timer,
    /// Tick at which the call that is under way began.
    since: u64,
    /// By kind; those that have not occurred take no memory.
    histograms: [Option<Histogram<u64>>; Operation::ALL.len()],
    /// Bytes that the application read, wrote or removed.
    pub bytes: u64,
    /// Of these, the bytes that it read.
    pub read_bytes: u64,
    /// Files that were worked on.
    pub files: u64,
}

impl Recorder {
    /// An empty recorder. Memory is used for the kinds that occur.
    #[must_use]
    pub fn new() -> Recorder {
        Recorder {
            timer: Timer::new(),
            since: 0,
            histograms: [const { None }; Operation::ALL.len()],
            bytes: 0,
            read_bytes: 0,
            files: 0,
        }
    }

    /// Says that the next call begins now. Needed only after something that is not a call.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.since = self.timer.now();
    }

    /// Counts a call that ended now; the next one begins now.
    #[inline(always)]
    pub fn end(&mut self, operation: Operation) {
        let now = self.timer.now();
        let latency_ns = self.timer.between_ns(self.since, now);
        self.since = now;
        self.record_ns(operation, latency_ns);
    }

    /// Counts an operation whose latency was measured elsewhere, in nanoseconds; the next call still
    /// begins where it did.
    #[inline(always)]
    pub fn record_ns(&mut self, operation: Operation, latency_ns: u64) {
        match &mut self.histograms[operation as usize] {
            Some(histogram) => histogram.saturating_record(latency_ns),
            None => self.record_first(operation, latency_ns),
        }
    }

    /// The first of its kind. What its memory takes is not the next call's time.
    #[cold]
    #[inline(never)]
    fn record_first(&mut self, operation: Operation, latency_ns: u64) {
        let before = self.timer.now();
        let mut histogram = empty();
        histogram.saturating_record(latency_ns);
        self.histograms[operation as usize] = Some(histogram);
        self.since += self.timer.now() - before;
    }

    /// Tick at which the last call ended, for [`Recorder::record_since`].
    #[inline(always)]
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.since
    }

    /// Counts an operation made of all calls between `tick` and the end of the last one.
    #[inline(always)]
    pub fn record_since(&mut self, operation: Operation, tick: u64) {
        let latency_ns = self.timer.between_ns(tick, self.since);
        self.record_ns(operation, latency_ns);
    }

    /// Calls of all kinds; a [`Operation::Task`] is no call but made of them.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        let all: u64 = self.histograms.iter().flatten().map(Histogram::len).sum();
        all - self.count(Operation::Task)
    }

    /// Calls of one kind.
    #[must_use]
    pub fn count(&self, operation: Operation) -> u64 {
        self.histogram(operation).map_or(0, Histogram::len)
    }

    fn histogram(&self, operation: Operation) -> Option<&Histogram<u64>> {
        self.histograms[operation as usize].as_ref()
    }

    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Recorder) {
        for (own, others) in self.histograms.iter_mut().zip(&other.histograms) {
            if let Some(others) = others {
                own.get_or_insert_with(empty).add(others).expect("both have the same bounds");
            }
        }
        self.bytes += other.bytes;
        self.read_bytes += other.read_bytes;
        self.files += other.files;
    }

    /// Latency in nanoseconds that this share (0 … 1) of the calls of one kind kept; `None` where there
    /// was none.
    #[must_use]
    pub fn quantile_ns(&self, operation: Operation, quantile: f64) -> Option<u64> {
        Some(self.histogram(operation)?.value_at_quantile(quantile))
    }

    /// Mean latency of the calls of one kind, in nanoseconds; `None` where there was none.
    #[must_use]
    pub fn mean_ns(&self, operation: Operation) -> Option<f64> {
        Some(self.histogram(operation)?.mean())
    }

    /// The same over the calls of several kinds together.
    #[must_use]
    pub fn quantile_over_ns(&self, operations: &[Operation], quantile: f64) -> Option<u64> {
        let mut occurred = operations.iter().filter_map(|operation| self.histogram(*operation));
        let mut sum = occurred.next()?.clone();
        occurred.for_each(|other| sum.add(other).expect("both have the same bounds"));
        Some(sum.value_at_quantile(quantile))
    }

    /// How the latencies of one kind are spread; all zero where there was no call.
    #[must_use]
    pub fn spread(&self, operation: Operation) -> Spread {
        let Some(histogram) = self.histogram(operation) else { return Spread::default() };
        Spread {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            max_ns: histogram.max(),
        }
    }

    /// Number of calls by kind, without those that never occurred.
    #[must_use]
    pub fn operations(&self) -> BTreeMap<String, u64> {
        let calls = self.occurred().filter(|(name, _)| *name != Operation::Task.name());
        calls.map(|(name, histogram)| (name.to_owned(), histogram.len())).collect()
    }

    /// Latencies by kind, without those that never occurred.
    #[must_use]
    pub fn latency(&self) -> BTreeMap<String, LatencyHistogram> {
        let mut serializer = V2DeflateSerializer::new();
        self.occurred()
            .map(|(name, histogram)| {
                let mut bytes = Vec::new();
                serializer
                    .serialize(histogram, &mut bytes)
                    .expect("writing to memory does not fail, and the counts fit the format");
                (name.to_owned(), LatencyHistogram(bytes))
            })
            .collect()
    }

    fn occurred(&self) -> impl Iterator<Item = (&'static str, &Histogram<u64>)> {
        let named = Operation::ALL.iter().map(|operation| operation.name()).zip(&self.histograms);
        named.filter_map(|(name, histogram)| Some((name, histogram.as_ref()?)))
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
        .expect("these bounds and digits are within what a histogram takes")
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    #[test]
    fn every_kind_stands_at_its_number() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
    }

    #[test]
    fn calls_are_counted_timed_and_merged() {
        let mut recorder = Recorder::new();
        recorder.begin();
        std::thread::sleep(std::time::Duration::from_millis(3));
        recorder.end(Operation::Write);
        recorder.end(Operation::Close);
        recorder.bytes += 10;
        let mut total = Recorder::new();
        total.merge(&recorder);
        total.merge(&recorder);
        assert_eq!((total.operation_count(), total.bytes), (4, 20));
        let counts: Vec<(String, u64)> = total.operations().into_iter().collect();
        assert_eq!(counts, [("close".to_owned(), 2), ("write".to_owned(), 2)]);
        let latency = total.latency();
        let written: Histogram<u64> =
            Deserializer::new().deserialize(&mut latency["write"].0.as_slice()).unwrap();
        assert_eq!(written.len(), 2);
        assert!(written.min() >= 2_900_000, "{}", written.min());
        assert!(!latency.contains_key("read"));
    }

    #[test]
    fn latencies_of_several_kinds_are_one_distribution() {
        let mut recorder = Recorder::new();
        assert_eq!(recorder.quantile_over_ns(&Operation::ALL, 0.5), None);
        assert_eq!(recorder.spread(Operation::Read), Spread::default());
        (1..=50).for_each(|latency_ns| recorder.record_ns(Operation::Read, latency_ns));
        (51..=100).for_each(|latency_ns| recorder.record_ns(Operation::Write, latency_ns));
        let both = [Operation::Read, Operation::Write, Operation::Fsync];
        for (kinds, quantile, latency_ns) in
            [(&both[..], 0.95, 95), (&both[..1], 0.5, 25), (&both[1..], 0.5, 75)]
        {
            assert_eq!(recorder.quantile_over_ns(kinds, quantile), Some(latency_ns));
        }
        let spread = recorder.spread(Operation::Write);
        assert_eq!((spread.count, spread.min_ns, spread.max_ns), (50, 51, 100));
        assert_eq!(spread.mean_ns, 75.5);
    }
}
