//! `--trials auto`: trials end once the comparisons are settled, at a greatest number or a time, and
//! whoever resumes a run decides as the whole one would have.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, outcomes};

/// Runs in a tenth of a second, but for `slow`.
const CLEAR: &str = "case $PWD in */slow/*) sleep 0.5;; *) sleep 0.1;; esac";

/// A line that is fast and slow by turns, on each target the other way round, so that no number of trials
/// settles anything.
fn swaying(sandbox: &Sandbox) -> String {
    let place = sandbox.path().display();
    format!(
        "case $PWD in */slow/*) which=0;; *) which=1;; esac; file={place}/turn$which; \
         turn=$(cat $file 2>/dev/null || echo $which); echo $((1 - turn)) > $file; \
         case $turn in 1) sleep 0.2;; *) sleep 0.02;; esac"
    )
}

fn two_directories() -> Sandbox {
    let sandbox = Sandbox::in_memory();
    for name in ["fast", "slow"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    sandbox
}

const TARGETS: [&str; 3] = ["compare", "fast=dir:fast", "slow=dir:slow"];

fn why(result: &Value) -> &str {
    result["run"]["stopped"]["why"].as_str().unwrap_or("none")
}

#[test]
fn a_clear_difference_ends_at_the_least_number() {
    let sandbox = two_directories();
    let finished = sandbox.run(TARGETS.into_iter().chain(["--json", "a.json", "--", CLEAR]));
    finished.assert_code(0);
    let result = std::fs::read_to_string(sandbox.path().join("a.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    // What was not made is no trial that was left out.
    assert_eq!(outcomes(&result), ["completed"; 10]);
    let run = &result["run"];
    assert_eq!((why(&result), run["trials"].as_u64()), ("settled", Some(5)));
    assert_eq!(run["stopped"]["max_trials"], 20);
    let flat = |text: &str| text.split_whitespace().collect::<Vec<&str>>().join(" ");
    let table = flat(&finished.stdout);
    for words in ["2 targets × 5 trials", "Trials: No more were wanted: ", "Median of 5 trials"] {
        assert!(table.contains(words), "{words} is missing:\n{table}");
    }
    for words in ["skipped", "interrupted", " of 20"] {
        assert!(!table.contains(words), "{table}");
    }
    for words in [
        "2 targets × 1 workload × 5 to 20 trials = 10 to 40 trials. ",
        "told apart, or the same within ±3 %. After 1 h none beyond the first 5 starts.",
        "[block 1 of 5 to 20] ",
        "the first block took ",
        ": settled: ",
    ] {
        assert!(finished.stderr.contains(words), "{words} is missing:\n{}", finished.stderr);
    }
    assert!(!finished.stderr.contains('\u{1b}') && !finished.stderr.contains('\r'));
    let markdown = sandbox.run(["show", "--format", "markdown"]);
    assert!(markdown.stdout.contains("**Trials:** No more were wanted: "), "{}", markdown.stdout);
    sandbox.run(["report", "--output", "page.html"]).assert_code(0);
    let page = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(page.contains("No more were wanted: "), "it is not on the page");
    let runs = sandbox.run(["runs", "--json"]).json();
    assert_eq!(
        (&runs[0]["trials_planned"], &runs[0]["trials_completed"]),
        (&10.into(), &10.into())
    );
    sandbox.run(["run", "--resume"]).assert_code(2);
    sandbox.assert_nothing_left();
}

#[test]
fn what_cannot_be_settled_ends_at_the_greatest_number_or_with_the_time() {
    let sandbox = two_directories();
    let line = swaying(&sandbox);
    for (options, expected, words) in [
        (["--max-trials", "7"].as_slice(), "max-trials", "--max-trials 14"),
        (&["--quick", "--max-trials", "9999", "--max-time", "8s"], "max-time", "The time, 8 s"),
    ] {
        let rest = ["--json", "-", "--", line.as_str()];
        let all = TARGETS.iter().chain(options).chain(&rest);
        let finished = sandbox.run(all.copied());
        finished.assert_code(0);
        let result = finished.json();
        assert_eq!(why(&result), expected, "{}", finished.stderr);
        assert!(outcomes(&result).iter().all(|word| *word == "completed"));
        let workload = &result["run"]["stopped"]["workloads"][0];
        assert_eq!(workload["open"][0].as_str().unwrap().split(':').next(), Some("command"));
        assert_eq!(workload["settled"], Value::Null);
        if expected == "max-trials" {
            assert_eq!(outcomes(&result).len(), 14);
        }
        let sentence = result["run"]["stopped"]["sentence"].as_str().unwrap();
        assert!(sentence.contains(words) && sentence.contains(" is open: command: "), "{sentence}");
        // It is told when it happens, too.
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

#[test]
fn one_directory_twice_is_the_same_within_a_coarse_resolution() {
    let sandbox = two_directories();
    let arguments = ["compare", "one=dir:fast", "two=dir:fast", "--resolution", "50%"];
    let finished = sandbox.run(arguments.into_iter().chain(["--json", "-", "--", "sleep 0.3"]));
    finished.assert_code(0);
    let result = finished.json();
    // On a machine at rest five blocks settle it; one that is pushed aside in the meantime needs more.
    assert_eq!(why(&result), "settled", "{}", finished.stderr);
    assert!((10..=40).contains(&outcomes(&result).len()), "{}", finished.stderr);
}

#[test]
fn a_fixed_number_is_what_it_was() {
    let sandbox = two_directories();
    let order = |options: &[&str], count: usize| -> Vec<(Value, Value, Value)> {
        let all = TARGETS.iter().chain(options).chain(&["--json", "-", "--", "true"]);
        let finished = sandbox.run(all.copied());
        // How long it may take is known from the second run on.
        let has_earlier = sandbox.run(["runs", "--json"]).json().as_array().unwrap().len() > 1;
        assert_eq!(finished.stderr.contains("Going by run "), has_earlier, "{}", finished.stderr);
        let result = finished.json();
        let trials = result["trials"].as_array().unwrap();
        let name = |it: &Value| (it["target"].clone(), it["trial"].clone(), it["order"].clone());
        assert_eq!(why(&result) == "none", options.contains(&"-n"));
        trials.iter().take(count).map(name).collect()
    };
    let fixed = order(&["-n", "3"], 99);
    assert_eq!(fixed.len(), 6);
    assert_eq!(order(&["--quick"], 6), fixed);
    assert_eq!(order(&["--quick", "--max-trials", "8"], 6), fixed);
}

#[test]
fn contradictions_are_told_with_advice() {
    let sandbox = two_directories();
    for (options, words) in [
        (
            &["-n", "5", "--resolution", "3%"][..],
            "--resolution says when automatic trials end, but --trials 5 fixes",
        ),
        (&["-n", "5", "--max-trials", "9"], "leave one of the two out"),
        (&["--resolution", "3"], "write a percentage such as 3%"),
        (&["--resolution", "90%"], "out of bounds"),
        (&["--max-trials", "0"], "1..=10000"),
        (&["-n", "many"], "write auto or a number"),
    ] {
        let finished = sandbox.run(TARGETS.iter().chain(options).copied());
        finished.assert_code(2);
        assert!(finished.stderr.contains(words), "{options:?}: {}", finished.stderr);
    }
    let plan = "[plan]\ntrials = 5\nresolution = \"3%\"\n[[target]]\ndirectory = \"fast\"\n\
                [[workload]]\nkind = \"small-files\"\n";
    let plan = sandbox.file("plan.toml", plan);
    let finished = sandbox.run(["check", plan.as_str()]);
    finished.assert_code(2);
    assert!(finished.stderr.contains("plan.toml:3:1"), "{}", finished.stderr);
    assert!(finished.stderr.contains("trials = 5 fixes their number"), "{}", finished.stderr);
}

#[test]
fn a_plan_tells_before_it_runs() {
    let sandbox = two_directories();
    let plan = "[plan]\ntrials = \"auto\"\nresolution = \"2.5%\"\nmax_trials = 7\nmax_time = \"90m\"\n\
                [[target]]\ndirectory = \"fast\"\n[[target]]\ndirectory = \"slow\"\n\
                [[workload]]\nkind = \"small-files\"\n";
    sandbox.file("plan.toml", plan);
    let checked = sandbox.run(["check", "plan.toml"]);
    checked.assert_code(0);
    for words in ["5 to 7 trials = 10 to 14 trials", "±2.5 %", "After 1 h 30 min no trial starts."]
    {
        assert!(checked.stdout.contains(words), "{words} is missing:\n{}", checked.stdout);
    }
    let dry = sandbox.run(["dry-run", "plan.toml"]);
    dry.assert_code(0);
    assert_eq!(dry.stdout.lines().count(), 14);
    let of_open = dry.stdout.lines().filter(|line| line.ends_with("\tonly if open"));
    assert_eq!(of_open.count(), 4);
    assert!(dry.stderr.contains("10 to 14 trials"), "{}", dry.stderr);
    let json = sandbox.run(["dry-run", "plan.toml", "--json"]).json();
    let of_open = |it: &&Value| it["only_if_open"] == Value::Bool(true);
    assert_eq!(json.as_array().unwrap().iter().filter(of_open).count(), 4);
}

#[test]
fn killed_runs_end_where_whole_ones_do() {
    for (is_clear, expected, count) in [(true, "settled", 10), (false, "max-trials", 16)] {
        let sandbox = two_directories();
        let line = if is_clear { CLEAR.to_owned() } else { swaying(&sandbox) };
        let mut arguments: Vec<&str> = TARGETS.to_vec();
        arguments.extend(["--max-trials", "8", "--", line.as_str()]);
        for _ in 0..4 {
            let mut command = sandbox.command(arguments.iter().copied());
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(1900));
            child.kill().unwrap();
            child.wait().unwrap();
            let runs = sandbox.run(["runs", "--json"]);
            let has_run = runs.code == Some(0) && runs.json()[0].is_object();
            if has_run {
                let shown = sandbox.run(["show", "--json"]);
                let code = if why(&shown.json()) == "unfinished" { 1 } else { 0 };
                shown.assert_code(code);
                arguments = vec!["run", "--resume"];
            }
        }
        // Whoever was done before the last kill leaves nothing to resume.
        sandbox.run(arguments.iter().copied());
        let result = sandbox.run(["show", "--json"]).json();
        assert_eq!(why(&result), expected, "{result}");
        assert_eq!(outcomes(&result), vec!["completed"; count]);
        assert_eq!(sandbox.run(["runs", "--json"]).json().as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn images_are_compared_until_it_is_settled() {
    if !can_format(&["ext4", "xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "case $(stat -f -c %T .) in xfs) sleep 2;; *) sleep 0.2;; esac";
    let common = ["compare", "ext4", "xfs", "--dir", "images", "--size", "512MiB", "--quick"];
    let rest = ["--trace", "explain", "--json", "-", "--", line];
    let finished = sandbox.run(common.into_iter().chain(rest));
    finished.assert_code(0);
    let result = finished.json();
    assert_eq!(why(&result), "settled", "{}", finished.stderr);
    let trials = result["trials"].as_array().unwrap();
    let measured = trials.iter().filter(|trial| trial["role"] == "measured");
    assert!([6, 8, 10].contains(&measured.count()), "{}", finished.stderr);
    // What is only traced still is.
    assert_eq!(trials.iter().filter(|trial| trial["role"] == "explain").count(), 2);
    assert!(finished.stderr.contains("3 to 5 trials = 6 to 10 trials, and 2 traced"));
    sandbox.assert_nothing_left();
}
