//! A small real run and its page, in a place of its own that is removed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A run that was reported.
pub struct RealRun {
    _place: tempfile::TempDir,
    /// The page.
    pub page: PathBuf,
    /// The result document.
    pub result: serde_json::Value,
}

/// Runs a small comparison and writes its page; `None`, with a printed reason, where that cannot be
/// done.
pub fn make(targets: &[&str]) -> Option<RealRun> {
    if !fsdyno_sys::process::is_root() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: needs root and loop devices");
        return None;
    }
    for target in targets {
        if Command::new(format!("mkfs.{target}")).arg("-V").output().is_err() {
            println!("skipped: mkfs.{target} is not installed");
            return None;
        }
    }
    let place = tempfile::Builder::new().prefix("fsdyno-test-").tempdir_in("/var/tmp").unwrap();
    let images = place.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let json = place.path().join("result.json");
    let mut compare = fsdyno(place.path());
    compare
        .arg("compare")
        .args(targets)
        .args(["--size", "512MiB", "--trials", "2", "--quick", "--quiet"]);
    compare.args(["--workload", "small-files:files=2000", "--trace", "explain", "--dir"]);
    finish(compare.arg(&images).arg("--json").arg(&json));
    let page = place.path().join("report.html");
    finish(fsdyno(place.path()).args(["report", "--quiet", "-o"]).arg(&page));
    let result = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    Some(RealRun { _place: place, page, result })
}

fn fsdyno(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsdyno"));
    for name in ["DATA", "STATE", "CACHE"] {
        command.env(format!("XDG_{name}_HOME"), place.join(name));
    }
    command
        .current_dir(place)
        .env_remove("FSDYNO_DB")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

fn finish(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}
