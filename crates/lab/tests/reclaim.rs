//! Runs that are killed at any moment, and programs that are interrupted: what they leave is found and
//! removed. The run is this very test program, started again with an order in its environment.

mod bench;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bench::{
    SIZE_BYTES, assert_clean, can_run, definition, foreign_device, limits, place, run, target,
};
use fsdyno_lab::guard;
use fsdyno_lab::reclaim::reclaim;
use fsdyno_lab::stand::{StageErrorKind, Stand};
use fsdyno_lab::workspace::Workspace;
use fsdyno_sys::process;

const ORDER: &str = "FSDYNO_TEST_ORDER";

/// Not a test of its own: what the killed process does. It tells each stage that it has reached.
#[test]
fn the_run_that_will_be_killed() {
    let Ok(order) = std::env::var(ORDER) else { return };
    let mut words = order.split('\t');
    let (place, target_text, mut mode) =
        (words.next().unwrap(), words.next().unwrap(), words.next().unwrap().split('+'));
    let shared_mounts = mode.clone().any(|word| word == "shared");
    if !shared_mounts {
        fsdyno_sys::mount::private_namespace().unwrap();
    }
    process::install_signal_handlers().unwrap();
    let place = Path::new(place);
    let destroy: Vec<_> =
        target_text.split_once('@').map(|(_, device)| device.into()).into_iter().collect();
    let workspace =
        Workspace::open("t", &place.join("images"), &place.join("state"), &destroy).unwrap();
    let rounds = if mode.any(|word| word == "loop") { 1000 } else { 1 };
    for _ in 0..rounds {
        println!("stage opened");
        let mut stand =
            Stand::provision(&workspace, &target(target_text), SIZE_BYTES, &limits()).unwrap();
        println!("stage provisioned");
        if let Err(error) = stand.mkfs() {
            assert_eq!(error.kind, StageErrorKind::Interrupted, "{error}");
            println!("stage mkfs ended");
            return;
        }
        println!("stage formatted");
        stand.mount().unwrap();
        println!("stage mounted");
        fs::write(stand.root().join("file"), vec![1u8; 1 << 20]).unwrap();
        println!("stage written");
        if rounds == 1 {
            std::thread::sleep(Duration::from_secs(600));
        }
        stand.unmount().unwrap();
        stand.teardown().unwrap();
    }
}

fn start(place: &Path, target: &str, mode: &str) -> Child {
    start_with(place, target, mode, None)
}

fn start_with(place: &Path, target: &str, mode: &str, programs: Option<&Path>) -> Child {
    let old = std::env::var("PATH").unwrap_or_default();
    let path = programs.map_or(old.clone(), |first| format!("{}:{old}", first.display()));
    Command::new(std::env::current_exe().unwrap())
        .env("PATH", path)
        .args(["--exact", "the_run_that_will_be_killed", "--nocapture", "--test-threads=1"])
        .env(ORDER, format!("{}\t{target}\t{mode}", place.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Reads until the run tells that stage. The reader must live on: without it the run would end by
/// itself, at its next word.
fn wait_for(child: &mut Child, stage: &str) -> BufReader<ChildStdout> {
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap() > 0 {
        if line.contains(stage) {
            return reader;
        }
        line.clear();
    }
    panic!("the run never told `{stage}`")
}

/// Killed, its children are too, and the kernel lets loop devices go, but not at once.
fn reclaim_after(mut child: Child, place: &Path) {
    child.kill().unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    loop {
        let done = reclaim(&place.join("state"));
        let left: Vec<_> = done.iter().filter(|item| item.error.is_some()).collect();
        if left.is_empty() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(reclaim(&place.join("state")), [], "the second time there is nothing to do");
}

/// Loop devices clear themselves after the last user; that takes a moment.
fn assert_clean_soon(place: &Path) {
    let start = Instant::now();
    let canonical = fs::canonicalize(place).unwrap();
    let attached = || {
        let list = fsdyno_sys::loopdev::list().unwrap();
        list.into_iter().any(|device| device.backing_file.starts_with(canonical.join("images")))
    };
    while attached() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_clean(place);
}

#[test]
fn a_run_killed_at_any_stage_leaves_nothing_after_reclaim() {
    if !can_run(definition("ext4")) {
        return;
    }
    for (mode, stage) in [
        ("private", "opened"),
        ("private", "provisioned"),
        ("private", "mounted"),
        ("shared", "formatted"),
        ("shared", "mounted"),
        ("shared", "written"),
    ] {
        let place = place();
        let mut child = start(place.path(), "ext4", mode);
        let _reader = wait_for(&mut child, &format!("stage {stage}"));
        assert_eq!(reclaim(&place.path().join("state")), [], "a living run is left alone");
        reclaim_after(child, place.path());
        assert_clean_soon(place.path());
    }
}

#[test]
fn a_run_killed_at_odd_moments_leaves_nothing_after_reclaim() {
    if !can_run(definition("ext4")) {
        return;
    }
    for step in 0..12u64 {
        let place = place();
        let mut child = start(place.path(), "ext4", "shared+loop");
        let _reader = wait_for(&mut child, "stage opened");
        std::thread::sleep(Duration::from_millis(step * 23));
        reclaim_after(child, place.path());
        assert_clean_soon(place.path());
    }
}

#[test]
fn a_block_device_of_a_killed_run_is_left_blank() {
    if !can_run(definition("xfs")) {
        return;
    }
    let place = place();
    let device = foreign_device(place.path(), SIZE_BYTES);
    let path = device.path().to_owned();
    for tamper in [false, true] {
        let mut child = start(place.path(), &format!("xfs@{}", path.display()), "private");
        let _reader = wait_for(&mut child, "stage written");
        child.kill().unwrap();
        child.wait().unwrap();
        // The mount vanishes with the namespace, a moment later.
        let number = device.device_number();
        let end = Instant::now() + Duration::from_secs(60);
        while guard::in_use(&path, number).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        if tamper {
            // Somebody has made another filesystem on it since: that is not ours.
            assert!(run("mkfs.ext4", &["-q", "-F", path.to_str().unwrap()]));
        }
        reclaim_after(child, place.path());
        let blank = guard::accept(&path, &[], &[]).is_ok();
        assert_eq!(blank, !tamper);
    }
    device.detach().unwrap();
    assert_clean_soon(place.path());
}

/// A directory to be put before `PATH`, in which mkfs tells that it has begun and then takes forever.
fn endless_mkfs(place: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let directory = place.join("bin");
    fs::create_dir(&directory).unwrap();
    let script = directory.join("mkfs.ext4");
    let text = format!("#!/bin/sh\necho $$ > {}\nexec sleep 600\n", place.join("began").display());
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

fn mkfs_process(place: &Path) -> process::ProcessIdentity {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let text = fs::read_to_string(place.join("began")).unwrap_or_default();
        if let Some(identity) = text.trim().parse().ok().and_then(process::identity) {
            return identity;
        }
        assert!(Instant::now() < end, "mkfs never began");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_mkfs_is_killed_told_and_cleaned_up() {
    if !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let mut child = start_with(place.path(), "ext4", "private", Some(&endless_mkfs(place.path())));
    let mkfs = mkfs_process(place.path());
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let reader = wait_for(&mut child, "mkfs ended");
    // The run ends in good order: nothing is left for a reclaim.
    let rest: Vec<String> = reader.lines().map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    assert!(!process::is_alive(&mkfs), "mkfs outlived the interrupt");
    assert_clean_soon(place.path());
}

#[test]
fn a_run_killed_during_mkfs_takes_mkfs_with_it() {
    if !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let child = start_with(place.path(), "ext4", "shared", Some(&endless_mkfs(place.path())));
    let mkfs = mkfs_process(place.path());
    reclaim_after(child, place.path());
    let end = Instant::now() + Duration::from_secs(60);
    while process::is_alive(&mkfs) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!process::is_alive(&mkfs), "mkfs outlived the run");
    assert_clean_soon(place.path());
}
