//! Supervised external programs, for real. In a program of its own: elsewhere a test sends itself the
//! signals that stop every run.

use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_sys::child::{ChildError, Keep, Limits, run};
use fsdyno_sys::process::{self, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LIMITS: Limits =
    Limits { stdout: Keep::Start(1000), stderr: Keep::End(1000), duration: None };

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[test]
fn output_and_end_are_told() {
    let ended = run(&mut shell("cat; echo out; echo err >&2; exit 3"), &LIMITS).unwrap();
    assert_eq!((ended.exit_code(), ended.signal()), (Some(3), None));
    assert_eq!((ended.stdout.text.as_str(), ended.stdout.cut), ("out\n", false));
    assert_eq!((ended.stderr.text.as_str(), ended.left_running), ("err\n", false));
    let ended = run(&mut shell("kill -9 $$"), &LIMITS).unwrap();
    assert_eq!((ended.exit_code(), ended.signal()), (None, Some(9)));
    let error = run(&mut Command::new("/no/such/program"), &LIMITS).unwrap_err();
    assert!(matches!(error, ChildError::NotStarted(_)), "{error:?}");
}

#[test]
fn the_asked_end_of_the_output_is_kept() {
    let script = "i=0; while [ $i -lt 3000 ]; do echo $i; echo $i >&2; i=$((i+1)); done";
    let ended = run(&mut shell(script), &LIMITS).unwrap();
    assert!(ended.stdout.cut && ended.stderr.cut);
    assert_eq!((ended.stdout.text.len(), ended.stderr.text.len()), (1000, 1000));
    assert!(ended.stdout.text.starts_with("0\n1\n"), "{:?}", ended.stdout);
    assert!(ended.stderr.text.ends_with("2998\n2999\n"), "{:?}", ended.stderr);
}

#[test]
fn time_ends_with_the_program_and_what_it_left_is_killed() {
    let script = "sleep 600 & echo $!; sleep 0.1";
    let whole = Instant::now();
    let ended = run(&mut shell(script), &LIMITS).unwrap();
    assert!(ended.left_running);
    assert!(ended.elapsed >= Duration::from_millis(100));
    // What was left had some time to end by itself, which is none of the program's.
    assert!(whole.elapsed() - ended.elapsed >= Duration::from_millis(200), "{ended:?}");
    let pid = ended.stdout.text.trim().parse().unwrap();
    let start = Instant::now();
    while process::identity(pid).is_some() {
        assert!(start.elapsed() < Duration::from_secs(60), "it still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    let short = run(&mut shell("sleep 0.1 & exit 0"), &LIMITS).unwrap();
    assert!(!short.left_running, "what ends soon by itself is not killed");
}

#[test]
fn a_daemon_that_holds_the_output_does_not_hold_us() {
    let script = "setsid sh -c 'echo $$; sleep 600' & sleep 0.2";
    let ended = run(&mut shell(script), &LIMITS).unwrap();
    assert!(!ended.left_running);
    let daemon = ended.stdout.text.trim().parse().unwrap();
    assert!(process::identity(daemon).is_some(), "what left the group is not touched");
    process::kill_group(daemon, Signal::KILL).unwrap();
}

#[test]
fn what_takes_too_long_is_killed_with_its_children() {
    let start = Instant::now();
    let limits = Limits { duration: Some(Duration::from_millis(100)), ..LIMITS };
    let error = run(&mut shell("sleep 600 & sleep 600"), &limits).unwrap_err();
    let ChildError::TimedOut { found } = &error else { panic!("{error:?}") };
    assert!(found.contains("(sleep), run as \"sleep 600\", in state S"), "{found}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn programs_have_the_limit_of_open_files_that_we_were_given() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(500), maximum }).unwrap();
    let raised = fsdyno_sys::descriptors::raise_limit();
    assert_eq!(raised, maximum.unwrap_or(u64::MAX));
    let ended = run(&mut shell("ulimit -Sn"), &LIMITS).unwrap();
    assert_eq!(ended.stdout.text.trim(), "500");
}
