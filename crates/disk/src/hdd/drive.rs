//! The drive: a queue of commands in which the one that can begin soonest goes first, a buffer that
//! reads ahead, a cache of writes that are written back when there is time, and flushes.
//!
//! The order is shortest access time first with a credit for waiting (M. Seltzer, P. Chen, J. Ousterhout,
//! *Disk scheduling revisited*, USENIX Winter 1990; D. Jacobson, J. Wilkes, HPL-CSP-91-7). A flush is not
//! queued, as in ATA: it waits for what is under way, and what comes later waits for it.

use std::collections::{BTreeMap, VecDeque};

use super::HddParams;
use super::geometry::Geometry;
use super::mechanics::Mechanics;
use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Op, Request, SECTOR_BYTES, counters};

/// Extents of the write cache on each side of the heads that are looked at for the next one.
const WINDOW: usize = 64;

/// Sectors in the buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    first: u64,
    end: u64,
    used: u64,
}

/// A write that is in the cache only.
#[derive(Debug, Clone, Copy)]
struct Extent {
    sectors: u64,
    /// When it may be written while there is nothing else to do.
    ready_ns: u64,
}

/// What the arm is busy with.
#[derive(Debug, Clone, Copy)]
enum Work {
    Command(Request),
    WriteBack { bytes: u64 },
}

/// A disk that rotates, at work.
#[derive(Debug)]
pub struct Hdd {
    params: HddParams,
    mechanics: Mechanics,
    now_ns: u64,
    /// Not yet taken by the disk.
    waiting: VecDeque<Request>,
    /// Taken, until the controller has dealt with them; with that time.
    arriving: VecDeque<(u64, Request)>,
    /// Must go to the platters.
    commands: Vec<(u64, Request)>,
    /// Wait for room in the cache.
    roomless: VecDeque<Request>,
    /// Taken and not done.
    taken: usize,
    work: Option<(u64, Work)>,
    pending: Pending,
    bus_free_ns: u64,
    segments: Vec<Segment>,
    uses: u64,
    /// Extents by first sector; those under way to the platters are not in it.
    dirty: BTreeMap<u64, Extent>,
    dirty_bytes: u64,
    /// The flush that is being done.
    flush: Option<Request>,
    hits: u64,
    write_backs: u64,
    flushes: u64,
}

impl Hdd {
    /// A disk of `size_bytes` with its arm at the outer edge; `seed` decides the angle at which its
    /// platters stand.
    ///
    /// # Errors
    /// A sentence where the figures of the model contradict each other.
    pub fn new(params: &HddParams, size_bytes: u64, seed: u64) -> Result<Hdd, String> {
        let geometry = Geometry::new(params, size_bytes / SECTOR_BYTES, seed)?;
        Ok(Hdd {
            mechanics: Mechanics::new(geometry, params.write_settle_ns),
            segments: vec![Segment::default(); params.segments],
            params: params.clone(),
            now_ns: 0,
            waiting: VecDeque::new(),
            arriving: VecDeque::new(),
            commands: Vec::new(),
            roomless: VecDeque::new(),
            taken: 0,
            work: None,
            pending: Pending::default(),
            bus_free_ns: 0,
            uses: 0,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            flush: None,
            hits: 0,
            write_backs: 0,
            flushes: 0,
        })
    }

    /// Does all that can be done at `now_ns` without time passing.
    fn settle(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.take_waiting(now_ns);
        while let Some((ready_ns, request)) = self.arriving.front().copied() {
            if ready_ns > now_ns {
                break;
            }
            self.arriving.pop_front();
            self.deal_with(request, now_ns);
        }
        if let Some(flush) = self.flush
            && self.dirty_bytes == 0
        {
            self.flush = None;
            self.flushes += 1;
            self.pending.push(now_ns + self.params.flush_ns, flush.id);
        }
        if self.work.is_none() {
            self.answer_from_buffer(now_ns);
            self.begin_work(now_ns);
        }
    }

    /// Answers those waiting reads that another one has brought into the buffer.
    fn answer_from_buffer(&mut self, now_ns: u64) {
        if self.commands.is_empty() || self.mechanics.stream.is_none() {
            return;
        }
        let mut index = 0;
        while let Some((_, request)) = self.commands.get(index).copied() {
            if request.op == Op::Read && self.is_buffered(&request, now_ns) {
                self.commands.remove(index);
                self.hits += 1;
                let done_ns = self.transfer(request.bytes, now_ns);
                self.pending.push(done_ns, request.id);
            } else {
                index += 1;
            }
        }
    }

    fn is_streamed(&self, request: &Request) -> bool {
        let room = self.params.segment_sectors;
        request.op == Op::Read
            && self.mechanics.is_streamed(request.sector, request.end_sector(), room)
    }

    fn take_waiting(&mut self, now_ns: u64) {
        while let Some(request) = self.waiting.front().copied() {
            let is_flush = request.op == Op::Flush;
            let is_held = self.flush.is_some() || (is_flush && self.taken > 0);
            if is_held || self.taken >= self.params.queue_depth {
                return;
            }
            self.waiting.pop_front();
            self.taken += 1;
            if is_flush {
                self.flush = Some(request);
                return;
            }
            self.arriving.push_back((now_ns + self.params.overhead_ns, request));
        }
    }

    /// What becomes of a command once the controller has looked at it.
    fn deal_with(&mut self, request: Request, now_ns: u64) {
        match request.op {
            Op::Discard | Op::Flush => self.pending.push(now_ns, request.id),
            Op::Read if self.is_buffered(&request, now_ns) => {
                self.hits += 1;
                let done_ns = self.transfer(request.bytes, now_ns);
                self.pending.push(done_ns, request.id);
            }
            Op::Read => self.commands.push((now_ns, request)),
            Op::Write => {
                self.forget_segments(&request);
                if request.fua || request.bytes > self.params.write_cache_bytes {
                    self.commands.push((now_ns, request));
                } else {
                    self.roomless.push_back(request);
                    self.take_into_cache(now_ns);
                }
            }
        }
    }

    /// Moves bytes over the interface; gives the time at which they are through.
    fn transfer(&mut self, bytes: u64, now_ns: u64) -> u64 {
        let time = (bytes as f64 * 1e3 / self.params.interface_mbs).round() as u64;
        self.bus_free_ns = self.bus_free_ns.max(now_ns) + time;
        self.bus_free_ns
    }

    fn take_into_cache(&mut self, now_ns: u64) {
        while let Some(request) = self.roomless.front().copied() {
            if self.dirty_bytes + request.bytes > self.params.write_cache_bytes {
                return;
            }
            self.roomless.pop_front();
            let done_ns = self.transfer(request.bytes, now_ns);
            self.pending.push(done_ns, request.id);
            let sectors = request.end_sector() - request.sector;
            self.cache(request.sector, sectors, done_ns + self.params.destage_delay_ns);
        }
    }

    /// Puts a write into the cache. What is written anew while it waits there is not written twice.
    fn cache(&mut self, sector: u64, sectors: u64, ready_ns: u64) {
        if let Some((&first, extent)) = self.dirty.range_mut(..=sector).next_back() {
            let end = first + extent.sectors;
            if end >= sector + sectors {
                return;
            }
            // One that begins at the same place, or goes on where another ends.
            if first == sector || (end == sector && extent.sectors + sectors <= 512) {
                let grown = sector + sectors - end;
                extent.sectors += grown;
                self.dirty_bytes += grown * SECTOR_BYTES;
                return;
            }
        }
        self.dirty.insert(sector, Extent { sectors, ready_ns });
        self.dirty_bytes += sectors * SECTOR_BYTES;
    }

    /// Whether a read can be answered from memory.
    fn is_buffered(&mut self, request: &Request, now_ns: u64) -> bool {
        let (first, end) = (request.sector, request.end_sector());
        if let Some((&begin, extent)) = self.dirty.range(..=first).next_back()
            && begin + extent.sectors >= end
        {
            return true;
        }
        self.follow_stream(now_ns);
        let found = self.segments.iter().position(|it| it.first <= first && end <= it.end);
        let Some(index) = found else { return false };
        self.uses += 1;
        self.segments[index].used = self.uses;
        self.extend_stream(end);
        true
    }

    fn forget_segments(&mut self, request: &Request) {
        let (first, end) = (request.sector, request.end_sector());
        for segment in &mut self.segments {
            if segment.first < end && first < segment.end {
                *segment = Segment::default();
            }
        }
    }

    /// Brings the segment that is being read ahead up to date.
    fn follow_stream(&mut self, now_ns: u64) {
        if self.work.is_some() {
            return;
        }
        let Some(end) = self.mechanics.follow_stream(now_ns) else { return };
        if let Some(stream) = self.mechanics.stream {
            self.fill_segment(stream.first, end);
        }
    }

    /// Puts sectors into the segment that they continue, or in the place of the one not used longest.
    fn fill_segment(&mut self, first: u64, end: u64) {
        let room = self.params.segment_sectors;
        let known =
            self.segments.iter().position(|it| it.end > 0 && it.first <= end && first <= it.end);
        let oldest = || self.segments.iter().enumerate().min_by_key(|(_, it)| it.used);
        let index = known.or_else(|| oldest().map(|(index, _)| index)).unwrap_or(0);
        self.uses += 1;
        let segment = &mut self.segments[index];
        let (first, end) = match known {
            Some(_) => (segment.first.min(first), segment.end.max(end)),
            None => (first, end),
        };
        *segment = Segment { first: first.max(end.saturating_sub(room)), end, used: self.uses };
    }

    /// After a read up to `end`: what was taken out of the buffer makes room for more.
    fn extend_stream(&mut self, end: u64) {
        let limit = end + self.params.read_ahead_sectors;
        let Some(stream) = &mut self.mechanics.stream else { return };
        if limit <= stream.limit || self.work.is_some() {
            return;
        }
        let Some(reached) = self.mechanics.follow_stream(self.now_ns) else { return };
        let Some(stream) = &mut self.mechanics.stream else { return };
        if reached < stream.limit {
            stream.limit = limit;
        } else if limit > reached + self.params.read_ahead_sectors / 2 {
            // It had stopped, and goes on once half of what it reads ahead is used up.
            self.mechanics.restart_stream(limit, self.now_ns);
        }
    }

    /// Whether cached writes may be written although something else is to be done.
    fn is_pressed(&self) -> bool {
        let limit = self.params.write_cache_bytes as f64 * self.params.destage_pressure;
        self.flush.is_some() || !self.roomless.is_empty() || self.dirty_bytes as f64 > limit
    }

    fn begin_work(&mut self, now_ns: u64) {
        let command = self.best_command(now_ns);
        let may_write_back = self.commands.is_empty() || self.is_pressed();
        let extent = if may_write_back { self.best_extent(now_ns) } else { None };
        match (command, extent) {
            (Some((cost, index)), extent)
                if extent.is_none_or(|(other, _)| cost <= other as f64) =>
            {
                let (_, request) = self.commands.swap_remove(index);
                self.begin_command(request, now_ns);
            }
            (_, Some((_, sector))) => self.begin_write_back(sector, now_ns),
            (Some(_), None) | (None, None) => {}
        }
    }

    /// The command with the shortest access time less its credit, and where it is.
    fn best_command(&mut self, now_ns: u64) -> Option<(f64, usize)> {
        if !self.commands.is_empty() {
            self.follow_stream(now_ns);
        }
        let cost = |(since_ns, request): &(u64, Request)| {
            let is_write = request.op == Op::Write;
            let access = match self.is_streamed(request) {
                true => 0,
                false => self.mechanics.access_ns(request.sector, is_write, now_ns),
            };
            access as f64 - self.params.aging * (now_ns - since_ns) as f64
        };
        let costs = self.commands.iter().enumerate().map(|(index, it)| (cost(it), it.1.id, index));
        let best = costs.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        best.map(|(cost, _, index)| (cost, index))
    }

    /// The cached write near the heads that can begin soonest.
    fn best_extent(&self, now_ns: u64) -> Option<(u64, u64)> {
        let is_pressed = self.is_pressed();
        let here = self.mechanics.next_sector();
        let after = self.dirty.range(here..).take(WINDOW);
        let before = self.dirty.range(..here).rev().take(WINDOW);
        let may = |extent: &Extent| is_pressed || extent.ready_ns <= now_ns;
        let near = after.chain(before).filter(|(_, extent)| may(extent));
        near.map(|(&sector, _)| (self.mechanics.access_ns(sector, true, now_ns), sector)).min()
    }

    fn begin_command(&mut self, request: Request, now_ns: u64) {
        let sectors = request.end_sector() - request.sector;
        let is_write = request.op == Op::Write;
        let done_ns = match self.is_streamed(&request) {
            true => self.mechanics.read_on(request.end_sector(), now_ns),
            false => self.mechanics.access(request.sector, sectors, is_write, now_ns),
        };
        self.work = Some((done_ns, Work::Command(request)));
    }

    fn begin_write_back(&mut self, sector: u64, now_ns: u64) {
        self.follow_stream(now_ns);
        let Some(extent) = self.dirty.remove(&sector) else { return };
        let done_ns = self.mechanics.access(sector, extent.sectors, true, now_ns);
        let bytes = extent.sectors * SECTOR_BYTES;
        self.work = Some((done_ns, Work::WriteBack { bytes }));
    }

    fn end_work(&mut self, work: Work, now_ns: u64) {
        match work {
            Work::WriteBack { bytes } => {
                self.write_backs += 1;
                self.dirty_bytes -= bytes;
                self.take_into_cache(now_ns);
            }
            Work::Command(request) => {
                self.pending.push(now_ns, request.id);
                if request.op == Op::Read {
                    let end = request.end_sector();
                    let first = match self.mechanics.stream {
                        Some(stream) if (stream.first..=end).contains(&request.sector) => {
                            stream.first
                        }
                        _ => request.sector,
                    };
                    self.fill_segment(first, end);
                    let limit = end + self.params.read_ahead_sectors;
                    self.mechanics.begin_stream(first, limit);
                }
            }
        }
    }

    /// When the first cached write may be written although nobody asks for it.
    fn next_write_back_ns(&self) -> Option<u64> {
        if self.work.is_some() || self.dirty.is_empty() {
            return None;
        }
        let here = self.mechanics.next_sector();
        let near = self.dirty.range(here..).take(WINDOW);
        let near = near.chain(self.dirty.range(..here).rev().take(WINDOW));
        near.map(|(_, extent)| extent.ready_ns).min()
    }
}

impl Mechanism for Hdd {
    fn submit(&mut self, request: Request) {
        self.waiting.push_back(request);
        self.settle(request.arrival_ns.max(self.now_ns));
    }

    fn next_event_ns(&self) -> Option<u64> {
        let arriving = self.arriving.front().map(|(ready_ns, _)| *ready_ns);
        let work = self.work.map(|(done_ns, _)| done_ns);
        let events = [arriving, work, self.pending.next_ns(), self.next_write_back_ns()];
        events.into_iter().flatten().min()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        while let Some(at_ns) = self.next_event_ns().filter(|at_ns| *at_ns <= until_ns) {
            let at_ns = at_ns.max(self.now_ns);
            if let Some((done_ns, work)) = self.work
                && done_ns <= at_ns
            {
                self.work = None;
                self.end_work(work, at_ns);
            }
            while let Some(completion) = self.pending.pop(at_ns) {
                self.taken -= 1;
                done.push(completion);
            }
            self.settle(at_ns);
        }
    }

    fn counters(&self) -> Counters {
        counters([
            ("seeks", self.mechanics.seeks),
            ("seek_ns", self.mechanics.seek_ns),
            ("rotation_ns", self.mechanics.rotation_ns),
            ("transfer_ns", self.mechanics.transfer_ns),
            ("buffer_hits", self.hits),
            ("written_back", self.write_backs),
            ("flushes", self.flushes),
        ])
    }
}
