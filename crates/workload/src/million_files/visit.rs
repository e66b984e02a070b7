//! The calls on the files of one directory: created by index, found, read or removed in the order that
//! [`super::order`] gives. Which phase does which is in [`super::run`].

use std::os::fd::OwnedFd;

use fsdyno_sys::calls::{CallResult, Calls, FileFacts, FileKind, Real};
use fsdyno_sys::{Errno, SysError};

use super::name::{FileName, Share};
use super::order::Entry;
use crate::contents::PayloadBuffer;
use crate::context::Progress;
use crate::failure::{call_failed, check_interrupt, name_failed};
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};
use crate::small_files::create_one;

/// Files between two looks at whether to stop: some milliseconds' worth.
pub const BATCH_FILES: usize = 256;
/// Most bytes that are read at a time as tar does: its record of 20 blocks.
pub const TAR_RECORD_BYTES: usize = 10_240;
/// Most bytes that are read at a time otherwise, and written.
pub const BUFFER_BYTES: usize = 256 << 10;

/// The key of the contents of the file `index`.
#[inline(always)]
#[must_use]
pub fn file_key(index: u32) -> u64 {
    const OWNER: u64 = name_hash(b"million-files");
    content_key(OWNER, index as u64, 0)
}

/// The directory of one job.
#[derive(Debug)]
pub struct Visitor<'a> {
    /// The directory, open.
    directory: OwnedFd,
    share: &'a Share,
    size_bytes: u64,
    progress: &'a Progress,
}

impl<'a> Visitor<'a> {
    /// Opens the directory of `share`, whose files have `size_bytes` each; `progress` is told which
    /// are done.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn new(
        root: &OwnedFd,
        share: &'a Share,
        size_bytes: u64,
        progress: &'a Progress,
    ) -> Result<Visitor<'a>, SysError> {
        let opened = Real.open_dir(root, &share.path);
        let directory = opened.map_err(|errno| call_failed("open", share.shown(), errno))?;
        Ok(Visitor { directory, share, size_bytes, progress })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    fn failed(&self, call: &'static str, name: &FileName) -> impl FnOnce(Errno) -> SysError {
        move |errno| name_failed(call, &self.share.directory, name.as_c_str(), errno)
    }

    /// Calls `each` with every entry, looking now and then whether to stop.
    #[inline]
    fn each<E>(
        &self,
        entries: &[Entry],
        mut each: impl FnMut(FileName) -> Result<(), E>,
    ) -> anyhow::Result<()>
    where
        anyhow::Error: From<E>,
    {
        for batch in entries.chunks(BATCH_FILES) {
            check_interrupt()?;
            for entry in batch {
                each(FileName::new(entry.index))?;
            }
            self.progress.advance(batch.len() as u64);
        }
        Ok(())
    }

    /// Makes the files, in the order of their names, and writes them.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    pub fn create(
        &self,
        buffer: &mut PayloadBuffer,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let (owner, mut next) = (self.share.directory.as_str(), self.share.files.start);
        while next < self.share.files.end {
            check_interrupt()?;
            let batch = next..self.share.files.end.min(next + BATCH_FILES as u32);
            next = batch.end;
            let count = batch.len() as u64;
            for index in batch {
                let name = FileName::new(index);
                create_one(
                    &Real,
                    (&self.directory, owner, name.as_c_str()),
                    (file_key(index), self.size_bytes),
                    buffer,
                    recorder,
                )?;
            }
            self.progress.advance(count);
        }
        Ok(())
    }

    /// Asks for the attributes of each file.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file; `EIO` for one of another size or kind.
    pub fn find(&self, entries: &[Entry], recorder: &mut Recorder) -> anyhow::Result<()> {
        self.each(entries, |name| {
            let facts = Real.stat(&self.directory, name.as_c_str());
            let facts = facts.map_err(self.failed("stat", &name))?;
            recorder.end(Operation::Stat);
            recorder.files += 1;
            self.expect_whole(&name, facts)
        })
    }

    /// Reads each file as GNU tar does: asks for the attributes by name, opens, asks again, reads as
    /// many bytes as the file has, asks again, closes. An empty file is asked for twice and not opened.
    ///
    /// # Errors
    /// As [`Visitor::find`].
    pub fn read_as_tar(
        &self,
        entries: &[Entry],
        buffer: &mut [u8],
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        self.each(entries, |name| -> Result<(), SysError> {
            let facts = Real.stat(&self.directory, name.as_c_str());
            let facts = facts.map_err(self.failed("stat", &name))?;
            recorder.end(Operation::Stat);
            self.expect_whole(&name, facts)?;
            recorder.files += 1;
            if self.size_bytes == 0 {
                Real.stat(&self.directory, name.as_c_str()).map_err(self.failed("stat", &name))?;
                recorder.end(Operation::Stat);
                return Ok(());
            }
            let file = Real.open_read(&self.directory, name.as_c_str());
            let file = file.map_err(self.failed("open", &name))?;
            recorder.end(Operation::Open);
            Real.stat_open(&file).map_err(self.failed("fstat", &name))?;
            recorder.end(Operation::Stat);
            self.read_whole(&file, &name, buffer, recorder)?;
            Real.stat_open(&file).map_err(self.failed("fstat", &name))?;
            recorder.end(Operation::Stat);
            Real.close(file).map_err(self.failed("close", &name))?;
            recorder.end(Operation::Close);
            Ok(())
        })
    }

    /// Reads the files in batches: opens all files of a batch and asks for their attributes, then asks
    /// for all of them to be read ahead, then reads and closes them one after the other.
    ///
    /// # Errors
    /// As [`Visitor::find`].
    pub fn read_in_batches(
        &self,
        entries: &[Entry],
        batch_files: usize,
        buffer: &mut [u8],
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        let mut open: Vec<OwnedFd> = Vec::with_capacity(batch_files.min(entries.len()));
        recorder.begin();
        for batch in entries.chunks(batch_files) {
            check_interrupt()?;
            for entry in batch {
                let name = FileName::new(entry.index);
                let file = Real.open_read(&self.directory, name.as_c_str());
                let file = file.map_err(self.failed("open", &name))?;
                recorder.end(Operation::Open);
                let facts = Real.stat_open(&file).map_err(self.failed("fstat", &name))?;
                recorder.end(Operation::Stat);
                self.expect_whole(&name, facts)?;
                open.push(file);
            }
            if self.size_bytes > 0 {
                for (entry, file) in batch.iter().zip(&open) {
                    read_ahead(file, self.size_bytes)
                        .map_err(self.failed("readahead", &FileName::new(entry.index)))?;
                    recorder.end(Operation::Readahead);
                }
            }
            for (entry, file) in batch.iter().zip(open.drain(..)) {
                let name = FileName::new(entry.index);
                self.read_whole(&file, &name, buffer, recorder)?;
                Real.close(file).map_err(self.failed("close", &name))?;
                recorder.end(Operation::Close);
                recorder.files += 1;
            }
            self.progress.advance(batch.len() as u64);
        }
        Ok(())
    }

    /// Reads one byte of each file, in the order of their names, so that the access time is later than
    /// the last change and a mount with `relatime` updates it no more.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    pub fn settle_access_times(&self) -> anyhow::Result<()> {
        for index in self.share.files.clone() {
            if index % BATCH_FILES as u32 == 0 {
                check_interrupt()?;
            }
            let name = FileName::new(index);
            let file = Real.open_read(&self.directory, name.as_c_str());
            let file = file.map_err(self.failed("open", &name))?;
            Real.read(&file, &mut [0]).map_err(self.failed("read", &name))?;
            Real.close(file).map_err(self.failed("close", &name))?;
        }
        Ok(())
    }

    /// Removes the files.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    pub fn delete(&self, entries: &[Entry], recorder: &mut Recorder) -> anyhow::Result<()> {
        self.each(entries, |name| {
            let removed = Real.unlink(&self.directory, name.as_c_str());
            removed.map_err(self.failed("unlink", &name))?;
            recorder.end(Operation::Unlink);
            recorder.files += 1;
            Ok::<(), SysError>(())
        })
    }

    /// Reads as many bytes as the file has; the call that would find its end is not made.
    #[inline]
    fn read_whole(
        &self,
        file: &OwnedFd,
        name: &FileName,
        buffer: &mut [u8],
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let mut left = self.size_bytes;
        while left > 0 {
            let wanted = left.min(buffer.len() as u64) as usize;
            let count =
                Real.read(file, &mut buffer[..wanted]).map_err(self.failed("read", name))?;
            recorder.end(Operation::Read);
            if count == 0 {
                return Err(self.wrong_size(name, self.size_bytes - left));
            }
            left -= count as u64;
        }
        recorder.bytes += self.size_bytes;
        recorder.read_bytes += self.size_bytes;
        Ok(())
    }

    #[inline(always)]
    fn expect_whole(&self, name: &FileName, facts: FileFacts) -> Result<(), SysError> {
        if facts.kind != FileKind::File {
            return Err(self.failed("stat", name)(Errno::IO).with_detail("this is no regular file"));
        }
        if facts.size == self.size_bytes { Ok(()) } else { Err(self.wrong_size(name, facts.size)) }
    }

    #[cold]
    fn wrong_size(&self, name: &FileName, found_bytes: u64) -> SysError {
        let expected = self.size_bytes;
        self.failed("read", name)(Errno::IO)
            .with_detail(format!("the file holds {found_bytes} bytes instead of {expected}"))
    }
}

/// Advice only: a filesystem without a page cache says `EINVAL`, and is then read without.
#[inline(always)]
fn read_ahead(file: &OwnedFd, size_bytes: u64) -> CallResult<()> {
    match Real.readahead(file, 0, size_bytes as usize) {
        Err(Errno::INVAL) => Ok(()),
        other => other,
    }
}
