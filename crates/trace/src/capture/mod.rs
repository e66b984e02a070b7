//! A block trace of the running kernel: an instance of tracefs of our own, read by a thread of its own.
//! It needs neither debugfs nor BPF, passes the kernel's lockdown for integrity, and other tracers do not
//! notice it. What happens to the events is left to an [`EventSink`].
//!
//! An instance outlives a process that is killed. Its name says whose it was, and [`reclaim`] removes it.

mod device;
mod drain;
pub mod format;
mod instance;
mod merge;
mod process_names;
pub mod ring_buffer_page;
mod rwbs;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use fsdyno_model::trace::TraceInfo;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::clock;

use crate::EventSink;

use self::device::Devices;
use self::drain::Drain;
use self::instance::{Instance, Tracefs};

/// Room for the events of each processor where nothing else is asked for, in bytes: more than 100,000 of
/// them, and the reader comes by 50 times a second.
pub const BUFFER_BYTES: u64 = 8 << 20;

/// What to trace.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    /// Whole devices, or partitions, of which only their own requests are kept.
    pub devices: Vec<DeviceNumber>,
    /// Room for the events of each processor, in bytes; less where there are very many processors or the
    /// kernel has no memory for it.
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
pub struct Capture {
    stop: Arc<AtomicBool>,
    /// `None` once it was waited for.
    reader: Option<JoinHandle<io::Result<Captured>>>,
}

impl Capture {
    /// Starts tracing; events go to `sink` from a thread of their own. When this returns, the kernel traces.
    ///
    /// # Errors
    /// What is missing, and what to try.
    pub fn start(options: &CaptureOptions, sink: Box<dyn EventSink>) -> io::Result<Capture> {
        let devices = Devices::find(&options.devices)?;
        let tracefs = Tracefs::find()?;
        let instance = Instance::create(tracefs, options.buffer_bytes)?;
        let layouts = instance.layouts()?;
        let info = TraceInfo {
            devices: devices.described(),
            wall_offset_ns: Some(clock::wall_ns().cast_signed() - clock::now_ns().cast_signed()),
            warnings: devices.warnings(),
            ..TraceInfo::default()
        };
        instance.begin(&devices.filter())?;
        let stop = Arc::new(AtomicBool::new(false));
        let drain = Drain::new(instance, layouts, devices, info, sink, Arc::clone(&stop))?;
        let reader = std::thread::Builder::new()
            .name("block-trace".to_owned())
            .spawn(move || drain.run())?;
        Ok(Capture { stop, reader: Some(reader) })
    }

    /// Ends it: every event up to now has reached the sink, and the sink its end.
    ///
    /// # Errors
    /// The first error of the kernel's files or of the sink.
    pub fn stop(mut self) -> io::Result<Captured> {
        self.end().unwrap_or_else(|| Err(io::Error::other("the capture has ended before")))
    }

    fn end(&mut self) -> Option<io::Result<Captured>> {
        let reader = self.reader.take()?;
        self.stop.store(true, Ordering::Release);
        reader.thread().unpark();
        let panicked = |_| Err(io::Error::other("the thread that reads the block trace panicked"));
        Some(reader.join().unwrap_or_else(panicked))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Whoever drops it does not ask what came of it.
        let _ = self.end();
    }
}

/// Why this process cannot trace on this machine, with what to try; `None` where it can.
#[must_use]
pub fn unavailable() -> Option<String> {
    let tried = Tracefs::find().and_then(|tracefs| tracefs.layouts().map(|_| ()));
    tried.err().map(|error| error.to_string())
}

/// Removes the instances of processes that are gone. Gives the name of each, and why it is still there.
/// An instance that a process still reads stays: it may belong to one of another container, whose number
/// means nothing here.
#[must_use]
pub fn reclaim() -> Vec<(String, io::Result<()>)> {
    Tracefs::find().map(|tracefs| tracefs.reclaim()).unwrap_or_default()
}
