//! The devices under filesystems, made fresh for each trial: an image under a loop device, one that is
//! served at the times of a model, a block device of the user's that the guard has let pass, or several of
//! them put together. What is made on them is left to others.

pub mod array;
pub mod block;
pub mod emulated;
pub mod image;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsdyno_model::record::Warning;
use fsdyno_model::target::DeviceSpec;
use fsdyno_sys::block::{self as sys_block, DeviceNumber, QueueFacts};

use crate::workspace::Workspace;
use array::ArrayDevice;
use block::BlockTarget;
use emulated::EmulatedDisk;
use image::{Contents, LoopImage};

/// A device that a trial may write to.
#[derive(Debug)]
pub enum Device {
    /// An image of ours.
    Image(LoopImage),
    /// A device of the user's.
    Block(BlockTarget),
    /// A disk that is emulated by a model.
    Emulated(Box<EmulatedDisk>),
    /// Several of them, or one encrypted.
    Array(Box<ArrayDevice>),
}

impl Device {
    /// Makes it fresh: a new image below `directory` called `NAME.img`, with the `contents` of an aged one
    /// where there are such, or the block device emptied.
    ///
    /// # Errors
    /// A sentence: no room, no loop device, or what the guard says.
    pub fn provision(
        workspace: &Workspace,
        spec: &DeviceSpec,
        directory: &Path,
        name: &str,
        default_size_bytes: u64,
        contents: Option<Contents<'_>>,
    ) -> Result<Device, String> {
        match spec {
            DeviceSpec::LoopImage { size_bytes } => {
                let size = size_bytes.unwrap_or(default_size_bytes);
                let path = directory.join(format!("{name}.img"));
                LoopImage::create(&path, size, contents).map(Device::Image)
            }
            DeviceSpec::Block { path } => BlockTarget::take(workspace, path).map(Device::Block),
            DeviceSpec::Emulated { model, size_bytes } => {
                let size = size_bytes.unwrap_or(default_size_bytes);
                let path = directory.join(format!("{name}.img"));
                let disk = EmulatedDisk::create(&path, model, size)?;
                Ok(Device::Emulated(Box::new(disk)))
            }
            DeviceSpec::Array(spec) => {
                let array =
                    ArrayDevice::create(workspace, spec, directory, name, default_size_bytes)?;
                Ok(Device::Array(Box::new(array)))
            }
        }
    }

    /// The path to give to mkfs and mount: that of the device itself, no symbolic link.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Device::Image(image) => image.path(),
            Device::Block(block) => block.path(),
            Device::Emulated(disk) => disk.path(),
            Device::Array(array) => array.path(),
        }
    }

    /// Major and minor number.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        match self {
            Device::Image(image) => image.number(),
            Device::Block(block) => block.number(),
            Device::Emulated(disk) => disk.number(),
            Device::Array(array) => array.number(),
        }
    }

    /// The numbers of all that the filesystem gets: of a pool each member.
    #[must_use]
    pub fn numbers(&self) -> Vec<DeviceNumber> {
        match self {
            Device::Array(array) => array.numbers(),
            other => vec![other.number()],
        }
    }

    /// What the filesystem gets besides [`Device::path`]: the other members of a pool.
    #[must_use]
    pub fn others(&self) -> &[PathBuf] {
        match self {
            Device::Array(array) => array.others(),
            _ => &[],
        }
    }

    /// To be called when mkfs is through: an image gets back the space that mkfs discarded; of a block
    /// device it is recorded which filesystem is ours.
    ///
    /// # Errors
    /// A sentence: no room, or the record cannot be written.
    pub fn formatted(&mut self, workspace: &Workspace) -> Result<(), String> {
        match self {
            Device::Image(image) => image.allocate(),
            Device::Block(block) => block.formatted(workspace),
            Device::Emulated(disk) => disk.allocate(),
            Device::Array(array) => array.formatted(workspace),
        }
    }

    /// Gives an image back what was discarded or zeroed out of it: by mkfs, and by the kernel's lazy
    /// initialisation of inode tables, whose zeroing a loop device turns into holes.
    ///
    /// # Errors
    /// A sentence where there is no room.
    pub fn refill(&self) -> Result<(), String> {
        match self {
            Device::Image(image) => image.allocate(),
            Device::Emulated(disk) => disk.allocate(),
            Device::Array(array) => array.refill(),
            Device::Block(_) => Ok(()),
        }
    }

    /// Lets it go: the loop device is detached and the image deleted; the block device is left blank.
    /// Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence that names what is left.
    pub fn release(&mut self, workspace: &Workspace) -> Result<(), String> {
        match self {
            Device::Image(image) => image.release(),
            Device::Block(block) => block.release(workspace),
            Device::Emulated(disk) => disk.release(),
            Device::Array(array) => array.release(workspace),
        }
    }

    /// What of it made the figures of a trial doubtful; to be asked after its release.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        match self {
            Device::Image(_) | Device::Block(_) => Vec::new(),
            Device::Emulated(disk) => disk.warnings(),
            Device::Array(array) => array.warnings(),
        }
    }

    /// What is known of it, by name.
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = queue_facts(self.number());
        facts.insert("path".to_owned(), self.path().display().to_string());
        if let Ok(size) = sys_block::size_bytes(self.path()) {
            facts.insert("size_bytes".to_owned(), size.to_string());
        }
        match self {
            Device::Image(image) => image.add_facts(&mut facts),
            Device::Block(block) => block.add_facts(&mut facts),
            Device::Emulated(disk) => disk.add_facts(&mut facts),
            Device::Array(array) => array.add_facts(&mut facts),
        }
        facts
    }
}

/// The settings of a device's queue, by name; what the kernel does not state is absent.
#[must_use]
pub fn queue_facts(number: DeviceNumber) -> BTreeMap<String, String> {
    let queue: QueueFacts = sys_block::queue_facts(number).unwrap_or_default();
    let flag = |value: Option<bool>| value.map(|value| u8::from(value).to_string());
    let count = |value: Option<u64>| value.map(|value| value.to_string());
    let pairs = [
        ("scheduler", queue.scheduler),
        ("write_cache", queue.write_cache),
        ("fua", flag(queue.fua)),
        ("rotational", flag(queue.rotational)),
        ("logical_block_size_bytes", count(queue.logical_block_size_bytes)),
        ("physical_block_size_bytes", count(queue.physical_block_size_bytes)),
        ("discard_granularity_bytes", count(queue.discard_granularity_bytes)),
        ("nr_requests", count(queue.nr_requests)),
        ("read_ahead_kb", count(queue.read_ahead_kib)),
        ("max_sectors_kb", count(queue.max_sectors_kib)),
    ];
    let known = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// The name of a device in sysfs, such as `loop3` or `sda1`.
#[must_use]
pub fn kernel_name(number: DeviceNumber) -> Option<String> {
    let directory = std::fs::canonicalize(number.sysfs_path()).ok()?;
    Some(directory.file_name()?.to_string_lossy().into_owned())
}

/// The canonical path of a device file, as `/dev/sdb` for `/dev/disk/by-id/…`.
///
/// # Errors
/// A sentence where there is none, or it is no block device.
pub fn resolve(path: &Path) -> Result<(PathBuf, DeviceNumber), String> {
    let resolved = std::fs::canonicalize(path)
        .map_err(|error| format!("{}: {error}: name an existing device", path.display()))?;
    let number = sys_block::device_number(&resolved)
        .map_err(|_| format!("{} is not a block device", shown(path, &resolved)))?;
    Ok((resolved, number))
}

/// A path and what it resolves to: `/dev/disk/by-id/x -> /dev/sdb`.
#[must_use]
pub fn shown(path: &Path, resolved: &Path) -> String {
    if path == resolved {
        path.display().to_string()
    } else {
        format!("{} -> {}", path.display(), resolved.display())
    }
}
