//! The phase `fragmentation`, available to every workload: in how many pieces files and free space
//! lie. What the kernel tells of it is [`fsdyno_sys::fiemap`]'s and [`fsdyno_sys::fsmap`]'s; when the
//! phase comes is left to the workloads and to [`crate::runner`].
//!
//! Extents that lie on the device as they do in the file are one piece ([`Extent::continues`]). Each
//! name of a file counts; directories, symbolic links, other mounts and space set aside behind the
//! end of a file do not.
//!
//! The free space is that of the whole filesystem. Its fragmentation is the share of the free bytes in
//! pieces of less than 1 MiB. It is the "unusable free space index" that M. Gorman and A. Whitcroft
//! defined for memory ("The What, The Why and the Where To of Anti-Fragmentation", Linux Symposium
//! 2005), for pieces of 1 MiB: about what a disk transfers in the time of one seek. One minus the share
//! of the largest piece would depend on the layout instead: on a new filesystem of n equal allocation
//! groups it is 1 − 1/n already.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use fsdyno_model::info::PhaseInfo;
use fsdyno_model::record::Warning;
use fsdyno_sys::Errno;
use fsdyno_sys::calls::{CallResult, Calls, FileKind, Real, dir_buffer};
use fsdyno_sys::fiemap::{Extent, ExtentBuffer, MapOptions, visit_extents};
use fsdyno_sys::file::open_dir_within;
use fsdyno_sys::fsmap::visit_free_extents;

use crate::context::Context;
use crate::failure::{call_failed, check_interrupt};
use crate::phase::{Durability, PhaseTally};

/// The phase, last in the list of every workload.
pub const PHASE: PhaseInfo = PhaseInfo {
    name: "fragmentation",
    doc: "with fragmentation=true: counts the extents of all files and of the free space",
};

const MIB: f64 = 1_048_576.0;
/// Free space in smaller pieces counts as fragmented, in bytes.
const USABLE_BYTES: u64 = 1 << 20;

/// Records the phase where it is asked for and was not recorded yet. The target is synced first, so
/// that all data has a place. The duration of the phase is the walk's, and of no interest.
///
/// # Errors
/// When a directory cannot be read, a signal asks us to stop, or whoever listens is gone.
pub fn survey(context: &Context<'_>) -> anyhow::Result<()> {
    if !context.params.flag("fragmentation") || context.surveyed.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let root = || context.root_path().display().to_string();
    Real.syncfs(context.root()).map_err(|errno| call_failed("syncfs", root(), errno))?;
    let mut tally = PhaseTally::new(PHASE.name, "extents_per_file");
    let mut pieces = FilePieces::default();
    let mut free = FreePieces::default();
    let mut free_told = Ok(());
    tally.measure(context, "survey", Durability::None, |recorder| {
        let again = Real.open_root(context.root_path());
        let again = again.map_err(|errno| call_failed("open", root(), errno))?;
        let mut buffer = ExtentBuffer::new();
        walk(again, |directory, name| {
            recorder.files += 1;
            check_interrupt()?;
            pieces.ask(directory, name, &mut buffer);
            Ok(())
        })
        .map(drop)?;
        free_told = visit_free_extents(context.root(), |_, length| free.add(length));
        Ok(())
    })?;
    let values = pieces.values().into_iter().chain(free.values(free_told));
    for (metric, value) in values {
        tally.value(metric, value);
    }
    if let Some(message) = unknown(&pieces, free_told) {
        context.warn(Warning {
            code: "fragmentation-unknown".to_owned(),
            message,
            advice: "run as root on ext2, ext3, ext4, xfs or btrfs".to_owned(),
        })?;
    }
    context.finish_phase(tally.into_record())
}

/// What a look outside of any phase found.
#[derive(Debug)]
pub struct Look {
    /// Files below the directory.
    pub files: u64,
    /// Directories below it.
    pub directories: u64,
    /// Files of which the extents were asked for.
    pub sampled_files: u64,
    values: Vec<(&'static str, f64)>,
}

impl Look {
    /// The value of a metric of the phase; `None` where the filesystem does not tell.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        self.values.iter().find(|(name, _)| *name == metric).map(|(_, value)| *value)
    }
}

/// Looks at the files below `root`, which must not have been listed yet, and at the free space of the
/// filesystem of `ground`, without recording a phase. Once `most_files` were asked for their
/// extents only every second is from there on, after as many again every fourth, and so on.
///
/// # Errors
/// When a directory cannot be read, or a signal asks us to stop.
pub fn look(root: OwnedFd, ground: &OwnedFd, most_files: u64) -> anyhow::Result<Look> {
    let mut pieces = FilePieces::default();
    let mut buffer = ExtentBuffer::new();
    let (mut files, mut sampled_files) = (0_u64, 0_u64);
    let directories = walk(root, |directory, name| {
        check_interrupt()?;
        let stride = 1_u64 << (sampled_files / most_files.max(1)).min(62);
        if files.is_multiple_of(stride) {
            sampled_files += 1;
            pieces.ask(directory, name, &mut buffer);
        }
        files += 1;
        Ok(())
    })?;
    let mut free = FreePieces::default();
    let told = visit_free_extents(ground, |_, length| free.add(length));
    let values = pieces.values().into_iter().chain(free.values(told)).collect();
    Ok(Look { files, directories, sampled_files, values })
}

/// In how many pieces files lie.
#[derive(Debug, Default)]
struct FilePieces {
    /// Number of files by number of pieces, 1 and more.
    counts: BTreeMap<u64, u64>,
    /// Files that have data.
    files: u64,
    /// Those of them that are stored in the metadata.
    inline: u64,
    /// Those that could not be asked, and why the last.
    failed: Option<(u64, Errno)>,
    /// Whether the filesystem tells no extents at all.
    untold: bool,
}

impl FilePieces {
    fn ask(&mut self, directory: &OwnedFd, name: &CStr, buffer: &mut ExtentBuffer) {
        if self.untold {
            return;
        }
        match count_pieces(directory, name, buffer) {
            Ok(found) => self.add(found),
            // Removed in the meantime.
            Err(Errno::NOENT) => {}
            Err(Errno::OPNOTSUPP) => self.untold = true,
            Err(errno) => {
                self.failed = Some((self.failed.map_or(0, |(count, _)| count) + 1, errno));
            }
        }
    }

    fn add(&mut self, found: Pieces) {
        if found.count > 0 {
            *self.counts.entry(found.count).or_default() += 1;
            self.files += 1;
            self.inline += u64::from(found.inline);
        }
    }

    fn values(&self) -> Vec<(&'static str, f64)> {
        if self.files == 0 || self.untold {
            return Vec::new();
        }
        let files = self.files as f64;
        let all: u64 = self.counts.iter().map(|(count, files)| count * files).sum();
        let whole = self.counts.get(&1).copied().unwrap_or_default();
        let most = self.counts.last_key_value().map_or(0, |(count, _)| *count);
        vec![
            ("extents_per_file", all as f64 / files),
            ("extents_per_file_p99", self.percentile(99) as f64),
            ("extents_per_file_max", most as f64),
            ("fragmented_share", (self.files - whole) as f64 / files),
            ("inline_share", self.inline as f64 / files),
        ]
    }

    /// The number of pieces that `percent` of 100 files do not exceed (nearest rank).
    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.files * percent).div_ceil(100);
        let mut seen = 0;
        let reached = self.counts.iter().find(|(_, files)| {
            seen += **files;
            seen >= rank
        });
        reached.map_or(0, |(count, _)| *count)
    }
}

/// Those of one file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Pieces {
    /// 0 where it has no data.
    count: u64,
    inline: bool,
}

impl Pieces {
    fn add(&mut self, extent: &Extent, previous: Option<&Extent>) {
        self.count += u64::from(!previous.is_some_and(|previous| extent.continues(previous)));
        self.inline |= extent.is_inline();
    }
}

fn count_pieces(directory: &OwnedFd, name: &CStr, buffer: &mut ExtentBuffer) -> CallResult<Pieces> {
    let mut pieces = Pieces::default();
    let file = Real.open_read(directory, name)?;
    let size_bytes = Real.stat_open(&file)?.size;
    if size_bytes == 0 {
        return Ok(pieces);
    }
    let mut previous: Option<Extent> = None;
    visit_extents(&file, MapOptions::default(), buffer, |extent| {
        if extent.logical_bytes < size_bytes {
            pieces.add(extent, previous.as_ref());
            previous = Some(*extent);
        }
    })?;
    Ok(pieces)
}

/// In how many pieces the free space lies.
#[derive(Debug, Default)]
struct FreePieces {
    count: u64,
    sum_bytes: u64,
    largest_bytes: u64,
    /// The sum of the pieces smaller than [`USABLE_BYTES`].
    unusable_bytes: u64,
}

impl FreePieces {
    fn add(&mut self, length_bytes: u64) {
        self.count += 1;
        self.sum_bytes += length_bytes;
        self.largest_bytes = self.largest_bytes.max(length_bytes);
        if length_bytes < USABLE_BYTES {
            self.unusable_bytes += length_bytes;
        }
    }

    /// Nothing where the filesystem did not tell to the end.
    fn values(&self, told: CallResult<()>) -> Vec<(&'static str, f64)> {
        if told.is_err() {
            return Vec::new();
        }
        let mut values = vec![
            ("free_extents", self.count as f64),
            ("free_extent_largest_mib", self.largest_bytes as f64 / MIB),
        ];
        if self.count > 0 {
            let sum = self.sum_bytes as f64;
            values.push(("free_extent_mean_mib", sum / MIB / self.count as f64));
            values.push(("free_space_fragmentation", self.unusable_bytes as f64 / sum));
        }
        values
    }
}

/// What a reader cannot know, with the reason; `None` where all was told.
fn unknown(pieces: &FilePieces, free_told: CallResult<()>) -> Option<String> {
    let files = if pieces.untold {
        Some("the extents of files: the filesystem tells none".to_owned())
    } else {
        pieces.failed.map(|(count, errno)| format!("the extents of {count} files: {errno}"))
    };
    let free = free_told.err().map(|errno| match errno {
        Errno::OPNOTSUPP => "the extents of the free space: the filesystem tells none".to_owned(),
        errno => format!("the extents of the free space: {errno}"),
    });
    let missing: Vec<String> = files.into_iter().chain(free).collect();
    (!missing.is_empty()).then(|| format!("not known: {}", missing.join("; ")))
}

/// A directory that was listed, with those in it that are still to be walked.
struct Level {
    directory: OwnedFd,
    /// Path below the root, for messages.
    path: String,
    pending: Vec<CString>,
}

/// Calls `visit` with the directory and the name of each regular file below `root`. Memory does not
/// grow with the number of files, only with that of the directories in one directory. What cannot be
/// opened as a directory for lack of rights, or is another mount, is left out. Gives the number of
/// directories below the root.
fn walk(
    root: OwnedFd,
    mut visit: impl FnMut(&OwnedFd, &CStr) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let mut directories = 0;
    let mut buffer = dir_buffer();
    let mut levels = vec![list(root, String::new(), &mut buffer, &mut visit)?];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.pending.pop() else {
            levels.pop();
            continue;
        };
        let path = format!("{}{}/", level.path, name.to_string_lossy());
        match open_dir_within(&level.directory, &name) {
            Ok(directory) => {
                directories += 1;
                levels.push(list(directory, path, &mut buffer, &mut visit)?);
            }
            Err(Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::NOENT) => {}
            Err(errno) => return Err(call_failed("open", path, errno).into()),
        }
    }
    Ok(directories)
}

fn list(
    directory: OwnedFd,
    path: String,
    buffer: &mut [MaybeUninit<u8>],
    visit: &mut impl FnMut(&OwnedFd, &CStr) -> anyhow::Result<()>,
) -> anyhow::Result<Level> {
    let mut pending = Vec::new();
    let mut outcome = Ok(());
    let listed = Real.list(&directory, buffer, |name, kind, _| {
        if outcome.is_err() {
            return;
        }
        let kind = match kind {
            FileKind::Unknown => Real.stat(&directory, name).map_or(kind, |facts| facts.kind),
            known => known,
        };
        match kind {
            FileKind::File => outcome = visit(&directory, name),
            FileKind::Directory => pending.push(name.to_owned()),
            _ => {}
        }
    });
    outcome?;
    listed.map_err(|errno| call_failed("getdents", path.as_str(), errno))?;
    Ok(Level { directory, path, pending })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn value(values: &[(&'static str, f64)], metric: &str) -> Option<f64> {
        values.iter().find(|(name, _)| *name == metric).map(|(_, value)| *value)
    }

    #[test]
    fn touching_extents_are_one_piece() {
        for (extents, count) in [
            (&[][..], 0),
            (&[(0, 100, 50)], 1),
            (&[(0, 100, 50), (50, 150, 50)], 1),
            (&[(0, 100, 50), (50, 151, 50), (100, 201, 1)], 2),
            (&[(0, 300, 50), (50, 200, 50), (100, 100, 50)], 3),
        ] {
            let mut pieces = Pieces::default();
            let mut previous = None;
            for &(logical, physical, length) in extents {
                let extent = Extent::new(logical, physical, length, 0);
                pieces.add(&extent, previous.as_ref());
                previous = Some(extent);
            }
            assert_eq!(pieces, Pieces { count, inline: false }, "{extents:?}");
        }
    }

    #[test]
    fn files_are_summed_up_by_their_pieces() {
        let mut pieces = FilePieces::default();
        assert_eq!(pieces.values(), []);
        let inline = Pieces { count: 1, inline: true };
        for (number, file) in [
            (40, inline),
            (50, Pieces { inline: false, ..inline }),
            (9, Pieces { count: 3, inline: false }),
            (1, Pieces { count: 83, inline: false }),
            // Empty ones do not count.
            (7, Pieces::default()),
        ] {
            (0..number).for_each(|_| pieces.add(file));
        }
        let values = pieces.values();
        for (metric, expected) in [
            ("extents_per_file", 2.0),
            ("extents_per_file_p99", 3.0),
            ("extents_per_file_max", 83.0),
            ("fragmented_share", 0.1),
            ("inline_share", 0.4),
        ] {
            assert_eq!(value(&values, metric), Some(expected), "{metric}");
        }
        assert_eq!((pieces.percentile(100), pieces.percentile(1)), (83, 1));
    }

    #[test]
    fn free_space_is_fragmented_where_it_lies_in_small_pieces() {
        let mut free = FreePieces::default();
        assert_eq!(value(&free.values(Ok(())), "free_extents"), Some(0.0));
        assert_eq!(value(&free.values(Ok(())), "free_space_fragmentation"), None);
        for mib in [0.5, 1.0, 2.0, 0.5] {
            free.add((mib * MIB) as u64);
        }
        let values = free.values(Ok(()));
        for (metric, expected) in [
            ("free_extents", 4.0),
            ("free_extent_mean_mib", 1.0),
            ("free_extent_largest_mib", 2.0),
            ("free_space_fragmentation", 0.25),
        ] {
            assert_eq!(value(&values, metric), Some(expected), "{metric}");
        }
        assert_eq!(free.values(Err(Errno::PERM)), []);
    }

    #[test]
    fn each_value_is_a_metric() {
        let mut pieces = FilePieces::default();
        pieces.add(Pieces { count: 1, inline: false });
        let mut free = FreePieces::default();
        free.add(1);
        let values = pieces.values().into_iter().chain(free.values(Ok(())));
        for (name, _) in values {
            assert!(fsdyno_model::metric::find(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_is_unknown_is_said_with_the_reason() {
        let mut pieces = FilePieces::default();
        assert_eq!(unknown(&pieces, Ok(())), None);
        let text = unknown(&pieces, Err(Errno::PERM)).unwrap();
        assert!(text.starts_with("not known: the extents of the free space: "), "{text}");
        pieces.failed = Some((3, Errno::ACCESS));
        assert!(unknown(&pieces, Ok(())).unwrap().contains("the extents of 3 files: "));
        pieces.untold = true;
        let text = unknown(&pieces, Err(Errno::OPNOTSUPP)).unwrap();
        assert_eq!(text.matches("the filesystem tells none").count(), 2, "{text}");
    }

    #[test]
    fn every_regular_file_is_walked_once_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let mut expected = BTreeSet::new();
        let mut path = directory.path().to_owned();
        for depth in 0..40 {
            for index in 0..depth % 4 {
                let name = format!("f{depth}-{index}");
                std::fs::write(path.join(&name), "x").unwrap();
                expected.insert(name);
            }
            for name in ["empty", "deeper"] {
                std::fs::create_dir(path.join(name)).unwrap();
            }
            std::os::unix::fs::symlink("deeper", path.join("link")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", path.join("other")).unwrap();
            path.push("deeper");
        }
        let walked = |root: &Path| {
            let mut found = Vec::new();
            let outcome = walk(Real.open_root(root).unwrap(), |_, name| {
                found.push(name.to_str().unwrap().to_owned());
                Ok(())
            });
            outcome.map(|_| found)
        };
        let found = walked(directory.path()).unwrap();
        assert_eq!(found.len(), expected.len());
        assert_eq!(BTreeSet::from_iter(found), expected);
        let error = walk(Real.open_root(directory.path()).unwrap(), |_, _| anyhow::bail!("no"));
        assert_eq!(error.unwrap_err().to_string(), "no");
    }
}
