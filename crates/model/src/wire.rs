//! What the phase runner is told and what it answers.
//!
//! The runner is a child process of the same binary: one [`Spec`] comes in, [`Message`]s go out. Only
//! [`Message::Remount`] is answered, by one [`Reply`] on the way that the spec came.
//! Each is a frame: the length of the body as four bytes, little-endian, then the body in JSON. The
//! first message is [`Message::Hello`] with the version of the protocol; a runner that does not know
//! the version of its spec answers [`Message::Failed`] and nothing else.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::age::{AgeRecord, AgeSpec};
use crate::param::Params;
use crate::payload::Payload;
use crate::record::{PhaseRecord, VerifyRecord, Warning};

/// Version of the protocol.
pub const VERSION: u32 = 4;

/// A frame longer than this is refused: a sign that the stream is not ours.
pub const FRAME_LIMIT_BYTES: u32 = 256 << 20;

/// What a runner has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// The work.
    pub task: Task,
}

/// The work of one runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Run the phases of a workload.
    Measure(MeasureSpec),
    /// Read back a sample of the contents.
    Verify(VerifySpec),
    /// Age the filesystem.
    Age(AgeTask),
}

/// A workload to run in a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureSpec {
    /// An empty directory on the target.
    pub root: PathBuf,
    /// Name of the workload in the catalogue.
    pub workload: String,
    /// All its parameters.
    pub params: Params,
    /// The text that defines it, where it is not in the catalogue.
    #[serde(default)]
    pub definition: Option<String>,
    /// Seed of everything that is drawn and not fixed by a parameter.
    pub seed: u64,
    /// Whether the page cache may be dropped (needs root; it is the whole machine's).
    pub may_drop_caches: bool,
    /// Whether the target can be unmounted and mounted again: [`Message::Remount`] is answered then.
    pub may_remount: bool,
    /// Whether the filesystem has a cache of its own, which only mounting again empties for sure.
    #[serde(default)]
    pub has_own_cache: bool,
    /// What to watch while a phase runs.
    pub watch: Watch,
}

/// A filesystem to be aged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgeTask {
    /// An empty directory on it, which keeps the files.
    pub root: PathBuf,
    /// What to do.
    pub spec: AgeSpec,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// What the runner watches at the edges of every sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Devices of the target as (major, minor); their traffic is added up.
    pub devices: Vec<(u32, u32)>,
    /// Names of kernel threads that work for the filesystem; `*` stands for any text.
    pub filesystem_threads: Vec<String>,
}

impl Watch {
    /// Whether the kernel thread called `comm` works for the filesystem.
    #[must_use]
    pub fn is_filesystem_thread(&self, comm: &str) -> bool {
        self.filesystem_threads.iter().any(|pattern| matches(pattern, comm))
    }
}

/// Whether `text` has the form of `pattern`, in which `*` stands for any text.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(head) else {
        return false;
    };
    while let Some((piece, after)) = rest.split_once('*') {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
        rest = after;
    }
    text.ends_with(rest)
}

/// Files whose contents are known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifySpec {
    /// The directory that the workload ran in.
    pub root: PathBuf,
    /// What was written.
    pub manifest: Manifest,
}

/// A sample of the files that a workload left, with what must be in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The payload.
    pub payload: Payload,
    /// Seed of the payload.
    pub seed: u64,
    /// The files.
    pub files: Vec<ManifestFile>,
}

/// One file of a [`Manifest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path below the root.
    pub path: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Key that its payload was made from.
    pub content_key: u64,
}

/// The answer to [`Message::Remount`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The filesystem is mounted again, at the same place.
    Remounted,
    /// It could not be done.
    Failed {
        /// What failed, on what, and what to try.
        error: String,
    },
}

/// What a runner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// First of all.
    Hello {
        /// [`VERSION`] of the runner.
        version: u32,
    },
    /// How far it is; some times a second, never from the measured loop.
    Progress {
        /// Phase that is running.
        phase: String,
        /// Share of the whole workload that is done, 0 … 1, as well as it can be told.
        done: f64,
    },
    /// Time of the harness itself per operation, in nanoseconds.
    Floor {
        /// Nanoseconds per operation on the null target.
        ns_per_operation: f64,
    },
    /// The runner has closed all that it had open on the target and waits, with a [`Reply`] to come,
    /// for the filesystem to be unmounted and mounted again.
    Remount,
    /// A finished phase.
    Phase(Box<PhaseRecord>),
    /// A remark.
    Warning(Warning),
    /// Files to be read back later.
    Manifest(Manifest),
    /// What the machine did while the workload ran; before the end, however that is.
    Activity(Box<Activity>),
    /// What reading back found; of a workload, what it compared during the run, where that is anything.
    Verified(VerifyRecord),
    /// What aging did.
    Aged(Box<AgeRecord>),
    /// The end, in good order.
    Finished,
    /// The end, because something that the workload needs is not there: a compiler, an archive.
    Skipped {
        /// What is missing, and what to install or give.
        reason: String,
    },
    /// The end, because something failed.
    Failed {
        /// Phase.
        stage: String,
        /// What failed, on what, and what to try.
        error: String,
    },
}

/// Writes one frame.
///
/// # Errors
/// Those of the stream; `InvalidData` when the body is longer than [`FRAME_LIMIT_BYTES`].
pub fn write_frame<T: Serialize>(stream: &mut impl Write, value: &T) -> io::Result<()> {
    let body = serde_json::to_vec(value)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= FRAME_LIMIT_BYTES);
    let length = length.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {} bytes is too long", body.len()),
        )
    })?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(&body)?;
    stream.flush()
}

/// Reads one frame; `None` at the end of the stream.
///
/// # Errors
/// Those of the stream; `UnexpectedEof` inside a frame; `InvalidData` when the frame is too long or
/// its body is not the JSON expected.
pub fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0u8; 4];
    let mut have = 0;
    while have < length.len() {
        match stream.read(&mut length[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length);
    if length > FRAME_LIMIT_BYTES {
        let text = format!("a frame of {length} bytes is too long: this is not a runner's stream");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    // Grows with what arrives, so that a false length cannot take the memory.
    let mut body = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back() {
        let message = Message::Progress { phase: "create".to_owned(), done: 0.5 };
        let mut bytes = Vec::new();
        write_frame(&mut bytes, &message).unwrap();
        write_frame(&mut bytes, &Message::Finished).unwrap();
        let mut stream = bytes.as_slice();
        assert_eq!(read_frame::<Message>(&mut stream).unwrap(), Some(message));
        assert_eq!(read_frame::<Message>(&mut stream).unwrap(), Some(Message::Finished));
        assert_eq!(read_frame::<Message>(&mut stream).unwrap(), None);
        for cut in [1, 3, 5, bytes.len() - 1] {
            let mut stream = &bytes[..cut];
            while let Ok(Some(_)) = read_frame::<Message>(&mut stream) {}
        }
        assert!(read_frame::<Message>(&mut [0xff; 9].as_slice()).is_err());
    }

    #[test]
    fn patterns_match() {
        for (pattern, text, expected) in [
            ("jbd2/loop0-8", "jbd2/loop0-8", true),
            ("kworker/*-flush-7:0", "kworker/u4:1-flush-7:0", true),
            ("kworker/*-flush-7:0", "kworker/u4:1-flush-7:01", false),
            ("btrfs-*", "btrfs-cleaner", true),
            ("*", "", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_stream_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let _ = read_frame::<Message>(&mut bytes.as_slice());
            let _ = read_frame::<Spec>(&mut bytes.as_slice());
        }
    }
}
