//! Trials under User-Mode Linux, as an ordinary user where that can be: what is measured, a panic, what is left of
//! a run that is killed, what is refused.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_guest::modules::Modules;
use fsdyno_guest::uml::{self, Uml};
use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, outcomes, skip};

/// A trial that takes a guest a second or two.
const SMALL: [&str; 12] = [
    "--in",
    "uml",
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

/// User-Mode Linux where it is installed; prints the reason where it is not.
fn installed() -> Option<Uml> {
    uml::find().inspect_err(|error| skip(error)).ok()
}

/// `compare` as an ordinary user, with images in the sandbox.
fn command(sandbox: &Sandbox, targets: &[&str]) -> Command {
    let images = sandbox.images().display().to_string();
    let mut arguments = vec!["compare"];
    arguments.extend(targets);
    arguments.extend(SMALL);
    arguments.extend(["--dir", &images]);
    sandbox.command_as_nobody(&arguments)
}

fn result(sandbox: &Sandbox) -> Value {
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Processes that work below `directory`, as a guest's do.
fn guests_below(directory: &Path) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_below = |path: &Path| {
        let cwd = std::fs::read_link(path.join("cwd"));
        cwd.is_ok_and(|cwd| cwd.starts_with(directory))
    };
    entries.filter(|entry| is_below(&entry.path())).count()
}

fn within(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !condition() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    condition()
}

#[test]
fn filesystems_are_measured_by_a_process() {
    let Some(uml) = installed() else { return };
    let modules = Modules::of(&uml.kernel().modules).unwrap();
    let is_possible = |target: &&&str| {
        let definition = fsdyno_lab::filesystem::by_name(target).unwrap();
        let missing = fsdyno_lab::tools::missing(definition.tools);
        missing.iter().for_each(|tool| skip(&format!("{} is not installed", tool.name)));
        let driver = modules.of_driver(definition.drivers);
        let driver = driver.inspect_err(|error| skip(&format!("User-Mode Linux: {error}")));
        missing.is_empty() && driver.is_ok()
    };
    let targets: Vec<&str> = ["ext4", "reiserfs"].iter().filter(is_possible).copied().collect();
    let sandbox = Sandbox::new();
    let finished = Finished::of(&command(&sandbox, &targets).output().unwrap());
    finished.assert_code(0);
    assert!(finished.stderr.contains("guests: User-Mode Linux"), "{}", finished.stderr);
    let result = result(&sandbox);
    assert_eq!(outcomes(&result), vec!["completed"; targets.len()]);
    let environment = &result["run"]["environment"];
    assert_eq!(environment["measured"]["where"], "uml");
    assert_eq!(environment["measured"]["accelerator"], Value::Null);
    assert_eq!(environment["kernel_release"], uml.release.as_str());
    assert_eq!(environment["cpu_count"], 1);
    let guest = &environment["guest"];
    assert_eq!(guest["qemu_version"], Value::Null);
    // What was asked for, and what the initial file system takes besides.
    let initramfs_bytes = guest["kernels"][0]["initramfs_bytes"].as_u64().unwrap();
    let memory = format!("mem={}M", 512 + initramfs_bytes.div_ceil(1 << 20));
    assert!(guest["uml_arguments"].as_array().unwrap().contains(&memory.into()), "{guest}");
    assert_eq!(guest["host"]["pinned_to_cpu"], uml.cpu.to_string());
    assert_eq!(guest["kernels"][0]["hash"], uml.bootable().unwrap().hash);
    for trial in result["trials"].as_array().unwrap() {
        assert_eq!(trial["measured"]["where"], "uml");
        assert_eq!(trial["fsck"]["exit_code"], 0, "{trial}");
        let bytes = &trial["phases"][0]["device"]["write_bytes"];
        assert!(bytes.as_u64().unwrap() > 0, "{trial}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_panic_of_user_mode_linux_is_an_outcome() {
    if installed().is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let panic = command(&sandbox, &["ext4"]).env("FSDYNO_GUEST_FAULT", "panic").output();
    Finished::of(&panic.unwrap()).assert_code(1);
    let result = result(&sandbox);
    let trial = &result["trials"][0];
    assert_eq!(trial["outcome"], "failed", "{trial}");
    let error = trial["error"].as_str().unwrap();
    assert!(error.contains("kernel panic: sysrq"), "{error}");
    assert!(trial["warnings"].to_string().contains("console-kept"), "{trial}");
    assert!(within(Duration::from_secs(60), || guests_below(sandbox.path()) == 0));
    sandbox.assert_nothing_left();
}

/// User-Mode Linux is several processes, of which the kernel ends only one with its parent.
#[test]
fn a_killed_run_leaves_nothing_of_user_mode_linux() {
    if installed().is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images();
    let place = images.display().to_string();
    let mut arguments = vec!["compare", "ext4"];
    arguments.extend(SMALL);
    arguments.extend(["--dir", &place]);
    let mut command = sandbox.command(arguments.iter().copied());
    let mut child = command.env("FSDYNO_GUEST_FAULT", "hang").spawn().unwrap();
    // The kernel, what reads its disks, the first process.
    let started = within(Duration::from_secs(60), || guests_below(&images) >= 4);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(started, "no guest was started");
    let is_gone = within(Duration::from_secs(60), || guests_below(&images) == 0);
    assert!(is_gone, "a guest outlived its run");
    sandbox.run(["clean"]).assert_code(0);
    sandbox.assert_nothing_left();
}

#[test]
fn what_user_mode_linux_cannot_do_is_refused() {
    let sandbox = Sandbox::in_memory();
    for (arguments, words) in [
        (&["--kernel", "6.12"][..], "boots no other"),
        (&["--accelerator", "tcg"], "nothing accelerates"),
        (&["--clock", "virtual"], "counts no instructions"),
    ] {
        let mut all = vec!["compare", "ext4", "--in", "uml"];
        all.extend(arguments);
        let finished = sandbox.run(all);
        finished.assert_code(2);
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    let named = sandbox.run(["compare", "ext4@kernel=6.12", "xfs", "--in", "uml"]);
    named.assert_code(2);
    assert!(named.stderr.contains("ext4@kernel=6.12: User-Mode Linux"), "{}", named.stderr);
}
