//! What surrounds the payloads of a stored trace: the file's first and last bytes and the header of a
//! chunk, with its checksums. What is inside is left to `known` and `columns`.

use xxhash_rust::xxh3::xxh3_64;

use super::{CHUNK_EVENTS, PAYLOAD_BYTES_MAX};

pub(super) const MAGIC: [u8; 8] = *b"fstrace\n";
pub(super) const VERSION: u32 = 1;
/// Bytes before the first chunk.
pub(super) const START_BYTES: usize = 16;
pub(super) const END_MAGIC: [u8; 8] = *b"fstrend\n";
/// Bytes behind the trailer.
pub(super) const END_BYTES: usize = 16;
/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 32;
/// No payload gets longer by being compressed than this.
pub(super) const STORED_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + PAYLOAD_BYTES_MAX / 128;

/// Whether a file that starts with these bytes is a stored trace.
pub(crate) fn is_ours(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// The first bytes of a file.
pub(super) fn start() -> [u8; START_BYTES] {
    let mut bytes = [0; START_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The last bytes of a file whose trailer begins at `offset_bytes`.
pub(super) fn end(offset_bytes: u64) -> [u8; END_BYTES] {
    let mut bytes = [0; END_BYTES];
    bytes[..8].copy_from_slice(&offset_bytes.to_le_bytes());
    bytes[8..].copy_from_slice(&END_MAGIC);
    bytes
}

/// What a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Chunk,
    Trailer,
}

impl Kind {
    const fn code(self) -> [u8; 4] {
        match self {
            Kind::Chunk => *b"CHNK",
            Kind::Trailer => *b"TAIL",
        }
    }
}

/// What is said of a payload before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub events: usize,
    pub payload_bytes: usize,
    pub stored_bytes: usize,
    pub checksum: u64,
}

impl Header {
    /// The header of `stored`, which is what `payload_bytes` were compressed to.
    pub(super) fn of(kind: Kind, events: usize, payload_bytes: usize, stored: &[u8]) -> Header {
        let stored_bytes = stored.len();
        Header { kind, events, payload_bytes, stored_bytes, checksum: xxh3_64(stored) }
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.kind.code());
        bytes[4..8].copy_from_slice(&(self.events as u32).to_le_bytes());
        bytes[8..12].copy_from_slice(&(self.payload_bytes as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.stored_bytes as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = xxh3_64(&bytes[..24]);
        bytes[24..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header at the front of `bytes`; `None` where there is none or it is damaged.
    pub(super) fn parse(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.first_chunk::<HEADER_BYTES>()?;
        let kind = match &bytes[..4] {
            b"CHNK" => Kind::Chunk,
            b"TAIL" => Kind::Trailer,
            _ => return None,
        };
        let size = |at: usize| number(&bytes[at..at + 4]) as usize;
        let header = Header {
            kind,
            events: size(4),
            payload_bytes: size(8),
            stored_bytes: size(12),
            checksum: number(&bytes[16..24]),
        };
        let plausible = header.events <= CHUNK_EVENTS
            && header.payload_bytes <= PAYLOAD_BYTES_MAX
            && header.stored_bytes <= STORED_BYTES_MAX;
        (plausible && xxh3_64(&bytes[..24]) == number(&bytes[24..])).then_some(header)
    }

    /// Whether `stored` is what the header was made for.
    pub(super) fn fits(&self, stored: &[u8]) -> bool {
        stored.len() == self.stored_bytes && xxh3_64(stored) == self.checksum
    }
}

/// The whole number in up to eight bytes, the least first.
pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}
