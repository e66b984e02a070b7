//! Removes a tree as `rm -r` does: each directory is read whole, what is in it goes in that order, the
//! directory itself comes last.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

use fsdyno_sys::SysError;
use fsdyno_sys::calls::{Calls, FileKind, dir_buffer};

use crate::failure::{call_failed, check_interrupt};
use crate::recorder::{Operation, Recorder};
use crate::walk::name_at;

/// Removes the directory `name` in `parent` with all that is in it; `advance` hears of every file.
///
/// # Errors
/// The call that failed first, with its path; a signal that asks to stop.
pub fn remove_tree<C: Calls>(
    calls: &C,
    parent: &C::Fd,
    name: &CStr,
    recorder: &mut Recorder,
    advance: &mut dyn FnMut(),
) -> anyhow::Result<()> {
    let buffer = dir_buffer();
    let (names, entries, path) = (Vec::new(), Vec::new(), Vec::new());
    let mut removal = Removal { calls, recorder, advance, buffer, names, entries, path };
    removal.directory(parent, name)
}

struct Removal<'a, C: Calls> {
    calls: &'a C,
    recorder: &'a mut Recorder,
    advance: &'a mut dyn FnMut(),
    buffer: Box<[MaybeUninit<u8>]>,
    /// Names of what is in the directories that are being removed, each ended with NUL.
    names: Vec<u8>,
    /// Where each begins, and its kind.
    entries: Vec<(usize, FileKind)>,
    /// Directories that are being removed, for errors.
    path: Vec<CString>,
}

impl<C: Calls> Removal<'_, C> {
    fn directory(&mut self, parent: &C::Fd, name: &CStr) -> anyhow::Result<()> {
        let calls = self.calls;
        self.recorder.begin();
        let directory =
            calls.open_dir(parent, name).map_err(|errno| self.failed("open", name, errno))?;
        self.recorder.end(Operation::Open);
        self.path.push(name.to_owned());
        let (first_name, first_entry) = (self.names.len(), self.entries.len());
        let (names, entries) = (&mut self.names, &mut self.entries);
        self.recorder.begin();
        calls
            .list(&directory, &mut self.buffer, |name, kind, _| {
                entries.push((names.len(), kind));
                names.extend_from_slice(name.to_bytes_with_nul());
            })
            .map_err(|errno| self.failed("list", c".", errno))?;
        self.recorder.end(Operation::List);
        for index in first_entry..self.entries.len() {
            check_interrupt()?;
            let (start, kind) = self.entries[index];
            if self.is_directory(&directory, start, kind)? {
                let below = name_at(&self.names, start).to_owned();
                self.directory(&directory, &below)?;
                continue;
            }
            self.recorder.begin();
            let entry = name_at(&self.names, start);
            calls.unlink(&directory, entry).map_err(|errno| self.failed("unlink", entry, errno))?;
            self.recorder.end(Operation::Unlink);
            self.recorder.files += 1;
            (self.advance)();
        }
        self.names.truncate(first_name);
        self.entries.truncate(first_entry);
        self.path.pop();
        self.recorder.begin();
        calls.close(directory).map_err(|errno| self.failed("close", name, errno))?;
        self.recorder.end(Operation::Close);
        calls.rmdir(parent, name).map_err(|errno| self.failed("rmdir", name, errno))?;
        self.recorder.end(Operation::Rmdir);
        Ok(())
    }

    fn is_directory(
        &mut self,
        directory: &C::Fd,
        start: usize,
        kind: FileKind,
    ) -> Result<bool, SysError> {
        if kind != FileKind::Unknown {
            return Ok(kind == FileKind::Directory);
        }
        self.recorder.begin();
        let name = name_at(&self.names, start);
        let facts = self.calls.stat(directory, name);
        let facts = facts.map_err(|errno| self.failed("stat", name, errno))?;
        self.recorder.end(Operation::Stat);
        Ok(facts.kind == FileKind::Directory)
    }

    #[cold]
    fn failed(&self, call: &'static str, name: &CStr, errno: fsdyno_sys::Errno) -> SysError {
        let parts = self.path.iter().map(CString::as_c_str).chain([name]);
        let parts: Vec<_> = parts.map(CStr::to_string_lossy).collect();
        call_failed(call, parts.join("/"), errno)
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_sys::calls::Real;

    use super::*;

    #[test]
    fn a_tree_is_removed_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("t/a/b")).unwrap();
        std::fs::create_dir(path("kept")).unwrap();
        std::fs::write(path("kept/f"), "x").unwrap();
        for name in ["t/1", "t/a/2", "t/a/b/3", "t/a/b/.4"] {
            std::fs::write(path(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("../kept", path("t/link")).unwrap();
        let root = Real.open_root(directory.path()).unwrap();
        let (mut recorder, mut heard) = (Recorder::new(), 0);
        remove_tree(&Real, &root, c"t", &mut recorder, &mut || heard += 1).unwrap();
        assert!(!path("t").exists() && path("kept/f").exists());
        let count = |operation| recorder.count(operation);
        assert_eq!((count(Operation::Unlink), recorder.files, heard), (5, 5, 5));
        assert_eq!((count(Operation::Rmdir), count(Operation::List)), (3, 3));
        let error = remove_tree(&Real, &root, c"t", &mut recorder, &mut || {}).unwrap_err();
        assert_eq!(error.to_string(), "open t: ENOENT No such file or directory");
    }
}
