//! What the files and directories of the workload `fs-mark` are called, as a pure function of the
//! iteration, the job and the number of the file.
//!
//! ```text
//! 01/40000000~~~~~~~~7KQ0…   directory (2 hexadecimal digits), counter padded with ~, random A–Z 0–9
//! ```
//!
//! The original puts the time in seconds where the counter is; the counter steps as seldom.

use crate::payload::{GOLDEN, mix};

/// Random characters from which on names differ without the help of the counter.
const ENOUGH_RANDOM: usize = 12;
/// Files between two steps of the counter where the random characters are enough: about those of a second.
const FILES_PER_STEP: u64 = 1000;
/// The counter begins at a number of eight digits, as the time does.
const FIRST_STEP: u64 = 0x4000_0000;
/// Characters that are drawn from one random word.
const DRAWS_PER_WORD: usize = 12;
const ALPHABET: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Where files lie and what they are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Seed of the random characters.
    pub seed: u64,
    /// Bytes of the name of a file.
    pub name_bytes: usize,
    /// Of these, the random characters at the end.
    pub random_bytes: usize,
    /// Subdirectories; 1 means that files lie in the working directory itself.
    pub directories: u64,
    /// Files that follow each other in one directory before the next one's turn; 0: a hash of the file
    /// chooses its directory.
    pub per_directory: u64,
    /// Files of a job in one iteration.
    pub files: u64,
    /// Jobs.
    pub jobs: u64,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Iteration, from 0.
    pub loop_index: u64,
    /// Job, from 0.
    pub job_index: u64,
}

impl Layout {
    /// Whether `all_files` files have names of their own.
    ///
    /// # Errors
    /// A sentence.
    pub fn check(&self, all_files: u64) -> Result<(), String> {
        let Layout { name_bytes, random_bytes, directories, per_directory, .. } = *self;
        if random_bytes > name_bytes {
            return Err(format!(
                "name_random={random_bytes} is more than name_length={name_bytes}: use fewer"
            ));
        }
        if per_directory > 0 && directories < 2 {
            return Err(format!(
                "per_directory={per_directory} has no meaning with directories={directories}: use \
                 more directories"
            ));
        }
        let counting = (name_bytes - random_bytes).min(15) as u32;
        if random_bytes >= ENOUGH_RANDOM || 16u64.pow(counting) >= all_files {
            return Ok(());
        }
        Err(format!(
            "names of {name_bytes} bytes with {random_bytes} random ones cannot tell {all_files} \
             files apart: use longer names or name_random={ENOUGH_RANDOM}"
        ))
    }

    /// Hexadecimal digits of the name of a directory.
    fn directory_digits(&self) -> usize {
        let mut digits = 2;
        while digits < 15 && 16u64.pow(digits as u32) < self.directories {
            digits += 1;
        }
        digits
    }

    /// Bytes of the path of a file with the NUL at its end.
    #[must_use]
    pub fn stride(&self) -> usize {
        let directory = if self.directories > 1 { self.directory_digits() + 1 } else { 0 };
        directory + self.name_bytes + 1
    }

    /// Names of the subdirectories; none where files lie in the working directory itself.
    pub fn directory_names(&self) -> impl Iterator<Item = String> + use<> {
        let digits = self.directory_digits();
        let count = if self.directories > 1 { self.directories } else { 0 };
        (0..count).map(move |index| format!("{index:0digits$x}"))
    }

    /// The number of a file among all, from 0.
    #[must_use]
    pub fn number(&self, owner: Owner, index: u64) -> u64 {
        (owner.loop_index * self.jobs + owner.job_index) * self.files + index
    }

    /// The directory of a file, 0 … `directories` − 1.
    #[inline]
    #[must_use]
    pub fn directory(&self, owner: Owner, index: u64) -> u64 {
        if self.directories <= 1 {
            return 0;
        }
        match index.checked_div(self.per_directory) {
            Some(turns) => (owner.loop_index + turns) % self.directories,
            None => mix(self.number(owner, index).wrapping_add(GOLDEN)) % self.directories,
        }
    }

    /// Writes the path of a file, with a NUL at its end, into the `stride` bytes of `path`.
    #[inline]
    pub fn write_path(&self, owner: Owner, index: u64, path: &mut [u8]) {
        let mut rest = path;
        if self.directories > 1 {
            let digits = self.directory_digits();
            let (name, after) = rest.split_at_mut(digits + 1);
            write_hex(self.directory(owner, index), &mut name[..digits]);
            name[digits] = b'/';
            rest = after;
        }
        let number = self.number(owner, index);
        let (counter, random) = rest.split_at_mut(self.name_bytes - self.random_bytes);
        let steps =
            if self.random_bytes >= ENOUGH_RANDOM { number / FILES_PER_STEP } else { number };
        write_counter(FIRST_STEP + steps, counter);
        let (random, end) = random.split_at_mut(self.random_bytes);
        let key = mix(self.seed ^ GOLDEN).wrapping_add(number.wrapping_mul(GOLDEN));
        for (chunk, draw) in random.chunks_mut(DRAWS_PER_WORD).zip(1u64..) {
            let mut word = mix(key ^ mix(draw));
            for character in chunk {
                *character = ALPHABET[(word % 36) as usize];
                word /= 36;
            }
        }
        end[0] = 0;
    }
}

/// All of `out` in hexadecimal digits, the least significant last.
fn write_hex(mut number: u64, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number % 16) as usize];
        number /= 16;
    }
}

/// The eight digits of the counter, which has no more, and `~` after them; its last digits where there
/// is no room for all.
fn write_counter(number: u64, out: &mut [u8]) {
    const DIGITS: usize = 8;
    let digits = out.len().min(DIGITS);
    let (digits, padding) = out.split_at_mut(digits);
    write_hex(number, digits);
    padding.fill(b'~');
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const USUAL: Layout = Layout {
        seed: 42,
        name_bytes: 40,
        random_bytes: 24,
        directories: 1,
        per_directory: 0,
        files: 500,
        jobs: 3,
    };

    fn path(layout: &Layout, owner: Owner, index: u64) -> String {
        let mut bytes = vec![0xff; layout.stride()];
        layout.write_path(owner, index, &mut bytes);
        assert_eq!(bytes.pop(), Some(0));
        String::from_utf8(bytes).unwrap()
    }

    fn owners(layout: &Layout, loops: u64) -> Vec<Owner> {
        let jobs = layout.jobs;
        (0..loops * jobs)
            .map(|one| Owner { loop_index: one / jobs, job_index: one % jobs })
            .collect()
    }

    #[test]
    fn names_have_their_length_and_differ() {
        for (name_bytes, random_bytes, directories) in
            [(40, 24, 1), (12, 12, 1), (20, 0, 4), (16, 3, 300), (128, 128, 2), (8, 1, 1)]
        {
            let layout = Layout { name_bytes, random_bytes, directories, ..USUAL };
            layout.check(500 * 3 * 4).unwrap();
            let mut seen = BTreeSet::new();
            for owner in owners(&layout, 4) {
                for index in 0..layout.files {
                    let path = path(&layout, owner, index);
                    let name = path.rsplit('/').next().unwrap();
                    assert_eq!(name.len(), name_bytes, "{path}");
                    let (counter, random) = name.split_at(name_bytes - random_bytes);
                    let is_hex = |it: u8| b"0123456789abcdef".contains(&it) || it == b'~';
                    assert!(counter.bytes().all(is_hex), "{path}");
                    assert!(random.bytes().all(|it| ALPHABET.contains(&it)), "{path}");
                    assert!(seen.insert(path));
                }
            }
            assert_eq!(seen.len(), 6000);
        }
    }

    #[test]
    fn the_counter_is_padded_as_the_time_of_the_original() {
        let owner = Owner { loop_index: 0, job_index: 0 };
        let name = path(&USUAL, owner, 7);
        assert_eq!(&name[..16], "40000000~~~~~~~~");
        assert_eq!(name, path(&USUAL, owner, 7));
        assert_ne!(name, path(&Layout { seed: 43, ..USUAL }, owner, 7));
    }

    #[test]
    fn directories_take_turns() {
        let layout = Layout { directories: 3, per_directory: 2, files: 7, jobs: 1, ..USUAL };
        let turn = |loop_index| -> Vec<u64> {
            let owner = Owner { loop_index, job_index: 0 };
            (0..7).map(|index| layout.directory(owner, index)).collect()
        };
        assert_eq!(turn(0), [0, 0, 1, 1, 2, 2, 0]);
        assert_eq!(turn(1), [1, 1, 2, 2, 0, 0, 1]);
        let names: Vec<String> = layout.directory_names().collect();
        assert_eq!(names, ["00", "01", "02"]);
        assert!(path(&layout, Owner { loop_index: 0, job_index: 0 }, 4).starts_with("02/"));
        let many = Layout { directories: 300, ..layout };
        assert_eq!(many.directory_names().last().unwrap(), "12b");
        assert_eq!(USUAL.directory_names().count(), 0);
    }

    #[test]
    fn a_hash_spreads_files_evenly() {
        let layout = Layout { directories: 8, files: 4000, jobs: 2, ..USUAL };
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for owner in owners(&layout, 1) {
            for index in 0..layout.files {
                *counts.entry(layout.directory(owner, index)).or_default() += 1;
            }
        }
        assert_eq!(counts.len(), 8);
        // 1000 expected in each; the standard deviation is 30.
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn names_that_cannot_differ_are_refused() {
        for (name_bytes, random_bytes, directories, per_directory, words) in [
            (10, 11, 1, 0, "use fewer"),
            (10, 10, 1, 0, "cannot tell 5000 files apart"),
            (13, 10, 1, 0, "cannot tell"),
            (40, 24, 1, 5, "use more directories"),
        ] {
            let layout = Layout { name_bytes, random_bytes, directories, per_directory, ..USUAL };
            let error = layout.check(5000).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let layout = Layout { name_bytes: 14, random_bytes: 10, ..USUAL };
        assert_eq!(layout.check(5000), Ok(()));
    }
}
