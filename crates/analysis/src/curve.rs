//! Latency curves: latency by percentile over all measured trials of a target, for drawing. Recording
//! and the few percentiles of tables are left to the runner and to [`crate::percentile`].

use std::collections::BTreeMap;

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{LatencyHistogram, Role, TrialRecord};
use fsdyno_model::report_data::LatencyCurve;
use hdrhistogram::Histogram;

use crate::percentile;
use crate::series::{Series, WorkloadOrder};

/// Steps of a curve. They are equal on the scale of `log10(1 / (1 - quantile))`, so that the tail has as
/// many points for the slowest 0.1 % as for the next 0.9 %.
const STEPS: u32 = 120;

/// The curve of each kind of operation in each phase on each target, over the measured trials that
/// completed; sorted by workload, phase, operation and target as given. Histograms that cannot be read
/// are left out: the result document warns of them.
#[must_use]
pub fn curves(
    targets: &[&str],
    workloads: &[WorkloadOrder<'_>],
    trials: &[TrialRecord],
) -> Vec<LatencyCurve> {
    let mut curves = Vec::new();
    for workload in workloads {
        let phases = Series::collect(targets, workload, trials).phases;
        for phase in phases {
            let mut found: BTreeMap<(&str, usize), Vec<&LatencyHistogram>> = BTreeMap::new();
            for trial in trials.iter().filter(|trial| counts(trial, workload.label)) {
                let Some(target) = targets.iter().position(|label| *label == trial.target) else {
                    continue;
                };
                for record in trial.phases.iter().filter(|record| record.name == phase) {
                    for (operation, histogram) in &record.latency {
                        found.entry((operation, target)).or_default().push(histogram);
                    }
                }
            }
            curves.extend(found.into_iter().filter_map(|((operation, target), histograms)| {
                let sum = percentile::sum_of_readable(histograms)?;
                (!sum.is_empty()).then(|| LatencyCurve {
                    target: targets[target].to_owned(),
                    workload: workload.label.to_owned(),
                    phase: phase.to_owned(),
                    operation: operation.to_owned(),
                    count: sum.len(),
                    points: points(&sum),
                })
            }));
        }
    }
    curves
}

fn counts(trial: &TrialRecord, workload: &str) -> bool {
    trial.role == Role::Measured
        && trial.outcome == Outcome::Completed
        && trial.workload == workload
}

/// From percentile 0 to 100; of points with the same latency only the first and the last, which draw
/// the same line.
fn points(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    // What lies beyond 1 - 1/count is one operation, the slowest.
    let decades = (histogram.len() as f64).log10();
    let max = histogram.max();
    let mut points: Vec<(f64, u64)> = Vec::with_capacity(STEPS as usize + 2);
    let mut push = |percentile: f64, latency_ns: u64| {
        let same = points.iter().rev().take_while(|point| point.1 == latency_ns).count();
        if same >= 2 {
            points.pop();
        }
        points.push((percentile, latency_ns));
    };
    for step in 0..=STEPS {
        let quantile = 1.0 - 10f64.powf(-decades * f64::from(step) / f64::from(STEPS));
        push(100.0 * quantile, histogram.value_at_quantile(quantile).min(max));
    }
    push(100.0, max);
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn trial(target: &str, number: u32, values: std::ops::RangeInclusive<u64>) -> TrialRecord {
        let mut trial = fixture::trial(target, number, &[("create", 1.0)]);
        trial.phases[0].latency.insert("write".to_owned(), fixture::histogram(values));
        trial
    }

    fn curves_of(trials: &[TrialRecord]) -> Vec<LatencyCurve> {
        let order = WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create"] };
        curves(&["ext4", "xfs"], &[order], trials)
    }

    #[test]
    fn trials_are_taken_together_and_the_tail_is_dense() {
        // 1 … 1000 in two halves: the value at percentile p is 10 p, within a thousandth.
        let trials = [trial("ext4", 1, 1..=500), trial("ext4", 2, 501..=1000)];
        let found = curves_of(&trials);
        let [curve] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((curve.count, curve.operation.as_str()), (1000, "write"));
        let points = &curve.points;
        assert!(points.len() > 90 && points.len() <= 122, "{}", points.len());
        assert_eq!((points[0], points[points.len() - 1]), ((0.0, 1), (100.0, 1000)));
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{points:?}");
        for (percentile, latency_ns) in points {
            let expected = (percentile * 10.0).ceil().max(1.0);
            assert!((*latency_ns as f64 - expected).abs() <= 1.0, "{percentile} {latency_ns}");
        }
        // Three decades of 40 steps each.
        let beyond = points.iter().filter(|point| point.0 > 99.0).count();
        assert!((5..=45).contains(&beyond), "{beyond}");
    }

    #[test]
    fn only_measured_completed_trials_count() {
        let mut explain = trial("ext4", 2, 900..=1000);
        explain.role = Role::Explain;
        let mut failed = trial("ext4", 3, 900..=1000);
        failed.outcome = Outcome::Interrupted { stage: "create".to_owned() };
        let mut damaged = trial("xfs", 1, 1..=5);
        damaged.phases[0].latency.insert("write".to_owned(), LatencyHistogram(vec![1]));
        let empty = fixture::trial("xfs", 2, &[("create", 1.0)]);
        let found = curves_of(&[trial("ext4", 1, 7..=7), explain, failed, damaged, empty]);
        let [curve] = found.as_slice() else { panic!("{found:?}") };
        // One operation: the same latency from the first point to the last.
        assert_eq!((curve.target.as_str(), curve.count), ("ext4", 1));
        assert_eq!(curve.points, [(0.0, 7), (100.0, 7)]);
    }

    #[test]
    fn a_histogram_with_a_longer_range_is_no_obstacle() {
        let mut long = trial("ext4", 2, 1..=1);
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        histogram.record(600_000_000_000).unwrap();
        let mut bytes = Vec::new();
        use hdrhistogram::serialization::Serializer as _;
        hdrhistogram::serialization::V2DeflateSerializer::new()
            .serialize(&histogram, &mut bytes)
            .unwrap();
        long.phases[0].latency.insert("write".to_owned(), LatencyHistogram(bytes));
        let found = curves_of(&[trial("ext4", 1, 1..=10), long]);
        assert_eq!(found[0].count, 11);
        let last = found[0].points.last().unwrap();
        assert!((last.1 as f64 / 6e11 - 1.0).abs() < 1e-3, "{last:?}");
    }
}
