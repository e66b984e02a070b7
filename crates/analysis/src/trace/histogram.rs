//! Latency histograms of bounded size: buckets of equal relative width, 2^`BITS` for each power of two.

use fsdyno_model::io_graph::LatencySummary;

use super::bins::Fold;

/// Latencies above 2^40 ns, 18 minutes, count as that long.
const LONGEST_EXPONENT: usize = 40;

/// Counts of latencies. A percentile is off by at most half a bucket: 2^-(`BITS` + 1) of its value.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram<const BITS: u32> {
    /// Empty until something is counted.
    buckets: Vec<u32>,
    count: u64,
    sum_ns: u64,
    max_ns: u64,
}

impl<const BITS: u32> Histogram<BITS> {
    const BUCKETS: usize = (LONGEST_EXPONENT + 1 - BITS as usize) << BITS;

    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        if self.buckets.is_empty() {
            self.buckets.resize(Self::BUCKETS, 0);
        }
        let bucket = &mut self.buckets[Self::bucket(latency_ns).min(Self::BUCKETS - 1)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    #[inline]
    fn bucket(value: u64) -> usize {
        if value >> BITS == 0 {
            return value as usize;
        }
        let exponent = 63 - value.leading_zeros() - BITS;
        ((exponent as usize) << BITS) + (value >> exponent) as usize
    }

    /// The middle of a bucket.
    fn middle(bucket: usize) -> u64 {
        if bucket >> (BITS + 1) == 0 {
            return bucket as u64;
        }
        let exponent = (bucket >> BITS) - 1;
        let mantissa = (bucket - (exponent << BITS)) as u64;
        (mantissa << exponent) + (1 << exponent) / 2
    }

    /// The value that `share` of all are at or below; `None` of an empty histogram.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        let mut buckets = self.buckets.iter().enumerate();
        let (bucket, _) = buckets.find(|(_, count)| {
            seen += u64::from(**count);
            seen >= rank
        })?;
        Some(Self::middle(bucket).min(self.max_ns))
    }

    /// All that tables show; `None` of an empty histogram.
    pub fn summary(&self) -> Option<LatencySummary> {
        Some(LatencySummary {
            count: self.count,
            mean: self.sum_ns / self.count.max(1),
            p50: self.quantile(0.5)?,
            p90: self.quantile(0.9)?,
            p99: self.quantile(0.99)?,
            p999: self.quantile(0.999)?,
            max: self.max_ns,
        })
    }
}

impl<const BITS: u32> Fold for Histogram<BITS> {
    fn fold(&mut self, next: &Self) {
        if self.buckets.is_empty() {
            *self = next.clone();
            return;
        }
        for (bucket, other) in self.buckets.iter_mut().zip(&next.buckets) {
            *bucket = bucket.saturating_add(*other);
        }
        self.count += next.count;
        self.sum_ns = self.sum_ns.saturating_add(next.sum_ns);
        self.max_ns = self.max_ns.max(next.max_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_half_a_bucket() {
        for scale in [1, 1000, 1_000_000] {
            let mut histogram = Histogram::<5>::default();
            (1..=1000).for_each(|value| histogram.record(value * scale));
            let summary = histogram.summary().unwrap();
            assert_eq!((summary.count, summary.max), (1000, 1000 * scale));
            for (found, expected) in
                [(summary.p50, 500), (summary.p90, 900), (summary.p99, 990), (summary.p999, 999)]
            {
                let off = (found as f64 / (expected * scale) as f64 - 1.0).abs();
                assert!(off <= 1.0 / 64.0, "{found} for {expected} × {scale}");
            }
        }
    }

    #[test]
    fn extremes_are_counted() {
        let mut histogram = Histogram::<3>::default();
        assert!(histogram.summary().is_none());
        for value in [0, 1, 7, 8, 9, u64::MAX] {
            histogram.record(value);
        }
        assert_eq!(histogram.quantile(0.0), Some(0));
        assert_eq!(histogram.summary().unwrap().max, u64::MAX);
        let mut both = histogram.clone();
        both.fold(&histogram);
        assert_eq!(both.summary().unwrap().count, 12);
    }

    proptest::proptest! {
        #[test]
        fn buckets_hold_what_is_near(value in 0u64..1 << 39) {
            let middle = Histogram::<4>::middle(Histogram::<4>::bucket(value));
            let off = middle.abs_diff(value) as f64;
            proptest::prop_assert!(off <= value as f64 / 32.0 + 0.5, "{value} {middle}");
        }
    }
}
