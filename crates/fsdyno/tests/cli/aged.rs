//! Aged targets: made once, copied for every trial, kept for later runs, and nothing of it left behind.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, outcomes};

const AGED: &str = "ext4~churn(utilisation=60%,age=0.9,fanout=4)";

/// The aged directory in the cache of the sandbox.
fn kept(sandbox: &Sandbox) -> Vec<PathBuf> {
    let found = std::fs::read_dir(sandbox.path().join("cache/fsdyno/aged"));
    found.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn arguments<'a>(images: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["compare", "--dir", images, "--size", "256MiB", "-n", "2", "-q"];
    all.extend(["-w", "small-files:files=50", "--json", "-"]);
    all.extend(more);
    all
}

fn trials_of<'a>(result: &'a Value, target: &str) -> Vec<&'a Value> {
    let trials = result["trials"].as_array().unwrap().iter();
    trials.filter(|trial| trial["target"] == target).collect()
}

#[test]
fn every_trial_starts_from_a_copy_of_what_was_aged_once() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let finished = sandbox.run(arguments(&images, &["ext4", AGED]));
    finished.assert_code(0);
    let result = finished.json();
    assert_eq!(outcomes(&result), ["completed"; 4]);
    assert!(trials_of(&result, "ext4").iter().all(|trial| trial["aged"].is_null()));
    let aged = trials_of(&result, AGED);
    for (trial, from_snapshot) in aged.iter().zip([false, true]) {
        let record = &trial["aged"];
        assert_eq!(record["from_snapshot"], from_snapshot, "{record}");
        let share = |part: &str| {
            record[part].as_f64().unwrap() / record["capacity_bytes"].as_f64().unwrap()
        };
        assert!((share("used_bytes") - 0.6).abs() < 0.03, "{record}");
        assert!((share("written_bytes") - 0.9).abs() < 0.05, "{record}");
        assert_eq!(trial["stages"]["age_ns"].is_null(), from_snapshot, "{trial}");
        assert_eq!(trial["fsck"]["exit_code"], 0);
    }
    let same = |field: &str| assert_eq!(aged[0]["aged"][field], aged[1]["aged"][field]);
    ["files", "used_bytes", "seed"].into_iter().for_each(same);
    // What is read back is read back from the copy.
    let facts = &result["targets"][1];
    assert!(facts["mkfs_command"].as_str().unwrap().contains("mkfs.ext4"), "{facts}");
    assert!(!facts["mkfs_effective"].as_object().unwrap().is_empty());
    let fresh = &result["targets"][0]["device_facts"];
    for fact in ["size_bytes", "image_allocated_bytes", "logical_block_size_bytes"] {
        assert_eq!(facts["device_facts"][fact], fresh[fact], "{fact}");
    }
    let shown = sandbox.run(["show"]);
    assert!(shown.stdout.contains("Aged before the workload"), "{}", shown.stdout);
    assert!(kept(&sandbox).is_empty());
    sandbox.assert_nothing_left();
}

#[test]
fn aged_images_are_kept_where_that_is_asked_for() {
    if !can_format(&["ext4", "xfs", "btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let age = "churn(utilisation=50%,age=0.6,fanout=4)";
    let more = ["ext4", "xfs", "btrfs", "--age", age, "--keep-aged", "--size", "512MiB"];
    let mut arguments = arguments(&images, &more);
    arguments.drain(3..5);
    let first = sandbox.run(arguments.iter().copied());
    first.assert_code(0);
    assert_eq!(kept(&sandbox).len(), 3);
    let result = first.json();
    assert_eq!(result["targets"][1]["label"], format!("xfs~{age}"));
    let second = sandbox.run(arguments.iter().copied().filter(|word| *word != "--keep-aged"));
    second.assert_code(0);
    for trial in second.json()["trials"].as_array().unwrap() {
        assert_eq!(trial["outcome"], "completed", "{trial}");
        assert_eq!(trial["aged"]["from_snapshot"], true, "{trial}");
    }
    let said = sandbox.run(["clean"]);
    assert!(said.stdout.contains("--aged removes them"), "{}", said.stdout);
    assert_eq!(kept(&sandbox).len(), 3);
    sandbox.run(["clean", "--aged"]).assert_code(0);
    assert!(kept(&sandbox).is_empty());
    sandbox.assert_nothing_left();
}

#[test]
fn a_kill_while_aging_or_copying_leaves_nothing() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let arguments = arguments(&images, &[AGED, "--keep-aged"]);
    for place in ["mount/aged", ".partial", "trial-2"] {
        let mut child = sandbox
            .command(arguments.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let found = wait_for(&sandbox, place, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        println!("killed at {place}: {found}");
        sandbox.wait_for_detached_loops();
        sandbox.run(["clean"]).assert_code(0);
        assert!(
            kept(&sandbox).iter().all(|path| path.extension().is_none()),
            "{:?}",
            kept(&sandbox)
        );
        sandbox.assert_nothing_left();
    }
    sandbox.run(["clean", "--aged"]).assert_code(0);
    sandbox.run(arguments.iter().copied()).assert_code(0);
    sandbox.assert_nothing_left();
}

/// Waits until the run has come to where there is `place`; the run may be too fast to be seen there.
fn wait_for(sandbox: &Sandbox, place: &str, child: &mut std::process::Child) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline && child.try_wait().unwrap().is_none() {
        let is_there = match place {
            ".partial" => kept(sandbox).iter().any(|path| path.extension().is_some()),
            // The mount is in the namespace of the run: its image grows no more once it is mounted.
            "mount/aged" => {
                trial_directories(sandbox).iter().any(|path| path.join("mount").exists())
            }
            _ => kept(sandbox).iter().any(|path| path.extension().is_none()),
        };
        if is_there {
            std::thread::sleep(Duration::from_millis(if place == "mount/aged" {
                1500
            } else {
                50
            }));
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn trial_directories(sandbox: &Sandbox) -> Vec<PathBuf> {
    let runs = std::fs::read_dir(sandbox.images()).into_iter().flatten().flatten();
    let inside = runs.flat_map(|run| std::fs::read_dir(run.path()).into_iter().flatten().flatten());
    inside.map(|entry| entry.path()).collect()
}

#[test]
fn without_room_for_a_copy_each_trial_ages_anew() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    // Room for one image, not for two.
    let small = sandbox.path().join("small");
    std::fs::create_dir(&small).unwrap();
    fsdyno_sys::mount::mount("tmpfs", "tmpfs", &small, "size=400m").unwrap();
    let images = small.display().to_string();
    let finished = sandbox.run(arguments(&images, &[AGED]));
    let left = std::fs::read_dir(&small).unwrap().count();
    fsdyno_sys::mount::unmount(&small).unwrap();
    finished.assert_code(0);
    assert_eq!(left, 0);
    for trial in finished.json()["trials"].as_array().unwrap() {
        assert_eq!(trial["aged"]["from_snapshot"], false, "{trial}");
        let warnings = trial["warnings"].to_string();
        assert!(warnings.contains("aged-image-not-kept"), "{warnings}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn ages_that_cannot_be_are_told() {
    let sandbox = Sandbox::new();
    for (words, expected) in [
        (&["ext4~churms"][..], "did you mean `churn`"),
        (&["ext4~churn(utilization=80%)"], "did you mean `utilisation`"),
        (&["ext4", "--age", "churn(age=0.1)"], "--age: age=0.1 is less than utilisation=80%"),
        (&["dir:.", "--age", "churn"], "a directory cannot be aged"),
        (&["dir:/tmp~churn"], "a directory cannot be aged"),
    ] {
        let finished = sandbox.run(["compare"].into_iter().chain(words.iter().copied()));
        finished.assert_code(2);
        assert!(finished.stderr.contains(expected), "{words:?}: {}", finished.stderr);
    }
    let plan = "\
[[target]]
filesystem = \"ext4\"
age = \"churn(sizes=desktop)\"

[[target]]
filesystem = \"xfs\"
age = 3

[[target]]
directory = \"/tmp\"
age = \"churn\"

[[workload]]
kind = \"small-files\"
";
    sandbox.file("plan.toml", plan);
    let finished = sandbox.run(["check", "plan.toml"]);
    finished.assert_code(2);
    insta::assert_snapshot!(finished.stderr);
    sandbox.assert_nothing_left();
}
