//! Processor time: of this process, of its children, and of the whole machine by kind. What the
//! kernel's own threads burnt is in [`crate::kthreads`].

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Result, SysError};

/// Processor time of a process, in nanoseconds. The kernel samples or accounts it precisely,
/// depending on its configuration; the resolution is a microsecond at best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// In user space.
    pub user_ns: u64,
    /// In the kernel on behalf of the process.
    pub system_ns: u64,
}

impl ProcessTimes {
    /// What was burnt since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

/// This process, all its threads.
pub fn self_times() -> ProcessTimes {
    times_of(&usage(libc::RUSAGE_SELF))
}

/// The children, and theirs, that have ended and been waited for.
pub fn children_times() -> ProcessTimes {
    times_of(&usage(libc::RUSAGE_CHILDREN))
}

/// This process with all its threads, and the children that have ended and been waited for.
pub fn application_times() -> ProcessTimes {
    let (own, children) = (self_times(), children_times());
    ProcessTimes {
        user_ns: own.user_ns + children.user_ns,
        system_ns: own.system_ns + children.system_ns,
    }
}

/// `getrusage(2)`; also used for the peak resident size.
pub(crate) fn usage(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for one `rusage`, and all-zero bytes are a valid `rusage`, so that
    // the value may be read even if the call failed, which it cannot for these two arguments.
    unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn times_of(usage: &libc::rusage) -> ProcessTimes {
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ProcessTimes { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Cumulative processor time of the whole machine since boot, summed over its processors, in
/// nanoseconds. The source counts in ticks, usually of 10 ms: differences over less than some
/// seconds are coarse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SystemCpuTimes {
    /// User space, guests of a hypervisor included, without `nice_ns`.
    pub user_ns: u64,
    /// User space at lowered priority.
    pub nice_ns: u64,
    /// Kernel, interrupts not included.
    pub system_ns: u64,
    /// Idle, nothing waited for the disk.
    pub idle_ns: u64,
    /// Idle while a task of this processor waited for the disk. An estimate, says the kernel.
    pub iowait_ns: u64,
    /// Interrupt handlers.
    pub irq_ns: u64,
    /// Deferred interrupt work.
    pub softirq_ns: u64,
    /// Wanted to run, but the hypervisor ran somebody else.
    pub steal_ns: u64,
}

impl SystemCpuTimes {
    /// All time that a processor was at work here: user, nice, system and interrupts.
    pub fn busy_ns(&self) -> u64 {
        self.user_ns + self.nice_ns + self.system_ns + self.interrupts_ns()
    }

    /// Interrupt handlers and deferred interrupt work.
    pub fn interrupts_ns(&self) -> u64 {
        self.irq_ns + self.softirq_ns
    }

    /// What was burnt since `earlier`; a count that went back (`iowait` may) is 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            nice_ns: self.nice_ns.saturating_sub(earlier.nice_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            iowait_ns: self.iowait_ns.saturating_sub(earlier.iowait_ns),
            irq_ns: self.irq_ns.saturating_sub(earlier.irq_ns),
            softirq_ns: self.softirq_ns.saturating_sub(earlier.softirq_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
        }
    }
}

/// Reads [`SystemCpuTimes`] from a kept `/proc/stat`.
#[derive(Debug)]
pub struct SystemCpu {
    stat: File,
    tick_ns: u64,
}

impl SystemCpu {
    /// Opens `/proc/stat`.
    ///
    /// # Errors
    /// Where `/proc` is not mounted.
    pub fn open() -> Result<Self> {
        let path = Path::new("/proc/stat");
        let stat = File::open(path).map_err(|error| SysError::from_io("open", path, &error))?;
        Ok(Self { stat, tick_ns: tick_ns() })
    }

    /// The counts of this moment.
    ///
    /// # Errors
    /// Where the file cannot be read or has not the documented form.
    pub fn read(&self) -> Result<SystemCpuTimes> {
        let mut buffer = [0; 512];
        let count = self
            .stat
            .read_at(&mut buffer, 0)
            .map_err(|error| SysError::from_io("read", Path::new("/proc/stat"), &error))?;
        let text = String::from_utf8_lossy(&buffer[..count]);
        parse_stat(&text, self.tick_ns)
            .ok_or_else(|| SysError::malformed("/proc/stat", "no line \"cpu\" with counts"))
    }
}

/// Length of the tick in which `/proc` counts processor time, in nanoseconds.
pub(crate) fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The line of `/proc/stat` that sums all processors. Counts that old kernels lack are 0.
fn parse_stat(text: &str, tick_ns: u64) -> Option<SystemCpuTimes> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let mut counts =
        line.split_whitespace().map(|word| word.parse::<u64>().ok()?.checked_mul(tick_ns));
    let mut required = || counts.next().flatten();
    let (user_ns, nice_ns, system_ns, idle_ns) =
        (required()?, required()?, required()?, required()?);
    let mut optional = || required().unwrap_or(0);
    Some(SystemCpuTimes {
        user_ns,
        nice_ns,
        system_ns,
        idle_ns,
        iowait_ns: optional(),
        irq_ns: optional(),
        softirq_ns: optional(),
        steal_ns: optional(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    fn burn(wall: Duration) {
        let start = Instant::now();
        let mut sum = 0u64;
        while start.elapsed() < wall {
            for number in 0..1000u64 {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
    }

    #[test]
    fn stat_lines_are_parsed_with_and_without_late_fields() {
        let full = parse_stat("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 1 1 1\n", 10).unwrap();
        assert_eq!(full.user_ns, 100);
        assert_eq!((full.idle_ns, full.iowait_ns, full.steal_ns), (400, 500, 800));
        assert_eq!((full.interrupts_ns(), full.busy_ns()), (1300, 1900));
        let old = parse_stat("cpu 1 2 3 4", 1).unwrap();
        assert_eq!((old.system_ns, old.iowait_ns, old.steal_ns), (3, 0, 0));
    }

    #[test]
    fn broken_stat_lines_are_refused() {
        for text in [
            "",
            "cpu",
            "cpu ",
            "cpu  1 2 3",
            "cpu0 1 2 3 4",
            "cpu  1 x 3 4",
            "cpu  1 2 3 18446744073709551615",
        ] {
            assert_eq!(parse_stat(text, 10), None, "{text:?}");
        }
    }

    #[test]
    fn differences_never_go_below_zero() {
        let earlier = SystemCpuTimes { iowait_ns: 9, user_ns: 1, ..Default::default() };
        let later = SystemCpuTimes { iowait_ns: 7, user_ns: 4, ..Default::default() };
        assert_eq!(later.since(&earlier), SystemCpuTimes { user_ns: 3, ..Default::default() });
    }

    #[test]
    fn burning_shows_in_the_process_and_the_machine() {
        let machine = SystemCpu::open().unwrap();
        let (own, all) = (self_times(), machine.read().unwrap());
        burn(Duration::from_millis(120));
        let (own, all) = (self_times().since(&own), machine.read().unwrap().since(&all));
        assert!(own.user_ns > 10_000_000, "{own:?}");
        assert!(all.busy_ns() > 0, "{all:?}");
    }

    #[test]
    fn children_count_once_they_have_been_waited_for() {
        let before = children_times();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"]);
        assert!(shell.status().unwrap().success());
        let used = children_times().since(&before);
        assert!(used.user_ns + used.system_ns > 0);
    }
}
