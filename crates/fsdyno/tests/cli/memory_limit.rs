//! A limit of memory on the host: what is read comes from the device although the machine could hold it, and
//! a limit that cannot be is refused.

use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, skip};

const MIB: u64 = 1 << 20;
/// What is read where every block is read once from the device, and room for metadata.
const ONCE: u64 = 170 * MIB;
/// How often it is tried to read while nobody drops all caches.
const TRIES: usize = 5;

/// What the reading phase had from the device, in bytes.
fn read_bytes(sandbox: &Sandbox, more: &[&str]) -> (u64, Value) {
    let images = sandbox.images().display().to_string();
    let workload =
        "fileio:file_num=4,total_size=160MiB,modes=rndrd,bs=64KiB,events=5000,runtime=60s";
    let mut arguments =
        vec!["compare", "ext4", "--dir", &images, "--size", "400MiB", "-n", "1", "-w", workload];
    arguments.extend(more);
    arguments.extend(["--json", "-"]);
    let finished = sandbox.run(arguments);
    let result = finished.assert_code(0).json();
    let phases = result["trials"][0]["phases"].as_array().unwrap();
    let read = phases.iter().find(|phase| phase["name"] == "rndrd").unwrap();
    (read["device"]["read_bytes"].as_u64().unwrap(), result)
}

#[test]
fn what_a_limit_cannot_hold_is_read_from_the_device() {
    if !can_format(&["ext4"]) {
        return;
    }
    if let Err(reason) = fsdyno_lab::memory_limit::MemoryLimit::new(64 * MIB) {
        return skip(&reason);
    }
    let sandbox = Sandbox::new();
    let (mut free, result) = read_bytes(&sandbox, &[]);
    assert_eq!(result["run"]["environment"]["memory_limit_bytes"], Value::Null);
    // Each block is read more than once: 5000 reads of 2560 blocks. Another run on this machine may drop
    // all caches in between.
    for _ in 1..TRIES {
        if free > ONCE {
            free = free.min(read_bytes(&sandbox, &[]).0);
        }
    }
    assert!(free <= ONCE, "{free}");
    let (limited, result) = read_bytes(&sandbox, &["--memory-limit", "64MiB"]);
    assert_eq!(result["run"]["environment"]["memory_limit_bytes"], 64 * MIB);
    assert!(limited > free + 40 * MIB, "{limited} with a limit, {free} without");
    sandbox.assert_nothing_left();
}

#[test]
fn a_limit_that_cannot_be_is_refused() {
    let sandbox = Sandbox::in_memory();
    let refused = |more: &[&str], part: &str| {
        let arguments =
            ["compare", "ext4", "--size", "400MiB"].into_iter().chain(more.iter().copied());
        let finished = sandbox.run(arguments);
        finished.assert_code(2);
        assert!(finished.stderr.contains(part), "{more:?}: {}", finished.stderr);
    };
    refused(&["--memory-limit", "1MiB"], "at least 64.0 MiB");
    refused(&["--memory-limit", "1GiB", "--in", "guest"], "--guest-memory");
    let here = ["compare", "dir:.", "--memory-limit", "64MiB", "-w", "small-files:files=10"];
    if let Some(finished) = sandbox.run_as_nobody(&here) {
        finished.assert_code(2);
        assert!(finished.stderr.contains("needs root"), "{}", finished.stderr);
    }
}
