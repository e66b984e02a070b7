//! Archives in the format of tar, plain or compressed by gzip, zstd or xz: opened by path, told apart
//! by their first bytes, listed and extracted. Where an archive comes from is left to the workloads.
//!
//! | module | holds |
//! |---|---|
//! | `stream` | the decompressed bytes, read ahead by a thread of its own |
//! | `entries` | the entries, with their names checked |
//! | `extract` | entries become files below a directory |
//! | `directories` | the chain of open directories that a name leads through |
//! | `attributes` | modes and times |

mod attributes;
mod directories;
mod entries;
mod extract;
mod stream;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use attributes::Attributes;
pub use entries::{BLOCK_BYTES, Entries, Entry, EntryKind, EntryName, Survey};
pub use extract::{ExtractOptions, Extracted, extract};

use crate::failure::check_interrupt;

/// Bytes at the beginning of a file that tell its format: one block of a tar archive.
const HEAD_BYTES: usize = 512;
/// Bytes read at a time to bring an archive into memory.
const PRELOAD_BYTES: usize = 1 << 20;

/// How the bytes of an archive are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// Gzip, RFC 1952, one member or several.
    Gzip,
    /// Zstandard, RFC 8878, one frame or several.
    Zstd,
    /// The .xz container, one stream or several.
    Xz,
}

impl Compression {
    /// All of them.
    pub const ALL: [Compression; 4] =
        [Compression::None, Compression::Gzip, Compression::Zstd, Compression::Xz];

    /// `tar`, `tar.gz`, `tar.zst` or `tar.xz`.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Compression::None => "tar",
            Compression::Gzip => "tar.gz",
            Compression::Zstd => "tar.zst",
            Compression::Xz => "tar.xz",
        }
    }

    /// What the first 512 bytes of a file (fewer where it is shorter) say; `None` when they are the
    /// beginning of no known archive. The name of a file says nothing.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Compression> {
        // Skippable frames of zstd have 16 magic numbers, 0x184D2A50 … 5F, little-endian.
        let is_skippable =
            matches!(head, [low, 0x2a, 0x4d, 0x18, ..] if (0x50..=0x5f).contains(low));
        if head.starts_with(&[0x1f, 0x8b]) {
            Some(Compression::Gzip)
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable {
            Some(Compression::Zstd)
        } else if head.starts_with(b"\xfd7zXZ\0") {
            Some(Compression::Xz)
        } else {
            is_tar_block(head).then_some(Compression::None)
        }
    }
}

/// Whether `block` is a header of any dialect of tar, or the block of zeros of an archive without
/// entries. Headers from before POSIX have no magic number, but all have a checksum.
fn is_tar_block(block: &[u8]) -> bool {
    let Ok(block) = <&[u8; HEAD_BYTES]>::try_from(block) else { return false };
    if block.iter().all(|byte| *byte == 0) {
        return true;
    }
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    let field: u32 = block[148..156].iter().map(|byte| u32::from(*byte)).sum();
    let expected = sum - field + 8 * u32::from(b' ');
    tar::Header::from_byte_slice(block).cksum().is_ok_and(|found| found == expected)
}

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be opened or read.
    #[error("{call} {}: {source}", path.display())]
    Io {
        /// `open` or `read`.
        call: &'static str,
        /// The archive.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error(
        "{} is no archive: it begins neither as tar nor as tar compressed by gzip, zstd or xz",
        path.display()
    )]
    NotAnArchive {
        /// The file.
        path: PathBuf,
    },
    /// The bytes are not those of a whole archive.
    #[error(
        "{} is damaged or cut short at byte {offset_bytes} of its decompressed bytes, {}: {reason}",
        path.display(),
        where_in(entry)
    )]
    Damaged {
        /// The archive.
        path: PathBuf,
        /// The entry that was begun last; empty before the first.
        entry: String,
        /// Place in the decompressed bytes.
        offset_bytes: u64,
        /// What is wrong there.
        reason: String,
    },
    /// An entry asks for what is never done.
    #[error(
        "{}: entry `{entry}` at byte {offset_bytes} of the decompressed bytes is refused: {reason}",
        path.display()
    )]
    Refused {
        /// The archive.
        path: PathBuf,
        /// The entry.
        entry: String,
        /// Place of its header in the decompressed bytes.
        offset_bytes: u64,
        /// Why.
        reason: String,
    },
}

fn where_in(entry: &str) -> String {
    if entry.is_empty() { "before any entry".to_owned() } else { format!("in or after `{entry}`") }
}

/// An archive that can be read, any number of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    path: PathBuf,
    compression: Compression,
    size_bytes: u64,
}

impl Archive {
    /// Looks at the file at `path`.
    ///
    /// # Errors
    /// It cannot be read or is no archive; what follows its first block is not looked at.
    pub fn open(path: &Path) -> Result<Archive, ArchiveError> {
        let failed = |call| move |source| ArchiveError::Io { call, path: path.to_owned(), source };
        let file = File::open(path).map_err(failed("open"))?;
        let found = file.metadata().map_err(failed("stat"))?;
        if !found.is_file() {
            let source = io::Error::other("not a regular file");
            return Err(failed("open")(source));
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(failed("read"))?;
        match Compression::detect(&head) {
            Some(compression) => {
                Ok(Archive { path: path.to_owned(), compression, size_bytes: found.len() })
            }
            None => Err(ArchiveError::NotAnArchive { path: path.to_owned() }),
        }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it is compressed.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes of the file as it lies there, compressed.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads all of the file once, so that the page cache holds it as far as memory allows and its
    /// disk does not count in what is timed afterwards. Tells `advance` the bytes of each step.
    ///
    /// # Errors
    /// It cannot be read, or a signal asked to stop.
    pub fn preload(&self, mut advance: impl FnMut(u64)) -> anyhow::Result<()> {
        let failed =
            |call| move |source| ArchiveError::Io { call, path: self.path.clone(), source };
        let mut file = File::open(&self.path).map_err(failed("open"))?;
        let mut buffer = vec![0; PRELOAD_BYTES];
        loop {
            check_interrupt()?;
            match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => advance(count as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("read")(error).into()),
            }
        }
    }

    /// Gives `body` the entries in their order. Bytes are read, and decompressed, ahead of it.
    ///
    /// # Errors
    /// That of `body`; or, when it has seen the last entry, that the bytes behind it are damaged.
    pub fn read<T>(
        &self,
        body: impl FnOnce(&mut Entries<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        entries::read(self, body)
    }

    /// Goes through the whole archive and counts what it holds.
    ///
    /// # Errors
    /// It is damaged, or a signal asked to stop.
    pub fn survey(&self) -> anyhow::Result<Survey> {
        entries::survey(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_format() {
        let mut header = tar::Header::new_old();
        header.set_path("name").unwrap();
        header.set_size(3);
        header.set_cksum();
        let mut broken = *header.as_bytes();
        broken[0] ^= 1;
        let cases: [(&[u8], Option<Compression>); 12] = [
            (b"\x1f\x8b\x08", Some(Compression::Gzip)),
            (b"\x28\xb5\x2f\xfd\x04", Some(Compression::Zstd)),
            (b"\x53\x2a\x4d\x18\0", Some(Compression::Zstd)),
            (b"\x63\x2a\x4d\x18\0", None),
            (b"\xfd7zXZ\0\0", Some(Compression::Xz)),
            (b"\xfd7zX", None),
            (header.as_bytes(), Some(Compression::None)),
            (&broken, None),
            (&header.as_bytes()[..511], None),
            (&[0; 512], Some(Compression::None)),
            (b"PK\x03\x04", None),
            (b"", None),
        ];
        for (head, expected) in cases {
            assert_eq!(Compression::detect(head), expected, "{:?}", &head[..head.len().min(8)]);
        }
    }
}
