//! Devices of others on real loop devices: refused, unless named once more, and never while in use.

mod bench;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bench::{
    SIZE_BYTES, assert_clean, can_mount, can_run, definition, foreign_device, limits, place, run,
    target, workspace,
};
use fsdyno_lab::devices;
use fsdyno_lab::guard::accept;
use fsdyno_lab::readiness::{Conditions, Readiness, readiness};
use fsdyno_lab::stand::Stand;
use fsdyno_model::target::{DeviceSpec, Ground};
use fsdyno_sys::{block, mount};

fn refusal(path: &Path, destroy: &[PathBuf]) -> String {
    accept(path, destroy, &[]).unwrap_err()
}

/// Takes a device for this process alone, once whoever only looks at it is done: other tests list devices.
fn open_alone(path: &Path) -> OwnedFd {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match block::open_exclusive(path) {
            Err(error) if error.is_busy() && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn what_a_device_holds_is_seen() {
    type Make = fn(&str) -> bool;
    let makes: [(&str, Make); 5] = [
        ("ext4", |device| run("mkfs.ext4", &["-q", "-F", device])),
        ("xfs", |device| run("mkfs.xfs", &["-q", "-f", device])),
        ("btrfs", |device| run("mkfs.btrfs", &["-q", "-f", device])),
        ("swap", |device| run("mkswap", &[device])),
        ("partition table (dos)", |device| {
            let device = fs::OpenOptions::new().write(true).open(device).unwrap();
            let mut sector = [0u8; 512];
            // One Linux partition, from sector 2048 on.
            sector[446..462].copy_from_slice(&[0, 0, 33, 3, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
            sector[510..].copy_from_slice(&[0x55, 0xaa]);
            device.write_all_at(&sector, 0).unwrap();
            device.sync_all().unwrap();
            true
        }),
    ];
    if !can_mount() {
        return;
    }
    for (what, make) in makes {
        let place = place();
        let device = foreign_device(place.path(), SIZE_BYTES);
        let path = device.path().to_owned();
        accept(&path, &[], &[]).expect("a blank device is accepted");
        if !make(path.to_str().unwrap()) {
            continue;
        }
        let error = refusal(&path, &[]);
        assert!(error.contains(what) && error.contains("--destroy"), "{what}: {error}");
        // Another device named once more excuses nothing, this one does.
        assert!(refusal(&path, &[PathBuf::from("/dev/null")]).contains("--destroy"));
        assert_eq!(accept(&path, std::slice::from_ref(&path), &[]).unwrap().path, path);
        assert!(accept(&path, &[], &[device.device_number()]).is_ok(), "what we made ourselves");
        let listed = devices::list().unwrap().into_iter().find(|found| found.path == path).unwrap();
        assert!(!listed.accepted && listed.contents.join(" ").contains(what), "{listed:?}");
        device.detach().unwrap();
    }
}

#[test]
fn a_device_in_use_is_refused_whatever_is_said() {
    if !can_run(definition("btrfs")) || !can_run(definition("ext4")) {
        return;
    }
    for (mkfs, filesystem) in [("mkfs.ext4", "ext4"), ("mkfs.btrfs", "btrfs")] {
        let place = place();
        let device = foreign_device(place.path(), SIZE_BYTES);
        let path = device.path().to_owned();
        let named = std::slice::from_ref(&path);
        assert!(run(mkfs, &["-q", path.to_str().unwrap()]));
        let point = place.path().join("mount");
        fs::create_dir(&point).unwrap();
        mount::mount(filesystem, path.to_str().unwrap(), &point, "").unwrap();
        let error = accept(&path, named, &[device.device_number()]).unwrap_err();
        assert!(error.contains("is mounted on"), "{error}");
        mount::unmount(&point).unwrap();
        let held = open_alone(&path);
        let error = accept(&path, named, &[]).unwrap_err();
        assert!(error.contains("open exclusively"), "{error}");
        drop(held);
        assert!(accept(&path, named, &[]).is_ok());
        device.detach().unwrap();
    }
}

#[test]
fn a_journal_on_the_device_itself_is_refused_under_any_name() {
    if !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let device = foreign_device(place.path(), SIZE_BYTES);
    let link = place.path().join("alias");
    std::os::unix::fs::symlink(device.path(), &link).unwrap();
    let mut spec = target(&format!("ext4@{}", device.path().display()));
    let Ground::Fresh(fresh) = &mut spec.ground else { panic!("not a filesystem") };
    fresh.journal = Some(DeviceSpec::Block { path: link });
    let workspace = workspace(place.path(), &[]);
    let error = Stand::provision(&workspace, &spec, SIZE_BYTES, &limits()).unwrap_err();
    assert!(error.error.contains("overlap"), "{error}");
    let conditions = Conditions::of_this_process(place.path(), SIZE_BYTES, &[]);
    assert!(matches!(readiness(&spec, &conditions), Readiness::Refuse { .. }));
    workspace.close().unwrap();
    device.detach().unwrap();
    assert_clean(place.path());
}

#[test]
fn swap_in_use_is_refused() {
    if !can_mount() {
        return;
    }
    let place = place();
    let device = foreign_device(place.path(), 64 << 20);
    let path = device.path().to_owned();
    let text = path.to_str().unwrap();
    if !run("mkswap", &[text]) || fsdyno_lab::tools::find("swapon").is_none() {
        return;
    }
    assert!(run("swapon", &[text]));
    let error = refusal(&path, std::slice::from_ref(&path));
    assert!(run("swapoff", &[text]));
    assert!(error.contains("swap"), "{error}");
    device.detach().unwrap();
}

#[test]
fn symbolic_links_are_resolved_and_shown() {
    if !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let device = foreign_device(place.path(), SIZE_BYTES);
    assert!(run("mkfs.ext4", &["-q", device.path().to_str().unwrap()]));
    let link = place.path().join("by-id");
    std::os::unix::fs::symlink(device.path(), &link).unwrap();
    let error = refusal(&link, &[]);
    assert!(
        error.contains(&format!("{} -> {}", link.display(), device.path().display())),
        "{error}"
    );
    let spec = target(&format!("ext4@{}", link.display()));
    let mut conditions = Conditions::of_this_process(place.path(), SIZE_BYTES, &[]);
    let refused = readiness(&spec, &conditions);
    assert!(
        matches!(&refused, Readiness::Refuse { error } if error.contains(" -> ")),
        "{refused:?}"
    );
    conditions.destroy.push(link);
    assert_eq!(readiness(&spec, &conditions), Readiness::Ready);
    device.detach().unwrap();
}

#[test]
fn a_device_named_once_more_serves_trial_after_trial_and_is_left_blank() {
    if !can_run(definition("ext4")) || !can_run(definition("xfs")) {
        return;
    }
    let place = place();
    let device = foreign_device(place.path(), SIZE_BYTES);
    let path = device.path().to_owned();
    assert!(run("mkfs.btrfs", &["-q", "-f", path.to_str().unwrap()]));
    {
        let workspace = workspace(place.path(), &[]);
        let spec = target(&format!("ext4@{}", path.display()));
        let error = Stand::provision(&workspace, &spec, SIZE_BYTES, &limits()).unwrap_err();
        assert!(error.error.contains("--destroy"), "{error}");
    }
    let workspace = workspace(place.path(), std::slice::from_ref(&path));
    for text in ["ext4", "xfs", "ext4"] {
        let spec = target(&format!("{text}@{}", path.display()));
        let mut stand = Stand::provision(&workspace, &spec, SIZE_BYTES, &limits()).unwrap();
        stand.mkfs().unwrap();
        stand.mount().unwrap();
        let facts = stand.facts();
        assert_eq!(facts.device["kind"], "block device");
        assert_eq!(facts.device["emptied_by"], "discard");
        let error = Stand::provision(&workspace, &spec, SIZE_BYTES, &limits()).unwrap_err();
        assert!(error.error.contains("is mounted"), "the same device twice: {error}");
        stand.unmount().unwrap();
        assert!(stand.fsck().unwrap().unwrap().1);
        stand.teardown().unwrap();
        assert!(accept(&path, &[], &[]).is_ok(), "it must be blank after a trial");
    }
    workspace.close().unwrap();
    assert_clean_but_foreign(place.path(), device);
}

/// A path among the words for mkfs would be a second device to it.
#[test]
fn nothing_is_written_where_words_for_mkfs_lead() {
    if !can_run(definition("btrfs")) || !can_run(definition("ext4")) {
        return;
    }
    let place = place();
    let device = foreign_device(place.path(), SIZE_BYTES);
    let link = place.path().join("a,b");
    std::os::unix::fs::symlink(device.path(), &link).unwrap();
    let file = place.path().join("precious.img");
    let file_bytes = vec![b'x'; 1 << 20];
    fs::write(&file, &file_bytes).unwrap();
    let undo = place.path().join("undo");
    let conditions = Conditions::of_this_process(place.path(), SIZE_BYTES, &[]);
    let workspace = workspace(place.path(), &[]);
    for (filesystem, words) in [
        ("btrfs", vec![link.display().to_string()]),
        ("btrfs", vec![file.display().to_string()]),
        ("ext4", vec!["-z".to_owned(), undo.display().to_string()]),
        ("ext4", vec![format!("-qz{}", undo.display())]),
    ] {
        let mut spec = target(filesystem);
        let Ground::Fresh(fresh) = &mut spec.ground else { panic!("not a filesystem") };
        fresh.mkfs.clone_from(&words);
        assert!(matches!(readiness(&spec, &conditions), Readiness::Refuse { .. }), "{words:?}");
        assert!(Stand::provision(&workspace, &spec, SIZE_BYTES, &limits()).is_err(), "{words:?}");
    }
    workspace.close().unwrap();
    assert!(accept(device.path(), &[], &[]).is_ok(), "it was blank and must be");
    assert_eq!(fs::read(&file).unwrap(), file_bytes);
    assert!(!undo.exists());
    assert_clean_but_foreign(place.path(), device);
}

fn assert_clean_but_foreign(place: &Path, device: fsdyno_sys::loopdev::LoopDevice) {
    device.detach().unwrap();
    assert_clean(place);
}
