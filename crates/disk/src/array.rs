//! Several disks as one: RAID 0, 1, 5 and 10, with or without a controller that keeps writes in memory.
//! Which disk holds what is in `layout`.
//!
//! A small write to RAID 5 reads old data and old parity and writes both anew, four requests for one
//! (D. Patterson, G. Gibson, R. Katz, *A case for redundant arrays of inexpensive disks*, SIGMOD 1988).

mod layout;

use std::collections::{BTreeMap, VecDeque};

use crate::fields::Fields;
use crate::model::Model;
use crate::parts::{NumberMap, Parts};
use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Op, Request, SECTOR_BYTES};
use layout::{Layout, Piece};

pub use layout::Level;

/// Writes from the controller's memory that are under way at once, for each disk.
const DESTAGING_PER_DISK: usize = 4;
/// Where numbers of the controller's own jobs begin.
const OWN: u64 = 1 << 62;

/// What a model states.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayParams {
    /// How data are spread.
    pub level: Level,
    /// Sectors of a chunk.
    pub chunk_sectors: u64,
    /// The disks.
    pub members: Vec<Model>,
    /// Time of the controller for each request.
    pub overhead_ns: u64,
    /// Rate between host and controller in MB/s, for what its memory holds.
    pub interface_mbs: f64,
    /// Memory for writes that survives a power cut; 0 for none, so that writes go through.
    pub cache_bytes: u64,
}

impl ArrayParams {
    pub(crate) fn read(
        fields: &mut Fields<'_, '_>,
        resolve: &dyn Fn(&str) -> Result<Model, String>,
    ) -> ArrayParams {
        let level = Level::read(fields.choice("level", Level::NAMES));
        let count = fields.count("members", 2, 64) as usize;
        let name = fields.text("member");
        let keeps_cache = fields.flag_or("member_write_cache", true);
        let mut members = Vec::new();
        if !name.is_empty() {
            match resolve(&name) {
                Ok(model) => {
                    let model = if keeps_cache { model } else { model.without_write_cache() };
                    members = vec![model; count];
                }
                Err(error) => fields.wrong_at("member", error),
            }
        }
        if level == Level::Raid5 && count < 3 {
            fields.wrong_at("members", "RAID 5 needs three disks or more");
        }
        if level == Level::Raid10 && !count.is_multiple_of(2) {
            fields.wrong_at("members", "RAID 10 needs pairs of disks");
        }
        let cache_bytes = fields.size_or("battery_cache", 0, 0, 1 << 40);
        ArrayParams {
            level,
            chunk_sectors: fields.size_or("chunk", 64 << 10, 4096, 1 << 26) / SECTOR_BYTES,
            members,
            overhead_ns: fields.time_or("overhead_us", 0.0, 1e3, 1e5),
            interface_mbs: fields.number_or("interface_mbs", 10_000.0, 1.0, 1e6),
            cache_bytes,
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.level, self.members.len(), self.chunk_sectors)
    }

    /// Bytes that the array holds where each disk holds `member_bytes`.
    #[must_use]
    pub fn capacity_bytes(&self, member_bytes: u64) -> u64 {
        member_bytes * self.layout().data_members() as u64
    }

    /// Bytes of each disk of an array of `size_bytes`.
    #[must_use]
    pub fn member_bytes(&self, size_bytes: u64) -> u64 {
        let share = size_bytes.div_ceil(self.layout().data_members() as u64);
        share.next_multiple_of(self.chunk_sectors * SECTOR_BYTES)
    }
}

/// A stripe of a RAID 5 that is read before it is written.
#[derive(Debug)]
struct Update {
    /// What is written once everything is read; `None` from then on.
    writes: Option<Vec<Piece>>,
    /// The part of the request that ends with it.
    part: u64,
}

/// An array at work.
#[derive(Debug)]
pub struct Array {
    params: ArrayParams,
    layout: Layout,
    members: Vec<Box<dyn Mechanism>>,
    /// Requests under way on each disk, and where each was sent last.
    depth: Vec<usize>,
    last: Vec<u64>,
    part_member: NumberMap<usize>,
    parts: Parts,
    updates: NumberMap<Update>,
    next_own: u64,
    /// Extents in the controller's memory that are not on their way, by first sector.
    dirty: BTreeMap<u64, u64>,
    dirty_bytes: u64,
    destaging: NumberMap<u64>,
    sweep: u64,
    roomless: VecDeque<Request>,
    /// Requests that the controller has not dealt with yet.
    arriving: VecDeque<(u64, Request)>,
    bus_free_ns: u64,
    now_ns: u64,
    pending: Pending,
    buffer: Vec<Completion>,
    member_reads: u64,
    member_writes: u64,
}

impl Array {
    /// An array of the disks `members`, at rest.
    #[must_use]
    pub fn new(params: &ArrayParams, members: Vec<Box<dyn Mechanism>>) -> Array {
        Array {
            layout: params.layout(),
            params: params.clone(),
            depth: vec![0; members.len()],
            last: vec![0; members.len()],
            members,
            part_member: NumberMap::default(),
            parts: Parts::default(),
            updates: NumberMap::default(),
            next_own: OWN,
            dirty: BTreeMap::new(),
            dirty_bytes: 0,
            destaging: NumberMap::default(),
            sweep: 0,
            roomless: VecDeque::new(),
            arriving: VecDeque::new(),
            bus_free_ns: 0,
            now_ns: 0,
            pending: Pending::default(),
            buffer: Vec::new(),
            member_reads: 0,
            member_writes: 0,
        }
    }

    fn send(&mut self, job: u64, op: Op, piece: Piece, fua: bool) {
        let id = self.parts.add(job);
        let Piece { member, sector, sectors } = piece;
        self.part_member.insert(id, member);
        self.depth[member] += 1;
        self.last[member] = sector + sectors;
        match op {
            Op::Read => self.member_reads += 1,
            Op::Write => self.member_writes += 1,
            Op::Flush | Op::Discard => {}
        }
        let (bytes, arrival_ns) = (sectors * SECTOR_BYTES, self.now_ns);
        self.members[member].submit(Request { id, op, sector, bytes, fua, arrival_ns });
    }

    /// Does a request on the disks; `job` hears of its end.
    fn on_disks(&mut self, job: u64, request: &Request) {
        match request.op {
            Op::Flush | Op::Discard => {
                for member in 0..self.members.len() {
                    self.send(job, request.op, Piece { member, sector: 0, sectors: 0 }, false);
                }
            }
            Op::Read => {
                let pieces = self.layout.pieces(request.sector, request.end_sector());
                for piece in pieces {
                    let piece = self.nearest_copy(piece);
                    self.send(job, Op::Read, piece, false);
                }
            }
            Op::Write if self.layout.level() == Level::Raid5 => self.write_parity(job, request),
            Op::Write => {
                for piece in self.layout.pieces(request.sector, request.end_sector()) {
                    for member in self.layout.copies(piece.member) {
                        self.send(job, Op::Write, Piece { member, ..piece }, request.fua);
                    }
                }
            }
        }
    }

    /// The copy on the disk with the fewest requests, and of those the one whose heads are nearest.
    fn nearest_copy(&self, piece: Piece) -> Piece {
        let cost = |member: &usize| {
            (self.depth[*member], self.last[*member].abs_diff(piece.sector), *member)
        };
        let member = self.layout.copies(piece.member).min_by_key(cost).unwrap_or(piece.member);
        Piece { member, ..piece }
    }

    fn write_parity(&mut self, job: u64, request: &Request) {
        for stripe in self.layout.stripes(request.sector, request.end_sector()) {
            if stripe.reads.is_empty() {
                for piece in stripe.writes {
                    self.send(job, Op::Write, piece, request.fua);
                }
                continue;
            }
            self.next_own += 1;
            let update = self.next_own;
            for piece in stripe.reads {
                self.send(update, Op::Read, piece, false);
            }
            let (writes, part) = (Some(stripe.writes), self.parts.add(job));
            self.updates.insert(update, Update { writes, part });
        }
    }

    /// What becomes of a request once the controller has looked at it.
    fn deal_with(&mut self, request: Request) {
        let has_memory = self.params.cache_bytes > 0;
        let now_ns = self.now_ns;
        match request.op {
            Op::Flush if has_memory => self.pending.push(now_ns, request.id),
            Op::Write if has_memory && request.bytes <= self.params.cache_bytes => {
                self.roomless.push_back(request);
                self.take_into_memory();
            }
            Op::Read if self.is_in_memory(&request) => {
                let done_ns = self.transfer(request.bytes);
                self.pending.push(done_ns, request.id);
            }
            _ => self.on_disks(request.id, &request),
        }
    }

    fn transfer(&mut self, bytes: u64) -> u64 {
        let time = crate::ssd::transfer_ns(bytes, self.params.interface_mbs);
        self.bus_free_ns = self.bus_free_ns.max(self.now_ns) + time;
        self.bus_free_ns
    }

    fn is_in_memory(&self, request: &Request) -> bool {
        let before = self.dirty.range(..=request.sector).next_back();
        before.is_some_and(|(first, sectors)| first + sectors >= request.end_sector())
    }

    fn take_into_memory(&mut self) {
        while let Some(request) = self.roomless.front().copied() {
            if self.dirty_bytes + request.bytes > self.params.cache_bytes {
                break;
            }
            self.roomless.pop_front();
            let done_ns = self.transfer(request.bytes);
            self.pending.push(done_ns, request.id);
            self.remember(request.sector, request.end_sector());
        }
        self.destage();
    }

    /// Puts an extent into the memory; what it touches becomes one with it.
    fn remember(&mut self, first: u64, end: u64) {
        let (mut first, mut end) = (first, end);
        while let Some((&at, &sectors)) = self.dirty.range(..=end).next_back() {
            if at + sectors < first {
                break;
            }
            self.dirty.remove(&at);
            self.dirty_bytes -= sectors * SECTOR_BYTES;
            (first, end) = (first.min(at), end.max(at + sectors));
        }
        self.dirty.insert(first, end - first);
        self.dirty_bytes += (end - first) * SECTOR_BYTES;
    }

    /// Keeps writes from the memory under way, in one direction over the disks, at most a stripe each.
    fn destage(&mut self) {
        while self.destaging.len() < DESTAGING_PER_DISK * self.members.len() {
            let after = self.dirty.range(self.sweep..).next();
            let Some((&first, &sectors)) = after.or_else(|| self.dirty.iter().next()) else {
                return;
            };
            let end = (first + sectors).min(self.layout.stripe_end(first));
            self.dirty.remove(&first);
            if end < first + sectors {
                self.dirty.insert(end, first + sectors - end);
            }
            self.sweep = end;
            self.next_own += 1;
            let job = self.next_own;
            let bytes = (end - first) * SECTOR_BYTES;
            self.destaging.insert(job, bytes);
            let (op, arrival_ns) = (Op::Write, self.now_ns);
            let request = Request { id: job, op, sector: first, bytes, fua: false, arrival_ns };
            self.on_disks(job, &request);
        }
    }

    fn end_part(&mut self, completion: Completion) {
        let Completion { at_ns, id } = completion;
        if let Some(member) = self.part_member.remove(&id) {
            self.depth[member] -= 1;
        }
        let Some((job, true)) = self.parts.end(id) else { return };
        if job <= OWN {
            self.pending.push(at_ns, job);
        } else if let Some(update) = self.updates.get_mut(&job) {
            match update.writes.take() {
                Some(writes) => {
                    for piece in writes {
                        self.send(job, Op::Write, piece, false);
                    }
                }
                None => {
                    let part = update.part;
                    self.updates.remove(&job);
                    self.end_part(Completion { at_ns, id: part });
                }
            }
        } else if let Some(bytes) = self.destaging.remove(&job) {
            self.dirty_bytes -= bytes;
            self.take_into_memory();
        }
    }
}

impl Mechanism for Array {
    fn submit(&mut self, request: Request) {
        self.now_ns = self.now_ns.max(request.arrival_ns);
        if self.params.overhead_ns == 0 {
            self.deal_with(request);
        } else {
            self.arriving.push_back((self.now_ns + self.params.overhead_ns, request));
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let members = self.members.iter().filter_map(|member| member.next_event_ns()).min();
        let arriving = self.arriving.front().map(|(at_ns, _)| *at_ns);
        [members, arriving, self.pending.next_ns()].into_iter().flatten().min()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some(at_ns) = self.next_event_ns().filter(|at_ns| *at_ns <= until_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            for member in &mut self.members {
                member.advance(at_ns, &mut buffer);
            }
            for completion in buffer.drain(..) {
                self.end_part(completion);
            }
            while let Some((_, request)) = self.arriving.pop_front_if(|it| it.0 <= at_ns) {
                self.deal_with(request);
            }
            self.pending.drain(at_ns, done);
        }
        self.buffer = buffer;
    }

    fn counters(&self) -> Counters {
        let mut sum = Counters::new();
        for member in &self.members {
            for (name, count) in member.counters() {
                *sum.entry(name).or_insert(0) += count;
            }
        }
        sum.insert("member_reads".to_owned(), self.member_reads);
        sum.insert("member_writes".to_owned(), self.member_writes);
        sum
    }
}

#[cfg(test)]
mod tests;
