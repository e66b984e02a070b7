//! The files of `random-io`: laid out in full before anything is measured, opened for the load, and a
//! sample of their blocks compared with what must be in them.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use fsdyno_model::record::VerifyRecord;
use fsdyno_model::wire::ManifestFile;
use fsdyno_sys::Errno;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{CallResult, Calls, CreateFlags, OpenFlags, Real};

use super::settings::{Mix, Settings};
use crate::contents::{PayloadBuffer, differing};
use crate::context::Context;
use crate::failure::{Unavailable, call_failed, check_interrupt};
use crate::payload::{PayloadSource, content_key, name_hash};
use crate::rng::{Draw as _, Xoshiro};

/// Version of what the layout wrote.
pub const VERSION_LAID_OUT: u64 = 0;
/// Version of what the load wrote.
pub const VERSION_WRITTEN: u64 = 1;
/// Bytes of one write of the layout.
const LAYOUT_BYTES: u64 = 1 << 20;
/// About the most that is compared at the end.
const SAMPLE_BYTES: u64 = 64 << 20;
/// Most blocks that are compared at the end.
const SAMPLE_BLOCKS: u64 = 16_384;
/// Most bytes that are left to be compared by whoever started the run.
const MANIFEST_BYTES: u64 = 256 << 20;

/// Key of the contents of a file.
#[must_use]
pub fn key(file_index: usize, version: u64) -> u64 {
    const OWNER: u64 = name_hash(b"random-io");
    content_key(OWNER, file_index as u64, version)
}

fn name(file_index: usize) -> String {
    format!("file{file_index}")
}

fn c_name(file_index: usize) -> CString {
    CString::new(name(file_index)).expect("a made name holds no NUL")
}

/// Which blocks were written since the layout: one bit each.
#[derive(Debug, Clone)]
pub struct Written {
    bits: Vec<u64>,
}

impl Written {
    /// None of so many.
    #[must_use]
    pub fn new(blocks: u64) -> Written {
        Written { bits: vec![0; blocks.div_ceil(64) as usize] }
    }

    /// Notes one.
    #[inline]
    pub fn note(&mut self, block: u64) {
        self.bits[(block / 64) as usize] |= 1 << (block % 64);
    }

    /// Whether one was written.
    #[must_use]
    pub fn holds(&self, block: u64) -> bool {
        self.bits[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// Whether any was.
    #[must_use]
    pub fn is_touched(&self) -> bool {
        self.bits.iter().any(|word| *word != 0)
    }

    /// What all jobs wrote, by file.
    #[must_use]
    pub fn merge(settings: &Settings, jobs: Vec<Mutex<Written>>) -> Vec<Written> {
        let mut files: Vec<Written> = Vec::new();
        for (job_index, job) in jobs.into_iter().enumerate() {
            let job = job.into_inner().unwrap_or_else(PoisonError::into_inner);
            match files.get_mut(settings.file_of(job_index)) {
                Some(file) => {
                    file.bits.iter_mut().zip(&job.bits).for_each(|(own, other)| *own |= other);
                }
                None => files.push(job),
            }
        }
        files
    }
}

/// Writes all files from beginning to end and makes them durable.
///
/// # Errors
/// What failed, or a signal asks to stop.
pub fn lay_out(context: &Context<'_>, settings: &Settings) -> anyhow::Result<()> {
    context.progress.enter("layout");
    let size_bytes = settings.file_bytes();
    let count_bytes = LAYOUT_BYTES.min(size_bytes);
    let mut buffer = PayloadBuffer::new(settings.payload, context.seed, count_bytes as usize);
    for file_index in 0..settings.file_count() {
        let failed = |call| move |errno| call_failed(call, name(file_index), errno);
        let file = Real
            .create(context.root(), &c_name(file_index), CreateFlags::EXCLUSIVE)
            .map_err(failed("create"))?;
        let mut offset = 0;
        while offset < size_bytes {
            check_interrupt()?;
            let count = count_bytes.min(size_bytes - offset);
            let bytes = buffer.bytes(key(file_index, VERSION_LAID_OUT), offset, count);
            Real.write_all(&file, bytes).map_err(failed("write"))?;
            offset += count;
        }
        Real.fsync(&file).map_err(failed("fsync"))?;
        Real.close(file).map_err(failed("close"))?;
    }
    let root = || context.root_path().display().to_string();
    Ok(Real.syncfs(context.root()).map_err(|errno| call_failed("syncfs", root(), errno))?)
}

/// The open files, and where what is written to them comes from.
#[derive(Debug)]
pub struct Files {
    /// Open for the load.
    pub open: Vec<OwnedFd>,
    /// Their names.
    pub names: Vec<String>,
    /// The payload.
    pub source: PayloadSource,
}

impl Files {
    /// Opens all files as the load asks for.
    ///
    /// # Errors
    /// [`Unavailable`] where direct I/O is asked for and the filesystem has none, or none in blocks of
    /// that size; else what failed.
    pub fn open(context: &Context<'_>, settings: &Settings) -> anyhow::Result<Files> {
        let flags = OpenFlags {
            direct: settings.direct,
            write: settings.mix != Mix::Read,
            ..OpenFlags::READ
        };
        let mut open = Vec::new();
        for file_index in 0..settings.file_count() {
            let opened = Real.open_with(context.root(), &c_name(file_index), flags);
            open.push(opened.map_err(|errno| refused(settings, "open", file_index, errno))?);
        }
        if settings.direct {
            // Some filesystems let it be opened so and refuse the first read.
            let mut buffer = AlignedBuffer::new(settings.block_bytes);
            Real.read_at(&open[0], &mut buffer, 0)
                .map_err(|errno| refused(settings, "read", 0, errno))?;
        }
        Ok(Files {
            open,
            names: (0..settings.file_count()).map(name).collect(),
            source: PayloadSource::new(settings.payload, context.seed),
        })
    }
}

fn refused(settings: &Settings, call: &'static str, index: usize, errno: Errno) -> anyhow::Error {
    match errno {
        Errno::INVAL | Errno::OPNOTSUPP if settings.direct => {
            anyhow::Error::new(Unavailable(format!(
                "the filesystem takes no direct I/O in blocks of {} bytes: use direct=false or a \
                 larger bs",
                settings.block_bytes
            )))
        }
        errno => call_failed(call, name(index), errno).into(),
    }
}

/// Fills `buffer` from `offset_bytes` on; `EIO` where the file ends before.
///
/// # Errors
/// That of the read.
pub fn read_full(file: &OwnedFd, buffer: &mut [u8], offset_bytes: u64) -> CallResult<()> {
    let mut done = 0;
    while done < buffer.len() {
        match Real.read_at(file, &mut buffer[done..], offset_bytes + done as u64)? {
            0 => return Err(Errno::IO),
            count => done += count,
        }
    }
    Ok(())
}

/// Reads a sample of the blocks back and compares them; all where there are few.
///
/// # Errors
/// When one is not what it must be, cannot be read, or a signal asks to stop.
pub fn verify(
    root: &OwnedFd,
    settings: &Settings,
    source: &PayloadSource,
    written: &[Written],
    seed: u64,
) -> anyhow::Result<VerifyRecord> {
    let block_bytes = settings.block_bytes;
    let affordable = (SAMPLE_BYTES / block_bytes as u64).clamp(1, SAMPLE_BLOCKS);
    let share = (affordable / settings.file_count() as u64).max(1);
    let (mut found, mut scratch) = (vec![0; block_bytes], vec![0; block_bytes]);
    let mut rng = Xoshiro::new(seed);
    let mut record = VerifyRecord::default();
    for (file_index, written) in written.iter().enumerate() {
        let failed = |call| move |errno| call_failed(call, name(file_index), errno);
        let file = Real.open_read(root, &c_name(file_index)).map_err(failed("open"))?;
        for index in 0..share.min(settings.blocks) {
            check_interrupt()?;
            let block = if share >= settings.blocks { index } else { rng.below(settings.blocks) };
            let offset = block * block_bytes as u64;
            read_full(&file, &mut found, offset).map_err(failed("read"))?;
            let version = if written.holds(block) { VERSION_WRITTEN } else { VERSION_LAID_OUT };
            source.verify(key(file_index, version), offset, &found, &mut scratch).map_err(
                |place| {
                    let place = offset + place as u64;
                    differing(&format!("{}: differs at byte {place}", name(file_index)))
                },
            )?;
            record.bytes += block_bytes as u64;
        }
        record.files += 1;
    }
    Ok(record)
}

/// The files as the layout wrote them, as many as can be compared in reasonable time.
#[must_use]
pub fn manifest(settings: &Settings) -> Vec<ManifestFile> {
    let size_bytes = settings.file_bytes();
    let affordable = (MANIFEST_BYTES / size_bytes) as usize;
    let file = |file_index| ManifestFile {
        path: name(file_index),
        size_bytes,
        content_key: key(file_index, VERSION_LAID_OUT),
    };
    (0..settings.file_count().min(affordable)).map(file).collect()
}
