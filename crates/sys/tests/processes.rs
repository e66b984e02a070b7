//! A child's life and its parent's: this test binary starts itself to be the parent that dies.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fsdyno_sys::process::{
    Signal, die_with_parent, identity, is_alive, kill_group, own_process_group,
};

const ROLE: &str = "FSDYNO_SYS_TEST_PARENT";

/// Not a test of its own: what the parent does when this binary is started with [`ROLE`] set.
#[test]
fn parent_role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut command = Command::new("sleep");
    command.arg("600").stdout(Stdio::null());
    let mut child = die_with_parent(&mut command).spawn().unwrap();
    println!("child={}", child.id());
    // Killed long before the child would end.
    child.wait().unwrap();
}

#[test]
fn a_child_does_not_outlive_a_killed_parent() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["parent_role", "--exact", "--nocapture"]).env(ROLE, "1").stdout(Stdio::piped());
    let mut parent = own_process_group(&mut command).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let child = lines
        .map_while(Result::ok)
        .find_map(|line| {
            line.split_once("child=").and_then(|(_, pid)| pid.trim().parse::<u32>().ok())
        })
        .expect("the parent prints its child's number");
    let child = identity(child).expect("the child runs");
    parent.kill().unwrap();
    parent.wait().unwrap();
    let start = Instant::now();
    while is_alive(&child) && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let outlived = is_alive(&child);
    kill_group(parent.id(), Signal::KILL).unwrap();
    assert!(!outlived, "the child outlived its parent");
}
