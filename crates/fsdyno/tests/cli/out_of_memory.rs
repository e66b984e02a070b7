//! A workload that eats all memory: the kernel kills it, the outcome says so, and the run goes on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, outcomes, own_warnings, skip};

/// What the run and all that it starts may use, in bytes.
const LIMIT_BYTES: u64 = 300 << 20;

/// A control group with a limit of memory.
struct Group {
    directory: PathBuf,
}

impl Group {
    /// `None` where control groups cannot be made, with the reason.
    fn new() -> Result<Group, String> {
        let name = format!("fsdyno-test-{}", std::process::id());
        // Version 2 where it counts memory, else version 1.
        for (root, limit) in [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/unified", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ] {
            let directory = PathBuf::from(root).join(&name);
            if std::fs::create_dir(&directory).is_err() {
                continue;
            }
            let group = Group { directory };
            // Where nothing is mounted it is an ordinary directory.
            let is_group = group.directory.join("cgroup.procs").exists();
            if is_group
                && std::fs::write(group.directory.join(limit), LIMIT_BYTES.to_string()).is_ok()
            {
                return Ok(group);
            }
        }
        Err("no control group that limits memory can be made".to_owned())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let start = Instant::now();
        while std::fs::remove_dir(&self.directory).is_err()
            && start.elapsed() < Duration::from_secs(60)
        {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_workload_that_eats_all_memory_costs_one_trial() {
    if !can_format(&["ext4"]) {
        return;
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(reason) => return skip(&reason),
    };
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let count = sandbox.path().join("count").display().to_string();
    let line = format!(
        "echo >> '{count}'; [ $(wc -l < '{count}') = 2 ] && exec dd if=/dev/zero of=/dev/null bs=900M count=1; echo > made"
    );
    let arguments = ["compare", "ext4", "--dir", &images, "--size", "300MiB", "-n", "3"];
    let mut inside = std::process::Command::new("sh");
    inside
        .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
        .arg(group.directory.join("cgroup.procs"));
    let rest = ["--json", "-", "--", &line];
    let finished = sandbox.run_within(inside, arguments.into_iter().chain(rest));
    finished.assert_code(1);
    let result = finished.json();
    assert_eq!(outcomes(&result), ["completed", "failed", "completed"], "{}", finished.stderr);
    let trial = &result["trials"][1];
    assert_eq!(trial["stage"], "command", "{trial}");
    let error = trial["error"].as_str().unwrap();
    assert!(error.starts_with("the kernel killed "), "{error}");
    assert!(error.contains(" for want of memory: "), "{error}");
    // Where the kernel's messages may be read, they name what was killed.
    let is_named = error.starts_with("the kernel killed dd (process ");
    assert!(is_named || std::fs::File::open("/dev/kmsg").is_err(), "{error}");
    let warnings = trial["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|it| it["code"] == "out-of-memory"), "{warnings:?}");
    assert_eq!(own_warnings(&result["trials"][2]), Vec::<&Value>::new());
    sandbox.assert_nothing_left();
}
