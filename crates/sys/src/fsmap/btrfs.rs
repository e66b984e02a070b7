//! The free space of btrfs: what its free space tree says within block groups, and what its devices
//! have outside of them. Read by `BTRFS_IOC_TREE_SEARCH_V2` (`linux/btrfs.h`, `linux/btrfs_tree.h`);
//! all other trees are left alone.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, opcode};

use crate::calls::CallResult;

const CHUNK_TREE: u64 = 3;
const DEVICE_TREE: u64 = 4;
const FREE_SPACE_TREE: u64 = 10;

const FREE_SPACE_INFO: u32 = 198;
const FREE_SPACE_EXTENT: u32 = 199;
const FREE_SPACE_BITMAP: u32 = 200;
const DEVICE_EXTENT: u32 = 204;
const DEVICE_ITEM: u32 = 216;
/// Under this object the chunk tree keeps the devices.
const DEVICES: u64 = 1;
/// The start of each device, of which btrfs makes no block groups.
const RESERVED_BYTES: u64 = 1 << 20;

/// Room for found items; one of a free space tree has at most 256 bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// `struct btrfs_ioctl_search_header`: transid, objectid, offset (64 bits), type, length (32 bits).
const ITEM_HEADER_BYTES: usize = 32;

/// `struct btrfs_ioctl_search_args_v2` with its buffer.
#[repr(C)]
struct RawSearch {
    tree: u64,
    min_object: u64,
    max_object: u64,
    min_offset: u64,
    max_offset: u64,
    min_transaction: u64,
    max_transaction: u64,
    min_kind: u32,
    max_kind: u32,
    item_count: u32,
    unused: u32,
    unused64: [u64; 4],
    buffer_size: u64,
    buffer: [u8; BUFFER_BYTES],
}

const HEADER_BYTES: usize = std::mem::offset_of!(RawSearch, buffer);
const BTRFS_IOC_TREE_SEARCH_V2: Opcode = opcode::read_write::<[u8; HEADER_BYTES]>(0x94, 17);

/// Place of an item in its tree; trees are sorted by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    object: u64,
    kind: u32,
    offset: u64,
}

impl Key {
    /// The next one in order; `None` after the last.
    fn next(self) -> Option<Key> {
        let Key { object, kind, offset } = self;
        if let Some(offset) = offset.checked_add(1) {
            return Some(Key { offset, ..self });
        }
        // On disk the kind has 8 bits.
        if kind < 255 {
            return Some(Key { object, kind: kind + 1, offset: 0 });
        }
        Some(Key { object: object.checked_add(1)?, kind: 0, offset: 0 })
    }
}

/// As [`super::visit_free_extents`], on btrfs with blocks of `block_size_bytes`.
pub(super) fn visit_free_extents(
    fd: BorrowedFd<'_>,
    block_size_bytes: u64,
    visit: impl FnMut(u64, u64),
) -> CallResult<()> {
    if block_size_bytes == 0 {
        return Err(Errno::INVAL);
    }
    let mut search = Search::new(fd);
    let mut runs = Runs { visit, run: None };
    let all = (
        Key { object: 0, kind: 0, offset: 0 },
        Key { object: u64::MAX, kind: 255, offset: u64::MAX },
    );
    let searched = search.visit(FREE_SPACE_TREE, all, |key, item| match key.kind {
        FREE_SPACE_INFO => runs.flush(),
        FREE_SPACE_EXTENT => runs.add(key.object, key.offset),
        FREE_SPACE_BITMAP => add_bitmap(&mut runs, key, item, block_size_bytes),
        _ => {}
    });
    match searched {
        // There is no such tree.
        Err(Errno::NOENT | Errno::NOTTY) => return Err(Errno::OPNOTSUPP),
        other => other?,
    }
    runs.flush();
    visit_unallocated(&mut search, &mut runs)
}

/// What belongs to no block group.
fn visit_unallocated(
    search: &mut Search<'_>,
    runs: &mut Runs<impl FnMut(u64, u64)>,
) -> CallResult<()> {
    let mut devices: Vec<(u64, u64)> = Vec::new();
    let range =
        |object, kind| (Key { object, kind, offset: 0 }, Key { object, kind, offset: u64::MAX });
    search.visit(CHUNK_TREE, range(DEVICES, DEVICE_ITEM), |key, item| {
        if let (DEVICE_ITEM, Some(number), Some(size)) =
            (key.kind, le_u64(item, 0), le_u64(item, 8))
        {
            devices.push((number, size));
        }
    })?;
    for (number, size_bytes) in devices {
        let mut end_bytes = RESERVED_BYTES;
        search.visit(DEVICE_TREE, range(number, DEVICE_EXTENT), |key, item| {
            if let (DEVICE_EXTENT, Some(length)) = (key.kind, le_u64(item, 24)) {
                runs.add(end_bytes, key.offset.saturating_sub(end_bytes));
                end_bytes = end_bytes.max(key.offset.saturating_add(length));
            }
        })?;
        runs.add(end_bytes, size_bytes.saturating_sub(end_bytes));
        runs.flush();
    }
    Ok(())
}

/// Each bit is a block, 1 where it is free, the lowest bit of the first byte first.
fn add_bitmap(runs: &mut Runs<impl FnMut(u64, u64)>, key: Key, item: &[u8], block_size_bytes: u64) {
    let bit_count = (key.offset / block_size_bytes).min(item.len() as u64 * 8);
    for bit in 0..bit_count {
        if item[(bit / 8) as usize] >> (bit % 8) & 1 != 0 {
            runs.add(key.object + bit * block_size_bytes, block_size_bytes);
        }
    }
}

/// Joins pieces that touch each other.
struct Runs<F> {
    visit: F,
    /// Start and length in bytes.
    run: Option<(u64, u64)>,
}

impl<F: FnMut(u64, u64)> Runs<F> {
    fn add(&mut self, start_bytes: u64, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        match &mut self.run {
            Some((start, length)) if *start + *length == start_bytes => *length += length_bytes,
            _ => {
                self.flush();
                self.run = Some((start_bytes, length_bytes));
            }
        }
    }

    /// Nothing that follows belongs to what came.
    fn flush(&mut self) {
        if let Some((start, length)) = self.run.take() {
            (self.visit)(start, length);
        }
    }
}

struct Search<'a> {
    fd: BorrowedFd<'a>,
    raw: Box<RawSearch>,
}

impl<'a> Search<'a> {
    fn new(fd: BorrowedFd<'a>) -> Self {
        let raw = RawSearch {
            tree: 0,
            min_object: 0,
            max_object: 0,
            min_offset: 0,
            max_offset: 0,
            min_transaction: 0,
            max_transaction: u64::MAX,
            min_kind: 0,
            max_kind: 0,
            item_count: 0,
            unused: 0,
            unused64: [0; 4],
            buffer_size: 0,
            buffer: [0; BUFFER_BYTES],
        };
        Self { fd, raw: Box::new(raw) }
    }

    /// Calls `visit` with the key and the contents of each item of `tree` from the first key to the
    /// last one.
    fn visit(
        &mut self,
        tree: u64,
        (first, last): (Key, Key),
        mut visit: impl FnMut(Key, &[u8]),
    ) -> CallResult<()> {
        let mut from = Some(first);
        while let Some(first) = from.filter(|first| *first <= last) {
            self.ask(tree, first, last)?;
            let mut end = None;
            for_each_item(&self.raw.buffer, self.raw.item_count, |key, item| {
                end = Some(key);
                visit(key, item);
            });
            from = end.and_then(Key::next);
        }
        Ok(())
    }

    fn ask(&mut self, tree: u64, first: Key, last: Key) -> CallResult<()> {
        let raw = &mut *self.raw;
        raw.tree = tree;
        (raw.min_object, raw.min_kind, raw.min_offset) = (first.object, first.kind, first.offset);
        (raw.max_object, raw.max_kind, raw.max_offset) = (last.object, last.kind, last.offset);
        raw.item_count = u32::MAX;
        raw.buffer_size = BUFFER_BYTES as u64;
        // SAFETY: BTRFS_IOC_TREE_SEARCH_V2 reads and writes one `struct btrfs_ioctl_search_args_v2`,
        // whose layout `RawSearch` has, and writes at most `buffer_size` bytes behind it, for which
        // there is room; all fields are integers.
        let request = unsafe { ioctl::Updater::<BTRFS_IOC_TREE_SEARCH_V2, RawSearch>::new(raw) };
        // SAFETY: as above.
        unsafe { ioctl::ioctl(self.fd, request) }
    }
}

/// Takes found items apart: headers in the order of the machine, at any address.
fn for_each_item(buffer: &[u8], item_count: u32, mut visit: impl FnMut(Key, &[u8])) {
    let mut rest = buffer;
    for _ in 0..item_count {
        let Some((header, behind)) = rest.split_first_chunk::<ITEM_HEADER_BYTES>() else { return };
        let (words, numbers) = header.as_chunks::<8>();
        debug_assert!(numbers.is_empty(), "the header is four words long");
        let word = |index: usize| u64::from_ne_bytes(words[index]);
        let (kinds, _) = words[3].as_chunks::<4>();
        let (kind, length) = (u32::from_ne_bytes(kinds[0]), u32::from_ne_bytes(kinds[1]));
        let Some((item, next)) = behind.split_at_checked(length as usize) else { return };
        visit(Key { object: word(1), kind, offset: word(2) }, item);
        rest = next;
    }
}

/// Contents of items are little-endian.
fn le_u64(item: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*item.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn runs_of(pieces: impl FnOnce(&mut Runs<&mut dyn FnMut(u64, u64)>)) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        let mut visit = |start, length| found.push((start, length));
        let mut runs = Runs { visit: &mut visit as &mut dyn FnMut(u64, u64), run: None };
        pieces(&mut runs);
        runs.flush();
        found
    }

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!(HEADER_BYTES, 112);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(BTRFS_IOC_TREE_SEARCH_V2 as u64, 0xc070_9411);
    }

    #[test]
    fn bitmaps_become_runs_across_their_items() {
        let key = |object| Key { object, kind: FREE_SPACE_BITMAP, offset: 16 * BLOCK };
        let found = runs_of(|runs| {
            add_bitmap(runs, key(0), &[0b0000_0110, 0b1000_0001], BLOCK);
            add_bitmap(runs, key(16 * BLOCK), &[0b0000_0001, 0b0100_0000], BLOCK);
            // The next block group touches, but is another one.
            runs.flush();
            add_bitmap(runs, key(31 * BLOCK), &[0b0000_0001, 0], BLOCK);
        });
        let blocks: Vec<_> =
            found.iter().map(|(start, length)| (start / BLOCK, length / BLOCK)).collect();
        assert_eq!(blocks, [(1, 2), (8, 1), (15, 2), (30, 1), (31, 1)]);
    }

    #[test]
    fn a_bitmap_ends_with_its_block_group() {
        let key = Key { object: 0, kind: FREE_SPACE_BITMAP, offset: 4 * BLOCK };
        assert_eq!(runs_of(|runs| add_bitmap(runs, key, &[0xff], BLOCK)), [(0, 4 * BLOCK)]);
        let short = Key { offset: 100 * BLOCK, ..key };
        assert_eq!(runs_of(|runs| add_bitmap(runs, short, &[0xff], BLOCK)), [(0, 8 * BLOCK)]);
    }

    #[test]
    fn found_items_are_taken_apart_and_broken_ones_end_it() {
        let mut buffer = Vec::new();
        for (object, kind, offset, item) in [(7u64, 199u32, 9u64, &b""[..]), (8, 216, 1, b"abc")] {
            for word in [1, object, offset] {
                buffer.extend(word.to_ne_bytes());
            }
            buffer.extend(kind.to_ne_bytes());
            buffer.extend((item.len() as u32).to_ne_bytes());
            buffer.extend(item);
        }
        let mut found = Vec::new();
        for_each_item(&buffer, 5, |key, item| found.push((key, item.to_vec())));
        let expected = [
            (Key { object: 7, kind: 199, offset: 9 }, vec![]),
            (Key { object: 8, kind: 216, offset: 1 }, b"abc".to_vec()),
        ];
        assert_eq!(found, expected);
        for cut in 0..buffer.len() {
            let mut count = 0;
            for_each_item(&buffer[..cut], 5, |_, _| count += 1);
            assert!(count < 2, "{cut}");
        }
    }

    #[test]
    fn keys_go_on_in_order() {
        let key = |object, kind, offset| Key { object, kind, offset };
        for (from, next) in [
            (key(1, 2, 3), Some(key(1, 2, 4))),
            (key(1, 2, u64::MAX), Some(key(1, 3, 0))),
            (key(1, 255, u64::MAX), Some(key(2, 0, 0))),
            (key(u64::MAX, 255, u64::MAX), None),
        ] {
            assert_eq!(from.next(), next);
        }
    }
}
