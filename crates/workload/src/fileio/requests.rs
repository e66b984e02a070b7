//! Which block is read or written next. The order within a job is a function of its seed; what several
//! jobs do in which order is theirs.

use std::sync::atomic::{AtomicU64, Ordering};

use super::settings::{Mode, Settings};
use crate::payload::{GOLDEN, mix};

/// What the jobs of a phase share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Requests begun.
    requests: AtomicU64,
    /// Files synced while requests were made, which the original counts as events.
    fsyncs: AtomicU64,
    /// The next block of a sequential mode.
    cursor: AtomicU64,
}

impl Shared {
    /// Blocks that a sequential mode has gone to.
    #[must_use]
    pub fn blocks_begun(&self) -> u64 {
        self.cursor.load(Ordering::Relaxed)
    }

    /// Says that `count` files were synced.
    #[inline(always)]
    pub fn note_fsyncs(&self, count: u64) {
        self.fsyncs.fetch_add(count, Ordering::Relaxed);
    }
}

/// One block to be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// File, from 0.
    pub file: u64,
    /// Block within it, from 0.
    pub block: u64,
    /// Whether it is written.
    pub is_write: bool,
    /// Whether all files are to be synced after it.
    pub then_sync: bool,
}

/// The requests of one job in one phase.
#[derive(Debug)]
pub struct Requests<'a> {
    shared: &'a Shared,
    mode: Mode,
    blocks_per_file: u64,
    blocks: u64,
    /// Blocks after which a sequential mode ends.
    last_block: u64,
    ratio: u64,
    sync_every: u64,
    most_events: u64,
    counts_fsyncs: bool,
    state: u64,
    reads: u64,
    writes: u64,
}

impl<'a> Requests<'a> {
    /// The requests of a job whose random places are those of `seed`.
    #[must_use]
    pub fn new(settings: &Settings, mode: Mode, shared: &'a Shared, seed: u64) -> Requests<'a> {
        let is_periodic = mode.writes() && !settings.fsync_all && settings.fsync_every > 0;
        Requests {
            shared,
            mode,
            blocks_per_file: settings.blocks_per_file,
            blocks: settings.blocks(),
            last_block: if settings.is_original { u64::MAX } else { settings.blocks() },
            ratio: settings.reads_to_1000_writes,
            sync_every: if is_periodic { settings.fsync_every } else { u64::MAX },
            most_events: if settings.events == 0 { u64::MAX } else { settings.events },
            counts_fsyncs: settings.is_original,
            state: mix(seed ^ GOLDEN),
            reads: 0,
            writes: 0,
        }
    }

    /// The next request; `None` at the end of the work.
    #[inline]
    pub fn draw(&mut self) -> Option<Request> {
        let begun = self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let fsyncs =
            if self.counts_fsyncs { self.shared.fsyncs.load(Ordering::Relaxed) } else { 0 };
        if begun + fsyncs >= self.most_events {
            return None;
        }
        let place = if self.mode.is_sequential() {
            let place = self.shared.cursor.fetch_add(1, Ordering::Relaxed);
            if place >= self.last_block {
                return None;
            }
            place % self.blocks
        } else {
            self.state = self.state.wrapping_add(GOLDEN);
            // The high half of the product: as even as a remainder of so many bits, and cheaper.
            ((u128::from(mix(self.state)) * u128::from(self.blocks)) >> 64) as u64
        };
        Some(Request {
            file: place / self.blocks_per_file,
            block: place % self.blocks_per_file,
            is_write: self.is_write(),
            then_sync: (begun + 1).is_multiple_of(self.sync_every),
        })
    }

    /// In the mixed mode as the original: a read as long as there are not more than the ratio allows.
    #[inline]
    fn is_write(&mut self) -> bool {
        let is_write = match self.mode {
            Mode::SequentialRead | Mode::RandomRead => false,
            Mode::SequentialWrite | Mode::SequentialRewrite | Mode::RandomWrite => true,
            Mode::RandomMixed => self.reads * 1000 > self.writes * self.ratio,
        };
        if is_write {
            self.writes += 1;
        } else {
            self.reads += 1;
        }
        is_write
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::param::Params;

    use super::*;
    use crate::catalog::fileio::DEF;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let mut params = Params::defaults(DEF.info.params, true);
        let few = [("file_num", "4"), ("total_size", "1MiB"), ("events", "300")];
        for (name, text) in few.iter().chain(pairs) {
            params.set(DEF.info.params, name, text).unwrap();
        }
        Settings::new(&params).unwrap()
    }

    fn drawn(settings: &Settings, mode: Mode) -> Vec<Request> {
        let shared = Shared::default();
        let mut requests = Requests::new(settings, mode, &shared, 5);
        let draw = || {
            let request = requests.draw()?;
            if request.then_sync {
                shared.note_fsyncs(settings.files);
            }
            Some(request)
        };
        std::iter::from_fn(draw).collect()
    }

    /// What sysbench 1.0.20 did with 4 files of 16 blocks and 300 events, seen by strace.
    #[test]
    fn the_original_does_as_many_of_each_kind() {
        let original = settings(&[("mode", "original")]);
        for (mode, reads, writes, syncs) in [
            (Mode::SequentialWrite, 0, 292, 2),
            (Mode::SequentialRewrite, 0, 292, 2),
            (Mode::SequentialRead, 300, 0, 0),
            (Mode::RandomRead, 300, 0, 0),
            (Mode::RandomWrite, 0, 292, 2),
        ] {
            let drawn = drawn(&original, mode);
            let count = |is: fn(&Request) -> bool| drawn.iter().filter(|one| is(one)).count();
            assert_eq!(count(|one| !one.is_write), reads, "{mode:?}");
            assert_eq!(count(|one| one.is_write), writes, "{mode:?}");
            assert_eq!(count(|one| one.then_sync), syncs, "{mode:?}");
        }
        let mixed: String = drawn(&original, Mode::RandomMixed)
            .iter()
            .take(16)
            .map(|request| if request.is_write { 'W' } else { 'R' })
            .collect();
        assert_eq!(mixed, "RWRWRRWRWRRWRWRR");
    }

    #[test]
    fn sequential_modes_go_from_file_to_file_and_end_after_one_pass() {
        for (mode, is_original, count) in [
            (Mode::SequentialRead, false, 64),
            (Mode::SequentialWrite, false, 64),
            (Mode::SequentialRead, true, 300),
        ] {
            let word = if is_original { "original" } else { "corrected" };
            let drawn = drawn(&settings(&[("mode", word)]), mode);
            assert_eq!(drawn.len(), count, "{mode:?}");
            for (index, request) in drawn.iter().enumerate() {
                let place = index as u64 % 64;
                assert_eq!((request.file, request.block), (place / 16, place % 16));
            }
        }
    }

    #[test]
    fn places_are_spread_evenly_and_repeatable() {
        let settings = settings(&[("events", "64000")]);
        let all = drawn(&settings, Mode::RandomRead);
        assert_eq!(all, drawn(&settings, Mode::RandomRead));
        let mut counts = [0u32; 64];
        all.iter().for_each(|one| counts[(one.file * 16 + one.block) as usize] += 1);
        // 1000 expected in each; the standard deviation is 31.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_ratio_holds() {
        for (ratio, reads) in [("1.5", 180), ("0", 1), ("1", 150), ("4", 240)] {
            let drawn = drawn(&settings(&[("rw_ratio", ratio)]), Mode::RandomMixed);
            let found = drawn.iter().filter(|request| !request.is_write).count();
            assert!(found.abs_diff(reads) <= 1, "{ratio}: {found}");
        }
    }

    #[test]
    fn every_hundredth_request_syncs_unless_every_write_does() {
        for (pairs, syncs) in [
            (&[][..], 3),
            (&[("fsync_freq", "7")], 42),
            (&[("fsync_freq", "0")], 0),
            (&[("fsync_all", "true")], 0),
        ] {
            let drawn = drawn(&settings(pairs), Mode::RandomWrite);
            assert_eq!(drawn.iter().filter(|request| request.then_sync).count(), syncs);
            assert_eq!(drawn.len(), 300);
        }
    }
}
