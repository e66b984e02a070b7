//! The summary of a comparison of two runs, in words. The figures are [`crate::diff`]'s.

use fsdyno_model::diff::{DiffRow, DiffVerdict, RunDiff};

/// Rows that are named one by one.
const NAMED: usize = 5;

/// The whole in a few sentences. Ties are told as such: what is the same, and what is undecided.
pub(super) fn summary(diff: &RunDiff) -> String {
    let counts = diff.counts;
    let total = counts.faster + counts.slower + counts.same + counts.undecided;
    if total == 0 {
        return "The runs have no figure in common, so that nothing was compared.".to_owned();
    }
    let percent = percent(diff.threshold);
    let mut parts = Vec::new();
    for (count, words) in [
        (counts.slower, "slower".to_owned()),
        (counts.faster, "faster".to_owned()),
        (
            counts.same,
            if diff.exact { "the same".to_owned() } else { format!("the same within {percent}") },
        ),
        (counts.undecided, "undecided".to_owned()),
    ] {
        if count > 0 {
            parts.push(format!("{count} {words}"));
        }
    }
    let figures = if total == 1 { "1 figure" } else { &format!("{total} figures") };
    let mut sentences = vec![format!("Of {figures}: {}.", parts.join(", "))];
    sentences.extend(named(diff, "Slower", DiffVerdict::Slower));
    sentences.extend(named(diff, "Faster", DiffVerdict::Faster));
    let is_within = |row: &&DiffRow| row.verdict == DiffVerdict::Slower && !row.beyond_threshold;
    if diff.rows.iter().any(|row| is_within(&row)) && !diff.is_slower {
        sentences.push(format!("What is slower is so by no more than about {percent}."));
    }
    sentences.extend(undecided(diff));
    sentences.join(" ")
}

fn named(diff: &RunDiff, word: &str, verdict: DiffVerdict) -> Option<String> {
    let mut rows: Vec<&DiffRow> =
        diff.rows.iter().filter(|row| row.phase.is_some() && row.verdict == verdict).collect();
    let size = |row: &DiffRow| deciding(diff, row).map_or(f64::INFINITY, |ratio| ratio.ln().abs());
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let names: Vec<String> = rows.iter().take(NAMED).map(|row| name(diff, row)).collect();
    let more = match rows.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("{word}: {}{more}.", names.join("; ")))
}

/// `ext4 small-files create (0.87 ×)`.
fn name(diff: &RunDiff, row: &DiffRow) -> String {
    let phase = row.phase.as_deref().unwrap_or_default();
    let decimals = if diff.exact { 5 } else { 2 };
    let ratio =
        deciding(diff, row).map(|ratio| format!(" ({ratio:.decimals$} ×)")).unwrap_or_default();
    format!("{} {} {phase}{ratio}", row.target, row.workload)
}

/// The ratio that the verdict is made of.
fn deciding(diff: &RunDiff, row: &DiffRow) -> Option<f64> {
    let adjusted = row.adjusted.filter(|_| diff.adjusted);
    adjusted.or(row.ratio).map(|ratio| ratio.ratio)
}

fn undecided(diff: &RunDiff) -> Option<String> {
    let open: Vec<&DiffRow> = diff
        .rows
        .iter()
        .filter(|row| row.phase.is_some() && row.verdict == DiffVerdict::Undecided)
        .collect();
    if open.is_empty() {
        return None;
    }
    let needed: Vec<u32> = open.iter().filter_map(|row| row.trials_needed).collect();
    let single = open.iter().any(|row| row.base.n < 2 || row.new.n < 2);
    let least_n = open.iter().map(|row| row.base.n.min(row.new.n)).min().unwrap_or(0);
    Some(match needed.iter().max() {
        None if single => {
            "One trial tells nothing about scatter: run at least 3 of each (--trials 3).".to_owned()
        }
        None => "No number of trials up to 10,000 would decide what is undecided.".to_owned(),
        Some(most) => {
            let had =
                if least_n == 1 { "it has 1".to_owned() } else { format!("they have {least_n}") };
            let scope = if needed.len() == open.len() { "" } else { " most of" };
            format!(
                "About {most} trials on each side would decide{scope} what is undecided; {had} now."
            )
        }
    })
}

/// `3 %`, `2.5 %`.
fn percent(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}
