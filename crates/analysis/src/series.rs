//! The values of completed trials by phase, target and block: what both the summary and the
//! verdict are made of. Statistics are left to them.

use std::collections::BTreeMap;

use fsdyno_model::metric::Metric;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{PhaseRecord, Role, TrialRecord};

use crate::compare::Blocks;

/// Name of the phase that is fsck: part of every trial, of no workload.
pub const FSCK: &str = "fsck";

/// A workload and the order in which its phases are shown.
#[derive(Debug, Clone)]
pub struct WorkloadOrder<'a> {
    /// Label of the workload.
    pub label: &'a str,
    /// Names of its phases; others that records hold follow these, fsck comes last.
    pub phases: Vec<&'static str>,
}

/// The records of the completed trials of one workload.
#[derive(Debug)]
pub struct Series<'a> {
    /// Names of the phases that occurred, in the order in which they are shown.
    pub phases: Vec<&'a str>,
    /// Phase, index of the target, number of the block.
    records: BTreeMap<(&'a str, usize, u32), &'a PhaseRecord>,
}

impl<'a> Series<'a> {
    /// Collects the completed trials of `workload` on `targets`, which are labels.
    #[must_use]
    pub fn collect(
        targets: &[&str],
        workload: &WorkloadOrder<'_>,
        trials: &'a [TrialRecord],
    ) -> Series<'a> {
        let mut records = BTreeMap::new();
        let mut phases: Vec<&str> = Vec::new();
        for trial in trials {
            let counts = trial.outcome == Outcome::Completed && trial.role == Role::Measured;
            if !counts || trial.workload != workload.label {
                continue;
            }
            let Some(target) = targets.iter().position(|label| *label == trial.target) else {
                continue;
            };
            for record in &trial.phases {
                let name = record.name.as_str();
                phases.push(name);
                records.entry((name, target, trial.trial)).or_insert(record);
            }
        }
        let rank = |name: &str| match workload.phases.iter().position(|known| *known == name) {
            _ if name == FSCK => usize::MAX,
            Some(place) => place,
            None => workload.phases.len(),
        };
        // Stable, so that phases outside of the list keep the order in which they ran.
        phases.sort_by_key(|name| rank(name));
        let mut seen: Vec<&str> = Vec::new();
        phases.retain(|name| {
            let first = !seen.contains(name);
            if first {
                seen.push(name);
            }
            first
        });
        Series { phases, records }
    }

    /// What `metric` reads in each block of `phase` on the target with this index. Values that are
    /// not finite count as absent.
    #[must_use]
    pub fn blocks(&self, phase: &'a str, target: usize, metric: &Metric) -> Blocks {
        self.records
            .range((phase, target, 0)..=(phase, target, u32::MAX))
            .filter_map(|((_, _, block), record)| Some((*block, (metric.read)(record)?)))
            .filter(|(_, value)| value.is_finite())
            .collect()
    }

    /// Name of the metric that tables show for `phase`.
    #[must_use]
    pub fn primary_metric(&self, phase: &str) -> Option<&str> {
        let record = self.records.iter().find(|((name, _, _), _)| *name == phase)?.1;
        Some(record.primary_metric.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn phases_are_in_the_order_of_the_list_with_fsck_last() {
        let trial = fixture::trial(
            "ext4",
            1,
            &[("fsck", 4.0), ("extra", 1.0), ("stat", 2.0), ("create", 3.0)],
        );
        let order = WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create", "stat"] };
        let trials = [trial];
        let series = Series::collect(&["ext4"], &order, &trials);
        assert_eq!(series.phases, ["create", "stat", "extra", "fsck"]);
        assert_eq!(series.primary_metric("mount"), None);
    }

    #[test]
    fn only_completed_trials_of_the_workload_and_targets_count() {
        let good = fixture::trial("ext4", 1, &[("create", 1.0)]);
        let mut failed = fixture::trial("ext4", 2, &[("create", 1.0)]);
        failed.outcome = Outcome::Interrupted { stage: "create".to_owned() };
        let mut other = fixture::trial("ext4", 3, &[("create", 1.0)]);
        other.workload = "other".to_owned();
        let foreign = fixture::trial("zfs", 1, &[("create", 1.0)]);
        let mut traced = fixture::trial("ext4", 4, &[("create", 1.0)]);
        traced.role = Role::Explain;
        let order = WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create"] };
        let trials = [good, failed, other, foreign, traced];
        let series = Series::collect(&["ext4"], &order, &trials);
        let metric = fsdyno_model::metric::find("elapsed_s").unwrap();
        assert_eq!(series.blocks("create", 0, metric), Blocks::from([(1, 1.0)]));
    }
}
