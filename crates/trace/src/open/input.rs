//! The bytes of a trace, from a file or from standard input: a piece of them in memory at once, so that
//! a form can be told from its first bytes and a record be looked at before it is taken. What the bytes
//! mean is left to the readers of the forms.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use fsdyno_model::trace::TraceInfo;

/// A stream of bytes with a window on what comes next.
pub(crate) struct Input {
    source: Box<dyn Read + Send>,
    name: String,
    /// Bytes `start..end` of it are read and not yet consumed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset_bytes: u64,
    ended: bool,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("offset_bytes", &self.offset_bytes)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// A stream that messages call `name`; at least `room_bytes` of it are read at once.
    pub(crate) fn new(source: Box<dyn Read + Send>, name: String, room_bytes: usize) -> Input {
        Input {
            source,
            name,
            buffer: vec![0; room_bytes.max(4096)],
            start: 0,
            end: 0,
            offset_bytes: 0,
            ended: false,
        }
    }

    /// The file `path`.
    pub(crate) fn open(path: &Path, room_bytes: usize) -> io::Result<Input> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| with_name(&e, &name))?;
        if file.metadata().map_err(|e| with_name(&e, &name))?.is_dir() {
            let text = format!("{name}: is a directory; name a file of a trace");
            return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
        }
        Ok(Input::new(Box::new(file), name, room_bytes))
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Bytes before those that come next.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Whether there is nothing behind what is in memory; known only after it was asked for.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended
    }

    /// What is in memory of that which comes next.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads until at least `wanted_bytes` are in memory, or all that there are, and gives what is.
    pub(crate) fn fill(&mut self, wanted_bytes: usize) -> io::Result<&[u8]> {
        if self.end - self.start < wanted_bytes && !self.ended {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() < wanted_bytes {
                self.buffer.resize(wanted_bytes, 0);
            }
            while self.end < wanted_bytes && !self.ended {
                match self.source.read(&mut self.buffer[self.end..]) {
                    Ok(0) => self.ended = true,
                    Ok(read) => self.end += read,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(with_name(&e, &self.name)),
                }
            }
        }
        Ok(self.bytes())
    }

    /// Goes on behind `bytes` of those in memory.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "only what is in memory can be consumed");
        self.start += bytes;
        self.offset_bytes += bytes as u64;
    }
}

fn with_name(error: &io::Error, name: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {error}"))
}

/// Warnings that are kept; a damaged file could have any number.
const WARNINGS_MAX: usize = 40;

/// Adds a warning; of many only the first.
pub(crate) fn warn(info: &mut TraceInfo, warning: String) {
    match info.warnings.len() {
        0..WARNINGS_MAX => info.warnings.push(warning),
        WARNINGS_MAX => info.warnings.push("there were more warnings".to_owned()),
        _ => {}
    }
}
