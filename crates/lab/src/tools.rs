//! The programs that fsdyno calls: where they are, which version, which package brings them. What
//! they are called for is said where they are called.

use std::path::Path;
use std::time::Duration;

pub use fsdyno_sys::child::{find_program as find, search_directories};

use crate::command::{self, CommandSpec};

const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Names of the package that brings a program, by family of distributions; empty where a family has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Debian, Ubuntu.
    pub debian: &'static str,
    /// Fedora, RHEL.
    pub fedora: &'static str,
    /// Arch.
    pub arch: &'static str,
}

/// e2fsprogs.
pub const E2FSPROGS: Package = Package::same("e2fsprogs");
/// xfsprogs.
pub const XFSPROGS: Package = Package::same("xfsprogs");
/// btrfs-progs.
pub const BTRFS_PROGS: Package = Package::same("btrfs-progs");
/// f2fs-tools.
pub const F2FS_TOOLS: Package = Package::same("f2fs-tools");
/// jfsutils.
pub const JFSUTILS: Package = Package::same("jfsutils");
/// reiserfsprogs; Fedora calls it otherwise.
pub const REISERFSPROGS: Package =
    Package { debian: "reiserfsprogs", fedora: "reiserfs-utils", arch: "reiserfsprogs" };
/// nilfs-tools; elsewhere nilfs-utils.
pub const NILFS_TOOLS: Package =
    Package { debian: "nilfs-tools", fedora: "nilfs-utils", arch: "nilfs-utils" };
/// exfatprogs.
pub const EXFATPROGS: Package = Package::same("exfatprogs");
/// The programs of ntfs-3g.
pub const NTFSPROGS: Package = Package { debian: "ntfs-3g", fedora: "ntfsprogs", arch: "ntfs-3g" };
/// bcachefs-tools, which no current release of Debian has.
pub const BCACHEFS_TOOLS: Package =
    Package { debian: "", fedora: "bcachefs-tools", arch: "bcachefs-tools" };
/// The programs of OpenZFS.
pub const ZFSUTILS: Package =
    Package { debian: "zfsutils-linux zfs-dkms", fedora: "zfs", arch: "zfs-utils" };
/// coreutils.
pub const COREUTILS: Package = Package::same("coreutils");
/// util-linux.
pub const UTIL_LINUX: Package =
    Package { debian: "util-linux", fedora: "util-linux", arch: "util-linux" };

impl Package {
    const fn same(name: &'static str) -> Package {
        Package { debian: name, fedora: name, arch: name }
    }
}

/// A program that fsdyno calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolDef {
    /// Its name.
    pub name: &'static str,
    /// The package that brings it.
    pub package: Package,
    /// The argument that makes it print its version; empty where none does.
    pub version_arg: &'static str,
}

/// The signature readers: either suffices.
pub static SIGNATURE_READERS: [ToolDef; 2] = [
    ToolDef { name: "wipefs", package: UTIL_LINUX, version_arg: "--version" },
    ToolDef { name: "blkid", package: UTIL_LINUX, version_arg: "--version" },
];

/// Every tool of the catalogue of filesystems, the signature readers and those of arrays, each once.
#[must_use]
pub fn all() -> Vec<ToolDef> {
    let mut tools: Vec<ToolDef> = Vec::new();
    let catalogue = crate::filesystem::ALL.iter().flat_map(|filesystem| filesystem.tools);
    for tool in catalogue.chain(&SIGNATURE_READERS).chain(&crate::device::array::TOOLS) {
        if !tools.iter().any(|known| known.name == tool.name) {
            tools.push(*tool);
        }
    }
    tools
}

/// What the program says its version is; `None` where it is missing, silent, or complains instead.
#[must_use]
pub fn version(tool: &ToolDef) -> Option<String> {
    if tool.version_arg.is_empty() {
        return None;
    }
    let spec = CommandSpec::new(tool.name, &[tool.version_arg]);
    let finished = command::run(&spec, VERSION_LIMIT).ok()?;
    version_line(finished.exit_code, &finished.stdout, &finished.stderr)
}

/// The first line where the program succeeded, else the first that looks like a version: some print
/// it and fail.
fn version_line(exit_code: Option<i32>, stdout: &str, stderr: &str) -> Option<String> {
    let mut lines = [stdout, stderr].into_iter().flat_map(str::lines).map(str::trim);
    let line =
        lines.find(|line| !line.is_empty() && (exit_code == Some(0) || has_version(line)))?;
    Some(line.to_owned())
}

/// Whether a word of the line is a number with a point, as `6.1.0`, `v6.2` or `zfs-2.1.11`.
fn has_version(line: &str) -> bool {
    line.split([' ', '\t', '-']).any(|word| {
        let number = word.strip_prefix('v').unwrap_or(word);
        let (before, after) = number.split_once('.').unwrap_or_default();
        let is_number = !before.is_empty() && before.bytes().all(|byte| byte.is_ascii_digit());
        is_number && after.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// What to do to get the program `name`, if fsdyno calls one of that name:
/// `apt-get install xfsprogs`.
#[must_use]
pub fn install_advice(name: &str) -> Option<String> {
    let tool = all().into_iter().find(|tool| tool.name == name)?;
    let os_release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    Some(install_command(&tool.package, &os_release))
}

/// The command that installs `package` on the distribution that `os_release` names.
fn install_command(package: &Package, os_release: &str) -> String {
    let value = |key: &str| {
        let found = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_default().trim_matches(['"', '\'']).to_ascii_lowercase()
    };
    let family = format!("{} {}", value("ID"), value("ID_LIKE"));
    let is = |names: &[&str]| family.split_whitespace().any(|word| names.contains(&word));
    if is(&["debian", "ubuntu"]) && package.debian.is_empty() {
        format!("build {} from its source: no current release of Debian has it", package.arch)
    } else if is(&["debian", "ubuntu"]) {
        format!("apt-get install {}", package.debian)
    } else if is(&["fedora", "rhel", "centos"]) {
        format!("dnf install {}", package.fedora)
    } else if is(&["arch"]) {
        format!("pacman -S {}", package.arch)
    } else {
        format!("install the package {}", package.arch)
    }
}

/// The tools of `wanted` that are missing here.
#[must_use]
pub fn missing(wanted: &[ToolDef]) -> Vec<ToolDef> {
    wanted.iter().filter(|tool| find(tool.name).is_none()).copied().collect()
}

/// Whether `path` names a program that can be run; for tests and the doctor.
#[must_use]
pub fn is_installed(name: &str) -> bool {
    find(name).as_deref().is_some_and(Path::is_absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_install_command_suits_the_distribution() {
        for (os_release, command) in [
            ("ID=debian\n", "apt-get install xfsprogs"),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "apt-get install xfsprogs"),
            ("NAME=x\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf install xfsprogs"),
            ("ID=manjaro\nID_LIKE=arch\n", "pacman -S xfsprogs"),
            ("", "install the package xfsprogs"),
        ] {
            assert_eq!(install_command(&XFSPROGS, os_release), command);
        }
        let advice = install_command(&BCACHEFS_TOOLS, "ID=debian\n");
        assert_eq!(
            advice,
            "build bcachefs-tools from its source: no current release of Debian has it"
        );
        assert_eq!(install_command(&BCACHEFS_TOOLS, "ID=arch"), "pacman -S bcachefs-tools");
    }

    #[test]
    fn a_complaint_is_no_version() {
        for (exit_code, stderr, version) in [
            (0, "mke2fs 1.47.0 (5-Feb-2023)\n", true),
            (0, "some words\n", true),
            (1, "\ntool, v6.2\n", true),
            (127, "x: line 3: xfs_spaceman: command not found\n", false),
            (127, "error while loading shared libraries: libx.so.1.2: no such file\n", false),
            (1, "", false),
            (0, " \n", false),
        ] {
            assert_eq!(version_line(Some(exit_code), "", stderr).is_some(), version, "{stderr}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        assert!(is_installed("sh"));
        let none = ToolDef { name: "no-such-program", ..SIGNATURE_READERS[0] };
        let sh = ToolDef { name: "sh", ..none };
        assert_eq!(missing(&[sh, none]), [none]);
    }
}
