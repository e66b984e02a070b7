//! Intervals that stand out, in words. What one process writes or reads of one kind, and how far the head
//! must travel for it, is compared with the rest of the trace: a flush that comes once a minute and seeks
//! all over the device is what an I/O graph is looked at for.

use fsdyno_model::io_graph::{Burst, HeatMap, IoClass};

/// Slots that the axis is divided into.
const SLOTS: usize = 200;
/// Most intervals told.
const SHOWN_MAX: usize = 12;
/// An interval holds so many times what an average slot of the same length holds …
const TIMES_MEAN: f64 = 4.0;
/// … and at least this share of all that happens in it …
const SHARE_MIN: f64 = 0.3;
/// … and at least so many requests …
const REQUESTS_MIN: u64 = 16;
/// … and at least this share of the requests, or of the bytes, of the whole trace.
const WHOLE_MIN: f64 = 0.02;

/// Bytes and requests of one process and class, slot by slot.
struct Track {
    process: u8,
    class: IoClass,
    slots: Vec<(u64, u64)>,
}

/// Finds the intervals. `seeks` are counted in bins of `bin_ns`.
pub(super) fn find(heat: &HeatMap, seeks: &[u64], bin_ns: u64, duration_ns: u64) -> Vec<Burst> {
    let slot_ns = (duration_ns / SLOTS as u64).max(heat.column_ns).max(1);
    let count = usize::try_from(duration_ns / slot_ns).unwrap_or(usize::MAX).saturating_add(1);
    if heat.cells.is_empty() || count > 2 * SLOTS {
        return Vec::new();
    }
    let slot = |time_ns: u64| ((time_ns / slot_ns) as usize).min(count - 1);
    let mut tracks: Vec<Track> = Vec::new();
    let mut all = vec![(0u64, 0u64); count];
    for cell in &heat.cells {
        let at = slot(u64::from(cell.column).saturating_mul(heat.column_ns));
        let is_its =
            |track: &&mut Track| track.process == cell.process && track.class == cell.class;
        let track = match tracks.iter_mut().find(is_its) {
            Some(track) => track,
            None => {
                let slots = vec![(0, 0); count];
                tracks.push(Track { process: cell.process, class: cell.class, slots });
                tracks.last_mut().expect("one was just pushed")
            }
        };
        for (bytes, requests) in [&mut track.slots[at], &mut all[at]] {
            *bytes = bytes.saturating_add(cell.bytes);
            *requests += u64::from(cell.requests);
        }
    }
    let mut seeks_by_slot = vec![0u64; count];
    for (bin, seeks) in (0u64..).zip(seeks) {
        seeks_by_slot[slot(bin.saturating_mul(bin_ns))] += seeks;
    }
    let mut found: Vec<(f64, Burst)> = Vec::new();
    for track in &tracks {
        found.extend(of_track(track, heat, &all, &seeks_by_slot, slot_ns));
    }
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.truncate(SHOWN_MAX);
    let mut bursts: Vec<Burst> = found.into_iter().map(|(_, burst)| burst).collect();
    bursts.sort_by_key(|burst| (burst.from_ns, burst.to_ns));
    bursts
}

/// The intervals of one track, with how much each stands out.
fn of_track(
    track: &Track,
    heat: &HeatMap,
    all: &[(u64, u64)],
    seeks: &[u64],
    slot_ns: u64,
) -> Vec<(f64, Burst)> {
    let count = track.slots.len();
    let mean = track.slots.iter().map(|(_, requests)| *requests).sum::<u64>() as f64 / count as f64;
    let stands_out = |slot: usize| {
        let requests = track.slots[slot].1 as f64;
        requests >= TIMES_MEAN * mean
            && requests >= SHARE_MIN * all[slot].1 as f64
            && requests > 0.0
    };
    let whole = all.iter().fold((0u64, 0u64), |(bytes, requests), slot| {
        (bytes.saturating_add(slot.0), requests.saturating_add(slot.1))
    });
    let mut found = Vec::new();
    let mut slot = 0;
    while slot < count {
        if !stands_out(slot) {
            slot += 1;
            continue;
        }
        let first = slot;
        while slot < count && stands_out(slot) {
            slot += 1;
        }
        let sum = |of: fn(&(u64, u64)) -> u64| track.slots[first..slot].iter().map(of).sum::<u64>();
        let (bytes, requests) = (sum(|slot| slot.0), sum(|slot| slot.1));
        let is_much = |part: u64, whole: u64| part as f64 >= WHOLE_MIN * whole as f64 && part > 0;
        let is_notable = is_much(requests, whole.1) || is_much(bytes, whole.0);
        if requests < REQUESTS_MIN || !is_notable {
            continue;
        }
        let seeks: u64 = seeks[first..slot].iter().sum();
        let process = heat.processes.get(usize::from(track.process)).cloned().unwrap_or_default();
        let from_ns = (first as u64).saturating_mul(slot_ns);
        let mut burst = Burst {
            from_ns,
            to_ns: (slot as u64).saturating_mul(slot_ns),
            process,
            class: track.class,
            bytes,
            requests,
            seeks,
            text: String::new(),
        };
        burst.text = sentence(&burst);
        found.push((
            requests as f64 / mean.max(1e-9) / (slot - first) as f64 * requests as f64,
            burst,
        ));
    }
    found
}

fn sentence(burst: &Burst) -> String {
    let begin = burst.from_ns as f64 / 1e9;
    let place = if begin < 10.0 { format!("{begin:.2}") } else { format!("{begin:.0}") };
    let (verb, what) = match burst.class {
        IoClass::ReadData => ("read", "data"),
        IoClass::ReadMetadata => ("read", "metadata"),
        IoClass::WriteData => ("wrote", "data"),
        IoClass::WriteMetadata => ("wrote", "metadata"),
        IoClass::WriteJournal => ("wrote", "journal"),
        IoClass::Discard => ("discarded", "sectors"),
        IoClass::Flush => {
            let (count, process) = (thousands(burst.requests), &burst.process);
            return format!("at {place} s {process} flushed the write cache {count} times");
        }
    };
    let (process, size) = (&burst.process, megabytes(burst.bytes));
    // Seeks are those of the interval, by whomever; one who mostly works in it makes at most these.
    let seeks = burst.seeks.min(burst.requests);
    let how = if seeks >= REQUESTS_MIN {
        format!("in {} seeks", thousands(seeks))
    } else {
        format!("in {} requests", thousands(burst.requests))
    };
    format!("at {place} s {process} {verb} {size} of {what} {how}")
}

/// Decimal, as disks are sold.
fn megabytes(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        1_000_000..10_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        10_000_000..10_000_000_000 => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
