//! Memory of an emulated machine in a file. The machine that is saved writes to it; those that go on from there map
//! it privately, so that each copies the pages that it changes instead of taking in all of them.
//!
//! An accelerated machine has none: its guest would pay for pages of 4 KiB, which an emulator does not notice.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fsdyno_sys::file;
use xxhash_rust::xxh3::Xxh3Default;

use crate::Result;

/// Unit of reading it, in bytes.
const CHUNK_BYTES: usize = 1 << 16;
/// What `st_blocks` counts in.
const BLOCK_BYTES: u64 = 512;

/// What a machine left in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryFile {
    path: PathBuf,
    hash: u64,
    /// What it takes of its disk.
    pub(crate) taken_bytes: u64,
}

/// Makes a file of `bytes` without contents, for this user alone, in the place of one that is there.
pub(crate) fn create(path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| format!("make {}: {error}", path.display());
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.and_then(|file| file.set_len(bytes)).map_err(failed)
}

/// Arguments of a machine with this memory: one that writes to it, or one that `is_private`.
pub(crate) fn arguments(path: &Path, bytes: u64, is_private: bool) -> [String; 4] {
    let share = if is_private { "off" } else { "on" };
    let path = path.display().to_string().replace(',', ",,");
    let object = format!(
        "memory-backend-file,id=memory,size={}M,mem-path={path},share={share}",
        bytes >> 20
    );
    ["-object".to_owned(), object, "-M".to_owned(), "memory-backend=memory".to_owned()]
}

impl MemoryFile {
    /// Looks at what a machine has left.
    pub(crate) fn of(path: &Path) -> Result<MemoryFile> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (data, file) = opened.map_err(|error| format!("open {}: {error}", path.display()))?;
        let hash = hash(&file, path)?;
        Ok(MemoryFile { path: path.to_owned(), hash, taken_bytes: data.blocks() * BLOCK_BYTES })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails where it is not what it was.
    pub(crate) fn check(&self) -> Result<()> {
        let is = MemoryFile::of(&self.path)?;
        if is.hash == self.hash {
            return Ok(());
        }
        Err(format!("the saved memory {} was damaged", self.path.display()))
    }

    /// XXH3 of what is in it.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}

/// XXH3 of each chunk that is not all zeros, and of where it is: the same whether zeros are written or missing.
fn hash(file: &File, path: &Path) -> Result<u64> {
    let failed = |error: std::io::Error| format!("read {}: {error}", path.display());
    let bytes = file.metadata().map_err(failed)?.len();
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < bytes
        && let Some(data) = file::next_data(file, at).map_err(|error| error.to_string())?
    {
        at = data.start - data.start % CHUNK_BYTES as u64;
        while at < data.end.min(bytes) {
            let count =
                usize::try_from(bytes - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let chunk = &mut buffer[..count];
            file.read_exact_at(chunk, at).map_err(failed)?;
            if chunk.iter().any(|byte| *byte != 0) {
                hasher.update(&at.to_le_bytes());
                hasher.update(chunk);
            }
            at += count as u64;
        }
    }
    Ok(hasher.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_the_same_written_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory");
        create(&path, 4 << 20).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"of the kernel", (1 << 20) + 5).unwrap();
        let known = MemoryFile::of(&path).unwrap();
        file.write_all_at(&[0; 1 << 18], 1 << 19).unwrap();
        known.check().unwrap();
        assert!(MemoryFile::of(&path).unwrap().taken_bytes > known.taken_bytes);
        for (offset, byte) in [((1 << 20) + 5, b'O'), (0, 1), ((4 << 20) - 1, 1)] {
            let mut was = [0];
            File::open(&path).unwrap().read_exact_at(&mut was, offset).unwrap();
            file.write_all_at(&[byte], offset).unwrap();
            assert!(known.check().unwrap_err().contains("was damaged"));
            file.write_all_at(&was, offset).unwrap();
        }
        known.check().unwrap();
        // The same contents in another place.
        file.write_all_at(&[0; 13], (1 << 20) + 5).unwrap();
        file.write_all_at(b"of the kernel", (2 << 20) + 5).unwrap();
        assert!(known.check().is_err());
        // Another file, while the first is still open.
        create(&path, 4 << 20).unwrap();
        assert!(known.check().is_err());
        assert_ne!(fs::metadata(&path).unwrap().ino(), file.metadata().unwrap().ino());
        fs::remove_file(&path).unwrap();
        assert!(known.check().unwrap_err().starts_with("open "));
    }

    #[test]
    fn a_machine_writes_to_it_or_to_its_own_copies() {
        let words = |is_private| arguments(Path::new("/a,b"), 1 << 30, is_private).join(" ");
        assert!(words(false).contains("size=1024M,mem-path=/a,,b,share=on -M memory-backend"));
        assert!(words(true).contains("share=off"));
    }
}
