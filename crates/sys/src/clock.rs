//! Clocks: monotonic and wall time in nanoseconds, and [`Timer`], the cheap clock read around every
//! timed operation. It leaves what is timed, and how samples are kept, to its callers.

use std::fs;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Duration;

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// `CLOCK_MONOTONIC` in nanoseconds since an arbitrary point; it never goes back.
#[inline]
pub fn now_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// `CLOCK_REALTIME` in nanoseconds since 1970-01-01 UTC; it jumps when the clock is set.
pub fn wall_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Realtime))
}

/// The part of time that `Timespec` can hold before 1970 is read as 0.
#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Tells whether the wall clock was set, to whatever and how often, since [`ClockWatch::begin`]: by a timer
/// of the kernel's that is cancelled then (`TFD_TIMER_CANCEL_ON_SET`).
#[derive(Debug)]
pub struct ClockWatch(OwnedFd);

impl ClockWatch {
    /// Begins to watch; `None` where the kernel has no such timers.
    #[must_use]
    pub fn begin() -> Option<ClockWatch> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags).ok()?;
        let never = Timespec { tv_sec: i64::from(i32::MAX) * 64, tv_nsec: 0 };
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, flags, &Itimerspec { it_interval: once, it_value: never }).ok()?;
        Some(ClockWatch(timer))
    }

    /// Whether it was set since then. Asked again, it tells what happened since it was last asked.
    #[must_use]
    pub fn was_set(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]) == Err(Errno::CANCELED)
    }
}

/// What a [`Timer`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerSource {
    /// The processor's time-stamp counter, scaled to nanoseconds of `CLOCK_MONOTONIC`.
    Tsc,
    /// `CLOCK_MONOTONIC` itself.
    Monotonic,
}

impl TimerSource {
    /// `tsc` or `clock_monotonic`, as written in a record.
    pub fn name(self) -> &'static str {
        match self {
            TimerSource::Tsc => "tsc",
            TimerSource::Monotonic => "clock_monotonic",
        }
    }
}

/// The clock read around each timed operation.
///
/// A tick is one count of the chosen source; only differences mean anything. The time-stamp counter
/// is used where the kernel itself keeps time by it and it neither changes rate nor stops; otherwise
/// ticks are nanoseconds of `CLOCK_MONOTONIC`. Reads are not serialised: next to a system call, which
/// is what they stand around, the few nanoseconds of reordering vanish.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    source: TimerSource,
    /// Nanoseconds per tick, as a fixed-point number with 32 fractional bits.
    scale: u64,
}

const FRACTION_BITS: u32 = 32;
/// How long the counter is compared with the clock; each end is known to some tens of nanoseconds,
/// so that the rate is good to about one part in a million.
const CALIBRATION: Duration = Duration::from_millis(40);
/// Halves of the calibration that disagree by more than this mean an unusable counter.
const CALIBRATION_DISAGREEMENT: f64 = 1e-3;

impl Default for Timer {
    fn default() -> Self {
        Self::new()
    }
}

impl Timer {
    /// The best timer of this machine. The first call in a process calibrates for about 40 ms.
    pub fn new() -> Self {
        static BEST: OnceLock<Timer> = OnceLock::new();
        *BEST.get_or_init(|| Self::tsc().unwrap_or_else(Self::monotonic))
    }

    /// A timer that reads `CLOCK_MONOTONIC`, whatever else is there.
    pub fn monotonic() -> Self {
        Self { source: TimerSource::Monotonic, scale: 1 << FRACTION_BITS }
    }

    /// A calibrated timer on the time-stamp counter, or `None` where it cannot be trusted.
    fn tsc() -> Option<Self> {
        let clocksource =
            fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .ok()?;
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok()?;
        if !tsc_is_trustworthy(&clocksource, &cpuinfo) {
            return None;
        }
        let scale = scale_of(calibrate()?)?;
        Some(Self { source: TimerSource::Tsc, scale })
    }

    /// What is read.
    pub fn source(&self) -> TimerSource {
        self.source
    }

    /// The current tick count.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        match self.source {
            TimerSource::Tsc => read_tsc(),
            TimerSource::Monotonic => now_ns(),
        }
    }

    /// Nanoseconds in `ticks`, a difference of two readings of [`Timer::now`].
    #[inline(always)]
    pub fn elapsed_ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> FRACTION_BITS) as u64
    }

    /// Nanoseconds from `start` to `end`; 0 if a migration between processors made them go backwards.
    #[inline(always)]
    pub fn between_ns(&self, start: u64, end: u64) -> u64 {
        self.elapsed_ns(end.saturating_sub(start))
    }

    /// What one reading costs, in nanoseconds: the best of several batches, so that interruptions do
    /// not count. Takes well under a millisecond.
    pub fn cost_ns(&self) -> f64 {
        const READS: u32 = 2000;
        (0..9)
            .map(|_| {
                let start = now_ns();
                for _ in 0..READS {
                    black_box(self.now());
                }
                now_ns().saturating_sub(start) as f64 / f64::from(READS)
            })
            .fold(f64::INFINITY, f64::min)
    }
}

/// True where the kernel's own clock is the time-stamp counter and every processor states that the
/// counter has a constant rate and does not stop. Pure: takes the two files' text.
fn tsc_is_trustworthy(current_clocksource: &str, cpuinfo: &str) -> bool {
    let mut flags_lines = cpuinfo.lines().filter(|line| line.starts_with("flags")).peekable();
    cfg!(target_arch = "x86_64")
        && current_clocksource.trim() == "tsc"
        && flags_lines.peek().is_some()
        && flags_lines.all(|line| {
            ["constant_tsc", "nonstop_tsc"]
                .iter()
                .all(|flag| line.split_whitespace().any(|word| word == *flag))
        })
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn read_tsc() -> u64 {
    // SAFETY: `rdtsc` reads a register and has no other effect. Where the kernel forbids it to user
    // space it traps; the kernel does so only on request of the process (PR_SET_TSC), never made here.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn read_tsc() -> u64 {
    now_ns()
}

/// Nanoseconds of `CLOCK_MONOTONIC` per tick, or `None` where two successive measurements disagree.
fn calibrate() -> Option<f64> {
    let first = paired_reading();
    std::thread::sleep(CALIBRATION / 2);
    let second = paired_reading();
    std::thread::sleep(CALIBRATION / 2);
    let third = paired_reading();
    let halves = [rate(first, second)?, rate(second, third)?];
    let whole = rate(first, third)?;
    ((halves[0] / halves[1] - 1.0).abs() < CALIBRATION_DISAGREEMENT).then_some(whole)
}

fn rate(start: (u64, u64), end: (u64, u64)) -> Option<f64> {
    let ticks = end.0.checked_sub(start.0).filter(|&ticks| ticks > 0)?;
    let ns = end.1.checked_sub(start.1).filter(|&ns| ns > 0)?;
    Some(ns as f64 / ticks as f64)
}

/// The counter and the clock at the same instant: of many attempts, the one whose two counter
/// readings lie closest around the clock reading.
fn paired_reading() -> (u64, u64) {
    (0..64)
        .map(|_| {
            let before = read_tsc();
            let clock = now_ns();
            let width = read_tsc().saturating_sub(before);
            (width, before + width / 2, clock)
        })
        .min()
        .map_or((0, 0), |(_, ticks, clock)| (ticks, clock))
}

/// Fixed-point nanoseconds per tick; `None` for a rate that no processor has.
fn scale_of(ns_per_tick: f64) -> Option<u64> {
    let plausible = ns_per_tick.is_finite() && ns_per_tick > 0.01 && ns_per_tick < 1000.0;
    plausible.then(|| (ns_per_tick * (1u64 << FRACTION_BITS) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_sets_is_not_told() {
        // Whether one that is set is told, a test of the whole program asks: setting it bothers others.
        let watch = ClockWatch::begin().expect("the kernel has such timers");
        assert!(!watch.was_set() && !watch.was_set());
    }

    #[test]
    fn clocks_advance_and_are_plausible() {
        let start = now_ns();
        assert!(now_ns() >= start);
        // 2020-01-01, in nanoseconds.
        assert!(wall_ns() > 1_577_836_800_000_000_000);
    }

    #[test]
    fn timer_agrees_with_the_monotonic_clock() {
        for timer in [Timer::new(), Timer::monotonic()] {
            // The best of several: a preemption between the paired readings would show as an error.
            let best = (0..10)
                .map(|_| {
                    let (tick, clock) = (timer.now(), now_ns());
                    std::thread::sleep(Duration::from_millis(20));
                    let (tick_end, clock_end) = (timer.now(), now_ns());
                    let ratio =
                        timer.between_ns(tick, tick_end) as f64 / (clock_end - clock) as f64;
                    (ratio - 1.0).abs()
                })
                .fold(f64::INFINITY, f64::min);
            println!(
                "{}: off by {best:.2e} over 20 ms, {:.1} ns per reading",
                timer.source().name(),
                timer.cost_ns()
            );
            assert!(
                best < 1e-3,
                "{} disagrees with CLOCK_MONOTONIC by {best}",
                timer.source().name()
            );
        }
    }

    #[test]
    fn reading_the_timer_costs_no_more_than_the_clock() {
        let (timer, clock) = (Timer::new().cost_ns(), Timer::monotonic().cost_ns());
        assert!(timer > 0.0 && timer <= clock * 1.25, "timer {timer} ns, clock {clock} ns");
    }

    #[test]
    fn elapsed_is_exact_for_nanosecond_ticks_and_never_negative() {
        let timer = Timer::monotonic();
        for ticks in [0, 1, 999, 1 << 40, u64::MAX] {
            assert_eq!(timer.elapsed_ns(ticks), ticks);
        }
        assert_eq!(timer.between_ns(10, 7), 0);
        let third = Timer { source: TimerSource::Tsc, scale: scale_of(1.0 / 3.0).unwrap() };
        assert!(third.elapsed_ns(3_000_000_000).abs_diff(1_000_000_000) <= 1);
    }

    #[test]
    fn the_counter_is_trusted_only_when_all_conditions_hold() {
        let good = "processor : 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n";
        assert_eq!(tsc_is_trustworthy("tsc\n", good), cfg!(target_arch = "x86_64"));
        for (clocksource, cpuinfo) in [
            ("hpet\n", good.to_owned()),
            ("tsc\n", "flags : fpu tsc constant_tsc\n".to_owned()),
            ("tsc\n", format!("{good}flags : fpu tsc\n")),
            ("tsc\n", String::new()),
            ("", good.to_owned()),
        ] {
            assert!(!tsc_is_trustworthy(clocksource, &cpuinfo), "{clocksource:?} {cpuinfo:?}");
        }
    }

    #[test]
    fn implausible_rates_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(scale_of(rate), None);
        }
        assert_eq!(rate((5, 5), (5, 9)), None);
        assert_eq!(rate((9, 9), (5, 9)), None);
    }
}
