//! The workload `package-install` through the phase runner, in a temporary directory.

mod support;

use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use fsdyno_workload::package_install::model::{EntryKind, Model};
use fsdyno_workload::runner::EXIT_FAILED;
use support::{SmallFilesystem, measure, spec, verify};

const COUNT: u64 = 6;

fn params<'a>(extra: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("count", "6"), ("cold", "none")], extra].concat()
}

#[test]
fn every_policy_installs_the_same_system() {
    let model = Model::new(COUNT, 1);
    let count = |kind| model.entries.iter().filter(|entry| entry.kind == kind).count() as u64;
    let (files, links) = (count(EntryKind::File), count(EntryKind::Symlink));
    let directories = count(EntryKind::Directory);
    // 6 journal entries, 2 control files and 1 list for each package; the status file once.
    let database = COUNT * 6 + COUNT * 3 + 1;
    // After every entry, for the control files, twice for the lists; twice at the end.
    let synced_directories = COUNT * 6 + COUNT + 2 * COUNT + 2;
    for (policy, synced) in [
        ("package", files + database + synced_directories),
        ("file", files + database + synced_directories),
        ("database", database + synced_directories),
        ("never", 0),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let params = params(&[("fsync", policy)]);
        let answers = measure(directory.path(), "package-install", &params).expect_finished();
        let install = answers.phase("install");
        assert_eq!(install.files, Some(files));
        let done = |kind: &str| install.operations.get(kind).copied().unwrap_or(0);
        assert_eq!(done("fsync"), synced, "{policy}");
        // Everything is renamed, so is each journal entry, list, digest file and the status file.
        assert_eq!(done("rename"), files + links + directories + COUNT * 8 + 1, "{policy}");
        assert_eq!((done("symlink"), done("mkdir")), (links, directories + COUNT));
        assert_eq!(done("create"), files + database);
        let list = answers.phase("list");
        assert_eq!(list.files, Some(files + links));
        assert_eq!(list.operations["open"], COUNT + 1);
        assert!(list.operations["stat"] >= files + links + directories);
        assert!(install.elapsed_durable_ns >= Some(install.elapsed_return_ns));

        let root = directory.path();
        let status = std::fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
        assert_eq!(status.matches("Status: install ok installed\n").count() as u64, COUNT);
        let left: Vec<_> = std::fs::read_dir(root.join("var/lib/dpkg/updates")).unwrap().collect();
        assert!(left.is_empty() && no_temporary_names(root));
        let verified = verify(root, answers.manifest().unwrap());
        assert_eq!((verified.files, verified.mismatches.len()), (files.min(2000), 0));
    }
}

fn no_temporary_names(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().all(|entry| {
        let name = entry.file_name().into_string().unwrap();
        let is_final = !name.contains(".dpkg-new") && !name.ends_with("-new");
        is_final && (!entry.file_type().unwrap().is_dir() || no_temporary_names(&entry.path()))
    })
}

#[test]
fn one_flipped_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let params = params(&[("fsync", "never"), ("count", "1")]);
    let answers = measure(directory.path(), "package-install", &params).expect_finished();
    let manifest = answers.manifest().unwrap();
    let victim = manifest.files.iter().max_by_key(|file| file.size_bytes).unwrap();
    let path = directory.path().join(&victim.path);
    let mut file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let (at, mut byte) = (victim.size_bytes / 2, [0]);
    file.seek(SeekFrom::Start(at)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
    let verified = verify(directory.path(), manifest);
    assert_eq!(verified.mismatches, [format!("{}: differs at byte {at}", victim.path)]);
}

#[test]
fn the_journal_is_emptied_on_the_way() {
    // 50 packages make 300 entries: one status file in between, one at the end.
    let directory = tempfile::tempdir().unwrap();
    let params = params(&[("count", "50"), ("fsync", "never"), ("payload", "original")]);
    let answers = measure(directory.path(), "package-install", &params).expect_finished();
    let install = answers.phase("install");
    // Each time the old file goes first, too; control files are removed once a package.
    assert_eq!((install.operations["link"], install.operations["unlink"]), (2, 300 + 2 + 50));
    assert!(directory.path().join("var/lib/dpkg/status-old").is_file());
}

#[test]
fn what_is_on_the_target_is_estimated_from_above() {
    let directory = tempfile::tempdir().unwrap();
    let params = params(&[("fsync", "never")]);
    measure(directory.path(), "package-install", &params).expect_finished();
    let workload = fsdyno_workload::catalog::find("package-install").unwrap();
    let spec = spec(directory.path(), "package-install", &params);
    let peak = workload.peak_bytes(&spec.params).unwrap().unwrap();
    let taken = blocks_of(directory.path());
    assert!((taken..taken * 2).contains(&peak), "{peak} for {taken}");
}

/// Bytes of everything below, in blocks of 4 KiB.
fn blocks_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let sizes = entries.map(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => 4096 + blocks_of(&entry.path()),
        kind if kind.is_file() => entry.metadata().unwrap().len().next_multiple_of(4096),
        _ => 0,
    });
    sizes.sum()
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    let Some(filesystem) = SmallFilesystem::mount("2m") else { return };
    let answers = measure(&filesystem.path(), "package-install", &params(&[("count", "50")]));
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("install", EXIT_FAILED));
    assert!(error.contains("ENOSPC") && error.contains("--size"), "{error}");
    assert!(error.contains("usr/") || error.contains("var/"), "{error}");
    assert!(answers.phases().is_empty());
}

/// A package made by dpkg-deb, with a script that must never run; `None`, with the reason printed,
/// where there is no dpkg-deb.
fn make_package(directory: &Path, name: &str, size_bytes: usize) -> Option<()> {
    let tree = directory.join(name);
    let data = tree.join("usr/share").join(name);
    std::fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    std::fs::create_dir_all(&data).unwrap();
    let control = format!(
        "Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: a <a@example.org>\n\
         Pre-Depends: no-such-package\nInstalled-Size: {}\nDescription: x\n",
        size_bytes.div_ceil(1024) + 1
    );
    std::fs::write(tree.join("DEBIAN/control"), control).unwrap();
    let script = tree.join("DEBIAN/preinst");
    std::fs::write(&script, "#!/bin/sh\ntouch /usr/share/ran\nexit 1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let bytes: Vec<u8> = (0..size_bytes).map(|index| (index * index / 7) as u8).collect();
    std::fs::write(data.join("data"), &bytes).unwrap();
    std::os::unix::fs::symlink("data", data.join("link")).unwrap();
    let sums =
        Command::new("md5sum").arg(format!("usr/share/{name}/data")).current_dir(&tree).output();
    std::fs::write(tree.join("DEBIAN/md5sums"), sums.ok()?.stdout).unwrap();
    let made = Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(&tree).output();
    std::fs::remove_dir_all(&tree).unwrap();
    match made {
        Ok(output) if output.status.success() => Some(()),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("skipped: dpkg-deb cannot be run: {error}");
            None
        }
    }
}

#[test]
fn real_packages_are_installed_by_dpkg_without_their_scripts() {
    let packages = tempfile::tempdir().unwrap();
    for (name, size) in [("first", 100_000), ("second", 10), ("third", 40_000)] {
        let Some(()) = make_package(packages.path(), name, size) else { return };
    }
    let directory = tempfile::tempdir().unwrap();
    let from = packages.path().to_str().unwrap();
    for policy in ["package", "database"] {
        let target = directory.path().join(policy);
        std::fs::create_dir(&target).unwrap();
        let params = [("packages", from), ("fsync", policy), ("cold", "none")];
        let answers = measure(&target, "package-install", &params).expect_finished();
        let install = answers.phase("install");
        assert_eq!((install.files, install.bytes), (Some(3), 140_010));
        let list = answers.phase("list");
        assert_eq!((list.files, list.operations["open"]), (Some(6), 4));
        assert!(!target.join("root/usr/share/ran").exists());
        assert_eq!(answers.warnings().len(), 0);
        let workload = fsdyno_workload::catalog::find("package-install").unwrap();
        let spec = spec(&target, "package-install", &params);
        let peak = workload.peak_bytes(&spec.params).unwrap().unwrap();
        assert!(peak > 150_000 && peak < 400_000, "{peak}");
    }
    // The device changes a byte behind the filesystem's back.
    let root = directory.path().join("package/root");
    let file = root.join("usr/share/third/data");
    std::fs::File::options().write(true).open(file).unwrap().write_all_at(b"!", 20_000).unwrap();
    let error = fsdyno_workload::package_install::debs::verify(&root).unwrap_err().to_string();
    assert!(error.contains("/usr/share/third/data"), "{error}");
}

#[test]
fn a_full_filesystem_fails_dpkg_in_its_own_words() {
    let packages = tempfile::tempdir().unwrap();
    let Some(()) = make_package(packages.path(), "large", 6 << 20) else { return };
    let Some(filesystem) = SmallFilesystem::mount("4m") else { return };
    let params = [("packages", packages.path().to_str().unwrap()), ("cold", "none")];
    let answers = measure(&filesystem.path(), "package-install", &params);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "install");
    assert!(error.contains("dpkg") && error.contains("No space left on device"), "{error}");
}

#[test]
fn packages_that_are_none_are_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let empty = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    std::fs::create_dir(&target).unwrap();
    for (packages, policy, words) in [
        (empty.path(), "package", "there is no .deb file in it"),
        (Path::new("/no/such/place"), "package", "No such file"),
        (empty.path(), "never", "dpkg knows `package` and `database`"),
    ] {
        let params = [("packages", packages.to_str().unwrap()), ("fsync", policy)];
        let workload = fsdyno_workload::catalog::find("package-install").unwrap();
        let error = workload.check(&spec(&target, "package-install", &params).params).unwrap_err();
        assert!(error.contains(words), "{error}");
        let answers = measure(&target, "package-install", &params);
        assert_eq!(answers.failure().unwrap().0, "prepare");
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
    }
}
