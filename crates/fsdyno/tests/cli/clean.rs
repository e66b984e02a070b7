//! `fsdyno clean` removes what fsdyno made, and nothing else.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::sandbox::Sandbox;

#[test]
fn nothing_to_remove_is_said() {
    let sandbox = Sandbox::new();
    let finished = sandbox.run(["clean"]);
    finished.assert_code(0);
    assert_eq!(finished.stdout, "nothing to remove\n");
    assert_eq!(sandbox.run(["clean", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn what_a_killed_selftest_leaves_is_found() {
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let mut child = sandbox
        .command(["selftest", "aa", "--experiments", "500", "--dir", &images, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let place = sandbox.images().join(format!("fsdyno-selftest-{}", child.id()));
    let start = Instant::now();
    // In the middle of its trials: both targets are there.
    while !place.join("slowed").is_dir() {
        assert!(start.elapsed() < Duration::from_secs(60), "the trials did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(place.is_dir());
    let finished = sandbox.run(["clean"]);
    finished.assert_code(0);
    assert!(finished.stdout.contains(&format!("removed directory {}\n", place.display())));
    sandbox.assert_nothing_left();
    // One that ends by itself leaves nothing.
    let short = ["selftest", "aa", "--experiments", "1", "-n", "2", "--dir", &images, "--quiet"];
    sandbox.run(short).assert_code(0);
    sandbox.assert_nothing_left();
}

#[test]
fn files_of_others_are_left_alone() {
    let sandbox = Sandbox::new();
    let foreign = sandbox.images().join("fsdyno-20260101-000000-abcd");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("letter.txt"), "dear reader").unwrap();
    sandbox.run(["clean"]).assert_code(0);
    assert!(foreign.join("letter.txt").exists());
    let live = sandbox.path().join("state/fsdyno/live");
    std::fs::create_dir_all(&live).unwrap();
    // A ledger that is damaged or lies must not make anything disappear, nor panic.
    for (name, text) in [
        ("broken.json", "{".to_owned()),
        ("empty.json", String::new()),
        (
            "lie.json",
            format!(
                "{{\"owner\":{{\"pid\":1,\"start_ticks\":0}},\"directories\":[\"{}\"]}}",
                foreign.display()
            ),
        ),
    ] {
        std::fs::write(live.join(name), text).unwrap();
    }
    let finished = sandbox.run(["clean"]);
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    assert!(foreign.join("letter.txt").exists());
}

#[test]
fn kept_archives_go_when_that_is_asked_for() {
    let sandbox = Sandbox::new();
    let cache = sandbox.path().join("cache/fsdyno");
    std::fs::create_dir_all(&cache).unwrap();
    let ours = cache.join("web-cache-0123456789abcdef-0123456789abcdef.tar");
    let other = cache.join("letter.tar");
    std::fs::write(&ours, "archive").unwrap();
    std::fs::write(&other, "dear reader").unwrap();
    sandbox.run(["clean"]).assert_code(0);
    assert!(ours.exists());
    let finished = sandbox.run(["clean", "--cache"]);
    finished.assert_code(0);
    assert!(finished.stdout.contains("web-cache-0123456789abcdef"), "{}", finished.stdout);
    assert!(!ours.exists() && other.exists());
}
