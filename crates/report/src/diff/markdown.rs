//! Two runs beside each other as GitHub markdown, for a comment on a pull request.

use fsdyno_model::diff::{DiffRow, DiffSide, DiffVerdict, RunDiff};

use super::{ADJUSTED, Cells, SHOWN_DIFFERENCES, SHOWN_MOVEMENTS};
use crate::markdown::escape;

/// The comparison, with a newline at the end.
#[must_use]
pub fn render(diff: &RunDiff) -> String {
    let mark = match (diff.is_slower, diff.counts.faster > 0) {
        (true, _) => "slower",
        (false, true) => "faster",
        (false, false) => "nothing slower",
    };
    let mut sections =
        vec![format!("### fsdyno: {mark}\n"), format!("{}\n", escape(&diff.summary))];
    let warnings: String = diff
        .warnings
        .iter()
        .map(|it| format!("> **Warning:** {}: {}\n", escape(&it.message), escape(&it.advice)))
        .collect();
    sections.push(warnings);
    for (name, rows) in super::cases(diff) {
        sections.push(case(diff, &name, &rows));
    }
    sections.push(moved(diff));
    sections.push(differences(diff));
    sections.push(format!(
        "<sub>base {} · new {}. {}{}</sub>\n",
        side(&diff.base),
        side(&diff.new),
        escape(&super::legend(diff)),
        if super::has_adjusted(diff) { format!(" {}", escape(ADJUSTED)) } else { String::new() }
    ));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn side(side: &DiffSide) -> String {
    let mut text = escape(&side.id);
    if let Some(kernel) = &side.kernel_release {
        text.push_str(&format!(" (Linux {})", escape(kernel)));
    }
    text
}

fn case(diff: &RunDiff, name: &str, rows: &[&DiffRow]) -> String {
    let cells: Vec<Cells> = rows.iter().map(|row| Cells::of(diff, row)).collect();
    let has_adjusted = cells.iter().any(|cells| cells.adjusted.is_some());
    let has_between = cells.iter().any(|cells| cells.between.is_some());
    let mut head = if has_adjusted { " adjusted |".to_owned() } else { String::new() };
    let mut rule = if has_adjusted { "--:|".to_owned() } else { String::new() };
    if has_between {
        head.push_str(" between |");
        rule.push_str("--:|");
    }
    let mut out = format!("**{}**\n\n", escape(name));
    out.push_str(&format!("| phase | unit | base | new | ratio |{head} verdict |\n"));
    out.push_str(&format!("|---|---|--:|--:|--:|{rule}---|\n"));
    for (row, cells) in rows.iter().zip(&cells) {
        let verdict = match row.verdict {
            DiffVerdict::Slower | DiffVerdict::Faster => format!("**{}**", cells.verdict),
            _ => cells.verdict.clone(),
        };
        let cell = |is_shown: bool, cell: &Option<String>| match cell {
            _ if !is_shown => String::new(),
            Some(text) => format!(" {} |", escape(text)),
            None => " – |".to_owned(),
        };
        let adjusted = cell(has_adjusted, &cells.adjusted) + &cell(has_between, &cells.between);
        out.push_str(&format!(
            "| {} | {} | {} | {} | {} |{adjusted} {verdict} |\n",
            escape(&cells.phase),
            cells.unit,
            cells.base,
            cells.new,
            escape(&cells.ratio),
        ));
    }
    out
}

/// What moved, folded.
fn moved(diff: &RunDiff) -> String {
    let mut out = String::new();
    for row in diff.rows.iter().filter(|row| !row.moved.is_empty()) {
        let phase = row.phase.as_deref().unwrap_or(super::WHOLE);
        let name = format!("{} {} {phase}", row.target, row.workload);
        out.push_str(&format!("\n{} ({}):\n\n", escape(&name), row.verdict.word()));
        for movement in row.moved.iter().take(SHOWN_MOVEMENTS) {
            out.push_str(&format!("- {}\n", escape(&super::movement(movement))));
        }
    }
    fold("What else moved", &out)
}

fn differences(diff: &RunDiff) -> String {
    let mut out = String::new();
    for (title, only) in [("Only base", &diff.only_base), ("Only new", &diff.only_new)] {
        out.extend(only.iter().map(|it| format!("- {title}: {}\n", escape(it))));
    }
    for (of, own) in super::differences(diff) {
        let shown = own.iter().take(SHOWN_DIFFERENCES).map(|it| super::difference(it));
        let all = shown.chain(super::not_shown(&own));
        out.extend(all.map(|it| format!("- {}: {}\n", escape(of), escape(&it))));
    }
    if out.is_empty() { out } else { fold("What differs between the runs", &format!("\n{out}")) }
}

fn fold(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<details><summary>{title}</summary>\n{body}\n</details>\n")
}
