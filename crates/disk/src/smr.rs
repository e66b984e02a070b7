//! Shingled disks that manage themselves: writes go to a persistent cache at the outer edge, unless they
//! fill a band in sequence, and bands are cleaned by reading and writing them whole, when the disk is
//! idle or its cache is nearly full. After A. Aghayev, P. Desnoyers, *Skylight: a window on shingled
//! disk operation* (FAST 2015): static mapping of bands, one cache. The mechanics are those of `hdd`.

use std::collections::VecDeque;

use crate::fields::Fields;
use crate::hdd::{Hdd, HddParams};
use crate::parts::{NumberMap, Parts};
use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Op, Request, SECTOR_BYTES};

/// Sectors of a block of the cache's map.
const BLOCK: u64 = 8;
/// Sectors of one piece of cleaning, and how many pieces are under way at once.
const PIECE: u64 = 2048;
const PIECES: usize = 4;
/// Bands that are being written in sequence at once.
const STREAMS: usize = 4;
/// The job of all cleaning.
const CLEANING: u64 = u64::MAX;

/// What a model states besides the figures of a disk that rotates.
#[derive(Debug, Clone, PartialEq)]
pub struct SmrParams {
    /// The mechanics.
    pub hdd: HddParams,
    /// Sectors of a band.
    pub band_sectors: u64,
    /// Sectors of the persistent cache.
    pub cache_sectors: u64,
    /// How long the disk is idle before it cleans.
    pub idle_ns: u64,
    /// Share of the cache from which on it cleans although it is busy.
    pub pressure: f64,
}

impl SmrParams {
    pub(crate) fn read(hdd: HddParams, fields: &mut Fields<'_, '_>) -> SmrParams {
        SmrParams {
            hdd,
            band_sectors: fields.size("band", 1 << 20, 1 << 32) / 4096 * BLOCK,
            cache_sectors: fields.size("persistent_cache", 1 << 24, 1 << 40) / 4096 * BLOCK,
            idle_ns: fields.time("cleaning_idle_ms", 1e6, 1e6),
            pressure: fields.number_or("cleaning_pressure", 0.9, 0.1, 1.0),
        }
    }
}

/// A band that is being cleaned: read whole, then written whole.
#[derive(Debug)]
struct Cleaning {
    band: u64,
    is_writing: bool,
    next: u64,
    under_way: usize,
}

/// A shingled disk at work.
#[derive(Debug)]
pub struct Smr {
    params: SmrParams,
    hdd: Hdd,
    size_sectors: u64,
    parts: Parts,
    /// Place in the cache of each block that is there.
    cached: NumberMap<u64>,
    /// Blocks of each band that are cached, and the bands in the order of their first.
    bands: NumberMap<u64>,
    order: VecDeque<u64>,
    log: u64,
    streams: VecDeque<u64>,
    cleaning: Option<Cleaning>,
    roomless: VecDeque<Request>,
    /// Requests that were asked and are not done.
    asked: u64,
    idle_since_ns: u64,
    now_ns: u64,
    pending: Pending,
    buffer: Vec<Completion>,
    cleaned_bands: u64,
}

impl Smr {
    /// A shingled disk of `size_bytes` with an empty cache, `seed` as for a disk that rotates.
    ///
    /// # Errors
    /// A sentence where the figures of the model contradict each other.
    pub fn new(params: &SmrParams, size_bytes: u64, seed: u64) -> Result<Smr, String> {
        let size_sectors = size_bytes / SECTOR_BYTES;
        let whole = (size_sectors + params.cache_sectors) * SECTOR_BYTES;
        Ok(Smr {
            hdd: Hdd::new(&params.hdd, whole, seed)?,
            params: params.clone(),
            size_sectors,
            parts: Parts::default(),
            cached: NumberMap::default(),
            bands: NumberMap::default(),
            order: VecDeque::new(),
            log: 0,
            streams: VecDeque::with_capacity(STREAMS),
            cleaning: None,
            roomless: VecDeque::new(),
            asked: 0,
            idle_since_ns: 0,
            now_ns: 0,
            pending: Pending::default(),
            buffer: Vec::new(),
            cleaned_bands: 0,
        })
    }

    fn used_sectors(&self) -> u64 {
        self.cached.len() as u64 * BLOCK
    }

    /// Hands a part of `job` to the mechanics.
    fn part(&mut self, job: u64, op: Op, sector: u64, sectors: u64, fua: bool) {
        let id = self.parts.add(job);
        let (bytes, arrival_ns) = (sectors * SECTOR_BYTES, self.now_ns);
        self.hdd.submit(Request { id, op, sector, bytes, fua, arrival_ns });
    }

    /// Reads from the cache what is there, and the rest from where it belongs.
    fn read(&mut self, request: &Request) {
        let (mut at, end) = (request.sector, request.end_sector());
        while at < end {
            let place = self.place(at);
            let mut upto = (at / BLOCK + 1) * BLOCK;
            while upto < end && self.place(upto) == place + (upto - at) {
                upto += BLOCK;
            }
            self.part(request.id, Op::Read, place, upto.min(end) - at, false);
            at = upto;
        }
    }

    /// Where a sector is now; the cache comes first on the disk.
    fn place(&self, sector: u64) -> u64 {
        match self.cached.get(&(sector / BLOCK)) {
            Some(place) => place + sector % BLOCK,
            None => self.params.cache_sectors + sector,
        }
    }

    fn write(&mut self, request: &Request) {
        let (first, end) = (request.sector, request.end_sector());
        let band = first / self.params.band_sectors;
        let stream = self.streams.iter().position(|next| *next == first);
        let begins_band = first.is_multiple_of(self.params.band_sectors);
        let is_stream = stream.is_some() || begins_band;
        if is_stream && !self.bands.contains_key(&band) {
            match stream {
                Some(index) => self.streams[index] = end,
                None => {
                    if self.streams.len() >= STREAMS {
                        self.streams.pop_front();
                    }
                    self.streams.push_back(end);
                }
            }
            let place = self.params.cache_sectors + first;
            return self.part(request.id, Op::Write, place, end - first, request.fua);
        }
        let blocks = first / BLOCK..end.div_ceil(BLOCK);
        let sectors = (blocks.end - blocks.start) * BLOCK;
        if self.used_sectors() + sectors > self.params.cache_sectors {
            self.roomless.push_back(*request);
            return;
        }
        if self.log + sectors > self.params.cache_sectors {
            self.log = 0;
        }
        for block in blocks.clone() {
            let place = self.log + (block - blocks.start) * BLOCK;
            if self.cached.insert(block, place).is_none() {
                self.count_cached(block * BLOCK / self.params.band_sectors);
            }
        }
        self.part(request.id, Op::Write, self.log, sectors, request.fua);
        self.log += sectors;
    }

    fn count_cached(&mut self, band: u64) {
        let count = self.bands.entry(band).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.order.push_back(band);
        }
    }

    /// Begins to clean where it is time, and keeps pieces under way.
    fn clean(&mut self) {
        if self.cleaning.is_none() {
            let limit = self.params.cache_sectors as f64 * self.params.pressure;
            let is_pressed = !self.roomless.is_empty() || self.used_sectors() as f64 >= limit;
            let is_idle =
                self.asked == 0 && self.now_ns >= self.idle_since_ns + self.params.idle_ns;
            if !is_pressed && !is_idle {
                return;
            }
            let Some(band) = self.order.pop_front() else { return };
            self.cleaning = Some(Cleaning { band, is_writing: false, next: 0, under_way: 0 });
        }
        while let Some(cleaning) = &mut self.cleaning {
            let first = cleaning.band * self.params.band_sectors;
            let length = self.params.band_sectors.min(self.size_sectors.saturating_sub(first));
            if cleaning.next < length {
                if cleaning.under_way >= PIECES {
                    return;
                }
                let at = cleaning.next;
                let sectors = PIECE.min(length - at);
                cleaning.next += sectors;
                cleaning.under_way += 1;
                let op = if cleaning.is_writing { Op::Write } else { Op::Read };
                let fua = cleaning.is_writing;
                let place = self.params.cache_sectors + first + at;
                self.part(CLEANING, op, place, sectors, fua);
            } else if cleaning.under_way > 0 {
                return;
            } else if cleaning.is_writing {
                let band = cleaning.band;
                self.cleaning = None;
                self.end_cleaning(band, first, length);
            } else {
                (cleaning.is_writing, cleaning.next) = (true, 0);
            }
        }
    }

    fn end_cleaning(&mut self, band: u64, first: u64, length: u64) {
        for block in first / BLOCK..(first + length).div_ceil(BLOCK) {
            self.cached.remove(&block);
        }
        self.bands.remove(&band);
        self.cleaned_bands += 1;
        for _ in 0..self.roomless.len() {
            let Some(request) = self.roomless.pop_front() else { break };
            self.write(&request);
        }
    }

    fn end_part(&mut self, completion: Completion) {
        let Completion { at_ns, id } = completion;
        let Some((job, is_last)) = self.parts.end(id) else { return };
        if job == CLEANING {
            if let Some(cleaning) = &mut self.cleaning {
                cleaning.under_way -= 1;
            }
        } else if is_last {
            self.asked -= 1;
            self.idle_since_ns = at_ns;
            self.pending.push(at_ns, job);
        }
    }
}

impl Mechanism for Smr {
    fn submit(&mut self, request: Request) {
        self.now_ns = self.now_ns.max(request.arrival_ns);
        self.asked += 1;
        match request.op {
            Op::Read => self.read(&request),
            Op::Write => self.write(&request),
            Op::Flush | Op::Discard => self.part(request.id, request.op, 0, 0, false),
        }
        self.clean();
    }

    fn next_event_ns(&self) -> Option<u64> {
        let may_clean = self.asked == 0 && self.cleaning.is_none() && !self.order.is_empty();
        let idle = may_clean.then(|| (self.idle_since_ns + self.params.idle_ns).max(self.now_ns));
        [self.hdd.next_event_ns(), self.pending.next_ns(), idle].into_iter().flatten().min()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(at_ns) = self.next_event_ns().filter(|at_ns| *at_ns <= until_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            self.hdd.advance(at_ns, &mut buffer);
            for completion in buffer.drain(..) {
                self.end_part(completion);
            }
            self.clean();
            self.pending.drain(at_ns, done);
        }
        self.buffer = buffer;
    }

    fn counters(&self) -> Counters {
        let mut counters = self.hdd.counters();
        counters.insert("cleaned_bands".to_owned(), self.cleaned_bands);
        counters.insert("cached_sectors".to_owned(), self.used_sectors());
        counters
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::Disk;
    use crate::probe::{self, Probe};
    use crate::request::Op;
    use crate::shipped;

    fn disk(cache_bytes: u64) -> Disk {
        let text = shipped::text("smr-8tb").unwrap();
        let text = text.replace("\"25GiB\"", &format!("\"{cache_bytes}\""));
        let model = crate::Model::parse("x", &text, &|name| shipped::find(name)).unwrap();
        Disk::new(&model, model.capacity_bytes, 1).unwrap()
    }

    #[test]
    fn random_writes_are_quick_until_the_cache_is_full() {
        let mut disk = disk(64 << 20);
        let span = 8 << 30;
        let first = Probe { warm_up: 3000, ..Probe::random(Op::Write, 4, 5000, span) };
        let quick = probe::run(&mut disk, first, 0);
        assert_eq!(disk.counters()["cleaned_bands"], 0);
        // In one place although their places are random: no seek for each.
        assert!(quick.mean_ns() < 2e6, "{}", quick.mean_ns());
        let then = Probe { warm_up: 12_000, seed: 2, ..Probe::random(Op::Write, 4, 200, span) };
        let slow = probe::run(&mut disk, then, quick.elapsed_ns * 2);
        assert!(slow.mean_ns() > 20.0 * quick.mean_ns(), "{} {}", slow.mean_ns(), quick.mean_ns());
        assert!(disk.counters()["cleaned_bands"] > 10);
    }

    #[test]
    fn bands_are_cleaned_while_it_is_idle() {
        let mut disk = disk(64 << 20);
        probe::run(&mut disk, Probe::random(Op::Write, 1, 100, 1 << 28), 0);
        let mut done = Vec::new();
        disk.advance(60_000_000_000, &mut done);
        assert_eq!((disk.counters()["cleaned_bands"], disk.counters()["cached_sectors"]), (9, 0));
    }

    #[test]
    fn whole_bands_in_sequence_bypass_the_cache() {
        let mut disk = disk(64 << 20);
        let probe = Probe { depth: 1, ..Probe::sequential(Op::Write, 0, 600) };
        let found = probe::run(&mut disk, probe, 0);
        assert!((found.rate_mbs() / 190.0 - 1.0).abs() < 0.1, "{}", found.rate_mbs());
        assert_eq!(disk.counters()["cached_sectors"], 0);
    }

    #[test]
    fn what_is_cached_is_read_from_there() {
        let mut disk = disk(64 << 20);
        let probe = Probe::random(Op::Write, 1, 1000, 1 << 40);
        let end_ns = probe::run(&mut disk, probe, 0).elapsed_ns * 2;
        // In the order of the writes they lie side by side in the cache.
        let again = Probe { op: Op::Read, ..probe };
        let mean = probe::run(&mut disk, again, end_ns).mean_ns();
        assert!(mean < 8e6, "{mean}");
    }
}
