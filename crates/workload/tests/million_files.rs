//! The workload `million-files`: whole runs through the phase runner, and its orders on real filesystems.

mod support;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_model::param::Params;
use fsdyno_model::record::PhaseRecord;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_sys::fiemap::{ExtentBuffer, MapOptions, first_extent};
use fsdyno_workload::catalog;
use fsdyno_workload::million_files::name::Share;
use fsdyno_workload::million_files::order::Order;
use fsdyno_workload::million_files::place::Mapper;
use fsdyno_workload::recorder::Recorder;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{Answers, SmallFilesystem, measure, verify};

const ALL: &str = "create+list+find+read-tar+read-acp+read-physical+delete";

fn names(answers: &Answers) -> Vec<&str> {
    answers.phases().iter().map(|phase| phase.name.as_str()).collect()
}

fn operations(phase: &PhaseRecord) -> Vec<(&str, u64)> {
    phase.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn phases_come_in_order_with_exact_counts() {
    for (jobs, size, size_bytes) in
        [("1", "512", 512), ("3", "16KiB", 16_384), ("3", "0", 0), ("1", "300KiB", 300 << 10)]
    {
        let directory = tempfile::tempdir().unwrap();
        let params = [("files", "300"), ("size", size), ("numjobs", jobs), ("operations", ALL)];
        let answers = measure(directory.path(), "million-files", &params).expect_finished();
        let expected = ["create", "layout", "list", "find", "read-tar", "read-acp"];
        assert_eq!(names(&answers)[..6], expected);
        assert_eq!(names(&answers)[6..], ["read-physical", "delete"]);

        let jobs: u64 = jobs.parse().unwrap();
        let per_file = |calls: u64| (size_bytes > 0).then_some(300 * calls);
        let counts = |pairs: &[(&'static str, Option<u64>)]| -> Vec<(&str, u64)> {
            pairs.iter().filter_map(|(name, count)| Some((*name, (*count)?))).collect()
        };
        let (list, each) = (("list", Some(jobs)), Some(300));
        let writes = per_file(u64::div_ceil(size_bytes, 256 << 10));
        let created = counts(&[("close", each), ("create", each), ("write", writes)]);
        assert_eq!(operations(answers.phase("create")), created);
        assert_eq!(operations(answers.phase("list")), counts(&[list]));
        assert_eq!(operations(answers.phase("find")), counts(&[list, ("stat", each)]));
        assert_eq!(operations(answers.phase("delete")), counts(&[list, ("unlink", each)]));
        let stats = Some(if size_bytes == 0 { 600 } else { 900 });
        let reads = per_file(size_bytes.div_ceil(10_240));
        let (open, close) = (("open", per_file(1)), ("close", per_file(1)));
        let as_tar = counts(&[close, list, open, ("read", reads), ("stat", stats)]);
        assert_eq!(operations(answers.phase("read-tar")), as_tar);
        let (reads, ahead) = (per_file(u64::div_ceil(size_bytes, 256 << 10)), per_file(1));
        let as_acp = counts(&[
            ("close", each),
            list,
            ("open", each),
            ("read", reads),
            ("readahead", ahead),
            ("stat", each),
        ]);
        assert_eq!(operations(answers.phase("read-acp")), as_acp);

        for phase in answers.phases() {
            assert_eq!(phase.files, Some(300), "{}", phase.name);
            let reads = phase.name.starts_with("read-");
            let bytes = if reads || phase.name == "create" { 300 * size_bytes } else { 0 };
            assert_eq!((phase.bytes, phase.read_bytes), (bytes, if reads { bytes } else { 0 }));
            let is_layout = phase.name == "layout";
            assert_eq!(phase.elapsed_durable_ns.is_none(), is_layout);
            let metric = if is_layout { "readdir_inode_correlation" } else { "elapsed_s" };
            assert_eq!(phase.primary_metric, metric);
        }
        assert_eq!(answers.verified(), Some((300, 300 * size_bytes)));
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
        assert!(left.iter().all(|entry| entry.file_type().unwrap().is_dir()));
        assert_eq!(left.len() as u64, if jobs == 1 { 0 } else { jobs });
        assert_eq!(answers.manifest().unwrap().files, []);
    }
}

#[test]
fn what_is_not_deleted_is_handed_over_to_be_verified() {
    for jobs in ["1", "2"] {
        let directory = tempfile::tempdir().unwrap();
        let params =
            [("files", "50"), ("size", "5000"), ("operations", "create"), ("numjobs", jobs)];
        let answers = measure(directory.path(), "million-files", &params).expect_finished();
        assert_eq!(names(&answers), ["create", "layout"]);
        assert_eq!(answers.verified(), None);
        let manifest = answers.manifest().unwrap();
        assert_eq!(manifest.files.len(), 50);
        assert_eq!(verify(directory.path(), manifest).mismatches, Vec::<String>::new());
        let path = directory.path().join(&manifest.files[7].path);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[4321] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let [mismatch] = &verify(directory.path(), manifest).mismatches[..] else { panic!() };
        assert!(mismatch.ends_with("differs at byte 4321"), "{mismatch}");
    }
}

#[test]
fn a_file_of_somebody_else_is_an_error() {
    for (name, words) in [
        ("notes.txt", "getdents64 notes.txt: EEXIST"),
        ("f00000300", "getdents64 f00000300: EEXIST"),
        ("f00000007", "create f00000007: EEXIST"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(name), "theirs").unwrap();
        let answers = measure(directory.path(), "million-files", &[("files", "300")]);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!(stage, if name == "f00000007" { "create" } else { "layout" });
        assert!(error.contains(words), "{error}");
        assert_eq!(std::fs::read(directory.path().join(name)).unwrap(), b"theirs");
    }
}

#[test]
fn files_that_are_gone_or_changed_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let share = &Share::divide(20, 1)[0];
    for index in share.files.clone().filter(|index| *index != 3) {
        std::fs::write(directory.path().join(share.path_of(index)), "").unwrap();
    }
    let root = Real.open_root(directory.path()).unwrap();
    let error = Order::list(&root, share, &mut Recorder::new()).unwrap_err().to_string();
    assert!(error.contains("the directory lists 19 files, 20 were made in it"), "{error}");
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    for (jobs, word) in [("1", "write f0000"), ("3", "write d0000")] {
        let Some(filesystem) = SmallFilesystem::mount("2m") else { return };
        let params = [("files", "1200"), ("numjobs", jobs)];
        let answers = measure(&filesystem.path(), "million-files", &params);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!((stage, answers.exit_code), ("create", EXIT_FAILED));
        assert!(error.starts_with(word) && error.contains("ENOSPC"), "{error}");
        assert!(answers.phases().is_empty());
    }
}

#[test]
fn without_extents_the_layout_says_less_and_nothing_wrong() {
    let Some(filesystem) = SmallFilesystem::mount("16m") else { return };
    let answers = measure(&filesystem.path(), "million-files", &[("files", "500")]);
    let answers = answers.expect_finished();
    let layout = answers.phase("layout");
    let known: Vec<&str> = layout.values.keys().map(String::as_str).collect();
    assert_eq!(known, ["readdir_inode_correlation"]);
    // tmpfs lists the youngest file first.
    assert_eq!(layout.values["readdir_inode_correlation"], -1.0);
    let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
    assert!(codes.contains(&"no-extents"), "{codes:?}");
}

#[test]
fn what_does_not_fit_is_told_before_anything_is_made() {
    let workload = catalog::find("million-files").unwrap();
    let with = |pairs: &[(&str, &str)]| -> Result<Params, String> {
        let mut params = Params::defaults(workload.info().params, false);
        for (name, value) in pairs {
            params.set(workload.info().params, name, value)?;
        }
        workload.check(&params)?;
        Ok(params)
    };
    for (pairs, words) in [
        (&[("operations", "find")][..], "operations begin with create"),
        (&[("operations", "create+read")], "operation"),
        (&[("operations", "create+delete+find")], "cannot come after delete"),
        (&[("files", "2"), ("numjobs", "3")], "use fewer jobs"),
        (&[("files", "100000000")], "99999999"),
        (&[("cold", "warm")], "remount"),
    ] {
        let error = with(pairs).unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    let peak =
        |pairs: &[(&str, &str)]| workload.peak_bytes(&with(pairs).unwrap()).unwrap().unwrap();
    // An ext4 of 8 GiB has 524,288 inodes, one of 16 GiB has 1,048,576.
    assert!((8 << 30..16 << 30).contains(&peak(&[])));
    assert_eq!(peak(&[("files", "524288")]), 8 << 30);
    for (size, least) in [("0", 16 << 10), ("16KiB", 16 << 10), ("100000", 102_400)] {
        let bytes = peak(&[("files", "5000"), ("size", size), ("numjobs", "4")]);
        assert!((5000 * least..5000 * least + 5000 * 50).contains(&bytes), "{size}: {bytes}");
    }
}

/// A filesystem on a loop device, unmounted when dropped; `None`, with the reason printed, where none
/// can be made.
struct LoopFilesystem {
    directory: tempfile::TempDir,
}

impl LoopFilesystem {
    fn mount(mkfs: &str, size_bytes: u64) -> Option<LoopFilesystem> {
        let directory = tempfile::tempdir().unwrap();
        let (image, mountpoint) = (directory.path().join("image"), directory.path().join("root"));
        std::fs::File::create(&image).unwrap().set_len(size_bytes).unwrap();
        std::fs::create_dir(&mountpoint).unwrap();
        let filesystem = LoopFilesystem { directory };
        let mut make = Command::new(mkfs);
        make.arg("-q").arg(&image);
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop"]).args([&image, &mountpoint]);
        for command in [&mut make, &mut mount] {
            match command.output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stderr).into_owned();
                    println!("skipped: {command:?}: {}", text.trim());
                    return None;
                }
                Err(error) => {
                    println!("skipped: {command:?} cannot be run: {error}");
                    return None;
                }
            }
        }
        Some(filesystem)
    }

    fn root(&self) -> PathBuf {
        let root = self.directory.path().join("root").join("work");
        std::fs::create_dir_all(&root).unwrap();
        root
    }
}

impl Drop for LoopFilesystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.directory.path().join("root")).output();
    }
}

/// Checks the three orders of `count` files of `size_bytes` in `root`; whether extents were told.
fn check_orders(root: &Path, count: u64, size_bytes: usize) -> bool {
    let share = &Share::divide(count, 1)[0];
    let path = |index| root.join(share.path_of(index));
    for index in share.files.clone().rev() {
        std::fs::write(path(index), vec![7; size_bytes]).unwrap();
    }
    let directory = Real.open_root(root).unwrap();
    Real.syncfs(&directory).unwrap();
    let mut recorder = Recorder::new();
    let mut order = Order::list(&directory, share, &mut recorder).unwrap();
    let indices =
        |order: &Order| -> Vec<u32> { order.entries().iter().map(|entry| entry.index).collect() };
    let listed: Vec<String> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let told: Vec<String> = indices(&order).into_iter().map(|index| share.path_of(index)).collect();
    assert_eq!(told, listed);

    order.sort();
    let inodes: Vec<u64> = indices(&order)
        .into_iter()
        .map(|index| std::fs::metadata(path(index)).unwrap().ino())
        .collect();
    assert_eq!(inodes.len() as u64, count);
    assert!(inodes.is_sorted(), "{inodes:?}");

    let mut mapper = Mapper::new();
    order.sort_by_place(&directory, share, &mut mapper, &mut recorder).unwrap();
    if !mapper.is_able() {
        let unchanged: Vec<u64> = indices(&order)
            .into_iter()
            .map(|index| std::fs::metadata(path(index)).unwrap().ino())
            .collect();
        assert_eq!(unchanged, inodes);
        return false;
    }
    let mut buffer = ExtentBuffer::new();
    let places: Vec<(bool, u64)> = indices(&order)
        .into_iter()
        .map(|index| {
            let file = std::fs::File::open(path(index)).unwrap();
            let extent = first_extent(&file, MapOptions::default(), &mut buffer).unwrap();
            match extent.filter(|extent| !extent.is_inline()) {
                Some(extent) => (true, extent.physical_bytes),
                None => (false, file.metadata().unwrap().ino()),
            }
        })
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    true
}

#[test]
fn orders_ascend_where_the_filesystem_says() {
    if let Some(filesystem) = SmallFilesystem::mount("16m") {
        assert!(!check_orders(&filesystem.path(), 1000, 100));
    }
    for (mkfs, size_bytes) in [("mkfs.ext4", 5000), ("mkfs.ext4", 0), ("mkfs.btrfs", 512)] {
        let Some(filesystem) = LoopFilesystem::mount(mkfs, 256 << 20) else { continue };
        assert!(check_orders(&filesystem.root(), 3000, size_bytes), "{mkfs}");
    }
}

#[test]
fn the_layout_tells_filesystems_apart() {
    let mut layouts: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
    for mkfs in ["mkfs.ext4", "mkfs.btrfs"] {
        let Some(filesystem) = LoopFilesystem::mount(mkfs, 256 << 20) else { return };
        let params = [("files", "5000"), ("operations", "create")];
        let answers = measure(&filesystem.root(), "million-files", &params).expect_finished();
        layouts.insert(mkfs, answers.phase("layout").values.clone());
    }
    let (ext4, btrfs) = (&layouts["mkfs.ext4"], &layouts["mkfs.btrfs"]);
    // ext4 hashes names; btrfs lists files in the order in which they were made.
    assert!(ext4["readdir_inode_correlation"].abs() < 0.2, "{ext4:?}");
    assert!(ext4["readdir_disk_correlation"].abs() < 0.2, "{ext4:?}");
    assert_eq!((ext4["inline_share"], ext4["extents_per_file"]), (0.0, 1.0));
    assert!((0.0..256.0).contains(&ext4["metadata_data_distance_mib"]), "{ext4:?}");
    // btrfs keeps 512 bytes within its metadata.
    assert_eq!((btrfs["readdir_inode_correlation"], btrfs["inline_share"]), (1.0, 1.0));
    assert!(!btrfs.contains_key("readdir_disk_correlation"), "{btrfs:?}");
    assert!(!btrfs.contains_key("metadata_data_distance_mib"), "{btrfs:?}");
}

/// What a run of a million files may allocate: 24 bytes for each, and all that does not grow.
const DATA_BYTES: u64 = 48 << 20;
const FILES: &str = "1000000";
const LARGE: &str = "create+find+read-acp+delete";
/// Where the run under the limit works; set for the child only.
const ROOT: &str = "FSDYNO_TEST_MILLION_FILES_ROOT";

#[test]
fn a_million_files_fit_into_48_mib() {
    if let Some(root) = std::env::var_os(ROOT) {
        let params = [("files", FILES), ("size", "0"), ("operations", LARGE), ("cold", "none")];
        let answers = measure(Path::new(&root), "million-files", &params).expect_finished();
        let files: Vec<Option<u64>> = answers.phases().iter().map(|phase| phase.files).collect();
        assert_eq!(files, [Some(1_000_000); 5]);
        return;
    }
    let Some(filesystem) = SmallFilesystem::mount("2g") else { return };
    let mut child = Command::new("prlimit");
    child.arg(format!("--data={DATA_BYTES}")).arg(std::env::current_exe().unwrap());
    child.args(["--exact", "a_million_files_fit_into_48_mib"]);
    match child.env(ROOT, filesystem.path()).output() {
        Ok(output) => {
            std::io::stdout().write_all(&output.stdout).unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => println!("skipped: prlimit cannot be run: {error}"),
    }
}

/// Says to this test that it is the process that runs under the limit.
const LIMITED: &str = "FSDYNO_TEST_LIMITED";

#[test]
fn few_descriptors_are_enough() {
    if std::env::var_os(LIMITED).is_some() {
        return run_with_large_batches();
    }
    // Soft and hard limit; whether the hard one is too low for the batch.
    for (limit, is_low) in [("1024:1024", true), ("300:300", true), ("256:20000", false)] {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}")).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "few_descriptors_are_enough", "--nocapture"]).env(LIMITED, "1");
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: prlimit cannot be run: {error}");
                return;
            }
        };
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{limit}: {told}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(told.contains("smaller-batches"), is_low, "{limit}: {told}");
    }
}

fn run_with_large_batches() {
    for jobs in ["1", "8"] {
        let directory = tempfile::tempdir().unwrap();
        let params = [("files", "1200"), ("numjobs", jobs), ("batch", "5000"), ("operations", ALL)];
        let answers = measure(directory.path(), "million-files", &params).expect_finished();
        println!("{:?}", answers.warnings());
        assert_eq!(answers.phase("read-acp").files, Some(1200));
        assert_eq!(answers.phase("read-physical").files, Some(1200));
    }
}
