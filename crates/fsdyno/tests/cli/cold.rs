//! Phases that start cold: how they are made so, and the proof by what the device read.

use crate::sandbox::{Sandbox, can_format, outcomes};
use serde_json::Value;

/// How often the test of a warm target tries to be alone.
const ATTEMPTS: u32 = 4;

const ALL: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// Runs small files of 16 KiB on `targets`; gives the trials.
fn run(sandbox: &Sandbox, targets: &[&str], cold: &str) -> Vec<Value> {
    let images = sandbox.images().display().to_string();
    let workload = format!("small-files:files=400,size=16KiB,cold={cold}");
    let mut arguments = vec!["compare"];
    arguments.extend(targets);
    arguments.extend(["--dir", &images, "--size", "1GiB", "-n", "1", "-w", &workload]);
    arguments.extend(["--json", "-"]);
    let finished = sandbox.run(arguments);
    finished.assert_code(0);
    let result = finished.json();
    assert!(outcomes(&result).iter().all(|outcome| *outcome == "completed"), "{result}");
    result["trials"].as_array().unwrap().clone()
}

fn phase<'a>(trial: &'a Value, name: &str) -> &'a Value {
    let phases = trial["phases"].as_array().unwrap();
    phases.iter().find(|phase| phase["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

fn warnings(trial: &Value) -> Vec<&str> {
    let warnings = trial["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

#[test]
fn a_remounted_target_reads_from_its_device() {
    if !can_format(&ALL) {
        return;
    }
    let sandbox = Sandbox::new();
    for cold in ["remount", "drop-caches"] {
        for trial in run(&sandbox, &ALL, cold) {
            let target = &trial["target"];
            assert_eq!(phase(&trial, "create")["cold"], Value::Null);
            for name in ["stat", "read", "delete"] {
                assert_eq!(phase(&trial, name)["cold"], cold, "{target} {name}");
            }
            let read = phase(&trial, "read");
            let asked = read["read_bytes"].as_f64().unwrap();
            assert_eq!(asked, 400.0 * 16384.0);
            let share = read["device"]["read_bytes"].as_f64().unwrap() / asked;
            assert!(
                share > 0.95,
                "{target} after {cold}: {share} of the bytes came from the device"
            );
            assert!(!warnings(&trial).contains(&"not-cold"), "{target}");
        }
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_warm_target_does_not() {
    if !can_format(&ALL) {
        return;
    }
    let sandbox = Sandbox::new();
    for target in ALL {
        let mut undisturbed = Vec::new();
        let warm = (0..ATTEMPTS).any(|_| {
            let before = caches_dropped();
            let trials = run(&sandbox, &[target], "none");
            let read = phase(&trials[0], "read");
            assert_eq!(read["cold"], Value::Null);
            let share = read["device"]["read_bytes"].as_f64().unwrap()
                / read["read_bytes"].as_f64().unwrap();
            if caches_dropped() == before {
                undisturbed.push(share);
            }
            // Metadata may be read again under pressure of memory; file contents are not.
            share < 0.05
        });
        // Other tests drop the caches of the machine as they please, and the kernel counts a
        // drop when it has ended, so that one bad attempt says nothing.
        match undisturbed.len() {
            _ if warm => {}
            0 | 1 => println!("not decided for {target}: the caches were dropped each time"),
            _ => panic!("{target}: {undisturbed:?} of the bytes came from the device"),
        }
    }
}

/// How often the page cache of this machine was dropped.
fn caches_dropped() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("drop_pagecache ")?.parse().ok())
}

#[test]
fn a_directory_cannot_be_mounted_again_and_says_so() {
    let sandbox = Sandbox::new();
    let directory = sandbox.path().join("work");
    std::fs::create_dir(&directory).unwrap();
    let target = format!("dir:{}", directory.display());
    let trials = run(&sandbox, &[&target], "remount");
    assert!(warnings(&trials[0]).contains(&"not-remounted"), "{}", trials[0]);
    let expected = if fsdyno_sys::caches::can_drop_caches() { "drop-caches" } else { "none" };
    assert_eq!(phase(&trials[0], "read")["cold"], expected);
}
