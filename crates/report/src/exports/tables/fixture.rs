//! A run with something in every table, and labels that have to be quoted.

use fsdyno_model::activity::{Activity, ActivitySeries, Reading};
use fsdyno_model::io_graph::{IoGraph, IoSeries};
use fsdyno_model::record::Role;
use fsdyno_model::report_data::{
    Comparison, LatencyCurve, PhaseRatio, Ratio, ReportData, TrialTimeline,
};
use fsdyno_model::yardstick::{self, Yardstick};

/// The run.
pub fn run() -> ReportData {
    let mut result = crate::fixture::targets_with_trials(&["ext4:\"a,b\"\\", "xfs", "btrfs"], 3);
    result.trials[1].phases[0].samples[0].subject = "two\nlines, \"quoted\"".to_owned();
    let reading = yardstick::Reading {
        place: "/img".to_owned(),
        compute_ns: Some(1.5),
        ..yardstick::Reading::default()
    };
    result.trials[0].yardstick = Some(Yardstick { before: Some(reading), after: None });
    let target = result.targets[0].label.clone();
    let curve = LatencyCurve {
        target: target.clone(),
        workload: "compilebench".to_owned(),
        phase: "create".to_owned(),
        operation: "write".to_owned(),
        count: 3,
        points: vec![(0.0, 7), (100.0 / 3.0, 9), (100.0, 1 << 40)],
    };
    let series = ActivitySeries {
        name: "cpu_journal_ns".to_owned(),
        kind: "cpu".to_owned(),
        title: "journal".to_owned(),
        reading: Reading::Delta,
        values: vec![None, Some(0.1 + 0.2)],
    };
    let activity = Activity { processors: 2, times_ns: vec![5, 100_000_005], series: vec![series] };
    let reads = IoSeries {
        name: "read_iops".to_owned(),
        title: "Reads".to_owned(),
        unit: "1/s".to_owned(),
        values: vec![Some(1e-9), None, Some(5.0)],
    };
    let graph = IoGraph { start_ns: 40, bin_ns: 10, series: vec![reads], ..IoGraph::default() };
    let timeline = TrialTimeline {
        target: target.clone(),
        workload: "compilebench".to_owned(),
        trial: 4,
        role: Role::Explain,
        phases: Vec::new(),
        graph: Some(graph),
        activity: Some(activity),
        slowdown: None,
    };
    let ratio = Ratio { ratio: 0.8, low: Some(0.7), high: Some(0.9) };
    let comparison = Comparison {
        workload: "compilebench".to_owned(),
        baseline: target.clone(),
        target: "xfs".to_owned(),
        overall: Some(ratio),
        phases: vec![PhaseRatio {
            phase: "create".to_owned(),
            metric: "throughput_mib_per_s".to_owned(),
            ratio: Some(ratio),
        }],
    };
    ReportData {
        result,
        comparisons: vec![comparison],
        curves: vec![curve],
        timelines: vec![timeline],
    }
}
