//! The read speed of the machine is measured before the first trial and told with the result.

use std::process::Command;

use crate::sandbox::{Sandbox, skip};

#[test]
fn every_ground_of_a_plan_is_measured_before_the_first_trial() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    std::fs::create_dir(sandbox.path().join("tiny")).unwrap();
    let tiny = sandbox.path().join("tiny").display().to_string();
    let small_tmpfs = ["-t", "tmpfs", "-o", "size=1m", "fsdyno-test", tiny.as_str()];
    let mounted = Command::new("mount").args(small_tmpfs).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        skip("no tmpfs can be mounted");
        return;
    }
    let workload = ["--quick", "-n", "3", "-w", "small-files:files=20", "--json", "result.json"];
    let arguments = ["compare", "here=dir:a", "full=dir:tiny"].into_iter().chain(workload);
    let finished = sandbox.run(arguments);
    let _ = Command::new("umount").arg(&tiny).output();
    finished.assert_code(0);
    let result = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let environment = &result["run"]["environment"];
    assert!(environment["cached_read_mib_per_s"].as_f64().unwrap() > 0.0, "{environment}");
    let speeds = environment["device_read_mib_per_s"].as_object().unwrap();
    let here = sandbox.path().join("a").display().to_string();
    assert_eq!(speeds.keys().collect::<Vec<_>>(), [&here, &tiny]);
    assert!(speeds[&here].as_f64().unwrap() > 0.0, "{environment}");
    // No room for a file to read: absent, not zero, and no word about it.
    assert!(speeds[&tiny].is_null(), "{environment}");
    assert!(!finished.stderr.contains("unknown"), "{}", finished.stderr);
    let head = finished.stdout.split("\n\n").next().unwrap();
    assert!(head.contains("reads: memory ") && head.contains("/a "), "{head}");
    for name in ["a", "tiny"] {
        assert_eq!(std::fs::read_dir(sandbox.path().join(name)).unwrap().count(), 0, "{name}");
    }
    sandbox.assert_nothing_left();
}
