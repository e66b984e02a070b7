//! Every workload of the catalogue with its `--quick` parameters: on loop devices with three
//! filesystems, or with all five, and in a plain directory as an ordinary user.

use std::collections::BTreeSet;

use crate::project;
use crate::sandbox::{Finished, Sandbox, can_format, has_postgres, outcomes};
use serde_json::Value;

const FIVE: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs"];
const THREE: &[&str] = &["ext4", "xfs", "btrfs"];

#[test]
fn every_workload_has_its_test() {
    let kinds: BTreeSet<&str> = WORKLOADS.iter().map(|text| kind(text)).collect();
    let known = fsdyno_workload::catalog::infos().iter().map(|info| info.name).collect();
    assert_eq!(kinds, known);
}

fn kind(text: &str) -> &str {
    text.split_once(':').map_or(text, |(kind, _)| kind)
}

/// The workload as the command line takes it; the phase `fragmentation` is wanted too.
fn spelled(sandbox: &Sandbox, text: &str) -> String {
    let text = text.replace("SOURCE", &project::archive(sandbox.path()).display().to_string());
    let separator = if text.contains(':') { ',' } else { ':' };
    format!("{text}{separator}fragmentation=true")
}

/// Whether every trial completed with phases that the catalogue knows and that did something.
fn assert_complete(result: &Value, text: &str, trials: usize) {
    assert_eq!(outcomes(result), vec!["completed"; trials], "{text}: {result:#}");
    let info = fsdyno_workload::catalog::find(kind(text)).unwrap().info();
    let known: BTreeSet<&str> = info.phases.iter().map(|phase| phase.name).collect();
    for trial in result["trials"].as_array().unwrap() {
        let phases = trial["phases"].as_array().unwrap();
        let names: BTreeSet<&str> =
            phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
        assert!(names.contains("fragmentation"), "{text}: {names:?}");
        let unknown: Vec<_> = names.difference(&known).filter(|name| **name != "fsck").collect();
        assert!(unknown.is_empty(), "{text}: {unknown:?} are not in its documentation");
        for phase in phases {
            assert!(phase["elapsed_return_ns"].as_u64() > Some(0), "{text}: {phase}");
        }
    }
}

/// Whether what a workload needs of the machine is there; prints what is missing.
fn can_run(text: &str) -> bool {
    kind(text) != "postgres" || has_postgres()
}

fn on_filesystems(text: &str, filesystems: &[&str]) {
    if !can_run(text) || !can_format(filesystems) {
        return;
    }
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let workload = spelled(&sandbox, text);
    let mut arguments = vec!["compare"];
    arguments.extend(filesystems);
    arguments.extend(["--quick", "-n", "1", "--dir", &images, "-w", &workload, "--json", "-"]);
    let finished = sandbox.run(arguments);
    finished.assert_code(0);
    let result = finished.json();
    assert_complete(&result, text, filesystems.len());
    for trial in result["trials"].as_array().unwrap() {
        assert_eq!(trial["fsck"]["exit_code"], 0, "{text}: {}", trial["fsck"]);
    }
    sandbox.assert_nothing_left();
}

fn in_a_directory(text: &str) {
    if !can_run(text) {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let workload = spelled(&sandbox, text);
    let arguments =
        ["compare", "dir:a", "--quick", "-n", "1", "-w", workload.as_str(), "--json", "-"];
    let finished: Finished =
        sandbox.run_as_nobody(&arguments).unwrap_or_else(|| sandbox.run(arguments));
    finished.assert_code(0);
    assert_complete(&finished.json(), text, 1);
    assert_eq!(std::fs::read_dir(sandbox.path().join("a")).unwrap().count(), 0, "{text}");
    sandbox.assert_nothing_left();
}

/// Two tests for each workload, which run side by side, and their list.
macro_rules! walk {
    ($($name:ident: $text:literal on $filesystems:ident,)*) => {
        /// The workloads that have a test below, as they are given on the command line. `SOURCE` stands
        /// for an archive of a small C project.
        const WORKLOADS: &[&str] = &[$($text),*];

        mod filesystems {
            $(#[test] fn $name() { super::on_filesystems($text, super::$filesystems); })*
        }
        mod directory {
            $(#[test] fn $name() { super::in_a_directory($text); })*
        }
    };
}

walk! {
    compilebench: "compilebench" on THREE,
    small_files: "small-files" on FIVE,
    million_files: "million-files" on THREE,
    bonnie: "bonnie" on THREE,
    postmark: "postmark" on THREE,
    web_cache: "web-cache" on THREE,
    kernel_source: "kernel-source:archive=SOURCE" on THREE,
    package_install: "package-install" on THREE,
    random_io: "random-io" on THREE,
    read_speed: "read-speed" on THREE,
    command: "command" on THREE,
    postgres: "postgres" on THREE,
    sqlite: "sqlite" on THREE,
    fs_mark: "fs-mark" on THREE,
    fileio: "fileio" on THREE,
    boot: "boot" on THREE,
    fileserver: "fileserver" on THREE,
    many_clients: "many-clients" on THREE,
    oltp: "oltp" on THREE,
    varmail: "varmail" on THREE,
    webproxy: "webproxy" on THREE,
    webserver: "webserver" on THREE,
    dbench: "dbench" on THREE,
    mdtest: "mdtest" on THREE,
}
