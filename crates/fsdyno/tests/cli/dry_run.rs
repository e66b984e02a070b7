//! The order of trials and the operations of compilebench, without touching a filesystem.

use std::path::Path;

use crate::sandbox::{Sandbox, skip};

const SHARED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");

#[test]
fn the_original_sequence_is_met() {
    let datasets = format!("{SHARED}/compilebench-datasets");
    let golden = format!("{SHARED}/golden/compilebench-i10-r30.txt");
    if !Path::new(&datasets).exists() || !Path::new(&golden).exists() {
        return skip("the original datasets and the golden sequence are not beside the project");
    }
    let sandbox = Sandbox::new();
    let workload = format!("compilebench:trees=10,runs=30,rng=cpython-555,datasets={datasets}");
    let finished = sandbox.run(["dry-run", "--workload", &workload]);
    finished.assert_code(0);
    let golden = std::fs::read_to_string(golden).unwrap();
    let golden: Vec<&str> = golden.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(finished.stdout.lines().collect::<Vec<_>>(), golden);
}

#[test]
fn trials_are_printed_in_their_order() {
    let sandbox = Sandbox::new();
    let plan = "\
[plan]
trials = 2
seed = 5
[[target]]
filesystem = \"ext4\"
[[target]]
filesystem = \"xfs\"
[[workload]]
kind = \"compilebench\"
";
    sandbox.file("plan.toml", plan);
    let finished = sandbox.run(["dry-run", "plan.toml"]);
    finished.assert_code(0);
    let lines: Vec<&str> = finished.stdout.lines().collect();
    assert_eq!(lines.len(), 4);
    for (index, block) in lines.chunks(2).enumerate() {
        for filesystem in ["ext4", "xfs"] {
            let line = format!("{filesystem}\tcompilebench\ttrial {}", index + 1);
            assert!(block.contains(&line.as_str()), "{lines:?}");
        }
    }
    assert_eq!(sandbox.run(["dry-run", "plan.toml"]).stdout, finished.stdout);
    let explained = sandbox.run(["dry-run", "plan.toml", "--trace", "explain"]).stdout;
    let more = "ext4\tcompilebench\texplain trial\nxfs\tcompilebench\texplain trial\n";
    assert_eq!(explained, finished.stdout.clone() + more);
    let json = sandbox.run(["dry-run", "plan.toml", "--json"]).json();
    assert_eq!(json.as_array().map(Vec::len), Some(4));
    assert_eq!(std::fs::read_dir(sandbox.images()).unwrap().count(), 0);
}
