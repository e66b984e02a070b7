//! The mistakes of published comparisons, made again on real filesystems: the audit must find each, and
//! must not call defaults unfair.

use serde_json::Value;

use crate::documents::assert_fresh;
use crate::sandbox::{Finished, Sandbox, can_format};

/// Runs a little work twice on each target.
fn compare(sandbox: &Sandbox, targets: &[&str], workload: &str, more: &[&str]) -> Finished {
    let images = sandbox.images().display().to_string();
    let mut arguments = vec!["compare", "--quiet"];
    arguments.extend(targets);
    arguments.extend(["--dir", &images, "--size", "400MiB", "--trials", "2", "-w", workload]);
    arguments.extend(more);
    sandbox.run(arguments)
}

fn result(sandbox: &Sandbox) -> Value {
    sandbox.run(["show", "--json"]).assert_code(0).json()
}

/// The verdict of the only workload.
fn fairness(result: &Value) -> (&str, &str) {
    let own = &result["audit"]["workloads"][0];
    (own["fairness"].as_str().unwrap_or("none"), own["text"].as_str().unwrap())
}

fn row<'a>(result: &'a Value, rule: &str) -> &'a Value {
    let audit = &result["audit"];
    let lists = [&audit["rows"], &audit["workloads"][0]["rows"]];
    let mut rows = lists.into_iter().flat_map(|rows| rows.as_array().unwrap());
    rows.find(|row| row["rule"] == rule).unwrap_or_else(|| panic!("no {rule}"))
}

#[test]
fn barriers_off_for_one_contender_are_found() {
    if !can_format(&["ext3", "ext4", "xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let work = "small-files:files=60,size=16KiB";
    let targets = ["ext3:barrier=0", "ext4", "xfs"];
    let shown = compare(&sandbox, &targets, work, &[]);
    shown.assert_code(0);
    let words = shown.stdout.replace('\n', " ");
    let told = "Verdict: Not comparable because of barriers (off: ext3:barrier=0; on: ext4, xfs, as asked).";
    assert!(words.contains(told), "{}", shown.stdout);
    let result = result(&sandbox);
    assert_eq!(fairness(&result).0, "not-comparable", "{}", fairness(&result).1);
    assert_eq!(row(&result, "barriers")["status"], "different");
    // What else differs is by nature, or by the size of the image.
    let audit = &result["audit"];
    let rows =
        audit["rows"].as_array().unwrap().iter().filter(|row| row["judgement"] == "not-comparable");
    assert_eq!(rows.count(), 1, "{audit}");

    let strict = sandbox.run(["show", "--strict"]);
    strict.assert_code(1);
    assert!(strict.stderr.contains("--strict: small-files: Not comparable"), "{}", strict.stderr);
    sandbox.run(["show", "--audit", "--strict"]).assert_code(1);
    let audit = sandbox.run(["show", "--audit"]);
    audit.assert_code(0);
    assert!(audit.stdout.contains("\nbarriers "), "{}", audit.stdout);
    assert!(audit.stdout.contains("- barriers: off: ext3:barrier=0;"), "{}", audit.stdout);
    let checklist = sandbox.run(["show", "--checklist"]);
    checklist.assert_code(0);
    assert!(checklist.stdout.contains("2 completed of each target"), "{}", checklist.stdout);
    assert!(checklist.stdout.contains("Cold: "), "{}", checklist.stdout);
    sandbox.run(["show", "--audit", "--format", "postmark"]).assert_code(2);
    sandbox.run(["report", "-o", "report.html"]).assert_code(0);
    let page = std::fs::read_to_string(sandbox.path().join("report.html")).unwrap();
    assert!(page.contains("Fairness audit") && page.contains("Not comparable because of barriers"));
    sandbox.assert_nothing_left();
}

#[test]
fn compressible_data_on_a_target_that_compresses_are_found() {
    if !can_format(&["btrfs", "ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let targets = ["btrfs:compress=zstd", "ext4"];
    let work = "bonnie:size=16MiB,ram=0,per_char=0,files=0,seeks=50,payload=original";
    compare(&sandbox, &targets, work, &["--strict"]).assert_code(1);
    let found = result(&sandbox);
    assert_eq!(fairness(&found).0, "not-comparable", "{}", fairness(&found).1);
    let compression = row(&found, "compression");
    let sentence = compression["sentence"].as_str().unwrap();
    assert!(sentence.contains("payload=original"), "{sentence}");
    assert!(sentence.contains("bytes written to the device for each byte"), "{sentence}");
    // Data that state how far they can be compressed are a note.
    let work = "small-files:files=60,size=16KiB";
    compare(&sandbox, &targets, work, &["--strict"]).assert_code(0);
    let found = result(&sandbox);
    assert_eq!(fairness(&found).0, "comparable-with-notes", "{}", fairness(&found).1);
    assert_eq!(row(&found, "compression")["judgement"], "note");
    sandbox.assert_nothing_left();
}

#[test]
fn defaults_are_not_called_unfair() {
    const ALL: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];
    if !can_format(&ALL) {
        return;
    }
    let sandbox = Sandbox::new();
    compare(&sandbox, &ALL, "small-files:files=60,size=16KiB", &["--strict"]).assert_code(0);
    let result = result(&sandbox);
    let (fair, text) = fairness(&result);
    assert_eq!(fair, "comparable-with-notes", "{text}");
    for title in ["data checksums", "copy on write", "copies of metadata"] {
        assert!(text.contains(title), "{text}");
    }
    for rule in ["barriers", "write-cache", "device", "device-size", "atime", "scheduler", "trials"]
    {
        assert_eq!(row(&result, rule)["status"], "same", "{}", row(&result, rule));
    }
    // What can be read back is: nothing of a filesystem of the catalogue stays unknown.
    let unknown: Vec<&Value> = result["audit"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["values"].as_array().unwrap().iter().any(|it| it["value"].is_null()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    sandbox.assert_nothing_left();
}

#[test]
fn one_option_of_one_filesystem_is_a_fair_test_of_it() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let work = "small-files:files=60,size=16KiB";
    compare(&sandbox, &["ext4", "ext4:barrier=0"], work, &["--strict"]).assert_code(1);
    let result = result(&sandbox);
    let text = fairness(&result).1;
    assert!(
        text.contains("ext4 beside ext4:barrier=0 is a fair test of what was asked for"),
        "{text}"
    );
    assert_eq!(row(&result, "barriers")["as_asked"], true);
    sandbox.assert_nothing_left();
}

#[test]
fn two_directories_of_one_filesystem_are_comparable() {
    let sandbox = Sandbox::new();
    let directories = ["a", "b"].map(|name| {
        let path = sandbox.path().join(name);
        std::fs::create_dir(&path).unwrap();
        format!("dir:{}", path.display())
    });
    let targets = directories.each_ref().map(String::as_str);
    compare(&sandbox, &targets, "small-files:files=60", &["--strict"]).assert_code(0);
    let result = result(&sandbox);
    assert_ne!(fairness(&result).0, "not-comparable", "{}", fairness(&result).1);
}

#[test]
fn the_page_of_rules_is_fresh() {
    let sandbox = Sandbox::new();
    let page = sandbox.run(["list", "audit", "--markdown"]);
    page.assert_code(0);
    assert_fresh("docs/AUDIT.md", &page.stdout);
    sandbox.run(["list", "audit"]).assert_code(0);
    let rules = sandbox.run(["list", "audit", "--json"]).assert_code(0).json();
    assert!(rules.as_array().unwrap().len() > 30);
}
