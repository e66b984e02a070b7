//! What is promised. To all filesystems the same: what POSIX and the manual of fsync(2) say. To each
//! besides: what its own documentation says, with the place.

use serde::{Deserialize, Serialize};

/// What a filesystem promises beyond fsync(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promises {
    /// `fsync` of a file makes the names durable that it has at that time, without an `fsync` of their
    /// directories.
    pub names_by_file_fsync: bool,
    /// A file that takes another's place by rename has its contents there, though nobody called `fsync`:
    /// the name shows the old contents or the new ones.
    pub replace_by_rename: bool,
    /// Changes of names outlive a cut in their order: a file that got another name by a link, and then lost
    /// its first one, has a name. For a rename alone rename(2) says it.
    #[serde(default)]
    pub ordered_links: bool,
}

/// fsync(2) and POSIX alone.
pub const MANUAL: Promises =
    Promises { names_by_file_fsync: false, replace_by_rename: false, ordered_links: false };

/// What `filesystem`, mounted with `options`, documents of calls that were acknowledged and, where
/// `unsynced_rename` says so, of renames without `fsync`.
///
/// Names: J. Mohan, A. Kadekodi, V. Chidambaram, *Document crash-recovery guarantees* (linux-fsdevel,
/// March 2019) for ext4, xfs and btrfs; ext3 commits the same journal as ext4. Replacing: the kernel's
/// Documentation/admin-guide/ext4.rst, `auto_da_alloc`, in the mode data=ordered; btrfs gave that up in
/// Linux 3.17. Order of links: strictly ordered metadata consistency, as D. Chinner describes it for xfs,
/// and F. Manana holds btrfs to it (linux-btrfs, 26 October 2025); ext3 and ext4 have one journal for all.
#[must_use]
pub fn documented(filesystem: &str, options: &str, unsynced_rename: bool) -> Promises {
    let has = |word: &str| options.split(',').any(|option| option == word);
    let ordered = !has("data=writeback") && !has("noauto_da_alloc");
    let is_ordered = matches!(filesystem, "ext3" | "ext4" | "xfs" | "btrfs");
    Promises {
        names_by_file_fsync: is_ordered,
        replace_by_rename: unsynced_rename && filesystem == "ext4" && ordered,
        ordered_links: is_ordered,
    }
}

/// Why a filesystem is not put to the test; `None` where it can be.
#[must_use]
pub fn no_promise(filesystem: &str) -> Option<&'static str> {
    match filesystem {
        "ext2" => Some(
            "ext2 has no journal: after a power cut it must be repaired before it may be mounted, and \
             promises no more than what the repair finds",
        ),
        "exfat" | "vfat" => Some(
            "it has no journal: entries of a directory and the table of clusters are written one after the \
             other, and what a power cut leaves between them only a repair mends",
        ),
        // The kernel's Documentation/filesystems/ntfs3.rst has writing a journal on its list of what is to be
        // done.
        "ntfs3" | "ntfs" => Some(
            "the kernel replays a journal that Windows wrote and writes none itself: after a power cut it must \
             be repaired",
        ),
        "jfs" => {
            Some("its log is replayed by jfs_fsck, not by mounting it, and that is not done here")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_promises_back() {
        assert!(documented("ext4", "", true).replace_by_rename);
        assert!(!documented("ext4", "", false).replace_by_rename);
        assert!(!documented("ext4", "noatime,noauto_da_alloc", true).replace_by_rename);
        assert!(!documented("xfs", "", true).replace_by_rename);
        assert_eq!(documented("f2fs", "", true), MANUAL);
        assert!(documented("btrfs", "", false).ordered_links && !MANUAL.ordered_links);
        assert!(["ext2", "exfat"].iter().all(|name| no_promise(name).is_some()));
        assert!(["ext4", "f2fs", "xfs"].iter().all(|name| no_promise(name).is_none()));
    }
}
