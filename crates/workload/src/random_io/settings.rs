//! The parameters of `random-io` as its loops use them. What they are called and what each means is in
//! [`crate::catalog::random_io`].

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::units::{human_bytes, parse_duration_ns};

/// Most memory for the buffers of one job.
const BUFFERS_BYTES: u64 = 1 << 30;
/// What direct I/O needs at least.
const SECTOR_BYTES: u64 = 512;

/// Whether blocks are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// All are read.
    Read,
    /// All are written.
    Write,
    /// Drawn for each.
    Mixed {
        /// Share that is read, 0 … 100.
        read_percent: u64,
    },
}

impl Mix {
    /// Name of the phase.
    #[must_use]
    pub fn phase(self) -> &'static str {
        match self {
            Mix::Read => "read",
            Mix::Write => "write",
            Mix::Mixed { .. } => "mixed",
        }
    }
}

/// Who makes the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The job itself: pread and pwrite.
    Psync,
    /// io_uring.
    IoUring {
        /// Whether buffers and files are registered with the kernel.
        registered: bool,
    },
}

/// After how many writes what was written is made durable; 0: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncAfter {
    /// With fsync.
    pub fsync_writes: u64,
    /// With fdatasync.
    pub fdatasync_writes: u64,
}

/// All parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Blocks in each file.
    pub blocks: u64,
    /// Whether they are read or written.
    pub mix: Mix,
    /// Whether they are drawn or follow each other.
    pub random: bool,
    /// Who makes the calls.
    pub engine: Engine,
    /// Calls under way at once in each job.
    pub iodepth: u32,
    /// Number of jobs.
    pub numjobs: usize,
    /// Whether all jobs work in one file.
    pub shared_file: bool,
    /// Whether calls go past the page cache.
    pub direct: bool,
    /// How long each job works at most.
    pub runtime_ns: Option<u64>,
    /// How many reads and writes each job does at most.
    pub operations: Option<u64>,
    /// How long the load runs before it is measured.
    pub ramp_ns: u64,
    /// Operations per second of each job; `None`: each begins when one has ended.
    pub rate_per_s: Option<u64>,
    /// Whether the times at which they begin are those of a Poisson process.
    pub poisson: bool,
    /// When what was written is made durable.
    pub sync_after: SyncAfter,
    /// How the caches are emptied between layout and load.
    pub cold: Cold,
    /// Whether the phase ends with syncfs.
    pub sync: bool,
    /// What is written.
    pub payload: Payload,
}

/// Checks a duration, or the word `none`.
///
/// # Errors
/// A sentence.
pub fn check_duration(text: &str) -> Result<(), String> {
    duration_ns(text).map(drop)
}

fn duration_ns(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    match parse_duration_ns(text) {
        Ok(0) => Err("must be longer than nothing, or `none`".to_owned()),
        Ok(duration_ns) => Ok(Some(duration_ns)),
        Err(error) => Err(error.to_string()),
    }
}

impl Settings {
    /// Reads the parameters and checks them against each other.
    ///
    /// # Errors
    /// A sentence on what does not fit together.
    pub fn new(params: &Params) -> Result<Settings, String> {
        let (size_bytes, block_bytes) = (params.number("size"), params.number("bs"));
        if size_bytes < block_bytes {
            return Err(format!(
                "size={} holds no block of bs={}: make the file larger",
                human_bytes(size_bytes),
                human_bytes(block_bytes)
            ));
        }
        let blocks = size_bytes / block_bytes;
        let runtime_ns = duration_ns(params.text("runtime"))?;
        let operations = match (params.number("operations"), runtime_ns) {
            (0, None) => Some(blocks),
            (0, Some(_)) => None,
            (operations, _) => Some(operations),
        };
        let rw = params.text("rw");
        let settings = Settings {
            block_bytes: block_bytes as usize,
            blocks,
            mix: match rw {
                "read" | "randread" => Mix::Read,
                "write" | "randwrite" => Mix::Write,
                _ => Mix::Mixed { read_percent: params.number("rwmixread") },
            },
            random: rw.starts_with("rand"),
            engine: match params.text("engine") {
                "io_uring" => Engine::IoUring { registered: params.flag("registered") },
                _ => Engine::Psync,
            },
            iodepth: params.number("iodepth") as u32,
            numjobs: params.number("numjobs") as usize,
            shared_file: params.flag("shared_file"),
            direct: params.flag("direct"),
            runtime_ns,
            operations,
            ramp_ns: duration_ns(params.text("ramp"))?.unwrap_or(0),
            rate_per_s: Some(params.number("rate")).filter(|rate| *rate > 0),
            poisson: params.text("arrivals") == "poisson",
            sync_after: SyncAfter {
                fsync_writes: params.number("fsync"),
                fdatasync_writes: params.number("fdatasync"),
            },
            cold: Cold::parse(params.text("cold"))?,
            sync: params.flag("sync"),
            payload: Payload::parse(params.text("payload"))?,
        };
        settings.check(params.flag("registered"))?;
        Ok(settings)
    }

    fn check(&self, registered: bool) -> Result<(), String> {
        if self.engine == Engine::Psync {
            if self.iodepth > 1 {
                return Err(format!(
                    "iodepth={} takes engine=io_uring: psync has one call under way in each job; use \
                     numjobs for more",
                    self.iodepth
                ));
            }
            if registered {
                return Err("registered=true takes engine=io_uring".to_owned());
            }
        }
        let block_bytes = self.block_bytes as u64;
        if self.direct && !block_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(format!(
                "direct=true takes a bs that is a multiple of 512 bytes, not {block_bytes}"
            ));
        }
        if block_bytes * u64::from(self.iodepth) > BUFFERS_BYTES {
            return Err(format!(
                "bs times iodepth is more than {}: use less of one",
                human_bytes(BUFFERS_BYTES)
            ));
        }
        if self.operations.is_some_and(|operations| operations.checked_mul(1024).is_none()) {
            return Err("operations times numjobs is more than can be counted".to_owned());
        }
        Ok(())
    }

    /// Number of files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        if self.shared_file { 1 } else { self.numjobs }
    }

    /// Index of the file of a job.
    #[must_use]
    pub fn file_of(&self, job_index: usize) -> usize {
        if self.shared_file { 0 } else { job_index }
    }

    /// Bytes of each file: whole blocks.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.blocks * self.block_bytes as u64
    }
}
