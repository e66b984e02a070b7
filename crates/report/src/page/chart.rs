//! What the charts of a page draw, in the order of its tables. Figures come from the result document
//! and what was computed for drawing; here they are only put in rows.

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{Role, Sample};
use fsdyno_model::report_data::{Comparison, LatencyCurve, PhaseRatio, Ratio, ReportData};
use fsdyno_model::result::{PhaseResult, RunResult, SummaryRow, TargetResult, TrialResult};
use serde_json::{Value, json};

use super::pack::{self, Thinning};
use crate::grid::{Grid, IntervalStyle};

/// Points of all latency curves of a page.
const CURVE_POINTS: usize = 40_000;
/// Points of all per-trial series of a page.
const SAMPLE_POINTS: usize = 60_000;
/// Rows of the chart at the top; with more, each workload shows its own phases.
pub const TOP_ROWS: usize = 18;

/// Groups of processor time in the order of stacks, and their titles.
pub const CPU_GROUPS: [(&str, &str); 12] = [
    ("application", "application"),
    ("filesystem", "filesystem"),
    ("journal", "journal"),
    ("flusher", "writeback"),
    ("loop", "loop device"),
    ("block", "block layer"),
    ("kernel", "other kernel threads"),
    ("interrupts", "interrupts"),
    ("other", "other programs"),
    ("harness", "fsdyno itself"),
    ("unaccounted", "not accounted for"),
    ("steal", "taken by the hypervisor"),
];

/// The title of a group of processor time; a group that no list has is its own title.
pub fn group_title(group: &str) -> &str {
    CPU_GROUPS.iter().find(|(known, _)| *known == group).map_or(group, |(_, title)| title)
}

/// One row of a chart of ratios.
pub struct RatioRow {
    /// Name of the phase, or what the mean is over.
    pub name: String,
    /// Whether it is the mean over all phases.
    pub overall: bool,
    /// By target, the first left out: null where nothing can be compared.
    pub ratios: Vec<Option<Ratio>>,
}

/// The rows of `workload`: the mean first, then its phases where asked for.
pub fn ratio_rows(data: &ReportData, workload: &str, name: &str, phases: bool) -> Vec<RatioRow> {
    let own: Vec<Option<&Comparison>> = (data.result.targets.iter().skip(1))
        .map(|target| {
            let of = |it: &&Comparison| it.workload == workload && it.target == target.label;
            data.comparisons.iter().find(of)
        })
        .collect();
    let overall = own.iter().map(|it| it.and_then(|it| it.overall)).collect();
    let mut rows = vec![RatioRow { name: name.to_owned(), overall: true, ratios: overall }];
    let mut names: Vec<&str> = Vec::new();
    for phase in own.iter().flatten().flat_map(|it| &it.phases) {
        if !names.contains(&phase.phase.as_str()) {
            names.push(&phase.phase);
        }
    }
    for phase in names.into_iter().filter(|_| phases) {
        let of = |it: &&PhaseRatio| it.phase == phase;
        let ratio = |it: &Option<&Comparison>| {
            it.and_then(|it| it.phases.iter().find(of)).and_then(|it| it.ratio)
        };
        let ratios: Vec<Option<Ratio>> = own.iter().map(ratio).collect();
        rows.push(RatioRow { name: phase.to_owned(), overall: false, ratios });
    }
    rows.retain(|row| row.ratios.iter().any(Option::is_some));
    rows
}

/// Rows of ratios for the script.
pub fn ratios(rows: &[RatioRow]) -> Value {
    let ratio = |it: &Option<Ratio>| it.map(|it| [Some(it.ratio), it.low, it.high]);
    let row = |row: &RatioRow| {
        let ratios: Vec<_> = row.ratios.iter().map(ratio).collect();
        json!({ "name": row.name, "overall": row.overall, "ratios": ratios })
    };
    rows.iter().map(row).collect()
}

/// Everything that the charts of one workload draw.
pub fn workload(data: &ReportData, label: &str) -> Value {
    let phases = phases(&data.result, label);
    json!({
        "label": label,
        "bars": bars(&data.result, label),
        "trials": reached_manifest(&data.result, &by_trial(&data.result, label)),
        "samples": reached_manifest(&data.result, &within_trials(&data.result, label)),
        "curves": curves(data, label),
        "cpu": cpu(&data.result, label, &phases),
        "durable": durable(&data.result, label),
    })
}

/// Names of the phases of a workload, in the order of tables.
pub fn phases<'a>(result: &'a RunResult, workload: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in result.summary.iter().filter(|row| row.primary && row.workload == workload) {
        if !names.contains(&row.phase.as_str()) {
            names.push(&row.phase);
        }
    }
    names
}

fn find<'a>(
    result: &'a RunResult,
    workload: &str,
    phase: &str,
    metric: Option<&str>,
    target: &str,
) -> Option<&'a SummaryRow> {
    result.summary.iter().find(|row| {
        row.workload == workload
            && row.phase == phase
            && row.target == target
            && metric.map_or(row.primary, |metric| row.metric == metric)
    })
}

/// One bar for each target in the rows of the table, with the text of its cell.
fn bars(result: &RunResult, label: &str) -> Value {
    let grid = Grid::of(result, label);
    let row = |row: &crate::grid::Row| {
        let cells: Vec<Value> = (result.targets.iter().zip(&row.cells))
            .map(|(target, cell)| {
                let summary = find(result, label, &row.name, None, &target.label);
                match (cell, summary) {
                    (Some(cell), Some(summary)) => json!({
                        "value": summary.median,
                        "low": summary.ci95_low,
                        "high": summary.ci95_high,
                        "text": cell.value,
                        "interval": cell.interval(IntervalStyle::Full),
                    }),
                    _ => Value::Null,
                }
            })
            .collect();
        json!({ "name": row.name, "unit": row.unit, "better": row.better.map(better), "cells": cells })
    };
    grid.rows.iter().map(row).collect()
}

fn better(better: fsdyno_model::metric::Better) -> &'static str {
    match better {
        fsdyno_model::metric::Better::Higher => "higher",
        fsdyno_model::metric::Better::Lower => "lower",
    }
}

/// The measured trials of a workload that completed.
fn completed<'a>(
    result: &'a RunResult,
    workload: &'a str,
    target: &'a str,
) -> impl Iterator<Item = &'a TrialResult> {
    result.trials.iter().filter(move |trial| {
        trial.workload == workload
            && trial.target == target
            && trial.role == Role::Measured
            && trial.outcome == Outcome::Completed
    })
}

fn phase_of<'a>(trial: &'a TrialResult, phase: &str) -> Option<&'a PhaseResult> {
    trial.phases.iter().find(|it| it.name == phase)
}

/// What one trial after the other, or one sample after the other, reached in a phase.
pub struct Reached {
    pub phase: String,
    pub unit: &'static str,
    /// What a sample is: `kernel` of `kernel-3`; `trial` where a phase has one sample in each trial.
    pub by: String,
    pub lines: Vec<ReachedLine>,
}

/// The values of one trial, sample by sample; or those of one target, trial by trial.
pub struct ReachedLine {
    /// Index of the target.
    pub target: usize,
    /// Number of the trial; 0 where the values are those of all trials.
    pub trial: u32,
    pub values: Vec<Option<f64>>,
}

/// The phases with several samples in a trial, sample by sample.
pub fn within_trials(result: &RunResult, label: &str) -> Vec<Reached> {
    let phase = |phase: &str| {
        let own = || {
            (result.targets.iter().enumerate()).flat_map(move |(target, it)| {
                completed(result, label, &it.label)
                    .filter_map(move |trial| Some((target, trial, phase_of(trial, phase)?)))
            })
        };
        own().find(|(.., it)| it.samples.len() > 1)?;
        let samples = || own().flat_map(|(.., it)| &it.samples);
        let with_bytes = samples().all(|sample| sample.bytes > 0);
        let line = |(target, trial, it): (usize, &TrialResult, &PhaseResult)| ReachedLine {
            target,
            trial: trial.trial,
            values: it.samples.iter().map(|sample| reached(sample, with_bytes)).collect(),
        };
        Some(Reached {
            phase: phase.to_owned(),
            unit: if with_bytes { "MiB/s" } else { "ms" },
            by: samples().next().map_or_else(String::new, |it| kind(&it.subject)),
            lines: own().map(line).collect(),
        })
    };
    phases(result, label).into_iter().filter_map(phase).collect()
}

/// `kernel` of `kernel-3`; `sample` where the subject is no name and number.
fn kind(subject: &str) -> String {
    let name = subject.trim_end_matches(|it: char| it.is_ascii_digit());
    let name = name.trim_end_matches(['-', '_', ' ']);
    let is_word = !name.is_empty() && name.len() < subject.len();
    let is_word = is_word && name.chars().all(|it| it.is_alphabetic() || it == ' ');
    if is_word { name.to_owned() } else { "sample".to_owned() }
}

/// The phases that are one sample in each trial, by trial.
pub fn by_trial(result: &RunResult, label: &str) -> Vec<Reached> {
    let value = |trial: &TrialResult, phase: &str| {
        let phase = phase_of(trial, phase)?;
        let ns = phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns);
        Some(ns as f64 / 1e6)
    };
    let phase = |phase: &str| {
        let line = |(target, it): (usize, &TargetResult)| {
            let mut values = vec![None; result.run.trials as usize];
            for trial in completed(result, label, &it.label) {
                let place = (trial.trial as usize).checked_sub(1).and_then(|at| values.get_mut(at));
                if let Some(place) = place {
                    *place = value(trial, phase);
                }
            }
            ReachedLine { target, trial: 0, values }
        };
        let lines = result.targets.iter().enumerate().map(line).collect();
        Reached { phase: phase.to_owned(), unit: "ms", by: "trial".to_owned(), lines }
    };
    let is_single = |phase: &&str| {
        let targets = result.targets.iter();
        let mut trials = targets.flat_map(|it| completed(result, label, &it.label));
        !trials.any(|trial| phase_of(trial, phase).is_some_and(|it| it.samples.len() > 1))
    };
    let all = phases(result, label).into_iter().filter(|_| result.run.trials > 1);
    let mut all: Vec<Reached> = all.filter(is_single).map(phase).collect();
    all.retain(|it| it.lines.iter().any(|line| line.values.iter().any(Option::is_some)));
    all
}

/// What was reached, for the script; samples are thinned to what a chart can show.
fn reached_manifest(result: &RunResult, all: &[Reached]) -> Value {
    let lines = all.iter().map(|it| it.lines.len()).sum::<usize>().max(1);
    let points = (SAMPLE_POINTS / lines / result.workloads.len().max(1)).clamp(40, 2000);
    let one = |it: &Reached| {
        let longest = it.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
        let group = longest.div_ceil(points).max(1);
        let line = |line: &ReachedLine| {
            let values = pack::thinned(&line.values, group, Thinning::Mean);
            json!({ "target": line.target, "trial": line.trial, "values": pack::floats(values) })
        };
        let lines: Vec<Value> = it.lines.iter().map(line).collect();
        json!({ "phase": it.phase, "unit": it.unit, "by": it.by, "group": group, "lines": lines })
    };
    all.iter().map(one).collect()
}

/// Throughput of a sample, or its duration in milliseconds, until durable where that is known.
fn reached(sample: &Sample, throughput: bool) -> Option<f64> {
    let ns = sample.elapsed_durable_ns.unwrap_or(sample.elapsed_return_ns) as f64;
    match throughput {
        true => (ns > 0.0).then(|| sample.bytes as f64 / f64::from(1 << 20) / (ns / 1e9)),
        false => Some(ns / 1e6),
    }
}

/// Latency by percentile; the axis is `1 / (1 - p)`, so that each nine takes the same room.
fn curves(data: &ReportData, label: &str) -> Value {
    let points = (CURVE_POINTS / data.curves.len().max(1)).clamp(24, 240);
    let curve = |it: &LatencyCurve| {
        let target = data.result.targets.iter().position(|target| target.label == it.target)?;
        let step = it.points.len().div_ceil(points).max(1);
        let last = it.points.len().saturating_sub(1);
        let kept = it.points.iter().enumerate();
        let kept: Vec<(f64, u64)> = kept
            .filter(|(index, _)| index % step == 0 || *index == last)
            .map(|(_, point)| *point)
            .collect();
        // The slowest of n operations stands where one in n is.
        let end = (it.count as f64).max(2.0);
        let x = |percentile: f64| {
            let rest = 1.0 - percentile / 100.0;
            Some(if rest > 0.0 { (1.0 / rest).min(end) } else { end })
        };
        Some(json!({
            "target": target,
            "phase": it.phase,
            "operation": it.operation,
            "count": it.count,
            "x": pack::floats(kept.iter().map(|(percentile, _)| x(*percentile))),
            "y": pack::floats(kept.iter().map(|(_, ns)| Some(*ns as f64))),
        }))
    };
    data.curves.iter().filter(|it| it.workload == label).filter_map(curve).collect()
}

/// Mean processor time of each group over the completed trials, in seconds, by phase and target.
fn cpu(result: &RunResult, label: &str, phases: &[&str]) -> Value {
    let row = |phase: &&str| {
        let cells: Vec<Value> = result
            .targets
            .iter()
            .map(|target| {
                let records = completed(result, label, &target.label)
                    .filter_map(|trial| phase_of(trial, phase))
                    .collect::<Vec<&PhaseResult>>();
                stack(&records)
            })
            .collect();
        let some = cells.iter().any(|cell| !cell.is_null());
        some.then(|| json!({ "name": phase, "cells": cells }))
    };
    phases.iter().filter_map(row).collect()
}

fn stack(records: &[&PhaseResult]) -> Value {
    let mut groups: Vec<(String, f64)> = Vec::new();
    for record in records {
        for (group, ns) in groups_ns(record) {
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, sum)) => *sum += ns as f64,
                None => groups.push((group, ns as f64)),
            }
        }
    }
    let count = records.len() as f64;
    let mean = |(group, sum): (String, f64)| (group, Value::from(sum / count / 1e9));
    let groups: serde_json::Map<String, Value> = groups.into_iter().map(mean).collect();
    if groups.is_empty() { Value::Null } else { Value::Object(groups) }
}

/// The groups as sampled, or as far as the counters of the phase tell.
fn groups_ns(record: &PhaseResult) -> Vec<(String, u64)> {
    let cpu = &record.cpu;
    if !cpu.groups_ns.is_empty() {
        return cpu.groups_ns.iter().map(|(group, ns)| (group.clone(), *ns)).collect();
    }
    let (Some(user), Some(system)) = (cpu.app_user_ns, cpu.app_system_ns) else {
        return Vec::new();
    };
    let mut groups = vec![("application".to_owned(), user + system)];
    groups.extend(cpu.filesystem_ns.map(|ns| ("filesystem".to_owned(), ns)));
    groups
}

/// Time until the last operation returned beside the time until all was on the device, in seconds.
fn durable(result: &RunResult, label: &str) -> Value {
    let median = |phase: &str, metric: &str, target: &str| {
        find(result, label, phase, Some(metric), target).map(|row| row.median)
    };
    let row = |phase: &&str| {
        let cells: Vec<Option<[f64; 2]>> = (result.targets.iter())
            .map(|it| {
                let returned = median(phase, "return_elapsed_s", &it.label)?;
                let durable = median(phase, "elapsed_s", &it.label)?;
                Some([returned, durable])
            })
            .collect();
        let differ = cells.iter().flatten().any(|[returned, durable]| durable > returned);
        differ.then(|| json!({ "name": phase, "cells": cells }))
    };
    phases(result, label).iter().filter_map(row).collect()
}
