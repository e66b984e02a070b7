//! One record of blktrace: where its fields are, in either order of bytes and in both versions, and what
//! its action says. Where records begin and end in a file is left to `stream`.

use fsdyno_model::trace::{Action, Flags, TraceEvent};

/// The three bytes of the magic number above the version.
const MAGIC: u32 = 0x0065_6174;
/// Records of 48 bytes.
pub(super) const VERSION_1: u8 = 7;
/// Records of 64 bytes whose action has 64 bits (Linux 6.19).
pub(super) const VERSION_2: u8 = 8;
/// Bytes of a record of version 7.
pub(super) const RECORD_BYTES: usize = 48;
/// Bytes of a record of version 8.
pub(super) const RECORD_2_BYTES: usize = 64;
/// Bytes that the `blk` tracer puts before a record: process, processor, time.
const CONTEXT_BYTES: usize = 16;

/// Low bits of an action that are its number; the bit above says that a control group is named.
pub(super) const ACTION_MASK: u64 = 0xff;
pub(super) const ACTION_CGROUP: u64 = 1 << 8;
/// Categories are above these bits.
pub(super) const CATEGORY_SHIFT: u32 = 16;

/// Categories.
pub(super) const READ: u64 = 1;
pub(super) const WRITE: u64 = 1 << 1;
pub(super) const FLUSH: u64 = 1 << 2;
pub(super) const SYNC: u64 = 1 << 3;
pub(super) const QUEUE: u64 = 1 << 4;
pub(super) const REQUEUE: u64 = 1 << 5;
pub(super) const ISSUE: u64 = 1 << 6;
pub(super) const COMPLETE: u64 = 1 << 7;
pub(super) const FILESYSTEM: u64 = 1 << 8;
const COMMAND: u64 = 1 << 9;
pub(super) const NOTIFY: u64 = 1 << 10;
pub(super) const READAHEAD: u64 = 1 << 11;
pub(super) const METADATA: u64 = 1 << 12;
pub(super) const DISCARD: u64 = 1 << 13;
pub(super) const FUA: u64 = 1 << 15;

/// Numbers of notifications.
pub(super) const NOTIFY_PROCESS: u64 = 0;
pub(super) const NOTIFY_TIMESTAMP: u64 = 1;

/// Actions by their number, and the category that the kernel gives them.
pub(super) const ACTIONS: [(u8, Action, u64); 15] = [
    (1, Action::Queue, QUEUE),
    (2, Action::BackMerge, QUEUE),
    (3, Action::FrontMerge, QUEUE),
    (4, Action::GetRequest, QUEUE),
    (5, Action::SleepRequest, QUEUE),
    (6, Action::Requeue, REQUEUE),
    (7, Action::Issue, ISSUE),
    (8, Action::Complete, COMPLETE),
    (9, Action::Plug, QUEUE),
    (10, Action::Unplug, QUEUE),
    (11, Action::UnplugTimer, QUEUE),
    (12, Action::Insert, QUEUE),
    (13, Action::Split, 0),
    (14, Action::Bounce, 0),
    (15, Action::Remap, QUEUE),
];

const ACTION_OF: [Action; 256] = {
    let mut table = [Action::Other; 256];
    let mut index = 0;
    while index < ACTIONS.len() {
        table[ACTIONS[index].0 as usize] = ACTIONS[index].1;
        index += 1;
    }
    table
};

/// How the records of a file are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The most significant byte comes first.
    pub big_endian: bool,
    /// The magic number's lowest byte.
    pub version: u8,
    /// Bytes before each record that belong to it.
    pub context_bytes: usize,
}

impl Layout {
    /// Bytes that [`detect`](Layout::detect) wants to see.
    pub(crate) const DETECT_BYTES: usize = CONTEXT_BYTES + 4;

    /// The layout of a file that starts with these bytes; `None` where they are no record.
    pub(crate) fn detect(bytes: &[u8]) -> Option<Layout> {
        [0, CONTEXT_BYTES].into_iter().find_map(|context_bytes| {
            let magic = *bytes.get(context_bytes..)?.first_chunk::<4>()?;
            let layout = |big_endian, number: u32| Layout {
                big_endian,
                version: number as u8,
                context_bytes,
            };
            let (little, big) = (u32::from_le_bytes(magic), u32::from_be_bytes(magic));
            if little >> 8 == MAGIC {
                return Some(layout(false, little));
            }
            (big >> 8 == MAGIC).then(|| layout(true, big))
        })
    }

    /// Whether records of this version can be read.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self.version, VERSION_1 | VERSION_2)
    }

    /// The first bytes of a record, behind its context.
    pub(super) fn magic(&self) -> [u8; 4] {
        let number = MAGIC << 8 | u32::from(self.version);
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    /// Bytes of a record with its context, without what follows.
    pub(super) fn record_bytes(&self) -> usize {
        let record = if self.version == VERSION_2 { RECORD_2_BYTES } else { RECORD_BYTES };
        self.context_bytes + record
    }
}

/// A record, of 48 bytes or of 64.
#[derive(Clone, Copy)]
pub(super) struct Record<'b, const BIG: bool, const BYTES: usize>(pub &'b [u8; BYTES]);

impl<const BIG: bool, const BYTES: usize> Record<'_, BIG, BYTES> {
    const V2: bool = BYTES == RECORD_2_BYTES;

    #[inline(always)]
    fn u16(self, at: usize) -> u16 {
        let bytes = [self.0[at], self.0[at + 1]];
        if BIG { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    #[inline(always)]
    fn u32(self, at: usize) -> u32 {
        number_32::<BIG>(self.0, at)
    }

    #[inline(always)]
    fn u64(self, at: usize) -> u64 {
        let bytes = std::array::from_fn(|index| self.0[at + index]);
        if BIG { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
    }

    #[inline(always)]
    pub(super) fn time_ns(self) -> u64 {
        self.u64(8)
    }

    #[inline(always)]
    pub(super) fn action(self) -> u64 {
        if Self::V2 { self.u64(32) } else { u64::from(self.u32(28)) }
    }

    #[inline(always)]
    pub(super) fn pid(self) -> u32 {
        if Self::V2 { self.u32(28) } else { self.u32(32) }
    }

    #[inline(always)]
    pub(super) fn pdu_bytes(self) -> usize {
        usize::from(self.u16(if Self::V2 { 50 } else { 46 }))
    }

    /// The event, with the process's number in place of its index.
    #[inline(always)]
    pub(super) fn event(self) -> TraceEvent {
        let action = self.action();
        let categories = action >> CATEGORY_SHIFT;
        let mut kind = ACTION_OF[(action & ACTION_MASK) as usize];
        // A command of a program to the device says nothing of sectors.
        if categories & COMMAND != 0 {
            kind = Action::Other;
        }
        let failed = kind == Action::Complete && self.u16(if Self::V2 { 48 } else { 44 }) != 0;
        let error = u16::from(failed) * Flags::ERROR.0;
        let flags = flags_of(categories).with(Flags(error));
        TraceEvent {
            time_ns: self.time_ns(),
            sector: self.u64(16),
            sectors: self.u32(24) >> 9,
            device: if Self::V2 { self.u32(40) } else { self.u32(36) },
            process: self.pid(),
            flags,
            action: kind,
        }
    }
}

/// Four bytes as a number.
#[inline(always)]
pub(super) fn number_32<const BIG: bool>(bytes: &[u8], at: usize) -> u32 {
    let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    if BIG { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

/// What the categories say of a request. The kernel calls a discard a write; nothing is written.
#[inline(always)]
fn flags_of(categories: u64) -> Flags {
    let low = FLAGS_OF[0][(categories & 0xff) as usize];
    let bits = low | FLAGS_OF[1][(categories >> 8 & 0xff) as usize];
    let is_discard = bits >> Flags::DISCARD.0.trailing_zeros() & 1;
    Flags(u16::from(bits & !(is_discard << Flags::WRITE.0.trailing_zeros())))
}

/// Flags by the lower and by the upper byte of the categories.
static FLAGS_OF: [[u8; 256]; 2] = {
    let pairs = [
        (WRITE, Flags::WRITE),
        (DISCARD, Flags::DISCARD),
        (FLUSH, Flags::FLUSH),
        (FUA, Flags::FUA),
        (SYNC, Flags::SYNC),
        (METADATA, Flags::METADATA),
        (READAHEAD, Flags::READAHEAD),
    ];
    let mut table = [[0; 256]; 2];
    let mut index = 0;
    while index < 512 {
        let (half, byte) = (index / 256, index % 256);
        let categories = (byte as u64) << (8 * half);
        let mut pair = 0;
        while pair < pairs.len() {
            if categories & pairs[pair].0 != 0 {
                table[half][byte] |= pairs[pair].1.0 as u8;
            }
            pair += 1;
        }
        index += 1;
    }
    table
};

/// The categories of a request, as the kernel gives them.
pub(super) fn categories_of(flags: Flags) -> u64 {
    let has = |flag: Flags, category: u64| if flags.contains(flag) { category } else { 0 };
    let is_write = flags.contains(Flags::WRITE) || flags.contains(Flags::DISCARD);
    (if is_write { WRITE } else { READ })
        | has(Flags::DISCARD, DISCARD)
        | has(Flags::FLUSH, FLUSH)
        | has(Flags::FUA, FUA)
        | has(Flags::SYNC, SYNC)
        | has(Flags::METADATA, METADATA)
        | has(Flags::READAHEAD, READAHEAD)
        | FILESYSTEM
}
