//! The rows of the summary: each metric of each phase on each target, over the completed trials.

use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::record::TrialRecord;
use fsdyno_model::result::{Effect, IntervalMethod, MeanMethod, SummaryRow};

use crate::compare::{self, Blocks};
use crate::interval::{self, Interval, bootstrap};
use crate::pairs::Pairs;
use crate::series::{Series, WorkloadOrder};
use crate::stopping::Looks;

/// Summarizes all metrics of [`metric::ALL`], sorted by workload, phase, metric and target as given.
///
/// `targets` are labels. A target without a value has no row: absent is never written as zero.
#[must_use]
pub fn summarize(
    targets: &[&str],
    workloads: &[WorkloadOrder<'_>],
    trials: &[TrialRecord],
    looks: &Looks,
) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    for workload in workloads {
        let series = Series::collect(targets, workload, trials);
        for phase in &series.phases {
            for metric in metric::ALL {
                push_rows(&mut rows, targets, workload.label, &series, (phase, metric), looks);
            }
        }
    }
    rows
}

fn push_rows<'a>(
    rows: &mut Vec<SummaryRow>,
    targets: &[&str],
    workload: &str,
    series: &Series<'a>,
    (phase, metric): (&'a str, &Metric),
    looks: &Looks,
) {
    let blocks: Vec<Blocks> =
        (0..targets.len()).map(|target| series.blocks(phase, target, metric)).collect();
    let primary = series.primary_metric(phase) == Some(metric.name);
    let pairs = compare::pairs(&blocks, looks);
    let standings = compare::standings(&blocks, &pairs, metric.better);
    let ranked = compare::ranked(&blocks, metric.better);
    let letters = if primary && ranked.len() > 1 { pairs.letters(&ranked) } else { Vec::new() };
    for (index, (target, standing)) in targets.iter().zip(standings).enumerate() {
        let times = time_of(metric).map(|time| series.blocks(phase, index, time));
        let Some(figures) = Figures::of(&blocks[index], times, primary, looks) else { continue };
        let place = ranked.iter().position(|ranked| *ranked == index);
        let best = ranked.first().copied().filter(|best| primary && *best != index);
        rows.push(SummaryRow {
            target: (*target).to_owned(),
            workload: workload.to_owned(),
            phase: phase.to_owned(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            primary,
            n: u32::try_from(blocks[index].len()).unwrap_or(u32::MAX),
            median: figures.median,
            mean: figures.mean,
            mean_method: figures.mean_method,
            mean_ci95_low: figures.mean_ci95.map(|ends| ends.low),
            mean_ci95_high: figures.mean_ci95.map(|ends| ends.high),
            ci95_low: figures.ci95.map(|(ends, _)| ends.low),
            ci95_high: figures.ci95.map(|(ends, _)| ends.high),
            ci95_method: figures.ci95.map(|(_, method)| method),
            best: standing.best,
            tied_with_best: standing.tied_with_best,
            letters: place.and_then(|place| letters.get(place).cloned()),
            beside_best: best.map(|best| effect(&blocks, &pairs, index, best, looks)),
        });
    }
}

/// The figures of one target.
struct Figures {
    median: f64,
    ci95: Option<(Interval, IntervalMethod)>,
    mean: f64,
    mean_method: MeanMethod,
    mean_ci95: Option<Interval>,
}

impl Figures {
    /// `times` are those of a rate's blocks. Only what tables show is bootstrapped, and only where one look
    /// is made: the far tails that several looks ask for lie beyond what so few trials hold.
    fn of(blocks: &Blocks, times: Option<Blocks>, primary: bool, looks: &Looks) -> Option<Figures> {
        let values: Vec<f64> = blocks.values().copied().collect();
        let median = interval::median(&values)?;
        let times: Option<Vec<f64>> = times
            .and_then(|times| blocks.keys().map(|block| times.get(block).copied()).collect())
            .filter(|times: &Vec<f64>| times.iter().all(|time| *time > 0.0));
        let mean_of = |drawn: &[usize]| match &times {
            Some(times) => {
                let work: f64 = drawn.iter().map(|index| values[*index] * times[*index]).sum();
                work / drawn.iter().map(|index| times[*index]).sum::<f64>()
            }
            None => drawn.iter().map(|index| values[*index]).sum::<f64>() / drawn.len() as f64,
        };
        let median_of = |drawn: &[usize]| {
            let drawn: Vec<f64> = drawn.iter().map(|index| values[*index]).collect();
            interval::median(&drawn).unwrap_or(f64::NAN)
        };
        let alpha = looks.alpha(values.len());
        let drawn = primary && !looks.are_several();
        let by_draws = drawn.then(|| bootstrap::bca(values.len(), alpha, median_of)).flatten();
        let ci95 = by_draws.map(|ends| (ends, IntervalMethod::Bca)).or_else(|| {
            let is_positive = values.iter().all(|value| *value > 0.0);
            let method = if is_positive { IntervalMethod::LogT } else { IntervalMethod::T };
            Some((interval::ci_of_median(&values, alpha)?, method))
        });
        Some(Figures {
            median,
            ci95,
            mean: mean_of(&(0..values.len()).collect::<Vec<usize>>()),
            mean_method: if times.is_some() {
                MeanMethod::WorkOverTime
            } else {
                MeanMethod::Arithmetic
            },
            mean_ci95: drawn.then(|| bootstrap::bca(values.len(), alpha, mean_of)).flatten(),
        })
    }
}

/// The metric that is the time of a rate; `None` where `metric` is no rate of a whole phase.
fn time_of(metric: &Metric) -> Option<&'static Metric> {
    let is_rate = metric.unit.ends_with("/s") && metric.better == Some(Better::Higher);
    // The means of samples are means already, as the classics make them.
    if !is_rate || metric.name.starts_with("sample_mean") {
        return None;
    }
    let is_return = metric.name.starts_with("return_");
    metric::find(if is_return { "return_elapsed_s" } else { "elapsed_s" })
}

fn effect(blocks: &[Blocks], pairs: &Pairs, target: usize, best: usize, looks: &Looks) -> Effect {
    let paired = compare::paired(&blocks[target], &blocks[best], looks);
    Effect {
        blocks: u32::try_from(paired.blocks).unwrap_or(u32::MAX),
        ratio: paired.ratio,
        ratio_low: paired.ratio_ci95.map(|ends| ends.low),
        ratio_high: paired.ratio_ci95.map(|ends| ends.high),
        p: pairs.p(target, best),
        hedges_g: paired.hedges_g,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn summary(trials: &[TrialRecord]) -> Vec<SummaryRow> {
        let order = WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create", "stat"] };
        summarize(&["ext4", "xfs", "btrfs"], &[order], trials, &Looks::ONE)
    }

    #[test]
    fn each_row_is_of_one_target() {
        let mut trials = Vec::new();
        for trial in 1..=3 {
            let noise = 1.0 + f64::from(trial) / 100.0;
            trials.push(fixture::trial("xfs", trial, &[("stat", 1.0), ("create", 2.0 * noise)]));
            trials.push(fixture::trial("ext4", trial, &[("stat", 1.0), ("create", 1.0 * noise)]));
        }
        let rows = summary(&trials);
        let primary: Vec<_> = rows
            .iter()
            .filter(|row| row.primary)
            .map(|row| {
                (row.phase.as_str(), row.target.as_str(), row.n, row.best, row.tied_with_best)
            })
            .collect();
        assert_eq!(
            primary,
            [
                ("create", "ext4", 3, true, false),
                ("create", "xfs", 3, false, false),
                ("stat", "ext4", 3, true, false),
                ("stat", "xfs", 3, true, false),
            ]
        );
        let create = rows.iter().find(|row| row.primary).unwrap();
        assert_eq!((create.metric.as_str(), create.unit.as_str()), ("elapsed_s", "s"));
        assert!((create.median - 1.02).abs() < 1e-9, "{create:?}");
        assert!(create.ci95_low.unwrap() < 1.02 && create.ci95_high.unwrap() > 1.02);
    }

    fn rates(target: &str, mib_and_s: &[(u64, f64)]) -> Vec<TrialRecord> {
        let trial = |(index, (mib, seconds)): (usize, &(u64, f64))| {
            let mut trial = fixture::trial(target, index as u32 + 1, &[("create", *seconds)]);
            trial.phases[0].primary_metric = "throughput_mib_per_s".to_owned();
            trial.phases[0].bytes = mib << 20;
            trial
        };
        mib_and_s.iter().enumerate().map(trial).collect()
    }

    fn primary(rows: Vec<SummaryRow>) -> Vec<SummaryRow> {
        rows.into_iter().filter(|row| row.primary).collect()
    }

    // SciPy: hmean([120, 60, 40]) = 60: the same work in 1, 2 and 3 s. Where times are alike and the work is
    // not, all work over all time is the plain mean.
    #[test]
    fn a_mean_rate_is_all_work_over_all_time() {
        let same_work = primary(summary(&rates("ext4", &[(120, 1.0), (120, 2.0), (120, 3.0)])));
        assert!((same_work[0].mean - 60.0).abs() < 1e-9, "{same_work:?}");
        assert_eq!(same_work[0].mean_method, MeanMethod::WorkOverTime);
        let same_time = primary(summary(&rates("ext4", &[(120, 1.0), (60, 1.0), (30, 1.0)])));
        assert!((same_time[0].mean - 70.0).abs() < 1e-9, "{same_time:?}");
        let times = summary(&rates("ext4", &[(120, 1.0), (120, 2.0), (120, 6.0)]));
        let times = times.iter().find(|row| row.metric == "elapsed_s").unwrap();
        assert!((times.mean - 3.0).abs() < 1e-9, "{times:?}");
        assert_eq!(times.mean_method, MeanMethod::Arithmetic);
    }

    #[test]
    fn the_bootstrap_needs_ten_trials() {
        let trials = |count: usize| -> Vec<TrialRecord> {
            let work: Vec<(u64, f64)> =
                (0..count).map(|i| (100, 1.0 + (i * 7 % 11) as f64 / 50.0)).collect();
            rates("ext4", &work)
        };
        let row = |count| primary(summary(&trials(count))).remove(0);
        let (few, enough) = (row(9), row(10));
        assert_eq!(few.ci95_method, Some(IntervalMethod::LogT));
        assert_eq!(few.mean_ci95_low, None);
        assert_eq!(enough.ci95_method, Some(IntervalMethod::Bca));
        let (low, high) = (enough.mean_ci95_low.unwrap(), enough.mean_ci95_high.unwrap());
        assert!(low < enough.mean && enough.mean < high && high / low < 1.2, "{enough:?}");
        // Several looks ask for more than ten trials can give.
        let rule = fsdyno_model::stop::StopRule { resolution_permille: 30, min_trials: 3 };
        let order = WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create"] };
        let all = trials(10);
        let rows = primary(summarize(&["ext4"], &[order], &all, &Looks::by(rule)));
        assert_eq!(rows[0].ci95_method, Some(IntervalMethod::LogT));
        let plain = interval::ci95_of_median(
            &all.iter()
                .map(|it| 1e11 / it.phases[0].elapsed_return_ns as f64)
                .collect::<Vec<f64>>(),
        );
        assert!(rows[0].ci95_low.unwrap() < plain.unwrap().low, "{rows:?}");
    }

    #[test]
    fn primary_rows_bear_letters_and_the_effect() {
        let mut trials = Vec::new();
        for trial in 1..=6 {
            let noise = |of: u32| 1.0 + f64::from((trial * 5 + of * 3) % 7) / 700.0;
            for (of, (target, seconds)) in
                [("ext4", 1.0), ("xfs", 1.001), ("btrfs", 2.0)].into_iter().enumerate()
            {
                let phases = [("create", seconds * noise(of as u32))];
                trials.push(fixture::trial(target, trial, &phases));
            }
        }
        let rows = summary(&trials);
        let letters: Vec<_> = rows
            .iter()
            .filter(|row| row.primary)
            .map(|row| (row.target.as_str(), row.letters.as_deref(), row.beside_best.is_some()))
            .collect();
        assert_eq!(
            letters,
            [("ext4", Some("a"), false), ("xfs", Some("a"), true), ("btrfs", Some("b"), true)]
        );
        assert!(
            rows.iter()
                .all(|row| row.primary || (row.letters.is_none() && row.beside_best.is_none()))
        );
        let effect = rows.iter().find(|row| row.primary && row.target == "btrfs").unwrap();
        let effect = effect.beside_best.as_ref().unwrap();
        assert!((effect.ratio.unwrap() - 2.0).abs() < 0.02, "{effect:?}");
        assert!(effect.p.unwrap() < 1e-6 && effect.hedges_g.unwrap() > 20.0, "{effect:?}");
    }

    #[test]
    fn one_trial_has_no_interval() {
        let rows = summary(&[fixture::trial("ext4", 1, &[("create", 1.0)])]);
        assert!(rows.iter().all(|row| row.n == 1 && row.ci95_low.is_none()), "{rows:?}");
        assert_eq!(summary(&[]), []);
    }
}
