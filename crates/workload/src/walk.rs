//! Walking a tree as compilebench does: the whole listing of a directory first, its files in the
//! order of the listing, subdirectories after them (or before them, from the bottom up).

use std::ffi::CStr;
use std::mem::MaybeUninit;

use fsdyno_sys::calls::{Calls, FileKind, dir_buffer};
use fsdyno_sys::{Errno, SysError};

use crate::failure::{call_failed, check_interrupt};
use crate::recorder::{Operation, Recorder};

/// What is done with the files of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// Read every file to its end, from the top down.
    Read,
    /// Ask for the attributes of every file and directory, from the bottom up.
    Stat,
    /// Remove every file and directory, from the bottom up; the top directory stays.
    Delete,
    /// Ask for nothing but the names, from the top down.
    List,
}

/// Walks trees; keeps its memory from one walk to the next.
#[derive(Debug)]
pub struct Walker {
    listing: Box<[MaybeUninit<u8>]>,
    /// Names of the directories on the way down, each ended with NUL.
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// Where the walk is, for errors and for [`Visit::List`].
    path: String,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    name: usize,
    is_directory: bool,
}

/// What one walk works with.
struct Walk<'a, C: Calls, F> {
    calls: &'a C,
    visit: Visit,
    recorder: &'a mut Recorder,
    /// Told of each file: the path of its directory and its name.
    tell: F,
}

impl Walker {
    /// A walker that reads files through a buffer of `buffer_bytes`.
    #[must_use]
    pub fn new(buffer_bytes: usize) -> Walker {
        Walker {
            listing: dir_buffer(),
            names: Vec::with_capacity(64 << 10),
            entries: Vec::with_capacity(4 << 10),
            path: String::with_capacity(256),
            buffer: vec![0; buffer_bytes],
        }
    }

    /// Walks the open directory `top`, which is called `name` in errors.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn walk<C: Calls>(
        &mut self,
        calls: &C,
        (top, name): (&C::Fd, &str),
        visit: Visit,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        self.start(name);
        self.descend(top, &mut Walk { calls, visit, recorder, tell: |_: &str, _: &CStr| {} })
    }

    /// Calls `tell` with the directory (`kernel-0/fs`) and name of each file, without touching any.
    ///
    /// # Errors
    /// As [`Walker::walk`].
    pub fn list<C: Calls>(
        &mut self,
        calls: &C,
        (top, name): (&C::Fd, &str),
        tell: impl FnMut(&str, &CStr),
    ) -> anyhow::Result<()> {
        self.start(name);
        let recorder = &mut Recorder::new();
        self.descend(top, &mut Walk { calls, visit: Visit::List, recorder, tell })
    }

    fn start(&mut self, name: &str) {
        self.names.clear();
        self.entries.clear();
        self.path.clear();
        self.path.push_str(name);
    }

    fn descend<C: Calls, F: FnMut(&str, &CStr)>(
        &mut self,
        directory: &C::Fd,
        walk: &mut Walk<'_, C, F>,
    ) -> anyhow::Result<()> {
        let (first_name, first_entry) = (self.names.len(), self.entries.len());
        self.read_listing(directory, walk)?;
        let entries = first_entry..self.entries.len();
        if matches!(walk.visit, Visit::Read | Visit::List) {
            self.visit_files(directory, entries.clone(), walk)?;
        }
        for index in entries.clone() {
            if !self.entries[index].is_directory {
                continue;
            }
            let name = name_at(&self.names, self.entries[index].name);
            let failed = |call| {
                let target = format!("{}/{}", self.path, name.to_string_lossy());
                move |errno: Errno| call_failed(call, target, errno)
            };
            let below = walk.calls.open_dir(directory, name).map_err(failed("open"))?;
            walk.recorder.end(Operation::Open);
            let path_length = self.path.len();
            self.path.push('/');
            self.path.push_str(&name.to_string_lossy());
            self.descend(&below, walk)?;
            self.path.truncate(path_length);
            walk.calls.close(below).map_err(|errno| self.failed("close", c".", errno))?;
            walk.recorder.end(Operation::Close);
        }
        if matches!(walk.visit, Visit::Stat | Visit::Delete) {
            self.visit_files(directory, entries.clone(), walk)?;
            self.visit_directories(directory, entries, walk)?;
        }
        self.names.truncate(first_name);
        self.entries.truncate(first_entry);
        Ok(())
    }

    /// Appends the listing of `directory` to the entries.
    fn read_listing<C: Calls, F>(
        &mut self,
        directory: &C::Fd,
        walk: &mut Walk<'_, C, F>,
    ) -> Result<(), SysError> {
        let Walker { listing, names, entries, .. } = self;
        let first_entry = entries.len();
        let mut all_known = true;
        let outcome = walk.calls.list(directory, listing, |name, kind, _| {
            all_known &= kind != FileKind::Unknown;
            entries.push(Entry { name: names.len(), is_directory: kind == FileKind::Directory });
            names.extend_from_slice(name.to_bytes_with_nul());
        });
        outcome.map_err(|errno| self.failed("list", c".", errno))?;
        walk.recorder.end(Operation::List);
        if !all_known {
            // The filesystem does not tell kinds in its listings.
            for index in first_entry..self.entries.len() {
                let name = name_at(&self.names, self.entries[index].name);
                let facts = walk.calls.stat(directory, name);
                let facts = facts.map_err(|errno| self.failed("stat", name, errno))?;
                walk.recorder.end(Operation::Stat);
                self.entries[index].is_directory = facts.kind == FileKind::Directory;
            }
        }
        Ok(())
    }

    fn visit_files<C: Calls, F: FnMut(&str, &CStr)>(
        &mut self,
        directory: &C::Fd,
        entries: std::ops::Range<usize>,
        walk: &mut Walk<'_, C, F>,
    ) -> anyhow::Result<()> {
        for index in entries {
            let entry = self.entries[index];
            if entry.is_directory {
                continue;
            }
            check_interrupt()?;
            match walk.visit {
                Visit::Read => self.read_file(directory, entry, walk)?,
                Visit::Stat => {
                    let name = name_at(&self.names, entry.name);
                    let outcome = walk.calls.stat(directory, name);
                    outcome.map_err(|errno| self.failed("stat", name, errno))?;
                    walk.recorder.end(Operation::Stat);
                }
                Visit::Delete => {
                    let name = name_at(&self.names, entry.name);
                    let outcome = walk.calls.unlink(directory, name);
                    outcome.map_err(|errno| self.failed("unlink", name, errno))?;
                    walk.recorder.end(Operation::Unlink);
                }
                Visit::List => (walk.tell)(&self.path, name_at(&self.names, entry.name)),
            }
            walk.recorder.files += 1;
        }
        Ok(())
    }

    fn read_file<C: Calls, F>(
        &mut self,
        directory: &C::Fd,
        entry: Entry,
        walk: &mut Walk<'_, C, F>,
    ) -> Result<(), SysError> {
        let Walker { names, path, buffer, .. } = self;
        let name = name_at(names, entry.name);
        let failed = |call| {
            let path = &*path;
            move |errno: Errno| {
                call_failed(call, format!("{path}/{}", name.to_string_lossy()), errno)
            }
        };
        let file = walk.calls.open_read(directory, name).map_err(failed("open"))?;
        walk.recorder.end(Operation::Open);
        loop {
            let count = walk.calls.read(&file, buffer).map_err(failed("read"))?;
            walk.recorder.end(Operation::Read);
            walk.recorder.bytes += count as u64;
            walk.recorder.read_bytes += count as u64;
            if count == 0 {
                break;
            }
        }
        walk.calls.close(file).map_err(failed("close"))?;
        walk.recorder.end(Operation::Close);
        Ok(())
    }

    fn visit_directories<C: Calls, F>(
        &mut self,
        directory: &C::Fd,
        entries: std::ops::Range<usize>,
        walk: &mut Walk<'_, C, F>,
    ) -> Result<(), SysError> {
        for index in entries.filter(|index| self.entries[*index].is_directory) {
            let name = name_at(&self.names, self.entries[index].name);
            if walk.visit == Visit::Delete {
                let outcome = walk.calls.rmdir(directory, name);
                outcome.map_err(|errno| self.failed("rmdir", name, errno))?;
                walk.recorder.end(Operation::Rmdir);
            } else {
                let outcome = walk.calls.stat(directory, name);
                outcome.map_err(|errno| self.failed("stat", name, errno))?;
                walk.recorder.end(Operation::Stat);
            }
        }
        Ok(())
    }

    #[cold]
    fn failed(&self, call: &'static str, name: &CStr, errno: Errno) -> SysError {
        call_failed(call, format!("{}/{}", self.path, name.to_string_lossy()), errno)
    }
}

#[inline(always)]
pub(crate) fn name_at(names: &[u8], start: usize) -> &CStr {
    CStr::from_bytes_until_nul(&names[start..]).expect("every name ends with NUL")
}

#[cfg(test)]
mod tests {
    use fsdyno_sys::calls::Real;

    use super::*;

    /// A tree of 3 directories and 5 files of 10 bytes each.
    fn tree() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        std::fs::create_dir(directory.path().join("c")).unwrap();
        for file in ["top", "a/one", "a/two", "a/b/deep", "c/last"] {
            std::fs::write(directory.path().join(file), "0123456789").unwrap();
        }
        directory
    }

    fn walk(directory: &tempfile::TempDir, visit: Visit) -> Recorder {
        let top = Real.open_root(directory.path()).unwrap();
        let mut recorder = Recorder::new();
        Walker::new(4).walk(&Real, (&top, "tree"), visit, &mut recorder).unwrap();
        assert_eq!(recorder.files, 5);
        recorder
    }

    #[test]
    fn every_file_is_read_and_every_entry_asked_for() {
        let tree = tree();
        let read = walk(&tree, Visit::Read);
        assert_eq!(read.bytes, 50);
        // Three buffers of 4 bytes, and the end of the file.
        assert_eq!((read.count(Operation::Open), read.count(Operation::Read)), (8, 20));
        assert_eq!((read.count(Operation::List), read.count(Operation::Close)), (4, 8));
        assert_eq!(walk(&tree, Visit::Stat).count(Operation::Stat), 8);
    }

    #[test]
    fn deleting_leaves_the_top() {
        let tree = tree();
        let deleted = walk(&tree, Visit::Delete);
        assert_eq!((deleted.count(Operation::Unlink), deleted.count(Operation::Rmdir)), (5, 3));
        assert_eq!(std::fs::read_dir(tree.path()).unwrap().count(), 0);
    }

    #[test]
    fn listing_tells_files_before_subdirectories() {
        let tree = tree();
        let top = Real.open_root(tree.path()).unwrap();
        let mut told = Vec::new();
        let tell = |directory: &str, name: &CStr| {
            told.push(format!("{directory}/{}", name.to_str().unwrap()));
        };
        Walker::new(1).list(&Real, (&top, "t"), tell).unwrap();
        assert_eq!(told[0], "t/top");
        let place = |path: &str| told.iter().position(|told| told == path).unwrap();
        assert!(place("t/a/one") < place("t/a/b/deep") && place("t/a/two") < place("t/a/b/deep"));
        assert_eq!(told.len(), 5);
    }

    #[test]
    fn errors_name_the_path() {
        let mut walker = Walker::new(4);
        walker.start("tree");
        walker.path.push_str("/a");
        let error = walker.failed("rmdir", c"b", Errno::NOTEMPTY).to_string();
        assert!(error.starts_with("rmdir tree/a/b: ENOTEMPTY"), "{error}");
    }
}
