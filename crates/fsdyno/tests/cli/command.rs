//! `fsdyno compare … -- COMMAND`: a command line of the user's from the command line to the table.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsdyno_sys::process;
use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, can_format, outcomes, own_warnings};

fn compare(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    let images = sandbox.images().display().to_string();
    let mut all = vec!["compare", "--dir", &images, "--size", "1GiB"];
    all.extend(arguments);
    sandbox.run(all)
}

fn directory(sandbox: &Sandbox) {
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
}

/// A project whose build is done, so that only what is touched is made again.
fn project(sandbox: &Sandbox) {
    let place = sandbox.path().join("project");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("input"), vec![b'a'; 300_000]).unwrap();
    let script = "#!/bin/sh\nset -e\ntest made -nt input\ncksum input; echo again >> made\nseq 100 | split -l 1\n";
    std::fs::write(place.join("build"), script).unwrap();
    std::os::unix::fs::symlink("input", place.join("link")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.join("build"), mode).unwrap();
    let now = std::time::SystemTime::now();
    std::fs::write(place.join("made"), "").unwrap();
    let file = std::fs::File::options().write(true).open(place.join("input")).unwrap();
    file.set_modified(now - Duration::from_secs(100)).unwrap();
}

fn trials(result: &Value) -> &Vec<Value> {
    result["trials"].as_array().unwrap()
}

#[test]
fn a_build_is_compared_on_two_filesystems() {
    if !can_format(&["ext4", "btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    project(&sandbox);
    let arguments = [
        "ext4",
        "btrfs",
        "-n",
        "2",
        "--json",
        "result.json",
        "--copy",
        "project",
        "--prepare",
        "test -L link && touch prepared",
        "--check",
        "test -e prepared -a -e xaa",
        "--",
        "./build",
        "all things",
    ];
    let finished = compare(&sandbox, &arguments);
    finished.assert_code(0);
    for words in ["./build 'all things'", "command", "ext4", "btrfs"] {
        assert!(finished.stdout.contains(words), "{words} is missing:\n{}", finished.stdout);
    }
    let result = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!(outcomes(&result), ["completed"; 4]);
    let workload = &result["workloads"][0];
    assert_eq!(
        (&workload["kind"], &workload["label"]),
        (&"command".into(), &"./build 'all things'".into())
    );
    let copy = workload["params"]["copy"].as_str().unwrap();
    assert_eq!(
        copy,
        sandbox.path().join("project").display().to_string(),
        "whole, to resume anywhere"
    );
    for trial in trials(&result) {
        let phase = &trial["phases"][0];
        assert_eq!((&phase["name"], &phase["cold"]), (&"command".into(), &"remount".into()));
        assert!(phase["elapsed_durable_ns"].as_u64() >= phase["elapsed_return_ns"].as_u64());
        assert!(phase["device"]["write_bytes"].as_u64().unwrap() > 0, "{}", trial["target"]);
        // What was copied is read from the device again.
        assert!(phase["device"]["read_bytes"].as_u64().unwrap() > 0, "{}", trial["target"]);
        assert_eq!(trial["fsck"]["exit_code"], 0);
        assert_eq!(own_warnings(trial), Vec::<&Value>::new());
    }
    sandbox.assert_nothing_left();
}

#[test]
fn what_holds_the_target_busy_does_not_fail_the_trial() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "setsid sleep 621 > log 2>&1 & sleep 622 & sleep 0.2";
    let finished = compare(&sandbox, &["ext4", "-n", "2", "--json", "-", "--", line]);
    finished.assert_code(0);
    for trial in trials(&finished.json()) {
        let [warning] = own_warnings(trial)[..] else { panic!("{trial}") };
        assert_eq!(warning["code"], "left-running");
        let message = warning["message"].as_str().unwrap();
        assert!(message.ends_with(": sleep"), "{message}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_directory_is_left_as_it_was() {
    let sandbox = Sandbox::in_memory();
    directory(&sandbox);
    // What an ordinary user may not even enter, and a copy of the directory that the target is in.
    let line = "test -d a && mkdir -p x/y && touch x/y/z && chmod 0 x/y x";
    let arguments = [
        "compare", "dir:a", "-n", "2", "--json", "-", "--copy", ".", "--cold", "none", "--", "sh",
        "-c", line,
    ];
    let finished = sandbox.run_as_nobody(&arguments).unwrap_or_else(|| sandbox.run(arguments));
    finished.assert_code(0);
    assert_eq!(outcomes(&finished.json()), ["completed"; 2]);
    assert_eq!(std::fs::read_dir(sandbox.path().join("a")).unwrap().count(), 0);
    sandbox.assert_nothing_left();
}

#[test]
fn an_interrupted_command_takes_its_daemons_along() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let pid_file = sandbox.path().join("pid");
    let line = format!("setsid sleep 631 & echo $! > {}; sleep 632", pid_file.display());
    let arguments = ["compare", "ext4", "--dir", &images, "--size", "1GiB", "-n", "1", "--", &line];
    let mut command = sandbox.command(arguments);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    let daemon = loop {
        let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
        if let Some(daemon) = text.trim().parse().ok().and_then(process::identity) {
            break daemon;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the command never began");
        std::thread::sleep(Duration::from_millis(20));
    };
    let asked = Command::new("kill").arg(running.id().to_string()).status();
    assert!(asked.unwrap().success());
    running.wait().unwrap();
    assert!(!process::is_alive(&daemon));
    sandbox.assert_nothing_left();
}

#[test]
fn a_failing_command_is_told_in_its_own_words() {
    let sandbox = Sandbox::in_memory();
    directory(&sandbox);
    let finished =
        compare(&sandbox, &["dir:a", "-n", "1", "--", "echo 'no rule to make it' >&2; exit 2"]);
    finished.assert_code(1);
    for words in ["failed in command", "exit code 2", "no rule to make it"] {
        let text = finished.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(text.contains(words), "{words} is missing:\n{}", finished.stdout);
    }
    sandbox.assert_nothing_left();
}

#[test]
fn bad_command_lines_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::in_memory();
    directory(&sandbox);
    std::fs::copy("/bin/true", sandbox.path().join("tool")).unwrap();
    for (arguments, words) in [
        (&["dir:a", "--", "no-such-program-x"][..], "no-such-program-x is not found"),
        (&["dir:a", "--", "./tool"], "--copy ."),
        (&["dir:a", "--", "./none"], "there is no ./none"),
        (&["dir:a", "--", ""], "the command is empty"),
        (&["dir:a", "--", "make 'x"], "a quote that is not closed"),
        (&["dir:a", "--copy", "absent", "--", "true"], "absent is no directory"),
        (&["dir:a", "--prepare", "true"], "COMMAND"),
        (&["dir:a", "--cold", "frozen", "--", "true"], "frozen"),
        (&["dir:a", "-w", "command"], "behind `--`"),
        (&["dir:a", "sleep"], "goes behind `--`"),
    ] {
        let finished = compare(&sandbox, arguments);
        finished.assert_code(2);
        assert!(finished.stderr.contains(words), "{words} is missing:\n{}", finished.stderr);
    }
    assert!(!sandbox.path().join("data").exists() || sandbox.run(["runs"]).code == Some(1));
}

#[test]
fn plans_and_workload_options_say_the_same() {
    let sandbox = Sandbox::in_memory();
    directory(&sandbox);
    let plan = sandbox.file(
        "plan.toml",
        r#"
[plan]
trials = 1

[[target]]
directory = "a"

[[workload]]
kind = "command"
command = "seq 10 | split -l 1"
prepare = "touch ready"
check = "test -e ready -a -e xaj"

[[workload]]
kind = "command"
label = "words"
command = "touch 'a b' c=d,e"
check = "test -e 'a b' -a -e c=d,e"
"#,
    );
    let finished = sandbox.run(["run", &plan, "--json", "-"]);
    finished.assert_code(0);
    let result = finished.json();
    assert_eq!(outcomes(&result), ["completed"; 2]);
    let labels: Vec<&str> = result["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["seq 10 | split -l 1", "words"]);
    let option = "command:command=touch a,b=c,check=test -e a,b=c";
    let finished =
        compare(&sandbox, &["dir:a", "-n", "1", "-w", option, "--json", "-", "--", "true"]);
    finished.assert_code(0);
    assert_eq!(outcomes(&finished.json()), ["completed"; 2]);
    sandbox.assert_nothing_left();
}
