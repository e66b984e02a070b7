//! Requests that are under way, found by device and sector: an open-addressing table that grows to a
//! bound and then forgets the oldest. What becomes of them is left to [`super::requests`].

use fsdyno_model::trace::Flags;

/// Most requests that are kept; of more the oldest are forgotten.
pub(super) const OUTSTANDING_MAX: usize = 1 << 16;

/// One request, or one bio that waits to become part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// First sector; [`u64::MAX`] without data, where the sector says nothing.
    pub sector: u64,
    /// When it came to where it is: queued or issued.
    pub since_ns: u64,
    /// When its first bio was queued, if that was seen.
    pub queued_ns: Option<u64>,
    pub device: u32,
    pub sectors: u32,
    pub flags: Flags,
    /// Who queued it, else who issued it: a slot of [`super::who::Who`].
    pub slot: u8,
}

/// An entry of the table. Order 0 stands for a vacant place.
#[derive(Debug, Clone, Copy)]
struct Place {
    order: u64,
    waiting: Waiting,
}

const VACANT: Place = Place {
    order: 0,
    waiting: Waiting {
        sector: 0,
        since_ns: 0,
        queued_ns: None,
        device: 0,
        sectors: 0,
        flags: Flags(0),
        slot: 0,
    },
};

/// The table. Linear probing with deletion by shifting back, so that equal keys keep their order.
#[derive(Debug, Clone)]
pub(super) struct Outstanding {
    places: Vec<Place>,
    len: usize,
    next_order: u64,
    /// Entries that were forgotten for want of room or because of their age.
    pub dropped: u64,
}

impl Outstanding {
    pub fn new() -> Outstanding {
        Outstanding { places: vec![VACANT; 256], len: 0, next_order: 1, dropped: 0 }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn home(&self, device: u32, sector: u64) -> usize {
        let key = sector ^ (u64::from(device) << 40);
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> (64 - self.places.len().trailing_zeros())) as usize
    }

    /// Adds a request. Others of the same place may be under way.
    #[inline]
    pub fn insert(&mut self, waiting: Waiting) {
        if self.len * 2 >= self.places.len() {
            self.make_room();
        }
        let mask = self.places.len() - 1;
        let mut at = self.home(waiting.device, waiting.sector);
        while self.places[at].order != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = Place { order: self.next_order, waiting };
        self.next_order += 1;
        self.len += 1;
    }

    /// Adds a request; one of the same place is forgotten.
    #[inline]
    pub fn replace(&mut self, waiting: Waiting) {
        if self.len * 2 >= self.places.len() {
            self.make_room();
        }
        let mask = self.places.len() - 1;
        let mut at = self.home(waiting.device, waiting.sector);
        while self.places[at].order != 0 {
            let found = &self.places[at].waiting;
            if found.sector == waiting.sector && found.device == waiting.device {
                self.len -= 1;
                break;
            }
            at = (at + 1) & mask;
        }
        self.places[at] = Place { order: self.next_order, waiting };
        self.next_order += 1;
        self.len += 1;
    }

    /// Removes the youngest request of a place: where one of the same place was left behind because
    /// the trace has a hole, it does not stand in the way.
    #[inline]
    pub fn take(&mut self, device: u32, sector: u64) -> Option<Waiting> {
        let mask = self.places.len() - 1;
        let mut at = self.home(device, sector);
        let mut found = None;
        while self.places[at].order != 0 {
            let waiting = &self.places[at].waiting;
            if waiting.sector == sector && waiting.device == device {
                found = Some(at);
            }
            at = (at + 1) & mask;
        }
        let hole = found?;
        let waiting = self.places[hole].waiting;
        self.close(hole);
        Some(waiting)
    }

    /// Fills the place `hole` by those behind it that may move there.
    #[inline]
    fn close(&mut self, mut hole: usize) {
        let mask = self.places.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.places[at].order != 0 {
            let waiting = &self.places[at].waiting;
            let home = self.home(waiting.device, waiting.sector);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.places[hole] = VACANT;
        self.len -= 1;
    }

    #[cold]
    fn make_room(&mut self) {
        let mut kept: Vec<Place> = self.in_order();
        let mut capacity = self.places.len();
        if self.len >= OUTSTANDING_MAX {
            kept.drain(..OUTSTANDING_MAX / 8);
            self.dropped += (OUTSTANDING_MAX / 8) as u64;
        } else {
            capacity *= 2;
        }
        self.rebuild(capacity, &kept);
    }

    /// Forgets those that came before `time_ns`.
    #[cold]
    pub fn drop_before(&mut self, time_ns: u64) {
        let mut kept = self.in_order();
        let before = kept.len();
        kept.retain(|place| place.waiting.since_ns >= time_ns);
        if kept.len() < before {
            self.dropped += (before - kept.len()) as u64;
            self.rebuild(self.places.len(), &kept);
        }
    }

    /// The oldest first.
    fn in_order(&self) -> Vec<Place> {
        let mut all: Vec<Place> =
            self.places.iter().filter(|place| place.order != 0).copied().collect();
        all.sort_unstable_by_key(|place| place.order);
        all
    }

    fn rebuild(&mut self, capacity: usize, kept: &[Place]) {
        self.places.clear();
        self.places.resize(capacity, VACANT);
        self.len = kept.len();
        for place in kept {
            let mut at = self.home(place.waiting.device, place.waiting.sector);
            while self.places[at].order != 0 {
                at = (at + 1) & (capacity - 1);
            }
            self.places[at] = *place;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waiting(device: u32, sector: u64, since_ns: u64) -> Waiting {
        Waiting { sector, since_ns, device, ..VACANT.waiting }
    }

    #[test]
    fn the_oldest_is_forgotten_when_there_are_too_many() {
        let mut table = Outstanding::new();
        for sector in 0..(OUTSTANDING_MAX as u64 + 1) {
            table.insert(waiting(1, sector, sector));
        }
        assert_eq!(table.dropped, OUTSTANDING_MAX as u64 / 8);
        assert_eq!(table.take(1, 0), None);
        assert!(table.take(1, OUTSTANDING_MAX as u64 / 8).is_some());
        assert!(table.take(1, OUTSTANDING_MAX as u64).is_some());
        table.drop_before(OUTSTANDING_MAX as u64 - 3);
        assert_eq!(table.len(), 3);
    }

    proptest! {
        /// The same as a list of which the youngest of a key is taken.
        #[test]
        fn it_is_a_multiset(steps in prop::collection::vec((0..3_u8, 0..2_u32, 0..40_u64), 0..600)) {
            let mut table = Outstanding::new();
            let mut list: Vec<Waiting> = Vec::new();
            for (time, (step, device, sector)) in steps.into_iter().enumerate() {
                let new = waiting(device, sector, time as u64);
                let same = |other: &Waiting| other.device == device && other.sector == sector;
                match step {
                    0 => {
                        table.insert(new);
                        list.push(new);
                    }
                    1 if list.iter().filter(|other| same(other)).count() < 2 => {
                        table.replace(new);
                        list.retain(|other| !same(other));
                        list.push(new);
                    }
                    _ => {
                        let expected = list.iter().rposition(same).map(|at| list.remove(at));
                        prop_assert_eq!(table.take(device, sector), expected);
                    }
                }
                prop_assert_eq!(table.len(), list.len());
            }
        }
    }
}
