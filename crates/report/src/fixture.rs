//! Results for the tests of this crate, made by the real analysis from trials with fixed noise.

use fsdyno_analysis::assemble;
use fsdyno_model::audit::Audit;
use fsdyno_model::environment::Environment;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{
    CpuRecord, DeviceRecord, FsckRecord, PhaseRecord, Role, Sample, TrialRecord, VerifyRecord,
    Warning,
};
use fsdyno_model::result::{RunInfo, RunResult};
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::trace::TraceRecord;
use fsdyno_model::workload::WorkloadSpec;

const WORKLOAD: &str = "compilebench";
const MIB: u64 = 1 << 20;

/// Phases: name, metric, MiB of one tree, seconds of one tree on the first target.
const PHASES: &[(&str, &str, u64, f64)] = &[
    ("initial-create", "throughput_mib_per_s", 222, 1.8),
    ("create", "throughput_mib_per_s", 222, 2.1),
    ("patch", "throughput_mib_per_s", 110, 1.6),
    ("compile", "throughput_mib_per_s", 680, 1.4),
    ("clean", "throughput_mib_per_s", 680, 0.12),
    ("read", "throughput_mib_per_s", 222, 2.4),
    ("read-compiled", "throughput_mib_per_s", 903, 4.1),
    ("delete", "sample_mean_elapsed_s", 0, 0.61),
    ("delete-compiled", "sample_mean_elapsed_s", 0, 0.83),
    ("stat", "sample_mean_elapsed_s", 0, 0.34),
    ("stat-compiled", "sample_mean_elapsed_s", 0, 0.41),
];

/// Times of the targets relative to the first, by phase.
const SLOWER: &[[f64; 11]] = &[
    [1.0; 11],
    [1.06, 0.93, 1.10, 0.97, 1.34, 1.02, 1.00, 1.41, 1.52, 1.08, 1.11],
    [1.22, 1.31, 1.65, 1.12, 2.20, 1.48, 1.27, 2.05, 2.31, 0.74, 0.71],
];

/// Deterministic noise of about two per cent.
fn noise(target: usize, trial: u32, phase: usize) -> f64 {
    let mut mixed = (target as u64) << 40 | u64::from(trial) << 20 | phase as u64;
    for _ in 0..3 {
        mixed = (mixed ^ (mixed >> 29)).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    let unit = (mixed >> 40) as f64 / (1u64 << 24) as f64;
    let block = 1.0 + f64::from(trial % 3) * 0.01;
    block * (0.985 + 0.03 * unit)
}

fn phase(target: usize, trial: u32, index: usize) -> PhaseRecord {
    let (name, metric, mib, seconds) = PHASES[index];
    let elapsed_s = seconds * SLOWER[target % SLOWER.len()][index] * noise(target, trial, index);
    let elapsed_ns = (elapsed_s * 1e9) as u64;
    let sample = Sample {
        subject: "kernel-0".to_owned(),
        started_ns: None,
        elapsed_return_ns: elapsed_ns / 2,
        elapsed_durable_ns: Some(elapsed_ns),
        operations: 21_280,
        bytes: mib * MIB,
        app_user_ns: Some(460_000_000),
        app_system_ns: Some(690_000_000),
    };
    let mut record = PhaseRecord::new(name, metric);
    record.elapsed_return_ns = elapsed_ns / 2;
    record.elapsed_durable_ns = Some(elapsed_ns);
    record.operations.insert("create".to_owned(), 21_280);
    record.files = Some(21_280);
    record.bytes = mib * MIB;
    record.cpu = CpuRecord { app_user_ns: Some(460_000_000), ..CpuRecord::default() };
    record.device = DeviceRecord { write_bytes: Some(mib * MIB), ..DeviceRecord::default() };
    record.samples = vec![sample];
    record
}

fn trial(label: &str, target: usize, trial: u32, order: u32) -> TrialRecord {
    let mut record = TrialRecord::planned(label, WORKLOAD, trial, order, Outcome::Completed);
    record.started_unix_ns = Some(1_700_000_000_000_000_000 + u64::from(order) * 60_000_000_000);
    record.elapsed_ns = Some(42_000_000_000);
    record.harness_floor_ns = Some(180.0 + f64::from(order));
    let mut fsck = PhaseRecord::new("fsck", "elapsed_s");
    fsck.elapsed_return_ns =
        (1e9 * [0.71, 0.95, 2.84][target % 3] * noise(target, trial, 99)) as u64;
    record.fsck = Some(FsckRecord {
        command: "fsck.ext4 -fn /dev/loop0".to_owned(),
        exit_code: Some(0),
        meaning: "clean".to_owned(),
    });
    record.verify = Some(VerifyRecord { files: 64, bytes: 1 << 20, mismatches: Vec::new() });
    record.phases = (0..PHASES.len()).map(|index| phase(target, trial, index)).collect();
    record.phases.push(fsck);
    record
}

fn plan(labels: &[&str], trials: u32) -> Plan {
    let target = |label: &&str| TargetSpec {
        label: (*label).to_owned(),
        ground: Ground::Fresh(FreshSpec {
            filesystem: label.split(['/', ':']).next().unwrap_or_default().to_owned(),
            mkfs: Vec::new(),
            mount: String::new(),
            device: DeviceSpec::LoopImage { size_bytes: None },
            journal: None,
            age: None,
            kernel: None,
        }),
    };
    let workload = WorkloadSpec {
        definition: None,
        label: WORKLOAD.to_owned(),
        kind: WORKLOAD.to_owned(),
        params: Params::default(),
    };
    Plan {
        trials,
        targets: labels.iter().map(target).collect(),
        workloads: vec![workload],
        ..Plan::new(false)
    }
}

fn assembled(plan: &Plan, trials: &[TrialRecord], warnings: Vec<Warning>) -> RunResult {
    let run = RunInfo {
        id: "20260102-030405".to_owned(),
        title: None,
        started: "2026-01-02T03:04:05Z".to_owned(),
        finished: Some("2026-01-02T03:06:05Z".to_owned()),
        command: "fsdyno compare ext4 xfs btrfs".to_owned(),
        trials: plan.trials,
        stopped: None,
        seed: plan.seed,
        size_bytes: 3 << 30,
        environment: Environment {
            kernel_release: Some("6.18.44".to_owned()),
            hostname: Some("bench".to_owned()),
            image_directory: Some("/var/tmp".to_owned()),
            image_filesystem: Some("ext4 on /dev/sda1 (rw,relatime)".to_owned()),
            ..Environment::default()
        },
        warnings,
    };
    let order = |_: &WorkloadSpec| PHASES.iter().map(|(name, ..)| *name).collect();
    // Its facts are made up: the audit has results of its own.
    RunResult { audit: Audit::default(), ..assemble(run, plan, &order, trials) }
}

fn planned(labels: &[&str], trials: u32) -> Vec<TrialRecord> {
    let mut records = Vec::new();
    for number in 1..=trials {
        for (target, label) in labels.iter().enumerate() {
            let order = u32::try_from(records.len()).unwrap();
            records.push(trial(label, target, number, order));
        }
    }
    records
}

/// Targets with these labels, all of whose trials completed.
pub fn targets_with_trials(labels: &[&str], trials: u32) -> RunResult {
    assembled(&plan(labels, trials), &planned(labels, trials), Vec::new())
}

/// The usual comparison, with a warning.
pub fn three_targets() -> RunResult {
    let labels = ["ext4", "xfs", "btrfs"];
    let warning = Warning {
        code: "governor".to_owned(),
        message: "the processor's frequency governor is powersave, not performance".to_owned(),
        advice: "run cpupower frequency-set -g performance".to_owned(),
    };
    assembled(&plan(&labels, 3), &planned(&labels, 3), vec![warning])
}

/// The same comparison with a traced trial of two targets; the third was left out.
pub fn with_traces() -> RunResult {
    let labels = ["ext4", "xfs", "btrfs"];
    let mut trials = planned(&labels, 3);
    for (target, slower) in [(0, 1.05), (1, 0.975)] {
        let order = u32::try_from(trials.len()).unwrap();
        let own = trials.iter().filter(|trial| trial.target == labels[target]);
        let elapsed = |trial: &TrialRecord| -> u64 {
            let phases = trial.phases.iter().filter(|phase| phase.name != "fsck");
            phases.filter_map(|phase| phase.elapsed_durable_ns).sum()
        };
        // The one in the middle, so that the others are of no matter.
        let mut sorted: Vec<&TrialRecord> = own.collect();
        sorted.sort_by_key(|trial| elapsed(trial));
        let mut record = sorted[1].clone();
        (record.trial, record.order, record.role) = (4, order, Role::Explain);
        for phase in &mut record.phases {
            phase.elapsed_durable_ns =
                phase.elapsed_durable_ns.map(|ns| (ns as f64 * slower) as u64);
        }
        record.harness_floor_ns = Some(99_999.0);
        record.trace = Some(TraceRecord {
            file: format!("{order:04}-{}-compilebench.fstrace", labels[target]),
            file_bytes: 4096,
            events: 1000,
            lost_events: 3 * target as u64,
        });
        if target == 1 {
            record.warnings.push(Warning {
                code: "trace-incomplete".to_owned(),
                message: "the block trace lacks 3 of 1003 events".to_owned(),
                advice: "sums over it are too small; the other figures stand".to_owned(),
            });
        }
        trials.push(record);
    }
    let reason = "the run had used up its 30m 00s (max_time)".to_owned();
    let outcome = Outcome::Skipped { reason };
    let order = u32::try_from(trials.len()).unwrap();
    let skipped = TrialRecord::planned("btrfs", WORKLOAD, 4, order, outcome);
    trials.push(TrialRecord { role: Role::Explain, ..skipped });
    let usual = three_targets();
    assembled(&plan(&labels, 3), &trials, usual.run.warnings)
}

/// More targets than fit beside each other, some with long labels.
pub fn seven_targets() -> RunResult {
    targets_with_trials(
        &[
            "ext2",
            "ext3:data=writeback,barrier=1",
            "ext4",
            "xfs",
            "xfs/-d agcount=1 -l size=128m:logbsize=256k",
            "btrfs",
            "btrfs:compress=zstd",
        ],
        3,
    )
}

/// Targets that were asked how their files lie, and phases that were served from memory.
pub fn with_explanations() -> RunResult {
    let labels = ["ext4", "xfs", "btrfs"];
    let mut trials = planned(&labels, 3);
    for record in &mut trials {
        let target = labels.iter().position(|label| *label == record.target).unwrap();
        let mut survey = PhaseRecord::new("fragmentation", "extents_per_file");
        let extents: f64 = [3.0, 15.0, 1348.25][target];
        for (metric, value) in [
            ("extents_per_file", extents),
            ("extents_per_file_p99", extents.ceil()),
            ("fragmented_share", extents / 2000.0),
            ("free_extent_largest_mib", 2890.5),
            ("created_files", 17.0),
        ] {
            survey.values.insert(metric.to_owned(), value);
        }
        let mut layout = PhaseRecord::new("layout", "readdir_inode_correlation");
        let correlation = [0.0021, 0.98, -0.5][target] * noise(target, record.trial, 7);
        layout.values.insert("readdir_inode_correlation".to_owned(), correlation);
        for phase in &mut record.phases {
            let of_device = match (phase.name.as_str(), target) {
                ("read", _) => phase.bytes / 100,
                ("read-compiled", 0) => 0,
                _ => phase.bytes,
            };
            if phase.name.starts_with("read") {
                phase.read_bytes = phase.bytes;
                phase.device.read_bytes = Some(of_device);
            }
        }
        record.phases.extend([survey, layout]);
    }
    assembled(&plan(&labels, 3), &trials, Vec::new())
}

/// One target whose tool is missing, one that failed once, and warnings of trials.
pub fn with_failures() -> RunResult {
    let labels = ["ext4", "xfs", "btrfs"];
    let mut trials = planned(&labels, 3);
    for trial in &mut trials {
        if trial.target == "btrfs" {
            let reason = "mkfs.btrfs is not installed; install btrfs-progs".to_owned();
            let outcome = Outcome::Skipped { reason };
            *trial = TrialRecord::planned("btrfs", WORKLOAD, trial.trial, trial.order, outcome);
        } else {
            trial.warnings.push(Warning {
                code: "caches-not-dropped".to_owned(),
                message: "caches were not dropped before reading".to_owned(),
                advice: "run as root".to_owned(),
            });
        }
        if trial.target == "xfs" && trial.trial == 2 {
            trial.phases.truncate(1);
            trial.outcome = Outcome::Failed {
                stage: "create".to_owned(),
                error: "cannot write kernel-3/fs/xfs/xfs_aops.c: no space left on device; give a larger --size".to_owned(),
            };
        }
    }
    assembled(&plan(&labels, 3), &trials, Vec::new())
}
