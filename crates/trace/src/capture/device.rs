//! The traced devices: their numbers as the kernel's events give them, and where a partition lies. Requests
//! carry the whole disk, bios the partition or (before Linux 5.12) the disk, and both count sectors from
//! the start of the disk.

use std::fs;
use std::io;
use std::path::Path;

use fsdyno_model::trace::TraceDevice;
use fsdyno_sys::block::{self, DeviceNumber};

use super::ring_buffer_page::BlockRecord;

/// A device under one of the numbers by which events may call it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Alias {
    /// The number in events.
    number: u32,
    /// The device that was asked for.
    device: u32,
    /// First sector of the device on its disk.
    start: u64,
    /// First sector behind it.
    end: u64,
}

/// The traced devices.
#[derive(Debug)]
pub struct Devices {
    aliases: Vec<Alias>,
    described: Vec<TraceDevice>,
    warnings: Vec<String>,
}

impl Devices {
    /// Finds out about the devices in sysfs.
    ///
    /// # Errors
    /// Where there is none, or sysfs does not know one.
    pub fn find(numbers: &[DeviceNumber]) -> io::Result<Devices> {
        if numbers.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no device is to be traced"));
        }
        let mut found =
            Devices { aliases: Vec::new(), described: Vec::new(), warnings: Vec::new() };
        for &number in numbers {
            if !found.described.iter().any(|known| known.number == packed(number)) {
                found.add(number)?;
            }
        }
        Ok(found)
    }

    fn add(&mut self, number: DeviceNumber) -> io::Result<()> {
        let directory = number.sysfs_path();
        let disk = block::parent_disk(number).map_err(io::Error::other)?;
        let sectors = read_number(&directory.join("size"))?;
        let device = packed(number);
        let mut alias = |number, start, end| {
            self.aliases.push(Alias { number: packed(number), device, start, end });
        };
        if let Some(disk) = disk {
            let start = read_number(&directory.join("start"))?;
            let end = start.saturating_add(sectors);
            alias(number, start, end);
            alias(disk, start, end);
        } else {
            alias(number, 0, u64::MAX);
            for partition in block::partitions(number).map_err(io::Error::other)? {
                alias(partition, 0, u64::MAX);
            }
        }
        let name = fs::canonicalize(&directory)?;
        let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !disk.unwrap_or(number).sysfs_path().join("mq").exists() {
            self.warnings.push(format!(
                "{name} has no requests of its own: only what is handed to it is traced; trace the devices \
                 below it too"
            ));
        }
        self.described.push(TraceDevice { number: device, name, sectors: Some(sectors) });
        Ok(())
    }

    /// The devices, for readers of the trace.
    pub fn described(&self) -> Vec<TraceDevice> {
        self.described.clone()
    }

    /// What is odd about them.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The filter by which the kernel passes over the events of other devices.
    pub fn filter(&self) -> String {
        let mut numbers: Vec<u32> = self.aliases.iter().map(|alias| alias.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let terms: Vec<String> = numbers.iter().map(|number| format!("dev == {number}")).collect();
        terms.join(" || ")
    }

    /// The device that `record` belongs to, and its sector there; `None` where it lies on another part of
    /// the disk. A flush without a sector is of every part.
    #[inline]
    pub fn place(&self, record: &BlockRecord) -> Option<(u32, u64)> {
        let alias = self.aliases.iter().find(|alias| {
            alias.number == record.disk
                && (record.sectors == 0 || (alias.start..alias.end).contains(&record.sector))
        })?;
        Some((alias.device, record.sector.saturating_sub(alias.start)))
    }
}

/// `major << 20 | minor`, as inside the kernel.
fn packed(number: DeviceNumber) -> u32 {
    number.major << 20 | number.minor
}

fn read_number(path: &Path) -> io::Result<u64> {
    let failed = |what: String| io::Error::other(format!("{}: {what}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    text.trim().parse().map_err(|_| failed("not a number".to_owned()))
}

#[cfg(test)]
mod tests {
    use fsdyno_model::trace::{Action, Flags};

    use super::*;

    fn record(disk: u32, sector: u64, sectors: u32) -> BlockRecord {
        BlockRecord {
            time_ns: 0,
            sector,
            sectors,
            disk,
            pid: 1,
            comm: None,
            flags: Flags::WRITE,
            action: Action::Issue,
        }
    }

    #[test]
    fn events_are_placed_on_the_device_that_was_asked_for() {
        let alias = |number, device, start, end| Alias { number, device, start, end };
        let devices = Devices {
            // A partition of disk 16, the whole disk 32 with a partition 33.
            aliases: vec![
                alias(17, 17, 2048, 4096),
                alias(16, 17, 2048, 4096),
                alias(32, 32, 0, u64::MAX),
                alias(33, 32, 0, u64::MAX),
            ],
            described: Vec::new(),
            warnings: Vec::new(),
        };
        for (disk, sector, sectors, wanted) in [
            (17, 2048, 8, Some((17, 0))),
            (16, 2056, 8, Some((17, 8))),
            (16, 2040, 8, None),
            (16, 4096, 8, None),
            (16, 0, 0, Some((17, 0))),
            (32, 5, 1, Some((32, 5))),
            (33, 4096, 1, Some((32, 4096))),
            (48, 5, 1, None),
        ] {
            assert_eq!(devices.place(&record(disk, sector, sectors)), wanted, "{disk} {sector}");
        }
        assert_eq!(devices.filter(), "dev == 16 || dev == 17 || dev == 32 || dev == 33");
    }

    #[test]
    fn devices_that_are_not_there_are_refused() {
        assert!(Devices::find(&[]).is_err());
        assert!(Devices::find(&[DeviceNumber { major: 4000, minor: 1 }]).is_err());
    }
}
