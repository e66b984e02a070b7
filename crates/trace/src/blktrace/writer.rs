//! Writes files that blkparse and the other tools beside blktrace(8) read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fsdyno_model::trace::{Action, Flags, TraceEvent, TraceInfo, TraceProcess};

use super::record::{
    ACTIONS, CATEGORY_SHIFT, Layout, NOTIFY, NOTIFY_PROCESS, NOTIFY_TIMESTAMP, QUEUE, RECORD_BYTES,
    VERSION_1, categories_of,
};
use crate::EventSink;

/// What the kernel calls an action that has no code of its own here: given up.
const ABORT: u8 = 16;
/// What a failed request failed with: an I/O error.
const FAILURE: i16 = -5;
/// The most bytes of a request that a record can tell, in whole sectors.
const BYTES_MAX: u64 = u32::MAX as u64 & !511;

/// Writes the files `NAME.blktrace.0` and so on, in the order of bytes of this machine's kind.
#[derive(Debug)]
pub struct Writer {
    files: Vec<BufWriter<File>>,
    sequences: Vec<u32>,
    /// By action: code and category.
    codes: [(u8, u64); 16],
    /// By number of a process: the index of the name that was told last.
    told: HashMap<u32, u32>,
    last_process: Option<u32>,
    wall_is_told: bool,
    last_ns: u64,
}

impl Writer {
    /// Makes `PATH.blktrace.0` to `PATH.blktrace.N`, one for each of `processors`, none of which may
    /// exist. The events of a process go to one of them.
    ///
    /// # Errors
    /// Those of the filesystem.
    pub fn create(path: &Path, processors: usize) -> io::Result<Writer> {
        let create = |processor| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".blktrace.{processor}"));
            File::create_new(&name).map(|file| BufWriter::with_capacity(256 << 10, file)).map_err(
                |e| io::Error::new(e.kind(), format!("{}: {e}", Path::new(&name).display())),
            )
        };
        let processors = processors.max(1);
        let mut codes = [(ABORT, QUEUE); 16];
        for (code, action, category) in ACTIONS {
            codes[action as usize] = (code, category);
        }
        Ok(Writer {
            files: (0..processors).map(create).collect::<io::Result<_>>()?,
            sequences: vec![0; processors],
            codes,
            told: HashMap::new(),
            last_process: None,
            wall_is_told: false,
            last_ns: 0,
        })
    }

    /// Tells the wall time, once.
    fn tell_wall(&mut self, time_ns: u64, device: u32, info: &TraceInfo) -> io::Result<()> {
        let Some(offset_ns) = info.wall_offset_ns.filter(|_| !self.wall_is_told) else {
            return Ok(());
        };
        self.wall_is_told = true;
        let wall_ns = offset_ns.saturating_add_unsigned(time_ns).max(0);
        let mut pdu = [0; 8];
        pdu[..4].copy_from_slice(&((wall_ns / 1_000_000_000) as u32).to_le_bytes());
        pdu[4..].copy_from_slice(&((wall_ns % 1_000_000_000) as u32).to_le_bytes());
        let action = (NOTIFY << CATEGORY_SHIFT | NOTIFY_TIMESTAMP) as u32;
        self.files[0]
            .write_all(&record(&Fields { time_ns, action, device, ..Fields::default() }, 8))?;
        self.files[0].write_all(&pdu)
    }

    /// Tells the name of a process where another one or none was told.
    fn tell_process(&mut self, event: &TraceEvent, process: &TraceProcess) -> io::Result<()> {
        if self.told.insert(process.pid, event.process) == Some(event.process) {
            return Ok(());
        }
        let processor = self.processor(process.pid);
        let mut pdu = [0; 16];
        let name = &process.name.as_bytes()[..process.name.floor_char_boundary(15)];
        pdu[..name.len()].copy_from_slice(name);
        let fields = Fields {
            time_ns: event.time_ns,
            action: (NOTIFY << CATEGORY_SHIFT | NOTIFY_PROCESS) as u32,
            pid: process.pid,
            device: event.device,
            cpu: processor as u32,
            ..Fields::default()
        };
        self.files[processor].write_all(&record(&fields, 16))?;
        self.files[processor].write_all(&pdu)
    }

    fn processor(&self, pid: u32) -> usize {
        pid as usize % self.files.len()
    }

    fn write(&mut self, event: &TraceEvent, info: &TraceInfo) -> io::Result<()> {
        let Some(process) = info.processes.get(event.process as usize) else {
            let text = "an event names a process that is not in the list of processes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        if !self.wall_is_told {
            self.tell_wall(event.time_ns, event.device, info)?;
        }
        if self.last_process != Some(event.process) {
            self.tell_process(event, process)?;
            self.last_process = Some(event.process);
        }
        let processor = self.processor(process.pid);
        let (code, category) = self.codes[event.action as usize];
        let categories = categories_of(event.flags) | category;
        let pdu_bytes = match event.action {
            // How many requests wait; the other half of a split; where it was directed from.
            Action::Unplug | Action::UnplugTimer | Action::Split => 8,
            Action::Remap => 16,
            _ => 0,
        };
        self.sequences[processor] = self.sequences[processor].wrapping_add(1);
        let fields = Fields {
            sequence: self.sequences[processor],
            time_ns: event.time_ns,
            sector: event.sector,
            bytes: event.bytes().min(BYTES_MAX) as u32,
            action: (categories << CATEGORY_SHIFT) as u32 | u32::from(code),
            pid: process.pid,
            device: event.device,
            cpu: processor as u32,
            error: if event.flags.contains(Flags::ERROR) { FAILURE.cast_unsigned() } else { 0 },
        };
        self.last_ns = event.time_ns;
        let file = &mut self.files[processor];
        file.write_all(&record(&fields, pdu_bytes))?;
        if pdu_bytes > 0 {
            file.write_all(&pdu_of(event)[..usize::from(pdu_bytes)])?;
        }
        Ok(())
    }
}

impl EventSink for Writer {
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        events.iter().try_for_each(|event| self.write(event, info))
    }

    fn finish(&mut self, info: &TraceInfo) -> io::Result<()> {
        let device = info.devices.first().map_or(0, |device| device.number);
        self.tell_wall(self.last_ns, device, info)?;
        self.files.iter_mut().try_for_each(Write::flush)
    }
}

/// What belongs to an event that has more to say; its numbers have their most significant byte first.
fn pdu_of(event: &TraceEvent) -> [u8; 16] {
    let mut pdu = [0; 16];
    match event.action {
        Action::Remap => {
            pdu[..4].copy_from_slice(&event.device.to_be_bytes());
            pdu[4..8].copy_from_slice(&event.device.to_be_bytes());
            pdu[8..].copy_from_slice(&event.sector.to_be_bytes());
        }
        Action::Split => {
            let end = event.sector.wrapping_add(u64::from(event.sectors));
            pdu[..8].copy_from_slice(&end.to_be_bytes());
        }
        _ => {}
    }
    pdu
}

/// The fields of a record.
#[derive(Default)]
struct Fields {
    sequence: u32,
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    cpu: u32,
    error: u16,
}

fn record(fields: &Fields, pdu_bytes: u16) -> [u8; RECORD_BYTES] {
    let layout = Layout { big_endian: false, version: VERSION_1, context_bytes: 0 };
    let mut bytes = [0; RECORD_BYTES];
    bytes[..4].copy_from_slice(&layout.magic());
    bytes[4..8].copy_from_slice(&fields.sequence.to_le_bytes());
    bytes[8..16].copy_from_slice(&fields.time_ns.to_le_bytes());
    bytes[16..24].copy_from_slice(&fields.sector.to_le_bytes());
    let words = [fields.bytes, fields.action, fields.pid, fields.device, fields.cpu];
    for (place, word) in bytes[24..44].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes[44..46].copy_from_slice(&fields.error.to_le_bytes());
    bytes[46..].copy_from_slice(&pdu_bytes.to_le_bytes());
    bytes
}
