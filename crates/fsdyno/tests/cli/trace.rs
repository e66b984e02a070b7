//! Traced trials: one more of each target, whose figures count nowhere and whose trace holds what the
//! device counted; nothing of them is left behind, and none is made twice.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use fsdyno::store::{Store, StoredRun};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::PhaseRecord;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::trace::{Action, TraceEvent, TraceMode};
use fsdyno_model::workload::WorkloadSpec;
use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, outcomes, own_warnings, skip};

/// Whether the kernel can be traced from here; prints the reason when not.
fn can_trace() -> bool {
    let reason = fsdyno_trace::capture::unavailable();
    if let Some(reason) = &reason {
        skip(&format!("nothing can be traced: {reason}"));
    }
    reason.is_none()
}

/// Runs `fsdyno compare` with small images; nothing is said of traces beside `arguments`.
fn compare(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let common = ["compare", "--dir", "images", "--size", "512MiB", "--json", "-"];
    let mut command = sandbox.command(common.into_iter().chain(arguments.iter().copied()));
    let output = command.env_remove("FSDYNO_TRACE").output().unwrap();
    let finished = crate::sandbox::Finished::of(&output);
    finished.assert_code(0);
    finished.json()
}

fn trials<'a>(result: &'a Value, role: &str) -> Vec<&'a Value> {
    let all = result["trials"].as_array().unwrap().iter();
    all.filter(|trial| trial["role"] == role).collect()
}

fn traces(sandbox: &Sandbox) -> PathBuf {
    sandbox.path().join("data/fsdyno/results.traces")
}

fn trace_of(sandbox: &Sandbox, result: &Value, trial: &Value) -> PathBuf {
    let run = result["run"]["id"].as_str().unwrap();
    traces(sandbox).join(run).join(trial["trace"]["file"].as_str().unwrap())
}

/// All events of a trace, which has lost none.
fn events(path: &Path) -> Vec<TraceEvent> {
    let mut source = fsdyno_trace::open::open(path).unwrap();
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    while source.next_batch(&mut batch).unwrap() {
        events.extend_from_slice(&batch);
    }
    assert_eq!(source.info().lost_events, 0);
    assert!(!source.info().devices.is_empty() && !source.info().processes.is_empty());
    events
}

/// Begin and end of each sample of a trial, in the trace's clock.
fn spans(trial: &Value) -> Vec<(u64, u64)> {
    let phases = trial["phases"].as_array().unwrap().iter();
    let samples = phases.flat_map(|phase| phase["samples"].as_array().unwrap());
    samples
        .map(|sample| {
            let ns = |name: &str| sample[name].as_u64();
            let begin = ns("started_ns").unwrap();
            let elapsed = ns("elapsed_durable_ns").or(ns("elapsed_return_ns")).unwrap();
            (begin, begin + elapsed)
        })
        .collect()
}

/// Bytes that the devices moved in the phases, as they counted them themselves.
fn counted_bytes(trial: &Value) -> u64 {
    let phases = trial["phases"].as_array().unwrap().iter();
    let names = ["read_bytes", "write_bytes", "discard_bytes"];
    phases.flat_map(|phase| names.map(|name| phase["device"][name].as_u64().unwrap_or(0))).sum()
}

#[test]
fn each_target_is_traced_once_more() {
    if !can_format(&["ext4", "xfs", "btrfs"]) || !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("plain")).unwrap();
    let targets = ["ext4", "xfs+log", "btrfs", "dir:plain"];
    let workload = ["-n", "2", "-w", "small-files:files=1500,size=16KiB"];
    let result = compare(&sandbox, &[&targets[..], &workload[..]].concat());
    assert_eq!(outcomes(&result), ["completed"; 11]);
    let (measured, traced) = (trials(&result, "measured"), trials(&result, "explain"));
    assert!(measured.iter().all(|trial| trial["trace"].is_null()));
    assert_eq!((measured.len(), traced.len()), (8, 3));
    for ((order, trial), target) in (8..).zip(&traced).zip(targets) {
        assert_eq!(trial["target"], target);
        assert_eq!((trial["order"].as_u64(), trial["trial"].as_u64()), (Some(order), Some(3)));
        assert_eq!(own_warnings(trial), Vec::<&Value>::new(), "{target}");
        let path = trace_of(&sandbox, &result, trial);
        let size_bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!(trial["trace"]["file_bytes"].as_u64(), Some(size_bytes));
        let events = events(&path);
        assert_eq!(trial["trace"]["events"].as_u64(), Some(events.len() as u64));
        assert!(events.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
        // What was completed within the samples is what the devices counted at their edges. Both sides
        // count requests when they end, so that only what ends right at an edge may differ.
        let spans = spans(trial);
        let is_within = |ns: u64| spans.iter().any(|(begin, end)| (*begin..=*end).contains(&ns));
        let completed = || events.iter().filter(|event| event.action == Action::Complete);
        let within = completed().filter(|event| is_within(event.time_ns));
        let traced_bytes: u64 = within.map(TraceEvent::bytes).sum();
        let at_edge = completed().map(TraceEvent::bytes).max().unwrap();
        let counted_bytes = counted_bytes(trial);
        println!("{target}: traced {traced_bytes}, counted {counted_bytes} bytes");
        assert!(counted_bytes > 20 << 20, "{counted_bytes}");
        let most = counted_bytes / 100 + at_edge;
        assert!(traced_bytes.abs_diff(counted_bytes) <= most, "{target}: more than {most} apart");
        assert!(completed().count() > 0 && events.iter().any(|it| it.action == Action::Issue));
    }
    for row in result["summary"].as_array().unwrap() {
        assert_eq!(row["n"], 2, "{row}");
    }
    let table = sandbox.run(["show"]).stdout;
    assert!(table.contains("Traced once more, which took beside the median"), "{table}");
    assert!(!table.contains("dir:plain +") && !table.contains("dir:plain -"), "{table}");
    let runs = sandbox.run(["runs", "--json"]).json();
    assert_eq!((&runs[0]["trials_planned"], &runs[0]["trials_completed"]), (&8.into(), &8.into()));
    sandbox.assert_nothing_left();

    let finished = sandbox.run(["clean", "--traces"]);
    finished.assert_code(0);
    assert!(finished.stdout.starts_with("removed 3 traces in "), "{}", finished.stdout);
    assert!(finished.stdout.contains(" bytes)") && !traces(&sandbox).exists());
    sandbox.run(["show"]).assert_code(0);
}

#[test]
fn none_and_all_do_as_they_say() {
    if !can_format(&["ext4"]) || !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let workload = ["ext4", "-n", "1", "-w", "small-files:files=50"];
    let result = compare(&sandbox, &[&workload[..], &["--trace", "none"]].concat());
    assert_eq!((trials(&result, "measured").len(), trials(&result, "explain").len()), (1, 0));
    assert!(!traces(&sandbox).exists());
    assert!(!sandbox.run(["show"]).stdout.to_lowercase().contains("trace"));
    let result = compare(&sandbox, &[&workload[..], &["--trace", "all"]].concat());
    assert_eq!((trials(&result, "measured").len(), trials(&result, "explain").len()), (1, 0));
    assert!(!events(&trace_of(&sandbox, &result, &result["trials"][0])).is_empty());
    let table = sandbox.run(["show"]).stdout;
    assert!(table.contains("the figures bear the cost of tracing"), "{table}");
    sandbox.assert_nothing_left();
}

const PLAN: &str = r#"
[plan]
trials = 1
size = "512MiB"
dir = "images"

[[target]]
filesystem = "ext4"

[[target]]
filesystem = "xfs"

[[workload]]
kind = "small-files"
files = 8000
"#;

/// Starts a run of the plan and waits until the traces of this many trials are there; kills it then.
fn kill_in_trace(sandbox: &Sandbox, trace_count: usize) -> u32 {
    let mut command = sandbox.command(["run", "plan.toml"]);
    command.env_remove("FSDYNO_TRACE").stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    while files(&traces(sandbox)).len() < trace_count {
        assert!(Instant::now() < deadline, "no trial is traced");
        assert!(is_running(&mut child), "it ended before the trace began");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(is_running(&mut child));
    child.kill().unwrap();
    child.wait().unwrap();
    child.id()
}

fn is_running(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

/// The files two levels below a directory, with the time of their last change.
fn files(directory: &Path) -> Vec<(PathBuf, SystemTime)> {
    let list = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, SystemTime)> = list(directory)
        .flat_map(|run| list(&run.path()).collect::<Vec<_>>())
        .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn a_run_killed_while_it_traces_leaves_nothing_and_goes_on() {
    if !can_format(&["ext4", "xfs"]) || !can_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("plan.toml", PLAN);
    let killed = kill_in_trace(&sandbox, 2);
    // The first traced trial had ended when the trace of the second began.
    let before = files(&traces(&sandbox));
    let shown = sandbox.run(["show", "--json"]).json();
    let first_start = trials(&shown, "explain")[0]["started"].clone();
    assert!(first_start.is_string());
    let cleaned = sandbox.run(["clean"]);
    cleaned.assert_code(0);
    // Any run beside this one may have been the first to remove it.
    let its = format!("fsdyno-{killed}-");
    let left = fsdyno_trace::capture::reclaim();
    assert!(!left.iter().any(|(name, _)| name.starts_with(&its)), "{left:?}");

    let resumed = sandbox.run(["run", "plan.toml", "--resume", "--json", "-"]);
    resumed.assert_code(0);
    let result = resumed.json();
    assert_eq!(outcomes(&result), ["completed"; 4]);
    let traced = trials(&result, "explain");
    assert_eq!(traced[0]["started"], first_start);
    let after = files(&traces(&sandbox));
    assert_eq!(before[0], after[0], "the finished trial was traced again");
    assert_eq!(after.len(), 2);
    assert!(after[1].1 > before[1].1, "the killed trial was not traced again");
    for trial in traced {
        assert!(!events(&trace_of(&sandbox, &result, trial)).is_empty());
    }
    assert!(fsdyno_trace::capture::reclaim().is_empty(), "an instance is left");
    sandbox.assert_nothing_left();
}

#[test]
fn what_could_not_be_traced_is_told_and_nothing_fails() {
    let sandbox = Sandbox::in_memory();
    let fresh = FreshSpec {
        filesystem: "ext4".to_owned(),
        mkfs: Vec::new(),
        mount: String::new(),
        device: DeviceSpec::LoopImage { size_bytes: None },
        journal: None,
        age: None,
        kernel: None,
    };
    let target = TargetSpec { label: "ext4".to_owned(), ground: Ground::Fresh(fresh) };
    let (label, kind) = ("postmark".to_owned(), "postmark".to_owned());
    let workload = WorkloadSpec { label, kind, params: Default::default(), definition: None };
    let mut plan = Plan { trials: 1, trace: TraceMode::Explain, ..Plan::new(false) };
    (plan.targets, plan.workloads) = (vec![target], vec![workload]);
    let run = StoredRun {
        id: "20260102-030405-0000".to_owned(),
        started_unix_ns: 1,
        finished_unix_ns: Some(2),
        command: "fsdyno".to_owned(),
        plan: plan.clone(),
        environment: Default::default(),
        warnings: Vec::new(),
    };
    let path = sandbox.path().join("results.sqlite");
    let mut store = Store::open(&path).unwrap();
    store.begin_run(&run).unwrap();
    let schedule = fsdyno::run::schedule::schedule(&plan);
    let mut measured = schedule[0].record(&plan, Outcome::Completed);
    measured.phases.push(PhaseRecord::new("transactions", "elapsed_s"));
    store.put_trial(&run.id, &measured).unwrap();
    let database = path.display().to_string();
    let show = |more: &[&str]| {
        sandbox.run(["show", "--db", &database].into_iter().chain(more.iter().copied()))
    };
    // One that was not come to is a gap; one that could not be made is none.
    show(&[]).assert_code(1);
    let reason = "the kernel has no tracefs".to_owned();
    let skipped = schedule[1].record(&plan, Outcome::Skipped { reason });
    store.put_trial(&run.id, &skipped).unwrap();
    let shown = show(&[]);
    shown.assert_code(0);
    let told = "No trace of ext4: skipped: the kernel has no tracefs.";
    assert!(shown.stdout.contains(told), "{}", shown.stdout);
    assert!(!shown.stdout.contains("1 of 2"), "{}", shown.stdout);
    // The classic tool never had such a trial.
    let classic = show(&["--format", "postmark"]);
    assert_eq!(classic.stdout.matches("# ext4").count(), 1, "{}", classic.stdout);
}
