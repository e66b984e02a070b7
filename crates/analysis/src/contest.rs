//! The values by which the targets of a workload are compared on the whole: the metrics that tables show
//! for its phases, without fsck and without those of which neither way is better. What they amount to is
//! left to the verdict and to the stopping rule, which must look at the same figures.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::record::TrialRecord;

use crate::compare::{self, Blocks};
use crate::interval;
use crate::pairs::Pairs;
use crate::series::{FSCK, Series, WorkloadOrder};
use crate::stopping::Looks;

/// The values that count, of the targets that have some.
pub(crate) struct Contest<'a> {
    /// Labels of the targets.
    pub labels: &'a [&'a str],
    /// Phases of the workload that occurred and in which one way is better.
    pub phases: Vec<(&'a str, &'static Metric)>,
    /// By phase, then by target.
    pub values: Vec<Vec<Blocks>>,
}

impl<'a> Contest<'a> {
    /// Collects them; `labels` are the targets that completed a trial.
    pub fn of(
        labels: &'a [&'a str],
        workload: &WorkloadOrder<'_>,
        trials: &'a [TrialRecord],
    ) -> Contest<'a> {
        let series = Series::collect(labels, workload, trials);
        let phases: Vec<(&str, &'static Metric)> = series
            .phases
            .iter()
            .filter(|phase| **phase != FSCK)
            .filter_map(|phase| Some((*phase, metric::find(series.primary_metric(phase)?)?)))
            .filter(|(_, metric)| metric.better.is_some())
            .collect();
        let values = phases
            .iter()
            .map(|(phase, metric)| {
                (0..labels.len()).map(|target| series.blocks(phase, target, metric)).collect()
            })
            .collect();
        Contest { labels, phases, values }
    }

    /// For each block, the logarithm of how many times better target `a` is than `b`; and the
    /// indices of the phases that this is made of.
    pub fn advantage(&self, a: usize, b: usize) -> (Vec<f64>, BTreeSet<usize>) {
        let mut sums: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (index, (_, metric)) in self.phases.iter().enumerate() {
            let sign = if metric.better == Some(Better::Lower) { -1.0 } else { 1.0 };
            for (block, value) in &self.values[index][a] {
                let other = self.values[index][b].get(block).copied().unwrap_or(0.0);
                if *value > 0.0 && other > 0.0 {
                    let sum = sums.entry(*block).or_default();
                    sum.0 += sign * (value / other).ln();
                    sum.1 += 1;
                    used.insert(index);
                }
            }
        }
        (sums.into_values().map(|(sum, count)| sum / f64::from(count)).collect(), used)
    }

    /// All pairs over all phases.
    pub fn pairs(&self, looks: &Looks) -> Pairs {
        let compare = |a, b| compare::of_log_ratios(&self.advantage(a, b).0, looks);
        Pairs::of(self.labels.len(), compare)
    }

    /// The target that is ahead of the others on the whole.
    pub fn lead(&self) -> usize {
        let score = |target: usize| -> f64 {
            let others = (0..self.labels.len()).filter(|other| *other != target);
            others.filter_map(|other| interval::mean(&self.advantage(target, other).0)).sum()
        };
        let scores: Vec<f64> = (0..self.labels.len()).map(score).collect();
        // The first of equals, so that the order of the targets decides and not chance.
        (0..scores.len()).rev().max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0)
    }

    /// Whether every metric that counts is a rate or a time.
    pub fn is_about_speed(&self) -> bool {
        self.phases.iter().all(|(_, metric)| {
            metric.unit.ends_with("/s") || metric.unit == "s" || metric.unit.starts_with("s/")
        })
    }
}
