//! The entries of an archive in their order, their names checked, their bytes counted. What becomes
//! of them is left to whoever asks.

use std::io::{self, Read};
use std::rc::Rc;

use super::stream::{Meter, Stream};
use super::{Archive, ArchiveError, Compression};
use crate::failure::check_interrupt;

/// What a file or directory takes is rounded up to this in [`Survey::rounded_bytes`].
pub const BLOCK_BYTES: u64 = 4096;
/// Most bytes of headers before the contents of one entry: names, attributes and lists of holes. They
/// are held in memory, and a compressed archive of a few bytes can claim any number.
const HEADER_BYTES: u64 = 16 << 20;
/// Bytes read at a time where contents are thrown away.
const DISCARD_BYTES: usize = 64 << 10;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file; its holes, if the archive knows of any, read as zeros.
    File,
    /// A directory.
    Directory,
    /// A further name for an earlier entry.
    HardLink,
    /// A symbolic link.
    Symlink,
    /// A device, a pipe, or something that only one program knows: never made.
    Other,
}

/// The name of an entry as a chain of directory names, each checked: not absolute, no `..`.
#[derive(Debug, Default)]
pub struct EntryName {
    /// Components, each ended with NUL.
    bytes: Vec<u8>,
    /// Where each component begins.
    starts: Vec<usize>,
}

impl EntryName {
    /// Takes `raw` apart and leaves out the first `strip_components` directories.
    ///
    /// # Errors
    /// Why the name is refused.
    pub fn set(&mut self, raw: &[u8], strip_components: u64) -> Result<(), &'static str> {
        self.bytes.clear();
        self.starts.clear();
        if raw.starts_with(b"/") {
            return Err("its path is absolute");
        }
        if raw.contains(&0) {
            return Err("its path holds a NUL byte");
        }
        let mut to_strip = strip_components;
        for part in raw.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err("its path leads upwards (`..`)"),
                _ if to_strip > 0 => to_strip -= 1,
                _ => {
                    self.starts.push(self.bytes.len());
                    self.bytes.extend_from_slice(part);
                    self.bytes.push(0);
                }
            }
        }
        Ok(())
    }

    /// Count of components; 0 when nothing is left, as of `./`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// The component `index`.
    #[must_use]
    pub fn component(&self, index: usize) -> &std::ffi::CStr {
        std::ffi::CStr::from_bytes_until_nul(&self.bytes[self.starts[index]..])
            .expect("every component ends with NUL")
    }

    /// The whole, with slashes.
    #[must_use]
    pub fn to_text(&self) -> String {
        let parts = (0..self.len()).map(|index| self.component(index).to_string_lossy());
        parts.collect::<Vec<_>>().join("/")
    }

    /// The whole as bytes, with slashes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut path = self.bytes.clone();
        path.pop();
        path.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'/');
        path
    }
}

/// What an archive holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Survey {
    /// Regular files.
    pub files: u64,
    /// Entries for directories; an archive may leave them out.
    pub directories: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and the like, which are never made.
    pub skipped: u64,
    /// Bytes in regular files.
    pub content_bytes: u64,
    /// The same, each file, directory and link rounded up to [`BLOCK_BYTES`].
    pub rounded_bytes: u64,
}

/// The entries of an archive that is being read.
pub struct Entries<'a> {
    archive: &'a Archive,
    inner: tar::Entries<'a, Stream>,
    meter: Rc<Meter>,
    /// Name of the entry that was begun last, for errors.
    name: Vec<u8>,
    /// Bytes of its contents that were not read yet.
    unread_bytes: u64,
    is_done: bool,
}

/// One entry; its contents can be read once.
pub struct Entry<'e, 'a> {
    inner: tar::Entry<'a, Stream>,
    entries: &'e mut Entries<'a>,
    kind: EntryKind,
    offset_bytes: u64,
}

pub(super) fn read<T>(
    archive: &Archive,
    body: impl FnOnce(&mut Entries<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let started = Stream::start(archive, scope);
        let stream = started.map_err(|source| ArchiveError::Io {
            call: "open",
            path: archive.path().to_owned(),
            source,
        })?;
        let meter = stream.meter();
        let mut tar = tar::Archive::new(stream);
        let damaged = |name: &[u8], reason: &io::Error| damaged(archive, name, &meter, reason);
        let inner = tar.entries().map_err(|error| damaged(b"", &error))?;
        let mut entries = Entries {
            archive,
            inner,
            meter: Rc::clone(&meter),
            name: Vec::new(),
            unread_bytes: 0,
            is_done: false,
        };
        let result = body(&mut entries)?;
        let Entries { name, is_done, .. } = entries;
        if is_done && archive.compression() != Compression::None {
            // What follows is padding; but the checksum of the whole comes after it.
            let mut stream = tar.into_inner();
            meter.allowed_bytes.set(u64::MAX);
            let mut buffer = vec![0; DISCARD_BYTES];
            loop {
                check_interrupt()?;
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) => return Err(damaged(&name, &error).into()),
                }
            }
        }
        Ok(result)
    })
}

pub(super) fn survey(archive: &Archive) -> anyhow::Result<Survey> {
    archive.read(|entries| {
        let mut found = Survey::default();
        let mut buffer = vec![0; DISCARD_BYTES];
        while let Some(mut entry) = entries.next_entry()? {
            check_interrupt()?;
            let count = match entry.kind() {
                EntryKind::File => &mut found.files,
                EntryKind::Directory => &mut found.directories,
                EntryKind::HardLink => &mut found.hard_links,
                EntryKind::Symlink => &mut found.symlinks,
                EntryKind::Other => &mut found.skipped,
            };
            *count += 1;
            match entry.kind() {
                EntryKind::File => {
                    let size_bytes = entry.size_bytes();
                    // Not stated but read: what is not there cannot be counted.
                    while entry.read(&mut buffer)? > 0 {
                        check_interrupt()?;
                    }
                    found.content_bytes = found.content_bytes.saturating_add(size_bytes);
                    let rounded = size_bytes.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
                    found.rounded_bytes = found.rounded_bytes.saturating_add(rounded);
                }
                EntryKind::Directory | EntryKind::Symlink => {
                    found.rounded_bytes = found.rounded_bytes.saturating_add(BLOCK_BYTES);
                }
                EntryKind::HardLink | EntryKind::Other => {}
            }
        }
        Ok(found)
    })
}

#[cold]
fn damaged(archive: &Archive, name: &[u8], meter: &Meter, error: &io::Error) -> ArchiveError {
    ArchiveError::Damaged {
        path: archive.path().to_owned(),
        entry: String::from_utf8_lossy(name).into_owned(),
        offset_bytes: meter.offset_bytes.get(),
        reason: error.to_string(),
    }
}

impl<'a> Entries<'a> {
    /// The archive.
    #[must_use]
    pub fn archive(&self) -> &'a Archive {
        self.archive
    }

    /// The next entry; contents of the last one that were not read are left out. `None` at the mark of
    /// the end.
    ///
    /// # Errors
    /// The bytes there are no entry, or end without the mark.
    pub fn next_entry<'e>(&'e mut self) -> Result<Option<Entry<'e, 'a>>, ArchiveError> {
        loop {
            let allowed = self.unread_bytes.saturating_add(HEADER_BYTES);
            self.meter.allowed_bytes.set(allowed);
            let next = self.inner.next();
            self.meter.allowed_bytes.set(u64::MAX);
            let Some(next) = next else {
                if self.meter.at_end.get() {
                    return Err(
                        self.damaged(&io::Error::other("it ends without a mark of the end"))
                    );
                }
                self.is_done = true;
                return Ok(None);
            };
            let inner = next.map_err(|error| self.damaged(&error))?;
            self.unread_bytes = inner.size();
            self.name.clear();
            self.name.extend_from_slice(&inner.path_bytes());
            let kind = kind_of(&inner, &self.name);
            // A header for all entries that follow is no entry of its own.
            if !inner.header().entry_type().is_pax_global_extensions() {
                let offset_bytes = inner.raw_header_position();
                return Ok(Some(Entry { inner, entries: self, kind, offset_bytes }));
            }
        }
    }

    #[cold]
    fn damaged(&self, error: &io::Error) -> ArchiveError {
        damaged(self.archive, &self.name, &self.meter, error)
    }
}

fn kind_of(entry: &tar::Entry<'_, Stream>, name: &[u8]) -> EntryKind {
    use tar::EntryType as Type;
    match entry.header().entry_type() {
        // Before POSIX a directory was a file whose name ends with a slash.
        Type::Regular if name.ends_with(b"/") => EntryKind::Directory,
        Type::Regular | Type::Continuous | Type::GNUSparse => EntryKind::File,
        Type::Directory => EntryKind::Directory,
        Type::Link => EntryKind::HardLink,
        Type::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

impl Entry<'_, '_> {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// Its name as the archive has it.
    #[must_use]
    pub fn raw_name(&self) -> &[u8] {
        &self.entries.name
    }

    /// Bytes of its contents.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inner.size()
    }

    /// Place of its header in the decompressed bytes.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Permission bits, those for set-user-ID, set-group-ID and sticky included.
    ///
    /// # Errors
    /// The field holds no number.
    pub fn mode(&self) -> Result<u32, ArchiveError> {
        let mode = self.inner.header().mode();
        Ok(mode.map_err(|error| self.entries.damaged(&error))? & 0o7777)
    }

    /// When it was modified, in seconds since 1970; `None` where the archive does not say it in a way
    /// that can be understood.
    #[must_use]
    pub fn modified_s(&self) -> Option<i64> {
        i64::try_from(self.inner.header().mtime().ok()?).ok()
    }

    /// What a link leads to, as the archive has it; empty where it does not say.
    #[must_use]
    pub fn link_name(&self) -> Vec<u8> {
        self.inner.link_name_bytes().unwrap_or_default().into_owned()
    }

    /// Fills `buffer` with the next bytes of the contents: fewer only at their end, 0 there.
    ///
    /// # Errors
    /// The archive is damaged or ends before they do.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ArchiveError> {
        let mut filled = 0;
        while filled < buffer.len() && self.entries.unread_bytes > 0 {
            match self.inner.read(&mut buffer[filled..]) {
                Ok(0) => {
                    let short = io::Error::other("it ends within the contents of the entry");
                    return Err(self.entries.damaged(&short));
                }
                Ok(count) => {
                    filled += count;
                    let unread = self.entries.unread_bytes;
                    self.entries.unread_bytes = unread.saturating_sub(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.entries.damaged(&error)),
            }
        }
        Ok(filled)
    }

    /// The error that this entry asks for what is never done.
    #[cold]
    #[must_use]
    pub fn refused(&self, reason: impl Into<String>) -> ArchiveError {
        ArchiveError::Refused {
            path: self.entries.archive.path().to_owned(),
            entry: String::from_utf8_lossy(&self.entries.name).into_owned(),
            offset_bytes: self.offset_bytes,
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_checked() {
        let mut name = EntryName::default();
        for (raw, strip, expected) in [
            ("a/b/c", 0, Ok("a/b/c")),
            ("./a//b/./c/", 0, Ok("a/b/c")),
            ("./", 0, Ok("")),
            ("linux-6/fs/inode.c", 1, Ok("fs/inode.c")),
            ("linux-6/", 1, Ok("")),
            ("a/b", 5, Ok("")),
            ("..a/b..", 0, Ok("..a/b..")),
            ("/etc/passwd", 0, Err("absolute")),
            ("a/../../b", 0, Err("upwards")),
            // Stripping hides nothing.
            ("../b", 1, Err("upwards")),
            ("a/\0b", 0, Err("NUL")),
        ] {
            match (name.set(raw.as_bytes(), strip), expected) {
                (Ok(()), Ok(expected)) => {
                    assert_eq!(name.to_text(), expected, "{raw}");
                    assert_eq!(name.to_bytes(), expected.as_bytes(), "{raw}");
                }
                (Err(reason), Err(word)) => assert!(reason.contains(word), "{raw}: {reason}"),
                (outcome, _) => panic!("{raw}: {outcome:?}"),
            }
        }
    }
}
