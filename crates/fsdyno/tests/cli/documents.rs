//! Generated pages are fresh, and help, completions and manual pages come from one definition.
//! `UPDATE_DOCS=1 cargo test -p fsdyno --test cli documents` writes the pages anew.

use std::path::{Path, PathBuf};

use crate::sandbox::Sandbox;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn assert_fresh(page: &str, text: &str) {
    let path = repository().join(page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "{page} is stale: UPDATE_DOCS=1 cargo test -p fsdyno --test cli documents"
    );
}

#[test]
fn catalogue_pages_are_fresh() {
    let sandbox = Sandbox::new();
    let names: Vec<String> = sandbox
        .run(["list", "workloads", "--json"])
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|workload| workload["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.iter().any(|name| name == "compilebench"));
    for name in &names {
        let page = sandbox.run(["list", "workloads", name, "--markdown"]);
        page.assert_code(0);
        for heading in ["Timed", "Not timed", "Models", "Read it as", "Caveats"] {
            assert!(page.stdout.contains(heading), "{name}: {heading}");
        }
        assert_fresh(&format!("docs/catalog/{name}.md"), &page.stdout);
    }
    for what in ["workloads", "filesystems", "metrics", "plans"] {
        let page = sandbox.run(["list", what, "--markdown"]);
        page.assert_code(0);
        assert_fresh(&format!("docs/catalog/{what}.md"), &page.stdout);
        sandbox.run(["list", what]).assert_code(0);
    }
    sandbox.run(["list", "devices", "--json"]).assert_code(0).json();
}

/// The rows of the list of plans in one table, in the page that says how figures are made.
#[test]
fn every_published_figure_is_in_the_methodology() {
    const PAGE: &str = "docs/METHODOLOGY.md";
    let sandbox = Sandbox::in_memory();
    let listed = sandbox.run(["list", "plans", "--markdown"]).stdout;
    let mut table =
        "| plan | operation | repeated by | unit | published |\n|---|---|---|---|---|\n".to_owned();
    let mut plan = "";
    for line in listed.lines() {
        plan = line.strip_prefix("## ").unwrap_or(plan);
        if line.starts_with("| ") && !line.starts_with("| operation ") {
            table.push_str(&format!("| {plan} {line}\n"));
        }
    }
    assert!(table.lines().count() > 50, "{table}");
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let (before, rest) = page.split_once("<!-- every published figure: begin -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- every published figure: end -->").unwrap();
    let made = format!(
        "{before}<!-- every published figure: begin -->\n{table}<!-- every published figure: end -->{after}"
    );
    assert_fresh(PAGE, &made);
}

#[test]
fn the_schema_holds_a_real_result() {
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let finished = sandbox.run([
        "compare",
        "dir:a",
        "dir:a2",
        "-n",
        "2",
        "-w",
        "small-files:files=50",
        "-w",
        "compilebench:trees=1,runs=2",
        "--json",
        "-",
    ]);
    // The second directory does not exist: bad input, told before anything runs.
    finished.assert_code(2);
    let finished = sandbox.run([
        "compare",
        "dir:a",
        "-n",
        "2",
        "-w",
        "small-files:files=50",
        "-w",
        "compilebench:trees=1,runs=2",
        "--json",
        "-",
    ]);
    finished.assert_code(0);
    let schema = std::fs::read_to_string(repository().join("docs/results.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let result = finished.json();
    let errors: Vec<String> =
        validator.iter_errors(&result).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let mut broken = result;
    broken["trials"][0]["outcome"] = "splendid".into();
    assert!(!validator.is_valid(&broken));
}

#[test]
fn completions_and_manual_pages_are_made() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(["completions", shell]);
        script.assert_code(0);
        assert!(script.stdout.contains("compare"), "{shell}");
    }
    assert!(sandbox.run(["man"]).stdout.contains(".TH"));
    sandbox.run(["man", "--dir", "pages"]).assert_code(0);
    assert!(sandbox.path().join("pages/fsdyno-compare.1").exists());
}

#[test]
fn doctor_answers() {
    let sandbox = Sandbox::new();
    let finished = sandbox.run(["doctor", "--json"]);
    assert!(matches!(finished.code, Some(0 | 1)), "{}", finished.stderr);
    let checks = finished.json();
    let names: Vec<&str> =
        checks.as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in ["ext4", "xfs", "btrfs", "loop", "emulated disks"] {
        assert!(names.iter().any(|one| one.contains(name)), "{name}: {names:?}");
    }
    let refused = sandbox.run(["doctor", "ext5"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("list filesystems"), "{}", refused.stderr);
}
