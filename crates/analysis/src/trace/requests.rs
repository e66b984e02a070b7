//! Requests put together from their events: who queued it and when, when it was issued, when it was done.
//!
//! A request may hold several bios (merges), and a bio may become several requests (splits): what was
//! queued is kept by its first sector, and an issue takes what lies behind each other from there on, as
//! long as it covers. Both tables are bounded; what never comes to its end is given up and counted.

use fsdyno_model::io_graph::IoClass;
use fsdyno_model::trace::{Flags, TraceEvent};
use rustc_hash::FxHashMap;

/// Most requests, or bios, that are kept at one time; real queues hold some thousands.
const KEPT_MAX: usize = 1 << 17;
/// What is older than this when a table is full was lost, in nanoseconds.
const LOST_AFTER_NS: u64 = 10_000_000_000;

/// Who is behind a request, as the passes know processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    /// Index of the short name.
    pub name: u16,
    /// Whether it writes a journal.
    pub is_journal: bool,
}

#[derive(Debug, Clone, Copy)]
struct Queued {
    time_ns: u64,
    sectors: u32,
    who: Who,
    flags: Flags,
}

/// A request that was handed to the driver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Issued {
    /// When its first bio was queued; `None` where that was not traced.
    pub queued_ns: Option<u64>,
    /// When it was issued.
    pub issued_ns: u64,
    /// Its sectors.
    pub sectors: u32,
    /// Who queued it.
    pub who: Who,
    /// What it is for.
    pub class: IoClass,
}

/// Bios that wait and requests at the device.
#[derive(Debug, Clone, Default)]
pub(super) struct Requests {
    queued: FxHashMap<u64, Queued>,
    issued: FxHashMap<u64, Issued>,
    /// Requests given up because their end never came.
    pub lost: u64,
}

/// What a request is for, from its flags and who queued it. Metadata that are written with a flush of the
/// cache before them, or past it, commit a transaction: the log of xfs is written so by whoever waits for
/// it.
#[inline]
pub(super) fn class_of(flags: Flags, sectors: u32, who: Who) -> IoClass {
    let is_metadata = flags.contains(Flags::METADATA);
    if flags.contains(Flags::DISCARD) {
        IoClass::Discard
    } else if flags.is_read() {
        if is_metadata { IoClass::ReadMetadata } else { IoClass::ReadData }
    } else if sectors == 0 {
        IoClass::Flush
    } else if who.is_journal {
        IoClass::WriteJournal
    } else if is_metadata {
        let commits = flags.0 & (Flags::FLUSH.0 | Flags::FUA.0) != 0;
        if commits { IoClass::WriteJournal } else { IoClass::WriteMetadata }
    } else {
        IoClass::WriteData
    }
}

/// One number for device, sector and whether it is a flush without data. Sectors of real devices have
/// fewer than 56 bits.
#[inline]
fn key(device: u8, sector: u64, is_flush: bool) -> u64 {
    (sector & ((1 << 56) - 1)) | (u64::from(device) << 56) | (u64::from(is_flush) << 63)
}

#[inline]
fn is_flush(event: &TraceEvent) -> bool {
    event.sectors == 0
}

impl Requests {
    /// A bio was queued.
    #[inline]
    pub fn queue(&mut self, device: u8, event: &TraceEvent, who: Who) {
        if self.queued.len() >= KEPT_MAX {
            // What was queued and never issued was merged in a way that was not seen, or its issue lost.
            forget_old(&mut self.queued, |queued| queued.time_ns, event.time_ns);
        }
        let (sectors, flags) = (event.sectors, event.flags);
        let queued = Queued { time_ns: event.time_ns, sectors, who, flags };
        self.queued.insert(key(device, event.sector, is_flush(event)), queued);
    }

    /// A request was issued; `own` is who was running then.
    #[inline]
    pub fn issue(&mut self, device: u8, event: &TraceEvent, own: Who) -> Issued {
        let first = self.take_queued(device, event);
        let who = first.map_or(own, |queued| queued.who);
        // A device without a way past its cache is given a write that was queued with one without it.
        let flags = first.map_or(event.flags, |queued| event.flags.with(queued.flags));
        let issued = Issued {
            queued_ns: first.map(|queued| queued.time_ns),
            issued_ns: event.time_ns,
            sectors: event.sectors,
            who,
            class: class_of(flags, event.sectors, who),
        };
        if self.issued.len() >= KEPT_MAX {
            let before = self.issued.len();
            forget_old(&mut self.issued, |issued| issued.issued_ns, event.time_ns);
            self.lost += (before - self.issued.len()) as u64;
        }
        self.issued.insert(key(device, event.sector, is_flush(event)), issued);
        issued
    }

    /// Takes the bios that a request holds; gives the first.
    #[inline]
    fn take_queued(&mut self, device: u8, event: &TraceEvent) -> Option<Queued> {
        let flush = is_flush(event);
        let first = self.queued.remove(&key(device, event.sector, flush))?;
        let (mut sector, mut left, mut piece) = (event.sector, event.sectors, first);
        while piece.sectors < left && piece.sectors > 0 {
            sector = sector.saturating_add(u64::from(piece.sectors));
            left -= piece.sectors;
            match self.queued.remove(&key(device, sector, flush)) {
                Some(next) => piece = next,
                None => return Some(first),
            }
        }
        if piece.sectors > left {
            // The rest of a bio that was split.
            let rest = Queued { sectors: piece.sectors - left, ..piece };
            let sector = sector.saturating_add(u64::from(left));
            self.queued.insert(key(device, sector, flush), rest);
        }
        Some(first)
    }

    /// A request, or a part of it, was finished.
    #[inline]
    pub fn complete(&mut self, device: u8, event: &TraceEvent) -> Option<Issued> {
        let issued = self.issued.remove(&key(device, event.sector, is_flush(event)))?;
        if event.sectors > 0 && event.sectors < issued.sectors {
            let rest = Issued { sectors: issued.sectors - event.sectors, ..issued };
            let sector = event.sector.saturating_add(u64::from(event.sectors));
            self.issued.insert(key(device, sector, false), rest);
        }
        Some(issued)
    }

    /// What was queued and completed without ever being issued, as by drivers that take bios.
    #[inline]
    pub fn complete_queued(&mut self, device: u8, event: &TraceEvent) -> Option<(u64, Who)> {
        let queued = self.take_queued(device, event)?;
        Some((queued.time_ns, queued.who))
    }

    /// The driver gave a request back; it will be issued again.
    pub fn requeue(&mut self, device: u8, event: &TraceEvent) {
        let key = key(device, event.sector, is_flush(event));
        if let Some(issued) = self.issued.remove(&key) {
            let time_ns = issued.queued_ns.unwrap_or(issued.issued_ns);
            let (sectors, who, flags) = (issued.sectors, issued.who, event.flags);
            self.queued.insert(key, Queued { time_ns, sectors, who, flags });
        }
    }

    /// Requests at the devices.
    #[inline]
    pub fn depth(&self) -> u64 {
        self.issued.len() as u64
    }
}

/// Forgets what is old. Where that leaves more than half, the older half goes too: the next call is then
/// far off, and the cost of one is shared by many events.
#[cold]
fn forget_old<T>(table: &mut FxHashMap<u64, T>, time_ns: impl Fn(&T) -> u64, now_ns: u64) {
    table.retain(|_, entry| time_ns(entry).saturating_add(LOST_AFTER_NS) > now_ns);
    if table.len() > KEPT_MAX / 2 {
        let mut times: Vec<u64> = table.values().map(&time_ns).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        table.retain(|_, entry| time_ns(entry) > *median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::trace::Action;

    const OWN: Who = Who { name: 0, is_journal: false };
    const OTHER: Who = Who { name: 1, is_journal: false };

    fn event(time_ns: u64, sector: u64, sectors: u32, flags: Flags) -> TraceEvent {
        let (device, process, action) = (0, 0, Action::Other);
        TraceEvent { time_ns, sector, sectors, device, process, flags, action }
    }

    #[test]
    fn merged_bios_are_one_request_of_the_first() {
        let mut requests = Requests::default();
        requests.queue(0, &event(1, 100, 8, Flags::WRITE), OTHER);
        requests.queue(0, &event(2, 108, 8, Flags::WRITE), OWN);
        requests.queue(0, &event(3, 500, 8, Flags::WRITE), OWN);
        let issued = requests.issue(0, &event(9, 100, 16, Flags::WRITE), OWN);
        assert_eq!((issued.queued_ns, issued.who), (Some(1), OTHER));
        assert_eq!((requests.queued.len(), requests.depth()), (1, 1));
        assert_eq!(requests.complete(0, &event(12, 100, 16, Flags::WRITE)).unwrap().issued_ns, 9);
        assert_eq!(requests.depth(), 0);
    }

    #[test]
    fn a_split_bio_is_several_requests_of_one_time() {
        let mut requests = Requests::default();
        requests.queue(0, &event(1, 0, 24, Flags::default()), OTHER);
        for sector in [0, 8, 16] {
            let issued = requests.issue(0, &event(5, sector, 8, Flags::default()), OWN);
            assert_eq!((issued.queued_ns, issued.who), (Some(1), OTHER), "{sector}");
        }
        assert!(requests.queued.is_empty());
        // A part done leaves the rest at the device.
        requests.issue(0, &event(6, 64, 16, Flags::WRITE), OWN);
        assert!(requests.complete(0, &event(7, 64, 8, Flags::WRITE)).is_some());
        assert!(requests.complete(0, &event(7, 72, 8, Flags::WRITE)).is_some());
        assert_eq!(requests.depth(), 3);
    }

    #[test]
    fn what_a_bio_asked_for_counts_where_the_device_cannot_do_it() {
        let mut requests = Requests::default();
        let written = Flags::WRITE.with(Flags::METADATA).with(Flags::SYNC);
        let asked = written.with(Flags::FUA).with(Flags::FLUSH);
        requests.queue(0, &event(1, 64, 64, asked), OWN);
        // The flush goes before it, as a request of its own.
        let flush = requests.issue(0, &event(2, 0, 0, Flags::WRITE.with(Flags::FLUSH)), OTHER);
        assert_eq!(flush.class, IoClass::Flush);
        let issued = requests.issue(0, &event(3, 64, 64, written), OWN);
        assert_eq!(issued.class, IoClass::WriteJournal);
    }

    #[test]
    fn what_is_given_back_keeps_its_time() {
        let mut requests = Requests::default();
        requests.queue(0, &event(1, 0, 8, Flags::WRITE), OTHER);
        requests.issue(0, &event(2, 0, 8, Flags::WRITE), OWN);
        requests.requeue(0, &event(3, 0, 8, Flags::WRITE));
        assert_eq!(requests.depth(), 0);
        let again = requests.issue(0, &event(4, 0, 8, Flags::WRITE), OWN);
        assert_eq!((again.queued_ns, again.who), (Some(1), OTHER));
    }

    #[test]
    fn classes_follow_flags_and_process() {
        let journal = Who { name: 2, is_journal: true };
        for (flags, sectors, who, class) in [
            (Flags::default(), 8, OWN, IoClass::ReadData),
            (Flags::METADATA, 8, OWN, IoClass::ReadMetadata),
            (Flags::WRITE, 8, OWN, IoClass::WriteData),
            (Flags::WRITE.with(Flags::FUA), 8, OWN, IoClass::WriteData),
            (Flags::WRITE.with(Flags::METADATA), 8, OWN, IoClass::WriteMetadata),
            (Flags::WRITE.with(Flags::METADATA).with(Flags::FUA), 8, OWN, IoClass::WriteJournal),
            (Flags::WRITE, 8, journal, IoClass::WriteJournal),
            (Flags::default(), 8, journal, IoClass::ReadData),
            (Flags::DISCARD, 8, OWN, IoClass::Discard),
            (Flags::WRITE.with(Flags::FLUSH), 0, OWN, IoClass::Flush),
            (Flags::FLUSH, 0, journal, IoClass::Flush),
        ] {
            assert_eq!(class_of(flags, sectors, who), class, "{flags:?} {sectors}");
        }
    }

    #[test]
    fn tables_do_not_grow_without_end() {
        let mut requests = Requests::default();
        for index in 0..3 * KEPT_MAX as u64 {
            requests.queue(0, &event(index, index * 100, 8, Flags::WRITE), OWN);
            requests.issue(0, &event(index, index * 100 + 7, 8, Flags::WRITE), OWN);
        }
        assert!(requests.queued.len() <= KEPT_MAX && requests.issued.len() <= KEPT_MAX);
        assert!(requests.lost > 0);
    }

    #[test]
    fn forgetting_makes_room_for_many() {
        // Old ones come one at a time: none of the calls may leave the table full.
        let mut requests = Requests::default();
        let step_ns = 2 * LOST_AFTER_NS / KEPT_MAX as u64;
        for index in 0..=KEPT_MAX as u64 {
            requests.queue(0, &event(index * step_ns, index * 100, 8, Flags::WRITE), OWN);
        }
        assert!(requests.queued.len() <= KEPT_MAX / 2 + 1, "{}", requests.queued.len());
        // The youngest stay.
        let last = KEPT_MAX as u64;
        let issue = event(last * step_ns, last * 100, 8, Flags::WRITE);
        assert_eq!(requests.issue(0, &issue, OWN).queued_ns, Some(last * step_ns));
    }
}
