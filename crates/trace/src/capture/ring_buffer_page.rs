//! One page of the kernel's ring buffer, as `trace_pipe_raw` gives it, into block events: the form of
//! Linux `include/linux/ring_buffer.h`. A pure function of the bytes; where they come from is left to
//! `drain`, what the fields' places are to [`super::format`].

use fsdyno_model::trace::{Action, Flags};

use super::format::{EventLayout, PageLayout};
use super::rwbs;

/// What a process is called, padded with zeros (`TASK_COMM_LEN`).
pub type Comm = [u8; 16];

/// A block event as the kernel wrote it, before its process has an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRecord {
    /// Time of the instance's clock, in nanoseconds.
    pub time_ns: u64,
    /// First sector on the whole disk; 0 where the kernel gave none.
    pub sector: u64,
    /// Sectors; 0 of a flush without data.
    pub sectors: u32,
    /// The whole disk, `major << 20 | minor`.
    pub disk: u32,
    /// Who ran when it happened.
    pub pid: u32,
    /// Its name, where the event has one.
    pub comm: Option<Comm>,
    /// What kind of request it is.
    pub flags: Flags,
    /// What happened.
    pub action: Action,
}

/// Where and why a page could not be read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Bytes from the start of the page.
    pub offset_bytes: usize,
    /// What made no sense there.
    pub what: &'static str,
}

/// What a page held besides its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageEnd {
    /// Time of the last entry; that of the page where it has none.
    pub time_ns: u64,
    /// Events lost before this page; where the kernel did not count them, at least one.
    pub missed_events: u64,
    /// Set where decoding stopped early.
    pub damage: Option<Damage>,
}

/// In the page's commit word: events were lost before this page.
const MISSED: u64 = 1 << 31;
/// Beside [`MISSED`]: their number stands behind the data.
const MISSED_COUNTED: u64 = 1 << 30;
/// Bits of the commit word that hold the length of the data.
const LENGTH_MASK: u64 = (1 << 27) - 1;

/// Bytes of an entry's own header.
const HEADER_BYTES: usize = 4;
/// Bits of a header that hold the difference of times.
const DELTA_BITS: u32 = 27;
/// Bits of an absolute time that an entry has no room for; they are those of the time before.
const ABSOLUTE_BITS: u32 = 59;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Calls `visit` with each block event of `page`, in their order. Entries of other kinds are passed
/// over. Whatever the bytes are, it ends, and what could not be read is told.
pub fn decode(
    page: &[u8],
    layout: &PageLayout,
    events: &[EventLayout],
    mut visit: impl FnMut(&BlockRecord),
) -> PageEnd {
    let end_of = |time_ns, what| PageEnd {
        time_ns,
        missed_events: 0,
        damage: Some(Damage { offset_bytes: 0, what }),
    };
    let Some(mut time_ns) = word(page, layout.timestamp_offset, 8) else {
        return end_of(0, "the page has no time");
    };
    let Some(commit) = word(page, layout.commit_offset, layout.commit_bytes) else {
        return end_of(time_ns, "the page has no length");
    };
    let length = (commit & LENGTH_MASK) as usize;
    let promised_end = layout.data_offset.saturating_add(length);
    let data_end = promised_end.min(page.len());
    let missed_events = missed(page, commit, promised_end, layout.commit_bytes);

    let mut offset = layout.data_offset;
    let mut damage = None;
    while offset < data_end {
        match entry(&page[..data_end], offset, time_ns) {
            Ok(Entry { next, time_ns: at, payload }) => {
                time_ns = at;
                if let Some(record) = payload.and_then(|payload| record(payload, at, events)) {
                    visit(&record);
                }
                offset = next;
            }
            Err(what) => {
                damage = Some(Damage { offset_bytes: offset, what });
                break;
            }
        }
    }
    if damage.is_none() && promised_end > page.len() {
        damage = Some(Damage { offset_bytes: page.len(), what: "the page is cut off" });
    }
    PageEnd { time_ns, missed_events, damage }
}

/// Events that were lost before this page.
fn missed(page: &[u8], commit: u64, data_end: usize, long_bytes: usize) -> u64 {
    if commit & MISSED == 0 {
        return 0;
    }
    let counted =
        (commit & MISSED_COUNTED != 0).then(|| word(page, data_end, long_bytes)).flatten();
    counted.unwrap_or(1).max(1)
}

/// An entry: where the next one begins, its time, and its bytes where it has some.
struct Entry<'a> {
    next: usize,
    time_ns: u64,
    payload: Option<&'a [u8]>,
}

/// The entry at `offset` of `data`, which ends where the page's data end.
#[inline]
fn entry(data: &[u8], offset: usize, before_ns: u64) -> Result<Entry<'_>, &'static str> {
    let rest = &data[offset..];
    let header = word_32(rest, 0).ok_or("the header of an entry is cut off")?;
    let (kind, delta) = if cfg!(target_endian = "big") {
        (header >> DELTA_BITS, header & ((1 << DELTA_BITS) - 1))
    } else {
        (header & 31, header >> 5)
    };
    let delta = u64::from(delta);
    let after_ns = before_ns.wrapping_add(delta);
    let second = || word_32(rest, HEADER_BYTES).ok_or("an entry is cut off");
    let plain = |length: usize, time_ns, payload| {
        Ok(Entry { next: offset.saturating_add(length), time_ns, payload })
    };
    match kind {
        // The rest of the page is empty.
        PADDING if delta == 0 => plain(rest.len(), before_ns, None),
        // A discarded event. Where it took no time, the kernel writes 1 to tell it from the above.
        PADDING => {
            let length = HEADER_BYTES.saturating_add(second()? as usize);
            plain(length, if delta == 1 { before_ns } else { after_ns }, None)
        }
        TIME_EXTEND => {
            let high = u64::from(second()?) << DELTA_BITS;
            plain(2 * HEADER_BYTES, after_ns.wrapping_add(high), None)
        }
        TIME_STAMP => {
            let low = (u64::from(second()?) << DELTA_BITS) + delta;
            plain(2 * HEADER_BYTES, absolute(low, before_ns), None)
        }
        0 => {
            let length = second()? as usize;
            // The length counts its own four bytes.
            if length < HEADER_BYTES {
                return Err("an entry is shorter than its own length");
            }
            let start = 2 * HEADER_BYTES;
            let end = start + (length - HEADER_BYTES);
            let payload = rest.get(start..end).ok_or("an entry is longer than its page")?;
            plain(HEADER_BYTES + length.next_multiple_of(4), after_ns, Some(payload))
        }
        words => {
            let end = HEADER_BYTES + words as usize * 4;
            let payload = rest.get(HEADER_BYTES..end).ok_or("an entry is longer than its page")?;
            plain(end, after_ns, Some(payload))
        }
    }
}

/// An absolute time of which only the low bits were kept.
fn absolute(low: u64, before_ns: u64) -> u64 {
    let high = before_ns & !((1 << ABSOLUTE_BITS) - 1);
    let time_ns = low | high;
    if high != 0 && time_ns < before_ns {
        time_ns.wrapping_add(1 << ABSOLUTE_BITS)
    } else {
        time_ns
    }
}

/// The block event in `payload`, or `None` where it is of another kind, is too short, or is of a
/// request that is neither of the kinds that we know.
#[inline]
fn record(payload: &[u8], time_ns: u64, events: &[EventLayout]) -> Option<BlockRecord> {
    let id = u16::from_ne_bytes(payload.get(..2)?.try_into().ok()?);
    let layout = events.iter().find(|layout| layout.id == id)?;
    if payload.len() < layout.needed_bytes {
        return None;
    }
    let sectors = word_32(payload, layout.sectors_offset)?;
    let rwbs = payload.get(layout.rwbs_offset..layout.rwbs_offset + layout.rwbs_bytes)?;
    let mut flags = rwbs::flags(rwbs, sectors)?;
    if layout.action == Action::Complete
        && let Some(offset) = layout.error_offset
        && word_32(payload, offset)? != 0
    {
        flags = flags.with(Flags::ERROR);
    }
    let sector = word(payload, layout.sector_offset, 8)?;
    Some(BlockRecord {
        time_ns,
        // Flushes have none: the kernel writes -1.
        sector: if sector == u64::MAX { 0 } else { sector },
        sectors,
        disk: word_32(payload, layout.device_offset)?,
        pid: word_32(payload, layout.pid_offset)?,
        comm: layout
            .comm_offset
            .and_then(|offset| payload.get(offset..offset + 16)?.try_into().ok()),
        flags,
        action: layout.action,
    })
}

#[inline]
fn word_32(bytes: &[u8], offset: usize) -> Option<u32> {
    let end = offset.checked_add(4)?;
    Some(u32::from_ne_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

/// A word of 4 or 8 bytes in this machine's order.
#[inline]
fn word(bytes: &[u8], offset: usize, size_bytes: usize) -> Option<u64> {
    if size_bytes == 4 {
        return word_32(bytes, offset).map(u64::from);
    }
    let end = offset.checked_add(8)?;
    Some(u64::from_ne_bytes(bytes.get(offset..end)?.try_into().ok()?))
}

#[cfg(test)]
mod tests;
