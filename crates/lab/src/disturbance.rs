//! What went on around a trial and may have bent its figures: time that a hypervisor gave to others,
//! processors slowed down by heat, what other processes read and wrote, a clock that was set, errors of the
//! kernel, a host disk that is almost full. Each is a warning of its trial, which is marked by it and never dropped.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_model::record::Warning;
use fsdyno_model::units;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::clock::ClockWatch;
use fsdyno_sys::cpu::{SystemCpu, SystemCpuTimes};
use fsdyno_sys::process_io::{NamedIo, ProcessIo};
use fsdyno_sys::{clock, file, kernel};

use crate::aftermath::{self, Aftermath};
use crate::kernel_log::{self, KernelLog};

/// Share of all processors' time from which on stolen time is told.
const STOLEN_SHARE: f64 = 0.05;
/// Step of the clock that is told, in nanoseconds; a clock that is slewed moves less in any trial.
const STEP_NS: u64 = 500_000_000;
/// Share of the host's disk that should be free, and bytes that are enough however large it is.
const FREE_SHARE: f64 = 0.05;
const FREE_BYTES: u64 = 20 << 30;
/// What others read and wrote is told from this share of what the trial itself moved on, and from so many
/// bytes on.
const OTHERS_SHARE: f64 = 0.1;
const OTHERS_BYTES: u64 = 16 << 20;

/// What is known of the machine since a trial began.
#[derive(Debug)]
pub struct Watch {
    directory: Option<PathBuf>,
    wall_ns: u64,
    monotonic_ns: u64,
    stolen: Stolen,
    throttled: u64,
    others: Option<ProcessIo>,
    clock: Option<ClockWatch>,
    kills: u64,
    log: KernelLog,
}

impl Watch {
    /// Begins to watch; `directory` is where the target takes its space from, where that is a filesystem.
    #[must_use]
    pub fn begin(directory: Option<&Path>) -> Watch {
        Watch {
            directory: directory.map(Path::to_owned),
            wall_ns: clock::wall_ns(),
            monotonic_ns: clock::now_ns(),
            stolen: Stolen::from_now(),
            throttled: throttled(Path::new("/sys/devices/system/cpu")),
            others: ProcessIo::now(),
            clock: ClockWatch::begin(),
            kills: aftermath::kills_since_boot(),
            log: KernelLog::from_now(),
        }
    }

    /// What lies behind the failure of a trial, should it have failed; `condition` is what the mount table
    /// said of its filesystem, which was on `devices`.
    pub fn aftermath(&mut self, devices: &[DeviceNumber], condition: Option<&str>) -> Aftermath {
        let names = names(devices);
        let kills = aftermath::kills_since_boot().saturating_sub(self.kills);
        Aftermath::of(self.log.records(), &names, condition, kills)
    }

    /// The place that the target takes its space from is not looked at any more: it may not answer.
    pub fn forget_directory(&mut self) {
        self.directory = None;
    }

    /// Everything that disturbed since then; the target was on `devices`, which moved `own_bytes` for the
    /// phases.
    #[must_use]
    pub fn end(mut self, devices: &[DeviceNumber], own_bytes: u64) -> Vec<Warning> {
        let elapsed_ns = clock::now_ns().saturating_sub(self.monotonic_ns);
        let mut warnings = Vec::new();
        warnings.extend(self.stolen.share().and_then(stolen));
        let slowed = throttled(Path::new("/sys/devices/system/cpu"));
        if slowed > self.throttled {
            let times = slowed - self.throttled;
            warnings.push(warning(
                "processor-throttled",
                format!("processors were slowed down by their heat {times} times"),
                "cool the machine, or set a frequency that it can keep",
            ));
        }
        if let (Some(before), Some(now)) = (self.others.take(), ProcessIo::now()) {
            warnings.extend(others(&now.since(&before), own_bytes));
        }
        let was_set = self.clock.as_ref().is_some_and(ClockWatch::was_set);
        let wall_ns = clock::wall_ns().wrapping_sub(self.wall_ns);
        warnings.extend(stepped(wall_ns, elapsed_ns, was_set));
        if let Some(directory) = &self.directory
            && let Ok(space) = file::free_space(directory)
        {
            warnings.extend(nearly_full(directory, space.available, space.total));
        }
        if let Some(killed) = self.aftermath(devices, None).all_killed() {
            warnings.push(warning(
                "out-of-memory",
                format!("the kernel killed {killed} for want of memory"),
                "look whether it was part of the work; do not rely on this trial",
            ));
        }
        warnings.extend(kernel_log::complaints(self.log.records(), &names(devices)));
        warnings
    }
}

fn names(devices: &[DeviceNumber]) -> Vec<String> {
    devices.iter().copied().filter_map(kernel_log::device_name).collect()
}

fn warning(code: &str, message: String, advice: &str) -> Warning {
    Warning { code: code.to_owned(), message, advice: advice.to_owned() }
}

fn cpu_times() -> Option<SystemCpuTimes> {
    SystemCpu::open().and_then(|cpu| cpu.read()).ok()
}

/// The time that other guests of this host take from its processors, from some moment on.
#[derive(Debug)]
pub struct Stolen {
    cpu: Option<SystemCpuTimes>,
    began_ns: u64,
}

impl Stolen {
    /// From now on.
    #[must_use]
    pub fn from_now() -> Stolen {
        Stolen { cpu: cpu_times(), began_ns: clock::now_ns() }
    }

    /// The share of the processors' time since then; `None` where the kernel does not tell.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let elapsed_ns = clock::now_ns().saturating_sub(self.began_ns);
        let (before, now) = (self.cpu.as_ref()?, cpu_times()?);
        let all_ns = elapsed_ns.max(1) as f64 * kernel::cpu_count().max(1) as f64;
        Some(now.since(before).steal_ns as f64 / all_ns)
    }
}

fn stolen(share: f64) -> Option<Warning> {
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

fn others(all: &[NamedIo], own_bytes: u64) -> Option<Warning> {
    let bytes: u64 = all.iter().map(|one| one.bytes).sum();
    let largest = all
        .first()
        .filter(|_| bytes >= OTHERS_BYTES && bytes as f64 >= own_bytes as f64 * OTHERS_SHARE)?;
    let [moved, own, most] = [bytes, own_bytes, largest.bytes].map(units::human_bytes);
    Some(warning(
        "other-input-output",
        format!(
            "other processes read and wrote {moved} meanwhile, most of it {} ({most}); the trial itself moved {own}",
            largest.name
        ),
        "stop what else uses the disk, or measure at another time",
    ))
}

/// `was_set` where the kernel said so: it may have been set back again since.
fn stepped(wall_ns: u64, elapsed_ns: u64, was_set: bool) -> Option<Warning> {
    const ADVICE: &str = "none is needed; dates of records are off";
    // As signed: the clock may have been set back behind the beginning.
    let step_ns = (wall_ns as i64).wrapping_sub(elapsed_ns as i64);
    if step_ns.unsigned_abs() < STEP_NS {
        let message = "the clock was set, by less than half a second in all; times measured are of another clock";
        return was_set.then(|| warning("clock-stepped", message.to_owned(), ADVICE));
    }
    Some({
        let way = if step_ns < 0 { "back" } else { "forward" };
        let by = units::human_duration(step_ns.unsigned_abs());
        warning(
            "clock-stepped",
            format!("the clock was set {way} by {by}; times measured are of another clock"),
            ADVICE,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_moved_is_told_beside_what_the_trial_moved() {
        let io = |name: &str, bytes| NamedIo { name: name.to_owned(), bytes };
        let all = [io("cargo", 48 << 20), io("sh", 16 << 20)];
        assert_eq!(others(&all, 1 << 30), None, "a sixteenth");
        let told = others(&all, 512 << 20).unwrap();
        for words in ["64 MiB", "cargo (48 MiB)", "512 MiB"] {
            assert!(told.message.replace(".0", "").contains(words), "{}", told.message);
        }
        assert_eq!(others(&[io("sh", OTHERS_BYTES - 1)], 0), None);
        assert_eq!(others(&[], 0), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_processors() {
        assert_eq!(stolen(0.045), None);
        let told = stolen(0.15).unwrap();
        assert!(told.message.contains("15 %"), "{}", told.message);
    }

    #[test]
    fn a_clock_may_be_set_both_ways() {
        assert_eq!(stepped(10_100_000_000, 10_000_000_000, false), None);
        let told = |wall: u64| stepped(wall, 10_000_000_000, true).unwrap().message;
        assert!(told(10_000_000_000).contains("in all"), "{}", told(10_000_000_000));
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
