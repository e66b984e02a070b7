//! The names of the small files: a number of ten hexadecimal digits with up to twelve random letters and
//! digits behind it (sequential) or in front of it (random), below a directory where there are several.

use std::ffi::{CStr, CString};

use crate::rng::{Draw, Xoshiro};

/// Hexadecimal digits of the number, as bonnie++ 2.00 has them.
const DIGITS: usize = 10;
/// Most letters and digits around it.
const LETTERS: u64 = 12;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What comes first in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The number: names ascend in the order of creation.
    Sequential,
    /// The random part: names are created in random order.
    Random,
}

/// Names of all files, prepared before anything is measured: about 21 bytes a file, or 27 where there are
/// several directories.
#[derive(Debug)]
pub struct Names {
    arena: Vec<u8>,
    /// Where each name starts.
    starts: Vec<u32>,
    directory_count: u64,
}

impl Names {
    /// Most files: those whose names are sure to fit.
    pub const MOST_FILES: u64 = u32::MAX as u64 / 32;

    /// Names of `file_count` files, spread over `directory_count` directories, neighbours together;
    /// `seed` decides on the letters.
    #[must_use]
    pub fn new(file_count: u64, directory_count: u64, order: Order, seed: u64) -> Names {
        let file_count = file_count.min(Names::MOST_FILES);
        let directory_count = directory_count.clamp(1, file_count.max(1));
        let mut names = Names {
            arena: Vec::with_capacity(
                file_count as usize * if directory_count > 1 { 23 } else { 17 },
            ),
            starts: Vec::with_capacity(file_count as usize),
            directory_count,
        };
        let mut rng = Xoshiro::new(seed);
        for index in 0..file_count {
            names.starts.push(names.arena.len() as u32);
            if directory_count > 1 {
                let directory = index * directory_count / file_count;
                names.arena.extend_from_slice(directory_name(directory).as_bytes());
                names.arena.push(b'/');
            }
            if order == Order::Sequential {
                push_hexadecimal(&mut names.arena, index);
            }
            for _ in 0..rng.below(LETTERS + 1) {
                names.arena.push(ALPHABET[rng.choice_index(ALPHABET.len())]);
            }
            if order == Order::Random {
                push_hexadecimal(&mut names.arena, index);
            }
            names.arena.push(0);
        }
        names
    }

    /// The same names in random order, one after the other in memory, so that going through them costs
    /// no more than going through those in order.
    #[must_use]
    pub fn shuffled(&self, rng: &mut Xoshiro) -> Names {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        rng.shuffle(&mut order);
        let mut names = Names {
            arena: Vec::with_capacity(self.arena.len()),
            starts: Vec::with_capacity(self.starts.len()),
            directory_count: self.directory_count,
        };
        for index in order {
            names.starts.push(names.arena.len() as u32);
            names.arena.extend_from_slice(self.file(index as usize).to_bytes_with_nul());
        }
        names
    }

    /// Number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Name of the file `index`, with its directory where there are several.
    #[inline(always)]
    #[must_use]
    pub fn file(&self, index: usize) -> &CStr {
        let start = self.starts[index] as usize;
        let end = self.starts.get(index + 1).map_or(self.arena.len(), |next| *next as usize);
        CStr::from_bytes_with_nul(&self.arena[start..end])
            .expect("every name ends with the only NUL byte in it")
    }

    /// Names of the directories that hold the files; none where there is only one, which has no name
    /// of its own.
    #[must_use]
    pub fn directories(&self) -> Vec<CString> {
        let count = if self.directory_count == 1 { 0 } else { self.directory_count };
        let name = |index| CString::new(directory_name(index)).expect("digits hold no NUL byte");
        (0..count).map(name).collect()
    }
}

fn directory_name(index: u64) -> String {
    format!("{index:05}")
}

fn push_hexadecimal(arena: &mut Vec<u8>, number: u64) {
    for digit in (0..DIGITS).rev() {
        arena.push(b"0123456789abcdef"[(number >> (4 * digit)) as usize & 0xf]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_have_the_form_of_the_original() {
        for order in [Order::Sequential, Order::Random] {
            let names = Names::new(5000, 1, order, 1);
            let mut lengths = [0; 13];
            let mut seen = HashSet::new();
            for index in 0..names.len() {
                let name = names.file(index).to_str().unwrap();
                assert!(seen.insert(name), "{name} occurs twice");
                let number = format!("{index:010x}");
                let letters = match order {
                    Order::Sequential => name.strip_prefix(&number),
                    Order::Random => name.strip_suffix(&number),
                };
                let letters = letters.unwrap_or_else(|| panic!("{name}"));
                assert!(letters.bytes().all(|byte| byte.is_ascii_alphanumeric()));
                lengths[letters.len()] += 1;
            }
            // 385 expected of each; the standard deviation is 19.
            assert!(lengths.iter().all(|count| (300..470).contains(count)), "{lengths:?}");
            assert!(names.directories().is_empty());
        }
    }

    #[test]
    fn directories_are_filled_one_after_the_other() {
        let names = Names::new(1024, 100, Order::Random, 9);
        let directories = names.directories();
        assert_eq!((directories[0].as_c_str(), directories.len()), (c"00000", 100));
        let mut held = [0; 100];
        let mut last = 0;
        for index in 0..names.len() {
            let (directory, _) = names.file(index).to_str().unwrap().split_once('/').unwrap();
            let directory: usize = directory.parse().unwrap();
            assert!(directory >= last);
            (held[directory], last) = (held[directory] + 1, directory);
        }
        assert!(held.iter().all(|count| (10..=11).contains(count)));
    }

    #[test]
    fn shuffled_names_are_the_same_in_another_order() {
        let names = Names::new(5000, 9, Order::Random, 1);
        let shuffled = names.shuffled(&mut Xoshiro::new(2));
        let all = |names: &Names| -> Vec<CString> {
            (0..names.len()).map(|index| names.file(index).to_owned()).collect()
        };
        let (mut all_names, mut all_shuffled) = (all(&names), all(&shuffled));
        assert_ne!(all_names, all_shuffled);
        all_names.sort();
        all_shuffled.sort();
        assert_eq!(all_names, all_shuffled);
        assert_eq!(names.directories(), shuffled.directories());
    }

    #[test]
    fn the_seed_decides() {
        let names = |seed| Names::new(10, 1, Order::Sequential, seed).arena;
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
        assert!(Names::new(0, 1, Order::Random, 1).is_empty());
    }
}
