//! `fsdyno diff`, `fsdyno history` and `fsdyno merge`: runs beside each other, over time, and from
//! several databases in one.

use std::path::Path;

use fsdyno::store::{Store, StoredRun};
use fsdyno_model::record::{PhaseRecord, TrialRecord};
use serde_json::Value;

use crate::sandbox::{Finished, Sandbox};

/// Runs a small workload once, into `real.sqlite`, so that there is something to make runs of.
fn real_run(sandbox: &Sandbox) -> (StoredRun, Vec<TrialRecord>) {
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let arguments = ["compare", "dir:a", "-n", "3", "--quick", "-w", "small-files:files=20"];
    let database = ["--db", "real.sqlite", "--quiet"];
    sandbox.run(arguments.into_iter().chain(database)).assert_code(0);
    let store = Store::open(&sandbox.path().join("real.sqlite")).unwrap();
    let run = store.run(None).unwrap();
    let trials = store.trials(&run.id).unwrap();
    (run, trials)
}

/// A run like `like` whose phases take so many seconds, with a little noise.
fn put_run(
    database: &Path,
    like: &(StoredRun, Vec<TrialRecord>),
    day: u32,
    seconds: f64,
) -> String {
    let mut store = Store::open(database).unwrap();
    let id = format!("202601{day:02}-000000-0001");
    let run = StoredRun {
        id: id.clone(),
        started_unix_ns: (1_767_225_600 + 86_400 * u64::from(day)) * 1_000_000_000,
        finished_unix_ns: None,
        ..like.0.clone()
    };
    store.begin_run(&run).unwrap();
    for trial in &like.1 {
        let mut trial = trial.clone();
        for (index, phase) in trial.phases.iter_mut().enumerate() {
            let noise = 1.0 + f64::from((trial.trial + day + index as u32) % 3) / 1000.0;
            time(phase, seconds * noise);
        }
        store.put_trial(&id, &trial).unwrap();
    }
    store.finish_run(&id, run.started_unix_ns + 1).unwrap();
    id
}

fn time(phase: &mut PhaseRecord, seconds: f64) {
    phase.elapsed_return_ns = (seconds * 1e9) as u64;
    phase.elapsed_durable_ns = phase.elapsed_durable_ns.map(|_| (seconds * 1e9) as u64);
}

fn diff(sandbox: &Sandbox, arguments: &[&str]) -> Finished {
    sandbox.run(["diff", "--db", "runs.sqlite"].into_iter().chain(arguments.iter().copied()))
}

#[test]
fn two_runs_are_the_same_or_slower_or_faster() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let database = sandbox.path().join("runs.sqlite");
    for (day, seconds) in [(1, 0.5), (2, 0.5), (3, 0.6)] {
        put_run(&database, &like, day, seconds);
    }
    let same = diff(&sandbox, &["20260101", "latest~1"]);
    same.assert_code(0);
    assert!(same.stdout.contains("the same within 3 %"), "{}", same.stdout);
    assert!(!same.stdout.contains("slower"), "{}", same.stdout);

    let slower = diff(&sandbox, &["latest~1"]);
    slower.assert_code(1);
    assert!(slower.stdout.contains("Slower: dir:a small-files "), "{}", slower.stdout);
    assert!(slower.stdout.contains("(0.83 ×)"), "{}", slower.stdout);
    assert!(slower.stdout.lines().all(|line| line.chars().count() <= 80), "{}", slower.stdout);
    // What is slower by a sixth is not beyond a quarter, and within it.
    diff(&sandbox, &["latest~1", "latest", "--threshold", "25%"]).assert_code(0);
    let faster = diff(&sandbox, &["latest", "latest~1"]);
    faster.assert_code(0);
    assert!(faster.stdout.contains("Faster: dir:a small-files "), "{}", faster.stdout);

    let told = diff(&sandbox, &["latest~1", "latest", "--json"]);
    told.assert_code(1);
    let told = told.json();
    assert_eq!(told["schema_version"], 1);
    let rows = told["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["verdict"] == "slower"), "{told}");
    assert!(rows.last().unwrap()["phase"].is_null());
    assert_eq!(rows[0]["base"]["n"], 3);

    let comment = diff(&sandbox, &["latest~1", "latest", "--markdown"]);
    comment.assert_code(1);
    let text = &comment.stdout;
    assert!(text.starts_with("### fsdyno: slower\n"), "{text}");
    assert!(text.contains("| phase | unit | base | new | ratio | verdict |\n|---|"), "{text}");
    assert!(text.contains("| create | files/s | 40.0 | 33.3 | 0.83 \\["), "{text}");
    assert!(text.contains("| **slower** |"), "{text}");
}

#[test]
fn a_command_that_got_slower_is_found() {
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("a")).unwrap();
    let script = sandbox.file("work", "sleep $(cat \"${0%/*}/seconds\")\n");
    let measure = |seconds: &str, quick: &str| {
        sandbox.file("seconds", seconds);
        let arguments = ["compare", "dir:a", "-n", "3", quick, "--quiet", "--", "sh", &script];
        sandbox.run(arguments).assert_code(0);
    };
    measure("0.1", "--quick");
    measure("1.2", "--quick");
    let finished = sandbox.run(["diff", "latest~1", "latest"]);
    finished.assert_code(1);
    assert!(finished.stdout.contains("Slower: dir:a "), "{}", finished.stdout);
    sandbox.run(["diff", "latest", "latest~1"]).assert_code(0);
}

#[test]
fn a_file_is_a_baseline() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let database = sandbox.path().join("runs.sqlite");
    put_run(&database, &like, 1, 0.5);
    let document = sandbox.run(["show", "--db", "runs.sqlite", "--json"]).stdout;
    let mut other: Value = serde_json::from_str(&document).unwrap();
    sandbox.file("base.json", &document);
    put_run(&database, &like, 2, 0.4);
    let told = diff(&sandbox, &["base.json", "--json"]).assert_code(0).json();
    assert_eq!(told["base"]["file"], "base.json");
    assert!(told["new"]["file"].is_null());
    assert_eq!(told["counts"]["slower"], 0);
    assert!(told["counts"]["faster"].as_u64().unwrap() >= 3, "{told}");

    // From another machine, twice as fast in everything.
    let environment = &mut other["run"]["environment"];
    environment["hostname"] = "elsewhere".into();
    let memory = environment["cached_read_mib_per_s"].as_f64().unwrap();
    environment["cached_read_mib_per_s"] = (memory * 2.0).into();
    for (_, speed) in environment["device_read_mib_per_s"].as_object_mut().unwrap() {
        *speed = speed.as_f64().map_or(Value::Null, |speed| (speed * 2.0).into());
    }
    sandbox.file("other.json", &other.to_string());
    let told = diff(&sandbox, &["base.json", "other.json"]);
    told.assert_code(0);
    assert!(told.stdout.contains("different machines: host name ("), "{}", told.stdout);
    // What is as fast there has become slower than the machine lets expect.
    let measured = other["run"]["environment"]["device_read_mib_per_s"].as_object().unwrap();
    if measured.values().any(Value::is_number) {
        let told = diff(&sandbox, &["base.json", "other.json", "--adjusted", "--json"]);
        let told = told.assert_code(1).json();
        let ratio = told["rows"][0]["adjusted"]["ratio"].as_f64().unwrap();
        assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
    }
}

#[test]
fn what_cannot_be_compared_is_bad_input() {
    let sandbox = Sandbox::in_memory();
    let none = diff(&sandbox, &["latest~1", "latest"]);
    none.assert_code(2);
    assert!(none.stderr.contains("no results yet"), "{}", none.stderr);
    let like = real_run(&sandbox);
    put_run(&sandbox.path().join("runs.sqlite"), &like, 1, 0.5);
    let document = sandbox.run(["show", "--db", "runs.sqlite", "--json"]).stdout;
    let newer = document.replacen("\"schema_version\": 1", "\"schema_version\": 99", 1);
    sandbox.file("newer.json", &newer);
    sandbox.file("cut.json", &document[..document.len() / 2]);
    sandbox.file("empty.json", "{}");
    sandbox.file("list.json", "[1, 2]");
    sandbox.file("odd.json", "{\"schema_version\": 1, \"run\": 5}");
    for (arguments, word) in [
        (&["newer.json"][..], "schema version 99"),
        (&["cut.json"], "no result document"),
        (&["empty.json"], "no schema_version"),
        (&["list.json"], "no schema_version"),
        (&["odd.json"], "no result document"),
        (&["gone.json"], "cannot read gone.json"),
        (&["latest~7"], "not so many runs"),
        (&["2031"], "there is no run 2031"),
        (&["latest", "latest", "--pair", "dir:a", "b"], "has no target b, only dir:a"),
        (&["latest", "--threshold", "fast"], "such as 5%"),
        (&["latest", "--threshold", "900%"], "between"),
    ] {
        let finished = diff(&sandbox, arguments);
        finished.assert_code(2);
        assert!(finished.stderr.contains(word), "{arguments:?}: {}", finished.stderr);
    }
    let itself = diff(&sandbox, &["latest", "latest"]);
    assert!(itself.stdout.contains("both sides are run"), "{}", itself.stdout);
}

#[test]
fn a_step_in_history_is_marked() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let database = sandbox.path().join("runs.sqlite");
    for day in 1..=9 {
        put_run(&database, &like, day, if day < 6 { 0.5 } else { 0.6 });
    }
    let history = |arguments: &[&str]| {
        let first = ["history", "--db", "runs.sqlite"];
        sandbox.run(first.into_iter().chain(arguments.iter().copied()))
    };
    let told = history(&["--phase", "create", "--svg", "create.svg"]);
    told.assert_code(0);
    assert_eq!(told.stdout.matches("── worse: 40.0 → 33.3 (0.83 ×").count(), 1, "{}", told.stdout);
    assert!(told.stdout.ends_with("1 change of level, at 5 % for all series together.\n"));
    let lines: Vec<&str> = told.stdout.lines().collect();
    let mark = lines.iter().position(|line| line.contains("worse")).unwrap();
    assert!(lines[mark + 1].contains("20260106-000000-0001"), "{}", told.stdout);
    let picture = std::fs::read_to_string(sandbox.path().join("create.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("worse: 0.83 ×"));

    let told = history(&["--metric", "elapsed_s", "--last", "7", "--json"]).assert_code(0).json();
    let series = told["series"].as_array().unwrap();
    assert!(series.len() >= 3, "{told}");
    for own in series {
        assert_eq!(own["points"].as_array().unwrap().len(), 7);
        assert_eq!(own["changes"][0]["run"], "20260106-000000-0001", "{own}");
    }
    let last = history(&["--last", "3"]);
    assert!(last.assert_code(0).stdout.contains("four runs or more"), "{}", last.stdout);
    for (arguments, word) in [
        (&["--metric", "speed"][..], "no such metric"),
        (&["--phase", "fly"], "has such a figure"),
        (&["--target", "zfs"], "has such a figure"),
    ] {
        let finished = history(arguments);
        finished.assert_code(2);
        assert!(finished.stderr.contains(word), "{arguments:?}: {}", finished.stderr);
    }
}

fn ids(sandbox: &Sandbox, database: &str) -> Vec<String> {
    let runs = sandbox.run(["runs", "--db", database, "--json"]).json();
    let runs = runs.as_array().unwrap().iter();
    runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn databases_are_merged_whole() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let path = |name: &str| sandbox.path().join(name);
    let (first, second) =
        (put_run(&path("one.sqlite"), &like, 1, 0.5), put_run(&path("two.sqlite"), &like, 2, 0.6));
    put_run(&path("two.sqlite"), &like, 1, 0.5);
    let traces = path("two.traces").join(&second);
    std::fs::create_dir_all(&traces).unwrap();
    std::fs::write(traces.join("0001.fstrace"), "events").unwrap();

    let merged = sandbox.run(["merge", "all.sqlite", "one.sqlite", "two.sqlite"]);
    merged.assert_code(0);
    assert!(merged.stdout.contains("one.sqlite: 1 run added\n"), "{}", merged.stdout);
    let known = "two.sqlite: 1 run added, 1 run known already and the same\n";
    assert!(merged.stdout.contains(known), "{}", merged.stdout);
    assert!(merged.stdout.contains("1 block trace copied"), "{}", merged.stdout);
    assert_eq!(ids(&sandbox, "all.sqlite"), [first.as_str(), second.as_str()]);
    let copied = path("all.traces").join(&second).join("0001.fstrace");
    assert_eq!(std::fs::read_to_string(copied).unwrap(), "events");
    for (database, id) in [("one.sqlite", &first), ("two.sqlite", &second)] {
        let from = Store::open(&path(database)).unwrap();
        let into = Store::open(&path("all.sqlite")).unwrap();
        assert_eq!(into.trials(id).unwrap(), from.trials(id).unwrap());
        assert!(!into.trials(id).unwrap()[0].phases[0].latency.is_empty());
        assert_eq!(into.run(Some(id)).unwrap().plan, from.run(Some(id)).unwrap().plan);
        let of = |store: &Store| {
            let trials = store.trials(id).unwrap();
            trials.iter().map(|trial| store.activity(id, trial).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of(&into), of(&from));
    }
    let again = sandbox.run(["merge", "all.sqlite", "two.sqlite"]);
    again.assert_code(0);
    assert!(again.stdout.contains("0 runs added, 2 runs known"), "{}", again.stdout);
    assert!(!again.stdout.contains("copied"), "{}", again.stdout);
    // What is merged is compared.
    sandbox.run(["diff", "--db", "all.sqlite", "latest~1", "latest"]).assert_code(1);
}

/// Runs of two machines, merged: what differs about these is told before any figure.
#[test]
fn merged_runs_of_two_machines_are_told_apart() {
    let sandbox = Sandbox::in_memory();
    let (mut run, mut trials) = real_run(&sandbox);
    let path = |name: &str| sandbox.path().join(name);
    for (day, machine) in [(1, "a"), (2, "b")] {
        let environment = &mut run.environment;
        environment.hostname = Some(format!("host-{machine}"));
        environment.cpu_model = Some(format!("processor {machine}"));
        environment.kernel_release = Some(format!("6.{day}.0"));
        for trial in &mut trials {
            trial.facts.device.insert("model".to_owned(), format!("disk {machine}"));
        }
        let like = (run.clone(), trials.clone());
        put_run(&path(&format!("{machine}.sqlite")), &like, day, 0.5);
    }
    sandbox.run(["merge", "runs.sqlite", "a.sqlite", "b.sqlite"]).assert_code(0);
    let told = diff(&sandbox, &["latest~1", "latest", "--json"]);
    told.assert_code(0);
    let told = told.json();
    let warning = |code: &str| {
        let warnings = told["warnings"].as_array().unwrap().iter();
        let found = warnings.filter(|it| it["code"] == code).map(|it| it["message"].as_str());
        found.flatten().collect::<String>()
    };
    let machines = warning("other-machine");
    for words in ["host name (host-a, host-b)", "(processor a, processor b)", "(disk a, disk b)"] {
        assert!(machines.contains(words), "{words}: {machines}");
    }
    assert!(warning("other-kernel").contains("6.1.0, 6.2.0"), "{told}");
    // The audit of each run has its own machine's facts.
    for (id, kernel) in [("20260101", "6.1.0"), ("20260102", "6.2.0")] {
        let audit = sandbox.run(["show", id, "--db", "runs.sqlite", "--audit"]);
        assert!(audit.stdout.contains(kernel), "{}", audit.stdout);
    }
    let history = sandbox.run(["history", "--db", "runs.sqlite", "--json"]).json();
    let points = history["series"][0]["points"].as_array().unwrap();
    let hosts: Vec<&Value> = points.iter().map(|point| &point["hostname"]).collect();
    assert_eq!(hosts, ["host-a", "host-b"]);
}

#[test]
fn a_conflict_changes_nothing() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let path = |name: &str| sandbox.path().join(name);
    let first = put_run(&path("into.sqlite"), &like, 1, 0.5);
    put_run(&path("from.sqlite"), &like, 3, 0.5);
    put_run(&path("from.sqlite"), &like, 1, 0.7);
    let newer = put_run(&path("from.sqlite"), &like, 4, 0.5);
    let traces = path("from.traces").join(newer);
    std::fs::create_dir_all(&traces).unwrap();
    std::fs::write(traces.join("0001.fstrace"), "events").unwrap();
    let before = Store::open(&path("into.sqlite")).unwrap().trials(&first).unwrap();
    let refused = sandbox.run(["merge", "into.sqlite", "from.sqlite"]);
    refused.assert_code(2);
    for word in [&first, "with other content", "nothing was merged", "fsdyno diff"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    assert_eq!(ids(&sandbox, "into.sqlite"), [first.as_str()]);
    assert_eq!(Store::open(&path("into.sqlite")).unwrap().trials(&first).unwrap(), before);
    assert!(!path("into.traces").exists());

    // A trace of the same name with other content ends it too, after the rows.
    let own = path("fresh.traces").join("20260104-000000-0001");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("0001.fstrace"), "other").unwrap();
    let refused = sandbox.run(["merge", "fresh.sqlite", "from.sqlite"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("0001.fstrace is there already"), "{}", refused.stderr);
    assert!(ids(&sandbox, "fresh.sqlite").is_empty());
}

#[test]
fn what_is_no_database_is_not_merged() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let path = |name: &str| sandbox.path().join(name);
    put_run(&path("good.sqlite"), &like, 1, 0.5);
    // All of it into one file, so that it can be cut.
    drop(Store::open(&path("good.sqlite")).unwrap());
    let whole = std::fs::read(path("good.sqlite")).unwrap();
    std::fs::write(path("cut.sqlite"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(path("text.sqlite"), "no database, but long enough to have a header").unwrap();
    std::fs::write(path("empty.sqlite"), "").unwrap();
    let other = rusqlite::Connection::open(path("other.sqlite")).unwrap();
    other.execute_batch("CREATE TABLE x (y); PRAGMA user_version = 3").unwrap();
    let newer = rusqlite::Connection::open(path("newer.sqlite")).unwrap();
    newer.execute_batch("CREATE TABLE run (id TEXT); PRAGMA user_version = 99").unwrap();
    for (name, word) in [
        ("cut.sqlite", "damaged"),
        ("text.sqlite", "no results database"),
        ("empty.sqlite", "no results database"),
        ("other.sqlite", "no results database"),
        ("newer.sqlite", "schema version 99"),
        ("gone.sqlite", "there is no results database"),
    ] {
        let refused = sandbox.run(["merge", "into.sqlite", "good.sqlite", name]);
        refused.assert_code(2);
        assert!(refused.stderr.contains(word), "{name}: {}", refused.stderr);
        assert!(!path("into.sqlite").exists(), "{name}");
    }
    let itself = sandbox.run(["merge", "good.sqlite", "./good.sqlite"]);
    assert!(itself.assert_code(2).stderr.contains("INTO and FROM"), "{}", itself.stderr);
}

#[test]
fn a_database_of_an_older_version_is_merged_and_left_alone() {
    let sandbox = Sandbox::in_memory();
    let like = real_run(&sandbox);
    let path = |name: &str| sandbox.path().join(name);
    let id = put_run(&path("old.sqlite"), &like, 1, 0.5);
    let old = rusqlite::Connection::open(path("old.sqlite")).unwrap();
    old.execute_batch(
        "DROP TABLE power_cuts; DROP TABLE activity; ALTER TABLE phase DROP COLUMN cpu_groups; ALTER TABLE sample DROP COLUMN started_ns; PRAGMA user_version = 2",
    )
    .unwrap();
    drop(old);
    let merged = sandbox.run(["merge", "into.sqlite", "old.sqlite"]);
    merged.assert_code(0);
    assert!(merged.stdout.contains("older version"), "{}", merged.stdout);
    assert_eq!(ids(&sandbox, "into.sqlite"), [id]);
    let old = rusqlite::Connection::open(path("old.sqlite")).unwrap();
    let version: u32 = old.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 2);
    let left = std::fs::read_dir(sandbox.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("merge-")), "{left:?}");
}
