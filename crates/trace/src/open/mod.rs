//! Opening a trace whatever its form: found out from its first bytes, never from its name.

pub(crate) mod input;

use std::io;
use std::path::Path;

use fsdyno_model::trace::TraceSource;

/// Opens a trace. `path` is one of our own files; a file of blktrace(8), one processor's or all of them
/// (`NAME.blktrace.0` stands for all of `NAME.blktrace.*`, and so does `NAME`); or a stream of the `blk`
/// tracer. `-` is standard input.
///
/// # Errors
/// Those of the filesystem; `InvalidData` when it is no trace that is known.
pub fn open(path: &Path) -> io::Result<Box<dyn TraceSource>> {
    Ok(Box::new(crate::stored::Reader::open(path)?))
}
