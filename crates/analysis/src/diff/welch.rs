//! Two independent samples: Welch's t on their means, and how many trials would decide. Which values
//! are compared, and what the result is called, is left to [`crate::diff`].
//!
//! The blocks of two runs have nothing in common, so that nothing can be paired; and there is no reason
//! why two runs should scatter alike, so that their variances are not pooled (Welch 1947; degrees of
//! freedom by Satterthwaite 1946).

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::interval::{self, Interval};

/// Most trials that are asked for.
const MOST_TRIALS: u32 = 10_000;
/// Chance that the trials asked for decide.
const POWER: f64 = 0.8;

/// The difference of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// Mean of the new sample less that of the base.
    pub difference: f64,
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Degrees of freedom; infinite without any scatter.
    pub freedom: f64,
}

impl Welch {
    /// `None` with fewer than two values on a side or when one is not finite.
    #[must_use]
    pub fn of(base: &[f64], new: &[f64]) -> Option<Welch> {
        let share = |values: &[f64]| Some(variance(values)? / values.len() as f64);
        let (of_base, of_new) = (share(base)?, share(new)?);
        let total = of_base + of_new;
        let squares =
            of_base.powi(2) / (base.len() as f64 - 1.0) + of_new.powi(2) / (new.len() as f64 - 1.0);
        Some(Welch {
            difference: mean(new)? - mean(base)?,
            standard_error: total.sqrt(),
            freedom: if squares > 0.0 { total.powi(2) / squares } else { f64::INFINITY },
        })
    }

    /// The same with `offset` taken out of the difference.
    #[must_use]
    pub fn less(self, offset: f64) -> Welch {
        Welch { difference: self.difference - offset, ..self }
    }

    /// Two-sided p that there is no difference; without any scatter 1 where there is none and else 0.
    #[must_use]
    pub fn p(&self) -> f64 {
        if self.standard_error == 0.0 {
            return if self.difference == 0.0 { 1.0 } else { 0.0 };
        }
        let t = (self.difference / self.standard_error).abs();
        students_t(self.freedom).map_or(1.0, |distribution| (2.0 * distribution.sf(t)).min(1.0))
    }

    /// The 95 % interval of the difference.
    #[must_use]
    pub fn interval(&self) -> Interval {
        let half = match students_t(self.freedom) {
            Some(distribution) if self.standard_error > 0.0 => {
                distribution.inverse_cdf(0.975) * self.standard_error
            }
            _ => 0.0,
        };
        Interval { low: self.difference - half, high: self.difference + half }
    }
}

fn students_t(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

/// The mean, that of equal values being exactly theirs; `None` of no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    if values.iter().all(|value| *value == first) { Some(first) } else { interval::mean(values) }
}

/// Unbiased variance; `None` with fewer than two values or when one is not finite.
#[must_use]
pub fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // Equal values have no scatter, although a mean that is rounded may differ from them.
    if values.iter().all(|value| *value == values[0]) {
        return Some(0.0);
    }
    let mean = interval::mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(squares / (values.len() as f64 - 1.0))
}

/// What is known of two samples whose comparison is undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Undecided {
    /// Difference of the means.
    pub difference: f64,
    /// Variance of each value of the base.
    pub base_variance: f64,
    /// Variance of each value of the new sample.
    pub new_variance: f64,
    /// Half width of the band within which they count as the same.
    pub band: f64,
    /// Number of comparisons that are corrected for.
    pub comparisons: usize,
}

impl Undecided {
    /// Trials on each side that would decide in four of five cases, if difference and variances are
    /// what they seem: either by telling the two apart, or by showing that they are the same, whatever
    /// takes fewer. `None` when that is more than 10,000.
    #[must_use]
    pub fn trials_needed(&self) -> Option<u32> {
        let (mut low, mut high) = (2, MOST_TRIALS);
        if !self.is_enough(high) {
            return None;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_enough(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(high)
    }

    fn is_enough(&self, trials: u32) -> bool {
        let sum = self.base_variance + self.new_variance;
        let squares = self.base_variance.powi(2) + self.new_variance.powi(2);
        if squares == 0.0 {
            return true;
        }
        let n = f64::from(trials);
        let Some(distribution) = students_t(sum.powi(2) * (n - 1.0) / squares) else {
            return false;
        };
        let standard_error = (sum / n).sqrt();
        let difference = self.difference.abs();
        let level = 0.05 / self.comparisons.max(1) as f64;
        let apart = distribution.inverse_cdf(1.0 - level / 2.0) + distribution.inverse_cdf(POWER);
        // Both ends of the interval must lie within the band.
        let same =
            distribution.inverse_cdf(0.975) + distribution.inverse_cdf(f64::midpoint(1.0, POWER));
        apart * standard_error <= difference || same * standard_error <= self.band - difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual / expected - 1.0).abs() < tolerance, "{actual} {expected}");
    }

    const BASE: &[f64] = &[120.0, 118.0, 125.0, 121.0, 119.0];
    const NEW: &[f64] = &[110.0, 112.0, 111.0, 109.0];
    const WIDE: &[f64] = &[90.0, 140.0, 131.0];

    // SciPy 1.17.1, with numpy.log of the lists above:
    //   r = scipy.stats.ttest_ind(new, base, equal_var=False)
    //   new.mean() - base.mean(), r.pvalue, r.df, *r.confidence_interval(.95)
    #[test]
    fn welch_agrees_with_scipy() {
        for (new, expected) in [SCIPY_NEW, SCIPY_WIDE] {
            let logarithms =
                |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
            let welch = Welch::of(&logarithms(BASE), &logarithms(new)).unwrap();
            let ends = welch.interval();
            let actual = [welch.difference, welch.p(), welch.freedom, ends.low, ends.high];
            for (actual, expected) in actual.into_iter().zip(expected) {
                assert_near(actual, expected, 1e-7);
            }
        }
    }

    const SCIPY_NEW: (&[f64], [f64; 5]) = (
        NEW,
        [
            -0.087_316_498_494_409_7,
            0.000_225_815_687_538_508_36,
            6.249_051_064_464_87,
            -0.115_242_724_848_069_98,
            -0.059_390_272_140_749_42,
        ],
    );
    const SCIPY_WIDE: (&[f64], [f64; 5]) = (
        WIDE,
        [
            -0.020_064_356_604_750_7,
            0.897_538_469_402_127_7,
            2.020_885_372_001_402,
            -0.607_586_072_880_242_9,
            0.567_457_359_670_741_5,
        ],
    );

    #[test]
    fn few_values_and_no_scatter() {
        assert_eq!(Welch::of(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Welch::of(&[1.0, 2.0], &[]), None);
        assert_eq!(Welch::of(&[1.0, f64::NAN], &[1.0, 2.0]), None);
        let equal = Welch::of(&[0.1; 3], &[0.1; 4]).unwrap();
        assert_eq!((equal.p(), equal.interval()), (1.0, Interval { low: 0.0, high: 0.0 }));
        let apart = Welch::of(&[0.1; 3], &[0.2; 3]).unwrap();
        assert_eq!(apart.p(), 0.0);
        // One side without scatter: the freedom is that of the other.
        let half = Welch::of(&[1.0; 9], &[2.0, 3.0, 4.0]).unwrap();
        assert_near(half.freedom, 2.0, 1e-12);
    }

    #[test]
    fn an_offset_moves_the_difference_alone() {
        let welch = Welch::of(&[1.0, 2.0], &[3.0, 5.0]).unwrap().less(2.5);
        assert_eq!(welch.difference, 0.0);
        assert_near(welch.p(), 1.0, 1e-12);
    }

    #[test]
    fn more_trials_are_needed_for_less() {
        let needed = |difference: f64, deviation: f64, comparisons: usize| {
            let variance = deviation.powi(2);
            let (base_variance, new_variance) = (variance, variance);
            let band = 1.03f64.ln();
            Undecided { difference, base_variance, new_variance, band, comparisons }.trials_needed()
        };
        // By hand, with normal quantiles: n = 2 (1.96 + 0.84)² 0.05² / 0.1² = 3.9; t asks for more.
        let few = needed(0.1, 0.05, 1).unwrap();
        assert!((5..=7).contains(&few), "{few}");
        // n = 2 (1.96 + 1.28)² 0.05² / 0.0296² = 60.
        let same = needed(0.0, 0.05, 1).unwrap();
        assert!((60..=64).contains(&same), "{same}");
        assert!(needed(0.1, 0.05, 20) > needed(0.1, 0.05, 1));
        assert!(needed(0.1, 0.1, 1) > needed(0.1, 0.05, 1));
        assert_eq!(needed(0.0, 0.0, 1), Some(2));
        // At the very edge of the band the two ways meet: apart by 3 %.
        assert!(needed(0.029, 0.05, 1).unwrap() > 40);
        assert_eq!(needed(0.014, 2.0, 1), None);
    }

    proptest::proptest! {
        #[test]
        fn p_and_interval_agree(
            base in proptest::collection::vec(-5.0f64..5.0, 2..9),
            new in proptest::collection::vec(-5.0f64..5.0, 2..9),
        ) {
            let welch = Welch::of(&base, &new).unwrap();
            let excludes = !welch.interval().contains(0.0);
            let p = welch.p();
            proptest::prop_assert!((p - 0.05).abs() < 1e-6 || excludes == (p < 0.05), "{welch:?}");
            let turned = Welch::of(&new, &base).unwrap();
            proptest::prop_assert!((turned.p() - p).abs() < 1e-9);
        }
    }
}
