//! Disks that are full: the target's and the one under the images.

use std::collections::BTreeSet;

use crate::sandbox::{Finished, Sandbox, can_format};
use serde_json::Value;

/// Workloads that want more than there is, the phase in which they find out, and words of the error:
/// the path and the reason.
const TOO_MUCH: &[(&str, &str, &[&str])] = &[
    ("compilebench:trees=3,runs=0", "initial-create", &["kernel-", "ENOSPC"]),
    ("small-files:files=100,size=8MiB", "create", &["f000000", "ENOSPC"]),
    ("million-files:files=100,size=8MiB", "create", &["f000000", "ENOSPC"]),
    ("bonnie:size=1GiB,ram=0,files=0", "write-block", &["Bonnie", "ENOSPC"]),
    ("postmark:number=200,size_low=4000000,size_high=8000000", "create", &["ENOSPC"]),
    ("web-cache:size=600MiB", "extract", &["/", "ENOSPC"]),
    ("kernel-source:archive=BIG", "extract", &["part-", "ENOSPC"]),
    ("package-install:count=400", "install", &["/", "ENOSPC"]),
    ("read-speed:size=1GiB", "prepare", &["ENOSPC"]),
    ("command:command=head -c 1G /dev/zero > big", "command", &["No space left on device"]),
];

/// The same for those that are tried in a directory on a filesystem of 24 MiB, with `--quick`.
const TOO_MUCH_IN_A_DIRECTORY: &[(&str, &str, &[&str])] = &[
    ("boot", "prepare", &["root/", "ENOSPC"]),
    ("dbench:clients=64,passes=1000", "run", &["line ", "ENOSPC"]),
    ("fileio:total_size=100MiB", "seqwr", &["test_file.", "ENOSPC"]),
    ("fileserver:files=5000", "prepare", &["files/", "ENOSPC"]),
    ("fs-mark:files=5000", "create", &["write 4", "ENOSPC"]),
    ("many-clients", "prepare", &["streams/", "ENOSPC"]),
    ("mdtest:items=5000,write_bytes=16KiB", "file-create", &["file.mdtest.", "ENOSPC"]),
    ("oltp:data_file_size=20MiB", "prepare", &["data/", "ENOSPC"]),
    ("postgres", "initdb", &["initdb", "ENOSPC"]),
    ("random-io:size=100MiB", "layout", &["file0", "ENOSPC"]),
    ("sqlite:rows=500000", "load", &["database.sqlite", "ENOSPC"]),
    ("varmail:files=20000", "prepare", &["mails/", "ENOSPC"]),
    ("webproxy:files=20000", "prepare", &["objects/", "ENOSPC"]),
    ("webserver:files=20000", "prepare", &["pages/", "ENOSPC"]),
];

/// An archive whose files are together larger than the target, itself small.
fn big_archive(sandbox: &Sandbox) -> String {
    let tree = sandbox.path().join("big-1.0");
    std::fs::create_dir(&tree).unwrap();
    for index in 0..8 {
        let file = std::fs::File::create(tree.join(format!("part-{index}"))).unwrap();
        file.set_len(100 << 20).unwrap();
    }
    std::fs::write(tree.join("Makefile"), "tinyconfig vmlinux:\n").unwrap();
    let archive = sandbox.path().join("big-1.0.tar.gz").display().to_string();
    let place = sandbox.path().display().to_string();
    let packed = std::process::Command::new("tar")
        .args(["-C", &place, "-czf", &archive, "big-1.0"])
        .status();
    assert!(packed.unwrap().success());
    std::fs::remove_dir_all(tree).unwrap();
    archive
}

#[test]
fn a_full_target_is_an_outcome_with_phase_and_path() {
    if !can_format(&["ext4", "xfs", "btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let big = big_archive(&sandbox);
    for (index, (workload, stage, words)) in TOO_MUCH.iter().enumerate() {
        let workload = workload.replace("BIG", &big);
        let target = ["ext4", "xfs", "btrfs"][index % 3];
        let arguments = ["compare", target, "--dir", &images, "--size", "400MiB", "-n", "1"];
        let finished = sandbox.run(arguments.into_iter().chain(["-w", &workload, "--json", "-"]));
        assert_found_out(&finished, &workload, stage, words);
        sandbox.assert_nothing_left();
    }
}

/// Whether the only trial failed in the phase `stage` with an error that has the `words`.
fn assert_found_out(finished: &Finished, workload: &str, stage: &str, words: &[&str]) {
    finished.assert_code(1);
    let result = finished.json();
    let trial = &result["trials"][0];
    assert_eq!(trial["outcome"], "failed", "{workload}: {trial}");
    assert_eq!(trial["stage"], *stage, "{workload}: {}", trial["error"]);
    let error = trial["error"].as_str().unwrap();
    assert!(words.iter().all(|word| error.contains(word)), "{workload}: {error}");
}

#[test]
fn a_full_directory_is_one_too() {
    if !can_format(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = sandbox.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let target = format!("dir:{}", small.display());
    for (workload, stage, words) in TOO_MUCH_IN_A_DIRECTORY {
        fsdyno_sys::mount::mount("tmpfs", "tmpfs", &small, "size=24m,mode=1777").unwrap();
        let arguments = ["compare", &target, "--quick", "-n", "1", "-w", workload, "--json", "-"];
        let finished = sandbox.run(arguments);
        let left = std::fs::read_dir(&small).unwrap().count();
        fsdyno_sys::mount::unmount(&small).unwrap();
        assert_found_out(&finished, workload, stage, words);
        assert_eq!(left, 0, "{workload}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn every_workload_is_tried_on_a_full_target() {
    let tried = TOO_MUCH.iter().chain(TOO_MUCH_IN_A_DIRECTORY);
    let kinds: BTreeSet<&str> =
        tried.map(|(workload, ..)| workload.split(':').next().unwrap()).collect();
    let known: BTreeSet<&str> =
        fsdyno_workload::catalog::infos().iter().map(|info| info.name).collect();
    assert_eq!(kinds, known);
}

#[test]
fn a_full_disk_under_the_images_is_an_outcome() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    // A directory on a file system of 64 MiB that cannot hold the image.
    let small = sandbox.path().join("small");
    std::fs::create_dir(&small).unwrap();
    fsdyno_sys::mount::mount("tmpfs", "tmpfs", &small, "size=64m").unwrap();
    let text = small.display().to_string();
    let finished = sandbox.run([
        "compare",
        "ext4",
        "--dir",
        &text,
        "--size",
        "512MiB",
        "-n",
        "1",
        "-w",
        "small-files:files=10",
        "--json",
        "-",
    ]);
    let left = std::fs::read_dir(&small).unwrap().count();
    fsdyno_sys::mount::unmount(&small).unwrap();
    finished.assert_code(1);
    let result: Value = finished.json();
    let outcome = result["trials"][0]["outcome"].as_str().unwrap();
    assert!(outcome == "skipped" || outcome == "failed", "{outcome}");
    assert_eq!(left, 0);
    sandbox.assert_nothing_left();
}

#[test]
fn a_full_disk_under_the_results_keeps_what_is_there() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = sandbox.path().join("small");
    let work = sandbox.path().join("work");
    std::fs::create_dir(&small).unwrap();
    std::fs::create_dir(&work).unwrap();
    fsdyno_sys::mount::mount("tmpfs", "tmpfs", &small, "size=1m").unwrap();
    let database = small.join("results.sqlite").display().to_string();
    let target = format!("dir:{}", work.display());
    let arguments = [
        "compare",
        target.as_str(),
        "-n",
        "2",
        "-w",
        "small-files:files=20",
        "--db",
        database.as_str(),
    ];
    sandbox.run(arguments).assert_code(0);
    std::fs::write(small.join("filler"), vec![1; 1 << 20]).unwrap_err();
    let finished = sandbox.run(arguments);
    std::fs::remove_file(small.join("filler")).unwrap();
    let runs = sandbox.run(["runs", "--json", "--db", &database]);
    fsdyno_sys::mount::unmount(&small).unwrap();
    finished.assert_code(1);
    assert!(
        finished.stderr.contains("disk full") || finished.stderr.contains("full"),
        "{}",
        finished.stderr
    );
    assert_eq!(runs.json()[0]["trials_completed"], 2);
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0);
    sandbox.assert_nothing_left();
}
