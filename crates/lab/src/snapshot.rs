//! Images of aged filesystems, kept so that every trial starts from the same state: within a run below
//! its workspace, from run to run in the user's cache directory. A snapshot is a directory; it is made
//! under another name, synced, and renamed when it is whole. What lies in the image is left to others.
//!
//! ```text
//! KEY/device.img          sparse: only what was written
//!     snapshot.json       what it is, and the checksum of device.img
//! KEY.PID.partial/        being made: `snapshot.json` is locked as long as its maker lives
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsdyno_model::age::AgeRecord;
use fsdyno_model::units::human_bytes;
use fsdyno_sys::file;
use rustix::fs::{Advice, SeekFrom};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Version of the form.
const VERSION: u32 = 1;
const IMAGE: &str = "device.img";
const ABOUT: &str = "snapshot.json";
const PARTIAL: &str = ".partial";
/// Unit of copying: pieces of this size that hold nothing but zeros are left out.
const CHUNK_BYTES: usize = 256 << 10;
/// Room that is left alone beside a snapshot.
const MARGIN_BYTES: u64 = 64 << 20;

/// What a snapshot is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// [`VERSION`] of the writer.
    version: u32,
    /// Everything that decides what is in it, one line each.
    pub identity: String,
    /// Size of the image in bytes.
    pub size_bytes: u64,
    /// Of these, copied.
    pub copied_bytes: u64,
    /// Hash of what was copied, with its places.
    checksum: String,
    /// The mkfs command line that was run.
    pub mkfs_command: Option<String>,
    /// What aging did.
    pub aged: AgeRecord,
}

/// A snapshot that is whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    directory: PathBuf,
    /// What it is of.
    pub about: About,
}

/// What is to be kept.
#[derive(Debug)]
pub struct Source<'a> {
    /// The image; nobody may write to it meanwhile.
    pub image: &'a Path,
    /// See [`About::identity`].
    pub identity: &'a str,
    /// See [`About::mkfs_command`].
    pub mkfs_command: Option<String>,
    /// See [`About::aged`].
    pub aged: AgeRecord,
}

/// Asked between two pieces; an error ends the copying.
pub type KeepOn<'a> = &'a dyn Fn() -> Result<(), String>;

/// Finds the snapshot of `identity` below `parent`. One that is of something else, or of another version, or
/// cannot be read, is none.
#[must_use]
pub fn find(parent: &Path, identity: &str) -> Option<Snapshot> {
    let directory = parent.join(name_of(identity));
    let text = fs::read(directory.join(ABOUT)).ok()?;
    let about: About = serde_json::from_slice(&text).ok()?;
    let size_bytes = fs::metadata(directory.join(IMAGE)).ok()?.len();
    let is_it =
        about.version == VERSION && about.identity == identity && about.size_bytes == size_bytes;
    is_it.then_some(Snapshot { directory, about })
}

/// Keeps a copy of an image below `parent`, which is made; `reserve_bytes` are left free beside it.
///
/// # Errors
/// A sentence: no room, or it cannot be written; nothing is left behind then.
pub fn save(
    parent: &Path,
    source: &Source<'_>,
    reserve_bytes: u64,
    keep_on: KeepOn<'_>,
) -> Result<Snapshot, String> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.map_err(|error| format!("make {}: {error}", parent.display()))?;
    sweep(parent);
    let image = File::open(source.image).map_err(|error| at("open", source.image, error))?;
    let ranges = data_ranges(&image).map_err(|error| at("map", source.image, error.into()))?;
    let data_bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let space = file::free_space(parent).map_err(|error| error.to_string())?;
    let wanted = data_bytes.saturating_add(reserve_bytes).saturating_add(MARGIN_BYTES);
    if space.available < wanted {
        return Err(format!(
            "{} has {} free and would need {}",
            parent.display(),
            human_bytes(space.available),
            human_bytes(wanted)
        ));
    }
    let name = name_of(source.identity);
    let partial = Partial(parent.join(format!("{name}.{}{PARTIAL}", std::process::id())));
    let about = partial.make(&image, &ranges, source, keep_on)?;
    drop(image);
    let directory = parent.join(&name);
    // Of another version, or torn.
    if find(parent, source.identity).is_none() {
        remove(&directory)?;
    }
    match fs::rename(&partial.0, &directory) {
        // Another run was faster with the same.
        Err(_) if find(parent, source.identity).is_some() => {}
        other => other.map_err(|error| at("rename to", &directory, error))?,
    }
    file::sync_directory(parent).map_err(|error| error.to_string())?;
    find(parent, source.identity).unwrap_or(Snapshot { directory, about }).into_checked()
}

/// The snapshots that are kept below `parent` and those that a crash left unfinished, with the bytes that
/// they take: what can be removed while no run is under way.
#[must_use]
pub fn kept(parent: &Path) -> Vec<(PathBuf, u64)> {
    let mut found: Vec<(PathBuf, u64)> = (entries(parent).into_iter())
        .filter(|path| is_ours(path) && !is_being_made(path))
        .map(|path| {
            let image = fs::symlink_metadata(path.join(IMAGE));
            (path, image.map_or(0, |found| found.blocks() * 512))
        })
        .collect();
    found.sort();
    found
}

/// Removes what dead processes left unfinished below `parent`; gives their paths.
pub fn sweep(parent: &Path) -> Vec<PathBuf> {
    let mut swept = Vec::new();
    for path in entries(parent) {
        if is_partial(&path) && is_ours(&path) && !is_being_made(&path) && remove(&path).is_ok() {
            swept.push(path);
        }
    }
    swept
}

/// Removes a snapshot; none is no error.
///
/// # Errors
/// A sentence with what is left.
pub fn remove(directory: &Path) -> Result<(), String> {
    for name in [ABOUT, IMAGE] {
        let path = directory.join(name);
        gone(fs::remove_file(&path)).map_err(|error| at("remove", &path, error))?;
    }
    gone(fs::remove_dir(directory)).map_err(|error| at("remove", directory, error))
}

impl Snapshot {
    /// Where it lies.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it is still there.
    #[must_use]
    pub fn exists(&self) -> bool {
        find(self.directory.parent().unwrap_or(Path::new("/")), &self.about.identity).is_some()
    }

    /// Writes it into `target`, an image of the same size that is empty and allocated, and makes that
    /// durable. What is read is compared with the checksum; a snapshot that is damaged is removed.
    ///
    /// # Errors
    /// A sentence.
    pub fn copy_to(&self, target: &File, keep_on: KeepOn<'_>) -> Result<(), String> {
        let path = self.directory.join(IMAGE);
        let image = File::open(&path).map_err(|error| at("open", &path, error))?;
        let ranges = data_ranges(&image).map_err(|error| at("map", &path, error.into()))?;
        let copied = copy(&image, &ranges, target, keep_on)?;
        if copied.checksum() != self.about.checksum || copied.bytes != self.about.copied_bytes {
            remove(&self.directory)?;
            return Err(format!(
                "{} was damaged and is removed: it is made again",
                self.directory.display()
            ));
        }
        let synced = target.sync_all();
        synced.map_err(|error| format!("fsync the copy of {}: {error}", path.display()))?;
        forget_pages(&image);
        forget_pages(target);
        Ok(())
    }

    fn into_checked(self) -> Result<Snapshot, String> {
        if self.exists() {
            return Ok(self);
        }
        Err(format!("{} cannot be read back", self.directory.display()))
    }
}

/// A directory that is removed unless it was renamed in time.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Under its new name it is gone from here; and what cannot be removed now is swept later.
        let _ = remove(&self.0);
    }
}

impl Partial {
    fn make(
        &self,
        image: &File,
        ranges: &[Range<u64>],
        source: &Source<'_>,
        keep_on: KeepOn<'_>,
    ) -> Result<About, String> {
        // Left by a dead process that had our number.
        remove(&self.0)?;
        DirBuilder::new()
            .mode(0o700)
            .create(&self.0)
            .map_err(|error| at("make", &self.0, error))?;
        let about_path = self.0.join(ABOUT);
        let mut about_file = new_file(&about_path)?;
        about_file.lock().map_err(|error| at("lock", &about_path, error))?;
        let path = self.0.join(IMAGE);
        let target = new_file(&path)?;
        let size_bytes = image.metadata().map_err(|error| at("stat", source.image, error))?.len();
        target.set_len(size_bytes).map_err(|error| at("truncate", &path, error))?;
        let copied = copy(image, ranges, &target, keep_on)?;
        target.sync_all().map_err(|error| at("fsync", &path, error))?;
        forget_pages(image);
        forget_pages(&target);
        let about = About {
            version: VERSION,
            identity: source.identity.to_owned(),
            size_bytes,
            copied_bytes: copied.bytes,
            checksum: copied.checksum(),
            mkfs_command: source.mkfs_command.clone(),
            aged: source.aged.clone(),
        };
        let text = serde_json::to_vec_pretty(&about).map_err(|error| error.to_string())?;
        let written = about_file.write_all(&text).and_then(|()| about_file.sync_all());
        written.map_err(|error| at("write", &about_path, error))?;
        file::sync_directory(&self.0).map_err(|error| error.to_string())?;
        Ok(about)
    }
}

fn new_file(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| at("create", path, error))
}

fn at(call: &str, path: &Path, error: std::io::Error) -> String {
    format!("{call} {}: {error}", path.display())
}

fn gone(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn name_of(identity: &str) -> String {
    format!("{:016x}", xxh3_64(identity.as_bytes()))
}

fn is_partial(path: &Path) -> bool {
    path.to_string_lossy().ends_with(PARTIAL)
}

/// Whether it has the name of a snapshot, whole or not, and holds nothing else.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hash = name.split('.').next().unwrap_or_default();
    let is_named = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_directory = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_known = |inside: &PathBuf| inside.ends_with(ABOUT) || inside.ends_with(IMAGE);
    is_named && is_directory && entries(path).iter().all(is_known)
}

/// Whether the process that makes it lives: it holds the lock.
fn is_being_made(path: &Path) -> bool {
    if !is_partial(path) {
        return false;
    }
    match File::open(path.join(ABOUT)) {
        Ok(file) => matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)),
        // It may be about to make the file.
        Err(_) => {
            let pid = path.to_string_lossy().rsplit('.').nth(1).and_then(|pid| pid.parse().ok());
            pid.is_some_and(|pid: u32| fsdyno_sys::process::identity(pid).is_some())
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}

/// Where a file has data, in bytes.
fn data_ranges(file: &File) -> Result<Vec<Range<u64>>, Errno> {
    let mut ranges = Vec::new();
    let mut offset = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(ranges),
            Err(error) => return Err(error),
        };
        offset = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        ranges.push(start..offset);
    }
}

/// What was copied.
struct Copied {
    bytes: u64,
    hasher: Xxh3Default,
}

impl Copied {
    fn checksum(&self) -> String {
        format!("{:016x}", self.hasher.digest())
    }
}

/// Copies the pieces that hold anything but zeros to the same places. By reading and writing: where the
/// filesystem would share the extents, every write to the copy would have to take them apart.
fn copy(
    from: &File,
    ranges: &[Range<u64>],
    to: &File,
    keep_on: KeepOn<'_>,
) -> Result<Copied, String> {
    const CHUNK: u64 = CHUNK_BYTES as u64;
    let mut copied = Copied { bytes: 0, hasher: Xxh3Default::new() };
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut next = 0;
    for range in ranges {
        let mut offset = (range.start / CHUNK * CHUNK).max(next);
        while offset < range.end {
            keep_on()?;
            let length = read_full(from, &mut buffer, offset)
                .map_err(|error| format!("read an aged image: {error}"))?;
            let bytes = &buffer[..length];
            if bytes.iter().any(|byte| *byte != 0) {
                to.write_all_at(bytes, offset)
                    .map_err(|error| format!("write a copy of an aged image: {error}"))?;
                copied.hasher.update(&offset.to_le_bytes());
                copied.hasher.update(bytes);
                copied.bytes += length as u64;
            }
            offset += CHUNK;
        }
        next = offset.max(next);
    }
    Ok(copied)
}

fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match file.read_at(&mut buffer[have..], offset + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// What was copied must not fill the page cache of a measurement.
fn forget_pages(file: &File) {
    // Advice: where it is not taken, nothing is wrong but memory.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AgeRecord {
        AgeRecord {
            age: "churn(age=3)".to_owned(),
            seed: 1,
            capacity_bytes: 100,
            used_bytes: 80,
            written_bytes: 300,
            files: 3,
            directories: 2,
            created_files: 9,
            times_full: 0,
            elapsed_ns: 5,
            sampled_files: 3,
            extents_per_file: None,
            fragmented_share: None,
            free_space_fragmentation: None,
            from_snapshot: false,
        }
    }

    const SIZE: u64 = 9 << 20;

    fn image(directory: &Path) -> PathBuf {
        let path = directory.join("image");
        let file = File::create(&path).unwrap();
        file.set_len(SIZE).unwrap();
        for offset in [0, 300_000, 5 << 20, SIZE - 10] {
            file.write_all_at(b"something", offset).unwrap();
        }
        path
    }

    fn always() -> Result<(), String> {
        Ok(())
    }

    fn saved(parent: &Path, image: &Path, keep_on: KeepOn<'_>) -> Result<Snapshot, String> {
        let source = Source { image, identity: "ext4\nchurn", mkfs_command: None, aged: record() };
        save(parent, &source, 0, keep_on)
    }

    #[test]
    fn what_is_kept_comes_back() {
        let place = tempfile::tempdir().unwrap();
        let (image, parent) = (image(place.path()), place.path().join("cache/aged"));
        assert!(find(&parent, "ext4\nchurn").is_none());
        let snapshot = saved(&parent, &image, &always).unwrap();
        assert!(snapshot.about.copied_bytes < SIZE / 4, "{:?}", snapshot.about);
        assert_eq!(find(&parent, "ext4\nchurn").as_ref(), Some(&snapshot));
        assert!(find(&parent, "ext4\nother").is_none());
        // A second maker finds it there.
        assert_eq!(saved(&parent, &image, &always).as_ref(), Ok(&snapshot));
        assert_eq!(kept(&parent).len(), 1);
        let copy = place.path().join("copy");
        let file = File::create(&copy).unwrap();
        file::allocate(&file, SIZE).unwrap();
        snapshot.copy_to(&file, &always).unwrap();
        assert!(fs::read(&copy).unwrap() == fs::read(&image).unwrap());
        assert!(file.metadata().unwrap().blocks() * 512 >= SIZE);
        remove(snapshot.directory()).unwrap();
        remove(snapshot.directory()).unwrap();
        assert!(!snapshot.exists() && kept(&parent).is_empty());
    }

    #[test]
    fn a_damaged_snapshot_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let (image, parent) = (image(place.path()), place.path().join("aged"));
        let snapshot = saved(&parent, &image, &always).unwrap();
        let inside = OpenOptions::new().write(true).open(snapshot.directory.join(IMAGE)).unwrap();
        inside.write_all_at(b"x", 300_001).unwrap();
        let target = File::create(place.path().join("copy")).unwrap();
        let error = snapshot.copy_to(&target, &always).unwrap_err();
        assert!(error.contains("damaged") && !snapshot.exists(), "{error}");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let (image, parent) = (image(place.path()), place.path().join("aged"));
        let error = saved(&parent, &image, &|| Err("interrupted".to_owned())).unwrap_err();
        assert_eq!(error, "interrupted");
        let source = Source { image: &image, identity: "i", mkfs_command: None, aged: record() };
        let error = save(&parent, &source, 1 << 60, &always).unwrap_err();
        assert!(error.contains("would need"), "{error}");
        assert!(entries(&parent).is_empty());
        // Left by a killed process; and what is another's.
        let torn = parent.join("0123456789abcdef.4194399.partial");
        fs::create_dir(&torn).unwrap();
        fs::write(torn.join(IMAGE), "x").unwrap();
        let foreign = parent.join("0123456789abcdee.77.partial");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("letter.txt"), "dear reader").unwrap();
        fs::write(parent.join("0123456789abcded"), "a file").unwrap();
        let paths: Vec<PathBuf> = kept(&parent).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, std::slice::from_ref(&torn));
        // Locked by its maker.
        let about = new_file(&torn.join(ABOUT)).unwrap();
        about.lock().unwrap();
        assert!(kept(&parent).is_empty() && sweep(&parent).is_empty());
        drop(about);
        assert_eq!(sweep(&parent), [torn]);
        assert_eq!(entries(&parent).len(), 2);
    }
}
