//! Records in every layout, files that are merged, and what happens to damaged ones.

use std::io::Cursor;

use fsdyno_model::trace::{
    Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource,
};
use proptest::prelude::*;

use super::record::{ACTIONS, CATEGORY_SHIFT, Layout, NOTIFY};
use super::{Reader, Writer};
use crate::EventSink;
use crate::open::input::Input;

const PLAIN: Layout = Layout { big_endian: false, version: 7, context_bytes: 0 };

/// What a record says.
#[derive(Clone, Default)]
struct Raw {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    pid: u32,
    error: u16,
    pdu: Vec<u8>,
}

impl Raw {
    fn queued(time_ns: u64, sector: u64) -> Raw {
        Raw { time_ns, sector, bytes: 4096, action: 0x0012_0001, pid: 9, ..Raw::default() }
    }

    fn notice(time_ns: u64, number: u64, pid: u32, pdu: &[u8]) -> Raw {
        let action = NOTIFY << CATEGORY_SHIFT | number;
        Raw { time_ns, action, pid, pdu: pdu.to_vec(), ..Raw::default() }
    }

    /// The record as a file of that layout has it.
    fn put(&self, layout: Layout, bytes: &mut Vec<u8>) {
        let mut put = |value: u64, width: usize| match layout.big_endian {
            true => bytes.extend_from_slice(&value.to_be_bytes()[8 - width..]),
            false => bytes.extend_from_slice(&value.to_le_bytes()[..width]),
        };
        (0..layout.context_bytes / 4).for_each(|_| put(0x0101_0101, 4));
        put(0x6561_7400 | u64::from(layout.version), 4);
        put(0, 4);
        put(self.time_ns, 8);
        put(self.sector, 8);
        put(u64::from(self.bytes), 4);
        if layout.version == 8 {
            put(u64::from(self.pid), 4);
            put(self.action, 8);
        } else {
            put(self.action, 4);
            put(u64::from(self.pid), 4);
        }
        put(8 << 20 | 3, 4);
        put(0, 4);
        put(u64::from(self.error), 2);
        put(self.pdu.len() as u64, 2);
        if layout.version == 8 {
            put(0, 8);
            put(0, 4);
        }
        bytes.extend_from_slice(&self.pdu);
    }
}

fn bytes_of(layout: Layout, records: &[Raw]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| record.put(layout, &mut bytes));
    bytes
}

fn read(files: &[Vec<u8>]) -> (Vec<TraceEvent>, TraceInfo) {
    let input = |bytes: &Vec<u8>| {
        let layout = Layout::detect(bytes).expect("the layout is told by the first bytes");
        (Input::new(Box::new(Cursor::new(bytes.clone())), "memory".to_owned(), 4096), layout)
    };
    let mut reader = Reader::new(files.iter().map(input).collect());
    let (mut batch, mut events) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch).unwrap() {
        events.append(&mut batch);
    }
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    (events, reader.info().clone())
}

fn layouts() -> impl Iterator<Item = Layout> {
    [false, true].into_iter().flat_map(|big_endian| {
        [7, 8].into_iter().flat_map(move |version| {
            [0, 16].map(|context_bytes| Layout { big_endian, version, context_bytes })
        })
    })
}

#[test]
fn every_layout_says_the_same() {
    for layout in layouts() {
        let (seconds, ns) = (1_700_000_000_u32, 42_u32);
        let stamp = match layout.big_endian {
            true => [seconds.to_be_bytes(), ns.to_be_bytes()].concat(),
            false => [seconds.to_le_bytes(), ns.to_le_bytes()].concat(),
        };
        let complete = Raw { action: 0x8a_0008, error: 5, ..Raw::queued(500, 1 << 40) };
        let with_cgroup = Raw { pdu: vec![7; 8], action: 0x0012_0101, ..Raw::queued(600, 16) };
        let records = [
            Raw::notice(90, 1, 0, &stamp),
            Raw::notice(100, 0, 9, b"dd\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
            Raw::queued(100, 8),
            Raw::notice(110, 2, 9, b"a message"),
            complete,
            with_cgroup,
        ];
        let (events, info) = read(&[bytes_of(layout, &records)]);
        let expected = TraceEvent {
            time_ns: 0,
            sector: 8,
            sectors: 8,
            device: 8 << 20 | 3,
            process: 0,
            flags: Flags::WRITE,
            action: Action::Queue,
        };
        let failed = Flags::WRITE.with(Flags::SYNC).with(Flags::ERROR);
        let complete = TraceEvent {
            time_ns: 400,
            sector: 1 << 40,
            flags: failed,
            action: Action::Complete,
            ..expected
        };
        let last = TraceEvent { time_ns: 500, sector: 16, ..expected };
        assert_eq!(events, [expected, complete, last], "{layout:?}");
        let process = TraceProcess { pid: 9, name: "dd".to_owned() };
        let device = TraceDevice { number: 8 << 20 | 3, name: "8:3".to_owned(), sectors: None };
        let wall_offset_ns = Some(1_700_000_000_000_000_042 - 90 + 100);
        let (processes, devices) = (vec![process], vec![device]);
        let rest = TraceInfo::default();
        assert_eq!(info, TraceInfo { devices, processes, wall_offset_ns, ..rest }, "{layout:?}");
    }
}

#[test]
fn categories_become_flags() {
    let cases: [(u64, Flags); 8] = [
        (0x1, Flags::default()),
        (0x2, Flags::WRITE),
        (0x2 | 1 << 13, Flags::DISCARD),
        (0x1 | 1 << 2, Flags::FLUSH),
        (0x2 | 1 << 2 | 1 << 15, Flags::WRITE.with(Flags::FLUSH).with(Flags::FUA)),
        (0x2 | 1 << 3 | 1 << 12, Flags::WRITE.with(Flags::SYNC).with(Flags::METADATA)),
        (0x1 | 1 << 11, Flags::READAHEAD),
        (0x1 | 1 << 8 | 1 << 4, Flags::default()),
    ];
    for (categories, flags) in cases {
        let record = Raw { action: categories << 16 | 7, ..Raw::queued(1, 0) };
        assert_eq!(read(&[bytes_of(PLAIN, &[record])]).0[0].flags, flags, "{categories:x}");
    }
    for (code, action, _) in
        ACTIONS.into_iter().chain([(16, Action::Other, 0), (200, Action::Other, 0)])
    {
        let record = Raw { action: 0x2_0000 | u64::from(code), ..Raw::queued(1, 0) };
        assert_eq!(read(&[bytes_of(PLAIN, &[record])]).0[0].action, action, "{code}");
    }
    let command = Raw { action: 1 << (16 + 9) | 0x1_0007, ..Raw::queued(1, 0) };
    assert_eq!(read(&[bytes_of(PLAIN, &[command])]).0[0].action, Action::Other);
}

#[test]
fn files_are_merged_by_time() {
    let mut files = vec![Vec::new(); 3];
    for index in 0..60_000_u64 {
        // Runs of different lengths, and each third record behind its successor.
        let time_ns = 1000 + if index % 3 == 0 { index + 4 } else { index };
        Raw::queued(time_ns, index).put(PLAIN, &mut files[(index / 7 % 3) as usize]);
    }
    let (events, info) = read(&files);
    assert_eq!(events.len(), 60_000);
    assert!(info.warnings.is_empty(), "{:?}", info.warnings);
    let mut sectors: Vec<u64> = events.iter().map(|event| event.sector).collect();
    assert!(events.iter().all(|event| event.time_ns + 1001 >= event.sector));
    sectors.sort_unstable();
    assert!(sectors.iter().copied().eq(0..60_000));
}

#[test]
fn a_process_is_named_from_the_file_of_another_processor() {
    let first = [Raw::notice(5, 0, 9, b"first"), Raw::notice(30, 0, 9, b"second")];
    let second = [Raw::queued(10, 1), Raw::queued(40, 2), Raw { pid: 0, ..Raw::queued(50, 3) }];
    let (events, info) = read(&[bytes_of(PLAIN, &first), bytes_of(PLAIN, &second)]);
    let name = |event: &TraceEvent| info.processes[event.process as usize].name.as_str();
    assert_eq!(events.iter().map(name).collect::<Vec<_>>(), ["first", "second", "swapper"]);
    let (_, info) = read(&[bytes_of(PLAIN, &[Raw::queued(1, 1), Raw::notice(2, 0, 9, b"late")])]);
    assert_eq!(info.processes, [TraceProcess { pid: 9, name: "late".to_owned() }]);
}

#[test]
fn damage_is_passed_over_and_said() {
    let records: Vec<Raw> = (0..100).map(|index| Raw::queued(index, index)).collect();
    for layout in layouts() {
        let size = layout.record_bytes();
        let whole = bytes_of(layout, &records);
        let mut wrong_magic = whole.clone();
        wrong_magic[50 * size + layout.context_bytes] ^= 1;
        let mut wrong_length = whole.clone();
        let pdu_at = layout.context_bytes + if layout.version == 8 { 50 } else { 46 };
        wrong_length[50 * size + pdu_at + usize::from(layout.big_endian)] = 9;
        let mut stray = whole.clone();
        stray.splice(50 * size..50 * size, [0xaa; 1000]);
        let cut = whole[..99 * size + 20].to_vec();
        // The events that are left, those that are lost, the offset, what is said.
        let lost_1000 = 1000 / size as u64;
        for (bytes, left, lost, at, message) in [
            (wrong_magic, 99, 1, 50 * size, "are no records"),
            (wrong_length, 100, 0, 51 * size, "the length of the data"),
            (stray, 100, lost_1000, 50 * size, "1000 bytes are no records"),
            (cut, 99, 1, 99 * size, "ends within a record, 20 bytes"),
        ] {
            let (events, info) = read(&[bytes]);
            assert_eq!(
                [events.len() as u64, info.lost_events],
                [left, lost],
                "{layout:?} {message}"
            );
            let place = format!("memory: byte {at}: ");
            let [warning] = info.warnings.as_slice() else { panic!("{:?}", info.warnings) };
            assert!(warning.starts_with(&place) && warning.contains(message), "{warning}");
        }
    }
}

#[test]
fn time_that_goes_far_back_is_said() {
    let mut records: Vec<Raw> =
        (0..200_000).map(|index| Raw::queued(1_000_000 + index, index)).collect();
    records.push(Raw::queued(5, 0));
    records.push(Raw::queued(6, 0));
    let (events, info) = read(&[bytes_of(PLAIN, &records)]);
    assert_eq!(events.len(), 200_002);
    let [first, last] = info.warnings.as_slice() else { panic!("{:?}", info.warnings) };
    assert!(first.starts_with("memory: byte 9600048: the time goes back"), "{first}");
    assert!(last.ends_with("2 records came too late to be put in order"), "{last}");
}

fn any_event() -> impl Strategy<Value = TraceEvent> {
    let action = prop::sample::select(ACTIONS.map(|(_, action, _)| action).to_vec());
    let flags = prop::sample::select(vec![
        Flags::default(),
        Flags::WRITE.with(Flags::SYNC),
        Flags::DISCARD,
        Flags::FLUSH,
        Flags::WRITE.with(Flags::FLUSH).with(Flags::FUA).with(Flags::METADATA),
        Flags::default().with(Flags::READAHEAD),
    ]);
    let fields =
        (0..1_000_000_u64, any::<u64>(), 0..1_u32 << 23, 0..3_u32, 0..3_u32, flags, action);
    fields.prop_map(|(time_ns, sector, sectors, device, process, flags, action)| TraceEvent {
        time_ns,
        sector,
        sectors,
        device: 8 << 20 | device,
        process,
        flags,
        action,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        mut events in prop::collection::vec(any_event(), 1..200),
        processors in 1_usize..4,
    ) {
        // The files of processors do not say which of two events at one time was first.
        events.sort_by_key(|event| event.time_ns);
        events.dedup_by_key(|event| event.time_ns);
        events[0].time_ns = 0;
        let process = |pid| TraceProcess { pid, name: format!("process {pid}") };
        let info = TraceInfo {
            processes: vec![process(10), process(11), process(12)],
            wall_offset_ns: Some(1_234_567_890_123),
            ..TraceInfo::default()
        };
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("trace");
        let mut writer = Writer::create(&name, processors).unwrap();
        writer.take(&events, &info).unwrap();
        writer.finish(&info).unwrap();
        let mut source = crate::open::open(&name).unwrap();
        let (mut batch, mut read_back) = (Vec::new(), Vec::new());
        while source.next_batch(&mut batch).unwrap() {
            read_back.append(&mut batch);
        }
        let found = source.info();
        prop_assert_eq!(found.wall_offset_ns, info.wall_offset_ns);
        prop_assert_eq!(&found.warnings, &Vec::<String>::new());
        for event in &mut read_back {
            let process = &found.processes[event.process as usize];
            let place = info.processes.iter().position(|known| known == process);
            event.process = place.unwrap() as u32;
        }
        prop_assert_eq!(read_back, events);
    }

    #[test]
    fn any_damage_is_survived(
        layout in prop::sample::select(layouts().collect::<Vec<_>>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..10),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut records: Vec<Raw> = (0..50).map(|index| Raw::queued(index, index)).collect();
        records[7].pdu = vec![1; 30];
        records.insert(3, Raw::notice(2, 0, 9, b"name"));
        let mut bytes = bytes_of(layout, &records);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(keep.index(bytes.len()) + 1);
        if Layout::detect(&bytes).is_some_and(|layout| layout.is_known()) {
            let (events, info) = read(&[bytes]);
            let known = info.processes.len();
            prop_assert!(events.iter().all(|event| (event.process as usize) < known));
        }
    }
}
