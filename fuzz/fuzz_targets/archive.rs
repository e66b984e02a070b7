#![no_main]
//! Archives of users: any file is either gone through to its end or refused; no bytes make the
//! reader or the extractor panic. The calls on the target are null ones, nothing is made.

use std::path::PathBuf;
use std::sync::LazyLock;

use fsdyno_sys::calls::Null;
use fsdyno_workload::archive::{Archive, ExtractOptions, extract};
use fsdyno_workload::recorder::Recorder;
use libfuzzer_sys::fuzz_target;

/// Archives are opened by path; in memory where there is such a place.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() { memory } else { std::env::temp_dir() };
    directory.join(format!("fsdyno-fuzz-archive-{}", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the temporary directory takes a small file");
    if let Ok(archive) = Archive::open(&FILE) {
        let _ = archive.survey();
        let options = ExtractOptions { strip_components: 1, ..ExtractOptions::default() };
        let _ = extract(&Null, &(), &archive, options, &mut Recorder::new(), |_| {});
    }
    let _ = std::fs::remove_file(&*FILE);
});
