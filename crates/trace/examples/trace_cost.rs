//! Traces a device until standard input ends, and says what that took; for tests and benchmarks.
//!
//! ```text
//! trace_cost DEVICE [FILE.fstrace]      without FILE events are only counted
//! ```
//! Prints `ready` when the kernel traces, and at the end one line of JSON: `events`, `queued`, `issued`,
//! `completed`, `lost`, `reader_ns` (processor time of the thread that reads), `seconds`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use fsdyno_model::trace::{Action, TraceEvent, TraceInfo};
use fsdyno_sys::block::device_number;
use fsdyno_trace::capture::{Capture, CaptureOptions};
use fsdyno_trace::{EventSink, stored};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (device, file) = match arguments.as_slice() {
        [device] => (device, None),
        [device, file] => (device, Some(file)),
        _ => {
            eprintln!("usage: trace_cost DEVICE [FILE.fstrace]");
            return ExitCode::from(2);
        }
    };
    match trace(Path::new(device), file.map(Path::new)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("trace_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn trace(device: &Path, file: Option<&Path>) -> io::Result<String> {
    let number = device_number(device).map_err(io::Error::other)?;
    let counts = Arc::new(Mutex::new(Counts::default()));
    let writer = file.map(stored::Writer::create).transpose()?;
    let sink = Counted { counts: Arc::clone(&counts), writer };
    let options = CaptureOptions { devices: vec![number], buffer_bytes: 8 << 20 };
    let started = Instant::now();
    let capture = Capture::start(&options, Box::new(sink))?;
    println!("ready");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    let captured = capture.stop()?;
    let seconds = started.elapsed().as_secs_f64();
    let counts = counts.lock().map_err(|_| io::Error::other("the sink panicked"))?;
    let Counts { queued, issued, completed, reader_ns } = *counts;
    let (events, lost) = (captured.events, captured.info.lost_events);
    Ok(format!(
        "{{\"events\":{events},\"queued\":{queued},\"issued\":{issued},\"completed\":{completed},\
         \"lost\":{lost},\"reader_ns\":{reader_ns},\"seconds\":{seconds:.3}}}"
    ))
}

#[derive(Debug, Default)]
struct Counts {
    queued: u64,
    issued: u64,
    completed: u64,
    reader_ns: u64,
}

/// Counts events and, where asked, writes them.
struct Counted {
    counts: Arc<Mutex<Counts>>,
    writer: Option<stored::Writer>,
}

impl EventSink for Counted {
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        let count = |action| events.iter().filter(|event| event.action == action).count() as u64;
        let mut counts = self.counts.lock().map_err(|_| io::Error::other("a thread panicked"))?;
        counts.queued += count(Action::Queue);
        counts.issued += count(Action::Issue);
        counts.completed += count(Action::Complete);
        self.writer.as_mut().map_or(Ok(()), |writer| writer.take(events, info))
    }

    fn finish(&mut self, info: &TraceInfo) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.finish(info))?;
        let mut counts = self.counts.lock().map_err(|_| io::Error::other("a thread panicked"))?;
        counts.reader_ns = thread_ns()?;
        Ok(())
    }
}

/// Processor time of this thread.
fn thread_ns() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    ns.ok_or_else(|| io::Error::other("/proc/thread-self/schedstat makes no sense"))
}
