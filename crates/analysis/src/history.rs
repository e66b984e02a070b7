//! One figure over many runs, and where its level changed. Comparing two runs is left to
//! [`crate::diff`], how it looks to the report.
//!
//! | module | holds |
//! |---|---|
//! | [`changes`] | change points of a series |
//! | [`draws`] | random numbers that are the same every time |

pub mod changes;
pub mod draws;

use fsdyno_model::SCHEMA_VERSION;
use fsdyno_model::diff::{ChangePoint, History, HistoryPoint, HistorySeries};
use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{PhaseRecord, Role, TrialRecord};

use crate::interval;

/// One run with its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryRun {
    /// Identifier.
    pub id: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: u64,
    /// Host name.
    pub hostname: Option<String>,
    /// Its trials.
    pub trials: Vec<TrialRecord>,
}

/// Which series are wanted; `None` of a field is all.
#[derive(Debug, Clone, Default)]
pub struct HistoryFilter {
    /// The metric; `None` is the one that tables show for each phase.
    pub metric: Option<&'static Metric>,
    /// Label of the target.
    pub target: Option<String>,
    /// Label of the workload.
    pub workload: Option<String>,
    /// Name of the phase.
    pub phase: Option<String>,
}

impl HistoryFilter {
    fn takes(&self, trial: &TrialRecord, phase: &PhaseRecord) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|it| it == name);
        is(&self.target, &trial.target)
            && is(&self.workload, &trial.workload)
            && is(&self.phase, &phase.name)
    }

    /// The metric that is shown for a phase; without a wish none of which neither way is better.
    fn metric_of(&self, phase: &PhaseRecord) -> Option<&'static Metric> {
        self.metric.or_else(|| {
            metric::find(&phase.primary_metric)
                .filter(|metric| metric.better.is_some() && !metric.explains)
        })
    }
}

/// The series of `runs`, which are in the order of time. The series of the latest run come first, in
/// the order in which its phases ran; one without a value is left out.
#[must_use]
pub fn history(runs: &[HistoryRun], filter: &HistoryFilter) -> History {
    let mut series: Vec<HistorySeries> = Vec::new();
    for trial in runs.iter().rev().flat_map(|run| &run.trials).filter(|trial| counts(trial)) {
        for phase in trial.phases.iter().filter(|phase| filter.takes(trial, phase)) {
            let is_known = series.iter().any(|known| is_of(known, trial, phase));
            if let (false, Some(metric)) = (is_known, filter.metric_of(phase)) {
                series.push(empty(trial, phase, metric));
            }
        }
    }
    let mut logarithms: Vec<Vec<f64>> = Vec::new();
    for own in &mut series {
        let Some(metric) = metric::find(&own.metric) else { continue };
        let mut means = Vec::new();
        for run in runs {
            let values = values(run, own, metric);
            let Some(point) = point(run, &values) else { continue };
            means.push(level(&values));
            own.points.push(point);
        }
        // Without logarithms there are no levels.
        logarithms.push(means.into_iter().collect::<Option<Vec<f64>>>().unwrap_or_default());
    }
    let mut kept: Vec<(HistorySeries, Vec<f64>)> =
        series.into_iter().zip(logarithms).filter(|(own, _)| !own.points.is_empty()).collect();
    let tested = kept.iter().filter(|(_, logarithms)| changes::can_be_tested(logarithms)).count();
    let mut chance = changes::Chance::default();
    for (own, logarithms) in &mut kept {
        own.changes = changes::changes(logarithms, tested, &mut chance)
            .into_iter()
            .map(|change| ChangePoint {
                run: own.points[change.index].run.clone(),
                index: change.index,
                before: change.before.exp(),
                after: change.after.exp(),
                ratio: (change.after - change.before).exp(),
                p: change.p,
            })
            .collect();
    }
    History {
        schema_version: SCHEMA_VERSION,
        series: kept.into_iter().map(|(own, _)| own).collect(),
    }
}

fn counts(trial: &TrialRecord) -> bool {
    trial.role == Role::Measured && trial.outcome == Outcome::Completed
}

fn is_of(series: &HistorySeries, trial: &TrialRecord, phase: &PhaseRecord) -> bool {
    series.target == trial.target && series.workload == trial.workload && series.phase == phase.name
}

fn empty(trial: &TrialRecord, phase: &PhaseRecord, metric: &Metric) -> HistorySeries {
    HistorySeries {
        target: trial.target.clone(),
        workload: trial.workload.clone(),
        phase: phase.name.clone(),
        metric: metric.name.to_owned(),
        unit: metric.unit.to_owned(),
        higher_is_better: metric.better.map(|better| better == Better::Higher),
        points: Vec::new(),
        changes: Vec::new(),
    }
}

/// The values of a series in one run, one for each trial.
fn values(run: &HistoryRun, series: &HistorySeries, metric: &Metric) -> Vec<f64> {
    let trials = run.trials.iter().filter(|trial| counts(trial));
    let values = trials.filter_map(|trial| {
        // As in summaries, the first of a name counts.
        let phase = trial.phases.iter().find(|phase| is_of(series, trial, phase))?;
        (metric.read)(phase).filter(|value| value.is_finite())
    });
    values.collect()
}

fn point(run: &HistoryRun, values: &[f64]) -> Option<HistoryPoint> {
    let ends = interval::ci95_of_median(values);
    Some(HistoryPoint {
        run: run.id.clone(),
        started_unix_ns: run.started_unix_ns,
        hostname: run.hostname.clone(),
        n: u32::try_from(values.len()).unwrap_or(u32::MAX),
        median: interval::median(values)?,
        low: ends.map(|ends| ends.low),
        high: ends.map(|ends| ends.high),
    })
}

/// Mean of the logarithms; `None` where a value has none.
fn level(values: &[f64]) -> Option<f64> {
    let logarithms = values.iter().map(|value| (*value > 0.0).then(|| value.ln()));
    interval::mean(&logarithms.collect::<Option<Vec<f64>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn run(number: u32, trials: Vec<TrialRecord>) -> HistoryRun {
        HistoryRun {
            id: format!("run-{number}"),
            started_unix_ns: u64::from(number),
            hostname: None,
            trials,
        }
    }

    /// Runs whose phase `create` takes these seconds in three trials.
    fn runs(seconds: &[f64]) -> Vec<HistoryRun> {
        (1..)
            .zip(seconds)
            .map(|(number, seconds)| {
                let trial = |trial: u32| {
                    let noise = 1.0 + f64::from(trial + number % 3) / 1000.0;
                    fixture::trial("ext4", trial, &[("create", seconds * noise), ("read", 1.0)])
                };
                run(number, (1..=3).map(trial).collect())
            })
            .collect()
    }

    #[test]
    fn a_planted_step_is_found() {
        let runs = runs(&[1.0, 1.01, 0.99, 1.0, 1.0, 1.3, 1.31, 1.3, 1.29]);
        let found = history(&runs, &HistoryFilter::default());
        assert_eq!(found.series.len(), 2);
        let create = &found.series[0];
        let names = (create.target.as_str(), create.phase.as_str(), create.metric.as_str());
        assert_eq!(names, ("ext4", "create", "elapsed_s"));
        assert_eq!((create.points.len(), create.higher_is_better), (9, Some(false)));
        let [change] = create.changes.as_slice() else { panic!("{:?}", create.changes) };
        assert_eq!((change.index, change.run.as_str()), (5, "run-6"));
        assert!((change.ratio - 1.3).abs() < 0.01 && change.p < 0.01, "{change:?}");
        assert!(found.series[1].changes.is_empty());
    }

    #[test]
    fn series_are_filtered() {
        let runs = runs(&[1.0, 2.0]);
        let filter = HistoryFilter { phase: Some("read".to_owned()), ..HistoryFilter::default() };
        let found = history(&runs, &filter);
        assert_eq!(found.series.len(), 1);
        assert!((found.series[0].points[0].median - 1.0).abs() < 1e-9);
        for filter in [
            HistoryFilter { target: Some("xfs".to_owned()), ..HistoryFilter::default() },
            HistoryFilter { workload: Some("x".to_owned()), ..HistoryFilter::default() },
            // No trial has a value of it.
            HistoryFilter { metric: metric::find("fairness"), ..HistoryFilter::default() },
        ] {
            assert!(history(&runs, &filter).series.is_empty());
        }
        assert!(history(&[], &HistoryFilter::default()).series.is_empty());
    }

    #[test]
    fn only_what_counts_is_a_point() {
        let mut runs = runs(&[1.0, 1.0, 1.0]);
        for trial in &mut runs[1].trials {
            trial.role = Role::Explain;
        }
        runs[2].trials[0].outcome = Outcome::Interrupted { stage: "read".to_owned() };
        let found = history(&runs, &HistoryFilter::default());
        let points: Vec<(&str, u32)> =
            found.series[0].points.iter().map(|point| (point.run.as_str(), point.n)).collect();
        assert_eq!(points, [("run-1", 3), ("run-3", 2)]);
    }

    #[test]
    fn values_without_logarithms_have_no_changes() {
        let mut runs = runs(&[1.0; 9]);
        for run in &mut runs {
            for trial in &mut run.trials {
                trial.phases[0].device.flushes = Some(u64::from(run.id.as_str() > "run-4"));
            }
        }
        let metric = metric::find("device_flushes");
        let found = history(&runs, &HistoryFilter { metric, ..HistoryFilter::default() });
        assert_eq!(found.series.len(), 1);
        assert!(found.series[0].changes.is_empty() && found.series[0].points.len() == 9);
    }
}
