//! A machine whose time is the number of its instructions: what QEMU needs for that, how the guest's data
//! lie inside that time, and what it is given so that nothing reaches it while it runs.
//!
//! Whatever a host does in its own time makes the moment at which a guest notices it arbitrary. So this
//! machine has no disk behind a driver of the host's, no socket, no clock but its own: data are memory that
//! QEMU maps from files (NVDIMM), the errand lies in the initial file system, and what the guest says is
//! written to a file while its processor waits.

use std::fs;
use std::path::{Path, PathBuf};

use fsdyno_model::guest::{self, Errand};
use fsdyno_model::wire;

use crate::cpio::Tree;
use crate::{Result, inside};

/// Drivers of such a machine beside the port's: memory that keeps its contents, and a file of QEMU's.
pub const DRIVERS: [&str; 3] = ["nfit", "nd_pmem", "qemu_fw_cfg"];
/// The name by which QEMU knows the errand of a guest that went on from a state.
const ERRAND_ITEM: &str = "opt/fsdyno/errand";
/// Where that errand lies inside.
pub const ERRAND: &str = "/sys/firmware/qemu_fw_cfg/by_name/opt/fsdyno/errand/raw";
/// The file on the host, always of the same size, since the guest has heard of that before.
const ERRAND_FILE: &str = "errand";
const ERRAND_BYTES: u64 = 4 << 20;
/// Disks that such a machine may have.
pub const MAX_DISKS: usize = 16;
/// The random number generator's seed: any that is always the same.
pub const ENTROPY: [u8; 64] = [0x5a; 64];
/// Its first moment, whatever the date is.
const EPOCH: &str = "2026-01-01T00:00:00";
/// A disk's kernel structures take this share of its size out of the memory.
const STRUCTURES_SHARE: u64 = 64;
/// Addresses that memory of disks may take; a processor of this kind has 1 TiB.
const MOST_BYTES: u64 = 1 << 39;
/// Disks begin and end at multiples of this.
pub const ALIGNMENT_BYTES: u64 = 128 << 20;

/// What the kernel's command line has besides: no addresses that are drawn, and no buffers for devices that
/// reach only the lower memory, of which there are none. And a processor that never halts: QEMU moves the clock of
/// one that does from another thread, a few instructions more or less each time. Until the first process has
/// started its own ([`fsdyno_sys::idle_loop`]), the kernel polls.
#[must_use]
pub fn kernel_words() -> String {
    format!("nokaslr swiotlb=noforce idle=poll {}=1", guest::NEVER_IDLE_VARIABLE)
}

/// What a guest calls its disk with this number, if the kernel has heard of them in order; where it has not is
/// found by [`disk_devices`].
#[must_use]
pub fn disk_device(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/pmem{number}"))
}

/// The devices of a machine's disks, in their order, after the text of its `/proc/iomem`. QEMU gives disks
/// ascending addresses; the kernel numbers them in the order in which it hears of them, which is another.
#[must_use]
pub fn disk_devices(iomem: &str) -> Vec<PathBuf> {
    // `140000000-23fffffff : namespace0.0`, ascending.
    let number = |line: &str| -> Option<usize> {
        line.rsplit_once("namespace")?.1.trim_end().strip_suffix(".0")?.parse().ok()
    };
    iomem.lines().filter_map(number).map(disk_device).collect()
}

/// The flags that make time the count of instructions.
#[must_use]
pub fn flags(shift: u8) -> Vec<String> {
    let words = [
        "-icount".to_owned(),
        // Never by the host's clock, even where a processor should halt.
        format!("shift={shift},sleep=off"),
        "-seed".to_owned(),
        "1".to_owned(),
        "-rtc".to_owned(),
        format!("base={EPOCH},clock=vm"),
    ];
    words.to_vec()
}

/// What the kernel needs for disks of these sizes, in bytes: added to a machine's memory, so that as much is left
/// with large disks as with small ones.
#[must_use]
pub fn structure_bytes(disks: &[u64]) -> u64 {
    disks.iter().map(|bytes| bytes / STRUCTURES_SHARE).sum()
}

/// Memory of a machine that has room for disks.
#[must_use]
pub fn memory(bytes: u64) -> String {
    format!("{}M,slots={MAX_DISKS},maxmem={}M", bytes >> 20, MOST_BYTES >> 20)
}

/// Arguments for the device by which a machine has itself stopped, and for the errand that it then finds: a file in
/// `directory`, made by [`write_errand`].
#[must_use]
pub fn stop_arguments(directory: &Path) -> [String; 4] {
    let file = directory.join(ERRAND_FILE).display().to_string().replace(',', ",,");
    let item = format!("name={ERRAND_ITEM},file={file}");
    ["-device".to_owned(), "pvpanic".to_owned(), "-fw_cfg".to_owned(), item]
}

/// Writes the errand of a guest that goes on from a state, or an empty file for the one that is to be saved.
///
/// # Errors
/// It cannot be written, or is too long.
pub fn write_errand(directory: &Path, errand: Option<&Errand>) -> Result<()> {
    let path = directory.join(ERRAND_FILE);
    let failed = |error: std::io::Error| format!("write {}: {error}", path.display());
    let mut bytes = Vec::new();
    errand.map_or(Ok(()), |errand| wire::write_frame(&mut bytes, errand)).map_err(failed)?;
    if bytes.len() as u64 > ERRAND_BYTES {
        return Err(format!("the errand of a guest has {} bytes, too many", bytes.len()));
    }
    fs::write(&path, bytes).map_err(failed)?;
    let file = fs::OpenOptions::new().write(true).open(&path).map_err(failed)?;
    file.set_len(ERRAND_BYTES).map_err(failed)
}

/// Arguments for disks: files that are the machine's memory.
#[must_use]
pub fn disk_arguments(disks: &[PathBuf]) -> Vec<String> {
    let mut all = Vec::new();
    for (number, (disk, bytes)) in disks.iter().zip(sizes(disks)).enumerate() {
        let path = disk.display().to_string().replace(',', ",,");
        let memory =
            format!("memory-backend-file,id=disk{number},share=on,size={bytes},mem-path={path}");
        all.extend(["-object".to_owned(), memory, "-device".to_owned()]);
        all.push(format!("nvdimm,id=nvdimm{number},memdev=disk{number}"));
    }
    all
}

/// Sizes of files; 0 where one cannot be looked at, which QEMU then tells of.
#[must_use]
pub fn sizes(disks: &[PathBuf]) -> Vec<u64> {
    let size = |disk: &PathBuf| fs::metadata(disk).map_or(0, |data| data.len());
    disks.iter().map(size).collect()
}

/// Writes the initial file system of one guest: that of all, and the errand.
///
/// # Errors
/// A file cannot be read or written.
pub fn write_initramfs(shared: &Path, own: &Path, errand: &Errand) -> Result<()> {
    let failed = |error: std::io::Error| format!("write {}: {error}", own.display());
    let mut bytes = Vec::new();
    wire::write_frame(&mut bytes, errand).map_err(failed)?;
    let mut tree = Tree::default();
    tree.file(inside::ERRAND, bytes, false)?;
    fs::copy(shared, own).map_err(failed)?;
    let mut file = fs::OpenOptions::new().append(true).open(own).map_err(failed)?;
    std::io::Write::write_all(&mut file, &tree.archive()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_take_nothing_of_the_memory() {
        assert_eq!(memory((1 << 30) + structure_bytes(&[])), "1024M,slots=16,maxmem=524288M");
        assert_eq!(
            memory((1 << 30) + structure_bytes(&[8 << 30])),
            "1152M,slots=16,maxmem=524288M"
        );
        let words = flags(2).join(" ");
        assert!(words.contains("shift=2,sleep=off") && words.contains("clock=vm"), "{words}");
    }

    #[test]
    fn disks_are_in_the_order_of_their_addresses() {
        let text = "00000000-00000fff : Reserved\n100000000-1ffffffff : Persistent Memory\n  \
                    100000000-1ffffffff : namespace1.0\n200000000-21fffffff : Persistent Memory\n  \
                    200000000-21fffffff : namespace2.0\n220000000-27fffffff : namespace0.0\n";
        assert_eq!(disk_devices(text), [1, 2, 0].map(disk_device));
        assert!(disk_devices("namespace\nnamespacex.0 : y").is_empty());
    }

    #[test]
    fn the_errand_lies_behind_what_all_share() {
        let directory = tempfile::tempdir().unwrap();
        let (shared, own) = (directory.path().join("shared"), directory.path().join("own"));
        fs::write(&shared, [7; 512]).unwrap();
        let errand = Errand {
            version: 1,
            entropy: ENTROPY.to_vec(),
            unix_ns: None,
            modules: Vec::new(),
            task: guest::Task::Describe,
        };
        write_initramfs(&shared, &own, &errand).unwrap();
        let bytes = fs::read(&own).unwrap();
        assert_eq!(bytes[..512], [7; 512]);
        assert_eq!(&bytes[512..518], b"070701");
        assert!(write_initramfs(Path::new("/no/such"), &own, &errand).is_err());
        for given in [None, Some(&errand)] {
            write_errand(directory.path(), given).unwrap();
            let bytes = fs::read(directory.path().join(ERRAND_FILE)).unwrap();
            assert_eq!(bytes.len() as u64, ERRAND_BYTES);
            let read = wire::read_frame::<Errand>(&mut bytes.as_slice());
            assert_eq!(read.ok().flatten().as_ref(), given);
        }
    }
}
