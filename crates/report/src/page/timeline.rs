//! Trials over time as the page's script wants them: seconds from the left end of the axis, series in
//! base64, phases as bands. Drawing is left to the script.

use fsdyno_model::activity::{Activity, ActivitySeries, Reading};
use fsdyno_model::io_graph::{Burst, HeatMap, IoClass, IoGraph, IoTotals};
use fsdyno_model::record::Role;
use fsdyno_model::report_data::TrialTimeline;
use serde_json::{Value, json};

use super::heat;
use super::pack::{self, Thinning};

/// Points of one line, all timelines of a page together.
const POINTS: usize = 4800;
/// Bands of one phase that are drawn apart.
const BANDS: usize = 400;

/// All timelines of a page.
pub fn manifest(timelines: &[TrialTimeline]) -> Value {
    let maps: Vec<&HeatMap> =
        timelines.iter().filter_map(|it| it.graph.as_ref()).map(|graph| &graph.heat).collect();
    let mut packed = heat::packed(&maps).into_iter();
    let points = (POINTS / timelines.len().max(1)).clamp(120, 1200);
    let all: Vec<Value> = timelines
        .iter()
        .map(|timeline| {
            let heat = timeline.graph.as_ref().and_then(|_| packed.next());
            one(timeline, heat, points)
        })
        .collect();
    Value::Array(all)
}

fn one(timeline: &TrialTimeline, heat: Option<Value>, points: usize) -> Value {
    let axis = Axis::of(timeline);
    let graph = timeline.graph.as_ref();
    json!({
        "target": timeline.target,
        "workload": timeline.workload,
        "trial": timeline.trial,
        "explain": timeline.role == Role::Explain,
        "duration_s": axis.duration_ns as f64 / 1e9,
        "phases": phases(timeline, &axis),
        "graph": graph.map(|graph| {
            let mut all = graph_of(graph, heat, points);
            all["bursts"] = bursts(timeline, graph);
            all
        }),
        "activity": timeline.activity.as_ref().map(|activity| activity_of(activity, &axis, points)),
    })
}

/// The time axis that graph and activity share.
struct Axis {
    start_ns: u64,
    duration_ns: u64,
}

impl Axis {
    fn of(timeline: &TrialTimeline) -> Axis {
        if let Some(graph) = &timeline.graph {
            return Axis { start_ns: graph.start_ns, duration_ns: graph.duration_ns.max(1) };
        }
        let spans = || timeline.phases.iter().flat_map(|phase| &phase.spans);
        let times = || timeline.activity.iter().flat_map(|it| it.times_ns.iter().copied());
        let start_ns = spans().map(|span| span.0).chain(times()).min().unwrap_or(0);
        let end_ns = spans().map(|span| span.1).chain(times()).max().unwrap_or(0);
        Axis { start_ns, duration_ns: end_ns.saturating_sub(start_ns).max(1) }
    }

    fn seconds(&self, time_ns: u64) -> f64 {
        (time_ns as f64 - self.start_ns as f64) / 1e9
    }
}

/// When phases ran, on the clock of the trace: those of the timeline, or the windows of a trace
/// without them.
fn spans(timeline: &TrialTimeline) -> Vec<(&str, &[(u64, u64)])> {
    let of_trial = timeline.phases.iter().map(|it| (it.phase.as_str(), it.spans.as_slice()));
    let windows = timeline.graph.iter().flat_map(|graph| &graph.windows);
    let windows = windows.map(|it| (it.name.as_str(), it.spans.as_slice()));
    let all: Vec<_> =
        if timeline.phases.is_empty() { windows.collect() } else { of_trial.collect() };
    all.into_iter().filter(|(_, spans)| !spans.is_empty()).collect()
}

fn phases(timeline: &TrialTimeline, axis: &Axis) -> Vec<Value> {
    let ran = spans(timeline).into_iter();
    ran.map(|(name, spans)| json!({ "name": name, "spans": bands(spans, axis) })).collect()
}

/// Whether anything is known of when phases ran.
pub fn has_phases(timeline: &TrialTimeline) -> bool {
    !spans(timeline).is_empty()
}

/// The phase in which each burst mostly is; `None` where the greater part of it is in no phase.
pub fn burst_phases(timeline: &TrialTimeline) -> Vec<Option<String>> {
    let Some(graph) = &timeline.graph else { return Vec::new() };
    let phases = spans(timeline);
    let phase = |burst: &Burst| {
        let from = graph.start_ns.saturating_add(burst.from_ns);
        let to = graph.start_ns.saturating_add(burst.to_ns).max(from + 1);
        let shared = |span: &(u64, u64)| span.1.min(to).saturating_sub(span.0.max(from));
        let within = phases.iter().map(|(name, spans)| (spans.iter().map(shared).sum(), *name));
        let within: Vec<(u64, &str)> = within.collect();
        let all: u64 = within.iter().map(|(shared, _)| shared).sum();
        let most = within.iter().rev().max_by_key(|(shared, _)| *shared)?;
        (all * 2 >= to - from).then(|| most.1.to_owned())
    };
    graph.bursts.iter().map(phase).collect()
}

/// Begin and end of each band in seconds; neighbours become one where there are very many.
fn bands(spans: &[(u64, u64)], axis: &Axis) -> Vec<[f64; 2]> {
    let group = spans.len().div_ceil(BANDS).max(1);
    let merged = spans.chunks(group).filter_map(|chunk| Some((chunk.first()?.0, chunk.last()?.1)));
    merged.map(|(from, to)| [axis.seconds(from), axis.seconds(to)]).collect()
}

fn graph_of(graph: &IoGraph, heat: Option<Value>, points: usize) -> Value {
    let bins = graph.series.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let group = bins.div_ceil(points).max(1);
    let mut series = serde_json::Map::new();
    for one in &graph.series {
        let worst = one.name.ends_with("_p99");
        let how = if worst { Thinning::Greatest } else { Thinning::Mean };
        series.insert(one.name.clone(), pack::floats(pack::thinned(&one.values, group, how)));
    }
    let devices: Vec<Value> = (graph.devices.iter())
        .map(|device| json!({ "name": device.name, "sectors": device.sectors }))
        .collect();
    json!({
        "label": graph.label,
        "bin_s": graph.bin_ns as f64 * group as f64 / 1e9,
        "bins": bins.div_ceil(group),
        "devices": devices,
        "series": series,
        "classes": IoClass::ALL.map(IoClass::title),
        "totals": summary(&graph.totals),
        "processes": graph.processes.iter().map(|process| &process.name).collect::<Vec<_>>(),
        "heat": heat,
    })
}

/// When bursts were, and whether outside of every phase that is known.
fn bursts(timeline: &TrialTimeline, graph: &IoGraph) -> Value {
    let is_known = has_phases(timeline);
    let phases = burst_phases(timeline);
    let one = |(burst, phase): (&Burst, &Option<String>)| {
        json!({
            "from_s": burst.from_ns as f64 / 1e9,
            "to_s": burst.to_ns as f64 / 1e9,
            "outside": is_known && phase.is_none(),
        })
    };
    graph.bursts.iter().zip(&phases).map(one).collect()
}

fn summary(totals: &IoTotals) -> Value {
    json!({
        "read_bytes": totals.read_bytes,
        "write_bytes": totals.write_bytes,
        "seeks": totals.seeks,
    })
}

/// Processor time by group, in processors; memory in bytes.
fn activity_of(activity: &Activity, axis: &Axis, points: usize) -> Value {
    let group = activity.times_ns.len().div_ceil(points).max(1);
    let ends: Vec<u64> =
        activity.times_ns.chunks(group).filter_map(|chunk| chunk.last().copied()).collect();
    let begin = activity.times_ns.first().copied().unwrap_or(0);
    let lengths_ns: Vec<f64> = (std::iter::once(&begin).chain(&ends))
        .zip(&ends)
        .map(|(from, to)| to.saturating_sub(*from) as f64)
        .collect();
    let shown = |series: &&ActivitySeries| {
        series.kind == "cpu"
            || (series.kind == "memory"
                && ["dirty", "writeback"].iter().any(|word| series.name.contains(word)))
    };
    let series: Vec<Value> = (activity.series.iter().filter(shown))
        .map(|series| {
            let values = match series.reading {
                Reading::Gauge => pack::thinned(&series.values, group, Thinning::Mean),
                Reading::Delta => {
                    let sums = pack::thinned(&series.values, group, Thinning::Sum);
                    let rate = |(sum, ns): (Option<f64>, &f64)| sum.filter(|_| *ns > 0.0).map(|sum| sum / ns);
                    sums.into_iter().zip(&lengths_ns).map(rate).collect()
                }
            };
            json!({ "name": series.name, "kind": series.kind, "title": series.title, "values": pack::floats(values) })
        })
        .collect();
    json!({
        "processors": activity.processors,
        "times": pack::floats(ends.iter().map(|time_ns| Some(axis.seconds(*time_ns)))),
        "series": series,
    })
}
