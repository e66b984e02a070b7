//! The machine itself: timed before and after every trial, in records, exports and SQL; marks of trials
//! that were disturbed; `doctor --noise`.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox};

const TARGETS: [&str; 3] = ["compare", "one=dir:one", "two=dir:two"];

fn two_directories() -> Sandbox {
    let sandbox = Sandbox::new();
    for name in ["one", "two"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    sandbox
}

/// Runs with the yardstick, which tests are spared otherwise.
fn run(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    let mut command = sandbox.command(arguments.iter().copied());
    Finished::of(&command.env_remove("FSDYNO_NO_YARDSTICK").output().unwrap())
}

fn edge<'a>(trial: &'a Value, name: &str) -> &'a Value {
    &trial["yardstick"][name]
}

#[test]
fn every_trial_has_a_reading_on_both_sides() {
    let sandbox = two_directories();
    let rest = ["-w", "small-files:files=50", "--quick", "-n", "3", "--json", "result.json"];
    let finished = run(&sandbox, &[&TARGETS[..], &rest].concat());
    finished.assert_code(0);
    for words in ["Between trials the machine itself is timed, about 250 ms each", "6 trials"] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    assert!(finished.stdout.contains("The machine itself, timed"), "{}", finished.stdout);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 6);
    for (trial, next) in trials.iter().zip(&trials[1..]) {
        let (before, after) = (edge(trial, "before"), edge(trial, "after"));
        for reading in [before, after] {
            assert!(reading["compute_ns"].as_f64().unwrap() > 0.0, "{reading}");
            assert!(reading["copy_ns_per_kib"].as_f64().unwrap() > 0.0, "{reading}");
            let place = reading["place"].as_str().unwrap();
            assert!(place.ends_with(trial["target"].as_str().unwrap()), "{reading}");
        }
        assert_eq!(
            after["started_unix_ns"],
            edge(next, "before")["started_unix_ns"],
            "one reading serves both"
        );
        assert!(after["started_unix_ns"].as_u64() > before["started_unix_ns"].as_u64());
    }
    let answer = sandbox.run([
        "query",
        "--csv",
        "SELECT edge, count(*) FROM yardstick WHERE compute_ns > 0 GROUP BY edge ORDER BY edge",
    ]);
    assert_eq!(answer.stdout.replace('\r', ""), "edge,count(*)\nafter,6\nbefore,6\n");
    let table = sandbox.run(["report", "--format", "csv", "--table", "yardstick"]);
    let rows = table.stdout.lines().filter(|line| line.contains(",compute_ns,")).count();
    assert_eq!(rows, 12, "{}", table.stdout);
    for name in ["one", "two"] {
        let left = std::fs::read_dir(sandbox.path().join(name)).unwrap().count();
        assert_eq!(left, 0, "its file is removed with the run");
    }
}

#[test]
fn it_can_be_left_out() {
    let sandbox = two_directories();
    let rest =
        ["-w", "small-files:files=20", "--quick", "-n", "1", "--json", "-", "--no-yardstick"];
    let finished = run(&sandbox, &[&TARGETS[..], &rest].concat());
    assert!(!finished.stderr.contains("the machine itself"), "{}", finished.stderr);
    for trial in finished.json()["trials"].as_array().unwrap() {
        assert_eq!(trial["yardstick"], Value::Null);
    }
    let plan = "[plan]\nyardstick = 1\n[[target]]\ndirectory = \"/\"\n[[workload]]\nkind = \"small-files\"\n";
    let checked = sandbox.run(["check", &sandbox.file("plan.toml", plan)]);
    checked.assert_code(2);
    assert!(checked.stderr.contains("expected true or false"), "{}", checked.stderr);
}

/// The test itself is the other process, which writes while a trial waits for it.
#[test]
fn what_others_write_marks_a_trial() {
    if std::fs::metadata("/proc/self/io").is_err() {
        crate::sandbox::skip("the kernel does not count what processes read and write");
        return;
    }
    let sandbox = two_directories();
    let place = sandbox.path().display().to_string();
    // Of the first trial alone: the others find the mark.
    let line = format!(
        "if [ ! -e '{place}/begun' ]; then touch '{place}/begun'; \
         while [ ! -e '{place}/done' ]; do sleep 0.02; done; fi"
    );
    let arguments = ["-n", "2", "--json", "result.json", "--", &line];
    let mut command = sandbox.command([&TARGETS[..], &arguments].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let wait_until = Instant::now() + Duration::from_secs(60);
    while !sandbox.path().join("begun").exists() && Instant::now() < wait_until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut file = std::fs::File::create(sandbox.path().join("written")).unwrap();
    file.write_all(&vec![7; 40 << 20]).unwrap();
    file.sync_all().unwrap();
    std::fs::write(sandbox.path().join("done"), "").unwrap();
    let finished = Finished::of(&child.wait_with_output().unwrap());
    finished.assert_code(0);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let first = &result["trials"][0];
    assert_eq!(first["outcome"], "completed", "it counts all the same");
    let warnings = first["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|one| one["code"] == "other-input-output");
    let told = told.unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(told["message"].as_str().unwrap().starts_with("other processes read and wrote"));
    let table = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        table.contains("of 4 trials was disturbed") || table.contains("of 4 trials were disturbed"),
        "{table}"
    );
    let answer = sandbox.run([
        "query",
        "--csv",
        "SELECT DISTINCT trial FROM warnings WHERE code = 'other-input-output' ORDER BY trial LIMIT 1",
    ]);
    assert_eq!(answer.stdout.replace('\r', ""), "trial\n1\n");
    let results = sandbox.run(["report", "--format", "csv", "--table", "results"]);
    assert!(
        results.stdout.lines().any(|line| line.contains(",completed,true,")),
        "{}",
        results.stdout
    );
}

#[test]
fn doctor_tells_how_noisy_the_machine_is() {
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let arguments = ["doctor", "--noise", "--quick", "--json", "--dir", &images];
    let finished = run(&sandbox, &arguments);
    finished.assert_code(0);
    assert!(finished.stderr.contains("[1/6]"), "progress: {}", finished.stderr);
    let noise = finished.json();
    assert_eq!((noise["blocks"].as_u64(), noise["trials"].as_u64()), (Some(3), Some(6)));
    let figures = noise["figures"].as_array().unwrap();
    for name in ["compute_ns", "copy_ns_per_kib", "create", "read", "delete"] {
        let figure = figures.iter().find(|it| it["name"] == name);
        let figure = figure.unwrap_or_else(|| panic!("{name}: {figures:?}"));
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(figure["variation"].as_f64().unwrap() >= 0.0, "{figure}");
    }
    for needed in noise["needed"].as_array().unwrap() {
        let fixed: Vec<u64> = needed["differences"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["trials_fixed"].as_u64())
            .collect();
        assert!(fixed.is_sorted_by(|a, b| a >= b), "a larger difference takes no more: {needed}");
    }
    sandbox.assert_nothing_left();
    let refused = sandbox.run(["doctor", "--noise", "--dir", "/nowhere/at/all"]);
    refused.assert_code(2);
}
