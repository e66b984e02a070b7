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
use crate::guest::VirtualTime;
use crate::outcome::Outcome;
use crate::place::Measured;
use crate::power_cuts::TargetPowerCuts;
use crate::record::{
    CpuRecord, DeviceRecord, FsckRecord, PhaseRecord, Role, Sample, StageTimes, VerifyRecord,
    Warning,
};
use crate::stop::Stopped;
use crate::then_and_now::ThenAndNow;
use crate::trace::TraceRecord;
use crate::workload::WorkloadSpec;
use crate::yardstick::Yardstick;

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
    /// What others published beside what was measured; null where the plan repeats no publication.
    #[serde(default)]
    pub then_and_now: Option<ThenAndNow>,
    /// What tests of power cuts say of the targets under which power can be cut, on the kernel of the run;
    /// empty where none of them was ever tested.
    #[serde(default)]
    pub power_cuts: Vec<TargetPowerCuts>,
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
    /// Where it ran.
    #[serde(default)]
    pub measured: Measured,
    /// What a trial in virtual time depends on; null for others.
    #[serde(default)]
    pub virtual_time: Option<VirtualTime>,
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
    /// How fast the machine was before and after it; null where that was not asked for, in explain trials
    /// and in runs of older versions.
    #[serde(default)]
    pub yardstick: Option<Yardstick>,
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

impl PhaseResult {
    /// The record that metrics are read off: without the latencies, which no metric reads.
    #[must_use]
    pub fn record(&self) -> PhaseRecord {
        PhaseRecord {
            elapsed_return_ns: self.elapsed_return_ns,
            elapsed_durable_ns: self.elapsed_durable_ns,
            operations: self.operations_by_kind.clone(),
            files: self.files,
            bytes: self.bytes,
            read_bytes: self.read_bytes,
            cold: self.cold,
            values: self.values.clone(),
            cpu: self.cpu.clone(),
            device: self.device.clone(),
            samples: self.samples.clone(),
            ..PhaseRecord::new(&self.name, &self.primary_metric)
        }
    }
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    /// Mean; `mean_method` says which.
    pub mean: f64,
    /// How `mean` was made.
    #[serde(default)]
    pub mean_method: MeanMethod,
    /// Low end of the 95 % interval of the mean, by the bootstrap; null with fewer than ten trials, where
    /// trials ended by what they showed, and where tables do not show the metric.
    #[serde(default)]
    pub mean_ci95_low: Option<f64>,
    /// High end of the same.
    #[serde(default)]
    pub mean_ci95_high: Option<f64>,
    /// Low end of the 95 % interval of the median; null with fewer than two trials, and with fewer than asked
    /// for where trials end by what they show.
    pub ci95_low: Option<f64>,
    /// High end of the same.
    pub ci95_high: Option<f64>,
    /// How the interval of the median was made; null where there is none.
    #[serde(default)]
    pub ci95_method: Option<IntervalMethod>,
    /// Whether no other target is better.
    pub best: bool,
    /// Whether it cannot be told apart from the best.
    pub tied_with_best: bool,
    /// Letters of the phase: targets that are not told apart share one, those that share none are told apart;
    /// `a` is that of the best. Null where tables do not show the metric, and with fewer than two targets.
    #[serde(default)]
    pub letters: Option<String>,
    /// How it compares with the best; null for the best itself, and where tables do not show the metric.
    #[serde(default)]
    pub beside_best: Option<Effect>,
}

/// How a mean was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MeanMethod {
    /// Sum over count.
    #[default]
    Arithmetic,
    /// A rate: all work over all time, which is the harmonic mean where trials do the same work.
    WorkOverTime,
}

/// How an interval of a median was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IntervalMethod {
    /// Student's t on the logarithms.
    LogT,
    /// Student's t on the values, some of which are not positive.
    T,
    /// The bootstrap, bias-corrected and accelerated.
    Bca,
}

/// One target beside another on one metric, paired by block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Blocks that both have.
    pub blocks: u32,
    /// Geometric mean of the ratios of the values, not turned over where less is better; null where a value
    /// is not positive.
    pub ratio: Option<f64>,
    /// Low end of its 95 % interval.
    pub ratio_low: Option<f64>,
    /// High end of its 95 % interval.
    pub ratio_high: Option<f64>,
    /// The chance of such a difference, or a greater one, where there is none: corrected for all pairs of
    /// targets (Holm) and for every look.
    pub p: Option<f64>,
    /// Hedges' g: mean of the logarithms of the ratios in units of their standard deviation, corrected for
    /// small numbers; null with fewer than three blocks or without scatter.
    pub hedges_g: Option<f64>,
}

/// What the numbers of one workload say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Label of the workload.
    pub workload: String,
    /// One or two sentences.
    pub text: String,
}
