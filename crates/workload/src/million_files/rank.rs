//! Spearman's rank correlation between the order of a list and that of a key, exactly: how closely
//! readdir order follows the inode numbers, or the places on the device. Which keys are compared is left
//! to [`super::layout`].
//!
//! The coefficient is Pearson's over the ranks; equal keys share the mean of their ranks. All sums are
//! kept in whole numbers (doubled ranks in 128 bits), so that a hundred million files lose no digit.

/// Something at a known position of a list, with a key.
pub trait Placed {
    /// Position in the list, from 0.
    fn position(&self) -> u32;
}

/// The rank correlation of position and `key`: 1 where both ascend together, −1 where one ascends as the
/// other descends, near 0 where they have nothing to do with each other. The positions must be 0 … n − 1
/// in any order. Leaves `items` sorted by key, then by position; allocates nothing, in O(n log n).
///
/// `None` with fewer than two items, or where all keys are equal.
pub fn spearman<T: Placed>(items: &mut [T], key: impl Fn(&T) -> u64) -> Option<f64> {
    items.sort_unstable_by_key(|item| (key(item), item.position()));
    let count = items.len() as i128;
    // Ranks and positions from 0, doubled, so that means of ranks are whole; both have this mean.
    let mean = count - 1;
    let (mut covariance, mut rank_variance) = (0i128, 0i128);
    let mut first_rank = 0i128;
    for run in items.chunk_by(|a, b| key(a) == key(b)) {
        let length = run.len() as i128;
        let rank = 2 * first_rank + (length - 1) - mean;
        first_rank += length;
        rank_variance += rank * rank * length;
        let positions: i128 = run.iter().map(|item| 2 * i128::from(item.position()) - mean).sum();
        covariance += rank * positions;
    }
    // The variance of the doubled numbers 0, 2, … 2 (n − 1), times n.
    let position_variance = count * (count * count - 1) / 3;
    if position_variance == 0 || rank_variance == 0 {
        return None;
    }
    let variance = if rank_variance == position_variance {
        // Nothing is equal: no root need be drawn, and perfect orders are exactly 1 or -1.
        position_variance as f64
    } else {
        (position_variance as f64).sqrt() * (rank_variance as f64).sqrt()
    };
    Some((covariance as f64 / variance).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Placed for (u32, u64) {
        fn position(&self) -> u32 {
            self.0
        }
    }

    fn of(keys: &[u64]) -> Option<f64> {
        let mut items: Vec<(u32, u64)> = (0..).zip(keys.iter().copied()).collect();
        spearman(&mut items, |item| item.1)
    }

    #[test]
    fn known_cases() {
        for (keys, expected) in [
            (&[][..], None),
            (&[7], None),
            (&[7, 7, 7], None),
            (&[1, 2], Some(1.0)),
            (&[10, 20, 35, 1000, u64::MAX], Some(1.0)),
            (&[9, 7, 5, 1, 0], Some(-1.0)),
            // 1 − 6 Σd² / (n (n² − 1)) with d = 1, 1, 1, 1, 0 and 0, 1, 1, 0.
            (&[2, 1, 4, 3, 5], Some(1.0 - 6.0 * 4.0 / 120.0)),
            (&[1, 3, 2, 4], Some(0.8)),
            // Ranks 1.5, 1.5, 3, 4 against 1, 2, 3, 4: 4.5 / √(5 · 4.5).
            (&[5, 5, 6, 7], Some(4.5 / (5.0f64 * 4.5).sqrt())),
        ] {
            match (of(keys), expected) {
                (Some(found), Some(expected)) => {
                    assert!((found - expected).abs() < 1e-12, "{keys:?}: {found}");
                }
                (found, expected) => assert_eq!(found, expected, "{keys:?}"),
            }
        }
    }

    #[test]
    fn strangers_correlate_little_and_millions_lose_no_digit() {
        let count = 1_000_000u64;
        let scattered: Vec<u64> = (0..count).map(crate::payload::mix).collect();
        assert!(of(&scattered).unwrap().abs() < 0.01);
        let reversed: Vec<u64> = (0..count).rev().collect();
        assert_eq!(of(&reversed), Some(-1.0));
    }
}
