//! The fairness audit: facts that were read back from kernel and superblocks, compared across targets.
//!
//! Every fact is one [`Rule`] of one static list: its reason, its source, how it is read off the records
//! and what a difference means. How rows look is left to the report. Filesystems differ by nature
//! (checksums, copy on write): such differences are notes. Not comparable is what can decide alone who is
//! faster and is no property of the filesystem: durability that one target does not give, a device that
//! another does not have, bytes that one read from memory.

mod device;
mod filesystem;
mod layout;
mod machine;
mod subject;
mod work;

use fsdyno_model::audit::{
    Audit, AuditRow, Fairness, Judgement, Status, TargetFact, WorkloadAudit,
};
use fsdyno_model::environment::Environment;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::TrialRecord;

pub use subject::{Fact, Subject};

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The target or the machine, whatever is run.
    Target,
    /// A workload on the target.
    Workload,
}

/// The part of a target, as the user writes it, that decides a fact.
#[derive(Debug, Clone, Copy)]
pub enum Asked {
    /// Nothing that can be written.
    Never,
    /// One of these mount options.
    Mount(&'static [&'static str]),
    /// Any mount option.
    AnyMount,
    /// Arguments for mkfs, or a journal on another device.
    Mkfs,
    /// The device, or the directory.
    Device,
    /// The journal's device.
    Journal,
    /// The age.
    Age,
    /// The kernel of its guests.
    Kernel,
}

/// What a difference means, and why, in words that follow the values.
pub type Judged = (Judgement, String);

/// The facts of all targets beside each other.
pub struct Compared<'a> {
    /// The targets.
    pub subjects: &'a [Subject<'a>],
    /// The fact on each; `None` where it could not be read.
    pub facts: &'a [Option<Fact>],
}

impl<'a> Compared<'a> {
    /// Targets whose fact is known, with it.
    fn known(&self) -> impl Iterator<Item = (&'a Subject<'a>, &'a Fact)> {
        let pairs = self.subjects.iter().zip(self.facts);
        pairs.filter_map(|(subject, fact)| Some((subject, fact.as_ref()?)))
    }

    /// Whether some target has the fact with this key.
    fn has(&self, key: &str) -> bool {
        self.known().any(|(_, fact)| fact.key == key)
    }

    /// Whether two targets with the same filesystem differ.
    fn differs_within_a_filesystem(&self) -> bool {
        self.known().any(|(subject, fact)| {
            self.known().any(|(other, known)| {
                subject.filesystem() == other.filesystem() && fact.key != known.key
            })
        })
    }
}

/// One fact of the audit.
pub struct Rule {
    /// Stable name, kebab-case.
    pub name: &'static str,
    /// The same in words, without an article.
    pub title: &'static str,
    /// Why it is looked at: one or two sentences.
    pub reason: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// What it is about.
    pub scope: Scope,
    /// What of the target decides it.
    pub asked: Asked,
    /// What it means that it is unknown on some target.
    pub unknown: Judgement,
    /// When a difference is a note and when it forbids the comparison, in words, for the documentation.
    pub judged: &'static str,
    /// Reads it.
    pub read: fn(&Subject<'_>) -> Option<Fact>,
    /// Judges a difference.
    pub judge: fn(&Compared<'_>) -> Judged,
    /// Judges what is the same everywhere, where that too can be wrong.
    pub when_same: Option<fn(&Compared<'_>) -> Option<Judged>>,
}

impl Rule {
    /// What most rules share: about the target, decided by nothing that is written, fine where unknown and
    /// where it is the same.
    const USUAL: Rule = Rule {
        name: "",
        title: "",
        reason: "",
        source: "",
        scope: Scope::Target,
        asked: Asked::Never,
        unknown: Judgement::Fine,
        judged: "",
        read: |_| None,
        judge: |_| fine(),
        when_same: None,
    };
}

/// Every rule, in the order in which they are shown.
#[must_use]
pub fn rules() -> Vec<&'static Rule> {
    let lists = [filesystem::RULES, layout::RULES, device::RULES, machine::RULES, work::RULES];
    lists.into_iter().flatten().collect()
}

/// No difference matters.
fn fine() -> Judged {
    (Judgement::Fine, String::new())
}

fn note(why: &str) -> Judged {
    (Judgement::Note, why.to_owned())
}

fn unfair(why: &str) -> Judged {
    (Judgement::NotComparable, why.to_owned())
}

/// Filesystems choose it each for themselves; two targets of one filesystem differ because somebody
/// chose.
fn by_nature(compared: &Compared<'_>) -> Judged {
    if compared.differs_within_a_filesystem() {
        note("it was chosen differently for one filesystem")
    } else {
        fine()
    }
}

/// The audit of a run. Only targets that completed a trial are compared; traced trials count nowhere.
#[must_use]
pub fn audit(plan: &Plan, environment: &Environment, trials: &[TrialRecord]) -> Audit {
    let all = subject::of_plan(plan, environment, trials, None);
    let (rows, _) = rows(&all, Scope::Target);
    let workloads = plan.workloads.iter().map(|workload| {
        let subjects = subject::of_plan(plan, environment, trials, Some(workload));
        let (shared, shared_facts) = self::rows(&subjects, Scope::Target);
        let (own, own_facts) = self::rows(&subjects, Scope::Workload);
        let every: Vec<&AuditRow> = shared.iter().chain(&own).collect();
        let facts: Vec<RuleFacts> = shared_facts.into_iter().chain(own_facts).collect();
        let fairness = (subjects.len() > 1).then(|| fairness(&every));
        let text = fairness.map_or_else(String::new, |it| text(it, &every, &subjects, &facts));
        WorkloadAudit { workload: workload.label.clone(), rows: own, fairness, text }
    });
    Audit { rows, workloads: workloads.collect() }
}

/// The facts of one rule.
struct RuleFacts {
    rule: &'static Rule,
    facts: Vec<Option<Fact>>,
}

fn rows(subjects: &[Subject<'_>], scope: Scope) -> (Vec<AuditRow>, Vec<RuleFacts>) {
    if subjects.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for rule in rules().into_iter().filter(|rule| rule.scope == scope) {
        let facts: Vec<Option<Fact>> = subjects.iter().map(|own| (rule.read)(own)).collect();
        rows.push(row(rule, subjects, &facts));
        all.push(RuleFacts { rule, facts });
    }
    (rows, all)
}

fn row(rule: &'static Rule, subjects: &[Subject<'_>], facts: &[Option<Fact>]) -> AuditRow {
    let status = status(facts);
    let compared = Compared { subjects, facts };
    let several = subjects.len() > 1;
    let when_same = || rule.when_same.and_then(|judge| judge(&compared));
    let (judgement, why) = match status {
        _ if !several => fine(),
        Status::Different => (rule.judge)(&compared),
        Status::Same => when_same().unwrap_or_else(fine),
        Status::Unknown => when_same().unwrap_or_else(|| match rule.unknown {
            Judgement::Fine => fine(),
            unknown => (unknown, "it could not be read everywhere".to_owned()),
        }),
    };
    let values = subjects.iter().zip(facts).map(|(subject, fact)| TargetFact {
        target: subject.label().to_owned(),
        value: fact.as_ref().map(|fact| fact.shown.clone()),
    });
    let mut row = AuditRow {
        rule: rule.name.to_owned(),
        title: rule.title.to_owned(),
        values: values.collect(),
        status,
        judgement,
        as_asked: status == Status::Different && is_as_asked(rule, subjects, facts),
        sentence: String::new(),
    };
    if judgement != Judgement::Fine {
        let asked = if row.as_asked { " (as asked)" } else { "" };
        row.sentence = format!("{}: {}{asked}: {why}.", row.title, row.grouped());
    }
    row
}

fn status(facts: &[Option<Fact>]) -> Status {
    let mut known = facts.iter().flatten();
    let first = known.next();
    if known.any(|fact| Some(&fact.key) != first.map(|first| &first.key)) {
        return Status::Different;
    }
    if facts.iter().any(Option::is_none) { Status::Unknown } else { Status::Same }
}

/// Whether those targets differ by nothing but what the user wrote in them: without these, the rest are
/// the same.
fn is_as_asked(rule: &Rule, subjects: &[Subject<'_>], facts: &[Option<Fact>]) -> bool {
    let mut plain = Vec::new();
    let mut asked_count = 0;
    for (subject, fact) in subjects.iter().zip(facts) {
        if subject.asked(rule.asked) {
            asked_count += 1;
        } else {
            plain.push(fact.clone());
        }
    }
    asked_count > 0 && status(&plain) != Status::Different
}

fn fairness(rows: &[&AuditRow]) -> Fairness {
    match rows.iter().map(|row| row.judgement).max() {
        Some(Judgement::NotComparable) => Fairness::NotComparable,
        Some(Judgement::Note) => Fairness::ComparableWithNotes,
        _ => Fairness::Comparable,
    }
}

/// Titles that a verdict names before the rest is counted.
const MOST_TITLES: usize = 7;

fn text(
    fairness: Fairness,
    rows: &[&AuditRow],
    subjects: &[Subject<'_>],
    facts: &[RuleFacts],
) -> String {
    let with = |judgement| rows.iter().filter(move |row| row.judgement == judgement);
    match fairness {
        Fairness::Comparable => "Comparable: nothing that matters differs.".to_owned(),
        Fairness::ComparableWithNotes => {
            let mut titles: Vec<&str> =
                with(Judgement::Note).map(|row| row.title.as_str()).collect();
            let more = titles.len().saturating_sub(MOST_TITLES);
            titles.truncate(MOST_TITLES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("Comparable with notes: {}{more}.", titles.join(", "))
        }
        Fairness::NotComparable => {
            let told: Vec<String> = with(Judgement::NotComparable)
                .map(|row| {
                    let asked = if row.as_asked { ", as asked" } else { "" };
                    format!("{} ({}{asked})", row.title, row.grouped())
                })
                .collect();
            let mut text = format!("Not comparable because of {}.", told.join(", and of "));
            for sentence in options_compared(subjects, facts) {
                text.push(' ');
                text.push_str(&sentence);
            }
            text
        }
    }
}

/// Pairs of targets that are told of as a fair test of an option.
const MOST_PAIRS: usize = 3;

/// Pairs with one filesystem that differ by nothing but what the user wrote: no comparison of
/// filesystems, but a fair one of options.
fn options_compared(subjects: &[Subject<'_>], facts: &[RuleFacts]) -> Vec<String> {
    let mut told = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        for (place, other) in subjects.iter().enumerate().skip(index + 1) {
            if subject.filesystem() != other.filesystem() {
                continue;
            }
            let differing: Vec<&RuleFacts> = facts
                .iter()
                .filter(|own| match (&own.facts[index], &own.facts[place]) {
                    (Some(one), Some(two)) => one.key != two.key,
                    _ => false,
                })
                .collect();
            let asked =
                |own: &&RuleFacts| subject.asked(own.rule.asked) || other.asked(own.rule.asked);
            let weighs = |own: &&RuleFacts| {
                let pair = [own.facts[index].clone(), own.facts[place].clone()];
                let (one, two) = (subject.clone(), other.clone());
                let subjects = [one, two];
                let compared = Compared { subjects: &subjects, facts: &pair };
                (own.rule.judge)(&compared).0 != Judgement::Fine
            };
            let weighty: Vec<&RuleFacts> = differing.into_iter().filter(weighs).collect();
            if weighty.is_empty() || !weighty.iter().all(asked) {
                continue;
            }
            let titles: Vec<&str> = weighty.iter().map(|own| own.rule.title).collect();
            told.push(format!(
                "{} beside {} is a fair test of what was asked for ({}), not of filesystems.",
                subject.label(),
                other.label(),
                titles.join(", ")
            ));
        }
    }
    told.truncate(MOST_PAIRS);
    told
}

#[cfg(test)]
mod tests;
