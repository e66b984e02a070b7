//! Image files, loop devices and filesystems for the tests on the real kernel.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_sys::{file, mount, process};

/// A directory on a disk-backed filesystem where possible, with an image in it.
pub struct Bench {
    pub directory: tempfile::TempDir,
    pub image: PathBuf,
}

impl Bench {
    pub fn new(size_bytes: u64) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = directory.path().join("disk.img");
        file::allocate(File::create(&image).unwrap(), size_bytes).unwrap();
        Self { directory, image }
    }

    pub fn mount_point(&self) -> PathBuf {
        let path = self.directory.path().join("mnt");
        fs::create_dir_all(&path).unwrap();
        path
    }
}

/// Runs `body` in a thread with its own mount table, or prints why not.
pub fn in_namespace(body: impl FnOnce() + Send + 'static) {
    if !process::is_root() || !process::may_mount() {
        println!("skipped: needs root");
        return;
    }
    if !Path::new("/dev/loop-control").exists() {
        println!("skipped: this kernel has no loop devices");
        return;
    }
    let thread = std::thread::spawn(|| {
        mount::private_namespace().unwrap();
        body();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Makes a filesystem; false, with a printed reason, where the kernel or the tool is missing.
pub fn format(device: &Path, fs_type: &str, arguments: &[&str]) -> bool {
    let known =
        fsdyno_sys::kernel::filesystems().unwrap().iter().any(|known| known.name == fs_type);
    let made = Command::new(format!("mkfs.{fs_type}")).args(arguments).arg(device).output();
    match made {
        Ok(output) if known => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        _ => {
            println!(
                "skipped: {fs_type} is not in this kernel, or mkfs.{fs_type} is not installed"
            );
            false
        }
    }
}
