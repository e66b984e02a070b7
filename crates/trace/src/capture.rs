//! A block trace of the running kernel, through a private instance of tracefs.

use std::io;

use fsdyno_model::trace::TraceInfo;
use fsdyno_sys::block::DeviceNumber;

use crate::EventSink;

/// What to trace.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    /// The devices.
    pub devices: Vec<DeviceNumber>,
    /// Room for each processor, in bytes.
    pub buffer_bytes: u64,
}

/// What a capture amounted to.
#[derive(Debug, Clone)]
pub struct Captured {
    /// Events handed to the sink.
    pub events: u64,
    /// Processes, devices, losses.
    pub info: TraceInfo,
}

/// A capture that is under way; dropping it ends it and removes what it made.
#[derive(Debug)]
pub struct Capture {}

impl Capture {
    /// Starts tracing; events go to `sink` from a thread of their own.
    ///
    /// # Errors
    /// What is missing, and what to try.
    pub fn start(options: &CaptureOptions, sink: Box<dyn EventSink>) -> io::Result<Capture> {
        let _ = (options, sink);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends it: every event up to now has reached the sink, and the sink its end.
    ///
    /// # Errors
    /// The first error of the kernel's files or of the sink.
    pub fn stop(self) -> io::Result<Captured> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Why this process cannot trace on this machine, with what to try; `None` where it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    Some("block tracing is not there".to_owned())
}

/// Removes the instances of processes that are gone. Gives the name of each, and why it is still there.
#[must_use]
pub fn reclaim() -> Vec<(String, io::Result<()>)> {
    Vec::new()
}
