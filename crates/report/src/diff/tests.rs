//! Tests of [`crate::diff`].

use fsdyno_model::diff::{DiffBetween, DiffCounts, DiffRatio, DiffSample, DiffSide};
use fsdyno_model::record::Warning;

use super::*;
use crate::table::TableOptions;
use crate::text;

fn side(id: &str) -> DiffSide {
    DiffSide {
        id: id.to_owned(),
        file: (id == "1").then(|| "base.json".to_owned()),
        title: None,
        started: "2026-01-02T03:04:05.000Z".to_owned(),
        hostname: Some("bench".to_owned()),
        kernel_release: Some("6.1".to_owned()),
        command: String::new(),
    }
}

fn row(phase: Option<&str>, medians: [f64; 2], verdict: DiffVerdict) -> DiffRow {
    let ratio = medians[1] / medians[0];
    let sample = |median: f64| DiffSample { n: 3, median: phase.map(|_| median) };
    DiffRow {
        target: "ext4".to_owned(),
        workload: "small-files".to_owned(),
        phase: phase.map(str::to_owned),
        metric: phase.map(|_| "files_per_s".to_owned()),
        unit: if phase.is_some() { "files/s".to_owned() } else { String::new() },
        base: sample(medians[0]),
        new: sample(medians[1]),
        ratio: Some(DiffRatio { ratio, low: Some(ratio * 0.98), high: Some(ratio * 1.02) }),
        adjusted: None,
        adjusted_by: None,
        between: None,
        p: Some(0.01),
        p_holm: Some(0.02),
        verdict,
        beyond_threshold: (ratio - 1.0).abs() > 0.03,
        trials_needed: (verdict == DiffVerdict::Undecided).then_some(12),
        moved: Vec::new(),
    }
}

fn moved(title: &str, unit: &str, base: f64, new: f64) -> Movement {
    let ratio = new / base;
    Movement {
        name: title.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
        base,
        new,
        ratio,
        low: Some(ratio * 0.9),
        high: Some(ratio * 1.1),
    }
}

fn diff() -> RunDiff {
    let mut slower = row(Some("create"), [5572.0, 4011.0], DiffVerdict::Slower);
    slower.moved = vec![
        moved("device flushes", "", 120.0, 1200.0),
        moved("p99 of fsync", "ns", 1_250_000.0, 4_000_000.0),
        moved("processor time of journal", "s", 0.02, 0.05),
    ];
    RunDiff {
        schema_version: 1,
        threshold: 0.03,
        exact: false,
        adjusted: false,
        base: side("1"),
        new: side("2"),
        warnings: vec![Warning {
            code: "other-kernel".to_owned(),
            message: "the runs have different kernels: 6.1, 6.2".to_owned(),
            advice: "what differs may be the kernel's doing".to_owned(),
        }],
        differences: vec![Difference {
            of: "target ext4".to_owned(),
            name: "mount_effective".to_owned(),
            base: Some("rw,relatime".to_owned()),
            new: Some("rw,noatime".to_owned()),
        }],
        only_base: vec!["target xfs".to_owned()],
        only_new: Vec::new(),
        rows: vec![
            slower,
            row(Some("read"), [152_003.0, 201_000.0], DiffVerdict::Faster),
            row(Some("stat"), [0.0123, 0.01231], DiffVerdict::Same),
            row(Some("delete"), [99.0, 95.0], DiffVerdict::Undecided),
            row(None, [1.0, 0.97], DiffVerdict::Slower),
        ],
        counts: DiffCounts {
            faster: 1,
            slower: 1,
            slower_beyond_threshold: 1,
            same: 1,
            undecided: 1,
        },
        is_slower: true,
        summary: "Of 4 figures: 1 slower, 1 faster, 1 the same within 3 %, 1 undecided.".to_owned(),
    }
}

fn drawn(diff: &RunDiff, width: usize, unicode: bool) -> String {
    table(diff, TableOptions { width, color: false, unicode })
}

#[test]
fn the_table_tells_all() {
    insta::assert_snapshot!(drawn(&diff(), 100, true));
}

#[test]
fn narrow_terminals_have_plain_tables() {
    insta::assert_snapshot!(drawn(&diff(), 60, false));
}

#[test]
fn lines_fit_the_terminal() {
    let mut diff = diff();
    for row in &mut diff.rows {
        row.adjusted = row.ratio;
        row.between = Some(DiffBetween { low: 0.71, high: 12.3 });
        row.phase = row.phase.as_ref().map(|phase| format!("{phase}-of-all-the-directories"));
    }
    for width in [60, 80, 100, 140] {
        for line in drawn(&diff, width, true).lines() {
            assert!(text::width(line) <= width, "{width}: {line}");
        }
    }
}

#[test]
fn what_the_machines_leave_has_columns_of_its_own() {
    let mut diff = diff();
    diff.rows[0].adjusted = diff.rows[0].ratio;
    diff.rows[0].between = Some(DiffBetween { low: 0.71, high: 1.334 });
    let text = drawn(&diff, 120, true);
    for words in ["  adjusted  ", "  between  ", "  0.71–1.33  ", "Between: where the ratio lies"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = markdown(&diff);
    assert!(page.contains("| ratio | adjusted | between | verdict |"), "{page}");
    assert!(page.contains(" 0.71–1.33 |") && page.contains(" – | – |"), "{page}");
}

#[test]
fn markdown_is_a_comment() {
    insta::assert_snapshot!(markdown(&diff()));
}

#[test]
fn the_document_reads_back() {
    let diff = diff();
    let read: RunDiff = serde_json::from_str(&json(&diff).unwrap()).unwrap();
    assert_eq!(read, diff);
}

#[test]
fn long_values_are_cut_and_equal_ends_told() {
    let long = |end: &str| Some(format!("{}{end}", "x".repeat(80)));
    let mut it = diff().differences.remove(0);
    (it.base, it.new) = (long("a"), long("b"));
    assert_eq!(difference(&it), "mount_effective: differs beyond what is shown here");
    it.base = None;
    assert!(difference(&it).starts_with("mount_effective: – → xxx"));
}

#[test]
fn long_lists_of_differences_are_cut() {
    let mut diff = diff();
    let one = diff.differences.remove(0);
    let named = |index: usize| Difference { name: format!("a{index:02}"), ..one.clone() };
    diff.differences = (0..14).map(named).chain([one.clone()]).collect();
    let text = drawn(&diff, 100, true);
    assert!(text.contains("target ext4: mount_effective: rw,relatime"), "{text}");
    assert!(text.contains("a08") && !text.contains("a09"), "{text}");
    assert!(text.replace("\n    ", " ").contains("and 5 more (--json has them)"), "{text}");
    assert!(markdown(&diff).contains("and 5 more"));
}
