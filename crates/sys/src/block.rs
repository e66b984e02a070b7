//! Facts about block devices: number, size, who uses them, how their queue is set; and the discard of
//! a whole one. It reports; whether a device may be used is for the caller to decide.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{self, opcode};

use crate::error::{Result, SysError};

/// Major and minor number of a device, printed as `8:1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// The driver.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the kernel's packed form, as in `st_rdev` and `st_dev`.
    pub fn from_packed(packed: u64) -> Self {
        Self { major: rustix::fs::major(packed), minor: rustix::fs::minor(packed) }
    }

    /// The kernel's packed form.
    pub fn packed(self) -> u64 {
        rustix::fs::makedev(self.major, self.minor)
    }

    /// The device's directory `/sys/dev/block/MAJOR:MINOR`.
    pub fn sysfs_path(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{self}"))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DeviceNumber {
    type Err = SysError;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || SysError::malformed(text, "a device number has the form MAJOR:MINOR");
        let (major, minor) = text.trim().split_once(':').ok_or_else(malformed)?;
        Ok(Self {
            major: major.parse().map_err(|_| malformed())?,
            minor: minor.parse().map_err(|_| malformed())?,
        })
    }
}

/// True where `path`, symbolic links followed, is a block device.
pub fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// The number of the block device at `path`, symbolic links followed.
///
/// # Errors
/// `ENOTBLK` where it is something else, or whatever stat says.
pub fn device_number(path: &Path) -> Result<DeviceNumber> {
    let metadata = fs::metadata(path).map_err(|error| SysError::from_io("stat", path, &error))?;
    if !metadata.file_type().is_block_device() {
        return Err(SysError::at_path("stat", path, Errno::NOTBLK));
    }
    Ok(DeviceNumber::from_packed(metadata.rdev()))
}

/// Size in bytes of the block device at `path`.
///
/// # Errors
/// Where it cannot be opened or is no block device.
pub fn size_bytes(path: &Path) -> Result<u64> {
    let device = File::open(path).map_err(|error| SysError::from_io("open", path, &error))?;
    // SAFETY: BLKGETSIZE64 stores one u64 through the pointer, whatever the size in its number says
    // (the header gives `size_t` there, which is what the number must be made of).
    let size = unsafe {
        ioctl::ioctl(&device, ioctl::Getter::<{ opcode::read::<usize>(0x12, 114) }, u64>::new())
    };
    size.map_err(|errno| SysError::at_path("ioctl BLKGETSIZE64", path, errno))
}

/// Discards every block of the device at `path`, which must not be in use by anybody.
///
/// # Errors
/// `EOPNOTSUPP` where the device cannot discard, `EBUSY` where somebody uses it.
pub fn discard_all(path: &Path) -> Result<()> {
    let size = size_bytes(path)?;
    let device = open_exclusive(path)?;
    // SAFETY: BLKDISCARD reads two u64, offset and length in bytes, through the pointer.
    let request = unsafe { ioctl::Setter::<{ opcode::none(0x12, 119) }, [u64; 2]>::new([0, size]) };
    // SAFETY: as above; the request changes no memory of this process.
    unsafe { ioctl::ioctl(&device, request) }
        .map_err(|errno| SysError::at_path("ioctl BLKDISCARD", path, errno))
}

/// Opens the device at `path` for reading and writing, only if nobody (mount, swap, device mapper,
/// array, another exclusive opener) holds it; none can take it while the descriptor is open.
///
/// # Errors
/// `EBUSY` where somebody does.
pub fn open_exclusive(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| SysError::at_path("open exclusively", path, errno))
}

/// Whether somebody (see [`open_exclusive`]) holds the device at `path`.
///
/// # Errors
/// Where it cannot be opened for another reason.
pub fn is_claimed(path: &Path) -> Result<bool> {
    match rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(false),
        Err(Errno::BUSY) => Ok(true),
        Err(errno) => Err(SysError::at_path("open exclusively", path, errno)),
    }
}

/// Names of the devices stacked on the device or on one of its partitions (`dm-0`, `md127`, …).
///
/// # Errors
/// Where sysfs does not know the device.
pub fn holders(number: DeviceNumber) -> Result<Vec<String>> {
    let directory = number.sysfs_path();
    let mut names = directory_names(&directory.join("holders"))?;
    for partition in partition_directories(&directory)? {
        names.extend(directory_names(&partition.join("holders"))?);
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The partitions of the disk `number`, as the kernel sees them; empty for a partition.
///
/// # Errors
/// Where sysfs does not know the device.
pub fn partitions(number: DeviceNumber) -> Result<Vec<DeviceNumber>> {
    let directories = partition_directories(&number.sysfs_path())?;
    directories.iter().map(|directory| read_number(directory)).collect()
}

fn partition_directories(directory: &Path) -> Result<Vec<PathBuf>> {
    let names = directory_names(directory)?;
    Ok(names
        .iter()
        .map(|name| directory.join(name))
        .filter(|child| child.join("partition").exists())
        .collect())
}

fn directory_names(directory: &Path) -> Result<Vec<String>> {
    let failed = |error: &io::Error| SysError::from_io("list", directory, error);
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| failed(&error))? {
        names.push(
            entry.map_err(|error| failed(&error))?.file_name().to_string_lossy().into_owned(),
        );
    }
    Ok(names)
}

fn read_number(directory: &Path) -> Result<DeviceNumber> {
    let path = directory.join("dev");
    fs::read_to_string(&path).map_err(|error| SysError::from_io("read", &path, &error))?.parse()
}

/// The disk that the partition `number` lies on, or `None` where it is not a partition.
///
/// # Errors
/// Where sysfs does not know the device.
pub fn parent_disk(number: DeviceNumber) -> Result<Option<DeviceNumber>> {
    let link = number.sysfs_path();
    let directory =
        fs::canonicalize(&link).map_err(|error| SysError::from_io("resolve", &link, &error))?;
    match directory.parent() {
        Some(parent) if directory.join("partition").exists() => read_number(parent).map(Some),
        _ => Ok(None),
    }
}

/// True where `path`, symbolic links followed, is swapped on: as a file, or as a block device under
/// whatever name.
///
/// # Errors
/// Where `path` or `/proc/swaps` cannot be read. A kernel without swap has no such file: `false`.
pub fn is_swap(path: &Path) -> Result<bool> {
    let swaps = Path::new("/proc/swaps");
    let text = match fs::read_to_string(swaps) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(SysError::from_io("read", swaps, &error)),
    };
    let metadata = fs::metadata(path).map_err(|error| SysError::from_io("stat", path, &error))?;
    Ok(parse_swaps(&text).iter().filter_map(|swap| fs::metadata(swap).ok()).any(|swap| {
        if metadata.file_type().is_block_device() {
            swap.file_type().is_block_device() && swap.rdev() == metadata.rdev()
        } else {
            (swap.dev(), swap.ino()) == (metadata.dev(), metadata.ino())
        }
    }))
}

/// The paths in the first column of `/proc/swaps`, below its heading.
fn parse_swaps(text: &str) -> Vec<PathBuf> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(crate::mount::unescape_path)
        .collect()
}

/// The numbers of everything that `/` stands on: the device it is mounted from and, through
/// partitions, device mapper and arrays, every device below, the disks included. Empty where `/` is
/// not on a block device (network, RAM, overlay).
///
/// # Errors
/// Where the mount table cannot be read.
pub fn root_device() -> Result<Vec<DeviceNumber>> {
    let mounts = crate::mount::mounts()?;
    let mut found = Vec::new();
    for root in mounts.iter().filter(|mount| mount.mount_point == Path::new("/")) {
        // btrfs mounts have an anonymous number: there the source names (one of) the devices.
        let source = device_number(Path::new(&root.source)).ok();
        for number in [Some(root.device), source].into_iter().flatten() {
            if number.sysfs_path().exists() {
                collect_below(number, &mut found);
            }
        }
    }
    Ok(found)
}

/// `number` and every device below it, each once: what lies under a partition, a device-mapper
/// volume or an array.
pub fn devices_below(number: DeviceNumber) -> Vec<DeviceNumber> {
    let mut found = Vec::new();
    collect_below(number, &mut found);
    found
}

fn collect_below(number: DeviceNumber, found: &mut Vec<DeviceNumber>) {
    if found.contains(&number) {
        return;
    }
    found.push(number);
    if let Ok(Some(disk)) = parent_disk(number) {
        collect_below(disk, found);
    }
    let slaves = number.sysfs_path().join("slaves");
    for name in directory_names(&slaves).unwrap_or_default() {
        if let Ok(below) = read_number(&slaves.join(name)) {
            collect_below(below, found);
        }
    }
}

/// How a device's request queue is set, as sysfs states it; a partition shows its disk's. What the
/// kernel does not state is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFacts {
    /// I/O scheduler in force: `none`, `mq-deadline`, …
    pub scheduler: Option<String>,
    /// Whether the device says that it rotates (loop devices inherit it, others may be wrong).
    pub rotational: Option<bool>,
    /// `write back` or `write through`: whether flushes are sent at all.
    pub write_cache: Option<String>,
    /// Whether the device takes forced-unit-access writes.
    pub fua: Option<bool>,
    /// Smallest unit of I/O, in bytes.
    pub logical_block_size_bytes: Option<u64>,
    /// Smallest unit without read-modify-write, in bytes.
    pub physical_block_size_bytes: Option<u64>,
    /// Unit of discard in bytes; 0 where the device cannot.
    pub discard_granularity_bytes: Option<u64>,
    /// Requests that may be queued.
    pub nr_requests: Option<u64>,
    /// Read-ahead in KiB.
    pub read_ahead_kib: Option<u64>,
    /// Largest request in KiB.
    pub max_sectors_kib: Option<u64>,
    /// Whether the device offers direct access, without a page cache.
    pub dax: Option<bool>,
}

/// The queue settings of the device `number`.
///
/// # Errors
/// Where sysfs does not know the device.
pub fn queue_facts(number: DeviceNumber) -> Result<QueueFacts> {
    let queue = parent_disk(number)?.unwrap_or(number).sysfs_path().join("queue");
    let text =
        |name: &str| fs::read_to_string(queue.join(name)).ok().map(|text| text.trim().to_owned());
    let count = |name: &str| text(name)?.parse().ok();
    let flag = |name: &str| count(name).map(|value: u64| value != 0);
    Ok(QueueFacts {
        scheduler: text("scheduler").and_then(|text| selected_word(&text)),
        rotational: flag("rotational"),
        write_cache: text("write_cache"),
        fua: flag("fua"),
        logical_block_size_bytes: count("logical_block_size"),
        physical_block_size_bytes: count("physical_block_size"),
        discard_granularity_bytes: count("discard_granularity"),
        nr_requests: count("nr_requests"),
        read_ahead_kib: count("read_ahead_kb"),
        max_sectors_kib: count("max_sectors_kb"),
        dax: flag("dax"),
    })
}

/// The bracketed word of a sysfs choice such as `none [mq-deadline] bfq`; a lone word is the choice.
fn selected_word(text: &str) -> Option<String> {
    let bracketed =
        text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let mut words = text.split_whitespace();
    let lone = words.next().filter(|_| words.next().is_none());
    bracketed.or(lone).map(str::to_owned)
}

/// Makes the kernel read the partition table of the open disk `device` again.
///
/// # Errors
/// `EBUSY` where a partition is in use, `EINVAL` where the device can have none.
pub fn reread_partitions(device: impl AsFd, path: &Path) -> Result<()> {
    // SAFETY: BLKRRPART takes no argument.
    let request = unsafe { ioctl::NoArg::<{ opcode::none(0x12, 95) }>::new() };
    // SAFETY: as above.
    unsafe { ioctl::ioctl(device, request) }
        .map_err(|errno| SysError::at_path("ioctl BLKRRPART", path, errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_parse_print_and_pack() {
        let number: DeviceNumber = "253:16\n".parse().unwrap();
        assert_eq!(number, DeviceNumber { major: 253, minor: 16 });
        assert_eq!(number.to_string(), "253:16");
        let large = DeviceNumber { major: 4095, minor: 1_048_575 };
        assert_eq!(DeviceNumber::from_packed(large.packed()), large);
        for text in ["", "8", "8:", ":1", "8:x", "8:1:2", "-1:2", "99999999999:0"] {
            assert!(text.parse::<DeviceNumber>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_selected_word_is_found() {
        for (text, word) in [
            ("none [mq-deadline] bfq", Some("mq-deadline")),
            ("[none]", Some("none")),
            ("none", Some("none")),
            ("none bfq", None),
            ("", None),
            ("[half", Some("[half")),
        ] {
            assert_eq!(selected_word(text).as_deref(), word, "{text:?}");
        }
    }

    #[test]
    fn swaps_are_listed_with_their_escapes_undone() {
        let text = "Filename\t\t\t\tType\t\tSize\n/dev/dm-1 partition 1 0 -2\n/swap\\040file file 1 0 -3\n\n";
        assert_eq!(parse_swaps(text), [PathBuf::from("/dev/dm-1"), PathBuf::from("/swap file")]);
        assert!(parse_swaps("").is_empty());
    }

    #[test]
    fn what_is_no_block_device_says_so() {
        assert!(!is_block_device(Path::new("/dev/null")));
        assert_eq!(device_number(Path::new("/dev/null")).unwrap_err().errno, Errno::NOTBLK);
        assert!(device_number(Path::new("/no/such/device")).unwrap_err().is_not_found());
        assert!(!is_swap(Path::new("/etc/passwd")).unwrap());
        assert!(holders(DeviceNumber { major: 4095, minor: 7 }).is_err());
    }

    #[test]
    fn the_root_device_is_followed_to_a_disk() {
        let numbers = root_device().unwrap();
        let Some(first) = numbers.first() else {
            println!("skipped: / is not on a block device");
            return;
        };
        let disk = numbers.iter().find(|number| parent_disk(**number).unwrap().is_none());
        assert!(disk.is_some(), "{numbers:?} holds no whole disk");
        assert!(
            queue_facts(*first).unwrap().logical_block_size_bytes.is_some_and(|size| size >= 512)
        );
    }
}
