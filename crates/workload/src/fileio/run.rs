//! The phases of the workload `fileio`: what is prepared, timed, made durable and cold, and what is noted
//! of each. Single calls are in [`super::transfer`].

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use fsdyno_model::payload::Payload;
use fsdyno_model::wire::{Manifest, ManifestFile};
use fsdyno_sys::Errno;
use fsdyno_sys::calls::{Calls, OpenFlags, Real};
use fsdyno_sys::clock::now_ns;

use super::requests::{Requests, Shared};
use super::settings::{Mode, Settings};
use super::transfer::{Buffers, Rules, file_key, file_name, sync_all, work};
use crate::contents::{MANIFEST_FILES, Reservoir, verify_zeros};
use crate::context::Context;
use crate::failure::{Unavailable, call_failed, check_interrupt};
use crate::fragmentation;
use crate::jobs;
use crate::payload::mix;
use crate::phase::{Durability, PhaseTally};
use crate::recorder::Operation;

/// About the most that is compared.
const SAMPLE_BYTES: u64 = 256 << 20;
/// Files that are there, to be written.
const NEW: OpenFlags = OpenFlags { create: true, exclusive: true, ..OpenFlags::READ_WRITE };

/// The files as they are.
struct Files<'a> {
    settings: &'a Settings,
    /// Names, in order.
    names: Vec<CString>,
    are_made: bool,
    /// Blocks from the first of the first file on that hold something.
    written_blocks: u64,
}

/// Runs the workload.
///
/// # Errors
/// Parameters that do not fit, the call that failed first, contents that changed; where direct I/O is asked
/// for and refused, [`Unavailable`].
pub fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let settings = Settings::new(context.params).map_err(anyhow::Error::msg)?;
    context.progress.set_total(settings.modes.len() as u64);
    let buffers = || Buffers::new(settings.payload, context.seed, settings.block_bytes);
    let jobs: Vec<Mutex<Buffers>> = (0..settings.jobs).map(|_| Mutex::new(buffers())).collect();
    let names = (0..settings.files).map(file_name);
    let mut files = Files {
        settings: &settings,
        names: names
            .map(|name| CString::new(name).expect("a word and digits hold no NUL"))
            .collect(),
        are_made: false,
        written_blocks: 0,
    };
    for mode in &settings.modes {
        if *mode == Mode::SequentialWrite {
            files.make_anew(context)?;
        } else {
            files.fill(context, &mut lock(&jobs[0]))?;
            context.make_cold(settings.cold)?;
        }
        let begun = measure(context, &files, *mode, &jobs)?;
        if *mode == Mode::SequentialWrite {
            files.written_blocks = begun.min(settings.blocks());
        }
        context.progress.advance(1);
    }
    files.fill(context, &mut lock(&jobs[0]))?;
    fragmentation::survey(context)?;
    hand_over(context, &settings)
}

fn lock(buffers: &Mutex<Buffers>) -> std::sync::MutexGuard<'_, Buffers> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files<'_> {
    /// Makes the files empty.
    fn make_anew(&mut self, context: &Context<'_>) -> anyhow::Result<()> {
        context.progress.enter("prepare");
        for (name, index) in self.names.iter().zip(0..) {
            let failed = |call| move |errno| call_failed(call, file_name(index), errno);
            if self.are_made {
                Real.unlink(context.root(), name).map_err(failed("unlink"))?;
            }
            let file = Real.open_with(context.root(), name, NEW).map_err(failed("create"))?;
            Real.close(file).map_err(failed("close"))?;
        }
        (self.are_made, self.written_blocks) = (true, 0);
        Ok(())
    }

    /// Writes the blocks that hold nothing yet.
    fn fill(&mut self, context: &Context<'_>, buffers: &mut Buffers) -> anyhow::Result<()> {
        if !self.are_made {
            self.make_anew(context)?;
        }
        context.progress.enter("prepare");
        let Settings { blocks_per_file, block_bytes, .. } = *self.settings;
        while self.written_blocks < self.settings.blocks() {
            let index = self.written_blocks / blocks_per_file;
            let failed = |call| move |errno| call_failed(call, file_name(index), errno);
            let name = &self.names[index as usize];
            let file =
                Real.open_with(context.root(), name, OpenFlags::WRITE).map_err(failed("open"))?;
            for block in self.written_blocks % blocks_per_file..blocks_per_file {
                check_interrupt()?;
                let offset = block * block_bytes;
                let bytes = buffers.block(index, offset);
                Real.write_all_at(&file, bytes, offset).map_err(failed("write"))?;
                self.written_blocks += 1;
            }
            Real.close(file).map_err(failed("close"))?;
        }
        Ok(())
    }

    /// Opens all as the parameters say.
    fn open(&self, context: &Context<'_>) -> anyhow::Result<Vec<OwnedFd>> {
        let flags = self.settings.open;
        let open =
            |(name, index): (&CString, u64)| match Real.open_with(context.root(), name, flags) {
                Err(Errno::INVAL) if flags.direct => Err(Unavailable(
                    "the filesystem takes no direct I/O: leave extra_flags=direct out".to_owned(),
                )
                .into()),
                opened => Ok(opened.map_err(|errno| call_failed("open", file_name(index), errno))?),
            };
        self.names.iter().zip(0..).map(open).collect()
    }
}

/// Measures one phase; gives the blocks that a sequential mode has gone to.
fn measure(
    context: &Context<'_>,
    files: &Files<'_>,
    mode: Mode,
    buffers: &[Mutex<Buffers>],
) -> anyhow::Result<u64> {
    let settings = files.settings;
    let opened = files.open(context)?;
    let calls = (&Real, opened.as_slice());
    let shared = Shared::default();
    let durability = if settings.sync { Durability::Target } else { Durability::None };
    let ends_with_sync = settings.fsync_end && !settings.fsync_all && mode.writes();
    let mut tally = PhaseTally::new(mode.name(), mode.metric());
    tally.measure(context, "all files", durability, |recorder| {
        jobs::run(buffers.len(), recorder, |index, recorder| {
            let rules = Rules::new(settings, now_ns().saturating_add(settings.runtime_ns));
            // The places of a job are others in each phase.
            let seed = mix(context.seed ^ mode as u64).wrapping_add(index as u64);
            let mut requests = Requests::new(settings, mode, &shared, seed);
            let mut buffers = lock(&buffers[index]);
            work(calls, rules, (&mut requests, &shared), &mut buffers, recorder)?;
            if ends_with_sync && settings.is_original {
                sync_all(calls, rules, recorder)?;
            }
            Ok(())
        })?;
        if ends_with_sync && !settings.is_original {
            sync_all(calls, Rules::new(settings, u64::MAX), recorder)?;
        }
        recorder.files = settings.files;
        Ok(())
    })?;
    note(&mut tally, settings);
    for (file, index) in opened.into_iter().zip(0..) {
        Real.close(file).map_err(|errno| call_failed("close", file_name(index), errno))?;
    }
    context.finish_phase(tally.into_record())?;
    Ok(shared.blocks_begun())
}

/// Stores the rates of each kind of request and the latency that was asked for.
fn note(tally: &mut PhaseTally, settings: &Settings) {
    const REQUESTS: [Operation; 2] = [Operation::Read, Operation::Write];
    /// The original counts these as requests as well.
    const EVENTS: [Operation; 4] =
        [Operation::Read, Operation::Write, Operation::Fsync, Operation::Fdatasync];
    let elapsed_s = tally.samples()[0].elapsed_return_ns as f64 / 1e9;
    let count = |operation| tally.recorder().count(operation);
    let (reads, writes) = (count(Operation::Read), count(Operation::Write));
    let fsyncs = count(Operation::Fsync) + count(Operation::Fdatasync);
    let kinds = if settings.is_original { &EVENTS[..] } else { &REQUESTS[..] };
    let quantile = settings.percentile as f64 / 100.0;
    let latency_ns = tally.recorder().quantile_over_ns(kinds, quantile);
    for (metric, count) in [
        ("requests_per_s", reads + writes),
        ("reads_per_s", reads),
        ("writes_per_s", writes),
        ("fsyncs_per_s", fsyncs),
    ] {
        if count > 0 {
            tally.value(metric, count as f64 / elapsed_s);
        }
    }
    if let Some(latency_ns) = latency_ns {
        tally.value("request_percentile_ms", latency_ns as f64 / 1e6);
    }
}

/// Says which files are left to be compared; where all are zeros they are compared now.
fn hand_over(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    let size_bytes = settings.file_bytes();
    let affordable = 1 + (SAMPLE_BYTES / size_bytes) as usize;
    let mut sample = Reservoir::new(MANIFEST_FILES.min(affordable), context.seed);
    for index in 0..settings.files {
        sample.offer(|| {
            let (path, content_key) = (file_name(index), file_key(index));
            ManifestFile { path, size_bytes, content_key }
        });
    }
    let (payload, seed) = (settings.payload, context.seed);
    let mut files = sample.into_vec();
    if payload == Payload::Original {
        context.progress.enter("verify");
        context.note_verified(verify_zeros(context.root(), &files)?);
        files.clear();
    }
    context.hand_over(Manifest { payload, seed, files })
}
