//! Whole trials without a workload, on real loop devices, for every filesystem of the catalogue.

mod bench;

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use bench::{
    SIZE_BYTES, assert_clean, can_mount, can_run, definition, limits, place, target, workspace,
};
use fsdyno_lab::stand::{StageErrorKind, Stand};
use fsdyno_model::wire::matches;

/// One trial: everything in order, with a file that must survive.
fn whole_trial(text: &str) {
    let target = target(text);
    if !can_run(definition(target.filesystem())) {
        return;
    }
    let place = place();
    let workspace = workspace(place.path(), &[]);
    let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
    stand.mkfs().unwrap();
    stand.mount().unwrap();
    let quiesced = stand.quiesce().unwrap();
    assert_eq!(quiesced.unsettled, None, "{text}");
    assert_eq!(fs::read_dir(stand.root()).unwrap().count(), 0);
    let file = stand.root().join("file");
    fs::write(&file, vec![7u8; 3 << 20]).unwrap();

    let watch = stand.watch();
    assert_eq!(watch.devices.len(), if text.contains('+') { 2 } else { 1 }, "{text}");
    assert!(!watch.filesystem_threads.is_empty());
    let facts = stand.facts();
    assert!(facts.mount_effective.as_deref().unwrap().starts_with("rw"), "{facts:?}");
    assert!(facts.mkfs_command.as_deref().unwrap().contains("mk"), "{facts:?}");
    assert!(facts.mkfs_effective.len() >= 5, "{text}: {:?}", facts.mkfs_effective);
    assert_eq!(facts.device["size_bytes"], SIZE_BYTES.to_string());
    assert_eq!(facts.device["rotational"], "0");
    assert_eq!(facts.device["loop_direct_io"], "true");
    let allocated: u64 = facts.device["image_allocated_bytes"].parse().unwrap();
    assert!(allocated >= SIZE_BYTES, "mkfs took {} bytes out of the image", SIZE_BYTES - allocated);

    stand.remount().unwrap();
    assert_eq!(fs::read(&file).unwrap().len(), 3 << 20);
    assert!(stand.fsck().is_err(), "a mounted filesystem must not be checked");
    stand.unmount().unwrap();
    let (record, clean) = stand.fsck().unwrap().unwrap();
    assert!(clean, "{text}: {record:?}");
    stand.mount_read_only().unwrap();
    assert_eq!(fs::read(&file).unwrap(), vec![7u8; 3 << 20]);
    assert!(fs::write(stand.root().join("other"), "x").is_err());
    stand.teardown().unwrap();
    stand.teardown().unwrap();
    drop(stand);
    workspace.close().unwrap();
    assert_clean(place.path());
}

#[test]
fn ext2_lives_through_a_trial() {
    whole_trial("ext2");
}

#[test]
fn ext3_lives_through_a_trial() {
    whole_trial("ext3:data=writeback");
}

#[test]
fn ext4_lives_through_a_trial() {
    whole_trial("ext4/-m 0:noatime");
}

#[test]
fn xfs_lives_through_a_trial() {
    whole_trial("xfs/-d agcount=2:logbsize=256k");
}

#[test]
fn btrfs_lives_through_a_trial() {
    whole_trial("btrfs:compress=zstd");
}

#[test]
fn xfs_with_an_external_log_lives_through_a_trial() {
    whole_trial("xfs+log");
}

#[test]
fn ext3_with_an_external_journal_lives_through_a_trial() {
    whole_trial("ext3+journal");
}

#[test]
fn ext4_with_an_external_journal_lives_through_a_trial() {
    whole_trial("ext4+journal/-b 1024");
}

#[test]
fn an_external_journal_is_really_used() {
    for (text, key, expected) in
        [("xfs+log", "log.kind", "external"), ("ext4+journal", "journal_device", "0x")]
    {
        let target = target(text);
        if !can_run(definition(target.filesystem())) {
            continue;
        }
        let place = place();
        let workspace = workspace(place.path(), &[]);
        let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
        stand.mkfs().unwrap();
        stand.mount().unwrap();
        let facts = stand.facts();
        let value = facts.mkfs_effective.get(key).cloned().unwrap_or_default();
        assert!(value.contains(expected), "{text}: {:?}", facts.mkfs_effective);
        assert!(facts.device.contains_key("journal.path"));
    }
}

/// The names under which the kernel's threads really go: at least one of each kind that must exist
/// while it is mounted.
#[test]
fn kernel_threads_go_by_the_names_expected() {
    for (text, expected) in [
        ("ext4", "jbd2/"),
        ("ext3+journal", "jbd2/"),
        ("xfs", "xfsaild/"),
        ("btrfs", "btrfs-transacti"),
    ] {
        let target = target(text);
        if !can_run(definition(target.filesystem())) {
            continue;
        }
        let place = place();
        let workspace = workspace(place.path(), &[]);
        let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
        stand.mkfs().unwrap();
        let before = kernel_threads();
        stand.mount().unwrap();
        let patterns = stand.watch().filesystem_threads;
        let new: Vec<String> =
            kernel_threads().into_iter().filter(|name| !before.contains(name)).collect();
        let matched = |name: &&String| patterns.iter().any(|pattern| matches(pattern, name));
        let found = new.iter().filter(matched).any(|name| name.starts_with(expected));
        // A btrfs mounted elsewhere has threads of the same names.
        let shared = text == "btrfs" && before.iter().any(|name| name.starts_with(expected));
        assert!(found || shared, "{text}: none of {new:?} is matched by {patterns:?}");
    }
}

fn kernel_threads() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_kernel = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("exe")).is_err() && entry.path().join("comm").exists()
    };
    let comms = entries
        .filter(is_kernel)
        .filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    comms.map(|comm| comm.trim_end().to_owned()).collect()
}

#[test]
fn a_corrupted_filesystem_is_found() {
    for text in ["ext4", "xfs", "btrfs"] {
        let target = target(text);
        if !can_run(definition(target.filesystem())) {
            continue;
        }
        let place = place();
        let workspace = workspace(place.path(), &[]);
        let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
        stand.mkfs().unwrap();
        stand.mount().unwrap();
        for index in 0..300 {
            fs::write(stand.root().join(format!("file-{index}")), vec![1u8; 5000]).unwrap();
        }
        let device = stand.facts().device["path"].clone();
        stand.unmount().unwrap();
        assert!(stand.fsck().unwrap().unwrap().1);
        // Past the superblocks and over the first metadata, wherever each filesystem has them.
        let (start, end) = match text {
            "ext4" => (8 << 10, 8 << 20),
            "xfs" => (4 << 10, 1 << 20),
            _ => (1 << 20, 500 << 20),
        };
        {
            let device = fs::OpenOptions::new().write(true).open(device).unwrap();
            for offset in (start..end).step_by(4096) {
                device.write_all_at(&[0xa5; 2048], offset).unwrap();
            }
            device.sync_all().unwrap();
        }
        match stand.fsck() {
            Ok(Some((record, clean))) => {
                assert!(!clean, "{text}: {record:?}");
                assert!(record.meaning.len() > 10, "{record:?}");
            }
            // Too broken even to be checked.
            Err(error) => assert_eq!(error.stage, "fsck"),
            Ok(None) => panic!("{text} was not checked"),
        }
        stand.teardown().unwrap();
        workspace.close().unwrap();
        assert_clean(place.path());
    }
}

#[test]
fn a_failing_mkfs_says_why_and_leaves_nothing() {
    for (text, words) in [
        ("xfs/-d agcount=100000", "mkfs.xfs -f -q -d agcount=100000 /dev/loop"),
        ("ext4/-O nonsense", "exit code 1"),
        ("btrfs/-n 17", "mkfs.btrfs"),
    ] {
        let target = target(text);
        if !can_run(definition(target.filesystem())) {
            continue;
        }
        let place = place();
        let workspace = workspace(place.path(), &[]);
        let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
        let error = stand.mkfs().unwrap_err();
        assert_eq!((error.stage, error.kind), ("mkfs", StageErrorKind::Failed));
        assert!(error.error.contains(words), "{error}");
        assert!(!error.error.ends_with(": "), "mkfs said nothing: {error}");
        drop(stand);
        drop(workspace);
        assert_clean(place.path());
    }
}

#[test]
fn a_bad_mount_option_is_explained_by_the_kernel() {
    let target = target("ext4:nosuchoption");
    if !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let workspace = workspace(place.path(), &[]);
    let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
    stand.mkfs().unwrap();
    let error = stand.mount().unwrap_err();
    assert_eq!(error.stage, "mount");
    assert!(error.error.contains("nosuchoption"), "{error}");
}

#[test]
fn a_trial_whose_time_is_up_stops() {
    if !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let workspace = workspace(place.path(), &[]);
    let mut late = limits();
    let end = Instant::now() + Duration::from_secs(2);
    late.trial_end = Some(end);
    let mut stand = Stand::provision(&workspace, &target("ext4"), SIZE_BYTES, &late).unwrap();
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let error = stand.mkfs().unwrap_err();
    assert_eq!((error.stage, error.kind), ("mkfs", StageErrorKind::TimedOut));
    assert_eq!(error.outcome().word(), "timed_out");
    let mut short = limits();
    short.command = Duration::from_nanos(1);
    let mut stand = Stand::provision(&workspace, &target("btrfs"), SIZE_BYTES, &short).unwrap();
    // It may be so quick that it is through before anyone looks.
    if let Err(error) = stand.mkfs() {
        assert_eq!(error.kind, StageErrorKind::TimedOut, "{error}");
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let place = place();
    let images = place.path().join("images");
    fs::create_dir(&images).unwrap();
    fsdyno_sys::mount::mount("tmpfs", "tmpfs", &images, "size=100m").unwrap();
    let workspace = workspace(place.path(), &[]);
    for text in ["ext4", "ext4+journal@loop:80MiB"] {
        let error = Stand::provision(&workspace, &target(text), SIZE_BYTES, &limits()).unwrap_err();
        assert_eq!((error.stage, error.kind), ("provision", StageErrorKind::Failed));
        assert!(error.error.contains("ENOSPC") && error.error.contains("--size"), "{error}");
        let left: Vec<_> = fs::read_dir(workspace.directory()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "only the marker may be left: {left:?}");
    }
    workspace.close().unwrap();
    fsdyno_sys::mount::unmount(&images).unwrap();
    assert_clean(place.path());
}

#[test]
fn a_directory_needs_no_root_and_is_left_as_it_was() {
    let place = place();
    let data = place.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::File::create(data.join("precious")).unwrap().write_all(b"x").unwrap();
    let workspace = workspace(place.path(), &[]);
    let target = target(&format!("dir:{}", data.display()));
    for _ in 0..2 {
        let mut stand = Stand::provision(&workspace, &target, SIZE_BYTES, &limits()).unwrap();
        stand.mkfs().unwrap();
        stand.mount().unwrap();
        stand.quiesce().unwrap();
        assert!(stand.root().starts_with(data.canonicalize().unwrap()));
        assert_eq!(fs::read_dir(stand.root()).unwrap().count(), 0);
        fs::write(stand.root().join("file"), "y").unwrap();
        let facts = stand.facts();
        assert!(facts.mount_effective.is_some() && facts.mkfs_command.is_none());
        stand.unmount().unwrap();
        assert_eq!(stand.fsck().unwrap(), None);
        stand.mount_read_only().unwrap();
        assert_eq!(fs::read_to_string(stand.root().join("file")).unwrap(), "y");
        stand.teardown().unwrap();
    }
    workspace.close().unwrap();
    let left: Vec<_> =
        fs::read_dir(&data).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["precious"]);
    assert_clean(place.path());
}
