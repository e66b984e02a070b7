//! Power cuts and faults: defaults keep their promises, what takes barriers away is caught, a finding can
//! be made again, and each fault shows what it should.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, can_format, skip};

/// Whether power can be cut here under these filesystems; prints the reason when not.
fn can_cut(filesystems: &[&str]) -> bool {
    if !can_format(filesystems) {
        return false;
    }
    if !Path::new("/dev/fuse").exists() {
        skip("the kernel has no FUSE");
        return false;
    }
    true
}

fn cut(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    let images = sandbox.images().display().to_string();
    let mut all = vec!["durability", "--json", "--quiet", "--dir", &images];
    all.extend(arguments);
    sandbox.run(all)
}

/// Cuts power under a filesystem with its defaults.
fn keeps_its_promises(filesystem: &str) {
    if !can_cut(&[filesystem]) {
        return;
    }
    let sandbox = Sandbox::new();
    let found = cut(&sandbox, &[filesystem, "--cuts", "200", "--operations", "300"]);
    let found = found.assert_code(0).json();
    let target = &found["targets"][0];
    assert_eq!((&target["cuts"], &target["kept"]), (&Value::from(200), &Value::from(200)));
    // It was about something: calls were made, some acknowledged, and flushes came.
    assert!(target["calls"].as_u64().unwrap() >= 600);
    assert!(target["log"]["flushes"].as_u64().unwrap() > 50, "{}", target["log"]);
    let log = &target["log"];
    assert!(log["last_cut"].as_u64().unwrap() > log["first_cut"].as_u64().unwrap() + 500);
    sandbox.assert_nothing_left();
}

#[test]
fn ext4_keeps_its_promises() {
    keeps_its_promises("ext4");
}

#[test]
fn xfs_keeps_its_promises() {
    keeps_its_promises("xfs");
}

/// Deleted files came back under an old name after some cuts on Linux 6.18 (docs/DURABILITY.md): names are
/// not asked here, everything else is.
#[test]
fn btrfs_keeps_its_promises_about_data() {
    if !can_cut(&["btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let found = cut(&sandbox, &["btrfs", "--cuts", "200", "--operations", "300"]).json();
    assert_eq!(found["targets"][0]["cuts"], 200);
    let names = ["name_kept", "name_gone", "rename_atomic"];
    let others: Vec<&str> = broken(&found).into_iter().filter(|it| !names.contains(it)).collect();
    assert!(others.is_empty(), "{others:?}: {found}");
    sandbox.assert_nothing_left();
}

#[test]
fn other_workloads_are_cut_too() {
    if !can_cut(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    for workload in ["mail", "database", "log", "save"] {
        let more = ["--workload", workload, "--cuts", "40", "--operations", "150"];
        let found = cut(&sandbox, &[&["ext4"], &more[..]].concat()).assert_code(0).json();
        let target = &found["targets"][0];
        assert_eq!(target["workload"], workload);
        assert_eq!(target["kept"], 40, "{workload}: {found}");
        // Each of them asks for something to be durable.
        assert!(target["log"]["flushes"].as_u64().unwrap() > 20, "{workload}: {}", target["log"]);
        let found = cut(&sandbox, &[&["ext4", "--ignore-flushes"], &more[..]].concat());
        assert!(!broken(&found.assert_code(1).json()).is_empty(), "{workload}");
    }
    let refused = cut(&sandbox, &["ext4", "--workload", "varmail"]);
    assert!(refused.assert_code(2).stderr.contains("database"), "{}", refused.stderr);
    sandbox.assert_nothing_left();
}

/// The promises that a finding says were broken.
fn broken(found: &Value) -> Vec<&str> {
    let cuts = found["targets"][0]["broken"].as_array().unwrap().iter();
    let promises = cuts.flat_map(|cut| cut["broken"].as_array().unwrap());
    promises.map(|one| one["promise"].as_str().unwrap()).collect()
}

#[test]
fn power_cuts_stand_beside_speed() {
    if !can_cut(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = ["--cuts", "10", "--operations", "100"];
    // A run whose targets nobody tested says nothing of power cuts, and advice says that.
    let images = sandbox.images().display().to_string();
    let place = ["--dir", &images, "--size", "256MiB", "--quiet"];
    let work =
        ["-n", "1", "--durability=12", "--", "dd", "if=/dev/zero", "of=x", "bs=4k", "count=9"];
    let targets = ["compare", "plain=ext4", "bad=ext4:barrier=0", "other=ext4:noatime,commit=7"];
    let found = sandbox.run([&targets[..], &place, &work].concat());
    // Exit code 1: without barriers some promise was broken.
    found.assert_code(1);
    let row = found.stdout.lines().find(|line| line.starts_with("power cuts")).unwrap();
    assert_eq!(row.matches("12/12").count(), 2, "{row}");
    assert_eq!(row.matches("/12!").count(), 1, "{row}");
    let told = found.stdout.replace('\n', " ");
    for part in [
        "bad broke promises in",
        "again: fsdyno durability --replay",
        "kept all promises in 12 of 12",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // A later test of one of them counts with the first; one of another question does not.
    cut(&sandbox, &[&["ext4:relatime"], &small[..]].concat()).assert_code(0);
    cut(&sandbox, &[&["ext4", "--ignore-flushes"], &small[..]].concat());
    let shown = sandbox.run(["show", "--json"]).assert_code(0).json();
    let cuts = shown["power_cuts"].as_array().unwrap();
    let figures: Vec<_> = cuts.iter().map(|own| (&own["cuts"], &own["tests"])).collect();
    assert_eq!(
        figures,
        [(&22.into(), &2.into()), (&12.into(), &1.into()), (&12.into(), &1.into())]
    );
    assert!(cuts[1]["first_broken"]["what"].as_str().unwrap().len() > 5, "{cuts:?}");
    let advice = sandbox.run(["advise", "--", "dd", "if=/dev/zero", "of=x", "bs=4k", "count=9"]);
    let advice = advice.stdout.replace('\n', " ");
    assert!(advice.contains("bad broke promises in"), "{advice}");
    let markdown = sandbox.run(["show", "--format", "markdown"]);
    assert!(markdown.stdout.contains("| power cuts | kept | 22/22 |"), "{}", markdown.stdout);
    let page = sandbox.run(["report", "-o", "-", "--format", "html"]);
    assert!(page.stdout.contains("Power cuts: plain kept all promises in 22 of 22"));
    // Another database gets them with the runs, once.
    let into = sandbox.path().join("into.sqlite").display().to_string();
    let from = sandbox.path().join("data/fsdyno/results.sqlite").display().to_string();
    for added in ["1 run added, 5 tests of power cuts added", "0 runs added, 1 run known"] {
        let merged = sandbox.run(["merge", &into, &from]);
        assert!(merged.assert_code(0).stdout.contains(added), "{}", merged.stdout);
    }
    sandbox.assert_nothing_left();
}

#[test]
fn without_barriers_promises_are_broken_and_can_be_broken_again() {
    if !can_cut(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let found = cut(&sandbox, &["ext4:barrier=0", "--cuts", "40"]);
    let found = found.assert_code(1).json();
    assert!(!broken(&found).is_empty());
    let target = &found["targets"][0];
    // Only those of mkfs and of mounting are left: none is asked for by the calls.
    assert!(target["log"]["flushes"].as_u64().unwrap() < 20, "{}", target["log"]);
    let first = &target["broken"][0];
    let (kept, number) =
        (target["recording"].as_str().unwrap(), first["cut"]["number"].to_string());
    assert!(Path::new(kept).starts_with(sandbox.path()), "{kept}");
    let again = cut(&sandbox, &["--replay", kept, "--only", &number]);
    assert_eq!(again.assert_code(1).json()["targets"][0]["broken"][0], *first);
    // As a person reads it: the promise, the call that made it, and how to see it again.
    let images = sandbox.images().display().to_string();
    let told = sandbox.run(["durability", "--replay", kept, "--only", &number, "--dir", &images]);
    told.assert_code(1);
    for part in ["broke promises in 1 of 1 power cuts", "broken: ", "again: fsdyno durability"] {
        assert!(told.stdout.contains(part), "{part}: {}", told.stdout);
    }
    sandbox.assert_nothing_left();
}

#[test]
fn a_disk_that_ignores_flushes_is_caught_from_the_same_recording() {
    if !can_cut(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let kept = sandbox.path().join("kept").display().to_string();
    let small = ["--cuts", "20", "--operations", "200"];
    let good = cut(&sandbox, &[&["ext4", "--keep", &kept], &small[..]].concat());
    good.assert_code(0);
    let lying = cut(&sandbox, &["--replay", &kept, "--ignore-flushes", "--cuts", "20"]);
    assert!(!broken(&lying.assert_code(1).json()).is_empty());
    // The same disk, honest again.
    cut(&sandbox, &["--replay", &kept, "--cuts", "20"]).assert_code(0);
    sandbox.assert_nothing_left();
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let sandbox = Sandbox::new();
    if !fsdyno_sys::process::may_mount() {
        cut(&sandbox, &["ext4"]).assert_code(2);
        return;
    }
    for (arguments, part) in [
        (&["ext2"][..], "no journal"),
        (&["exfat"], "no journal"),
        (&["dir:/tmp"], "made for it"),
        (&["ext4@/dev/nothing"], "image"),
        (&["ext5"], "ext5"),
        (&["ext4:errors=panic"], "panic this machine"),
        (&["ext4", "--block", "1000"], "--block"),
        (&["--replay", "/no/such/place"], "/no/such/place"),
        (&[], "TARGET"),
    ] {
        let refused = cut(&sandbox, arguments);
        refused.assert_code(2);
        assert!(refused.stderr.contains(part), "{arguments:?}: {}", refused.stderr);
    }
    sandbox.run(["faults", "ext4", "--fault", "fire"]).assert_code(2);
    sandbox.run(["faults", "ext4:errors=panic"]).assert_code(2);
    sandbox.assert_nothing_left();
}

fn reactions(sandbox: &Sandbox, target: &str) -> Vec<Value> {
    let _log = crate::sandbox::kernel_log();
    let images = sandbox.images().display().to_string();
    let found = sandbox.run(["faults", target, "--json", "--quiet", "--dir", &images]);
    let found = found.assert_code(0).json();
    sandbox.assert_nothing_left();
    found["targets"][0]["reactions"].as_array().unwrap().clone()
}

#[track_caller]
fn of<'r>(reactions: &'r [Value], fault: &str) -> &'r Value {
    let found = reactions.iter().find(|one| one["reaction"]["fault"] == fault);
    found.unwrap_or_else(|| panic!("no {fault} in {reactions:?}"))
}

/// What a program was told of one step.
#[track_caller]
fn is_error(reaction: &Value, what: &str) -> bool {
    let steps = reaction["reaction"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["what"] == what);
    step.unwrap_or_else(|| panic!("no {what} in {steps:?}"))["is_error"].as_bool().unwrap()
}

#[test]
fn each_fault_shows_on_ext4() {
    if !can_cut(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let found = reactions(&sandbox, "ext4");
    assert_eq!(found.len(), 9);
    assert!(is_error(of(&found, "read-data"), "read"));
    assert!(!is_error(of(&found, "read-data"), "write another file"));
    assert!(is_error(of(&found, "read-metadata"), "list a directory"));
    assert!(is_error(of(&found, "write"), "fsync"));
    assert!(is_error(of(&found, "flush"), "fsync"));
    assert!(!is_error(of(&found, "slow"), "write another file"));
    let slow = &of(&found, "slow")["reaction"]["steps"][0]["elapsed_s"];
    assert!(slow.as_f64().unwrap() > 0.3, "{slow}");
    assert!(is_error(of(&found, "gone"), "read"));
    // Whichever call is the first to need the device.
    let steps = of(&found, "gone")["reaction"]["steps"].as_array().unwrap();
    assert_eq!(steps.last().unwrap()["is_error"], true, "{steps:?}");
    // It has checksums of metadata, and none of data.
    assert!(is_error(of(&found, "flipped-metadata"), "list a directory"));
    assert_eq!(of(&found, "flipped-data")["silent"], true);
    assert_eq!(of(&found, "lost-writes")["silent"], true);
}

#[test]
fn flipped_bits_are_found_by_btrfs() {
    if !can_cut(&["btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let found = reactions(&sandbox, "btrfs");
    assert!(is_error(of(&found, "flipped-data"), "read"));
    assert!(found.iter().all(|reaction| reaction["silent"] == false), "{found:?}");
}

/// As an ordinary user, too: a kernel that is asked to panic does so in a guest, and that is what is found.
#[test]
fn a_panic_of_a_guest_is_a_finding() {
    if !crate::guest::can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let arguments = ["faults", "ext4:errors=panic", "--in", "guest", "--accelerator", "tcg"];
    let more = ["--fault", "read-metadata,flipped-data", "--json", "--dir", &images];
    let mut command = sandbox.command_as_nobody(&[&arguments[..], &more].concat());
    let finished = Finished::of(&command.output().expect("the binary starts"));
    let found = finished.assert_code(0).json();
    let reactions = found["targets"][0]["reactions"].as_array().unwrap();
    let lost = &of(reactions, "read-metadata")["reaction"];
    assert_eq!(lost["is_machine_lost"], true, "{lost}");
    let state = lost["state"].as_str().unwrap();
    assert!(state.contains("kernel panic"), "{state}");
    // Nothing tells of bits in data, so that nothing panics.
    let silent = of(reactions, "flipped-data");
    assert_eq!(silent["reaction"]["is_machine_lost"], false);
    assert_eq!(silent["silent"], true, "{silent}");
    sandbox.assert_nothing_left();
}
