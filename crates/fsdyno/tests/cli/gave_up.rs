//! Filesystems that give up in the middle of a trial: the outcome names that and the kernel's message, and
//! the other trials are not touched. Errors that a filesystem goes on after mark their trial.

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, can_format, outcomes, own_warnings, skip};

/// Makes ext4 report an error on the filesystem under the working directory.
const EXT4_ERROR: &str = "d=$(df --output=source . | tail -n 1); echo a bad day > \
                          /sys/fs/ext4/${d#/dev/}/trigger_fs_error";

/// Three trials of `target`; in the second `bad` comes before a file is made.
fn three_trials(sandbox: &Sandbox, target: &str, bad: &str, rest: &[&str]) -> Finished {
    let images = sandbox.images().display().to_string();
    let count = sandbox.path().join("count").display().to_string();
    let line = format!(
        "echo >> '{count}'; if [ $(wc -l < '{count}') = 2 ]; then {bad}; fi; echo x > made && sync made"
    );
    let arguments = ["compare", target, "--dir", &images, "--size", "400MiB", "-n", "3"];
    let all = [&arguments[..], rest, &["--", &line]].concat();
    sandbox.run(all)
}

fn assert_given_up(target: &str, bad: &str, words: &[&str]) {
    let sandbox = Sandbox::new();
    let finished = three_trials(&sandbox, target, bad, &["--json", "result.json"]);
    finished.assert_code(1);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcomes(&result), ["completed", "failed", "completed"], "{}", finished.stderr);
    let trials = result["trials"].as_array().unwrap();
    let error = trials[1]["error"].as_str().unwrap();
    for words in words {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(error.starts_with("the filesystem "), "{error}");
    assert_eq!(trials[1]["stage"], "command", "{}", trials[1]);
    let warnings = own_warnings(&trials[1]);
    assert_eq!(warnings[0]["code"], "kernel-complained", "{warnings:?}");
    for other in [&trials[0], &trials[2]] {
        assert_eq!(own_warnings(other), Vec::<&Value>::new());
    }
    // The table has both the outcome and the warning.
    let table = finished.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(table.contains("the kernel complained: "), "{}", finished.stdout);
    assert!(table.contains(words[0]), "{}", finished.stdout);
    sandbox.assert_nothing_left();
}

#[test]
fn a_filesystem_that_goes_read_only_is_told_by_name() {
    if !can_format(&["ext4"]) {
        return;
    }
    let words = [
        "the filesystem went read-only after an error: EXT4-fs error (device loop",
        "a bad day; ",
        "Read-only file system",
    ];
    assert_given_up("ext4:errors=remount-ro", EXT4_ERROR, &words);
}

#[test]
fn a_filesystem_that_shuts_itself_down_is_told_by_name() {
    if !can_format(&["xfs"]) {
        return;
    }
    if fsdyno_sys::child::find_program("xfs_io").is_none() {
        return skip("xfs_io is not installed");
    }
    let words = ["the filesystem shut itself down after an error: XFS (loop", "Input/output error"];
    assert_given_up("xfs", "xfs_io -x -c shutdown .", &words);
}

/// ext4 goes on after an error unless it is told otherwise: the figures are there, and so is the warning,
/// in the table, in the report and in what follows from it.
#[test]
fn an_error_that_a_filesystem_goes_on_after_marks_the_trial() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let target = "ext4:errors=continue";
    let finished = three_trials(&sandbox, target, EXT4_ERROR, &["--json", "result.json"]);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let trials = result["trials"].as_array().unwrap();
    let warnings = own_warnings(&trials[1]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let message = warnings[0]["message"].as_str().unwrap();
    assert!(message.contains("EXT4-fs error") && message.contains("a bad day"), "{message}");
    assert_eq!(outcomes(&result), ["completed"; 3], "{}", finished.stderr);
    let table = finished.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(table.contains("1 of 3 trials was disturbed (ext4"), "{}", finished.stdout);
    assert!(table.contains("a bad day"), "{}", finished.stdout);
    sandbox.run(["report", "--output", "report.html"]).assert_code(0);
    let page = std::fs::read_to_string(sandbox.path().join("report.html")).unwrap();
    assert!(page.contains("the kernel complained: ") && page.contains("a bad day"));
    // Beside another run it is told too.
    let other = sandbox.run(["diff", "result.json", "latest", "--json"]).json();
    let told = other["warnings"].as_array().unwrap().iter();
    let told: Vec<&Value> = told.filter(|it| it["code"] == "trials-disturbed").collect();
    assert_eq!(told.len(), 2, "{other}");
    for (side, warning) in ["base", "new run"].iter().zip(told) {
        let message = warning["message"].as_str().unwrap();
        assert!(message.contains(side) && message.contains("kernel-complained (1)"), "{message}");
    }
    sandbox.assert_nothing_left();
}
