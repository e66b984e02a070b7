//! Arrays under filesystems, in guests: what is made, what the kernel says of it, what is compared. On the
//! host they need root and a kernel that has them.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, is_long_asked, outcomes, skip};

/// Whether guests can run here with these modules of the kernel and these programs; prints why not.
fn can_run(modules: &[&str], programs: &[&str]) -> bool {
    let kernel = fsdyno_guest::qemu::find()
        .and_then(|_| fsdyno_guest::kernel::choose(None, Path::new("/var/tmp")));
    let found = kernel.and_then(|kernel| {
        let known = fsdyno_guest::modules::Modules::of(&kernel.modules)?;
        modules.iter().try_for_each(|name| known.of_driver(&[name]).map(drop))
    });
    if let Err(error) = found {
        skip(&error);
        return false;
    }
    let missing = programs.iter().find(|name| fsdyno_lab::tools::find(name).is_none());
    missing.inspect(|name| skip(&format!("{name} is not installed"))).is_none()
}

/// Runs targets in emulated guests as an ordinary user; gives the result.
fn compare(sandbox: &Sandbox, targets: &[&str]) -> Value {
    let images = sandbox.images().display().to_string();
    let mut arguments = vec!["compare"];
    arguments.extend(targets);
    arguments.extend(["--in", "guest", "--accelerator", "tcg", "--guest-memory", "512MiB"]);
    arguments.extend(["--size", "320MiB", "-n", "1", "-w", "small-files:files=100,size=4KiB"]);
    arguments.extend(["--json", "result.json", "--dir", &images]);
    let output = sandbox.command_as_nobody(&arguments).output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcomes(&result), vec!["completed"; targets.len()], "{said}");
    for trial in result["trials"].as_array().unwrap() {
        assert_eq!(trial["fsck"]["exit_code"], 0, "{trial}");
    }
    sandbox.assert_nothing_left();
    result
}

/// A fact of the device of a target.
fn fact<'a>(result: &'a Value, target: usize, name: &str) -> &'a str {
    let facts = &result["targets"][target]["device_facts"];
    facts[name].as_str().unwrap_or_else(|| panic!("no {name} in {facts}"))
}

/// The row of the audit about arrays.
fn row(result: &Value) -> &Value {
    let rows = result["audit"]["rows"].as_array().unwrap();
    rows.iter().find(|row| row["rule"] == "array").unwrap()
}

#[test]
fn raids_are_what_the_kernel_says() {
    if !can_run(&["raid0", "raid1"], &["mdadm", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let result = compare(&sandbox, &["ext4@raid1", "ext4@raid0(200MiB,200MiB,chunk=64KiB)"]);
    for (target, level) in ["raid1", "raid0"].into_iter().enumerate() {
        assert_eq!(fact(&result, target, "array_level"), level);
        assert_eq!(fact(&result, target, "array_members"), "2");
        assert_eq!(fact(&result, target, "array_metadata"), "1.2");
        assert_eq!(fact(&result, target, "member2.path"), "/dev/vdb");
        assert_eq!(fact(&result, target, "member1.kind"), "disk of a guest");
    }
    assert_eq!(fact(&result, 0, "array_sync"), "idle");
    assert_eq!(fact(&result, 0, "array_bitmap"), "none");
    assert_eq!(fact(&result, 0, "array_degraded"), "0");
    assert_eq!(fact(&result, 1, "array_chunk_bytes"), "65536");
    // A mirror is as large as its members, stripes as all of them; some of it is the array's own.
    let size = |target| fact(&result, target, "size_bytes").parse::<u64>().unwrap() >> 20;
    assert!((300..=320).contains(&size(0)), "{}", size(0));
    assert!((380..=400).contains(&size(1)), "{}", size(1));
    // mkfs knows of the stripes.
    let parameters = &result["targets"][1]["mkfs_effective"];
    assert!(!parameters.as_object().unwrap().is_empty(), "{parameters}");
    assert_eq!(row(&result)["judgement"], "not-comparable", "{}", row(&result));
}

#[test]
fn btrfs_puts_devices_together_itself() {
    if !can_run(&["btrfs"], &["mkfs.btrfs", "btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let targets = [
        "btrfs/-d raid1 -m raid1@pool(160MiB,160MiB)",
        "b=btrfs/-d raid0 -m raid1@pool(160MiB,160MiB)",
    ];
    let result = compare(&sandbox, &targets);
    for (target, profile) in ["RAID1", "RAID0"].into_iter().enumerate() {
        let parameters = &result["targets"][target]["mkfs_effective"];
        assert_eq!(parameters["data_profile"], profile, "{parameters}");
        assert_eq!(parameters["metadata_profile"], "RAID1", "{parameters}");
        assert_eq!(parameters["num_devices"], "2", "{parameters}");
    }
    // What is written twice is counted twice.
    let bytes =
        |trial: usize| result["trials"][trial]["phases"][0]["device"]["write_bytes"].as_u64();
    assert!(bytes(0) > Some(0) && bytes(1) > Some(0), "{}", result["trials"]);
    assert_eq!(row(&result)["judgement"], "fine", "{}", row(&result));
}

#[test]
fn volumes_and_encryption() {
    let modules = ["dm-mod", "dm-raid", "dm-crypt"];
    if !is_long_asked() || !can_run(&modules, &["lvm", "dmsetup", "mkfs.ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let targets = ["ext4@lvm-stripe", "ext4@lvm-mirror", "ext4+journal@crypt"];
    let result = compare(&sandbox, &targets);
    assert_eq!(fact(&result, 0, "array_level"), "striped");
    assert_eq!(fact(&result, 0, "array_chunk_bytes"), "65536");
    assert_eq!(fact(&result, 1, "array_level"), "raid1");
    assert_eq!(fact(&result, 1, "array_sync"), "idle");
    assert!(fact(&result, 2, "array_level").starts_with("aes-xts-plain64, key of 512 bits"));
    assert_eq!(fact(&result, 2, "journal.path"), "/dev/vdb");
}

#[test]
fn what_cannot_be_put_together_is_told() {
    let sandbox = Sandbox::in_memory();
    for (target, words) in [
        ("ext4@raid1(loop)", "at least two members"),
        ("ext4@pool", "only btrfs"),
        ("ext4@raid0(loop,loop,chunk=3KiB)", "power of two"),
    ] {
        let finished = sandbox.run(["compare", target]);
        finished.assert_code(2);
        assert!(finished.stderr.contains(words), "{target}: {}", finished.stderr);
    }
    let plan = "[plan]\n[[target]]\nfilesystem = \"ext4\"\ndevice = { raid1 = [\"/dev/x\", \"/dev/x\"] }\n\
                [[workload]]\nkind = \"small-files\"\n";
    let plan = sandbox.file("plan.toml", plan);
    let finished = sandbox.run(["check", &plan]);
    finished.assert_code(2);
    assert!(finished.stderr.contains("/dev/x is named twice"), "{}", finished.stderr);
}

/// On the host: where its kernel has them they are made, elsewhere it is told what is missing.
#[test]
fn on_the_host_arrays_are_made_or_what_is_missing_is_told() {
    if !crate::sandbox::can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let small = [
        "-w",
        "small-files:files=50,size=4KiB",
        "-n",
        "1",
        "--size",
        "320MiB",
        "--json",
        "result.json",
    ];
    let mut arguments = vec!["compare", "ext4@raid1", "--dir", &images];
    arguments.extend(small);
    let finished = sandbox.run(arguments);
    let has_raid = finished.code == Some(0);
    if !has_raid {
        assert!(
            finished.stderr.contains("raid1 needs raid1")
                || finished.stderr.contains("mdadm not installed"),
            "{}",
            finished.stderr
        );
    } else {
        let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(fact(&result, 0, "array_level"), "raid1");
    }
    sandbox.assert_nothing_left();
}
