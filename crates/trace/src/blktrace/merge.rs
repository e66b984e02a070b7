//! All files of one trace as one stream in the order of time, with the names of its processes. In memory
//! is only a window of each file.

use std::collections::{HashMap, HashSet};
use std::io;

use fsdyno_model::trace::{TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource};

use super::record::Layout;
use super::stream::{Stream, name_of};
use crate::open::input::{self, Input};

/// Records of one file among which the order is mended. A processor is seldom more than some records
/// behind itself; where one stream has the records of all, one may be behind by a buffer of another.
const WINDOW_OF_ONE: usize = 32_768;
const WINDOW_OF_EACH: usize = 2048;
const WINDOW_OF_MANY: usize = 512;
/// Events of a batch.
const BATCH_EVENTS: usize = 8192;
/// Devices and processes that a trace may have; more come of damage only.
const DEVICES_MAX: usize = 4096;
const PROCESSES_MAX: usize = 1 << 20;

/// Reads the files of blktrace(8), or a stream of the `blk` tracer.
#[derive(Debug)]
pub struct Reader {
    streams: Vec<Stream>,
    /// Time of the first event that is ready and index of its stream, the earliest last.
    order: Vec<(u64, usize)>,
    info: TraceInfo,
    processes: Processes,
    devices: HashSet<u32>,
    last_device: Option<u32>,
    /// What was time 0.
    start_ns: Option<u64>,
    is_started: bool,
}

impl Reader {
    /// Reads `inputs`, each with its layout.
    pub(crate) fn new(inputs: Vec<(Input, Layout)>) -> Reader {
        let window = match inputs.len() {
            1 => WINDOW_OF_ONE,
            2..64 => WINDOW_OF_EACH,
            _ => WINDOW_OF_MANY,
        };
        let stream = |(input, layout)| Stream::new(input, layout, window);
        Reader {
            streams: inputs.into_iter().map(stream).collect(),
            order: Vec::new(),
            info: TraceInfo::default(),
            processes: Processes::new(),
            devices: HashSet::new(),
            last_device: None,
            start_ns: None,
            is_started: false,
        }
    }

    /// Puts a stream in its place of the order; one without events has none.
    fn enqueue(&mut self, stream: usize) -> io::Result<()> {
        self.streams[stream].refill(&mut self.info)?;
        if let Some(first) = self.streams[stream].ready().first() {
            let key = (first.time_ns, stream);
            let place = self.order.iter().rposition(|&other| other > key).map_or(0, |at| at + 1);
            self.order.insert(place, key);
        }
        Ok(())
    }

    fn start(&mut self) -> io::Result<()> {
        self.is_started = true;
        (0..self.streams.len()).try_for_each(|stream| self.enqueue(stream))
    }

    /// Takes the events of one stream that come before those of all others.
    fn take_run(&mut self, stream: usize, batch: &mut Vec<TraceEvent>) -> io::Result<()> {
        // Of two at the same time that of the lower processor comes first.
        let bound_ns = self.order.last().map_or(u64::MAX, |&(time_ns, other)| {
            if stream < other { time_ns } else { time_ns.saturating_sub(1) }
        });
        let ready = self.streams[stream].ready();
        let ready = &ready[..ready.len().min(BATCH_EVENTS - batch.len())];
        let taken = ready.iter().take_while(|event| event.time_ns <= bound_ns).count();
        let run = &ready[..taken];
        if self.start_ns.is_none() {
            let first = run.iter().find(|event| name_of(event).is_none());
            self.start_ns = first.map(|event| event.time_ns);
        }
        let start_ns = self.start_ns.unwrap_or(0);
        let mut last_device = self.last_device;
        for event in run {
            if let Some(name) = name_of(event) {
                self.processes.learn(event.process, &name, &mut self.info);
                continue;
            }
            if last_device != Some(event.device) {
                last_device = Some(event.device);
                if self.devices.insert(event.device) {
                    add_device(event.device, &mut self.info)?;
                }
            }
            let process = self.processes.index(event.process, &mut self.info);
            batch.push(TraceEvent { time_ns: event.time_ns - start_ns, process, ..*event });
        }
        self.last_device = last_device;
        self.streams[stream].consume(taken);
        Ok(())
    }

    fn set_wall_offset(&mut self) {
        if self.info.wall_offset_ns.is_none()
            && let Some(start_ns) = self.start_ns
        {
            let offsets_ns = self.streams.iter().find_map(|stream| stream.wall_offset_ns);
            self.info.wall_offset_ns =
                offsets_ns.map(|offset_ns| offset_ns.wrapping_add(start_ns.cast_signed()));
        }
    }
}

impl TraceSource for Reader {
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        batch.clear();
        batch.reserve(BATCH_EVENTS);
        if !self.is_started {
            self.start()?;
        }
        while batch.len() < BATCH_EVENTS
            && let Some((_, stream)) = self.order.pop()
        {
            self.take_run(stream, batch)?;
            self.enqueue(stream)?;
        }
        self.set_wall_offset();
        Ok(!batch.is_empty())
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

fn add_device(number: u32, info: &mut TraceInfo) -> io::Result<()> {
    if info.devices.len() == DEVICES_MAX {
        let text = format!("the trace names more than {DEVICES_MAX} devices: it is damaged");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let name = format!("{}:{}", number >> 20, number & 0xf_ffff);
    info.devices.push(TraceDevice { number, name, sectors: None });
    Ok(())
}

/// Indices of processes by their number.
#[derive(Debug)]
struct Processes {
    /// By number: the index, and whether its name is known.
    known: HashMap<u32, (u32, bool)>,
    /// Number and index of processes that were asked for, at the low bits of their number.
    recent: Box<[(u32, u32); RECENT]>,
}

const RECENT: usize = 256;
const NOBODY: (u32, u32) = (u32::MAX, u32::MAX);

impl Processes {
    fn new() -> Processes {
        Processes { known: HashMap::new(), recent: Box::new([NOBODY; RECENT]) }
    }

    /// The index of a process in `info`.
    #[inline]
    fn index(&mut self, pid: u32, info: &mut TraceInfo) -> u32 {
        let recent = self.recent[pid as usize % RECENT];
        if recent.0 == pid && recent != NOBODY {
            return recent.1;
        }
        let index = self.look_up(pid, info);
        self.recent[pid as usize % RECENT] = (pid, index);
        index
    }

    fn look_up(&mut self, pid: u32, info: &mut TraceInfo) -> u32 {
        if let Some(&(index, _)) = self.known.get(&pid) {
            return index;
        }
        let name = if pid == 0 { "swapper".to_owned() } else { format!("pid {pid}") };
        let index = add_process(pid, name, info);
        if info.processes.len() < PROCESSES_MAX {
            self.known.insert(pid, (index, false));
        }
        index
    }

    /// Takes the name of a process, for its events from here on.
    fn learn(&mut self, pid: u32, name: &[u8; 16], info: &mut TraceInfo) {
        let bytes = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(bytes);
        match self.known.get(&pid) {
            Some(&(index, _)) if info.processes[index as usize].name == name => {}
            // Its name comes after its first events.
            Some(&(index, false)) => info.processes[index as usize].name = name.into_owned(),
            _ => {
                let index = add_process(pid, name.into_owned(), info);
                self.recent[pid as usize % RECENT] = NOBODY;
                if info.processes.len() < PROCESSES_MAX {
                    self.known.insert(pid, (index, true));
                }
                return;
            }
        }
        self.known.entry(pid).and_modify(|entry| entry.1 = true);
    }
}

/// Adds a process; where there are too many they share the last place.
fn add_process(pid: u32, name: String, info: &mut TraceInfo) -> u32 {
    if info.processes.len() + 1 == PROCESSES_MAX {
        input::warn(
            info,
            format!("more than {PROCESSES_MAX} processes: the rest is counted as one"),
        );
        info.processes.push(TraceProcess { pid: 0, name: "others".to_owned() });
    } else if info.processes.len() < PROCESSES_MAX {
        info.processes.push(TraceProcess { pid, name });
    }
    (info.processes.len() - 1) as u32
}
