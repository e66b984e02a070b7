//! Block traces: what the kernel did with each request, as plain data. Where events come from (the
//! running kernel, files of other tools, our own files) is left to the crate `trace`; what they mean, to
//! the trace passes of `analysis`.

use std::io;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a sector, whatever the device's own blocks are.
pub const SECTOR_BYTES: u64 = 512;

/// What happened to a request: the actions of blktrace (Linux, `include/uapi/linux/blktrace_api.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// `Q`: a bio was handed to the block layer.
    Queue,
    /// `M`: a bio was merged behind a request that waits.
    BackMerge,
    /// `F`: a bio was merged before a request that waits.
    FrontMerge,
    /// `G`: a request was allocated.
    GetRequest,
    /// `S`: the submitter waits for a request to become free.
    SleepRequest,
    /// `R`: the driver gave a request back.
    Requeue,
    /// `D`: a request was handed to the driver.
    Issue,
    /// `C`: a request was finished by the device.
    Complete,
    /// `P`: a process holds its requests back.
    Plug,
    /// `U`: it lets them go.
    Unplug,
    /// `UT`: a timer let them go.
    UnplugTimer,
    /// `I`: a request was given to the scheduler.
    Insert,
    /// `X`: a bio was split.
    Split,
    /// `B`: a bio was copied to memory that the device can reach.
    Bounce,
    /// `A`: a bio was directed to another device.
    Remap,
    /// An action of another kind.
    Other,
}

/// What kind of request it is, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// Data go to the device. Without this, [`Flags::DISCARD`] and [`Flags::FLUSH`] it is a read.
    pub const WRITE: Flags = Flags(1);
    /// Sectors are given up.
    pub const DISCARD: Flags = Flags(1 << 1);
    /// The device's write cache is emptied: a request of its own, or before the data are written.
    pub const FLUSH: Flags = Flags(1 << 2);
    /// The data are on the medium when the request is finished.
    pub const FUA: Flags = Flags(1 << 3);
    /// Somebody waits for it.
    pub const SYNC: Flags = Flags(1 << 4);
    /// The filesystem says that it is metadata.
    pub const METADATA: Flags = Flags(1 << 5);
    /// It reads ahead of what was asked for.
    pub const READAHEAD: Flags = Flags(1 << 6);
    /// It failed (of [`Action::Complete`] only).
    pub const ERROR: Flags = Flags(1 << 7);

    /// Whether all bits of `other` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits and those.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether data come from the device.
    #[inline]
    #[must_use]
    pub const fn is_read(self) -> bool {
        self.0 & (Flags::WRITE.0 | Flags::DISCARD.0 | Flags::FLUSH.0) == 0
    }
}

/// One event of a block trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, in nanoseconds of the trace's clock: `CLOCK_MONOTONIC` where this machine traced itself,
    /// since the start of the trace where the event was read from a file of another tool.
    pub time_ns: u64,
    /// First sector, on the whole device.
    pub sector: u64,
    /// Sectors; 0 of a flush without data.
    pub sectors: u32,
    /// The device, `major << 20 | minor` as inside the kernel.
    pub device: u32,
    /// Index of the process in [`TraceInfo::processes`]. Of [`Action::Complete`] it says only who was
    /// interrupted.
    pub process: u32,
    /// What kind of request it is.
    pub flags: Flags,
    /// What happened.
    pub action: Action,
}

impl TraceEvent {
    /// Bytes of the request.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }
}

/// A traced device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceDevice {
    /// `major << 20 | minor`.
    pub number: u32,
    /// `loop3`; `8:16` where the name is not known.
    pub name: String,
    /// Size in sectors; null where it is not known.
    pub sectors: Option<u64>,
}

/// A process in a trace. One whose name changed (a worker of the kernel that serves another device) has
/// an entry for each name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceProcess {
    /// Its number.
    pub pid: u32,
    /// Its name: `kworker/u4:1-flush-7:0`.
    pub name: String,
}

/// What is known of a trace besides its events. While a trace is read it grows with what was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceInfo {
    /// The devices.
    pub devices: Vec<TraceDevice>,
    /// The processes; events name them by index.
    pub processes: Vec<TraceProcess>,
    /// Events that the kernel had no room for, or that were damaged.
    pub lost_events: u64,
    /// Wall time of time 0 of the trace's clock, in nanoseconds since 1970 UTC; null where unknown.
    pub wall_offset_ns: Option<i64>,
    /// What was odd, with the place where it was found.
    pub warnings: Vec<String>,
}

/// Events in the order of their time, some thousands at once.
pub trait TraceSource {
    /// Replaces the contents of `batch` by the next events; false, with an empty batch, at the end.
    /// Within the stream times never go back.
    ///
    /// # Errors
    /// Those of the source; `InvalidData` with the place where it makes no sense.
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool>;

    /// What is known so far.
    fn info(&self) -> &TraceInfo;
}

/// Which trials are traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceMode {
    /// Measured trials are not; one more trial of each target and workload is.
    Explain,
    /// All are, and the figures bear its cost.
    All,
    /// None is.
    #[default]
    None,
}

impl TraceMode {
    /// The words that plans and command lines take.
    pub const WORDS: &'static [&'static str] = &["explain", "all", "none"];

    /// The word in plans and results.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            TraceMode::Explain => "explain",
            TraceMode::All => "all",
            TraceMode::None => "none",
        }
    }

    /// What `word` stands for.
    ///
    /// # Errors
    /// A sentence with the words that are known.
    pub fn parse(word: &str) -> Result<TraceMode, String> {
        [TraceMode::Explain, TraceMode::All, TraceMode::None]
            .into_iter()
            .find(|mode| mode.word() == word)
            .ok_or_else(|| format!("trace is one of {}, not `{word}`", TraceMode::WORDS.join(", ")))
    }
}

/// A stored trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceRecord {
    /// Name of its file in the directory of traces beside the results database.
    pub file: String,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Events in it.
    pub events: u64,
    /// Events that the kernel had no room for.
    pub lost_events: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_comes_back() {
        for word in TraceMode::WORDS {
            let mode = TraceMode::parse(word).unwrap();
            assert_eq!(mode.word(), *word);
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{word}\""));
        }
        assert!(TraceMode::parse("some").unwrap_err().contains("explain"));
    }
}
