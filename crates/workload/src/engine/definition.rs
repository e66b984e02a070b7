//! A workload as the engine runs it: filesets, phases, groups of jobs and the steps of their work, with
//! every parameter filled in and every name resolved to an index. How it is written in TOML is left to
//! [`crate::engine::data`], how it is run to [`crate::engine::run`].

mod op;

use std::time::Duration;

use fsdyno_model::cold::Cold;
use fsdyno_model::payload::Payload;

/// A whole workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// What is written into files.
    pub payload: Payload,
    /// Whether phases end with syncfs where they do not say.
    pub sync: bool,
    /// The files that it works on.
    pub filesets: Vec<Fileset>,
    /// Names of the semaphores, each 0 at the beginning of a phase.
    pub semaphores: Vec<String>,
    /// What it does, one after the other.
    pub phases: Vec<Phase>,
}

/// What the entries of a fileset are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Regular files.
    File,
    /// Directories, for mkdir and rmdir.
    Directory,
    /// Symbolic links.
    Symlink,
}

/// Entries below a directory of their own, which has the name of the fileset.
#[derive(Debug, Clone, PartialEq)]
pub struct Fileset {
    /// Name, and name of its directory.
    pub name: String,
    /// What its entries are.
    pub kind: EntryKind,
    /// Most entries that there can be at once.
    pub entries: u64,
    /// Share of them that exists before the first phase, 0 … 1, spread over all.
    pub preallocated: f64,
    /// Bytes in a file when it is written whole.
    pub size: Distribution,
    /// How the entries are spread over directories.
    pub tree: Tree,
    /// Paths and sizes from a list instead of made names, with what a boot does to each; `entries`,
    /// `size` and `tree` are those of the list then.
    pub list: Option<Vec<ListedFile>>,
}

/// One line of a list of files: which file, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// Path below the fileset's directory.
    pub path: String,
    /// Size of the file, in bytes.
    pub size_bytes: u64,
    /// What is done to it.
    pub usage: Usage,
}

/// What a replay does to a listed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Open, read from one place on, close.
    Read {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        count_bytes: u64,
    },
    /// Ask for its attributes.
    Stat,
    /// Open, append so many bytes, fsync, close.
    AppendDurably {
        /// Number of bytes.
        count_bytes: u64,
    },
}

/// How the entries of a fileset are spread over directories.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tree {
    /// All in the fileset's own directory.
    Flat,
    /// As filebench does: so many entries in a directory on average, with as many levels as that takes.
    Width(u64),
    /// As mdtest does: `branch` directories in each down to `depth` levels, the entries spread evenly
    /// over all directories.
    Levels {
        /// Levels below the fileset's own directory.
        depth: u32,
        /// Directories in each.
        branch: u64,
    },
}

/// How a number of bytes is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Fixed(u64),
    /// Any number within the bounds, both included.
    Uniform {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// Logarithm normally distributed.
    Lognormal {
        /// Median.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Cut off here.
        max: u64,
    },
    /// Gamma distributed.
    Gamma {
        /// Mean.
        mean: f64,
        /// Shape (k); the scale is mean / shape.
        shape: f64,
        /// Cut off here.
        max: u64,
    },
    /// `min` times the rank, the rank drawn by Zipf's law over 1 … max / min.
    Zipf {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
        /// Exponent.
        theta: f64,
    },
    /// Each value with its weight, as counted somewhere.
    Empirical(Vec<(u64, f64)>),
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name in records.
    pub name: String,
    /// Name of the metric that tables show for it.
    pub metric: String,
    /// How the caches are emptied before it.
    pub cold: Option<Cold>,
    /// Whether it ends with syncfs.
    pub sync: bool,
    /// When it ends.
    pub end: End,
    /// Index of the phase whose mean latency of tasks is the base of `slowdown`; for the record of a
    /// group, that of the group of the same name there, if it has a record too.
    pub baseline: Option<usize>,
    /// Who works at the same time. At least one is no background.
    pub groups: Vec<Group>,
}

/// When a phase ends: whichever comes first. A group whose work is used up (no file is left that it
/// could take) ends by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct End {
    /// After this time.
    pub runtime: Option<Duration>,
    /// After so many tasks of all groups in the foreground together.
    pub tasks: Option<u64>,
}

/// Jobs that do the same, each with its own open files and random draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Number of jobs, one thread each.
    pub jobs: u32,
    /// Works until the foreground has ended, and does not count in the record of the phase.
    pub background: bool,
    /// Name of the further record that holds what this group alone did. What a group in the foreground
    /// did is part of the phase's own record in any case, what one in the background did never is.
    pub record_as: Option<String>,
    /// Tasks per second of each job, begun at set times whether or not the one before has ended (it is
    /// then late, and its latency counts from the set time); `None`: the next begins when one has ended.
    pub rate_per_s: Option<f64>,
    /// Whether the set times are evenly spaced; else they are those of a Poisson process.
    pub even: bool,
    /// Pause after each task, where there is no rate.
    pub think: Duration,
    /// Who makes the calls.
    pub engine: Engine,
    /// What each job does once before the phase begins, neither timed nor counted: it opens the files
    /// that it keeps open. Empty for most.
    pub begin: Vec<Step>,
    /// Tasks, one of which is drawn by its weight each time.
    pub tasks: Vec<Task>,
}

/// Who makes the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// The thread itself, one after the other.
    Psync,
    /// io_uring: each job keeps so many tasks under way at once.
    IoUring {
        /// Tasks under way in each job.
        iodepth: u32,
    },
}

/// A piece of work: steps, one after the other. Files that are still open at its end stay open for the
/// next task of the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// How often it is drawn, relative to the others.
    pub weight: f64,
    /// What it does.
    pub steps: Vec<Step>,
}

/// One step, and how often it is repeated; a repeated block of steps is a [`Step`] of several.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// One operation.
    Do(Op),
    /// The steps, so many times.
    Repeat {
        /// How often.
        count: u64,
        /// The steps.
        steps: Vec<Step>,
    },
}

/// Index into [`Definition::filesets`].
pub type FilesetIndex = usize;
/// Number of an open file within a job, 0 … 15.
pub type Slot = usize;
/// Open files of a job.
pub const SLOTS: usize = 16;

/// How an entry is chosen among those that exist.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pick {
    /// Any, all alike.
    Random,
    /// One after the other, each job from a place of its own on, beginning anew at the end.
    Sequential,
    /// Each once and no more over all jobs of the group: when none is left, the group's work is used up.
    Once,
    /// By Zipf's law over the entries, the first most often.
    Zipf(f64),
    /// Always the same one.
    Index(u64),
}

/// Where in a file the next block is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Access {
    /// After the one before, beginning anew at the end of the file.
    Sequential,
    /// Anywhere, at a multiple of the block size.
    Random,
    /// By Zipf's law over the blocks, scattered over the file.
    Zipf(f64),
    /// So many bytes after the beginning of the one before, beginning anew (one block on) at the end.
    Strided(u64),
}

/// How much is read or written by one step.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// The whole file, from its beginning, in blocks of this size.
    Whole {
        /// Bytes of one call.
        block_bytes: u64,
    },
    /// So many blocks.
    Blocks {
        /// Bytes of one call.
        block_bytes: u64,
        /// Number of calls.
        count: u64,
    },
}

/// An operation. Those that take a slot work on the open file there; a step on an empty slot is refused
/// when the text is read, as far as it can be told. The fields mean the same everywhere: `fileset` with
/// `pick` is the entry that it is done to, `into` the fileset of the further entry, `slot` the open file.
#[allow(missing_docs, reason = "each field is explained above, once for all operations")]
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Makes an entry that does not exist and opens it for reading and writing.
    Create { fileset: FilesetIndex, pick: Pick, slot: Slot, direct: bool },
    /// Opens an entry that exists.
    Open { fileset: FilesetIndex, pick: Pick, slot: Slot, write: bool, direct: bool },
    /// Closes.
    Close { slot: Slot },
    /// Reads.
    Read { slot: Slot, access: Access, amount: Amount },
    /// Writes: the whole file with a size drawn anew, or blocks within it and at its end.
    Write { slot: Slot, access: Access, amount: Amount },
    /// Writes at the end.
    Append { slot: Slot, bytes: Distribution },
    /// Writes blocks within what the file holds.
    Overwrite { slot: Slot, access: Access, amount: Amount },
    /// Reads each block and writes it back to its place.
    Rewrite { slot: Slot, access: Access, amount: Amount },
    /// Reads through a mapping.
    MmapRead { slot: Slot, access: Access, amount: Amount },
    /// Overwrites through a mapping.
    MmapWrite { slot: Slot, access: Access, amount: Amount },
    /// Makes a file durable.
    Fsync { slot: Slot },
    /// Makes its data durable.
    Fdatasync { slot: Slot },
    /// Asks for all of it to be written, and waits for that.
    SyncFileRange { slot: Slot },
    /// Sets the size.
    Truncate { slot: Slot, size: Distribution },
    /// Reserves space from the beginning on; the size grows to it.
    Fallocate { slot: Slot, size: Distribution },
    /// Punches a hole of so many bytes, chosen as blocks of that size are; the size stays.
    Punch { slot: Slot, bytes: u64 },
    /// Locks and unlocks the whole file (flock, exclusive).
    Lock { slot: Slot },
    /// Sets an extended attribute `user.NAME` of so many bytes.
    SetXattr { slot: Slot, name: String, bytes: u64 },
    /// Reads it; that it is absent is no error.
    GetXattr { slot: Slot, name: String },
    /// Attributes of an entry that exists.
    Stat { fileset: FilesetIndex, pick: Pick },
    /// Lists the directory of an entry, whether or not that exists.
    Readdir { fileset: FilesetIndex, pick: Pick },
    /// Removes a file or link that exists.
    Unlink { fileset: FilesetIndex, pick: Pick },
    /// Makes a directory that does not exist.
    Mkdir { fileset: FilesetIndex, pick: Pick },
    /// Removes a directory that exists.
    Rmdir { fileset: FilesetIndex, pick: Pick },
    /// Gives an entry that exists the name of one that does not.
    Rename { fileset: FilesetIndex, pick: Pick, into: FilesetIndex },
    /// Gives a file that exists a further name, that of an entry that does not exist.
    Link { fileset: FilesetIndex, pick: Pick, into: FilesetIndex },
    /// Makes a symbolic link to a file that exists.
    Symlink { fileset: FilesetIndex, pick: Pick, into: FilesetIndex },
    /// Copies a file that exists to an entry that does not (copy_file_range).
    CopyFileRange { fileset: FilesetIndex, pick: Pick, into: FilesetIndex },
    /// The same by sharing extents (FICLONE); a filesystem that cannot skips the trial.
    Reflink { fileset: FilesetIndex, pick: Pick, into: FilesetIndex },
    /// Does to the next listed file what its list says.
    Replay { fileset: FilesetIndex },
    /// Waits.
    Sleep { duration: Duration },
    /// Keeps the processor busy for so many rounds of touching memory, as filebench's hog does.
    Hog { rounds: u64 },
    /// Adds to a semaphore.
    Post { semaphore: usize, count: u64 },
    /// Takes from a semaphore, waiting until it holds so much.
    Wait { semaphore: usize, count: u64 },
}
