//! Pages made by hand, entry by entry, and pages of chance.

use proptest::prelude::*;

use super::*;

const LAYOUT: PageLayout = PageLayout {
    timestamp_offset: 0,
    commit_offset: 8,
    commit_bytes: 8,
    data_offset: 16,
    data_bytes: 4080,
};
const EVENT_BYTES: usize = 56;

fn event_layout(id: u16, action: Action) -> EventLayout {
    EventLayout {
        id,
        action,
        needed_bytes: EVENT_BYTES,
        pid_offset: 4,
        device_offset: 8,
        sector_offset: 16,
        sectors_offset: 24,
        rwbs_offset: 28,
        rwbs_bytes: 8,
        comm_offset: (action != Action::Complete).then_some(40),
        error_offset: (action == Action::Complete).then_some(36),
    }
}

fn layouts() -> [EventLayout; 2] {
    [event_layout(7, Action::Issue), event_layout(9, Action::Complete)]
}

fn payload(id: u16, sector: u64, sectors: u32, rwbs: &str, error: i32) -> Vec<u8> {
    let mut bytes = vec![0; EVENT_BYTES];
    let mut put = |offset: usize, part: &[u8]| {
        bytes[offset..offset + part.len()].copy_from_slice(part);
    };
    put(0, &id.to_ne_bytes());
    put(4, &42u32.to_ne_bytes());
    put(8, &(7u32 << 20 | 3).to_ne_bytes());
    put(16, &sector.to_ne_bytes());
    put(24, &sectors.to_ne_bytes());
    put(28, rwbs.as_bytes());
    put(36, &error.to_ne_bytes());
    put(40, b"fio");
    bytes
}

/// Entries of a page, as the kernel lays them.
#[derive(Default)]
struct Page {
    data: Vec<u8>,
    missed: u64,
}

impl Page {
    fn header(&mut self, kind: u32, delta: u32) {
        let word = if cfg!(target_endian = "big") { kind << 27 | delta } else { delta << 5 | kind };
        self.data.extend(word.to_ne_bytes());
    }

    fn entry(mut self, delta: u32, payload: &[u8]) -> Self {
        assert_eq!(payload.len() % 4, 0);
        self.header(payload.len() as u32 / 4, delta);
        self.data.extend(payload);
        self
    }

    fn long_entry(mut self, delta: u32, payload: &[u8]) -> Self {
        self.header(0, delta);
        self.data.extend((payload.len() as u32 + 4).to_ne_bytes());
        self.data.extend(payload);
        self.data.resize(self.data.len().next_multiple_of(4), 0);
        self
    }

    fn special(mut self, kind: u32, delta: u32, second: u32) -> Self {
        self.header(kind, delta);
        self.data.extend(second.to_ne_bytes());
        self
    }

    fn bytes(&self, time_ns: u64) -> Vec<u8> {
        let mut page = time_ns.to_ne_bytes().to_vec();
        page.extend((self.data.len() as u64 | self.missed).to_ne_bytes());
        page.extend(&self.data);
        page
    }
}

fn decoded(page: &[u8]) -> (Vec<BlockRecord>, PageEnd) {
    let mut records = Vec::new();
    let end = decode(page, &LAYOUT, &layouts(), |record| records.push(*record));
    (records, end)
}

fn times(records: &[BlockRecord]) -> Vec<u64> {
    records.iter().map(|record| record.time_ns).collect()
}

#[test]
fn events_are_read_with_all_their_fields() {
    let page = Page::default()
        .entry(5, &payload(7, 2048, 16, "FWFSM", 0))
        .entry(10, &payload(9, 2048, 16, "WS", -5))
        .entry(1, &payload(8, 0, 8, "W", 0))
        .entry(1, &payload(7, u64::MAX, 0, "FF", 0));
    let (records, end) = decoded(&page.bytes(1000));
    assert_eq!(times(&records), [1005, 1015, 1017]);
    assert_eq!(end, PageEnd { time_ns: 1017, missed_events: 0, damage: None });
    let [issue, complete, flush] = records[..] else { panic!("{records:?}") };
    assert_eq!((issue.sector, issue.sectors, issue.disk), (2048, 16, 7 << 20 | 3));
    assert_eq!((issue.pid, issue.action), (42, Action::Issue));
    assert_eq!(issue.comm.map(|comm| comm[..4].to_vec()), Some(b"fio\0".to_vec()));
    for flag in [Flags::FLUSH, Flags::WRITE, Flags::FUA, Flags::SYNC, Flags::METADATA] {
        assert!(issue.flags.contains(flag) && !issue.flags.contains(Flags::ERROR));
    }
    assert_eq!((complete.action, complete.comm), (Action::Complete, None));
    assert!(complete.flags.contains(Flags::ERROR));
    assert_eq!((flush.sector, flush.sectors, flush.flags), (0, 0, Flags::FLUSH));
}

#[test]
fn times_are_extended_stamped_and_skipped() {
    let event = payload(7, 8, 8, "R", 0);
    let page = Page::default()
        .special(TIME_EXTEND, 3, 2)
        .entry(1, &event)
        // Discarded events: of a known time, and of none.
        .special(PADDING, 100, 4)
        .special(PADDING, 1, 4)
        .long_entry(1, &event)
        .special(TIME_STAMP, 7, 1 << 10)
        .entry(2, &event);
    let (records, end) = decoded(&page.bytes(50));
    let extended = 50 + 3 + (2u64 << 27);
    let stamped = (1u64 << 37) + 7;
    assert_eq!(times(&records), [extended + 1, extended + 102, stamped + 2]);
    assert_eq!(end.damage, None);
    // High bits that a stamp has no room for are those of the time before.
    let base = 5u64 << 59;
    let page = Page::default().special(TIME_STAMP, 7, 1).entry(0, &event);
    assert_eq!(times(&decoded(&page.bytes(base)).0), [base + (1 << 27) + 7]);
}

#[test]
fn the_rest_of_a_page_may_be_empty() {
    let event = payload(7, 8, 8, "R", 0);
    let page = Page::default().entry(1, &event).special(PADDING, 0, 0).entry(1, &event);
    let (records, end) = decoded(&page.bytes(0));
    assert_eq!((records.len(), end.damage), (1, None));
}

#[test]
fn losses_are_told() {
    let mut page = Page::default().entry(1, &payload(7, 8, 8, "R", 0));
    page.missed = MISSED;
    assert_eq!(decoded(&page.bytes(0)).1.missed_events, 1);
    page.missed = MISSED | MISSED_COUNTED;
    let mut bytes = page.bytes(0);
    bytes.extend(77u64.to_ne_bytes());
    let (records, end) = decoded(&bytes);
    assert_eq!((records.len(), end.missed_events, end.damage), (1, 77, None));
}

#[test]
fn damage_is_told_with_its_place() {
    let event = payload(7, 8, 8, "R", 0);
    let whole = Page::default().entry(1, &event).entry(1, &event).bytes(0);
    let second = 16 + 4 + EVENT_BYTES;
    for (bytes, count, offset_bytes) in [
        (whole[..7].to_vec(), 0, 0),
        (whole[..12].to_vec(), 0, 0),
        (whole[..second + 2].to_vec(), 1, second),
        (whole[..whole.len() - 1].to_vec(), 1, second),
        (Page::default().special(0, 1, 3).bytes(0), 0, 16),
        (Page::default().special(0, 1, u32::MAX).bytes(0), 0, 16),
    ] {
        let (records, end) = decoded(&bytes);
        assert_eq!(records.len(), count);
        assert_eq!(end.damage.map(|damage| damage.offset_bytes), Some(offset_bytes));
    }
    // Between two entries.
    let (records, end) = decoded(&whole[..second]);
    assert_eq!((records.len(), end.damage.map(|it| it.offset_bytes)), (1, Some(second)));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>) {
        let (records, _) = decoded(&bytes);
        prop_assert!(records.len() <= bytes.len() / EVENT_BYTES);
    }

    #[test]
    fn no_data_make_it_panic(time_ns: u64, missed: bool, words: Vec<u32>) {
        let data = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let page = Page { data, missed: if missed { MISSED | MISSED_COUNTED } else { 0 } };
        let bytes = page.bytes(time_ns);
        let (records, end) = decoded(&bytes);
        prop_assert!(records.len() <= bytes.len() / EVENT_BYTES);
        prop_assert!(end.damage.is_none_or(|damage| damage.offset_bytes <= bytes.len()));
    }
}
