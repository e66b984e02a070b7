//! Ladders: a workload asked to find the load that tells targets apart (`calibrate=true`) becomes one
//! workload for each load, lightest first. Which loads these are is known to the workload; whether one
//! told targets apart is decided by the analysis.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::param::Params;
use crate::plan::Plan;
use crate::workload::WorkloadSpec;

/// Trials from which on a difference can be told from chance, where there is chance: in virtual time one is
/// enough.
pub const LEAST_TRIALS: u32 = 3;

/// Workloads of a plan that are one workload under ever heavier loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ladder {
    /// Label of the workload that was asked for.
    pub label: String,
    /// Index of the workload that is the first rung; the others follow it.
    pub first_index: usize,
    /// Number of rungs.
    pub rung_count: usize,
    /// Phase whose figure decides.
    pub phase: String,
    /// No rung begins once the trials of those before it took so many seconds.
    pub budget_s: u64,
}

impl Ladder {
    /// Index of the workload that is the rung with this index.
    #[must_use]
    pub fn workload_index(&self, rung_index: usize) -> usize {
        self.first_index + rung_index
    }

    /// Index of the rung that this workload is, from 0.
    #[must_use]
    pub fn rung_index(&self, workload_index: usize) -> Option<usize> {
        workload_index.checked_sub(self.first_index).filter(|rung| *rung < self.rung_count)
    }
}

/// What a workload says of its calibration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Climb {
    /// The loads, each heavier than the one before.
    pub rungs: Vec<Params>,
    /// Phase whose figure decides.
    pub phase: String,
    /// Seconds for all of them.
    pub budget_s: u64,
}

impl Plan {
    /// The ladder that a workload is part of, and which of its rungs.
    #[must_use]
    pub fn ladder_of(&self, workload_index: usize) -> Option<(&Ladder, usize)> {
        self.ladders.iter().find_map(|ladder| Some((ladder, ladder.rung_index(workload_index)?)))
    }

    /// Puts the rungs in the place of every workload that `climb` knows some for. A plan whose ladders
    /// stand already stays as it is, as long as `climb` knows none for a rung.
    ///
    /// # Errors
    /// A sentence for each workload that cannot be calibrated by so few trials or targets.
    pub fn expand(
        mut self,
        climb: impl Fn(&WorkloadSpec) -> Option<Climb>,
    ) -> Result<Plan, Vec<String>> {
        let mut errors = Vec::new();
        let mut expanded = Vec::with_capacity(self.workloads.len());
        for spec in std::mem::take(&mut self.workloads) {
            let Some(Climb { rungs, phase, budget_s }) = climb(&spec) else {
                expanded.push(spec);
                continue;
            };
            let WorkloadSpec { label, kind, .. } = spec;
            if self.min_trials() < LEAST_TRIALS && !self.place.is_virtual() {
                errors.push(format!(
                    "{label}: calibrate=true needs at least {LEAST_TRIALS} trials, since fewer tell nothing apart: use --trials 5 (trials = 5 in a plan)"
                ));
            }
            if self.targets.len() < 2 {
                errors.push(format!(
                    "{label}: calibrate=true looks for the load that tells targets apart: name at least two"
                ));
            }
            let (first_index, rung_count) = (expanded.len(), rungs.len());
            expanded.extend((1..).zip(rungs).map(|(number, params)| WorkloadSpec {
                definition: None,
                label: format!("{label} rung {number}"),
                kind: kind.clone(),
                params,
            }));
            self.ladders.push(Ladder { label, first_index, rung_count, phase, budget_s });
        }
        self.workloads = expanded;
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Ground, TargetSpec};

    fn plan(labels: &[&str], target_count: usize, trials: u32) -> Plan {
        let workload = |label: &&str| WorkloadSpec {
            definition: None,
            label: (*label).to_owned(),
            kind: label.trim_end_matches("-2").to_owned(),
            params: Params::default(),
        };
        let target = |index: usize| TargetSpec {
            label: format!("t{index}"),
            ground: Ground::Directory { path: format!("/t{index}").into() },
        };
        Plan {
            trials,
            workloads: labels.iter().map(workload).collect(),
            targets: (0..target_count).map(target).collect(),
            ..Plan::new(false)
        }
    }

    fn climb(spec: &WorkloadSpec) -> Option<Climb> {
        let is_asked = spec.kind == "climber" && !spec.label.contains(" rung ");
        let rungs = vec![Params::default(); 3];
        is_asked.then(|| Climb { rungs, phase: "transactions".to_owned(), budget_s: 600 })
    }

    #[test]
    fn a_workload_becomes_its_rungs() {
        let plan = plan(&["plain", "climber", "other", "climber-2"], 2, 3);
        let expanded = plan.expand(climb).unwrap();
        let labels: Vec<&str> = expanded.workloads.iter().map(|it| it.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "plain",
                "climber rung 1",
                "climber rung 2",
                "climber rung 3",
                "other",
                "climber-2 rung 1",
                "climber-2 rung 2",
                "climber-2 rung 3"
            ]
        );
        let rungs: Vec<_> = (0..8)
            .map(|index| expanded.ladder_of(index).map(|(it, rung)| (it.label.as_str(), rung)))
            .collect();
        let of = |label, rung| Some((label, rung));
        let first = [of("climber", 0), of("climber", 1), of("climber", 2)];
        let second = [of("climber-2", 0), of("climber-2", 1), of("climber-2", 2)];
        assert_eq!(rungs[..1], [None]);
        assert_eq!(rungs[1..4], first);
        assert_eq!(rungs[4..5], [None]);
        assert_eq!(rungs[5..], second);
        assert_eq!(expanded.ladders[1].workload_index(2), 7);
        assert_eq!(expanded.clone().expand(climb), Ok(expanded), "a second time changes nothing");
    }

    #[test]
    fn too_few_trials_or_targets_are_bad_input() {
        for (targets, trials, words) in
            [(2, 2, "at least 3 trials"), (1, 3, "name at least two"), (1, 1, "--trials 5")]
        {
            let errors = plan(&["climber"], targets, trials).expand(climb).unwrap_err();
            assert!(errors.join("\n").contains(words), "{errors:?}");
        }
        assert!(plan(&["plain"], 1, 1).expand(climb).is_ok());
    }

    #[test]
    fn plans_stored_before_there_were_ladders_are_read() {
        let mut old = serde_json::to_value(plan(&["plain"], 1, 1)).unwrap();
        let fields = old.as_object_mut().unwrap();
        assert!(fields.remove("ladders").is_some() && fields.remove("quick").is_some());
        let read: Plan = serde_json::from_value(old).unwrap();
        assert_eq!(read, plan(&["plain"], 1, 1));
    }
}
