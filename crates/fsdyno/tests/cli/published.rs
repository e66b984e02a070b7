//! Published comparisons, run again at the least scale.

use crate::sandbox::{Sandbox, can_format};
use serde_json::Value;

/// Every plan whose filesystems this machine can make, with one trial each but where loads are calibrated.
const PLANS: &[&str] = &[
    "btrfs-wiki-2007-create",
    "btrfs-wiki-2007-compilebench",
    "btrfs-wiki-2007-million",
    "bonnie-raid1-2008",
    "four-filesystems-2011",
    "desktop-and-laptop-2010",
    "web-cache-2003",
];

fn repeat(name: &str) {
    if !can_format(&["ext2", "ext3", "ext4", "xfs", "btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let finished = sandbox.run([
        "run",
        "--published",
        name,
        "--scale",
        "smoke",
        "--dir",
        &images,
        "--json",
        "-",
    ]);
    let result = finished.json();
    // A filesystem that this kernel does not have is skipped, with the reason; nothing else may be.
    for trial in result["trials"].as_array().unwrap() {
        let outcome = trial["outcome"].as_str().unwrap();
        let is_foreign =
            ["reiserfs", "jfs"].iter().any(|it| trial["target"].as_str().unwrap().starts_with(it));
        let is_rung = trial["workload"].as_str().unwrap().contains("postmark");
        assert!(
            outcome == "completed" || ((is_foreign || is_rung) && outcome == "skipped"),
            "{name}: {trial:#}"
        );
    }
    let then_and_now = &result["then_and_now"];
    assert_eq!(then_and_now["scale"], "smoke");
    let is_here = |cell: &&Value| {
        let target = cell["target"].as_str().unwrap();
        ["ext", "xfs", "btrfs"].iter().any(|own| target.starts_with(own))
    };
    let (mut repeated, mut measured) = (0, 0);
    for row in then_and_now["rows"].as_array().unwrap() {
        assert_ne!(row["phase"].is_null(), row["missing"].is_null(), "{row:#}");
        for cell in row["cells"].as_array().unwrap().iter().filter(is_here) {
            repeated += i32::from(!row["phase"].is_null());
            measured += i32::from(cell["measured"].as_f64() > Some(0.0));
        }
    }
    // compilebench's few operations at this scale are not of every kind.
    let least = if name.ends_with("compilebench") { repeated / 2 } else { repeated };
    assert!(measured >= least, "{name}: {measured} of {repeated}");
    let shown = sandbox.run(["show"]);
    assert!(shown.stdout.contains("Then and now"), "{}", shown.stdout);
    sandbox.assert_nothing_left();
}

#[test]
fn every_plan_has_its_test() {
    let sandbox = Sandbox::in_memory();
    let listed = sandbox.run(["list", "plans", "--json"]).json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|plan| plan["name"].as_str().unwrap()).collect();
    assert_eq!(names, PLANS);
    sandbox.run(["run", "--published", "nothing"]).assert_code(2);
}

#[test]
fn btrfs_wiki_2007_create() {
    repeat("btrfs-wiki-2007-create");
}

#[test]
fn btrfs_wiki_2007_compilebench() {
    repeat("btrfs-wiki-2007-compilebench");
}

#[test]
fn btrfs_wiki_2007_million() {
    repeat("btrfs-wiki-2007-million");
}

#[test]
fn bonnie_raid1_2008() {
    repeat("bonnie-raid1-2008");
}

#[test]
fn four_filesystems_2011() {
    repeat("four-filesystems-2011");
}

#[test]
fn desktop_and_laptop_2010() {
    repeat("desktop-and-laptop-2010");
}

#[test]
fn web_cache_2003() {
    repeat("web-cache-2003");
}
