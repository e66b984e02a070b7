//! The thread that reads a capture: page by page from each processor's buffer, decoded, merged by time and
//! handed to the sink.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsdyno_model::trace::{TraceEvent, TraceInfo};
use fsdyno_sys::clock;

use crate::EventSink;

use super::Captured;
use super::device::Devices;
use super::instance::{Instance, Layouts};
use super::merge::Merge;
use super::process_names::ProcessNames;
use super::ring_buffer_page::{BlockRecord, Damage, PageEnd, decode};

/// Time between two drains. Each wakes a processor; the buffers hold much more than comes meanwhile.
const INTERVAL: Duration = Duration::from_millis(20);
/// How long an event may be under way between its time and its place in the buffer: a virtual processor
/// may be stopped in between.
const UNDER_WAY_NS: u64 = 10_000_000;
/// Pages of a processor that are read before the next one has its turn.
const PAGES_A_TURN: usize = 256;
/// Events that the sink is given at once.
const BATCH_EVENTS: usize = 16_384;

/// One processor's buffer.
#[derive(Debug)]
struct Buffer {
    pages: File,
    /// Time of what was read last.
    read_up_to_ns: u64,
}

/// A capture, read.
pub struct Drain {
    /// Stands before the instance, which cannot be removed while they are open.
    buffers: Vec<Buffer>,
    instance: Instance,
    layouts: Layouts,
    devices: Devices,
    names: ProcessNames,
    merge: Merge,
    info: TraceInfo,
    sink: Box<dyn EventSink>,
    stop: Arc<AtomicBool>,
    page: Vec<u8>,
    /// Events handed to the sink.
    events: u64,
}

impl Drain {
    /// Opens the buffers of `instance`.
    ///
    /// # Errors
    /// Those of the kernel's files.
    pub fn new(
        instance: Instance,
        layouts: Layouts,
        devices: Devices,
        info: TraceInfo,
        sink: Box<dyn EventSink>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Drain> {
        let buffers = instance.open_pages()?;
        let buffers = buffers.into_iter().map(|pages| Buffer { pages, read_up_to_ns: 0 }).collect();
        let page = vec![0; layouts.page.page_bytes()];
        let (names, merge) = (ProcessNames::new(), Merge::default());
        Ok(Drain {
            buffers,
            instance,
            layouts,
            devices,
            names,
            merge,
            info,
            sink,
            stop,
            page,
            events: 0,
        })
    }

    /// Reads until it is told to stop, and removes the instance.
    ///
    /// # Errors
    /// The first one of the kernel's files or of the sink. The instance is removed all the same.
    pub fn run(mut self) -> io::Result<Captured> {
        let read = self.follow();
        self.buffers.clear();
        let removed = self.instance.remove();
        read.and(removed)?;
        Ok(Captured { events: self.events, info: self.info })
    }

    fn follow(&mut self) -> io::Result<()> {
        loop {
            let is_last = self.stop.load(Ordering::Acquire);
            if is_last {
                self.instance.pause()?;
            }
            let is_empty = self.drain(is_last)?;
            match (is_empty, is_last) {
                (true, true) => break,
                (true, false) => std::thread::park_timeout(INTERVAL),
                (false, _) => {}
            }
        }
        // The pages tell of the same losses, except of those behind the last one.
        self.info.lost_events = self.info.lost_events.max(self.instance.lost_events()?);
        if self.merge.late() > 0 {
            let late = self.merge.late();
            self.info
                .warnings
                .push(format!("{late} events came late and were moved to where they could stand"));
        }
        self.sink.finish(&self.info)
    }

    /// Reads what is there and hands on what nothing can come before. False where there is more to be read.
    fn drain(&mut self, is_last: bool) -> io::Result<bool> {
        let mut horizon_ns = clock::now_ns().saturating_sub(UNDER_WAY_NS);
        self.names.begin_drain();
        let mut is_empty = true;
        for index in 0..self.buffers.len() {
            if !self.read(index)? {
                is_empty = false;
                horizon_ns = horizon_ns.min(self.buffers[index].read_up_to_ns);
            }
        }
        if is_last && is_empty {
            horizon_ns = u64::MAX;
        }
        let Drain { merge, sink, info, events, .. } = self;
        merge
            .hand_on(horizon_ns, |ready| {
                for batch in ready.chunks(BATCH_EVENTS) {
                    sink.take(batch, info)?;
                    *events += batch.len() as u64;
                }
                Ok(())
            })
            .map(|()| is_empty)
    }

    /// Reads some pages of one processor. True where there are no more.
    fn read(&mut self, index: usize) -> io::Result<bool> {
        for _ in 0..PAGES_A_TURN {
            match self.buffers[index].pages.read(&mut self.page) {
                Ok(0) => return Ok(true),
                Ok(count) => self.decode(index, count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let message = format!("reading the kernel's trace buffer {index}: {error}");
                    return Err(io::Error::new(error.kind(), message));
                }
            }
        }
        Ok(false)
    }

    fn decode(&mut self, index: usize, count: usize) {
        let Drain { layouts, devices, names, merge, info, page, buffers, .. } = self;
        let processes = &mut info.processes;
        let PageEnd { time_ns, missed_events, damage } =
            decode(&page[..count], &layouts.page, &layouts.events, |record: &BlockRecord| {
                let Some((device, sector)) = devices.place(record) else { return };
                merge.push(TraceEvent {
                    time_ns: record.time_ns,
                    sector,
                    sectors: record.sectors,
                    device,
                    process: names.index(record.pid, record.comm, processes),
                    flags: record.flags,
                    action: record.action,
                });
            });
        buffers[index].read_up_to_ns = time_ns;
        info.lost_events += missed_events;
        if let Some(Damage { offset_bytes, what }) = damage {
            // At least one; how many stood behind it nobody knows.
            info.lost_events += 1;
            let place = format!("a page of processor {index}, byte {offset_bytes}: {what}");
            if !info.warnings.contains(&place) && info.warnings.len() < WARNINGS_MOST {
                info.warnings.push(place);
            }
        }
    }
}

/// Warnings that are kept.
const WARNINGS_MOST: usize = 100;
