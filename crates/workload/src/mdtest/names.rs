//! The tree of mdtest and the names of the items in it. When they are made, and by whom, is left to
//! [`super::run`].
//!
//! A tree has `depth` levels below its first directory, each with `branch` directories in every one
//! above. They are numbered level by level: those below number n are n·branch + 1 … n·branch + branch.

use std::ffi::{CStr, CString};

/// How many directories a tree may have.
pub const MOST_DIRECTORIES: u64 = 1_000_000;

/// The shape of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Directories in each directory that is not a leaf, at least 1.
    pub branch: u64,
    /// Levels below the first directory.
    pub depth: u64,
    /// Whether items are in the lowest level only.
    pub leaves_only: bool,
}

impl Shape {
    /// Directories of one tree; `None` where they are too many.
    #[must_use]
    pub fn directory_count(&self) -> Option<u64> {
        let mut level = 1u64;
        let mut all = 1u64;
        for _ in 0..self.depth {
            level = level.checked_mul(self.branch)?;
            all = all.checked_add(level).filter(|all| *all <= MOST_DIRECTORIES)?;
        }
        Some(all)
    }

    /// Numbers of the directories that hold items, within one tree.
    #[must_use]
    pub fn holding(&self) -> std::ops::Range<u64> {
        let all = self.directory_count().unwrap_or(1);
        let leaves = (0..self.depth).fold(1u64, |level, _| level.saturating_mul(self.branch));
        if self.leaves_only { all - leaves.min(all)..all } else { 0..all }
    }

    /// The directory above, for all but the first.
    #[must_use]
    pub fn above(&self, number: u64) -> Option<u64> {
        number.checked_sub(1).map(|below| below / self.branch)
    }
}

/// The paths of the directories of one tree, each after the one that it lies in. `owner` is the rank
/// whose own it is; `None` where all ranks share it.
#[must_use]
pub fn tree(shape: Shape, owner: Option<usize>) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for number in 0..shape.directory_count().unwrap_or(1) {
        let name = match owner {
            Some(rank) => format!("mdtest_tree.{rank}.{number}"),
            None => format!("mdtest_tree.{number}"),
        };
        let path = match shape.above(number) {
            Some(above) => format!("{}/{name}", paths[above as usize]),
            None => name,
        };
        paths.push(path);
    }
    paths
}

/// Names that lie one after the other, each ending with NUL.
#[derive(Debug, Default)]
pub struct Names {
    arena: Vec<u8>,
    starts: Vec<usize>,
}

impl Names {
    /// Appends a name.
    pub fn push(&mut self, name: &str) {
        self.starts.push(self.arena.len());
        self.arena.extend_from_slice(name.as_bytes());
        self.arena.push(0);
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The name `index`.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, index: usize) -> &CStr {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.arena.len());
        CStr::from_bytes_with_nul(&self.arena[self.starts[index]..end])
            .expect("every name ends with the only NUL byte in it")
    }
}

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// `dir.mdtest.<rank>.<n>`.
    Directory,
    /// `file.mdtest.<rank>.<n>`.
    File,
}

/// The items of one rank in the directories `paths` of a tree, `per_directory` in each that holds any,
/// numbered from 0 through all of them; `suffix` ends each name.
#[must_use]
pub fn items(
    (shape, paths): (Shape, &[String]),
    (item, rank): (Item, usize),
    per_directory: u64,
    suffix: &str,
) -> Names {
    let kind = if item == Item::File { "file" } else { "dir" };
    let mut names = Names::default();
    for directory in shape.holding() {
        for _ in 0..per_directory {
            let number = names.len();
            let path = &paths[directory as usize];
            names.push(&format!("{path}/{kind}.mdtest.{rank}.{number}{suffix}"));
        }
    }
    names
}

/// A path of our own making.
#[must_use]
pub fn c_string(path: &str) -> CString {
    CString::new(path).expect("names are made without NUL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_hand() {
        for (branch, depth, leaves_only, all, holding) in [
            (1, 0, false, Some(1), 0..1),
            (1, 3, false, Some(4), 0..4),
            (1, 3, true, Some(4), 3..4),
            (2, 2, false, Some(7), 0..7),
            (2, 2, true, Some(7), 3..7),
            (3, 2, true, Some(13), 4..13),
            (10, 3, true, Some(1111), 111..1111),
            (10, 30, false, None, 0..1),
        ] {
            let shape = Shape { branch, depth, leaves_only };
            assert_eq!(shape.directory_count(), all);
            assert_eq!(shape.holding(), holding);
        }
    }

    #[test]
    fn names_by_hand() {
        let shape = Shape { branch: 2, depth: 2, leaves_only: true };
        assert_eq!(
            tree(shape, None),
            [
                "mdtest_tree.0",
                "mdtest_tree.0/mdtest_tree.1",
                "mdtest_tree.0/mdtest_tree.2",
                "mdtest_tree.0/mdtest_tree.1/mdtest_tree.3",
                "mdtest_tree.0/mdtest_tree.1/mdtest_tree.4",
                "mdtest_tree.0/mdtest_tree.2/mdtest_tree.5",
                "mdtest_tree.0/mdtest_tree.2/mdtest_tree.6",
            ]
        );
        let own = tree(Shape { depth: 1, ..shape }, Some(3));
        assert_eq!(own[1], "mdtest_tree.3.0/mdtest_tree.3.1");
        let names = items((shape, &tree(shape, None)), (Item::File, 5), 2, "");
        assert_eq!(names.len(), 8);
        assert_eq!(names.get(0), c"mdtest_tree.0/mdtest_tree.1/mdtest_tree.3/file.mdtest.5.0");
        assert_eq!(names.get(7), c"mdtest_tree.0/mdtest_tree.2/mdtest_tree.6/file.mdtest.5.7");
        let flat = Shape { branch: 1, depth: 0, leaves_only: false };
        let names = items((flat, &tree(flat, None)), (Item::Directory, 0), 1, "-x");
        assert_eq!(names.get(0), c"mdtest_tree.0/dir.mdtest.0.0-x");
    }
}
