//! The fairness audit and the answered checklists as text and markdown, and the documentation of the
//! rules. What is compared and how it is judged is decided by the analysis.

use fsdyno_analysis::audit::{Rule, Scope, rules};
use fsdyno_analysis::checklist;
use fsdyno_model::audit::{AuditRow, Fairness, Judgement, Status, WorkloadAudit};
use fsdyno_model::result::RunResult;
use serde_json::{Value, json};

use crate::list::{self, ListFormat};
use crate::text;

/// What the verdict of a workload must say besides: before it where targets are not comparable, after it
/// where there are notes.
pub(crate) enum Remark<'a> {
    /// To be read first.
    Before(&'a str),
    /// To be read after the verdict.
    After(&'a str),
}

/// The remark on the verdict labelled `label`; `None` where nothing was compared.
pub(crate) fn remark<'a>(result: &'a RunResult, label: &str) -> Option<Remark<'a>> {
    let own = result.audit.of_verdict(label)?;
    match own.fairness? {
        Fairness::NotComparable => Some(Remark::Before(&own.text)),
        Fairness::Comparable | Fairness::ComparableWithNotes => Some(Remark::After(&own.text)),
    }
}

/// The facts of a workload and of its targets, those that weigh most first.
pub(crate) fn sorted<'a>(result: &'a RunResult, own: &'a WorkloadAudit) -> Vec<&'a AuditRow> {
    let mut rows: Vec<&AuditRow> = result.audit.rows.iter().chain(&own.rows).collect();
    let weight = |row: &AuditRow| match row.status {
        Status::Different => 0,
        Status::Unknown => 1,
        Status::Same => 2,
    };
    rows.sort_by_key(|row| (std::cmp::Reverse(row.judgement), weight(row)));
    rows
}

/// What a row shows of its targets: one value where it is the same on all.
pub(crate) fn values(row: &AuditRow) -> String {
    let asked = if row.as_asked { " (as asked)" } else { "" };
    let mut known = row.values.iter().map(|fact| fact.value.as_deref());
    let first = known.next().flatten();
    match first {
        Some(value) if known.all(|other| other == first) => value.to_owned(),
        _ if row.values.iter().all(|fact| fact.value.is_none()) => "unknown".to_owned(),
        _ => row.grouped() + asked,
    }
}

fn judgement(row: &AuditRow) -> String {
    match row.judgement {
        Judgement::Fine => String::new(),
        judgement => judgement.word().to_owned(),
    }
}

const HEAD: [&str; 4] = ["FACT", "IS", "JUDGED", "VALUES"];

/// The audit for a terminal of `width` columns.
#[must_use]
pub fn audit_text(result: &RunResult, width: usize) -> String {
    let mut page = String::new();
    for own in &result.audit.workloads {
        if !page.is_empty() {
            page.push('\n');
        }
        page.push_str(&format!("{}\n", own.workload));
        let verdict = if own.text.is_empty() { "Nothing was compared." } else { &own.text };
        page.push_str(&format!("{}\n\n", text::wrap(verdict, width, "")));
        let rows: Vec<Vec<String>> = sorted(result, own)
            .into_iter()
            .map(|row| {
                vec![row.title.clone(), row.status.word().to_owned(), judgement(row), values(row)]
            })
            .collect();
        page.push_str(&list::columns(&HEAD, &rows, width));
        let why: Vec<String> = sorted(result, own)
            .into_iter()
            .filter(|row| !row.sentence.is_empty())
            .map(|row| text::wrap(&format!("- {}", row.sentence), width, "  ") + "\n")
            .collect();
        if !why.is_empty() {
            page.push('\n');
            page.extend(why);
        }
    }
    page
}

/// The audit as markdown.
#[must_use]
pub fn audit_markdown(result: &RunResult) -> String {
    let mut page = String::from("## Fairness audit\n");
    for own in &result.audit.workloads {
        page.push_str(&format!("\n### {}\n\n", cell(&own.workload)));
        let verdict = if own.text.is_empty() { "Nothing was compared." } else { &own.text };
        page.push_str(&format!(
            "{}\n\n| fact | is | judged | values |\n|---|---|---|---|\n",
            cell(verdict)
        ));
        for row in sorted(result, own) {
            page.push_str(&format!(
                "| {} | {} | {} | {} |\n",
                cell(&row.title),
                row.status.word(),
                judgement(row),
                cell(&values(row))
            ));
        }
        let why = sorted(result, own).into_iter().filter(|row| !row.sentence.is_empty());
        let why: Vec<String> = why.map(|row| format!("- {}\n", cell(&row.sentence))).collect();
        if !why.is_empty() {
            page.push('\n');
            page.extend(why);
        }
    }
    page
}

/// The checklists for a terminal of `width` columns.
#[must_use]
pub fn checklist_text(result: &RunResult, width: usize) -> String {
    let paragraphs = checklist::answers(result).into_iter().map(|it| {
        let question = text::wrap(&format!("{} ({})", it.question, it.source), width, "");
        let answer = text::wrap(&format!("  {}", it.answer), width, "  ");
        format!("{question}\n{answer}\n")
    });
    paragraphs.collect::<Vec<String>>().join("\n")
}

/// The checklists as markdown.
#[must_use]
pub fn checklist_markdown(result: &RunResult) -> String {
    let mut page =
        String::from("## Checklist\n\n| question | asked by | answer |\n|---|---|---|\n");
    for it in checklist::answers(result) {
        let (question, answer) = (cell(&it.question), cell(&it.answer));
        page.push_str(&format!("| {question} | {} | {answer} |\n", it.source));
    }
    page
}

/// Text in a cell of a markdown table, taken literally.
fn cell(text: &str) -> String {
    crate::markdown::escape(text)
}

/// The list of rules, as documentation.
#[must_use]
pub fn rules_page(format: ListFormat) -> String {
    let all = rules();
    match format {
        ListFormat::Json => {
            let value: Value = all.iter().map(|rule| rule_json(rule)).collect();
            serde_json::to_string_pretty(&value).expect("plain values") + "\n"
        }
        ListFormat::Text { .. } => {
            let entries: Vec<(&str, &str)> =
                all.iter().map(|rule| (rule.name, rule.judged)).collect();
            list::entries("Rules of the audit", &entries, format)
        }
        ListFormat::Markdown => rules_markdown(&all),
    }
}

fn rule_json(rule: &Rule) -> Value {
    json!({
        "name": rule.name,
        "title": rule.title,
        "of": match rule.scope { Scope::Target => "target", Scope::Workload => "workload" },
        "reason": rule.reason,
        "judged": rule.judged,
        "source": rule.source,
    })
}

fn rules_markdown(all: &[&Rule]) -> String {
    let mut page = String::from(INTRODUCTION);
    let groups = [
        (Scope::Target, "## Facts of targets and machine\n"),
        (Scope::Workload, "## Facts of a workload\n"),
    ];
    for (scope, heading) in groups {
        page.push_str(&format!("\n{heading}"));
        for rule in all.iter().filter(|rule| rule.scope == scope) {
            page.push_str(&format!(
                "\n### {}\n\n`{}`. {}\n\n- **Judged:** {}\n- **Source:** {}\n",
                rule.title,
                rule.name,
                cell(rule.reason),
                cell(rule.judged),
                cell(rule.source)
            ));
        }
    }
    page
}

const INTRODUCTION: &str = "\
# Fairness audit

Before a verdict, facts that were read back from the kernel, the superblocks and the records of the trials are
compared across the targets. `fsdyno show --audit` prints them, the report has a section of them, the
result document holds them under `audit`. This page is made from the list of rules
(`fsdyno list audit --markdown`).

A fact is *same*, *different* or *unknown*; several values on one target mean that it changed from trial to
trial. A difference is judged:

- **fine**: it does not bear on the comparison.
- **note**: filesystems differ by it, or it changes figures a little. The verdict names it.
- **not comparable**: it alone can decide who is faster, and is no property of the filesystem. The verdict
  begins with it, and `--strict` makes the exit code 1.

*As asked* means that targets differ by nothing but what the user wrote in them. Two targets of one
filesystem that differ so are not compared as filesystems, but are a fair test of the option; the verdict says
which. Targets that completed no trial are left out, and so are traced trials. One target alone has facts
and no verdict.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::table::{self, TableOptions};

    const OPTIONS: TableOptions = TableOptions { width: 80, color: false, unicode: true };

    fn row(rule: &str, judgement: Judgement, values: [Option<&str>; 2]) -> AuditRow {
        let same = values[0] == values[1];
        AuditRow {
            rule: rule.to_owned(),
            title: rule.replace('-', " "),
            values: ["ext4", "x|fs"]
                .into_iter()
                .zip(values)
                .map(|(target, value)| fsdyno_model::audit::TargetFact {
                    target: target.to_owned(),
                    value: value.map(str::to_owned),
                })
                .collect(),
            status: if same { Status::Same } else { Status::Different },
            judgement,
            as_asked: judgement == Judgement::NotComparable,
            sentence: match judgement {
                Judgement::Fine => String::new(),
                _ => format!("{rule}: because."),
            },
        }
    }

    fn audited(fairness: Option<Fairness>, words: &str) -> RunResult {
        let mut result = fixture::targets_with_trials(&["ext4", "xfs"], 3);
        result.audit.rows = vec![
            row("atime", Judgement::Fine, [Some("relatime"), Some("relatime")]),
            row("data-checksums", Judgement::Note, [Some("no"), Some("crc32c")]),
            row("barriers", Judgement::NotComparable, [Some("on"), Some("off")]),
        ];
        result.audit.workloads = vec![WorkloadAudit {
            workload: result.workloads[0].label.clone(),
            rows: vec![row("trials", Judgement::Fine, [Some("3 of 3"), None])],
            fairness,
            text: words.to_owned(),
        }];
        result
    }

    #[test]
    fn a_verdict_says_first_that_targets_are_not_comparable() {
        let words = "Not comparable because of barriers (on: ext4; off: xfs, as asked).";
        let result = audited(Some(Fairness::NotComparable), words);
        let text = table::render(&result, OPTIONS).replace('\n', " ");
        assert!(text.contains(&format!("Verdict: {words} ext4 was fastest")), "{text}");
        let page = crate::markdown::render(&result);
        assert!(page.contains(&format!("**Verdict:** {words} ext4 was fastest")), "{page}");
    }

    #[test]
    fn a_verdict_ends_with_the_notes() {
        let words = "Comparable with notes: data checksums.";
        let result = audited(Some(Fairness::ComparableWithNotes), words);
        let text = table::render(&result, OPTIONS).replace('\n', " ");
        assert!(text.trim_end().ends_with(words), "{text}");
        assert!(remark(&audited(None, ""), &result.workloads[0].label).is_none());
    }

    #[test]
    fn what_weighs_most_comes_first() {
        let result = audited(Some(Fairness::NotComparable), "Not comparable.");
        insta::assert_snapshot!(audit_text(&result, 72), @r"
compilebench
Not comparable.

FACT            IS         JUDGED          VALUES
barriers        different  not comparable  on: ext4; off: x|fs (as
                                           asked)
data checksums  different  note            no: ext4; crc32c: x|fs
trials          different                  3 of 3: ext4; unknown: x|fs
atime           same                       relatime

- barriers: because.
- data-checksums: because.
");
        let page = audit_markdown(&result);
        assert!(
            page.contains(
                r"| barriers | different | not comparable | on: ext4; off: x\|fs (as asked) |"
            ),
            "{page}"
        );
    }

    #[test]
    fn checklists_and_rules_have_every_form() {
        let result = audited(Some(Fairness::Comparable), "Comparable.");
        for line in checklist_text(&result, 72).lines() {
            assert!(text::width(line) <= 72, "{line}");
        }
        assert_eq!(
            checklist_markdown(&result).matches("\n|").count(),
            2 + checklist::answers(&result).len()
        );
        let page = rules_page(ListFormat::Markdown);
        for rule in rules() {
            assert!(page.contains(&format!("\n`{}`. ", rule.name)), "{}", rule.name);
        }
        assert!(rules_page(ListFormat::Text { width: 80 }).contains("barriers"));
        let parsed: Value = serde_json::from_str(&rules_page(ListFormat::Json)).unwrap();
        assert_eq!(parsed.as_array().unwrap().len(), rules().len());
    }
}
