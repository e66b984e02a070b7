//! Completions whose time is known already, given out in order of time and then of their making.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::request::Completion;

/// Completions to come.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    made: u64,
}

impl Pending {
    /// The request `id` will be done at `at_ns`.
    pub(crate) fn push(&mut self, at_ns: u64, id: u64) {
        self.heap.push(Reverse((at_ns, self.made, id)));
        self.made += 1;
    }

    /// When the next one is done.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, _, _))| *at_ns)
    }

    /// The next one, where it is done by `until_ns`.
    pub(crate) fn pop(&mut self, until_ns: u64) -> Option<Completion> {
        let Reverse((at_ns, _, _)) = *self.heap.peek()?;
        if at_ns > until_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((at_ns, _, id))| Completion { at_ns, id })
    }

    /// All that are done by `until_ns`.
    pub(crate) fn drain(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        while let Some(completion) = self.pop(until_ns) {
            done.push(completion);
        }
    }
}
