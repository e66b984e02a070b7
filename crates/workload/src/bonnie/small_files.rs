//! The loops on the small files: create, stat and delete, in the order in which directories list them or
//! in that of the given names. What is timed around them is in [`super::run`].

use std::ffi::{CStr, CString};

use fsdyno_sys::calls::{CallResult, Calls, CreateFlags, FileKind, dir_buffer};
use fsdyno_sys::{Errno, SysError};

use super::longest::Longest;
use super::names::Names;
use super::settings::SmallFiles;
use crate::contents::PayloadBuffer;
use crate::context::Progress;
use crate::failure::{check_interrupt, name_failed};
use crate::payload::{GOLDEN, content_key, mix, name_hash};
use crate::recorder::{Operation, Recorder};

/// Files between two looks at whether to stop.
const BATCH_FILES: usize = 64;

/// The small files and how they are called on.
#[derive(Debug, Clone, Copy)]
pub struct Loops<'a, C: Calls> {
    /// Real calls, or null ones.
    pub calls: &'a C,
    /// The directory that holds them, or their directories.
    pub top: &'a C::Fd,
    /// Its name, for errors.
    pub top_name: &'a str,
    /// Names of the files.
    pub names: &'a Names,
    /// What they are.
    pub kind: SmallFiles,
    /// Seed of their sizes.
    pub seed: u64,
    /// Told about every batch.
    pub progress: &'a Progress,
}

/// The key of the contents of the file `index`.
#[must_use]
pub fn file_key(index: usize) -> u64 {
    const OWNER: u64 = name_hash(b"bonnie");
    content_key(OWNER, index as u64, 1)
}

impl<C: Calls> Loops<'_, C> {
    #[cold]
    fn failed(&self, call: &'static str, name: &CStr, errno: Errno) -> SysError {
        name_failed(call, self.top_name, name, errno)
    }

    /// Size of the file `index`, in bytes.
    #[inline(always)]
    #[must_use]
    pub fn size_bytes(&self, index: usize) -> u64 {
        match self.kind {
            SmallFiles::Files { min_bytes, max_bytes } if max_bytes > 0 => {
                let drawn = mix(self.seed ^ GOLDEN.wrapping_mul(index as u64 + 1));
                let span = u128::from(max_bytes - min_bytes) + 1;
                min_bytes + ((u128::from(drawn) * span) >> 64) as u64
            }
            _ => 0,
        }
    }

    fn in_batches(
        &self,
        mut body: impl FnMut(usize) -> Result<(), SysError>,
    ) -> anyhow::Result<()> {
        let mut start = 0;
        while start < self.names.len() {
            check_interrupt()?;
            let end = self.names.len().min(start + BATCH_FILES);
            (start..end).try_for_each(&mut body)?;
            self.progress.advance((end - start) as u64);
            start = end;
        }
        Ok(())
    }

    /// Makes all files, or all names of one file.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file, or the request to stop.
    pub fn create(
        &self,
        buffer: &mut PayloadBuffer,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        recorder.begin();
        longest.begin();
        if let SmallFiles::Files { .. } = self.kind {
            return self.in_batches(|index| {
                self.create_file(index, buffer, recorder)?;
                longest.end();
                Ok(())
            });
        }
        let target = self.link_target();
        self.in_batches(|index| {
            let name = self.names.file(index);
            match self.kind {
                _ if index == 0 => self.create_file(index, buffer, recorder)?,
                SmallFiles::Symlinks => {
                    let made = self.calls.symlink(&target, self.top, name);
                    made.map_err(|errno| self.failed("symlink", name, errno))?;
                    recorder.end(Operation::Link);
                    recorder.files += 1;
                }
                _ => {
                    let made = self.calls.link(self.top, &target, self.top, name);
                    made.map_err(|errno| self.failed("link", name, errno))?;
                    recorder.end(Operation::Link);
                    recorder.files += 1;
                }
            }
            longest.end();
            Ok(())
        })
    }

    /// What links lead to: the first file, from where they are.
    fn link_target(&self) -> CString {
        let first = self.names.file(0);
        if self.kind == SmallFiles::Symlinks && !self.names.directories().is_empty() {
            let path = [b"../", first.to_bytes()].concat();
            return CString::new(path).expect("neither part holds a NUL byte");
        }
        first.to_owned()
    }

    #[inline(always)]
    fn create_file(
        &self,
        index: usize,
        buffer: &mut PayloadBuffer,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let name = self.names.file(index);
        let failed = |call| move |errno: Errno| self.failed(call, name, errno);
        let created = self.calls.create(self.top, name, CreateFlags::EXCLUSIVE);
        let file = created.map_err(failed("create"))?;
        recorder.end(Operation::Create);
        let size_bytes = self.size_bytes(index);
        let mut offset = 0;
        while offset < size_bytes {
            let count = buffer.size_bytes().min(size_bytes - offset);
            let bytes = buffer.bytes(file_key(index), offset, count);
            recorder.begin();
            self.calls.write_all(&file, bytes).map_err(failed("write"))?;
            recorder.end(Operation::Write);
            offset += count;
        }
        self.calls.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        recorder.bytes += size_bytes;
        recorder.files += 1;
        Ok(())
    }

    /// Asks for the attributes of all files in the order in which their directories list them, and reads
    /// those that are not empty.
    ///
    /// # Errors
    /// As [`Loops::create`], and `EIO` where a directory lists another number of files.
    pub fn stat_listed(
        &self,
        buffer: &mut [u8],
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        self.each_listed(recorder, |directory, name, recorder| {
            self.stat(directory, name, buffer, recorder)?;
            longest.end();
            Ok(())
        })
    }

    /// The same in the order of the names.
    ///
    /// # Errors
    /// As [`Loops::create`].
    pub fn stat_named(
        &self,
        buffer: &mut [u8],
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        recorder.begin();
        longest.begin();
        self.in_batches(|index| {
            let name = self.names.file(index);
            self.stat(self.top, name, buffer, recorder)?;
            longest.end();
            Ok(())
        })
    }

    #[inline(always)]
    fn stat(
        &self,
        directory: &C::Fd,
        name: &CStr,
        buffer: &mut [u8],
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let failed = |call| move |errno: Errno| self.failed(call, name, errno);
        let facts = self.calls.stat(directory, name).map_err(failed("stat"))?;
        recorder.end(Operation::Stat);
        recorder.files += 1;
        if facts.size == 0 || facts.kind != FileKind::File {
            return Ok(());
        }
        let file = self.calls.open_read(directory, name).map_err(failed("open"))?;
        recorder.end(Operation::Open);
        let mut total = 0;
        while total < facts.size {
            let count = self.calls.read(&file, buffer).map_err(failed("read"))? as u64;
            recorder.end(Operation::Read);
            if count == 0 {
                return Err(failed("read")(Errno::IO).with_detail("the file ends before its size"));
            }
            total += count;
        }
        self.calls.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        recorder.bytes += total;
        recorder.read_bytes += total;
        Ok(())
    }

    /// Removes all files in the order in which their directories list them, then each directory.
    ///
    /// # Errors
    /// As [`Loops::stat_listed`].
    pub fn delete_listed(
        &self,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        self.each_listed(recorder, |directory, name, recorder| {
            let removed = self.calls.unlink(directory, name);
            removed.map_err(|errno| self.failed("unlink", name, errno))?;
            recorder.end(Operation::Unlink);
            recorder.files += 1;
            longest.end();
            Ok(())
        })?;
        self.remove_directories(recorder)
    }

    /// Removes all files in the order of the names, then the directories.
    ///
    /// # Errors
    /// As [`Loops::create`].
    pub fn delete_named(
        &self,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        recorder.begin();
        longest.begin();
        self.in_batches(|index| {
            let name = self.names.file(index);
            let removed = self.calls.unlink(self.top, name);
            removed.map_err(|errno| self.failed("unlink", name, errno))?;
            recorder.end(Operation::Unlink);
            recorder.files += 1;
            longest.end();
            Ok(())
        })?;
        self.remove_directories(recorder)
    }

    fn remove_directories(&self, recorder: &mut Recorder) -> anyhow::Result<()> {
        for name in self.names.directories() {
            self.calls
                .rmdir(self.top, &name)
                .map_err(|errno| self.failed("rmdir", &name, errno))?;
            recorder.end(Operation::Rmdir);
        }
        Ok(())
    }

    /// Calls `body` with each file that the directories list, one directory after the other.
    fn each_listed(
        &self,
        recorder: &mut Recorder,
        mut body: impl FnMut(&C::Fd, &CStr, &mut Recorder) -> Result<(), SysError>,
    ) -> anyhow::Result<()> {
        let mut directories = self.names.directories();
        if directories.is_empty() {
            directories.push(c".".to_owned());
        }
        let mut list_buffer = dir_buffer();
        let mut listed = 0usize;
        for name in &directories {
            let failed = |call| move |errno: Errno| self.failed(call, name, errno);
            let directory = self.calls.open_dir(self.top, name).map_err(failed("open"))?;
            recorder.end(Operation::Open);
            let mut outcome = Ok(());
            let walked: CallResult<()> =
                self.calls.list(&directory, &mut list_buffer, |entry, _, _| {
                    if outcome.is_err() {
                        return;
                    }
                    listed += 1;
                    if listed.is_multiple_of(BATCH_FILES) {
                        self.progress.advance(BATCH_FILES as u64);
                        outcome = check_interrupt().map_err(anyhow::Error::from);
                    }
                    if outcome.is_ok() {
                        outcome = body(&directory, entry, recorder).map_err(anyhow::Error::from);
                    }
                });
            outcome?;
            walked.map_err(failed("list"))?;
            self.calls.close(directory).map_err(failed("close"))?;
            recorder.end(Operation::Close);
        }
        self.progress.advance((listed % BATCH_FILES) as u64);
        let expected = self.names.len();
        anyhow::ensure!(
            listed == expected,
            "list {}: {listed} files are listed instead of {expected}",
            self.top_name
        );
        Ok(())
    }
}
