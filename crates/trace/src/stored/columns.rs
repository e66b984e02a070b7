//! The events of a chunk as columns of small numbers. A request shows up several times in a trace: an
//! event whose device and sector were seen not long ago in the chunk says how many events ago, and gets
//! the rest from there. Reading and writing files is left to `reader` and `writer`.
//!
//! ```text
//! columns = time of the first event, number of devices, number of each device,
//!           bytes of each column, the columns
//! TIME     since the event before
//! MATCH    0, or 1 + 2 * (events back to the match - 1) + (1 where SECTORS differ from its)
//! SECTOR   of events without a match: what lies between it and the end of the one before of its kind
//! SECTORS  of events without a match, and of those where they differ
//! ACTION   a byte
//! FLAGS    exclusive or with those of the match, else with those of the event before
//! PROCESS  its index
//! DEVICE   its place in the list; nothing where there is only one
//! ```
//! All are varints except ACTION.

use fsdyno_model::trace::{Action, Flags, TraceEvent};

use super::varint::{fold, put, take, unfold};

const TIME: usize = 0;
const MATCH: usize = 1;
const SECTOR: usize = 2;
const SECTORS: usize = 3;
const ACTION: usize = 4;
const FLAGS: usize = 5;
const PROCESS: usize = 6;
const DEVICE: usize = 7;
const COLUMNS: usize = 8;

/// Actions by their code.
const ACTIONS: [Action; 16] = [
    Action::Queue,
    Action::BackMerge,
    Action::FrontMerge,
    Action::GetRequest,
    Action::SleepRequest,
    Action::Requeue,
    Action::Issue,
    Action::Complete,
    Action::Plug,
    Action::Unplug,
    Action::UnplugTimer,
    Action::Insert,
    Action::Split,
    Action::Bounce,
    Action::Remap,
    Action::Other,
];

const RECENT_BITS: u32 = 13;

/// Makes columns of events.
#[derive(Debug)]
pub(super) struct Encoder {
    columns: [Vec<u8>; COLUMNS],
    /// By a hash of device and sector: 1 + index of the last such event.
    recent: Vec<u32>,
    devices: Vec<u32>,
    /// Of each device, where its last event without a match ended.
    ends: Vec<u64>,
}

impl Encoder {
    pub(super) fn new() -> Encoder {
        Encoder {
            columns: Default::default(),
            recent: vec![0; 1 << RECENT_BITS],
            devices: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Appends the columns of `events`, whose times must not go back.
    pub(super) fn put(&mut self, events: &[TraceEvent], payload: &mut Vec<u8>) {
        self.columns.iter_mut().for_each(Vec::clear);
        self.recent.fill(0);
        self.devices.clear();
        self.ends.clear();
        let first_ns = events.first().map_or(0, |event| event.time_ns);
        let mut last_ns = first_ns;
        let mut last_flags = 0;
        for (index, event) in events.iter().enumerate() {
            put(&mut self.columns[TIME], event.time_ns - last_ns);
            last_ns = event.time_ns;
            let slot = self.slot(event.device);
            put(&mut self.columns[DEVICE], slot as u64);
            let found = self.look_up(events, index);
            let predicted_flags = found.map_or(last_flags, |found| found.flags.0);
            if found.is_none() {
                let gap = event.sector.wrapping_sub(self.ends[slot]).cast_signed();
                put(&mut self.columns[SECTOR], fold(gap));
                self.ends[slot] = event.sector.wrapping_add(u64::from(event.sectors));
            }
            if found.is_none_or(|found| found.sectors != event.sectors) {
                put(&mut self.columns[SECTORS], u64::from(event.sectors));
            }
            self.columns[ACTION].push(event.action as u8);
            put(&mut self.columns[FLAGS], u64::from(event.flags.0 ^ predicted_flags));
            last_flags = event.flags.0;
            put(&mut self.columns[PROCESS], u64::from(event.process));
        }
        put(payload, first_ns);
        put(payload, self.devices.len() as u64);
        self.devices.iter().for_each(|&device| put(payload, u64::from(device)));
        if self.devices.len() < 2 {
            self.columns[DEVICE].clear();
        }
        self.columns.iter().for_each(|column| put(payload, column.len() as u64));
        self.columns.iter().for_each(|column| payload.extend_from_slice(column));
    }

    /// Place of a device in the list.
    #[inline]
    fn slot(&mut self, device: u32) -> usize {
        self.devices.iter().position(|&known| known == device).unwrap_or_else(|| {
            self.devices.push(device);
            self.ends.push(0);
            self.devices.len() - 1
        })
    }

    /// The event that `events[index]` repeats, after its column was told.
    #[inline]
    fn look_up<'e>(&mut self, events: &'e [TraceEvent], index: usize) -> Option<&'e TraceEvent> {
        let event = &events[index];
        let key = event.sector ^ u64::from(event.device) << 40;
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_BITS);
        let place = std::mem::replace(&mut self.recent[hash as usize], index as u32 + 1) as usize;
        let found = events[..index]
            .get(place.wrapping_sub(1))
            .filter(|found| found.sector == event.sector && found.device == event.device);
        let code = found.map_or(0, |found| {
            let differs = u64::from(found.sectors != event.sectors);
            1 + 2 * (index - place) as u64 + differs
        });
        put(&mut self.columns[MATCH], code);
        found
    }
}

/// Takes `events` events into `batch`, which must be empty. `None`, with the events up to there, where
/// the columns make no sense or name a process of `processes` or beyond.
pub(super) fn take_columns(
    mut payload: &[u8],
    events: usize,
    processes: usize,
    batch: &mut Vec<TraceEvent>,
) -> Option<()> {
    let mut time_ns = take(&mut payload)?;
    let (devices, mut columns) = take_lists(&mut payload, events)?;
    let mut ends = vec![0_u64; devices.len()];
    let mut flags = 0;
    for index in 0..events {
        time_ns = time_ns.checked_add(take(&mut columns[TIME])?)?;
        let slot = if devices.len() > 1 { take(&mut columns[DEVICE])? as usize } else { 0 };
        let device = *devices.get(slot)?;
        let code = take(&mut columns[MATCH])?;
        let (sector, sectors);
        if code == 0 {
            let gap = unfold(take(&mut columns[SECTOR])?);
            sector = ends[slot].wrapping_add_signed(gap);
            sectors = u32::try_from(take(&mut columns[SECTORS])?).ok()?;
            ends[slot] = sector.wrapping_add(u64::from(sectors));
        } else {
            let back = usize::try_from((code - 1) / 2).ok()?.checked_add(1)?;
            let found = batch.get(index.checked_sub(back)?)?;
            sector = found.sector;
            flags = found.flags.0;
            sectors = match (code - 1) % 2 {
                0 => found.sectors,
                _ => u32::try_from(take(&mut columns[SECTORS])?).ok()?,
            };
        }
        let (&action, rest) = columns[ACTION].split_first()?;
        columns[ACTION] = rest;
        flags ^= u16::try_from(take(&mut columns[FLAGS])?).ok()?;
        let process = take(&mut columns[PROCESS])?;
        if process >= processes as u64 {
            return None;
        }
        batch.push(TraceEvent {
            time_ns,
            sector,
            sectors,
            device,
            process: process as u32,
            flags: Flags(flags),
            action: *ACTIONS.get(usize::from(action))?,
        });
    }
    Some(())
}

/// Takes the list of devices and the pieces that are the columns.
fn take_lists<'p>(
    payload: &mut &'p [u8],
    events: usize,
) -> Option<(Vec<u32>, [&'p [u8]; COLUMNS])> {
    let count = usize::try_from(take(payload)?).ok().filter(|&count| count <= events)?;
    let devices = (0..count).map(|_| u32::try_from(take(payload)?).ok());
    let devices = devices.collect::<Option<Vec<u32>>>()?;
    let mut sizes = [0; COLUMNS];
    for size in &mut sizes {
        *size = usize::try_from(take(payload)?).ok()?;
    }
    let mut columns = [[].as_slice(); COLUMNS];
    for (column, size) in columns.iter_mut().zip(sizes) {
        (*column, *payload) = payload.split_at_checked(size)?;
    }
    Some((devices, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_have_their_codes() {
        for (code, action) in ACTIONS.iter().enumerate() {
            assert_eq!(*action as usize, code);
        }
    }
}
