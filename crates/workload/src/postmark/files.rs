//! The calls on the files of one pool: a batch of operations is drawn and its names are written first,
//! then it is carried out. When that is timed is left to [`super::run`].

use std::ffi::CStr;
use std::io::Write as _;

use fsdyno_model::payload::Payload;
use fsdyno_sys::calls::{Calls, CreateFlags, OpenFlags};
use fsdyno_sys::{Errno, SysError};

use super::counts::Counts;
use super::pieces::{Chunking, STDIO_BYTES};
use super::sequence::{Action, File, Op, Sequence, Stage};
use super::settings::Settings;
use crate::contents::PayloadBuffer;
use crate::failure::name_failed;
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};

/// Operations that are drawn at a time: some milliseconds' worth.
const BATCH_OPS: usize = 256;
/// How the original opens a file to write it without the buffer: what it held is not cut off.
const UNBUFFERED_NEW: OpenFlags = OpenFlags { create: true, ..OpenFlags::READ_WRITE };
/// How the original opens a file to append to it without the buffer.
const UNBUFFERED_END: OpenFlags = OpenFlags { append: true, ..OpenFlags::READ_WRITE };

/// What is written.
trait Contents {
    /// The bytes of one piece for the file `id`; the recorder is told where making them took time.
    fn bytes(&mut self, id: u32, range: Range, recorder: &mut Recorder) -> &[u8];
}

/// A piece of what one operation writes.
#[derive(Clone, Copy)]
struct Range {
    /// From the start of the file.
    offset: u64,
    /// From the start of the operation.
    done: u64,
    count: u64,
}

/// The original's buffer: each operation writes a beginning of it.
struct Source<'a>(&'a [u8]);

impl Contents for Source<'_> {
    #[inline(always)]
    fn bytes(&mut self, _: u32, range: Range, _: &mut Recorder) -> &[u8] {
        &self.0[range.done as usize..(range.done + range.count) as usize]
    }
}

/// Payload of stated entropy.
struct Made<'a> {
    buffer: &'a mut PayloadBuffer,
    owner: u64,
}

impl Contents for Made<'_> {
    #[inline(always)]
    fn bytes(&mut self, id: u32, range: Range, recorder: &mut Recorder) -> &[u8] {
        let key = content_key(self.owner, u64::from(id), 0);
        let bytes = self.buffer.bytes(key, range.offset, range.count);
        recorder.begin();
        bytes
    }
}

/// What a pool writes from.
#[derive(Debug)]
enum Writing {
    Source(Vec<u8>),
    Made(PayloadBuffer),
}

/// A batch of operations with the names of their files.
#[derive(Debug)]
struct Batch {
    /// Each with the place where its name begins.
    ops: Vec<(Op, usize)>,
    /// Each name ends with NUL.
    names: Vec<u8>,
}

/// One pool of files: what is done to it, and with what.
#[derive(Debug)]
pub struct Pool {
    sequence: Sequence,
    prefix: String,
    owner: u64,
    writing: Writing,
    batch: Batch,
    read_buffer: Vec<u8>,
    plan: Plan,
    /// What has been done.
    pub counts: Counts,
}

/// How files are opened, read and written.
#[derive(Debug, Clone, Copy)]
struct Plan {
    is_buffered: bool,
    reading: Chunking,
    writing: Chunking,
}

impl Pool {
    /// The pool `pool_index`; `seed` is that of the payload.
    #[must_use]
    pub fn new(settings: &Settings, pool_index: u32, seed: u64) -> Pool {
        let config = settings.sequence_of(pool_index);
        // No call moves more than the largest file, or a buffer.
        let most_bytes = |chunking: Chunking| {
            let most = chunking.most_bytes().min(u64::from(config.size_high));
            most.max(STDIO_BYTES) as usize
        };
        let (sequence, writing) = if settings.payload == Payload::Original {
            let (sequence, source) = Sequence::with_source(config);
            (sequence, Writing::Source(source))
        } else {
            let buffer = PayloadBuffer::new(settings.payload, seed, most_bytes(settings.writing));
            (Sequence::new(config), Writing::Made(buffer))
        };
        let prefix = settings.prefix_of(pool_index);
        Pool {
            sequence,
            owner: name_hash(prefix.as_bytes()),
            prefix,
            writing,
            batch: Batch {
                ops: Vec::with_capacity(BATCH_OPS),
                names: Vec::with_capacity(BATCH_OPS * 32),
            },
            read_buffer: vec![0; most_bytes(settings.reading)],
            plan: Plan {
                is_buffered: settings.is_buffered,
                reading: settings.reading,
                writing: settings.writing,
            },
            counts: Counts::default(),
        }
    }

    /// The sequence, as far as it was carried out.
    #[must_use]
    pub fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// The buffer of which the original's operations write a beginning; `None` where the contents are
    /// others.
    #[must_use]
    pub fn source(&self) -> Option<&[u8]> {
        match &self.writing {
            Writing::Source(source) => Some(source),
            Writing::Made(_) => None,
        }
    }

    /// Path of a file, below the root.
    #[must_use]
    pub fn path_of(&self, file: &File) -> String {
        let mut name = Vec::new();
        push_name(&mut name, &self.prefix, file);
        name.pop();
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The key of the contents of a file.
    #[must_use]
    pub fn content_key_of(&self, file: &File) -> u64 {
        content_key(self.owner, u64::from(file.id), 0)
    }

    /// Carries out the next batch of `stage`: the number of operations, 0 at the end of the stage.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file; `EIO` for a file of another size.
    pub fn batch<C: Calls>(
        &mut self,
        calls: &C,
        root: &C::Fd,
        stage: Stage,
        recorder: &mut Recorder,
    ) -> Result<usize, SysError> {
        let Batch { ops, names } = &mut self.batch;
        ops.clear();
        names.clear();
        while ops.len() < BATCH_OPS
            && let Some(op) = self.sequence.next_of(stage)
        {
            ops.push((op, names.len()));
            push_name(names, &self.prefix, &op.file);
            self.counts.add(&op);
        }
        recorder.begin();
        let Pool { batch, read_buffer, plan, owner, .. } = self;
        let hands = Hands { calls, root, plan: *plan, recorder };
        match &mut self.writing {
            Writing::Source(source) => hands.carry_out(batch, read_buffer, &mut Source(source))?,
            Writing::Made(buffer) => {
                hands.carry_out(batch, read_buffer, &mut Made { buffer, owner: *owner })?;
            }
        }
        Ok(self.batch.ops.len())
    }
}

fn push_name(names: &mut Vec<u8>, prefix: &str, file: &File) {
    names.extend_from_slice(prefix.as_bytes());
    let written = match file.subdirectory {
        Some(subdirectory) => write!(names, "s{subdirectory}/{}\0", file.id),
        None => write!(names, "{}\0", file.id),
    };
    written.expect("writing to memory does not fail");
}

/// What calls are made with.
struct Hands<'a, C: Calls> {
    calls: &'a C,
    root: &'a C::Fd,
    plan: Plan,
    recorder: &'a mut Recorder,
}

impl<C: Calls> Hands<'_, C> {
    #[inline]
    fn carry_out(
        mut self,
        batch: &Batch,
        read_buffer: &mut [u8],
        contents: &mut impl Contents,
    ) -> Result<(), SysError> {
        for (op, name_start) in &batch.ops {
            let name = CStr::from_bytes_until_nul(&batch.names[*name_start..])
                .expect("every name ends with NUL");
            let failed = |call| move |errno: Errno| name_failed(call, "", name, errno);
            match op.action {
                Action::Create => {
                    let file = self.create(name).map_err(failed("create"))?;
                    self.recorder.end(Operation::Create);
                    self.write(file, name, op, contents)?;
                }
                Action::Append => {
                    let file = self.open_end(name).map_err(failed("open"))?;
                    self.recorder.end(Operation::Open);
                    self.write(file, name, op, contents)?;
                }
                Action::Read => self.read(name, op, read_buffer)?,
                Action::Delete => {
                    self.calls.unlink(self.root, name).map_err(failed("unlink"))?;
                    self.recorder.end(Operation::Unlink);
                }
            }
            self.recorder.files += 1;
        }
        Ok(())
    }

    #[inline]
    fn create(&self, name: &CStr) -> Result<C::Fd, Errno> {
        if self.plan.is_buffered {
            self.calls.create(self.root, name, CreateFlags::TRUNCATE)
        } else {
            self.calls.open_with(self.root, name, UNBUFFERED_NEW)
        }
    }

    #[inline]
    fn open_end(&self, name: &CStr) -> Result<C::Fd, Errno> {
        if self.plan.is_buffered {
            self.calls.create(self.root, name, CreateFlags::APPEND)
        } else {
            self.calls.open_with(self.root, name, UNBUFFERED_END)
        }
    }

    /// Writes what `op` says and closes the file.
    #[inline]
    fn write(
        &mut self,
        file: C::Fd,
        name: &CStr,
        op: &Op,
        contents: &mut impl Contents,
    ) -> Result<(), SysError> {
        let failed = |call| move |errno: Errno| name_failed(call, "", name, errno);
        let start = u64::from(op.offset_bytes());
        let mut done = 0;
        for count in self.plan.writing.writes(u64::from(op.count_bytes)) {
            let range = Range { offset: start + done, done, count };
            let bytes = contents.bytes(op.file.id, range, self.recorder);
            self.calls.write_all(&file, bytes).map_err(failed("write"))?;
            self.recorder.end(Operation::Write);
            done += count;
        }
        self.calls.close(file).map_err(failed("close"))?;
        self.recorder.end(Operation::Close);
        self.recorder.bytes += done;
        Ok(())
    }

    #[inline]
    fn read(&mut self, name: &CStr, op: &Op, buffer: &mut [u8]) -> Result<(), SysError> {
        let failed = |call| move |errno: Errno| name_failed(call, "", name, errno);
        let file = self.calls.open_read(self.root, name).map_err(failed("open"))?;
        self.recorder.end(Operation::Open);
        let size = u64::from(op.count_bytes);
        let mut total = 0;
        for count in self.plan.reading.reads(size) {
            let asked = &mut buffer[..count as usize];
            let found = self.calls.read(&file, asked).map_err(failed("read"))? as u64;
            self.recorder.end(Operation::Read);
            total += found;
            if found < count {
                break;
            }
        }
        self.calls.close(file).map_err(failed("close"))?;
        self.recorder.end(Operation::Close);
        if total != size {
            return Err(failed("read")(Errno::IO)
                .with_detail(format!("{total} bytes were read instead of {size}")));
        }
        self.recorder.bytes += total;
        self.recorder.read_bytes += total;
        Ok(())
    }
}
