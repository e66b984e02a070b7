//! The rows of the summary: each metric of each phase on each target, over the completed trials.

use fsdyno_model::metric::{self, Metric};
use fsdyno_model::record::TrialRecord;
use fsdyno_model::result::SummaryRow;

use crate::compare;
use crate::interval;
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
    let blocks: Vec<_> =
        (0..targets.len()).map(|target| series.blocks(phase, target, metric)).collect();
    let pairs = compare::pairs(&blocks, looks);
    let standings = compare::standings(&blocks, &pairs, metric.better);
    let primary = series.primary_metric(phase) == Some(metric.name);
    for ((target, blocks), standing) in targets.iter().zip(&blocks).zip(standings) {
        let values: Vec<f64> = blocks.values().copied().collect();
        let (Some(median), Some(mean)) = (interval::median(&values), interval::mean(&values))
        else {
            continue;
        };
        let ci95 = interval::ci95_of_median(&values);
        rows.push(SummaryRow {
            target: (*target).to_owned(),
            workload: workload.to_owned(),
            phase: phase.to_owned(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            primary,
            n: u32::try_from(values.len()).unwrap_or(u32::MAX),
            median,
            mean,
            ci95_low: ci95.map(|ci95| ci95.low),
            ci95_high: ci95.map(|ci95| ci95.high),
            best: standing.best,
            tied_with_best: standing.tied_with_best,
        });
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

    #[test]
    fn one_trial_has_no_interval() {
        let rows = summary(&[fixture::trial("ext4", 1, &[("create", 1.0)])]);
        assert!(rows.iter().all(|row| row.n == 1 && row.ci95_low.is_none()), "{rows:?}");
        assert_eq!(summary(&[]), []);
    }
}
