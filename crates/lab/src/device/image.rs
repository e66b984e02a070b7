//! An image file under a loop device: fully allocated, so that no trial runs out of its host's space
//! in the middle, and read and written past the host's page cache, so that nothing is cached twice.
//!
//! Its discards are left as the kernel has them: the kernel keeps a discard limit that was once
//! lowered even for the next user of the same loop device.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fsdyno_model::units::human_bytes;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::fiemap::{self, ExtentBuffer, MapOptions};
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::{file, mount};

use crate::snapshot::{KeepOn, Snapshot};

/// Logical block sizes to try, in bytes: what most disks have, then what direct I/O needs where the
/// host's disk has larger blocks.
const BLOCK_SIZES: [u32; 2] = [512, 4096];

/// An aged image to begin with, and what is asked between two pieces of copying it.
pub type Contents<'a> = (&'a Snapshot, KeepOn<'a>);

/// An image and its loop device.
#[derive(Debug)]
pub struct LoopImage {
    file: PathBuf,
    handle: File,
    size_bytes: u64,
    device_path: PathBuf,
    number: DeviceNumber,
    direct_io: bool,
    /// `None` once released.
    device: Option<LoopDevice>,
}

impl LoopImage {
    /// Makes the image, with the `contents` of an aged one where there are such, and attaches it. The file
    /// must not exist.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub fn create(
        path: &Path,
        size_bytes: u64,
        contents: Option<Contents<'_>>,
    ) -> Result<LoopImage, String> {
        let handle = create_file(path)?;
        let attached = allocate(&handle, path, size_bytes)
            .and_then(|()| fill(&handle, size_bytes, contents))
            .and_then(|()| attach(path));
        let (device, direct_io) = attached.inspect_err(|_| {
            let _ = fs::remove_file(path);
        })?;
        let (device_path, number) = (device.path().to_owned(), device.device_number());
        let (file, device) = (path.to_owned(), Some(device));
        let image = LoopImage { file, handle, size_bytes, device_path, number, direct_io, device };
        image.set_rotational()?;
        Ok(image)
    }

    /// The image file.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The loop device's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.device_path
    }

    /// The loop device's number.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// Allocates every hole of the image again: mkfs discards, and a discard punches holes.
    ///
    /// # Errors
    /// A sentence where there is no room.
    pub fn allocate(&self) -> Result<(), String> {
        allocate(&self.handle, &self.file, self.size_bytes)
    }

    /// A loop device inherits the flag from the disk under its image; filesystems choose by it, so it
    /// must be the same everywhere. It lasts as long as the attachment.
    fn set_rotational(&self) -> Result<(), String> {
        let path = self.number.sysfs_path().join("queue/rotational");
        fs::write(&path, "0\n").map_err(|error| format!("write {}: {error}", path.display()))
    }

    /// Detaches and deletes. Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence that names what is left.
    pub fn release(&mut self) -> Result<(), String> {
        if let Some(device) = self.device.take() {
            device.detach().map_err(|error| error.to_string())?;
        }
        remove(&self.file)
    }

    /// Adds what is special about an image.
    pub fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
        add("kind", "loop image".to_owned());
        add("loop_direct_io", self.direct_io.to_string());
        add_file_facts(&self.file, &self.handle, facts);
    }
}

impl Drop for LoopImage {
    fn drop(&mut self) {
        // Whoever wants to know calls `release`.
        let _ = self.release();
    }
}

/// An image file by itself, fully allocated.
#[derive(Debug)]
pub struct ImageFile {
    path: PathBuf,
    handle: File,
    size_bytes: u64,
}

impl ImageFile {
    /// Makes it. The file must not exist.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub fn create(path: &Path, size_bytes: u64) -> Result<ImageFile, String> {
        let handle = create_file(path)?;
        allocate(&handle, path, size_bytes).inspect_err(|_| {
            let _ = fs::remove_file(path);
        })?;
        Ok(ImageFile { path: path.to_owned(), handle, size_bytes })
    }

    /// Allocates every hole again.
    ///
    /// # Errors
    /// A sentence where there is no room.
    pub fn allocate(&self) -> Result<(), String> {
        allocate(&self.handle, &self.path, self.size_bytes)
    }

    /// Deletes it. Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence.
    pub fn remove(&self) -> Result<(), String> {
        remove(&self.path)
    }

    /// Adds where it lies.
    pub fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        add_file_facts(&self.path, &self.handle, facts);
    }
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Where an image lies, and how.
fn add_file_facts(path: &Path, handle: &File, facts: &mut BTreeMap<String, String>) {
    let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
    add("image", path.display().to_string());
    if let Ok(found) = fs::metadata(path) {
        add("image_allocated_bytes", (found.blocks() * 512).to_string());
    }
    let plain = MapOptions { sync: false, xattr: false };
    if let Ok(Some(first)) = fiemap::first_extent(handle, plain, &mut ExtentBuffer::new()) {
        add("image_position_bytes", first.physical_bytes.to_string());
    }
    if let Ok(Some(host)) = mount::mount_containing(path) {
        add("backing_filesystem", host.fs_type.clone());
        add("backing_source", host.source.clone());
        add("backing_options", host.effective_options());
    }
}

fn create_file(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    opened.map_err(|error| format!("create {}: {error}", path.display()))
}

fn fill(file: &File, size_bytes: u64, contents: Option<Contents<'_>>) -> Result<(), String> {
    let Some((snapshot, keep_on)) = contents else { return Ok(()) };
    if snapshot.about.size_bytes != size_bytes {
        return Err(format!(
            "the aged image {} has {}, not {}",
            snapshot.directory().display(),
            human_bytes(snapshot.about.size_bytes),
            human_bytes(size_bytes)
        ));
    }
    snapshot.copy_to(file, keep_on)
}

/// Allocates the whole file and looks whether it really was.
fn allocate(file: &File, path: &Path, size_bytes: u64) -> Result<(), String> {
    file::allocate(file, size_bytes).map_err(|error| {
        let room = path.parent().and_then(|parent| file::free_space(parent).ok());
        let room = room.map_or_else(String::new, |room| {
            format!(
                ", {} are free there: choose a smaller --size or another --dir",
                human_bytes(room.free)
            )
        });
        format!("allocate {} for {}: {error}{room}", human_bytes(size_bytes), path.display())
    })?;
    // The host's own commit of the new extents must not fall into a measurement.
    file.sync_all().map_err(|error| format!("fsync {}: {error}", path.display()))?;
    let found = file.metadata().map_err(|error| format!("stat {}: {error}", path.display()))?;
    let allocated = found.blocks() * 512;
    if found.len() != size_bytes || allocated < size_bytes {
        return Err(format!(
            "{}: only {} of {} are allocated: its filesystem (compressing, or copy on write?) does not \
             reserve space; choose another --dir",
            path.display(),
            human_bytes(allocated),
            human_bytes(size_bytes)
        ));
    }
    Ok(())
}

/// Attaches with direct I/O, at the smallest block size that allows it, or else without.
fn attach(path: &Path) -> Result<(LoopDevice, bool), String> {
    let mut refusal = None;
    for block_size in BLOCK_SIZES {
        let options = LoopOptions {
            direct_io: true,
            block_size: Some(block_size),
            autoclear: true,
            read_only: false,
        };
        match LoopDevice::attach(path, options) {
            Ok(device) if device.direct_io().unwrap_or(false) => return Ok((device, true)),
            Ok(device) => device.detach().map_err(|error| error.to_string())?,
            Err(error) => refusal = Some(error),
        }
    }
    let buffered = LoopOptions {
        direct_io: false,
        block_size: Some(BLOCK_SIZES[0]),
        autoclear: true,
        read_only: false,
    };
    let device = LoopDevice::attach(path, buffered);
    device.map(|device| (device, false)).map_err(|error| refusal.unwrap_or(error).to_string())
}
