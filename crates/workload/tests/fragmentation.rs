//! The phase `fragmentation` on real filesystems. Needs root and loop devices; says why it is skipped
//! where there are none.

mod support;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{SmallFilesystem, measure};

/// An image with a filesystem, mounted; unmounted when dropped.
struct Image {
    directory: tempfile::TempDir,
}

impl Image {
    fn mount(fs_type: &str, format: &[&str], options: &str) -> Option<Image> {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let image = directory.path().join("disk.img");
        File::create(&image).unwrap().set_len(320 << 20).unwrap();
        let made = Image { directory };
        std::fs::create_dir(made.path()).unwrap();
        let mut mkfs = Command::new(format!("mkfs.{fs_type}"));
        let mut mount = Command::new("mount");
        mount.args(["-t", fs_type, "-o", options]).arg(&image).arg(made.path());
        for command in [mkfs.args(format).arg(&image), &mut mount] {
            match command.stdin(Stdio::null()).output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
                    return None;
                }
                Err(error) => {
                    println!("skipped: {} cannot be run: {error}", command.get_program().display());
                    return None;
                }
            }
        }
        Some(made)
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mnt")
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

/// Two files of 100 blocks each that grew in turn, each block made durable.
fn grow_in_turn(directory: &Path) -> [PathBuf; 2] {
    let paths = ["a", "b"].map(|name| directory.join(name));
    let mut files = paths.each_ref().map(|path| File::create_new(path).unwrap());
    for _ in 0..100 {
        for file in &mut files {
            file.write_all(&[7; 4096]).unwrap();
            file.sync_all().unwrap();
        }
    }
    paths
}

/// What filefrag(8) counts: `/path/of/it: 3 extents found`.
fn filefrag(path: &Path) -> Option<f64> {
    let output = Command::new("filefrag").arg(path).output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().rsplit_once(": ")?.1.split_whitespace().next()?.parse().ok()
}

#[test]
fn files_and_free_space_are_surveyed_before_the_files_go() {
    for (fs_type, format, options) in [
        ("ext4", &["-q"][..], "loop"),
        ("xfs", &["-q", "-f"], "loop,allocsize=4096"),
        ("btrfs", &["-q", "-f"], "loop"),
    ] {
        let Some(image) = Image::mount(fs_type, format, options) else { continue };
        let before = image.path().join("before/deep");
        std::fs::create_dir_all(&before).unwrap();
        let counts = grow_in_turn(&before).map(|path| filefrag(&path));
        std::fs::write(before.join("empty"), "").unwrap();
        let params =
            [("files", "298"), ("size", "1KiB"), ("cold", "none"), ("fragmentation", "true")];
        let answers = measure(&image.path(), "small-files", &params).expect_finished();
        assert!(answers.warnings().is_empty(), "{fs_type}: {:?}", answers.warnings());
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["create", "stat", "read", "fragmentation", "delete"]);
        let phase = answers.phase("fragmentation");
        println!("{fs_type}: {:?}", phase.values);
        assert_eq!(phase.files, Some(301), "{fs_type}");
        let value = |name: &str| *phase.values.get(name).unwrap_or_else(|| panic!("no {name}"));
        // Figures travel as decimal text.
        let expect = |name: &str, expected: f64| {
            let found = value(name);
            assert!((found - expected).abs() < 1e-9, "{fs_type}: {name} {found}, not {expected}");
        };
        let largest = value("extents_per_file_max");
        match counts {
            [Some(a), Some(b)] => {
                expect("extents_per_file_max", a.max(b));
                expect("extents_per_file", (298.0 + a + b) / 300.0);
            }
            _ => println!("skipped: filefrag is not installed"),
        }
        assert!(largest > 1.0, "{fs_type}");
        expect("extents_per_file_p99", 1.0);
        expect("fragmented_share", 2.0 / 300.0);
        expect("inline_share", if fs_type == "btrfs" { 298.0 / 300.0 } else { 0.0 });
        assert!(value("free_extents") >= 1.0);
        assert!((1.0..320.0).contains(&value("free_extent_largest_mib")));
        assert!(value("free_extent_mean_mib") <= value("free_extent_largest_mib"));
        assert!((0.0..0.1).contains(&value("free_space_fragmentation")));
    }
}

#[test]
fn what_the_filesystem_does_not_tell_is_absent_and_said_once() {
    let Some(target) = SmallFilesystem::mount("16m") else { return };
    let params = [("cold", "none"), ("files", "30"), ("size", "1KiB"), ("fragmentation", "true")];
    let answers = measure(&target.path(), "small-files", &params).expect_finished();
    let phase = answers.phase("fragmentation");
    assert_eq!(phase.files, Some(30));
    assert!(phase.values.is_empty(), "{:?}", phase.values);
    let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["fragmentation-unknown"]);
}

#[test]
fn nothing_is_surveyed_unless_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("cold", "none"), ("files", "30"), ("size", "0")];
    let answers = measure(directory.path(), "small-files", &params).expect_finished();
    assert!(answers.phases().iter().all(|phase| phase.name != "fragmentation"));
}
