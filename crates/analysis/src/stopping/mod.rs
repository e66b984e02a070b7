//! When the trials of a workload may end, and what looking at them again and again costs.
//!
//! Who looks after every block and stops when a difference shows finds one sooner or later, even where
//! there is none. So the looks share the 5 %: a run with a stop rule may be looked at after every block from
//! the first look on, and the chance that any of all these looks misleads is 5 % ([`Looks`]). The levels do
//! not depend on the greatest number of trials, and hold whenever a run ends, for whatever reason, and when
//! it is continued. The method is decided in ADR 0013. Without a stop rule there is one look.
//!
//! A comparison is settled when its interval excludes 1 or lies within the band of sameness, both with Holm's
//! correction over all pairs of targets: that of the lead or the best with each other target must be.
//!
//! Whether more trials would settle anything is decided here alone; who says so to the user, and when time
//! is up, is left to others.

use fsdyno_model::ladder::Ladder;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::stop::StopRule;
use fsdyno_model::workload::WorkloadSpec;

use crate::compare;
use crate::contest::Contest;
use crate::interval::{self, Interval};
use crate::pairs::Pairs;
use crate::series::WorkloadOrder;

mod looks;

pub use looks::Looks;

/// Comparisons that are named as open.
const NAMED: usize = 3;

/// Whether the trials of a workload may end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// More trials are wanted.
    Continue {
        /// What is undecided, such as `create: xfs beside ext4`; at most a few, the last saying how many
        /// more there are.
        open: Vec<String>,
    },
    /// More trials would change nothing that matters.
    Settled {
        /// Why, for people.
        sentence: String,
    },
}

/// Decides whether the trials of the workload with this index may end, by the records stored so far (in any
/// order, of any workload).
///
/// `phase_order` gives the phases of a kind of workload in the order in which tables show them. It is a pure
/// function, so that a resumed run decides alike. Without a stop rule trials never end before their
/// number.
#[must_use]
pub fn decide(
    plan: &Plan,
    phase_order: &dyn Fn(&WorkloadSpec) -> Vec<&'static str>,
    workload_index: usize,
    trials: &[TrialRecord],
) -> Decision {
    let (Some(rule), Some(workload)) = (plan.stop, plan.workloads.get(workload_index)) else {
        return Decision::Continue { open: Vec::new() };
    };
    let looks = Looks::of(plan);
    let order = WorkloadOrder { label: &workload.label, phases: phase_order(workload) };
    let own = |label: &str| {
        let all = trials.iter().filter(|trial| trial.role == Role::Measured);
        let own = all.filter(|trial| trial.target == label && trial.workload == workload.label);
        own.fold((0u32, 0u32), |(ended, completed), trial| {
            let is_completed = trial.outcome == Outcome::Completed;
            (ended + u32::from(trial.outcome.is_final()), completed + u32::from(is_completed))
        })
    };
    let labels: Vec<&str> = plan.targets.iter().map(|target| target.label.as_str()).collect();
    let blocks = labels.iter().map(|label| own(label).0).min().unwrap_or(0);
    if !looks.is_look(blocks) {
        return Decision::Continue { open: vec![format!("the first {} trials", looks.first())] };
    }
    let present: Vec<&str> = labels.iter().copied().filter(|label| own(label).1 > 0).collect();
    if present.is_empty() || (present.len() < 2 && labels.len() > 1) {
        let sentence = format!("fewer than two targets complete {}", workload.label);
        return Decision::Settled { sentence };
    }
    let contest = Contest::of(&present, &order, trials);
    let Some(band) = looks.band() else { return Decision::Continue { open: Vec::new() } };
    let found = match (plan.ladder_of(workload_index), present.len()) {
        (_, 1) => alone(&contest, &looks, band),
        (Some((ladder, _)), _) => rung(&contest, &looks, ladder),
        _ => together(&contest, &looks),
    };
    found.decision(rule, blocks)
}

/// What is known of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Different,
    Same,
    Open,
}

/// A comparison that must be settled.
struct Compared {
    name: String,
    finding: Finding,
}

#[derive(Default)]
struct Found {
    different: usize,
    same: usize,
    open: Vec<String>,
}

impl Found {
    fn add(&mut self, compared: impl IntoIterator<Item = Compared>) {
        for one in compared {
            match one.finding {
                Finding::Different => self.different += 1,
                Finding::Same => self.same += 1,
                Finding::Open => self.open.push(one.name),
            }
        }
    }

    fn decision(mut self, rule: StopRule, blocks: u32) -> Decision {
        if !self.open.is_empty() {
            if self.open.len() > NAMED {
                let more = self.open.len() - NAMED;
                self.open.truncate(NAMED);
                self.open.push(format!("{more} more"));
            }
            return Decision::Continue { open: self.open };
        }
        let resolution = rule.resolution();
        let sentence = match (self.different, self.same) {
            (0, 0) => "there is nothing to compare".to_owned(),
            (0, 1) => format!("the only comparison is the same within ±{resolution}"),
            (1, 0) => "the only comparison shows a difference".to_owned(),
            (0, 2) => format!("both comparisons are the same within ±{resolution}"),
            (2, 0) => "both comparisons show a difference".to_owned(),
            (0, same) => format!("all {same} comparisons are the same within ±{resolution}"),
            (different, 0) => format!("all {different} comparisons show a difference"),
            (different, same) => format!(
                "of {} comparisons, {different} told apart and {same} the same within ±{resolution}",
                different + same
            ),
        };
        Decision::Settled { sentence: format!("{sentence} after {blocks} trials") }
    }
}

/// One target: the interval of each median lies within the band around it.
fn alone(contest: &Contest<'_>, looks: &Looks, band: Interval) -> Found {
    let mut found = Found::default();
    for ((phase, _), values) in contest.phases.iter().zip(&contest.values) {
        let values: Vec<f64> = values.iter().flat_map(|blocks| blocks.values().copied()).collect();
        let is_narrow = if values.iter().all(|value| *value > 0.0) {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let centre = interval::mean(&logarithms).unwrap_or(0.0);
            let centred: Vec<f64> = logarithms.iter().map(|value| value - centre).collect();
            let p = looks.p(interval::p_of_mean_outside(&centred, band), values.len());
            compare::told_apart(p)
        } else {
            values.iter().all(|value| *value == values[0])
        };
        let finding = if is_narrow { Finding::Same } else { Finding::Open };
        found.add([Compared { name: (*phase).to_owned(), finding }]);
    }
    found
}

/// Several targets: all beside the lead over all phases, and in each phase beside its best.
fn together(contest: &Contest<'_>, looks: &Looks) -> Found {
    let mut found = Found::default();
    if contest.phases.len() > 1 {
        let pairs = contest.pairs(looks);
        let beside = (contest.lead(), "over all phases");
        found.add(compared(contest, &pairs, Some(beside.0), beside.1, 1.0));
    }
    for (index, (phase, metric)) in contest.phases.iter().enumerate() {
        let values = &contest.values[index];
        let Some(best) = compare::best(values, metric.better) else { continue };
        let pairs = compare::pairs(values, looks);
        found.add(compared(contest, &pairs, Some(best), phase, 1.0));
    }
    found
}

/// A rung: all pairs of the deciding phase, at the rung's share of the 5 %.
fn rung(contest: &Contest<'_>, looks: &Looks, ladder: &Ladder) -> Found {
    let mut found = Found::default();
    let share = 1.0 / ladder.rung_count.max(1) as f64;
    for ((phase, _), values) in contest.phases.iter().zip(&contest.values) {
        if *phase == ladder.phase {
            let pairs = compare::pairs(values, looks);
            found.add(compared(contest, &pairs, None, phase, share));
        }
    }
    found
}

/// The pairs with `reference`, or all, at this share of the 5 %.
fn compared(
    contest: &Contest<'_>,
    pairs: &Pairs,
    reference: Option<usize>,
    scope: &str,
    share: f64,
) -> Vec<Compared> {
    let asked = pairs.each().filter(|(a, b)| reference.is_none_or(|it| it == *a || it == *b));
    let compared = asked.map(|(a, b)| {
        let (target, beside) = if reference == Some(a) { (b, a) } else { (a, b) };
        let finding = match (pairs.are_apart(a, b, share), pairs.are_same(a, b, share)) {
            (true, _) => Finding::Different,
            (_, true) => Finding::Same,
            _ => Finding::Open,
        };
        let [target, beside] = [target, beside].map(|it| contest.labels[it]);
        Compared { name: format!("{scope}: {target} beside {beside}"), finding }
    });
    compared.collect()
}

#[cfg(test)]
mod tests;
