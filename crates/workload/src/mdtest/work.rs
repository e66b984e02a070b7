//! The calls of one rank on its items, or on those of another. Which phase they are part of is left to
//! [`super::run`].

use std::ffi::CStr;

use fsdyno_sys::calls::{Calls, CreateFlags, Real};
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::{Errno, SysError};

use super::names::Names;
use crate::contents::PayloadBuffer;
use crate::failure::{check_interrupt, name_failed};
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};

/// Items between two looks at whether to stop.
const BATCH_ITEMS: usize = 256;

/// What is done to each item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Make a directory.
    MakeDirectory,
    /// Ask for attributes.
    Stat,
    /// Give another name.
    Rename,
    /// Remove a directory.
    RemoveDirectory,
    /// Make a file, and write it where there is something to write.
    CreateFile,
    /// Open, read and close a file.
    ReadFile,
    /// Remove a file.
    RemoveFile,
}

/// What files hold and how they are written and read.
#[derive(Debug, Clone, Copy)]
pub struct FileWork {
    /// Bytes written into each file.
    pub write_bytes: u64,
    /// Bytes read from each file.
    pub read_bytes: u64,
    /// Whether each file is made durable before it is closed.
    pub fsyncs: bool,
    /// Time at which making files ends, in nanoseconds of the clock; `u64::MAX`: with the last one.
    pub end_ns: u64,
}

/// The key of what the file of this name holds.
#[must_use]
pub fn file_key(name: &CStr) -> u64 {
    content_key(0, name_hash(name.to_bytes()), 0)
}

/// The hands of one rank.
#[derive(Debug)]
pub struct Hands<'a> {
    /// The directory that names begin at.
    pub root: &'a <Real as Calls>::Fd,
    /// What files hold.
    pub files: FileWork,
    /// What is written.
    pub payload: &'a mut PayloadBuffer,
    /// What is read.
    pub buffer: &'a mut [u8],
}

impl Hands<'_> {
    /// Does `deed` to the first `count` of `names`; `others` are the new names of a renaming. Gives how
    /// many it was done to.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn work(
        &mut self,
        deed: Deed,
        (names, others): (&Names, &Names),
        count: usize,
        recorder: &mut Recorder,
    ) -> anyhow::Result<usize> {
        let count = count.min(names.len());
        let mut start = 0;
        while start < count {
            check_interrupt()?;
            let end = count.min(start + BATCH_ITEMS);
            let batch = start..end;
            match deed {
                Deed::MakeDirectory => self.each(names, batch, recorder, Self::make_directory),
                Deed::Stat => self.each(names, batch, recorder, Self::stat),
                Deed::RemoveDirectory => self.each(names, batch, recorder, Self::remove_directory),
                Deed::CreateFile => self.each(names, batch, recorder, Self::create_file),
                Deed::ReadFile => self.each(names, batch, recorder, Self::read_file),
                Deed::RemoveFile => self.each(names, batch, recorder, Self::remove_file),
                Deed::Rename => self.rename(names, others, batch, recorder),
            }?;
            start = end;
            if deed == Deed::CreateFile && now_ns() >= self.files.end_ns {
                break;
            }
        }
        Ok(start)
    }

    #[inline(always)]
    fn each(
        &mut self,
        names: &Names,
        batch: std::ops::Range<usize>,
        recorder: &mut Recorder,
        deed: impl Fn(&mut Self, &CStr, &mut Recorder) -> Result<(), SysError>,
    ) -> Result<(), SysError> {
        for index in batch {
            deed(self, names.get(index), recorder)?;
            recorder.files += 1;
        }
        Ok(())
    }

    #[inline]
    fn make_directory(&mut self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        Real.mkdir(self.root, name).map_err(|errno| name_failed("mkdir", "", name, errno))?;
        recorder.end(Operation::Mkdir);
        Ok(())
    }

    #[inline]
    fn stat(&mut self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        Real.stat(self.root, name).map_err(|errno| name_failed("stat", "", name, errno))?;
        recorder.end(Operation::Stat);
        Ok(())
    }

    #[inline]
    fn remove_directory(&mut self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        Real.rmdir(self.root, name).map_err(|errno| name_failed("rmdir", "", name, errno))?;
        recorder.end(Operation::Rmdir);
        Ok(())
    }

    #[inline]
    fn remove_file(&mut self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        Real.unlink(self.root, name).map_err(|errno| name_failed("unlink", "", name, errno))?;
        recorder.end(Operation::Unlink);
        Ok(())
    }

    fn rename(
        &mut self,
        names: &Names,
        others: &Names,
        batch: std::ops::Range<usize>,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        for index in batch {
            let (old, new) = (names.get(index), others.get(index));
            Real.rename(self.root, old, self.root, new)
                .map_err(|errno| name_failed("rename", "", old, errno))?;
            recorder.end(Operation::Rename);
            recorder.files += 1;
        }
        Ok(())
    }

    #[inline]
    fn create_file(&mut self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        let failed = |call| move |errno: Errno| name_failed(call, "", name, errno);
        let file =
            Real.create(self.root, name, CreateFlags::EXCLUSIVE).map_err(failed("create"))?;
        recorder.end(Operation::Create);
        let mut offset = 0;
        while offset < self.files.write_bytes {
            let count = self.payload.size_bytes().min(self.files.write_bytes - offset);
            let is_constant = self.payload.is_constant();
            let key = if is_constant { 0 } else { file_key(name) };
            let bytes = self.payload.bytes(key, offset, count);
            if !is_constant {
                recorder.begin();
            }
            Real.write_all(&file, bytes).map_err(failed("write"))?;
            recorder.end(Operation::Write);
            offset += count;
        }
        recorder.bytes += offset;
        if self.files.fsyncs {
            Real.fsync(&file).map_err(failed("fsync"))?;
            recorder.end(Operation::Fsync);
        }
        Real.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        Ok(())
    }

    #[inline]
    fn read_file(&mut self, name: &CStr, recorder: &mut Recorder) -> Result<(), SysError> {
        let failed = |call| move |errno: Errno| name_failed(call, "", name, errno);
        let file = Real.open_read(self.root, name).map_err(failed("open"))?;
        recorder.end(Operation::Open);
        let mut left = self.files.read_bytes;
        while left > 0 {
            let most = (self.buffer.len() as u64).min(left) as usize;
            let count = Real.read(&file, &mut self.buffer[..most]).map_err(failed("read"))?;
            recorder.end(Operation::Read);
            if count == 0 {
                return Err(failed("read")(Errno::IO)
                    .with_detail(format!("the file ends {left} bytes before it should")));
            }
            left -= count as u64;
            recorder.bytes += count as u64;
            recorder.read_bytes += count as u64;
        }
        Real.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        Ok(())
    }
}
