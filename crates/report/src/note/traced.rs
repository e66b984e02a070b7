//! What is to be said of block traces below a table.

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::Role;
use fsdyno_model::result::{RunResult, TrialResult};
use fsdyno_model::words::listed;

use super::{brief, left_out, measured};
use crate::text;

/// What is to be said of block traces: how much slower the trials were that are only traced, and why
/// some were not; or that the figures bear their cost. `None` where none was asked for.
pub fn traces(result: &RunResult) -> Option<String> {
    if measured(result).any(|trial| trial.trace.is_some()) {
        let text = "All trials were traced, so that the figures bear the cost of tracing.";
        return Some(text.to_owned());
    }
    let explaining = || result.trials.iter().filter(|trial| trial.role == Role::Explain);
    let left_out = left_out(result);
    let is_tried = |trial: &&TrialResult| !left_out.iter().any(|it| it.holds(&trial.workload));
    let mut told: Vec<String> = Vec::new();
    for workload in &result.workloads {
        let slowdowns: Vec<String> = (result.targets.iter())
            .filter_map(|target| {
                let (target, trials) = (&target.label, &result.trials);
                let ratio = fsdyno_analysis::explain::slowdown(trials, target, &workload.label)?;
                Some(text::unbroken(&format!("{target} {}", percent(ratio))))
            })
            .collect();
        if !slowdowns.is_empty() {
            let several = result.workloads.len() > 1;
            let lead = if several { format!("{}: ", workload.label) } else { String::new() };
            told.push(format!("{lead}{}", slowdowns.join(", ")));
        }
    }
    let mut sentences = Vec::new();
    if !told.is_empty() {
        let told = told.join("; ");
        sentences.push(format!(
            "Traced once more, which took beside the median of the untraced trials: {told}. `fsdyno report` draws the traces."
        ));
    }
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for trial in explaining().filter(is_tried).filter(|it| it.outcome != Outcome::Completed) {
        let sentence = brief(&trial.outcome.sentence());
        match reasons.iter_mut().find(|(known, _)| *known == sentence) {
            Some((_, targets)) if targets.contains(&trial.target.as_str()) => {}
            Some((_, targets)) => targets.push(&trial.target),
            None => reasons.push((sentence, vec![&trial.target])),
        }
    }
    sentences.extend(
        reasons
            .into_iter()
            .map(|(sentence, targets)| format!("No trace of {}: {sentence}.", listed(&targets))),
    );
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// `+1.3 %` of 1.013.
fn percent(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    let sign = if percent < 0.0 { "-" } else { "+" };
    format!("{sign}{:.1} %", percent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn traced_trials_are_told_of_beside_the_others() {
        let told = |result: &RunResult| traces(result).map(|it| it.replace(text::NO_BREAK, " "));
        assert_eq!(told(&fixture::three_targets()), None);
        assert_eq!(
            told(&fixture::with_traces()).unwrap(),
            "Traced once more, which took beside the median of the untraced trials: ext4 +5.0 %, \
             xfs -2.5 %. `fsdyno report` draws the traces. No trace of btrfs: skipped: the run had \
             used up its 30m 00s (max_time)."
        );
        let mut all = fixture::three_targets();
        let traced = fixture::with_traces();
        let trace = traced.trials.iter().find_map(|trial| trial.trace.clone());
        for trial in &mut all.trials {
            trial.trace.clone_from(&trace);
        }
        assert!(told(&all).unwrap().starts_with("All trials were traced"));
    }

    #[test]
    fn figures_of_traced_trials_count_nowhere() {
        let (untraced, traced) = (fixture::three_targets(), fixture::with_traces());
        assert_eq!(untraced.summary, traced.summary);
        assert_eq!(untraced.verdicts, traced.verdicts);
        assert_eq!(super::super::harness(&untraced), super::super::harness(&traced));
        assert!(super::super::incomplete(&traced, "compilebench").is_empty());
        let warnings = super::super::warnings(&traced);
        let lost = "the block trace lacks 3 of 1003 events (explain trial): sums over it are too \
                    small; the other figures stand.";
        assert!(warnings.contains(&lost.to_owned()), "{warnings:?}");
        let options = crate::table::TableOptions { width: 80, color: false, unicode: true };
        let table = crate::table::render(&traced, options);
        assert!(table.contains("Traced once more"), "{table}");
        assert!(crate::markdown::render(&traced).contains("Traced once more"));
    }
}
