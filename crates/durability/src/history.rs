//! What was done to a filesystem, when, and what was acknowledged. Times are numbers of entries in the
//! write log: an operation that began at an entry behind the cut has left nothing, and one that ended at
//! an entry before it was acknowledged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of a file, which it keeps under whatever name; unique in a recording, never 0.
pub type FileId = u32;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// A new file under a name that is free.
    Create {
        /// The name, with its directory.
        name: String,
        /// The file.
        file: FileId,
        /// Its inode.
        inode: u64,
    },
    /// Bytes written, over old ones or at the end.
    Write {
        /// The file.
        file: FileId,
        /// Where.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// A new length.
    Truncate {
        /// The file.
        file: FileId,
        /// The length.
        size: u64,
    },
    /// Another name, which may be taken: what it named is gone then, or has one name less.
    Rename {
        /// The old name.
        from: String,
        /// The new one.
        to: String,
    },
    /// One more name, which is free.
    Link {
        /// A name that it has.
        from: String,
        /// The new one.
        to: String,
    },
    /// One name less.
    Unlink {
        /// The name.
        name: String,
    },
    /// `fsync` or `fdatasync` of a file.
    Fsync {
        /// The file.
        file: FileId,
        /// Whether it was `fdatasync`.
        data_only: bool,
    },
    /// `fsync` of a directory.
    SyncDirectory {
        /// The directory.
        directory: String,
    },
    /// `syncfs`.
    Sync,
}

/// A call that returned without an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// What was done.
    pub deed: Deed,
    /// Entries in the log before the call.
    pub began: u64,
    /// Entries in the log after it.
    pub ended: u64,
}

/// What one of the workers did, alone in directories of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Its directories; they are durable before the first operation.
    pub directories: Vec<String>,
    /// Its operations in order. The first has number 1.
    pub operations: Vec<Operation>,
}

/// Names and the files that they name.
pub type Names = BTreeMap<String, FileId>;

/// The directory of a name.
#[must_use]
pub fn directory_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl Deed {
    /// Changes names as the call did.
    pub fn apply(&self, names: &mut Names) {
        match self {
            Deed::Create { name, file, .. } => {
                names.insert(name.clone(), *file);
            }
            Deed::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Deed::Link { from, to } => {
                if let Some(file) = names.get(from).copied() {
                    names.insert(to.clone(), file);
                }
            }
            Deed::Unlink { name } => {
                names.remove(name);
            }
            _ => {}
        }
    }
}

/// As a person reads it.
impl std::fmt::Display for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Deed::Create { name, file, .. } => write!(f, "create {name} (file {file})"),
            Deed::Write { file, offset, length } => {
                write!(f, "write {length} bytes at {offset} to file {file}")
            }
            Deed::Truncate { file, size } => write!(f, "truncate file {file} to {size} bytes"),
            Deed::Rename { from, to } => write!(f, "rename {from} to {to}"),
            Deed::Link { from, to } => write!(f, "link {from} as {to}"),
            Deed::Unlink { name } => write!(f, "unlink {name}"),
            Deed::Fsync { file, data_only: false } => write!(f, "fsync file {file}"),
            Deed::Fsync { file, data_only: true } => write!(f, "fdatasync file {file}"),
            Deed::SyncDirectory { directory } => write!(f, "fsync directory {directory}"),
            Deed::Sync => f.write_str("syncfs"),
        }
    }
}
