//! Documentation of what fsdyno knows: workloads, filesystems and metrics, for the terminal, as
//! markdown and as JSON. The pages in `docs/catalog` are this markdown.

use fsdyno_model::info::{FilesystemInfo, WorkloadInfo};
use fsdyno_model::metric::{Better, Metric};
use fsdyno_model::param::ParamDef;
use serde_json::{Value, json};

use crate::text;

/// In what form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
    /// For a terminal of so many columns.
    Text {
        /// Columns of the terminal.
        width: usize,
    },
    /// GitHub markdown.
    Markdown,
    /// An array or an object, indented.
    Json,
}

/// All workloads, one line each; everything in JSON.
#[must_use]
pub fn workloads(infos: &[&WorkloadInfo], format: ListFormat) -> String {
    match format {
        ListFormat::Json => pretty(&infos.iter().map(|info| workload_json(info)).collect()),
        _ => entries(
            "Workloads",
            &infos.iter().map(|info| (info.name, info.summary)).collect::<Vec<_>>(),
            format,
        ),
    }
}

/// One workload with its documentation, phases and parameters.
#[must_use]
pub fn workload(info: &WorkloadInfo, format: ListFormat) -> String {
    match format {
        ListFormat::Text { width } => workload_text(info, width),
        ListFormat::Markdown => workload_markdown(info),
        ListFormat::Json => pretty(&workload_json(info)),
    }
}

/// All filesystems.
#[must_use]
pub fn filesystems(infos: &[&FilesystemInfo], format: ListFormat) -> String {
    if format == ListFormat::Json {
        let value = infos.iter().map(|info| {
            json!({
                "name": info.name,
                "summary": info.summary,
                "external_journal": info.external_journal,
            })
        });
        return pretty(&value.collect());
    }
    let summaries: Vec<String> = infos
        .iter()
        .map(|info| match info.external_journal {
            Some(journal) => {
                format!("{} (`{}+{journal}`: with an external {journal})", info.summary, info.name)
            }
            None => info.summary.to_owned(),
        })
        .collect();
    let pairs: Vec<(&str, &str)> =
        infos.iter().zip(&summaries).map(|(info, text)| (info.name, text.as_str())).collect();
    entries("Filesystems", &pairs, format)
}

/// All metrics.
#[must_use]
pub fn metrics(metrics: &[Metric], format: ListFormat) -> String {
    let direction = |metric: &Metric| match metric.better {
        Some(Better::Higher) => Some("higher"),
        Some(Better::Lower) => Some("lower"),
        None => None,
    };
    let rows: Vec<Vec<String>> = metrics
        .iter()
        .map(|metric| {
            vec![
                metric.name.to_owned(),
                metric.unit.to_owned(),
                direction(metric).unwrap_or_default().to_owned(),
                metric.doc.to_owned(),
            ]
        })
        .collect();
    let head = ["metric", "unit", "better", "meaning"];
    match format {
        ListFormat::Text { width } => columns(&head, &rows, width),
        ListFormat::Markdown => format!("# Metrics\n\n{}", markdown_table(&head, &rows)),
        ListFormat::Json => {
            let value = metrics.iter().map(|metric| {
                json!({
                    "name": metric.name,
                    "unit": metric.unit,
                    "better": direction(metric),
                    "doc": metric.doc,
                })
            });
            pretty(&value.collect())
        }
    }
}

/// Names with one line each: whatever else a catalogue holds, such as kinds of devices.
#[must_use]
pub fn entries(title: &str, entries: &[(&str, &str)], format: ListFormat) -> String {
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|(name, summary)| vec![(*name).to_owned(), (*summary).to_owned()])
        .collect();
    let head = ["name", "what it is"];
    match format {
        ListFormat::Text { width } => columns(&head, &rows, width),
        ListFormat::Markdown => format!("# {title}\n\n{}", markdown_table(&head, &rows)),
        ListFormat::Json => {
            let value =
                entries.iter().map(|(name, summary)| json!({ "name": name, "summary": summary }));
            pretty(&value.collect())
        }
    }
}

/// The five points of a workload's documentation with their headings.
fn points(info: &WorkloadInfo) -> [(&'static str, &'static str); 5] {
    [
        ("Timed", info.doc.timed),
        ("Not timed", info.doc.not_timed),
        ("Models", info.doc.models),
        ("Read it as", info.doc.read_it_as),
        ("Caveats", info.doc.caveats),
    ]
}

const DIFFERENCE_HEAD: [&str; 2] = ["the original", "mode=corrected"];
const PARAMETER_HEAD: [&str; 5] = ["parameter", "values", "default", "--quick", "meaning"];

fn parameter_row(def: &ParamDef) -> Vec<String> {
    let shown = |value: &str| {
        if value.is_empty() { "none".to_owned() } else { value.to_owned() }
    };
    vec![
        def.name.to_owned(),
        def.range(),
        shown(def.default),
        def.quick.map(shown).unwrap_or_default(),
        def.doc.to_owned(),
    ]
}

fn workload_text(info: &WorkloadInfo, width: usize) -> String {
    let mut text =
        format!("{}\n", text::wrap(&format!("{}: {}", info.name, info.summary), width, ""));
    for (heading, words) in points(info) {
        text.push('\n');
        text.push_str(&text::wrap(&format!("{heading}: {words}"), width, "  "));
        text.push('\n');
    }
    let phases: Vec<Vec<String>> =
        info.phases.iter().map(|phase| vec![phase.name.to_owned(), phase.doc.to_owned()]).collect();
    text.push('\n');
    text.push_str(&columns(&["phase", "what it does"], &phases, width));
    text.push('\n');
    for def in info.params {
        let quick = def.quick.map(|quick| format!(", with --quick {quick}")).unwrap_or_default();
        let default = if def.default.is_empty() { "none" } else { def.default };
        let words = format!("{}=VALUE  {} (default: {default}{quick})", def.name, def.range());
        text.push_str(&text::wrap(&words, width, "    "));
        text.push('\n');
        text.push_str("    ");
        text.push_str(&text::wrap(def.doc, width.saturating_sub(4), "").replace('\n', "\n    "));
        text.push('\n');
    }
    if !info.differences.is_empty() {
        text.push_str("\nDifferences between mode=original and mode=corrected\n");
    }
    for (original, corrected) in info.differences {
        text.push('\n');
        for (mode, words) in [("original: ", original), ("corrected:", corrected)] {
            let lead = format!("  {}", mode.replace(' ', "\u{a0}"));
            text.push_str(&text::wrap(&format!("{lead} {words}"), width, &" ".repeat(13)));
            text.push('\n');
        }
    }
    text
}

fn workload_markdown(info: &WorkloadInfo) -> String {
    let mut text = format!("# {}\n\n{}\n", info.name, info.summary);
    for (heading, words) in points(info) {
        text.push_str(&format!("\n**{heading}.** {words}\n"));
    }
    let phases: Vec<Vec<String>> =
        info.phases.iter().map(|phase| vec![phase.name.to_owned(), phase.doc.to_owned()]).collect();
    text.push_str("\n## Phases\n\n");
    text.push_str(&markdown_table(&["phase", "what it does"], &phases));
    let parameters: Vec<Vec<String>> = info.params.iter().map(parameter_row).collect();
    text.push_str("\n## Parameters\n\n");
    text.push_str(&markdown_table(&PARAMETER_HEAD, &parameters));
    if !info.differences.is_empty() {
        let rows = info.differences.iter();
        let rows: Vec<Vec<String>> =
            rows.map(|(original, here)| vec![(*original).to_owned(), (*here).to_owned()]).collect();
        text.push_str("\n## Differences from the original\n\n");
        text.push_str(&markdown_table(&DIFFERENCE_HEAD, &rows));
    }
    text
}

fn workload_json(info: &WorkloadInfo) -> Value {
    let parameters: Vec<Value> = info
        .params
        .iter()
        .map(|def| {
            json!({
                "name": def.name,
                "values": def.range(),
                "default": def.default,
                "quick_default": def.quick,
                "doc": def.doc,
            })
        })
        .collect();
    let phases: Vec<Value> =
        info.phases.iter().map(|phase| json!({ "name": phase.name, "doc": phase.doc })).collect();
    json!({
        "name": info.name,
        "summary": info.summary,
        "timed": info.doc.timed,
        "not_timed": info.doc.not_timed,
        "models": info.doc.models,
        "read_it_as": info.doc.read_it_as,
        "caveats": info.doc.caveats,
        "phases": phases,
        "parameters": parameters,
        "differences": info.differences.iter().map(|(original, corrected)| json!({
            "original": original,
            "corrected": corrected,
        })).collect::<Vec<Value>>(),
    })
}

/// Columns between the first and the last are cut to this width.
const MIDDLE_MOST: usize = 24;
/// Columns between are cut to no less than this for the last column to wrap well.
const MIDDLE_LEAST: usize = 16;
/// Columns are cut to no less than this so that `width` is held.
const COLUMN_LEAST: usize = 8;
/// Columns that the last column gets at least, if its cells need them.
const LAST_LEAST: usize = 20;

/// Columns as wide as their widest cell, the first whole, those between cut, the last wrapped at
/// words within `width`. Every row has as many cells as `head`, which has at least one.
#[must_use]
pub fn columns(head: &[&str], rows: &[Vec<String>], width: usize) -> String {
    let head: Vec<String> = head.iter().map(|head| (*head).to_owned()).collect();
    let last = head.len() - 1;
    let widths = column_widths(&head, rows, width);
    let indent: usize = widths.iter().map(|width| width + 2).sum();
    let room = width.saturating_sub(indent).max(COLUMN_LEAST);
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&text::pad(&text::cut(cell, *width, true), width + 2, false));
        }
        let words: Vec<String> =
            row[last].split(' ').map(|word| text::cut(word, room, true)).collect();
        let words = text::wrap(&words.join(" "), room, "");
        line.push_str(&words.replace('\n', &format!("\n{}", " ".repeat(indent))));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Widths of all columns but the last.
fn column_widths(head: &[String], rows: &[Vec<String>], width: usize) -> Vec<usize> {
    let last = head.len() - 1;
    let widest = |column: usize| {
        let cells = std::iter::once(head).chain(rows.iter().map(Vec::as_slice));
        cells.map(|row| text::width(&row[column])).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..last)
        .map(|column| if column == 0 { widest(0) } else { widest(column).min(MIDDLE_MOST) })
        .collect();
    let room = |widths: &[usize]| {
        width.saturating_sub(widths.iter().map(|width| width + 2).sum::<usize>())
    };
    let last_cells = || std::iter::once(&head[last]).chain(rows.iter().map(|row| &row[last]));
    let longest_word =
        last_cells().flat_map(|cell| cell.split(' ')).map(text::width).max().unwrap_or(0);
    // The widest of those between give way: a little for prose that wraps well, more for a word that
    // would be cut; then the first.
    for (wanted, least) in [(widest(last), MIDDLE_LEAST), (longest_word, COLUMN_LEAST)] {
        while room(&widths) < wanted.min(LAST_LEAST) {
            match (1..last).max_by_key(|column| widths[*column]) {
                Some(column) if widths[column] > least => widths[column] -= 1,
                _ => break,
            }
        }
    }
    while room(&widths) < COLUMN_LEAST && widths.first().is_some_and(|first| *first > COLUMN_LEAST)
    {
        widths[0] -= 1;
    }
    widths
}

fn markdown_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        // The catalogues may use markdown; only what would break the table is taken literally.
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', r"\|")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use fsdyno_model::info::{PhaseInfo, WorkloadDoc};
    use fsdyno_model::metric;
    use fsdyno_model::param::ParamKind;

    use super::*;

    static WORKLOAD: WorkloadInfo = WorkloadInfo {
        name: "compilebench",
        summary: "kernel trees that are created, patched, compiled, read and deleted",
        doc: WorkloadDoc {
            timed: "every operation on one tree, until its data are on the device",
            not_timed: "making the lists of files and dropping the caches",
            models: "a developer's disk over some months of work",
            read_it_as: "more MiB/s: less waiting for the disk",
            caveats: "one process, so that locks are never contended",
        },
        differences: &[],
        params: &[
            ParamDef {
                name: "trees",
                kind: ParamKind::Count { min: 1, max: 1000 },
                default: "10",
                quick: Some("2"),
                doc: "trees that are created at first",
                check: None,
            },
            ParamDef {
                name: "mode",
                kind: ParamKind::Choice(&["original", "corrected"]),
                default: "corrected",
                quick: None,
                doc: "whose arithmetic is used",
                check: None,
            },
            ParamDef {
                name: "datasets",
                kind: ParamKind::Text,
                default: "",
                quick: None,
                doc: "directory with the four dataset files",
                check: None,
            },
        ],
        phases: &[
            PhaseInfo { name: "initial-create", doc: "the trees are created one after the other" },
            PhaseInfo { name: "stat", doc: "every file of a tree is looked up" },
        ],
    };
    const XFS: FilesystemInfo = FilesystemInfo {
        name: "xfs",
        summary: "extents and parallel allocation groups",
        external_journal: Some("log"),
    };
    const BTRFS: FilesystemInfo =
        FilesystemInfo { name: "btrfs", summary: "copy on write", external_journal: None };
    const TEXT: ListFormat = ListFormat::Text { width: 72 };

    #[test]
    fn a_workload_as_text() {
        insta::assert_snapshot!(workload(&WORKLOAD, TEXT), @r"
compilebench: kernel trees that are created, patched, compiled, read and
deleted

Timed: every operation on one tree, until its data are on the device

Not timed: making the lists of files and dropping the caches

Models: a developer's disk over some months of work

Read it as: more MiB/s: less waiting for the disk

Caveats: one process, so that locks are never contended

phase           what it does
initial-create  the trees are created one after the other
stat            every file of a tree is looked up

trees=VALUE  1 … 1000 (default: 10, with --quick 2)
    trees that are created at first
mode=VALUE  original | corrected (default: corrected)
    whose arithmetic is used
datasets=VALUE  text (default: none)
    directory with the four dataset files
");
    }

    #[test]
    fn a_workload_as_markdown() {
        insta::assert_snapshot!(workload(&WORKLOAD, ListFormat::Markdown), @r"
# compilebench

kernel trees that are created, patched, compiled, read and deleted

**Timed.** every operation on one tree, until its data are on the device

**Not timed.** making the lists of files and dropping the caches

**Models.** a developer's disk over some months of work

**Read it as.** more MiB/s: less waiting for the disk

**Caveats.** one process, so that locks are never contended

## Phases

| phase | what it does |
|---|---|
| initial-create | the trees are created one after the other |
| stat | every file of a tree is looked up |

## Parameters

| parameter | values | default | --quick | meaning |
|---|---|---|---|---|
| trees | 1 … 1000 | 10 | 2 | trees that are created at first |
| mode | original \| corrected | corrected |  | whose arithmetic is used |
| datasets | text | none |  | directory with the four dataset files |
");
    }

    #[test]
    fn lists_as_text() {
        insta::assert_snapshot!(format!(
            "{}\n{}",
            workloads(&[&WORKLOAD], TEXT),
            filesystems(&[&XFS, &BTRFS], TEXT)
        ), @r"
name          what it is
compilebench  kernel trees that are created, patched, compiled, read and
              deleted

name   what it is
xfs    extents and parallel allocation groups (`xfs+log`: with an
       external log)
btrfs  copy on write
");
    }

    #[test]
    fn lists_as_markdown() {
        insta::assert_snapshot!(filesystems(&[&XFS, &BTRFS], ListFormat::Markdown), @r"
# Filesystems

| name | what it is |
|---|---|
| xfs | extents and parallel allocation groups (`xfs+log`: with an external log) |
| btrfs | copy on write |
");
    }

    #[test]
    fn json_holds_everything() {
        let value: Value =
            serde_json::from_str(&workloads(&[&WORKLOAD], ListFormat::Json)).unwrap();
        assert_eq!(value[0]["parameters"][0]["quick_default"], "2");
        assert!(value[0]["parameters"][1]["quick_default"].is_null());
        assert_eq!(value[0]["phases"][1]["name"], "stat");
        let one: Value = serde_json::from_str(&workload(&WORKLOAD, ListFormat::Json)).unwrap();
        assert_eq!(one, value[0]);
        let value: Value = serde_json::from_str(&filesystems(&[&XFS], ListFormat::Json)).unwrap();
        assert_eq!(value[0]["external_journal"], "log");
        let value: Value =
            serde_json::from_str(&entries("Devices", &[("loop", "an image")], ListFormat::Json))
                .unwrap();
        assert_eq!(value, json!([{ "name": "loop", "summary": "an image" }]));
    }

    #[test]
    fn every_metric_is_listed() {
        for format in [TEXT, ListFormat::Markdown, ListFormat::Json] {
            let text = metrics(metric::ALL, format);
            for metric in metric::ALL {
                assert!(text.contains(metric.name), "{text}");
            }
        }
        let value: Value = serde_json::from_str(&metrics(metric::ALL, ListFormat::Json)).unwrap();
        assert_eq!(value[0]["better"], "higher");
    }

    #[test]
    fn differences_are_pairs_below_a_heading() {
        static DIFFERENCES: &[(&str, &str)] = &[(
            "the mean of the rates of all runs, of which each counts the same",
            "all bytes by all seconds",
        )];
        let info = WorkloadInfo { differences: DIFFERENCES, ..WORKLOAD };
        let text = workload(&info, ListFormat::Text { width: 60 });
        let (_, differences) = text.split_once("four dataset files\n\n").unwrap();
        insta::assert_snapshot!(differences, @r"
Differences between mode=original and mode=corrected

  original:  the mean of the rates of all runs, of which
             each counts the same
  corrected: all bytes by all seconds
");
    }

    #[test]
    fn columns_hold_the_width() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["/dev/vda", "1.00 TiB", &"/var/tmp/images/".repeat(4), "in use by a mount"]),
            row(["/dev/loop0", "3.00 GiB", "QEMU", &"deleted/".repeat(9)]),
        ];
        let head = ["DEVICE", "SIZE", "MODEL", "STATE"];
        for width in [40, 60, 80, 100] {
            for line in columns(&head, &rows, width).lines() {
                assert!(text::width(line) <= width, "{line}");
            }
        }
        let runs = [row(["20261121-124825", "2026-11-21 12:48", "compilebench", "ext4 xfs btrfs"])];
        let text = columns(&["RUN", "STARTED", "WORKLOADS", "TARGETS"], &runs, 58);
        assert!(text.contains("2026-11-21 12:48  compilebench  ext4 xfs\n"), "{text}");
        insta::assert_snapshot!(columns(&head, &rows, 72), @r"
DEVICE      SIZE      MODEL                     STATE
/dev/vda    1.00 TiB  /var/tmp/images//var/tm…  in use by a mount
/dev/loop0  3.00 GiB  QEMU                      deleted/deleted/deleted…
");
    }

    #[test]
    fn text_fits() {
        for width in [72, 80] {
            let format = ListFormat::Text { width };
            for line in
                workload(&WORKLOAD, format).lines().chain(metrics(metric::ALL, format).lines())
            {
                assert!(text::width(line) <= width, "{line}");
            }
        }
    }
}
