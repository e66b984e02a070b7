//! A base system that never was: packages with their files, drawn from the distributions of real ones,
//! always the same for the same seed. How it is written is left to [`super::unpack`].

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::ops::Range;

use super::distribution::{CLASSES, FileClass, Place};
use crate::payload::{content_key, name_hash};
use crate::rng::{Draw, Xoshiro};

/// What a package manager adds to the name of a file that is not in place yet.
pub const TEMPORARY_SUFFIX: &str = ".dpkg-new";
/// Where the database lies.
pub const DATABASE: &str = "var/lib/dpkg";
/// Bytes of a package's paragraph in the status file, about.
const PARAGRAPH_BYTES: usize = 890;
const ARCHITECTURE: &str = "x86_64-linux-gnu";
/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;

/// Kind of an [`Entry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory that no package before had.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link to the file before it.
    Symlink,
}

/// One thing that a package installs.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Size of a file in bytes.
    pub size_bytes: u64,
    /// Key of the contents of a file.
    pub content_key: u64,
    name: u32,
    temporary: u32,
    target: u32,
}

/// One package.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its entries, sorted by path.
    pub entries: Range<usize>,
    /// Text of its list file: every path, one a line.
    pub list: String,
    /// Text of its md5sums file, with digests that are none.
    pub sums: String,
    /// Its paragraph in the status file before the state …
    head: String,
    /// … and after it.
    tail: String,
}

/// State of a package in the status file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Unpacking has begun.
    HalfInstalled,
    /// All files are in place.
    Unpacked,
    /// Its configuration has begun.
    HalfConfigured,
    /// Done.
    Installed,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            State::HalfInstalled => "half-installed",
            State::Unpacked => "unpacked",
            State::HalfConfigured => "half-configured",
            State::Installed => "installed",
        }
    }
}

impl Package {
    /// Appends its paragraph of the status file to `text`, which is large enough already.
    pub fn paragraph(&self, state: State, text: &mut Vec<u8>) {
        for part in [&self.head, "install ok ", state.word(), &self.tail] {
            text.extend_from_slice(part.as_bytes());
        }
    }

    /// Bytes of its paragraph, at most.
    #[must_use]
    pub fn paragraph_bytes(&self) -> usize {
        self.head.len() + self.tail.len() + 32
    }
}

/// A base system.
#[derive(Debug, Default)]
pub struct Model {
    /// Its packages in the order of installation.
    pub packages: Vec<Package>,
    /// The entries of all packages, one package after the other.
    pub entries: Vec<Entry>,
    arena: Vec<u8>,
}

impl Model {
    /// `count` packages drawn from `seed`.
    ///
    /// # Panics
    /// When names take more than 4 GiB, which the bounds of the parameters do not allow.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Model {
        let mut model = Model::default();
        let mut rng = Xoshiro::new(seed);
        let mut directories = BTreeSet::new();
        for index in 0..count {
            model.add_package(index, &mut rng, &mut directories);
        }
        model
    }

    /// Name of an entry below the root.
    #[inline(always)]
    #[must_use]
    pub fn name(&self, entry: &Entry) -> &CStr {
        self.text(entry.name)
    }

    /// Its name until it is in place.
    #[inline(always)]
    #[must_use]
    pub fn temporary(&self, entry: &Entry) -> &CStr {
        self.text(entry.temporary)
    }

    /// What a symbolic link holds.
    #[inline(always)]
    #[must_use]
    pub fn target(&self, entry: &Entry) -> &CStr {
        self.text(entry.target)
    }

    /// Regular files of all packages.
    pub fn files(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.kind == EntryKind::File)
    }

    /// What is on the target at most, each file and directory rounded up to 4 KiB: when the status
    /// file is written anew for the last time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        let entries = self.entries.iter().map(|entry| match entry.kind {
            EntryKind::File => entry.size_bytes.next_multiple_of(BLOCK_BYTES),
            EntryKind::Directory | EntryKind::Symlink => BLOCK_BYTES,
        });
        let texts = self.packages.iter().map(|package| {
            let files = [package.list.len(), package.sums.len()];
            let files = files.map(|length| (length as u64).next_multiple_of(BLOCK_BYTES));
            files.iter().sum::<u64>() + 3 * package.paragraph_bytes() as u64
        });
        // Names of entries, in directories of which a half is filled.
        let names = 2 * self.arena.len() as u64;
        let journal = 2 * super::unpack::JOURNAL_ENTRIES as u64 * BLOCK_BYTES;
        entries.sum::<u64>() + texts.sum::<u64>() + names + journal
    }

    #[inline(always)]
    fn text(&self, start: u32) -> &CStr {
        CStr::from_bytes_until_nul(&self.arena[start as usize..])
            .expect("every text of the arena ends with NUL")
    }

    fn keep(&mut self, text: &str) -> u32 {
        let start = u32::try_from(self.arena.len()).expect("names take less than 4 GiB");
        self.arena.extend_from_slice(text.as_bytes());
        self.arena.push(0);
        start
    }

    fn add_package(&mut self, index: u64, rng: &mut Xoshiro, directories: &mut BTreeSet<String>) {
        let name = format!("{}{index}", word(rng, 3, 9));
        let mut files: Vec<(String, EntryKind, u64)> = Vec::new();
        for class in &CLASSES {
            if rng.below(100) >= class.packages_percent {
                continue;
            }
            let subdirectory = word(rng, 3, 8);
            for number in 0..class.count.draw(rng) {
                let path = path(class, &name, &subdirectory, number, rng);
                let is_link = number > 0 && rng.below(100) < class.links_percent;
                let size = class.size_bytes.draw(rng);
                let kind = if is_link { EntryKind::Symlink } else { EntryKind::File };
                files.push((path, kind, if is_link { 0 } else { size }));
            }
        }
        files.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let first = self.entries.len();
        let mut list = "/.\n".to_owned();
        let mut sums = String::new();
        let mut listed = BTreeSet::new();
        let mut last_file = "none".to_owned();
        for (path, kind, size_bytes) in files {
            for directory in ancestors(&path) {
                if listed.insert(directory.to_owned()) {
                    let _ = writeln!(list, "/{directory}");
                }
                if directories.insert(directory.to_owned()) {
                    self.add_entry(EntryKind::Directory, directory, 0, "");
                }
            }
            let _ = writeln!(list, "/{path}");
            self.add_entry(kind, &path, size_bytes, &last_file);
            if kind == EntryKind::File {
                let key = content_key(name_hash(path.as_bytes()), index, 1);
                let _ = writeln!(sums, "{key:016x}{:016x}  {path}", key.rotate_left(29));
                last_file = path.rsplit('/').next().unwrap_or(&path).to_owned();
            }
        }
        let head = format!("Package: {name}\nStatus: ");
        let tail = tail_of_paragraph(head.len(), self.entries.len() - first, rng);
        let entries = first..self.entries.len();
        self.packages.push(Package { name, entries, list, sums, head, tail });
    }

    fn add_entry(&mut self, kind: EntryKind, path: &str, size_bytes: u64, target: &str) {
        let name = self.keep(path);
        let temporary = self.keep(&format!("{path}{TEMPORARY_SUFFIX}"));
        let target = if kind == EntryKind::Symlink { self.keep(target) } else { name };
        let content_key = content_key(name_hash(path.as_bytes()), 0, 0);
        self.entries.push(Entry { kind, size_bytes, content_key, name, temporary, target });
    }
}

/// The directories above `path`, outermost first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Letters that can be spoken, `low` to `high` of them.
fn word(rng: &mut Xoshiro, low: u64, high: u64) -> String {
    const CONSONANTS: &[u8] = b"bcdfghklmnprstvz";
    const VOWELS: &[u8] = b"aeiou";
    (0..rng.randint(low, high))
        .map(|place| {
            let letters = if place % 2 == 0 { CONSONANTS } else { VOWELS };
            char::from(letters[rng.choice_index(letters.len())])
        })
        .collect()
}

/// Path of the file `number` of a kind; unique because the package's name or number is in it.
fn path(
    class: &FileClass,
    package: &str,
    subdirectory: &str,
    number: u64,
    rng: &mut Xoshiro,
) -> String {
    let share = rng.below(100);
    let stem = word(rng, 3, 14);
    // Numbers come last, so that directories are in no order that would favour one filesystem.
    let name = format!("{stem}-{package}-{number}");
    let section = 1 + rng.below(8);
    match class.place {
        Place::Documentation if share < 76 => format!("usr/share/doc/{package}/{stem}-{number}.gz"),
        Place::Documentation => format!("usr/share/doc/{package}/{subdirectory}/{stem}-{number}"),
        Place::Manual if share < 54 => {
            format!("usr/share/man/man{section}/{name}.{section}.gz")
        }
        Place::Manual => {
            let language = language(rng.below(25));
            format!("usr/share/man/{language}/man{section}/{name}.{section}.gz")
        }
        Place::Translation => {
            format!("usr/share/locale/{}/LC_MESSAGES/{package}.mo", language(number))
        }
        Place::Program if share < 69 => format!("usr/bin/{name}"),
        Place::Program => format!("usr/sbin/{name}"),
        Place::Data if share < 8 => format!("usr/share/{subdirectory}/{name}"),
        Place::Data if share < 83 => format!("usr/share/{package}/{subdirectory}/{stem}-{number}"),
        Place::Data => format!("usr/share/{package}/{subdirectory}/{section}/{stem}-{number}"),
        Place::Library if share < 5 => format!("usr/lib/{name}"),
        Place::Library if share < 36 => format!("usr/lib/{ARCHITECTURE}/{name}.so.{section}"),
        Place::Library if share < 48 => format!("usr/lib/{package}/{subdirectory}/{stem}-{number}"),
        Place::Library => {
            format!("usr/lib/{ARCHITECTURE}/{package}/{subdirectory}/{section}/a/{stem}-{number}")
        }
        Place::Configuration if share < 23 => format!("etc/{name}"),
        Place::Configuration if share < 85 => format!("etc/{subdirectory}/{name}"),
        Place::Configuration => format!("etc/{package}/{subdirectory}/{stem}-{number}"),
    }
}

/// A code of two letters, another one for each number below 676.
fn language(number: u64) -> String {
    // 15 and 676 have no common divisor.
    let code = (number * 15 + 100) % 676;
    let letter = |place: u64| char::from(b'a' + place as u8);
    format!("{}{}", letter(code / 26), letter(code % 26))
}

/// The rest of a paragraph of the status file, of about the usual size.
fn tail_of_paragraph(head: usize, entries: usize, rng: &mut Xoshiro) -> String {
    let mut tail = format!(
        "\nPriority: standard\nSection: admin\nInstalled-Size: {}\n\
         Maintainer: nobody <nobody@example.org>\nArchitecture: amd64\nVersion: {}.{}-1\n\
         Description: model of a package\n",
        entries * 16,
        rng.below(10),
        rng.below(100),
    );
    while head + tail.len() < PARAGRAPH_BYTES {
        let _ = writeln!(tail, " {} {} {}", word(rng, 4, 12), word(rng, 4, 12), word(rng, 4, 12));
    }
    tail.push('\n');
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_system() {
        let names = |model: &Model| -> Vec<String> {
            let entries = model.entries.iter();
            entries.map(|entry| model.name(entry).to_str().unwrap().to_owned()).collect()
        };
        let model = Model::new(30, 7);
        assert_eq!(names(&model), names(&Model::new(30, 7)));
        assert_ne!(names(&model), names(&Model::new(30, 8)));
        // Frozen: another release installs the same system.
        let mut hash = 0;
        for (entry, name) in model.entries.iter().zip(names(&model)) {
            hash = content_key(hash, name_hash(name.as_bytes()), entry.size_bytes);
        }
        assert_eq!((model.entries.len(), hash), (3086, 9_896_031_104_377_267_794));
    }

    #[test]
    fn paths_are_unique_and_below_directories_made_before() {
        let model = Model::new(200, 1);
        let mut made = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for package in &model.packages {
            assert!(package.list.starts_with("/.\n") && !package.entries.is_empty());
            for entry in &model.entries[package.entries.clone()] {
                let name = model.name(entry).to_str().unwrap();
                let temporary = model.temporary(entry).to_str().unwrap();
                assert_eq!(temporary.strip_suffix(TEMPORARY_SUFFIX), Some(name));
                assert!(seen.insert(name.to_owned()), "{name} occurs twice");
                assert!(ancestors(name).all(|directory| made.contains(directory)), "{name}");
                if entry.kind == EntryKind::Directory {
                    made.insert(name.to_owned());
                }
                assert!(package.list.contains(&format!("\n/{name}\n")));
                assert!(name.split('/').all(|part| part.len() < 60), "{name}");
            }
        }
    }

    #[test]
    fn it_is_as_large_as_a_base_system() {
        let (mut files, mut bytes) = (0u64, 0u64);
        for seed in 0..10 {
            let model = Model::new(70, seed);
            files += model.files().count() as u64;
            bytes += model.files().map(|file| file.size_bytes).sum::<u64>();
            assert!(model.peak_bytes() > model.files().map(|file| file.size_bytes).sum());
        }
        // Counted: 6340 files without time zones, and 134 MB.
        assert!((50_000..80_000).contains(&files), "{files}");
        assert!((900_000_000..1_800_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn paragraphs_tell_the_state() {
        let model = Model::new(1, 1);
        let mut text = Vec::new();
        model.packages[0].paragraph(State::HalfConfigured, &mut text);
        assert!(text.len() <= model.packages[0].paragraph_bytes() && text.len() > 800);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("\nStatus: install ok half-configured\nPriority: "), "{text}");
        assert!(text.starts_with("Package: ") && text.ends_with("\n\n"));
    }
}
