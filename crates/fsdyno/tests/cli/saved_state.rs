//! Guests that start from a saved state of a booted one: with fresh disks, their own date and random numbers,
//! and whatever becomes of the state.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, outcomes, skip};

/// Four trials on two filesystems of one driver and one size of disks.
const TRIALS: [&str; 17] = [
    "compare",
    "ext3",
    "ext4",
    "--in",
    "guest",
    "--accelerator",
    "tcg",
    "--guest-memory",
    "320MiB",
    "--size",
    "64MiB",
    "-n",
    "2",
    "-w",
    "small-files:files=100,size=4KiB",
    "--json",
    "result.json",
];
/// How long a guest may take to boot on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a state of this name lies below `images`; its path.
pub fn await_state(images: &Path, name: &str) -> Option<PathBuf> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let runs = fs::read_dir(images).unwrap().flatten();
        let mut states = runs.map(|run| run.path().join(name));
        if let Some(state) = states.find(|state| state.exists()) {
            return Some(state);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Puts another file in the place of a state's memory; guests that have the first go on.
pub fn damage_memory(state: &Path) {
    let (memory, other) = (state.with_extension("memory"), state.with_extension("other"));
    let file = File::create(&other).unwrap();
    file.set_len(fs::metadata(&memory).unwrap().len()).unwrap();
    file.write_all_at(b"not the kernel's", 1 << 20).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o666)).unwrap();
    fs::rename(other, memory).unwrap();
}

/// All trials start from one state. It is damaged when it has been made, which whichever trial reads it next
/// notices: it is made anew, and none fails. What the trials of one filesystem leave on their disks is not
/// there for the next, of the other.
#[test]
fn trials_start_from_one_state_that_may_be_damaged() {
    let can_run = fsdyno_guest::qemu::find()
        .and_then(|_| fsdyno_guest::kernel::choose(None, Path::new("/var/tmp")));
    if let Err(error) = can_run {
        skip(&error);
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images();
    let shown = images.display().to_string();
    let arguments: Vec<&str> = TRIALS.into_iter().chain(["--dir", &shown]).collect();
    let mut command = sandbox.command_as_nobody(&arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let state = await_state(&images, "guest-state-0");
    if let Some(state) = &state {
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(state), mode(&state.with_extension("memory"))), (0o600, 0o600));
        damage_memory(state);
    }
    let finished = Finished::of(&child.wait_with_output().unwrap());
    assert!(state.is_some(), "no state was saved: {}", finished.stderr);
    finished.assert_code(0);
    let told = &finished.stderr;
    assert!(told.contains("trials start from the saved state of a booted guest"), "{told}");
    let text = fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    assert_trials(&serde_json::from_str(&text).unwrap());
    sandbox.assert_nothing_left();
}

fn assert_trials(result: &Value) {
    assert_eq!(outcomes(result), ["completed"; 4]);
    let states = result["run"]["environment"]["guest"]["saved_states"].as_array().unwrap();
    assert_eq!(states.len(), 1, "{states:?}");
    assert_eq!(states[0]["targets"], serde_json::json!(["ext3", "ext4"]));
    for target in result["targets"].as_array().unwrap() {
        assert_eq!(target["device_facts"]["guest_start"], "saved state", "{target}");
    }
    let mut trials: Vec<&Value> = result["trials"].as_array().unwrap().iter().collect();
    trials.sort_by_key(|trial| trial["order"].as_u64());
    for trial in &trials {
        assert_eq!(trial["fsck"]["exit_code"], 0, "{trial}");
        assert_eq!(trial["verify"]["mismatches"], serde_json::json!([]), "{trial}");
        assert_eq!(trial["verify"]["files"], 100, "{trial}");
    }
    // Times of the guests' own clocks, which all went on from the same moment.
    let started: Vec<&str> = trials.iter().filter_map(|trial| trial["started"].as_str()).collect();
    let started: Vec<jiff::Timestamp> =
        started.into_iter().map(|time| time.parse().unwrap()).collect();
    assert!(started.len() == 4 && started.is_sorted(), "{started:?}");
    let warnings = trials.iter().flat_map(|trial| trial["warnings"].as_array().unwrap());
    let lost: Vec<&str> = warnings
        .filter(|warning| warning["code"] == "saved-state-lost")
        .filter_map(|warning| warning["message"].as_str())
        .collect();
    let [lost] = lost[..] else { panic!("not told once: {lost:?}") };
    assert!(lost.contains("was damaged; it was made anew"), "{lost}");
}
