//! Kernels of guests as a dimension: every filesystem under each of them, packages that are booted without
//! being installed, what is listed, fetched and refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_guest::kernel::{self, Kernel};
use fsdyno_guest::modules::Modules;
use fsdyno_model::kernel::KernelChoice;
use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, outcomes, skip};

/// Emulated guests that hold the smallest filesystems of all.
const GUESTS: [&str; 9] =
    ["--in", "guest", "--accelerator", "tcg", "--guest-memory", "512MiB", "-n", "1", "--json"];
/// Modules that any guest needs, and those of ext4.
const NEEDED: [&str; 7] =
    ["virtio", "virtio_blk", "virtio_console", "ext4", "jbd2", "mbcache", "crc"];
/// A version of Debian's later kernels, and where they are.
const LATER: (&str, &str) = ("6.12", "bookworm-backports");

/// The installed kernel that guests have when nothing is said; prints the reason where there is none.
fn installed() -> Option<Kernel> {
    let found = fsdyno_guest::qemu::find().and_then(|_| kernel::choose(None, Path::new("/")));
    found.inspect_err(|error| skip(error)).ok()
}

/// Runs `compare` as an ordinary user and gives the result.
fn compare(sandbox: &Sandbox, arguments: &[&str]) -> (Finished, Value) {
    let images = sandbox.images().display().to_string();
    let mut all = vec!["compare"];
    all.extend(arguments);
    all.extend(GUESTS);
    all.extend(["result.json", "--dir", &images]);
    let finished = Finished::of(&sandbox.command_as_nobody(&all).output().expect("it starts"));
    let text = fs::read_to_string(sandbox.path().join("result.json")).unwrap_or_default();
    (finished, serde_json::from_str(&text).unwrap_or_default())
}

/// Every filesystem that this kernel has and whose programs are here, as targets; others are told.
fn targets_of(kernel: &Kernel) -> Vec<String> {
    let modules = Modules::of(&kernel.modules).unwrap();
    let mut targets = Vec::new();
    for definition in fsdyno_lab::filesystem::ALL {
        let name = definition.info.name;
        if modules.of_driver(definition.drivers).is_err() {
            println!("{name} is not in {}", kernel.release);
        } else if let Some(tool) = fsdyno_lab::tools::missing(definition.tools).first() {
            skip(&format!("{} is not installed", tool.name));
        } else {
            targets.push(name.to_owned());
        }
    }
    if targets.iter().any(|target| target == "f2fs") {
        targets.push(
            "compressed=f2fs/-O extra_attr,compression:compress_algorithm=zstd,compress_extension=*"
                .to_owned(),
        );
    }
    targets
}

/// From mkfs to fsck, each of `targets` under the kernel `choice`.
fn each_of(sandbox: &Sandbox, targets: &[String], kernel: &Kernel, choice: &str) {
    let mut arguments: Vec<&str> = targets.iter().map(String::as_str).collect();
    arguments.extend(["--kernel", choice, "--size", "320MiB"]);
    arguments.extend(["-w", "million-files:files=100,size=4KiB"]);
    arguments.extend(["-w", "compilebench:trees=1,runs=2,one_in=50"]);
    let (finished, result) = compare(sandbox, &arguments);
    finished.assert_code(0);
    assert_eq!(outcomes(&result), vec!["completed"; 2 * targets.len()], "{result:#}");
    let environment = &result["run"]["environment"];
    assert_eq!(environment["kernel_release"], kernel.release.as_str());
    assert_eq!(environment["guest"]["kernels"].as_array().unwrap().len(), 1);
    for trial in result["trials"].as_array().unwrap() {
        let target = trial["target"].as_str().unwrap();
        let warnings = trial["warnings"].as_array().unwrap();
        let is_told = warnings.iter().any(|warning| warning["code"] == "no-fsck");
        if ["nilfs2", "ntfs3"].contains(&target) {
            assert!(trial["fsck"].is_null() && is_told, "{trial}");
        } else {
            assert!(trial["fsck"]["exit_code"] == 0 && !is_told, "{trial}");
        }
    }
    for target in result["targets"].as_array().unwrap() {
        let parameters = target["mkfs_effective"].as_object().unwrap();
        assert!(!parameters.is_empty(), "{target}");
        let options = target["mount_effective"].as_str().unwrap();
        assert!(target["label"] != "compressed" || options.contains("compress_algorithm=zstd"));
    }
    sandbox.assert_nothing_left();
}

#[test]
fn every_filesystem_of_the_installed_kernel() {
    let Some(kernel) = installed() else { return };
    each_of(&Sandbox::new(), &targets_of(&kernel), &kernel, &kernel.release);
}

/// The later kernel is not installed: its package is downloaded, as an ordinary user, and unpacked.
#[test]
fn a_later_kernel_is_fetched_and_has_others() {
    if std::env::var_os("FSDYNO_TEST_FETCH").is_none() {
        return skip("FSDYNO_TEST_FETCH is not set: a kernel is 100 MB to download");
    }
    if installed().is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let (version, suite) = LATER;
    let fetch = ["kernel", "fetch", version, "--suite", suite];
    let fetched = Finished::of(&sandbox.command_as_nobody(&fetch).output().expect("it starts"));
    if fetched.code != Some(0) {
        skip(&format!("no kernel {version} can be fetched here: {}", fetched.stderr.trim()));
        return;
    }
    let mut list = sandbox.command_as_nobody(&["kernel", "list", "--json"]);
    let listed = Finished::of(&list.output().expect("it starts")).json();
    let package = listed.as_array().unwrap().iter().find(|it| it["package"].is_string()).unwrap();
    let release = package["release"].as_str().unwrap();
    assert!(release.starts_with(version) && fetched.stdout.contains(release), "{listed}");
    let cache = sandbox.path().join("cache/fsdyno/guest");
    let choice = KernelChoice::parse(version).unwrap();
    let kernel = kernel::choose(Some(&choice), &cache).unwrap();
    let modules = Modules::of(&kernel.modules).unwrap();
    for driver in fsdyno_guest::virtual_time::DRIVERS {
        modules.of_driver(&[driver]).unwrap();
    }
    each_of(&sandbox, &targets_of(&kernel), &kernel, version);
}

/// A tree as packages hold it: the installed kernel with some of its modules.
fn packaged_tree(sandbox: &Sandbox, kernel: &Kernel) -> PathBuf {
    let root = sandbox.path().join("tree");
    let release = &kernel.release;
    fs::create_dir_all(root.join("boot")).unwrap();
    fs::copy(&kernel.image, root.join(format!("boot/vmlinuz-{release}"))).unwrap();
    let modules = root.join("lib/modules").join(release);
    let listing = Command::new("find").arg(&kernel.modules).args(["-name", "*.ko*"]).output();
    for path in String::from_utf8(listing.unwrap().stdout).unwrap().lines().map(Path::new) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if NEEDED.iter().any(|needed| name.starts_with(needed)) {
            let target = modules.join(path.strip_prefix(&kernel.modules).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(path, target).unwrap();
        }
    }
    fs::copy(kernel.modules.join("modules.builtin"), modules.join("modules.builtin")).unwrap();
    root
}

/// Runs a program that makes a package; false, with the reason told, where it is not installed.
fn made_by(program: &str, arguments: &[&str]) -> bool {
    match Command::new(program).args(arguments).output() {
        Err(_) => {
            skip(&format!("{program} is not installed"));
            false
        }
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
    }
}

fn deb(sandbox: &Sandbox, tree: &Path) -> Option<String> {
    let control = tree.join("DEBIAN/control");
    fs::create_dir_all(control.parent().unwrap()).unwrap();
    let text = "Package: linux-image-x\nVersion: 1\nArchitecture: amd64\nMaintainer: x <x@x>\nDescription: x\n";
    fs::write(control, text).unwrap();
    let package = sandbox.path().join("linux.deb").display().to_string();
    let tree_text = tree.display().to_string();
    let arguments = ["--root-owner-group", "-Zxz", "-z0", "-b", &tree_text, &package];
    let is_made = made_by("dpkg-deb", &arguments);
    fs::remove_dir_all(tree.join("DEBIAN")).unwrap();
    is_made.then_some(package)
}

fn rpm(sandbox: &Sandbox, tree: &Path) -> Option<String> {
    let place = sandbox.path().join("rpm").display().to_string();
    let text = format!(
        "Name: kernel-default\nVersion: 1\nRelease: 1\nSummary: x\nLicense: GPL\n\
         BuildArch: x86_64\n%global __os_install_post %{{nil}}\n%description\nx\n%install\n\
         cp -a {} %{{buildroot}}\n%files\n/boot/*\n/lib/modules/*\n",
        tree.join("*").display()
    );
    let spec = sandbox.file("kernel.spec", &text);
    let (top, form) = (format!("_topdir {place}"), "_binary_payload w1.zstdio");
    let arguments = ["-bb", "--quiet", "--define", &top, "--define", form, &spec];
    let is_made = made_by("rpmbuild", &arguments);
    is_made.then(|| format!("{place}/RPMS/x86_64/kernel-default-1-1.x86_64.rpm"))
}

/// One run under three kernels, of which two lie in packages: the package's are the installed one again, so
/// that what they are told apart by is where they come from.
#[test]
fn packages_are_booted_without_being_installed() {
    let Some(kernel) = installed() else { return };
    let sandbox = Sandbox::new();
    let tree = packaged_tree(&sandbox, &kernel);
    let packages: Vec<String> =
        [deb(&sandbox, &tree), rpm(&sandbox, &tree)].into_iter().flatten().collect();
    let mut targets: Vec<String> =
        packages.iter().map(|path| format!("ext4@kernel={path}")).collect();
    for (target, name) in targets.iter_mut().zip(["one", "two"]) {
        *target = format!("{name}={target}");
    }
    targets.push("ext4".to_owned());
    let mut arguments: Vec<&str> = targets.iter().map(String::as_str).collect();
    arguments.extend(["--size", "64MiB", "-w", "small-files:files=50,size=4KiB"]);
    let (finished, result) = compare(&sandbox, &arguments);
    finished.assert_code(0);
    assert_eq!(outcomes(&result), vec!["completed"; targets.len()]);
    let environment = &result["run"]["environment"];
    let release = environment["kernel_release"].as_str().unwrap();
    assert_eq!(release, vec![kernel.release.as_str(); targets.len()].join(", "));
    let kernels = environment["guest"]["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), targets.len(), "{environment}");
    assert!(kernels.iter().all(|it| it["hash"] == kernels[0]["hash"]), "{environment}");
    for target in result["targets"].as_array().unwrap() {
        let own = &target["device_facts"]["kernel_release"];
        assert_eq!(own.as_str().is_some(), target["label"] != "ext4", "{target}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_kernel_that_is_not_there_is_refused() {
    if installed().is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let (finished, _) = compare(&sandbox, &["ext4@kernel=1.2"]);
    finished.assert_code(2);
    for words in ["kernel 1.2: there is none of this version", "fsdyno kernel fetch 1.2"] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    let finished = sandbox.run(["compare", "ext4@kernel=6.1", "ext4"]);
    finished.assert_code(2);
    assert!(finished.stderr.contains("add --in guest"), "{}", finished.stderr);
    let listed = sandbox.run(["kernel", "list"]);
    listed.assert_code(0);
    assert!(!listed.stdout.is_empty());
    let suite = sandbox.run(["kernel", "fetch", "--suite", "a b"]);
    suite.assert_code(2);
    assert!(suite.stderr.contains("bookworm-backports"), "{}", suite.stderr);
    sandbox.assert_nothing_left();
}
