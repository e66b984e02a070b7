//! What the tests of whole trials share: a private place to work in, and foreign loop devices.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fsdyno_lab::filesystem::{self, FilesystemDef};
use fsdyno_lab::quiesce::Patience;
use fsdyno_lab::stand::Limits;
use fsdyno_lab::tools;
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::info::{FilesystemInfo, Names};
use fsdyno_model::target::TargetSpec;
use fsdyno_sys::loopdev::{LoopDevice, LoopOptions};
use fsdyno_sys::{loopdev, mount, process};

/// Size of the images of these tests in bytes.
pub const SIZE_BYTES: u64 = 512 << 20;

/// A directory on a disk, private to one test.
pub fn place() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("fsdyno-test-").tempdir_in("/var/tmp").unwrap()
}

/// Whether the whole of it can be tested here; says why not. Mounts are private to the thread from
/// then on.
pub fn can_run(definition: &FilesystemDef) -> bool {
    if !can_mount() {
        return false;
    }
    let missing = tools::missing(definition.tools);
    if let Some(tool) = missing.first() {
        println!("skipped: {} is not installed", tool.name);
        return false;
    }
    if let Err(error) = definition.kernel_support() {
        println!("skipped: {error}");
        return false;
    }
    true
}

/// Whether loop devices can be attached and mounted here; says why not.
pub fn can_mount() -> bool {
    if !process::may_mount() || !Path::new("/dev/loop-control").exists() {
        println!("skipped: needs root and loop devices");
        return false;
    }
    if let Err(error) = mount::private_namespace() {
        println!("skipped: {error}");
        return false;
    }
    true
}

pub fn definition(name: &str) -> &'static FilesystemDef {
    filesystem::by_name(name).unwrap()
}

pub fn target(text: &str) -> TargetSpec {
    let infos: Vec<&'static FilesystemInfo> = filesystem::ALL.iter().map(|def| &def.info).collect();
    TargetSpec::parse(
        text,
        &Names { workloads: &[], filesystems: &infos, load_workload: fsdyno_model::info::no_files },
    )
    .unwrap()
}

pub fn limits() -> Limits {
    let quiesce = Patience { idle: Duration::from_millis(100), limit: Duration::from_secs(60) };
    Limits { command: Duration::from_secs(120), quiesce, trial_end: None }
}

pub fn workspace(place: &Path, destroy: &[PathBuf]) -> Workspace {
    Workspace::open("t", &place.join("images"), &place.join("state"), destroy).unwrap()
}

/// A loop device that fsdyno did not make.
pub fn foreign_device(place: &Path, size_bytes: u64) -> LoopDevice {
    let image = place.join("foreign.img");
    File::create(&image).unwrap().set_len(size_bytes).unwrap();
    LoopDevice::attach(&image, LoopOptions::default()).unwrap()
}

/// Runs a program; false, with a reason, where it is not installed.
pub fn run(program: &str, args: &[&str]) -> bool {
    let Some(path) = tools::find(program) else {
        println!("skipped: {program} is not installed");
        return false;
    };
    let output = Command::new(path).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    true
}

/// Nothing below `place` is mounted or attached any more, and no image is left.
pub fn assert_clean(place: &Path) {
    let place = std::fs::canonicalize(place).unwrap();
    let mounts = mount::mounts().unwrap();
    assert!(mounts.iter().all(|mounted| !mounted.mount_point.starts_with(&place)), "{mounts:?}");
    let attached = loopdev::list().unwrap();
    assert!(attached.iter().all(|device| !device.backing_file.starts_with(&place)), "{attached:?}");
    let left =
        |name: &str| std::fs::read_dir(place.join(name)).map_or(0, |entries| entries.count());
    assert_eq!((left("images"), left("state/live")), (0, 0), "something is left in {place:?}");
}
