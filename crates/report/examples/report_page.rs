//! Writes a page from invented figures, to look at it while its templates and scripts are changed:
//! `cargo run -p fsdyno-report --example report_page -- report.html [trace]`; with `trace`
//! that of traces without a run. Nothing in it was measured.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use fsdyno_analysis::assemble::assemble;
use fsdyno_model::activity::{Activity, ActivitySeries, Reading};
use fsdyno_model::environment::Environment;
use fsdyno_model::io_graph::{
    Burst, HeatCell, HeatMap, IoClass, IoGraph, IoSeries, IoTotals, WindowTotals,
};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{PhaseRecord, Role, Sample, TrialRecord, Warning};
use fsdyno_model::report_data::{
    Comparison, LatencyCurve, PhaseRatio, PhaseSpans, Ratio, ReportData, TrialTimeline,
};
use fsdyno_model::result::RunInfo;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::trace::TraceDevice;
use fsdyno_model::workload::WorkloadSpec;

const TARGETS: [&str; 3] = ["ext4", "xfs", "btrfs"];
const WORKLOAD: &str = "compilebench";
const PHASES: [(&str, &str, f64); 6] = [
    ("create", "throughput_mib_per_s", 2.1),
    ("patch", "throughput_mib_per_s", 1.6),
    ("compile", "throughput_mib_per_s", 1.4),
    ("read", "throughput_mib_per_s", 2.4),
    ("delete", "sample_mean_elapsed_s", 0.6),
    ("stat", "sample_mean_elapsed_s", 0.34),
];
const SLOWER: [[f64; 6]; 3] =
    [[1.0; 6], [0.93, 1.10, 0.97, 1.02, 1.41, 1.08], [1.31, 1.65, 1.12, 1.48, 2.05, 0.74]];
const SECOND: u64 = 1_000_000_000;
const COLUMNS: u32 = 1000;
const ROWS: u32 = 256;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    /// From 0 to 1.
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.roll() * f64::from(limit)) as u32
    }
}

fn phase(target: usize, index: usize, dice: &mut Dice) -> PhaseRecord {
    let (name, metric, seconds) = PHASES[index];
    let mut record = PhaseRecord::new(name, metric);
    for piece in 0..30u64 {
        let age = 1.0 + piece as f64 * 0.012 * target as f64;
        let ns = (seconds * SLOWER[target][index] * age * (0.9 + 0.2 * dice.roll()) * 1e9) as u64;
        record.samples.push(Sample {
            subject: format!("kernel-{piece}"),
            started_ns: None,
            elapsed_return_ns: ns * 6 / 10,
            elapsed_durable_ns: Some(ns),
            operations: 21_280,
            bytes: if seconds > 1.0 { 222 << 20 } else { 0 },
            app_user_ns: None,
            app_system_ns: None,
        });
        record.elapsed_return_ns += ns * 6 / 10;
        *record.elapsed_durable_ns.get_or_insert(0) += ns;
        record.bytes += record.samples[piece as usize].bytes;
    }
    record.read_bytes = if name == "read" { record.bytes } else { 0 };
    record.device.read_bytes = Some(record.read_bytes);
    record.operations = BTreeMap::from([("write".to_owned(), 21_280)]);
    for (group, share) in [("application", 0.4), ("journal", 0.06), ("flusher", 0.1), ("loop", 0.2)]
    {
        let ns = record.elapsed_return_ns as f64 * share * (0.8 + 0.4 * dice.roll());
        record.cpu.groups_ns.insert(group.to_owned(), ns as u64);
    }
    record
}

fn trials(dice: &mut Dice) -> Vec<TrialRecord> {
    let mut records = Vec::new();
    for trial in 1..=3 {
        for (target, label) in TARGETS.iter().enumerate() {
            let order = u32::try_from(records.len()).unwrap_or(0);
            let mut record =
                TrialRecord::planned(label, WORKLOAD, trial, order, Outcome::Completed);
            record.elapsed_ns = Some(250 * SECOND);
            record.harness_floor_ns = Some(181.0);
            record.phases = (0..PHASES.len()).map(|index| phase(target, index, dice)).collect();
            record.facts.mount_effective = Some("rw,relatime".to_owned());
            record.facts.mkfs_command = Some(format!("mkfs.{label} /dev/loop0"));
            records.push(record);
        }
    }
    records
}

fn plan() -> Plan {
    let target = |label: &&str| TargetSpec {
        label: (*label).to_owned(),
        ground: Ground::Fresh(FreshSpec {
            filesystem: (*label).to_owned(),
            mkfs: Vec::new(),
            mount: String::new(),
            device: DeviceSpec::LoopImage { size_bytes: None },
            journal: None,
            age: None,
            kernel: None,
        }),
    };
    let workload = WorkloadSpec {
        definition: None,
        label: WORKLOAD.to_owned(),
        kind: WORKLOAD.to_owned(),
        params: Params::default(),
    };
    let targets = TARGETS.iter().map(target).collect();
    Plan { trials: 3, targets, workloads: vec![workload], ..Plan::new(false) }
}

fn run_info() -> RunInfo {
    RunInfo {
        id: "20260102-030405".to_owned(),
        title: Some("Invented figures, to look at the page".to_owned()),
        started: "2026-01-02T03:04:05Z".to_owned(),
        finished: Some("2026-01-02T04:06:05Z".to_owned()),
        command: "fsdyno compare ext4 xfs btrfs --workload compilebench".to_owned(),
        trials: 3,
        stopped: None,
        seed: 1,
        size_bytes: 8 << 30,
        environment: Environment {
            hostname: Some("bench".to_owned()),
            kernel_release: Some("6.18.44".to_owned()),
            image_directory: Some("/var/tmp".to_owned()),
            ..Environment::default()
        },
        warnings: vec![Warning {
            code: "governor".to_owned(),
            message: "the processor's frequency governor is powersave, not performance".to_owned(),
            advice: "run cpupower frequency-set -g performance".to_owned(),
        }],
    }
}

fn heat(target: usize, dice: &mut Dice) -> HeatMap {
    let mut cells = Vec::new();
    for column in 0..COLUMNS {
        for number in 0..40u32 {
            let stream = (column / 4 + number / 8) % ROWS;
            let (row, class, process) = match number % 8 {
                0 => (120 + dice.below(3), IoClass::WriteJournal, 2),
                1 if column % 90 < 6 => (dice.below(ROWS), IoClass::WriteMetadata, 1),
                1 => (dice.below(ROWS), IoClass::ReadMetadata, 0),
                2 | 3 if column > 500 && column < 700 => {
                    (dice.below(1 + stream), IoClass::ReadData, 0)
                }
                _ => ((stream + target as u32 * 20) % ROWS, IoClass::WriteData, 1),
            };
            let requests = 1 + dice.below(12);
            let bytes = u64::from(requests) * 65_536;
            cells.push(HeatCell { column, row, class, process, requests, bytes });
        }
    }
    let key = |cell: &HeatCell| (cell.column, cell.row, cell.class, cell.process);
    cells.sort_by_key(key);
    cells.dedup_by_key(|cell| key(cell));
    let processes = ["fsdyno", "kworker/flush", "jbd2"].map(str::to_owned).to_vec();
    let column_ns = 250 * SECOND / u64::from(COLUMNS);
    HeatMap { column_ns, columns: COLUMNS, row_sectors: 65_536, rows: ROWS, processes, cells }
}

fn series(dice: &mut Dice) -> Vec<IoSeries> {
    let scales = [
        ("read_bytes_per_s", 8e7),
        ("write_bytes_per_s", 3e8),
        ("read_iops", 4e3),
        ("write_iops", 9e3),
        ("flushes_per_s", 12.0),
        ("seeks_per_s", 1.6e3),
        ("queue_depth", 14.0),
        ("d2c_ns_p50", 1.2e5),
        ("d2c_ns_p99", 4e6),
        ("metadata_bytes_per_s", 9e6),
        ("journal_bytes_per_s", 2e7),
    ];
    let one = |(name, scale): (&str, f64)| {
        let mut level = 0.5;
        let values = (0..COLUMNS).map(|bin| {
            level = (level + 0.2 * (dice.roll() - 0.5)).clamp(0.05, 1.0);
            let waits = name.starts_with("d2c") && bin % 97 < 9;
            (!waits).then_some(level * scale)
        });
        let values = values.collect();
        IoSeries { name: name.to_owned(), title: name.to_owned(), unit: String::new(), values }
    };
    scales.map(one).to_vec()
}

fn spans() -> Vec<PhaseSpans> {
    let one = |(index, (name, ..)): (usize, &(&str, &str, f64))| {
        let from = index as u64 * 41 * SECOND;
        PhaseSpans { phase: (*name).to_owned(), spans: vec![(from, from + 40 * SECOND)] }
    };
    PHASES.iter().enumerate().map(one).collect()
}

fn activity(dice: &mut Dice) -> Activity {
    let times_ns: Vec<u64> = (0..2500).map(|tenth| tenth * SECOND / 10).collect();
    let groups =
        [("application", 6e7), ("journal", 1e7), ("flusher", 2e7), ("loop", 3e7), ("kernel", 8e6)];
    let mut series: Vec<ActivitySeries> = (groups.iter())
        .map(|(group, scale)| ActivitySeries {
            name: format!("cpu_{group}_ns"),
            kind: "cpu".to_owned(),
            title: (*group).to_owned(),
            reading: Reading::Delta,
            values: times_ns.iter().map(|_| Some(scale * dice.roll())).collect(),
        })
        .collect();
    for (name, title) in [("memory_dirty_bytes", "dirty"), ("memory_writeback_bytes", "writeback")]
    {
        let mut level = 0.3;
        let values = times_ns.iter().map(|_| {
            level = (level + 0.1 * (dice.roll() - 0.5)).clamp(0.0, 1.0);
            Some(level * 9e8)
        });
        series.push(ActivitySeries {
            name: name.to_owned(),
            kind: "memory".to_owned(),
            title: title.to_owned(),
            reading: Reading::Gauge,
            values: values.collect(),
        });
    }
    Activity { processors: 2, times_ns, series }
}

fn timeline(target: usize, dice: &mut Dice) -> TrialTimeline {
    let totals = IoTotals {
        reads: 120_000,
        read_bytes: 9 << 30,
        writes: 480_000,
        write_bytes: 40 << 30,
        seeks: 191_200 * (1 + target as u64),
        sequential_share: Some(0.71),
        ..IoTotals::default()
    };
    let windows = spans().into_iter().map(|phase| WindowTotals {
        name: phase.phase,
        spans: phase.spans,
        totals: totals.clone(),
    });
    let burst = |from: u64| Burst {
        from_ns: from * SECOND,
        to_ns: (from + 2) * SECOND,
        process: "kworker/flush".to_owned(),
        class: IoClass::WriteMetadata,
        bytes: 38_000_000,
        requests: 2_000,
        seeks: 1_912,
        text: format!("at {from} s kworker/flush wrote 38 MB of metadata in 1,912 seeks"),
    };
    let device = TraceDevice { number: 7 << 20, name: "loop0".to_owned(), sectors: Some(1 << 24) };
    let graph = IoGraph {
        label: TARGETS[target].to_owned(),
        duration_ns: 250 * SECOND,
        devices: vec![device],
        events: 10_000_000,
        bin_ns: SECOND / 4,
        series: series(dice),
        windows: windows.collect(),
        totals,
        heat: heat(target, dice),
        bursts: vec![burst(67), burst(158)],
        ..IoGraph::default()
    };
    TrialTimeline {
        target: TARGETS[target].to_owned(),
        workload: WORKLOAD.to_owned(),
        trial: 4,
        role: Role::Explain,
        phases: spans(),
        graph: Some(graph),
        activity: Some(activity(dice)),
        slowdown: Some(1.02),
    }
}

fn comparison(target: usize) -> Comparison {
    let ratio = |ratio: f64| Ratio { ratio, low: Some(ratio * 0.95), high: Some(ratio * 1.06) };
    let phase = |(index, (name, metric, _)): (usize, &(&str, &str, f64))| PhaseRatio {
        phase: (*name).to_owned(),
        metric: (*metric).to_owned(),
        ratio: Some(ratio(1.0 / SLOWER[target][index])),
    };
    Comparison {
        workload: WORKLOAD.to_owned(),
        baseline: TARGETS[0].to_owned(),
        target: TARGETS[target].to_owned(),
        overall: Some(ratio([1.0, 0.92, 0.75][target])),
        phases: PHASES.iter().enumerate().map(phase).collect(),
    }
}

fn curve(target: usize, name: &str) -> LatencyCurve {
    let points = (0..60).map(|step| {
        let percentile = 100.0 * (1.0 - 10f64.powf(-f64::from(step) / 12.0));
        (percentile, (8e3 * (1.0 + target as f64 * 0.3) * 1.16f64.powi(step)) as u64)
    });
    LatencyCurve {
        target: TARGETS[target].to_owned(),
        workload: WORKLOAD.to_owned(),
        phase: "create".to_owned(),
        operation: name.to_owned(),
        count: 100_000,
        points: points.collect(),
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "report.html".to_owned());
    let mut dice = Dice(88_172_645_463_325_252);
    let order = |_: &WorkloadSpec| PHASES.iter().map(|(name, ..)| *name).collect();
    let data = ReportData {
        result: assemble(run_info(), &plan(), &order, &trials(&mut dice)),
        comparisons: (1..3).map(comparison).collect(),
        curves: (0..3).flat_map(|it| [curve(it, "write"), curve(it, "open")]).collect(),
        timelines: (0..3).map(|target| timeline(target, &mut dice)).collect(),
    };
    let page = match std::env::args().nth(2).as_deref() {
        Some("trace") => fsdyno_report::page::trace_page("ext4, xfs, btrfs", &data.timelines),
        _ => fsdyno_report::page::run_page(&data),
    };
    println!("{path}: {} bytes", page.len());
    std::fs::write(path, page)
}
