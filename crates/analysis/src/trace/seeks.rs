//! Seeks over time. A seek is a gap of more than 128 sectors, either way, between the end of one dispatch
//! and the begin of the next on the same device, as seekwatcher and iowatcher define it.

use super::bins::Bins;
use super::pass::{Dispatch, Pass};

/// A gap up to this many sectors is no seek.
const NEAR_SECTORS: u64 = 128;

/// Where the last dispatch of each device ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Heads {
    ends: Vec<Option<u64>>,
}

impl Heads {
    /// Whether a dispatch is a seek, and whether it begins where the one before ended. The first of a
    /// device is neither.
    #[inline]
    pub fn move_to(&mut self, device: u8, sector: u64, sectors: u32) -> (bool, bool) {
        let index = usize::from(device);
        if index >= self.ends.len() {
            self.ends.resize(index + 1, None);
        }
        let before = self.ends[index].replace(sector.saturating_add(u64::from(sectors)));
        before.map_or((false, false), |end| (end.abs_diff(sector) > NEAR_SECTORS, end == sector))
    }
}

/// Seeks over time.
#[derive(Debug, Clone, Default)]
pub(super) struct Seeks {
    /// By bin.
    pub bins: Bins<u64>,
}

impl Pass for Seeks {
    #[inline]
    fn dispatch(&mut self, dispatch: &Dispatch) {
        if dispatch.is_seek {
            *self.bins.at(dispatch.bin) += 1;
        }
    }

    fn fold(&mut self) {
        self.bins.fold();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_of_more_than_128_sectors_are_seeks() {
        let mut heads = Heads::default();
        for (device, sector, expected) in [
            (0, 1000, (false, false)),
            (0, 1008, (false, true)),
            (0, 1016 + 128, (false, false)),
            (0, 1152 + 129, (true, false)),
            (1, 0, (false, false)),
            (0, 1289 - 128, (false, false)),
            (0, 0, (true, false)),
        ] {
            assert_eq!(heads.move_to(device, sector, 8), expected, "{device} {sector}");
        }
    }
}
