#![no_main]
//! Pages of the kernel's ring buffer: any bytes are read to an end, nothing panics, there are no more
//! events than bytes have room for, and damage is placed inside the page. The texts that say where things
//! stand are fuzzed too, by the bytes before the first zero.

use fsdyno_model::trace::Action;
use fsdyno_trace::capture::format::{EventLayout, PageLayout, parse_event, parse_page};
use fsdyno_trace::capture::ring_buffer_page::decode;
use libfuzzer_sys::fuzz_target;

const PAGE: PageLayout = PageLayout {
    timestamp_offset: 0,
    commit_offset: 8,
    commit_bytes: 8,
    data_offset: 16,
    data_bytes: 4080,
};

/// As Linux 6.18 has them on x86-64.
const EVENTS: [EventLayout; 2] = [
    EventLayout {
        id: 1,
        action: Action::Queue,
        needed_bytes: 54,
        pid_offset: 4,
        device_offset: 8,
        sector_offset: 16,
        sectors_offset: 24,
        rwbs_offset: 28,
        rwbs_bytes: 10,
        comm_offset: Some(38),
        error_offset: None,
    },
    EventLayout {
        id: 2,
        action: Action::Complete,
        needed_bytes: 44,
        pid_offset: 4,
        device_offset: 8,
        sector_offset: 16,
        sectors_offset: 24,
        rwbs_offset: 34,
        rwbs_bytes: 10,
        comm_offset: None,
        error_offset: Some(28),
    },
];

fuzz_target!(|bytes: &[u8]| {
    let mut count = 0;
    let end = decode(bytes, &PAGE, &EVENTS, |_| count += 1);
    assert!(count * 44 <= bytes.len());
    assert!(end.damage.is_none_or(|damage| damage.offset_bytes <= bytes.len()));

    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let page = parse_page(&text).unwrap_or(PAGE);
    if let Ok(event) = parse_event(&text, Action::Issue) {
        decode(bytes, &page, &[event], |_| {});
    }
});
