//! Probes as fio makes them, against a model alone and in its own time: blocks in sequence or at random,
//! so many under way at once, the next one asked when one is done.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::disk::Disk;
use crate::request::{Op, Request, SECTOR_BYTES};

/// What is asked, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Read or write; a flush or discard takes no place.
    pub op: Op,
    /// At random places rather than in sequence.
    pub is_random: bool,
    /// Bytes of each request.
    pub bytes: u64,
    /// Requests under way at once.
    pub depth: usize,
    /// Requests before those that count.
    pub warm_up: u64,
    /// Requests that count.
    pub requests: u64,
    /// Where the places begin, in bytes.
    pub from_bytes: u64,
    /// Length of the range of places, in bytes.
    pub span_bytes: u64,
    /// Places come from it.
    pub seed: u64,
}

impl Probe {
    /// Blocks of 4 KiB at random over the first `span_bytes`.
    #[must_use]
    pub fn random(op: Op, depth: usize, requests: u64, span_bytes: u64) -> Probe {
        Probe {
            op,
            is_random: true,
            bytes: 4096,
            depth,
            warm_up: requests / 10,
            requests,
            from_bytes: 0,
            span_bytes,
            seed: 1,
        }
    }

    /// Blocks of 512 KiB in sequence from `from_bytes` on, four at a time.
    #[must_use]
    pub fn sequential(op: Op, from_bytes: u64, requests: u64) -> Probe {
        Probe {
            op,
            is_random: false,
            bytes: 512 << 10,
            depth: 4,
            warm_up: requests / 10,
            requests,
            from_bytes,
            span_bytes: u64::MAX,
            seed: 1,
        }
    }

    /// The places of the requests, in sectors, without end.
    pub fn sectors(self) -> impl Iterator<Item = u64> {
        let mut random = Xoshiro256StarStar::seed_from_u64(self.seed);
        let blocks = (self.span_bytes / self.bytes.max(1)).max(1);
        (0u64..).map(move |index| {
            let block = match self.is_random {
                true => ((u128::from(random.next_u64()) * u128::from(blocks)) >> 64) as u64,
                false => index % blocks,
            };
            (self.from_bytes + block * self.bytes) / SECTOR_BYTES
        })
    }
}

/// What a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probed {
    /// Time of each request that counts, in nanoseconds, growing.
    pub latencies_ns: Vec<u64>,
    /// Time of all of them together.
    pub elapsed_ns: u64,
    /// Bytes of all of them together.
    pub bytes: u64,
}

impl Probed {
    /// Figures of requests that took `latencies_ns`, within `elapsed_ns`, each of `bytes`.
    #[must_use]
    pub fn new(mut latencies_ns: Vec<u64>, elapsed_ns: u64, bytes: u64) -> Probed {
        latencies_ns.sort_unstable();
        let bytes = bytes * latencies_ns.len() as u64;
        Probed { latencies_ns, elapsed_ns, bytes }
    }

    /// Mean time of a request, in nanoseconds; 0 for none.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let total: u128 = self.latencies_ns.iter().map(|it| u128::from(*it)).sum();
        total as f64 / self.latencies_ns.len().max(1) as f64
    }

    /// The time that a share of the requests did not exceed, in nanoseconds; 0 for none.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (share * self.latencies_ns.len() as f64).ceil() as usize;
        self.latencies_ns.get(rank.max(1) - 1).copied().unwrap_or(0)
    }

    /// Requests a second.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.latencies_ns.len() as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// MB (10⁶ bytes) a second.
    #[must_use]
    pub fn rate_mbs(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.elapsed_ns.max(1) as f64
    }
}

/// Runs a probe on a disk from `begin_ns` of its time on.
pub fn run(disk: &mut Disk, probe: Probe, begin_ns: u64) -> Probed {
    let total = probe.warm_up + probe.requests;
    let mut sectors = probe.sectors();
    let (mut asked, mut ended, mut now_ns) = (0u64, 0u64, begin_ns);
    let mut arrivals = vec![0; usize::try_from(total).unwrap_or(0)];
    let mut latencies = Vec::with_capacity(usize::try_from(probe.requests).unwrap_or(0));
    let mut counted_from_ns = begin_ns;
    let mut done = Vec::new();
    while ended < total {
        while asked < total && asked - ended < probe.depth as u64 {
            let sector = sectors.next().unwrap_or(0);
            let bytes = if probe.op == Op::Flush { 0 } else { probe.bytes };
            let (op, id, fua, arrival_ns) = (probe.op, asked, false, now_ns);
            arrivals[asked as usize] = now_ns;
            disk.submit(Request { id, op, sector, bytes, fua, arrival_ns }, &mut done);
            asked += 1;
        }
        if done.is_empty() {
            let Some(next_ns) = disk.next_event_ns() else { break };
            disk.advance(next_ns, &mut done);
        }
        for completion in done.drain(..) {
            ended += 1;
            now_ns = now_ns.max(completion.at_ns);
            if ended == probe.warm_up {
                counted_from_ns = completion.at_ns;
            }
            if ended > probe.warm_up {
                latencies.push(completion.at_ns - arrivals[completion.id as usize]);
            }
        }
    }
    Probed::new(latencies, now_ns - counted_from_ns, probe.bytes)
}
