//! The calls of one job of the workload `fileio`: read or write a block, make files durable. When that is
//! timed, and which block is next, is left to [`super::run`] and [`super::requests`].

use fsdyno_model::payload::Payload;
use fsdyno_sys::SysError;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::Calls;
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::{Errno, calls::CallResult};

use super::requests::{Requests, Shared};
use super::settings::Settings;
use crate::failure::{call_failed, check_interrupt};
use crate::payload::{PayloadSource, content_key, name_hash};
use crate::recorder::{Operation, Recorder};

/// What the file `index` is called, as the original calls it.
#[must_use]
pub fn file_name(index: u64) -> String {
    format!("test_file.{index}")
}

/// The key of the contents of the file `index`.
#[inline(always)]
#[must_use]
pub fn file_key(index: u64) -> u64 {
    const OWNER: u64 = name_hash(b"fileio");
    content_key(OWNER, index, 0)
}

/// The buffers of one job.
#[derive(Debug)]
pub struct Buffers {
    /// `None` where all is zeros, as the original writes.
    source: Option<PayloadSource>,
    written: AlignedBuffer,
    read: AlignedBuffer,
}

impl Buffers {
    /// Buffers of one block; `seed` is that of the payload.
    #[must_use]
    pub fn new(payload: Payload, seed: u64, block_bytes: u64) -> Buffers {
        let source = match payload {
            Payload::Original => None,
            made => Some(PayloadSource::new(made, seed)),
        };
        let buffer = || AlignedBuffer::new(block_bytes as usize);
        Buffers { source, written: buffer(), read: buffer() }
    }

    /// What the file `index` holds from `offset` on: always the same, so that any order of writes leaves
    /// the same contents.
    #[inline]
    pub fn block(&mut self, index: u64, offset: u64) -> &[u8] {
        if let Some(source) = &self.source {
            source.fill(file_key(index), offset, &mut self.written);
        }
        &self.written
    }
}

/// How a job makes files durable and when it ends.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Whether a file is synced after every write to it.
    pub sync_writes: bool,
    /// Whether that is by `fdatasync`.
    pub data_only: bool,
    /// No request begins after this, in nanoseconds of [`now_ns`].
    pub deadline_ns: u64,
}

impl Rules {
    /// Those of `settings`, up to `deadline_ns`.
    #[must_use]
    pub fn new(settings: &Settings, deadline_ns: u64) -> Rules {
        Rules {
            block_bytes: settings.block_bytes,
            sync_writes: settings.fsync_all,
            data_only: settings.data_only,
            deadline_ns,
        }
    }
}

/// Makes requests until there are none, or the time is over.
///
/// # Errors
/// The call that failed first, with the name of its file; the request to stop.
pub fn work<C: Calls>(
    (calls, files): (&C, &[C::Fd]),
    rules: Rules,
    (requests, shared): (&mut Requests<'_>, &Shared),
    buffers: &mut Buffers,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    while let Some(request) = requests.draw() {
        check_interrupt()?;
        let file = &files[request.file as usize];
        let offset = request.block * rules.block_bytes;
        if request.is_write {
            let bytes = buffers.block(request.file, offset);
            recorder.begin();
            calls
                .write_all_at(file, bytes, offset)
                .map_err(|errno| failed("write", request.file, errno))?;
            recorder.end(Operation::Write);
            if rules.sync_writes {
                sync(calls, rules, (file, request.file), recorder)?;
            }
        } else {
            recorder.begin();
            let count = calls
                .read_at(file, &mut buffers.read, offset)
                .map_err(|errno| failed("read", request.file, errno))?;
            recorder.end(Operation::Read);
            if count as u64 != rules.block_bytes {
                return Err(short_read(request.file, offset, count).into());
            }
            recorder.read_bytes += rules.block_bytes;
        }
        recorder.bytes += rules.block_bytes;
        if request.then_sync {
            sync_all((calls, files), rules, recorder)?;
            shared.note_fsyncs(files.len() as u64);
        }
        if now_ns() >= rules.deadline_ns {
            break;
        }
    }
    Ok(())
}

/// Makes all files durable, one after the other.
///
/// # Errors
/// The call that failed first, with the name of its file; the request to stop.
pub fn sync_all<C: Calls>(
    (calls, files): (&C, &[C::Fd]),
    rules: Rules,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    recorder.begin();
    for (file, index) in files.iter().zip(0..) {
        check_interrupt()?;
        sync(calls, rules, (file, index), recorder)?;
    }
    Ok(())
}

#[inline]
fn sync<C: Calls>(
    calls: &C,
    rules: Rules,
    (file, index): (&C::Fd, u64),
    recorder: &mut Recorder,
) -> Result<(), SysError> {
    let (result, call, operation): (CallResult<()>, _, _) = if rules.data_only {
        (calls.fdatasync(file), "fdatasync", Operation::Fdatasync)
    } else {
        (calls.fsync(file), "fsync", Operation::Fsync)
    };
    result.map_err(|errno| failed(call, index, errno))?;
    recorder.end(operation);
    Ok(())
}

#[cold]
fn failed(call: &'static str, index: u64, errno: Errno) -> SysError {
    call_failed(call, file_name(index), errno)
}

#[cold]
fn short_read(index: u64, offset: u64, count: usize) -> SysError {
    SysError::new("read", file_name(index), Errno::IO)
        .with_detail(format!("{count} bytes came from byte {offset} on, where a whole block is"))
}
