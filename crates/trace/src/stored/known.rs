//! What a payload begins with: that which became known since the payload before it. Events are left to
//! `columns`.

use std::io;

use fsdyno_model::trace::{TraceDevice, TraceInfo, TraceProcess};

use super::varint::{fold, put, take, unfold};

/// Bytes of a name at most; what is longer is cut.
const NAME_BYTES_MAX: usize = 64;
/// Processes of a trace at most.
pub(super) const PROCESSES_MAX: usize = 1 << 20;
/// Processes that one payload names at most.
pub(super) const NEW_PROCESSES_MAX: usize = 16_384;
/// Devices of a trace at most.
const DEVICES_MAX: usize = 4096;
/// Warnings of a trace at most, and bytes of each.
const WARNINGS_MAX: usize = 64;
const WARNING_BYTES_MAX: usize = 1024;

/// Appends the processes `processes` and the devices from `first_device` on, and the rest of `info`.
pub(super) fn put_known(
    payload: &mut Vec<u8>,
    info: &TraceInfo,
    processes: std::ops::Range<usize>,
    first_device: usize,
) {
    put(payload, processes.start as u64);
    put(payload, processes.len() as u64);
    for process in &info.processes[processes] {
        put(payload, u64::from(process.pid));
        put_text(payload, &process.name, NAME_BYTES_MAX);
    }
    let devices = info.devices.get(first_device..).unwrap_or_default();
    let devices = &devices[..devices.len().min(DEVICES_MAX.saturating_sub(first_device))];
    put(payload, first_device as u64);
    put(payload, devices.len() as u64);
    for device in devices {
        put(payload, u64::from(device.number));
        put(payload, u64::from(device.sectors.is_some()));
        put(payload, device.sectors.unwrap_or(0));
        put_text(payload, &device.name, NAME_BYTES_MAX);
    }
    put(payload, info.lost_events);
    put(payload, u64::from(info.wall_offset_ns.is_some()));
    put(payload, fold(info.wall_offset_ns.unwrap_or(0)));
}

/// Takes what [`put_known`] appended into `info`; `None` where it makes no sense.
pub(super) fn take_known(payload: &mut &[u8], info: &mut TraceInfo) -> Option<()> {
    let first = index(payload, PROCESSES_MAX)?;
    let processes = index(payload, NEW_PROCESSES_MAX)?;
    // Events that were handed out name those before.
    if first + processes > PROCESSES_MAX || first < info.processes.len() {
        return None;
    }
    // Those that a damaged chunk would have named.
    while info.processes.len() < first {
        info.processes.push(TraceProcess { pid: 0, name: "?".to_owned() });
    }
    for _ in 0..processes {
        let pid = u32::try_from(take(payload)?).ok()?;
        info.processes.push(TraceProcess { pid, name: take_text(payload, NAME_BYTES_MAX)? });
    }
    let first = index(payload, DEVICES_MAX)?;
    let devices = index(payload, DEVICES_MAX - first)?;
    for _ in 0..devices {
        let number = u32::try_from(take(payload)?).ok()?;
        let has_size = take(payload)? == 1;
        let sectors = Some(take(payload)?).filter(|_| has_size);
        let device = TraceDevice { number, name: take_text(payload, NAME_BYTES_MAX)?, sectors };
        let has_room = info.devices.len() < DEVICES_MAX;
        match info.devices.iter_mut().find(|known| known.number == number) {
            Some(known) if known.sectors.is_some() && device.sectors.is_none() => {}
            Some(known) => *known = device,
            None if has_room => info.devices.push(device),
            None => return None,
        }
    }
    // The trailer may have been read before.
    info.lost_events = info.lost_events.max(take(payload)?);
    let has_wall_time = take(payload)? == 1;
    let wall_offset_ns = Some(unfold(take(payload)?)).filter(|_| has_wall_time);
    info.wall_offset_ns = wall_offset_ns.or(info.wall_offset_ns);
    Some(())
}

/// Appends the warnings.
pub(super) fn put_warnings(payload: &mut Vec<u8>, warnings: &[String]) {
    let warnings = &warnings[..warnings.len().min(WARNINGS_MAX)];
    put(payload, warnings.len() as u64);
    for warning in warnings {
        put_text(payload, warning, WARNING_BYTES_MAX);
    }
}

/// Takes the warnings.
pub(super) fn take_warnings(payload: &mut &[u8]) -> Option<Vec<String>> {
    let warnings = index(payload, WARNINGS_MAX)?;
    (0..warnings).map(|_| take_text(payload, WARNING_BYTES_MAX)).collect()
}

fn index(payload: &mut &[u8], limit: usize) -> Option<usize> {
    usize::try_from(take(payload)?).ok().filter(|&number| number <= limit)
}

fn put_text(payload: &mut Vec<u8>, text: &str, bytes_max: usize) {
    let text = &text[..text.floor_char_boundary(bytes_max)];
    put(payload, text.len() as u64);
    payload.extend_from_slice(text.as_bytes());
}

fn take_text(payload: &mut &[u8], bytes_max: usize) -> Option<String> {
    let bytes = index(payload, bytes_max)?;
    let (text, rest) = payload.split_at_checked(bytes)?;
    *payload = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// That a trace has more processes than can be told apart.
pub(super) fn too_many_processes() -> io::Error {
    let text =
        format!("a stored trace names at most {PROCESSES_MAX} processes; trace a shorter time");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
