//! The random seeks: several threads draw tickets from one counter; each ticket is a place in the large
//! file, where a chunk is read and, for every tenth, changed and written back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fsdyno_sys::SysError;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::Calls;
use fsdyno_sys::cpu::self_times;

use super::large_file::{LargeFile, read_full};
use super::longest::Longest;
use crate::failure::check_interrupt;
use crate::jobs;
use crate::payload::{GOLDEN, mix};
use crate::recorder::{Operation, Recorder};

/// A chunk is written back where its ticket is a multiple of this.
const WRITE_EVERY: u64 = 10;

/// The tickets of one phase, the same for the same seed whoever draws them.
#[derive(Debug, Clone, Copy)]
pub struct Tickets {
    /// Seed of the trial.
    pub seed: u64,
    /// Number of them.
    pub count: u64,
    /// Chunks of the large file.
    pub chunk_count: u64,
}

/// What a ticket asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seek {
    /// The chunk to be read.
    pub chunk_index: u64,
    /// Whether it is written back.
    pub writes: bool,
}

impl Tickets {
    /// What the ticket number `index` asks for.
    #[inline(always)]
    #[must_use]
    pub fn seek(&self, index: u64) -> Seek {
        // A random number of 31 bits serves for both, as in the original.
        let drawn = mix(self.seed.wrapping_add(GOLDEN.wrapping_mul(index + 1))) >> 33;
        Seek { chunk_index: drawn % self.chunk_count, writes: drawn.is_multiple_of(WRITE_EVERY) }
    }

    /// The chunks that are written back, sorted, each once.
    #[must_use]
    pub fn written_chunks(&self) -> Vec<u64> {
        let seeks = (0..self.count).map(|index| self.seek(index));
        let mut chunks: Vec<u64> =
            seeks.filter(|seek| seek.writes).map(|seek| seek.chunk_index).collect();
        chunks.sort_unstable();
        chunks.dedup();
        chunks
    }
}

/// What the seekers tell besides what they recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The longest seek, in nanoseconds.
    pub longest_ns: u64,
    /// Processor time as the original adds it up: each seeker counts that of the whole process.
    pub summed_cpu_ns: u64,
}

/// Seeks with one thread for each of `files`, which it closes at the end, after fsync where `fsync`.
///
/// # Errors
/// The call that failed, or the request to stop.
pub fn run<C: Calls + Sync>(
    large: &LargeFile<'_, C>,
    files: Vec<C::Fd>,
    tickets: Tickets,
    fsync: bool,
    recorder: &mut Recorder,
) -> anyhow::Result<Told> {
    let next = AtomicU64::new(0);
    let longest_ns = AtomicU64::new(0);
    let summed_cpu_ns = AtomicU64::new(0);
    let files: Vec<_> = files.into_iter().map(|file| Mutex::new(Some(file))).collect();
    jobs::run(files.len(), recorder, |job_index, recorder| {
        let file = files[job_index].lock().unwrap_or_else(PoisonError::into_inner).take();
        let file = file.expect("each job takes its own file, once");
        let before = self_times();
        let chunk = AlignedBuffer::new(large.contents.chunk_bytes());
        let mut seeker = Seeker { large, file: &file, chunk, longest: Longest::new() };
        recorder.begin();
        loop {
            let ticket = next.fetch_add(1, Ordering::Relaxed);
            if ticket >= tickets.count {
                break;
            }
            check_interrupt()?;
            seeker.seek(tickets.seek(ticket), recorder)?;
        }
        longest_ns.fetch_max(seeker.longest.longest_ns(), Ordering::Relaxed);
        if fsync {
            large.calls.fsync(&file).map_err(|errno| large.failed("fsync", errno))?;
            recorder.end(Operation::Fsync);
        }
        large.calls.close(file).map_err(|errno| large.failed("close", errno))?;
        recorder.end(Operation::Close);
        let own = self_times().since(&before);
        summed_cpu_ns.fetch_add(own.user_ns + own.system_ns, Ordering::Relaxed);
        Ok(())
    })?;
    large.progress.advance(tickets.count);
    Ok(Told { longest_ns: longest_ns.into_inner(), summed_cpu_ns: summed_cpu_ns.into_inner() })
}

struct Seeker<'a, C: Calls> {
    large: &'a LargeFile<'a, C>,
    file: &'a C::Fd,
    chunk: AlignedBuffer,
    longest: Longest,
}

impl<C: Calls> Seeker<'_, C> {
    #[inline(always)]
    fn seek(&mut self, seek: Seek, recorder: &mut Recorder) -> Result<(), SysError> {
        let Self { large, file, chunk, longest } = self;
        let calls = large.calls;
        let chunk_bytes = chunk.len() as u64;
        let offset = seek.chunk_index * chunk_bytes;
        calls.seek(file, offset).map_err(|errno| large.failed("lseek", errno))?;
        read_full(calls, file, chunk).map_err(|errno| large.failed("read", errno))?;
        // One operation: the position alone costs less than to look at the clock.
        recorder.end(Operation::Read);
        recorder.bytes += chunk_bytes;
        recorder.read_bytes += chunk_bytes;
        if seek.writes {
            large.contents.mark(seek.chunk_index, chunk);
            calls.seek(file, offset).map_err(|errno| large.failed("lseek", errno))?;
            calls.write_all(file, chunk).map_err(|errno| large.failed("write", errno))?;
            recorder.end(Operation::Write);
            recorder.bytes += chunk_bytes;
        }
        longest.end();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_repeatable_even_and_every_tenth_writes() {
        let tickets = Tickets { seed: 3, count: 100_000, chunk_count: 1000 };
        let again = Tickets { seed: 3, ..tickets };
        let other = Tickets { seed: 4, ..tickets };
        let mut tenths = [0u32; 10];
        let mut writes = 0u32;
        let mut same = 0u32;
        for index in 0..tickets.count {
            let seek = tickets.seek(index);
            assert_eq!(seek, again.seek(index));
            same += u32::from(seek == other.seek(index));
            tenths[seek.chunk_index as usize / 100] += 1;
            writes += u32::from(seek.writes);
        }
        // The standard deviations are 95; of two draws one in a thousand falls on the same chunk.
        assert!(tenths.iter().all(|count| (9_500..10_500).contains(count)), "{tenths:?}");
        assert!((9_500..10_500).contains(&writes), "{writes}");
        assert!(same < 300, "{same}");
        // A multiple of ten modulo 1000 is one of a hundred chunks: so it is in the original.
        assert_eq!(tickets.written_chunks(), (0..100).map(|index| index * 10).collect::<Vec<_>>());
    }
}
