//! Graphs for the tests of this module: a disk on which files are created, written back in a burst and
//! read again.

use fsdyno_model::activity::{Activity, ActivitySeries, Reading};
use fsdyno_model::io_graph::{
    Burst, ClassIo, HeatCell, HeatMap, IoClass, IoGraph, IoSeries, IoTotals, LatencySummary,
    ProcessIo,
};
use fsdyno_model::report_data::PhaseSpans;
use fsdyno_model::trace::TraceDevice;

const BINS: usize = 400;
const SECOND: u64 = 1_000_000_000;

/// Numbers between 0 and 1, the same for the same seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A trace of `seconds`, its device 8.6 GB.
pub fn graph(label: &str, seed: u64, seconds: u64) -> IoGraph {
    let mut dice = Dice::new(seed);
    let duration_ns = seconds * SECOND;
    IoGraph {
        label: label.to_owned(),
        start_ns: 1_000 * SECOND,
        duration_ns,
        devices: vec![TraceDevice {
            number: 7 << 20,
            name: "loop0".to_owned(),
            sectors: Some(16 << 20),
        }],
        events: 1_234_567,
        bin_ns: duration_ns / BINS as u64,
        series: series(&mut dice),
        totals: totals(),
        heat: heat(&mut dice, duration_ns),
        processes: processes(),
        classes: vec![
            ClassIo { class: IoClass::ReadData, requests: 34_212, bytes: 1_200_000_000 },
            ClassIo { class: IoClass::WriteData, requests: 21_004, bytes: 2_900_000_000 },
            ClassIo { class: IoClass::WriteMetadata, requests: 9_127, bytes: 41_000_000 },
            ClassIo { class: IoClass::WriteJournal, requests: 1_410, bytes: 388_000_000 },
        ],
        bursts: bursts(seconds),
        ..IoGraph::default()
    }
}

fn series(dice: &mut Dice) -> Vec<IoSeries> {
    let names: [(&str, &str, &str); 9] = [
        ("read_bytes_per_s", "Reads", "B/s"),
        ("write_bytes_per_s", "Writes", "B/s"),
        ("metadata_bytes_per_s", "Metadata", "B/s"),
        ("read_iops", "Reads", "1/s"),
        ("write_iops", "Writes", "1/s"),
        ("seeks_per_s", "Seeks", "1/s"),
        ("queue_depth", "Queue depth", ""),
        ("d2c_ns_p50", "Median", "ns"),
        ("d2c_ns_p99", "99th percentile", "ns"),
    ];
    names
        .into_iter()
        .map(|(name, title, unit)| {
            let values = (0..BINS).map(|bin| value(name, bin as f64 / BINS as f64, dice.next()));
            IoSeries {
                name: name.to_owned(),
                title: title.to_owned(),
                unit: unit.to_owned(),
                values: values.collect(),
            }
        })
        .collect()
}

fn value(name: &str, at: f64, noise: f64) -> Option<f64> {
    let writes = at < 0.45 || (0.6..0.68).contains(&at);
    let reads = at >= 0.7;
    let noisy = 0.7 + 0.6 * noise;
    match name {
        "read_bytes_per_s" => Some(if reads { 410e6 * noisy } else { 0.0 }),
        "write_bytes_per_s" if (0.6..0.68).contains(&at) => Some(60e6 * noisy),
        "write_bytes_per_s" => Some(if writes { 260e6 * noisy } else { 0.0 }),
        "metadata_bytes_per_s" => Some(if writes { 18e6 * noisy } else { 0.0 }),
        "read_iops" => Some(if reads { 3_400.0 * noisy } else { 0.0 }),
        "write_iops" => Some(if writes { 1_900.0 * noisy } else { 0.0 }),
        "seeks_per_s" if (0.6..0.68).contains(&at) => Some(1_800.0 * noisy),
        "seeks_per_s" => Some(if writes { 240.0 * noisy } else { 90.0 * noisy }),
        "queue_depth" => Some(if writes { 22.0 * noisy } else { 1.4 * noisy }),
        "d2c_ns_p50" if writes || reads => Some(180e3 * noisy),
        "d2c_ns_p99" if writes || reads => Some(2.4e6 * noisy * noisy * noisy),
        _ => None,
    }
}

fn totals() -> IoTotals {
    let latency = LatencySummary {
        count: 34_212,
        mean: 190_000,
        p50: 180_000,
        p90: 900_000,
        p99: 2_400_000,
        p999: 4_100_000,
        max: 8_200_000,
    };
    IoTotals {
        reads: 34_212,
        read_bytes: 1_200_000_000,
        writes: 31_541,
        write_bytes: 3_329_000_000,
        flushes: 132,
        seeks: 5_212,
        sequential_share: Some(0.71),
        queue_depth_mean: Some(8.4),
        queue_depth_max: 64,
        metadata_bytes: 41_000_000,
        journal_bytes: 388_000_000,
        d2c_read: Some(latency),
        d2c_write: Some(latency),
        ..IoTotals::default()
    }
}

fn heat(dice: &mut Dice, duration_ns: u64) -> HeatMap {
    let (columns, rows) = (400, 200);
    let mut cells = Vec::new();
    for column in 0..columns {
        let at = f64::from(column) / f64::from(columns);
        let mut add = |row: f64, class, requests: f64| {
            let row = (row as u32).min(rows - 1);
            let requests = (requests as u32).max(1);
            let bytes = u64::from(requests) * 4096;
            cells.push(HeatCell { column, row, class, process: 0, requests, bytes });
        };
        if at < 0.45 {
            for group in 0..4 {
                let row = 10.0 + 40.0 * f64::from(group) + at * 60.0;
                add(row, IoClass::WriteData, 40.0 * dice.next());
            }
            add(90.0, IoClass::WriteJournal, 12.0 * dice.next());
        } else if (0.6..0.68).contains(&at) {
            for _ in 0..25 {
                add(dice.next() * 180.0, IoClass::WriteMetadata, 3.0 * dice.next());
            }
        } else if at >= 0.7 {
            for group in 0..4 {
                let row = 10.0 + 40.0 * f64::from(group) + (at - 0.7) * 90.0;
                add(row, IoClass::ReadData, 60.0 * dice.next());
            }
            add(dice.next() * 180.0, IoClass::ReadMetadata, 2.0);
        }
    }
    cells.sort_by_key(|cell| (cell.column, cell.row, cell.class, cell.process));
    cells.dedup_by_key(|cell| (cell.column, cell.row, cell.class, cell.process));
    HeatMap {
        column_ns: duration_ns / u64::from(columns),
        columns,
        row_sectors: (16 << 20) / u64::from(rows),
        rows,
        processes: vec!["kworker/flush".to_owned()],
        cells,
    }
}

fn processes() -> Vec<ProcessIo> {
    let process = |name: &str, reads, writes, metadata_bytes, seeks| ProcessIo {
        name: name.to_owned(),
        reads,
        read_bytes: reads * 35_000,
        writes,
        write_bytes: writes * 100_000,
        metadata_bytes,
        seeks,
    };
    vec![
        process("kworker/flush", 0, 30_131, 41_000_000, 4_100),
        process("compilebench", 34_212, 0, 0, 1_001),
        process("jbd2", 0, 1_410, 388_000_000, 111),
    ]
}

fn bursts(seconds: u64) -> Vec<Burst> {
    let at = seconds * SECOND * 6 / 10;
    vec![Burst {
        from_ns: at,
        to_ns: at + seconds * SECOND * 8 / 100,
        process: "kworker/flush".to_owned(),
        class: IoClass::WriteMetadata,
        bytes: 38_000_000,
        requests: 9_100,
        seeks: 1_912,
        text: format!("at {} s kworker/flush wrote 38 MB of metadata in 1,912 seeks", at / SECOND),
    }]
}

/// Phases of [`graph`].
pub fn phases(seconds: u64) -> Vec<PhaseSpans> {
    let at = |share: f64| 1_000 * SECOND + (seconds as f64 * 1e9 * share) as u64;
    let phase = |name: &str, spans: &[(f64, f64)]| PhaseSpans {
        phase: name.to_owned(),
        spans: spans.iter().map(|(from, to)| (at(*from), at(*to))).collect(),
    };
    vec![
        phase("initial-create", &[(0.0, 0.2), (0.21, 0.3)]),
        phase("create", &[(0.3, 0.34), (0.36, 0.45)]),
        phase("patch", &[(0.34, 0.36)]),
        phase("sync", &[(0.6, 0.68)]),
        phase("read", &[(0.7, 1.0)]),
    ]
}

/// What the machine did during [`graph`].
pub fn activity(seconds: u64) -> Activity {
    let count = seconds * 10;
    let mut dice = Dice::new(7);
    let mut group = |title: &str, share: f64| ActivitySeries {
        name: format!("cpu_{title}_ns"),
        kind: "cpu".to_owned(),
        title: title.to_owned(),
        reading: Reading::Delta,
        values: (0..=count).map(|_| Some(1e8 * share * (0.6 + 0.8 * dice.next()))).collect(),
    };
    Activity {
        processors: 2,
        times_ns: (0..=count).map(|tick| 1_000 * SECOND + tick * SECOND / 10).collect(),
        series: vec![
            group("application", 0.5),
            group("flusher", 0.3),
            group("journal", 0.1),
            group("loop", 0.25),
            group("interrupts", 0.05),
            group("idle", 0.8),
        ],
    }
}
