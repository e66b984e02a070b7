//! Requests at the device over time: the mean of each bin, weighted by time.

use super::bins::{Axis, Bins};

/// Depth times nanoseconds, by bin.
#[derive(Debug, Clone, Default)]
pub(super) struct Depth {
    /// By bin.
    pub areas: Bins<u64>,
}

impl Depth {
    /// The depth was `depth` from one time to another, both since the start of the axis. What lies in
    /// the future of the last event is not asked for.
    #[inline]
    pub fn hold(&mut self, axis: &Axis, from_ns: u64, to_ns: u64, depth: u64) {
        if depth == 0 || to_ns <= from_ns {
            return;
        }
        let (first, last) = (axis.bin(from_ns), axis.bin(to_ns));
        if first == last {
            let area = self.areas.at(first);
            *area = area.saturating_add(depth.saturating_mul(to_ns - from_ns));
            return;
        }
        let mut begin_ns = from_ns;
        for bin in first..=last {
            let next_ns = u64::try_from((bin as u128 + 1) << axis.shift).unwrap_or(u64::MAX);
            let end_ns = to_ns.min(next_ns);
            let area = self.areas.at(bin);
            *area = area.saturating_add(depth.saturating_mul(end_ns - begin_ns));
            begin_ns = end_ns;
        }
    }

    /// Two neighbouring bins become one.
    pub fn fold(&mut self) {
        self.areas.fold();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared_among_bins() {
        let mut depth = Depth::default();
        let axis = Axis { shift: 4, limit: 8 };
        depth.hold(&axis, 8, 40, 3);
        assert_eq!(depth.areas.values(), [24, 48, 24]);
        depth.hold(&axis, 40, 40, 3);
        depth.hold(&axis, 41, 42, 0);
        depth.hold(&axis, 46, 48, 1);
        // A time on the edge belongs to the bin that begins there, with nothing in it yet.
        assert_eq!(depth.areas.values(), [24, 48, 26, 0]);
    }
}
