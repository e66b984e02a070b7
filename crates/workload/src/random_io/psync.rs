//! The loop of `random-io` that makes one call after the other. Preparing an operation, and waiting for
//! its time, are no part of the latency of its call.

use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::clock::Timer;
use fsdyno_sys::{Errno, SysError};

use super::draw::{Direction, Pace, Place};
use super::files::read_full;
use super::{Job, SyncSchedule, wait_until};
use crate::failure::{call_failed, check_interrupt};
use crate::recorder::{Operation, Recorder};

/// Works until the job's limit.
///
/// # Errors
/// The call that failed first, or a signal asks to stop.
pub fn run<P: Place, D: Direction, A: Pace>(
    mut job: Job<'_>,
    mut place: P,
    mut direction: D,
    mut pace: A,
    recorder: &mut Recorder,
) -> anyhow::Result<()> {
    let block_bytes = job.settings.block_bytes;
    let mut buffer = AlignedBuffer::new(block_bytes);
    // Touched before it is timed, and for constant payloads all that is needed.
    job.source.fill(job.key, 0, &mut buffer);
    let is_constant = job.source.is_constant();
    let mut schedule = SyncSchedule::new(job.settings.sync_after);
    let (timer, name) = (Timer::new(), job.name);
    let start = timer.now();
    let failed = |call| move |errno: Errno| call_failed(call, name, errno);
    let (mut operations, mut elapsed_ns) = (0, 0);
    while operations < job.limit.operations && elapsed_ns < job.limit.runtime_ns {
        check_interrupt()?;
        let due_ns = pace.due_ns();
        if A::IS_OPEN {
            wait_until(&timer, start, due_ns.min(job.limit.runtime_ns))?;
            if due_ns >= job.limit.runtime_ns {
                break;
            }
            pace.advance();
        }
        let block = place.next();
        let offset = block * block_bytes as u64;
        let is_read = direction.is_read();
        let (began, operation);
        if is_read {
            operation = Operation::Read;
            began = timer.now();
            read_full(job.file, &mut buffer, offset).map_err(failed("read"))?;
        } else {
            if D::IS_MIXED || !is_constant {
                job.source.fill(job.key, offset, &mut buffer);
            }
            operation = Operation::Write;
            began = timer.now();
            Real.write_all_at(job.file, &buffer, offset).map_err(failed("write"))?;
        }
        let now = timer.now();
        elapsed_ns = timer.between_ns(start, now);
        let latency_ns = timer.between_ns(began, now);
        recorder.record_ns(operation, latency_ns);
        if A::IS_OPEN {
            recorder.record_ns(Operation::Task, elapsed_ns.saturating_sub(due_ns));
        } else if D::IS_MIXED {
            recorder.record_ns(Operation::Task, latency_ns);
        }
        operations += 1;
        recorder.bytes += block_bytes as u64;
        if is_read {
            recorder.read_bytes += block_bytes as u64;
        } else {
            job.written.note(block);
            if let Some(operation) = schedule.after_write() {
                sync(&job, operation)?;
                recorder.record_ns(operation, timer.between_ns(now, timer.now()));
            }
        }
        job.pulse.beat(operations, elapsed_ns);
    }
    recorder.files += 1;
    Ok(())
}

/// Makes what was written durable.
fn sync(job: &Job<'_>, operation: Operation) -> Result<(), SysError> {
    let done = match operation {
        Operation::Fsync => Real.fsync(job.file),
        _ => Real.fdatasync(job.file),
    };
    done.map_err(|errno| call_failed(operation.name(), job.name, errno))
}
