//! Virtual time: a run that is made again gives the same records to the bit, whatever the machine does
//! meanwhile; emulated disks in guests; an extra per cent of work is found; what is refused.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::guest;
use crate::sandbox::{Finished, Sandbox, outcomes, skip};
use crate::saved_state;

/// A machine that is started in some seconds.
const SMALL: [&str; 6] = ["--clock", "virtual", "--guest-memory", "512MiB", "--size", "320MiB"];

/// A workload whose tasks do `$work` calls each.
const TASKS: &str = r#"name = "tasks"
summary = "files are asked for"

[params.work]
kind = "count"
default = 100
min = 1
doc = "calls of a task"

[[fileset]]
name = "files"
entries = 100
size = "4KiB"
preallocated = 1

[[phase]]
name = "ask"
doc = "asks for files"
metric = "tasks_per_s"
tasks = 300

[[phase.group]]
name = "user"
steps = [{ repeat = "$work", steps = [{ op = "stat", fileset = "files" }] }]
"#;

/// Whether such guests can run here; prints the reason when not.
pub fn can_run_guests() -> bool {
    let found = fsdyno_guest::qemu::find()
        .and_then(|_| fsdyno_guest::kernel::choose(None, Path::new("/var/tmp")));
    let found = found.and_then(|kernel| {
        let modules = fsdyno_guest::modules::Modules::of(&kernel.modules)?;
        let needed = fsdyno_guest::virtual_time::DRIVERS.into_iter().chain(["nbd"]);
        for driver in needed {
            modules.of_driver(&[driver]).map_err(|error| format!("{}: {error}", kernel.release))?;
        }
        Ok(())
    });
    found.inspect_err(|error| skip(error)).is_ok()
}

/// Runs a command as an ordinary user with images in the sandbox.
fn run(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    let mut command = sandbox.command_as_nobody(arguments);
    Finished::of(&command.output().expect("the binary starts"))
}

fn compare(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let images = sandbox.images().display().to_string();
    let own = ["--dir", &images, "--json", "result.json"];
    let all = [&["compare"], arguments, &SMALL, &own].concat();
    let finished = run(sandbox, &all);
    finished.assert_code(0);
    assert!(finished.stdout.contains("a difference is a difference"), "{}", finished.stdout);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Keeps both processors busy until it is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn begin() -> Load {
        let goes_on = Arc::new(AtomicBool::new(true));
        for _ in 0..2 {
            let goes_on = Arc::clone(&goes_on);
            std::thread::spawn(move || {
                let mut sum = 0_u64;
                while goes_on.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
            });
        }
        Load(goes_on)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn waiting_for_an_emulated_disk_is_time_but_nobodys_work() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let (disk, workload) = ("disk=ext4@disk:hdd-7200-2007", "small-files:files=100,size=4KiB");
    let result = compare(&sandbox, &[disk, "memory=ext4", "-w", workload, "--jobs", "1"]);
    assert_eq!(outcomes(&result), ["completed"; 2]);
    assert_eq!(result["run"]["environment"]["measured"]["clock"], "virtual");
    let trials = result["trials"].as_array().unwrap();
    for of_time in trials.iter().map(|trial| &trial["virtual_time"]) {
        for name in ["guests", "virtual_ns", "wall_ns"] {
            assert!(of_time[name].as_u64().unwrap() > 0, "{of_time}");
        }
        assert_eq!(of_time["record_hash"].as_str().unwrap().len(), 16, "{of_time}");
    }
    // Where two guests agree at once, one is enough from then on.
    let guests = trials.iter().map(|trial| trial["virtual_time"]["guests"].as_u64().unwrap());
    let mut guests: Vec<u64> = guests.collect();
    guests.sort_unstable();
    assert!(guests == [1, 2] || guests[1] > 2, "{guests:?}");
    let trial = trials.iter().find(|trial| trial["target"] == "disk").unwrap();
    // Milliseconds of waiting for a disk that rotates, in a file system of cold caches.
    let read = trial["phases"].as_array().unwrap().iter().find(|it| it["name"] == "read").unwrap();
    assert!(read["device"]["reads"].as_u64().unwrap() > 10, "{read}");
    let elapsed_ns = read["elapsed_return_ns"].as_u64().unwrap();
    assert!(elapsed_ns > 10_000_000, "{read}");
    // Which is idle time, though the processor never idles, and nobody's work.
    let other_ns = read["cpu"]["groups_ns"]["other"].as_u64().unwrap_or(0);
    assert!(other_ns < elapsed_ns / 4, "{read}");
    assert_eq!(result["targets"][0]["device_facts"]["disk_model"], "hdd-7200-2007");
    // Filesystems lay out their data by it.
    assert_eq!(result["targets"][0]["device_facts"]["rotational"], "1");
    sandbox.assert_nothing_left();
}

/// Each of three workloads on each of five filesystems, made again beside processes that compute.
#[test]
fn every_record_is_made_again_to_the_bit() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let targets = guest::possible(&[
        "ext4@disk:hdd-7200-2007",
        "xfs@disk:hdd-7200-2007",
        "btrfs@disk:hdd-7200-2007",
        "reiserfs@disk:hdd-7200-2007",
        "jfs@disk:hdd-7200-2007",
    ]);
    let mut arguments = targets.clone();
    for workload in [
        "compilebench:trees=1,runs=1,one_in=100",
        "million-files:files=60,size=4KiB",
        "postmark:number=60,transactions=60",
    ] {
        arguments.extend(["-w", workload]);
    }
    arguments.extend(["--jobs", "2"]);
    let result = compare(&sandbox, &arguments);
    assert_eq!(outcomes(&result), vec!["completed"; 3 * targets.len()]);
    let load = Load::begin();
    let again = run(&sandbox, &["reproduce", "--quiet", "--jobs", "2"]);
    drop(load);
    again.assert_code(0);
    assert!(again.stdout.contains("Every record is identical."), "{}", again.stdout);
    sandbox.assert_nothing_left();
}

/// A state that is of no use costs the trial another boot, and changes nothing in its record.
#[test]
fn a_damaged_state_is_made_anew() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images();
    let shown = images.display().to_string();
    let own = ["--dir", &shown, "--json", "result.json", "--jobs", "1"];
    let what = ["compare", "ext2", "ext4", "-w", "small-files:files=30,size=4KiB"];
    let all = [&what[..], &SMALL, &own].concat();
    let mut command = sandbox.command_as_nobody(&all);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let state = saved_state::await_state(&images, "stopped-guest-0");
    state.iter().for_each(|state| saved_state::damage_memory(state));
    let finished = Finished::of(&child.wait_with_output().unwrap());
    assert!(state.is_some(), "no state was saved: {}", finished.stderr);
    finished.assert_code(0);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcomes(&result), ["completed"; 2]);
    let trials = result["trials"].as_array().unwrap();
    let warnings = trials.iter().flat_map(|trial| trial["warnings"].as_array().unwrap());
    let lost = warnings.filter(|warning| warning["code"] == "saved-state-lost").count();
    assert_eq!(lost, 1, "{trials:#?}");
    let again = run(&sandbox, &["reproduce", "--quiet"]);
    again.assert_code(0);
    assert!(again.stdout.contains("Every record is identical."), "{}", again.stdout);
    sandbox.assert_nothing_left();
}

/// An extra per cent of work is found by one trial on each side.
#[test]
fn a_per_cent_of_work_is_seen() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.file("tasks.toml", TASKS);
    for work in ["100", "101"] {
        compare(&sandbox, &["ext4", "-w", &format!("./tasks.toml:work={work}")]);
    }
    let slower = run(&sandbox, &["diff", "latest~1", "latest", "--json"]).json();
    assert_eq!(slower["exact"], true);
    let row = slower["rows"].as_array().unwrap().iter().find(|row| row["phase"] == "ask").unwrap();
    assert_eq!(row["verdict"], "slower", "{row}");
    let ratio = row["ratio"]["ratio"].as_f64().unwrap();
    assert!((0.985..0.995).contains(&ratio), "1 % more work: {ratio}");
    assert!(row["ratio"]["low"].is_null(), "there is no interval: {row}");
}

/// The first of trials side by side is made by two guests at once, and the others wait for what these show.
#[test]
fn trials_are_made_side_by_side() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let targets = ["ext2", "ext4", "xfs"];
    let more = ["-w", "small-files:files=30,size=4KiB", "--jobs", "3"];
    let result = compare(&sandbox, &[&targets[..], &more[..]].concat());
    assert_eq!(outcomes(&result), ["completed"; 3]);
    let trials = result["trials"].as_array().unwrap();
    let guests = |trial: &Value| trial["virtual_time"]["guests"].as_u64();
    let once = trials.iter().filter(|trial| guests(trial) == Some(1)).count();
    assert!(guests(&trials[0]) == Some(2) && once == 2, "{trials:#?}");
    sandbox.assert_nothing_left();
}

/// Three disks: the target's, that of its log, and that for what the workload reads, which the kernel numbers in
/// another order.
#[test]
fn disks_are_told_apart() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let target = "xfs+log@disk:ssd-sata";
    let result = compare(&sandbox, &[target, "ext4+journal", "-w", "web-cache:size=2MiB"]);
    assert_eq!(outcomes(&result), ["completed"; 2]);
    sandbox.assert_nothing_left();
}

#[test]
fn what_contradicts_virtual_time_is_refused() {
    let sandbox = Sandbox::in_memory();
    for (arguments, words) in [
        (&["--clock", "virtual", "--in", "host"][..], "virtual time is of guests"),
        (&["--clock", "virtual", "--accelerator", "kvm"], "counts no instructions"),
        (&["--in", "guest", "--shift", "2"], "add --clock virtual"),
        (&["--in", "guest", "--jobs", "2"], "trials in real time disturb each other"),
    ] {
        let all = [&["compare", "ext4"], arguments].concat();
        let finished = sandbox.run(all.iter().copied());
        finished.assert_code(2);
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    let nothing = sandbox.run(["reproduce"]);
    nothing.assert_code(1);
}
