//! Values over time in a bounded number of bins: where the trace outgrows them, two neighbours become one.

/// What can be folded into its neighbour.
pub(super) trait Fold: Default + Clone {
    /// Takes in what the next bin holds.
    fn fold(&mut self, next: &Self);
}

impl Fold for u64 {
    fn fold(&mut self, next: &u64) {
        *self = self.saturating_add(*next);
    }
}

/// Width of a bin of 2^16 ns, about 66 µs: shorter than what a series of a short trace can show.
const FIRST_SHIFT: u32 = 16;
/// Bins are never wider than this, so that no shift overflows; 2^62 ns are 146 years.
const LAST_SHIFT: u32 = 62;

/// Where the bins lie: all passes share one axis, and fold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    /// Width of a bin: 2^shift nanoseconds.
    pub shift: u32,
    /// Most bins; even.
    pub limit: usize,
}

impl Axis {
    /// An axis of at most `limit` bins.
    pub fn new(limit: u32) -> Axis {
        Axis { shift: FIRST_SHIFT, limit: (limit.max(2) as usize).next_multiple_of(2) }
    }

    /// Width of a bin in nanoseconds.
    pub fn bin_ns(&self) -> u64 {
        1 << self.shift
    }

    /// The bin of a time since the start of the axis; it may lie beyond the last one.
    #[inline]
    pub fn bin(&self, since_start_ns: u64) -> usize {
        usize::try_from(since_start_ns >> self.shift).unwrap_or(usize::MAX)
    }

    /// Whether wider bins are needed for this bin, and possible.
    #[inline]
    pub fn is_beyond(&self, bin: usize) -> bool {
        bin >= self.limit && self.shift < LAST_SHIFT
    }
}

/// The bins of one figure.
#[derive(Debug, Clone, Default)]
pub(super) struct Bins<T> {
    values: Vec<T>,
}

impl<T: Fold> Bins<T> {
    /// The value of a bin that lies on the axis.
    #[inline]
    pub fn at(&mut self, bin: usize) -> &mut T {
        if bin >= self.values.len() {
            self.values.resize(bin + 1, T::default());
        }
        &mut self.values[bin]
    }

    /// Two neighbours become one.
    pub fn fold(&mut self) {
        let count = self.values.len();
        for index in 0..count.div_ceil(2) {
            let mut value = std::mem::take(&mut self.values[2 * index]);
            if let Some(next) = self.values.get(2 * index + 1) {
                value.fold(next);
            }
            self.values[index] = value;
        }
        self.values.truncate(count.div_ceil(2));
    }

    /// The values so far; bins after the last that was touched are missing.
    pub fn values(&self) -> &[T] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_the_sum() {
        for count in 0..9 {
            let mut bins = Bins::default();
            (0..count).for_each(|bin| *bins.at(bin) = bin as u64 + 1);
            let sum: u64 = bins.values().iter().sum();
            bins.fold();
            assert_eq!(bins.values().len(), count.div_ceil(2));
            assert_eq!(bins.values().iter().sum::<u64>(), sum);
        }
    }

    #[test]
    fn any_time_finds_a_bin() {
        let mut axis = Axis::new(1000);
        for time in [0, 65_535, 65_536, 1 << 40, u64::MAX] {
            while axis.is_beyond(axis.bin(time)) {
                axis.shift += 1;
            }
            assert!(axis.bin(time) < axis.limit, "{time}");
        }
    }
}
