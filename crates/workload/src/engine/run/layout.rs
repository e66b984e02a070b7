//! Names of the entries of a fileset, computed from their index into a buffer, and the directories that
//! they lie in. Which of them exist is left to [`super::entries`].

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;

use crate::engine::definition::{EntryKind, Fileset, ListedFile, Tree};

/// Most directories that are made for one fileset.
const DIRECTORIES: u64 = 10_000_000;
/// Digits of the number in a name.
const DIGITS: u32 = 8;

/// A NUL-terminated name that is written anew for each use.
#[derive(Debug, Clone)]
pub struct NameBuffer {
    bytes: Vec<u8>,
}

impl NameBuffer {
    /// An empty one that takes names of up to `longest` bytes without allocation.
    #[must_use]
    pub fn new(longest: usize) -> NameBuffer {
        let mut bytes = Vec::with_capacity(longest + 1);
        bytes.push(0);
        NameBuffer { bytes }
    }

    /// The name.
    ///
    /// # Panics
    /// Never: what is written holds no NUL, and one ends it.
    #[inline]
    #[must_use]
    pub fn as_cstr(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes).expect("a name ends with the only NUL in it")
    }

    fn padded(&mut self, prefix: u8, number: u64) {
        self.bytes.push(prefix);
        let digits = DIGITS.max(number.checked_ilog10().map_or(1, |log| log + 1)) as usize;
        let start = self.bytes.len();
        self.bytes.resize(start + digits, b'0');
        write_number(&mut self.bytes[start..], number);
    }

    fn directory(&mut self, number: u64) {
        self.bytes.push(b's');
        let digits = number.checked_ilog10().map_or(1, |log| log + 1) as usize;
        let start = self.bytes.len();
        self.bytes.resize(start + digits, b'0');
        write_number(&mut self.bytes[start..], number);
        self.bytes.push(b'/');
    }
}

fn write_number(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[derive(Debug)]
enum Shape {
    Flat,
    /// Directories of `width` entries each at the bottom of a tree that branches by `base`.
    Leaves {
        width: u64,
        base: u64,
        levels: u32,
    },
    /// `count` directories numbered as a heap is: those in `k` are `branch * k + 1` and on.
    Heap {
        branch: u64,
        count: u64,
    },
    /// NUL-terminated paths, each at its place.
    Listed {
        arena: Vec<u8>,
        starts: Vec<usize>,
    },
}

/// How the entries of one fileset are called.
#[derive(Debug)]
pub struct Layout {
    /// Name of the fileset and of its directory.
    pub name: String,
    /// Number of entries.
    pub entries: u64,
    prefix: u8,
    shape: Shape,
}

/// The list of a fileset: each line with the entry that its path is.
pub type Lines = Vec<(u64, ListedFile)>;

impl Layout {
    /// That of `fileset`, with its lines where it is a list.
    ///
    /// # Errors
    /// A sentence: no entries, too many directories, a path that leaves the directory.
    pub fn new(fileset: &Fileset) -> Result<(Layout, Lines), String> {
        let name = &fileset.name;
        if !is_plain(name) {
            return Err(format!("fileset {name:?}: choose a name that can be that of a directory"));
        }
        let prefix = match fileset.kind {
            EntryKind::File => b'f',
            EntryKind::Directory => b'd',
            EntryKind::Symlink => b'l',
        };
        let (shape, entries, lines) = match &fileset.list {
            Some(list) => listed(list).map_err(|error| format!("fileset {name}: {error}"))?,
            None => (made(fileset)?, fileset.entries, Vec::new()),
        };
        if entries == 0 {
            return Err(format!("fileset {name} has no entries: give it one at least"));
        }
        Ok((Layout { name: name.clone(), entries, prefix, shape }, lines))
    }

    /// Writes the path of an entry below the fileset's directory.
    #[inline]
    pub fn path(&self, index: u64, name: &mut NameBuffer) {
        name.bytes.clear();
        self.push_path(index, name);
        name.bytes.push(0);
    }

    /// Writes the path of the directory that an entry is in; `.` is the fileset's own.
    pub fn directory(&self, index: u64, name: &mut NameBuffer) {
        name.bytes.clear();
        self.push_path(index, name);
        match name.bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => name.bytes.truncate(slash),
            None => {
                name.bytes.clear();
                name.bytes.push(b'.');
            }
        }
        name.bytes.push(0);
    }

    /// Writes what a symbolic link at `from` in `self` holds in order to lead to the entry `to` of the
    /// fileset `other`.
    pub fn target(&self, from: u64, other: &Layout, to: u64, name: &mut NameBuffer) {
        name.bytes.clear();
        self.push_path(from, name);
        let above = 1 + name.bytes.iter().filter(|byte| **byte == b'/').count();
        name.bytes.clear();
        (0..above).for_each(|_| name.bytes.extend_from_slice(b"../"));
        name.bytes.extend_from_slice(other.name.as_bytes());
        name.bytes.push(b'/');
        other.push_path(to, name);
        name.bytes.push(0);
    }

    /// Path of an entry below the workload's directory, for messages and manifests.
    #[must_use]
    pub fn full_path(&self, index: u64) -> String {
        let mut name = NameBuffer::new(0);
        self.path(index, &mut name);
        format!("{}/{}", self.name, name.as_cstr().to_string_lossy())
    }

    /// Most bytes of a path that [`Layout::path`] or [`Layout::target`] writes.
    #[must_use]
    pub fn longest(&self) -> usize {
        let path = match &self.shape {
            Shape::Listed { arena, starts } => {
                let ends = starts.iter().skip(1).copied().chain([arena.len()]);
                starts.iter().zip(ends).map(|(start, end)| end - start).max().unwrap_or(0)
            }
            _ => 512,
        };
        4 * path + 2 * self.name.len()
    }

    /// The directories below the fileset's own, each after those that it is in.
    #[must_use]
    pub fn directories(&self) -> Vec<String> {
        match &self.shape {
            Shape::Flat => Vec::new(),
            Shape::Leaves { width, base, levels } => {
                let leaves = self.entries.div_ceil(*width);
                let of_level = |level: u32| {
                    let count = leaves.div_ceil(base.pow(levels - level));
                    (0..count).map(move |index| (level, index))
                };
                let path = |(level, index): (u32, u64)| {
                    let mut name = NameBuffer::new(64);
                    name.bytes.clear();
                    push_digits(&mut name, index, *base, level);
                    slash_off(name)
                };
                (1..=*levels).flat_map(of_level).map(path).collect()
            }
            Shape::Heap { branch, count } => (1..*count)
                .map(|number| {
                    let mut name = NameBuffer::new(64);
                    name.bytes.clear();
                    push_heap(&mut name, number, *branch);
                    slash_off(name)
                })
                .collect(),
            Shape::Listed { .. } => {
                let mut found = BTreeSet::new();
                let mut name = NameBuffer::new(256);
                for index in 0..self.entries {
                    self.path(index, &mut name);
                    let path = name.as_cstr().to_string_lossy().into_owned();
                    let slashes =
                        path.match_indices('/').map(|(place, _)| path[..place].to_owned());
                    found.extend(slashes);
                }
                found.into_iter().collect()
            }
        }
    }

    #[inline]
    fn push_path(&self, index: u64, name: &mut NameBuffer) {
        match &self.shape {
            Shape::Flat => {}
            Shape::Leaves { width, base, levels } => {
                push_digits(name, index / width, *base, *levels);
            }
            Shape::Heap { branch, count } => {
                let number = u128::from(index) * u128::from(*count) / u128::from(self.entries);
                push_heap(name, number as u64, *branch);
            }
            Shape::Listed { arena, starts } => {
                let rest = &arena[starts[index as usize]..];
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                name.bytes.extend_from_slice(&rest[..end]);
                return;
            }
        }
        name.padded(self.prefix, index);
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0'])
        && name.len() < 200
}

fn slash_off(mut name: NameBuffer) -> String {
    name.bytes.pop();
    String::from_utf8_lossy(&name.bytes).into_owned()
}

/// The directories of `number` written with `levels` digits of `base`.
fn push_digits(name: &mut NameBuffer, number: u64, base: u64, levels: u32) {
    for level in (0..levels).rev() {
        name.directory(number / base.pow(level) % base);
    }
}

fn push_heap(name: &mut NameBuffer, number: u64, branch: u64) {
    if number > 0 {
        push_heap(name, (number - 1) / branch, branch);
        name.directory((number - 1) % branch);
    }
}

fn made(fileset: &Fileset) -> Result<Shape, String> {
    let name = &fileset.name;
    let too_many =
        || format!("fileset {name} would have over {DIRECTORIES} directories: choose fewer levels");
    Ok(match fileset.tree {
        Tree::Flat => Shape::Flat,
        Tree::Width(0) => return Err(format!("fileset {name}: width must be 1 at least")),
        Tree::Width(width) => {
            let leaves = fileset.entries.div_ceil(width);
            if leaves > DIRECTORIES {
                return Err(too_many());
            }
            let base = width.max(2);
            let levels = (0..).find(|level| base.saturating_pow(*level) >= leaves).unwrap_or(0);
            Shape::Leaves { width, base, levels }
        }
        Tree::Levels { depth: 0, .. } | Tree::Levels { branch: 0, .. } => Shape::Flat,
        Tree::Levels { depth, branch } => {
            let mut count = 0u64;
            for level in 0..=depth {
                count = count.saturating_add(branch.saturating_pow(level));
                if count > DIRECTORIES || level > 200 {
                    return Err(too_many());
                }
            }
            Shape::Heap { branch, count }
        }
    })
}

fn listed(list: &[ListedFile]) -> Result<(Shape, u64, Lines), String> {
    let mut arena = Vec::new();
    let mut starts = Vec::new();
    let mut known: HashMap<&str, u64> = HashMap::new();
    let mut lines = Vec::with_capacity(list.len());
    for line in list {
        let path = line.path.as_str();
        let below = path.len() < 2048 && path.split('/').all(is_plain);
        if !below {
            return Err(format!("path {path:?} of the list does not lie below its directory"));
        }
        let index = *known.entry(path).or_insert_with(|| {
            starts.push(arena.len());
            arena.extend_from_slice(path.as_bytes());
            arena.push(0);
            starts.len() as u64 - 1
        });
        lines.push((index, line.clone()));
    }
    let entries = starts.len() as u64;
    Ok((Shape::Listed { arena, starts }, entries, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::definition::{Distribution, Usage};

    fn layout(entries: u64, tree: Tree, list: Option<Vec<ListedFile>>) -> Layout {
        let fileset = Fileset {
            name: "set".to_owned(),
            kind: EntryKind::File,
            entries,
            preallocated: 0.0,
            size: Distribution::Fixed(0),
            tree,
            list,
        };
        Layout::new(&fileset).unwrap().0
    }

    fn parent(path: &str) -> Option<&str> {
        path.rsplit_once('/').map(|(parent, _)| parent)
    }

    #[test]
    fn every_entry_has_a_name_of_its_own_in_a_directory_that_is_made() {
        let usage = Usage::Stat;
        let listed = ["a/b/c", "d", "a/b/e", "a/f"].map(|path| ListedFile {
            path: path.to_owned(),
            size_bytes: 1,
            usage,
        });
        let trees = [
            layout(1000, Tree::Flat, None),
            layout(1, Tree::Width(20), None),
            layout(20, Tree::Width(20), None),
            layout(21, Tree::Width(20), None),
            layout(10_000, Tree::Width(20), None),
            layout(50, Tree::Width(1), None),
            layout(1000, Tree::Levels { depth: 2, branch: 10 }, None),
            layout(7, Tree::Levels { depth: 2, branch: 3 }, None),
            layout(7, Tree::Levels { depth: 3, branch: 1 }, None),
            layout(4, Tree::Flat, Some(listed.to_vec())),
        ];
        for layout in trees {
            let made = layout.directories();
            let mut known = BTreeSet::from([None]);
            for directory in &made {
                assert!(known.contains(&parent(directory)), "{directory} of {layout:?}");
                assert!(known.insert(Some(directory)), "{directory} of {layout:?}");
            }
            let mut names = BTreeSet::new();
            let mut buffer = NameBuffer::new(layout.longest());
            for index in 0..layout.entries {
                layout.path(index, &mut buffer);
                let path = buffer.as_cstr().to_str().unwrap().to_owned();
                layout.directory(index, &mut buffer);
                assert_eq!(buffer.as_cstr().to_str().unwrap(), parent(&path).unwrap_or("."));
                assert!(known.contains(&parent(&path)), "{path} of {layout:?}");
                assert!(names.insert(path));
                assert!(buffer.bytes.capacity() <= layout.longest() + 1);
            }
        }
    }

    #[test]
    fn entries_are_spread_evenly() {
        for (layout, directories, most) in [
            (layout(10_000, Tree::Width(20), None), 500, 20),
            (layout(1110, Tree::Levels { depth: 2, branch: 10 }, None), 111, 10),
        ] {
            let mut counts: HashMap<String, u64> = HashMap::new();
            for index in 0..layout.entries {
                let path = layout.full_path(index);
                *counts.entry(parent(&path).unwrap().to_owned()).or_default() += 1;
            }
            assert_eq!((counts.len(), counts.values().max()), (directories, Some(&most)));
        }
    }

    #[test]
    fn a_link_leads_to_its_target() {
        let from = layout(100, Tree::Width(3), None);
        let to = layout(10, Tree::Flat, None);
        let mut buffer = NameBuffer::new(from.longest());
        from.target(7, &to, 3, &mut buffer);
        assert_eq!(buffer.as_cstr().to_str().unwrap(), "../../../../../set/f00000003");
        assert_eq!(from.full_path(7).matches('/').count(), 5);
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let fileset = |name: &str, entries, tree, list| Fileset {
            name: name.to_owned(),
            kind: EntryKind::File,
            entries,
            preallocated: 0.0,
            size: Distribution::Fixed(0),
            tree,
            list,
        };
        let line = |path: &str| {
            Some(vec![ListedFile { path: path.to_owned(), size_bytes: 0, usage: Usage::Stat }])
        };
        for (fileset, word) in [
            (fileset("", 1, Tree::Flat, None), "name"),
            (fileset("..", 1, Tree::Flat, None), "name"),
            (fileset("a", 0, Tree::Flat, None), "no entries"),
            (fileset("a", 9, Tree::Width(0), None), "width"),
            (fileset("a", 9, Tree::Levels { depth: 9, branch: 100 }, None), "fewer"),
            (fileset("a", 9, Tree::Levels { depth: 4_000_000_000, branch: 1 }, None), "fewer"),
            (fileset("a", 0, Tree::Flat, line("../b")), "below"),
            (fileset("a", 0, Tree::Flat, line("/b")), "below"),
        ] {
            let error = Layout::new(&fileset).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
