//! Processor time by group and the samples in between, on the real machine: the groups add up to what
//! the kernel counts as busy, and a runner hands over its samples however it ends. Both use all
//! processors, so they run one after the other.

mod support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_model::activity::{Activity, Reading};
use fsdyno_model::cpu_group;
use fsdyno_model::wire::{Message, Watch};
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_workload::probe::Probe;
use fsdyno_workload::sampler;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An ext4 on an image, gone at the end.
struct Target {
    directory: tempfile::TempDir,
    device: Option<LoopDevice>,
}

impl Target {
    /// A mounted loop device where that can be had, else a plain directory.
    fn new() -> Target {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut target = Target { directory, device: None };
        if let Err(why) = target.mount() {
            println!("skipped: the loop device: {why}");
        }
        target
    }

    fn mount(&mut self) -> Result<(), String> {
        if !fsdyno_sys::process::is_root() || !fsdyno_sys::process::may_mount() {
            return Err("needs root".to_owned());
        }
        let image = self.directory.path().join("disk.img");
        File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let device = LoopDevice::attach(&image, LoopOptions::default());
        let device = device.map_err(|error| error.to_string())?;
        fs::create_dir(self.path()).unwrap();
        let run = |program: &str, arguments: &[&Path]| {
            let output = Command::new(program).args(arguments).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            output.status.success().then_some(()).ok_or_else(|| format!("{program} failed"))
        };
        run("mkfs.ext4", &[Path::new("-q"), device.path()])?;
        run("mount", &[device.path(), &self.path()])?;
        self.device = Some(device);
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }

    fn work_directory(&self) -> PathBuf {
        if self.device.is_some() { self.path() } else { self.directory.path().to_owned() }
    }

    fn watch(&self) -> Watch {
        let number =
            |device: &LoopDevice| (device.device_number().major, device.device_number().minor);
        Watch {
            devices: self.device.iter().map(number).collect(),
            filesystem_threads: vec!["jbd2/*".to_owned(), "kworker/*flush-*".to_owned()],
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.device.is_some() {
            let _ = Command::new("umount").arg(self.path()).status();
        }
    }
}

fn burn_until(end: Instant) {
    let mut sum = 0u64;
    while Instant::now() < end {
        for number in 0..10_000u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
}

/// All processors at work: threads, programs that live for a moment, and files on the target.
fn work(directory: &Path, wall: Duration) {
    let end = Instant::now() + wall;
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| burn_until(end));
        }
        scope.spawn(|| {
            while Instant::now() < end {
                let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
                assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
            }
        });
        let block = vec![7u8; 1 << 20];
        while Instant::now() < end {
            let path = directory.join("file");
            let mut file = File::create(&path).unwrap();
            for _ in 0..64 {
                file.write_all(&block).unwrap();
            }
            file.sync_all().unwrap();
        }
    });
}

/// Sum of a series over the samples.
fn total(activity: &Activity, name: &str) -> f64 {
    let series = activity.series(name).unwrap_or_else(|| panic!("no series {name}"));
    assert_eq!(series.values.len(), activity.times_ns.len(), "{name}");
    series.values.iter().flatten().sum()
}

fn share(part: f64, whole: f64) -> f64 {
    (part - whole).abs() / whole
}

#[test]
fn the_groups_add_up_to_what_was_busy() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Target::new();
    let mut probe = Probe::new(&target.watch());
    if !probe.samples_kernel_threads() {
        println!("skipped: the kernel's threads are not visible");
        return;
    }
    let before = probe.before();
    work(&target.work_directory(), Duration::from_secs(5));
    let (cpu, device) = probe.difference(&before, &probe.after());
    let activity = probe.finish().unwrap();
    assert!(probe.finish().is_none());

    let busy_ns = cpu.system_busy_ns.unwrap() as f64;
    let groups: &BTreeMap<String, u64> = &cpu.groups_ns;
    let in_groups = |left_out: &str| -> f64 {
        let names =
            groups.iter().filter(|(name, _)| *name != cpu_group::STEAL && *name != left_out);
        names.map(|(_, ns)| *ns as f64).sum()
    };
    println!("busy {busy_ns}: {groups:?}; off by {:.2} %", 100.0 * share(in_groups(""), busy_ns));
    assert!(!groups.contains_key(cpu_group::UNACCOUNTED), "{groups:?}");
    assert!(share(in_groups(""), busy_ns) <= 0.02, "{groups:?} of {busy_ns}");
    // The sum is no accident of the definition: without the application it is far off.
    assert!(share(in_groups(cpu_group::APPLICATION), busy_ns) > 0.1);
    let application_ns = (cpu.app_user_ns.unwrap() + cpu.app_system_ns.unwrap()) as f64;
    assert!(
        share(groups[cpu_group::APPLICATION] as f64, application_ns) < 0.05,
        "{application_ns}"
    );

    // The same from the samples, which begin a little earlier and end a little later.
    let sampled: f64 = (activity.series.iter())
        .filter(|series| series.kind == "cpu" && series.name != "cpu_steal_ns")
        .map(|series| total(&activity, &series.name))
        .sum();
    let sampled_busy = total(&activity, "cpu_busy_ns");
    println!("samples: {sampled} of {sampled_busy}");
    assert!(share(sampled, sampled_busy) <= 0.02, "{sampled} of {sampled_busy}");
    assert!(total(&activity, "cpu_application_ns") > 0.8 * groups[cpu_group::APPLICATION] as f64);
    assert!(total(&activity, "vmstat_dirtied_bytes") > 0.0);
    if target.device.is_some() {
        let written = device.write_bytes.unwrap() as f64;
        assert!(written > 0.0 && total(&activity, "device_write_bytes") >= 0.9 * written);
        assert!(groups.keys().any(|name| ["loop", "journal", "flusher"].contains(&&**name)));
    }
}

#[test]
fn a_runner_hands_over_its_samples() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for (line, fails) in [("sleep 1", false), ("sh -c 'sleep 0.5; exit 3'", true)] {
        let answers = support::measure(directory.path(), "command", &[("command", line)]);
        let at = answers.messages.iter().position(|it| matches!(it, Message::Activity(_)));
        let at = at.unwrap_or_else(|| panic!("no activity in {:?}", answers.messages));
        assert_eq!(matches!(answers.messages.last(), Some(Message::Failed { .. })), fails);
        assert!(at + 1 < answers.messages.len(), "something is said after it");
        let Message::Activity(activity) = &answers.messages[at] else { unreachable!() };
        assert!(activity.processors > 0 && activity.times_ns.is_sorted());
        let lasted_ns = activity.times_ns.last().unwrap() - activity.times_ns[0];
        let expected = lasted_ns / sampler::PERIOD.as_nanos() as u64;
        // A busy machine may miss some.
        assert!(
            activity.times_ns.len() as u64 > expected / 2,
            "{} of {expected}",
            activity.times_ns.len()
        );
        let dirty = activity.series("memory_dirty_bytes").unwrap();
        assert!(dirty.reading == Reading::Gauge && dirty.values.iter().all(Option::is_some));
    }
}
