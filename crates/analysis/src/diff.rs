//! Two runs beside each other: what became faster or slower, and what moved with it.
//!
//! The two are independent samples: their blocks have nothing in common, so that nothing is paired. A
//! figure is compared by Welch's t on the logarithms of its trials, and Holm's correction over all
//! figures holds the chance of even one false alarm at 5 %. How it looks is left to the report, and
//! comparing the targets of one run to [`crate::compare`].
//!
//! | module | holds |
//! |---|---|
//! | [`welch`] | the statistics of two independent samples |
//! | [`sides`] | which targets, workloads and phases belong together, and their values |
//! | [`differences`] | plan, options and machine: what is not the same |
//! | [`machine`] | what the machines' speeds let expect |
//! | [`covariate`] | the yardstick of both runs |
//! | [`moved`] | what else moved |
//! | `words` | the summary |

pub mod covariate;
pub mod differences;
pub mod machine;
pub mod moved;
pub mod sides;
pub mod welch;
mod words;

use std::collections::BTreeMap;

use fsdyno_model::SCHEMA_VERSION;
use fsdyno_model::diff::{
    AdjustedBy, DiffBetween, DiffCounts, DiffRatio, DiffRow, DiffSample, DiffSide, DiffVerdict,
    RunDiff,
};
use fsdyno_model::io_graph::IoTotals;
use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::place::Clock;
use fsdyno_model::result::RunResult;

use crate::compare;
use crate::interval::{self, Interval};
use crate::series::FSCK;
use covariate::Shares;
use machine::Expected;
use sides::{Case, PhaseTrial};
use welch::{Undecided, Welch};

/// Share by which figures may differ and count as the same when nothing is said.
pub const DEFAULT_THRESHOLD: f64 = 0.03;

/// One of the two runs, and what is known of it besides its result document.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// The result document.
    pub result: &'a RunResult,
    /// The file that it was read from.
    pub file: Option<&'a str>,
    /// What was traced; empty where nothing was, or nobody has read it.
    pub traced: &'a [TracedPhase],
}

/// What a block trace says of one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct TracedPhase {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Name of the phase.
    pub phase: String,
    /// Its totals.
    pub totals: IoTotals,
}

/// How to compare.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// Share by which two figures may differ and count as the same: 0.03 is 3 %.
    pub threshold: f64,
    /// Whether verdicts are those of the adjusted ratios, where there are some.
    pub adjusted: bool,
    /// Labels of targets of the base and of the new run that belong together although they differ.
    pub pairs: Vec<(String, String)>,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions { threshold: DEFAULT_THRESHOLD, adjusted: false, pairs: Vec::new() }
    }
}

impl DiffOptions {
    /// Half width, on the logarithm, of the band within which two figures count as the same.
    #[must_use]
    pub fn band(&self) -> f64 {
        self.threshold.ln_1p()
    }
}

/// Compares `new` with `base`.
#[must_use]
pub fn diff(base: Side<'_>, new: Side<'_>, options: &DiffOptions) -> RunDiff {
    let matching = sides::Matching::of(base.result, new.result, &options.pairs);
    let machine = machine::Machines::of(base.result, new.result, &matching);
    let is_exact = [base, new]
        .into_iter()
        .all(|side| side.result.run.environment.measured.clock == Clock::Virtual);
    let mut rows = Vec::new();
    for case in &matching.cases {
        let mut figures = figures(case, &machine);
        figures.extend(whole(&figures, case));
        rows.extend(figures);
    }
    judge(&mut rows, options, is_exact);
    let mut rows: Vec<DiffRow> = rows.into_iter().map(|figure| figure.row).collect();
    for row in &mut rows {
        let has_moved = matches!(row.verdict, DiffVerdict::Faster | DiffVerdict::Slower);
        if let (true, Some(phase)) = (has_moved, row.phase.as_deref()) {
            let case = matching.cases.iter().find(|it| it.is_of(&row.target, &row.workload));
            let traced = [base.traced, new.traced];
            row.moved = case.map_or(Vec::new(), |case| {
                moved::movements(case, phase, row.metric.as_deref(), traced, options)
            });
        }
    }
    let counts = counts(&rows);
    let mut told = RunDiff {
        schema_version: SCHEMA_VERSION,
        threshold: options.threshold,
        adjusted: options.adjusted,
        exact: is_exact,
        base: side(base),
        new: side(new),
        warnings: differences::warnings(base.result, new.result, &matching, &machine),
        differences: differences::differences(base.result, new.result, &matching),
        only_base: matching.only_base,
        only_new: matching.only_new,
        counts,
        is_slower: rows.iter().any(is_alarm),
        rows,
        summary: String::new(),
    };
    told.summary = words::summary(&told);
    told
}

fn side(side: Side<'_>) -> DiffSide {
    let run = &side.result.run;
    DiffSide {
        id: run.id.clone(),
        file: side.file.map(str::to_owned),
        title: run.title.clone(),
        started: run.started.clone(),
        hostname: run.environment.hostname.clone(),
        kernel_release: run.environment.kernel_release.clone(),
        command: run.command.clone(),
    }
}

/// Whether a row is worth an alarm.
fn is_alarm(row: &DiffRow) -> bool {
    row.verdict == DiffVerdict::Slower && row.beyond_threshold
}

fn counts(rows: &[DiffRow]) -> DiffCounts {
    let mut counts = DiffCounts::default();
    for row in rows.iter().filter(|row| row.phase.is_some()) {
        match row.verdict {
            DiffVerdict::Faster => counts.faster += 1,
            DiffVerdict::Slower => counts.slower += 1,
            DiffVerdict::Same => counts.same += 1,
            DiffVerdict::Undecided => counts.undecided += 1,
        }
        counts.slower_beyond_threshold += usize::from(is_alarm(row));
    }
    counts
}

/// A row with what its verdict is made of.
struct Figure {
    row: DiffRow,
    /// Values of which more is better: logarithms, or plain where one is not positive.
    base: Vec<f64>,
    new: Vec<f64>,
    /// Whether they are logarithms.
    is_ratio: bool,
    /// Logarithm of what the machines let expect.
    expected: Option<f64>,
    /// The difference at equal readings of the yardstick, where that can be told.
    at_equal_readings: Option<Welch>,
    /// Between which logarithms what the machines let expect lies.
    bounds: Option<Interval>,
}

/// The phases of a case that both sides have, by the metric that tables of the new run show.
fn figures(case: &Case<'_>, machine: &machine::Machines) -> Vec<Figure> {
    let mut figures = Vec::new();
    for phase in &case.phases {
        let [base, new] = case.trials(phase);
        let Some(metric) = case.primary_metric(phase).and_then(metric::find) else { continue };
        let Some(better) = metric.better.filter(|_| !metric.explains) else { continue };
        let values = |trials: &[&PhaseTrial<'_>]| values(trials, metric);
        let (base_values, new_values) = (values(&base), values(&new));
        if base_values.is_empty() || new_values.is_empty() {
            continue;
        }
        let is_ratio = base_values.iter().chain(&new_values).all(|value| *value > 0.0);
        let sign = if better == Better::Lower { -1.0 } else { 1.0 };
        let scaled = |values: &[f64]| {
            let scaled = values.iter().map(|value| if is_ratio { value.ln() } else { *value });
            scaled.map(|value| sign * value).collect::<Vec<f64>>()
        };
        let mut row = empty_row(case);
        row.phase = Some((*phase).to_owned());
        row.metric = Some(metric.name.to_owned());
        metric.unit.clone_into(&mut row.unit);
        row.base = sample(&base_values);
        row.new = sample(&new_values);
        let expected = machine.expected(case, &base, &new).filter(|_| is_ratio && *phase != FSCK);
        let mut figure = Figure {
            row,
            base: scaled(&base_values),
            new: scaled(&new_values),
            is_ratio,
            expected: expected.map(|expected| expected.logarithm),
            at_equal_readings: None,
            bounds: expected.and_then(|expected| expected.bounds),
        };
        if let Some(Expected { shares, by, .. }) = expected {
            let points = |trials: &[&PhaseTrial<'_>]| points(trials, metric, sign, shares);
            figure.row.adjusted_by = Some(by);
            figure.at_equal_readings = points(&base)
                .zip(points(&new))
                .and_then(|(base, new)| covariate::at_equal_readings(&base, &new));
            if let Some(welch) = figure.at_equal_readings {
                figure.expected = Some(figure.difference() - welch.difference);
                figure.row.adjusted_by = Some(AdjustedBy::Regression);
            }
        }
        figures.push(figure);
    }
    figures
}

/// For each of these trials the speed that the yardstick beside it lets expect, and the value: logarithms
/// of which more is better. `None` where one is not known.
fn points(
    trials: &[&PhaseTrial<'_>],
    metric: &Metric,
    sign: f64,
    shares: Shares,
) -> Option<Vec<(f64, f64)>> {
    let point = |trial: &&PhaseTrial<'_>| {
        let value = (metric.read)(&trial.record).filter(|it| it.is_finite() && *it > 0.0)?;
        Some((covariate::speed_beside(shares, trial)?, sign * value.ln()))
    };
    trials.iter().map(point).collect()
}

/// What `metric` reads in these trials; values that are not finite count as absent.
fn values(trials: &[&PhaseTrial<'_>], metric: &Metric) -> Vec<f64> {
    let all = trials.iter().filter_map(|trial| (metric.read)(&trial.record));
    all.filter(|value| value.is_finite()).collect()
}

fn sample(values: &[f64]) -> DiffSample {
    let n = u32::try_from(values.len()).unwrap_or(u32::MAX);
    DiffSample { n, median: interval::median(values) }
}

fn empty_row(case: &Case<'_>) -> DiffRow {
    DiffRow {
        target: case.target_label(),
        workload: case.workload.to_owned(),
        phase: None,
        metric: None,
        unit: String::new(),
        base: sample(&[]),
        new: sample(&[]),
        ratio: None,
        adjusted: None,
        adjusted_by: None,
        between: None,
        p: None,
        p_holm: None,
        verdict: DiffVerdict::Undecided,
        beyond_threshold: false,
        trials_needed: None,
        moved: Vec::new(),
    }
}

/// The geometric mean over the phases: each trial that has all of them gives one figure, since the
/// phases of a trial share its luck. `None` of fewer than two phases.
fn whole(figures: &[Figure], case: &Case<'_>) -> Option<Figure> {
    let counted: Vec<&Figure> = figures
        .iter()
        .filter(|figure| figure.is_ratio && figure.row.phase.as_deref() != Some(FSCK))
        .collect();
    if counted.len() < 2 {
        return None;
    }
    let metrics: Vec<(&str, &Metric, f64)> = counted
        .iter()
        .filter_map(|figure| {
            let metric = metric::find(figure.row.metric.as_deref()?)?;
            let sign = if metric.better == Some(Better::Lower) { -1.0 } else { 1.0 };
            Some((figure.row.phase.as_deref()?, metric, sign))
        })
        .collect();
    let [base, new] = [0, 1].map(|side| {
        let mut sums: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        for (phase, metric, sign) in &metrics {
            for trial in &case.trials(phase)[side] {
                if let Some(value) = (metric.read)(&trial.record).filter(|value| *value > 0.0) {
                    let sum = sums.entry(trial.number).or_default();
                    sum.0 += sign * value.ln();
                    sum.1 += 1;
                }
            }
        }
        let complete = sums.into_values().filter(|(_, count)| *count == metrics.len());
        complete.map(|(sum, count)| sum / count as f64).collect::<Vec<f64>>()
    });
    if base.is_empty() || new.is_empty() {
        return None;
    }
    let mut row = empty_row(case);
    row.base = DiffSample { median: None, ..sample(&base) };
    row.new = DiffSample { median: None, ..sample(&new) };
    let expected: Option<Vec<f64>> = counted.iter().map(|figure| figure.expected).collect();
    let expected = expected.and_then(|expected| interval::mean(&expected));
    let ends: Option<Vec<Interval>> = counted.iter().map(|figure| figure.bounds).collect();
    let mean = |read: fn(&Interval) -> f64| {
        interval::mean(&ends.as_ref()?.iter().map(read).collect::<Vec<f64>>())
    };
    let bounds =
        mean(|ends| ends.low).zip(mean(|ends| ends.high)).map(|(low, high)| Interval { low, high });
    let first = counted[0].row.adjusted_by;
    let is_one = counted.iter().all(|figure| figure.row.adjusted_by == first);
    row.adjusted_by = expected.and(first.filter(|_| is_one).or(Some(AdjustedBy::Yardstick)));
    let at_equal_readings = None;
    Some(Figure { row, base, new, is_ratio: true, expected, at_equal_readings, bounds })
}

/// Fills in ratios, p and verdicts, with Holm's correction over all of them; where both runs are in virtual
/// time a difference is one, and there is nothing to correct.
fn judge(figures: &mut [Figure], options: &DiffOptions, is_exact: bool) {
    if is_exact {
        figures.iter_mut().for_each(|figure| figure.judge_exactly(options));
        return;
    }
    let deciding: Vec<Option<Welch>> = figures
        .iter()
        .map(|figure| match figure.at_equal_readings.filter(|_| options.adjusted) {
            Some(welch) => Some(welch),
            None => Some(Welch::of(&figure.base, &figure.new)?.less(figure.taken_out(options))),
        })
        .collect();
    let p: Vec<Option<f64>> = deciding.iter().map(|welch| Some(welch.as_ref()?.p())).collect();
    let adjusted = compare::holm(&p);
    let comparisons = p.iter().flatten().count();
    for (index, figure) in figures.iter_mut().enumerate() {
        figure.fill_ratios();
        figure.row.p = p[index];
        figure.row.p_holm = adjusted[index];
        figure.judge(deciding[index], compare::told_apart(adjusted[index]), options);
        if figure.row.verdict == DiffVerdict::Undecided && figure.is_ratio {
            figure.row.trials_needed = figure.trials_needed(options, comparisons);
        }
    }
}

impl Figure {
    /// What is taken out of the difference before it is judged.
    fn taken_out(&self, options: &DiffOptions) -> f64 {
        self.expected.filter(|_| options.adjusted).unwrap_or(0.0)
    }

    fn difference(&self) -> f64 {
        let mean = |values: &[f64]| welch::mean(values).unwrap_or(0.0);
        mean(&self.new) - mean(&self.base)
    }

    fn fill_ratios(&mut self) {
        if !self.is_ratio {
            return;
        }
        let ends = Welch::of(&self.base, &self.new).map(|welch| welch.interval());
        let difference = self.difference();
        let less = |offset: f64| DiffRatio {
            ratio: (difference - offset).exp(),
            low: ends.map(|ends| (ends.low - offset).exp()),
            high: ends.map(|ends| (ends.high - offset).exp()),
        };
        let ratio = less(0.0);
        self.row.ratio = Some(ratio);
        self.row.adjusted = self.expected.map(less);
        if let Some(welch) = self.at_equal_readings {
            let ends = welch.interval();
            let (low, high) = (Some(ends.low.exp()), Some(ends.high.exp()));
            self.row.adjusted = Some(DiffRatio { ratio: welch.difference.exp(), low, high });
        }
        self.row.between = self.bounds.filter(|_| self.expected.is_some()).map(|bounds| {
            let (low, high) = (ratio.low.unwrap_or(ratio.ratio), ratio.high.unwrap_or(ratio.ratio));
            DiffBetween { low: low / bounds.high.exp(), high: high / bounds.low.exp() }
        });
    }

    fn judge(&mut self, welch: Option<Welch>, is_told_apart: bool, options: &DiffOptions) {
        let difference = self.difference() - self.taken_out(options);
        let band = options.band();
        self.row.beyond_threshold = if self.is_ratio {
            difference.abs() > band
        } else {
            let mean = interval::mean(&self.base).unwrap_or(0.0).abs();
            difference.abs() > options.threshold * mean
        };
        let Some(welch) = welch else { return };
        let within = |ends: Interval| ends.low >= -band && ends.high <= band;
        let is_same = if self.is_ratio {
            within(welch.interval())
        } else {
            welch.difference == 0.0 && welch.standard_error == 0.0
        };
        self.row.verdict = match is_told_apart {
            _ if is_same => DiffVerdict::Same,
            true if difference > 0.0 => DiffVerdict::Faster,
            true => DiffVerdict::Slower,
            false => DiffVerdict::Undecided,
        };
    }

    /// Two figures that would be the same in every run are the same or are not.
    fn judge_exactly(&mut self, options: &DiffOptions) {
        let difference = self.difference();
        if self.is_ratio {
            let (low, high) = (None, None);
            self.row.ratio = Some(DiffRatio { ratio: difference.exp(), low, high });
        }
        let welch = Welch { difference, standard_error: 0.0, freedom: f64::INFINITY };
        self.judge(Some(welch), difference != 0.0, options);
        if difference != 0.0 {
            let is_better = difference > 0.0;
            self.row.verdict = if is_better { DiffVerdict::Faster } else { DiffVerdict::Slower };
        }
    }

    fn trials_needed(&self, options: &DiffOptions, comparisons: usize) -> Option<u32> {
        // With one trial on a side, the scatter of the other is all that is known.
        let variances = [welch::variance(&self.base), welch::variance(&self.new)];
        let known = variances.into_iter().flatten().reduce(f64::max)?;
        let needed = Undecided {
            difference: self.difference() - self.taken_out(options),
            base_variance: variances[0].unwrap_or(known),
            new_variance: variances[1].unwrap_or(known),
            band: options.band(),
            comparisons: comparisons.max(1),
        };
        let had = self.row.base.n.min(self.row.new.n);
        needed.trials_needed().map(|needed| needed.max(had + 1))
    }
}

#[cfg(test)]
mod tests;
