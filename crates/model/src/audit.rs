//! The fairness audit: whether targets were measured under the same conditions, fact by fact, and the
//! checklist of published advice on filesystem benchmarks. What is compared, and why, is decided by the
//! analysis; here is only what comes out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a fact is the same on all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is.
    Same,
    /// It is not.
    Different,
    /// It could not be read on every target, and is the same where it could.
    Unknown,
}

impl Status {
    /// The word in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Status::Same => "same",
            Status::Different => "different",
            Status::Unknown => "unknown",
        }
    }
}

/// What a fact means for the comparison.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It does not bear on the comparison.
    Fine,
    /// A reader of the figures must know it.
    Note,
    /// It alone can decide who is faster, so that the filesystems are not compared.
    NotComparable,
}

impl Judgement {
    /// The word in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Judgement::Fine => "fine",
            Judgement::Note => "note",
            Judgement::NotComparable => "not comparable",
        }
    }
}

/// What is known of a fact on one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetFact {
    /// Label of the target.
    pub target: String,
    /// What was read back; null where it could not be.
    pub value: Option<String>,
}

/// One fact, compared across the targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRow {
    /// Name of the rule, stable, kebab-case: `barriers`.
    pub rule: String,
    /// The same in words.
    pub title: String,
    /// The fact on each target.
    pub values: Vec<TargetFact>,
    /// Whether they are the same.
    pub status: Status,
    /// What that means.
    pub judgement: Judgement,
    /// Whether they differ by nothing but what the user wrote in the targets.
    pub as_asked: bool,
    /// The judgement in words; empty where there is nothing to say.
    pub sentence: String,
}

impl AuditRow {
    /// Targets by value, in the order of the targets: `off: ext3:barrier=0; on: ext4, xfs`.
    #[must_use]
    pub fn grouped(&self) -> String {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for fact in &self.values {
            let value = fact.value.as_deref().unwrap_or("unknown");
            match groups.iter_mut().find(|(known, _)| *known == value) {
                Some((_, targets)) => targets.push(&fact.target),
                None => groups.push((value, vec![&fact.target])),
            }
        }
        let told: Vec<String> = groups
            .iter()
            .map(|(value, targets)| format!("{value}: {}", targets.join(", ")))
            .collect();
        told.join("; ")
    }
}

/// Whether the targets can be compared on a workload.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fairness {
    /// Nothing that matters differs.
    Comparable,
    /// What differs must be told with the figures.
    ComparableWithNotes,
    /// Something differs that can decide alone who is faster.
    NotComparable,
}

/// The audit of one workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadAudit {
    /// Label of the workload.
    pub workload: String,
    /// Facts of this workload alone.
    pub rows: Vec<AuditRow>,
    /// The verdict; null where fewer than two targets completed a trial.
    pub fairness: Option<Fairness>,
    /// The verdict in one sentence, with the facts that it rests on; empty where there is none.
    pub text: String,
}

/// The fairness audit of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Facts of the targets and of the machine.
    pub rows: Vec<AuditRow>,
    /// Facts and verdict of each workload, in the order of the workloads.
    pub workloads: Vec<WorkloadAudit>,
}

impl Audit {
    /// Whether some workload's targets are not comparable.
    #[must_use]
    pub fn is_unfair(&self) -> bool {
        self.workloads.iter().any(|own| own.fairness == Some(Fairness::NotComparable))
    }

    /// The audit that belongs to the verdict labelled `label`: that of the workload, or for a ladder the
    /// worst of its rungs.
    #[must_use]
    pub fn of_verdict(&self, label: &str) -> Option<&WorkloadAudit> {
        let is_rung = |own: &&WorkloadAudit| {
            own.workload.strip_prefix(label).is_some_and(|rest| rest.starts_with(" rung "))
        };
        let exact = self.workloads.iter().find(|own| own.workload == label);
        exact.or_else(|| self.workloads.iter().filter(is_rung).max_by_key(|own| own.fairness))
    }
}

/// A question of the published checklists, and what the records answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The question.
    pub question: String,
    /// Who asks it.
    pub source: String,
    /// What the records say.
    pub answer: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_grouped_by_value() {
        let fact = |target: &str, value: Option<&str>| TargetFact {
            target: target.to_owned(),
            value: value.map(str::to_owned),
        };
        let row = AuditRow {
            rule: "barriers".to_owned(),
            title: "barriers".to_owned(),
            values: vec![fact("a", Some("on")), fact("b", None), fact("c", Some("on"))],
            status: Status::Unknown,
            judgement: Judgement::Note,
            as_asked: false,
            sentence: String::new(),
        };
        assert_eq!(row.grouped(), "on: a, c; unknown: b");
    }

    #[test]
    fn a_ladder_is_judged_by_its_worst_rung() {
        let own = |workload: &str, fairness| WorkloadAudit {
            workload: workload.to_owned(),
            rows: Vec::new(),
            fairness,
            text: String::new(),
        };
        let audit = Audit {
            rows: Vec::new(),
            workloads: vec![
                own("postmark rung 1", Some(Fairness::Comparable)),
                own("postmark rung 2", Some(Fairness::NotComparable)),
                own("postmark rung 3", None),
            ],
        };
        assert_eq!(audit.of_verdict("postmark").unwrap().workload, "postmark rung 2");
        assert_eq!(audit.of_verdict("postmark rung 1").unwrap().workload, "postmark rung 1");
        assert_eq!(audit.of_verdict("post"), None);
        assert!(audit.is_unfair());
    }
}
