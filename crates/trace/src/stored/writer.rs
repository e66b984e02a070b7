//! Writes a stored trace while it comes in. What is in the files is said in `stored`.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use fsdyno_model::trace::{TraceEvent, TraceInfo};
use zstd::bulk::Compressor;

use super::columns::Encoder;
use super::frame::{self, HEADER_BYTES, Header, Kind, START_BYTES};
use super::known::{NEW_PROCESSES_MAX, PROCESSES_MAX, put_known, put_warnings, too_many_processes};
use super::varint::put;
use super::{CHUNK_EVENTS, PAYLOAD_BYTES_MAX};
use crate::EventSink;

/// It is cheap: a level higher takes twice the time and saves a twentieth.
const LEVEL: i32 = 1;
/// A chunk of fewer events is only written at the end.
const CHUNK_EVENTS_MIN: usize = 4096;
/// A chunk that has enough events is written after this time, so that little is lost when this process is
/// killed.
const CHUNK_NS: u64 = 5_000_000_000;

/// Writes a stored trace. Without [`EventSink::finish`] the file has no trailer, and the last events are
/// missing.
pub struct Writer {
    output: Box<dyn Write + Send>,
    encoder: Encoder,
    compressor: Compressor<'static>,
    /// Those of the chunk that is being gathered.
    events: Vec<TraceEvent>,
    payload: Vec<u8>,
    stored: Vec<u8>,
    processes_written: usize,
    devices_written: usize,
    bytes: u64,
    events_written: u64,
    first_ns: u64,
    last_ns: u64,
    late_events: u64,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("bytes", &self.bytes)
            .field("events_written", &self.events_written)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Makes the file `path`, which must not exist.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn create(path: &Path) -> io::Result<Writer> {
        let file = File::create_new(path)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        Writer::new(Box::new(file))
    }

    /// Writes to `output`, in large pieces.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn new(mut output: Box<dyn Write + Send>) -> io::Result<Writer> {
        output.write_all(&frame::start())?;
        Ok(Writer {
            output,
            encoder: Encoder::new(),
            compressor: Compressor::new(LEVEL)?,
            events: Vec::with_capacity(CHUNK_EVENTS),
            payload: Vec::new(),
            stored: Vec::new(),
            processes_written: 0,
            devices_written: 0,
            bytes: START_BYTES as u64,
            events_written: 0,
            first_ns: 0,
            last_ns: 0,
            late_events: 0,
        })
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Events written so far; some thousands more may be in memory.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events_written
    }

    /// Times never go back in a file: an event that came too late gets the time of the one before.
    fn gather(&mut self, events: &[TraceEvent]) {
        let start = self.events.len();
        self.events.extend_from_slice(events);
        for event in &mut self.events[start..] {
            if event.time_ns < self.last_ns {
                event.time_ns = self.last_ns;
                self.late_events += 1;
            }
            self.last_ns = event.time_ns;
        }
        if self.events_written == 0 && start == 0 {
            self.first_ns = self.events.first().map_or(0, |event| event.time_ns);
        }
    }

    fn is_due(&self) -> bool {
        let Some(first) = self.events.first() else { return false };
        let old = self.last_ns - first.time_ns >= CHUNK_NS;
        self.events.len() >= CHUNK_EVENTS || old && self.events.len() >= CHUNK_EVENTS_MIN
    }

    /// Writes what was gathered.
    fn write_chunk(&mut self, info: &TraceInfo) -> io::Result<()> {
        let last_process = self.events.iter().map(|event| event.process).max();
        if last_process.is_some_and(|process| process as usize >= info.processes.len()) {
            let text = "an event names a process that is not in the list of processes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.put_news(info)?;
        let events = std::mem::take(&mut self.events);
        self.encoder.put(&events, &mut self.payload);
        self.write_frame(Kind::Chunk, events.len())?;
        self.events_written += events.len() as u64;
        self.events = events;
        self.events.clear();
        Ok(())
    }

    /// Starts a payload with what became known; where that is much, in chunks of their own before it.
    fn put_news(&mut self, info: &TraceInfo) -> io::Result<()> {
        if info.processes.len() > PROCESSES_MAX {
            return Err(too_many_processes());
        }
        loop {
            let first = self.processes_written;
            let last = info.processes.len().min(first + NEW_PROCESSES_MAX).max(first);
            self.payload.clear();
            put_known(&mut self.payload, info, first..last, self.devices_written);
            self.processes_written = last;
            self.devices_written = info.devices.len();
            if last >= info.processes.len() {
                return Ok(());
            }
            self.encoder.put(&[], &mut self.payload);
            self.write_frame(Kind::Chunk, 0)?;
        }
    }

    /// Compresses the payload and writes it with its header.
    fn write_frame(&mut self, kind: Kind, events: usize) -> io::Result<()> {
        assert!(self.payload.len() <= PAYLOAD_BYTES_MAX, "its parts are bounded");
        self.stored.clear();
        self.stored.reserve(zstd::zstd_safe::compress_bound(self.payload.len()));
        self.compressor.compress_to_buffer(&self.payload, &mut self.stored)?;
        let header = Header::of(kind, events, self.payload.len(), &self.stored);
        self.output.write_all(&header.to_bytes())?;
        self.output.write_all(&self.stored)?;
        self.bytes += (HEADER_BYTES + self.stored.len()) as u64;
        Ok(())
    }
}

impl EventSink for Writer {
    fn take(&mut self, mut events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        while !events.is_empty() {
            let room = CHUNK_EVENTS - self.events.len();
            let (now, later) = events.split_at(room.min(events.len()));
            self.gather(now);
            events = later;
            if self.is_due() {
                self.write_chunk(info)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, info: &TraceInfo) -> io::Result<()> {
        if !self.events.is_empty() {
            self.write_chunk(info)?;
        }
        // Sizes and names of devices may have become known since they were first written.
        self.devices_written = 0;
        self.put_news(info)?;
        let mut warnings = info.warnings.clone();
        if self.late_events > 0 {
            warnings.push(format!(
                "{} events came with an earlier time than the event before",
                self.late_events
            ));
        }
        put(&mut self.payload, self.events_written);
        put(&mut self.payload, self.first_ns);
        put(&mut self.payload, self.last_ns);
        put_warnings(&mut self.payload, &warnings);
        let offset_bytes = self.bytes;
        self.write_frame(Kind::Trailer, 0)?;
        self.output.write_all(&frame::end(offset_bytes))?;
        self.bytes += frame::END_BYTES as u64;
        self.output.flush()
    }
}
