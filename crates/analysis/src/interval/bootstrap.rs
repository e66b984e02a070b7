//! Intervals without a model of the noise: the bootstrap, bias-corrected and accelerated (BCa; Efron 1987).
//! The interval of the median that rests on log-normal noise is in [`crate::interval`].
//!
//! Trials are drawn with replacement 2,000 times; the quantiles of the figure over these draws are shifted by
//! how far the figure itself lies from their middle, and by how much its scatter changes with its size (found
//! by leaving out one trial at a time). The draws come from a fixed seed, so that the same trials give the
//! same interval.

use statrs::distribution::{ContinuousCDF, Normal};

use super::Interval;

/// Fewest values with an interval. With fewer the ends miss what they claim by several per cent: the tables in
/// `docs/METHODOLOGY.md` say by how many.
pub const MIN_VALUES: usize = 10;

/// Draws.
const RESAMPLES: usize = 2000;

/// The interval of `statistic` over `count` values that misses with the chance `alpha`. The statistic is given
/// the indices of the values that were drawn, in any order, some more than once.
///
/// `None` with fewer than [`MIN_VALUES`] values, where a figure is not finite, and where the figure lies
/// beyond all draws.
#[must_use]
pub fn bca(count: usize, alpha: f64, statistic: impl Fn(&[usize]) -> f64) -> Option<Interval> {
    if count < MIN_VALUES { None } else { bca_of_any(count, alpha, statistic) }
}

/// The same however few the values are: for finding out from how many on it is worth something.
#[must_use]
pub fn bca_of_any(
    count: usize,
    alpha: f64,
    statistic: impl Fn(&[usize]) -> f64,
) -> Option<Interval> {
    if count < 2 {
        return None;
    }
    let drawn = resampled(count, &statistic);
    interval(count, alpha, &statistic, drawn)
}

fn resampled(count: usize, statistic: &impl Fn(&[usize]) -> f64) -> Vec<f64> {
    let mut state = 0x5eed_0013_u64;
    let mut indices = vec![0; count];
    let draw = |_| {
        for index in &mut indices {
            *index = below(&mut state, count);
        }
        statistic(&indices)
    };
    (0..RESAMPLES).map(draw).collect()
}

/// The interval by the figures of the draws, in any order.
fn interval(
    count: usize,
    alpha: f64,
    statistic: &impl Fn(&[usize]) -> f64,
    mut drawn: Vec<f64>,
) -> Option<Interval> {
    let all: Vec<usize> = (0..count).collect();
    let figure = statistic(&all);
    if !figure.is_finite() || drawn.iter().any(|value| !value.is_finite()) {
        return None;
    }
    drawn.sort_by(f64::total_cmp);
    if drawn.first() == drawn.last() {
        return Some(Interval { low: figure, high: figure });
    }
    let normal = Normal::standard();
    let below = drawn.partition_point(|value| *value < figure);
    let up_to = drawn.partition_point(|value| *value <= figure);
    let bias = normal.inverse_cdf((below + up_to) as f64 / 2.0 / drawn.len() as f64);
    let acceleration = acceleration(count, statistic);
    let end = |level: f64| {
        let z = bias + normal.inverse_cdf(level);
        let shifted = normal.cdf(bias + z / (1.0 - acceleration * z));
        quantile(&drawn, shifted)
    };
    let (low, high) = (end(alpha / 2.0), end(1.0 - alpha / 2.0));
    (low.is_finite() && high.is_finite() && low <= high).then_some(Interval { low, high })
}

/// A sixth of the skewness of the figures without one value each; 0 where they do not differ.
fn acceleration(count: usize, statistic: &impl Fn(&[usize]) -> f64) -> f64 {
    let without = |out: usize| -> f64 {
        let others: Vec<usize> = (0..count).filter(|index| *index != out).collect();
        statistic(&others)
    };
    let figures: Vec<f64> = (0..count).map(without).collect();
    let centre = figures.iter().sum::<f64>() / count as f64;
    let moment = |power: i32| figures.iter().map(|it| (centre - it).powi(power)).sum::<f64>();
    let scatter = moment(2);
    if scatter > 0.0 { moment(3) / (6.0 * scatter.powf(1.5)) } else { 0.0 }
}

/// The quantile of sorted values, between two of them in proportion.
fn quantile(sorted: &[f64], level: f64) -> f64 {
    if !(0.0..=1.0).contains(&level) {
        return f64::NAN;
    }
    let place = level * (sorted.len() - 1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// A number below `count` by SplitMix64 (Steele, Lea and Flood 2014), whose state is stepped on.
fn below(state: &mut u64, count: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    usize::try_from((u128::from(z) * count as u128) >> 64).expect("below the count")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{mean, median};

    const VALUES: [f64; 10] = [3.2, 2.9, 3.1, 3.4, 2.8, 3.05, 3.3, 3.9, 2.7, 3.15];

    fn pick(indices: &[usize]) -> Vec<f64> {
        indices.iter().map(|index| VALUES[*index]).collect()
    }

    // SciPy 1.17.1: scipy.stats.bootstrap((x,), f, n_resamples=999999, method="BCa", rng=1), f being
    // numpy.mean and numpy.median. The draws are others, so that the ends agree to some thousandths.
    #[test]
    fn intervals_agree_with_scipy() {
        let of_mean = bca(10, 0.05, |drawn| mean(&pick(drawn)).unwrap()).unwrap();
        let of_median = bca(10, 0.05, |drawn| median(&pick(drawn)).unwrap()).unwrap();
        for (actual, expected) in [
            (of_mean.low, 2.98),
            (of_mean.high, 3.395),
            (of_median.low, 2.9),
            (of_median.high, 3.3),
        ] {
            assert!((actual - expected).abs() < 0.026, "{actual} {expected}");
        }
    }

    // NumPy: j = [numpy.delete(x, i).mean() for i in range(10)]; u = mean(j) - j;
    //   (u**3).sum() / (6 * (u**2).sum()**1.5), as in SciPy
    #[test]
    fn acceleration_agrees_with_scipy() {
        let actual = acceleration(10, &|drawn: &[usize]| mean(&pick(drawn)).unwrap());
        assert!((actual - 0.044_961_110_503_699_386).abs() < 1e-12, "{actual}");
    }

    #[test]
    fn too_few_values_have_no_interval() {
        assert_eq!(bca(MIN_VALUES - 1, 0.05, |drawn| drawn[0] as f64), None);
        assert_eq!(bca(12, 0.05, |_| f64::NAN), None);
        assert_eq!(bca(12, 0.05, |_| 4.0), Some(Interval { low: 4.0, high: 4.0 }));
    }

    #[test]
    fn the_same_values_give_the_same_interval() {
        let once = || bca(10, 0.05, |drawn| mean(&pick(drawn)).unwrap());
        assert_eq!(once(), once());
        let wider = bca(10, 0.01, |drawn| mean(&pick(drawn)).unwrap()).unwrap();
        assert!(wider.low < once().unwrap().low && wider.high > once().unwrap().high);
    }
}
