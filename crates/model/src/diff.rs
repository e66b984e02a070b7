//! Two runs beside each other, and one figure over many runs: what `fsdyno diff --json` and
//! `fsdyno history --json` write. Computed by `analysis`, drawn by `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Warning;

/// What a comparison of one figure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiffVerdict {
    /// The new run is better, by more than chance explains.
    Faster,
    /// The new run is worse, by more than chance explains.
    Slower,
    /// The whole 95 % interval lies within the threshold.
    Same,
    /// None of these: more trials would decide.
    Undecided,
}

impl DiffVerdict {
    /// The word in tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            DiffVerdict::Faster => "faster",
            DiffVerdict::Slower => "slower",
            DiffVerdict::Same => "same",
            DiffVerdict::Undecided => "undecided",
        }
    }
}

/// Two runs beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDiff {
    /// Version of this document.
    pub schema_version: u32,
    /// Share by which two figures may differ and count as the same: 0.03 is 3 %.
    pub threshold: f64,
    /// Whether verdicts are those of the ratios that are adjusted for the machines.
    pub adjusted: bool,
    /// Whether both runs are in virtual time: every difference is one, however small.
    #[serde(default)]
    pub exact: bool,
    /// The run that is compared with.
    pub base: DiffSide,
    /// The run that is judged.
    pub new: DiffSide,
    /// What must be known to read the figures.
    pub warnings: Vec<Warning>,
    /// What is not the same in the two runs: plan, options, what was in force, the machine.
    pub differences: Vec<Difference>,
    /// Targets, workloads and phases that the base alone has.
    pub only_base: Vec<String>,
    /// Targets, workloads and phases that the new run alone has.
    pub only_new: Vec<String>,
    /// Every figure that was compared; those over all phases of a target and workload follow its phases.
    pub rows: Vec<DiffRow>,
    /// How many rows of phases have each verdict.
    pub counts: DiffCounts,
    /// Whether something is slower beyond the threshold: exit code 1.
    pub is_slower: bool,
    /// The whole in a few sentences.
    pub summary: String,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSide {
    /// Identifier of the run.
    pub id: String,
    /// The file that it was read from; null where it is in the results database.
    pub file: Option<String>,
    /// Title of its plan.
    pub title: Option<String>,
    /// Start, RFC 3339.
    pub started: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Release of the kernel.
    pub kernel_release: Option<String>,
    /// The command line that starts it again.
    pub command: String,
}

/// Something that is not the same in the two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What it belongs to: `plan`, `machine`, `target ext4`, `workload small-files`.
    pub of: String,
    /// Its name: `mount_effective`, `kernel_release`.
    pub name: String,
    /// In the base; null where it has none.
    pub base: Option<String>,
    /// In the new run; null where it has none.
    pub new: Option<String>,
}

/// How many figures of phases have each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffCounts {
    /// Faster.
    pub faster: usize,
    /// Slower; the estimate may lie within the threshold.
    pub slower: usize,
    /// Of these, slower beyond the threshold.
    pub slower_beyond_threshold: usize,
    /// The same.
    pub same: usize,
    /// Undecided.
    pub undecided: usize,
}

/// The values of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffSample {
    /// Completed trials with a value.
    pub n: u32,
    /// Their median; of a row over all phases there is none.
    pub median: Option<f64>,
}

/// How many times as good the new run is: above 1 is better, whatever the metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffRatio {
    /// Ratio of the geometric means.
    pub ratio: f64,
    /// Low end of the 95 % interval; null with fewer than two trials on a side.
    pub low: Option<f64>,
    /// High end of the 95 % interval; null with fewer than two trials on a side.
    pub high: Option<f64>,
}

/// What an adjusted ratio was adjusted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdjustedBy {
    /// Regression of the trials on the yardstick beside them.
    Regression,
    /// The speeds of the yardstick, mixed by the shares of the phase's time.
    Yardstick,
    /// The read speeds before the first trial, mixed so.
    ReadSpeed,
}

/// What a ratio may be when that of the machines is taken out of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffBetween {
    /// Where the phase went with the figure in which the new machine is the better by most: the low end of the
    /// ratio's interval, or the ratio where it has none, over that speed.
    pub low: f64,
    /// Where it went with the figure in which it is the worse by most: the high end over that speed.
    pub high: f64,
}

/// One figure in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffRow {
    /// Label of the target; both, as in `ext4 → ext4:noatime`, where they differ.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Name of the phase; null for the geometric mean over the phases.
    pub phase: Option<String>,
    /// Name of the metric; null over the phases.
    pub metric: Option<String>,
    /// Its unit; empty for a ratio and over the phases.
    pub unit: String,
    /// The base.
    pub base: DiffSample,
    /// The new run.
    pub new: DiffSample,
    /// The ratio; null where a value is not positive.
    pub ratio: Option<DiffRatio>,
    /// The ratio that is left when that of the machines is taken out of it; null on one machine, and
    /// where the machines were not measured.
    pub adjusted: Option<DiffRatio>,
    /// By what it was adjusted; null where it was not.
    #[serde(default)]
    pub adjusted_by: Option<AdjustedBy>,
    /// Where the ratio lies without the machines, whatever the phase's time is made of; null as `adjusted`, and
    /// without the yardstick on both sides.
    #[serde(default)]
    pub between: Option<DiffBetween>,
    /// Two-sided p that there is no difference (Welch), of the ratio that decides.
    pub p: Option<f64>,
    /// The same by Holm's correction for all rows.
    pub p_holm: Option<f64>,
    /// What it says.
    pub verdict: DiffVerdict,
    /// Whether the ratio that decides lies beyond the threshold, whatever its interval.
    pub beyond_threshold: bool,
    /// Of what is undecided: trials on each side that would decide in 4 of 5 cases, if difference and
    /// scatter stay as they are; null where that is not known or more than 10,000.
    pub trials_needed: Option<u32>,
    /// What else moved where this is faster or slower, largest first.
    pub moved: Vec<Movement>,
}

/// Something that moved together with a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Movement {
    /// Stable name: `cpu.journal`, `device.flushes`, `latency_ns.write.p99`, `trace.seeks`.
    pub name: String,
    /// For people: `processor time of journal`.
    pub title: String,
    /// Unit of the values.
    pub unit: String,
    /// Median in the base.
    pub base: f64,
    /// Median in the new run.
    pub new: f64,
    /// New to base, not turned over: above 1 is more. What is too little to matter counts as the least
    /// that does, so that a ratio is never infinite.
    pub ratio: f64,
    /// Low end of its 95 % interval; null for what was traced, once on each side.
    pub low: Option<f64>,
    /// High end of its 95 % interval.
    pub high: Option<f64>,
}

/// One metric over many runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Version of this document.
    pub schema_version: u32,
    /// A series for each target, workload and phase.
    pub series: Vec<HistorySeries>,
}

/// One figure over many runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySeries {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Name of the phase.
    pub phase: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Whether more is better; null where neither way is.
    pub higher_is_better: Option<bool>,
    /// The runs, the earliest first.
    pub points: Vec<HistoryPoint>,
    /// Where the level changed, the earliest first.
    pub changes: Vec<ChangePoint>,
}

/// One run of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPoint {
    /// Identifier of the run.
    pub run: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: u64,
    /// Host name.
    pub hostname: Option<String>,
    /// Completed trials.
    pub n: u32,
    /// Their median.
    pub median: f64,
    /// Low end of its 95 % interval; null with one trial.
    pub low: Option<f64>,
    /// High end of its 95 % interval.
    pub high: Option<f64>,
}

/// A change of level between two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// Index of the first point of the new level.
    pub index: usize,
    /// Identifier of its run.
    pub run: String,
    /// Geometric mean of the runs from the change before to this one.
    pub before: f64,
    /// Geometric mean of the runs from here to the next change.
    pub after: f64,
    /// `after / before`, not turned over.
    pub ratio: f64,
    /// Chance of a change this clear in a series without any, corrected for all that was looked at.
    pub p: f64,
}
