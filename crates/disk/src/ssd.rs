//! Flash disks with a controller: channels and dies that work side by side, pages that are programmed
//! and blocks that are erased, a write buffer, an SLC cache, and the traffic that cleaning adds. Where
//! things lie and what is cleaned is in `mapping`.
//!
//! Every request is laid out in time when it comes, first come first served on each die and channel;
//! nothing is reordered, but a read may interrupt a program where the model says so.

mod mapping;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::fields::Fields;
use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Op, Request, SECTOR_BYTES, counters};
use mapping::{Mapping, Shape, UNIT_BYTES};

/// Most bytes that are emulated: the mapping takes 8 bytes for each 4 KiB.
pub const MOST_BYTES: u64 = 512 << 30;

/// What a model states.
#[derive(Debug, Clone, PartialEq)]
pub struct SsdParams {
    /// Channels between controller and flash.
    pub channels: u64,
    /// Dies on each channel; planes that program at once count as dies.
    pub dies_per_channel: u64,
    /// Rate of one channel in MB/s.
    pub channel_mbs: f64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of a block.
    pub pages_per_block: u64,
    /// Reading a page into the die's register.
    pub read_ns: u64,
    /// Programming a page.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// How long a read waits for a program or an erasure that it interrupts; `None` where it cannot.
    pub suspend_ns: Option<u64>,
    /// Flash beyond the capacity, as a share of it, that cleaning can use.
    pub over_provisioning: f64,
    /// Bytes that are written as SLC first; 0 for none.
    pub slc_bytes: u64,
    /// Programming a page as SLC.
    pub slc_program_ns: u64,
    /// How long the disk must be idle before it empties the SLC cache.
    pub fold_delay_ns: u64,
    /// Bytes of the write buffer.
    pub buffer_bytes: u64,
    /// Whether the buffer survives a power cut, so that a flush has nothing to do.
    pub is_protected: bool,
    /// From the arrival of a command until flash is asked, and back.
    pub overhead_ns: u64,
    /// The same for a write into the buffer.
    pub write_overhead_ns: u64,
    /// Time of the controller for each command; its inverse is the greatest number of them a second.
    pub command_ns: u64,
    /// Rate of the interface in MB/s, reading.
    pub interface_mbs: f64,
    /// The same, writing.
    pub interface_write_mbs: f64,
    /// What a flush takes after the buffer is written.
    pub flush_ns: u64,
    /// Whether it begins with every sector written once.
    pub is_filled: bool,
}

impl SsdParams {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> SsdParams {
        let us = 1e3;
        let page_bytes = fields.size("page", UNIT_BYTES, 1 << 20);
        if !page_bytes.is_multiple_of(UNIT_BYTES) {
            fields.wrong_at("page", "a page is a multiple of 4KiB");
        }
        let overhead_ns = fields.time("overhead_us", us, 1e5);
        let interface_mbs = fields.number("interface_mbs", 1.0, 1e6);
        let slc_bytes = fields.size_or("slc_cache", 0, 0, 1 << 42);
        let program_ns = fields.time("program_us", us, 1e5);
        let buffer_bytes = fields.size("write_buffer", 4 * page_bytes, 1 << 34);
        SsdParams {
            channels: fields.count("channels", 1, 64),
            dies_per_channel: fields.count("dies_per_channel", 1, 64),
            channel_mbs: fields.number("channel_mbs", 1.0, 1e5),
            page_bytes,
            pages_per_block: fields.count("pages_per_block", 16, 8192),
            read_ns: fields.time("read_us", us, 1e5),
            program_ns,
            erase_ns: fields.time("erase_us", us, 1e6),
            suspend_ns: fields.has("suspend_us").then(|| fields.time("suspend_us", us, 1e5)),
            over_provisioning: fields.number("over_provisioning", 0.02, 4.0),
            slc_bytes,
            slc_program_ns: match slc_bytes {
                0 => program_ns,
                _ => fields.time("slc_program_us", us, 1e5),
            },
            fold_delay_ns: fields.time_or("fold_delay_ms", 1000.0, 1e6, 1e6),
            buffer_bytes,
            is_protected: fields.flag_or("power_loss_protection", false),
            overhead_ns,
            write_overhead_ns: fields.time_or(
                "write_overhead_us",
                overhead_ns as f64 / us,
                us,
                1e5,
            ),
            command_ns: fields.time_or("command_us", 0.0, us, 1e5),
            interface_mbs,
            interface_write_mbs: fields.number_or("interface_write_mbs", interface_mbs, 1.0, 1e6),
            flush_ns: fields.time("flush_us", us, 1e6),
            is_filled: fields.choice("state", &["filled", "fresh"]) == "filled",
        }
    }

    fn dies(&self) -> u64 {
        self.channels * self.dies_per_channel
    }
}

/// When a die is free again.
#[derive(Debug, Clone, Copy, Default)]
struct Die {
    reading_until_ns: u64,
    writing_until_ns: u64,
}

/// A flash disk at work.
#[derive(Debug)]
pub struct Ssd {
    params: SsdParams,
    erase_ns: u64,
    mapping: Mapping,
    dies: Vec<Die>,
    channels_free_ns: Vec<u64>,
    controller_free_ns: u64,
    bus_free_ns: u64,
    /// Bytes in the write buffer, and when those that are being programmed leave it.
    buffered_bytes: u64,
    leaving: BinaryHeap<Reverse<(u64, u64)>>,
    /// Pages that are being programmed, oldest first: reads find them in the buffer.
    programming: VecDeque<(u64, u64)>,
    /// Units of the page that is not full yet.
    partial: Vec<u32>,
    programmed_until_ns: u64,
    slc_used_bytes: u64,
    pending: Pending,
    host_units: u64,
    flushes: u64,
}

impl Ssd {
    /// A disk of `size_bytes`, as if the rest of a larger one were full: flash is scaled to the size, so
    /// that cleaning does what it does on a full disk; SLC cache and buffer are those of the whole.
    ///
    /// # Errors
    /// A sentence for a size that is not emulated.
    pub fn new(params: &SsdParams, size_bytes: u64) -> Result<Ssd, String> {
        if size_bytes > MOST_BYTES {
            return Err(format!(
                "flash disks are emulated up to {}: give a smaller size",
                fsdyno_model::units::human_bytes(MOST_BYTES)
            ));
        }
        let shape = Shape::fit(params, size_bytes)?;
        let block_share = shape.pages_per_block as f64 / params.pages_per_block as f64;
        Ok(Ssd {
            erase_ns: (params.erase_ns as f64 * block_share).round() as u64,
            mapping: Mapping::new(shape, params.is_filled),
            dies: vec![Die::default(); params.dies() as usize],
            channels_free_ns: vec![0; params.channels as usize],
            params: params.clone(),
            controller_free_ns: 0,
            bus_free_ns: 0,
            buffered_bytes: 0,
            leaving: BinaryHeap::new(),
            programming: VecDeque::new(),
            partial: Vec::with_capacity((params.page_bytes / UNIT_BYTES) as usize),
            programmed_until_ns: 0,
            slc_used_bytes: 0,
            pending: Pending::default(),
            host_units: 0,
            flushes: 0,
        })
    }

    /// When the controller has looked at a command that came at `now_ns`.
    fn controller(&mut self, now_ns: u64) -> u64 {
        self.controller_free_ns = self.controller_free_ns.max(now_ns) + self.params.command_ns;
        self.controller_free_ns
    }

    fn transfer(&mut self, bytes: u64, rate_mbs: f64, now_ns: u64) -> u64 {
        let time = transfer_ns(bytes, rate_mbs);
        self.bus_free_ns = self.bus_free_ns.max(now_ns) + time;
        self.bus_free_ns
    }

    fn channel(&mut self, die: usize, bytes: u64, now_ns: u64) -> u64 {
        let index = die % self.channels_free_ns.len();
        let free = &mut self.channels_free_ns[index];
        *free = (*free).max(now_ns) + transfer_ns(bytes, self.params.channel_mbs);
        *free
    }

    fn units(request: &Request) -> std::ops::Range<u64> {
        let sectors_per_unit = UNIT_BYTES / SECTOR_BYTES;
        request.sector / sectors_per_unit..request.end_sector().div_ceil(sectors_per_unit)
    }

    fn read(&mut self, request: &Request) -> u64 {
        let now_ns = self.controller(request.arrival_ns) + self.params.overhead_ns;
        while self.programming.front().is_some_and(|(until_ns, _)| *until_ns <= now_ns) {
            self.programming.pop_front();
        }
        let (mut done_ns, mut last_page, mut page_units) = (now_ns, None, 0);
        for unit in Ssd::units(request) {
            let page = self.mapping.page_of(unit);
            if page != last_page {
                done_ns = done_ns.max(self.read_page(last_page, page_units, now_ns));
                (last_page, page_units) = (page, 0);
            }
            page_units += 1;
        }
        done_ns = done_ns.max(self.read_page(last_page, page_units, now_ns));
        self.transfer(request.bytes, self.params.interface_mbs, done_ns)
    }

    /// Reads some units of one page; what was never written, or is in the buffer yet, takes no time.
    fn read_page(&mut self, page: Option<u64>, units: u64, now_ns: u64) -> u64 {
        let Some(page) = page.filter(|page| !self.programming.iter().any(|it| it.1 == *page))
        else {
            return now_ns;
        };
        let index = self.mapping.die_of(page);
        let die = &mut self.dies[index];
        let writing_ns = match self.params.suspend_ns {
            Some(suspend_ns) => die.writing_until_ns.min(now_ns + suspend_ns),
            None => die.writing_until_ns,
        };
        let begin_ns = now_ns.max(die.reading_until_ns).max(writing_ns);
        let end_ns = begin_ns + self.params.read_ns;
        die.reading_until_ns = end_ns;
        if die.writing_until_ns > begin_ns {
            die.writing_until_ns += end_ns - begin_ns;
        }
        self.channel(index, units * UNIT_BYTES, end_ns)
    }

    fn write(&mut self, request: &Request) -> u64 {
        let now_ns = self.controller(request.arrival_ns) + self.params.write_overhead_ns;
        let mut now_ns = self.transfer(request.bytes, self.params.interface_write_mbs, now_ns);
        for unit in Ssd::units(request) {
            now_ns = self.room(now_ns);
            self.buffered_bytes += UNIT_BYTES;
            self.host_units += 1;
            // A size that is no multiple of a unit leaves a part of one at the end.
            self.partial.push(u32::try_from(unit).unwrap_or(u32::MAX));
            if self.partial.len() as u64 * UNIT_BYTES >= self.params.page_bytes {
                self.program(now_ns);
            }
        }
        if request.fua && !self.params.is_protected {
            self.program(now_ns);
            return now_ns.max(self.programmed_until_ns);
        }
        now_ns
    }

    /// When there is room for one more unit in the buffer.
    fn room(&mut self, now_ns: u64) -> u64 {
        let mut now_ns = now_ns;
        while let Some(Reverse((leaves_ns, bytes))) = self.leaving.peek().copied() {
            let is_full = self.buffered_bytes + UNIT_BYTES > self.params.buffer_bytes;
            if leaves_ns > now_ns && !is_full {
                break;
            }
            self.leaving.pop();
            self.buffered_bytes -= bytes;
            now_ns = now_ns.max(leaves_ns);
        }
        now_ns
    }

    /// Programs the page that has been collected, full or not.
    fn program(&mut self, now_ns: u64) {
        if self.partial.is_empty() {
            return;
        }
        let units = self.partial.len() as u64;
        let written = self.mapping.write_page(&self.partial);
        self.partial.clear();
        let at_ns = self.channel(written.die, self.params.page_bytes, now_ns);
        let pages = |units: u64| units as f64 * UNIT_BYTES as f64 / self.params.page_bytes as f64;
        let moving =
            pages(written.moved_units) * (self.params.read_ns + self.params.program_ns) as f64;
        let cleaning_ns = moving.round() as u64 + written.erased_blocks * self.erase_ns;
        let program_ns = self.program_time(now_ns);
        let die = &mut self.dies[written.die];
        let begin_ns = at_ns.max(die.writing_until_ns).max(die.reading_until_ns);
        let programmed_ns = begin_ns + program_ns;
        die.writing_until_ns = programmed_ns + cleaning_ns;
        self.programmed_until_ns = self.programmed_until_ns.max(programmed_ns);
        self.leaving.push(Reverse((programmed_ns, units * UNIT_BYTES)));
        self.programming.push_back((programmed_ns, written.page));
    }

    /// Time to program a page: as SLC while its cache has room. What was written so before is folded
    /// into denser cells while the disk is idle, all dies at once.
    fn program_time(&mut self, now_ns: u64) -> u64 {
        if self.params.slc_bytes == 0 {
            return self.params.program_ns;
        }
        let idle_ns = now_ns.saturating_sub(self.programmed_until_ns);
        let folding_ns = idle_ns.saturating_sub(self.params.fold_delay_ns) as f64;
        let page_ns = (self.params.read_ns + self.params.program_ns) as f64;
        let folded = folding_ns / page_ns * (self.params.dies() * self.params.page_bytes) as f64;
        self.slc_used_bytes = self.slc_used_bytes.saturating_sub(folded as u64);
        if self.slc_used_bytes + self.params.page_bytes > self.params.slc_bytes {
            return self.params.program_ns;
        }
        self.slc_used_bytes += self.params.page_bytes;
        self.params.slc_program_ns
    }

    fn flush(&mut self, request: &Request) -> u64 {
        let now_ns = self.controller(request.arrival_ns) + self.params.write_overhead_ns;
        self.flushes += 1;
        if self.params.is_protected {
            return now_ns + self.params.flush_ns;
        }
        let is_clean = self.partial.is_empty() && self.programmed_until_ns <= now_ns;
        self.program(now_ns);
        // Nothing was written since: there is no mapping to be saved either.
        let saving_ns = if is_clean { 0 } else { self.params.flush_ns };
        now_ns.max(self.programmed_until_ns) + saving_ns
    }
}

impl Mechanism for Ssd {
    fn submit(&mut self, request: Request) {
        let done_ns = match request.op {
            Op::Read => self.read(&request),
            Op::Write => self.write(&request),
            Op::Flush => self.flush(&request),
            Op::Discard => {
                for unit in Ssd::units(&request) {
                    self.mapping.forget(unit);
                }
                self.controller(request.arrival_ns) + self.params.write_overhead_ns
            }
        };
        self.pending.push(done_ns, request.id);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.pending.next_ns()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        self.pending.drain(until_ns, done);
    }

    fn counters(&self) -> Counters {
        counters([
            ("written_units", self.host_units),
            ("moved_units", self.mapping.moved_units()),
            ("erased_blocks", self.mapping.erased_blocks()),
            ("flushes", self.flushes),
        ])
    }
}

/// Time of `bytes` at a rate in MB/s, in nanoseconds.
pub(crate) fn transfer_ns(bytes: u64, rate_mbs: f64) -> u64 {
    (bytes as f64 * 1e3 / rate_mbs).round() as u64
}

#[cfg(test)]
mod tests;
