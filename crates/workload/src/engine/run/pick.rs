//! Which entry of a fileset a job takes next. What taking means is left to [`super::entries`].

use std::sync::atomic::{AtomicU64, Ordering};

use super::draw::Zipf;
use super::entries::{Entries, Inode};
use super::world::Set;
use crate::engine::definition::Pick;
use crate::rng::{Draw, Xoshiro};

/// Draws before all entries are looked through.
const DRAWS: u32 = 64;
/// How often an entry of a fixed index is asked for while another job works on it.
const ASKS: u32 = 100;
/// Most entries that a job takes for itself at a time.
const CHUNK: u64 = 1024;

/// What a job wants an entry for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// To make it: it does not exist.
    Absent,
    /// To use it: it exists.
    Use,
    /// To remove or rename it: it exists, and nobody uses it.
    Alone,
    /// For its directory only.
    Any,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picked {
    /// This entry, with its inode where it exists.
    Entry(u64, Inode),
    /// There is none now.
    Nothing,
    /// There will be none any more.
    UsedUp,
}

/// What a job keeps of one operation.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The next entry.
    pub cursor: u64,
    /// End of what it took for itself.
    pub end: u64,
    /// The last law of Zipf over entries or blocks.
    pub zipf: Zipf,
}

/// What all jobs of the group know of one operation.
#[derive(Debug, Clone, Copy)]
pub struct Common<'a> {
    /// Entries that were taken once and no more.
    pub taken: &'a AtomicU64,
    /// Number of jobs.
    pub jobs: u64,
}

/// Takes an entry of `set`.
#[inline]
pub fn pick(
    (entries, set): (&Entries, &Set),
    (how, want): (Pick, Want),
    memory: &mut Memory,
    common: Common<'_>,
    rng: &mut Xoshiro,
) -> Picked {
    let count = set.layout.entries;
    let take =
        |index: u64| take(entries, set.name(index), want).map(|inode| Picked::Entry(index, inode));
    let from = |start: u64| (start..count).chain(0..start).find_map(take);
    match how {
        Pick::Random => match pick_any((entries, set), want, rng) {
            Some((index, inode)) => Picked::Entry(index, inode),
            None => Picked::Nothing,
        },
        Pick::Sequential => {
            let found = from(memory.cursor % count).unwrap_or(Picked::Nothing);
            if let Picked::Entry(index, _) = found {
                memory.cursor = index + 1;
            }
            found
        }
        Pick::Zipf(theta) => {
            memory.zipf.resize(count, theta);
            let zipf = memory.zipf;
            let drawn = (0..DRAWS).find_map(|_| take(zipf.draw(rng) - 1));
            drawn.or_else(|| from(zipf.draw(rng) - 1)).unwrap_or(Picked::Nothing)
        }
        Pick::Index(index) => {
            let ask = |again: u32| {
                if again > 0 {
                    std::thread::yield_now();
                }
                take(index)
            };
            (0..ASKS).find_map(ask).unwrap_or(Picked::Nothing)
        }
        Pick::Once => loop {
            if memory.cursor == memory.end {
                // Few, so that none of the jobs ends long before the others.
                let chunk = (count / (64 * common.jobs)).clamp(1, CHUNK);
                memory.cursor = common.taken.fetch_add(chunk, Ordering::Relaxed).min(count);
                memory.end = (memory.cursor + chunk).min(count);
                if memory.cursor == memory.end {
                    return Picked::UsedUp;
                }
            }
            memory.cursor += 1;
            if let Some(found) = take(memory.cursor - 1) {
                return found;
            }
        },
    }
}

/// Takes any entry of `set` with the same chance for all.
#[inline]
pub fn pick_any(
    (entries, set): (&Entries, &Set),
    want: Want,
    rng: &mut Xoshiro,
) -> Option<(u64, Inode)> {
    let count = set.layout.entries;
    let take = |index: u64| take(entries, set.name(index), want).map(|inode| (index, inode));
    let drawn = (0..DRAWS).find_map(|_| take(rng.below(count)));
    drawn.or_else(|| {
        let start = rng.below(count);
        (start..count).chain(0..start).find_map(take)
    })
}

#[inline]
fn take(entries: &Entries, name: u64, want: Want) -> Option<Inode> {
    match want {
        Want::Absent => entries.take_absent(name).then_some(0),
        Want::Use => entries.enter(name),
        Want::Alone => entries.take_present(name),
        Want::Any => Some(0),
    }
}
