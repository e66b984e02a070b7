//! A workload with a server of its own: whatever ends the run, no process of it is left.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, can_format, has_postgres};
use fsdyno_sys::process::{ProcessIdentity, identity, is_alive};
use rustix::process::{Pid, Signal, kill_process};

/// A process below another: its number, its name, and how deep.
#[derive(Debug, Clone)]
struct Below {
    pid: u32,
    name: String,
    depth: usize,
}

/// Parent and name of a process.
fn parent_and_name(pid: u32) -> Option<(u32, String)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (left, right) = text.rsplit_once(')')?;
    let parent = right.split_whitespace().nth(1)?.parse().ok()?;
    Some((parent, left.split_once('(')?.1.to_owned()))
}

/// All processes below `ancestor`.
fn descendants(ancestor: u32) -> Vec<Below> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, u32, String)> = numbers
        .filter_map(|pid| parent_and_name(pid).map(|(parent, name)| (pid, parent, name)))
        .collect();
    let mut found: Vec<Below> = Vec::new();
    let mut parents = vec![ancestor];
    for depth in 1.. {
        let level: Vec<Below> = all
            .iter()
            .filter(|(_, parent, _)| parents.contains(parent))
            .map(|(pid, _, name)| Below { pid: *pid, name: name.clone(), depth })
            .collect();
        if level.is_empty() {
            break;
        }
        parents = level.iter().map(|below| below.pid).collect();
        found.extend(level);
    }
    found
}

/// Waits until a process called `name` runs below `child`.
fn await_process(child: &mut Child, name: &str) {
    let start = Instant::now();
    while !descendants(child.id()).iter().any(|below| below.name == name) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before {name} ran");
        assert!(start.elapsed() < Duration::from_secs(120), "{name} does not run");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its connections take a moment.
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn no_server_outlives_its_run() {
    if !has_postgres() || !can_format(&["ext4"]) {
        return;
    }
    // The signal, whether it goes to the phase runner instead of its parent, and during which program.
    for (signal, to_runner, during) in [
        (Signal::TERM, false, "pgbench"),
        (Signal::KILL, false, "pgbench"),
        (Signal::KILL, true, "pgbench"),
        (Signal::KILL, false, "initdb"),
        (Signal::TERM, false, "initdb"),
    ] {
        let label = format!("{signal:?}, to the runner: {to_runner}, during {during}");
        let sandbox = Sandbox::new();
        let images = sandbox.images().display().to_string();
        let workload = "postgres:transactions=0,runtime=600";
        let arguments = ["compare", "ext4", "--quick", "-n", "1", "--dir", &images, "-w", workload];
        let mut command = sandbox.command(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // pgbench makes the tables first.
        await_process(&mut child, during);
        let is_served =
            |all: &[Below]| all.iter().any(|below| below.name == "postgres" || during == "initdb");
        let mut all = descendants(child.id());
        // A look at all processes is not made at one moment.
        for _ in 0..100 {
            if is_served(&all) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            all = descendants(child.id());
        }
        let runner = all.iter().find(|below| below.depth == 1 && below.name == "fsdyno").unwrap();
        assert!(is_served(&all), "{all:?}");
        let processes: Vec<(ProcessIdentity, String)> = all
            .iter()
            .filter_map(|below| Some((identity(below.pid)?, below.name.clone())))
            .collect();
        let target = if to_runner { runner.pid } else { child.id() };
        kill_process(Pid::from_raw(target as i32).unwrap(), signal).unwrap();
        let killed = Instant::now();
        child.wait().unwrap();
        let living = || -> Vec<&String> {
            processes.iter().filter(|(it, _)| is_alive(it)).map(|(_, name)| name).collect()
        };
        while !living().is_empty() && killed.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(living(), Vec::<&String>::new(), "{label}");
        if signal == Signal::KILL && !to_runner {
            sandbox.run(["clean"]).assert_code(0);
        }
        sandbox.assert_nothing_left();
    }
}
