//! From a plan to a table without root, on a directory.

use std::time::{Duration, Instant};

use crate::sandbox::{Sandbox, outcomes};

const PLAN: &str = r#"
[plan]
trials = 3
seed = 7

[[target]]
label = "here"
directory = "a"

[[target]]
label = "there"
directory = "b"

[[workload]]
kind = "small-files"
files = 500
size = "4KiB"

[[workload]]
kind = "compilebench"
trees = 1
runs = 3
"#;

fn plan(sandbox: &Sandbox) -> String {
    for name in ["a", "b"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    sandbox.file("plan.toml", PLAN)
}

#[test]
fn from_a_plan_to_a_table() {
    let sandbox = Sandbox::in_memory();
    let plan = plan(&sandbox);
    let arguments = ["run", plan.as_str(), "--json", "result.json"];
    let started = Instant::now();
    let finished = match sandbox.run_as_nobody(&arguments) {
        Some(finished) => finished,
        None => sandbox.run(arguments),
    };
    // A bound on a hang, not a measurement: the plan takes a few seconds.
    assert!(started.elapsed() < Duration::from_secs(60));
    finished.assert_code(0);
    for word in ["here", "there", "create", "initial-create", "MiB/s", "files/s", "seed 7"] {
        assert!(finished.stdout.contains(word), "{word} is missing:\n{}", finished.stdout);
    }
    let widest = finished.stdout.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest} columns:\n{}", finished.stdout);
    let result = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(outcomes(&result), ["completed"; 12]);
    assert_eq!(result["schema_version"], 1);
    for trial in result["trials"].as_array().unwrap() {
        let verify = &trial["verify"];
        for what in ["files", "bytes"] {
            assert!(verify[what].as_u64().is_some_and(|count| count > 0), "{verify}");
        }
        assert_eq!(trial["verify"]["mismatches"].as_array().map_or(0, Vec::len), 0);
    }
    for name in ["a", "b"] {
        let left: Vec<_> = std::fs::read_dir(sandbox.path().join(name)).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    sandbox.assert_nothing_left();
}

#[test]
fn stored_runs_are_listed_and_shown() {
    let sandbox = Sandbox::in_memory();
    assert_eq!(sandbox.run(["runs"]).code, Some(1));
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let arguments =
        ["compare", "dir:a", "-n", "2", "--workload", "small-files:files=50", "--json", "-"];
    let first = sandbox.run(arguments);
    first.assert_code(0);
    let shown = sandbox.run(["show", "--json"]);
    shown.assert_code(0);
    assert_eq!(shown.json(), first.json());
    let runs = sandbox.run(["runs", "--json"]).json();
    assert_eq!(runs[0]["trials_completed"], 2);
    let id = runs[0]["id"].as_str().unwrap().to_owned();
    assert!(sandbox.run(["runs"]).stdout.contains(&id));
    sandbox.run(["show", &id[..8]]).assert_code(0);
    sandbox.run(["show", "nonsense"]).assert_code(1);
    let markdown = sandbox.run(["show", "--format", "markdown"]);
    assert!(
        markdown.stdout.contains("| create |") || markdown.stdout.contains("|---"),
        "{}",
        markdown.stdout
    );
}

#[test]
fn the_order_and_the_work_are_a_function_of_the_seed() {
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let counts = |seed: &str| -> Vec<(String, u64, u64)> {
        let workload = "compilebench:trees=2,runs=6,rng=seed";
        let finished = sandbox
            .run(["compare", "dir:a", "-n", "1", "--seed", seed, "-w", workload, "--json", "-"]);
        finished.assert_code(0);
        let result = finished.json();
        let phases = result["trials"][0]["phases"].as_array().unwrap().clone();
        phases
            .iter()
            .map(|phase| {
                let number = |key: &str| phase[key].as_u64().unwrap();
                (phase["name"].as_str().unwrap().to_owned(), number("operations"), number("bytes"))
            })
            .collect()
    };
    let first = counts("3");
    assert_eq!(first, counts("3"));
    assert_ne!(first, counts("4"));
}
