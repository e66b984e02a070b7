//! The workload `read-speed` through the phase runner: on a directory, and on a block device.

mod support;

use std::path::Path;
use std::process::Command;

use fsdyno_model::wire::{MeasureSpec, Message, Task};
use fsdyno_workload::read_speed::BUFFER_BYTES;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{SmallFilesystem, measure, spec, verify};

const MIB: u64 = 1 << 20;

#[test]
fn a_directory_gets_a_file_that_is_read_and_verified() {
    for (numjobs, size) in [("1", 8 * MIB), ("3", 6 * MIB + 4096)] {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let size_text = size.to_string();
        let params = [("size", size_text.as_str()), ("numjobs", numjobs)];
        let answers = measure(directory.path(), "read-speed", &params).expect_finished();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["cached", "device"]);
        let cached = answers.phase("cached");
        let jobs: u64 = numjobs.parse().unwrap();
        assert!(cached.elapsed_return_ns >= 1_000_000_000, "{cached:?}");
        assert_eq!(cached.bytes, cached.operations["read"] * BUFFER_BYTES as u64);
        assert!(cached.operations["read"] > 10 * jobs, "{cached:?}");
        let device = answers.phase("device");
        assert_eq!((device.bytes, device.read_bytes), (size, size));
        assert_eq!(device.operations["read"], size.div_ceil(BUFFER_BYTES as u64));
        assert!(device.cold.is_some() && cached.cold.is_none());
        for phase in answers.phases() {
            assert_eq!((phase.files, phase.elapsed_durable_ns), (None, None));
        }
        assert_eq!(cached.primary_metric, "memory_read_mib_per_s");
        assert_eq!(device.primary_metric, "throughput_mib_per_s");
        let manifest = answers.manifest().unwrap();
        let verified = verify(directory.path(), manifest);
        assert_eq!((verified.files, verified.bytes), (1, size));
        assert!(verified.mismatches.is_empty(), "{verified:?}");
        flip(&directory.path().join("read-speed"), size / 2);
        let wrong = verify(directory.path(), manifest).mismatches;
        assert!(wrong[0].contains(&format!("differs at byte {}", size / 2)), "{wrong:?}");
    }
}

fn flip(path: &Path, offset: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset as usize] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn what_cannot_be_read_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let answers = measure(directory.path(), "read-speed", &[("source", "device")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("prepare", EXIT_FAILED));
    assert!(error.contains("use source=file"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let Some(full) = SmallFilesystem::mount("4m") else { return };
    let answers = measure(&full.path(), "read-speed", &[("size", "8MiB")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("prepare", EXIT_FAILED));
    assert!(error.starts_with("write read-speed: ENOSPC"), "{error}");
}

/// An ext4 on a loop device, taken down when dropped; `None` with the reason printed.
struct OwnFilesystem {
    directory: tempfile::TempDir,
    device: String,
}

impl OwnFilesystem {
    fn mount(size_bytes: u64) -> Option<OwnFilesystem> {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let image = directory.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(size_bytes).unwrap();
        std::fs::create_dir(directory.path().join("mnt")).unwrap();
        let run = |program: &str, arguments: &[&str]| -> Option<String> {
            match Command::new(program).args(arguments).output() {
                Ok(output) if output.status.success() => {
                    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
                }
                other => {
                    println!("skipped: {program}: {other:?}");
                    None
                }
            }
        };
        run("mkfs.ext4", &["-q", image.to_str()?])?;
        let device = run("losetup", &["-f", "--show", image.to_str()?])?;
        let made = OwnFilesystem { directory, device };
        run("mount", &[&made.device, made.root().to_str()?])?;
        Some(made)
    }

    fn root(&self) -> std::path::PathBuf {
        self.directory.path().join("mnt")
    }
}

impl Drop for OwnFilesystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).output();
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
    }
}

#[test]
fn a_device_of_its_own_is_read_and_never_written() {
    const SIZE: u64 = 32 * MIB;
    let Some(filesystem) = OwnFilesystem::mount(SIZE) else { return };
    let spec_of = |source: &str| -> MeasureSpec {
        spec(&filesystem.root(), "read-speed", &[("source", source), ("size", "4MiB")])
    };
    let answers = support::serve(Task::Measure(spec_of("device"))).expect_finished();
    let device = answers.phase("device");
    assert_eq!(device.bytes, SIZE, "the whole device from its start");
    assert!(answers.manifest().unwrap().files.is_empty());
    assert!(!filesystem.root().join("read-speed").exists());

    // A loop device answers for holes without its disk: there a file is read instead.
    let answers = support::serve(Task::Measure(spec_of("auto"))).expect_finished();
    assert_eq!(answers.phase("device").bytes, 4 * MIB);
    assert!(
        answers.messages.iter().any(|it| matches!(it, Message::Manifest(m) if m.files.len() == 1))
    );
}
