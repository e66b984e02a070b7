//! Trials in guests, as an ordinary user where that can be: from mkfs to fsck, what becomes of a guest that
//! panics or hangs, what is refused.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, outcomes, skip};

/// A trial that takes an emulated guest a few seconds.
const SMALL: [&str; 14] = [
    "--in",
    "guest",
    "--accelerator",
    "tcg",
    "--guest-memory",
    "512MiB",
    "--size",
    "320MiB",
    "-n",
    "1",
    "-w",
    "small-files:files=200,size=4KiB",
    "--json",
    "result.json",
];

/// Whether guests can run here; prints the reason when not.
pub fn can_run_guests() -> bool {
    let found = fsdyno_guest::qemu::find()
        .and_then(|_| fsdyno_guest::kernel::choose(None, Path::new("/var/tmp")));
    found.inspect_err(|error| skip(error)).is_ok()
}

/// Runs `compare` as an ordinary user with images in the sandbox; kernels are kept for all tests.
fn compare(sandbox: &Sandbox, targets: &[&str], variables: &[(&str, &str)]) -> Finished {
    let images = sandbox.images().display().to_string();
    let mut arguments = vec!["compare"];
    arguments.extend(targets);
    arguments.extend(SMALL);
    arguments.extend(["--dir", &images]);
    let mut command = sandbox.command_as_nobody(&arguments);
    command.envs(variables.iter().copied());
    Finished::of(&command.output().expect("the binary starts"))
}

fn result(sandbox: &Sandbox) -> Value {
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The targets whose programs are installed and whose filesystems the guests' kernel has.
pub fn possible(targets: &[&'static str]) -> Vec<&'static str> {
    let kernel = fsdyno_guest::kernel::choose(None, Path::new("/var/tmp")).unwrap();
    let modules = fsdyno_guest::modules::Modules::of(&kernel.modules).unwrap();
    let is_possible = |target: &&str| {
        let name = target.split([':', '+', '@']).next().unwrap();
        let definition = fsdyno_lab::filesystem::by_name(name).unwrap();
        let missing = fsdyno_lab::tools::missing(definition.tools);
        let driver = modules.of_driver(definition.drivers);
        if let (Some(tool), _) = (missing.first(), &driver) {
            skip(&format!("{} is not installed", tool.name));
        } else if let Err(error) = &driver {
            skip(&format!("the kernel {}: {error}", kernel.release));
        }
        missing.is_empty() && driver.is_ok()
    };
    targets.iter().copied().filter(is_possible).collect()
}

#[test]
fn filesystems_are_measured_without_root() {
    if !can_run_guests() {
        return;
    }
    let targets = possible(&["ext4+journal", "xfs+log", "reiserfs:notail"]);
    let sandbox = Sandbox::new();
    let finished = compare(&sandbox, &targets, &[]);
    finished.assert_code(0);
    assert!(finished.stderr.contains("guests: Linux"), "{}", finished.stderr);
    let result = result(&sandbox);
    assert_eq!(outcomes(&result), vec!["completed"; targets.len()]);
    let environment = &result["run"]["environment"];
    assert_eq!(environment["measured"]["where"], "guest");
    assert_eq!(environment["measured"]["accelerator"], "tcg");
    assert_eq!(environment["cpu_count"], 1);
    assert!(environment["guest"]["qemu_version"].is_string(), "{environment}");
    for trial in result["trials"].as_array().unwrap() {
        assert_eq!(trial["measured"]["where"], "guest");
        assert_eq!(trial["fsck"]["exit_code"], 0, "{trial}");
        let bytes = &trial["phases"][0]["device"]["write_bytes"];
        assert!(bytes.as_u64().unwrap() > 0, "{trial}");
    }
    for target in result["targets"].as_array().unwrap() {
        let options = target["mount_effective"].as_str().unwrap();
        assert!(target["label"] != "reiserfs:notail" || options.contains("notail"), "{options}");
        // A log of its own is on the second disk.
        assert!(target["label"] != "xfs+log" || options.contains("logdev=/dev/vdb"), "{options}");
        let parameters = target["mkfs_effective"].as_object().unwrap();
        assert!(!parameters.is_empty(), "{target}");
    }
    sandbox.assert_nothing_left();
}

/// What a workload reads lies on a disk of its own beside those of the target: a guest that had it in memory would
/// have none left of as much as this one has.
#[test]
fn an_archive_may_be_larger_than_memory() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let own = ["compare", "ext2", "--in", "guest", "--accelerator", "tcg", "-n", "2"];
    let sizes = ["--guest-memory", "256MiB", "--size", "640MiB", "-w", "web-cache:size=260MiB"];
    let rest = ["--dir", &images, "--json", "result.json"];
    let mut command = sandbox.command_as_nobody(&[&own[..], &sizes, &rest].concat());
    let finished = Finished::of(&command.output().expect("the binary starts"));
    finished.assert_code(0);
    let result = result(&sandbox);
    assert_eq!(outcomes(&result), ["completed"; 2]);
    let extract = &result["trials"][0]["phases"][0];
    let memory = result["run"]["environment"]["memory_bytes"].as_u64();
    assert!(extract["bytes"].as_u64() > memory && memory.is_some(), "{memory:?}: {extract:#}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_panic_is_an_outcome_and_the_next_guest_is_another() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let finished = compare(&sandbox, &["ext4"], &[("FSDYNO_GUEST_FAULT", "panic")]);
    finished.assert_code(1);
    let result = result(&sandbox);
    let trial = &result["trials"][0];
    assert_eq!(trial["outcome"], "failed", "{trial}");
    let error = trial["error"].as_str().unwrap();
    assert!(error.contains("kernel panic") && error.contains("sysrq"), "{error}");
    let warning = trial["warnings"][0]["message"].as_str().unwrap();
    let console = warning.rsplit(' ').next().unwrap();
    let console = std::fs::read_to_string(console).unwrap();
    assert!(console.contains("Kernel panic - not syncing"), "{console}");
    sandbox.assert_nothing_left();
}

#[test]
fn a_guest_that_hangs_is_ended() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let variables = [("FSDYNO_GUEST_FAULT", "hang"), ("FSDYNO_GUEST_SILENCE_S", "12")];
    let finished = compare(&sandbox, &["ext4"], &variables);
    finished.assert_code(1);
    let result = result(&sandbox);
    let error = result["trials"][0]["error"].as_str().unwrap();
    assert!(error.contains("hangs: it said nothing for 12 s"), "{error}");
    sandbox.assert_nothing_left();
}

/// The machine is out of memory before the workload begins; QEMU ends with its kernel.
#[test]
fn a_guest_without_memory_says_so() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let finished = compare(&sandbox, &["ext4"], &[("FSDYNO_GUEST_FAULT", "oom")]);
    finished.assert_code(1);
    let result = result(&sandbox);
    let error = result["trials"][0]["error"].as_str().unwrap();
    assert!(error.contains("ran out of memory"), "{error}");
    assert!(error.contains("--guest-memory"), "{error}");
    sandbox.assert_nothing_left();
}

#[test]
fn what_lies_on_this_machine_is_refused() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let finished = compare(&sandbox, &["dir:.", "ext4@/dev/no-such"], &[]);
    finished.assert_code(2);
    for words in ["cannot be reached from a guest", "which a guest does not get"] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    let refused = sandbox.run(["compare", "ext4", "--in", "guest", "--", "true"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("cannot be run in a guest"), "{}", refused.stderr);
    let kernel = sandbox.run(["compare", "ext4", "--kernel", "/no/such"]);
    assert!(kernel.stderr.contains("add --in guest"), "{}", kernel.stderr);
    let kernel = sandbox.run(["compare", "ext4", "--in", "guest", "--kernel", "/etc/passwd"]);
    assert!(kernel.stderr.contains("no kernel image"), "{}", kernel.stderr);
    sandbox.assert_nothing_left();
}

#[test]
fn the_first_process_of_a_guest_is_nothing_for_the_host() {
    let finished = Sandbox::in_memory().run(["guest-init"]);
    finished.assert_code(2);
    assert!(finished.stderr.contains("--in guest"), "{}", finished.stderr);
}

/// Killed, it leaves no QEMU behind, and what lies on the disk is removed by `clean`.
#[test]
fn a_killed_run_leaves_no_guest() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let mut arguments = vec!["compare", "ext4"];
    arguments.extend(SMALL);
    arguments.extend(["--dir", &images]);
    let mut command = sandbox.command(arguments.iter().copied());
    let mut child = command.env("FSDYNO_GUEST_FAULT", "hang").spawn().unwrap();
    let own = images.clone();
    let guests = move || {
        let found = Command::new("pgrep").args(["-f", &format!("qemu-system.*{own}.*")]).output();
        String::from_utf8(found.unwrap().stdout).unwrap().lines().count()
    };
    let within = |limit_s: u64, condition: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(limit_s);
        while !condition() && std::time::Instant::now() < end {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        condition()
    };
    let started = within(60, &|| guests() > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(started, "no guest was started");
    assert!(within(20, &|| guests() == 0), "a guest outlived its run");
    sandbox.run(["clean"]).assert_code(0);
    sandbox.assert_nothing_left();
}
