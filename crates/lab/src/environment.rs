//! The machine and its software, read once at the start of a run. What the system does not tell is
//! null.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fsdyno_model::environment::Environment;
use fsdyno_model::record::Warning;
use fsdyno_sys::{kernel, mount, process};
use rustix::fs::{Access, AtFlags, CWD};

use crate::readiness::nearest_existing;
use crate::tools;

/// Settings of the kernel that matter for writing.
const SYSCTL: [&str; 10] = [
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_background_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    "vm.vfs_cache_pressure",
    "vm.swappiness",
    "vm.min_free_kbytes",
    "kernel.task_delayacct",
];

/// Reads the environment. The tools' versions are asked of the tools themselves; read speeds, which are
/// measured and not read, are left to the caller.
#[must_use]
pub fn environment(fsdyno_version: &str, image_directory: Option<&Path>) -> Environment {
    let machine = machine(fsdyno_version, image_directory);
    Environment { tools: tool_versions(), ..machine }
}

/// As [`environment`], without the tools.
#[must_use]
pub fn machine(fsdyno_version: &str, image_directory: Option<&Path>) -> Environment {
    let facts = kernel::facts();
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    Environment {
        fsdyno_version: fsdyno_version.to_owned(),
        hostname: text(facts.hostname),
        kernel_release: text(facts.release),
        kernel_version: text(facts.version),
        kernel_cmdline: kernel::cmdline(),
        distribution: fs::read_to_string("/etc/os-release")
            .ok()
            .and_then(|text| pretty_name(&text)),
        cpu_model: kernel::cpu_model(),
        cpu_count: u32::try_from(kernel::cpu_count()).ok(),
        cpu_governor: kernel::cpu_governor(),
        memory_bytes: kernel::memory_bytes(),
        root: process::is_root(),
        image_directory: image_directory.map(|path| path.display().to_string()),
        image_filesystem: image_directory.and_then(image_filesystem),
        boot_ids: kernel::boot_id().into_iter().collect(),
        sysctl: SYSCTL.iter().map(|name| ((*name).to_owned(), sysctl(name))).collect(),
        ..Environment::default()
    }
}

/// `ext4 on /dev/sda1 (rw,relatime)` for the filesystem that holds `path`, or will.
#[must_use]
pub fn image_filesystem(path: &Path) -> Option<String> {
    let mounted = mount::mount_containing(nearest_existing(path)).ok()??;
    Some(format!("{} on {} ({})", mounted.fs_type, mounted.source, mounted.effective_options()))
}

/// [`Warning::code`] of an image directory in which nothing can be made.
pub const UNUSABLE: &str = "image-directory-unusable";

/// Filesystems that hold no files of the user's.
const OF_THE_KERNEL: [&str; 12] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "debugfs",
    "tracefs",
    "securityfs",
    "configfs",
    "devpts",
    "mqueue",
    "pstore",
    "bpf",
];

/// What is against keeping images in `path`, which need not exist yet: nothing can be made there
/// ([`UNUSABLE`]), or the figures would tell of something else than a disk.
#[must_use]
pub fn image_directory_warning(path: &Path) -> Option<Warning> {
    let warning = |code: &str, message: String, advice: &str| {
        Some(Warning { code: code.to_owned(), message, advice: advice.to_owned() })
    };
    const ELSEWHERE: &str = "choose a --dir on a disk";
    if let Err(error) = usable_directory(path) {
        return warning(UNUSABLE, error, ELSEWHERE);
    }
    let place = nearest_existing(path);
    let Ok(Some(mounted)) = mount::mount_containing(place) else {
        let message = format!("which filesystem holds {} is unknown", path.display());
        return warning("image-directory-unknown", message, "mount /proc");
    };
    let on = format!("{} lies on {}", path.display(), mounted.fs_type);
    match mounted.fs_type.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" => warning(
            "image-directory-in-memory",
            format!("{on}: images in memory: figures say nothing about a disk"),
            ELSEWHERE,
        ),
        "btrfs" | "bcachefs" | "zfs" => warning(
            "image-directory-copies-on-write",
            format!("{on}: it copies on write, under every filesystem measured"),
            "choose a --dir on ext4 or xfs, or forbid it: chattr +C DIR",
        ),
        "overlay" | "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" => layered(&on),
        kind if kind == "fuse" || kind.starts_with("fuse.") => layered(&on),
        _ => None,
    }
}

fn layered(on: &str) -> Option<Warning> {
    Some(Warning {
        code: "image-directory-layered".to_owned(),
        message: format!("{on}: another layer lies between the images and the disk"),
        advice: "choose a --dir on a local disk's own filesystem".to_owned(),
    })
}

/// Whether images can be made in `path`, which need not exist yet.
///
/// # Errors
/// What is against it, naming the directory as `--dir`.
pub fn usable_directory(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let existing = path.ancestors().find(|above| above.symlink_metadata().is_ok());
    if let Some(existing) = existing
        && !existing.is_dir()
    {
        return Err(format!("--dir {} is not a directory", existing.display()));
    }
    let place = nearest_existing(path);
    if let Ok(Some(mounted)) = mount::mount_containing(place)
        && OF_THE_KERNEL.contains(&mounted.fs_type.as_str())
    {
        return Err(format!("--dir {shown} cannot hold images: it lies on {}", mounted.fs_type));
    }
    if !can_write(place) {
        return Err(format!("--dir {shown} is not writable by this user"));
    }
    Ok(())
}

/// Whether the effective user may make files in the directory.
pub(crate) fn can_write(directory: &Path) -> bool {
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(CWD, directory, wanted, AtFlags::EACCESS).is_ok()
}

/// What every tool of the catalogue says its version is.
#[must_use]
pub fn tool_versions() -> BTreeMap<String, Option<String>> {
    tools::all().iter().map(|tool| (tool.name.to_owned(), tools::version(tool))).collect()
}

fn sysctl(name: &str) -> Option<String> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let directory = tempfile::tempdir().unwrap();
        let found = environment("1.2.3", Some(directory.path()));
        assert_eq!(found.fsdyno_version, "1.2.3");
        assert!(found.kernel_release.is_some() && found.memory_bytes.is_some());
        assert!(found.image_filesystem.unwrap().contains(" on "));
        assert!(found.sysctl["vm.dirty_ratio"].is_some());
        assert_eq!(found.tools.len(), tools::all().len());
        for tool in tools::all() {
            assert_eq!(
                found.tools[tool.name].is_some(),
                tools::is_installed(tool.name) && !tool.version_arg.is_empty(),
                "{}",
                tool.name
            );
        }
    }

    #[test]
    fn bad_places_for_images_are_told() {
        for (path, code, words) in [
            ("/proc", UNUSABLE, "lies on proc"),
            ("/sys/kernel/x", UNUSABLE, "lies on sysfs"),
            ("/etc/passwd", UNUSABLE, "--dir /etc/passwd is not a directory"),
            ("/etc/passwd/x/y", UNUSABLE, "--dir /etc/passwd is not a directory"),
        ] {
            let warning = image_directory_warning(Path::new(path)).unwrap();
            assert_eq!(warning.code, code, "{path}");
            assert!(warning.message.contains(words), "{warning:?}");
        }
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let warning = image_directory_warning(&directory.path().join("not/yet"));
        assert!(warning.is_none_or(|warning| warning.code != UNUSABLE));
        let memory = Path::new("/dev/shm");
        let found = mount::mount_containing(memory).ok().flatten();
        if found.is_none_or(|mounted| mounted.fs_type != "tmpfs") {
            println!("skipped: /dev/shm is not a tmpfs");
            return;
        }
        let warning = image_directory_warning(memory).unwrap();
        assert!(warning.message.contains("figures say nothing about a disk"), "{warning:?}");
    }

    #[test]
    fn the_distribution_is_named() {
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"X 1\"\n").as_deref(), Some("X 1"));
        assert_eq!(pretty_name("PRETTY_NAME=\n"), None);
    }
}
