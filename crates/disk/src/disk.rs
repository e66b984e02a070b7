//! One disk as its users see it: requests in, completions out, each at its time.

use crate::model::Model;
use crate::request::{Completion, Counters, Mechanism, Request};

/// A disk at work, whatever its kind.
///
/// The same requests at the same times, with the same model, size and seed, complete at the same
/// nanoseconds, everywhere.
#[derive(Debug)]
pub struct Disk {
    mechanism: Box<dyn Mechanism>,
    size_bytes: u64,
    now_ns: u64,
}

impl Disk {
    /// The disk of `model`, of `size_bytes` from its beginning on; what is drawn comes from `seed`.
    ///
    /// # Errors
    /// A sentence: the disk is smaller, or is not emulated at that size.
    pub fn new(model: &Model, size_bytes: u64, seed: u64) -> Result<Disk, String> {
        Ok(Disk { mechanism: model.build(size_bytes, seed)?, size_bytes, now_ns: 0 })
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The time up to which it has gone, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Takes a request; what completes before it arrives is added to `done`. One that arrives before
    /// time that has passed already arrives now.
    pub fn submit(&mut self, request: Request, done: &mut Vec<Completion>) {
        let arrival_ns = request.arrival_ns.max(self.now_ns);
        self.advance(arrival_ns, done);
        self.mechanism.submit(Request { arrival_ns, ..request });
    }

    /// When something happens next, if nothing more is asked; `None` when the disk is at rest.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        self.mechanism.next_event_ns()
    }

    /// Goes on to `until_ns` and adds what is done by then to `done`, in order of time.
    pub fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        if until_ns >= self.now_ns {
            self.mechanism.advance(until_ns, done);
            self.now_ns = until_ns;
        }
    }

    /// What it has done so far, by name.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.mechanism.counters()
    }
}
