//! A target that stands still while tasks are due: an open loop tells, however short the stall was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, can_format, skip};

/// How long the filesystem is frozen.
const STALL: Duration = Duration::from_millis(200);

const WORKLOAD: &str = r#"
name = "steady"
summary = "files are made at a steady rate, whether or not the target keeps up"
timed = "one phase: files of 4 KiB are created, written and closed at set times"
not_timed = "making the directory"
models = "work that arrives by itself, as requests of users do"
read_it_as = "the latency counts from the time at which a file should have been begun"
caveats = "nothing is made durable"
cold_default = "none"

[[fileset]]
name = "steady-files"
entries = 20000
size = "4KiB"

[[phase]]
name = "arrive"
doc = "makes files at a steady rate"
metric = "task_p999_ms"
runtime = "4s"

[[phase.group]]
name = "users"
rate = 250
arrivals = "even"
steps = [
  { op = "create", fileset = "steady-files", pick = "once" },
  { op = "write", whole = true, block = "4KiB" },
  { op = "close" },
]
"#;

/// An ext4 in an image, mounted; thawed and unmounted whatever happens.
struct Mounted(PathBuf);

impl Mounted {
    fn new(sandbox: &Sandbox) -> Mounted {
        let image = sandbox.path().join("stalling.img");
        std::fs::File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let mountpoint = sandbox.path().join("mounted");
        std::fs::create_dir(&mountpoint).unwrap();
        run("mkfs.ext4", &["-q", "-F"], &[&image]);
        run("mount", &["-o", "loop"], &[&image, &mountpoint]);
        Mounted(mountpoint)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Fails where it is not frozen, as it should be.
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.0).output();
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

fn run(program: &str, options: &[&str], paths: &[&Path]) {
    let output = Command::new(program).args(options).args(paths).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether a directory below has this name.
fn has_directory(root: &Path, name: &str, depth: u32) -> bool {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.into_iter().any(|entry| {
        entry.file_name() == name || (depth > 0 && has_directory(&entry.path(), name, depth - 1))
    })
}

#[test]
fn a_stall_shows_in_the_latency_of_an_open_loop() {
    if !can_format(&["ext4"]) {
        return;
    }
    if Command::new("fsfreeze").arg("--version").output().is_err() {
        return skip("fsfreeze is not installed");
    }
    let sandbox = Sandbox::new();
    let file = sandbox.file("steady.toml", WORKLOAD);
    let mounted = Mounted::new(&sandbox);
    let root = mounted.0.clone();
    let freezer = std::thread::spawn(move || {
        let start = Instant::now();
        while !has_directory(&root, "steady-files", 4) {
            assert!(start.elapsed() < Duration::from_secs(120), "the workload did not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        // Into the middle of the phase.
        std::thread::sleep(Duration::from_millis(1500));
        run("fsfreeze", &["-f"], &[&root]);
        std::thread::sleep(STALL);
        run("fsfreeze", &["-u"], &[&root]);
    });
    let target = format!("dir:{}", mounted.0.display());
    let finished = sandbox.run(["compare", &target, "-n", "1", "-w", &file, "--json", "-"]);
    freezer.join().unwrap();
    drop(mounted);
    finished.assert_code(0);
    let result = finished.json();
    let phase = &result["trials"][0]["phases"][0];
    let milliseconds = |name: &str| {
        let found = phase["metrics"][name].as_f64().or_else(|| phase["values"][name].as_f64());
        found.unwrap_or_else(|| panic!("no {name} in {phase}"))
    };
    // A fifth of a second of 250 tasks a second: 50 of 1000 were to begin while nothing moved.
    assert!(milliseconds("task_p999_ms") >= 150.0, "{phase}");
    assert!(milliseconds("task_p50_ms") < milliseconds("task_p999_ms") / 2.0, "{phase}");
}
