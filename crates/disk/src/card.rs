//! SD cards and eMMC: few erase blocks are open for writing at a time, each with a log of its own, and
//! whatever is written elsewhere makes the card merge one of them with what it held before. That is
//! the block-associative scheme of J. Kim, J. M. Kim, S. Noh, S. Min, Y. Cho, *A space-efficient flash
//! translation layer for CompactFlash systems* (IEEE Trans. Consumer Electronics 48, 2002). One command
//! at a time.

use std::collections::VecDeque;

use crate::fields::Fields;
use crate::pending::Pending;
use crate::request::{Completion, Counters, Mechanism, Op, Request, SECTOR_BYTES, counters};
use crate::ssd::transfer_ns;

/// What a model states.
#[derive(Debug, Clone, PartialEq)]
pub struct CardParams {
    /// Bytes that are erased together (of an SD card: the allocation unit).
    pub erase_block_bytes: u64,
    /// Bytes that are programmed together; less costs as much.
    pub page_bytes: u64,
    /// Erase blocks that are open at a time.
    pub open_blocks: usize,
    /// Time of a read before data flow.
    pub read_overhead_ns: u64,
    /// Time of a write besides its data.
    pub write_overhead_ns: u64,
    /// Rate of reading in MB/s.
    pub read_mbs: f64,
    /// Rate of writing in sequence in MB/s.
    pub write_mbs: f64,
    /// Rate at which the card copies inside itself, in MB/s.
    pub copy_mbs: f64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// What a flush takes.
    pub flush_ns: u64,
}

impl CardParams {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> CardParams {
        let page_bytes = fields.size("page", SECTOR_BYTES, 1 << 20);
        let erase_block_bytes = fields.size("erase_block", 64 << 10, 1 << 28);
        if !page_bytes.is_multiple_of(SECTOR_BYTES) || !erase_block_bytes.is_multiple_of(page_bytes)
        {
            fields
                .wrong_at("erase_block", "an erase block is a multiple of a page, and that of 512");
        }
        CardParams {
            erase_block_bytes,
            page_bytes,
            open_blocks: fields.count("open_blocks", 1, 4096) as usize,
            read_overhead_ns: fields.time("read_overhead_us", 1e3, 1e6),
            write_overhead_ns: fields.time("write_overhead_us", 1e3, 1e6),
            read_mbs: fields.number("read_mbs", 0.01, 1e5),
            write_mbs: fields.number("write_mbs", 0.01, 1e5),
            copy_mbs: fields.number("copy_mbs", 0.01, 1e5),
            erase_ns: fields.time("erase_ms", 1e6, 1e4),
            flush_ns: fields.time_or("flush_us", 0.0, 1e3, 1e6),
        }
    }
}

/// An erase block with a log.
#[derive(Debug, Clone, Copy)]
struct Open {
    block: u64,
    /// Where writing in sequence would go on; `None` once it did not.
    next: Option<u64>,
    logged: u64,
}

/// A card at work.
#[derive(Debug)]
pub struct Card {
    params: CardParams,
    free_ns: u64,
    /// The one used last is at the end.
    open: VecDeque<Open>,
    pending: Pending,
    merges: u64,
    copied_bytes: u64,
    written_bytes: u64,
}

impl Card {
    /// A card with no open block.
    #[must_use]
    pub fn new(params: &CardParams) -> Card {
        Card {
            free_ns: 0,
            open: VecDeque::with_capacity(params.open_blocks),
            params: params.clone(),
            pending: Pending::default(),
            merges: 0,
            copied_bytes: 0,
            written_bytes: 0,
        }
    }

    fn write_ns(&mut self, request: &Request) -> u64 {
        let mut time_ns = self.params.write_overhead_ns;
        let mut at = request.sector * SECTOR_BYTES;
        let end = request.end_sector() * SECTOR_BYTES;
        self.written_bytes += end - at;
        while at < end {
            let block = at / self.params.erase_block_bytes;
            let piece_end = end.min((block + 1) * self.params.erase_block_bytes);
            time_ns += self.write_piece(block, at, piece_end);
            at = piece_end;
        }
        time_ns
    }

    /// Writes a piece of one erase block.
    fn write_piece(&mut self, block: u64, at: u64, end: u64) -> u64 {
        let mut time_ns = 0;
        let known = self.open.iter().position(|open| open.block == block);
        let mut open = match known.and_then(|index| self.open.remove(index)) {
            Some(open) => open,
            None => {
                if self.open.len() >= self.params.open_blocks
                    && let Some(oldest) = self.open.pop_front()
                {
                    time_ns += self.merge(oldest);
                }
                Open { block, next: Some(at), logged: 0 }
            }
        };
        if open.next == Some(at) {
            open.next = Some(end);
            open.logged += end - at;
            time_ns += transfer_ns(end - at, self.params.write_mbs);
        } else {
            let page = self.params.page_bytes;
            let bytes = end.next_multiple_of(page) - at / page * page;
            open.next = None;
            open.logged += bytes;
            time_ns += transfer_ns(bytes, self.params.write_mbs);
        }
        if open.logged >= self.params.erase_block_bytes {
            time_ns += self.merge(open);
        } else {
            self.open.push_back(open);
        }
        time_ns
    }

    /// Puts log and old contents of a block together: what the log does not hold whole is copied.
    fn merge(&mut self, open: Open) -> u64 {
        let block = self.params.erase_block_bytes;
        let (copied, erased) = match open.next {
            Some(_) => (block.saturating_sub(open.logged), 1),
            None => (block, 2),
        };
        self.merges += 1;
        self.copied_bytes += copied;
        transfer_ns(copied, self.params.copy_mbs) + erased * self.params.erase_ns
    }
}

impl Mechanism for Card {
    fn submit(&mut self, request: Request) {
        let time_ns = match request.op {
            Op::Read => {
                self.params.read_overhead_ns + transfer_ns(request.bytes, self.params.read_mbs)
            }
            Op::Write => self.write_ns(&request),
            Op::Flush => self.params.flush_ns,
            Op::Discard => self.params.write_overhead_ns,
        };
        self.free_ns = self.free_ns.max(request.arrival_ns) + time_ns;
        self.pending.push(self.free_ns, request.id);
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.pending.next_ns()
    }

    fn advance(&mut self, until_ns: u64, done: &mut Vec<Completion>) {
        self.pending.drain(until_ns, done);
    }

    fn counters(&self) -> Counters {
        counters([
            ("merged_blocks", self.merges),
            ("copied_bytes", self.copied_bytes),
            ("written_bytes", self.written_bytes),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> Card {
        Card::new(&CardParams {
            erase_block_bytes: 4 << 20,
            page_bytes: 16 << 10,
            open_blocks: 2,
            read_overhead_ns: 400_000,
            write_overhead_ns: 1_000_000,
            read_mbs: 40.0,
            write_mbs: 20.0,
            copy_mbs: 20.0,
            erase_ns: 2_000_000,
            flush_ns: 0,
        })
    }

    fn write(card: &mut Card, sector: u64, bytes: u64) -> u64 {
        let arrival_ns = card.free_ns;
        card.submit(Request { id: 0, op: Op::Write, sector, bytes, fua: false, arrival_ns });
        card.free_ns - arrival_ns
    }

    #[test]
    fn a_block_written_in_sequence_copies_nothing() {
        let mut card = card();
        let total: u64 = (0..64).map(|piece| write(&mut card, piece * 1024, 512 << 10)).sum();
        assert_eq!(card.copied_bytes, 0);
        assert_eq!(card.merges, 8);
        let expected = 64 * 1_000_000 + transfer_ns(32 << 20, 20.0) + 8 * 2_000_000;
        assert!(total.abs_diff(expected) < 100, "{total} {expected}");
    }

    #[test]
    fn random_writes_copy_a_block_each() {
        let mut card = card();
        write(&mut card, 0, 4096);
        write(&mut card, 8192, 4096);
        let third = write(&mut card, 2 * 8192, 4096);
        let copied = (4 << 20) - 4096;
        assert_eq!(card.copied_bytes, copied);
        assert_eq!(
            third,
            1_000_000 + transfer_ns(4096, 20.0) + transfer_ns(copied, 20.0) + 2_000_000
        );
        // Within an open block a write costs its page alone.
        let near = write(&mut card, 2 * 8192 + 800, 4096);
        assert_eq!(near, 1_000_000 + transfer_ns(16 << 10, 20.0));
    }
}
