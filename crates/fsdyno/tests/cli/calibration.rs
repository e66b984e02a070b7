//! `calibrate=true`: heavier loads are tried until the targets are told apart, and whoever resumes such a
//! run decides as the whole one would have.

use fsdyno::store::{Store, StoredRun};
use fsdyno_model::ladder::Climb;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{PhaseRecord, TrialRecord};
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::workload::WorkloadSpec;
use serde_json::Value;

use crate::sandbox::{Sandbox, can_format};

const RUNGS: usize = 7;

/// Outcomes of the trials of each rung of `postmark`, with the reasons of those that were skipped.
fn by_rung(result: &Value) -> Vec<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (1..=RUNGS)
        .map(|rung| {
            let label = format!("postmark rung {rung}");
            let trials = result["trials"].as_array().unwrap().iter();
            let own = trials.filter(|trial| trial["workload"] == label.as_str());
            own.map(|trial| (text(&trial["outcome"]), text(&trial["reason"]))).collect()
        })
        .collect()
}

/// The text of the search, and the index of the first rung that was left out; checks that every planned
/// trial is there and that all of those left out say the same.
fn search(result: &Value, trials_of_rung: usize) -> (String, usize) {
    let rungs = by_rung(result);
    assert!(rungs.iter().all(|rung| rung.len() == trials_of_rung), "{rungs:?}");
    let all_are = |rung: &[(String, String)], word| rung.iter().all(|(own, _)| own == word);
    let left_out = rungs.iter().position(|rung| all_are(rung, "skipped")).unwrap_or(RUNGS);
    assert!(rungs[..left_out].iter().all(|rung| all_are(rung, "completed")), "{rungs:?}");
    let reasons: Vec<&String> =
        rungs[left_out..].iter().flatten().map(|(_, reason)| reason).collect();
    assert!(reasons.windows(2).all(|pair| pair[0] == pair[1]), "{reasons:?}");
    let verdicts = result["verdicts"].as_array().unwrap();
    let verdict = verdicts.iter().find(|verdict| verdict["workload"] == "postmark").unwrap();
    (verdict["text"].as_str().unwrap().to_owned(), left_out)
}

fn stored(sandbox: &Sandbox) -> (Value, String) {
    let json = sandbox.run(["show", "--json"]).json();
    (json, sandbox.run(["show"]).stdout)
}

#[test]
fn memory_and_a_disk_that_syncs_are_told_apart() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let arguments = ["compare", "memory=dir:a", "slow=ext4:sync", "-n", "8", "--quick"];
    let light = "postmark:calibrate=true,calibrate_budget=1h,number=50,transactions=50";
    let workload = ["--dir", "images", "--size", "512MiB", "-w", light];
    let finished = sandbox.run(arguments.into_iter().chain(workload));
    finished.assert_code(0);
    let (result, table) = stored(&sandbox);
    let (verdict, left_out) = search(&result, 16);
    assert!(verdict.contains("memory") && verdict.contains("slow"), "{verdict}");
    let told = "told all targets apart";
    assert!(verdict.contains(told) || verdict.contains("could not tell them all"), "{verdict}");
    assert!(left_out < RUNGS, "{verdict}");
    let flat = table.split_whitespace().collect::<Vec<&str>>().join(" ");
    let line = match left_out + 1 {
        RUNGS => format!("postmark rung 7: skipped: rung 6 {told}"),
        next => format!("postmark rungs {next}–7: skipped: rung {left_out} {told}"),
    };
    assert_eq!(flat.matches(&line).count(), 1, "{table}");
    assert_eq!(flat.matches("skipped").count(), 1, "{table}");
    let news = format!("postmark rung {} and heavier: skipped: ", left_out + 1);
    assert_eq!(finished.stderr.matches(&news).count(), 1, "{}", finished.stderr);
    assert_eq!(finished.stderr.matches("skipped").count(), 1, "{}", finished.stderr);
    sandbox.assert_nothing_left();
}

#[test]
fn the_same_directory_twice_ends_with_the_budget() {
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let workload = "postmark:calibrate=true,calibrate_budget=1s";
    let arguments = ["compare", "one=dir:a", "two=dir:a", "-n", "3", "--quick", "-w", workload];
    let finished = sandbox.run(arguments);
    finished.assert_code(0);
    let (verdict, left_out) = search(&stored(&sandbox).0, 6);
    // One run in a hundred and forty tells a directory from itself, as is its right.
    let by_chance = verdict.contains("told all targets apart");
    assert!(by_chance || verdict.starts_with("The budget of 1.00 s was spent"), "{verdict}");
    assert!(left_out < RUNGS, "{verdict}");
}

#[test]
fn too_few_trials_are_bad_input() {
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let workload = "postmark:calibrate=true";
    for (arguments, words) in [
        (&["compare", "one=dir:a", "two=dir:a", "-n", "2"][..], "at least 3 trials"),
        (&["compare", "one=dir:a", "-n", "3"][..], "name at least two"),
    ] {
        let finished = sandbox.run(arguments.iter().copied().chain(["-w", workload]));
        finished.assert_code(2);
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

/// A run of two directories on three loads of small-files, interrupted after the first trial of the
/// second load; the first load took about these seconds.
fn interrupted(sandbox: &Sandbox, seconds: [f64; 2]) -> std::path::PathBuf {
    let targets = ["one", "two"].map(|name| {
        let path = sandbox.path().join(name);
        std::fs::create_dir(&path).unwrap();
        TargetSpec { label: name.to_owned(), ground: Ground::Directory { path } }
    });
    let info = fsdyno_workload::catalog::find("small-files").unwrap().info();
    let rungs = ["5", "10", "20"].map(|files| {
        let mut params = Params::defaults(info.params, true);
        params.set(info.params, "files", files).unwrap();
        params
    });
    let kind = "small-files".to_owned();
    let workload =
        WorkloadSpec { label: kind.clone(), kind, params: rungs[0].clone(), definition: None };
    let plan =
        Plan { trials: 3, targets: targets.to_vec(), workloads: vec![workload], ..Plan::new(true) };
    let (phase, rungs) = ("create".to_owned(), rungs.to_vec());
    let climb = |_: &WorkloadSpec| {
        Some(Climb { rungs: rungs.clone(), phase: phase.clone(), budget_s: 3600 })
    };
    let plan = plan.expand(climb).unwrap();
    let schedule = fsdyno::run::schedule::schedule(&plan);
    let path = sandbox.path().join("results.sqlite");
    let mut store = Store::open(&path).unwrap();
    let run = StoredRun {
        id: "20260102-030405-0000".to_owned(),
        started_unix_ns: 1,
        finished_unix_ns: None,
        command: "fsdyno".to_owned(),
        plan: plan.clone(),
        environment: Default::default(),
        warnings: Vec::new(),
    };
    store.begin_run(&run).unwrap();
    for planned in &schedule[..7] {
        let target = &plan.targets[planned.target_index].label;
        let workload = &plan.workloads[planned.workload_index].label;
        let outcome = Outcome::Completed;
        let mut record =
            TrialRecord::planned(target, workload, planned.trial, planned.order, outcome);
        let mut phase = PhaseRecord::new("create", "elapsed_s");
        let mixed = planned.trial as usize * 7 + planned.target_index * 3;
        let noise = 1.0 + (mixed % 5) as f64 / 500.0;
        phase.elapsed_return_ns = (1e9 * seconds[planned.target_index] * noise) as u64;
        record.phases.push(phase);
        record.elapsed_ns = Some(1_000_000_000);
        store.put_trial(&run.id, &record).unwrap();
    }
    path
}

#[test]
fn a_resumed_search_goes_on_as_it_would_have() {
    for (seconds, left_out_from) in [([1.0, 1.0], None), ([1.0, 3.0], Some(2))] {
        let sandbox = Sandbox::in_memory();
        let database = interrupted(&sandbox, seconds).display().to_string();
        let finished = sandbox.run(["run", "--resume", "--db", &database, "--json", "-"]);
        finished.assert_code(0);
        let result = finished.json();
        let trials = result["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 18);
        for (order, trial) in trials.iter().enumerate() {
            let rung = order / 6 + 1;
            assert_eq!(trial["workload"], format!("small-files rung {rung}"));
            // The trial of the second rung that was there before the decision stays as it was.
            let left_out = left_out_from.is_some_and(|first| rung >= first) && order > 6;
            if left_out {
                assert_eq!(trial["outcome"], "skipped", "{order}: {trial}");
                assert_eq!(trial["reason"], "rung 1 told all targets apart");
            } else if rung <= 2 {
                assert_eq!(trial["outcome"], "completed", "{order}: {trial}");
            }
        }
        sandbox.assert_nothing_left();
    }
}
