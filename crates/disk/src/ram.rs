//! No time at all: the floor of whatever carries the requests.

use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Request};

/// A disk that answers at once.
#[derive(Debug, Default)]
pub struct Ram {
    pending: Pending,
}

impl Mechanism for Ram {
    fn submit(&mut self, request: Request) {
        self.pending.push(request.arrival_ns, request.id);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.pending.next_ns()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        self.pending.drain(until_ns, done);
    }

    fn counters(&self) -> Counters {
        Counters::new()
    }
}
