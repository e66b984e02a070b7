//! The loops on the large file: a byte or a chunk at a time, in order. The seeks are in
//! [`super::seeks`]; what is timed around the loops is in [`super::run`].

use std::ffi::CStr;

use fsdyno_model::record::VerifyRecord;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{CallResult, Calls};
use fsdyno_sys::{Errno, SysError};

use super::contents::{Change, Contents};
use super::longest::Longest;
use crate::contents::differing;
use crate::context::Progress;
use crate::failure::{call_failed, check_interrupt};
use crate::recorder::{Operation, Recorder};

/// Chunks between two looks at whether to stop.
const BATCH_CHUNKS: u64 = 64;

/// The large file and how it is called on.
#[derive(Debug, Clone, Copy)]
pub struct LargeFile<'a, C: Calls> {
    /// Real calls, or null ones.
    pub calls: &'a C,
    /// Its name, for errors.
    pub name: &'a CStr,
    /// What is in it.
    pub contents: &'a Contents,
    /// Its size in chunks.
    pub chunk_count: u64,
    /// Whether chunks go past the page cache.
    pub direct: bool,
    /// Told about every batch, in chunks.
    pub progress: &'a Progress,
}

/// Reads until `buffer` is full.
///
/// # Errors
/// That of the call; `EIO` where the file ends before.
#[inline(always)]
pub fn read_full<C: Calls>(calls: &C, file: &C::Fd, buffer: &mut [u8]) -> CallResult<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match calls.read(file, &mut buffer[filled..])? {
            0 => return Err(Errno::IO),
            count => filled += count,
        }
    }
    Ok(())
}

impl<C: Calls> LargeFile<'_, C> {
    /// The error of `call` on it.
    #[cold]
    pub fn failed(&self, call: &'static str, errno: Errno) -> SysError {
        let error = call_failed(call, self.name.to_string_lossy(), errno);
        match errno {
            Errno::INVAL if self.direct => error.with_detail(
                "direct=true: the filesystem has no direct I/O, or its blocks are larger than the \
                 chunk; use a larger chunk or direct=false",
            ),
            _ => error,
        }
    }

    /// Writes `total_bytes` with one call for each. A call is far shorter than a look at the clock is
    /// worth: a chunk of calls counts as one operation, as the original takes its latency.
    ///
    /// # Errors
    /// The call that failed first, or the request to stop.
    pub fn write_chars(
        &self,
        file: &C::Fd,
        total_bytes: u64,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        let mut chars = vec![0; self.contents.chunk_bytes()];
        let mut offset = 0;
        while offset < total_bytes {
            check_interrupt()?;
            let count = (total_bytes - offset).min(chars.len() as u64) as usize;
            let chars = &mut chars[..count];
            self.contents.fill_chars(offset, chars);
            recorder.begin();
            longest.begin();
            for byte in chars.iter() {
                self.calls
                    .write_all(file, std::slice::from_ref(byte))
                    .map_err(|errno| self.failed("write", errno))?;
            }
            recorder.end(Operation::Write);
            longest.end();
            offset += count as u64;
            recorder.bytes += count as u64;
            self.progress.advance(1);
        }
        Ok(())
    }

    /// Reads `total_bytes` with one call for each.
    ///
    /// # Errors
    /// As [`LargeFile::write_chars`].
    pub fn read_chars(
        &self,
        file: &C::Fd,
        total_bytes: u64,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        let mut byte = [0];
        let mut offset = 0;
        recorder.begin();
        longest.begin();
        while offset < total_bytes {
            check_interrupt()?;
            let count = (total_bytes - offset).min(self.contents.chunk_bytes() as u64);
            for _ in 0..count {
                read_full(self.calls, file, &mut byte)
                    .map_err(|errno| self.failed("read", errno))?;
            }
            recorder.end(Operation::Read);
            longest.end();
            offset += count;
            recorder.bytes += count;
            recorder.read_bytes += count;
            self.progress.advance(1);
        }
        Ok(())
    }

    /// Calls `body` with all chunks in order, some at a time.
    fn in_batches(
        &self,
        mut body: impl FnMut(std::ops::Range<u64>) -> Result<(), SysError>,
    ) -> anyhow::Result<()> {
        let mut start = 0;
        while start < self.chunk_count {
            check_interrupt()?;
            let end = self.chunk_count.min(start + BATCH_CHUNKS);
            body(start..end)?;
            self.progress.advance(end - start);
            start = end;
        }
        Ok(())
    }

    /// Writes all chunks.
    ///
    /// # Errors
    /// As [`LargeFile::write_chars`].
    pub fn write_chunks(
        &self,
        file: &C::Fd,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        let mut writer = self.contents.writer();
        let chunk_bytes = self.contents.chunk_bytes() as u64;
        self.in_batches(|chunks| {
            for _ in chunks {
                let chunk = writer.next_chunk();
                recorder.begin();
                longest.begin();
                self.calls.write_all(file, chunk).map_err(|errno| self.failed("write", errno))?;
                recorder.end(Operation::Write);
                longest.end();
                recorder.bytes += chunk_bytes;
            }
            Ok(())
        })
    }

    /// Reads every chunk, changes one byte, goes back and writes it.
    ///
    /// # Errors
    /// As [`LargeFile::write_chars`].
    pub fn rewrite_chunks(
        &self,
        file: &C::Fd,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        let chunk_bytes = self.contents.chunk_bytes();
        let mut chunk = AlignedBuffer::new(chunk_bytes);
        recorder.begin();
        longest.begin();
        self.in_batches(|chunks| {
            for index in chunks {
                read_full(self.calls, file, &mut chunk)
                    .map_err(|errno| self.failed("read", errno))?;
                recorder.end(Operation::Read);
                self.contents.rewrite(index, &mut chunk);
                self.calls
                    .seek(file, index * chunk_bytes as u64)
                    .map_err(|errno| self.failed("lseek", errno))?;
                recorder.end(Operation::Seek);
                self.calls.write_all(file, &chunk).map_err(|errno| self.failed("write", errno))?;
                recorder.end(Operation::Write);
                longest.end();
                recorder.bytes += 2 * chunk_bytes as u64;
                recorder.read_bytes += chunk_bytes as u64;
            }
            Ok(())
        })
    }

    /// Reads all chunks.
    ///
    /// # Errors
    /// As [`LargeFile::write_chars`].
    pub fn read_chunks(
        &self,
        file: &C::Fd,
        recorder: &mut Recorder,
        longest: &mut Longest,
    ) -> anyhow::Result<()> {
        let chunk_bytes = self.contents.chunk_bytes() as u64;
        let mut chunk = AlignedBuffer::new(chunk_bytes as usize);
        recorder.begin();
        longest.begin();
        self.in_batches(|chunks| {
            for _ in chunks {
                read_full(self.calls, file, &mut chunk)
                    .map_err(|errno| self.failed("read", errno))?;
                recorder.end(Operation::Read);
                longest.end();
                recorder.bytes += chunk_bytes;
                recorder.read_bytes += chunk_bytes;
            }
            Ok(())
        })
    }

    /// Compares the chunks of `sample`, each with what happened to it last, with what must be in them;
    /// gives what was compared.
    ///
    /// # Errors
    /// A chunk that cannot be read or is not what it must be.
    pub fn verify(
        &self,
        file: &C::Fd,
        sample: impl Iterator<Item = (u64, Change)>,
    ) -> anyhow::Result<VerifyRecord> {
        let chunk_bytes = self.contents.chunk_bytes();
        let mut found = AlignedBuffer::new(chunk_bytes);
        let mut expected = vec![0; chunk_bytes];
        let mut record = VerifyRecord { files: 1, ..VerifyRecord::default() };
        for (index, change) in sample {
            check_interrupt()?;
            let offset = index * chunk_bytes as u64;
            self.calls.seek(file, offset).map_err(|errno| self.failed("lseek", errno))?;
            read_full(self.calls, file, &mut found).map_err(|errno| self.failed("read", errno))?;
            self.contents.expect(index, change, &mut expected);
            let differs = found.iter().zip(&expected).position(|(found, byte)| found != byte);
            if let Some(place) = differs {
                let (name, position) = (self.name.to_string_lossy(), offset + place as u64);
                return Err(differing(&format!("{name}: differs at byte {position}")));
            }
            record.bytes += chunk_bytes as u64;
        }
        Ok(record)
    }
}
