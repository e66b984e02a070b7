//! Captures of the running kernel on loop devices: what the devices counted is in the trace, whose requests
//! they were is known, and nothing is left behind, whatever happens.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fsdyno_model::trace::{Action, Flags, TraceEvent, TraceInfo};
use fsdyno_sys::block::{DeviceNumber, device_number};
use fsdyno_sys::counters::{DeviceCounters, DeviceStats};
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::{clock, file, mount};
use fsdyno_trace::EventSink;
use fsdyno_trace::capture::{self, Capture, CaptureOptions, Captured};

/// Tells a child of these tests what to trace.
const CHILD_DEVICE: &str = "FSDYNO_TEST_CAPTURE_DEVICE";

/// An image with a loop device, or why there is none.
struct Disk {
    device: LoopDevice,
    directory: tempfile::TempDir,
}

impl Disk {
    fn attach() -> Option<Disk> {
        if let Some(reason) = capture::unavailable() {
            println!("skipped: {reason}");
            return None;
        }
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = directory.path().join("disk.img");
        file::allocate(File::create(&image).unwrap(), 64 << 20).unwrap();
        match LoopDevice::attach(&image, LoopOptions::default()) {
            Ok(device) => Some(Disk { device, directory }),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.device.path()
    }

    fn number(&self) -> DeviceNumber {
        self.device.device_number()
    }
}

#[derive(Debug, Default)]
struct Taken {
    events: Vec<TraceEvent>,
    is_finished: bool,
}

/// Keeps what comes; fails once `fails_after` events are there.
struct Sink {
    taken: Arc<Mutex<Taken>>,
    fails_after: usize,
}

impl EventSink for Sink {
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        let mut taken = self.taken.lock().unwrap();
        assert!(events.iter().all(|event| (event.process as usize) < info.processes.len()));
        taken.events.extend_from_slice(events);
        if taken.events.len() > self.fails_after {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the sink is full"));
        }
        Ok(())
    }

    fn finish(&mut self, _info: &TraceInfo) -> io::Result<()> {
        self.taken.lock().unwrap().is_finished = true;
        Ok(())
    }
}

fn start(devices: &[DeviceNumber], fails_after: usize) -> (Capture, Arc<Mutex<Taken>>) {
    let taken = Arc::new(Mutex::new(Taken::default()));
    let options = CaptureOptions { devices: devices.to_vec(), buffer_bytes: 4 << 20 };
    let sink = Sink { taken: Arc::clone(&taken), fails_after };
    (Capture::start(&options, Box::new(sink)).unwrap(), taken)
}

/// What a capture saw of `work`, and what the device counted meanwhile.
fn traced(
    device: DeviceNumber,
    counted: DeviceNumber,
    work: impl FnOnce(),
) -> (Vec<TraceEvent>, Captured, DeviceStats) {
    let counters = DeviceCounters::open(counted).unwrap();
    let before = counters.read().unwrap();
    let (capture, taken) = start(&[device], usize::MAX);
    work();
    let captured = capture.stop().unwrap();
    let moved = counters.read().unwrap().since(&before);
    let taken = std::mem::take(&mut *taken.lock().unwrap());
    assert!(taken.is_finished, "the sink was not told of the end");
    assert_eq!(captured.events, taken.events.len() as u64);
    assert_eq!(captured.info.lost_events, 0, "{:?}", captured.info.warnings);
    assert!(taken.events.is_sorted_by_key(|event| event.time_ns), "times go back");
    (taken.events, captured, moved)
}

fn bytes(events: &[TraceEvent], is_wanted: impl Fn(&TraceEvent) -> bool) -> u64 {
    let completed = events.iter().filter(|event| event.action == Action::Complete);
    completed.filter(|event| is_wanted(event)).map(TraceEvent::bytes).sum()
}

/// Instances that this process has.
fn own_instances() -> Vec<String> {
    let root = mount::mount_detached("tracefs").unwrap();
    let entries = fs::read_dir(mount::descriptor_path(&root).join("instances")).unwrap();
    let own = format!("fsdyno-{}-", std::process::id());
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&own)).collect()
}

/// Tests of one process see each other's instances: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

macro_rules! alone {
    () => {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    };
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

fn dd(to: &Path, arguments: &[&str]) {
    let of = format!("of={}", to.display());
    run("dd", &[&["if=/dev/zero", "status=none", of.as_str()], arguments].concat());
}

#[test]
fn a_trace_holds_what_the_device_counted() {
    alone!();
    let Some(disk) = Disk::attach() else { return };
    let begun_ns = clock::now_ns();
    let (events, captured, moved) = traced(disk.number(), disk.number(), || {
        dd(disk.path(), &["bs=64k", "count=256", "oflag=direct"]);
        dd(disk.path(), &["bs=4k", "count=100", "seek=5000", "conv=fsync"]);
        let input = format!("if={}", disk.path().display());
        run("dd", &[&input, "of=/dev/null", "bs=64k", "count=64", "iflag=direct", "status=none"]);
    });
    assert!(moved.write_bytes >= 256 * 65536 + 100 * 4096);
    assert_eq!(bytes(&events, |event| event.flags.contains(Flags::WRITE)), moved.write_bytes);
    assert_eq!(bytes(&events, |event| event.flags.is_read()), moved.read_bytes);
    let flushes =
        events.iter().filter(|it| it.action == Action::Complete && it.flags.contains(Flags::FLUSH));
    assert_eq!(Some(flushes.count() as u64), moved.flushes);

    let number = disk.number().major << 20 | disk.number().minor;
    assert!(events.iter().all(|event| event.device == number));
    let times = begun_ns..clock::now_ns();
    assert!(events.iter().all(|event| times.contains(&event.time_ns)), "another clock");
    let info = &captured.info;
    assert_eq!(info.devices.len(), 1);
    assert_eq!(info.devices[0].sectors, Some((64 << 20) / 512));
    assert!(disk.path().ends_with(&info.devices[0].name));
    let wall_ns = clock::wall_ns().cast_signed() - clock::now_ns().cast_signed();
    assert!(wall_ns.abs_diff(info.wall_offset_ns.unwrap()) < 1_000_000_000);
    let queued = events.iter().filter(|event| event.action == Action::Queue);
    let by_dd = queued.filter(|event| info.processes[event.process as usize].name == "dd");
    assert!(by_dd.count() >= 256);
    assert_eq!(own_instances(), [""; 0]);
}

#[test]
fn the_threads_of_a_filesystem_have_their_names() {
    alone!();
    let Some(disk) = Disk::attach() else { return };
    let device = disk.path().to_owned();
    if Command::new("mkfs.ext4").arg("-V").output().is_err() {
        println!("skipped: mkfs.ext4 is not installed");
        return;
    }
    run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0", &device.display().to_string()]);
    let target = disk.directory.path().join("mnt");
    fs::create_dir(&target).unwrap();
    mount::mount("ext4", &device.display().to_string(), &target, "").unwrap();
    let (events, captured, moved) = traced(disk.number(), disk.number(), || {
        for index in 0..200 {
            fs::write(target.join(format!("file{index}")), vec![1; 10_000]).unwrap();
        }
        File::open(target.join("file0")).unwrap().sync_all().unwrap();
        run("sync", &["-f", &target.display().to_string()]);
    });
    mount::unmount(&target).unwrap();
    assert_eq!(bytes(&events, |event| event.flags.contains(Flags::WRITE)), moved.write_bytes);
    let names: Vec<&str> =
        captured.info.processes.iter().map(|process| process.name.as_str()).collect();
    assert!(
        !names.iter().any(|name| name.starts_with("kworker/") && name.contains('+')),
        "at work and was at work are two: {names:?}"
    );
    assert!(names.iter().any(|name| name.starts_with("jbd2/loop")), "{names:?}");
    assert!(
        events.iter().any(|it| it.flags.contains(Flags::FLUSH) && it.action == Action::Issue),
        "a journal's commit flushes"
    );
    assert_eq!(own_instances(), [""; 0]);
}

#[test]
fn of_a_partition_only_its_own_requests_are_kept() {
    alone!();
    if let Some(reason) = capture::unavailable() {
        println!("skipped: {reason}");
        return;
    }
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let image = directory.path().join("disk.img");
    file::allocate(File::create(&image).unwrap(), 64 << 20).unwrap();
    let made = Command::new("losetup").args(["-P", "-f", "--show"]).arg(&image).output();
    let Ok(made) = made else {
        println!("skipped: losetup is not installed");
        return;
    };
    let disk = Attached(String::from_utf8(made.stdout).unwrap().trim().to_owned());
    let added = ["1", "2"].iter().zip(["2048", "32768"]).all(|(number, first)| {
        let status = Command::new("addpart").args([&disk.0, *number, first, "16384"]).status();
        status.is_ok_and(|status| status.success())
    });
    let paths = ["p1", "p2"].map(|suffix| format!("{}{suffix}", disk.0));
    let deadline = Instant::now() + Duration::from_secs(5);
    while added && !Path::new(&paths[1]).exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    if added && paths.iter().all(|path| Path::new(path).exists()) {
        check_partition(Path::new(&disk.0), Path::new(&paths[1]), Path::new(&paths[0]));
    } else {
        println!("skipped: partitions cannot be made here");
    }
}

/// A loop device that was attached by its program, detached on drop.
struct Attached(String);

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

fn check_partition(disk: &Path, partition: &Path, other: &Path) {
    let number = device_number(partition).unwrap();
    let (events, captured, moved) = traced(number, number, || {
        dd(other, &["bs=64k", "count=32", "oflag=direct"]);
        dd(partition, &["bs=64k", "count=8", "oflag=direct"]);
    });
    assert_eq!(moved.write_bytes, 8 * 65536);
    assert_eq!(bytes(&events, |event| event.flags.contains(Flags::WRITE)), moved.write_bytes);
    assert!(events.iter().all(|event| event.sector < 16384), "sectors count from its start");
    assert_eq!(events.iter().filter(|event| event.action == Action::Queue).count(), 8);
    assert_eq!(captured.info.devices[0].sectors, Some(16384));

    // And of the disk all is kept, whoever it was meant for.
    let number = device_number(disk).unwrap();
    let (events, _, moved) =
        traced(number, number, || dd(partition, &["bs=64k", "count=8", "oflag=direct"]));
    assert_eq!(bytes(&events, |_| true), moved.write_bytes + moved.read_bytes);
    let queued: Vec<u64> = events
        .iter()
        .filter(|event| event.action == Action::Queue && event.flags.contains(Flags::WRITE))
        .map(|event| event.sector)
        .collect();
    assert_eq!(queued.len(), 8);
    assert_eq!(queued.iter().min(), Some(&32768), "sectors count from the start of the disk");
}

#[test]
fn dropping_it_ends_it() {
    alone!();
    let Some(disk) = Disk::attach() else { return };
    let (capture, taken) = start(&[disk.number()], usize::MAX);
    assert_eq!(own_instances().len(), 1);
    dd(disk.path(), &["bs=4k", "count=10", "oflag=direct"]);
    drop(capture);
    assert_eq!(own_instances(), [""; 0]);
    assert!(taken.lock().unwrap().events.len() >= 30);
}

#[test]
fn a_sink_that_fails_ends_it_and_its_error_is_told() {
    alone!();
    let Some(disk) = Disk::attach() else { return };
    let (capture, _) = start(&[disk.number()], 3);
    dd(disk.path(), &["bs=4k", "count=100", "oflag=direct"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !own_instances().is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(own_instances(), [""; 0], "it traces on for nobody");
    let error = capture.stop().unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (io::ErrorKind::StorageFull, "the sink is full")
    );
}

#[test]
fn a_device_that_is_not_there_is_refused() {
    alone!();
    if let Some(reason) = capture::unavailable() {
        println!("skipped: {reason}");
        return;
    }
    let options = CaptureOptions {
        devices: vec![DeviceNumber { major: 4000, minor: 1 }],
        buffer_bytes: 1 << 20,
    };
    let sink = Sink { taken: Arc::default(), fails_after: 0 };
    let error = Capture::start(&options, Box::new(sink)).unwrap_err();
    assert!(error.to_string().contains("4000:1"), "{error}");
    assert_eq!(own_instances(), [""; 0]);
}

/// Not a test of its own: what the next one kills.
#[test]
fn child_that_traces() {
    let Some(device) = std::env::var_os(CHILD_DEVICE) else { return };
    let (_capture, _) = start(&[device_number(Path::new(&device)).unwrap()], usize::MAX);
    println!("\ntraces");
    io::stdout().flush().unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn what_a_killed_process_left_is_reclaimed() {
    alone!();
    let Some(disk) = Disk::attach() else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_traces", "--nocapture"])
        .env(CHILD_DEVICE, disk.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "traces"));
    let (capture, _) = start(&[disk.number()], usize::MAX);
    let pid = child.id();
    let of_child = move |reclaimed: &[(String, io::Result<()>)]| {
        let prefix = format!("fsdyno-{pid}-");
        reclaimed.iter().filter(|(name, _)| name.starts_with(&prefix)).count()
    };
    assert_eq!(of_child(&capture::reclaim()), 0, "it lives");
    run("kill", &["-KILL", &pid.to_string()]);
    let ended = child.wait().unwrap();
    assert!(!ended.success());
    let reclaimed = capture::reclaim();
    assert_eq!(of_child(&reclaimed), 1, "{reclaimed:?}");
    assert!(reclaimed.iter().all(|(_, removed)| removed.is_ok()), "{reclaimed:?}");
    assert_eq!(own_instances().len(), 1, "what lives stays");
    capture.stop().unwrap();
    assert!(capture::reclaim().is_empty());
}
