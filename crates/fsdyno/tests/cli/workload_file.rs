//! Workloads in files of the user's: what is said of their faults, how they are shown, and runs of them.

use std::fmt::Write as _;

use fsdyno::store::{Store, StoredRun};

use crate::sandbox::{Sandbox, outcomes};

/// A small workload without a fault.
const GOOD: &str = r#"name = "mine"
summary = "files are made, asked for and removed"
semaphores = ["full"]

[params.files]
kind = "count"
default = 200
quick = 20
min = 1
doc = "number of files"

[params.block]
kind = "bytes"
default = "4KiB"
doc = "bytes of one call"

[[fileset]]
name = "files"
entries = "$files"
size = { uniform = { min = "1KiB", max = "16KiB" } }
width = 10

[[fileset]]
name = "other"
entries = 10
kind = "directories"

[[phase]]
name = "create"
doc = "makes the files"

[[phase.group]]
name = "maker"
steps = [
  { op = "create", fileset = "files", pick = "once" },
  { op = "write", whole = true, block = "$block" },
  { op = "close" },
]

[[phase]]
name = "mixed"
doc = "asks for files and makes them new"
metric = "tasks_per_s"
tasks = 50

[[phase.group]]
name = "user"
jobs = 2
tasks = [
  { weight = 3, steps = [{ op = "stat", fileset = "files" }] },
  { weight = 1, steps = [
    { op = "unlink", fileset = "files" },
    { op = "create", fileset = "files", slot = 1 },
    { op = "append", slot = 1, bytes = 1000 },
    { op = "close", slot = 1 },
  ] },
]
"#;

/// A part of the good text, and what a user may have written instead.
const FAULTS: &[(&str, &str)] = &[
    ("name = \"mine\"", "name = \"My Workload\""),
    ("summary = \"files are made, asked for and removed\"\n", ""),
    ("summary", "sumary"),
    ("semaphores = [\"full\"]", "semaphores = \"full\""),
    ("kind = \"count\"", "kind = \"number\""),
    ("default = 200", "default = \"many\""),
    ("quick = 20", "quick = 0"),
    ("[params.block]", "[params.sync]"),
    ("block = \"$block\"", "block = \"4KiB\""),
    ("block = \"$block\"", "block = \"$blok\""),
    ("entries = \"$files\"", "entries = \"$files / 100\""),
    ("entries = \"$files\"", "entries = \"$files + 1\""),
    ("entries = \"$files\"", "entries = 0"),
    ("min = \"1KiB\", max", "min = \"1MiB\", max"),
    ("{ uniform = { min = \"1KiB\", max = \"16KiB\" } }", "\"16 kilobytes\""),
    ("uniform = { min", "unifrom = { min"),
    ("{ uniform = { min = \"1KiB\", max = \"16KiB\" } }", "{ empirical = [[\"4KiB\", 0]] }"),
    ("width = 10", "depth = 3"),
    ("name = \"other\"", "name = \"files\""),
    ("kind = \"directories\"", "kind = \"folders\""),
    ("kind = \"directories\"", "list = \"files.txt\""),
    ("name = \"mixed\"", "name = \"create\""),
    ("metric = \"tasks_per_s\"", "metric = \"task_per_s\""),
    ("tasks = 50", "runtime = \"fast\""),
    ("tasks = 50", "runtime = 30.5"),
    ("tasks = 50", "baseline = \"before\"\ntasks = 50"),
    ("tasks = 50", "cold = \"ice\"\ntasks = 50"),
    ("tasks = 50\n", ""),
    ("jobs = 2", "jobs = 0"),
    ("jobs = 2", "background = true"),
    ("jobs = 2", "arrivals = \"even\""),
    ("jobs = 2", "rate = 10\nthink = \"1ms\""),
    ("jobs = 2", "engine = \"libaio\""),
    ("jobs = 2", "iodepth = 8"),
    ("jobs = 2", "record_as = \"fragmentation\""),
    ("weight = 3", "weight = -3"),
    ("weight = 3", "wait = 3"),
    ("op = \"stat\", fileset = \"files\"", "op = \"state\", fileset = \"files\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"stat\", fileset = \"file\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"stat\""),
    ("op = \"stat\", fileset = \"files\"", "fileset = \"files\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"stat\", fileset = \"files\", slot = 1"),
    ("op = \"stat\", fileset = \"files\"", "op = \"mkdir\", fileset = \"files\""),
    (
        "op = \"stat\", fileset = \"files\"",
        "op = \"rename\", fileset = \"files\", into = \"other\"",
    ),
    ("op = \"stat\", fileset = \"files\"", "op = \"stat\", fileset = \"files\", pick = \"any\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"replay\", fileset = \"files\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"wait\", semaphore = \"full\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"post\", semaphore = \"empty\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"fsync\""),
    ("op = \"stat\", fileset = \"files\"", "op = \"sleep\", for = 5"),
    (
        "op = \"stat\", fileset = \"files\"",
        "repeat = 0, steps = [{ op = \"stat\", fileset = \"files\" }]",
    ),
    ("slot = 1, bytes", "slot = 16, bytes"),
    ("slot = 1, bytes", "bytes"),
    ("slot = 1, bytes = 1000", "slot = 1"),
    (
        "op = \"create\", fileset = \"files\", slot = 1",
        "op = \"open\", fileset = \"files\", slot = 1",
    ),
    ("pick = \"once\"", "pick = \"once\", direct = true"),
    ("whole = true, block = \"$block\"", "whole = true, block = \"$block\", access = \"random\""),
    ("whole = true, ", "access = \"zip\", "),
    ("whole = true, block = \"$block\"", "access = \"random\""),
    ("steps = [\n  { op = \"create\"", "stps = [\n  { op = \"create\""),
    ("{ op = \"close\" },\n", "{ op = \"close\" \n"),
];

#[test]
fn a_good_file_passes() {
    let sandbox = Sandbox::in_memory();
    sandbox.file("mine.toml", GOOD);
    let finished = sandbox.run(["check", "mine.toml"]);
    finished.assert_code(0);
    assert!(finished.stdout.contains("create, mixed, fragmentation"), "{}", finished.stdout);
    let json = sandbox.run(["check", "mine.toml", "--json"]).json();
    assert_eq!(json["name"], "mine");
}

#[test]
fn every_fault_is_drawn_at_its_place() {
    let sandbox = Sandbox::in_memory();
    let mut all = String::new();
    for (part, instead) in FAULTS {
        assert!(GOOD.contains(part), "{part}");
        // A block that is not aligned is a fault of direct I/O alone.
        let text = GOOD.replacen(part, instead, 1);
        let text = if instead.contains("direct = ") {
            text.replace("default = \"4KiB\"", "default = 1000")
        } else {
            text
        };
        sandbox.file("mine.toml", &text);
        let finished = sandbox.run(["check", "mine.toml"]);
        assert_eq!(finished.code, Some(2), "{instead}\n{}{}", finished.stdout, finished.stderr);
        let drawn = finished.stderr.replace("fsdyno: the workload mine.toml cannot be run\n", "");
        writeln!(all, "===== {}\n{}", instead.escape_debug(), drawn.trim_end()).unwrap();
    }
    insta::assert_snapshot!(all);
}

#[test]
fn all_faults_of_a_file_are_told_at_once() {
    let sandbox = Sandbox::in_memory();
    let text = GOOD
        .replace("quick = 20", "quick = 20.5")
        .replace("width = 10", "with = 10")
        .replace("jobs = 2", "jobs = \"two\"")
        .replace("op = \"unlink\"", "op = \"delete\"");
    sandbox.file("mine.toml", &text);
    sandbox.file(
        "plan.toml",
        "[[target]]\ndirectory = \".\"\n\n[[workload]]\nfile = \"mine.toml\"\nfiles = 3\n",
    );
    for arguments in [
        &["check", "mine.toml"][..],
        &["dry-run", "-w", "mine.toml"],
        &["compare", "dir:.", "-w", "mine.toml"],
        &["check", "plan.toml"],
    ] {
        let finished = sandbox.run(arguments.iter().copied());
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        for words in ["4 errors", "whole number", "`with`", "`delete`", "found a string"] {
            assert!(finished.stderr.contains(words), "{arguments:?}: {}", finished.stderr);
        }
    }
}

#[test]
fn a_parameter_that_does_not_fit_is_answered() {
    let sandbox = Sandbox::in_memory();
    sandbox.file("mine.toml", &GOOD.replace("entries = \"$files\"", "entries = \"$files / 2\""));
    for (workload, words) in [
        ("mine.toml:files=1", "`$files / 2` is 0"),
        ("mine.toml:files=0", "files must be at least 1"),
        ("mine.toml:file=5", "did you mean `files`"),
        ("absent.toml", "cannot read the workload"),
    ] {
        for verb in [&["dry-run"][..], &["compare", "dir:."]] {
            let arguments = verb.iter().copied().chain(["-w", workload]);
            let finished = sandbox.run(arguments);
            assert_eq!(finished.code, Some(2), "{workload}: {}", finished.stderr);
            assert!(finished.stderr.contains(words), "{workload}: {}", finished.stderr);
        }
    }
}

#[test]
fn a_file_is_shown_as_documentation_and_as_text() {
    let sandbox = Sandbox::in_memory();
    sandbox.file("mine.toml", GOOD);
    let shown = sandbox.run(["list", "workloads", "mine.toml"]);
    shown.assert_code(0);
    for words in
        ["files are made, asked for", "number of files", "asks for files and makes", "payload"]
    {
        assert!(shown.stdout.contains(words), "{words}: {}", shown.stdout);
    }
    let text = sandbox.run(["list", "workloads", "--toml", "mine.toml"]);
    text.assert_code(0);
    assert_eq!(text.stdout, GOOD);
    let code = sandbox.run(["list", "workloads", "--toml", "small-files"]);
    assert_eq!(code.code, Some(2));
    assert!(code.stderr.contains("small-files is code"), "{}", code.stderr);
    // Each text of the catalogue is a file that can be used as it is.
    for workload in fsdyno_workload::catalog::all() {
        let Some(definition) = workload.text() else { continue };
        let name = workload.info().name;
        let printed = sandbox.run(["list", "workloads", "--toml", name]);
        assert_eq!(printed.stdout, definition);
        sandbox.file("printed.toml", &printed.stdout);
        sandbox.run(["check", "printed.toml"]).assert_code(0);
    }
}

#[test]
fn a_run_needs_its_file_no_more() {
    let sandbox = Sandbox::in_memory();
    // The name of a workload of the catalogue is no obstacle.
    sandbox.file("mine.toml", &GOOD.replace("name = \"mine\"", "name = \"postmark\""));
    let place = sandbox.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let target = format!("dir:{}", place.display());
    let arguments = ["compare", &target, "-n", "2", "-w", "mine.toml:files=30,block=1KiB"];
    let finished = sandbox.run(arguments.into_iter().chain(["--json", "-"]));
    finished.assert_code(0);
    let result = finished.json();
    assert_eq!(outcomes(&result), ["completed", "completed"], "{result:#}");
    let phases = result["trials"][0]["phases"].as_array().unwrap();
    let names: Vec<&str> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["create", "mixed"]);

    std::fs::remove_file(sandbox.path().join("mine.toml")).unwrap();
    let run = result["run"]["id"].as_str().unwrap_or("last").to_owned();
    let shown = sandbox.run(["show", &run]);
    shown.assert_code(0);
    assert!(shown.stdout.contains("mixed"), "{}", shown.stdout);
    // The same plan once more, as a run that was cut off before its first trial.
    let database = sandbox.path().join("data/fsdyno/results.sqlite");
    let mut store = Store::open_existing(&database).unwrap();
    let whole = store.run(Some(&run)).unwrap();
    assert!(whole.plan.workloads[0].definition.is_some());
    let id = "20260102-030405-0000".to_owned();
    store.begin_run(&StoredRun { id, finished_unix_ns: None, ..whole }).unwrap();
    drop(store);
    let resumed = sandbox.run(["run", "--resume", "--json", "-"]);
    resumed.assert_code(0);
    assert_eq!(outcomes(&resumed.json()), ["completed", "completed"]);
    // The format of another workload that is called the same is not offered for it.
    let original = sandbox.run(["show", &run, "--format", "postmark"]);
    assert_eq!(original.code, Some(2), "{}{}", original.stdout, original.stderr);
}

#[test]
fn the_example_of_the_documentation_is_good() {
    let page = include_str!("../../../../docs/WORKLOADS.md");
    let start = page.find("```toml\nname = ").expect("the worked example") + "```toml\n".len();
    let text = &page[start..start + page[start..].find("```").unwrap()];
    let sandbox = Sandbox::in_memory();
    sandbox.file("example.toml", text);
    sandbox.run(["check", "example.toml"]).assert_code(0);
    let place = sandbox.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let target = format!("dir:{}", place.display());
    let finished = sandbox.run([
        "compare",
        &target,
        "--quick",
        "-n",
        "1",
        "-w",
        "example.toml",
        "--json",
        "-",
    ]);
    finished.assert_code(0);
    assert_eq!(outcomes(&finished.json()), ["completed"]);
}
