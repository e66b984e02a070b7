#![no_main]
//! Files of blktrace: any bytes are read to an end or refused; nothing panics, times never go back, events
//! name processes and devices that are listed, and there are no more events than records fit. The first
//! byte says in how many files the rest is cut, as those of several processors.

use std::path::PathBuf;
use std::sync::LazyLock;

use fsdyno_trace::open;
use libfuzzer_sys::fuzz_target;

/// Traces are opened by path; in memory where there is such a place.
static NAME: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() { memory } else { std::env::temp_dir() };
    directory.join(format!("fsdyno-fuzz-blktrace-{}", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&files, bytes)) = bytes.split_first() else { return };
    let files = usize::from(files % 3) + 1;
    let paths: Vec<PathBuf> =
        (0..files).map(|file| NAME.with_extension(format!("blktrace.{file}"))).collect();
    let piece_bytes = bytes.len().div_ceil(files).max(1);
    let mut pieces = bytes.chunks(piece_bytes);
    for path in &paths {
        std::fs::write(path, pieces.next().unwrap_or_default())
            .expect("the temporary directory takes a small file");
    }
    if let Ok(mut source) = open::open_files(&paths) {
        let (mut batch, mut last_ns, mut events) = (Vec::new(), 0, 0);
        while let Ok(true) = source.next_batch(&mut batch) {
            assert!(!batch.is_empty());
            events += batch.len();
            let info = source.info();
            for event in &batch {
                assert!(event.time_ns >= last_ns, "the time went back");
                last_ns = event.time_ns;
                assert!((event.process as usize) < info.processes.len());
                assert!(info.devices.iter().any(|device| device.number == event.device));
            }
        }
        // A stored trace may have many events in few bytes.
        assert!(events <= bytes.len() / 48 || bytes.starts_with(b"fstrace\n"));
    }
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
});
