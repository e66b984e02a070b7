//! Which targets, workloads and phases of two result documents belong together, and the trials that
//! count of each. What is made of the values is left to [`crate::diff`].

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{PhaseRecord, Role};
use fsdyno_model::result::{PhaseResult, RunResult, TargetResult, TrialResult};
use fsdyno_model::yardstick::Yardstick;

/// One phase of one trial.
#[derive(Debug)]
pub struct PhaseTrial<'a> {
    /// Number of the trial.
    pub number: u32,
    /// The record, without histograms.
    pub record: PhaseRecord,
    /// As the document has it.
    pub result: &'a PhaseResult,
    /// How fast the machine was on both sides of the trial.
    pub yardstick: Option<&'a Yardstick>,
}

/// A target and a workload that both runs have.
#[derive(Debug)]
pub struct Case<'a> {
    /// The target in the base and in the new run.
    pub targets: [&'a TargetResult; 2],
    /// Label of the workload.
    pub workload: &'a str,
    /// Phases that both have, in the order of tables.
    pub phases: Vec<&'a str>,
    /// Of each side, the phases of the trials that count.
    all: [Vec<PhaseTrial<'a>>; 2],
}

impl<'a> Case<'a> {
    fn of(
        results: [&'a RunResult; 2],
        targets: [&'a TargetResult; 2],
        workload: &'a str,
    ) -> Case<'a> {
        let all = [0, 1].map(|side| phase_trials(results[side], &targets[side].label, workload));
        let phases = phases(results[1], &targets[1].label, workload);
        let has = |side: usize, phase: &str| all[side].iter().any(|it| it.result.name == phase);
        let phases = phases.into_iter().filter(|phase| has(0, phase) && has(1, phase)).collect();
        Case { targets, workload, phases, all }
    }

    /// Whether rows with these labels are of this case.
    #[must_use]
    pub fn is_of(&self, target: &str, workload: &str) -> bool {
        self.workload == workload && self.target_label() == target
    }

    /// The label, or both.
    #[must_use]
    pub fn target_label(&self) -> String {
        let [base, new] = self.targets.map(|target| target.label.as_str());
        if base == new { new.to_owned() } else { format!("{base} → {new}") }
    }

    /// The trials of a phase: of the base and of the new run.
    #[must_use]
    pub fn trials(&self, phase: &str) -> [Vec<&PhaseTrial<'a>>; 2] {
        [0, 1].map(|side| self.all[side].iter().filter(|it| it.result.name == phase).collect())
    }

    /// Every phase of every trial: of the base and of the new run.
    #[must_use]
    pub fn all_trials(&self) -> [Vec<&PhaseTrial<'a>>; 2] {
        [0, 1].map(|side| self.all[side].iter().collect())
    }

    /// Name of the metric that the new run shows for `phase`.
    #[must_use]
    pub fn primary_metric(&self, phase: &str) -> Option<&str> {
        let first = self.all[1].iter().find(|it| it.result.name == phase)?;
        Some(first.result.primary_metric.as_str())
    }
}

/// The trials whose figures count.
pub(crate) fn counting<'a>(
    result: &'a RunResult,
    target: &'a str,
    workload: &'a str,
) -> impl Iterator<Item = &'a TrialResult> {
    result.trials.iter().filter(move |trial| {
        trial.role == Role::Measured
            && trial.outcome == Outcome::Completed
            && trial.target == target
            && trial.workload == workload
    })
}

fn phase_trials<'a>(
    result: &'a RunResult,
    target: &'a str,
    workload: &'a str,
) -> Vec<PhaseTrial<'a>> {
    let mut found: Vec<PhaseTrial<'a>> = Vec::new();
    for trial in counting(result, target, workload) {
        let first = found.len();
        for phase in &trial.phases {
            // As in summaries, the first of a name counts.
            if found[first..].iter().all(|known| known.result.name != phase.name) {
                let record = phase.record();
                let yardstick = trial.yardstick.as_ref();
                found.push(PhaseTrial { number: trial.trial, record, result: phase, yardstick });
            }
        }
    }
    found
}

/// The phases of a case in the order in which the summary has them; those that it does not have follow
/// in the order in which they ran.
fn phases<'a>(result: &'a RunResult, target: &'a str, workload: &'a str) -> Vec<&'a str> {
    let in_summary = result
        .summary
        .iter()
        .filter(|row| row.target == target && row.workload == workload)
        .map(|row| row.phase.as_str());
    let ran = counting(result, target, workload)
        .flat_map(|trial| trial.phases.iter().map(|phase| phase.name.as_str()));
    let mut phases: Vec<&str> = Vec::new();
    for phase in in_summary.chain(ran) {
        if !phases.contains(&phase) {
            phases.push(phase);
        }
    }
    phases
}

/// What belongs together.
#[derive(Debug)]
pub struct Matching<'a> {
    /// The targets that both runs have: in the base and in the new run.
    pub targets: Vec<[&'a TargetResult; 2]>,
    /// Targets × workloads that both have, in the order of the new run.
    pub cases: Vec<Case<'a>>,
    /// What the base alone has, in words.
    pub only_base: Vec<String>,
    /// What the new run alone has.
    pub only_new: Vec<String>,
}

impl<'a> Matching<'a> {
    /// Matches targets as `pairs` say, then by label, then by what they are; workloads by label.
    #[must_use]
    pub fn of(base: &'a RunResult, new: &'a RunResult, pairs: &[(String, String)]) -> Matching<'a> {
        let targets = matched_targets(base, new, pairs);
        let mut only = [Vec::new(), Vec::new()];
        for (side, result) in [base, new].into_iter().enumerate() {
            let alone = result
                .targets
                .iter()
                .filter(|target| targets.iter().all(|pair| pair[side].label != target.label));
            only[side].extend(alone.map(|target| format!("target {}", target.label)));
            let other = [new, base][side];
            let alone = result.workloads.iter().filter(|workload| {
                other.workloads.iter().all(|known| known.label != workload.label)
            });
            only[side].extend(alone.map(|workload| format!("workload {}", workload.label)));
        }
        let mut cases = Vec::new();
        for pair in &targets {
            let common = new.workloads.iter().filter(|workload| {
                base.workloads.iter().any(|known| known.label == workload.label)
            });
            for workload in common {
                let case = Case::of([base, new], *pair, &workload.label);
                for side in [0, 1] {
                    only[side].extend(alone(&case, side, [base, new]));
                }
                cases.push(case);
            }
        }
        let [only_base, only_new] = only;
        Matching { targets, cases, only_base, only_new }
    }
}

/// The phases of a case that one side alone has; or that the other has no trial of it that completed.
fn alone(case: &Case<'_>, side: usize, results: [&RunResult; 2]) -> Vec<String> {
    let [own, other] = [side, 1 - side];
    let name = format!("{} {}", case.targets[side].label, case.workload);
    match (case.all[own].is_empty(), case.all[other].is_empty()) {
        (true, _) => return Vec::new(),
        (false, true) => return vec![format!("completed trials of {name}")],
        (false, false) => {}
    }
    let own_phases = phases(results[own], &case.targets[own].label, case.workload);
    let is_alone = |phase: &&str| case.all[other].iter().all(|known| known.result.name != **phase);
    own_phases.into_iter().filter(is_alone).map(|it| format!("phase {it} of {name}")).collect()
}

fn matched_targets<'a>(
    base: &'a RunResult,
    new: &'a RunResult,
    pairs: &[(String, String)],
) -> Vec<[&'a TargetResult; 2]> {
    let mut matched: Vec<Option<&TargetResult>> = vec![None; new.targets.len()];
    let mut pair_up = |is_match: &dyn Fn(&TargetResult, &TargetResult) -> bool| {
        for index in 0..new.targets.len() {
            if matched[index].is_some() {
                continue;
            }
            matched[index] = base.targets.iter().find(|target| {
                let is_taken = matched.iter().flatten().any(|known| known.label == target.label);
                !is_taken && is_match(target, &new.targets[index])
            });
        }
    };
    pair_up(&|base, new| pairs.iter().any(|pair| pair.0 == base.label && pair.1 == new.label));
    let is_named = |target: &TargetResult, side: usize| {
        pairs.iter().any(|pair| [&pair.0, &pair.1][side] == &target.label)
    };
    let is_free = |base: &TargetResult, new: &TargetResult| !is_named(base, 0) && !is_named(new, 1);
    pair_up(&|base, new| is_free(base, new) && base.label == new.label);
    pair_up(&|base, new| is_free(base, new) && what_it_is(base) == what_it_is(new));
    let pairs = matched.into_iter().zip(&new.targets);
    pairs.filter_map(|(base, new)| Some([base?, new])).collect()
}

/// A target without its label.
fn what_it_is(target: &TargetResult) -> &str {
    let label = format!("{}=", target.label);
    target.spec.strip_prefix(&label).unwrap_or(&target.spec)
}
