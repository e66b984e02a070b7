//! The archive of a cache as bytes: headers as `tar --format=ustar` writes them, objects in the order
//! of their numbers, each directory before its first object. Where the bytes go is left to
//! [`super::store`].

use std::io::{self, Write};

use fsdyno_model::payload::Payload;

use super::model::{CacheModel, Directory, Object, object_key};
use crate::contents::PayloadBuffer;

/// Unit of a tar archive in bytes.
const BLOCK: u64 = 512;
/// An archive is a whole number of records: twenty blocks, as tar has it.
const RECORD: u64 = 20 * BLOCK;
/// Zero blocks that mark the end.
const END_BLOCKS: u64 = 2;
/// When everything was modified: 2003-07-01, the year of the comparison that this workload repeats.
const MODIFIED_S: u64 = 1_057_017_600;
/// Payload made at a time.
const BUFFER_BYTES: u64 = 256 << 10;

/// Bytes of the archive of `model`.
#[must_use]
pub fn archive_size_bytes(model: CacheModel) -> u64 {
    let mut size_bytes = END_BLOCKS * BLOCK;
    let mut directories = NewDirectories::default();
    for Object { number, size_bytes: object_bytes } in model.objects() {
        size_bytes += directories.before(model, number).count() as u64 * BLOCK;
        size_bytes += BLOCK + object_bytes.next_multiple_of(BLOCK);
    }
    size_bytes.next_multiple_of(RECORD)
}

/// Writes the archive of `model` to `sink` and tells `advance` the bytes of each object.
///
/// # Errors
/// That of the sink, or of `advance`.
pub fn write_archive(
    model: CacheModel,
    payload: Payload,
    sink: impl Write,
    mut advance: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut sink = Counted { sink, count: 0 };
    let mut contents = PayloadBuffer::new(payload, model.seed, BUFFER_BYTES as usize);
    let mut directories = NewDirectories::default();
    for Object { number, size_bytes } in model.objects() {
        for path in directories.before(model, number) {
            sink.write_all(header(&path, tar::EntryType::Directory, 0o755, 0)?.as_bytes())?;
        }
        let path = model.path(number);
        sink.write_all(header(&path, tar::EntryType::Regular, 0o644, size_bytes)?.as_bytes())?;
        let mut offset = 0;
        while offset < size_bytes {
            let count = BUFFER_BYTES.min(size_bytes - offset);
            sink.write_all(contents.bytes(object_key(number), offset, count))?;
            offset += count;
        }
        sink.pad(BLOCK)?;
        advance(size_bytes)?;
    }
    sink.write_all(&[0; (END_BLOCKS * BLOCK) as usize])?;
    sink.pad(RECORD)
}

fn header(path: &str, kind: tar::EntryType, mode: u32, size_bytes: u64) -> io::Result<tar::Header> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_path(path)?;
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(MODIFIED_S);
    header.set_size(size_bytes);
    header.set_cksum();
    Ok(header)
}

/// Which directories have an entry already. Numbers ascend, so a directory is new when it is not the
/// one before; when they have been through all directories, none is.
#[derive(Default)]
struct NewDirectories {
    last: Option<Directory>,
}

impl NewDirectories {
    /// Names of the directories to be made before the object `number`, with a slash at their end.
    fn before(&mut self, model: CacheModel, number: u64) -> impl Iterator<Item = String> + use<> {
        let directory = model.directory(number);
        let is_first_round = number / model.l2 < model.l1 * model.l2;
        let is_new = is_first_round && self.last != Some(directory);
        let is_new_first = is_new && self.last.is_none_or(|last| last.first != directory.first);
        self.last = Some(directory);
        let Directory { first, second } = directory;
        let outer = is_new_first.then(|| format!("{first:02X}/"));
        let inner = is_new.then(|| format!("{first:02X}/{second:02X}/"));
        outer.into_iter().chain(inner)
    }
}

/// A sink that knows how much went into it.
struct Counted<W> {
    sink: W,
    count: u64,
}

impl<W: Write> Counted<W> {
    /// Writes zeros up to a multiple of `unit`, which is at most a record.
    fn pad(&mut self, unit: u64) -> io::Result<()> {
        const ZEROS: [u8; RECORD as usize] = [0; RECORD as usize];
        let missing = self.count.next_multiple_of(unit) - self.count;
        self.write_all(&ZEROS[..missing as usize])
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    fn bytes_of(model: CacheModel) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut told = 0;
        write_archive(model, Payload::DEFAULT, &mut bytes, |count| {
            told += count;
            Ok(())
        })
        .unwrap();
        assert_eq!(told, model.size_bytes);
        assert_eq!(bytes.len() as u64, archive_size_bytes(model));
        bytes
    }

    #[test]
    fn the_bytes_never_change() {
        let quick = CacheModel { size_bytes: 16 << 20, l1: 16, l2: 256, seed: 1 };
        assert_eq!(xxh3_64(&bytes_of(quick)), 17_539_964_710_009_867_423);
        assert_ne!(bytes_of(CacheModel { seed: 2, ..quick }), bytes_of(quick));
    }

    #[test]
    fn every_directory_comes_once_and_first() {
        for (l1, l2) in [(16, 256), (1, 1), (2, 3), (3, 2)] {
            let model = CacheModel { size_bytes: 1 << 20, l1, l2, seed: 3 };
            let bytes = bytes_of(model);
            let mut seen = BTreeSet::new();
            let mut objects = model.objects();
            for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
                let entry = entry.unwrap();
                let path = entry.path().unwrap().into_owned();
                let parent = path.parent().unwrap().to_owned();
                assert!(parent.as_os_str().is_empty() || seen.contains(&parent), "{path:?}");
                if entry.header().entry_type().is_file() {
                    let object = objects.next().unwrap();
                    assert_eq!(path.to_str().unwrap(), model.path(object.number));
                    assert_eq!(entry.size(), object.size_bytes);
                }
                assert!(seen.insert(path.clone()), "{path:?} occurs twice");
            }
            assert_eq!(objects.next(), None);
        }
    }
}
