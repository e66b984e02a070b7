#![no_main]
//! Models of disks in TOML: reading never panics, a refused text has at least one diagnostic, and each one
//! points at whole characters inside the text; what is accepted can be built and answers.

use fsdyno_disk::probe::{self, Probe};
use fsdyno_disk::{Disk, Model, Op, shipped};
use libfuzzer_sys::fuzz_target;

/// Disks that are larger are read and not built: their mapping would take more memory than is there.
const MOST_BYTES: u64 = 64 << 20;

fuzz_target!(|text: &str| {
    match Model::parse("fuzzed", text, &|name| shipped::find(name)) {
        Ok(model) => {
            let size_bytes = model.capacity_bytes.min(MOST_BYTES);
            if let Ok(mut disk) = Disk::new(&model, size_bytes, 1) {
                let span = disk.size_bytes();
                probe::run(&mut disk, Probe::random(Op::Write, 2, 8, span), 0);
            }
        }
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty());
            for diagnostic in diagnostics {
                if let Some(span) = diagnostic.span {
                    assert!(text.get(span.clone()).is_some(), "{span:?} is outside of the text");
                }
            }
        }
    }
});
