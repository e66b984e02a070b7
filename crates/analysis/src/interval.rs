//! Median, mean and the 95 % interval of the trials of one target. Comparing targets is left to
//! [`crate::compare`].
//!
//! Noise from trial to trial multiplies rather than adds: a trial is so many per cent slow, whatever
//! its unit, and never below zero. Times and rates are therefore taken as log-normal. The median of
//! a log-normal is its geometric mean, so the interval of the median is
//! `exp(mean(ln x) ± t(n − 1, 0.975) · s / √n)`, `s` being the standard deviation of `ln x`. It is
//! the same whether a phase is given as seconds or as bytes per second. With seven trials and more,
//! a lopsided sample can have its own median outside of this interval; both are then shown as they
//! are.

pub mod bootstrap;

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::gamma::ln_gamma;

/// An interval; `low` is never above `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies within, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    pub(crate) fn map(self, f: fn(f64) -> f64) -> Interval {
        Interval { low: f(self.low), high: f(self.high) }
    }
}

/// The middle value, or the mean of the two in the middle; `None` of no values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The arithmetic mean; `None` of no values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The 95 % interval of the median, as the module says.
///
/// `None` with fewer than two values, or when one is not finite. When a value is zero or negative
/// (a count of flushes may be 0) there is no logarithm, and the interval is that of the arithmetic
/// mean of the values themselves, `mean(x) ± t · s / √n`.
#[must_use]
pub fn ci95_of_median(values: &[f64]) -> Option<Interval> {
    ci_of_median(values, 0.05)
}

/// The interval of the median that misses it with the chance `alpha`; `None` where that is 0, too.
#[must_use]
pub fn ci_of_median(values: &[f64], alpha: f64) -> Option<Interval> {
    if values.iter().all(|value| *value > 0.0) {
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        t_interval(&logarithms, alpha).map(|interval| interval.map(f64::exp))
    } else {
        t_interval(values, alpha)
    }
}

/// The interval of the mean of normally distributed values that misses it with the chance `alpha`; `None`
/// where that is 0, with fewer than two values, and when one is not finite.
pub(crate) fn t_interval(values: &[f64], alpha: f64) -> Option<Interval> {
    (alpha > 0.0).then_some(())?;
    let (centre, standard_error) = mean_and_standard_error(values)?;
    let half = if standard_error > 0.0 {
        students_t(values.len())?.inverse_cdf(1.0 - alpha / 2.0) * standard_error
    } else {
        0.0
    };
    Some(Interval { low: centre - half, high: centre + half })
}

/// The least chance at which an interval of the mean lies wholly within `band`: twice the p of the nearer
/// end. 1 where the mean itself lies outside of it.
pub(crate) fn p_of_mean_outside(values: &[f64], band: Interval) -> Option<f64> {
    let (centre, standard_error) = mean_and_standard_error(values)?;
    let room = (centre - band.low).min(band.high - centre);
    if room <= 0.0 {
        return Some(1.0);
    }
    if standard_error == 0.0 {
        return Some(0.0);
    }
    Some((2.0 * students_t(values.len())?.sf(room / standard_error)).min(1.0))
}

/// Two-sided p of the hypothesis that the mean is zero. Values without any scatter give 1 when they
/// are zero and 0 when they are not. `None` with fewer than two values or when one is not finite.
pub(crate) fn p_of_zero_mean(values: &[f64]) -> Option<f64> {
    let (centre, standard_error) = mean_and_standard_error(values)?;
    if standard_error == 0.0 {
        return Some(if centre == 0.0 { 1.0 } else { 0.0 });
    }
    let t = (centre / standard_error).abs();
    Some((2.0 * students_t(values.len())?.sf(t)).min(1.0))
}

/// Hedges' g of values against zero: their mean over their standard deviation, times the exact correction
/// for the few, `Γ(ν/2)/(√(ν/2) Γ((ν − 1)/2))` with `ν = n − 1`. `None` with fewer than three values or
/// without scatter.
pub(crate) fn hedges_g(values: &[f64]) -> Option<f64> {
    let (centre, standard_error) = mean_and_standard_error(values)?;
    if standard_error == 0.0 || values.len() < 3 {
        return None;
    }
    let half = (values.len() as f64 - 1.0) / 2.0;
    let correction = (ln_gamma(half) - ln_gamma(half - 0.5)).exp() / half.sqrt();
    Some(centre / standard_error / (values.len() as f64).sqrt() * correction)
}

fn mean_and_standard_error(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // Equal values have no scatter, although a mean that is rounded may differ from them.
    if values.iter().all(|value| *value == values[0]) {
        return Some((values[0], 0.0));
    }
    let n = values.len() as f64;
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((centre, (squares / (n - 1.0) / n).sqrt()))
}

/// Student's t for a sample of `count` values; `None` with fewer than two.
fn students_t(count: usize) -> Option<StudentsT> {
    let freedom = count.checked_sub(1)?;
    StudentsT::new(0.0, 1.0, freedom as f64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative difference below which two results count as the same.
    const TOLERANCE: f64 = 1e-9;

    fn assert_near(actual: f64, expected: f64) {
        assert!((actual - expected).abs() <= TOLERANCE * expected.abs(), "{actual} {expected}");
    }

    #[test]
    fn the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[9.0, 1.0, 2.0]), Some(4.0));
    }

    #[test]
    fn fewer_than_two_values_have_no_interval() {
        assert_eq!(ci95_of_median(&[]), None);
        assert_eq!(ci95_of_median(&[3.0]), None);
        assert_eq!(ci95_of_median(&[3.0, f64::NAN]), None);
        assert_eq!(ci95_of_median(&[3.0, f64::INFINITY]), None);
        assert_eq!(p_of_zero_mean(&[3.0]), None);
    }

    #[test]
    fn values_without_scatter_have_an_interval_without_width() {
        for value in [0.1, 0.7, 5.0] {
            let interval = ci95_of_median(&[value; 7]).unwrap();
            assert_near(interval.low, value);
            assert_eq!(interval.low, interval.high);
        }
        assert_eq!(ci95_of_median(&[0.0; 3]), Some(Interval { low: 0.0, high: 0.0 }));
        assert_eq!(p_of_zero_mean(&[0.0; 3]), Some(1.0));
        assert_eq!(p_of_zero_mean(&[0.1; 3]), Some(0.0));
    }

    // Literals from SciPy 1.17.1, with x and n as below:
    //   l = numpy.log(x); h = scipy.stats.t.ppf(.975, n - 1) * l.std(ddof=1) / n ** .5
    //   numpy.exp(l.mean() - h), numpy.exp(l.mean() + h)
    #[test]
    fn intervals_agree_with_scipy() {
        for (values, low, high) in [
            (&[100.0, 101.0, 106.0][..], 94.678_067_486_275_32, 110.535_583_439_054_59),
            (&[10.0, 20.0], 0.172_997_815_631_007_2, 1_156.083_961_352_360_6),
            (&[3.2, 2.9, 3.1, 3.4, 2.8, 3.05, 3.3], 2.909_294_579_247_571, 3.305_007_245_074_957),
        ] {
            let interval = ci95_of_median(values).unwrap();
            assert_near(interval.low, low);
            assert_near(interval.high, high);
        }
    }

    // SciPy: x.mean() ± t.ppf(.975, n - 1) * x.std(ddof=1) / n ** .5
    #[test]
    fn a_zero_leads_to_the_plain_interval() {
        let interval = ci95_of_median(&[0.0, 1.0, 5.0, 2.0]).unwrap();
        assert_near(interval.low, -1.437_434_881_858_308_7);
        assert_near(interval.high, 5.437_434_881_858_309);
    }

    // SciPy, with x = log([.92, .95, .91, .97, .93]) and nu = 4:
    //   x.mean() / x.std(ddof=1) * exp(gammaln(nu / 2) - gammaln((nu - 1) / 2)) / sqrt(nu / 2)
    #[test]
    fn effects_agree_with_scipy() {
        let logarithms = [0.92f64, 0.95, 0.91, 0.97, 0.93].map(f64::ln);
        assert_near(hedges_g(&logarithms).unwrap(), -2.068_043_598_764_733);
        assert_eq!(hedges_g(&[0.1, 0.1, 0.1]), None);
        assert_eq!(hedges_g(&[0.1, 0.2]), None);
    }

    // SciPy, with x = log([1.01, .99, 1.005, .995, 1]): twice the greater p of
    //   ttest_1samp(x, log(.97), alternative="greater") and ttest_1samp(x, log(1.03), alternative="less")
    #[test]
    fn sameness_agrees_with_scipy() {
        let band = Interval { low: 0.97f64.ln(), high: 1.03f64.ln() };
        let logarithms = [1.01f64, 0.99, 1.005, 0.995, 1.0].map(f64::ln);
        assert_near(p_of_mean_outside(&logarithms, band).unwrap(), 0.001_115_704_167_900_263);
        assert_eq!(p_of_mean_outside(&[0.0; 3], band), Some(0.0));
        assert_eq!(p_of_mean_outside(&[0.1; 3], band), Some(1.0));
        assert_eq!(p_of_mean_outside(&[0.0], band), None);
    }

    // SciPy: t.ppf(.975, df)
    #[test]
    fn quantiles_agree_with_scipy() {
        for (freedom, quantile) in [
            (1, 12.706_204_736_174_694),
            (2, 4.302_652_729_749_462),
            (4, 2.776_445_105_197_793_4),
            (9, 2.262_157_162_798_205),
            (99, 1.984_216_951_586_417_4),
        ] {
            assert_near(students_t(freedom + 1).unwrap().inverse_cdf(0.975), quantile);
        }
    }

    proptest::proptest! {
        #[test]
        fn an_interval_is_in_order_and_scales(
            values in proptest::collection::vec(1e-3f64..1e6, 2..12), scale in 0.01f64..100.0,
        ) {
            let interval = ci95_of_median(&values).unwrap();
            proptest::prop_assert!(interval.low <= interval.high);
            let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
            let of_scaled = ci95_of_median(&scaled).unwrap();
            proptest::prop_assert!((of_scaled.low / (interval.low * scale) - 1.0).abs() < 1e-6);
        }
    }
}
