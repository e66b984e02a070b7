//! Two runs beside each other: as a table for the terminal and as markdown for a pull request. The
//! figures are the analysis's.

mod markdown;
mod terminal;

use fsdyno_model::diff::{DiffRow, DiffVerdict, Difference, Movement, RunDiff};
use fsdyno_model::units;

use crate::text;

pub use markdown::render as markdown;
pub use terminal::render as table;

/// Movements that are shown of one figure.
const SHOWN_MOVEMENTS: usize = 6;
/// Differences that are shown of one thing.
const SHOWN_DIFFERENCES: usize = 10;
/// Columns of a value among the differences that are shown.
const SHOWN_VALUE: usize = 60;
/// Name of the row over all phases.
const WHOLE: &str = "all phases";

/// The document as JSON, indented, with a newline at the end.
///
/// # Errors
/// Only when a value cannot be written as JSON, which no type of the document holds.
pub fn json(diff: &RunDiff) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(diff)? + "\n")
}

/// The rows of each target and workload.
fn cases(diff: &RunDiff) -> Vec<(String, Vec<&DiffRow>)> {
    let mut cases: Vec<(String, Vec<&DiffRow>)> = Vec::new();
    for row in &diff.rows {
        let name = format!("{} · {}", row.target, row.workload);
        match cases.last_mut() {
            Some((known, rows)) if *known == name => rows.push(row),
            _ => cases.push((name, vec![row])),
        }
    }
    cases
}

/// The cells of a row: phase, base, new, ratio with interval, verdict.
struct Cells {
    phase: String,
    unit: String,
    base: String,
    new: String,
    ratio: String,
    adjusted: Option<String>,
    between: Option<String>,
    verdict: String,
}

impl Cells {
    fn of(diff: &RunDiff, row: &DiffRow) -> Cells {
        let (values, unit) = values(&row.unit, [row.base.median, row.new.median]);
        let [base, new] = values;
        Cells {
            phase: row.phase.clone().unwrap_or_else(|| WHOLE.to_owned()),
            unit,
            base,
            new,
            ratio: row.ratio.map_or_else(
                || "–".to_owned(),
                |ratio| match diff.exact {
                    true => format!("{:.5}", ratio.ratio),
                    false => ratio_text(ratio),
                },
            ),
            adjusted: row.adjusted.map(ratio_text),
            between: row.between.map(|it| format!("{}–{}", times(it.low), times(it.high))),
            verdict: verdict(diff, row),
        }
    }
}

fn times(value: f64) -> String {
    if value < 9.995 { format!("{value:.2}") } else { units::significant(value) }
}

fn ratio_text(ratio: fsdyno_model::diff::DiffRatio) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) if high / low > 100.0 => format!("{} [?]", times(ratio.ratio)),
        (Some(low), Some(high)) => {
            format!("{} [{}–{}]", times(ratio.ratio), times(low), times(high))
        }
        _ => times(ratio.ratio),
    }
}

/// Both values in one unit, seconds below ten as milliseconds.
pub(crate) fn values(unit: &str, values: [Option<f64>; 2]) -> ([String; 2], String) {
    let greatest = values.iter().flatten().fold(0.0f64, |a, b| a.max(b.abs()));
    let is_time = unit == "s" || unit.starts_with("s/");
    let (scale, unit) = match unit {
        "ns" if greatest >= 1e6 => (1e-6, "ms".to_owned()),
        "ns" if greatest >= 1e3 => (1e-3, "µs".to_owned()),
        _ if is_time && greatest < 1.0 && greatest > 0.0 => (1e3, format!("m{unit}")),
        _ => (1.0, unit.to_owned()),
    };
    (values.map(|value| value.map_or_else(|| "–".to_owned(), |it| number(it * scale))), unit)
}

pub(crate) fn number(value: f64) -> String {
    let suffixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    match suffixes.into_iter().find(|(least, _)| value.abs() >= *least) {
        Some((_, "k")) => format!("{}k", units::significant(value / 1e3)),
        Some((scale, suffix)) => format!("{}{suffix}", units::significant(value / scale)),
        None => units::significant(value),
    }
}

fn verdict(diff: &RunDiff, row: &DiffRow) -> String {
    let word = row.verdict.word();
    match row.verdict {
        DiffVerdict::Slower if !row.beyond_threshold => {
            format!("{word}, within {}", percent(diff.threshold))
        }
        DiffVerdict::Undecided => match row.trials_needed {
            Some(trials) => format!("{word} (n ≈ {trials})"),
            None => word.to_owned(),
        },
        _ => word.to_owned(),
    }
}

/// `text` in characters that every terminal has, when `unicode` is false.
pub(crate) fn plain(text: &str, unicode: bool) -> String {
    if unicode {
        return text.to_owned();
    }
    text::plain(&text.replace('→', "->").replace('≈', "~"), false)
}

/// `3 %`, `2.5 %`.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// `1.42 × device flushes: 120 → 170 [1.31–1.53]`.
fn movement(movement: &Movement) -> String {
    let (values, unit) = values(&movement.unit, [Some(movement.base), Some(movement.new)]);
    let [base, new] = values;
    let unit = if unit.is_empty() { unit } else { format!(" {unit}") };
    let times = |value: f64| {
        if value < 9.995 { format!("{value:.2}") } else { units::significant(value) }
    };
    let ends = match (movement.low, movement.high) {
        (Some(low), Some(high)) => format!(" [{}–{}]", times(low), times(high)),
        _ => String::new(),
    };
    format!("{} ×{ends} {}: {base} → {new}{unit}", times(movement.ratio), movement.title)
}

/// `mount_effective: rw,relatime → rw,noatime`.
fn difference(difference: &Difference) -> String {
    let shown = |value: &Option<String>| match value {
        None => "–".to_owned(),
        Some(text) => {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.chars().count() > SHOWN_VALUE {
                line.chars().take(SHOWN_VALUE - 1).collect::<String>() + "…"
            } else {
                line
            }
        }
    };
    let (base, new) = (shown(&difference.base), shown(&difference.new));
    if base == new {
        return format!("{}: differs beyond what is shown here", difference.name);
    }
    format!("{}: {base} → {new}", difference.name)
}

/// The differences of each thing, those that say most first.
fn differences(diff: &RunDiff) -> Vec<(&str, Vec<&Difference>)> {
    let mut found: Vec<(&str, Vec<&Difference>)> = Vec::new();
    for difference in &diff.differences {
        match found.iter_mut().find(|(of, _)| *of == difference.of) {
            Some((_, own)) => own.push(difference),
            None => found.push((&difference.of, vec![difference])),
        }
    }
    let first = ["spec", "mount_effective", "mkfs_command", "hostname", "kernel_release"];
    for (_, own) in &mut found {
        own.sort_by_key(|it| first.iter().position(|name| *name == it.name).unwrap_or(first.len()));
    }
    found
}

/// How many of the differences of one thing are not shown.
fn not_shown(own: &[&Difference]) -> Option<String> {
    let more = own.len().checked_sub(SHOWN_DIFFERENCES).filter(|more| *more > 0)?;
    Some(format!("and {more} more (--json has them)"))
}

/// What a reader must know to read the ratios.
fn legend(diff: &RunDiff) -> String {
    let band = percent(diff.threshold);
    if diff.exact {
        return format!(
            "Ratio: how many times as good the new run is, above 1 is better. Both runs are in virtual time, where a trial that is made again gives the same figures: there are no intervals, and a difference is a difference. Within {band}: too small to count as a regression."
        );
    }
    let deciding = if diff.adjusted { "adjusted ratios" } else { "ratios" };
    format!(
        "Ratio: how many times as good the new run is, above 1 is better, with its 95 % interval; values are medians. Verdicts are those of the {deciding}, corrected for all rows (Holm). Same: the interval lies within {band}. n: trials on each side that would probably decide."
    )
}

/// What is said of adjusted ratios where there are some.
const ADJUSTED: &str = "Adjusted: the ratio with that of the machines taken out, by the speeds that were timed in both runs (of the processor for the share in which the phase computed, of the device for the rest; by regression where the trials allow it). Between: where the ratio lies whatever the phase's time went with.";

fn has_adjusted(diff: &RunDiff) -> bool {
    diff.rows.iter().any(|row| row.adjusted.is_some())
}

#[cfg(test)]
mod tests;
