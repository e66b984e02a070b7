//! What a disk is asked and what it answers. How long it takes is for the mechanisms.

use std::collections::BTreeMap;
use std::fmt;

/// Bytes of a sector, whatever a disk has inside.
pub const SECTOR_BYTES: u64 = 512;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Give bytes.
    Read,
    /// Take bytes.
    Write,
    /// Make durable what was taken before.
    Flush,
    /// Forget bytes.
    Discard,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Number by which its completion is known; unique among those under way.
    pub id: u64,
    /// What is asked.
    pub op: Op,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Length in bytes; 0 for a flush.
    pub bytes: u64,
    /// A write that completes only once it is durable.
    pub fua: bool,
    /// When it comes, in nanoseconds since the disk was switched on.
    pub arrival_ns: u64,
}

impl Request {
    /// The first sector behind it.
    #[must_use]
    pub fn end_sector(&self) -> u64 {
        self.sector + self.bytes.div_ceil(SECTOR_BYTES)
    }
}

/// A request that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Completion {
    /// When it was done, in nanoseconds since the disk was switched on.
    pub at_ns: u64,
    /// Number of the request.
    pub id: u64,
}

/// What a disk has done so far, by name: `seeks`, `erased_blocks`, …; only what its kind counts.
pub type Counters = BTreeMap<String, u64>;

/// A kind of disk at work. Time is what the caller says: requests come in order of their arrival, and
/// [`Mechanism::advance`] is called with times that never go back.
pub trait Mechanism: fmt::Debug + Send {
    /// Takes a request, whose arrival is not before the time of the last call.
    fn submit(&mut self, request: Request);

    /// When something happens next, if nothing more is asked; `None` when the disk is at rest.
    fn next_event_ns(&self) -> Option<u64>;

    /// Goes on to `until_ns` and adds what is done by then to `done`, in order of time.
    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>);

    /// What it has done so far.
    fn counters(&self) -> Counters;
}

/// The counters of a mechanism from pairs.
pub(crate) fn counters<const N: usize>(pairs: [(&str, u64); N]) -> Counters {
    pairs.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}
