//! The records of one file, in the order of their time: a processor that is interrupted while it writes a
//! record leaves it behind later ones. Joining several files is left to `merge`.

use std::io;

use fsdyno_model::trace::{Action, Flags, TraceEvent, TraceInfo};

use super::record::{
    ACTION_CGROUP, ACTION_MASK, CATEGORY_SHIFT, Layout, NOTIFY, NOTIFY_PROCESS, NOTIFY_TIMESTAMP,
    RECORD_2_BYTES, RECORD_BYTES, Record, VERSION_2, number_32,
};
use crate::open::input::{self, Input};

/// Marks an event that is no event but the name of the process: its 16 bytes are in `sector`, `sectors`
/// and `device`. It stays within this module and `merge`.
const NAME: Flags = Flags(1 << 15);

/// Windows of records in memory; all but one of them are handed out at once.
const HELD: usize = 4;

/// The name that such an event bears.
#[inline]
pub(super) fn name_of(event: &TraceEvent) -> Option<[u8; 16]> {
    event.flags.contains(NAME).then(|| {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&event.sector.to_le_bytes());
        name[8..12].copy_from_slice(&event.sectors.to_le_bytes());
        name[12..].copy_from_slice(&event.device.to_le_bytes());
        name
    })
}

/// The records of one file; `process` of an event is the process's number.
#[derive(Debug)]
pub(super) struct Stream {
    input: Input,
    layout: Layout,
    events: Vec<TraceEvent>,
    /// `events[next..ready]` are in order, and none that follows belongs before them.
    next: usize,
    ready: usize,
    /// Records among which the order is mended.
    window: usize,
    ended: bool,
    /// Nanoseconds from the clock of the trace to wall time.
    pub wall_offset_ns: Option<i64>,
    late_events: u64,
}

/// Where decoding stopped.
enum Stop {
    /// There are enough events.
    Full,
    /// More bytes are wanted: so many from there on.
    Bytes(usize),
    /// No record begins here.
    Damage,
}

/// What decoding adds to, apart from bytes.
struct Target<'s> {
    events: &'s mut Vec<TraceEvent>,
    limit: usize,
    /// No event may come before this time.
    floor_ns: u64,
    is_ordered: bool,
    late_events: u64,
    first_late: Option<usize>,
    wall_offset_ns: Option<i64>,
}

impl Stream {
    /// The records of `input`, whose layout must be known.
    pub(super) fn new(input: Input, layout: Layout, window: usize) -> Stream {
        Stream {
            input,
            layout,
            events: Vec::with_capacity(HELD * window),
            next: 0,
            ready: 0,
            window,
            ended: false,
            wall_offset_ns: None,
            late_events: 0,
        }
    }

    /// Events that are ready.
    #[inline]
    pub(super) fn ready(&self) -> &[TraceEvent] {
        &self.events[self.next..self.ready]
    }

    /// Goes on behind `count` of them.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.next += count;
    }

    /// Makes some ready where none is; then there are none at the end only.
    pub(super) fn refill(&mut self, info: &mut TraceInfo) -> io::Result<()> {
        if self.next < self.ready || self.ended && self.ready == self.events.len() {
            return Ok(());
        }
        let floor_ns = self.ready.checked_sub(1).map_or(0, |last| self.events[last].time_ns);
        self.events.drain(..self.ready);
        (self.next, self.ready) = (0, 0);
        // What was held back is in order.
        let mut is_ordered = true;
        while !self.ended && self.events.len() < HELD * self.window {
            is_ordered &= self.decode(floor_ns, info)?;
        }
        if !is_ordered {
            self.events.sort_by_key(|event| event.time_ns);
        }
        let held_back = if self.ended { 0 } else { self.window };
        self.ready = self.events.len() - held_back;
        if self.ended {
            self.warn_of_late(info);
        }
        Ok(())
    }

    /// Decodes what is in memory, then gets more or passes over damage. Tells whether the order of times
    /// was kept.
    fn decode(&mut self, floor_ns: u64, info: &mut TraceInfo) -> io::Result<bool> {
        let mut target = Target {
            events: &mut self.events,
            limit: HELD * self.window,
            floor_ns,
            is_ordered: true,
            late_events: 0,
            first_late: None,
            wall_offset_ns: None,
        };
        let (bytes, is_end) = (self.input.bytes(), self.input.is_ended());
        let layout = &self.layout;
        let (consumed, stop) = match (layout.big_endian, layout.version == VERSION_2) {
            (false, false) => target.decode::<false, RECORD_BYTES>(bytes, is_end, layout),
            (false, true) => target.decode::<false, RECORD_2_BYTES>(bytes, is_end, layout),
            (true, false) => target.decode::<true, RECORD_BYTES>(bytes, is_end, layout),
            (true, true) => target.decode::<true, RECORD_2_BYTES>(bytes, is_end, layout),
        };
        let is_ordered = target.is_ordered;
        self.wall_offset_ns = self.wall_offset_ns.or(target.wall_offset_ns);
        let (late_events, first_late) = (target.late_events, target.first_late);
        if let Some(at) = first_late.filter(|_| self.late_events == 0) {
            let what = format!(
                "the time goes back further than records are held; from here on such records get \
                 the time of the record before (window: {} records)",
                self.window
            );
            self.warn(self.input.offset_bytes() + at as u64, &what, info);
        }
        self.late_events += late_events;
        self.input.consume(consumed);
        match stop {
            Stop::Full => {}
            Stop::Bytes(wanted) => self.get(wanted, info)?,
            Stop::Damage => self.pass_over(info)?,
        }
        Ok(is_ordered)
    }

    /// Gets more bytes; where there are none this is the end.
    fn get(&mut self, wanted: usize, info: &mut TraceInfo) -> io::Result<()> {
        self.ended = self.input.is_ended();
        let rest = self.input.fill(wanted)?.len();
        if self.ended && rest > 0 {
            let what = format!("the file ends within a record, {rest} bytes after its start");
            self.warn(self.input.offset_bytes(), &what, info);
            self.input.consume(rest);
            info.lost_events += 1;
        }
        Ok(())
    }

    /// Passes over bytes until a record begins.
    fn pass_over(&mut self, info: &mut TraceInfo) -> io::Result<()> {
        let magic = self.layout.magic();
        let (context_bytes, record_bytes) = (self.layout.context_bytes, self.layout.record_bytes());
        let start = self.input.offset_bytes();
        loop {
            let bytes = self.input.fill(record_bytes)?;
            let searched = bytes.get(context_bytes..).unwrap_or_default();
            let found = searched.windows(4).position(|window| window == magic);
            let is_end = bytes.len() < record_bytes;
            let passed = match found {
                Some(found) => found,
                None if is_end => bytes.len(),
                None => searched.len() - 3,
            };
            self.input.consume(passed);
            if found.is_some() || is_end {
                break;
            }
        }
        let passed = self.input.offset_bytes() - start;
        if passed == 0 {
            self.warn(start, "the length of the data before here is damaged", info);
            return Ok(());
        }
        info.lost_events += (passed / record_bytes as u64).max(1);
        self.warn(start, &format!("{passed} bytes are no records and were passed over"), info);
        Ok(())
    }

    fn warn_of_late(&mut self, info: &mut TraceInfo) {
        if self.late_events > 0 {
            let late_events = std::mem::take(&mut self.late_events);
            let what = format!("{late_events} records came too late to be put in order");
            self.warn(self.input.offset_bytes(), &what, info);
        }
    }

    fn warn(&self, offset_bytes: u64, what: &str, info: &mut TraceInfo) {
        input::warn(info, format!("{}: byte {offset_bytes}: {what}", self.input.name()));
    }
}

impl Target<'_> {
    /// Takes records off the front of `bytes`; gives how many bytes they had, and why it stopped. With
    /// `is_end` there are no bytes behind.
    fn decode<const BIG: bool, const BYTES: usize>(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        layout: &Layout,
    ) -> (usize, Stop) {
        let magic = layout.magic();
        let context = layout.context_bytes;
        let mut last_ns = self.events.last().map_or(self.floor_ns, |event| event.time_ns);
        let mut at = 0;
        while self.events.len() < self.limit {
            let rest = bytes.get(at + context..).unwrap_or_default();
            let Some(head) = rest.first_chunk::<BYTES>() else {
                let is_part = magic.starts_with(&rest[..rest.len().min(4)]);
                let stop = if is_part { Stop::Bytes(context + BYTES) } else { Stop::Damage };
                return (at, stop);
            };
            if head[..4] != magic {
                return (at, Stop::Damage);
            }
            let record = Record::<BIG, BYTES>(head);
            let mut next = at + context + BYTES;
            let pdu_bytes = record.pdu_bytes();
            let mut is_right = true;
            if pdu_bytes > 0 {
                let behind = next + pdu_bytes + context + 4;
                if bytes.len() < behind && !is_end {
                    return (at, Stop::Bytes(behind - at));
                }
                is_right = begins_or_ends(bytes, next + pdu_bytes, context, magic);
                next += if is_right { pdu_bytes } else { 0 };
            }
            at = next;
            if record.action() >> CATEGORY_SHIFT & NOTIFY != 0 {
                let pdu = if is_right { &bytes[next - pdu_bytes..next] } else { &[] };
                self.notice(record, pdu, &mut last_ns);
            } else {
                self.push(record.event(), &mut last_ns, at);
            }
            if !is_right {
                return (at, Stop::Damage);
            }
        }
        (at, Stop::Full)
    }

    #[inline(always)]
    fn push(&mut self, mut event: TraceEvent, last_ns: &mut u64, at: usize) {
        if event.time_ns < *last_ns {
            self.is_ordered = false;
            if event.time_ns < self.floor_ns {
                self.late_events += 1;
                self.first_late.get_or_insert(at);
                event.time_ns = self.floor_ns;
            }
        } else {
            *last_ns = event.time_ns;
        }
        self.events.push(event);
    }

    /// What the kernel says of the trace itself.
    #[cold]
    fn notice<const BIG: bool, const BYTES: usize>(
        &mut self,
        record: Record<'_, BIG, BYTES>,
        pdu: &[u8],
        last_ns: &mut u64,
    ) {
        let action = record.action();
        let skipped = if action & ACTION_CGROUP == 0 { 0 } else { 8 };
        let data = pdu.get(skipped..).unwrap_or_default();
        match action & ACTION_MASK {
            NOTIFY_PROCESS if !data.is_empty() => {
                let mut name = [0; 16];
                let bytes = data.len().min(16);
                name[..bytes].copy_from_slice(&data[..bytes]);
                let event = TraceEvent {
                    time_ns: record.time_ns().max(self.floor_ns),
                    sector: u64::from_le_bytes(std::array::from_fn(|index| name[index])),
                    sectors: number_32::<false>(&name, 8),
                    device: number_32::<false>(&name, 12),
                    process: record.pid(),
                    flags: NAME,
                    action: Action::Other,
                };
                self.push(event, last_ns, 0);
            }
            NOTIFY_TIMESTAMP if data.len() >= 8 => {
                let seconds = i64::from(number_32::<BIG>(data, 0));
                let wall_ns = seconds * 1_000_000_000 + i64::from(number_32::<BIG>(data, 4));
                let offset_ns = wall_ns.wrapping_sub(record.time_ns().cast_signed());
                self.wall_offset_ns.get_or_insert(offset_ns);
            }
            _ => {}
        }
    }
}

/// Whether at `at` a record begins, or all bytes end.
fn begins_or_ends(bytes: &[u8], at: usize, context: usize, magic: [u8; 4]) -> bool {
    let Some(rest) = bytes.get(at..) else { return false };
    let rest = rest.get(context..).unwrap_or_default();
    magic.starts_with(&rest[..rest.len().min(4)])
}
