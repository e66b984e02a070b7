//! What exists on the target as far as the engine knows: a word for each name and a record for each
//! inode, all atomics that the jobs share, 24 bytes for an entry. A name is taken by one job at a time
//! when it is made, removed or renamed, and never while its file is in use; contents are changed by
//! many at once unless one of them shrinks the file. How names are written is left to
//! [`super::layout`], which of them is taken to [`super::pick`].
//!
//! ```text
//! name   EXISTS | BUSY | inode number (30 bits)
//! inode  users 16 | writers 16 | links 14 | generation 16 | EXCLUSIVE | UNKNOWN
//! ```

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::payload::mix;

/// The name stands for something.
const EXISTS: u32 = 1 << 31;
/// A job is making, removing or renaming it.
const BUSY: u32 = 1 << 30;
/// Most entries of all filesets together.
pub const MOST: u64 = BUSY as u64;

const USER: u64 = 1;
const USERS: u64 = 0xffff;
const WRITER: u64 = 1 << 16;
const WRITERS: u64 = 0xffff << 16;
const LINK: u64 = 1 << 32;
const LINKS: u64 = 0x3fff << 32;
const GENERATION: u64 = 1 << 46;
const GENERATIONS: u64 = 0xffff << 46;
/// A job is shrinking it or writes it whole.
const EXCLUSIVE: u64 = 1 << 62;
/// What it holds is not what the key of its contents makes.
const UNKNOWN: u64 = 1 << 63;

/// Number of an inode, as the engine counts them.
pub type Inode = u32;

/// All names and inodes.
#[derive(Debug)]
pub struct Entries {
    names: Vec<AtomicU32>,
    states: Vec<AtomicU64>,
    sizes: Vec<AtomicU64>,
    contents: Vec<AtomicU32>,
}

/// What a file looked like at a moment when nobody wrote into it.
#[derive(Debug, Clone, Copy)]
pub struct Glimpse {
    /// Its size, in bytes.
    pub size_bytes: u64,
    /// Its generation; `None` where it was being written.
    quiet: Option<u64>,
}

impl Entries {
    /// `count` names, none of which exists.
    #[must_use]
    pub fn new(count: u64) -> Entries {
        Entries {
            names: (0..count).map(|_| AtomicU32::new(0)).collect(),
            states: (0..count).map(|_| AtomicU64::new(0)).collect(),
            sizes: (0..count).map(|_| AtomicU64::new(0)).collect(),
            contents: (0..count).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Takes a name that does not exist, in order to make it.
    #[inline]
    #[must_use]
    pub fn take_absent(&self, name: u64) -> bool {
        self.names[name as usize].compare_exchange(0, BUSY, SeqCst, SeqCst).is_ok()
    }

    /// Takes a name whose file nobody uses, in order to remove or rename it.
    #[inline]
    #[must_use]
    pub fn take_present(&self, name: u64) -> Option<Inode> {
        let word = &self.names[name as usize];
        let found = word.load(SeqCst);
        if found & (EXISTS | BUSY) != EXISTS {
            return None;
        }
        word.compare_exchange(found, found | BUSY, SeqCst, SeqCst).ok()?;
        let inode = found & !EXISTS;
        // Whoever uses it from now on looks at the name after that, and finds it taken.
        if self.state(inode).load(SeqCst) & USERS != 0 {
            word.store(found, SeqCst);
            return None;
        }
        Some(inode)
    }

    /// Begins to use the file of a name, which is not removed until [`Entries::leave`].
    #[inline]
    #[must_use]
    pub fn enter(&self, name: u64) -> Option<Inode> {
        let word = &self.names[name as usize];
        let found = word.load(SeqCst);
        if found & (EXISTS | BUSY) != EXISTS {
            return None;
        }
        let inode = found & !EXISTS;
        let before = self.state(inode).fetch_add(USER, SeqCst);
        if word.load(SeqCst) == found && before & USERS < USERS {
            return Some(inode);
        }
        self.leave(inode);
        None
    }

    /// Ends to use a file.
    #[inline]
    pub fn leave(&self, inode: Inode) {
        self.state(inode).fetch_sub(USER, SeqCst);
    }

    /// An inode for a name that was taken: empty, with one link and one user.
    #[inline]
    #[must_use]
    pub fn new_inode(&self, name: u64, content: u32) -> Inode {
        let count = self.states.len() as u64;
        let mut attempt = 0;
        // One is free: there are as many as names, and this name has none.
        loop {
            let number = match attempt {
                0..4 => (name + attempt) % count,
                4..64 => mix(name ^ (attempt << 40)) % count,
                _ => (name + attempt) % count,
            };
            let inode = number as Inode;
            let found = self.state(inode).load(SeqCst);
            if found & (USERS | LINKS) == 0 {
                let fresh = (found & GENERATIONS) | LINK | USER;
                if self.state(inode).compare_exchange(found, fresh, SeqCst, SeqCst).is_ok() {
                    self.sizes[inode as usize].store(0, SeqCst);
                    self.contents[inode as usize].store(content, SeqCst);
                    return inode;
                }
            }
            attempt += 1;
        }
    }

    /// Says that a name which was taken stands for `inode` now.
    #[inline]
    pub fn appear(&self, name: u64, inode: Inode) {
        self.names[name as usize].store(EXISTS | inode, SeqCst);
    }

    /// Says that a name which was taken stands for nothing now.
    #[inline]
    pub fn vanish(&self, name: u64) {
        self.names[name as usize].store(0, SeqCst);
    }

    /// Counts one more name of `inode`; false where there are as many as can be.
    #[must_use]
    pub fn add_link(&self, inode: Inode) -> bool {
        if self.state(inode).fetch_add(LINK, SeqCst) & LINKS < LINKS - LINK {
            return true;
        }
        self.drop_link(inode);
        false
    }

    /// Counts one name of `inode` less.
    #[inline]
    pub fn drop_link(&self, inode: Inode) {
        self.state(inode).fetch_sub(LINK, SeqCst);
    }

    /// Begins to write into a file; false while somebody shrinks it.
    #[inline]
    #[must_use]
    pub fn begin_write(&self, inode: Inode) -> bool {
        if self.state(inode).fetch_add(WRITER, SeqCst) & EXCLUSIVE == 0 {
            return true;
        }
        self.end_write(inode);
        false
    }

    /// Ends to write.
    #[inline]
    pub fn end_write(&self, inode: Inode) {
        self.state(inode).fetch_sub(WRITER, SeqCst);
    }

    /// Begins to shrink a file or to write it whole; false while anybody writes into it.
    #[inline]
    #[must_use]
    pub fn begin_exclusive(&self, inode: Inode) -> bool {
        let state = self.state(inode);
        let mut found = state.load(SeqCst);
        while found & (EXCLUSIVE | WRITERS) == 0 {
            let generation = found.wrapping_add(GENERATION) & GENERATIONS;
            let taken = (found & !GENERATIONS) | generation | EXCLUSIVE;
            match state.compare_exchange_weak(found, taken, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(other) => found = other,
            }
        }
        false
    }

    /// Ends that.
    #[inline]
    pub fn end_exclusive(&self, inode: Inode) {
        self.state(inode).fetch_and(!EXCLUSIVE, SeqCst);
    }

    /// Says whether what a file holds is what its key makes.
    #[inline]
    pub fn set_known(&self, inode: Inode, known: bool) {
        if known {
            self.state(inode).fetch_and(!UNKNOWN, SeqCst);
        } else {
            self.state(inode).fetch_or(UNKNOWN, SeqCst);
        }
    }

    /// Whether it is.
    #[inline]
    #[must_use]
    pub fn is_known(&self, inode: Inode) -> bool {
        self.state(inode).load(SeqCst) & UNKNOWN == 0
    }

    /// The size, in bytes.
    #[inline]
    #[must_use]
    pub fn size(&self, inode: Inode) -> u64 {
        self.sizes[inode as usize].load(SeqCst)
    }

    /// Says what the size is now.
    #[inline]
    pub fn set_size(&self, inode: Inode, size_bytes: u64) {
        self.sizes[inode as usize].store(size_bytes, SeqCst);
    }

    /// Says that the file reaches to `end_bytes` at least.
    #[inline]
    pub fn grow_to(&self, inode: Inode, end_bytes: u64) {
        self.sizes[inode as usize].fetch_max(end_bytes, SeqCst);
    }

    /// Takes `count_bytes` at the end of a file for the caller to write: gives where they begin.
    #[inline]
    #[must_use]
    pub fn extend(&self, inode: Inode, count_bytes: u64) -> u64 {
        self.sizes[inode as usize].fetch_add(count_bytes, SeqCst)
    }

    /// Which contents a file has: the same number, the same bytes.
    #[inline]
    #[must_use]
    pub fn content(&self, inode: Inode) -> u32 {
        self.contents[inode as usize].load(SeqCst)
    }

    /// Says which contents it has from now on.
    #[inline]
    pub fn set_content(&self, inode: Inode, content: u32) {
        self.contents[inode as usize].store(content, SeqCst);
    }

    /// Size and generation, for [`Entries::is_unchanged`].
    #[inline]
    #[must_use]
    pub fn glimpse(&self, inode: Inode) -> Glimpse {
        let before = self.state(inode).load(SeqCst);
        let size_bytes = self.size(inode);
        let after = self.state(inode).load(SeqCst);
        const LOUD: u64 = EXCLUSIVE | WRITERS;
        let quiet = (before | after) & LOUD == 0 && (before ^ after) & GENERATIONS == 0;
        Glimpse { size_bytes, quiet: quiet.then_some(after & GENERATIONS) }
    }

    /// Whether the file has certainly held what the glimpse saw, all the time since.
    #[must_use]
    pub fn is_unchanged(&self, inode: Inode, glimpse: &Glimpse) -> bool {
        let now = self.state(inode).load(SeqCst);
        now & EXCLUSIVE == 0 && glimpse.quiet == Some(now & GENERATIONS)
    }

    /// The inode behind a name and whether anything works on it; `None` where it does not exist.
    #[must_use]
    pub fn find(&self, name: u64) -> Option<Inode> {
        let found = self.names[name as usize].load(SeqCst);
        (found & EXISTS != 0).then_some(found & !(EXISTS | BUSY))
    }

    /// Number of names of an inode.
    #[must_use]
    pub fn links(&self, inode: Inode) -> u64 {
        (self.state(inode).load(SeqCst) & LINKS) / LINK
    }

    #[inline]
    fn state(&self, inode: Inode) -> &AtomicU64 {
        &self.states[inode as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(entries: &Entries, name: u64) -> Inode {
        assert!(entries.take_absent(name));
        let inode = entries.new_inode(name, 7);
        entries.leave(inode);
        entries.appear(name, inode);
        inode
    }

    #[test]
    fn a_name_is_taken_once_and_not_while_it_is_used() {
        let entries = Entries::new(3);
        assert!(entries.enter(1).is_none() && entries.take_present(1).is_none());
        let inode = made(&entries, 1);
        assert!(!entries.take_absent(1));
        assert_eq!(entries.enter(1), Some(inode));
        assert_eq!(entries.take_present(1), None);
        entries.leave(inode);
        assert_eq!(entries.take_present(1), Some(inode));
        assert!(entries.enter(1).is_none() && entries.take_present(1).is_none());
        entries.drop_link(inode);
        entries.vanish(1);
        assert_eq!(entries.find(1), None);
        assert!(entries.take_absent(1));
    }

    #[test]
    fn inodes_are_found_as_long_as_names_are_free() {
        let entries = Entries::new(100);
        let first = made(&entries, 0);
        // Moved from name to name, so that each new file finds the inode of its number taken.
        for name in 1..100 {
            assert!(entries.take_absent(name));
            let inode = entries.take_present(name - 1).unwrap();
            entries.appear(name, inode);
            entries.vanish(name - 1);
            made(&entries, name - 1);
        }
        assert_eq!(entries.find(1).map(|inode| entries.links(inode)), Some(1));
        let mut inodes: Vec<Inode> = (0..100).map(|name| entries.find(name).unwrap()).collect();
        inodes.sort_unstable();
        inodes.dedup();
        assert_eq!((inodes.len(), first), (100, 0));
    }

    #[test]
    fn whoever_shrinks_a_file_is_alone_with_those_who_write() {
        let entries = Entries::new(1);
        let inode = made(&entries, 0);
        let quiet = entries.glimpse(inode);
        assert!(entries.is_unchanged(inode, &quiet));
        assert!(entries.begin_write(inode) && entries.begin_write(inode));
        assert!(!entries.is_unchanged(inode, &entries.glimpse(inode)), "it is being written");
        assert!(!entries.begin_exclusive(inode));
        assert_eq!((entries.extend(inode, 10), entries.extend(inode, 5)), (0, 10));
        entries.end_write(inode);
        entries.end_write(inode);
        assert!(entries.is_unchanged(inode, &quiet), "growing takes nothing away");
        assert!(entries.begin_exclusive(inode));
        assert!(!entries.begin_exclusive(inode) && !entries.begin_write(inode));
        entries.end_exclusive(inode);
        assert!(!entries.is_unchanged(inode, &quiet));
        assert!(entries.is_known(inode));
        entries.set_known(inode, false);
        assert!(!entries.is_known(inode) && entries.size(inode) == 15);
    }

    #[test]
    fn many_jobs_never_hold_one_name_at_once() {
        const JOBS: u32 = 4;
        let entries = Entries::new(8);
        let holders: Vec<AtomicU32> = (0..8).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for job in 0..JOBS {
                let (entries, holders) = (&entries, &holders);
                scope.spawn(move || {
                    for round in 0..20_000u64 {
                        let name = mix(u64::from(job) << 32 | round) % 8;
                        let holder = &holders[name as usize];
                        if entries.take_absent(name) {
                            assert_eq!(holder.fetch_add(1, SeqCst), 0);
                            let inode = entries.new_inode(name, 0);
                            holder.fetch_sub(1, SeqCst);
                            entries.leave(inode);
                            entries.appear(name, inode);
                        } else if round % 3 == 0
                            && let Some(inode) = entries.take_present(name)
                        {
                            assert_eq!(holder.fetch_add(1, SeqCst), 0);
                            entries.drop_link(inode);
                            holder.fetch_sub(1, SeqCst);
                            entries.vanish(name);
                        } else if let Some(inode) = entries.enter(name) {
                            assert_eq!(holder.load(SeqCst), 0, "used and held");
                            entries.leave(inode);
                        }
                    }
                });
            }
        });
        for name in 0..8 {
            assert!(entries.find(name).is_none_or(|inode| entries.links(inode) == 1));
        }
    }
}
