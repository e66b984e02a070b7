//! Counts of values in buckets that are as wide as the value is large: sixteen or more between a power
//! of two and the next. What is counted is left to the passes.

/// The bucket of `value` with `2^bits` buckets to a power of two; small values have one each.
#[inline]
pub(super) fn bucket_of(value: u64, bits: u32) -> usize {
    let shift = 63 - (value | (1 << bits)).leading_zeros() - bits;
    ((shift as usize) << bits) + (value >> shift) as usize
}

/// The middle of a bucket.
pub(super) fn middle_of(bucket: usize, bits: u32) -> u64 {
    let shift = ((bucket >> bits) as u32).saturating_sub(1);
    let first = ((bucket - ((shift as usize) << bits)) as u64) << shift;
    first + ((1_u64 << shift) >> 1)
}

/// The bucket that holds the value of rank `⌈share × count⌉`; none without values.
pub(super) fn bucket_at(counts: impl Iterator<Item = u64> + Clone, share: f64) -> Option<usize> {
    let total: u64 = counts.clone().sum();
    if total == 0 {
        return None;
    }
    let rank = ((share * total as f64).ceil() as u64).clamp(1, total);
    let mut seen = 0;
    counts.into_iter().position(|count| {
        seen += count;
        seen >= rank
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for bits in [4, 7] {
            let mut last = 0;
            for value in 0..100_000 {
                let bucket = bucket_of(value, bits);
                assert!(bucket == last || bucket == last + 1, "{value}");
                last = bucket;
            }
        }
        assert_eq!(bucket_of(31, 4), 31);
        assert_eq!(bucket_of(32, 4), 32);
        assert_eq!(bucket_of(33, 4), 32);
        assert_eq!(middle_of(32, 4), 33);
        assert_eq!(bucket_of(u64::MAX, 7), 57 * 128 + 127 - 128 + 128);
    }

    #[test]
    fn ranks_are_those_of_the_nearest_rank() {
        let counts = [0_u64, 2, 0, 1, 1];
        let at = |share| bucket_at(counts.iter().copied(), share);
        assert_eq!((at(0.0), at(0.5), at(0.51), at(0.75), at(1.0)), (Some(1), Some(1), Some(3), Some(3), Some(4)));
        assert_eq!(bucket_at([0_u64; 3].iter().copied(), 0.5), None);
    }

    proptest! {
        #[test]
        fn the_middle_is_near(value: u64) {
            for bits in [4, 7] {
                let middle = middle_of(bucket_of(value, bits), bits);
                prop_assert!(middle.abs_diff(value) <= value >> (bits + 1), "{value} {middle}");
            }
        }
    }
}
