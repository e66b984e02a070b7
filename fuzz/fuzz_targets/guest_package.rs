//! Packages with kernels: nothing is written outside of the directory.
#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // A directory in which nothing can be made: only what is read matters.
    let _ = fsdyno_guest::package::unpack_bytes(bytes, Path::new("/proc/none"));
});
