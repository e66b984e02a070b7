//! The result document that `--json` writes: one run with its targets, trials and summary.
//!
//! The JSON Schema in `docs/results.schema.json` is made from these types; a test keeps it fresh.
//! Programs should check `schema_version`: fields may be added within a version, never changed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::age::AgeRecord;
use crate::audit::Audit;
use crate::cold::Cold;
use crate::environment::Environment;
use crate::outcome::Outcome;
use crate::record::{
    CpuRecord, DeviceRecord, FsckRecord, Role, Sample, StageTimes, VerifyRecord, Warning,
};
use crate::stop::Stopped;
use crate::trace::TraceRecord;
use crate::workload::WorkloadSpec;

/// A run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Version of this document.
    pub schema_version: u32,
    /// The run.
    pub run: RunInfo,
    /// The targets, in the order in which they were given.
    pub targets: Vec<TargetResult>,
    /// The workloads, in the order in which they were given.
    pub workloads: Vec<WorkloadSpec>,
    /// Every planned trial, in the order of execution.
    pub trials: Vec<TrialResult>,
    /// Each metric of each phase over the completed trials.
    pub summary: Vec<SummaryRow>,
    /// The verdict of each workload, in words.
    pub verdicts: Vec<Verdict>,
    /// Whether the targets were measured under the same conditions.
    #[serde(default)]
    pub audit: Audit,
}

/// What is known of a run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Identifier, unique in a results database and sorted by time.
    pub id: String,
    /// Title of the plan.
    pub title: Option<String>,
    /// Start, RFC 3339.
    pub started: String,
    /// End, RFC 3339; null while it is not finished.
    pub finished: Option<String>,
    /// The command line that starts it again.
    pub command: String,
    /// Trials planned for each target and workload; where `stopped` is not null, the most that were made
    /// of one.
    pub trials: u32,
    /// How trials ended that were to go on until the comparisons are settled; null where their number
    /// was fixed.
    #[serde(default)]
    pub stopped: Option<Stopped>,
    /// Seed of the order and of everything that is drawn.
    pub seed: u64,
    /// Size of an image in bytes.
    pub size_bytes: u64,
    /// The machine and its software.
    pub environment: Environment,
    /// Remarks about the run as a whole.
    pub warnings: Vec<Warning>,
}

/// A target and what was really in force, from its first trial that was mounted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetResult {
    /// Its name in tables.
    pub label: String,
    /// Name of the filesystem; `dir` for a directory.
    pub filesystem: String,
    /// The target as it would be written on the command line.
    pub spec: String,
    /// Arguments for mkfs.
    pub mkfs: Vec<String>,
    /// The mkfs command line that was run.
    pub mkfs_command: Option<String>,
    /// Parameters read back from the superblock, by name.
    pub mkfs_effective: BTreeMap<String, String>,
    /// Mount options asked for.
    pub mount_requested: String,
    /// Mount options in force.
    pub mount_effective: Option<String>,
    /// Device, as asked for.
    pub device: String,
    /// Journal device, as asked for; null when inside.
    pub journal: Option<String>,
    /// What the device is: size, scheduler, write cache, …, by name.
    pub device_facts: BTreeMap<String, String>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialResult {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Number of the trial, from 1.
    pub trial: u32,
    /// What it is for: figures of `explain` count nowhere.
    pub role: Role,
    /// Place in the order of execution, from 0.
    pub order: u32,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Start, RFC 3339; null when it was never started.
    pub started: Option<String>,
    /// Duration of the whole trial.
    pub elapsed_ns: Option<u64>,
    /// Time of the stages around the phases.
    pub stages: StageTimes,
    /// What aging did; null where the target has no age.
    #[serde(default)]
    pub aged: Option<AgeRecord>,
    /// What fsck said.
    pub fsck: Option<FsckRecord>,
    /// What reading back found.
    pub verify: Option<VerifyRecord>,
    /// Time that the harness itself spends per operation.
    pub harness_floor_ns: Option<f64>,
    /// The phases, in the order of execution.
    pub phases: Vec<PhaseResult>,
    /// The block trace; null when it was not traced.
    pub trace: Option<TraceRecord>,
    /// Remarks.
    pub warnings: Vec<Warning>,
}

/// One phase of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseResult {
    /// Name of the phase.
    pub name: String,
    /// Name of the metric that tables show.
    pub primary_metric: String,
    /// Time until the last operation had returned.
    pub elapsed_return_ns: u64,
    /// Time until everything was on the device.
    pub elapsed_durable_ns: Option<u64>,
    /// Operations of all kinds.
    pub operations: u64,
    /// Operations by kind.
    pub operations_by_kind: BTreeMap<String, u64>,
    /// Files that were worked on.
    pub files: Option<u64>,
    /// Bytes that the application read or wrote.
    pub bytes: u64,
    /// Of these, the bytes that it read.
    pub read_bytes: u64,
    /// How the caches were emptied right before it; null when nothing asked for that.
    pub cold: Option<Cold>,
    /// Figures that are no time, no count of operations and no traffic, by the name of their metric.
    pub values: BTreeMap<String, f64>,
    /// Processor time.
    pub cpu: CpuRecord,
    /// Traffic of the devices.
    pub device: DeviceRecord,
    /// Latency percentiles in nanoseconds by kind of operation.
    pub latency_ns: BTreeMap<String, Percentiles>,
    /// The series, in the order of execution.
    pub samples: Vec<Sample>,
}

/// Percentiles of a latency histogram, in nanoseconds, within 0.1 %.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Number of operations.
    pub count: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

/// One metric of one phase of one workload on one target, over the completed trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SummaryRow {
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
    /// Whether tables show this metric for the phase.
    pub primary: bool,
    /// Number of trials that it is made of.
    pub n: u32,
    /// Median.
    pub median: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Low end of the 95 % interval; null with fewer than two trials.
    pub ci95_low: Option<f64>,
    /// High end of the 95 % interval; null with fewer than two trials.
    pub ci95_high: Option<f64>,
    /// Whether no other target is better.
    pub best: bool,
    /// Whether it cannot be told apart from the best.
    pub tied_with_best: bool,
}

/// What the numbers of one workload say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Label of the workload.
    pub workload: String,
    /// One or two sentences.
    pub text: String,
}
