//! Entries of an archive become files, directories and links below a directory, as `tar -x` makes
//! them. Nothing outside of that directory is touched, whatever the archive says.
//!
//! Made are regular files, directories, hard links and symbolic links, with the modes and the times
//! of the archive; directories get theirs at the end, after all that is in them. Not restored are
//! owners, set-user-ID and set-group-ID bits (which mean another user with another owner), extended
//! attributes and fractions of seconds. An entry replaces a file or link that an earlier one made.

use fsdyno_sys::calls::{CreateFlags, FileKind};
use fsdyno_sys::{Errno, SysError};

use super::Archive;
use super::attributes::{Attributes, umask};
use super::directories::{Directories, Obstacle};
use super::entries::{Entry, EntryKind, EntryName};
use crate::failure::{call_failed, check_interrupt};
use crate::recorder::{Operation, Recorder};

/// Most bytes of one write.
const BUFFER_BYTES: usize = 256 << 10;
/// The permission bits that are restored.
const MODE_BITS: u32 = 0o1777;

/// How an archive is extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtractOptions {
    /// How many directories at the beginning of each name are left out (`.` is none); entries of which nothing is
    /// left are too.
    pub strip_components: u64,
    /// Whether files and directories get the modification times of the archive.
    pub keep_times: bool,
}

impl Default for ExtractOptions {
    fn default() -> Self {
        Self { strip_components: 0, keep_times: true }
    }
}

/// What was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Regular files.
    pub files: u64,
    /// Entries for directories.
    pub directories: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and the like, which were left out.
    pub skipped: u64,
    /// Bytes written into files.
    pub bytes: u64,
}

/// Extracts all of `archive` below the open directory `root`. Every call on the target is recorded,
/// reading the archive is not. `advance` is told of each entry and the bytes of its contents.
///
/// # Errors
/// The archive is damaged or asks for what is never done ([`super::ArchiveError`], with the entry and its
/// place), a call failed (with the path below `root`), or a signal asked to stop. What was made until
/// then stays.
pub fn extract<C: Attributes>(
    calls: &C,
    root: &C::Fd,
    archive: &Archive,
    options: ExtractOptions,
    recorder: &mut Recorder,
    mut advance: impl FnMut(u64),
) -> anyhow::Result<Extracted> {
    let mut extractor = Extractor {
        calls,
        root,
        options,
        umask: umask(),
        name: EntryName::default(),
        target: EntryName::default(),
        directories: Directories::new(),
        link_directories: Directories::new(),
        postponed: Vec::new(),
        buffer: vec![0; BUFFER_BYTES],
        made: Extracted::default(),
        recorder,
    };
    archive.read(|entries| {
        while let Some(mut entry) = entries.next_entry()? {
            check_interrupt()?;
            let bytes_before = extractor.made.bytes;
            extractor.make(&mut entry)?;
            advance(extractor.made.bytes - bytes_before);
        }
        Ok(())
    })?;
    extractor.finish()?;
    Ok(extractor.made)
}

/// A directory whose attributes are set at the end.
struct Postponed {
    path: Vec<u8>,
    mode: u32,
    modified_s: Option<i64>,
}

struct Extractor<'a, C: Attributes> {
    calls: &'a C,
    root: &'a C::Fd,
    options: ExtractOptions,
    umask: Option<u32>,
    name: EntryName,
    target: EntryName,
    directories: Directories<C>,
    /// For the other names of hard links, which lie elsewhere.
    link_directories: Directories<C>,
    postponed: Vec<Postponed>,
    buffer: Vec<u8>,
    made: Extracted,
    recorder: &'a mut Recorder,
}

impl<C: Attributes> Extractor<'_, C> {
    fn make(&mut self, entry: &mut Entry<'_, '_>) -> anyhow::Result<()> {
        if entry.kind() == EntryKind::Other {
            self.made.skipped += 1;
            return Ok(());
        }
        self.name
            .set(entry.raw_name(), self.options.strip_components)
            .map_err(|reason| entry.refused(reason))?;
        if self.name.is_empty() {
            return Ok(());
        }
        match entry.kind() {
            EntryKind::File => self.make_file(entry),
            EntryKind::Directory => self.make_directory(entry),
            EntryKind::HardLink => self.make_hard_link(entry),
            EntryKind::Symlink => self.make_symlink(entry),
            EntryKind::Other => Ok(()),
        }
    }

    fn make_file(&mut self, entry: &mut Entry<'_, '_>) -> anyhow::Result<()> {
        let Self { calls, root, ref name, ref mut directories, ref mut buffer, .. } = *self;
        let recorder = &mut *self.recorder;
        let failed = |call| move |errno: Errno| call_failed(call, name.to_text(), errno);
        let parent = directories
            .lead(calls, root, (name, name.len() - 1), true, recorder)
            .map_err(|obstacle| told(entry, obstacle))?;
        let last = name.component(name.len() - 1);
        // Before the file is made: of a damaged archive no more is left than need be.
        let mut count = entry.read(buffer)?;
        let mode = entry.mode()? & MODE_BITS;
        recorder.begin();
        let mut created = calls.create(parent, last, CreateFlags::EXCLUSIVE);
        if created.as_ref().is_err_and(|errno| *errno == Errno::EXIST) {
            calls.unlink(parent, last).map_err(failed("unlink"))?;
            recorder.end(Operation::Unlink);
            created = calls.create(parent, last, CreateFlags::EXCLUSIVE);
        }
        let file = created.map_err(failed("create"))?;
        recorder.end(Operation::Create);
        while count > 0 {
            calls.write_all(&file, &buffer[..count]).map_err(failed("write"))?;
            recorder.end(Operation::Write);
            recorder.bytes += count as u64;
            self.made.bytes += count as u64;
            if count < buffer.len() {
                break;
            }
            check_interrupt()?;
            count = entry.read(buffer)?;
            recorder.begin();
        }
        if self.umask.is_none_or(|umask| mode != 0o666 & !umask) {
            calls.set_mode(&file, mode).map_err(failed("chmod"))?;
            recorder.end(Operation::Chmod);
        }
        if let Some(seconds) = entry.modified_s().filter(|_| self.options.keep_times) {
            calls.set_modified(&file, seconds).map_err(failed("utimens"))?;
            recorder.end(Operation::Utimens);
        }
        calls.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        recorder.files += 1;
        self.made.files += 1;
        Ok(())
    }

    fn make_directory(&mut self, entry: &mut Entry<'_, '_>) -> anyhow::Result<()> {
        let Self { calls, root, ref name, ref mut directories, .. } = *self;
        let recorder = &mut *self.recorder;
        let parent = directories
            .lead(calls, root, (name, name.len() - 1), true, recorder)
            .map_err(|obstacle| told(entry, obstacle))?;
        let last = name.component(name.len() - 1);
        recorder.begin();
        match calls.mkdir(parent, last) {
            Ok(()) => recorder.end(Operation::Mkdir),
            Err(Errno::EXIST) => {
                let facts = calls.stat(parent, last);
                let facts = facts.map_err(|errno| call_failed("stat", name.to_text(), errno))?;
                if facts.kind != FileKind::Directory {
                    return Err(entry
                        .refused("a file or link of that name was made before")
                        .into());
                }
            }
            Err(errno) => return Err(call_failed("mkdir", name.to_text(), errno).into()),
        }
        let mode = entry.mode()? & MODE_BITS;
        let modified_s = entry.modified_s().filter(|_| self.options.keep_times);
        self.postponed.push(Postponed { path: name.to_bytes(), mode, modified_s });
        self.made.directories += 1;
        Ok(())
    }

    fn make_hard_link(&mut self, entry: &mut Entry<'_, '_>) -> anyhow::Result<()> {
        let target = entry.link_name();
        self.target
            .set(&target, self.options.strip_components)
            .and_then(|()| if self.target.is_empty() { Err("it names nothing") } else { Ok(()) })
            .map_err(|reason| {
                let target = String::from_utf8_lossy(&target);
                entry.refused(format!(
                    "it is a hard link to `{target}`, and that is refused: {reason}"
                ))
            })?;
        let Self { calls, root, ref name, ref target, .. } = *self;
        let (directories, link_directories) = (&mut self.directories, &mut self.link_directories);
        let recorder = &mut *self.recorder;
        let failed = |call| {
            move |errno: Errno| {
                call_failed(call, format!("{} to {}", name.to_text(), target.to_text()), errno)
            }
        };
        let parent = directories
            .lead(calls, root, (name, name.len() - 1), true, recorder)
            .map_err(|obstacle| told(entry, obstacle))?;
        let target_parent = link_directories
            .lead(calls, root, (target, target.len() - 1), false, recorder)
            .map_err(|obstacle| told(entry, obstacle))?;
        let last = name.component(name.len() - 1);
        let target_last = target.component(target.len() - 1);
        recorder.begin();
        let mut linked = calls.link(target_parent, target_last, parent, last);
        if linked == Err(Errno::EXIST) && name.to_bytes() != target.to_bytes() {
            calls.unlink(parent, last).map_err(failed("unlink"))?;
            recorder.end(Operation::Unlink);
            linked = calls.link(target_parent, target_last, parent, last);
        }
        linked.map_err(failed("link"))?;
        recorder.end(Operation::Link);
        self.made.hard_links += 1;
        Ok(())
    }

    fn make_symlink(&mut self, entry: &mut Entry<'_, '_>) -> anyhow::Result<()> {
        let target = std::ffi::CString::new(entry.link_name())
            .map_err(|_| entry.refused("its target holds a NUL byte"))?;
        let Self { calls, root, ref name, ref mut directories, .. } = *self;
        let recorder = &mut *self.recorder;
        let failed = |call| move |errno: Errno| call_failed(call, name.to_text(), errno);
        let parent = directories
            .lead(calls, root, (name, name.len() - 1), true, recorder)
            .map_err(|obstacle| told(entry, obstacle))?;
        let last = name.component(name.len() - 1);
        recorder.begin();
        let mut linked = calls.symlink(&target, parent, last);
        if linked == Err(Errno::EXIST) {
            calls.unlink(parent, last).map_err(failed("unlink"))?;
            recorder.end(Operation::Unlink);
            linked = calls.symlink(&target, parent, last);
        }
        linked.map_err(failed("symlink"))?;
        recorder.end(Operation::Symlink);
        self.made.symlinks += 1;
        Ok(())
    }

    /// Sets the attributes of directories, those deepest down first, and closes what is open.
    fn finish(&mut self) -> anyhow::Result<()> {
        let Self { calls, root, umask, ref mut name, ref mut directories, .. } = *self;
        let recorder = &mut *self.recorder;
        let plain = |obstacle| match obstacle {
            Obstacle::Refused(reason) => anyhow::Error::msg(reason),
            Obstacle::Failed(error) => error.into(),
        };
        let mut postponed = std::mem::take(&mut self.postponed);
        postponed.retain(|it| {
            it.modified_s.is_some() || umask.is_none_or(|umask| it.mode != 0o777 & !umask)
        });
        // What lies in a directory comes before it; of two entries for one the later comes last.
        postponed.sort_by(|left, right| right.path.cmp(&left.path));
        for Postponed { path, mode, modified_s } in &postponed {
            check_interrupt()?;
            name.set(path, 0).map_err(anyhow::Error::msg)?;
            let directory = directories
                .lead(calls, root, (name, name.len()), false, recorder)
                .map_err(plain)?;
            let failed = |call| {
                move |errno: Errno| -> SysError {
                    call_failed(call, String::from_utf8_lossy(path), errno)
                }
            };
            recorder.begin();
            if umask.is_none_or(|umask| *mode != 0o777 & !umask) {
                calls.set_mode(directory, *mode).map_err(failed("chmod"))?;
                recorder.end(Operation::Chmod);
            }
            if let Some(seconds) = modified_s {
                calls.set_modified(directory, *seconds).map_err(failed("utimens"))?;
                recorder.end(Operation::Utimens);
            }
        }
        directories.close(calls, recorder).map_err(plain)?;
        self.link_directories.close(calls, recorder).map_err(plain)
    }
}

#[cold]
fn told(entry: &Entry<'_, '_>, obstacle: Obstacle) -> anyhow::Error {
    match obstacle {
        Obstacle::Refused(reason) => entry.refused(reason).into(),
        Obstacle::Failed(error) => error.into(),
    }
}
