//! A figure over time, ready to be drawn: points far enough apart to be seen, and the paths through
//! them.

use std::fmt::Write as _;

use fsdyno_model::io_graph::{IoGraph, IoSeries};

use super::canvas::n;

/// Pixels between points where a series has more than that.
const APART: f64 = 2.5;

/// What stands for several bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// Their mean: rates and depths.
    Mean,
    /// The largest: tails of latency.
    Most,
}

/// Places and values; `None` interrupts a line.
pub type Points = Vec<(f64, Option<f64>)>;

/// A line.
#[derive(Debug, Clone)]
pub struct Line {
    pub name: String,
    pub color: &'static str,
    pub dashed: bool,
    /// By times after the left end of the axis in nanoseconds.
    pub points: Points,
}

impl Line {
    pub fn most(&self) -> f64 {
        self.values().fold(0.0, f64::max)
    }

    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().filter_map(|(_, value)| *value).filter(|value| value.is_finite())
    }

    /// Whether there is anything but zeros.
    pub fn is_seen(&self) -> bool {
        self.values().any(|value| value > 0.0)
    }
}

/// The points of several series added up, `length` pixels for `duration_ns`.
pub fn points(
    graph: &IoGraph,
    names: &[&str],
    join: Join,
    length: f64,
    duration_ns: f64,
) -> Points {
    let series: Vec<&IoSeries> = names.iter().filter_map(|name| graph.series(name)).collect();
    let bins = series.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let sum = |bin: usize| -> Option<f64> {
        let values = series.iter().filter_map(|series| *series.values.get(bin)?);
        values.reduce(|sum, value| sum + value)
    };
    let values: Vec<Option<f64>> = (0..bins).map(sum).collect();
    let pixels = graph.bin_ns as f64 / duration_ns * length;
    let together = if pixels > 0.0 { (APART / pixels).ceil().max(1.0) as usize } else { 1 };
    let bin_ns = graph.bin_ns as f64;
    let end_ns = graph.duration_ns as f64;
    values
        .chunks(together)
        .enumerate()
        .map(|(index, chunk)| {
            let from = (index * together) as f64 * bin_ns;
            let to = (from + chunk.len() as f64 * bin_ns).min(end_ns.max(from));
            (f64::midpoint(from, to), joined(chunk, join))
        })
        .collect()
}

fn joined(chunk: &[Option<f64>], join: Join) -> Option<f64> {
    let values = || chunk.iter().flatten().copied().filter(|value| value.is_finite());
    match join {
        Join::Most => values().reduce(f64::max),
        Join::Mean => {
            values().reduce(|sum, value| sum + value).map(|sum| sum / values().count() as f64)
        }
    }
}

/// The path through `points`; a point alone becomes a short dash.
pub fn stroke_path(points: &[(f64, Option<f64>)]) -> String {
    let mut path = String::new();
    for run in runs(points) {
        if let [(x, y)] = run[..] {
            let _ = write!(path, "M{} {}h2", n(x - 1.0), n(y));
        }
        for (index, (x, y)) in run.iter().enumerate().filter(|_| run.len() > 1) {
            let _ = write!(path, "{}{} {}", if index == 0 { 'M' } else { 'L' }, n(*x), n(*y));
        }
    }
    path
}

/// The area between `points` and the line at `base`.
pub fn fill_path(points: &[(f64, Option<f64>)], base: f64) -> String {
    let mut path = String::new();
    for run in runs(points).into_iter().filter(|run| run.len() > 1) {
        let _ = write!(path, "M{} {}", n(run[0].0), n(base));
        for (x, y) in &run {
            let _ = write!(path, "L{} {}", n(*x), n(*y));
        }
        let _ = write!(path, "L{} {}Z", n(run[run.len() - 1].0), n(base));
    }
    path
}

/// Points that follow each other without a gap.
fn runs(points: &[(f64, Option<f64>)]) -> Vec<Vec<(f64, f64)>> {
    points
        .split(|(_, y)| y.is_none())
        .filter(|run| !run.is_empty())
        .map(|run| run.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_interrupt_a_line() {
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(4.0))];
        assert_eq!(stroke_path(&points), "M0 1L1 2M2 4h2");
        assert_eq!(fill_path(&points, 9.0), "M0 9L0 1L1 2L1 9Z");
    }

    #[test]
    fn bins_are_joined_and_absent_ones_stay_absent() {
        let series = IoSeries {
            name: "seeks_per_s".to_owned(),
            title: String::new(),
            unit: String::new(),
            values: vec![Some(1.0), Some(3.0), None, None, Some(5.0)],
        };
        let graph =
            IoGraph { bin_ns: 10, duration_ns: 50, series: vec![series], ..IoGraph::default() };
        let joined = |join| points(&graph, &["seeks_per_s"], join, 6.25, 50.0);
        assert_eq!(joined(Join::Mean), [(10.0, Some(2.0)), (30.0, None), (45.0, Some(5.0))]);
        assert_eq!(joined(Join::Most)[0].1, Some(3.0));
        assert!(points(&graph, &["other"], Join::Mean, 100.0, 50.0).is_empty());
    }
}
