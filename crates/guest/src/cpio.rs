//! The archive that an initial file system is: cpio in its "newc" form, written in order with times and
//! owners of 0, so that the same contents give the same bytes.
//!
//! Source: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeMap;

use crate::Result;

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
/// Bytes that a field of eight digits can tell.
const FILE_LIMIT_BYTES: usize = u32::MAX as usize;

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Directory,
    File { contents: Vec<u8>, executable: bool },
    Link { target: String },
}

/// A tree of files that becomes an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<String, Entry>,
}

impl Tree {
    /// Puts a directory at the absolute `path`, with those above it.
    ///
    /// # Errors
    /// The path is not absolute, or something else lies there.
    pub fn directory(&mut self, path: &str) -> Result<()> {
        self.put(path, Entry::Directory)
    }

    /// Puts a file there.
    ///
    /// # Errors
    /// As [`Tree::directory`]; a file of 4 GiB or more.
    pub fn file(&mut self, path: &str, contents: Vec<u8>, executable: bool) -> Result<()> {
        if contents.len() > FILE_LIMIT_BYTES {
            return Err(format!("{path} is too large for an initial file system"));
        }
        self.put(path, Entry::File { contents, executable })
    }

    /// Puts a symbolic link there.
    ///
    /// # Errors
    /// As [`Tree::directory`].
    pub fn link(&mut self, path: &str, target: &str) -> Result<()> {
        self.put(path, Entry::Link { target: target.to_owned() })
    }

    /// Whether something lies at `path`.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        path.strip_prefix('/').is_some_and(|name| self.entries.contains_key(name))
    }

    fn put(&mut self, path: &str, entry: Entry) -> Result<()> {
        let refused = |why: &str| Err(format!("{} cannot be put into a guest: {why}", path));
        let Some(name) = path.strip_prefix('/') else { return refused("it is not absolute") };
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        if !name.split('/').all(is_plain) || name.contains('\0') {
            return refused("it is no plain path");
        }
        for (at, _) in name.match_indices('/') {
            let above = self.entries.entry(name[..at].to_owned()).or_insert(Entry::Directory);
            if *above != Entry::Directory {
                return refused("what is above it is no directory");
            }
        }
        match self.entries.get(name) {
            Some(known) if *known != entry => refused("something else lies there"),
            _ => {
                self.entries.insert(name.to_owned(), entry);
                Ok(())
            }
        }
    }

    /// The archive. Directories come before what lies in them.
    #[must_use]
    pub fn archive(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, (name, entry)) in self.entries.iter().enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            match entry {
                Entry::Directory => append(&mut out, number, name, DIRECTORY | 0o755, &[]),
                Entry::Link { target } => {
                    append(&mut out, number, name, LINK | 0o777, target.as_bytes());
                }
                Entry::File { contents, executable } => {
                    let mode = if *executable { 0o755 } else { 0o644 };
                    append(&mut out, number, name, FILE | mode, contents);
                }
            }
        }
        append(&mut out, 0, "TRAILER!!!", 0, &[]);
        out.resize(out.len().next_multiple_of(512), 0);
        out
    }
}

/// A header of fixed width in hexadecimal digits, the name and the contents, each padded to four bytes.
fn append(out: &mut Vec<u8>, inode: u32, name: &str, mode: u32, contents: &[u8]) {
    let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
    let size = u32::try_from(contents.len()).expect("looked at when it was put in");
    let name_bytes = u32::try_from(name.len() + 1).expect("a path is short");
    // inode, mode, owner, group, links, time, size, device and its own device, name, checksum
    let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_bytes, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(contents);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.directory("/proc").unwrap();
        tree.file("/sbin/mkfs", b"program".to_vec(), true).unwrap();
        tree.file("/etc/conf", b"text!".to_vec(), false).unwrap();
        tree.link("/etc/mtab", "/proc/mounts").unwrap();
        tree
    }

    #[test]
    fn the_same_tree_is_the_same_archive() {
        let archive = tree().archive();
        assert_eq!(archive, tree().archive());
        assert_eq!(archive.len() % 512, 0);
        assert!(tree().contains("/sbin") && !tree().contains("/bin"));
    }

    #[test]
    fn cpio_reads_it() {
        let mut list = Command::new("cpio");
        list.args(["-itv", "--quiet"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = list.stderr(Stdio::null()).spawn() else {
            println!("skipped: cpio is not installed");
            return;
        };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &tree().archive()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        assert!(text.contains("etc/mtab -> /proc/mounts") && text.contains("-rwxr-xr-x"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
    }

    #[test]
    fn paths_are_plain_and_told_once() {
        let mut tree = tree();
        for path in ["etc", "/", "/a/../b", "//x", "/a/", "/x\0y", "/etc/conf/below"] {
            assert!(tree.file(path, Vec::new(), false).is_err(), "{path:?}");
        }
        assert!(tree.link("/etc/conf", "x").unwrap_err().contains("something else"));
        tree.file("/etc/conf", b"text!".to_vec(), false).unwrap();
    }
}
