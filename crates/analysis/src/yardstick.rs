//! What the readings of the yardstick over a run say of its machine: trials beside which it was far from
//! the usual, and whether it became slower or faster in the course of the run. What follows for two runs is
//! left to [`crate::diff`].
//!
//! All of it is robust: median, median absolute deviation, Theil and Sen's slope, Kendall's rank test. The
//! logarithms of times are taken, since noise multiplies. Formulas and levels stand in
//! `docs/METHODOLOGY.md`.

use std::collections::BTreeMap;

use fsdyno_model::disturbance::YARDSTICK_OUTLIER;
use fsdyno_model::record::Warning;
use fsdyno_model::result::TrialResult;
use fsdyno_model::yardstick::{FIGURES, Figure, Part, Reading};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::interval;

/// Readings below which nothing is an outlier.
const FEWEST_FOR_OUTLIERS: usize = 7;
/// An outlier among very many readings lies this many standard deviations, told from the median absolute
/// deviation, off the median.
const OUTLIER_SCORE: f64 = 3.5;
/// Of so many readings it lies twice as far off, of fewer farther: their deviation is known less well.
const FEW_READINGS: f64 = 10.0;
/// And it is at least this many times, or at most one over this many times, the median.
const OUTLIER_RATIO: f64 = 1.1;
/// Standard deviation of normal noise in units of its median absolute deviation.
const DEVIATION_PER_MAD: f64 = 1.4826;
/// Readings below which no drift is told.
const FEWEST_FOR_DRIFT: usize = 8;
/// Chance of a drift told of one run where there is none, all its figures together.
const DRIFT_LEVEL: f64 = 0.01;
/// Change over the whole run from which on a drift is told.
const DRIFT_RATIO: f64 = 1.05;
/// More readings than this are thinned out before they are compared two by two.
const MOST_FOR_DRIFT: usize = 500;

/// The readings of one figure in a run.
#[derive(Debug)]
pub struct Series<'a> {
    /// The figure.
    pub figure: &'static Figure,
    /// Where the device was reached; `None` for a figure of the processor.
    pub place: Option<&'a str>,
    /// Start in nanoseconds since 1970, and value; each reading once, the earliest first.
    pub values: Vec<(u64, f64)>,
}

/// The readings of these trials by figure, and by place where they are of a device.
#[must_use]
pub fn series(trials: &[TrialResult]) -> Vec<Series<'_>> {
    let mut all = Vec::new();
    for figure in &FIGURES {
        let mut by_place: BTreeMap<Option<&str>, BTreeMap<u64, f64>> = BTreeMap::new();
        for reading in
            trials.iter().filter_map(|it| it.yardstick.as_ref()).flat_map(|it| it.readings())
        {
            if let Some(value) = value(figure, reading) {
                let place = place(figure, reading);
                by_place.entry(place).or_default().insert(reading.started_unix_ns, value);
            }
        }
        let each = by_place.into_iter().map(|(place, values)| Series {
            figure,
            place,
            values: values.into_iter().collect(),
        });
        all.extend(each);
    }
    all
}

fn value(figure: &Figure, reading: &Reading) -> Option<f64> {
    (figure.read)(reading).filter(|value| value.is_finite() && *value > 0.0)
}

fn place<'a>(figure: &Figure, reading: &'a Reading) -> Option<&'a str> {
    (figure.part == Part::Device).then_some(reading.place.as_str())
}

/// Middle and scatter of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Their number.
    pub n: usize,
    /// Their median.
    pub median: f64,
    /// Standard deviation of their logarithms, told from the median absolute deviation: 0.05 is about 5 %.
    pub deviation: f64,
}

impl Series<'_> {
    /// Middle and scatter; `None` of no readings.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        let logarithms: Vec<f64> = self.values.iter().map(|(_, value)| value.ln()).collect();
        let middle = interval::median(&logarithms)?;
        let off: Vec<f64> = logarithms.iter().map(|value| (value - middle).abs()).collect();
        let deviation = DEVIATION_PER_MAD * interval::median(&off)?;
        Some(Spread { n: self.values.len(), median: middle.exp(), deviation })
    }

    /// What changed over the run; `None` with fewer than eight readings.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        let points: Vec<(f64, f64)> =
            self.values.iter().map(|(time, value)| (*time as f64, *value)).collect();
        drift_of(&points)
    }

    fn name(&self) -> String {
        match self.place {
            Some(place) => format!("{} ({place})", self.figure.title),
            None => self.figure.title.to_owned(),
        }
    }
}

/// A trend over a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Value at the end of the run to that at its beginning, along the line.
    pub ratio: f64,
    /// Two-sided p that there is none (Kendall).
    pub p: f64,
}

/// The trend of points of time and value, the earliest first; `None` with fewer than eight.
pub(crate) fn drift_of(points: &[(f64, f64)]) -> Option<Drift> {
    let step = points.len().div_ceil(MOST_FOR_DRIFT).max(1);
    let thinned = points.iter().step_by(step);
    drift(&thinned.map(|(time, value)| (*time, value.ln())).collect::<Vec<_>>())
}

/// The trend of points of time and logarithm: Theil and Sen's slope, and the rank test of Kendall with the
/// normal approximation and its correction for continuity. Points alike count as neither up nor down.
fn drift(points: &[(f64, f64)]) -> Option<Drift> {
    let n = points.len();
    if n < FEWEST_FOR_DRIFT {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut sum = 0i64;
    for (index, (time, value)) in points.iter().enumerate() {
        for (earlier, before) in &points[..index] {
            sum += match value.total_cmp(before) {
                std::cmp::Ordering::Greater => 1,
                std::cmp::Ordering::Less => -1,
                std::cmp::Ordering::Equal => 0,
            };
            if time > earlier {
                slopes.push((value - before) / (time - earlier));
            }
        }
    }
    let slope = interval::median(&slopes)?;
    let (count, sum) = (n as f64, sum as f64);
    let variance = count * (count - 1.0) * (2.0 * count + 5.0) / 18.0;
    let score = (sum.abs() - 1.0).max(0.0) / variance.sqrt();
    let p = (2.0 * Normal::standard().sf(score)).min(1.0);
    let span = points[n - 1].0 - points[0].0;
    Some(Drift { ratio: (slope * span).exp(), p })
}

/// Marks the trials beside which the yardstick was far off, and gives what is to be said of the whole run.
pub(crate) fn mark(trials: &mut [TrialResult]) -> Vec<Warning> {
    let series = series(trials);
    let of_run = series.iter().filter_map(|one| drifted(one, series.len())).collect();
    let usual: Vec<Usual> = series
        .iter()
        .filter(|one| one.values.len() >= FEWEST_FOR_OUTLIERS)
        .filter_map(|one| {
            let place = one.place.map(str::to_owned);
            Some(Usual { figure: one.figure, place, spread: one.spread()? })
        })
        .collect();
    for trial in trials {
        trial.warnings.extend(outlier(trial, &usual));
    }
    of_run
}

/// What a figure is usually, in a run.
struct Usual {
    figure: &'static Figure,
    place: Option<String>,
    spread: Spread,
}

fn outlier(trial: &TrialResult, usual: &[Usual]) -> Option<Warning> {
    let yardstick = trial.yardstick.as_ref()?;
    let sides = [("before", &yardstick.before), ("after", &yardstick.after)];
    let mut worst: Option<(f64, String)> = None;
    for (side, reading) in sides.into_iter().filter_map(|(side, it)| Some((side, it.as_ref()?))) {
        for Usual { figure, place: of, spread } in usual {
            let Some(value) =
                value(figure, reading).filter(|_| place(figure, reading) == of.as_deref())
            else {
                continue;
            };
            let off = (value / spread.median).ln();
            let limit = OUTLIER_RATIO.ln().max(score(spread.n) * spread.deviation);
            // As many times the limit as it is, so that figures of different scatter compare.
            let times = off.abs() / limit;
            if times > 1.0 && worst.as_ref().is_none_or(|(known, _)| times > *known) {
                let words = format!(
                    "{} took {} times as long {side} it as in the middle of {} readings",
                    figure.title,
                    factor(off.exp()),
                    spread.n
                );
                worst = Some((times, words));
            }
        }
    }
    let (_, words) = worst?;
    Some(Warning {
        code: YARDSTICK_OUTLIER.to_owned(),
        message: format!("the machine was not as usual: {words}"),
        advice: "see what else ran then; more trials outweigh it".to_owned(),
    })
}

/// How many standard deviations off the median an outlier among `n` readings lies.
fn score(n: usize) -> f64 {
    OUTLIER_SCORE * (1.0 + FEW_READINGS / n.max(1) as f64)
}

fn drifted(series: &Series<'_>, comparisons: usize) -> Option<Warning> {
    let drift = series.drift()?;
    let is_clear = drift.p <= DRIFT_LEVEL / comparisons.max(1) as f64;
    let is_large = drift.ratio.ln().abs() >= DRIFT_RATIO.ln();
    (is_clear && is_large).then(|| Warning {
        code: "machine-drifted".to_owned(),
        message: format!(
            "in the course of the run the machine changed: {} took {} times as long at its end as at its beginning",
            series.name(),
            factor(drift.ratio)
        ),
        advice: "targets were hit alike, within their blocks; for other runs let the machine become warm before, fix its frequency, or fill the disk first"
            .to_owned(),
    })
}

/// A ratio for people: `2.3`, `0.45`, `12`.
fn factor(ratio: f64) -> String {
    if ratio >= 9.95 { format!("{ratio:.0}") } else { format!("{ratio:.2}") }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::yardstick::Yardstick;

    use super::*;
    use crate::fixture;

    /// A reading at a second whose device reads in this many microseconds.
    fn reading(second: u64, read_us: f64) -> Reading {
        Reading {
            place: "/img".to_owned(),
            started_unix_ns: second * 1_000_000_000,
            compute_ns: Some(1.3),
            device_read_ns: Some(read_us * 1000.0),
            ..Reading::default()
        }
    }

    /// Trials one after the other, with a reading between two of them.
    fn trials(reads_us: &[f64]) -> Vec<TrialResult> {
        let readings: Vec<Reading> =
            reads_us.iter().zip(1..).map(|(us, second)| reading(second, *us)).collect();
        let pairs = readings.windows(2).zip(1..);
        let trial = |(pair, number): (&[Reading], u32)| {
            let mut record = fixture::trial("ext4", number, &[("create", 1.0)]);
            record.yardstick =
                Some(Yardstick { before: Some(pair[0].clone()), after: Some(pair[1].clone()) });
            crate::assemble::trial_result(&record)
        };
        pairs.map(trial).collect()
    }

    fn marked(trials: &[TrialResult]) -> Vec<u32> {
        let is_marked = |trial: &&TrialResult| {
            trial.warnings.iter().any(|warning| warning.code == YARDSTICK_OUTLIER)
        };
        trials.iter().filter(is_marked).map(|trial| trial.trial).collect()
    }

    #[test]
    fn a_reading_between_two_trials_counts_once() {
        let trials = trials(&[100.0, 101.0, 99.0, 100.0]);
        let series = series(&trials);
        let names: Vec<(&str, Option<&str>, usize)> =
            series.iter().map(|it| (it.figure.name, it.place, it.values.len())).collect();
        assert_eq!(names, [("compute_ns", None, 4), ("device_read_ns", Some("/img"), 4)]);
        let spread = series[1].spread().unwrap();
        assert!((spread.median / 100_000.0 - 1.0).abs() < 1e-9, "{spread:?}");
        // Two are 1 % off, two are not: the median of the distances is half of that.
        assert!((spread.deviation / 0.005 / 1.4826 - 1.0).abs() < 0.01, "{spread:?}");
    }

    #[test]
    fn trials_beside_an_outlier_are_marked() {
        // The floor: without scatter, 9 % off is nothing yet, 11 % is.
        for (odd, expected) in [(109.0, vec![]), (111.0, vec![3, 4]), (89.0, vec![3, 4])] {
            let mut all = trials(&[100.0, 100.0, 100.0, odd, 100.0, 100.0, 100.0]);
            assert!(mark(&mut all).is_empty());
            assert_eq!(marked(&all), expected, "{odd}");
        }
        // The same where readings scatter by 10 %: 20 % off is usual, three times as long is not.
        for (odd, expected) in [(120.0, vec![]), (300.0, vec![6, 7])] {
            let mut all = trials(&[90.0, 110.0, 100.0, 95.0, 108.0, 92.0, odd, 105.0, 97.0, 100.0]);
            mark(&mut all);
            assert_eq!(marked(&all), expected, "{odd}");
        }
        let mut all = trials(&[100.0, 100.0, 100.0, 300.0, 100.0, 100.0, 100.0]);
        mark(&mut all);
        let told = &all[2].warnings[0].message;
        assert!(
            told.contains("reading from the device took 3.00 times as long after it"),
            "{told}"
        );
        let mut few = trials(&[100.0, 100.0, 100.0, 900.0, 100.0, 100.0]);
        mark(&mut few);
        assert!(marked(&few).is_empty(), "six readings have no usual");
    }

    #[test]
    fn normal_noise_has_few_outliers() {
        let mut state = 7u64;
        let mut draw = || {
            // The sum of twelve uniform numbers is nearly normal.
            let uniform = |state: &mut u64| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
                (*state >> 11) as f64 / (1u64 << 53) as f64
            };
            (0..12).map(|_| uniform(&mut state)).sum::<f64>() - 6.0
        };
        for n in [7, 11, 21, 41] {
            let mut runs_with_marks = 0;
            for _ in 0..200 {
                let reads: Vec<f64> = (0..n).map(|_| 100.0 * (0.1 * draw()).exp()).collect();
                let mut all = trials(&reads);
                mark(&mut all);
                runs_with_marks += usize::from(!marked(&all).is_empty());
            }
            assert!(runs_with_marks <= 10, "{n} readings: {runs_with_marks} of 200 runs");
        }
    }

    #[test]
    fn a_trend_is_told_and_noise_is_not() {
        let noise = |index: usize| 1.0 + ((index * 7919) % 13) as f64 / 400.0;
        let up: Vec<f64> = (0..16).map(|it| 100.0 * (1.0 + it as f64 * 0.02) * noise(it)).collect();
        let warnings = mark(&mut trials(&up));
        let codes: Vec<&str> = warnings.iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, ["machine-drifted"]);
        assert!(
            warnings[0].message.contains("reading from the device (/img) took 1.3"),
            "{warnings:?}"
        );
        let level: Vec<f64> = (0..16).map(|it| 100.0 * noise(it)).collect();
        assert!(mark(&mut trials(&level)).is_empty());
        // Certain and small.
        let small: Vec<f64> = (0..16).map(|it| 100.0 + f64::from(it) * 0.2).collect();
        assert!(mark(&mut trials(&small)).is_empty());
        assert!(mark(&mut trials(&up[..7])).is_empty(), "seven readings");
    }

    // By hand: 23 of 28 pairs rise and 5 fall, so that S = 18, z = (18 - 1) / sqrt(8 * 7 * 21 / 18) and
    // p = erfc(z / sqrt(2)); of the 28 slopes the two in the middle are 2/3 and 3/4.
    #[test]
    fn slope_and_test_agree_with_those_made_by_hand() {
        let values = [1.0, 3.0, 2.0, 5.0, 4.0, 6.0, 3.5, 7.0];
        let points: Vec<(f64, f64)> =
            values.iter().zip(0..).map(|(y, x)| (f64::from(x), *y)).collect();
        let told = drift(&points).unwrap();
        assert!((told.p - 0.035_447_892_552).abs() < 1e-9, "{told:?}");
        assert!((told.ratio.ln() / 7.0 - 17.0 / 24.0).abs() < 1e-12, "{told:?}");
    }

    #[test]
    fn without_readings_nothing_is_said() {
        let mut none = vec![crate::assemble::trial_result(&fixture::trial("a", 1, &[]))];
        assert!(mark(&mut none).is_empty() && none[0].warnings.is_empty());
        assert!(series(&none).is_empty());
    }
}
