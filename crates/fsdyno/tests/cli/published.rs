//! Published comparisons, run again at the least scale: on the host, and in virtual time on the emulated disks
//! of their machines.

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, can_format, is_long_asked};
use crate::virtual_time::can_run_guests;

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
        "--clock",
        "real",
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

/// Runs a plan as an ordinary user would who says nothing of where: in virtual time.
fn repeat_in_virtual_time(sandbox: &Sandbox, name: &str, more: &[&str]) -> Finished {
    let images = sandbox.images().display().to_string();
    let own = ["run", "--published", name, "--scale", "smoke", "--dir", &images];
    let mut command = sandbox.command_as_nobody(&[&own, more].concat());
    Finished::of(&command.output().expect("the binary starts"))
}

/// Every target ran, those whose driver the host's kernel lacks too, on its model, the first alike in two guests.
fn assert_measured(result: &Value, disks: &[&str]) {
    assert_eq!(result["run"]["environment"]["measured"]["clock"], "virtual");
    for trial in result["trials"].as_array().unwrap() {
        let is_rung = trial["workload"].as_str().unwrap().contains("rung");
        let outcome = &trial["outcome"];
        assert!(outcome == "completed" || (is_rung && outcome == "skipped"), "{trial:#}");
        assert!(outcome == "skipped" || trial["virtual_time"]["guests"].as_u64() >= Some(1));
        assert!(!trial["warnings"].to_string().contains("not-identical"), "{trial:#}");
    }
    let guests = result["trials"].as_array().unwrap().iter();
    let guests = guests.filter_map(|trial| trial["virtual_time"]["guests"].as_u64());
    assert!(guests.max() >= Some(2), "none was made twice");
    for target in result["targets"].as_array().unwrap() {
        let model = target["device_facts"]["disk_model"].as_str().unwrap();
        assert!(disks.contains(&model), "{target:#}");
    }
    let then_and_now = &result["then_and_now"];
    let setting = then_and_now["setting"].to_string();
    assert!(
        setting.contains("in virtual time, on") && setting.contains("Data and memory"),
        "{setting}"
    );
    // A difference is a difference: no pair is left open but those that were equal then.
    for pair in then_and_now["pairs"].as_array().unwrap() {
        assert_eq!(pair["now_low"], pair["now"], "{pair:#}");
    }
}

#[test]
fn a_plan_is_repeated_in_virtual_time_unless_told_otherwise() {
    if !can_run_guests() {
        return;
    }
    let sandbox = Sandbox::new();
    let more = ["--json", "result.json", "--phase-timeout", "2h"];
    let finished = repeat_in_virtual_time(&sandbox, "bonnie-raid1-2008", &more);
    finished.assert_code(0);
    assert!(finished.stdout.contains("Then and now"), "{}", finished.stdout);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_measured(&result, &["mirror-2008"]);
    assert!(!result["then_and_now"]["tau"].is_null());
    sandbox.assert_nothing_left();
}

#[test]
fn a_phase_over_its_time_ends_with_what_was_done() {
    let sandbox = Sandbox::in_memory();
    let directory = sandbox.path().join("work");
    std::fs::create_dir(&directory).unwrap();
    let plan = sandbox.path().join("plan.toml");
    let text = format!(
        "[plan]\ntrials = 1\nphase_timeout = \"1s\"\n[[target]]\ndirectory = {:?}\n\
         [[workload]]\nkind = \"command\"\ncommand = \"sleep 300\"\n",
        directory.display().to_string()
    );
    std::fs::write(&plan, text).unwrap();
    let plan = plan.display().to_string();
    sandbox.run(["run", &plan, "--no-yardstick"]).assert_code(1);
    let result = sandbox.run(["show", "--json"]).json();
    let trial = &result["trials"][0];
    assert_eq!(trial["outcome"], "timed_out", "{trial:#}");
    let error = trial["error"].as_str().unwrap();
    assert!(error.contains("phase_timeout") && error.contains("% of the trial's work"), "{error}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let sandbox = Sandbox::in_memory();
    for (more, words) in [
        (&["--on", "/dev/null", "--clock", "virtual"][..], "--on is a disk of this machine"),
        (&["--machine", "desktop", "--clock", "real"], "--machine is of emulated disks"),
        (&["--machine", "server"], "there are desktop, laptop"),
    ] {
        let own = ["run", "--published", "desktop-and-laptop-2010", "--scale", "smoke"];
        let refused = sandbox.run([&own, more].concat());
        refused.assert_code(2);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

/// Without a kernel the other ways are named.
#[test]
fn without_guests_the_other_ways_are_told() {
    let sandbox = Sandbox::in_memory();
    let own = ["run", "--published", "bonnie-raid1-2008", "--kernel", "/nonexistent/vmlinuz"];
    let refused = sandbox.run(own);
    refused.assert_code(2);
    for words in ["no guest can be run", "--clock real", "--on DEVICE"] {
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

#[test]
fn every_plan_is_repeated_in_virtual_time() {
    if !can_run_guests() || !is_long_asked() {
        return;
    }
    for (name, disks) in [
        ("btrfs-wiki-2007-create", &["hdd-7200-2007"][..]),
        ("btrfs-wiki-2007-compilebench", &["hdd-7200-2007"]),
        ("btrfs-wiki-2007-million", &["hdd-7200-2007"]),
        ("four-filesystems-2011", &["hdd-7200-2007"]),
        ("web-cache-2003", &["stripe-6-scsi-2003", "stripe-6-scsi-2003, mirror-scsi-2003"]),
    ] {
        let sandbox = Sandbox::new();
        let finished = repeat_in_virtual_time(&sandbox, name, &["--json", "-"]);
        finished.assert_code(0);
        assert_measured(&finished.json(), disks);
        sandbox.assert_nothing_left();
    }
}

#[test]
fn two_machines_give_two_results() {
    if !can_run_guests() || !is_long_asked() {
        return;
    }
    let sandbox = Sandbox::new();
    let more = ["--json", "result.json"];
    repeat_in_virtual_time(&sandbox, "desktop-and-laptop-2010", &more).assert_code(0);
    for (machine, disk) in [("desktop", "hdd-5400-2010"), ("laptop", "hdd-5400-laptop-2006")] {
        let path = sandbox.path().join(format!("result-{machine}.json"));
        let result: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(result["then_and_now"]["machine"], machine);
        assert_measured(&result, &[disk]);
    }
    sandbox.assert_nothing_left();
}
