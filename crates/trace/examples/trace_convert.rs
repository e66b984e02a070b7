//! Turns a trace of one form into another, or counts what is in it; for tests and benchmarks.
//!
//! ```text
//! trace_convert FROM count                  totals, and how fast it was read
//! trace_convert FROM stored:FILE            our own form
//! trace_convert FROM blktrace:NAME[:N]      files of blktrace(8) for N processors
//! ```
//! FROM is what `fsdyno trace` reads, or `synthetic:EVENTS`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use fsdyno_model::trace::{
    Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource,
};
use fsdyno_trace::{EventSink, blktrace, open, stored};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else {
        eprintln!("usage: trace_convert FROM count|stored:FILE|blktrace:NAME[:N]");
        return ExitCode::from(2);
    };
    match convert(from, to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trace_convert: {error}");
            ExitCode::FAILURE
        }
    }
}

fn convert(from: &str, to: &str) -> io::Result<()> {
    let mut source: Box<dyn TraceSource> = match from.strip_prefix("synthetic:") {
        Some(events) => Box::new(Synthetic::new(number(events)?)),
        None => open::open(Path::new(from))?,
    };
    let mut sink: Option<Box<dyn EventSink>> = match to.split_once(':') {
        Some(("stored", file)) => Some(Box::new(stored::Writer::create(Path::new(file))?)),
        Some(("blktrace", name)) => {
            let (name, processors) = name.rsplit_once(':').unwrap_or((name, "1"));
            let processors = number(processors)? as usize;
            Some(Box::new(blktrace::Writer::create(Path::new(name), processors)?))
        }
        _ => None,
    };
    let mut totals = Totals::default();
    let mut batch = Vec::new();
    let mut sink_ns = 0;
    let started = Instant::now();
    while source.next_batch(&mut batch)? {
        totals.add(&batch);
        if let Some(sink) = &mut sink {
            let started = Instant::now();
            sink.take(&batch, source.info())?;
            sink_ns += started.elapsed().as_nanos();
        }
    }
    let read_ns = started.elapsed().as_nanos() - sink_ns;
    if let Some(sink) = &mut sink {
        sink.finish(source.info())?;
    }
    totals.print(source.info());
    let per_second = |ns: u128| totals.events as f64 * 1e9 / ns.max(1) as f64;
    println!("read_ns {read_ns}\nread_events_per_s {:.0}", per_second(read_ns));
    if sink.is_some() {
        println!("write_ns {sink_ns}\nwrite_events_per_s {:.0}", per_second(sink_ns));
    }
    Ok(())
}

fn number(text: &str) -> io::Result<u64> {
    text.parse().map_err(|e| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{text}: {e}; give a whole number"))
    })
}

/// Events and sectors by action, and whether data went to the device.
#[derive(Default)]
struct Totals {
    events: u64,
    by_kind: Vec<[u64; 2]>,
}

impl Totals {
    fn add(&mut self, batch: &[TraceEvent]) {
        self.by_kind.resize(32, [0; 2]);
        self.events += batch.len() as u64;
        for event in batch {
            let kind = event.action as usize * 2 + usize::from(event.flags.contains(Flags::WRITE));
            let [events, sectors] = &mut self.by_kind[kind];
            *events += 1;
            *sectors += u64::from(event.sectors);
        }
    }

    fn print(&self, info: &TraceInfo) {
        println!("events {}", self.events);
        println!("lost {}", info.lost_events);
        let mut names = BTreeMap::new();
        for (code, name) in
            ["Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B", "A"]
                .into_iter()
                .enumerate()
        {
            names.insert(code, name);
        }
        for (kind, [events, sectors]) in self.by_kind.iter().enumerate() {
            if *events > 0 {
                let action = names.get(&(kind / 2)).unwrap_or(&"other");
                let direction = if kind % 2 == 1 { "write" } else { "read" };
                println!("{action} {direction} {events} {}", sectors * 512);
            }
        }
        info.warnings.iter().for_each(|warning| println!("warning {warning}"));
    }
}

/// What a filesystem on one disk does: writers that go ahead, readers that jump, journal and flushes;
/// up to 32 requests under way.
struct Synthetic {
    info: TraceInfo,
    left: u64,
    time_ns: u64,
    state: u64,
    sequential: [u64; 4],
    under_way: Vec<TraceEvent>,
}

const DEVICE: u32 = 8 << 20;
const SECTORS: u64 = 1 << 31;

impl Synthetic {
    fn new(events: u64) -> Synthetic {
        let names = ["swapper", "fio", "kworker/u4:1-flush-8:0", "jbd2/sda-8", "postmark"];
        let processes = names
            .iter()
            .enumerate()
            .map(|(index, name)| TraceProcess { pid: index as u32 * 97, name: (*name).to_owned() });
        let device = TraceDevice { number: DEVICE, name: "sda".to_owned(), sectors: Some(SECTORS) };
        let info = TraceInfo {
            devices: vec![device],
            processes: processes.collect(),
            wall_offset_ns: Some(1_790_000_000_000_000_000),
            ..TraceInfo::default()
        };
        let sequential = [0, SECTORS / 4, SECTORS / 2, SECTORS / 4 * 3];
        Synthetic { info, left: events, time_ns: 1000, state: 1, sequential, under_way: Vec::new() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }

    fn emit(&mut self, mut event: TraceEvent, batch: &mut Vec<TraceEvent>) {
        if self.left > 0 {
            self.left -= 1;
            self.time_ns += 200 + self.draw(4000);
            event.time_ns = self.time_ns;
            batch.push(event);
        }
    }

    fn request(&mut self) -> TraceEvent {
        let kind = self.draw(100);
        let (process, flags, sectors) = match kind {
            0..40 => (2, Flags::WRITE, 8 << self.draw(7)),
            40..75 => (1, Flags::default(), 8),
            75..80 => (4, Flags::default().with(Flags::READAHEAD), 256),
            80..97 => (3, Flags::WRITE.with(Flags::SYNC).with(Flags::METADATA), 8),
            _ => (3, Flags::FLUSH, 0),
        };
        let sector = match process {
            1 => self.draw(SECTORS / 8) * 8,
            _ if sectors == 0 => 0,
            _ => {
                let place = &mut self.sequential[process as usize - 1];
                *place += sectors;
                *place - sectors
            }
        };
        let sectors = sectors as u32;
        TraceEvent {
            time_ns: 0,
            sector,
            sectors,
            device: DEVICE,
            process,
            flags,
            action: Action::Queue,
        }
    }
}

impl TraceSource for Synthetic {
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        batch.clear();
        while self.left > 0 && batch.len() < 8000 {
            let depth = self.draw(32) as usize;
            if self.under_way.len() <= depth {
                let event = self.request();
                for action in [Action::Queue, Action::GetRequest, Action::Insert, Action::Issue] {
                    self.emit(TraceEvent { action, ..event }, batch);
                }
                self.under_way.push(event);
            } else {
                let place = self.draw(self.under_way.len() as u64) as usize;
                let event = self.under_way.swap_remove(place);
                let process = self.draw(3) as u32;
                self.emit(TraceEvent { action: Action::Complete, process, ..event }, batch);
            }
        }
        Ok(!batch.is_empty())
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
