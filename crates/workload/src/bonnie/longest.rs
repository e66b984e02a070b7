//! The longest iteration of a loop: the only latency that the original tells. The latencies of single
//! calls are left to [`crate::recorder`].

use fsdyno_sys::clock::Timer;

/// Keeps the longest of many intervals, each of which begins where the one before ended.
#[derive(Debug)]
pub struct Longest {
    timer: Timer,
    since: u64,
    ticks: u64,
}

impl Longest {
    /// The first interval begins now.
    #[must_use]
    pub fn new() -> Longest {
        let timer = Timer::new();
        Longest { timer, since: timer.now(), ticks: 0 }
    }

    /// Says that the next interval begins now. Needed only after something that is not to be counted.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.since = self.timer.now();
    }

    /// Says that an interval ended now; the next one begins now.
    #[inline(always)]
    pub fn end(&mut self) {
        let now = self.timer.now();
        self.ticks = self.ticks.max(now.saturating_sub(self.since));
        self.since = now;
    }

    /// The longest so far, in nanoseconds.
    #[must_use]
    pub fn longest_ns(&self) -> u64 {
        self.timer.elapsed_ns(self.ticks)
    }
}

impl Default for Longest {
    fn default() -> Longest {
        Longest::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_longest_is_kept_and_what_is_left_out_does_not_count() {
        let mut longest = Longest::new();
        for milliseconds in [1, 5, 2] {
            std::thread::sleep(Duration::from_millis(milliseconds));
            longest.end();
        }
        let kept = longest.longest_ns();
        assert!(kept >= 4_900_000, "{kept}");
        std::thread::sleep(Duration::from_nanos(kept + 1_000_000));
        longest.begin();
        longest.end();
        assert_eq!(longest.longest_ns(), kept);
    }
}
