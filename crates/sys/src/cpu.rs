//! Processor time: of this process, of its children, of any one process, and of the whole machine by
//! kind. What the kernel's own threads burnt is in [`crate::kthreads`], what all processes burnt in
//! [`crate::process_times`].

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Result, SysError};
use crate::idle_loop;

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

/// This process with all its threads but those that [`charge_harness`], and the children that have
/// ended and been waited for.
pub fn application_times() -> ProcessTimes {
    let (own, children) = (own_times(), children_times());
    ProcessTimes {
        user_ns: own.user_ns + children.user_ns,
        system_ns: own.system_ns + children.system_ns,
    }
}

/// This process, all its threads but those that [`charge_harness`].
pub fn own_times() -> ProcessTimes {
    self_times().since(&harness_times())
}

static HARNESS_USER_NS: AtomicU64 = AtomicU64::new(0);
static HARNESS_SYSTEM_NS: AtomicU64 = AtomicU64::new(0);

/// What the threads of this process burnt that measure and tell, as far as they have said.
pub fn harness_times() -> ProcessTimes {
    ProcessTimes {
        user_ns: HARNESS_USER_NS.load(Ordering::Relaxed),
        system_ns: HARNESS_SYSTEM_NS.load(Ordering::Relaxed),
    }
}

/// Says that what the calling thread burnt since `charged` belongs to [`harness_times`] and not to
/// [`application_times`]; `charged` begins as the default and is kept by the thread.
pub fn charge_harness(charged: &mut ProcessTimes) {
    let now = times_of(&usage(libc::RUSAGE_THREAD));
    let burnt = now.since(charged);
    HARNESS_USER_NS.fetch_add(burnt.user_ns, Ordering::Relaxed);
    HARNESS_SYSTEM_NS.fetch_add(burnt.system_ns, Ordering::Relaxed);
    *charged = now;
}

/// What the process `pid` has burnt, all its threads, those that have ended included: its
/// processor-time clock, in nanoseconds. `None` where there is no such process; a thread that leads no
/// process is none. Works for every process and for kernel threads, without any right.
pub fn process_clock_ns(pid: u32) -> Option<u64> {
    // The kernel's number for the scheduler's clock of a process, as in clock_getcpuclockid(3).
    const SCHEDULER_CLOCK: libc::clockid_t = 2;
    let pid = libc::clockid_t::try_from(pid).ok().filter(|pid| *pid > 0 && *pid < 1 << 28)?;
    let clock = (!pid << 3) | SCHEDULER_CLOCK;
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is valid for one `timespec`; an unknown clock is an error, not undefined.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: all-zero bytes are a valid `timespec`, and the call has filled it in.
    let time = unsafe { time.assume_init() };
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
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

    /// Whether the kernel times interrupt handlers, as of these counts since boot. Where it does, that
    /// time is in no task's. Where it does not, a tick that finds deferred interrupt work under way is
    /// counted as such, no tick can find a handler (`irq_ns` stays 0), and the time is contained in
    /// that of the tasks that were interrupted.
    pub fn interrupts_are_apart(&self) -> bool {
        self.irq_ns > 0
    }

    /// With the time of an [`idle_loop`], which is the only one of low priority, as that of an idle processor.
    fn with_idle_loop(self, loop_ns: Option<u64>) -> Self {
        match loop_ns {
            Some(loop_ns) => Self { nice_ns: 0, idle_ns: self.idle_ns + loop_ns, ..self },
            None => self,
        }
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
            .map(|times| times.with_idle_loop(idle_loop::idle_ns()))
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
    fn a_thread_of_the_harness_is_not_the_application() {
        let (harness, own) = (harness_times(), own_times());
        let all = self_times();
        std::thread::spawn(|| {
            let mut charged = ProcessTimes::default();
            burn(Duration::from_millis(100));
            charge_harness(&mut charged);
            charge_harness(&mut charged);
        })
        .join()
        .unwrap();
        let harness = harness_times().since(&harness);
        let (own, all) = (own_times().since(&own), self_times().since(&all));
        let sum = |times: ProcessTimes| times.user_ns + times.system_ns;
        assert!(sum(harness) > 10_000_000, "{harness:?}");
        // What other tests burn at the same time is in both.
        assert!(sum(own) + sum(harness) <= sum(all) + 1_000_000, "{own:?} {harness:?} {all:?}");
    }

    #[test]
    fn any_process_has_a_clock() {
        let own = process_clock_ns(std::process::id()).unwrap();
        burn(Duration::from_millis(30));
        let later = process_clock_ns(std::process::id()).unwrap();
        assert!(later - own > 2_000_000, "{own} {later}");
        for pid in [0, u32::MAX, i32::MAX as u32] {
            assert_eq!(process_clock_ns(pid), None, "{pid}");
        }
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
