//! What a command may leave on its target that keeps it from being taken down: mounts below it, and
//! directories or files that cannot be removed. Processes are [`fsdyno_sys::orphans`]'s.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use fsdyno_sys::{Result, mount, process};
use rustix::fs::{IFlags, OFlags, ioctl_getflags, ioctl_setflags};

/// Rights without which a directory cannot be emptied.
const OWN_RIGHTS: u32 = 0o700;

/// Numbers of the mounts at and below `root`.
///
/// # Errors
/// Where mounts cannot be listed.
pub fn mounts_below(root: &Path) -> Result<Vec<u64>> {
    let mut mounted = mount::mounts()?;
    mounted.retain(|mounted| mounted.mount_point.starts_with(root));
    Ok(mounted.into_iter().map(|mounted| mounted.id).collect())
}

/// Undoes the mounts at and below `root` that are not in `before`, the last first, so that nobody
/// deletes the files of another filesystem with those of the target; gives their places, relative to
/// `root`.
///
/// # Errors
/// Where a mount cannot even be detached, or mounts cannot be listed.
pub fn unmount_below(root: &Path, before: &[u64]) -> Result<Vec<String>> {
    let mut undone = Vec::new();
    for mounted in mount::mounts()?.into_iter().rev() {
        let Ok(place) = mounted.mount_point.strip_prefix(root) else { continue };
        if before.contains(&mounted.id) {
            continue;
        }
        if mount::unmount(&mounted.mount_point).is_err() {
            mount::unmount_lazy(&mounted.mount_point)?;
        }
        undone.push(place.display().to_string());
    }
    Ok(undone)
}

/// Lifts what would keep `rm -r` from removing what is in `root`: missing rights on directories for an
/// ordinary user, the attributes immutable and append-only for root. What cannot be lifted is left.
pub fn make_removable(root: &Path) {
    let is_root = process::is_root();
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let Ok(found) = entry.metadata() else { continue };
        let path = entry.path();
        let lacking = found.is_dir() && found.mode() & OWN_RIGHTS != OWN_RIGHTS;
        if is_root && (found.is_dir() || found.is_file()) {
            lift_attributes(&path);
        }
        if lacking && !is_root {
            let rights = fs::Permissions::from_mode(found.mode() & 0o7777 | OWN_RIGHTS);
            // One of another user's: the removal will say so.
            let _ = fs::set_permissions(&path, rights);
        }
        if found.is_dir() {
            make_removable(&path);
        }
    }
}

fn lift_attributes(path: &Path) {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let Ok(file) = File::options().read(true).custom_flags(flags).open(path) else { return };
    let held = IFlags::IMMUTABLE | IFlags::APPEND;
    if let Ok(attributes) = ioctl_getflags(&file)
        && attributes.intersects(held)
    {
        // The removal will say so where this is refused.
        let _ = ioctl_setflags(&file, attributes - held);
    }
}
