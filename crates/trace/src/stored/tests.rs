//! What is written is read back; what is damaged is left out and said.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use fsdyno_model::trace::{
    Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource,
};
use proptest::prelude::*;

use super::columns::Encoder;
use super::frame::{HEADER_BYTES, Header, START_BYTES};
use super::{CHUNK_EVENTS, Reader, Writer};
use crate::EventSink;
use crate::open::input::Input;

/// A place in memory that outlives its writer.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn known() -> TraceInfo {
    let process = |pid, name: &str| TraceProcess { pid, name: name.to_owned() };
    let device = |number, name: &str, sectors| TraceDevice { number, name: name.into(), sectors };
    TraceInfo {
        devices: vec![device(7 << 20, "loop0", Some(1 << 21)), device(8 << 20 | 16, "sdb", None)],
        processes: vec![process(1, "init"), process(77, "kworker/u4:1-flush-7:0")],
        lost_events: 3,
        wall_offset_ns: Some(-5),
        warnings: vec!["the clock was set".to_owned()],
    }
}

/// Reads and writes to places near and far, with their issue and completion.
fn requests(count: u64) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    for index in 0..count {
        let sector = if index % 3 == 0 { index * 8 } else { index * 7_919 % 2_000_000 };
        let flags = if index % 2 == 0 { Flags::WRITE } else { Flags::default().with(Flags::SYNC) };
        for (step, action) in [Action::Queue, Action::Issue, Action::Complete].iter().enumerate() {
            events.push(TraceEvent {
                time_ns: 1_000_000 + index * 5_000 + step as u64 * 1_000,
                sector,
                sectors: 8,
                device: if index % 5 == 0 { 8 << 20 | 16 } else { 7 << 20 },
                process: (index % 2) as u32,
                flags,
                action: *action,
            });
        }
    }
    events
}

fn written(events: &[TraceEvent], info: &TraceInfo, finish: bool) -> Vec<u8> {
    let memory = Memory::default();
    let mut writer = Writer::new(Box::new(memory.clone())).unwrap();
    events.chunks(1000).for_each(|events| writer.take(events, info).unwrap());
    if finish {
        writer.finish(info).unwrap();
    }
    memory.0.lock().unwrap().clone()
}

fn read(bytes: &[u8]) -> io::Result<(Vec<TraceEvent>, Reader)> {
    let input = Input::new(Box::new(Cursor::new(bytes.to_vec())), "memory".to_owned(), 4096);
    let mut reader = Reader::new(input)?;
    let (mut batch, mut events) = (Vec::new(), Vec::new());
    while reader.next_batch(&mut batch)? {
        events.append(&mut batch);
    }
    Ok((events, reader))
}

#[test]
fn a_trace_is_read_back() {
    let events = requests(40_000);
    let bytes = written(&events, &known(), true);
    let (read_back, reader) = read(&bytes).unwrap();
    assert!(read_back == events);
    assert_eq!(*reader.info(), known());
    let summary = reader.summary().unwrap();
    assert_eq!(summary.events, 120_000);
    assert_eq!([summary.first_ns, summary.last_ns], [1_000_000, events.last().unwrap().time_ns]);
    assert!(bytes.len() < 8 * events.len(), "{} bytes", bytes.len());
}

#[test]
fn what_the_trailer_says_is_known_when_a_file_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.fstrace");
    std::fs::write(&path, written(&requests(10), &known(), true)).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.summary().unwrap().events, 30);
    assert_eq!(reader.info().devices, known().devices);
    assert_eq!([reader.info().lost_events, reader.info().processes.len() as u64], [3, 0]);
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch).unwrap() {}
    assert_eq!(*reader.info(), known(), "nothing is there twice");
    let error = Writer::create(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn processes_may_become_known_on_the_way() {
    let memory = Memory::default();
    let mut writer = Writer::new(Box::new(memory.clone())).unwrap();
    let mut info = TraceInfo::default();
    let mut events = requests(30_000);
    for (index, event) in events.iter_mut().enumerate() {
        let pid = index as u32;
        info.processes.push(TraceProcess { pid, name: format!("worker {pid}") });
        event.process = pid;
    }
    let many = info.clone();
    info.processes.truncate(1000);
    writer.take(&events[..1000], &info).unwrap();
    writer.take(&events[1000..], &many).unwrap();
    writer.finish(&many).unwrap();
    let (read_back, reader) = read(&memory.0.lock().unwrap()).unwrap();
    assert!(read_back == events);
    assert!(reader.info().processes == many.processes);
}

#[test]
fn a_trace_without_an_end_is_read_with_a_warning() {
    let events = requests(40_000);
    let bytes = written(&events, &known(), false);
    let (read_back, reader) = read(&bytes).unwrap();
    assert_eq!(read_back.len(), events.len() / CHUNK_EVENTS * CHUNK_EVENTS);
    assert!(events.starts_with(&read_back));
    assert_eq!(reader.summary(), None);
    let place = format!("memory: byte {}: the trace has no end", bytes.len());
    assert!(reader.info().warnings[0].starts_with(&place), "{:?}", reader.info().warnings);
}

#[test]
fn a_damaged_chunk_is_left_out() {
    let events = requests(40_000);
    let mut bytes = written(&events, &known(), true);
    let second =
        START_BYTES + HEADER_BYTES + Header::parse(&bytes[START_BYTES..]).unwrap().stored_bytes;
    let cases: [(usize, &str); 2] = [
        (second + HEADER_BYTES + 100, "32768 events are damaged"),
        (second + 2, "bytes are damaged and were passed over"),
    ];
    for (at, message) in cases {
        bytes[at] ^= 0x10;
        let (read_back, reader) = read(&bytes).unwrap();
        assert!(read_back[..CHUNK_EVENTS] == events[..CHUNK_EVENTS]);
        assert!(read_back[CHUNK_EVENTS..] == events[2 * CHUNK_EVENTS..]);
        let warnings = &reader.info().warnings;
        let place = format!("memory: byte {second}: ");
        assert!(warnings[0].starts_with(&place) && warnings[0].ends_with(message), "{warnings:?}");
        bytes[at] ^= 0x10;
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    let mut newer = written(&[], &known(), true);
    newer[8] = 2;
    for (bytes, message) in [
        (b"".as_slice(), "is no stored trace"),
        (b"fstrace\n", "is no stored trace"),
        (b"something else that is long enough", "is no stored trace"),
        (&newer, "version 2"),
    ] {
        let error = read(bytes).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn an_event_that_came_late_does_not_turn_the_clock_back() {
    let mut events = requests(10);
    events[20].time_ns = 7;
    let (read_back, reader) = read(&written(&events, &known(), true)).unwrap();
    assert_eq!(read_back[20].time_ns, read_back[19].time_ns);
    assert_eq!(
        reader.info().warnings[1],
        "1 events came with an earlier time than the event before"
    );
}

fn any_event() -> impl Strategy<Value = TraceEvent> {
    let action = prop_oneof![
        Just(Action::Queue),
        Just(Action::Issue),
        Just(Action::Complete),
        Just(Action::Remap),
        Just(Action::Other)
    ];
    let sector = prop_oneof![0_u64..64, any::<u64>()];
    let sectors = prop_oneof![0_u32..9, any::<u32>()];
    let device = prop_oneof![Just(7_u32 << 20), 0_u32..4, any::<u32>()];
    (any::<u64>(), sector, sectors, device, 0_u32..2, any::<u16>(), action).prop_map(
        |(time_ns, sector, sectors, device, process, flags, action)| TraceEvent {
            time_ns,
            sector,
            sectors,
            device,
            process,
            flags: Flags(flags),
            action,
        },
    )
}

proptest! {
    #[test]
    fn any_events_are_read_back(mut events in prop::collection::vec(any_event(), 0..300)) {
        events.sort_by_key(|event| event.time_ns);
        let (read_back, _) = read(&written(&events, &known(), true)).unwrap();
        prop_assert_eq!(read_back, events);
    }

    #[test]
    fn damage_anywhere_is_survived(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        keep in any::<prop::sample::Index>(),
    ) {
        let events = requests(300);
        let mut bytes = written(&events, &known(), true);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bytes.truncate(keep.index(bytes.len()) + 1);
        if let Ok((read_back, reader)) = read(&bytes) {
            let is_order = read_back.is_sorted_by_key(|event| event.time_ns);
            prop_assert!(is_order);
            let known = reader.info().processes.len();
            prop_assert!(read_back.iter().all(|event| (event.process as usize) < known));
        }
    }

    /// Behind right checksums there may be anything.
    #[test]
    fn columns_of_any_bytes_are_survived(
        events in prop::collection::vec(any_event(), 0..20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut events = events;
        events.sort_by_key(|event| event.time_ns);
        let mut payload = Vec::new();
        Encoder::new().put(&events, &mut payload);
        for (at, byte) in changes {
            let at = at.index(payload.len());
            payload[at] = byte;
        }
        let mut batch = Vec::new();
        let _ = super::columns::take_columns(&payload, events.len(), 2, &mut batch);
        prop_assert!(batch.len() <= events.len());
    }
}
