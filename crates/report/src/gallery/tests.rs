//! Pages of a result that repeats a publication.

use std::collections::BTreeMap;

use fsdyno_model::place::Clock;
use fsdyno_model::then_and_now::{Cell, Pair, Row};

use super::*;
use crate::fixture;

fn cell(target: &str, published: &str, then: Option<f64>, now: Option<f64>) -> Cell {
    Cell {
        target: target.to_owned(),
        published: published.to_owned(),
        published_value: then,
        measured: now,
        not_measured: None,
        ratio: then.zip(now).map(|(then, now)| now / then),
    }
}

fn then_and_now() -> ThenAndNow {
    let row = Row {
        operation: "create|trees".to_owned(),
        workload: Some("compilebench".to_owned()),
        phase: Some("create".to_owned()),
        unit: "MB/s".to_owned(),
        missing: None,
        cells: vec![
            cell("ext4", "20", Some(20.0), Some(110.0)),
            cell("xfs", "10", Some(10.0), Some(119.5)),
            cell("jfs", "excluded", None, None),
        ],
    };
    let pair = Pair {
        operation: row.operation.clone(),
        workload: "compilebench".to_owned(),
        a: "ext4".to_owned(),
        b: "xfs".to_owned(),
        then: 2.0,
        now: 0.92,
        now_low: Some(0.9),
        now_high: Some(0.95),
    };
    ThenAndNow {
        name: "old-page".to_owned(),
        scale: Scale::Smoke,
        source: "An old page".to_owned(),
        year: 2007,
        kernel: "2.6.21".to_owned(),
        hardware: "a disk".to_owned(),
        machine: None,
        setting: vec!["As much data for memory as then.".to_owned()],
        differences: vec!["Other names.".to_owned()],
        rows: vec![row],
        pairs: vec![pair],
        tau: Some(-1.0),
        words: vec!["One pair turned.".to_owned()],
    }
}

fn made(result: &RunResult, then_and_now: &ThenAndNow) -> BTreeMap<String, String> {
    let missed = ["Nobody looked at <scatter>.".to_owned()];
    let entry = Entry { key: "old-page".to_owned(), result, then_and_now, missed: &missed };
    let known = [
        Known { name: "old-page", title: "an old page" },
        Known { name: "other", title: "another" },
    ];
    files(&known, &[entry]).into_iter().map(|file| (file.name, file.text)).collect()
}

#[test]
fn a_page_has_all_parts_and_every_picture_is_shown() {
    let mut result = fixture::three_targets();
    let it = then_and_now();
    result.then_and_now = Some(it.clone());
    let files = made(&result, &it);
    let page = &files["old-page.md"];
    for part in [
        "they are no measurement",
        "| how | As much data for memory as then. |",
        "| create\\|trees | MB/s | 20 → 110 (5.50) | 10 → 120 (11.9) |",
        "| ext4/xfs | create\\|trees | 2.00 | 0.92 \\[0.90–0.95\\] | other |",
        "One pair turned.",
        "Kendall's τ: -1.00",
        "Nobody looked at \\<scatter\\>.",
        "Other names.",
        "## Protocol",
        "## Measured alike?",
        "### compilebench",
        "**Verdict:**",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let pictures: Vec<&String> = files.keys().filter(|name| name.ends_with(".svg")).collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        assert!(page.contains(&format!("({picture})")), "{picture}: {page}");
        assert!(files[picture].ends_with("</svg>\n"), "{picture}");
    }
    let index = &files[INDEX];
    assert!(index.contains("(old-page.md)"), "{index}");
    assert!(index.contains("| 0 / 1 / 0 | -1.00 |"), "{index}");
    assert!(index.contains("| another | | not run yet |"), "{index}");
}

#[test]
fn virtual_time_is_told() {
    let mut result = fixture::three_targets();
    result.run.environment.measured.clock = Clock::Virtual;
    result.run.trials = 1;
    let page = &made(&result, &then_and_now())["old-page.md"];
    assert!(page.contains("in virtual time"), "{page}");
    assert!(page.contains("made again they give the same figures"), "{page}");
}
