//! A process that dies takes with it the group of a program that is watched over, and leaves it alone before.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsdyno_sys::process::{self, ProcessIdentity, identity, is_alive};
use fsdyno_sys::warden;

const PARENT: &str = "FSDYNO_TEST_IS_PARENT";

fn within(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() && start.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    condition()
}

/// A program of two processes, neither of which listens to anything; prints both.
fn start() -> std::process::Child {
    let script = "trap '' TERM HUP INT QUIT; sleep 600 & echo $$ $!; wait; sleep 600";
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped());
    process::own_process_group(&mut command);
    warden::watch_over(&mut command, Duration::from_millis(200));
    command.spawn().unwrap()
}

fn processes(line: &str) -> Vec<ProcessIdentity> {
    line.split_whitespace().filter_map(|number| identity(number.parse().ok()?)).collect()
}

fn first_line(child: &mut std::process::Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

/// This very test is the parent too, in a process of its own that is killed.
#[test]
fn a_group_ends_with_the_process_that_started_it() {
    if std::env::var_os(PARENT).is_some() {
        let mut child = start();
        println!("group: {}", first_line(&mut child));
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["a_group_ends_with_the_process_that_started_it", "--exact", "--nocapture"])
        .env(PARENT, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept open: a harness that can print no more ends.
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    // It says something on the same line before.
    let line = lines.find(|line| line.contains("group: ")).unwrap();
    let group = processes(line.split("group: ").last().unwrap());
    assert_eq!(group.len(), 2, "{line}");
    std::thread::sleep(Duration::from_millis(400));
    assert!(group.iter().all(is_alive), "it was ended while its parent lived");
    parent.kill().unwrap();
    parent.wait().unwrap();
    let are_gone = || !group.iter().any(is_alive);
    assert!(within(Duration::from_secs(60), are_gone), "something outlived its parent");
}

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    let mut child = start();
    let group = processes(&first_line(&mut child));
    assert_eq!(group.len(), 2);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(within(Duration::from_secs(60), || !group.iter().any(is_alive)));
}

#[test]
fn a_program_without_a_group_of_its_own_is_refused() {
    let mut command = Command::new("true");
    warden::watch_over(&mut command, Duration::ZERO);
    assert!(command.spawn().is_err());
}

#[test]
fn how_it_ended_and_that_it_cannot_be_started_is_told() {
    for (program, code) in [("true", Some(0)), ("false", Some(1)), ("no-such-program", None)] {
        let mut command = Command::new(program);
        process::own_process_group(&mut command);
        warden::watch_over(&mut command, Duration::from_secs(1));
        let ended = command.status().ok().and_then(|status| status.code());
        assert_eq!(ended, code, "{program}");
    }
}
