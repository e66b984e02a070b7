//! What is there after a power cut: names, inodes, contents, and what could not be read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Most bytes of a file that are looked at; those of the workload are smaller.
const MOST_BYTES: u64 = 8 << 20;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    /// Its inode.
    pub inode: u64,
    /// Its contents; an error where they cannot be read.
    pub contents: Result<Vec<u8>, String>,
}

/// A worker's directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundTree {
    /// Files by name, with its directory; an error where one cannot be looked at.
    pub files: BTreeMap<String, Result<FoundFile, String>>,
    /// Directories that cannot be listed, with why.
    pub lost_directories: BTreeMap<String, String>,
}

/// Reads `directories` below `root`.
#[must_use]
pub fn read(root: &Path, directories: &[String]) -> FoundTree {
    let mut tree = FoundTree::default();
    for directory in directories {
        let listed = fs::read_dir(root.join(directory)).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        match listed {
            Ok(names) => {
                for name in names {
                    let path = root.join(directory).join(&name);
                    let name = format!("{directory}/{}", name.to_string_lossy());
                    tree.files.insert(name, file(&path).map_err(|error| error.to_string()));
                }
            }
            Err(error) => {
                tree.lost_directories.insert(directory.clone(), error.to_string());
            }
        }
    }
    tree
}

fn file(path: &Path) -> std::io::Result<FoundFile> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_file() {
        return Ok(FoundFile {
            inode: metadata.ino(),
            contents: Err("it is no file any more".to_owned()),
        });
    }
    // What a power cut has made of a file must not be followed elsewhere.
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut contents = Vec::new();
    let read = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut contents));
    let contents = match read {
        Ok(_) => Ok(contents),
        Err(error) => Err(error.to_string()),
    };
    Ok(FoundFile { inode: metadata.ino(), contents })
}
