//! Latencies over time: from issue to completion and from queue to completion, all kinds of requests that
//! carry data together.

use super::bins::Bins;
use super::histogram::Histogram;
use super::pass::{Completion, Pass, is_read, is_write};

/// Precision of a bin: buckets of an eighth, so that the middle is within 6 %.
const BITS: u32 = 3;

/// Latencies over time.
#[derive(Debug, Clone, Default)]
pub(super) struct Latency {
    /// From issue to completion, by bin.
    pub d2c: Bins<Histogram<BITS>>,
    /// From queue to completion, by bin.
    pub q2c: Bins<Histogram<BITS>>,
}

impl Latency {
    /// A quantile of each bin.
    pub fn quantiles(bins: &Bins<Histogram<BITS>>, share: f64) -> Vec<Option<f64>> {
        bins.values().iter().map(|bin| bin.quantile(share).map(|ns| ns as f64)).collect()
    }
}

impl Pass for Latency {
    #[inline]
    fn complete(&mut self, completion: &Completion) {
        if !is_read(completion.class) && !is_write(completion.class) {
            return;
        }
        if let Some(ns) = completion.d2c_ns {
            self.d2c.at(completion.bin).record(ns);
        }
        if let Some(ns) = completion.q2c_ns {
            self.q2c.at(completion.bin).record(ns);
        }
    }

    fn fold(&mut self) {
        self.d2c.fold();
        self.q2c.fold();
    }
}
