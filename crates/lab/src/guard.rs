//! What keeps fsdyno from hurting anyone: a block device is taken only where it is blank and nobody
//! uses it, or where the user names it once more. Arguments that lead to others are for
//! [`crate::arguments`].

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_model::target::{DeviceSpec, FreshSpec};
use fsdyno_sys::SysError;
use fsdyno_sys::block::{self as sys_block, DeviceNumber};
use fsdyno_sys::mount::{self, MountInfo};

use crate::command::{self, CommandSpec};
use crate::device::{kernel_name, resolve, shown};
use crate::tools;

const READER_LIMIT: Duration = Duration::from_secs(60);

/// A device that may be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its canonical path.
    pub path: PathBuf,
    /// Its number.
    pub number: DeviceNumber,
}

/// Decides on the device `given`. `destroy` are the devices that the user named once more, `ours` the
/// numbers of those that this run has formatted itself: both excuse what lies on a device, never that
/// somebody uses it.
///
/// # Errors
/// A sentence that names the device as given and as resolved, what is against it, and what to do.
pub fn accept(
    given: &Path,
    destroy: &[PathBuf],
    ours: &[DeviceNumber],
) -> Result<Accepted, String> {
    let (path, number) = resolve(given)?;
    let name = shown(given, &path);
    let refused = |why: String| format!("{name} is refused: {why}");
    in_use(&path, number).map_err(refused)?;
    let excused = ours.contains(&number) || named_again(number, destroy)?;
    if !excused {
        let found = signatures(&path).map_err(refused)?;
        if !found.is_empty() {
            return Err(refused(format!(
                "it holds {}: add --destroy {} to overwrite it",
                found.join(", "),
                path.display()
            )));
        }
        if let Some(count) = partition_count(number) {
            return Err(refused(format!(
                "it has {count} partitions: add --destroy {} to overwrite it",
                path.display()
            )));
        }
    }
    Ok(Accepted { path, number })
}

fn partition_count(number: DeviceNumber) -> Option<usize> {
    let partitions = sys_block::partitions(number).unwrap_or_default();
    (!partitions.is_empty()).then_some(partitions.len())
}

fn named_again(number: DeviceNumber, destroy: &[PathBuf]) -> Result<bool, String> {
    for path in destroy {
        let (_, named) = resolve(path).map_err(|error| format!("--destroy {error}"))?;
        if named == number {
            return Ok(true);
        }
    }
    Ok(false)
}

/// No two devices of a filesystem may be one device, under whatever names, nor one a part of the other:
/// members of an array, a journal. Images never are.
///
/// # Errors
/// Which devices overlap.
pub fn check_distinct(fresh: &FreshSpec) -> Result<(), String> {
    let paths: Vec<&Path> = fresh.devices().flat_map(DeviceSpec::paths).collect();
    // One that is not there is told by whoever takes it.
    let [_, _, ..] = paths[..] else { return Ok(()) };
    let mut known: Vec<(&Path, PathBuf, DeviceNumber)> = Vec::new();
    for given in paths {
        let (path, number) = resolve(given)?;
        let below = sys_block::devices_below(number);
        let other = known.iter().find(|(_, _, other)| {
            below.contains(other) || sys_block::devices_below(*other).contains(&number)
        });
        if let Some((other_given, other_path, _)) = other {
            return Err(format!(
                "{} and {} overlap: a journal, and each member of an array, needs a device of its own",
                shown(other_given, other_path),
                shown(given, &path)
            ));
        }
        known.push((given, path, number));
    }
    Ok(())
}

/// What no word of the user's excuses: the root device, a mount, swap, a holder, another exclusive
/// user, a device that cannot be written.
///
/// # Errors
/// What is against it.
pub fn in_use(path: &Path, number: DeviceNumber) -> Result<(), String> {
    let root = sys_block::root_device().map_err(|error| error.to_string())?;
    let parts = sys_block::partitions(number).map_err(|error| error.to_string())?;
    let below = sys_block::devices_below(number);
    if root.contains(&number) || parts.iter().any(|part| root.contains(part)) {
        return Err("the system's root filesystem is on it; it is never touched".to_owned());
    }
    let mounts = mounts_of_all()?;
    let family: Vec<DeviceNumber> = std::iter::once(number).chain(parts).collect();
    for member in &family {
        if let Some(mounted) = mounts.iter().find(|mounted| is_on(mounted, *member)) {
            let at = mounted.mount_point.display();
            let which = if *member == number { "it".to_owned() } else { named(*member) };
            return Err(format!("{which} is mounted on {at}: unmount it first"));
        }
    }
    // A partition's disk may be written to as a whole by a filesystem that was made on it.
    for parent in below.iter().filter(|parent| **parent != number) {
        if let Some(mounted) = mounts.iter().find(|mounted| is_on(mounted, *parent)) {
            let at = mounted.mount_point.display();
            return Err(format!(
                "{} under it is mounted on {at}: unmount it first",
                named(*parent)
            ));
        }
    }
    for member in &family {
        let node = PathBuf::from("/dev").join(named(*member));
        let node = if *member == number { path } else { node.as_path() };
        if node.exists() && sys_block::is_swap(node).map_err(|error| error.to_string())? {
            return Err(format!("{} is in use as swap: swapoff it first", named(*member)));
        }
    }
    let holders = sys_block::holders(number).map_err(|error| error.to_string())?;
    if !holders.is_empty() {
        return Err(format!("{} is built on it: take that apart first", holders.join(", ")));
    }
    if is_read_only(number) {
        return Err("it is read-only".to_owned());
    }
    if sys_block::size_bytes(path).map_err(|error| error.to_string())? == 0 {
        return Err("it has no size (no medium, or nothing attached)".to_owned());
    }
    match patient(|| sys_block::open_exclusive(path)) {
        Ok(_) => Ok(()),
        Err(error) if error.is_busy() => {
            Err("somebody has it open exclusively: see `fuser -v` and `lsblk`".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Does something that needs the device alone, and insists for a second: programs that only look at
/// devices hold them for a moment too.
pub(crate) fn patient<T>(attempt: impl Fn() -> Result<T, SysError>) -> Result<T, SysError> {
    let end = Instant::now() + Duration::from_secs(1);
    loop {
        match attempt() {
            Err(error) if error.is_busy() && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

/// The mounts of this namespace and of the first process's, which may see others.
fn mounts_of_all() -> Result<Vec<MountInfo>, String> {
    let mut mounts = mount::mounts().map_err(|error| error.to_string())?;
    if let Ok(text) = std::fs::read("/proc/1/mountinfo") {
        mounts.extend(mount::parse_mountinfo(&String::from_utf8_lossy(&text)));
    }
    Ok(mounts)
}

/// By number, or by its source: btrfs mounts have an anonymous number.
fn is_on(mounted: &MountInfo, number: DeviceNumber) -> bool {
    mounted.device == number
        || (mounted.device.major == 0
            && mounted.source.starts_with('/')
            && sys_block::device_number(Path::new(&mounted.source))
                .is_ok_and(|found| found == number))
}

fn named(number: DeviceNumber) -> String {
    kernel_name(number).unwrap_or_else(|| number.to_string())
}

fn is_read_only(number: DeviceNumber) -> bool {
    std::fs::read_to_string(number.sysfs_path().join("ro")).is_ok_and(|text| text.trim() != "0")
}

/// What lies on the device: filesystems, swap, members of arrays, partition tables.
///
/// # Errors
/// Where neither wipefs nor blkid could tell.
pub fn signatures(path: &Path) -> Result<Vec<String>, String> {
    let device = path.display().to_string();
    let mut errors = Vec::new();
    let wipefs =
        CommandSpec::new("wipefs", &["--no-act", "--noheadings", "--output", "TYPE,USAGE,LABEL"]);
    match command::run_checked(&wipefs.arg(device.clone()), READER_LIMIT) {
        Ok(finished) => return Ok(parse_wipefs(&finished.stdout)),
        Err(error) => errors.push(error.to_string()),
    }
    let blkid = CommandSpec::new("blkid", &["--probe", "--output", "export"]).arg(device);
    match command::run(&blkid, READER_LIMIT) {
        Ok(finished) if finished.exit_code == Some(0) => return Ok(parse_blkid(&finished.stdout)),
        Ok(finished) if finished.exit_code == Some(2) && finished.stderr.trim().is_empty() => {
            return Ok(Vec::new());
        }
        Ok(finished) if finished.exit_code == Some(8) => {
            return Ok(vec!["several signatures at once".to_owned()]);
        }
        Ok(finished) => errors.push(command::failure(&blkid, &finished).to_string()),
        Err(error) => errors.push(error.to_string()),
    }
    let advice = tools::install_advice("wipefs").unwrap_or_default();
    Err(format!("whether it is blank cannot be told: {}; try: {advice}", errors.join("; ")))
}

/// One signature a line; each kind is named once (a GPT has three).
fn parse_wipefs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((kind, rest)) = words.split_first() else { continue };
        let mut text = if rest.contains(&"partition-table") {
            format!("a partition table ({kind})")
        } else {
            (*kind).to_owned()
        };
        let usage = ["filesystem", "raid", "crypto", "other", "partition-table"];
        let label: Vec<&str> = rest.iter().copied().filter(|word| !usage.contains(word)).collect();
        if !label.is_empty() {
            text.push_str(&format!(" labelled \"{}\"", label.join(" ").escape_debug()));
        }
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

fn parse_blkid(text: &str) -> Vec<String> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let table = value("PTTYPE").map(|kind| format!("a partition table ({kind})"));
    let found: Vec<String> = value("TYPE").map(str::to_owned).into_iter().chain(table).collect();
    if found.is_empty() { vec!["something that blkid knows".to_owned()] } else { found }
}

/// The UUID of what lies on the device, where it has one and a tool can tell.
#[must_use]
pub fn filesystem_uuid(path: &Path) -> Option<String> {
    let device = path.display().to_string();
    let wipefs = CommandSpec::new("wipefs", &["--no-act", "--noheadings", "--output", "UUID"]);
    let blkid = CommandSpec::new("blkid", &["--probe", "--match-tag", "UUID", "--output", "value"]);
    [wipefs, blkid].into_iter().find_map(|reader| {
        let finished = command::run_checked(&reader.arg(device.clone()), READER_LIMIT).ok()?;
        let line = finished.stdout.lines().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_named_once() {
        let gpt = "gpt  partition-table\ngpt  partition-table\nPMBR partition-table\n";
        assert_eq!(parse_wipefs(gpt), ["a partition table (gpt)", "a partition table (PMBR)"]);
        assert_eq!(parse_wipefs("ext4 filesystem my disk\n"), ["ext4 labelled \"my disk\""]);
        assert_eq!(parse_wipefs("swap other\nlinux_raid_member raid x\n").len(), 2);
        assert!(parse_wipefs(" \n\n").is_empty());
        assert_eq!(parse_blkid("DEVNAME=x\nTYPE=xfs\nUSAGE=filesystem\n"), ["xfs"]);
        assert_eq!(parse_blkid("PTTYPE=dos\n"), ["a partition table (dos)"]);
        assert_eq!(parse_blkid("").len(), 1, "what blkid found but cannot name is something too");
    }

    #[test]
    fn the_root_device_is_refused_even_when_named_again() {
        let Some(root) = sys_block::root_device().unwrap().into_iter().next() else {
            println!("skipped: / is not on a block device");
            return;
        };
        let path = PathBuf::from("/dev").join(kernel_name(root).unwrap());
        let error = accept(&path, std::slice::from_ref(&path), &[root]).unwrap_err();
        assert!(error.contains("never touched"), "{error}");
    }

    #[test]
    fn what_is_no_device_is_refused() {
        for (path, words) in
            [("/no/such", "name an existing"), ("/etc/passwd", "not a block device")]
        {
            let error = accept(Path::new(path), &[], &[]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(gpt|ext4|partition-table|TYPE=|é|[ \n\t,=/]){0,20}") {
            let _ = (parse_wipefs(&text), parse_blkid(&text));
        }
    }
}
