//! A block device of the user's: taken only where the guard lets it pass, emptied before each trial,
//! left blank after it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fsdyno_sys::block::{self as sys_block, DeviceNumber};

use crate::workspace::{LedgerDevice, Workspace};
use crate::{device, guard};

/// How much is zeroed at each end of a device that cannot discard, in bytes: superblocks, partition
/// tables and the metadata of arrays lie there.
const WIPED_BYTES: u64 = 4 << 20;

/// A block device in use by a trial.
#[derive(Debug)]
pub struct BlockTarget {
    given: PathBuf,
    path: PathBuf,
    number: DeviceNumber,
    size_bytes: u64,
    emptied_by: &'static str,
    released: bool,
}

impl BlockTarget {
    /// Takes and empties the device. The workspace's record of it is written before.
    ///
    /// # Errors
    /// A sentence: what the guard says, or why it cannot be emptied.
    pub fn take(workspace: &Workspace, given: &Path) -> Result<BlockTarget, String> {
        let accepted = guard::accept(given, workspace.destroy(), &workspace.formatted_devices())?;
        let (path, number) = (accepted.path, accepted.number);
        let size_bytes = sys_block::size_bytes(&path).map_err(|error| error.to_string())?;
        let entry = LedgerDevice {
            path: path.clone(),
            number: number.to_string(),
            size_bytes,
            filesystem_uuid: None,
        };
        workspace.record_device(entry)?;
        let emptied_by = empty(&path, size_bytes)?;
        let given = given.to_owned();
        Ok(BlockTarget { given, path, number, size_bytes, emptied_by, released: false })
    }

    /// Its canonical path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// Records the identity of the filesystem that was made on it, so that it can be told from any
    /// other after a crash.
    ///
    /// # Errors
    /// A sentence where the record cannot be written.
    pub fn formatted(&mut self, workspace: &Workspace) -> Result<(), String> {
        let filesystem_uuid = guard::filesystem_uuid(&self.path);
        let (path, number) = (self.path.clone(), self.number.to_string());
        workspace.record_device(LedgerDevice {
            path,
            number,
            size_bytes: self.size_bytes,
            filesystem_uuid,
        })
    }

    /// Leaves it blank. Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence where it cannot be written, or somebody uses it.
    pub fn release(&mut self, workspace: &Workspace) -> Result<(), String> {
        if self.released {
            return Ok(());
        }
        wipe_ends(&self.path, self.size_bytes)?;
        self.released = true;
        workspace.forget_device(&self.path)
    }

    /// Adds what is special about a block device.
    pub fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        let mut add = |name: &str, value: String| facts.insert(name.to_owned(), value);
        add("kind", "block device".to_owned());
        add("emptied_by", self.emptied_by.to_owned());
        if self.given != self.path {
            add("given_as", device::shown(&self.given, &self.path));
        }
        let disk = sys_block::parent_disk(self.number).ok().flatten().unwrap_or(self.number);
        // Where on which disk it lies: a partition states its first sector.
        if let Some(name) = device::kernel_name(disk) {
            add("disk", name);
        }
        if let Ok(start) = fs::read_to_string(self.number.sysfs_path().join("start"))
            && let Ok(sectors) = start.trim().parse::<u64>()
        {
            add("start_bytes", sectors.saturating_mul(512).to_string());
        }
        if let Ok(model) = fs::read_to_string(disk.sysfs_path().join("device/model")) {
            add("model", model.trim().to_owned());
        }
        // Under a loop device of the user's lies a file: whether it is cached twice matters.
        if let Ok(direct) = fs::read_to_string(disk.sysfs_path().join("loop/dio")) {
            add("loop_direct_io", (direct.trim() == "1").to_string());
        }
    }
}

/// Discards all of it, or wipes its ends where it cannot; says which.
fn empty(path: &Path, size_bytes: u64) -> Result<&'static str, String> {
    let discarded = match guard::patient(|| sys_block::discard_all(path)) {
        Ok(()) => true,
        Err(error) if error.is_busy() => return Err(error.to_string()),
        Err(_) => false,
    };
    // A discarded block may still read as what it was.
    wipe_ends(path, size_bytes)?;
    Ok(if discarded { "discard" } else { "zeroing its ends" })
}

/// Zeroes the first and the last MiBs of a device that nobody else uses.
///
/// # Errors
/// A sentence where it is in use or cannot be written.
pub(crate) fn wipe_ends(path: &Path, size_bytes: u64) -> Result<(), String> {
    let held =
        guard::patient(|| sys_block::open_exclusive(path)).map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("wipe {}: {error}", path.display());
    let device = OpenOptions::new().write(true).open(path).map_err(failed)?;
    let length = WIPED_BYTES.min(size_bytes);
    let zeros = vec![0u8; usize::try_from(length).expect("at most 4 MiB")];
    device.write_all_at(&zeros, 0).map_err(failed)?;
    device.write_all_at(&zeros, size_bytes - length).map_err(failed)?;
    device.sync_all().map_err(failed)?;
    drop(held);
    Ok(())
}
