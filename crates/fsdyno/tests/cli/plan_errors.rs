//! What a user reads who wrote a plan, a target or an option wrong.

use crate::sandbox::Sandbox;

#[test]
fn every_error_of_a_plan_is_drawn() {
    let sandbox = Sandbox::new();
    let plan = "\
[plan]
trails = 3
size = \"8 gigs\"

[[target]]
filesystem = \"ext5\"

[[target]]
filesystem = \"btrfs\"
journal = true

[[workload]]
kind = \"compilebench\"
trees = 0
buffers = 3
";
    sandbox.file("plan.toml", plan);
    for verb in ["check", "run", "dry-run"] {
        let finished = sandbox.run([verb, "plan.toml"]);
        finished.assert_code(2);
        insta::allow_duplicates! {
            insta::assert_snapshot!(finished.stderr);
        }
    }
}

#[test]
fn bad_targets_and_options_are_told_together() {
    let sandbox = Sandbox::new();
    let finished = sandbox.run([
        "compare",
        "ext44",
        "xfs+journal",
        "ext4@sdb",
        "--workload",
        "compilebench:trees=x,tree=1",
        "--size",
        "9q",
    ]);
    finished.assert_code(2);
    insta::assert_snapshot!(finished.stderr);
    sandbox.assert_nothing_left();
}

#[test]
fn bad_input_of_all_kinds_exits_with_2() {
    let sandbox = Sandbox::new();
    sandbox.file("broken.toml", "[plan\ntrials = ");
    sandbox.file("empty.toml", "");
    sandbox.file("binary.toml", "\u{0}\u{1}\u{fffd}");
    let lines = [
        "compare",
        "compare ext4 ext4",
        "compare ext4 --trials 0",
        "compare ext4 --size 1k",
        "compare dir:/does/not/exist",
        "compare dir:",
        "compare ext4 --max-time never",
        "compare ext4 --workload nonsense",
        "run",
        "run absent.toml",
        "run broken.toml",
        "run empty.toml",
        "run binary.toml",
        "run --resume",
        "check absent.toml",
        "dry-run",
        "dry-run --workload compilebench:datasets=/does/not/exist",
        "compare dir:. --workload compilebench:datasets=/does/not/exist",
        "compare dir:. --json /does/not/exist.json",
        "compare dir:. --json - --format markdown",
        "compare dir:. --format compilebench --workload small-files:files=5",
        "compare dir:. --destroy /dev/null",
        "compare ext4:ro",
        "list devices --markdown",
        "list nonsense",
        "list workloads nonsense",
        "dataset from-tree /does/not/exist",
        "completions nonsense",
        "nonsense",
    ];
    for line in lines {
        let finished = sandbox.run(line.split(' '));
        assert_eq!(finished.code, Some(2), "{line}\n{}{}", finished.stdout, finished.stderr);
        assert!(!finished.stderr.contains("panicked"), "{line}\n{}", finished.stderr);
        assert!(!finished.stderr.trim().is_empty(), "{line}");
        assert!(finished.stdout.is_empty(), "{line}: something ran: {}", finished.stdout);
    }
    assert_eq!(sandbox.run(["runs", "--json"]).json(), serde_json::json!([]), "a run was begun");
    sandbox.assert_nothing_left();
}

#[test]
fn a_good_plan_passes() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "plan.toml",
        "[[target]]\nfilesystem = \"ext4\"\n[[workload]]\nkind = \"compilebench\"\n",
    );
    let finished = sandbox.run(["check", "plan.toml"]);
    finished.assert_code(0);
    assert!(finished.stdout.contains("5 to 20 trials"), "{}", finished.stdout);
    let understood = sandbox.run(["check", "plan.toml", "--json"]).json();
    assert_eq!((&understood["trials"], &understood["stop"]["min_trials"]), (&20.into(), &5.into()));
}

#[test]
fn the_plans_that_are_shipped_are_good() {
    let sandbox = Sandbox::new();
    let plans = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
    let mut count = 0;
    // Those below `published` are read with their scales, elsewhere.
    for entry in std::fs::read_dir(plans).unwrap().flatten().filter(|it| it.path().is_file()) {
        let path = entry.path().display().to_string();
        sandbox.run(["check", path.as_str()]).assert_code(0);
        count += 1;
    }
    assert!(count >= 2);
}

#[test]
fn the_defaults_fit_their_image() {
    let sandbox = Sandbox::new();
    let info = fsdyno_workload::catalog::find("compilebench").unwrap();
    let params = fsdyno_model::param::Params::defaults(info.info().params, false);
    let peak_bytes = info.peak_bytes(&params).unwrap().unwrap();
    // With a fifth for the filesystem's own.
    assert!(peak_bytes + peak_bytes / 5 < fsdyno_model::plan::DEFAULT_SIZE_BYTES, "{peak_bytes}");
    // What does not fit is said before anything runs.
    let images = sandbox.images().display().to_string();
    let workload = "small-files:files=200,size=1MiB";
    let arguments =
        ["compare", "ext4", "--size", "64MiB", "-n", "1", "-w", workload, "--dir", &images];
    let warned = sandbox.run(arguments);
    warned.assert_code(1);
    assert!(warned.stderr.contains("holds up to"), "{}", warned.stderr);
    sandbox.assert_nothing_left();
}
