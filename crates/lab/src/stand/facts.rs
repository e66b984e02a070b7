//! What is really in force on a mounted target: read back from mount table, superblock, sysfs and procfs.
//! What it means is left to the audit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_model::record::TargetFacts;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::{block as sys_block, mount};

use super::Fresh;
use crate::device::{self, Device};

/// Adds what the drivers of ext, btrfs and bcachefs tell of a filesystem on the device called `name`: all
/// options in force, defaults included, and a read-ahead of its own.
fn add_kernel_facts(name: &str, facts: &mut BTreeMap<String, String>) {
    let options = Path::new("/proc/fs/ext4").join(name).join("options");
    if let Ok(text) = fs::read_to_string(options) {
        let words: Vec<&str> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        facts.insert("filesystem_options".to_owned(), words.join(","));
    }
    if let Some(kib) = read_ahead_of_btrfs(name).or_else(|| read_ahead_of_bcachefs(name)) {
        facts.insert("filesystem_read_ahead_kb".to_owned(), kib);
    }
}

fn read_ahead_of_btrfs(name: &str) -> Option<String> {
    let own = entries(Path::new("/sys/fs/btrfs"));
    let own = own.filter(|path| path.join("devices").join(name).exists());
    let read_ahead = own.map(|path| fs::read_to_string(path.join("bdi/read_ahead_kb")));
    Some(read_ahead.flatten().next()?.trim().to_owned())
}

/// The kernel numbers these settings and does not tell which filesystem has which number: told where all that
/// are mounted have the same.
fn read_ahead_of_bcachefs(name: &str) -> Option<String> {
    let members = entries(Path::new("/sys/fs/bcachefs")).flat_map(|path| entries(&path));
    let mut blocks = members.filter_map(|path| fs::canonicalize(path.join("block")).ok());
    blocks.find(|path| path.file_name().is_some_and(|own| own == name))?;
    let settings = entries(Path::new("/sys/class/bdi")).filter(|path| {
        path.file_name().is_some_and(|own| own.as_encoded_bytes().starts_with(b"bcachefs-"))
    });
    let mut settings =
        settings.filter_map(|path| fs::read_to_string(path.join("read_ahead_kb")).ok());
    let first = settings.next()?;
    settings.all(|other| other == first).then(|| first.trim().to_owned())
}

/// What lies in a directory; nothing where there is none.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Adds how much of the filesystem that holds `path` is free.
fn add_space(path: &Path, facts: &mut BTreeMap<String, String>) {
    let Ok(space) = fsdyno_sys::file::free_space(path) else { return };
    for (name, bytes) in [
        ("filesystem_size_bytes", space.total),
        ("filesystem_free_bytes", space.free),
        ("filesystem_available_bytes", space.available),
    ] {
        facts.insert(name.to_owned(), bytes.to_string());
    }
}

/// Of a filesystem made for the trial, while it is mounted.
pub(super) fn of_fresh(fresh: &Fresh, limit: Duration) -> TargetFacts {
    let mounted = mount::mounts().unwrap_or_default();
    let mounted =
        mounted.into_iter().rev().find(|mounted| mounted.mount_point == fresh.mount_point);
    let mkfs_effective = (fresh.definition.read_back)(fresh.members(), &fresh.mount_point, limit);
    let mut facts = fresh.device.facts();
    if let Some(name) = device::kernel_name(fresh.device.number()) {
        if Path::new("/sys/fs/ext4").join(&name).exists() {
            facts.insert("filesystem_driver".to_owned(), "ext4".to_owned());
        }
        add_kernel_facts(&name, &mut facts);
    }
    add_space(&fresh.mount_point, &mut facts);
    let journal = fresh.journal.as_ref().map(Device::facts).unwrap_or_default();
    facts.extend(journal.into_iter().map(|(name, value)| (format!("journal.{name}"), value)));
    TargetFacts {
        mount_effective: mounted.map(|mounted| mounted.effective_options()),
        mkfs_command: fresh.mkfs_command.clone(),
        mkfs_effective: mkfs_effective.unwrap_or_default(),
        device: facts,
    }
}

/// Of a directory of the user's.
pub(super) fn of_directory(directory: &Path) -> TargetFacts {
    let Ok(Some(mounted)) = mount::mount_containing(directory) else {
        return TargetFacts::default();
    };
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
    add("kind", "directory".to_owned());
    add("directory", directory.display().to_string());
    add("filesystem", mounted.fs_type.clone());
    add("mount_point", mounted.mount_point.display().to_string());
    add("source", mounted.source.clone());
    add_space(directory, &mut facts);
    if let Some(number) = device_under(&mounted) {
        facts.insert("number".to_owned(), number.to_string());
        facts.extend(device::queue_facts(number));
        if let Some(name) = device::kernel_name(number) {
            add_kernel_facts(&name, &mut facts);
            let path = PathBuf::from("/dev").join(name);
            if let Ok(size) = sys_block::size_bytes(&path) {
                facts.insert("size_bytes".to_owned(), size.to_string());
            }
            facts.insert("path".to_owned(), path.display().to_string());
        }
    }
    let mount_effective = Some(mounted.effective_options());
    TargetFacts { mount_effective, device: facts, ..TargetFacts::default() }
}

/// The block device under a mount; for btrfs the one that its source names.
pub(super) fn device_under(mounted: &mount::MountInfo) -> Option<DeviceNumber> {
    if mounted.device.major != 0 {
        return Some(mounted.device).filter(|number| number.sysfs_path().exists());
    }
    if !mounted.source.starts_with('/') {
        return None;
    }
    sys_block::device_number(Path::new(&mounted.source)).ok()
}
