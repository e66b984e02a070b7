//! All that the phases of one run share: the filesets with their names and entries; how they are made
//! before the first phase, and which files are handed over at the end. What the phases do with them is
//! left to [`super::conduct`].

use std::collections::HashSet;
use std::ffi::CString;

use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::calls::{Calls, OpenFlags};

use super::draw::Sizes;
use super::entries::{Entries, Inode, MOST};
use super::layout::{Layout, Lines, NameBuffer};
use super::program::CHUNK_BYTES;
use crate::contents::{MANIFEST_FILES, PayloadBuffer, Reservoir};
use crate::engine::definition::{Definition, EntryKind, FilesetIndex};
use crate::failure::{call_failed, check_interrupt};
use crate::payload::{content_key, mix, name_hash};
use crate::rng::Xoshiro;

/// About the most that is read back at the end, in bytes.
const SAMPLE_BYTES: u64 = 256 << 20;

/// One fileset.
#[derive(Debug)]
pub struct Set {
    /// Its names.
    pub layout: Layout,
    /// What its entries are.
    pub kind: EntryKind,
    /// Number of its first entry among those of all filesets.
    pub base: u64,
    /// Sizes of files that are written whole.
    pub sizes: Sizes,
    /// Its list, each line with the entry that it names.
    pub lines: Lines,
}

impl Set {
    /// Number of the entry `index` among those of all filesets.
    #[inline]
    #[must_use]
    pub fn name(&self, index: u64) -> u64 {
        self.base + index
    }
}

/// The filesets and what exists of them.
#[derive(Debug)]
pub struct World<'d> {
    /// What is run.
    pub definition: &'d Definition,
    /// Seed of all draws.
    pub seed: u64,
    /// The filesets.
    pub sets: Vec<Set>,
    /// The entries of all of them.
    pub entries: Entries,
}

/// What exists, as far as the engine knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Believed {
    /// Path below the workload's directory.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Size of a file, in bytes; 0 for others.
    pub size_bytes: u64,
    /// Number of names of the file.
    pub links: u64,
    /// Key of its contents; `None` where they are not known.
    pub content_key: Option<u64>,
}

/// The key of the payload of contents `content`.
#[inline]
#[must_use]
pub fn key_of(content: u32) -> u64 {
    const OWNER: u64 = name_hash(b"engine");
    content_key(OWNER, content as u64, 0)
}

impl<'d> World<'d> {
    /// The filesets of `definition`, nothing of which exists yet.
    ///
    /// # Errors
    /// A sentence on what cannot be made.
    pub fn new(definition: &'d Definition, seed: u64) -> Result<World<'d>, String> {
        let mut sets = Vec::new();
        let mut names = HashSet::new();
        let mut base = 0u64;
        for fileset in &definition.filesets {
            let (layout, lines) = Layout::new(fileset)?;
            let sizes = Sizes::new(&fileset.size)
                .map_err(|error| format!("fileset {}: {error}", fileset.name))?;
            if !(0.0..=1.0).contains(&fileset.preallocated) {
                return Err(format!("fileset {}: preallocated is 0 … 1", fileset.name));
            }
            if !names.insert(fileset.name.as_str()) {
                return Err(format!("there are two filesets {}", fileset.name));
            }
            let entries = layout.entries;
            sets.push(Set { layout, kind: fileset.kind, base, sizes, lines });
            base = base.saturating_add(entries);
        }
        if base >= MOST {
            return Err(format!("{base} entries are too many: {} is the most", MOST - 1));
        }
        Ok(World { definition, seed, sets, entries: Entries::new(base) })
    }

    /// A name buffer for any path of any fileset.
    #[must_use]
    pub fn name_buffer(&self) -> NameBuffer {
        NameBuffer::new(self.sets.iter().map(|set| set.layout.longest()).sum())
    }

    /// Makes the directories and what exists from the beginning, and makes all that durable.
    ///
    /// # Errors
    /// The call that failed, with the path.
    pub fn prepare<C: Calls>(&self, calls: &C, root: &C::Fd) -> anyhow::Result<()> {
        let mut buffer =
            PayloadBuffer::new(self.definition.payload, self.seed, CHUNK_BYTES as usize);
        for (index, set) in self.sets.iter().enumerate() {
            let directory = made_directory(calls, root, &set.layout.name, "")?;
            for path in set.layout.directories() {
                check_interrupt()?;
                let name = CString::new(path.as_str())?;
                calls.mkdir(&directory, &name).map_err(|errno| {
                    call_failed("mkdir", format!("{}/{path}", set.layout.name), errno)
                })?;
            }
            self.preallocate(calls, (index, &directory), &mut buffer)?;
        }
        calls.syncfs(root).map_err(|errno| call_failed("syncfs", ".", errno))?;
        Ok(())
    }

    /// Opens the directories of all filesets.
    ///
    /// # Errors
    /// The call that failed, with the path.
    pub fn open<C: Calls>(&self, calls: &C, root: &C::Fd) -> anyhow::Result<Vec<C::Fd>> {
        let open = |set: &Set| {
            let name = CString::new(set.layout.name.as_str())?;
            let opened = calls.open_dir(root, &name);
            Ok(opened.map_err(|errno| call_failed("open", set.layout.name.as_str(), errno))?)
        };
        self.sets.iter().map(open).collect()
    }

    fn preallocate<C: Calls>(
        &self,
        calls: &C,
        (index, directory): (FilesetIndex, &C::Fd),
        buffer: &mut PayloadBuffer,
    ) -> anyhow::Result<()> {
        let set = &self.sets[index];
        let fileset = &self.definition.filesets[index];
        let share = fileset.preallocated;
        let mut rng = Xoshiro::new(mix(self.seed ^ name_hash(set.layout.name.as_bytes())));
        let mut listed =
            vec![0; if fileset.list.is_some() { set.layout.entries as usize } else { 0 }];
        for (entry, line) in &set.lines {
            let known: &mut u64 = &mut listed[*entry as usize];
            *known = (*known).max(line.size_bytes);
        }
        let mut name = self.name_buffer();
        let upto = |count: u64| (count as f64 * share) as u64;
        for entry in (0..set.layout.entries).filter(|entry| upto(entry + 1) > upto(*entry)) {
            check_interrupt()?;
            set.layout.path(entry, &mut name);
            let path = name.as_cstr();
            let failed = |call| move |errno| call_failed(call, set.layout.full_path(entry), errno);
            let number = set.name(entry);
            let mut size_bytes = 0;
            match set.kind {
                EntryKind::Directory => calls.mkdir(directory, path).map_err(failed("mkdir"))?,
                EntryKind::Symlink => {
                    calls.symlink(c"target", directory, path).map_err(failed("symlink"))?;
                }
                EntryKind::File => {
                    size_bytes = match listed.get(entry as usize) {
                        Some(size_bytes) => *size_bytes,
                        None => set.sizes.draw(&mut rng),
                    };
                    let key = key_of(number as u32);
                    let file = calls.open_with(directory, path, NEW).map_err(failed("create"))?;
                    let mut offset = 0;
                    while offset < size_bytes {
                        let count = buffer.size_bytes().min(size_bytes - offset);
                        let bytes = buffer.bytes(key, offset, count);
                        calls.write_all_at(&file, bytes, offset).map_err(failed("write"))?;
                        offset += count;
                    }
                    calls.close(file).map_err(failed("close"))?;
                }
            }
            self.add(number, size_bytes);
        }
        Ok(())
    }

    /// Notes an entry that was just made, with the contents of its number.
    fn add(&self, number: u64, size_bytes: u64) {
        let taken = self.entries.take_absent(number);
        debug_assert!(taken, "each entry is made once, and nobody else works yet");
        let inode = self.entries.new_inode(number, number as u32);
        self.entries.set_size(inode, size_bytes);
        self.entries.leave(inode);
        self.entries.appear(number, inode);
    }

    /// Calls `visit` with the fileset, the index and the inode of each entry that exists.
    fn visit(&self, mut visit: impl FnMut(&Set, u64, Inode)) {
        for set in &self.sets {
            for index in 0..set.layout.entries {
                if let Some(inode) = self.entries.find(set.name(index)) {
                    visit(set, index, inode);
                }
            }
        }
    }

    /// All that exists.
    #[must_use]
    pub fn believed(&self) -> Vec<Believed> {
        let mut all = Vec::new();
        self.visit(|set, index, inode| {
            let is_file = set.kind == EntryKind::File;
            let known = is_file && self.entries.is_known(inode);
            all.push(Believed {
                path: set.layout.full_path(index),
                kind: set.kind,
                size_bytes: if is_file { self.entries.size(inode) } else { 0 },
                links: self.entries.links(inode),
                content_key: known.then(|| key_of(self.entries.content(inode))),
            });
        });
        all
    }

    /// A sample of the files whose contents are known.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        let mut chosen = Reservoir::new(MANIFEST_FILES, self.seed);
        self.visit(|set, index, inode| {
            if set.kind == EntryKind::File && self.entries.is_known(inode) {
                chosen.offer(|| ManifestFile {
                    path: set.layout.full_path(index),
                    size_bytes: self.entries.size(inode),
                    content_key: key_of(self.entries.content(inode)),
                });
            }
        });
        let mut sum_bytes = 0;
        let within = |file: &ManifestFile| {
            let first = sum_bytes == 0;
            sum_bytes += file.size_bytes;
            first || sum_bytes <= SAMPLE_BYTES
        };
        let files = chosen.into_vec().into_iter().filter(within).collect();
        Manifest { payload: self.definition.payload, seed: self.seed, files }
    }
}

const NEW: OpenFlags = OpenFlags { write: true, create: true, exclusive: true, ..OpenFlags::NONE };

fn made_directory<C: Calls>(
    calls: &C,
    root: &C::Fd,
    name: &str,
    above: &str,
) -> anyhow::Result<C::Fd> {
    let path = || format!("{above}{name}");
    let text = CString::new(name)?;
    calls.mkdir(root, &text).map_err(|errno| call_failed("mkdir", path(), errno))?;
    Ok(calls.open_dir(root, &text).map_err(|errno| call_failed("open", path(), errno))?)
}
