//! User-Mode Linux as it is installed: a kernel that runs as a process of the host, and its command line.
//! Running it is left to [`crate::machine`].
//!
//! It is pinned to one processor. Unpinned it takes three times as long: for each system call of the guest two
//! processes take turns, and on two processors each waits for the other to wake up.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fsdyno_model::guest;
use fsdyno_sys::{child, confine, kernel, mount};

use crate::kernel::{Bootable, Kernel};
use crate::qemu::Spec;
use crate::{Result, channel, hash, initramfs, read};

/// The program.
pub const PROGRAM: &str = "linux.uml";
/// How to get it.
pub const INSTALL: &str = "apt-get install user-mode-linux";
/// Disks that it may have: its driver numbers them from 0 to 15.
pub const MAX_DISKS: usize = 16;
/// Where distributions put its modules, a directory for each release.
const MODULES: &str = "/usr/lib/uml/modules";
/// The serial line that is the port.
const LINE: &str = "/dev/ttyS0";

/// User-Mode Linux as it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uml {
    /// The program, which is the kernel.
    pub path: PathBuf,
    /// Its release, such as `6.1.176`.
    pub release: String,
    /// The processor that it is pinned to, from 0.
    pub cpu: usize,
}

/// The kernel's words that are the same in every trial. Those with `=` that it does not know are the environment
/// of the first process; others would be its arguments. `t` behind a disk's number: no discards, which take seconds there.
const WORDS: [&str; 17] = [
    "uml_dir=./",
    "umid=guest",
    "con=null",
    // Its messages go to standard output; the line's to standard input, a file that is open for writing.
    "con0=null,fd:1",
    "ssl=null",
    "ssl0=null,fd:0",
    // Where these two are not given it appends its own, as arguments of the first process.
    "root=/dev/ram0",
    "console=tty0",
    "quiet",
    "panic=-1",
    "oops=panic",
    "audit=0",
    "apparmor=0",
    "selinux=0",
    "LC_ALL=C",
    "RUST_BACKTRACE=0",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
];

/// The kernel's name for AMX, registers of 8 KiB.
const TILES: &str = "amx_tile";
/// The first release that asks how large the processor's registers are.
const ANY_REGISTERS: (u32, u32) = (6, 13);

/// Why `release` cannot run here. Releases before 6.13 keep a process's registers in room of a fixed size, in which
/// those of AMX are not: under Debian's 6.1 even a program of three calls ends by signal 11 as the first process.
fn misfit(release: &str, has_tiles: bool) -> Option<String> {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    let own = (numbers.next()?, numbers.next()?);
    (has_tiles && own < ANY_REGISTERS).then(|| {
        format!(
            "User-Mode Linux {release} has no room for the registers of this processor (AMX): take 6.13 or later, \
             or --in guest"
        )
    })
}

/// Finds it.
///
/// # Errors
/// It is not installed, does not run on this processor, or its modules are missing.
pub fn find() -> Result<Uml> {
    let path = child::find_program(PROGRAM)
        .ok_or_else(|| format!("{PROGRAM} is not installed: {INSTALL}"))?;
    let ended = crate::ask_version(&path)?;
    let release = parse_release(&ended.stdout.text).ok_or_else(|| {
        let words = child::last_words(&ended.stdout.text, &ended.stderr.text);
        format!("{} tells no release: {words}", path.display())
    })?;
    if let Some(why) = misfit(&release, kernel::has_cpu_feature(TILES)) {
        return Err(why);
    }
    let cpu = confine::last_cpu().map_err(|error| error.to_string())?;
    let found = Uml { path, release, cpu };
    if !found.modules().join("kernel").is_dir() {
        let modules = found.modules().display().to_string();
        return Err(format!("the modules of {PROGRAM} are not in {modules}: {INSTALL}"));
    }
    Ok(found)
}

fn parse_release(text: &str) -> Option<String> {
    let line = text.lines().next()?.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let is_release = line.starts_with(|c: char| c.is_ascii_digit()) && line.chars().all(is_plain);
    is_release.then(|| line.to_owned())
}

impl Uml {
    fn modules(&self) -> PathBuf {
        Path::new(MODULES).join(&self.release)
    }

    /// It, as a kernel with its modules.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        let (release, image) = (self.release.clone(), self.path.clone());
        Kernel { release, image, modules: self.modules() }
    }

    /// It, as what is booted.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn bootable(&self) -> Result<Bootable> {
        Ok(Bootable { path: self.path.clone(), hash: hash(&read(&self.path)?) })
    }

    /// The arguments that are the same in every trial.
    #[must_use]
    pub fn arguments(&self, memory_bytes: u64) -> Vec<String> {
        let own = [
            format!("mem={}M", memory_bytes >> 20),
            format!("{}={LINE}", guest::LINE_VARIABLE),
            format!("rdinit={}", initramfs::PROGRAM),
        ];
        own.into_iter().chain(WORDS.map(str::to_owned)).collect()
    }

    /// The command that starts a guest in `directory`, where what it says and its console are kept.
    ///
    /// # Errors
    /// A file cannot be made; there are too many disks; a name cannot be given to it.
    pub fn command(&self, spec: &Spec, directory: &Path, console: &Path) -> Result<Command> {
        let made = |path: &Path, opened: std::io::Result<File>| {
            opened.map_err(|error| format!("make {}: {error}", path.display()))
        };
        let said = directory.join(channel::SAID);
        let line = made(&said, File::options().append(true).open(&said))?;
        let messages = made(console, File::create(console))?;
        let mut command = Command::new(&self.path);
        command.args(self.arguments(spec.memory_bytes)).args(data_arguments(spec, directory)?);
        command.args(["--", "guest-init"]);
        command.stdin(Stdio::from(line)).stdout(Stdio::from(messages)).current_dir(directory);
        command.env_clear().env("HOME", directory);
        command.env("TMPDIR", memory_directory(spec.memory_bytes, directory));
        confine::to_cpu(confine::without_core(&mut command), self.cpu);
        Ok(command)
    }
}

/// The initial file system and the disks. Names are relative to the guest's directory: the kernel splits its
/// command line at blanks, and what belongs to a disk at colons and commas.
fn data_arguments(spec: &Spec, directory: &Path) -> Result<Vec<String>> {
    if spec.disks.len() > MAX_DISKS {
        let count = spec.disks.len();
        return Err(format!("User-Mode Linux has {MAX_DISKS} disks at most, not {count}"));
    }
    let name = |path: &Path| {
        let name = path.strip_prefix(directory).unwrap_or(path).display().to_string();
        let is_bad = name.contains(|c: char| c.is_whitespace() || ":,\"".contains(c));
        if is_bad { Err(format!("{name} cannot be named to User-Mode Linux")) } else { Ok(name) }
    };
    let mut all = vec![format!("initrd={}", name(&spec.initramfs)?)];
    for (number, disk) in spec.disks.iter().enumerate() {
        all.push(format!("ubd{number}t={}", name(disk)?));
    }
    Ok(all)
}

/// The device of the disk with this number, from 0, in the guest.
#[must_use]
pub fn disk_device(number: usize) -> PathBuf {
    let letter = ('a'..='z').nth(number).unwrap_or('z');
    PathBuf::from(format!("/dev/ubd{letter}"))
}

/// Where the file lies that is the guest's memory: in memory, where there is room and code may be run from it,
/// else beside the disks.
fn memory_directory(memory_bytes: u64, directory: &Path) -> PathBuf {
    let may_run = mount::shared_memory(memory_bytes)
        .is_some_and(|it| !it.effective_options().split(',').any(|word| word == "noexec"));
    if may_run { PathBuf::from(mount::SHARED_MEMORY) } else { directory.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::place::Accelerator;

    fn spec(disks: usize) -> Spec {
        let disk = |number: usize| PathBuf::from(format!("/a b/guest-1/disk{number}.img"));
        Spec {
            kernel: PathBuf::from("/usr/bin/linux.uml"),
            initramfs: PathBuf::from("/a b/guest-1/initramfs"),
            accelerator: Accelerator::Tcg,
            memory_bytes: 512 << 20,
            shift: None,
            disks: (0..disks).map(disk).collect(),
        }
    }

    #[test]
    fn releases_are_read() {
        for (text, release) in [
            ("6.1.176\n", Some("6.1.176")),
            ("6.12.38-1+um", Some("6.12.38-1+um")),
            ("usage: linux", None),
            ("6.1 and more", None),
            ("", None),
        ] {
            assert_eq!(parse_release(text).as_deref(), release, "{text}");
        }
    }

    #[test]
    fn names_do_not_split_the_command_line() {
        let all = data_arguments(&spec(2), Path::new("/a b/guest-1")).unwrap();
        assert_eq!(all, ["initrd=initramfs", "ubd0t=disk0.img", "ubd1t=disk1.img"]);
        let elsewhere = data_arguments(&spec(1), Path::new("/c")).unwrap_err();
        assert!(elsewhere.contains("cannot be named"), "{elsewhere}");
        let many = data_arguments(&spec(MAX_DISKS + 1), Path::new("/a b/guest-1")).unwrap_err();
        assert!(many.contains("16 disks at most, not 17"), "{many}");
        assert_eq!(disk_device(MAX_DISKS - 1), Path::new("/dev/ubdp"));
    }

    #[test]
    fn no_trial_is_among_the_flags() {
        let uml = Uml { path: PathBuf::from("/u"), release: "6.1".to_owned(), cpu: 0 };
        let flags = uml.arguments(512 << 20).join(" ");
        assert!(flags.contains("mem=512M") && flags.contains("FSDYNO_PORT=/dev/ttyS0"), "{flags}");
        assert!(!flags.contains("ubd") && !flags.contains("eth"), "{flags}");
    }

    #[test]
    fn old_releases_have_no_room_for_tiles() {
        assert!(misfit("6.1.176", true).unwrap().contains("AMX"));
        for (release, has_tiles) in [("6.1.176", false), ("6.13.0-um", true), ("odd", true)] {
            assert_eq!(misfit(release, has_tiles), None, "{release}");
        }
    }

    #[test]
    fn memory_lies_where_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(memory_directory(u64::MAX, directory.path()), directory.path());
    }
}
