//! Where a generated archive is kept from run to run: the user's cache directory. It is made under a
//! temporary name, renamed when it is whole, and read through and compared with the checksum in its
//! name before each use. What is in it is left to [`super::generate`].
//!
//! ```text
//! $XDG_CACHE_HOME/fsdyno/web-cache-PARAMETERS-CONTENTS.tar     two hashes of 16 digits
//!                        web-cache.lock                         held while one is made or checked
//!                        web-cache-*.partial                    left behind by a crash
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fsdyno_model::payload::Payload;
use fsdyno_model::units::human_bytes;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::generate::{archive_size_bytes, write_archive};
use super::model::CacheModel;
use crate::archive::Archive;
use crate::failure::check_interrupt;

/// Changes whenever other bytes are generated from the same parameters.
const FORMAT: u32 = 1;
const PREFIX: &str = "web-cache-";
const SUFFIX: &str = ".tar";
const PARTIAL: &str = ".partial";
/// How often another run's lock is tried again.
const LOCK_PERIOD: Duration = Duration::from_millis(100);
const READ_BYTES: usize = 1 << 20;
/// Room that is left alone on the filesystem of the cache directory.
const SPARE_BYTES: u64 = 64 << 20;

/// Where archives are kept: `$XDG_CACHE_HOME/fsdyno`, else `~/.cache/fsdyno` of the effective user,
/// under sudo root's. Never a place that others could have prepared.
///
/// # Errors
/// This user has no such directory.
pub fn cache_directory() -> anyhow::Result<PathBuf> {
    fsdyno_sys::home::default_cache_directory().context(
        "there is no cache directory that is yours alone: set XDG_CACHE_HOME, or give archive=PATH",
    )
}

/// The archives that are kept in `directory`, with those that a crash left unfinished, and their sizes
/// in bytes: what can be removed while no run is under way.
#[must_use]
pub fn kept(directory: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(PathBuf, u64)> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with(PREFIX) && (name.ends_with(SUFFIX) || name.ends_with(PARTIAL))
        })
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?.len())))
        .collect();
    found.sort();
    found
}

/// The archive of `model` in `directory`, made where it is not there or not whole. Either way all of
/// it was in the page cache at the end. Tells `advance` about as many bytes as the archive has for
/// making it, and as many for reading it.
///
/// # Errors
/// The directory cannot be made or has no room; a call on the archive failed; a signal asked to stop.
pub fn obtain(
    directory: &Path,
    model: CacheModel,
    payload: Payload,
    mut advance: impl FnMut(u64),
) -> anyhow::Result<Archive> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("make the directory {}", directory.display()))?;
    let _lock = lock(directory)?;
    let prefix = format!("{PREFIX}{:016x}-", parameters_hash(model, payload));
    for (path, size_bytes) in kept(directory) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(PARTIAL) {
            remove(&path)?;
            continue;
        }
        let Some(stated) = name.strip_prefix(&prefix) else { continue };
        let stated = u64::from_str_radix(stated.trim_end_matches(SUFFIX), 16).ok();
        if size_bytes == archive_size_bytes(model) && stated == Some(checksum(&path, &mut advance)?)
        {
            return Ok(Archive::open(&path)?);
        }
        remove(&path)?;
    }
    let path = make(directory, &prefix, model, payload, &mut advance)?;
    Ok(Archive::open(&path)?)
}

/// Room that the archive of `model` takes where it is kept, with what is left alone there, in bytes.
#[must_use]
pub fn room_bytes(model: CacheModel) -> u64 {
    let bytes = archive_size_bytes(model);
    // A small archive leaves as much as it takes.
    bytes.saturating_add(SPARE_BYTES.min(bytes))
}

fn parameters_hash(model: CacheModel, payload: Payload) -> u64 {
    let CacheModel { size_bytes, l1, l2, seed } = model;
    let text = format!("{FORMAT} size={size_bytes} l1={l1} l2={l2} seed={seed} payload={payload}");
    xxh3_64(text.as_bytes())
}

fn lock(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("web-cache.lock");
    let failed = || format!("lock {}", path.display());
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).open(&path).with_context(failed)?;
    loop {
        check_interrupt()?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // Another run makes or checks an archive.
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PERIOD),
            Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
        }
    }
}

fn remove(path: &Path) -> anyhow::Result<()> {
    fs::remove_file(path).with_context(|| format!("remove {}", path.display()))
}

/// Reads the whole file.
fn checksum(path: &Path, advance: &mut impl FnMut(u64)) -> anyhow::Result<u64> {
    let failed = || format!("read {}", path.display());
    let mut file = File::open(path).with_context(failed)?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        check_interrupt()?;
        match file.read(&mut buffer).with_context(failed)? {
            0 => return Ok(hasher.digest()),
            count => {
                hasher.update(&buffer[..count]);
                advance(count as u64);
            }
        }
    }
}

/// A file that is removed unless it was renamed in time.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It may be gone by its new name; and there is nothing to do about another failure here, the
        // next run tries again.
        let _ = fs::remove_file(&self.0);
    }
}

fn make(
    directory: &Path,
    prefix: &str,
    model: CacheModel,
    payload: Payload,
    advance: &mut impl FnMut(u64),
) -> anyhow::Result<PathBuf> {
    let needed_bytes = archive_size_bytes(model);
    let room = || {
        format!(
            "{} has no room for the generated archive of {}: set XDG_CACHE_HOME to a directory that has, or use a smaller size",
            directory.display(),
            human_bytes(needed_bytes)
        )
    };
    if let Ok(free) = rustix::fs::statvfs(directory) {
        let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        ensure!(free_bytes >= room_bytes(model), room());
    }
    let partial = Unfinished(directory.join(format!("{prefix}{}{PARTIAL}", std::process::id())));
    let outcome = write_whole(&partial.0, model, payload, advance);
    let hash = match outcome {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => {
            return Err(anyhow::Error::from(error).context(room()));
        }
        Err(error) => {
            check_interrupt()?;
            return Err(error).with_context(|| format!("write {}", partial.0.display()));
        }
        Ok(hash) => hash,
    };
    let path = directory.join(format!("{prefix}{hash:016x}{SUFFIX}"));
    fs::rename(&partial.0, &path).with_context(|| format!("rename to {}", path.display()))?;
    Ok(path)
}

fn write_whole(
    path: &Path,
    model: CacheModel,
    payload: Payload,
    advance: &mut impl FnMut(u64),
) -> io::Result<u64> {
    struct Hashed<W> {
        sink: W,
        hasher: Xxh3Default,
    }
    impl<W: Write> Write for Hashed<W> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.sink.write(bytes)?;
            self.hasher.update(&bytes[..count]);
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.sink.flush()
        }
    }
    let file = File::options().write(true).create(true).truncate(true).open(path)?;
    let hashed = Hashed { sink: &file, hasher: Xxh3Default::new() };
    let mut sink = BufWriter::with_capacity(READ_BYTES, hashed);
    write_archive(model, payload, &mut sink, |bytes| {
        // Twice: it is made, and by that it is in memory.
        advance(2 * bytes);
        check_interrupt().map_err(io::Error::other)
    })?;
    let hashed = sink.into_inner().map_err(io::IntoInnerError::into_error)?;
    let hash = hashed.hasher.digest();
    // Its writeback must not fall into what is timed.
    file.sync_all()?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const MODEL: CacheModel = CacheModel { size_bytes: 300_000, l1: 2, l2: 4, seed: 1 };

    fn obtained(directory: &Path, model: CacheModel) -> (PathBuf, u64) {
        let mut told = 0;
        let archive = obtain(directory, model, Payload::DEFAULT, |bytes| told += bytes).unwrap();
        (archive.path().to_owned(), told)
    }

    #[test]
    fn an_archive_is_made_once_and_checked_at_each_use() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("not/yet");
        let (path, told) = obtained(&directory, MODEL);
        assert_eq!(told, 2 * MODEL.size_bytes, "made");
        let size_bytes = fs::metadata(&path).unwrap().len();
        let whole = fs::read(&path).unwrap();
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        let first = inode(&path);
        assert_eq!(obtained(&directory, MODEL), (path.clone(), size_bytes), "read");
        assert_eq!(inode(&path), first, "used again");
        let other = obtained(&directory, CacheModel { seed: 2, ..MODEL }).0;
        assert_ne!(other, path);
        let mut damaged = whole.clone();
        damaged[10_000] ^= 1;
        for wrong in [&damaged[..], &whole[..512], b""] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(obtained(&directory, MODEL).0, path);
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        fs::write(directory.join("web-cache-0-1.partial"), "left behind").unwrap();
        fs::write(directory.join("notes.txt"), "the user's").unwrap();
        assert_eq!(kept(&directory).len(), 3);
        obtained(&directory, MODEL);
        assert_eq!(kept(&directory).len(), 2, "both archives");
        assert!(directory.join("notes.txt").exists());
    }

    #[test]
    fn two_runs_at_once_make_it_once() {
        let scratch = tempfile::tempdir().unwrap();
        let told: Vec<u64> = std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..4).map(|_| scope.spawn(|| obtained(scratch.path(), MODEL).1)).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        let made = told.iter().filter(|told| **told == 2 * MODEL.size_bytes).count();
        assert_eq!(made, 1, "{told:?}");
        assert_eq!(kept(scratch.path()).len(), 1);
    }
}
