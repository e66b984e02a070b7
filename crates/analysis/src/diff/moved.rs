//! What else moved where a figure did, largest first: the start of a diagnosis.
//!
//! Listed is what changed by more than the threshold and whose own 95 % interval (Welch, on logarithms)
//! excludes no change. These intervals are not corrected for how many figures were looked at: they are
//! hints where to look, not findings. What was traced was traced once on each side, and has no interval.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_model::diff::Movement;
use fsdyno_model::io_graph::{IoTotals, LatencySummary};
use fsdyno_model::metric::{self, Metric};
use fsdyno_model::record::PhaseRecord;

use super::sides::{Case, PhaseTrial};
use super::welch::Welch;
use super::{DiffOptions, TracedPhase};
use crate::interval;

const NS_PER_S: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

/// Share of a phase's time below which processor time and waiting count as nothing.
const LEAST_TIME_SHARE: f64 = 0.01;
/// Bytes below which traffic counts as nothing.
const LEAST_BYTES: f64 = 65_536.0;
/// Requests below which their number counts as nothing.
const LEAST_REQUESTS: f64 = 8.0;
/// Latency, in nanoseconds, below which the clock is what is measured.
const LEAST_LATENCY_NS: f64 = 100.0;
/// Share of the greater of two values below which the smaller counts as this.
const LEAST_SHARE: f64 = 0.01;
/// Operations of two runs that differ by more than this share make totals incomparable.
const SAME_WORK: f64 = 0.02;
/// Least change of what was traced once on each side, as a factor.
const LEAST_TRACED: f64 = 1.2;

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Seconds within the phase, added up.
    Seconds,
    /// MiB of traffic.
    Traffic,
    /// Requests or operations.
    Requests,
    /// Nanoseconds of one operation.
    Latency,
    /// A ratio or another figure that does not grow with the work.
    Figure,
}

/// A figure of one phase of one trial.
#[derive(Debug, Clone)]
struct Reading {
    name: String,
    title: String,
    unit: &'static str,
    kind: Kind,
    value: f64,
}

/// What moved in `phase`, besides its own metric `primary`. `traced` is what block traces say of the
/// base and of the new run.
#[must_use]
pub fn movements(
    case: &Case<'_>,
    phase: &str,
    primary: Option<&str>,
    traced: [&[TracedPhase]; 2],
    options: &DiffOptions,
) -> Vec<Movement> {
    let sides = case.trials(phase);
    let work = Work::of(&sides);
    let mut found = Vec::new();
    for series in series(&sides, primary) {
        found.extend(work.movement(&series, options));
    }
    // How files lie on the device is a phase of its own.
    for explaining in &case.phases {
        let is_explaining = case
            .primary_metric(explaining)
            .and_then(metric::find)
            .is_some_and(|metric| metric.explains);
        if is_explaining && *explaining != phase {
            let sides = case.trials(explaining);
            let all = all_series(&sides, |trial| explaining_figures(&trial.record));
            found.extend(all.iter().filter_map(|series| work.movement(series, options)));
        }
    }
    let totals = [0, 1].map(|side| {
        let label = &case.targets[side].label;
        let own = traced[side]
            .iter()
            .find(|it| it.phase == phase && it.workload == case.workload && it.target == *label);
        own.map(|own| &own.totals)
    });
    if let [Some(base), Some(new)] = totals {
        found.extend(traced_movements(base, new));
    }
    let size = |movement: &Movement| movement.ratio.ln().abs();
    found.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.name.cmp(&b.name)));
    found
}

/// One figure over the trials of both sides.
struct Series {
    reading: Reading,
    base: Vec<f64>,
    new: Vec<f64>,
}

fn series(sides: &[Vec<&PhaseTrial<'_>>; 2], primary: Option<&str>) -> Vec<Series> {
    let mut all = all_series(sides, |trial| {
        let mut readings = readings(&trial.record);
        readings.extend(latencies(trial));
        readings.extend(other_figures(&trial.record, primary));
        readings
    });
    // A group that burnt nothing is left out of a record: that is a zero, not a gap.
    let has_groups = |trial: &&PhaseTrial<'_>| !trial.record.cpu.groups_ns.is_empty();
    let sampled = [0, 1].map(|side| sides[side].iter().filter(|it| has_groups(it)).count());
    for series in &mut all {
        if series.reading.name.starts_with("cpu.group.") {
            series.base.resize(sampled[0].max(series.base.len()), 0.0);
            series.new.resize(sampled[1].max(series.new.len()), 0.0);
        }
    }
    all
}

fn all_series(
    sides: &[Vec<&PhaseTrial<'_>>; 2],
    read: impl Fn(&PhaseTrial<'_>) -> Vec<Reading>,
) -> Vec<Series> {
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    for (side, trials) in sides.iter().enumerate() {
        for reading in trials.iter().flat_map(|trial| read(trial)) {
            let value = reading.value;
            let name = reading.name.clone();
            let new = || Series { reading, base: Vec::new(), new: Vec::new() };
            let series = all.entry(name).or_insert_with(new);
            if side == 0 { &mut series.base } else { &mut series.new }.push(value);
        }
    }
    all.into_values().collect()
}

/// Processor time, traffic and work of a phase.
fn readings(phase: &PhaseRecord) -> Vec<Reading> {
    let mut found = Vec::new();
    let mut add = |name: &str, title: &str, unit, kind, value: Option<f64>| {
        let (name, title) = (name.to_owned(), title.to_owned());
        found.extend(value.map(|value| Reading { name, title, unit, kind, value }));
    };
    let seconds = |ns: Option<u64>| ns.map(|ns| ns as f64 / NS_PER_S);
    let (cpu, device) = (&phase.cpu, &phase.device);
    add("cpu.app_user", "application, user time", "s", Kind::Seconds, seconds(cpu.app_user_ns));
    let value = seconds(cpu.app_system_ns);
    add("cpu.app_system", "application, system time", "s", Kind::Seconds, value);
    for (group, ns) in cpu.groups_ns.iter().filter(|(group, _)| group.as_str() != "application") {
        let title = format!("processor time of {group}");
        add(&format!("cpu.group.{group}"), &title, "s", Kind::Seconds, seconds(Some(*ns)));
    }
    // Without a durable time the other one is what is judged.
    let returned = phase.elapsed_durable_ns.map(|_| phase.elapsed_return_ns);
    let title = "time until operations returned";
    add("time.return", title, "s", Kind::Seconds, seconds(returned));
    let rest = phase.elapsed_durable_ns.map(|ns| ns.saturating_sub(phase.elapsed_return_ns));
    add("time.durable", "time from there until durable", "s", Kind::Seconds, seconds(rest));
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / MIB);
    let count = |requests: Option<u64>| requests.map(|requests| requests as f64);
    add("device.read_mib", "read from the device", "MiB", Kind::Traffic, mib(device.read_bytes));
    add("device.write_mib", "written to the device", "MiB", Kind::Traffic, mib(device.write_bytes));
    let value = mib(device.discard_bytes);
    add("device.discard_mib", "discarded on the device", "MiB", Kind::Traffic, value);
    add("device.reads", "device reads", "", Kind::Requests, count(device.reads));
    add("device.writes", "device writes", "", Kind::Requests, count(device.writes));
    add("device.flushes", "device flushes", "", Kind::Requests, count(device.flushes));
    add("device.discards", "device discards", "", Kind::Requests, count(device.discards));
    for name in ["write_amplification", "device_read_share"] {
        let value = metric::find(name).and_then(|metric| (metric.read)(phase));
        add(name, &name.replace('_', " "), "", Kind::Figure, value);
    }
    for (kind, operations) in &phase.operations {
        let title = format!("{kind} operations");
        add(&format!("operations.{kind}"), &title, "", Kind::Requests, Some(*operations as f64));
    }
    add("bytes_mib", "bytes of the application", "MiB", Kind::Traffic, mib(Some(phase.bytes)));
    found
}

/// The shape of the latencies of each operation.
fn latencies(trial: &PhaseTrial<'_>) -> Vec<Reading> {
    let mut found = Vec::new();
    for (kind, percentiles) in &trial.result.latency_ns {
        // Of fewer operations the percentile is only the slowest again.
        let all = [
            ("p50", percentiles.p50, 2),
            ("p99", percentiles.p99, 100),
            ("p99.9", percentiles.p999, 1_000),
            ("max", percentiles.max, 1),
        ];
        let told = all.into_iter().filter(|(_, _, least)| percentiles.count >= *least);
        found.extend(told.map(|(name, ns, _)| Reading {
            name: format!("latency_ns.{kind}.{}", name.replace('.', "")),
            title: format!("{name} of {kind}"),
            unit: "ns",
            kind: Kind::Latency,
            value: ns as f64,
        }));
    }
    found
}

/// What a workload tells of itself, but for the metric that is judged.
fn other_figures(phase: &PhaseRecord, primary: Option<&str>) -> Vec<Reading> {
    figures(phase, |metric| !metric.explains && Some(metric.name) != primary)
}

fn explaining_figures(phase: &PhaseRecord) -> Vec<Reading> {
    figures(phase, |metric| metric.explains)
}

fn figures(phase: &PhaseRecord, is_wanted: impl Fn(&Metric) -> bool) -> Vec<Reading> {
    let names: BTreeSet<&String> = phase.values.keys().collect();
    let metrics = names.into_iter().filter_map(|name| metric::find(name));
    metrics
        .filter(|metric| metric.unit != "correlation" && is_wanted(metric))
        .filter_map(|metric| {
            Some(Reading {
                name: metric.name.to_owned(),
                title: metric.name.replace('_', " "),
                unit: metric.unit,
                kind: Kind::Figure,
                value: (metric.read)(phase)?,
            })
        })
        .collect()
}

/// How much was done on both sides, which says from when on a figure matters.
struct Work {
    /// Mean time of the phase, the greater of both sides, in seconds.
    elapsed_s: f64,
    /// Mean operations of the sides where these differ: totals are then told for each operation.
    operations: Option<[f64; 2]>,
}

impl Work {
    fn of(sides: &[Vec<&PhaseTrial<'_>>; 2]) -> Work {
        let mean = |side: usize, read: &dyn Fn(&PhaseRecord) -> f64| {
            let values: Vec<f64> = sides[side].iter().map(|trial| read(&trial.record)).collect();
            interval::mean(&values).unwrap_or(0.0)
        };
        let elapsed = |phase: &PhaseRecord| {
            phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns) as f64 / NS_PER_S
        };
        let operations = [0, 1].map(|side| mean(side, &|phase| phase.operation_count() as f64));
        let is_other = operations.iter().all(|count| *count > 0.0)
            && (operations[1] / operations[0]).ln().abs() > SAME_WORK;
        Work {
            elapsed_s: mean(0, &elapsed).max(mean(1, &elapsed)),
            operations: is_other.then_some(operations),
        }
    }

    /// What counts as nothing.
    fn least(&self, kind: Kind, values: impl Iterator<Item = f64>) -> f64 {
        match kind {
            Kind::Seconds => LEAST_TIME_SHARE * self.elapsed_s,
            Kind::Traffic => LEAST_BYTES / MIB,
            Kind::Requests => LEAST_REQUESTS,
            Kind::Latency => LEAST_LATENCY_NS,
            Kind::Figure => LEAST_SHARE * values.fold(0.0, f64::max),
        }
    }

    fn movement(&self, series: &Series, options: &DiffOptions) -> Option<Movement> {
        let Series { reading, base, new } = series;
        let least = self.least(reading.kind, base.iter().chain(new).copied());
        // Operations are the work: for each of themselves they would be one.
        let is_work = reading.name.starts_with("operations.") || reading.name == "bytes_mib";
        let is_total = matches!(reading.kind, Kind::Seconds | Kind::Traffic | Kind::Requests);
        let per = self.operations.filter(|_| is_total && !is_work).unwrap_or([1.0; 2]);
        let logarithms = |values: &[f64], per: f64| {
            values.iter().map(|value| (value.max(least) / per).ln()).collect::<Vec<f64>>()
        };
        let welch = Welch::of(&logarithms(base, per[0]), &logarithms(new, per[1]))?;
        let ends = welch.interval();
        if ends.contains(0.0) || welch.difference.abs() <= options.band() {
            return None;
        }
        let is_for_each = per != [1.0; 2];
        Some(Movement {
            name: reading.name.clone(),
            title: if is_for_each {
                format!("{} for each operation", reading.title)
            } else {
                reading.title.clone()
            },
            unit: reading.unit.to_owned(),
            base: interval::median(base)? / per[0],
            new: interval::median(new)? / per[1],
            ratio: welch.difference.exp(),
            low: Some(ends.low.exp()),
            high: Some(ends.high.exp()),
        })
    }
}

/// What the block traces say.
fn traced_movements(base: &IoTotals, new: &IoTotals) -> Vec<Movement> {
    let mut found = Vec::new();
    let mut add = |name: &str, title: &str, unit: &str, least: f64, values: [Option<f64>; 2]| {
        let [Some(base), Some(new)] = values else { return };
        let ratio = new.max(least) / base.max(least);
        if ratio.is_finite() && ratio.ln().abs() >= LEAST_TRACED.ln() {
            found.push(Movement {
                name: format!("trace.{name}"),
                title: format!("{title} (traced once)"),
                unit: unit.to_owned(),
                base,
                new,
                ratio,
                low: None,
                high: None,
            });
        }
    };
    let both = |read: &dyn Fn(&IoTotals) -> Option<f64>| [read(base), read(new)];
    let mib = |bytes: u64| Some(bytes as f64 / MIB);
    let least_mib = LEAST_BYTES / MIB;
    add("seeks", "seeks", "", LEAST_REQUESTS, both(&|it| Some(it.seeks as f64)));
    add("queue_depth", "mean queue depth", "", 0.1, both(&|it| it.queue_depth_mean));
    add("sequential_share", "sequential share", "", LEAST_SHARE, both(&|it| it.sequential_share));
    add(
        "idle_s",
        "time with an idle device",
        "s",
        0.01,
        both(&|it| Some(it.idle_ns as f64 / NS_PER_S)),
    );
    add("metadata_mib", "metadata", "MiB", least_mib, both(&|it| mib(it.metadata_bytes)));
    add("journal_mib", "journal", "MiB", least_mib, both(&|it| mib(it.journal_bytes)));
    add("flushes", "flushes", "", LEAST_REQUESTS, both(&|it| Some(it.flushes as f64)));
    add("fua_writes", "FUA writes", "", LEAST_REQUESTS, both(&|it| Some(it.fua_writes as f64)));
    type Read = fn(&IoTotals) -> Option<LatencySummary>;
    let kinds: [(&str, Read); 3] =
        [("read", |it| it.d2c_read), ("write", |it| it.d2c_write), ("flush", |it| it.d2c_flush)];
    for (kind, read) in kinds {
        let summary = |it: &IoTotals| read(it).filter(|summary| summary.count >= 8);
        let name = |percentile: &str| format!("d2c_ns.{kind}.{percentile}");
        let title = |percentile: &str| format!("{percentile} of a device {kind}");
        let p50 = both(&|it| summary(it).map(|summary| summary.p50 as f64));
        add(&name("p50"), &title("p50"), "ns", LEAST_LATENCY_NS, p50);
        let p99 = both(&|it| summary(it).map(|summary| summary.p99 as f64));
        add(&name("p99"), &title("p99"), "ns", LEAST_LATENCY_NS, p99);
    }
    found
}
