//! What the numbers of a workload say, in words that need no statistics to read.
//!
//! The overall figure of two targets is the geometric mean, over the phases that both have in a
//! block, of how many times better one is than the other, whichever way is better. Each block gives
//! one such figure; the interval and the test are over the blocks. Every phase of the workload
//! counts the same; fsck does not count, since it is no part of the workload, and neither do phases
//! whose figures explain performance, such as how files lie on the device.

use std::collections::BTreeSet;

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::TrialRecord;
use fsdyno_model::result::Verdict;
use fsdyno_model::units;
use fsdyno_model::words::{counted, listed};

use crate::compare::{self, Paired};
use crate::contest::Contest;
use crate::series::WorkloadOrder;
use crate::stopping::Looks;

/// Ratio of the ends of an interval beyond which its figures say nothing.
const WIDEST_INTERVAL: f64 = 100.0;

/// Trials from which on a verdict can be worth something; what is asked for after a single one.
const TRIALS_ADVISED: u32 = 3;

/// The verdict of each workload; `targets` are labels, in the order in which they were given.
#[must_use]
pub fn verdicts(
    targets: &[&str],
    workloads: &[WorkloadOrder<'_>],
    trials: &[TrialRecord],
    looks: &Looks,
) -> Vec<Verdict> {
    workloads
        .iter()
        .map(|workload| Verdict {
            workload: workload.label.to_owned(),
            text: text(targets, workload, trials, looks),
        })
        .collect()
}

fn text(
    targets: &[&str],
    workload: &WorkloadOrder<'_>,
    trials: &[TrialRecord],
    looks: &Looks,
) -> String {
    let attendance: Vec<Attendance<'_>> =
        targets.iter().map(|target| Attendance::of(target, workload.label, trials)).collect();
    let (present, absent): (Vec<&Attendance<'_>>, Vec<&Attendance<'_>>) =
        attendance.iter().partition(|attendance| attendance.completed > 0);
    let mut sentences = Vec::new();
    match present.as_slice() {
        [] => {
            let told: Vec<String> = absent.iter().map(|absent| absent.told()).collect();
            return format!(
                "No trial completed, so there is nothing to compare: {}.",
                told.join("; ")
            );
        }
        [only] if targets.len() == 1 => sentences.push(format!(
            "{} completed {} of {}. With one target there is nothing to compare: name a second, such as another filesystem or other options.",
            only.label,
            only.completed,
            counted(only.planned, "trial")
        )),
        [only] => sentences
            .push(format!("Only {} completed: there is nothing to compare it with.", only.label)),
        _ => {
            let labels: Vec<&str> = present.iter().map(|present| present.label).collect();
            sentences.extend(comparison(&Contest::of(&labels, workload, trials), looks));
        }
    }
    for partly in present.iter().filter(|present| present.completed < present.planned) {
        sentences.push(format!(
            "{} completed {} of {} ({}).",
            partly.label,
            partly.completed,
            counted(partly.planned, "trial"),
            partly.reason.as_deref().unwrap_or("no reason is known")
        ));
    }
    if !absent.is_empty() {
        let told: Vec<String> = absent.iter().map(|absent| absent.told()).collect();
        sentences.push(format!("Left out: {}.", told.join("; ")));
    }
    let mut said = BTreeSet::new();
    sentences.retain(|sentence| said.insert(sentence.clone()));
    sentences.join(" ")
}

/// How many trials of a target completed, and why the first other one did not.
struct Attendance<'a> {
    label: &'a str,
    completed: usize,
    planned: usize,
    reason: Option<String>,
}

impl<'a> Attendance<'a> {
    fn of(label: &'a str, workload: &str, trials: &[TrialRecord]) -> Attendance<'a> {
        let own = || trials.iter().filter(|t| t.target == label && t.workload == workload);
        let reason = own().find_map(|trial| reason(&trial.outcome));
        Attendance {
            label,
            completed: own().filter(|trial| trial.outcome == Outcome::Completed).count(),
            planned: own().count(),
            reason,
        }
    }

    fn told(&self) -> String {
        format!("{} ({})", self.label, self.reason.as_deref().unwrap_or("no trial was recorded"))
    }
}

/// What became of a trial that did not complete, without the error: whoever shows a verdict shows
/// the errors in the notes.
fn reason(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Completed => None,
        Outcome::Skipped { .. } => Some("skipped, see the notes".to_owned()),
        Outcome::Failed { stage, .. } => Some(format!("failed in {stage}, see the notes")),
        Outcome::TimedOut { stage, .. } => Some(format!("timed out in {stage}, see the notes")),
        Outcome::Interrupted { .. } => Some(outcome.sentence()),
    }
}

/// A target against the lead.
struct Rival<'a> {
    label: &'a str,
    paired: Paired,
    told_apart: bool,
}

fn comparison(contest: &Contest<'_>, looks: &Looks) -> Vec<String> {
    let lead = contest.lead();
    let pairs = contest.pairs(looks);
    let mut used = BTreeSet::new();
    let mut rivals: Vec<Rival<'_>> = Vec::new();
    for (index, label) in contest.labels.iter().enumerate().filter(|(index, _)| *index != lead) {
        let (advantage, phases) = contest.advantage(lead, index);
        used.extend(phases);
        let paired = compare::of_log_ratios(&advantage, looks);
        let told_apart = pairs.are_apart(lead, index, 1.0);
        rivals.push(Rival { label, paired, told_apart });
    }
    rivals.sort_by(|a, b| {
        let ratio = |rival: &Rival<'_>| rival.paired.ratio.unwrap_or(f64::INFINITY);
        ratio(a).total_cmp(&ratio(b))
    });
    if used.is_empty() {
        return vec!["The targets have no phase of a common trial to be compared by.".to_owned()];
    }
    let scope = match (used.len(), contest.phases.len()) {
        (1, 1) => format!("in {}", contest.phases[0].0),
        (used, all) if used == all => format!("over all {all} phases by the geometric mean"),
        (used, all) => {
            format!("over the {used} of {all} phases in common by the geometric mean")
        }
    };
    let is_exact = looks.is_exact(1);
    let telling =
        Telling { is_exact, comparisons: pairs.test_count(), are_several: looks.are_several() };
    let mut sentences = overall(contest, contest.labels[lead], &rivals, &scope, telling);
    sentences.extend(phases_won_by_others(contest, lead, looks));
    sentences
}

/// How intervals were made, as far as readers must know.
#[derive(Clone, Copy)]
struct Telling {
    /// Pairs that were corrected for.
    comparisons: usize,
    /// Whether trials ended by what they showed.
    are_several: bool,
    /// Whether one trial decides.
    is_exact: bool,
}

fn overall(
    contest: &Contest<'_>,
    lead: &str,
    rivals: &[Rival<'_>],
    scope: &str,
    telling: Telling,
) -> Vec<String> {
    let (fastest, fast) =
        if contest.is_about_speed() { ("fastest", "fast") } else { ("best", "good") };
    let told: Vec<String> = rivals
        .iter()
        .enumerate()
        .map(|(index, rival)| rival_text(rival, (index == 0).then_some(fast), telling))
        .collect();
    let told = told.join(", ");
    if rivals.iter().all(|rival| rival.paired.ratio == Some(1.0)) {
        return vec![format!("All targets came out the same {scope}.")];
    }
    if !telling.is_exact && rivals.iter().all(|rival| rival.paired.blocks < 2) {
        return vec![
            format!("{lead} came out ahead {scope}: {told}."),
            format!(
                "One trial cannot tell a difference from chance: take at least {TRIALS_ADVISED} (--trials {TRIALS_ADVISED}) before relying on this."
            ),
        ];
    }
    if rivals.iter().all(|rival| !rival.told_apart) {
        return vec![format!(
            "No target is clearly {fastest} {scope}; {lead} was ahead, but not by more than chance explains: {told}."
        )];
    }
    let tied: Vec<&str> = std::iter::once(lead)
        .chain(rivals.iter().filter(|rival| !rival.told_apart).map(|rival| rival.label))
        .collect();
    vec![match tied.as_slice() {
        [lead] => format!("{lead} was {fastest} {scope}: {told}."),
        tied => format!("{} were {fastest} {scope}. {lead} was ahead: {told}.", listed(tied)),
    }]
}

/// `1.32 × as fast as btrfs (95 % interval 1.25–1.40)`; the words are spelt out in the `first`.
fn rival_text(rival: &Rival<'_>, first: Option<&str>, telling: Telling) -> String {
    let label = rival.label;
    let Some(ratio) = rival.paired.ratio else {
        return format!("no common trial with {label}");
    };
    let ends = rival.paired.ratio_ci95;
    // A difference that two digits would hide gets more.
    let all = [Some(ratio), ends.map(|ends| ends.low), ends.map(|ends| ends.high)];
    let shows = |decimals: usize| {
        all.iter().flatten().all(|ratio| times(*ratio, decimals) != times(1.0, decimals))
    };
    let decimals =
        if rival.told_apart { (2..5).find(|digits| shows(*digits)).unwrap_or(5) } else { 2 };
    let times = |ratio| times(ratio, decimals);
    let mut text = match first {
        Some(fast) => format!("{} × as {fast} as {label}", times(ratio)),
        None => format!("{} × {label}", times(ratio)),
    };
    let Some(ends) = ends else {
        return text;
    };
    if !rival.told_apart && ends.high > WIDEST_INTERVAL * ends.low {
        let trials = counted(rival.paired.blocks, "trial");
        text.push_str(&format!(
            " (not told apart: {trials} give an interval wider than a factor of 100)"
        ));
        return text;
    }
    let words = if first.is_some() { "95 % interval " } else { "" };
    text.push_str(&format!(" ({words}{}–{}", times(ends.low), times(ends.high)));
    if !rival.told_apart {
        text.push_str(&format!(": not told apart with {}", counted(rival.paired.blocks, "trial")));
        if !ends.contains(1.0) {
            text.push_str(&format!(", corrected for {} comparisons", telling.comparisons));
        }
    }
    if first.is_some() && telling.are_several {
        text.push_str(", valid whenever trials end");
    }
    text.push(')');
    text
}

fn times(ratio: f64, decimals: usize) -> String {
    if ratio < 9.995 { format!("{ratio:.decimals$}") } else { units::significant(ratio) }
}

/// `xfs won create and stat; btrfs won read.` for the phases in which the lead is told apart from
/// the best.
fn phases_won_by_others(contest: &Contest<'_>, lead: usize, looks: &Looks) -> Option<String> {
    let mut won: Vec<Vec<&str>> = vec![Vec::new(); contest.labels.len()];
    for ((phase, metric), values) in contest.phases.iter().zip(&contest.values) {
        let standings = compare::standings(values, &compare::pairs(values, looks), metric.better);
        let lead_lost =
            !values[lead].is_empty() && !standings[lead].best && !standings[lead].tied_with_best;
        if let Some(best) =
            standings.iter().position(|standing| standing.best).filter(|_| lead_lost)
        {
            won[best].push(phase);
        }
    }
    let told: Vec<String> = contest
        .labels
        .iter()
        .zip(&won)
        .filter(|(_, phases)| !phases.is_empty())
        .map(|(label, phases)| format!("{label} won {}", listed(phases)))
        .collect();
    (!told.is_empty()).then(|| format!("{}.", told.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, WORKLOAD};

    const PHASES: &[&str] = &["create", "read", "stat"];

    /// Completed trials whose phases take these seconds, with noise in whole blocks and a little in
    /// each trial.
    fn trials(target: &str, count: u32, seconds: [f64; 3]) -> Vec<TrialRecord> {
        let noise = |trial: u32| {
            let own = f64::from((trial * 7 + u32::from(target.as_bytes()[0])) % 5) / 500.0;
            (1.0 + f64::from(trial % 3) / 10.0) * (1.0 + own)
        };
        let phases = |trial: u32| -> Vec<(&str, f64)> {
            PHASES.iter().zip(seconds).map(|(name, s)| (*name, s * noise(trial))).collect()
        };
        (1..=count).map(|trial| fixture::trial(target, trial, &phases(trial))).collect()
    }

    fn failed(target: &str, trial: u32, outcome: Outcome) -> TrialRecord {
        TrialRecord::planned(target, WORKLOAD, trial, trial, outcome)
    }

    #[test]
    fn in_virtual_time_one_trial_decides() {
        let mut plan = fsdyno_model::plan::Plan::new(false);
        plan.place.clock = fsdyno_model::place::Clock::Virtual;
        let mut all = trials("ext4", 1, [1.0, 1.0, 1.0]);
        all.extend(trials("xfs", 1, [1.001, 1.001, 1.001]));
        let order = WorkloadOrder { label: WORKLOAD, phases: PHASES.to_vec() };
        let told = verdicts(&["ext4", "xfs"], &[order], &all, &Looks::of(&plan)).remove(0).text;
        assert!(told.contains("was fastest") && !told.contains("chance"), "{told}");
        assert!(!told.contains("--trials") && !told.contains("interval"), "{told}");
    }

    fn verdict(targets: &[&str], trials: &[TrialRecord]) -> String {
        let order = WorkloadOrder { label: WORKLOAD, phases: PHASES.to_vec() };
        verdicts(targets, &[order], trials, &Looks::ONE).remove(0).text
    }

    #[test]
    fn a_clear_lead_names_what_others_won() {
        let mut all = trials("ext4", 3, [1.0, 1.0, 1.0]);
        all.extend(trials("btrfs", 3, [2.0, 2.0, 0.5]));
        all.extend(trials("xfs", 3, [1.1, 1.1, 1.1]));
        assert_eq!(
            verdict(&["ext4", "xfs", "btrfs"], &all),
            "ext4 was fastest over all 3 phases by the geometric mean: 1.10 × as fast as xfs (95 % interval 1.09–1.12), 1.26 × btrfs (1.24–1.28). btrfs won stat."
        );
    }

    #[test]
    fn what_is_not_told_apart_is_said_so() {
        let mut all = trials("ext4", 3, [1.0, 1.0, 1.0]);
        all.extend(trials("xfs", 3, [1.002, 1.002, 1.002]));
        let text = verdict(&["ext4", "xfs"], &all);
        assert!(text.starts_with("No target is clearly fastest over all 3 phases"), "{text}");
        assert!(text.contains("not told apart with 3 trials"), "{text}");
        all.extend(trials("btrfs", 3, [2.0, 2.0, 2.0]));
        let text = verdict(&["ext4", "xfs", "btrfs"], &all);
        assert!(text.contains(" were fastest over all 3 phases"), "{text}");
        assert!(text.contains(": not told apart with 3 trials), "), "{text}");
    }

    #[test]
    fn an_interval_that_says_nothing_is_not_printed() {
        let all: Vec<TrialRecord> = [("a", [1.0, 1.0]), ("b", [1.5, 50.0])]
            .iter()
            .flat_map(|(target, times)| {
                (1..=2).map(|n| fixture::trial(target, n, &[("create", times[n as usize - 1])]))
            })
            .collect();
        let text = verdict(&["a", "b"], &all);
        assert!(text.contains("2 trials give an interval wider than a factor of 100"), "{text}");
        assert!(!text.contains("95 %"), "{text}");
    }

    #[test]
    fn equal_values_have_no_winner() {
        let all: Vec<TrialRecord> = ["a", "b"]
            .iter()
            .flat_map(|t| (1..=3).map(|n| fixture::trial(t, n, &[("create", 1.0)])))
            .collect();
        assert_eq!(verdict(&["a", "b"], &all), "All targets came out the same in create.");
    }

    #[test]
    fn a_small_difference_that_is_certain_shows() {
        let all: Vec<TrialRecord> = [("a", 1.0), ("b", 1.004)]
            .iter()
            .flat_map(|(t, s)| (1..=3).map(|n| fixture::trial(t, n, &[("create", *s)])))
            .collect();
        assert_eq!(
            verdict(&["a", "b"], &all),
            "a was fastest in create: 1.004 × as fast as b (95 % interval 1.004–1.004)."
        );
    }

    #[test]
    fn one_trial_tells_nothing_for_sure() {
        let mut all = trials("ext4", 1, [1.0, 1.0, 1.0]);
        all.extend(trials("xfs", 1, [2.0, 2.0, 2.0]));
        assert_eq!(
            verdict(&["xfs", "ext4"], &all),
            "ext4 came out ahead over all 3 phases by the geometric mean: 2.00 × as fast as xfs. One trial cannot tell a difference from chance: take at least 3 (--trials 3) before relying on this."
        );
    }

    #[test]
    fn those_that_did_not_complete_are_named() {
        let broken = Outcome::Failed {
            stage: "mkfs".to_owned(),
            error: "mkfs.xfs ended with 1.\nmore".to_owned(),
        };
        let absent = Outcome::Skipped { reason: "mkfs.btrfs is not installed".to_owned() };
        let all = [failed("xfs", 1, broken.clone()), failed("btrfs", 1, absent.clone())];
        assert_eq!(
            verdict(&["xfs", "btrfs"], &all),
            "No trial completed, so there is nothing to compare: xfs (failed in mkfs, see the notes); btrfs (skipped, see the notes)."
        );
        let mut all = trials("ext4", 3, [1.0, 1.0, 1.0]);
        assert_eq!(
            verdict(&["ext4"], &all),
            "ext4 completed 3 of 3 trials. With one target there is nothing to compare: name a second, such as another filesystem or other options."
        );
        all.push(failed("btrfs", 1, absent));
        assert_eq!(
            verdict(&["ext4", "btrfs"], &all),
            "Only ext4 completed: there is nothing to compare it with. Left out: btrfs (skipped, see the notes)."
        );
        all.extend(trials("xfs", 2, [2.0, 2.0, 2.0]));
        all.push(failed("xfs", 3, broken));
        let text = verdict(&["ext4", "xfs", "btrfs", "zfs"], &all);
        assert!(text.starts_with("ext4 was fastest"), "{text}");
        assert!(
            text.contains(" xfs completed 2 of 3 trials (failed in mkfs, see the notes)."),
            "{text}"
        );
        assert!(text.ends_with("; zfs (no trial was recorded)."), "{text}");
    }

    #[test]
    fn phases_that_are_not_common_do_not_count() {
        let all = [
            fixture::trial("a", 1, &[("create", 1.0), ("read", 1.0)]),
            fixture::trial("b", 1, &[("create", 2.0), ("stat", 9.0)]),
        ];
        let text = verdict(&["a", "b"], &all);
        assert!(text.contains("over the 1 of 3 phases in common"), "{text}");
        let all =
            [fixture::trial("a", 1, &[("read", 1.0)]), fixture::trial("b", 2, &[("read", 1.0)])];
        let text = verdict(&["a", "b"], &all);
        assert_eq!(text, "The targets have no phase of a common trial to be compared by.");
    }

    #[test]
    fn fsck_does_not_count() {
        let mut all = trials("a", 2, [1.0, 1.0, 1.0]);
        all.extend(trials("b", 2, [2.0, 2.0, 2.0]));
        for trial in &mut all {
            let mut fsck = fsdyno_model::record::PhaseRecord::new("fsck", "elapsed_s");
            fsck.elapsed_return_ns = if trial.target == "a" { 1_000_000_000_000 } else { 1 };
            trial.phases.push(fsck);
        }
        let text = verdict(&["a", "b"], &all);
        assert!(text.starts_with("a was fastest over all 3 phases"), "{text}");
        assert!(!text.contains("fsck"), "{text}");
    }

    #[test]
    fn what_explains_performance_is_no_part_of_it() {
        let mut all = trials("a", 3, [1.0, 1.0, 1.0]);
        all.extend(trials("b", 3, [2.0, 2.0, 2.0]));
        let plain = verdict(&["a", "b"], &all);
        for trial in &mut all {
            let extents = if trial.target == "a" { 1348.0 } else { 3.0 };
            let names = [("fragmentation", "extents_per_file"), ("layout", "inline_share")];
            trial.phases.extend(names.map(|(phase, metric)| {
                let mut record = fsdyno_model::record::PhaseRecord::new(phase, metric);
                record.values.insert(metric.to_owned(), extents);
                record
            }));
        }
        assert_eq!(verdict(&["a", "b"], &all), plain);
        assert!(plain.starts_with("a was fastest over all 3 phases"), "{plain}");
    }
}
