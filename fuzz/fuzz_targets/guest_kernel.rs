//! Kernel images, and what a guest's kernel says on its console.
#![no_main]

use fsdyno_guest::{console, image};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = (image::release(bytes), image::elf_of(bytes));
    let text = String::from_utf8_lossy(bytes);
    let _ = (console::verdict(&text), console::last_lines(&text));
});
