//! The parameters of the workload `fileio`, read and checked against each other.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::units::parse_duration_ns;
use fsdyno_sys::calls::OpenFlags;

/// What a phase does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// New files are written in order.
    SequentialWrite,
    /// Files that are there are written again in order.
    SequentialRewrite,
    /// Files are read in order.
    SequentialRead,
    /// Blocks anywhere are read.
    RandomRead,
    /// Blocks anywhere are written.
    RandomWrite,
    /// Blocks anywhere are read or written.
    RandomMixed,
}

impl Mode {
    /// All modes, in the order in which they are best done.
    pub const ALL: [Mode; 6] = [
        Mode::SequentialWrite,
        Mode::SequentialRewrite,
        Mode::SequentialRead,
        Mode::RandomRead,
        Mode::RandomWrite,
        Mode::RandomMixed,
    ];

    /// Its name in the original, which is that of its phase.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mode::SequentialWrite => "seqwr",
            Mode::SequentialRewrite => "seqrewr",
            Mode::SequentialRead => "seqrd",
            Mode::RandomRead => "rndrd",
            Mode::RandomWrite => "rndwr",
            Mode::RandomMixed => "rndrw",
        }
    }

    /// Whether blocks follow each other.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(self, Mode::SequentialWrite | Mode::SequentialRewrite | Mode::SequentialRead)
    }

    /// Whether anything is written.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Mode::SequentialRead | Mode::RandomRead)
    }

    /// The metric that a table shows for it.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        if self.is_sequential() { "throughput_mib_per_s" } else { "requests_per_s" }
    }
}

/// The word for all modes.
pub const ALL_MODES: &str = "all";

/// Reads a list of modes: `seqrd+rndrd`, or [`ALL_MODES`].
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_modes(text: &str) -> Result<Vec<Mode>, String> {
    if text == ALL_MODES {
        return Ok(Mode::ALL.to_vec());
    }
    let mut modes = Vec::new();
    for word in text.split('+') {
        let found = Mode::ALL.into_iter().find(|mode| mode.name() == word);
        let mode = found.ok_or_else(|| {
            let known = Mode::ALL.map(Mode::name).join(", ");
            format!("modes are {ALL_MODES} or some of {known}, joined with +; not `{word}`")
        })?;
        if modes.contains(&mode) {
            return Err(format!("modes names {word} twice"));
        }
        modes.push(mode);
    }
    Ok(modes)
}

/// Reads to one write, in thousandths: `1.5` is 1500.
///
/// # Errors
/// A sentence that says what is accepted.
pub fn parse_ratio(text: &str) -> Result<u64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let ratio = text.parse::<f64>().ok().filter(|ratio| plain && (0.0..=1000.0).contains(ratio));
    ratio
        .map(|ratio| (ratio * 1000.0).round() as u64)
        .ok_or_else(|| format!("rw_ratio is a number from 0 to 1000, not `{text}`"))
}

/// The parameters of a run, read.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files.
    pub files: u64,
    /// Blocks of each.
    pub blocks_per_file: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// The phases, in order.
    pub modes: Vec<Mode>,
    /// Reads to 1000 writes in the mixed mode.
    pub reads_to_1000_writes: u64,
    /// Requests after which all files are synced; 0: never.
    pub fsync_every: u64,
    /// Whether a file is synced after every write to it.
    pub fsync_all: bool,
    /// Whether all files are synced at the end.
    pub fsync_end: bool,
    /// Whether that is by `fdatasync`.
    pub data_only: bool,
    /// How files are opened.
    pub open: OpenFlags,
    /// Threads.
    pub jobs: usize,
    /// Time after which a phase begins no further request.
    pub runtime_ns: u64,
    /// Events after which it does so; 0: no limit.
    pub events: u64,
    /// The share of requests whose latency is told, in percent.
    pub percentile: u64,
    /// Whether the rules are those of the original.
    pub is_original: bool,
    /// Whether phases end with syncfs.
    pub sync: bool,
    /// What precedes each phase but the one that makes the files.
    pub cold: Cold,
    /// What is written.
    pub payload: Payload,
}

/// What offsets and sizes are multiples of when files are read and written past the page cache.
const DIRECT_BYTES: u64 = 512;

impl Settings {
    /// Reads the parameters.
    ///
    /// # Errors
    /// A sentence: parameters that do not go together.
    pub fn new(params: &Params) -> Result<Settings, String> {
        let (files, total_bytes) = (params.number("file_num"), params.number("total_size"));
        let block_bytes = params.number("bs");
        let blocks_per_file = total_bytes / files / block_bytes;
        if blocks_per_file == 0 {
            return Err(format!(
                "total_size={total_bytes} leaves no block of {block_bytes} bytes for each of \
                 {files} files: use a larger total_size or fewer files"
            ));
        }
        let extra = params.text("extra_flags");
        let open = OpenFlags {
            direct: extra == "direct",
            sync: extra == "sync",
            dsync: extra == "dsync",
            ..OpenFlags::READ_WRITE
        };
        if open.direct && !block_bytes.is_multiple_of(DIRECT_BYTES) {
            return Err(format!(
                "extra_flags=direct needs bs in multiples of {DIRECT_BYTES}, not {block_bytes}"
            ));
        }
        let is_original = params.text("mode") == "original";
        let runtime = parse_duration_ns(params.text("runtime"));
        Ok(Settings {
            files,
            blocks_per_file,
            block_bytes,
            modes: parse_modes(params.text("modes"))?,
            reads_to_1000_writes: parse_ratio(params.text("rw_ratio"))?,
            fsync_every: params.number("fsync_freq"),
            fsync_all: params.flag("fsync_all"),
            fsync_end: params.flag("fsync_end"),
            data_only: params.text("fsync_mode") == "fdatasync",
            open,
            jobs: params.number("numjobs") as usize,
            runtime_ns: runtime.map_err(|error| error.to_string())?,
            events: params.number("events"),
            percentile: params.number("percentile"),
            is_original,
            sync: params.flag("sync") && !is_original,
            cold: Cold::parse(params.text("cold"))?,
            payload: Payload::parse(params.text("payload"))?,
        })
    }

    /// Blocks of all files.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.files * self.blocks_per_file
    }

    /// Bytes of each file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.blocks_per_file * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_ratios_are_read() {
        assert_eq!(parse_modes("all").unwrap(), Mode::ALL);
        assert_eq!(parse_modes("rndrd+seqwr").unwrap(), [Mode::RandomRead, Mode::SequentialWrite]);
        for (text, words) in [("", "some of seqwr"), ("seqrd+x", "`x`"), ("seqrd+seqrd", "twice")] {
            let error = parse_modes(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        for (text, ratio) in [("1.5", Ok(1500)), ("0", Ok(0)), (".25", Ok(250))] {
            assert_eq!(parse_ratio(text), ratio);
        }
        for text in ["", "-1", "1e3", "nan", "1001", "1.5.2"] {
            assert!(parse_ratio(text).is_err(), "{text}");
        }
    }
}
