//! Spans of time that are added up apart: the phases of a trial. A request belongs to the window in which
//! it was finished, a seek to that in which it was issued.

use fsdyno_model::io_graph::WindowTotals;
use fsdyno_model::report_data::PhaseSpans;

use super::pass::{Completion, Dispatch};
use super::tally::Tally;

/// A stretch of time in which the same windows are open.
#[derive(Debug, Clone)]
struct Stretch {
    end_ns: u64,
    open: Vec<u32>,
}

/// All windows and where time is among them.
#[derive(Debug, Clone, Default)]
pub(super) struct Windows {
    names: Vec<PhaseSpans>,
    tallies: Vec<Tally>,
    /// Ascending and without gaps, from time 0 to the end of time.
    stretches: Vec<Stretch>,
    /// The stretch of the present time.
    at: usize,
}

impl Windows {
    /// Windows in any order; their spans may overlap, be empty or stand on their head.
    pub fn new(windows: &[PhaseSpans]) -> Windows {
        let mut edges: Vec<(u64, bool, u32)> = Vec::new();
        for (index, window) in (0..).zip(windows) {
            for (begin_ns, end_ns) in window.spans.iter().filter(|(begin, end)| begin < end) {
                edges.extend([(*begin_ns, true, index), (*end_ns, false, index)]);
            }
        }
        edges.sort_unstable();
        let mut stretches = Vec::new();
        let mut depth = vec![0u32; windows.len()];
        for (time_ns, opens, index) in edges {
            let open =
                || (0..).zip(&depth).filter(|(_, depth)| **depth > 0).map(|(index, _)| index);
            let before = stretches.last().map_or(0, |stretch: &Stretch| stretch.end_ns);
            if time_ns > before {
                stretches.push(Stretch { end_ns: time_ns, open: open().collect() });
            }
            let depth = &mut depth[index as usize];
            // Ends come before begins of the same time, so that none is left that has begun.
            *depth = if opens { *depth + 1 } else { depth.saturating_sub(1) };
        }
        stretches.push(Stretch { end_ns: u64::MAX, open: Vec::new() });
        Windows {
            names: windows.to_vec(),
            tallies: vec![Tally::default(); windows.len()],
            stretches,
            at: 0,
        }
    }

    /// The depth was `depth` from the present time to a later one, which is the present then.
    #[inline]
    pub fn hold(&mut self, from_ns: u64, to_ns: u64, depth: u64) {
        let mut begin_ns = from_ns;
        loop {
            let stretch = &self.stretches[self.at];
            let end_ns = stretch.end_ns.min(to_ns);
            if end_ns > begin_ns {
                for window in &stretch.open {
                    self.tallies[*window as usize].hold(end_ns - begin_ns, depth);
                }
                begin_ns = end_ns;
            }
            if to_ns < stretch.end_ns || self.at + 1 == self.stretches.len() {
                return;
            }
            self.at += 1;
        }
    }

    /// A request was handed to the device at the present time.
    #[inline]
    pub fn dispatch(&mut self, dispatch: &Dispatch) {
        for window in &self.stretches[self.at].open {
            self.tallies[*window as usize].dispatch(dispatch);
        }
    }

    /// A request was finished at the present time.
    #[inline]
    pub fn complete(&mut self, completion: &Completion) {
        for window in &self.stretches[self.at].open {
            self.tallies[*window as usize].complete(completion);
        }
    }

    /// The sums, in the order in which the windows were given.
    pub fn totals(&self) -> Vec<WindowTotals> {
        let totals = |(window, tally): (&PhaseSpans, &Tally)| WindowTotals {
            name: window.phase.clone(),
            spans: window.spans.clone(),
            totals: tally.totals(),
        };
        self.names.iter().zip(&self.tallies).map(totals).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(phase: &str, spans: &[(u64, u64)]) -> PhaseSpans {
        PhaseSpans { phase: phase.to_owned(), spans: spans.to_vec() }
    }

    #[test]
    fn time_is_given_to_the_windows_that_are_open() {
        let mut windows = Windows::new(&[
            window("a", &[(10, 20), (30, 40)]),
            window("b", &[(20, 30), (35, 50), (9, 9), (8, 2)]),
        ]);
        windows.hold(0, 15, 0);
        windows.hold(15, 36, 2);
        windows.hold(36, 100, 0);
        let totals = windows.totals();
        assert_eq!(totals[0].totals.idle_ns, 5 + 4);
        assert_eq!(totals[1].totals.idle_ns, 14);
        assert_eq!(totals[0].totals.queue_depth_mean, Some(2.0 * 11.0 / 20.0));
        assert_eq!(totals[1].totals.queue_depth_mean, Some(2.0 * 11.0 / 25.0));
    }

    #[test]
    fn no_windows_are_no_trouble() {
        let mut windows = Windows::new(&[]);
        windows.hold(0, u64::MAX, 1);
        assert!(windows.totals().is_empty());
    }
}
