//! Makes the records of a phase of what its jobs did: the phase's own, and further ones of groups that
//! ask for it. How long the phase took is measured by [`crate::phase`].

use std::collections::BTreeMap;

use fsdyno_model::record::PhaseRecord;

use super::conduct::{Go, JobOutcome};
use crate::context::Context;
use crate::engine::definition::Phase;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::{Operation, Recorder};

/// Mean latency of the tasks of each phase so far, in nanoseconds: of all that count in its record, and
/// of each group with a record of its own.
#[derive(Debug, Default)]
pub struct Baselines(Vec<BTreeMap<Option<String>, f64>>);

/// The jobs of one record, added up.
#[derive(Debug, Default)]
pub struct Sum {
    /// What they measured.
    pub recorder: Recorder,
    /// Tasks of each job.
    pub tasks: Vec<u64>,
    /// Group of the record, where it is that of one group.
    group: Option<String>,
}

impl Sum {
    fn add(&mut self, outcome: &JobOutcome) {
        self.tasks.push(outcome.recorder.count(Operation::Task));
        self.recorder.merge(&outcome.recorder);
    }
}

/// What the jobs of a phase did, by record; that of the phase has no name.
#[must_use]
pub fn sums(phase: &Phase, outcomes: &[JobOutcome]) -> BTreeMap<Option<String>, Sum> {
    let mut sums = BTreeMap::from([(None, Sum::default())]);
    for outcome in outcomes {
        let group = &phase.groups[outcome.group];
        if !group.background {
            sums.entry(None).or_insert_with(Sum::default).add(outcome);
        }
        if group.record_as.is_some() {
            let sum = sums.entry(group.record_as.clone()).or_default();
            sum.group = Some(group.name.clone());
            sum.add(outcome);
        }
    }
    sums
}

/// Which tasks were given up, if any.
fn skipped(outcomes: &[JobOutcome]) -> Option<String> {
    let skipped: u64 = outcomes.iter().map(|outcome| outcome.skipped).sum();
    let done: u64 = outcomes.iter().map(|outcome| outcome.recorder.count(Operation::Task)).sum();
    (skipped > 0).then(|| {
        let all = skipped + done;
        format!("{skipped} of {all} tasks were given up, since a step found nothing to work on")
    })
}

/// Measures a phase; gives its records, the phase's own first, and what is to be said of tasks that
/// were given up.
///
/// # Errors
/// What failed.
pub fn record_phase(
    context: &Context<'_>,
    phase: &Phase,
    baselines: &mut Baselines,
    go: Go<'_, '_>,
) -> anyhow::Result<(Vec<PhaseRecord>, Option<String>)> {
    let durability = if phase.sync { Durability::Target } else { Durability::None };
    let mut tally = PhaseTally::new(&phase.name, &phase.metric);
    let mut skips = None;
    let mut own = Vec::new();
    let mut further = BTreeMap::new();
    let finish = |recorder: &mut Recorder, outcomes: Vec<JobOutcome>| {
        skips = skipped(&outcomes);
        further = sums(phase, &outcomes);
        if let Some(sum) = further.remove(&None) {
            recorder.merge(&sum.recorder);
            // Groups at different rates are not to be served alike.
            let in_front = phase.groups.iter().filter(|group| !group.background).count();
            own = if in_front == 1 { sum.tasks } else { Vec::new() };
        }
    };
    tally.measure_then(context, "all", durability, |_| go.run(), finish)?;
    let mean = tally.recorder().mean_ns(Operation::Task);
    let base = |group: &Option<String>| {
        phase.baseline.and_then(|index| baselines.0.get(index)?.get(group).copied())
    };
    let mut means: BTreeMap<Option<String>, f64> =
        mean.map(|mean| (None, mean)).into_iter().collect();
    fill(&mut tally, &own, base(&None));
    let mut records = Vec::new();
    for (name, sum) in further {
        let name = name.unwrap_or_default();
        // What has nothing to be compared with is told by what it moved.
        let has_base = base(&sum.group).is_some();
        let metric = match phase.metric.as_str() {
            "slowdown" if !has_base => "throughput_mib_per_s",
            metric => metric,
        };
        let mut part = tally.part(&name, metric, sum.recorder);
        fill(&mut part, &sum.tasks, base(&sum.group));
        means.extend(part.recorder().mean_ns(Operation::Task).map(|mean| (sum.group, mean)));
        records.push(part.into_record());
    }
    baselines.0.push(means);
    records.insert(0, tally.into_record());
    Ok((records, skips))
}

/// Stores what is known of the tasks of `tally`, done by jobs of one group that did so many each; none
/// where there are several groups.
fn fill(tally: &mut PhaseTally, tasks: &[u64], base_ns: Option<f64>) {
    let recorder = tally.recorder();
    let count = recorder.count(Operation::Task);
    if count == 0 {
        return;
    }
    let quantile = |share: f64| recorder.quantile_ns(Operation::Task, share).unwrap_or_default();
    let mut values = vec![("tasks", count as f64)];
    for (metric, share) in
        [("task_p50_ms", 0.5), ("task_p99_ms", 0.99), ("task_p999_ms", 0.999), ("task_max_ms", 1.0)]
    {
        values.push((metric, quantile(share) as f64 / 1e6));
    }
    if tasks.len() > 1 {
        values.push(("fairness", fairness(tasks)));
    }
    if let (Some(mean), Some(base)) = (recorder.mean_ns(Operation::Task), base_ns) {
        values.push(("slowdown", mean / base));
    }
    for (metric, value) in values {
        tally.value(metric, value);
    }
}

/// Jain's index (1984): 1 where all did the same, 1 / number where one did all.
fn fairness(tasks: &[u64]) -> f64 {
    let sum: f64 = tasks.iter().map(|count| *count as f64).sum();
    let squares: f64 = tasks.iter().map(|count| (*count as f64).powi(2)).sum();
    sum * sum / (tasks.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_that_of_jain() {
        for (tasks, expected) in [(&[5, 5, 5, 5][..], 1.0), (&[8, 0, 0, 0], 0.25), (&[1, 3], 0.8)] {
            assert!((fairness(tasks) - expected).abs() < 1e-12, "{tasks:?}");
        }
    }
}
