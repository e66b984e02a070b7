//! Reads a stored trace. What is in the files is said in `stored`; a damaged part is left out, with a
//! warning that says where it is.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_model::trace::{TraceEvent, TraceInfo, TraceSource};
use zstd::bulk::Decompressor;

use super::columns::take_columns;
use super::frame::{
    END_BYTES, END_MAGIC, HEADER_BYTES, Header, Kind, START_BYTES, VERSION, is_ours, number,
};
use super::known::{take_known, take_warnings};
use super::varint::take;
use crate::open::input::{self, Input};

/// Bytes read at once.
const ROOM_BYTES: usize = 512 << 10;

/// What a trailer says of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Events in the file.
    pub events: u64,
    /// Time of the first, in nanoseconds of the trace's clock; 0 where there is none.
    pub first_ns: u64,
    /// Time of the last.
    pub last_ns: u64,
}

/// Reads a stored trace.
pub struct Reader {
    input: Input,
    decompressor: Decompressor<'static>,
    payload: Vec<u8>,
    info: TraceInfo,
    summary: Option<Summary>,
    /// Events that were in damaged parts.
    damaged_events: u64,
    last_ns: u64,
    ended: bool,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("input", &self.input).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens `path`. Where the file has a trailer, devices, losses, wall time and the
    /// [`summary`](Reader::summary) are known from the start; processes are as chunks name them.
    ///
    /// # Errors
    /// Those of the filesystem; `InvalidData` when it is no stored trace.
    pub fn open(path: &Path) -> io::Result<Reader> {
        let mut reader = Reader::new(Input::open(path, ROOM_BYTES)?)?;
        reader.look_ahead(path);
        Ok(reader)
    }

    /// Reads `input`, from its start.
    pub(crate) fn new(mut input: Input) -> io::Result<Reader> {
        let name = input.name().to_owned();
        let refuse =
            |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {what}")));
        let start = input.fill(START_BYTES)?;
        if !is_ours(start) || start.len() < START_BYTES {
            return refuse("is no stored trace of fsdyno");
        }
        let version = number(&start[8..12]) as u32;
        if version != VERSION {
            return refuse(&format!(
                "is a stored trace of version {version}, and only version {VERSION} is known: \
                 read it with the fsdyno that wrote it"
            ));
        }
        input.consume(START_BYTES);
        Ok(Reader {
            input,
            decompressor: Decompressor::new()?,
            payload: Vec::new(),
            info: TraceInfo::default(),
            summary: None,
            damaged_events: 0,
            last_ns: 0,
            ended: false,
        })
    }

    /// What the trailer says of the events: from the start where `open` found one, else after the end
    /// was read; `None` of a trace whose writer was killed.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        self.summary
    }

    /// Reads the trailer of a file before the rest. Whatever is wrong comes up again on the way.
    fn look_ahead(&mut self, path: &Path) {
        let Ok(file) = File::open(path) else { return };
        let Some((header, stored)) = find_trailer(&file) else { return };
        let processes = std::mem::take(&mut self.info.processes);
        let unpacked = unpack(&mut self.decompressor, &header, &stored, &mut self.payload);
        if unpacked.is_none() || self.take_trailer().is_none() {
            self.info = TraceInfo::default();
            self.summary = None;
        }
        self.info.processes = processes;
        self.info.warnings.clear();
    }

    fn take_chunk(&mut self, events: usize, batch: &mut Vec<TraceEvent>) -> Option<()> {
        let mut payload = self.payload.as_slice();
        take_known(&mut payload, &mut self.info)?;
        batch.reserve(events);
        take_columns(payload, events, self.info.processes.len(), batch)
    }

    fn take_trailer(&mut self) -> Option<()> {
        let mut payload = self.payload.as_slice();
        take_known(&mut payload, &mut self.info)?;
        let events = take(&mut payload)?;
        let first_ns = take(&mut payload)?;
        let last_ns = take(&mut payload)?;
        let warnings = take_warnings(&mut payload)?;
        warnings.into_iter().for_each(|warning| input::warn(&mut self.info, warning));
        self.summary = Some(Summary { events, first_ns, last_ns });
        Some(())
    }

    fn warn(&mut self, offset_bytes: u64, what: &str) {
        let text = format!("{}: byte {offset_bytes}: {what}", self.input.name());
        input::warn(&mut self.info, text);
    }

    /// The header that comes next; what is not one is passed over. `None` at the end.
    fn next_header(&mut self) -> io::Result<Option<Header>> {
        let start = self.input.offset_bytes();
        loop {
            let bytes = self.input.fill(HEADER_BYTES)?;
            if let Some(header) = Header::parse(bytes) {
                let passed = self.input.offset_bytes() - start;
                if passed > 0 {
                    self.warn(start, &format!("{passed} bytes are damaged and were passed over"));
                }
                return Ok(Some(header));
            }
            if bytes.len() < HEADER_BYTES {
                let rest = bytes.len();
                self.input.consume(rest);
                self.warn_of_end(start);
                return Ok(None);
            }
            let next = bytes[1..].iter().position(|&byte| byte == b'C' || byte == b'T');
            let passed = next.map_or(bytes.len(), |next| next + 1);
            self.input.consume(passed);
        }
    }

    fn warn_of_end(&mut self, start: u64) {
        let passed = self.input.offset_bytes() - start;
        let what = match passed {
            0 => String::new(),
            _ => format!("; {passed} bytes before its end are damaged"),
        };
        let text = format!(
            "the trace has no end, as when its writer was killed: the last events are missing{what}"
        );
        self.warn(start, &text);
    }

    /// Reads one payload into `batch`; false at the end of the trace.
    fn next_frame(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        let Some(header) = self.next_header()? else { return Ok(false) };
        let offset_bytes = self.input.offset_bytes();
        let frame_bytes = HEADER_BYTES + header.stored_bytes;
        let available = self.input.fill(frame_bytes)?.len();
        let is_whole = available >= frame_bytes;
        let lost_before = self.info.lost_events;
        let known = self.info.processes.len();
        let understood = is_whole && {
            let stored = &self.input.bytes()[HEADER_BYTES..frame_bytes];
            unpack(&mut self.decompressor, &header, stored, &mut self.payload).is_some()
                && match header.kind {
                    Kind::Chunk => self.take_chunk(header.events, batch).is_some(),
                    Kind::Trailer => self.take_trailer().is_some(),
                }
        };
        self.input.consume(available.min(frame_bytes));
        if understood {
            return Ok(header.kind == Kind::Chunk);
        }
        batch.clear();
        self.info.processes.truncate(known);
        self.info.lost_events = lost_before;
        self.damaged_events += header.events as u64;
        let cause = if is_whole { "damaged" } else { "cut off" };
        let what = match header.kind {
            Kind::Chunk => format!("{} events are {cause}", header.events),
            Kind::Trailer => format!("the end of the trace is {cause}"),
        };
        self.warn(offset_bytes, &what);
        Ok(is_whole && header.kind == Kind::Chunk)
    }

    /// Keeps times from going back between chunks.
    fn keep_order(&mut self, batch: &mut [TraceEvent]) {
        let Some((first, last)) = batch.first().zip(batch.last()) else { return };
        let (first_ns, last_ns) = (first.time_ns, last.time_ns);
        if first_ns < self.last_ns {
            let offset_bytes = self.input.offset_bytes();
            self.warn(offset_bytes, "the time went back before here");
            let least_ns = self.last_ns;
            batch.iter_mut().for_each(|event| event.time_ns = event.time_ns.max(least_ns));
        }
        self.last_ns = self.last_ns.max(last_ns);
    }
}

impl TraceSource for Reader {
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        batch.clear();
        while !self.ended && batch.is_empty() {
            // A chunk repeats what was lost before it; what is damaged here comes on top.
            let known = self.info.lost_events.saturating_sub(self.damaged_events);
            self.info.lost_events = known;
            let goes_on = self.next_frame(batch);
            self.info.lost_events = self.info.lost_events.saturating_add(self.damaged_events);
            self.ended = !goes_on?;
        }
        self.keep_order(batch);
        Ok(!batch.is_empty())
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

/// Unpacks a payload; `None` when it does not fit its header.
fn unpack(
    decompressor: &mut Decompressor<'static>,
    header: &Header,
    stored: &[u8],
    payload: &mut Vec<u8>,
) -> Option<()> {
    payload.clear();
    payload.reserve(header.payload_bytes);
    let unpacked = decompressor.decompress_to_buffer(stored, payload).ok()?;
    (header.fits(stored) && unpacked == header.payload_bytes).then_some(())
}

/// The trailer of a file that has one, found from its end.
fn find_trailer(file: &File) -> Option<(Header, Vec<u8>)> {
    let file_bytes = file.metadata().ok()?.len();
    let end_offset = file_bytes.checked_sub(END_BYTES as u64)?;
    let mut end = [0; END_BYTES];
    file.read_exact_at(&mut end, end_offset).ok()?;
    let offset = number(&end[..8]);
    if end[8..] != END_MAGIC || offset >= end_offset {
        return None;
    }
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, offset).ok()?;
    let header = Header::parse(&header).filter(|header| header.kind == Kind::Trailer)?;
    let mut stored = vec![0; header.stored_bytes];
    file.read_exact_at(&mut stored, offset + HEADER_BYTES as u64).ok()?;
    Some((header, stored))
}
