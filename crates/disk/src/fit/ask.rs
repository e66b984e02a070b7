//! What a disk is asked to be measured.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::{Amount, Far, Figures, Written, Zone, rotating};
use crate::disk::Disk;
use crate::probe::{self, Probe, Probed};
use crate::request::{Op, Request, SECTOR_BYTES};

/// Places at which it is read in sequence.
const ZONES: u32 = 8;
/// Bytes of a request in sequence.
const LARGE: u64 = 512 << 10;
/// Bytes of the others.
const SMALL: u64 = 4096;
/// Blocks before each other that are read for the length of a turn, and places where that is done.
const TURN_BLOCKS: u64 = 24;
const TURN_PLACES: u64 = 5;
/// Distances, as shares of the disk; the shortest is of some tracks.
const DISTANCES: [f64; 9] = [0.001, 0.005, 0.02, 0.06, 0.15, 0.3, 0.5, 0.7, 0.9];
/// Bytes of the shortest distance: more than a track of any disk with three heads or fewer.
const SHORTEST: u64 = 3 << 20;
/// Requests with several under way before those that count.
const WARM_UP: u64 = 64;
/// Smallest disk that can be measured.
const LEAST_BYTES: u64 = 64 << 20;

/// A disk that can be asked, in whichever time.
pub trait Source {
    /// Its size in bytes.
    fn size_bytes(&self) -> u64;

    /// Does one request and waits for it; gives when it began and ended, in nanoseconds of one clock.
    ///
    /// # Errors
    /// A sentence: what failed, on what.
    fn ask(&mut self, op: Op, offset: u64, bytes: u64) -> Result<(u64, u64), String>;

    /// Makes a probe with several requests under way.
    ///
    /// # Errors
    /// As [`Source::ask`].
    fn probe(&mut self, probe: Probe) -> Result<Probed, String>;
}

/// A model answers in its own time. Between two requests passes what `again` says a program needs.
impl Source for Disk {
    fn size_bytes(&self) -> u64 {
        Disk::size_bytes(self)
    }

    fn ask(&mut self, op: Op, offset: u64, bytes: u64) -> Result<(u64, u64), String> {
        let begin_ns = self.now_ns() + GAP_NS;
        let sector = offset / SECTOR_BYTES;
        let mut done = Vec::new();
        let bytes = if op == Op::Flush { 0 } else { bytes };
        let request = Request { id: 0, op, sector, bytes, fua: false, arrival_ns: begin_ns };
        self.submit(request, &mut done);
        while done.is_empty() {
            let Some(next_ns) = self.next_event_ns() else {
                return Err("the model does not answer".to_owned());
            };
            self.advance(next_ns, &mut done);
        }
        Ok((begin_ns, done[0].at_ns))
    }

    fn probe(&mut self, probe: Probe) -> Result<Probed, String> {
        let now_ns = self.now_ns();
        Ok(probe::run(self, probe, now_ns))
    }
}

/// Time between an answer and the next request of a program, in nanoseconds.
const GAP_NS: u64 = 10_000;

/// Where it is asked next.
struct Places {
    random: Xoshiro256StarStar,
    size_bytes: u64,
}

impl Places {
    /// A block of `bytes` anywhere, at a multiple of 4 KiB.
    fn any(&mut self, bytes: u64) -> u64 {
        let room = self.size_bytes.saturating_sub(bytes) / SMALL;
        self.below(room.max(1)) * SMALL
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Measures a disk; `tell` hears what is being done.
///
/// # Errors
/// A sentence: a disk that is too small, a request that failed.
pub fn measure(
    disk: &mut dyn Source,
    amount: Amount,
    tell: &mut dyn FnMut(&str),
) -> Result<Figures, String> {
    let size_bytes = disk.size_bytes() / SMALL * SMALL;
    if size_bytes < LEAST_BYTES {
        return Err("it is smaller than 64 MiB: there is nothing to tell apart on it".to_owned());
    }
    let places = &mut Places { random: Xoshiro256StarStar::seed_from_u64(amount.seed), size_bytes };
    tell("reading in sequence");
    let zones = zones(disk, size_bytes, amount)?;
    tell("reading the same again");
    let again_ns = again(disk, SMALL, amount)?;
    let again_large_ns = again(disk, 128 << 10, amount)?;
    tell("reading at random");
    let random_ns = random(disk, places, SMALL, amount.requests * 3)?;
    let mut sizes = Vec::new();
    for bytes in [64 << 10, 256 << 10] {
        let times = random(disk, places, bytes, amount.requests)?;
        sizes.push((bytes, Figures::median(&times)));
    }
    let requests = u64::from(amount.requests) * 4;
    // Credit of a volume is spent before it counts.
    let deep = Probe {
        seed: amount.seed,
        warm_up: WARM_UP,
        ..Probe::random(Op::Read, 8, requests, size_bytes)
    };
    let deep_iops = disk.probe(deep)?.iops();
    tell("looking for a turn");
    let rate_mbs = zones.first().map_or(1.0, |zone| zone.rate_mbs);
    let (turn, turn_share) = rotating::turn(&turns(disk, places, rate_mbs)?);
    let turn_ns = turn.filter(|_| rotating::is_slow(&random_ns));
    let mut far = Vec::new();
    if turn_ns.is_some() {
        tell("reading over each distance");
        for share in std::iter::once(0.0).chain(DISTANCES) {
            let distance = ((size_bytes as f64 * share) as u64).max(SHORTEST) / SMALL * SMALL;
            far.push(over(disk, places, distance, amount.requests, again_ns)?);
        }
    }
    let written = match amount.writes {
        true => {
            tell("writing");
            Some(write(disk, places, amount)?)
        }
        false => None,
    };
    Ok(Figures {
        size_bytes,
        again_ns,
        again_large_ns,
        zones,
        random_ns,
        sizes,
        deep_iops,
        turn_ns,
        turn_share,
        far,
        written,
    })
}

/// Time from begin to end of one request, in nanoseconds.
fn time(disk: &mut dyn Source, op: Op, offset: u64, bytes: u64) -> Result<u64, String> {
    let (begin_ns, end_ns) = disk.ask(op, offset, bytes)?;
    Ok(end_ns.saturating_sub(begin_ns))
}

fn zones(disk: &mut dyn Source, size_bytes: u64, amount: Amount) -> Result<Vec<Zone>, String> {
    let requests = u64::from(amount.requests.clamp(16, 64));
    let room = size_bytes.saturating_sub((requests + 4) * LARGE);
    let mut zones = Vec::new();
    for index in 0..ZONES {
        let place = f64::from(index) / f64::from(ZONES - 1);
        let from = (room as f64 * place) as u64 / SMALL * SMALL;
        let (rate_mbs, whole_mbs) = sequence(disk, Op::Read, from, requests)?;
        zones.push(Zone { place, rate_mbs, whole_mbs });
    }
    Ok(zones)
}

/// MB a second from `from` on, one request after the other: from answer to answer, without the slowest tenth,
/// which came late or changed tracks twice; and with them.
fn sequence(disk: &mut dyn Source, op: Op, from: u64, requests: u64) -> Result<(f64, f64), String> {
    let mut before = None;
    let mut times = Vec::new();
    // The first four are on their way to the place.
    for index in 0..requests + 4 {
        let (_, end_ns) = disk.ask(op, from + index * LARGE, LARGE)?;
        if let Some(before) = before.filter(|_| index >= 4) {
            times.push(end_ns.saturating_sub(before));
        }
        before = Some(end_ns);
    }
    times.sort_unstable();
    let rate_mbs = |times: &[u64]| {
        let total: u64 = times.iter().sum();
        times.len() as f64 * LARGE as f64 * 1e3 / total.max(1) as f64
    };
    Ok((rate_mbs(&times[..times.len() - times.len() / 10]), rate_mbs(&times)))
}

fn again(disk: &mut dyn Source, bytes: u64, amount: Amount) -> Result<u64, String> {
    let times = (0..amount.requests.max(20)).map(|_| time(disk, Op::Read, 0, bytes));
    let mut times = times.collect::<Result<Vec<u64>, String>>()?;
    times.sort_unstable();
    Ok(Figures::median(&times))
}

fn random(
    disk: &mut dyn Source,
    places: &mut Places,
    bytes: u64,
    requests: u32,
) -> Result<Vec<u64>, String> {
    let times = (0..requests).map(|_| time(disk, Op::Read, places.any(bytes), bytes));
    let mut times = times.collect::<Result<Vec<u64>, String>>()?;
    times.sort_unstable();
    Ok(times)
}

/// At some places the moments at which blocks before each other had passed, each as if it lay where the first
/// one does; between them the arm was elsewhere.
fn turns(
    disk: &mut dyn Source,
    places: &mut Places,
    rate_mbs: f64,
) -> Result<Vec<Vec<f64>>, String> {
    let block_ns = SMALL as f64 * 1e3 / rate_mbs.max(0.001);
    let mut all = Vec::new();
    for index in 0..TURN_PLACES {
        let first = (places.size_bytes / 16 * (index + 1) + (1 << 20)) / SMALL * SMALL;
        let mut moments = Vec::new();
        for block in 0..TURN_BLOCKS {
            let elsewhere = places.any(SMALL);
            disk.ask(Op::Read, elsewhere, SMALL)?;
            let (_, end_ns) = disk.ask(Op::Read, first - block * SMALL, SMALL)?;
            moments.push(end_ns as f64 + block as f64 * block_ns);
        }
        all.push(moments);
    }
    Ok(all)
}

/// Reads to and fro over about `distance` bytes.
fn over(
    disk: &mut dyn Source,
    places: &mut Places,
    distance: u64,
    requests: u32,
    again_ns: u64,
) -> Result<Far, String> {
    // Any angle: more than a track, but no other distance.
    let jitter = (distance / 10).max(1 << 20);
    let room = places.size_bytes - SMALL;
    let mut here = places.any(SMALL);
    disk.ask(Op::Read, here, SMALL)?;
    let (mut pairs, mut times_ns) = (Vec::new(), Vec::new());
    for _ in 0..requests {
        let length = (distance + places.below(jitter / SMALL) * SMALL).min(room / SMALL * SMALL);
        // Backwards where there is room, so that no reading ahead meets it.
        let (back, forth) = (here.checked_sub(length), here + length);
        let there = match back {
            Some(back) if forth > room || places.below(2) == 0 => back,
            _ if forth <= room => forth,
            // Neither: from an end to the other, but not to a block that a buffer may hold.
            _ => {
                let near = places.below((room / 100).max(SMALL) / SMALL) * SMALL;
                if here > room / 2 { near } else { (room - near) / SMALL * SMALL }
            }
        };
        let time_ns = time(disk, Op::Read, there, SMALL)?;
        // What came out of a buffer moved nothing.
        if time_ns > again_ns / 2 * 3 {
            times_ns.push(time_ns);
            pairs.push((here, there));
        }
        here = there;
    }
    let total: f64 = pairs.iter().map(|(from, to)| from.abs_diff(*to) as f64).sum();
    times_ns.sort_unstable();
    Ok(Far { distance_bytes: total / pairs.len().max(1) as f64, pairs, times_ns })
}

fn write(disk: &mut dyn Source, places: &mut Places, amount: Amount) -> Result<Written, String> {
    let (mut times_ns, mut flushes_ns) = (Vec::new(), Vec::new());
    for _ in 0..amount.requests {
        times_ns.push(time(disk, Op::Write, places.any(SMALL), SMALL)?);
        flushes_ns.push(time(disk, Op::Flush, 0, 0)?);
    }
    times_ns.sort_unstable();
    flushes_ns.sort_unstable();
    let requests = u64::from(amount.requests.clamp(16, 64));
    let (rate_mbs, _) = sequence(disk, Op::Write, 0, requests)?;
    Ok(Written { times_ns, flushes_ns, rate_mbs })
}
