//! Power cuts: at which entry of the log, and what of the writes that were not flushed the disk kept.
//! A number and a seed name each of them.
//!
//! A flush covers the writes that were answered before it came, and holds once it was answered itself.
//! What it covers is on the disk. Of the rest each block of the disk may be there or not: disks write out
//! in any order, and a block is the most that one writes at once.

use fsdyno_lab::emulator::write_log::{Entry, WriteLog};
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// A disk as far as power cuts go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRules {
    /// Bytes that are written whole or not at all.
    pub block_bytes: u64,
    /// What its cache holds; older writes are on the disk though nobody flushed.
    pub cache_bytes: u64,
    /// Whether flushes are answered and not done.
    pub ignores_flushes: bool,
}

/// What the disk kept of what was not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Nothing.
    Nothing,
    /// All of it.
    Everything,
    /// The first writes, the last of these in part.
    First,
    /// Some writes, whole.
    Some,
    /// Some blocks of some writes.
    Torn,
}

impl Kept {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Kept::Nothing => "nothing that was not flushed was kept",
            Kept::Everything => "everything was kept",
            Kept::First => "the first of what was not flushed was kept",
            Kept::Some => "some writes that were not flushed were kept",
            Kept::Torn => "some blocks of what was not flushed were kept",
        }
    }
}

/// A power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Its number.
    pub number: u64,
    /// Entries of the log before it.
    pub at: u64,
    /// What was kept.
    pub kept: Kept,
}

/// What becomes of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It is on the disk.
    Whole,
    /// Those of its blocks are that say so, counted from the block that it begins in.
    Blocks(Vec<bool>),
}

/// A log with what is asked of it for each cut.
#[derive(Debug)]
pub struct Cuts<'l> {
    log: &'l WriteLog,
    /// Entry at which each entry was answered; `u64::MAX` where it never was.
    answered: Vec<u64>,
    /// First and last possible cut.
    from: u64,
    to: u64,
    /// Moments at which something was acknowledged.
    marks: Vec<u64>,
    seed: u64,
    rules: DiskRules,
}

impl<'l> Cuts<'l> {
    /// Cuts of `log` between the entries `from` and `to`; `marks` are moments at which something was
    /// acknowledged, where half of the cuts lie.
    #[must_use]
    pub fn new(
        log: &'l WriteLog,
        (from, to): (u64, u64),
        marks: Vec<u64>,
        seed: u64,
        rules: DiskRules,
    ) -> Cuts<'l> {
        let mut answered = vec![u64::MAX; log.entries().len()];
        for (number, entry) in log.entries().iter().enumerate() {
            if let Entry::Done { entry } = entry
                && let Some(place) = answered.get_mut(*entry as usize)
            {
                *place = number as u64;
            }
        }
        let to = to.min(log.entries().len() as u64);
        let marks = marks.into_iter().filter(|mark| (from..=to).contains(mark)).collect();
        Cuts { log, answered, from, to, marks, seed, rules }
    }

    fn random(&self, number: u64, purpose: u64) -> Xoshiro256StarStar {
        let mixed = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose << 56;
        Xoshiro256StarStar::seed_from_u64(mixed)
    }

    /// The cut with that number.
    #[must_use]
    pub fn draw(&self, number: u64) -> Cut {
        let mut random = self.random(number, 1);
        let mut below = |bound: u64| random.next_u64() % bound.max(1);
        let at = if !self.marks.is_empty() && below(2) == 0 {
            self.marks[below(self.marks.len() as u64) as usize]
        } else {
            self.from + below(self.to - self.from + 1)
        };
        let kept = match below(100) {
            0..30 => Kept::Nothing,
            30..40 => Kept::Everything,
            40..55 => Kept::First,
            55..80 => Kept::Some,
            _ => Kept::Torn,
        };
        Cut { number, at, kept }
    }

    /// Entries from the first possible cut on that had not reached the disk for certain, oldest first.
    #[must_use]
    pub fn pending(&self, cut: Cut) -> Vec<u64> {
        let entries = self.log.entries();
        let range = self.from..cut.at;
        let flush = |number: &u64| {
            entries[*number as usize] == Entry::Flush && self.answered[*number as usize] < cut.at
        };
        let last_flush = range.clone().rev().find(flush).filter(|_| !self.rules.ignores_flushes);
        let mut pending = Vec::new();
        let mut bytes = 0;
        for number in range.rev() {
            let length = match entries[number as usize] {
                Entry::Write { bytes, .. } => u64::from(bytes),
                Entry::Zero { .. } => 0,
                Entry::Flush | Entry::Done { .. } => continue,
            };
            if last_flush.is_some_and(|flush| self.answered[number as usize] < flush) {
                continue;
            }
            bytes += length;
            if bytes > self.rules.cache_bytes {
                break;
            }
            pending.push(number);
        }
        pending.reverse();
        pending
    }

    /// What is on the disk after a cut of what came since the first possible one, in order.
    #[must_use]
    pub fn fates(&self, cut: Cut) -> Vec<(u64, Fate)> {
        let pending = self.pending(cut);
        let mut random = self.random(cut.number, 2);
        // How likely each is kept: seldom, as often as not, mostly.
        let share = [10, 50, 90][(random.next_u64() % 3) as usize];
        let first = random.next_u64() % (pending.len() as u64 + 1);
        let mut fates = Vec::new();
        let mut seen = 0;
        let mut at_pending = pending.iter().copied().peekable();
        for number in self.from..cut.at {
            let entry = self.log.entries()[number as usize];
            if matches!(entry, Entry::Flush | Entry::Done { .. }) {
                continue;
            }
            if at_pending.next_if_eq(&number).is_none() {
                fates.push((number, Fate::Whole));
                continue;
            }
            seen += 1;
            let is_kept = match cut.kept {
                Kept::Nothing => false,
                Kept::Everything => true,
                Kept::First => seen <= first,
                Kept::Some => random.next_u64() % 100 < share,
                Kept::Torn => true,
            };
            let is_torn = cut.kept == Kept::Torn || (cut.kept == Kept::First && seen == first);
            match entry {
                Entry::Write { offset, bytes, .. } if is_torn => {
                    let blocks = self.blocks(offset, u64::from(bytes));
                    let keep = (0..blocks).map(|_| random.next_u64() % 100 < share).collect();
                    fates.push((number, Fate::Blocks(keep)));
                }
                _ if is_torn && random.next_u64() % 100 >= share => {}
                _ if is_kept => fates.push((number, Fate::Whole)),
                _ => {}
            }
        }
        fates
    }

    fn blocks(&self, offset: u64, bytes: u64) -> u64 {
        (offset + bytes).div_ceil(self.rules.block_bytes) - offset / self.rules.block_bytes
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &WriteLog {
        self.log
    }

    /// The disk.
    #[must_use]
    pub fn rules(&self) -> DiskRules {
        self.rules
    }

    /// First possible cut.
    #[must_use]
    pub fn from(&self) -> u64 {
        self.from
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_lab::emulator::write_log::LogWriter;

    use super::*;

    const RULES: DiskRules =
        DiskRules { block_bytes: 4096, cache_bytes: 1 << 30, ignores_flushes: false };

    /// Write 0, answered; write 2 under way; flush 3; write 2 answered; flush answered; write 6, answered.
    fn log(directory: &std::path::Path) -> WriteLog {
        let mut writer = LogWriter::create(directory).unwrap();
        writer.write(0, &[1; 8192]).unwrap();
        writer.add(Entry::Done { entry: 0 }).unwrap();
        writer.write(8192, &[2; 4096]).unwrap();
        writer.add(Entry::Flush).unwrap();
        writer.add(Entry::Done { entry: 2 }).unwrap();
        writer.add(Entry::Done { entry: 3 }).unwrap();
        writer.write(0, &[3; 4096]).unwrap();
        writer.add(Entry::Done { entry: 6 }).unwrap();
        WriteLog::open(directory).unwrap()
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_once_it_is_answered() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(&directory.path().join("log"));
        let cuts = Cuts::new(&log, (0, 8), Vec::new(), 1, RULES);
        let pending = |at| cuts.pending(Cut { number: 0, at, kept: Kept::Nothing });
        assert_eq!(pending(3), [0, 2]);
        assert_eq!(pending(5), [0, 2], "the flush is not answered yet");
        assert_eq!(pending(6), [2], "under way when the flush came");
        assert_eq!(pending(8), [2, 6]);
        let lying = DiskRules { ignores_flushes: true, ..RULES };
        let cuts = Cuts::new(&log, (0, 8), Vec::new(), 1, lying);
        assert_eq!(cuts.pending(Cut { number: 0, at: 8, kept: Kept::Nothing }), [0, 2, 6]);
        let small = DiskRules { cache_bytes: 8192, ignores_flushes: true, ..RULES };
        let cuts = Cuts::new(&log, (0, 8), Vec::new(), 1, small);
        assert_eq!(cuts.pending(Cut { number: 0, at: 8, kept: Kept::Nothing }), [2, 6]);
    }

    #[test]
    fn what_is_kept_follows_from_the_number_and_never_loses_what_was_flushed() {
        let directory = tempfile::tempdir().unwrap();
        let log = log(&directory.path().join("log"));
        let cuts = Cuts::new(&log, (0, 8), vec![6], 1, RULES);
        let mut torn = 0;
        for number in 0..300 {
            let cut = cuts.draw(number);
            assert_eq!(cut, cuts.draw(number));
            let fates = cuts.fates(cut);
            assert_eq!(fates, cuts.fates(cut));
            if cut.at >= 6 {
                assert_eq!(fates[0], (0, Fate::Whole), "{cut:?}");
            }
            let expected = match cut.kept {
                Kept::Nothing => Some(u64::from(cut.at >= 6)),
                Kept::Everything => {
                    Some((0..cut.at).filter(|it| [0, 2, 6].contains(it)).count() as u64)
                }
                _ => None,
            };
            assert!(expected.is_none_or(|count| count == fates.len() as u64), "{cut:?} {fates:?}");
            torn += fates.iter().filter(|(_, fate)| matches!(fate, Fate::Blocks(_))).count();
        }
        assert!(torn > 20);
    }
}
