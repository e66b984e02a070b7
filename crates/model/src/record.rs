//! What a trial measured: integers with their unit in the name, absent values null.

use std::collections::BTreeMap;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::age::AgeRecord;
use crate::cold::Cold;
use crate::guest::VirtualTime;
use crate::outcome::Outcome;
use crate::place::Measured;
use crate::trace::TraceRecord;
use crate::yardstick::Yardstick;

/// Processor time of one phase, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuRecord {
    /// User time of the application (the phase runner).
    pub app_user_ns: Option<u64>,
    /// System time of the application.
    pub app_system_ns: Option<u64>,
    /// Time of the kernel threads that work for the filesystem: its journal, its workers, its
    /// writeback.
    pub filesystem_ns: Option<u64>,
    /// Time that the whole machine was busy, all processors added.
    pub system_busy_ns: Option<u64>,
    /// Time of each group of processes and kernel threads, by its name in `cpu-groups.txt`; those that
    /// burnt nothing are left out, and nothing is there where it could not be sampled.
    #[serde(default)]
    pub groups_ns: BTreeMap<String, u64>,
}

/// Traffic of the target's devices in one phase, journal device included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceRecord {
    /// Read requests completed.
    pub reads: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Write requests completed.
    pub writes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Flush requests completed.
    pub flushes: Option<u64>,
    /// Discard requests completed.
    pub discards: Option<u64>,
    /// Bytes discarded.
    pub discard_bytes: Option<u64>,
}

/// A latency histogram in nanoseconds, three significant digits, in HdrHistogram's V2 format with
/// deflate compression; written as base64 where the carrier is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyHistogram(pub Vec<u8>);

impl Serialize for LatencyHistogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text);
        bytes.map(LatencyHistogram).map_err(serde::de::Error::custom)
    }
}

/// One piece of a phase that is worth a point in a series: for compilebench, one tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// What it was done to: `kernel-3`.
    pub subject: String,
    /// The first call, in nanoseconds of `CLOCK_MONOTONIC`; null in records of older versions.
    #[serde(default)]
    pub started_ns: Option<u64>,
    /// From the first call to the return of the last, in nanoseconds.
    pub elapsed_return_ns: u64,
    /// From the first call until the data were on the device; null when nothing asked for that.
    pub elapsed_durable_ns: Option<u64>,
    /// Operations done.
    pub operations: u64,
    /// Bytes that the application read or wrote.
    pub bytes: u64,
    /// User time of the application.
    pub app_user_ns: Option<u64>,
    /// System time of the application.
    pub app_system_ns: Option<u64>,
}

/// What one phase of one trial measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Name of the phase.
    pub name: String,
    /// Name of the metric that a table shows for it.
    pub primary_metric: String,
    /// Time until the last operation had returned: the sum over its samples.
    pub elapsed_return_ns: u64,
    /// Time until everything was on the device; null when nothing asked for that.
    pub elapsed_durable_ns: Option<u64>,
    /// Operations by kind (`create`, `write`, …).
    pub operations: BTreeMap<String, u64>,
    /// Files that were worked on; null where that has no meaning.
    pub files: Option<u64>,
    /// Bytes that the application read or wrote.
    pub bytes: u64,
    /// Of these, the bytes that it read.
    #[serde(default)]
    pub read_bytes: u64,
    /// How the caches were emptied right before it; null when nothing asked for that.
    #[serde(default)]
    pub cold: Option<Cold>,
    /// Figures that are no time, no count of operations and no traffic, by the name of their metric.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Processor time.
    pub cpu: CpuRecord,
    /// Traffic of the devices.
    pub device: DeviceRecord,
    /// Latency of each kind of operation.
    pub latency: BTreeMap<String, LatencyHistogram>,
    /// The series, in the order of execution.
    pub samples: Vec<Sample>,
}

impl PhaseRecord {
    /// An empty record of the phase `name`.
    #[must_use]
    pub fn new(name: &str, primary_metric: &str) -> PhaseRecord {
        PhaseRecord {
            name: name.to_owned(),
            primary_metric: primary_metric.to_owned(),
            elapsed_return_ns: 0,
            elapsed_durable_ns: None,
            operations: BTreeMap::new(),
            files: None,
            bytes: 0,
            read_bytes: 0,
            cold: None,
            values: BTreeMap::new(),
            cpu: CpuRecord::default(),
            device: DeviceRecord::default(),
            latency: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Operations of all kinds.
    #[must_use]
    pub fn operation_count(&self) -> u64 {
        self.operations.values().sum()
    }
}

/// A remark about a trial or a run that a reader of the numbers must know.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// Stable name, kebab-case: `caches-not-dropped`.
    pub code: String,
    /// What is the matter.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// What was really in force, read back from the kernel and the superblock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetFacts {
    /// Mount options in force, from mountinfo.
    pub mount_effective: Option<String>,
    /// The mkfs command line that was run.
    pub mkfs_command: Option<String>,
    /// Parameters of the filesystem read back from its superblock, by name.
    pub mkfs_effective: BTreeMap<String, String>,
    /// The device: path, size, scheduler, write cache, …, by name.
    pub device: BTreeMap<String, String>,
}

/// Time of the stages around the phases, in nanoseconds; null when not reached or not applicable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageTimes {
    /// Making the device ready.
    pub provision_ns: Option<u64>,
    /// mkfs.
    pub mkfs_ns: Option<u64>,
    /// mount.
    pub mount_ns: Option<u64>,
    /// Aging; null where there was none, or an earlier trial did it.
    #[serde(default)]
    pub age_ns: Option<u64>,
    /// Waiting for the filesystem and the device to come to rest.
    pub quiesce_ns: Option<u64>,
    /// All phases, with what lies between them.
    pub run_ns: Option<u64>,
    /// unmount.
    pub unmount_ns: Option<u64>,
    /// fsck.
    pub fsck_ns: Option<u64>,
    /// Reading back a sample of the contents.
    pub verify_ns: Option<u64>,
}

/// What fsck said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FsckRecord {
    /// The command line.
    pub command: String,
    /// Its exit code; null when a signal ended it.
    pub exit_code: Option<i32>,
    /// What the exit code means.
    pub meaning: String,
}

/// What reading back a sample of the contents found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRecord {
    /// Files compared.
    pub files: u64,
    /// Bytes compared.
    pub bytes: u64,
    /// Files that differed: path and how.
    pub mismatches: Vec<String>,
}

impl VerifyRecord {
    /// Adds what another comparison of the same trial found.
    pub fn add(&mut self, other: VerifyRecord) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.mismatches.extend(other.mismatches);
    }
}

/// What a trial is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Its figures count.
    #[default]
    Measured,
    /// It is traced, so that the others can be explained; its figures count nowhere.
    Explain,
}

/// One trial, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Label of the target.
    pub target: String,
    /// Label of the workload.
    pub workload: String,
    /// Number of the trial of this target and workload, from 1; also the number of its block.
    pub trial: u32,
    /// What it is for.
    #[serde(default)]
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
    pub outcome: Outcome,
    /// Start, in nanoseconds since 1970 UTC; null when it was never started.
    pub started_unix_ns: Option<u64>,
    /// Duration of the whole trial; null when it was never started.
    pub elapsed_ns: Option<u64>,
    /// What was in force.
    pub facts: TargetFacts,
    /// Time of the stages.
    pub stages: StageTimes,
    /// What aging did; null where the target has no age.
    #[serde(default)]
    pub aged: Option<AgeRecord>,
    /// What fsck said; null when it did not run.
    pub fsck: Option<FsckRecord>,
    /// What reading back found; null when it did not run.
    pub verify: Option<VerifyRecord>,
    /// Time that the harness itself spends per operation, from the null target, in nanoseconds.
    pub harness_floor_ns: Option<f64>,
    /// How fast the machine was before and after it; null where that was not asked for, in explain trials
    /// and in records of older versions.
    #[serde(default)]
    pub yardstick: Option<Yardstick>,
    /// The phases, in the order of execution.
    pub phases: Vec<PhaseRecord>,
    /// The block trace; null when it was not traced.
    #[serde(default)]
    pub trace: Option<TraceRecord>,
    /// What the machine did meanwhile. Stored apart, since it is large: null in a record that was read
    /// back.
    #[serde(skip)]
    pub activity: Option<Activity>,
    /// Remarks.
    pub warnings: Vec<Warning>,
}

impl TrialRecord {
    /// A trial that has not begun, with the outcome that it has until something else is known.
    #[must_use]
    pub fn planned(target: &str, workload: &str, trial: u32, order: u32, outcome: Outcome) -> Self {
        TrialRecord {
            target: target.to_owned(),
            workload: workload.to_owned(),
            trial,
            role: Role::Measured,
            order,
            measured: Measured::default(),
            virtual_time: None,
            outcome,
            started_unix_ns: None,
            elapsed_ns: None,
            facts: TargetFacts::default(),
            stages: StageTimes::default(),
            aged: None,
            fsck: None,
            verify: None,
            harness_floor_ns: None,
            yardstick: None,
            phases: Vec::new(),
            trace: None,
            activity: None,
            warnings: Vec::new(),
        }
    }
}
