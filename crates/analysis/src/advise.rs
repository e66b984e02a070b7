//! How targets rank for somebody's work, from runs that were made for other reasons and at other times.
//!
//! The work is several workloads with weights. Two targets are compared within one run only, because only
//! there they shared the machine's luck: for each workload in the newest run that has both. The logarithms of
//! their geometric means are averaged by the weights. Runs are independent of each other, so the half-widths of
//! their intervals add as the root of the sum of their squares, weighted likewise; each is that of its own run,
//! valid whenever its trials ended. Told apart is decided at 5 % over all pairs by Bonferroni's correction.

use fsdyno_model::advice::Ranked;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::report_data::Ratio;
use fsdyno_model::words::listed;

use crate::compare::FAMILY_ERROR;
use crate::contest::Contest;
use crate::interval;
use crate::series::WorkloadOrder;
use crate::stopping::Looks;

/// Greatest difference that nobody needs to care about, as the default of `--resolution`.
const SAME: f64 = 0.03;

/// One workload of the work.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// As users write it.
    pub spec: &'a str,
    /// Weight beside the others.
    pub weight: f64,
}

/// One run that has one of the workloads.
pub struct Evidence<'a> {
    /// Identifier of the run.
    pub run: &'a str,
    /// Index of the workload among the parts.
    pub part: usize,
    /// The workload as the run calls it.
    pub workload: WorkloadOrder<'a>,
    /// Labels of the targets.
    pub targets: Vec<&'a str>,
    /// All trials of the run.
    pub trials: &'a [TrialRecord],
    /// When its trials ended.
    pub looks: Looks,
}

/// What the evidence amounts to.
#[derive(Debug, Clone, PartialEq)]
pub struct Standings {
    /// Targets, best first.
    pub ranking: Vec<Ranked>,
    /// The advice, a sentence each.
    pub words: Vec<String>,
    /// Labels of the targets that a further run must have to name the best; empty when the best is known.
    pub open_targets: Vec<String>,
    /// Indices of the workloads that were not measured on the first two targets in one run.
    pub open_parts: Vec<usize>,
    /// For each part the runs that were made use of, newest first.
    pub runs: Vec<Vec<String>>,
}

/// How far one target is ahead of another, as a logarithm.
#[derive(Debug, Clone, Copy)]
struct Lead {
    mean: f64,
    /// Half of the interval; `None` with fewer than two blocks.
    half: Option<f64>,
}

impl Lead {
    fn ratio(self) -> Ratio {
        let end = |sign: f64| self.half.map(|half| (self.mean + sign * half).exp());
        Ratio { ratio: self.mean.exp(), low: end(-1.0), high: end(1.0) }
    }

    fn is_apart(self) -> bool {
        self.half.is_some_and(|half| self.mean.abs() > half)
    }

    fn is_same(self) -> bool {
        self.half.is_some_and(|half| self.mean.abs() + half < SAME.ln_1p())
    }
}

/// Every pair of targets, workload by workload.
struct Comparisons<'a> {
    parts: &'a [Part<'a>],
    /// Index of the evidence and its values.
    contests: Vec<(&'a Evidence<'a>, Contest<'a>)>,
    labels: Vec<&'a str>,
}

/// Ranks the targets of `evidence`, which is sorted by age, newest first. `who` is for the words.
#[must_use]
pub fn advise(who: &str, parts: &[Part<'_>], evidence: &[Evidence<'_>]) -> Standings {
    let present: Vec<Vec<&str>> = evidence.iter().map(completed).collect();
    let contests: Vec<(&Evidence<'_>, Contest<'_>)> = evidence
        .iter()
        .zip(&present)
        .map(|(own, labels)| (own, Contest::of(labels, &own.workload, own.trials)))
        .collect();
    let mut labels: Vec<&str> = Vec::new();
    for label in present.iter().flatten() {
        if !labels.contains(label) {
            labels.push(label);
        }
    }
    Comparisons { parts, contests, labels }.standings(who)
}

/// Targets with a trial that counts.
fn completed<'a>(evidence: &Evidence<'a>) -> Vec<&'a str> {
    let counts = |target: &&&str| {
        evidence.trials.iter().any(|trial| {
            trial.outcome == Outcome::Completed
                && trial.role == Role::Measured
                && trial.target == **target
                && trial.workload == evidence.workload.label
        })
    };
    evidence.targets.iter().filter(counts).copied().collect()
}

impl Comparisons<'_> {
    /// The newest run that has a workload and both targets, and what it says at the error `total`.
    fn part(&self, part: usize, a: &str, b: &str, total: f64) -> Option<(&str, Lead)> {
        self.contests.iter().filter(|(own, _)| own.part == part).find_map(|(own, contest)| {
            let place = |label: &str| contest.labels.iter().position(|known| *known == label);
            let logarithms = contest.advantage(place(a)?, place(b)?).0;
            let mean = interval::mean(&logarithms)?;
            let alpha = own.looks.alpha_of(total, logarithms.len());
            let ends = interval::t_interval(&logarithms, alpha);
            Some((own.run, Lead { mean, half: ends.map(|ends| (ends.high - ends.low) / 2.0) }))
        })
    }

    /// The whole, over the workloads that have both.
    fn whole(&self, a: &str, b: &str, total: f64) -> Option<Lead> {
        let (mut weights, mut mean, mut square) = (0.0, 0.0, Some(0.0));
        for (index, part) in self.parts.iter().enumerate() {
            if let Some((_, lead)) = self.part(index, a, b, total) {
                weights += part.weight;
                mean += part.weight * lead.mean;
                square =
                    square.zip(lead.half).map(|(sum, half)| sum + (part.weight * half).powi(2));
            }
        }
        (weights > 0.0)
            .then(|| Lead { mean: mean / weights, half: square.map(|it: f64| it.sqrt() / weights) })
    }

    fn standings(self, who: &str) -> Standings {
        let ranked = self.ranked();
        let Some(first) = ranked.first().copied() else {
            let words = vec![format!(
                "Nothing that stands for {who} has been measured here yet: the command below begins with it."
            )];
            let open_parts = (0..self.parts.len()).collect();
            let runs = vec![Vec::new(); self.parts.len()];
            return Standings { ranking: vec![], words, open_targets: vec![], open_parts, runs };
        };
        let pairs = (ranked.len() * (ranked.len() - 1) / 2).max(1);
        let pair_error = FAMILY_ERROR / pairs as f64;
        let is_tied = |label: &str| {
            label != first && !self.whole(label, first, pair_error).is_some_and(Lead::is_apart)
        };
        let is_same =
            |label: &str| self.whole(label, first, FAMILY_ERROR).is_some_and(Lead::is_same);
        let ranking: Vec<Ranked> = ranked
            .iter()
            .map(|label| Ranked {
                target: (*label).to_owned(),
                whole: self.whole(label, first, FAMILY_ERROR).map(Lead::ratio),
                is_tied: is_tied(label),
                parts: (0..self.parts.len())
                    .map(|part| Some(self.part(part, label, first, FAMILY_ERROR)?.1.ratio()))
                    .collect(),
            })
            .collect();
        let tied: Vec<&str> = ranked.iter().copied().filter(|label| is_tied(label)).collect();
        let open: Vec<&str> = tied.iter().copied().filter(|label| !is_same(label)).collect();
        let mut words = vec![self.recommendation(who, &ranked, &tied, &open)];
        words.extend(self.exceptions(&ranked, pair_error));
        let second = ranked.get(1).copied().unwrap_or(first);
        let lacks = |part: &usize| self.part(*part, first, second, pair_error).is_none();
        let open_targets = match open.as_slice() {
            [] => Vec::new(),
            open => std::iter::once(first).chain(open.iter().copied()).map(str::to_owned).collect(),
        };
        let open_parts = (0..self.parts.len()).filter(lacks).collect();
        Standings { ranking, words, open_targets, open_parts, runs: self.runs(&ranked) }
    }

    /// Labels by how far each is ahead of the others on the average, first of equals first.
    fn ranked(&self) -> Vec<&str> {
        let score = |label: &str| {
            let others = self.labels.iter().filter(|other| **other != label);
            let leads: Vec<f64> = others
                .filter_map(|other| Some(self.whole(label, other, FAMILY_ERROR)?.mean))
                .collect();
            interval::mean(&leads).unwrap_or(f64::NEG_INFINITY)
        };
        let mut scored: Vec<(f64, &str)> =
            self.labels.iter().map(|label| (score(label), *label)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().map(|(_, label)| label).collect()
    }

    /// The runs of each part, newest first.
    fn runs(&self, ranked: &[&str]) -> Vec<Vec<String>> {
        let of_part = |part: usize| {
            let mut used: Vec<String> = Vec::new();
            for (index, a) in ranked.iter().enumerate() {
                for b in &ranked[index + 1..] {
                    if let Some((run, _)) = self.part(part, a, b, FAMILY_ERROR)
                        && !used.iter().any(|known| known == run)
                    {
                        used.push(run.to_owned());
                    }
                }
            }
            used
        };
        (0..self.parts.len()).map(of_part).collect()
    }

    fn recommendation(&self, who: &str, ranked: &[&str], tied: &[&str], open: &[&str]) -> String {
        let first = ranked[0];
        let [_, second, ..] = ranked else {
            return format!(
                "Only {first} has been measured: there is nothing to compare it with for {who}."
            );
        };
        let ahead = |label: &str| {
            let Some(lead) = self.whole(first, label, FAMILY_ERROR) else {
                return format!("no run has both {first} and {label}");
            };
            let ratio = lead.ratio();
            match (ratio.low, ratio.high) {
                (Some(low), Some(high)) => {
                    format!("{:.2} × as good as {label} ({low:.2}–{high:.2})", ratio.ratio)
                }
                _ => format!("{:.2} × as good as {label} (one trial)", ratio.ratio),
            }
        };
        if tied.is_empty() {
            let told: Vec<String> = ranked[1..].iter().map(|label| ahead(label)).collect();
            return format!("Take {first} for {who}: it came out {}.", told.join(", "));
        }
        let rest: Vec<&str> =
            ranked[1..].iter().copied().filter(|label| !tied.contains(label)).collect();
        let all = if tied.len() == 1 { "Both" } else { "All of them" };
        let beside = match rest.as_slice() {
            [] => String::new(),
            rest => format!(" {all} are ahead of {}.", listed(rest)),
        };
        let names: Vec<&str> = std::iter::once(first).chain(tied.iter().copied()).collect();
        let names = listed(&names);
        if open.is_empty() {
            return format!(
                "{names} are the same for {who}, within 3 %: choose by what you know or need besides speed.{beside}"
            );
        }
        format!(
            "{names} are not told apart yet for {who}: {first} was ahead, {}, but not by more than chance explains.{beside}",
            ahead(second)
        )
    }

    /// The workloads in which another target is clearly ahead of the first.
    fn exceptions(&self, ranked: &[&str], pair_error: f64) -> Vec<String> {
        let error = pair_error / self.parts.len().max(1) as f64;
        let of_part = |(index, part): (usize, &Part<'_>)| {
            let ahead = |label: &&&str| {
                self.part(index, label, ranked[0], error)
                    .is_some_and(|(_, lead)| lead.mean > 0.0 && lead.is_apart())
            };
            let better: Vec<&str> = ranked[1..].iter().filter(ahead).copied().collect();
            (!better.is_empty()).then(|| {
                let verb = if better.len() == 1 { "was" } else { "were" };
                format!(
                    "In {} {} {verb} better: if that matters most to you, look there.",
                    part.spec,
                    listed(&better)
                )
            })
        };
        self.parts.iter().enumerate().filter_map(of_part).collect()
    }
}

#[cfg(test)]
mod tests;
