//! Which disk of an array holds which sectors, and what a write to RAID 5 reads and writes.

/// How data are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Striped.
    Raid0,
    /// The same on all.
    Raid1,
    /// Striped with rotating parity, left-symmetric.
    Raid5,
    /// Striped over mirrored pairs.
    Raid10,
}

impl Level {
    /// As models write them.
    pub(super) const NAMES: &'static [&'static str] = &["raid0", "raid1", "raid5", "raid10"];

    pub(super) fn read(name: &str) -> Level {
        match name {
            "raid1" => Level::Raid1,
            "raid5" => Level::Raid5,
            "raid10" => Level::Raid10,
            _ => Level::Raid0,
        }
    }
}

/// Sectors of one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) member: usize,
    pub(super) sector: u64,
    pub(super) sectors: u64,
}

/// What a write does to one stripe of a RAID 5.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stripe {
    /// What is read first; empty where the whole stripe is written.
    pub(super) reads: Vec<Piece>,
    /// What is written, parity last.
    pub(super) writes: Vec<Piece>,
}

/// Where everything lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    level: Level,
    members: usize,
    chunk: u64,
}

impl Layout {
    pub(super) fn new(level: Level, members: usize, chunk_sectors: u64) -> Layout {
        Layout { level, members: members.max(1), chunk: chunk_sectors.max(1) }
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// Disks' worth of data.
    pub(super) fn data_members(&self) -> usize {
        match self.level {
            Level::Raid0 => self.members,
            Level::Raid1 => 1,
            Level::Raid5 => (self.members - 1).max(1),
            Level::Raid10 => (self.members / 2).max(1),
        }
    }

    /// The disks that hold the same as `member`, the first of them.
    pub(super) fn copies(&self, member: usize) -> std::ops::Range<usize> {
        match self.level {
            Level::Raid0 | Level::Raid5 => member..member + 1,
            Level::Raid1 => 0..self.members,
            Level::Raid10 => member..member + 2,
        }
    }

    /// The sector behind the stripe of `sector`.
    pub(super) fn stripe_end(&self, sector: u64) -> u64 {
        let stripe = match self.level {
            Level::Raid1 => 2048,
            _ => self.chunk * self.data_members() as u64,
        };
        (sector / stripe + 1) * stripe
    }

    /// Disk and sector of a chunk.
    fn chunk_place(&self, chunk: u64) -> (usize, u64) {
        let data = self.data_members() as u64;
        let (row, column) = (chunk / data, (chunk % data) as usize);
        let member = match self.level {
            Level::Raid0 => column,
            Level::Raid1 => 0,
            Level::Raid5 => (self.parity(row) + 1 + column) % self.members,
            Level::Raid10 => column * 2,
        };
        (member, row * self.chunk)
    }

    fn parity(&self, row: u64) -> usize {
        self.members - 1 - (row % self.members as u64) as usize
    }

    /// The pieces of the sectors from `first` to `end`; those that go on on one disk are one.
    pub(super) fn pieces(&self, first: u64, end: u64) -> Vec<Piece> {
        if self.level == Level::Raid1 {
            return vec![Piece { member: 0, sector: first, sectors: end - first }];
        }
        let mut pieces: Vec<Piece> = Vec::with_capacity(self.members);
        let mut at = first;
        while at < end {
            let upto = ((at / self.chunk + 1) * self.chunk).min(end);
            let (member, begin) = self.chunk_place(at / self.chunk);
            let (sector, sectors) = (begin + at % self.chunk, upto - at);
            let goes_on = |piece: &&mut Piece| {
                piece.member == member && piece.sector + piece.sectors == sector
            };
            match pieces.iter_mut().find(goes_on) {
                Some(piece) => piece.sectors += sectors,
                None => pieces.push(Piece { member, sector, sectors }),
            }
            at = upto;
        }
        pieces
    }

    /// What a write from `first` to `end` does to each stripe of a RAID 5: nothing is read where all of
    /// it is written; else either what is overwritten, with the parity, or what is not, whichever is less.
    pub(super) fn stripes(&self, first: u64, end: u64) -> Vec<Stripe> {
        let data = self.data_members() as u64;
        let row_sectors = self.chunk * data;
        let (mut stripes, mut at) = (Vec::new(), first);
        while at < end {
            let row = at / row_sectors;
            let upto = ((row + 1) * row_sectors).min(end);
            let mut writes = self.pieces(at, upto);
            let base = row * self.chunk;
            let low = writes.iter().map(|piece| piece.sector).min().unwrap_or(base);
            let high = writes.iter().map(|it| it.sector + it.sectors).max().unwrap_or(base);
            let parity = Piece { member: self.parity(row), sector: low, sectors: high - low };
            let is_even = writes.iter().all(|it| it.sector == low && it.sectors == high - low);
            let rest = data as usize - writes.len();
            let reads = if is_even && rest < writes.len() + 1 {
                let is_touched = |member: usize| writes.iter().any(|it| it.member == member);
                let others =
                    (0..self.members).filter(|it| *it != parity.member && !is_touched(*it));
                others.map(|member| Piece { member, ..parity }).collect()
            } else {
                let mut reads = writes.clone();
                reads.push(parity);
                reads
            };
            writes.push(parity);
            stripes.push(Stripe { reads, writes });
            at = upto;
        }
        stripes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_dealt_in_turn() {
        let layout = Layout::new(Level::Raid0, 3, 8);
        let pieces = layout.pieces(4, 28);
        let expected = [(0, 4, 8), (1, 0, 8), (2, 0, 8)];
        let found: Vec<_> = pieces.iter().map(|it| (it.member, it.sector, it.sectors)).collect();
        assert_eq!(found, expected);
        assert_eq!(layout.stripe_end(4), 24);
    }

    #[test]
    fn parity_rotates_to_the_left() {
        let layout = Layout::new(Level::Raid5, 4, 8);
        let members: Vec<usize> = (0..12).map(|chunk| layout.chunk_place(chunk).0).collect();
        assert_eq!(members, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!([0, 1, 2, 3, 4].map(|row| layout.parity(row)), [3, 2, 1, 0, 3]);
    }

    #[test]
    fn a_small_write_takes_four_requests_and_a_full_stripe_none_too_many() {
        let layout = Layout::new(Level::Raid5, 6, 128);
        let small = layout.stripes(16, 24);
        assert_eq!((small.len(), small[0].reads.len(), small[0].writes.len()), (1, 2, 2));
        let full = layout.stripes(0, 640);
        assert_eq!((full.len(), full[0].reads.len(), full[0].writes.len()), (1, 0, 6));
        // Four of five chunks: the fifth is read instead of the four and the parity.
        let most = layout.stripes(0, 512);
        assert_eq!((most[0].reads.len(), most[0].writes.len()), (1, 5));
        assert_eq!(layout.stripes(600, 700).len(), 2);
    }

    #[test]
    fn pairs_hold_the_same() {
        let layout = Layout::new(Level::Raid10, 4, 8);
        assert_eq!(layout.data_members(), 2);
        assert_eq!(layout.pieces(8, 16), [Piece { member: 2, sector: 0, sectors: 8 }]);
        assert_eq!(layout.copies(2), 2..4);
    }
}
