#![no_main]
//! Workloads in TOML: reading never panics, a refused text has at least one diagnostic, and each one
//! points at whole characters inside the text.

use fsdyno_workload::engine::data;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Err(diagnostics) = data::check(text) else { return };
    assert!(!diagnostics.is_empty());
    for diagnostic in diagnostics {
        if let Some(span) = diagnostic.span {
            assert!(text.get(span.clone()).is_some(), "{span:?} is outside of the text");
        }
    }
});
