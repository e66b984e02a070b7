//! What this machine can do for fsdyno, and the command that mends each gap. Changes nothing. Whether it can
//! trace is left to the crate that does.

use std::fs;
use std::path::Path;

use fsdyno_model::plan::DEFAULT_SIZE_BYTES;
use fsdyno_model::units::human_bytes;
use fsdyno_sys::{caches, file, kernel, process};
use serde::Serialize;

use crate::filesystem::{self, FilesystemDef};
use crate::readiness::nearest_existing;
use crate::{environment, tools};

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is there.
    Ok,
    /// It works, with less comfort or worse figures.
    Warn,
    /// It is not there: something cannot be measured.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// How it stands.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// The command, or the deed, that mends it.
    pub mend: Option<String>,
}

impl Check {
    fn ok(name: &str, detail: impl Into<String>) -> Check {
        Check { name: name.to_owned(), status: Status::Ok, detail: detail.into(), mend: None }
    }

    fn warn(name: &str, detail: impl Into<String>, mend: &str) -> Check {
        Check { status: Status::Warn, mend: Some(mend.to_owned()), ..Check::ok(name, detail) }
    }

    /// Missing where it is needed, and a warning elsewhere.
    fn lack(name: &str, detail: impl Into<String>, mend: &str, is_needed: bool) -> Check {
        let status = if is_needed { Status::Missing } else { Status::Warn };
        Check { status, ..Check::warn(name, detail, mend) }
    }

    fn missing(name: &str, detail: impl Into<String>, mend: &str) -> Check {
        Check { status: Status::Missing, ..Check::warn(name, detail, mend) }
    }
}

/// Looks at everything; images would lie in `image_dir`. What a filesystem lacks is missing where it is among
/// `asked`, and a warning elsewhere.
#[must_use]
pub fn checks(image_dir: &Path, asked: &[&FilesystemDef]) -> Vec<Check> {
    let mut checks = vec![root(), loop_devices()];
    let is_asked = |it: &FilesystemDef| asked.iter().any(|own| own.info.name == it.info.name);
    for filesystem in filesystem::ALL {
        checks.push(kernel_filesystem(filesystem, is_asked(filesystem)));
    }
    let needed: Vec<&str> =
        asked.iter().flat_map(|filesystem| filesystem.tools).map(|tool| tool.name).collect();
    for tool in tools::all() {
        let is_needed = needed.contains(&tool.name) || tools::SIGNATURE_READERS.contains(&tool);
        checks.push(self::tool(&tool, is_needed));
    }
    checks.extend([drop_caches(), lockdown(), governor(), memory(), swap()]);
    checks.extend([free_space(image_dir), image_filesystem(image_dir)]);
    checks
}

fn root() -> Check {
    if process::may_mount() {
        Check::ok("root", "may make and mount filesystems")
    } else {
        let detail = "without root only dir:PATH can be measured";
        Check::missing("root", detail, "run fsdyno with sudo")
    }
}

fn loop_devices() -> Check {
    if Path::new("/dev/loop-control").exists() {
        Check::ok("loop devices", "/dev/loop-control is there")
    } else {
        let detail = "no images can be used as devices";
        Check::missing("loop devices", detail, "modprobe loop")
    }
}

fn kernel_filesystem(filesystem: &FilesystemDef, is_asked: bool) -> Check {
    let name = format!("kernel: {}", filesystem.info.name);
    match filesystem.kernel_support() {
        Ok(note) => Check::ok(&name, note.unwrap_or_else(|| "built in or loaded".to_owned())),
        Err(error) => {
            let driver = filesystem.drivers.last().unwrap_or(&filesystem.info.name);
            let mend = format!("modprobe {driver}, or measure it in guests: --in guest");
            Check::lack(&name, error, &mend, is_asked)
        }
    }
}

fn tool(tool: &tools::ToolDef, is_needed: bool) -> Check {
    let name = format!("tool: {}", tool.name);
    if !tools::is_installed(tool.name) {
        let advice = tools::install_advice(tool.name).unwrap_or_default();
        let users = filesystem::ALL.iter().filter(|it| it.tools.contains(tool));
        let users: Vec<&str> = users.map(|it| it.info.name).collect();
        let detail = if users.is_empty() {
            "not installed".to_owned()
        } else {
            format!("not installed: {} cannot be measured", users.join(", "))
        };
        return Check::lack(&name, detail, &advice, is_needed);
    }
    match tools::version(tool) {
        Some(version) => Check::ok(&name, version),
        None => {
            let detail = format!("installed, but {} tells no version", tool.version_arg);
            Check::warn(
                &name,
                detail,
                &format!("see what `{} {}` says", tool.name, tool.version_arg),
            )
        }
    }
}

fn drop_caches() -> Check {
    if caches::can_drop_caches() {
        Check::ok("drop_caches", "caches can be emptied between phases")
    } else {
        let detail = "reads cannot be made cold without unmounting";
        Check::warn("drop_caches", detail, "run fsdyno with sudo, outside a container")
    }
}

fn lockdown() -> Check {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    let mode = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match mode {
        None => Check::ok("lockdown", "not in use, or not visible"),
        Some("none") => Check::ok("lockdown", "off"),
        Some(mode) => {
            let detail = format!("{mode}: blktrace(8) and kernel probes are not possible");
            Check::warn("lockdown", detail, "boot with lockdown=none (secure boot may forbid it)")
        }
    }
}

fn governor() -> Check {
    match kernel::cpu_governor() {
        None => Check::ok("cpu governor", "the frequency is not ours to govern here"),
        Some(governor) if governor == "performance" => Check::ok("cpu governor", governor),
        Some(governor) => Check::warn(
            "cpu governor",
            format!("{governor}: the clock follows the load, and the figures with it"),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn memory() -> Check {
    const ENOUGH_BYTES: u64 = 1 << 30;
    match kernel::memory_bytes() {
        None => Check::warn("memory", "unknown", "mount /proc"),
        Some(bytes) if bytes < ENOUGH_BYTES => {
            Check::warn("memory", human_bytes(bytes), "use small workloads: fsck may need more")
        }
        Some(bytes) => Check::ok("memory", human_bytes(bytes)),
    }
}

fn swap() -> Check {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    match text.lines().skip(1).filter(|line| !line.trim().is_empty()).count() {
        0 => Check::ok("swap", "none in use"),
        count => {
            let detail = format!("{count} in use: paging would be measured too");
            Check::warn("swap", detail, "swapoff -a for the time of the run")
        }
    }
}

fn free_space(image_dir: &Path) -> Check {
    let place = nearest_existing(image_dir);
    match file::free_space(place) {
        Err(error) => Check::missing("free space", error.to_string(), "choose another --dir"),
        Ok(space) => {
            let detail = format!("{} in {}", human_bytes(space.available), place.display());
            if space.available < DEFAULT_SIZE_BYTES {
                let default = human_bytes(DEFAULT_SIZE_BYTES);
                let mend =
                    format!("choose another --dir, or a --size below the default of {default}");
                Check::warn("free space", detail, &mend)
            } else {
                Check::ok("free space", detail)
            }
        }
    }
}

fn image_filesystem(image_dir: &Path) -> Check {
    const NAME: &str = "image directory";
    match environment::image_directory_warning(image_dir) {
        Some(warning) if warning.code == environment::UNUSABLE => {
            Check::missing(NAME, warning.message, &warning.advice)
        }
        Some(warning) => Check::warn(NAME, warning.message, &warning.advice),
        None => {
            let place = environment::image_filesystem(image_dir);
            Check::ok(NAME, place.unwrap_or_else(|| image_dir.display().to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_has_its_mending() {
        let checks = checks(Path::new("/no/such/directory"), &[]);
        for check in &checks {
            assert!(!check.detail.is_empty(), "{check:?}");
            assert_eq!(check.status != Status::Ok, check.mend.is_some(), "{check:?}");
        }
        for filesystem in filesystem::ALL {
            let name = format!("kernel: {}", filesystem.info.name);
            assert_eq!(checks.iter().filter(|check| check.name == name).count(), 1);
        }
    }

    #[test]
    fn only_what_was_asked_for_is_missing() {
        let none = tools::ToolDef { name: "no-such-program", ..tools::SIGNATURE_READERS[0] };
        assert_eq!(tool(&none, false).status, Status::Warn);
        assert_eq!(tool(&none, true).status, Status::Missing);
        let of_filesystem = FilesystemDef { drivers: &["no-such-driver"], ..*filesystem::ALL[0] };
        assert_eq!(kernel_filesystem(&of_filesystem, false).status, Status::Warn);
        assert_eq!(kernel_filesystem(&of_filesystem, true).status, Status::Missing);
        let is_of_filesystem = |check: &&Check| {
            check.name.starts_with("kernel: ")
                || (check.name.starts_with("tool: ") && check.detail.contains("cannot be measured"))
        };
        let unasked = checks(Path::new("/var/tmp"), &[]);
        let unasked: Vec<&Check> = unasked.iter().filter(is_of_filesystem).collect();
        assert!(unasked.iter().all(|check| check.status != Status::Missing), "{unasked:?}");
    }

    #[test]
    fn a_bad_place_for_images_is_told() {
        for path in ["/proc", "/sys", "/etc/passwd"] {
            assert_eq!(image_filesystem(Path::new(path)).status, Status::Missing, "{path}");
        }
        let memory = image_filesystem(Path::new("/dev/shm"));
        assert_ne!(memory.status, Status::Missing, "{memory:?}");
    }
}
