//! Programs, libraries and modules that are brought into a guest.
#![no_main]

use fsdyno_guest::elf;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = (elf::links(bytes), elf::module_info(bytes), elf::has_pvh_entry(bytes));
    let _ = elf::loaded_part(bytes.to_vec());
});
