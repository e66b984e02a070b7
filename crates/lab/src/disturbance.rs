//! What went on around a trial and may have bent its figures: time that a hypervisor gave to others,
//! processors slowed down by heat, a clock that was set, errors of the kernel, a host disk that is
//! almost full. Each is a warning of its trial, which is marked by it and never dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fsdyno_model::record::Warning;
use fsdyno_model::units;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::cpu::{SystemCpu, SystemCpuTimes};
use fsdyno_sys::{clock, file, kernel};
use rustix::fs::OFlags;

/// Share of all processors' time from which on stolen time is told.
const STOLEN_SHARE: f64 = 0.05;
/// Step of the clock that is told, in nanoseconds; a clock that is slewed moves less in any trial.
const STEP_NS: u64 = 500_000_000;
/// Share of the host's disk that should be free, and bytes that are enough however large it is.
const FREE_SHARE: f64 = 0.05;
const FREE_BYTES: u64 = 20 << 30;
/// Messages of the kernel that are attached to a trial.
const MOST_MESSAGES: usize = 5;
/// Least urgent level of a message about a device that is attached: an error (3, linux/kern_levels.h).
const ERROR_LEVEL: u32 = 3;

/// What is known of the machine since a trial began.
#[derive(Debug)]
pub struct Watch {
    directory: Option<PathBuf>,
    wall_ns: u64,
    monotonic_ns: u64,
    cpu: Option<SystemCpuTimes>,
    throttled: u64,
    messages: Option<File>,
}

impl Watch {
    /// Begins to watch; `directory` is where the target takes its space from, where that is a filesystem.
    #[must_use]
    pub fn begin(directory: Option<&Path>) -> Watch {
        Watch {
            directory: directory.map(Path::to_owned),
            wall_ns: clock::wall_ns(),
            monotonic_ns: clock::now_ns(),
            cpu: cpu_times(),
            throttled: throttled(Path::new("/sys/devices/system/cpu")),
            messages: end_of_messages(),
        }
    }

    /// Everything that disturbed since then; the target was on `devices`.
    #[must_use]
    pub fn end(self, devices: &[DeviceNumber]) -> Vec<Warning> {
        let elapsed_ns = clock::now_ns().saturating_sub(self.monotonic_ns);
        let mut warnings = Vec::new();
        if let (Some(before), Some(now)) = (self.cpu, cpu_times()) {
            warnings.extend(stolen(now.since(&before).steal_ns, elapsed_ns, kernel::cpu_count()));
        }
        let slowed = throttled(Path::new("/sys/devices/system/cpu"));
        if slowed > self.throttled {
            let times = slowed - self.throttled;
            warnings.push(warning(
                "processor-throttled",
                format!("processors were slowed down by their heat {times} times"),
                "cool the machine, or set a frequency that it can keep",
            ));
        }
        warnings.extend(stepped(clock::wall_ns().wrapping_sub(self.wall_ns), elapsed_ns));
        if let Some(directory) = &self.directory
            && let Ok(space) = file::free_space(directory)
        {
            warnings.extend(nearly_full(directory, space.available, space.total));
        }
        if let Some(mut messages) = self.messages {
            let names: Vec<String> = devices.iter().copied().filter_map(name).collect();
            warnings.extend(complaints(&new_messages(&mut messages), &names));
        }
        warnings
    }
}

fn warning(code: &str, message: String, advice: &str) -> Warning {
    Warning { code: code.to_owned(), message, advice: advice.to_owned() }
}

fn cpu_times() -> Option<SystemCpuTimes> {
    SystemCpu::open().and_then(|cpu| cpu.read()).ok()
}

fn stolen(steal_ns: u64, elapsed_ns: u64, cpu_count: usize) -> Option<Warning> {
    let share = steal_ns as f64 / (elapsed_ns.max(1) as f64 * cpu_count.max(1) as f64);
    (share >= STOLEN_SHARE).then(|| {
        warning(
            "processor-stolen",
            format!(
                "other guests of this host took {:.0} % of the processors' time",
                share * 100.0
            ),
            "measure on a host of your own, or take more trials",
        )
    })
}

fn stepped(wall_ns: u64, elapsed_ns: u64) -> Option<Warning> {
    // As signed: the clock may have been set back behind the beginning.
    let step_ns = (wall_ns as i64).wrapping_sub(elapsed_ns as i64);
    (step_ns.unsigned_abs() >= STEP_NS).then(|| {
        let way = if step_ns < 0 { "back" } else { "forward" };
        let by = units::human_duration(step_ns.unsigned_abs());
        warning(
            "clock-stepped",
            format!("the clock was set {way} by {by}; times measured are of another clock"),
            "none is needed; dates of records are off",
        )
    })
}

fn nearly_full(directory: &Path, available: u64, total: u64) -> Option<Warning> {
    let is_short = available < FREE_BYTES && (available as f64) < total as f64 * FREE_SHARE;
    is_short.then(|| {
        let free = units::human_bytes(available);
        warning(
            "host-disk-nearly-full",
            format!(
                "{} has {free} left: a filesystem that is almost full is slower",
                directory.display()
            ),
            "free some space, or choose another --dir",
        )
    })
}

/// How often the processors were slowed down by heat since boot; 0 where nobody counts.
fn throttled(cpus: &Path) -> u64 {
    let count = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("thermal_throttle/core_throttle_count"));
        text.ok()?.trim().parse::<u64>().ok()
    };
    fs::read_dir(cpus).into_iter().flatten().flatten().filter_map(count).sum()
}

/// The kernel's messages from now on; `None` where they may not be read.
fn end_of_messages() -> Option<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut log = OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg").ok()?;
    log.seek(SeekFrom::End(0)).ok()?;
    Some(log)
}

fn new_messages(log: &mut File) -> Vec<String> {
    let mut messages = Vec::new();
    let mut record = [0; 8192];
    loop {
        match log.read(&mut record) {
            Ok(0) => return messages,
            Ok(count) => messages.push(String::from_utf8_lossy(&record[..count]).into_owned()),
            // Some were overwritten before they were read.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
            Err(_) => return messages,
        }
    }
}

/// Name of a device as messages of the kernel have it.
fn name(device: DeviceNumber) -> Option<String> {
    let link = fs::read_link(format!("/sys/dev/block/{}:{}", device.major, device.minor)).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// A warning with the records of `/dev/kmsg` that tell of an error on one of `devices`, or of a bug in
/// the kernel. Form: `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT` (Documentation/ABI/testing/dev-kmsg).
fn complaints(records: &[String], devices: &[String]) -> Option<Warning> {
    let all: Vec<&str> = records
        .iter()
        .filter_map(|record| {
            let (head, text) = record.split_once(';')?;
            let priority: u32 = head.split(',').next()?.parse().ok()?;
            let text = text.lines().next()?;
            let of_kernel = priority >> 3 == 0;
            let is_error =
                priority & 7 <= ERROR_LEVEL && devices.iter().any(|name| names(text, name));
            let is_bug = ["WARNING: ", "BUG: ", "Oops", "Kernel panic"]
                .iter()
                .any(|word| text.starts_with(word));
            (of_kernel && (is_error || is_bug)).then_some(text)
        })
        .collect();
    let told = all.get(..all.len().min(MOST_MESSAGES)).filter(|told| !told.is_empty())?;
    let mut message = format!("the kernel complained: {}", told.join("; "));
    if all.len() > told.len() {
        message.push_str(&format!("; and {} more", all.len() - told.len()));
    }
    Some(warning("kernel-complained", message, "look at dmesg; do not rely on this trial"))
}

/// Whether `text` has `name` as a whole word: `loop1` is no part of `loop12`.
fn names(text: &str, name: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-' && letter != '_')
        .any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all_processors() {
        assert_eq!(stolen(90_000_000, 1_000_000_000, 2), None);
        let told = stolen(300_000_000, 1_000_000_000, 2).unwrap();
        assert!(told.message.contains("15 %"), "{}", told.message);
        assert_eq!(stolen(0, 0, 0), None);
    }

    #[test]
    fn a_clock_may_be_set_both_ways() {
        assert_eq!(stepped(10_100_000_000, 10_000_000_000), None);
        let told = |wall: u64| stepped(wall, 10_000_000_000).unwrap().message;
        assert!(told(3_610_000_000_000).contains("forward by"), "{}", told(3_610_000_000_000));
        assert!(told(5_000_000_000).contains("back by"));
        assert!(told(0u64.wrapping_sub(3_600_000_000_000)).contains("back by"));
    }

    #[test]
    fn little_space_on_a_large_disk_is_enough() {
        let of = |available, total| nearly_full(Path::new("/srv"), available, total).is_some();
        assert!(of(1 << 30, 100 << 30));
        assert!(!of(10 << 30, 100 << 30));
        assert!(!of(30 << 30, 1 << 50));
    }

    #[test]
    fn messages_are_told_that_concern_the_target() {
        let records = [
            "3,1,10,-;I/O error, dev loop1, sector 8 op 0x1:(WRITE)\n SUBSYSTEM=block\n",
            "3,2,11,-;I/O error, dev loop12, sector 8",
            "6,3,12,-;EXT4-fs (loop1): mounted filesystem",
            "2,4,13,-;EXT4-fs error (device loop1): ext4_find_entry:1455: inode #2",
            "4,5,14,-;WARNING: CPU: 1 PID: 7 at fs/iomap/buffered-io.c:1",
            "11,6,15,-;loop1 says a program of the user's",
            "nonsense",
            ";",
        ];
        let records = records.map(str::to_owned);
        let told = complaints(&records, &["loop1".to_owned()]).unwrap().message;
        for (part, is_told) in [
            ("sector 8 op", true),
            ("loop12", false),
            ("mounted", false),
            ("ext4_find_entry", true),
            ("WARNING", true),
            ("a program", false),
        ] {
            assert_eq!(told.contains(part), is_told, "{part}: {told}");
        }
        assert_eq!(complaints(&records[1..3], &["loop1".to_owned()]), None);
        let many = vec![records[0].clone(); 9];
        let told = complaints(&many, &["loop1".to_owned()]).unwrap().message;
        assert!(told.ends_with("and 4 more"), "{told}");
    }

    #[test]
    fn slowing_down_is_counted_over_all_processors() {
        let cpus = tempfile::tempdir().unwrap();
        for (cpu, count) in [("cpu0", "3\n"), ("cpu1", "4\n"), ("cpufreq", "no number")] {
            let place = cpus.path().join(cpu).join("thermal_throttle");
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("core_throttle_count"), count).unwrap();
        }
        assert_eq!(throttled(cpus.path()), 7);
        assert_eq!(throttled(Path::new("/nonexistent")), 0);
    }
}
