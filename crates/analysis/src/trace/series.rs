//! The series of a graph, made of what the passes kept for each bin.

use fsdyno_model::io_graph::IoSeries;

use super::Passes;
use super::bins::Axis;
use super::depth::Depth;
use super::flow::Finished;
use super::latency::Latency;

/// Figures that are rates, read off what was finished in a bin: name, title, unit.
type Rate = (&'static str, &'static str, &'static str, fn(&Finished) -> u64);

const RATES: &[Rate] = &[
    ("read_bytes_per_s", "Reads", "B/s", |bin| bin.read_bytes),
    ("write_bytes_per_s", "Writes", "B/s", |bin| bin.write_bytes),
    ("discard_bytes_per_s", "Discards", "B/s", |bin| bin.discard_bytes),
    ("metadata_bytes_per_s", "Metadata", "B/s", |bin| bin.metadata_bytes),
    ("journal_bytes_per_s", "Journal", "B/s", |bin| bin.journal_bytes),
    ("read_iops", "Reads", "1/s", |bin| bin.reads),
    ("write_iops", "Writes", "1/s", |bin| bin.writes),
    ("flushes_per_s", "Flushes", "1/s", |bin| bin.flushes),
];

/// All series; each has a value for every bin of the axis up to `duration_ns`.
pub(super) fn all(passes: &Passes, depth: &Depth, axis: &Axis, duration_ns: u64) -> Vec<IoSeries> {
    let count = axis.bin(duration_ns).min(axis.limit - 1) + 1;
    // The last bin is cut off by the end of the trace. One request in a sliver of a bin is no rate: a
    // rate is over half a bin at least.
    let held_ns = |bin: usize| {
        let begin_ns = (bin as u64) << axis.shift;
        duration_ns.saturating_sub(begin_ns).min(axis.bin_ns()).max(1)
    };
    let length_ns = |bin: usize| held_ns(bin).max(axis.bin_ns() / 2);
    let per_second = |values: &dyn Fn(usize) -> u64| -> Vec<Option<f64>> {
        (0..count).map(|bin| Some(values(bin) as f64 * 1e9 / length_ns(bin) as f64)).collect()
    };
    let series = |name: &str, title: &str, unit: &str, values| IoSeries {
        name: name.to_owned(),
        title: title.to_owned(),
        unit: unit.to_owned(),
        values,
    };
    let finished = passes.flow.bins.values();
    let mut all: Vec<IoSeries> = RATES
        .iter()
        .map(|(name, title, unit, read)| {
            series(name, title, unit, per_second(&|bin| finished.get(bin).map_or(0, read)))
        })
        .collect();
    let seeks = passes.seeks.bins.values();
    let at = |values: &[u64], bin: usize| values.get(bin).copied().unwrap_or(0);
    all.push(series("seeks_per_s", "Seeks", "1/s", per_second(&|bin| at(seeks, bin))));
    let areas = depth.areas.values();
    let depths = (0..count).map(|bin| Some(at(areas, bin) as f64 / held_ns(bin) as f64));
    all.push(series("queue_depth", "Queue depth", "", depths.collect()));
    for (name, title, bins, share) in [
        ("d2c_ns_p50", "Issue to completion, median", &passes.latency.d2c, 0.5),
        ("d2c_ns_p99", "Issue to completion, 99 %", &passes.latency.d2c, 0.99),
        ("q2c_ns_p50", "Queue to completion, median", &passes.latency.q2c, 0.5),
        ("q2c_ns_p99", "Queue to completion, 99 %", &passes.latency.q2c, 0.99),
    ] {
        let mut values = Latency::quantiles(bins, share);
        values.resize(count, None);
        all.push(series(name, title, "ns", values));
    }
    all
}
