//! The disk of a guest for what workloads make and read while they are timed, an archive above all. In the initial
//! file system it would lie in memory that cannot be given back, and the guest would need as much more of it than
//! the workload is to have. The disk is none of the target's, has no latency, and is there where a workload of the
//! plan needs it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use fsdyno_lab::command;
use fsdyno_lab::filesystem::{self, FilesystemDef, Members};
use fsdyno_model::plan::Plan;
use fsdyno_sys::{home, mount};

use crate::catalogue;

/// What it is made with: few large files, and nobody who writes to it while the workload is timed.
const MKFS: [&str; 8] =
    ["-O", "^has_journal", "-T", "largefile4", "-m", "0", "-E", "lazy_itable_init=0"];
const MKFS_LIMIT: Duration = Duration::from_secs(300);
/// What the filesystem takes for itself: this share of the disk, and as much besides.
const OWN_SHARE: u64 = 64;
const OWN_BYTES: u64 = 64 << 20;

/// Its filesystem.
pub(super) fn filesystem() -> &'static FilesystemDef {
    filesystem::by_name("ext4").expect("the catalogue has ext4")
}

/// Size in bytes of the disk that each guest of `plan` has; `None` where no workload needs one.
pub(in crate::run) fn disk_bytes(plan: &Plan) -> Option<u64> {
    let of_workload = |spec| catalogue::workload(spec).ok().map(|it| it.input_bytes(&spec.params));
    let bytes = plan.workloads.iter().filter_map(of_workload).max().filter(|bytes| *bytes > 0)?;
    let bytes = bytes.saturating_add(bytes / OWN_SHARE).saturating_add(OWN_BYTES);
    Some(bytes.next_multiple_of(1 << 20))
}

/// In the guest: makes its filesystem, and mounts it where workloads keep what they read.
///
/// # Errors
/// It cannot be made or mounted.
pub fn make_ready(device: &Path) -> anyhow::Result<()> {
    let ext4 = filesystem();
    let arguments = MKFS.map(str::to_owned);
    for made in (ext4.mkfs)(Members { device, others: &[], journal: None }, &arguments) {
        command::run_checked(&made, MKFS_LIMIT)?;
    }
    let directory = home::default_cache_directory().context("the guest has no cache directory")?;
    let made = fs::create_dir_all(&directory);
    made.with_context(|| format!("make {}", directory.display()))?;
    Ok(mount::mount(ext4.info.name, &device.display().to_string(), &directory, "noatime")?)
}

#[cfg(test)]
mod tests {
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;

    #[test]
    fn only_what_is_read_needs_a_disk() {
        let plan = |texts: &[&str]| {
            let parse = |text: &&str| {
                let parsed = catalogue::with_names(|names| WorkloadSpec::parse(text, true, names));
                parsed.unwrap()
            };
            Plan { workloads: texts.iter().map(parse).collect(), ..Plan::new(true) }
        };
        assert_eq!(disk_bytes(&plan(&["compilebench", "small-files"])), None);
        let of_8 = disk_bytes(&plan(&["small-files", "web-cache:size=8MiB"])).unwrap();
        let of_512 = disk_bytes(&plan(&["web-cache:size=8MiB", "web-cache:size=512MiB"])).unwrap();
        assert!((64 << 20..128 << 20).contains(&of_8), "{of_8}");
        assert!((576 << 20..720 << 20).contains(&of_512), "{of_512}");
        assert_eq!(of_512 % (1 << 20), 0);
    }
}
