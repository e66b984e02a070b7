//! A disk that is there, asked directly: past every cache of the kernel, and only read unless it holds
//! nothing and its owner says so.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fsdyno_disk::Op;
use fsdyno_disk::fit::Source;
use fsdyno_disk::probe::{Probe, Probed};
use fsdyno_model::units::exact_bytes;
use fsdyno_sys::block::{self as sys_block, DeviceNumber};
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::clock;
use rustix::fs::OFlags;

use crate::emulator::check::ask_open;
use crate::{device, guard};

/// Bytes of the largest request.
const MOST_BYTES: usize = 512 << 10;

/// A disk that is asked.
#[derive(Debug)]
pub struct AskedDisk {
    file: File,
    path: PathBuf,
    size_bytes: u64,
    number: Option<DeviceNumber>,
    buffer: AlignedBuffer,
    /// Keeps others from taking it while it is written.
    _alone: Option<OwnedFd>,
}

impl AskedDisk {
    /// Opens a block device, or a file whose bytes are all on its disk.
    ///
    /// # Errors
    /// A sentence: what cannot be opened; a file with holes; for `writes`, whatever is on the device or uses it.
    pub fn open(path: &Path, writes: bool) -> Result<AskedDisk, String> {
        let shown = path.display();
        let (mut number, mut alone) = (None, None);
        let size_bytes = if sys_block::is_block_device(path) {
            number = Some(device::resolve(path)?.1);
            if writes {
                let accepted = guard::accept(path, &[], &[])?;
                alone = Some(
                    guard::patient(|| sys_block::open_exclusive(&accepted.path))
                        .map_err(|error| error.to_string())?,
                );
            }
            sys_block::size_bytes(path).map_err(|error| format!("{error}: run it as root"))?
        } else if writes {
            return Err(format!("{shown} is no block device: only these are written to"));
        } else {
            file_size(path)?
        };
        let flags = OFlags::DIRECT.bits().cast_signed();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(writes).custom_flags(flags).open(path);
        let file = file.map_err(|error| {
            format!("open {shown} past the page cache: {error}: run it as root, and take no file in memory")
        })?;
        let buffer = AlignedBuffer::new(MOST_BYTES);
        let path = path.to_owned();
        Ok(AskedDisk { file, path, size_bytes, number, buffer, _alone: alone })
    }

    /// Whether the kernel takes it for one that rotates, and the commands that it takes at once, where the
    /// kernel knows.
    #[must_use]
    pub fn known(&self) -> (Option<bool>, Option<u64>) {
        let Some(number) = self.number else { return (None, None) };
        let facts = sys_block::queue_facts(number).ok();
        let depth = number.sysfs_path().join("device/queue_depth");
        let depth = std::fs::read_to_string(depth).ok().and_then(|text| text.trim().parse().ok());
        (facts.and_then(|facts| facts.rotational), depth)
    }

    /// What the disk calls itself, where the kernel knows.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.number?.sysfs_path().join("device/model")).ok()?;
        Some(text.trim().to_owned()).filter(|name| !name.is_empty())
    }
}

/// The size of a file whose bytes are all on a disk.
fn file_size(path: &Path) -> Result<u64, String> {
    let shown = path.display();
    let about = std::fs::metadata(path)
        .map_err(|error| format!("{shown}: {error}: name a device or a file"))?;
    if !about.is_file() {
        return Err(format!("{shown} is neither a block device nor a file"));
    }
    let there = about.blocks() * 512;
    if there < about.len() / 100 * 99 {
        return Err(format!(
            "{shown} has holes: {} of {} bytes are on a disk, and reading the others touches none",
            exact_bytes(there),
            exact_bytes(about.len())
        ));
    }
    Ok(about.len())
}

impl Source for AskedDisk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn ask(&mut self, op: Op, offset: u64, bytes: u64) -> Result<(u64, u64), String> {
        let buffer = usize::try_from(bytes).ok().and_then(|bytes| self.buffer.get_mut(..bytes));
        let Some(buffer) = buffer else {
            return Err(format!("{bytes} bytes are more than one request has"));
        };
        let begin_ns = clock::now_ns();
        let asked = match op {
            Op::Read => self.file.read_exact_at(buffer, offset),
            Op::Write => self.file.write_all_at(buffer, offset),
            Op::Flush => self.file.sync_data(),
            Op::Discard => Ok(()),
        };
        let end_ns = clock::now_ns();
        if fsdyno_sys::process::interrupted() {
            return Err("interrupted".to_owned());
        }
        asked.map_err(|error| format!("{} at byte {offset}: {error}", self.path.display()))?;
        Ok((begin_ns, end_ns))
    }

    fn probe(&mut self, probe: Probe) -> Result<Probed, String> {
        ask_open(&self.file, probe).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_holes_and_writes_to_files_are_refused() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("file");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        assert!(AskedDisk::open(&path, false).unwrap_err().contains("holes"));
        assert!(AskedDisk::open(&path, true).unwrap_err().contains("no block device"));
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let mut disk = AskedDisk::open(&path, false).unwrap();
        let (begin_ns, end_ns) = disk.ask(Op::Read, 4096, 4096).unwrap();
        assert!(end_ns > begin_ns && disk.size_bytes() == 1 << 20);
        assert!(disk.ask(Op::Read, 0, 1 << 30).is_err());
        assert!(disk.ask(Op::Write, 0, 4096).is_err());
        assert!(AskedDisk::open(directory.path(), false).unwrap_err().contains("neither"));
    }
}
