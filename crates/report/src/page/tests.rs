//! The page as a whole: what is in it, what cannot be in it, how large it is. That it works is for the
//! browser test of the binary.

use fsdyno_model::audit::{AuditRow, Fairness, Judgement, Status, TargetFact, WorkloadAudit};
use fsdyno_model::io_graph::{Burst, HeatCell, HeatMap, IoClass, IoGraph, IoSeries};
use fsdyno_model::record::Role;
use fsdyno_model::report_data::{Comparison, PhaseSpans, Ratio};

use super::*;
use crate::fixture;

/// Labels and words that would end an element or an attribute if they were taken as HTML.
const HOSTILE: &str = "</script><script>alert('x')</script>\"'&<!--";

fn data(result: fsdyno_model::result::RunResult) -> ReportData {
    let ratio = Ratio { ratio: 0.89, low: Some(0.8), high: None };
    let comparisons = (result.targets.iter().skip(1))
        .map(|target| Comparison {
            workload: result.workloads[0].label.clone(),
            baseline: result.targets[0].label.clone(),
            target: target.label.clone(),
            overall: Some(ratio),
            phases: Vec::new(),
        })
        .collect();
    ReportData { result, comparisons, curves: Vec::new(), timelines: Vec::new() }
}

/// A trace with as many cells and bins as a long one has; names hold `name`.
fn timeline(name: &str, cells: u32) -> TrialTimeline {
    let cell = |index: u32| HeatCell {
        column: index / 40,
        row: index % 40 * 6,
        class: IoClass::ALL[index as usize % 7],
        process: (index % 5) as u8,
        requests: 1 + index % 1000,
        bytes: u64::from(index % 977) * 65_536,
    };
    let heat = HeatMap {
        column_ns: 1_000_000,
        columns: cells.div_ceil(40),
        row_sectors: 2048,
        rows: 240,
        processes: vec![name.to_owned(); 5],
        cells: (0..cells).map(cell).collect(),
    };
    let series = (0..13).map(|index| IoSeries {
        name: format!("series_{index}"),
        title: name.to_owned(),
        unit: String::new(),
        values: (0..1000).map(|bin| (bin % 7 > 0).then_some(f64::from(bin) * 1.1)).collect(),
    });
    let burst = Burst {
        from_ns: 0,
        to_ns: 5,
        process: name.to_owned(),
        class: IoClass::WriteData,
        bytes: 1,
        requests: 1,
        seeks: 1,
        text: name.to_owned(),
    };
    TrialTimeline {
        target: name.to_owned(),
        workload: "compilebench".to_owned(),
        trial: 4,
        role: Role::Explain,
        phases: vec![PhaseSpans { phase: name.to_owned(), spans: vec![(1, 9)] }],
        graph: Some(IoGraph {
            label: name.to_owned(),
            duration_ns: 1_000_000_000,
            events: 10_000_000,
            bin_ns: 1_000_000,
            series: series.collect(),
            heat,
            bursts: vec![burst],
            warnings: vec![name.to_owned()],
            ..IoGraph::default()
        }),
        activity: None,
        slowdown: None,
    }
}

#[test]
fn a_page_asks_for_nothing() {
    let page = run_page(&data(fixture::three_targets()));
    assert!(page.contains("content=\"default-src 'none'; script-src 'unsafe-inline'"));
    for reference in [" src=", "<link", "url(", "@import", "fetch(", "XMLHttpRequest", "eval("] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("Which is fastest for compilebench: ext4, xfs or btrfs?"));
    assert!(page.contains("Permission is hereby granted"), "the licence of uPlot is in the page");
}

#[test]
fn words_of_others_are_never_markup() {
    let mut result = fixture::with_failures();
    result.targets[0].label = HOSTILE.to_owned();
    result.targets[0].mount_effective = Some(HOSTILE.to_owned());
    result.run.title = Some(HOSTILE.to_owned());
    result.run.command = HOSTILE.to_owned();
    result.verdicts[0].text = HOSTILE.to_owned();
    let fact = TargetFact { target: HOSTILE.to_owned(), value: Some(HOSTILE.to_owned()) };
    let row = AuditRow {
        rule: "barriers".to_owned(),
        title: HOSTILE.to_owned(),
        values: vec![fact],
        status: Status::Different,
        judgement: Judgement::NotComparable,
        as_asked: true,
        sentence: HOSTILE.to_owned(),
    };
    result.audit.workloads = vec![WorkloadAudit {
        workload: HOSTILE.to_owned(),
        rows: vec![row],
        fairness: Some(Fairness::NotComparable),
        text: HOSTILE.to_owned(),
    }];
    let mut data = data(result);
    data.timelines = vec![timeline(HOSTILE, 400)];
    for page in [run_page(&data), trace_page(HOSTILE, &data.timelines)] {
        assert!(!page.contains("<script>alert"));
        assert_eq!(page.matches("<script").count(), 3, "the data, uPlot and the page's own");
        assert_eq!(page.matches("</script>").count(), 3);
        assert!(!page.contains("\"'&<!--"), "quotes are escaped");
    }
}

#[test]
fn every_trial_has_an_outcome_and_every_cell_a_head() {
    let page = run_page(&data(fixture::with_failures()));
    let (_, outcomes) = page.split_once("Outcome of every trial").unwrap();
    let (outcomes, _) = outcomes.split_once("</table>").unwrap();
    assert_eq!(outcomes.matches("<tr><th scope=\"row\">").count(), 9);
    assert!(page.contains("no space left on device; give a larger --size"));
    let (tables, captions) = (page.matches("<table").count(), page.matches("<caption>").count());
    assert!(tables > 1 && tables == captions, "{tables} tables, {captions} captions");
}

#[test]
fn bursts_tell_their_phase() {
    let mut timeline = timeline("ext4", 40);
    let of = |name: &str, from, to| PhaseSpans { phase: name.to_owned(), spans: vec![(from, to)] };
    timeline.phases = vec![of("create", 1100, 1200), of("read", 1200, 1300)];
    let graph = timeline.graph.as_mut().unwrap();
    graph.start_ns = 1000;
    let burst = |from_ns, to_ns| Burst { from_ns, to_ns, ..graph.bursts[0].clone() };
    graph.bursts = vec![burst(90, 150), burst(150, 280), burst(10, 140), burst(400, 400)];
    let phases = timeline::burst_phases(&timeline);
    assert_eq!(phases, [Some("create".to_owned()), Some("read".to_owned()), None, None]);
    let page = trace_page("x", std::slice::from_ref(&timeline));
    assert!(page.contains("<b>create:</b> ext4") && page.contains("<b>between phases:</b> ext4"));
    assert!(page.contains("\"outside\":true"));
}

#[test]
fn a_page_of_long_traces_stays_small() {
    let mut data = data(fixture::three_targets());
    for count in [3, 12] {
        data.timelines = (0..count).map(|_| timeline("ext4", 40_000)).collect();
        let page = run_page(&data);
        assert!(page.len() < 3_000_000, "{count} traces take {} bytes", page.len());
    }
}

#[test]
fn a_run_without_anything_has_a_page() {
    let mut result = fixture::three_targets();
    result.trials.clear();
    result.summary.clear();
    let mut data = data(result);
    data.comparisons.clear();
    assert!(run_page(&data).contains("No trial completed."));
    data.result.targets.clear();
    data.result.workloads.clear();
    assert!(run_page(&data).contains("How fast is nothing?"));
    assert!(trace_page("nothing", &[]).contains("<h1>nothing</h1>"));
}
