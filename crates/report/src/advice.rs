//! Advice in the terminal. The ranking and its words are the analysis's.

use fsdyno_model::advice::{Advice, AdvisedWorkload, NextRun, Ranked};
use fsdyno_model::report_data::Ratio;
use fsdyno_model::units;
use fsdyno_model::words::listed;

use crate::list;
use crate::table::TableOptions;
use crate::text;

/// Trials that the time of the next run is told for.
const TOLD_TRIALS: f64 = 5.0;

/// The document as JSON, indented, with a newline at the end.
///
/// # Errors
/// Only when a value cannot be written as JSON, which no type of the document holds.
pub fn json(advice: &Advice) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(advice)? + "\n")
}

/// Ranking, words and what to run next, with a newline at the end.
#[must_use]
pub fn render(advice: &Advice, options: TableOptions) -> String {
    let wrap = |words: &str, indent: &str| text::wrap(words, options.width, indent) + "\n";
    let head = match &advice.work {
        Some(work) => format!("For {}: {work}", advice.who),
        None => format!("For {}.", advice.who),
    };
    let mut sections = vec![wrap(&head, "")];
    sections.push(advice.workloads.iter().map(|own| wrap(&evidence(own), "  ")).collect());
    if advice.ranking.len() > 1 {
        sections.push(ranking(advice, options.width));
        sections.push(wrap(
            &format!(
                "How many times as good as {}; on the whole by the geometric mean, weighted, with its 95 % interval. ~: not told apart from it.",
                advice.ranking[0].target
            ),
            "",
        ));
    }
    sections.extend(advice.words.iter().map(|words| wrap(words, "")));
    sections.push(advice.notes.iter().map(|note| wrap(&format!("- {note}"), "  ")).collect());
    if let Some(next) = &advice.next {
        sections.push(format!("{}\n  {}\n", wrap(&upcoming(next), "").trim_end(), next.command));
        sections.push(match &next.plan {
            Some(path) => format!("The same as a plan:\n  fsdyno run {path}\n"),
            None => wrap("--plan FILE.toml writes it as a plan, to be changed or kept.", ""),
        });
    }
    sections.retain(|section| !section.is_empty());
    text::plain(&sections.join("\n"), options.unicode)
}

/// `- varmail, 60 % of the whole: messages written … (run 2026…)`.
fn evidence(own: &AdvisedWorkload) -> String {
    let runs: Vec<&str> = own.runs.iter().map(String::as_str).collect();
    let found = match runs.as_slice() {
        [] => "not measured yet".to_owned(),
        [only] => format!("run {only}"),
        runs => format!("runs {}", listed(runs)),
    };
    let why = if own.why.is_empty() { String::new() } else { format!(": {}", own.why) };
    format!("- {}, {:.0} % of the whole{why} ({found})", own.spec, own.share * 100.0)
}

fn ranking(advice: &Advice, width: usize) -> String {
    let measured: Vec<usize> = advice
        .workloads
        .iter()
        .enumerate()
        .filter(|(_, own)| !own.runs.is_empty())
        .map(|(index, _)| index)
        .collect();
    let mut head = vec!["TARGET".to_owned(), "WHOLE".to_owned(), String::new()];
    head.extend(measured.iter().map(|index| advice.workloads[*index].spec.to_uppercase()));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let row = |(place, ranked): (usize, &Ranked)| {
        let tie = if ranked.is_tied { "~" } else { "" };
        let whole = match (&ranked.whole, place) {
            (_, 0) => "1".to_owned(),
            (Some(ratio), _) => format!("{tie}{}", times(ratio.ratio)),
            (None, _) => "–".to_owned(),
        };
        let ends = ranked.whole.as_ref().filter(|_| place > 0).and_then(interval);
        let mut cells = vec![ranked.target.clone(), whole, ends.unwrap_or_default()];
        cells.extend(measured.iter().map(|index| match (&ranked.parts[*index], place) {
            (_, 0) => "1".to_owned(),
            (Some(ratio), _) => part(ratio),
            (None, _) => "–".to_owned(),
        }));
        cells
    };
    let rows: Vec<Vec<String>> = advice.ranking.iter().enumerate().map(row).collect();
    list::columns(&head, &rows, width)
}

fn interval(ratio: &Ratio) -> Option<String> {
    Some(format!("[{}–{}]", times(ratio.low?), times(ratio.high?)))
}

/// The ratio in one workload, marked where its interval holds 1.
fn part(ratio: &Ratio) -> String {
    let is_apart = ratio.low.zip(ratio.high).is_some_and(|(low, high)| low > 1.0 || high < 1.0);
    format!("{}{}", if is_apart { "" } else { "~" }, times(ratio.ratio))
}

fn times(ratio: f64) -> String {
    if ratio < 9.995 { format!("{ratio:.2}") } else { units::significant(ratio) }
}

fn upcoming(next: &NextRun) -> String {
    match next.block_s {
        Some(seconds) => {
            let told = units::human_duration((seconds * TOLD_TRIALS).ceil() as u64 * 1_000_000_000);
            format!("What would settle it, about {told} for five trials of each:")
        }
        None => "What would settle it:".to_owned(),
    }
}
