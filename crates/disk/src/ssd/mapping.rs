//! The mapping of a flash disk: units of 4 KiB to places in blocks, pages dealt to the dies in turn, and
//! on each die greedy cleaning: the closed block with the fewest valid units is moved and erased, a
//! little with every page that is written, so that it is done when its room is needed.

use super::SsdParams;

/// Bytes of a unit of the mapping.
pub(super) const UNIT_BYTES: u64 = 4096;
/// Blocks of a die that are kept free for cleaning, beyond over-provisioning.
const RESERVE: usize = 3;
/// Blocks that a die should have, so that what is cleaned can be chosen.
const LEAST_BLOCKS: u64 = 64;
/// Least pages of a block where blocks are made smaller for that.
const LEAST_PAGES: u64 = 16;

/// Sizes of all parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) pages_per_block: u64,
    units_per_page: u64,
    dies: usize,
    blocks_per_die: usize,
    logical_units: u64,
}

impl Shape {
    /// The shape for a disk of `size_bytes`. Where it is small, its blocks are smaller than the model's.
    pub(super) fn fit(params: &SsdParams, size_bytes: u64) -> Result<Shape, String> {
        let dies = params.dies();
        let logical_units = size_bytes.div_ceil(UNIT_BYTES);
        let units_per_page = params.page_bytes / UNIT_BYTES;
        let mut pages = params.pages_per_block;
        let blocks = |pages: u64| logical_units.div_ceil(dies * pages * units_per_page);
        while blocks(pages) < LEAST_BLOCKS && pages / 2 >= LEAST_PAGES {
            pages /= 2;
        }
        let with_spare = (blocks(pages) as f64 * (1.0 + params.over_provisioning)).ceil();
        if blocks(pages) < 4 {
            return Err(
                "the disk is too small for its number of dies: give a larger size".to_owned()
            );
        }
        let blocks_per_die = with_spare as usize + RESERVE;
        Ok(Shape {
            pages_per_block: pages,
            units_per_page,
            dies: dies as usize,
            blocks_per_die,
            logical_units,
        })
    }

    fn units_per_block(&self) -> usize {
        (self.pages_per_block * self.units_per_page) as usize
    }
}

/// Where a page was written and what cleaning that took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) die: usize,
    pub(super) page: u64,
    pub(super) moved_units: u64,
    pub(super) erased_blocks: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    valid: u32,
    written: u32,
}

#[derive(Debug)]
struct Die {
    blocks: Vec<Block>,
    free: Vec<usize>,
    open: usize,
    /// The block that is being cleaned, and the next unit of it.
    cleaned: Option<(usize, usize)>,
    valid: usize,
}

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Mapping {
    shape: Shape,
    /// Place of each logical unit, plus one; 0 where it was never written.
    places: Vec<u32>,
    /// Logical unit at each place, plus one; 0 where it is not valid.
    owners: Vec<u32>,
    dies: Vec<Die>,
    next_die: usize,
    moved_units: u64,
    erased_blocks: u64,
}

impl Mapping {
    pub(super) fn new(shape: Shape, is_filled: bool) -> Mapping {
        let blocks = shape.blocks_per_die;
        let die = || Die {
            blocks: vec![Block::default(); blocks],
            free: (1..blocks).rev().collect(),
            open: 0,
            cleaned: None,
            valid: 0,
        };
        let mut mapping = Mapping {
            places: vec![0; shape.logical_units as usize],
            owners: vec![0; shape.dies * blocks * shape.units_per_block()],
            dies: (0..shape.dies).map(|_| die()).collect(),
            shape,
            next_die: 0,
            moved_units: 0,
            erased_blocks: 0,
        };
        if is_filled {
            let units: Vec<u32> = (0..shape.logical_units as u32).collect();
            for page in units.chunks(shape.units_per_page as usize) {
                mapping.write_page(page);
            }
            (mapping.moved_units, mapping.erased_blocks) = (0, 0);
        }
        mapping
    }

    /// The page in which a logical unit lies.
    pub(super) fn page_of(&self, unit: u64) -> Option<u64> {
        let place = *self.places.get(unit as usize)?;
        (place > 0).then(|| u64::from(place - 1) / self.shape.units_per_page)
    }

    /// The die of a page.
    pub(super) fn die_of(&self, page: u64) -> usize {
        (page / (self.shape.blocks_per_die as u64 * self.shape.pages_per_block)) as usize
    }

    pub(super) fn moved_units(&self) -> u64 {
        self.moved_units
    }

    pub(super) fn erased_blocks(&self) -> u64 {
        self.erased_blocks
    }

    /// Forgets what a logical unit holds.
    pub(super) fn forget(&mut self, unit: u64) {
        let Some(place) = self.places.get_mut(unit as usize) else { return };
        let old = std::mem::take(place);
        self.invalidate(old);
    }

    fn invalidate(&mut self, place: u32) {
        let Some(place) = (place as usize).checked_sub(1) else { return };
        self.owners[place] = 0;
        let block = place / self.shape.units_per_block();
        let die = &mut self.dies[block / self.shape.blocks_per_die];
        die.blocks[block % self.shape.blocks_per_die].valid -= 1;
        die.valid -= 1;
    }

    /// Writes units as one page to the next die that has room, and cleans as much as that takes.
    pub(super) fn write_page(&mut self, units: &[u32]) -> Written {
        let die = self.choose_die();
        let mut written = Written { die, page: 0, moved_units: 0, erased_blocks: 0 };
        self.make_room(&mut written);
        for &unit in units {
            if unit as usize >= self.places.len() {
                continue;
            }
            let old = self.places[unit as usize];
            self.invalidate(old);
            let place = self.append(die, unit);
            written.page = place as u64 / self.shape.units_per_page;
        }
        // What a page does not hold is padding.
        let units_per_page = self.shape.units_per_page as u32;
        let open = self.dies[die].open;
        let block = &mut self.dies[die].blocks[open];
        block.written = block.written.next_multiple_of(units_per_page);
        self.clean(&mut written, units_per_page as usize);
        self.moved_units += written.moved_units;
        self.erased_blocks += written.erased_blocks;
        written
    }

    /// In turn; one that holds more than its share is left out until others have caught up.
    fn choose_die(&mut self) -> usize {
        let limit = (self.shape.blocks_per_die - RESERVE) * self.shape.units_per_block();
        let count = self.dies.len();
        let page = self.shape.units_per_page as usize;
        let turn = (0..count).map(|step| (self.next_die + step) % count);
        let die = turn.clone().find(|die| self.dies[*die].valid + page < limit);
        let die = die.or_else(|| turn.min_by_key(|die| self.dies[*die].valid)).unwrap_or(0);
        self.next_die = (die + 1) % count;
        die
    }

    fn append(&mut self, die: usize, unit: u32) -> usize {
        let per_block = self.shape.units_per_block();
        if self.dies[die].blocks[self.dies[die].open].written as usize >= per_block
            && let Some(next) = self.dies[die].free.pop()
        {
            self.dies[die].open = next;
        }
        let own = &mut self.dies[die];
        let block = &mut own.blocks[own.open];
        let place =
            (die * self.shape.blocks_per_die + own.open) * per_block + block.written as usize;
        block.written += 1;
        block.valid += 1;
        own.valid += 1;
        self.owners[place] = unit + 1;
        self.places[unit as usize] = place as u32 + 1;
        place
    }

    /// Cleans at once where the last free blocks would be used up.
    fn make_room(&mut self, written: &mut Written) {
        while self.dies[written.die].free.len() < 2 {
            let before = written.moved_units + written.erased_blocks;
            self.clean(written, usize::MAX);
            if written.moved_units + written.erased_blocks == before {
                return;
            }
        }
    }

    /// Cleans so much that a block is free again when `host_units` times the room it gives are written.
    fn clean(&mut self, written: &mut Written, host_units: usize) {
        let per_block = self.shape.units_per_block();
        let die = written.die;
        if self.dies[die].free.len() >= RESERVE && self.dies[die].cleaned.is_none() {
            return;
        }
        let Some((victim, mut cursor)) = self.dies[die].cleaned.or_else(|| self.victim(die)) else {
            return;
        };
        let valid = self.dies[die].blocks[victim].valid as usize;
        let gained = per_block - valid.min(per_block - 1);
        let share = host_units.saturating_mul(valid) / gained + 1;
        let mut moves = share.min(valid);
        let base = (die * self.shape.blocks_per_die + victim) * per_block;
        while moves > 0 && cursor < per_block {
            let owner = self.owners[base + cursor];
            if owner > 0 {
                self.invalidate((base + cursor + 1) as u32);
                self.append(die, owner - 1);
                written.moved_units += 1;
                moves -= 1;
            }
            cursor += 1;
        }
        let own = &mut self.dies[die];
        if own.blocks[victim].valid == 0 {
            own.blocks[victim] = Block::default();
            own.free.insert(0, victim);
            own.cleaned = None;
            written.erased_blocks += 1;
        } else {
            own.cleaned = Some((victim, cursor));
        }
    }

    /// The closed block with the fewest valid units, where cleaning it gains anything.
    fn victim(&self, die: usize) -> Option<(usize, usize)> {
        let own = &self.dies[die];
        let per_block = self.shape.units_per_block();
        let closed = own
            .blocks
            .iter()
            .enumerate()
            .filter(|(index, block)| *index != own.open && block.written as usize >= per_block);
        let best = closed.min_by_key(|(_, block)| block.valid)?;
        ((best.1.valid as usize) < per_block).then_some((best.0, 0))
    }
}
