//! Whether the filesystem of a stand still does what it was mounted for: the mount table tells where it took
//! away the right to write by itself. What the kernel said about it is in [`crate::kernel_log`].

use fsdyno_sys::mount::{self, MountInfo};

use super::{Base, Stand};
use crate::kernel_log::{READ_ONLY, SHUT_DOWN};

impl Stand<'_> {
    /// What became of a filesystem that was mounted for writing, in words; `None` where nothing did, or
    /// where it is not mounted so.
    #[must_use]
    pub fn condition(&self) -> Option<&'static str> {
        let mounted = match &self.base {
            Base::Fresh(fresh) if fresh.mounted => {
                let mounts = mount::mounts().ok()?;
                mounts.into_iter().rev().find(|it| it.mount_point == fresh.mount_point)
            }
            Base::Fresh(_) => None,
            Base::Directory(directory) => mount::mount_containing(directory).ok()?,
        };
        mounted.as_ref().and_then(given_up)
    }
}

/// How a filesystem that was mounted for writing gave up, in words. ext4 names its states since Linux 6.15;
/// others turn the whole filesystem read-only.
#[must_use]
pub fn given_up(mounted: &MountInfo) -> Option<&'static str> {
    // What was mounted without the right to write did not lose it.
    if mounted.mount_options.iter().any(|it| it == "ro") {
        return None;
    }
    let has = |option: &str| mounted.super_options.iter().any(|it| it == option);
    if has("shutdown") {
        Some(SHUT_DOWN)
    } else if has("emergency_ro") || has("ro") {
        Some(READ_ONLY)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_tells_what_a_filesystem_did_to_itself() {
        for (options, expected) in [
            ("rw", None),
            ("rw,errors=remount-ro", None),
            ("rw,errors=remount-ro,emergency_ro", Some(READ_ONLY)),
            ("ro,errors=remount-ro", Some(READ_ONLY)),
            ("rw,shutdown", Some(SHUT_DOWN)),
        ] {
            let line = format!("42 27 7:0 / /m rw,relatime - ext4 /dev/loop0 {options}\n");
            assert_eq!(given_up(&mount::parse_mountinfo(&line)[0]), expected, "{options}");
            let read_back = line.replace(" rw,relatime ", " ro,relatime ");
            assert_eq!(given_up(&mount::parse_mountinfo(&read_back)[0]), None, "{options}");
        }
    }
}
