//! A directory tree copied onto the target: contents, modes, owners, times, symbolic and hard links.
//! Data are always written, never shared with the original: on the target they must lie as if they had
//! been made there.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use fsdyno_sys::SysError;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::failure::{call_failed, check_interrupt};

/// Lies in every directory that a run makes for its images and its work, which are never copied.
const WORKSPACE_MARKER: &str = ".fsdyno-workspace";
const BUFFER_BYTES: usize = 256 << 10;
/// What a file or directory takes is rounded up to this.
const BLOCK_BYTES: u64 = 4096;
/// Bytes between two looks at whether to stop.
const BATCH_BYTES: u64 = 8 << 20;

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Files and symbolic links.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Sockets, pipes and devices, which were left out.
    pub left_out: u64,
}

/// Copies what is in the directory `source` into the directory `target`, in the order of names. The
/// attributes of `target` itself stay as they are.
///
/// # Errors
/// A call that failed, with its path; or [`crate::failure::Interrupted`].
pub fn copy_tree(source: &Path, target: &Path) -> anyhow::Result<Copied> {
    let own = fs::metadata(target).map_err(|error| failed("stat", target, &error))?;
    let mut copier = Copier {
        source,
        own: (own.dev(), own.ino()),
        links: HashMap::new(),
        buffer: vec![0; BUFFER_BYTES],
        since_look: 0,
        copied: Copied::default(),
    };
    copier.directory(source, target)?;
    Ok(copier.copied)
}

/// Bytes that a copy of `source` takes, files and directories each rounded up to 4 KiB; what cannot be
/// read counts nothing.
#[must_use]
pub fn tree_bytes(source: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(source) else { return BLOCK_BYTES };
    let size_of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() && is_workspace(&entry.path()) => 0,
        Ok(found) if found.is_dir() => tree_bytes(&entry.path()),
        Ok(found) => found.len().next_multiple_of(BLOCK_BYTES) / found.nlink().max(1),
        Err(_) => 0,
    };
    entries.flatten().map(size_of).fold(BLOCK_BYTES, u64::saturating_add)
}

fn is_workspace(path: &Path) -> bool {
    path.join(WORKSPACE_MARKER).exists()
}

struct Copier<'a> {
    source: &'a Path,
    /// Device and inode of the target's directory.
    own: (u64, u64),
    /// The copies of files with several names, by device and inode.
    links: HashMap<(u64, u64), PathBuf>,
    buffer: Vec<u8>,
    since_look: u64,
    copied: Copied,
}

impl Copier<'_> {
    fn directory(&mut self, source: &Path, target: &Path) -> anyhow::Result<()> {
        let listed = fs::read_dir(source).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = listed.map_err(|error| failed("read directory", source, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            check_interrupt()?;
            let (from, to) = (entry.path(), target.join(entry.file_name()));
            let found = match entry.metadata() {
                Ok(found) => found,
                // Temporary files come and go in a directory that is in use.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("stat", &from, &error).into()),
            };
            self.entry(&from, &to, &found)?;
        }
        Ok(())
    }

    fn entry(&mut self, from: &Path, to: &Path, found: &Metadata) -> anyhow::Result<()> {
        let kind = found.file_type();
        let number = (found.dev(), found.ino());
        if kind.is_dir() {
            if number == self.own || is_workspace(from) {
                return Ok(());
            }
            fs::create_dir(to).map_err(|error| self.failed("mkdir", from, &error))?;
            self.directory(from, to)?;
        } else if kind.is_symlink() {
            let made = fs::read_link(from).and_then(|text| symlink(text, to));
            made.map_err(|error| self.failed("symlink", from, &error))?;
            self.copied.files += 1;
        } else if kind.is_file() {
            if let Some(first) = self.links.get(&number) {
                let linked = fs::hard_link(first, to);
                return Ok(linked.map_err(|error| self.failed("link", from, &error))?);
            }
            self.contents(from, to)?;
            self.copied.files += 1;
            if found.nlink() > 1 {
                self.links.insert(number, to.to_owned());
            }
        } else {
            self.copied.left_out += 1;
            return Ok(());
        }
        let kept = keep_attributes(to, found);
        Ok(kept.map_err(|error| self.failed("set attributes", from, &error))?)
    }

    fn contents(&mut self, from: &Path, to: &Path) -> anyhow::Result<()> {
        let mut input = File::open(from).map_err(|error| failed("open", from, &error))?;
        let mut options = File::options();
        let opened = options.write(true).create_new(true).mode(0o600).open(to);
        let mut output = opened.map_err(|error| self.failed("create", from, &error))?;
        loop {
            let count = match input.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed("read", from, &error).into()),
            };
            let written = output.write_all(&self.buffer[..count]);
            written.map_err(|error| self.failed("write", from, &error))?;
            self.copied.bytes += count as u64;
            self.since_look += count as u64;
            if self.since_look >= BATCH_BYTES {
                self.since_look = 0;
                check_interrupt()?;
            }
        }
    }

    /// The error of a call on the copy, which is named as it is in the source.
    fn failed(&self, call: &'static str, from: &Path, error: &io::Error) -> SysError {
        failed(call, from.strip_prefix(self.source).unwrap_or(from), error)
    }
}

fn failed(call: &'static str, path: &Path, error: &io::Error) -> SysError {
    let plain = SysError::from_io(call, path, error);
    if plain.detail.is_some() { plain } else { call_failed(call, plain.target, plain.errno) }
}

/// Owner where that is allowed, mode, times: in this order, because each may undo the one before.
fn keep_attributes(to: &Path, found: &Metadata) -> io::Result<()> {
    match lchown(to, Some(found.uid()), Some(found.gid())) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
        _ => {}
    }
    if !found.is_symlink() {
        fs::set_permissions(to, fs::Permissions::from_mode(found.mode() & 0o7777))?;
    }
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(found.atime(), found.atime_nsec()),
        last_modification: time(found.mtime(), found.mtime_nsec()),
    };
    Ok(utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
