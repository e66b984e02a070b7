//! Emulated disks: models listed and checked, served, under a filesystem, killed, cut off.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, outcomes, skip};

/// Whether disks can be served here; prints the reason when not.
fn can_serve() -> bool {
    if !can_format(&["ext4"]) {
        return false;
    }
    if !Path::new("/dev/fuse").exists() {
        skip("the kernel has no FUSE");
        return false;
    }
    true
}

#[test]
fn models_are_listed_shown_and_checked_alone() {
    let sandbox = Sandbox::in_memory();
    let listed = sandbox.run(["disk", "list", "--json"]);
    let models = listed.assert_code(0).json();
    let models = models.as_array().unwrap();
    assert!(models.len() > 15);
    for kind in ["hdd", "ssd", "card", "smr", "volume", "array", "ram"] {
        assert!(models.iter().any(|model| model["kind"] == kind), "{kind}");
    }
    let shown = sandbox.run(["disk", "show", "hdd-7200-2007"]);
    assert!(shown.assert_code(0).stdout.contains("average_seek_ms = 8.9"));
    let checked = sandbox.run(["disk", "check", "hdd-7200-2007", "--offline", "--json"]);
    let checked = checked.assert_code(0).json();
    let figures = checked["figures"].as_array().unwrap();
    let found = figures.iter().find(|it| it["figure"] == "random_read_ms").unwrap();
    let ratio = found["found"].as_f64().unwrap() / found["stated"].as_f64().unwrap();
    assert!((ratio - 1.0).abs() < 0.05, "{found}");
    let text = sandbox.run(["disk", "check", "volume-gp3", "--offline"]);
    assert!(text.assert_code(0).stdout.contains("random_read_iops_qd32"), "{}", text.stdout);
}

#[test]
fn a_model_of_ones_own_is_read_strictly() {
    let sandbox = Sandbox::in_memory();
    let text = sandbox.run(["disk", "show", "hdd-7200-2007"]).stdout;
    let good = sandbox.file("mine.toml", &text);
    sandbox.run(["disk", "check", &good, "--offline"]).assert_code(0);
    let bad = sandbox.file("bad.toml", &text.replace("heads = 3", "heds = 3"));
    let refused = sandbox.run(["disk", "check", &bad, "--offline"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("did you mean `heads`"), "{}", refused.stderr);
    assert!(refused.stderr.contains("bad.toml:12:1"), "{}", refused.stderr);
    for target in ["ext4@disk:hdd-7200-2006", "ext4@disk:./none.toml"] {
        let refused = sandbox.run(["compare", target, "-w", "small-files"]);
        refused.assert_code(2);
    }
}

/// A model in service by hand, under a loop device, until it is dropped.
struct Served {
    server: Child,
    device: String,
}

impl Served {
    fn new(sandbox: &Sandbox, model: &str, size: &str) -> Served {
        let mount = sandbox.path().join("served");
        fs::create_dir(&mount).unwrap();
        let (file, mount) = (sandbox.path().join("contents"), mount.display().to_string());
        let file = file.display().to_string();
        let mut command =
            sandbox.command(["disk", "serve", model, &file, "--size", size, "--mount", &mount]);
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let device = line.split(' ').next().unwrap().to_owned();
        assert!(device.starts_with("/dev/loop"), "{line}");
        Served { server, device }
    }

    /// Takes it down: whether `most` or a smaller share of its answers were late. What a machine had no time
    /// for says nothing of the disk.
    fn was_on_time(mut self, most: f64) -> bool {
        self.interrupt();
        let mut said = String::new();
        self.server.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let words: Vec<&str> = said.split_whitespace().collect();
        let before = |word: &str| -> f64 {
            let at = words.iter().position(|it| *it == word);
            words[at.unwrap_or_else(|| panic!("no {word} in {said}")) - 1].parse().unwrap()
        };
        // "answered 10 requests, 2 of them late"
        let share = before("of") / before("requests,");
        if share > most {
            eprintln!("not looked at: figures of a busy machine, {:.0} % late", share * 100.0);
        }
        share <= most
    }

    fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.server.wait();
    }
}

/// The figure `key = NUMBER` of a model's text.
#[track_caller]
fn stated(text: &str, key: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
    let number = line.unwrap_or_else(|| panic!("no {key} in {text}"));
    number.split(' ').next().unwrap().trim_matches('"').parse().unwrap()
}

#[test]
fn a_disk_that_rotates_is_measured_and_made_again() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    // Whole, so that the arm moves from edge to edge; the file is sparse.
    let served = Served::new(&sandbox, "hdd-7200-2007", "244140624KiB");
    let mine = sandbox.path().join("mine.toml").display().to_string();
    let device = served.device.clone();
    let fit = ["disk", "fit", &device, "-n", "20", "-o", &mine, "--quiet"];
    let found = sandbox.run(fit);
    assert!(found.assert_code(0).stdout.contains("random read 4 KiB, mean"), "{}", found.stdout);
    let text = fs::read_to_string(&mine).unwrap();
    sandbox.run(["disk", "check", &mine, "--offline"]).assert_code(0);
    sandbox.run(fit).assert_code(2);
    let was_on_time = served.was_on_time(0.05);
    sandbox.assert_nothing_left();
    if !was_on_time {
        return;
    }
    assert!(text.contains("kind = \"hdd\""), "{text}");
    assert_eq!(stated(&text, "rpm"), 7200.0, "{text}");
    for (key, real, share) in [
        ("outer_mbs", 78.0, 0.15),
        ("inner_mbs", 40.0, 0.2),
        ("full_stroke_ms", 18.0, 0.3),
        ("average_seek_ms", 8.9, 0.3),
    ] {
        let found = stated(&text, key);
        assert!((found / real - 1.0).abs() < share, "{key}: {found}, served with {real}\n{text}");
    }
    // What comes late hides short ways most: 0.8 on a machine at rest.
    assert!(stated(&text, "track_to_track_ms") < 5.0, "{text}");
}

#[test]
fn a_volume_is_measured_and_made_again_and_what_holds_something_is_not_written() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    let served = Served::new(&sandbox, "volume-gp3", "1GiB");
    let device = served.device.as_str();
    let found = sandbox.run(["disk", "fit", device, "-n", "40", "--write", "--json", "--quiet"]);
    let found = found.assert_code(0).json();
    // What is on a device is safe from --write, and reading it is no harm.
    let made = std::process::Command::new("mkfs.ext4").args(["-q", device]).status().unwrap();
    assert!(made.success());
    let refused = sandbox.run(["disk", "fit", device, "--write"]);
    assert!(refused.assert_code(2).stderr.contains("ext4"), "{}", refused.stderr);
    let read = sandbox.run(["disk", "fit", device, "-n", "10", "--quiet"]);
    assert!(read.assert_code(0).stdout.contains("reading only"), "{}", read.stdout);
    let was_on_time = served.was_on_time(0.1);
    for (path, part) in [("none", "name a device or a file"), ("contents", "holes")] {
        let refused = sandbox.run(["disk", "fit", path]);
        assert!(refused.assert_code(2).stderr.contains(part), "{}", refused.stderr);
    }
    sandbox.assert_nothing_left();
    let text = found["model"].as_str().unwrap();
    let write =
        found["figures"].as_array().unwrap().iter().find(|it| it["name"] == "sequential write");
    assert!(write.is_some(), "{found}");
    if !was_on_time {
        return;
    }
    assert_eq!(found["kind"], "volume", "{found}");
    let (iops, rate) = (stated(text, "iops"), stated(text, "throughput_per_second") / 1e6);
    assert!((1000.0..3600.0).contains(&iops), "{text}");
    assert!((90.0..160.0).contains(&rate), "{text}");
    assert!(write.unwrap()["measured"].as_f64().unwrap() > 30.0, "{found}");
}

#[test]
fn what_is_faster_than_the_emulator_is_refused() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    // Nothing answers within a microsecond here.
    let text = sandbox.run(["disk", "show", "nvme-datacentre"]).stdout;
    let text = text
        .replace("overhead_us = 12", "overhead_us = 0")
        .replace("write_overhead_us = 10", "write_overhead_us = 0");
    let model = sandbox.file("quick.toml", &text);
    let images = sandbox.images().display().to_string();
    let target = format!("ext4@disk:{model}:512MiB");
    let refused =
        sandbox.run(["compare", &target, "-w", "small-files", "-n", "1", "--dir", &images]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("faster than can be emulated"), "{}", refused.stderr);
    sandbox.assert_nothing_left();
}

#[test]
fn probes_through_the_emulator_are_near_the_model() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let arguments =
        ["disk", "check", "hdd-5400-2010", "--requests", "60", "--json", "--dir", images.as_str()];
    // Tests run beside each other and on busy machines: how much later it answers is not asked here.
    let found = sandbox.run(arguments).json();
    assert!(found["overhead"]["request_ns"].as_f64().unwrap() > 0.0);
    let probes = found["probes"].as_array().unwrap();
    assert_eq!(probes.len(), 4);
    for probe in probes {
        let of = |name: &str| probe[name].as_f64().unwrap();
        assert!(of("mean_ns") > 0.7 * of("model_mean_ns"), "{probe}");
        assert!(of("mean_ns") < 1e9, "{probe}");
    }
    sandbox.assert_nothing_left();
}

fn compare(sandbox: &Sandbox, targets: &[&str], more: &[&str]) -> Vec<String> {
    let mut arguments = vec!["compare".to_owned()];
    arguments.extend(targets.iter().map(|target| (*target).to_owned()));
    arguments.extend(["--dir".to_owned(), sandbox.images().display().to_string()]);
    arguments.extend(["-w", "small-files:files=300", "-n", "1", "--json", "-"].map(str::to_owned));
    arguments.extend(more.iter().map(|word| (*word).to_owned()));
    arguments
}

#[test]
fn a_filesystem_on_an_emulated_disk_takes_its_time() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    let targets = ["slow=ext4@disk:hdd-7200-2007:512MiB", "fast=ext4@loop:512MiB"];
    let arguments = compare(&sandbox, &targets, &[]);
    let finished = sandbox.run(arguments.iter().map(String::as_str));
    let result = finished.assert_code(0).json();
    assert_eq!(outcomes(&result), ["completed"; 2]);
    let of = |list: &str, key: &str, label: &str| {
        let all = result[list].as_array().unwrap();
        all.iter().find(|one| one[key] == label).unwrap().clone()
    };
    let facts = &of("targets", "label", "slow")["device_facts"];
    assert_eq!(facts["disk_model"], "hdd-7200-2007");
    assert_eq!(facts["rotational"], "1");
    assert_eq!(facts["loop_direct_io"], "true");
    // A disk that rotates is not told what is no longer needed, and that it says so disturbs nothing.
    assert_eq!(facts["discard_granularity_bytes"], "0");
    let trial = |label: &str| of("trials", "target", label);
    let warnings = trial("slow")["warnings"].to_string();
    assert!(!warnings.contains("kernel-complained"), "{warnings}");
    let elapsed = |trial: &Value| -> u64 {
        let phases = trial["phases"].as_array().unwrap();
        phases.iter().filter_map(|phase| phase["elapsed_durable_ns"].as_u64()).sum()
    };
    // At least one flush that waits for the platters. The host's own disk may be slower than that.
    let slow = elapsed(&trial("slow"));
    assert!(slow > 5_000_000, "{slow}");
    let audit = sandbox.run(["show", "--audit"]);
    assert!(audit.stdout.contains("emulated hdd-7200-2007"), "{}", audit.stdout);
    sandbox.assert_nothing_left();
}

/// A process started by `parent` whose command line holds `word`.
fn child_of(parent: u32, word: &str) -> Option<u32> {
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let rest = stat.rsplit_once(") ")?.1;
        let own: u32 = rest.split(' ').nth(1)?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let has_word = String::from_utf8_lossy(&line).contains(word);
        (own == parent && has_word).then_some(pid)
    })
}

fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_server_ends_its_trial_and_leaves_nothing() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    let arguments = compare(&sandbox, &["ext4@disk:sd-card-a1:512MiB"], &[]);
    let mut command = sandbox.command(arguments.iter().map(String::as_str));
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let place = sandbox.images().display().to_string();
    // The servers by which the emulator is tried out come first; a trial's lies in its directory.
    let server = within(Duration::from_secs(60), "the server", || {
        child_of(run.id(), &format!("{place}/fsdyno-2"))
    });
    kill(server);
    let finished = crate::sandbox::Finished::of(&run.wait_with_output().unwrap());
    finished.assert_code(1);
    let result = finished.json();
    assert_eq!(outcomes(&result), ["failed"], "{}", finished.stderr);
    sandbox.assert_nothing_left();
}

fn kill(pid: u32) {
    let status = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// A served disk and the path of its loop device.
fn serve(sandbox: &Sandbox, more: &[&str]) -> (Child, String) {
    let directory = sandbox.path().join("mounted");
    fs::create_dir_all(&directory).unwrap();
    let directory = directory.display().to_string();
    let mut arguments = vec!["disk", "serve", "hdd-7200-2007", "contents", "--mount", &directory];
    arguments.extend(more);
    let mut command = sandbox.command(arguments);
    let mut served = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(served.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let device = line.split(' ').next().unwrap().to_owned();
    assert!(device.starts_with("/dev/loop"), "{line}");
    (served, device)
}

#[test]
fn a_power_cut_loses_what_was_not_flushed_and_clean_finds_the_rest() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    let (mut served, device) = serve(&sandbox, &["--size", "64MiB", "--volatile"]);
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let disk = OpenOptions::new().write(true).custom_flags(direct).open(&device).unwrap();
    let mut block = fsdyno_sys::buffer::AlignedBuffer::new(4096);
    block.fill(b'a');
    disk.write_all_at(&block, 8192).unwrap();
    disk.sync_data().unwrap();
    block.fill(b'b');
    disk.write_all_at(&block, 8192).unwrap();
    disk.write_all_at(&block, 1 << 20).unwrap();
    kill(served.id());
    served.wait().unwrap();
    assert!(disk.sync_data().is_err(), "nobody serves it any more");
    drop(disk);
    let contents = fs::read(sandbox.path().join("contents")).unwrap();
    assert_eq!((contents[8192], contents[1 << 20]), (b'a', 0));
    let cleaned = sandbox.run(["clean"]);
    assert!(cleaned.assert_code(0).stdout.contains("removed mount"), "{}", cleaned.stdout);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&sandbox.path().display().to_string()), "{mounts}");
    within(Duration::from_secs(60), "the end of the loop device", || {
        let attached = fsdyno_sys::loopdev::list().unwrap();
        attached.iter().all(|it| !it.backing_file.starts_with(sandbox.path())).then_some(())
    });
}

#[test]
fn an_interrupted_server_takes_everything_down() {
    if !can_serve() {
        return;
    }
    let sandbox = Sandbox::new();
    let (served, device) = serve(&sandbox, &["--size", "64MiB"]);
    let file = OpenOptions::new().read(true).open(&device).unwrap();
    let mut bytes = [1; 512];
    file.read_exact_at(&mut bytes, 4096).unwrap();
    assert_eq!(bytes, [0; 512]);
    drop(file);
    let pid = served.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = served.wait_with_output().unwrap().status;
    assert!(status.success(), "{status}");
    sandbox.assert_nothing_left();
}
