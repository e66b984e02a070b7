//! A processor that is never idle. Alone in its process: the loop counts as idle time for all of it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fsdyno_sys::cpu::SystemCpu;
use fsdyno_sys::process_times::Processes;
use fsdyno_sys::{idle_loop, orphans};

/// Children of this process, as the kernel lists them.
fn children() -> Vec<u32> {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
fn the_loop_is_idle_time_and_nobodys_process() {
    for needed in ["/proc/thread-self/children", "/proc/thread-self/sched"] {
        if !Path::new(needed).exists() {
            println!("skipped: this kernel has no {needed}");
            return;
        }
    }
    let machine = SystemCpu::open().unwrap();
    idle_loop::start().unwrap();
    let [pid] = children()[..] else { panic!("one child: {:?}", children()) };
    let policy = |wanted: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/sched")).unwrap();
        let line = text.lines().find(|line| line.starts_with("policy")).unwrap().to_owned();
        line.ends_with(wanted)
    };
    while !policy("5") {
        std::thread::sleep(Duration::from_millis(1));
    }

    let mut processes = Processes::new(true);
    let (before, families) = (machine.read().unwrap(), processes.sample(true));
    let clock = || fsdyno_sys::cpu::process_clock_ns(pid).unwrap();
    let from = clock();
    // On a busy machine it gets the processor at some time.
    while clock() - from < 20_000_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (after, later) = (machine.read().unwrap(), processes.sample(true));
    assert!(after.since(&before).idle_ns >= 20_000_000, "{before:?} {after:?}");
    assert_eq!(after.nice_ns, 0, "the loop is nobody's work");
    assert_eq!(later.descendants_ns, families.descendants_ns, "{families:?} {later:?}");

    // Children that measure are told.
    let mut child = Command::new("sh");
    idle_loop::tell(child.args(["-c", "echo $FSDYNO_IDLE_LOOP"]));
    assert_eq!(String::from_utf8_lossy(&child.output().unwrap().stdout).trim(), pid.to_string());

    // Whoever ends what a program left behind does not end it.
    assert_eq!(orphans::living(), []);
    assert_eq!(orphans::end(&[]), orphans::Ending::default());
    assert_eq!(children(), [pid]);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
}
