//! Plans the calls of operations on the contents of an open file: which block is next, and what the
//! file holds afterwards. The calls themselves are left to the executors.
//!
//! What is written at a place of a file is the payload of the file's key there, whoever writes it. So
//! many jobs may write into one file, and what it holds is still known. Only who shrinks it must be
//! alone with it, see [`Entries::begin_exclusive`](super::entries::Entries::begin_exclusive).

use super::planner::{Call, Lane, Planner};
use super::program::{Action, CHUNK_BYTES};
use super::world::key_of;
use crate::engine::definition::{Access, Amount, Slot};
use crate::rng::Draw;

/// What calls past the page cache must be a multiple of, in bytes.
const DIRECT_BYTES: u64 = 4096;
/// A prime, so that multiples of it meet every block once.
const SCATTER: u128 = 2_654_435_761;

/// What a step says of its blocks.
pub(super) type Blocks<'p> = (Slot, Access, &'p Amount);

/// Whether a block may begin at the end of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// No, and it may be cut off by it.
    Read,
    /// No; only where the file is smaller than a block it is cut off.
    Within,
    /// Yes, and it may reach beyond.
    AndEnd,
}

impl<'p> Planner<'p> {
    /// Where the next block of `block` bytes is in a file of `size` bytes.
    #[inline]
    fn place(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        (slot, access): (Slot, Access),
        (block, size): (u64, u64),
        reach: Reach,
    ) -> u64 {
        let Some(file) = &mut lane.files[slot] else { return 0 };
        let blocks = match reach {
            Reach::AndEnd => size / block + 1,
            _ => (size / block).max(1),
        };
        // Whether a block at that offset lies too far to the end.
        let beyond = |offset: u64| match reach {
            Reach::Read => offset >= size,
            Reach::Within => offset.saturating_add(block) > size,
            Reach::AndEnd => offset > size,
        };
        match access {
            Access::Sequential => {
                if beyond(file.position) {
                    file.position = if reach == Reach::AndEnd { size } else { 0 };
                }
                let offset = file.position;
                file.position += block;
                offset
            }
            Access::Random => self.rng.below(blocks) * block,
            Access::Zipf(theta) => {
                let zipf = &mut self.memories[action.number].zipf;
                zipf.resize(blocks, theta);
                let rank = u128::from(zipf.draw(&mut self.rng) - 1);
                (rank * SCATTER % u128::from(blocks)) as u64 * block
            }
            Access::Strided(stride) => {
                if beyond(file.position) {
                    file.pass += block;
                    if file.pass >= stride || beyond(file.pass) {
                        file.pass = 0;
                    }
                    file.position = file.pass;
                }
                let offset = file.position;
                file.position += stride.max(1);
                offset
            }
        }
    }

    /// Reads blocks or a whole file; that less comes than the file holds is an error.
    #[inline]
    pub(super) fn read(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        (slot, access, amount): Blocks<'p>,
        result: u64,
    ) -> Option<Call<'p>> {
        let Some(file) = lane.files[slot] else { return Some(Call::Empty { place: slot }) };
        let entries = &self.world.entries;
        let inode = file.entry.inode;
        if lane.stage == 0 {
            lane.stage = 1;
            let glimpse = entries.glimpse(inode);
            lane.work.glimpse = Some(glimpse);
            (lane.work.offset, lane.work.end) = (0, glimpse.size_bytes);
            lane.work.left = if let Amount::Blocks { count, .. } = amount { *count } else { 0 };
        } else {
            if result < lane.work.count
                && lane.work.glimpse.is_some_and(|glimpse| entries.is_unchanged(inode, &glimpse))
            {
                let (offset, expected) = (lane.work.offset, lane.work.count);
                return Some(Call::Short { place: slot, offset, expected, found: result });
            }
            // An end that came too soon, since somebody has cut the file off meanwhile.
            lane.work.offset = if result == 0 { lane.work.end } else { lane.work.offset + result };
        }
        let block = match *amount {
            Amount::Whole { block_bytes } => {
                if lane.work.offset >= lane.work.end {
                    return None;
                }
                block_bytes
            }
            Amount::Blocks { block_bytes, .. } => {
                lane.work.left = lane.work.left.checked_sub(1)?;
                let of = (block_bytes, lane.work.end);
                lane.work.offset = self.place(lane, action, (slot, access), of, Reach::Read);
                block_bytes
            }
        };
        lane.work.count = block.min(lane.work.end.saturating_sub(lane.work.offset));
        Some(Call::Read { place: slot, offset: lane.work.offset, count: block })
    }

    /// Writes a whole file anew, or blocks.
    #[inline]
    pub(super) fn write(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        blocks: Blocks<'p>,
    ) -> Option<Call<'p>> {
        match *blocks.2 {
            Amount::Whole { block_bytes } => self.write_whole(lane, blocks.0, block_bytes),
            Amount::Blocks { .. } => self.write_blocks(lane, action, blocks),
        }
    }

    fn write_whole(&mut self, lane: &mut Lane, slot: Slot, block: u64) -> Option<Call<'p>> {
        let Some(file) = lane.files[slot] else { return Some(Call::Empty { place: slot }) };
        let inode = file.entry.inode;
        let entries = &self.world.entries;
        if lane.stage == 0 {
            if !entries.begin_exclusive(inode) {
                return Some(Call::Blocked);
            }
            lane.stage = 2;
            let size = self.set(file.entry).sizes.draw(&mut self.rng);
            lane.work.end = aligned(size, file.direct);
            lane.work.offset = 0;
            entries.set_known(inode, false);
            if entries.size(inode) > 0 {
                let content = self.fresh_content();
                entries.set_content(inode, content);
                lane.stage = 1;
            }
            lane.work.key = key_of(entries.content(inode));
            if lane.stage == 1 {
                return Some(Call::Truncate { place: slot, size_bytes: 0 });
            }
        }
        if lane.stage == 1 {
            entries.set_size(inode, 0);
            lane.stage = 2;
        }
        let offset = lane.work.offset;
        if offset < lane.work.end {
            let count = block.min(lane.work.end - offset);
            lane.work.offset += count;
            return Some(Call::Write { place: slot, offset, count, key: lane.work.key });
        }
        entries.set_size(inode, lane.work.end);
        entries.set_known(inode, true);
        entries.end_exclusive(inode);
        None
    }

    fn write_blocks(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        (slot, access, amount): Blocks<'p>,
    ) -> Option<Call<'p>> {
        let (block, blocks) = block_of(amount);
        if let Some(refused) = self.begin_blocks(lane, slot, blocks) {
            return Some(refused);
        }
        let inode = lane.files[slot]?.entry.inode;
        if lane.stage == 2 {
            self.world.entries.grow_to(inode, lane.work.offset + block);
        }
        lane.stage = 2;
        if lane.work.left == 0 {
            self.world.entries.end_write(inode);
            return None;
        }
        lane.work.left -= 1;
        let of = (block, self.world.entries.size(inode));
        let offset = self.place(lane, action, (slot, access), of, Reach::AndEnd);
        lane.work.offset = offset;
        Some(Call::Write { place: slot, offset, count: block, key: lane.work.key })
    }

    /// Begins an operation that writes `blocks` blocks; gives what is to be done instead.
    #[inline]
    fn begin_blocks(&mut self, lane: &mut Lane, slot: Slot, blocks: u64) -> Option<Call<'p>> {
        let Some(file) = lane.files[slot] else { return Some(Call::Empty { place: slot }) };
        if lane.stage == 0 {
            if !self.world.entries.begin_write(file.entry.inode) {
                return Some(Call::Blocked);
            }
            lane.stage = 1;
            lane.work.left = blocks;
            (lane.work.offset, lane.work.count) = (0, 0);
            lane.work.key = key_of(self.world.entries.content(file.entry.inode));
        }
        None
    }

    /// Writes at the end of a file.
    #[inline]
    pub(super) fn append(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        slot: Slot,
    ) -> Option<Call<'p>> {
        let first = lane.stage == 0;
        if let Some(refused) = self.begin_blocks(lane, slot, 0) {
            return Some(refused);
        }
        let file = lane.files[slot]?;
        let inode = file.entry.inode;
        if first {
            let drawn = action.sizes.as_ref().map_or(0, |sizes| sizes.draw(&mut self.rng));
            let bytes = aligned(drawn, file.direct);
            lane.work.offset = self.world.entries.extend(inode, bytes);
            lane.work.end = lane.work.offset + bytes;
        }
        let offset = lane.work.offset;
        if offset == lane.work.end {
            self.world.entries.end_write(inode);
            return None;
        }
        let count = CHUNK_BYTES.min(lane.work.end - offset);
        lane.work.offset += count;
        Some(Call::Write { place: slot, offset, count, key: lane.work.key })
    }

    /// The next block of an operation that stays within the file: where, and how many bytes; `None`
    /// where all are done.
    fn next_within(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        (slot, access, amount): Blocks<'p>,
    ) -> Option<(u64, u64)> {
        let inode = lane.files[slot]?.entry.inode;
        let size = self.world.entries.size(inode);
        let (block, _) = block_of(amount);
        let offset = if let Amount::Whole { .. } = amount {
            lane.work.offset + lane.work.count
        } else {
            lane.work.left = lane.work.left.checked_sub(1)?;
            self.place(lane, action, (slot, access), (block, size), Reach::Within)
        };
        (lane.work.offset, lane.work.count) = (offset, block.min(size.saturating_sub(offset)));
        (lane.work.count > 0).then_some((offset, lane.work.count))
    }

    /// Writes blocks within a file, through a mapping or not.
    pub(super) fn overwrite(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        blocks: Blocks<'p>,
        mapped: bool,
    ) -> Option<Call<'p>> {
        let place = blocks.0;
        if let Some(refused) = self.begin_blocks(lane, place, block_of(blocks.2).1) {
            return Some(refused);
        }
        let key = lane.work.key;
        match self.next_within(lane, action, blocks) {
            Some((offset, count)) if mapped => Some(Call::MmapWrite { place, offset, count, key }),
            Some((offset, count)) => Some(Call::Write { place, offset, count, key }),
            None => self.end_blocks(lane, place),
        }
    }

    /// Reads blocks through a mapping, while nobody shrinks the file: that would be a fault of memory.
    pub(super) fn mmap_read(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        blocks: Blocks<'p>,
    ) -> Option<Call<'p>> {
        let place = blocks.0;
        if let Some(refused) = self.begin_blocks(lane, place, block_of(blocks.2).1) {
            return Some(refused);
        }
        match self.next_within(lane, action, blocks) {
            Some((offset, count)) => Some(Call::MmapRead { place, offset, count }),
            None => self.end_blocks(lane, place),
        }
    }

    /// Reads each block and writes it back.
    pub(super) fn rewrite(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        blocks: Blocks<'p>,
        result: u64,
    ) -> Option<Call<'p>> {
        let place = blocks.0;
        if let Some(refused) = self.begin_blocks(lane, place, block_of(blocks.2).1) {
            return Some(refused);
        }
        if lane.stage == 1 && self.shared {
            // What another job writes between reading and writing back would be lost.
            self.world.entries.set_known(lane.files[place]?.entry.inode, false);
        }
        if lane.stage == 2 && result > 0 {
            lane.stage = 3;
            let (offset, count) = (lane.work.offset, result);
            return Some(Call::WriteBack { place, offset, count });
        }
        lane.stage = 2;
        match self.next_within(lane, action, blocks) {
            Some((offset, count)) => Some(Call::Read { place, offset, count }),
            None => self.end_blocks(lane, place),
        }
    }

    fn end_blocks(&self, lane: &Lane, slot: Slot) -> Option<Call<'p>> {
        self.world.entries.end_write(lane.files[slot]?.entry.inode);
        None
    }

    /// Sets the size, or reserves space up to a size.
    pub(super) fn resize(
        &mut self,
        lane: &mut Lane,
        action: &'p Action<'p>,
        slot: Slot,
        truncate: bool,
    ) -> Option<Call<'p>> {
        let Some(file) = lane.files[slot] else { return Some(Call::Empty { place: slot }) };
        let inode = file.entry.inode;
        let entries = &self.world.entries;
        if lane.stage == 0 {
            if !entries.begin_exclusive(inode) {
                return Some(Call::Blocked);
            }
            lane.stage = 1;
            let size_bytes = action.sizes.as_ref().map_or(0, |sizes| sizes.draw(&mut self.rng));
            lane.work.end = size_bytes;
            if truncate {
                return Some(Call::Truncate { place: slot, size_bytes });
            }
            // Nothing cannot be reserved.
            lane.work.end = size_bytes.max(1);
            return Some(Call::Fallocate { place: slot, size_bytes: lane.work.end });
        }
        let before = entries.size(inode);
        if lane.work.end > before {
            // Zeros, not payload.
            entries.set_known(inode, false);
        }
        if truncate || lane.work.end > before {
            entries.set_size(inode, lane.work.end);
        }
        if lane.work.end == 0 {
            entries.set_known(inode, true);
        }
        entries.end_exclusive(inode);
        None
    }

    /// Punches a hole at a random multiple of its size.
    pub(super) fn punch(&mut self, lane: &mut Lane, slot: Slot, count: u64) -> Option<Call<'p>> {
        let first = lane.stage == 0;
        if let Some(refused) = self.begin_blocks(lane, slot, 0) {
            return Some(refused);
        }
        let inode = lane.files[slot]?.entry.inode;
        let entries = &self.world.entries;
        if !first {
            entries.end_write(inode);
            return None;
        }
        entries.set_known(inode, false);
        let offset = self.rng.below((entries.size(inode) / count).max(1)) * count;
        Some(Call::Punch { place: slot, offset, count })
    }
}

fn block_of(amount: &Amount) -> (u64, u64) {
    match *amount {
        Amount::Whole { block_bytes } => (block_bytes, 0),
        Amount::Blocks { block_bytes, count } => (block_bytes, count),
    }
}

fn aligned(bytes: u64, direct: bool) -> u64 {
    if direct { bytes.next_multiple_of(DIRECT_BYTES) } else { bytes }
}
