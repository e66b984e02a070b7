//! What is done to one tree: writing lists of files into it, removing them, walking it. Which tree,
//! when and how often is left to the sequence; what is counted where, to [`super::run`].

use std::ffi::{CStr, CString};

use anyhow::Context as _;
use fsdyno_sys::calls::{Calls, CreateFlags};
use fsdyno_sys::{Errno, SysError};

use crate::contents::PayloadBuffer;
use crate::dataset::{FileEntry, PathId, Paths};
use crate::failure::{check_interrupt, name_failed};
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};
use crate::walk::{Visit, Walker};

/// How files are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// Opened to be cut off, as compilers and unpackers do.
    Replace,
    /// Opened to be appended to and not cut off, as the original does.
    Append,
    /// Read to the end first, then removed where `unlink`, then written anew.
    Patch {
        /// Whether the old file is removed.
        unlink: bool,
    },
    /// Removed where `unlink`, opened to be appended to, cut off, written; the read that the original
    /// makes at the end of the file finds nothing and is left out.
    PatchAppend {
        /// Whether the old file is removed.
        unlink: bool,
    },
}

impl Writing {
    fn create_flags(self) -> CreateFlags {
        match self {
            Writing::Replace | Writing::Patch { .. } => CreateFlags::TRUNCATE,
            Writing::Append | Writing::PatchAppend { .. } => CreateFlags::APPEND,
        }
    }

    fn unlinks(self) -> bool {
        matches!(self, Writing::Patch { unlink: true } | Writing::PatchAppend { unlink: true })
    }
}

/// One tree, by name.
#[derive(Debug, Clone)]
pub struct TreeName {
    text: String,
    c_text: CString,
    /// Part of the key of the contents of its files.
    hash: u64,
}

impl TreeName {
    /// The tree called `text`.
    ///
    /// # Errors
    /// The name holds a NUL byte.
    pub fn new(text: &str) -> anyhow::Result<TreeName> {
        let c_text = CString::new(text).context("the name of a tree")?;
        Ok(TreeName { text: text.to_owned(), c_text, hash: name_hash(text.as_bytes()) })
    }

    /// The name.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The key of the contents of the file `path` as written with `version`.
    #[inline(always)]
    #[must_use]
    pub fn file_key(&self, path: PathId, version: u64) -> u64 {
        content_key(self.hash, path.index() as u64, version)
    }
}

/// Works on trees; keeps its memory from one operation to the next.
#[derive(Debug)]
pub struct TreeWorker<'a, C: Calls> {
    calls: C,
    root: &'a C::Fd,
    paths: &'a Paths,
    payload: PayloadBuffer,
    read_buffer: Vec<u8>,
    /// By path: whether the directory has been made during this operation.
    made: Vec<bool>,
    walker: Walker,
}

impl<'a, C: Calls> TreeWorker<'a, C> {
    /// Works below `root` on files of `paths`, through buffers of the size of `payload`'s.
    #[must_use]
    pub fn new(calls: C, root: &'a C::Fd, paths: &'a Paths, payload: PayloadBuffer) -> Self {
        let buffer_bytes = payload.size_bytes() as usize;
        TreeWorker {
            calls,
            root,
            paths,
            payload,
            read_buffer: vec![0; buffer_bytes],
            made: vec![false; paths.len()],
            walker: Walker::new(buffer_bytes),
        }
    }

    /// Makes the directory of the tree where it is not there.
    ///
    /// # Errors
    /// The call that failed.
    pub fn make_top(&mut self, tree: &TreeName, recorder: &mut Recorder) -> Result<(), SysError> {
        match self.calls.mkdir(self.root, &tree.c_text) {
            Ok(()) | Err(Errno::EXIST) => recorder.end(Operation::Mkdir),
            Err(errno) => return Err(name_failed("mkdir", "", &tree.c_text, errno)),
        }
        Ok(())
    }

    fn open_top(&self, tree: &TreeName, recorder: &mut Recorder) -> Result<C::Fd, SysError> {
        let top = self.calls.open_dir(self.root, &tree.c_text);
        let top = top.map_err(|errno| name_failed("open", "", &tree.c_text, errno))?;
        recorder.end(Operation::Open);
        Ok(top)
    }

    fn close_top(
        &self,
        tree: &TreeName,
        top: C::Fd,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let outcome = self.calls.close(top);
        outcome.map_err(|errno| name_failed("close", "", &tree.c_text, errno))?;
        recorder.end(Operation::Close);
        Ok(())
    }

    /// Writes `files` into the tree in their order, making directories as they are first needed.
    /// Counts the bytes written; what a patch reads is not counted.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn write(
        &mut self,
        tree: &TreeName,
        files: &[FileEntry],
        writing: Writing,
        version: u64,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let top = self.open_top(tree, recorder)?;
        self.made.fill(false);
        self.made[PathId::ROOT.index()] = true;
        for file in files {
            check_interrupt()?;
            let parent = self.paths.parent(file.path);
            if !self.made[parent.index()] {
                self.make_directories(tree, &top, parent, recorder)?;
            }
            let name = self.paths.path_c(file.path);
            if let Writing::Patch { .. } = writing {
                self.read_old(tree, &top, name, recorder)?;
            }
            if writing.unlinks() {
                match self.calls.unlink(&top, name) {
                    Ok(()) | Err(Errno::NOENT) => recorder.end(Operation::Unlink),
                    Err(errno) => return Err(name_failed("unlink", &tree.text, name, errno).into()),
                }
            }
            self.write_file(tree, &top, *file, (writing, version), recorder)?;
        }
        self.close_top(tree, top, recorder)?;
        Ok(())
    }

    #[inline]
    fn write_file(
        &mut self,
        tree: &TreeName,
        top: &C::Fd,
        file: FileEntry,
        (writing, version): (Writing, u64),
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let Self { calls, paths, payload, .. } = self;
        let name = paths.path_c(file.path);
        let failed = |call| move |errno| name_failed(call, &tree.text, name, errno);
        let handle = calls.create(top, name, writing.create_flags()).map_err(failed("create"))?;
        recorder.end(Operation::Create);
        if let Writing::PatchAppend { .. } = writing {
            calls.truncate(&handle, 0).map_err(failed("truncate"))?;
            recorder.end(Operation::Truncate);
        }
        let (chunk, is_constant) = (payload.size_bytes(), payload.is_constant());
        let key = tree.file_key(file.path, version);
        let mut offset = 0;
        while offset < file.size_bytes {
            let count = chunk.min(file.size_bytes - offset);
            let bytes = payload.bytes(key, offset, count);
            if !is_constant {
                recorder.begin();
            }
            calls.write_all(&handle, bytes).map_err(failed("write"))?;
            recorder.end(Operation::Write);
            offset += count;
        }
        calls.close(handle).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        recorder.bytes += file.size_bytes;
        recorder.files += 1;
        Ok(())
    }

    /// Makes `directory` and those above it, from the top down, where they are not there.
    fn make_directories(
        &mut self,
        tree: &TreeName,
        top: &C::Fd,
        directory: PathId,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let parent = self.paths.parent(directory);
        if !self.made[parent.index()] {
            self.make_directories(tree, top, parent, recorder)?;
        }
        let name = self.paths.path_c(directory);
        match self.calls.mkdir(top, name) {
            Ok(()) | Err(Errno::EXIST) => recorder.end(Operation::Mkdir),
            Err(errno) => return Err(name_failed("mkdir", &tree.text, name, errno)),
        }
        self.made[directory.index()] = true;
        Ok(())
    }

    /// Reads a file to its end, if it is there.
    fn read_old(
        &mut self,
        tree: &TreeName,
        top: &C::Fd,
        name: &CStr,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let failed = |call| move |errno| name_failed(call, &tree.text, name, errno);
        let opened = self.calls.open_read(top, name);
        recorder.end(Operation::Open);
        let file = match opened {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed("open")(errno)),
        };
        loop {
            let count = self.calls.read(&file, &mut self.read_buffer).map_err(failed("read"))?;
            recorder.end(Operation::Read);
            if count == 0 {
                break;
            }
        }
        self.calls.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        Ok(())
    }

    /// Removes `files` from the tree in their order. Counts the bytes that they held.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn clean(
        &mut self,
        tree: &TreeName,
        files: &[FileEntry],
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let top = self.open_top(tree, recorder)?;
        for file in files {
            check_interrupt()?;
            let name = self.paths.path_c(file.path);
            let outcome = self.calls.unlink(&top, name);
            outcome.map_err(|errno| name_failed("unlink", &tree.text, name, errno))?;
            recorder.end(Operation::Unlink);
            recorder.bytes += file.size_bytes;
            recorder.files += 1;
        }
        self.close_top(tree, top, recorder)?;
        Ok(())
    }

    /// Walks the tree.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn walk(
        &mut self,
        tree: &TreeName,
        visit: Visit,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let top = self.open_top(tree, recorder)?;
        self.walker.walk(&self.calls, (&top, &tree.text), visit, recorder)?;
        self.close_top(tree, top, recorder)?;
        Ok(())
    }

    /// Tells the paths of all files of the tree, in the order in which a walk from the top finds them.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn list(&mut self, tree: &TreeName, mut tell: impl FnMut(&str)) -> anyhow::Result<()> {
        let recorder = &mut Recorder::new();
        let top = self.open_top(tree, recorder)?;
        let mut path = String::new();
        self.walker.list(&self.calls, (&top, ""), |directory, name| {
            path.clear();
            for part in [directory.trim_start_matches('/'), &name.to_string_lossy()] {
                if !path.is_empty() {
                    path.push('/');
                }
                path.push_str(part);
            }
            tell(&path);
        })?;
        self.close_top(tree, top, recorder)?;
        Ok(())
    }

    /// Removes the empty directory of the tree.
    ///
    /// # Errors
    /// The call that failed.
    pub fn remove_top(&mut self, tree: &TreeName) -> Result<(), SysError> {
        let outcome = self.calls.rmdir(self.root, &tree.c_text);
        outcome.map_err(|errno| name_failed("rmdir", "", &tree.c_text, errno))
    }

    /// Whether anything bears the name of the tree.
    ///
    /// # Errors
    /// The call that failed.
    pub fn exists(&self, tree: &TreeName) -> Result<bool, SysError> {
        match self.calls.stat(self.root, &tree.c_text) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(name_failed("stat", "", &tree.c_text, errno)),
        }
    }
}
