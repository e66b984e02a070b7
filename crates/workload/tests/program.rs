//! A signal ends a program that is part of a workload, with its children. Alone in its file because
//! the signal reaches the whole process.

use std::time::{Duration, Instant};

use fsdyno_sys::process;
use fsdyno_workload::failure::Interrupted;
use fsdyno_workload::program::Program;

#[test]
fn a_signal_ends_the_program_and_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let pids = directory.path().join("pids");
    process::install_signal_handlers().unwrap();
    let own_pid = std::process::id().to_string();
    let signaller = std::thread::spawn({
        let pids = pids.clone();
        move || {
            let start = Instant::now();
            while !std::fs::read_to_string(&pids).is_ok_and(|text| text.lines().count() == 2) {
                assert!(start.elapsed() < Duration::from_secs(60), "the program never started");
                std::thread::sleep(Duration::from_millis(5));
            }
            let kill = std::process::Command::new("kill").args(["-TERM", &own_pid]).status();
            assert!(kill.unwrap().success());
        }
    });
    let program = Program::shell("sleep 600 & echo $$ > pids; echo $! >> pids; wait")
        .current_dir(directory.path());
    let error = program.run().unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Interrupted));
    signaller.join().unwrap();
    for pid in std::fs::read_to_string(&pids).unwrap().lines() {
        let start = Instant::now();
        while process::identity(pid.parse().unwrap()).is_some() {
            assert!(start.elapsed() < Duration::from_secs(30), "{pid} still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let error = Program::shell("exit 0").run().unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&Interrupted), "nothing is started any more");
}
