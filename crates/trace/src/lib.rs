//! Block traces: [`capture`] takes them from the running kernel, [`stored`] keeps them beside results,
//! [`blktrace`] reads and writes the files of blktrace(8), [`open`](mod@open) finds out what a file is.
//! What a trace means is left to the trace passes of `analysis`.
#![forbid(unsafe_code)]

pub mod blktrace;
pub mod capture;
pub mod open;
pub mod stored;

use std::io;

use fsdyno_model::trace::{TraceEvent, TraceInfo};

/// Takes events as they come, in the order of their time.
pub trait EventSink: Send {
    /// Takes some events; `info` has every process and device that they name.
    ///
    /// # Errors
    /// Those of where they go.
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()>;

    /// Takes the end: `info` is whole, with what was lost.
    ///
    /// # Errors
    /// Those of where they went.
    fn finish(&mut self, info: &TraceInfo) -> io::Result<()>;
}
