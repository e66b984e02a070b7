//! kill -9 at random moments: nothing finished is lost, nothing is left behind, the run goes on.

use std::process::Stdio;
use std::time::Instant;

use crate::sandbox::{Sandbox, can_format, outcomes};

const PLAN: &str = r#"
[plan]
trials = 4
size = "512MiB"
dir = "images"

[[target]]
filesystem = "ext4"

[[target]]
filesystem = "xfs"
log = true

[[target]]
filesystem = "btrfs"

[[target]]
label = "plain"
directory = "work"

[[workload]]
kind = "small-files"
files = 1500
"#;

/// Moments at which the run is killed.
const KILLS: u32 = 20;

#[test]
fn killed_twenty_times_and_still_whole() {
    if !can_format(&["ext4", "xfs", "btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("work")).unwrap();
    sandbox.file("plan.toml", PLAN);
    // How long a run takes that nobody kills tells where the moments may lie.
    let started = Instant::now();
    sandbox.run(["run", "plan.toml", "--json", "whole.json"]).assert_code(0);
    let whole = started.elapsed();
    let mut random = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    println!("seed {random:#x}");
    let mut kept: Vec<(String, u64)> = Vec::new();
    let mut killed = 0;
    let mut fresh = true;
    while killed < KILLS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Between nothing and a quarter of the whole: several kills fall into one run.
        let moment = whole.mul_f64(0.25 * (random >> 11) as f64 / (1u64 << 53) as f64);
        let arguments: &[&str] =
            if fresh { &["run", "plan.toml"] } else { &["run", "plan.toml", "--resume"] };
        let mut child = sandbox
            .command(arguments.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(moment);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success() || fresh || !has_unfinished(&sandbox), "{status}");
            kept.clear();
            fresh = true;
            continue;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        killed += 1;
        fresh = !has_unfinished(&sandbox);
        let now = if fresh { Vec::new() } else { completed(&sandbox) };
        for trial in &kept {
            assert!(now.contains(trial), "a finished trial was lost: {trial:?}\n{now:?}");
        }
        kept = now;
    }
    if !fresh {
        let last = sandbox.run(["run", "plan.toml", "--resume", "--json", "-"]);
        last.assert_code(0);
        assert_eq!(outcomes(&last.json()), ["completed"; 16]);
    }
    sandbox.run(["clean"]).assert_code(0);
    assert_eq!(std::fs::read_dir(sandbox.path().join("work")).unwrap().count(), 0);
    sandbox.wait_for_detached_loops();
    sandbox.assert_nothing_left();
}

fn has_unfinished(sandbox: &Sandbox) -> bool {
    let runs = sandbox.run(["runs", "--json"]);
    if runs.code != Some(0) {
        return false;
    }
    runs.json().as_array().unwrap().iter().any(|run| run["finished_unix_ns"].is_null())
}

/// The completed trials of the run that is unfinished: name and time of start.
fn completed(sandbox: &Sandbox) -> Vec<(String, u64)> {
    let result = sandbox.run(["show", "--json"]).json();
    let trials = result["trials"].as_array().unwrap().iter();
    trials
        .filter(|trial| trial["outcome"] == "completed")
        .map(|trial| {
            let name = format!("{} {} {}", trial["target"], trial["trial"], trial["started"]);
            (name, trial["elapsed_ns"].as_u64().unwrap())
        })
        .collect()
}
