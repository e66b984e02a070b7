//! Programs that hang: mkfs, fsck and what a workload calls. What they were doing is told; where no signal
//! ends them the run stops without waiting, and goes on later.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_sys::child::find_program;
use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, can_format, outcomes, skip};

/// A directory with stand-ins for programs; it comes first in `PATH`.
fn stand_in(sandbox: &Sandbox, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let directory = sandbox.path().join("bin");
    std::fs::create_dir_all(&directory).unwrap();
    let real = find_program(name).unwrap().display().to_string();
    let text = format!(
        "#!/bin/sh\nexport PATH=${{PATH#*:}}\n[ \"$1\" = -V ] && exec {real} \"$@\"\n{script}\nexec {real} \"$@\"\n"
    );
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn with_stand_ins(sandbox: &Sandbox, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(arguments.iter().copied());
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", sandbox.path().join("bin").display()));
    command
}

#[test]
fn a_tool_that_hangs_costs_its_trial_and_is_described() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (place, images) = (sandbox.path().display(), sandbox.images().display().to_string());
    // Each hangs once, and leaves the numbers of the shell and of its child.
    for (name, once) in [("mkfs.ext4", "mkfs-hung"), ("e2fsck", "fsck-hung")] {
        let script = format!(
            "if [ ! -e {place}/{once} ]; then sleep 600 & echo $$ $! > {place}/{once}; wait; fi"
        );
        stand_in(&sandbox, name, &script);
    }
    let arguments = ["compare", "ext4", "--dir", &images, "--size", "512MiB", "-n", "3"];
    let rest = ["--trial-timeout", "12s", "-w", "small-files:files=10", "--json", "-"];
    let output = with_stand_ins(&sandbox, &[&arguments[..], &rest[..]].concat()).output().unwrap();
    let finished = Finished::of(&output);
    finished.assert_code(1);
    let result = finished.json();
    assert_eq!(outcomes(&result), ["timed_out", "timed_out", "completed"], "{}", finished.stderr);
    for (trial, stage, words, once) in [
        (0, "mkfs", "mkfs.ext4 -F -q /dev/loop", "mkfs-hung"),
        (1, "fsck", "e2fsck -fn /dev/loop", "fsck-hung"),
    ] {
        let trial = &result["trials"][trial];
        assert_eq!(trial["stage"], stage, "{trial}");
        let error = trial["error"].as_str().unwrap();
        let found = ["killed after", "run as \"sleep 600\", in state S (", "--trial-timeout"];
        for words in [&[words][..], &found[..]].concat() {
            assert!(error.contains(words), "{words}: {error}");
        }
        let pids = std::fs::read_to_string(sandbox.path().join(once)).unwrap();
        for pid in pids.split_whitespace() {
            assert!(error.contains(&format!("process {pid} (")), "{pid}: {error}");
            assert_eq!(fsdyno_sys::process::identity(pid.parse().unwrap()), None, "{stage}");
        }
    }
    sandbox.assert_nothing_left();
}

/// A filesystem in an image, on which the images of a run lie: once it is frozen, the loop devices on it
/// answer no more, and whoever waits for them is in state D.
struct Frozen {
    mount_point: PathBuf,
}

impl Frozen {
    fn new(sandbox: &Sandbox) -> Frozen {
        let (image, mount_point) = (sandbox.path().join("hold.img"), sandbox.path().join("hold"));
        std::fs::File::create(&image).unwrap().set_len(2 << 30).unwrap();
        std::fs::create_dir(&mount_point).unwrap();
        let image = image.display().to_string();
        let frozen = Frozen { mount_point };
        frozen.call("mkfs.ext4", &["-q", "-F", &image]);
        frozen.call("mount", &["-o", "loop", &image, &frozen.text()]);
        frozen
    }

    fn text(&self) -> String {
        self.mount_point.display().to_string()
    }

    fn call(&self, program: &str, arguments: &[&str]) {
        let done = Command::new(program).args(arguments).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn thaw(&self) {
        let _ = Command::new("fsfreeze").args(["-u", &self.text()]).output();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
        // The processes that waited for it need a moment to end.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            let done = Command::new("umount").arg(&self.mount_point).output();
            if done.is_ok_and(|done| done.status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Measures twice on a device that stops answering in the first trial, and what came of it.
fn device_that_stops_answering(sandbox: &Sandbox, frozen: &Frozen, rest: &[&str]) -> Finished {
    let images = frozen.text();
    let arguments = ["compare", "ext4", "--dir", &images, "--size", "300MiB", "-n", "2"];
    // Long enough for what comes before on a disk that others load: the freeze waits for all that is dirty.
    let limits = ["--trial-timeout", "45s", "--quiet"];
    let all = [&arguments[..], &limits[..], rest].concat();
    let finished = Finished::of(&with_stand_ins(sandbox, &all).output().unwrap());
    finished.assert_code(1);
    assert!(finished.stderr.contains("no further trial was started"), "{}", finished.stderr);
    assert!(finished.stderr.contains("fsdyno clean"), "{}", finished.stderr);
    finished
}

/// The run goes on once the device answers again; the trial that hung is told as such.
fn goes_on_after(sandbox: &Sandbox, frozen: &Frozen, stage: &str, words: &[&str]) {
    let shown = sandbox.run(["show", "--json"]).json();
    assert_eq!(outcomes(&shown), ["timed_out", "interrupted"]);
    frozen.thaw();
    let resumed: Value = {
        let finished = sandbox.run(["run", "--resume", "--json", "-"]);
        assert!(finished.stderr.contains("of a run that was killed"), "{}", finished.stderr);
        finished.assert_code(1).json()
    };
    let second = &resumed["trials"][1];
    assert_eq!(outcomes(&resumed), ["timed_out", "completed"], "{second}");
    let trial = &resumed["trials"][0];
    assert_eq!(trial["stage"], stage, "{trial}");
    let error = trial["error"].as_str().unwrap();
    for words in words {
        assert!(error.contains(words), "{words}: {error}");
    }
    let left: Vec<_> = std::fs::read_dir(&frozen.mount_point).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.file_name() == *"lost+found"), "{left:?}");
}

fn can_freeze() -> bool {
    if find_program("fsfreeze").is_none() {
        skip("fsfreeze is not installed");
        return false;
    }
    can_format(&["ext4"])
}

/// A writer in place of mkfs: mkfs itself asks loop devices for zeroes, at which a frozen ext4 makes the
/// kernel complain.
#[test]
fn a_tool_that_no_signal_ends_stops_the_run_and_is_not_waited_for() {
    if !can_freeze() {
        return;
    }
    let sandbox = Sandbox::new();
    let frozen = Frozen::new(&sandbox);
    let (place, hold) = (sandbox.path().display(), frozen.text());
    let script = format!(
        "if [ ! -e {place}/hung ]; then echo > {place}/hung; fsfreeze -f {hold}; \
         for device; do :; done; exec dd if=/dev/zero of=$device bs=64k count=16 conv=fsync; fi"
    );
    stand_in(&sandbox, "mkfs.ext4", &script);
    device_that_stops_answering(&sandbox, &frozen, &["-w", "small-files:files=10"]);
    let words = ["does not end", "(dd), run as \"dd if=/dev/zero of=/dev/loop", "in state D ("];
    goes_on_after(&sandbox, &frozen, "mkfs", &words);
}

#[test]
fn a_workload_that_no_signal_ends_does_so_too() {
    if !can_freeze() {
        return;
    }
    let sandbox = Sandbox::new();
    let frozen = Frozen::new(&sandbox);
    let (place, hold) = (sandbox.path().display(), frozen.text());
    std::fs::create_dir(sandbox.path().join("bin")).unwrap();
    let line = format!(
        "if [ ! -e {place}/hung ]; then echo > {place}/hung; fsfreeze -f {hold}; \
         dd if=/dev/zero of=x bs=64k count=16 conv=fsync; fi"
    );
    device_that_stops_answering(&sandbox, &frozen, &["--", &line]);
    let words = ["does not", "though it was killed", "(dd), run as \"dd if", "in state D ("];
    goes_on_after(&sandbox, &frozen, "command", &words);
}
