#![no_main]
//! Stored traces. Any bytes are read to an end or refused: nothing panics, times never go back, events name
//! processes that are listed. And a trace that was written is damaged at some places, so that the fuzzer
//! gets past the checksums: what is read is then whole chunks of what was written.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use fsdyno_model::trace::{
    Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess, TraceSource,
};
use fsdyno_trace::EventSink;
use fsdyno_trace::stored::{Reader, Writer};
use libfuzzer_sys::fuzz_target;

/// Traces are opened by path; in memory where there is such a place.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() { memory } else { std::env::temp_dir() };
    directory.join(format!("fsdyno-fuzz-stored-{}", std::process::id()))
});

fn read(path: &Path) -> Vec<TraceEvent> {
    let (mut events, mut batch) = (Vec::new(), Vec::new());
    let Ok(mut reader) = Reader::open(path) else { return events };
    while let Ok(true) = reader.next_batch(&mut batch) {
        let known = reader.info().processes.len();
        assert!(batch.iter().all(|event| (event.process as usize) < known));
        events.append(&mut batch);
        assert!(events.len() < 10_000_000, "few bytes, any number of events");
    }
    assert!(events.is_sorted_by_key(|event| event.time_ns));
    events
}

/// Events whose fields are bytes of the input.
fn events_of(bytes: &[u8]) -> Vec<TraceEvent> {
    let mut time_ns = 0;
    let event = |fields: &[u8]| {
        time_ns += u64::from(fields[0]) << (fields[1] % 40);
        TraceEvent {
            time_ns,
            sector: u64::from(fields[2]) << (fields[3] % 57),
            sectors: u32::from(fields[4]),
            device: u32::from(fields[5] % 3),
            process: u32::from(fields[5] / 128),
            flags: Flags(u16::from(fields[6])),
            action: if fields[7] < 128 { Action::Issue } else { Action::Complete },
        }
    };
    bytes.chunks_exact(8).map(event).collect()
}

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the temporary directory takes a small file");
    read(&FILE);
    std::fs::remove_file(&*FILE).expect("it was just written");

    let (changes, rest) = bytes.split_at(bytes.len().min(6));
    let events = events_of(rest);
    let process = |pid| TraceProcess { pid, name: format!("process {pid}") };
    let info = TraceInfo {
        devices: vec![TraceDevice { number: 1, name: "sda".to_owned(), sectors: Some(1000) }],
        processes: vec![process(1), process(2)],
        ..TraceInfo::default()
    };
    let mut writer = Writer::create(&FILE).expect("it is not there");
    writer.take(&events, &info).expect("the temporary directory takes a small file");
    writer.finish(&info).expect("the temporary directory takes a small file");
    assert_eq!(read(&FILE), events);
    let mut written = std::fs::read(&*FILE).expect("it was just written");
    for change in changes.chunks_exact(3) {
        let place = usize::from(change[0]) << 8 | usize::from(change[1]);
        let place = place % written.len();
        written[place] ^= change[2];
    }
    std::fs::write(&*FILE, &written).expect("the temporary directory takes a small file");
    let left = read(&FILE);
    assert!(left.is_empty() || left == events, "there is one chunk");
    std::fs::remove_file(&*FILE).expect("it was just written");
});
