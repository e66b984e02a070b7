//! Less memory for a workload than the machine has: a control group that counts what the workload and its
//! programs use, the files that the kernel caches for them included, and holds it below a limit.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of Linux. Version 1 does not slow
//! writers down before the limit is reached: they wait in reclaim instead, which version 2 spares them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fsdyno_model::units::human_bytes;
use fsdyno_sys::process;

/// Where groups may be made, the file with the limit of a group, and one that keeps it from being evaded by
/// swapping, with what is written into it.
const KINDS: [(&str, &str, (&str, &str)); 3] = [
    ("/sys/fs/cgroup", "memory.max", ("memory.swap.max", "0")),
    ("/sys/fs/cgroup/unified", "memory.max", ("memory.swap.max", "0")),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", ("memory.swappiness", "0")),
];
/// How names of groups begin; the process that made one follows.
const PREFIX: &str = "fsdyno-";
/// How long the processes of a group may take to be gone when it is to be removed.
const PATIENCE: Duration = Duration::from_secs(2);

/// A group without processes yet. It is removed with this value; what it cached stays in memory.
#[derive(Debug)]
pub struct MemoryLimit {
    directory: PathBuf,
}

impl MemoryLimit {
    /// Makes a group that may use `bytes`, and removes those of processes that are gone.
    ///
    /// # Errors
    /// A sentence: this needs root, and a kernel with control groups of memory.
    pub fn new(bytes: u64) -> Result<MemoryLimit, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        for (root, limit_file, (swap_file, no_swap)) in KINDS {
            let root = Path::new(root);
            sweep(root);
            let group = MemoryLimit { directory: root.join(&name) };
            if fs::create_dir(&group.directory).is_err() {
                continue;
            }
            // Where no group is mounted these are not there; where another version has memory, no limit.
            let limit = group.directory.join(limit_file);
            if limit.exists() && fs::write(limit, bytes.to_string()).is_ok() {
                // Not there where the kernel cannot swap.
                let _ = fs::write(group.directory.join(swap_file), no_swap);
                return Ok(group);
            }
        }
        Err(format!(
            "memory cannot be limited to {}: that needs root, and control groups of memory below \
             /sys/fs/cgroup",
            human_bytes(bytes)
        ))
    }

    /// Puts the process `pid`, and all that it starts from now on, under the limit.
    ///
    /// # Errors
    /// A sentence: the process is gone, or may not be moved.
    pub fn admit(&self, pid: u32) -> Result<(), String> {
        let path = self.directory.join("cgroup.procs");
        fs::write(&path, pid.to_string())
            .map_err(|error| format!("cannot limit the memory of process {pid}: {error}"))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let end = Instant::now() + PATIENCE;
        // What was killed may take a moment to be gone; what stays is swept later.
        while fs::remove_dir(&self.directory).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes the groups below `root` that a process made which is gone; those in use stay.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if pid.is_some_and(|pid: u32| process::identity(pid).is_none()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn groups_of_the_dead_are_swept() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let own = std::process::id();
        let names = [format!("{PREFIX}{dead}-0"), format!("{PREFIX}{own}-0"), "other".to_owned()];
        names.iter().for_each(|name| fs::create_dir(directory.path().join(name)).unwrap());
        sweep(directory.path());
        let left = names.map(|name| directory.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn a_limit_holds_for_what_is_cached() {
        let limit_bytes = 32 << 20;
        let group = match MemoryLimit::new(limit_bytes) {
            Ok(group) => group,
            Err(reason) => return println!("skipped: {reason}"),
        };
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        // It waits for a line, so that nothing is written before it is in the group.
        let line =
            format!("read line; dd if=/dev/zero of={} bs=1M count=96", file.path().display());
        let mut child = Command::new("sh");
        child.args(["-c", &line]).stdin(std::process::Stdio::piped());
        let mut child = child.stderr(std::process::Stdio::null()).spawn().unwrap();
        group.admit(child.id()).unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        let read = |name: &str| fs::read_to_string(group.directory.join(name)).ok();
        let most = read("memory.max_usage_in_bytes").or_else(|| read("memory.peak"));
        if let Some(most) = most.and_then(|text| text.trim().parse::<u64>().ok()) {
            assert!((limit_bytes / 2..=limit_bytes).contains(&most), "{most}");
        }
        let directory = group.directory.clone();
        drop(group);
        assert!(!directory.exists());
    }
}
