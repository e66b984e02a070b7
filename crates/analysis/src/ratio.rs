//! Every target beside the first one: how many times as good, phase by phase and on the whole. Which of
//! them is best, and what that means in words, is left to [`crate::compare`] and [`crate::verdict`].
//!
//! A phase is compared by the metric that tables show for it, within each block where both targets
//! have it; where less is better the ratio is turned over, so that above 1 is always better. Its
//! figure is the geometric mean of the blocks, its interval that of their logarithms. On the whole,
//! each block gives the geometric mean over the phases that both have in it, and figure and interval
//! are made of the blocks as before. These are the figures of the verdict, so that a chart never says
//! anything else: fsck is compared but is no part of the whole, and metrics of which neither way is
//! better are left out.

use std::collections::BTreeMap;

use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::record::TrialRecord;
use fsdyno_model::report_data::{Comparison, PhaseRatio, Ratio};

use crate::compare::{self, Blocks, Paired};
use crate::series::{FSCK, Series, WorkloadOrder};
use crate::stopping::Looks;

/// Compares `targets` (labels; the first is the baseline) on each of `workloads`, over the measured
/// trials that completed. Sorted by workload, then by target. A workload that no trial completed has
/// no comparisons.
#[must_use]
pub fn comparisons(
    targets: &[&str],
    workloads: &[WorkloadOrder<'_>],
    trials: &[TrialRecord],
    looks: &Looks,
) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for workload in workloads {
        let series = Series::collect(targets, workload, trials);
        if !series.phases.is_empty() {
            let others = 1..targets.len();
            comparisons.extend(
                others.map(|target| comparison(targets, target, workload.label, &series, looks)),
            );
        }
    }
    comparisons
}

fn comparison(
    targets: &[&str],
    target: usize,
    workload: &str,
    series: &Series<'_>,
    looks: &Looks,
) -> Comparison {
    let mut phases = Vec::new();
    let mut sums: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
    for phase in &series.phases {
        let Some(metric) = series.primary_metric(phase).and_then(metric::find) else { continue };
        let Some(better) = metric.better else { continue };
        let advantages = advantages(series, phase, target, metric, better);
        if *phase != FSCK {
            for (block, advantage) in &advantages {
                let sum = sums.entry(*block).or_default();
                sum.0 += advantage;
                sum.1 += 1;
            }
        }
        let logarithms: Vec<f64> = advantages.into_values().collect();
        phases.push(PhaseRatio {
            phase: (*phase).to_owned(),
            metric: metric.name.to_owned(),
            ratio: ratio(&compare::of_log_ratios(&logarithms, looks)),
        });
    }
    let means: Vec<f64> = sums.into_values().map(|(sum, count)| sum / f64::from(count)).collect();
    Comparison {
        workload: workload.to_owned(),
        baseline: targets[0].to_owned(),
        target: targets[target].to_owned(),
        overall: ratio(&compare::of_log_ratios(&means, looks)),
        phases,
    }
}

/// For each block, the logarithm of how many times as good the target is as the baseline. Blocks in
/// which either figure is not positive have none.
fn advantages<'a>(
    series: &Series<'a>,
    phase: &'a str,
    target: usize,
    metric: &Metric,
    better: Better,
) -> Blocks {
    let sign = if better == Better::Lower { -1.0 } else { 1.0 };
    let baseline = series.blocks(phase, 0, metric);
    let values = series.blocks(phase, target, metric).into_iter();
    values
        .filter_map(|(block, value)| {
            let other = *baseline.get(&block)?;
            (value > 0.0 && other > 0.0).then(|| (block, sign * (value / other).ln()))
        })
        .collect()
}

fn ratio(paired: &Paired) -> Option<Ratio> {
    let ends = paired.ratio_ci95;
    paired.ratio.map(|ratio| Ratio {
        ratio,
        low: ends.map(|ends| ends.low),
        high: ends.map(|ends| ends.high),
    })
}

#[cfg(test)]
mod tests {
    use fsdyno_model::record::Role;

    use super::*;
    use crate::fixture;

    fn order() -> [WorkloadOrder<'static>; 1] {
        [WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create", "stat"] }]
    }

    fn compared(trials: &[TrialRecord]) -> Vec<Comparison> {
        comparisons(&["ext4", "xfs", "btrfs"], &order(), trials, &Looks::ONE)
    }

    #[track_caller]
    fn assert_near(actual: Option<Ratio>, expected: (f64, f64, f64)) {
        let actual = actual.unwrap();
        for (actual, expected) in [
            (actual.ratio, expected.0),
            (actual.low.unwrap(), expected.1),
            (actual.high.unwrap(), expected.2),
        ] {
            assert!((actual / expected - 1.0).abs() < 1e-6, "{actual} {expected}");
        }
    }

    // By hand: create takes 1 s and 2 s, then 1 s and 8 s: ratios 1/2 and 1/8, geometric mean 1/4.
    // ln: -ln 2 and -3 ln 2, mean -2 ln 2, standard error ln 2, t(1, 0.975) = 12.706_204_736:
    // the ends are 2^(-2 ± 12.706204736). stat takes 4 s and 1 s in both: 4 exactly.
    // The whole, block by block: sqrt(1/2 · 4) = sqrt 2 and sqrt(1/8 · 4) = 1 / sqrt 2; geometric
    // mean 1; ln: ± (ln 2) / 2, standard error (ln 2) / 2, ends 2^(± 6.353102368).
    #[test]
    fn ratios_are_those_worked_out_by_hand() {
        let mut trials = Vec::new();
        for (trial, create) in [(1, 2.0), (2, 8.0)] {
            let fsck = |seconds| ("fsck", seconds);
            trials.push(fixture::trial(
                "ext4",
                trial,
                &[("stat", 4.0), ("create", 1.0), fsck(1.0)],
            ));
            trials.push(fixture::trial(
                "xfs",
                trial,
                &[("stat", 1.0), ("create", create), fsck(8.0)],
            ));
        }
        let all = compared(&trials);
        let [xfs, btrfs] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((xfs.baseline.as_str(), xfs.target.as_str()), ("ext4", "xfs"));
        let names: Vec<&str> = xfs.phases.iter().map(|phase| phase.phase.as_str()).collect();
        assert_eq!(names, ["create", "stat", "fsck"]);
        let t = 12.706_204_736_174_69f64;
        assert_near(xfs.phases[0].ratio, (0.25, (-2.0 - t).exp2(), (-2.0 + t).exp2()));
        assert_near(xfs.phases[1].ratio, (4.0, 4.0, 4.0));
        assert_near(xfs.phases[2].ratio, (0.125, 0.125, 0.125));
        assert_near(xfs.overall, (1.0, (-t / 2.0).exp2(), (t / 2.0).exp2()));
        // Without a trial there is nothing to compare, and that is no ratio of 0 or 1.
        assert_eq!(btrfs.overall, None);
        assert!(btrfs.phases.iter().all(|phase| phase.ratio.is_none()));
    }

    #[test]
    fn where_more_is_better_it_is_not_turned_over() {
        let mut trials = Vec::new();
        for (target, mib) in [("ext4", 100u64), ("xfs", 300)] {
            let mut trial = fixture::trial(target, 1, &[("create", 1.0)]);
            trial.phases[0].primary_metric = "throughput_mib_per_s".to_owned();
            trial.phases[0].bytes = mib << 20;
            trials.push(trial);
        }
        let compared = compared(&trials);
        let ratio = compared[0].phases[0].ratio.unwrap();
        assert!((ratio.ratio - 3.0).abs() < 1e-12, "{ratio:?}");
        assert_eq!((ratio.low, ratio.high), (None, None));
        assert_eq!(compared[0].phases[0].metric, "throughput_mib_per_s");
    }

    #[test]
    fn explain_trials_and_figures_of_neither_way_do_not_count() {
        let mut trials = vec![
            fixture::trial("ext4", 1, &[("create", 1.0)]),
            fixture::trial("xfs", 1, &[("create", 2.0)]),
        ];
        for target in ["ext4", "xfs"] {
            let mut explain = fixture::trial(target, 2, &[("create", 9.0)]);
            explain.role = Role::Explain;
            trials.push(explain);
        }
        for trial in &mut trials {
            let mut survey = trial.phases[0].clone();
            (survey.name, survey.primary_metric) = ("stat".to_owned(), "inline_share".to_owned());
            trial.phases.push(survey);
        }
        let compared = compared(&trials);
        assert_eq!(compared[0].phases.len(), 1);
        assert!((compared[0].overall.unwrap().ratio - 0.5).abs() < 1e-12);
        assert_eq!(comparisons(&["ext4"], &order(), &trials, &Looks::ONE), []);
        assert_eq!(comparisons(&[], &order(), &trials, &Looks::ONE), []);
        assert_eq!(comparisons(&["ext4", "xfs"], &order(), &[], &Looks::ONE), []);
    }
}
