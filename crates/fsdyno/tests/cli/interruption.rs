//! Ctrl-C and SIGTERM: everything unmounted and removed, finished trials kept, the rest resumed.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::sandbox::{Finished, Sandbox, can_format, outcomes};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn a_signal_ends_a_run_in_good_order() {
    if !can_format(&["ext4", "xfs"]) {
        return;
    }
    for (signal, wait_ms) in [(Signal::INT, 1500), (Signal::TERM, 3000)] {
        let sandbox = Sandbox::new();
        let images = sandbox.images().display().to_string();
        let child = sandbox
            .command([
                "compare",
                "ext4",
                "xfs",
                "--dir",
                &images,
                "--size",
                "1GiB",
                "-n",
                "20",
                "--workload",
                "compilebench:trees=1,runs=2",
                "--json",
                "-",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        let asked = Instant::now();
        let finished = Finished::of(&child.wait_with_output().unwrap());
        assert!(asked.elapsed() < Duration::from_secs(60), "it took {:?} to stop", asked.elapsed());
        finished.assert_code(1);
        let result = finished.json();
        let words = outcomes(&result);
        assert_eq!(words.len(), 40);
        assert!(words.iter().all(|word| ["completed", "interrupted"].contains(word)), "{words:?}");
        assert!(words.contains(&"interrupted"));
        sandbox.assert_nothing_left();
    }
}

/// Each looks for a signal in loops of its own; none of them would end by itself within a minute.
const LONG: &[&str] = &[
    "dbench:runtime=60s",
    "fileio:runtime=60s,total_size=16MiB",
    "fs-mark:files=1000000,size=0",
    "mdtest:items=5000000",
    "oltp:runtime=60s",
    "random-io:runtime=60s,size=16MiB",
    "random-io:runtime=60s,size=16MiB,engine=io_uring,iodepth=32",
    "varmail:runtime=60s",
];

#[test]
fn every_loop_looks_for_signals() {
    for workload in LONG {
        let sandbox = Sandbox::in_memory();
        std::fs::create_dir(sandbox.path().join("a")).unwrap();
        let child = sandbox
            .command(["compare", "dir:a", "-n", "1", "-w", workload, "--json", "-"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let asked = Instant::now();
        let finished = Finished::of(&child.wait_with_output().unwrap());
        // Beyond it the run would have waited for the workload to end.
        assert!(asked.elapsed() < Duration::from_secs(40), "{workload}: {:?}", asked.elapsed());
        finished.assert_code(1);
        assert_eq!(outcomes(&finished.json()), ["interrupted"], "{workload}");
        assert_eq!(std::fs::read_dir(sandbox.path().join("a")).unwrap().count(), 0, "{workload}");
        sandbox.assert_nothing_left();
    }
}
