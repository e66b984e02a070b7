//! When the trials of a workload may end, and what looking at them again and again costs.
//!
//! Who looks after every block and stops when a difference shows finds one sooner or later, even where
//! there is none. So the looks share the 5 %: a run with a stop rule may be looked at after every block from
//! the first look on, and the chance that any of all these looks misleads is 5 %. After `n` blocks
//! `(n − 2)/(n + 4)` of it has been spent, however many follow: the levels do not depend on the greatest
//! number of trials, and hold whenever a run ends, for whatever reason, and when it is continued. The
//! method is decided in ADR 0013. Without a stop rule there is one look.
//!
//! Whether more trials would settle anything is decided here alone; who says so to the user, and when time
//! is up, is left to others.

use fsdyno_model::metric::Better;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::stop::StopRule;
use fsdyno_model::workload::WorkloadSpec;

use crate::compare::{self, Blocks, FAMILY_ERROR};
use crate::contest::Contest;
use crate::interval::{self, Interval};
use crate::series::WorkloadOrder;

/// Blocks before which nothing is told of a run with a stop rule.
const FEWEST_BLOCKS: u32 = 3;

/// Comparisons that are named as open.
const NAMED: usize = 3;

/// The error level that each look at the data may use, so that all looks together stay at 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    rule: Option<StopRule>,
    /// Greatest number of blocks.
    trials: u32,
}

impl Looks {
    /// Those of `plan`: without a stop rule one look, at 5 % whatever the number of blocks.
    #[must_use]
    pub fn of(plan: &Plan) -> Looks {
        Looks { rule: plan.stop, trials: plan.trials }
    }

    /// Whether the data are looked at after so many blocks.
    #[must_use]
    pub fn is_look(&self, blocks: u32) -> bool {
        match self.rule {
            Some(_) => blocks >= self.first(),
            None => blocks == self.trials,
        }
    }

    /// Level of the interval told after so many blocks: 0.05 without a stop rule, less with one; 0 before
    /// the first look, when no interval is told.
    #[must_use]
    pub fn alpha(&self, blocks: usize) -> f64 {
        self.level(FAMILY_ERROR, blocks)
    }

    /// The p that counts all looks: the least chance, over all of them, at which this one would have
    /// told a difference. `None` where p is, and before the first look.
    #[must_use]
    pub fn p(&self, p: Option<f64>, blocks: usize) -> Option<f64> {
        if self.rule.is_none() {
            return p;
        }
        let share = self.share(blocks);
        (share > 0.0).then_some(())?;
        p.map(|p| (p / share).min(1.0))
    }

    /// Level of one look, so that all together stay at `total`.
    fn level(&self, total: f64, blocks: usize) -> f64 {
        if self.rule.is_some() { total * self.share(blocks) } else { total }
    }

    fn first(&self) -> u32 {
        self.rule.map_or(self.trials, |rule| rule.min_trials.max(FEWEST_BLOCKS))
    }

    /// What the look after so many blocks may spend of the whole.
    fn share(&self, blocks: usize) -> f64 {
        let spent = |blocks: f64| (blocks - 2.0) / (blocks + 4.0);
        let (first, blocks) = (f64::from(self.first()), blocks as f64);
        if blocks < first {
            0.0
        } else if blocks == first {
            spent(blocks)
        } else {
            spent(blocks) - spent(blocks - 1.0)
        }
    }
}

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
    let band = Band::of(rule);
    let found = match (plan.ladder_of(workload_index), present.len()) {
        (_, 1) => alone(&contest, &looks, &band),
        (Some((ladder, _)), _) => {
            let mut found = Found::default();
            let share = 1.0 / ladder.rung_count.max(1) as f64;
            for (index, (phase, _)) in contest.phases.iter().enumerate() {
                if *phase == ladder.phase {
                    found.add(&pairs_of_phase(&contest, index, share, &looks, &band));
                }
            }
            found
        }
        _ => together(&contest, &looks, &band),
    };
    found.decision(rule, blocks)
}

/// The band of sameness, as logarithms of ratios.
struct Band(Interval);

impl Band {
    fn of(rule: StopRule) -> Band {
        let half = f64::from(rule.resolution_permille) / 1000.0;
        Band(Interval { low: (-half).ln_1p(), high: half.ln_1p() })
    }
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
    fn add(&mut self, compared: &[Compared]) {
        for one in compared {
            match one.finding {
                Finding::Different => self.different += 1,
                Finding::Same => self.same += 1,
                Finding::Open => self.open.push(one.name.clone()),
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
            (0, same) => format!("all {same} comparisons are the same within ±{resolution}"),
            (different, 0) => format!("all {different} comparisons show a difference"),
            (different, same) => format!(
                "of {} comparisons {different} show a difference and {same} are the same within ±{resolution}",
                different + same
            ),
        };
        Decision::Settled { sentence: format!("{sentence} after {blocks} trials") }
    }
}

/// One target: the interval of each median lies within the band around it.
fn alone(contest: &Contest<'_>, looks: &Looks, band: &Band) -> Found {
    let mut found = Found::default();
    for ((phase, _), values) in contest.phases.iter().zip(&contest.values) {
        let values: Vec<f64> = values.iter().flat_map(|blocks| blocks.values().copied()).collect();
        let is_narrow = if values.iter().all(|value| *value > 0.0) {
            let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            let centre = interval::mean(&logarithms).unwrap_or(0.0);
            let centred: Vec<f64> = logarithms.iter().map(|value| value - centre).collect();
            let p = looks.p(interval::p_of_mean_outside(&centred, band.0), values.len());
            compare::told_apart(p)
        } else {
            values.iter().all(|value| *value == values[0])
        };
        let finding = if is_narrow { Finding::Same } else { Finding::Open };
        found.add(&[Compared { name: (*phase).to_owned(), finding }]);
    }
    found
}

/// Several targets: all beside the lead over all phases, and in each phase beside its best.
fn together(contest: &Contest<'_>, looks: &Looks, band: &Band) -> Found {
    let mut found = Found::default();
    let count = contest.labels.len();
    let lead = contest.lead();
    let whole = Family::of(count, |a, b| contest.advantage(a, b).0);
    if contest.phases.len() > 1 {
        let scope = "over all phases";
        found.add(&whole.beside(lead, |index| name(contest, scope, index, lead), looks, band, 1.0));
    }
    for (index, (phase, metric)) in contest.phases.iter().enumerate() {
        let values = &contest.values[index];
        let family = Family::of(count, |a, b| log_ratios(&values[a], &values[b]));
        let Some(best) = best(values, metric.better) else { continue };
        found.add(&family.beside(
            best,
            |other| name(contest, phase, other, best),
            looks,
            band,
            1.0,
        ));
    }
    found
}

fn name(contest: &Contest<'_>, scope: &str, target: usize, reference: usize) -> String {
    format!("{scope}: {} beside {}", contest.labels[target], contest.labels[reference])
}

/// All pairs of a phase, at this share of the 5 %.
fn pairs_of_phase(
    contest: &Contest<'_>,
    phase: usize,
    share: f64,
    looks: &Looks,
    band: &Band,
) -> Vec<Compared> {
    let values = &contest.values[phase];
    let family = Family::of(contest.labels.len(), |a, b| log_ratios(&values[a], &values[b]));
    let findings = family.findings(looks, band, share);
    let pairs = family.pairs.iter().zip(findings);
    pairs
        .map(|((a, b), finding)| Compared {
            name: name(contest, contest.phases[phase].0, *b, *a),
            finding,
        })
        .collect()
}

/// The target with the best median; the first of equals.
fn best(values: &[Blocks], better: Option<Better>) -> Option<usize> {
    let medians = values.iter().enumerate().filter_map(|(index, blocks)| {
        let values: Vec<f64> = blocks.values().copied().collect();
        Some((index, interval::median(&values)?))
    });
    match better? {
        Better::Higher => medians.rev().max_by(|a, b| a.1.total_cmp(&b.1)),
        Better::Lower => medians.min_by(|a, b| a.1.total_cmp(&b.1)),
    }
    .map(|(index, _)| index)
}

/// Logarithms of the ratios within blocks. Where a figure is not positive there are none, unless all are
/// equal.
fn log_ratios(a: &Blocks, b: &Blocks) -> Vec<f64> {
    let common = || a.iter().filter_map(|(block, value)| Some((*value, *b.get(block)?)));
    if common().all(|(a, b)| a == b) {
        return common().map(|_| 0.0).collect();
    }
    common().filter(|(a, b)| *a > 0.0 && *b > 0.0).map(|(a, b)| (a / b).ln()).collect()
}

/// All pairs of targets that are compared by one figure.
struct Family {
    pairs: Vec<(usize, usize)>,
    /// By pair; without values where a target has none.
    logarithms: Vec<Vec<f64>>,
}

impl Family {
    fn of(count: usize, logarithms: impl Fn(usize, usize) -> Vec<f64>) -> Family {
        let pairs: Vec<(usize, usize)> =
            (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
        let logarithms = pairs.iter().map(|(a, b)| logarithms(*a, *b)).collect();
        Family { pairs, logarithms }
    }

    fn findings(&self, looks: &Looks, band: &Band, share: f64) -> Vec<Finding> {
        let holm = |p: &dyn Fn(&[f64]) -> Option<f64>| {
            let p: Vec<Option<f64>> =
                self.logarithms.iter().map(|values| looks.p(p(values), values.len())).collect();
            compare::holm(&p)
        };
        let apart = holm(&interval::p_of_zero_mean);
        let same = holm(&|values| interval::p_of_mean_outside(values, band.0));
        let is_told = |p: Option<f64>| p.is_some_and(|p| p <= FAMILY_ERROR * share);
        let both = apart.into_iter().zip(same);
        both.map(|(apart, same)| match (is_told(same), is_told(apart)) {
            (_, true) => Finding::Different,
            (true, _) => Finding::Same,
            _ => Finding::Open,
        })
        .collect()
    }

    /// Every other target beside the one with index `reference`.
    fn beside(
        &self,
        reference: usize,
        name: impl Fn(usize) -> String,
        looks: &Looks,
        band: &Band,
        share: f64,
    ) -> Vec<Compared> {
        let findings = self.findings(looks, band, share);
        let all = self.pairs.iter().zip(findings);
        all.filter_map(|((a, b), finding)| {
            let other = match (*a == reference, *b == reference) {
                (true, _) => *b,
                (_, true) => *a,
                _ => return None,
            };
            Some(Compared { name: name(other), finding })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::param::Params;
    use fsdyno_model::target::{Ground, TargetSpec};

    use super::*;
    use crate::fixture;

    fn plan(targets: usize) -> Plan {
        let target = |index: usize| TargetSpec {
            label: char::from(b'a' + index as u8).to_string(),
            ground: Ground::Directory { path: "/".into() },
        };
        Plan {
            trials: 30,
            stop: Some(StopRule { resolution_permille: 30, min_trials: 3 }),
            targets: (0..targets).map(target).collect(),
            workloads: vec![WorkloadSpec {
                label: fixture::WORKLOAD.to_owned(),
                kind: "compilebench".to_owned(),
                params: Params::default(),
                definition: None,
            }],
            ..Plan::new(false)
        }
    }

    /// Trials of `a`, `b`, … that take these seconds in two phases, within so much of each other.
    fn trials(count: u32, noise: f64, seconds: &[[f64; 2]]) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for trial in 1..=count {
            for (index, [create, read]) in seconds.iter().enumerate() {
                let own = f64::from((trial * 7 + index as u32 * 3) % 5) / 4.0;
                let noise = 1.0 + noise * own;
                let label = char::from(b'a' + index as u8).to_string();
                let phases = [("create", create * noise), ("read", read * noise)];
                trials.push(fixture::trial(&label, trial, &phases));
            }
        }
        trials
    }

    fn decided(plan: &Plan, trials: &[TrialRecord]) -> Decision {
        decide(plan, &|_| vec!["create", "read"], 0, trials)
    }

    #[track_caller]
    fn assert_settled(decision: Decision, words: &str) {
        match decision {
            Decision::Settled { sentence } => assert_eq!(sentence, words),
            Decision::Continue { open } => panic!("open: {open:?}"),
        }
    }

    #[track_caller]
    fn assert_open(decision: Decision, expected: &[&str]) {
        match decision {
            Decision::Settled { sentence } => panic!("settled: {sentence}"),
            Decision::Continue { open } => assert_eq!(open, expected),
        }
    }

    #[test]
    fn without_a_rule_there_is_one_look_at_the_end() {
        let plan = Plan { stop: None, trials: 5, ..plan(2) };
        let looks = Looks::of(&plan);
        assert_eq!((1..9).filter(|n| looks.is_look(*n)).collect::<Vec<_>>(), [5]);
        assert!([2, 5, 99].iter().all(|n| looks.alpha(*n) == FAMILY_ERROR));
        assert_eq!(looks.p(Some(0.03), 4), Some(0.03));
        assert_open(decided(&plan, &trials(5, 0.001, &[[1.0, 1.0], [2.0, 2.0]])), &[]);
    }

    #[test]
    fn what_is_clear_is_settled_at_the_first_look() {
        let plan = plan(2);
        let clear = |count| trials(count, 0.002, &[[1.0, 1.0], [2.0, 3.0]]);
        assert_open(decided(&plan, &clear(2)), &["the first 3 trials"]);
        assert_settled(
            decided(&plan, &clear(3)),
            "all 3 comparisons show a difference after 3 trials",
        );
        let same = trials(8, 0.002, &[[1.0, 1.0], [1.0, 1.0]]);
        assert_settled(
            decided(&plan, &same),
            "all 3 comparisons are the same within ±3 % after 8 trials",
        );
        let mixed = trials(8, 0.002, &[[1.0, 1.0], [1.5, 1.0]]);
        assert_settled(
            decided(&plan, &mixed),
            "of 3 comparisons 2 show a difference and 1 are the same within ±3 % after 8 trials",
        );
    }

    #[test]
    fn what_is_not_clear_is_named() {
        let seconds = [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]];
        assert_open(
            decided(&plan(3), &trials(4, 0.3, &seconds)),
            &[
                "over all phases: b beside a",
                "over all phases: c beside a",
                "create: a beside b",
                "2 more",
            ],
        );
        let (plan, none) = (plan(1), &[[1.0, 1.0]]);
        assert_open(decided(&plan, &trials(4, 0.3, none)), &["create", "read"]);
        assert_settled(
            decided(&plan, &trials(9, 0.01, none)),
            "all 2 comparisons are the same within ±3 % after 9 trials",
        );
    }

    #[test]
    fn trials_that_failed_do_not_count() {
        let plan = plan(2);
        let mut all = trials(4, 0.002, &[[1.0, 1.0], [2.0, 3.0]]);
        for trial in all.iter_mut().filter(|trial| trial.target == "b") {
            trial.outcome = Outcome::Failed { stage: "mkfs".to_owned(), error: String::new() };
        }
        let few = "fewer than two targets complete compilebench";
        assert_settled(decided(&plan, &all), few);
        assert_open(decided(&plan, &all[..4]), &["the first 3 trials"]);
        // Two common trials of four tell nothing.
        for trial in all.iter_mut().filter(|trial| trial.trial > 2) {
            trial.outcome = Outcome::Completed;
        }
        assert!(matches!(decided(&plan, &all), Decision::Continue { .. }));
    }

    #[test]
    fn levels_share_the_whole() {
        for min_trials in [2, 3, 5, 10] {
            let stop = Some(StopRule { resolution_permille: 30, min_trials });
            let looks = Looks::of(&Plan { stop, ..plan(2) });
            let first = looks.first();
            assert!((0..first).all(|n| looks.alpha(n as usize) == 0.0 && !looks.is_look(n)));
            assert!(looks.is_look(first));
            assert_eq!(looks.p(Some(1e-9), 2), None);
            for n in first as usize..200 {
                let alpha = looks.alpha(n);
                assert!(alpha > 0.0 && alpha < FAMILY_ERROR, "{n}: {alpha}");
                assert!((looks.p(Some(alpha), n).unwrap() / FAMILY_ERROR - 1.0).abs() < 1e-6);
            }
        }
    }
}
