//! All that a report shows of one run: the result document, and what is computed for drawing. Computed
//! by `analysis` from records and traces, drawn by `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::io_graph::IoGraph;
use crate::record::Role;
use crate::result::RunResult;

/// A ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// How many times as good as the baseline: above 1 is better, whatever the metric.
    pub ratio: f64,
    /// Low end; null with too few trials.
    pub low: Option<f64>,
    /// High end; null with too few trials.
    pub high: Option<f64>,
}

/// One phase of one target beside the same phase of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRatio {
    /// Name of the phase.
    pub phase: String,
    /// Name of the metric compared.
    pub metric: String,
    /// The ratio; null where one side has no figure.
    pub ratio: Option<Ratio>,
}

/// One target beside the first one, on one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Label of the workload.
    pub workload: String,
    /// Label of the first target.
    pub baseline: String,
    /// Label of the target.
    pub target: String,
    /// Geometric mean over the phases; null where none can be compared.
    pub overall: Option<Ratio>,
    /// The phases, in the order of tables.
    pub phases: Vec<PhaseRatio>,
}

/// Latency by percentile, over all measured trials of a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyCurve {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Name of the phase.
    pub phase: String,
    /// Kind of operation.
    pub operation: String,
    /// Operations.
    pub count: u64,
    /// Percentile (0 … 100) and latency in nanoseconds, ascending.
    pub points: Vec<(f64, u64)>,
}

/// When a phase ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseSpans {
    /// Name of the phase.
    pub phase: String,
    /// Begin and end of each of its samples, in nanoseconds of `CLOCK_MONOTONIC`; ends at durable.
    pub spans: Vec<(u64, u64)>,
}

/// What is known of one trial over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialTimeline {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Number of the trial.
    pub trial: u32,
    /// What the trial was for.
    pub role: Role,
    /// When its phases ran, in the order of tables.
    pub phases: Vec<PhaseSpans>,
    /// Its block trace, analysed; null when it was not traced.
    pub graph: Option<IoGraph>,
    /// What the machine did; null when that was not sampled.
    pub activity: Option<Activity>,
    /// Time of the traced trial over the median of the untraced ones; null where either is missing.
    pub slowdown: Option<f64>,
}

/// All that a report shows of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportData {
    /// The result document.
    pub result: RunResult,
    /// Every target but the first beside the first, workload by workload.
    pub comparisons: Vec<Comparison>,
    /// Latency curves.
    pub curves: Vec<LatencyCurve>,
    /// One trial of each target and workload over time: the traced one where there is one.
    pub timelines: Vec<TrialTimeline>,
}
