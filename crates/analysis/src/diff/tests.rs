//! Tests of [`crate::diff`] with records made by hand.

use fsdyno_model::diff::Difference;
use fsdyno_model::environment::Environment;
use fsdyno_model::info::{FilesystemInfo, Names};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::result::RunInfo;
use fsdyno_model::target::TargetSpec;
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_model::yardstick::{Reading, Yardstick};

use super::*;
use crate::fixture;

const EXT4: FilesystemInfo = FilesystemInfo { name: "ext4", summary: "", external_journal: None };

/// Noise of some tenths of a per cent, another in each trial.
fn noise(trial: u32) -> f64 {
    1.0 + f64::from(trial * 7 % 5) / 1000.0
}

/// Trials of these targets whose phases take these seconds.
fn trials(targets: &[(&str, &[(&str, f64)])], count: u32) -> Vec<TrialRecord> {
    let all = targets.iter().flat_map(|(target, phases)| {
        (1..=count).map(|trial| {
            let own: Vec<(&str, f64)> =
                phases.iter().map(|(name, seconds)| (*name, seconds * noise(trial))).collect();
            fixture::trial(target, trial, &own)
        })
    });
    all.collect()
}

fn environment() -> Environment {
    Environment {
        fsdyno_version: "1.0.0".to_owned(),
        hostname: Some("bench".to_owned()),
        kernel_release: Some("6.1".to_owned()),
        cpu_model: Some("i386".to_owned()),
        cpu_count: Some(2),
        memory_bytes: Some(1 << 30),
        image_directory: Some("/img".to_owned()),
        cached_read_mib_per_s: Some(1000.0),
        device_read_mib_per_s: [("/img".to_owned(), Some(100.0))].into(),
        ..Environment::default()
    }
}

fn result(id: &str, specs: &[&str], trials: &[TrialRecord]) -> RunResult {
    let names = Names {
        workloads: &[],
        filesystems: &[&EXT4],
        load_workload: fsdyno_model::info::no_files,
    };
    let mut plan = Plan::new(false);
    plan.targets = specs.iter().map(|spec| TargetSpec::parse(spec, &names).unwrap()).collect();
    plan.workloads = vec![WorkloadSpec {
        definition: None,
        label: fixture::WORKLOAD.to_owned(),
        kind: "compilebench".to_owned(),
        params: fsdyno_model::param::Params::default(),
    }];
    let info = RunInfo {
        id: id.to_owned(),
        title: None,
        started: String::new(),
        finished: Some(String::new()),
        command: String::new(),
        trials: 3,
        stopped: None,
        seed: 1,
        size_bytes: 1,
        environment: environment(),
        warnings: Vec::new(),
    };
    crate::assemble(info, &plan, &|_| vec!["create", "read", "delete"], trials)
}

fn side(result: &RunResult) -> Side<'_> {
    Side { result, file: None, traced: &[] }
}

fn compared(base: &RunResult, new: &RunResult) -> RunDiff {
    diff(side(base), side(new), &DiffOptions::default())
}

fn verdicts(diff: &RunDiff) -> Vec<(&str, &str)> {
    let name = |row: &DiffRow| match row.phase.as_deref() {
        Some("create") => "create",
        Some("read") => "read",
        Some("delete") => "delete",
        Some(_) => "other",
        None => "whole",
    };
    diff.rows.iter().map(|row| (name(row), row.verdict.word())).collect()
}

#[test]
fn the_same_records_are_the_same() {
    let trials = trials(&[("ext4", &[("create", 1.0), ("read", 2.0)])], 5);
    let (base, new) = (result("1", &["ext4"], &trials), result("2", &["ext4"], &trials));
    let diff = compared(&base, &new);
    assert_eq!(verdicts(&diff), [("create", "same"), ("read", "same"), ("whole", "same")]);
    assert!(!diff.is_slower && diff.warnings.is_empty() && diff.differences.is_empty());
    assert_eq!(diff.summary, "Of 2 figures: 2 the same within 3 %.");
    assert_eq!(diff.counts.same, 2);
}

#[test]
fn each_figure_has_its_verdict() {
    let phases = |create, read, delete| [("create", create), ("read", read), ("delete", delete)];
    let base = trials(&[("ext4", &phases(1.0, 1.0, 1.0))], 4);
    let mut new = trials(&[("ext4", &phases(1.5, 1.0, 0.5))], 4);
    // One that scatters so much that nothing can be said of it.
    for (trial, seconds) in new.iter_mut().zip([0.5, 1.9, 1.0, 1.4]) {
        trial.phases[1].elapsed_return_ns = (seconds * 1e9) as u64;
    }
    let (base, new) = (result("1", &["ext4"], &base), result("2", &["ext4"], &new));
    let diff = compared(&base, &new);
    let phases = &verdicts(&diff)[..3];
    assert_eq!(phases, [("create", "slower"), ("read", "undecided"), ("delete", "faster")]);
    assert!(diff.is_slower);
    let row = &diff.rows[0];
    let ratio = row.ratio.unwrap();
    assert!((ratio.ratio - 1.0 / 1.5).abs() < 1e-6, "{ratio:?}");
    assert!(ratio.low.unwrap() < ratio.ratio && ratio.ratio < ratio.high.unwrap());
    assert!(row.p_holm >= row.p && row.beyond_threshold && row.adjusted.is_none());
    let open = &diff.rows[1];
    assert!(open.trials_needed.unwrap() > 4, "{open:?}");
    assert!(
        diff.summary.starts_with("Of 3 figures: 1 slower, 1 faster, 1 undecided. Slower: ext4 compilebench create (0.67 ×). Faster: ext4 compilebench delete (2.00 ×). About "),
        "{}",
        diff.summary
    );
    let turned = compared(&new, &base);
    assert_eq!(verdicts(&turned)[0].1, "faster");
    assert!(turned.is_slower, "delete is slower");
}

#[test]
fn a_little_slower_is_no_alarm() {
    let base = trials(&[("ext4", &[("create", 1.0)])], 20);
    let new = trials(&[("ext4", &[("create", 1.028)])], 20);
    let (base, new) = (result("1", &["ext4"], &base), result("2", &["ext4"], &new));
    let told = compared(&base, &new);
    // The whole interval lies within 3 %.
    assert_eq!(verdicts(&told), [("create", "same")]);
    let options = DiffOptions { threshold: 0.0281, ..DiffOptions::default() };
    let told = diff(side(&base), side(&new), &options);
    assert_eq!(verdicts(&told), [("create", "slower")]);
    assert!(!told.is_slower && !told.rows[0].beyond_threshold);
    assert!(told.summary.contains("no more than about 2.8 %"), "{}", told.summary);
    let options = DiffOptions { threshold: 0.01, ..DiffOptions::default() };
    assert!(diff(side(&base), side(&new), &options).is_slower);
}

#[test]
fn one_trial_decides_nothing() {
    let base = trials(&[("ext4", &[("create", 1.0)])], 1);
    let new = trials(&[("ext4", &[("create", 9.0)])], 1);
    let (base, new) = (result("1", &["ext4"], &base), result("2", &["ext4"], &new));
    let told = compared(&base, &new);
    assert_eq!(verdicts(&told), [("create", "undecided")]);
    assert!(!told.is_slower);
    assert_eq!(told.rows[0].ratio.unwrap().low, None);
    assert!(told.summary.contains("One trial tells nothing"), "{}", told.summary);
}

#[test]
fn traced_and_broken_trials_do_not_count() {
    let base = trials(&[("ext4", &[("create", 1.0)])], 3);
    let mut new = trials(&[("ext4", &[("create", 1.0)])], 5);
    new[3].role = Role::Explain;
    new[4].outcome = Outcome::Interrupted { stage: "create".to_owned() };
    for trial in &mut new[3..] {
        trial.phases[0].elapsed_return_ns *= 9;
    }
    let (base, new) = (result("1", &["ext4"], &base), result("2", &["ext4"], &new));
    let told = compared(&base, &new);
    assert_eq!((verdicts(&told), told.rows[0].new.n), (vec![("create", "same")], 3));
}

#[test]
fn targets_are_matched_by_label_then_by_what_they_are() {
    let own = [("create", 1.0)];
    let base = trials(&[("a", &own), ("b", &own), ("only", &own)], 2);
    let new = trials(&[("b", &own), ("c", &own), ("ext4:sync", &own)], 2);
    let base = result("1", &["a=ext4", "b=ext4:noatime", "only=dir:/x"], &base);
    let new = result("2", &["b=ext4:lazytime", "c=ext4", "ext4:sync"], &new);
    let told = compared(&base, &new);
    let targets: Vec<&str> = told.rows.iter().map(|row| row.target.as_str()).collect();
    assert_eq!(targets, ["b", "a → c"]);
    assert_eq!(told.only_base, ["target only"]);
    assert_eq!(told.only_new, ["target ext4:sync"]);
    let spec = |target: &str| {
        told.differences.iter().find(|it| it.of == format!("target {target}") && it.name == "spec")
    };
    let expected = Difference {
        of: "target b".to_owned(),
        name: "spec".to_owned(),
        base: Some("ext4:noatime".to_owned()),
        new: Some("ext4:lazytime".to_owned()),
    };
    assert_eq!((spec("b"), spec("c")), (Some(&expected), None));
    let pairs = vec![("only".to_owned(), "ext4:sync".to_owned())];
    let told = diff(side(&base), side(&new), &DiffOptions { pairs, ..DiffOptions::default() });
    assert!(told.only_new.is_empty() && told.rows[2].target == "only → ext4:sync", "{told:?}");
}

#[test]
fn what_one_side_has_is_listed() {
    let base = trials(&[("ext4", &[("create", 1.0), ("read", 1.0)])], 2);
    let new = trials(&[("ext4", &[("create", 1.0), ("delete", 1.0)])], 2);
    let (base, new) = (result("1", &["ext4"], &base), result("2", &["ext4"], &new));
    let told = compared(&base, &new);
    assert_eq!(told.only_base, ["phase read of ext4 compilebench"]);
    assert_eq!(told.only_new, ["phase delete of ext4 compilebench"]);
    let empty = result("3", &["ext4"], &[]);
    let told = compared(&base, &empty);
    assert_eq!(told.only_base, ["completed trials of ext4 compilebench"]);
    assert!(told.rows.is_empty() && !told.is_slower);
    assert!(told.summary.contains("nothing was compared"), "{}", told.summary);
}

#[test]
fn another_machine_is_told_and_taken_out() {
    let base = trials(&[("ext4", &[("create", 1.0), ("fsck", 1.0)])], 4);
    let new = trials(&[("ext4", &[("create", 2.0), ("fsck", 1.0)])], 4);
    let with_cpu = |mut trials: Vec<TrialRecord>, seconds: f64| {
        for trial in &mut trials {
            let cpu = &mut trial.phases[0].cpu;
            cpu.app_user_ns = Some((seconds * 0.4e9 * noise(trial.trial)) as u64);
            cpu.app_system_ns = Some((seconds * 0.1e9 * noise(trial.trial)) as u64);
        }
        trials
    };
    let base = result("1", &["ext4"], &with_cpu(base, 1.0));
    let mut new = result("2", &["ext4"], &with_cpu(new, 2.0));
    let environment = &mut new.run.environment;
    environment.hostname = Some("other".to_owned());
    environment.memory_bytes = Some((1 << 30) + 4096);
    environment.cached_read_mib_per_s = Some(500.0);
    environment.device_read_mib_per_s = [("/img".to_owned(), Some(50.0))].into();
    let told = compared(&base, &new);
    let row = &told.rows[0];
    assert_eq!(row.verdict, DiffVerdict::Slower);
    // Everything is half as fast there: nothing is left.
    let adjusted = row.adjusted.unwrap();
    assert!((adjusted.ratio - 1.0).abs() < 1e-6, "{adjusted:?}");
    assert_eq!(told.rows[1].adjusted, None, "fsck is not of the workload");
    assert_eq!(told.warnings[0].code, "other-machine");
    assert_eq!(
        told.warnings[0].message,
        "the runs are of different machines: host name (bench, other)"
    );
    let options = DiffOptions { adjusted: true, ..DiffOptions::default() };
    let told = diff(side(&base), side(&new), &options);
    assert_eq!(told.rows[0].verdict, DiffVerdict::Same);
    assert!(!told.is_slower);
}

/// Trials of one phase beside which computing takes `compute` and the device reads and writes in 100 µs;
/// each trial takes as long as it and its machine take.
fn timed(count: u32, compute: impl Fn(u32) -> f64, cpu_share: f64, work: f64) -> Vec<TrialRecord> {
    let one = |trial: u32| {
        let seconds = work * compute(trial) * noise(trial);
        let mut record = fixture::trial("ext4", trial, &[("create", seconds)]);
        let phase = &mut record.phases[0];
        phase.cpu.app_user_ns = Some((seconds * cpu_share * 1e9) as u64);
        phase.cpu.app_system_ns = Some(0);
        let reading = |second: u32| Reading {
            place: "/img".to_owned(),
            started_unix_ns: u64::from(second),
            compute_ns: Some(compute(trial) * noise(second)),
            copy_ns_per_kib: Some(compute(trial) * noise(second + 1)),
            device_read_ns: Some(1e5 * noise(second + 2)),
            device_write_ns: Some(1e5 * noise(second + 3)),
            device_flush_ns: Some(1e5 * noise(second + 4)),
            ..Reading::default()
        };
        let (before, after) = (Some(reading(2 * trial)), Some(reading(2 * trial + 1)));
        record.yardstick = Some(Yardstick { before, after });
        record
    };
    (1..=count).map(one).collect()
}

#[test]
fn the_yardstick_of_both_machines_is_taken_out() {
    // All of it computes, and the new machine computes in half the time: 1.2 times the work is left.
    let base = result("1", &["ext4"], &timed(4, |_| 1.0, 1.0, 1.0));
    let mut new = result("2", &["ext4"], &timed(4, |_| 0.5, 1.0, 1.2));
    new.run.environment.hostname = Some("other".to_owned());
    let told = compared(&base, &new);
    let row = &told.rows[0];
    assert_eq!(row.verdict, DiffVerdict::Faster, "the plain ratio decides");
    assert_eq!(row.adjusted_by, Some(AdjustedBy::Yardstick));
    assert!((row.adjusted.unwrap().ratio * 1.2 - 1.0).abs() < 0.01, "{row:?}");
    // Had it gone with the device, which is the same, all of the difference would be the run's own.
    let between = row.between.unwrap();
    assert!(between.low < 1.0 / 1.2 && between.low > 0.8, "{between:?}");
    assert!(between.high > 2.0 / 1.2 && between.high < 1.72, "{between:?}");
    assert!(told.warnings[0].message.contains("computing 2.00 times"), "{:?}", told.warnings);
    let options = DiffOptions { adjusted: true, ..DiffOptions::default() };
    assert_eq!(diff(side(&base), side(&new), &options).rows[0].verdict, DiffVerdict::Slower);
}

#[test]
fn a_machine_that_changed_is_told_and_trials_are_compared_at_equal_readings() {
    // One machine, whose speed sways by 10 % within the runs and is 8 % less in the second.
    let swaying = |trial: u32| 1.0 + 0.1 * (f64::from(trial * 5 % 7) / 3.0 - 1.0);
    let base = result("1", &["ext4"], &timed(14, swaying, 1.0, 1.0));
    let new = result("2", &["ext4"], &timed(14, |trial| 1.08 * swaying(trial), 1.0, 1.05));
    let told = compared(&base, &new);
    let codes: Vec<&str> = told.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["machine-changed"]);
    let row = &told.rows[0];
    assert_eq!(row.adjusted_by, Some(AdjustedBy::Regression));
    let adjusted = row.adjusted.unwrap();
    assert!((adjusted.ratio * 1.05 - 1.0).abs() < 0.005, "{row:?}");
    assert!(adjusted.high.unwrap() < 1.0, "what swayed together is no noise: {row:?}");
    assert!(row.ratio.unwrap().ratio < 0.9);
    // As it was: nothing is adjusted.
    let again = result("3", &["ext4"], &timed(14, swaying, 1.0, 1.05));
    let told = compared(&base, &again);
    assert!(told.warnings.is_empty() && told.rows[0].adjusted.is_none(), "{:?}", told.rows[0]);
}

#[test]
fn another_kernel_is_no_other_machine() {
    let trials = trials(&[("ext4", &[("create", 1.0)])], 2);
    let (base, mut new) = (result("1", &["ext4"], &trials), result("2", &["ext4"], &trials));
    new.run.environment.kernel_release = Some("6.2".to_owned());
    let told = compared(&base, &new);
    let codes: Vec<&str> = told.warnings.iter().map(|warning| warning.code.as_str()).collect();
    assert_eq!(codes, ["other-kernel"]);
    assert_eq!(told.rows[0].adjusted, None);
    assert_eq!(told.differences.len(), 1, "{:?}", told.differences);
}

#[test]
fn what_moved_is_listed_largest_first() {
    let own = |seconds: f64| trials(&[("ext4", &[("create", seconds)])], 4);
    let with = |mut trials: Vec<TrialRecord>, flushes: u64, journal_s: f64, p99: u64| {
        for trial in &mut trials {
            let number = trial.trial;
            let phase = &mut trial.phases[0];
            phase.operations.insert("fsync".to_owned(), 1000);
            phase.device.flushes = Some(flushes);
            phase.device.writes = Some(1000 + u64::from(number));
            let ns = (journal_s * 1e9 * noise(number)) as u64;
            phase.cpu.groups_ns = [("journal".to_owned(), ns)].into();
            if journal_s == 0.0 {
                phase.cpu.groups_ns = [("other".to_owned(), 1)].into();
            }
            let values = (1..=1000).map(|n| if n > 980 { p99 } else { 1000 });
            phase.latency.insert("fsync".to_owned(), fixture::histogram(values));
        }
        trials
    };
    let base = result("1", &["ext4"], &with(own(1.0), 0, 0.0, 50_000));
    let new = result("2", &["ext4"], &with(own(1.5), 1000, 0.3, 200_000));
    let told = compared(&base, &new);
    let names: Vec<&str> = told.rows[0].moved.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        // 8 count as nothing: 125 times.
        "device.flushes",
        // 1 % of 1.5 s counts as nothing: 20 times.
        "cpu.group.journal",
        "latency_ns.fsync.max",
        "latency_ns.fsync.p99",
        "latency_ns.fsync.p999",
    ];
    assert_eq!(names, expected);
    let journal = &told.rows[0].moved[1];
    assert_eq!((journal.base, journal.unit.as_str()), (0.0, "s"));
    assert!((journal.ratio / 20.0 - 1.0).abs() < 0.01, "{journal:?}");
    assert!(journal.low.unwrap() > 19.0);
    // What did not become faster or slower is not diagnosed.
    let told = compared(&base, &base);
    assert!(told.rows.iter().all(|row| row.moved.is_empty()));
}

#[test]
fn totals_are_for_each_operation_where_more_was_done() {
    let with = |operations: u64, flushes: u64, seconds: f64| {
        let mut trials = trials(&[("ext4", &[("create", seconds)])], 3);
        for trial in &mut trials {
            let phase = &mut trial.phases[0];
            phase.operations.insert("fsync".to_owned(), operations + u64::from(trial.trial));
            phase.device.flushes = Some(flushes + u64::from(trial.trial));
            phase.device.writes = Some(3 * (operations + u64::from(trial.trial)));
        }
        result("1", &["ext4"], &trials)
    };
    let told = compared(&with(10_000, 10_000, 1.0), &with(20_000, 40_000, 2.0));
    let moved = &told.rows[0].moved;
    let flushes = moved.iter().find(|it| it.name == "device.flushes").unwrap();
    assert_eq!(flushes.title, "device flushes for each operation");
    assert!((flushes.ratio - 2.0).abs() < 0.01 && (flushes.base - 1.0).abs() < 0.01);
    assert!(moved.iter().all(|it| it.name != "device.writes"), "{moved:?}");
    assert!(moved.iter().any(|it| it.name == "operations.fsync"));
}

#[test]
fn traces_tell_seeks_and_depth() {
    let traced = |seeks: u64, depth: f64| {
        let totals = IoTotals { seeks, queue_depth_mean: Some(depth), ..IoTotals::default() };
        let (target, workload) = ("ext4".to_owned(), fixture::WORKLOAD.to_owned());
        [TracedPhase { target, workload, phase: "create".to_owned(), totals }]
    };
    let base = result("1", &["ext4"], &trials(&[("ext4", &[("create", 1.0)])], 3));
    let new = result("2", &["ext4"], &trials(&[("ext4", &[("create", 2.0)])], 3));
    let (of_base, of_new) = (traced(100, 4.0), traced(1000, 4.4));
    let told = diff(
        Side { traced: &of_base, ..side(&base) },
        Side { traced: &of_new, ..side(&new) },
        &DiffOptions::default(),
    );
    let first = &told.rows[0].moved[0];
    assert_eq!((first.name.as_str(), first.low), ("trace.seeks", None));
    assert!((first.ratio - 10.0).abs() < 1e-9);
    assert!(told.rows[0].moved.iter().all(|it| it.name != "trace.queue_depth"));
}

#[test]
fn zeros_are_compared_without_ratios() {
    let with = |bytes: u64| {
        let mut trials = trials(&[("ext4", &[("create", 1.0)])], 3);
        for trial in &mut trials {
            trial.phases[0].primary_metric = "device_write_mib".to_owned();
            trial.phases[0].device.write_bytes = Some(bytes + bytes / 100 * u64::from(trial.trial));
        }
        result("1", &["ext4"], &trials)
    };
    let told = compared(&with(0), &with(0));
    assert_eq!((verdicts(&told), told.rows[0].ratio), (vec![("create", "same")], None));
    let told = compared(&with(0), &with(1 << 30));
    assert_eq!(verdicts(&told), [("create", "slower")]);
    assert!(told.is_slower);
}

#[test]
fn false_alarms_stay_below_five_per_cent() {
    // Normal logarithms from a fixed sequence; 12 figures, 4 trials each, 300 pairs of runs.
    let mut draws = crate::history::draws::Draws::new(7);
    let names: Vec<String> = (0..12).map(|index| format!("phase-{index:02}")).collect();
    let (mut alarms, runs) = (0, 300);
    for _ in 0..runs {
        let mut run = |id: &str| {
            let trials: Vec<TrialRecord> = (1..=4)
                .map(|trial| {
                    let phases: Vec<(&str, f64)> = names
                        .iter()
                        .map(|it| (it.as_str(), (0.1 * draws.normal()).exp()))
                        .collect();
                    fixture::trial("ext4", trial, &phases)
                })
                .collect();
            result(id, &["ext4"], &trials)
        };
        let (base, new) = (run("1"), run("2"));
        let told = compared(&base, &new);
        let decided = [DiffVerdict::Faster, DiffVerdict::Slower];
        alarms += usize::from(told.rows.iter().any(|row| decided.contains(&row.verdict)));
    }
    // 15 expected at most; 25 are exceeded in less than 1 % of cases.
    assert!(alarms <= 25, "{alarms} of {runs}");
}
