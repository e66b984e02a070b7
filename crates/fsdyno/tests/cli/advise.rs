//! `fsdyno advise`: from nothing measured to a best target, by the commands that it prints.

use std::path::Path;

use fsdyno::store::Store;
use serde_json::Value;

use crate::sandbox::Sandbox;

fn advise(sandbox: &Sandbox, code: i32, arguments: &[&str]) -> Value {
    let all = ["advise", "--json"].into_iter().chain(arguments.iter().copied());
    let finished = sandbox.run(all);
    finished.assert_code(code);
    finished.json()
}

/// Makes every phase of every trial of `target` take that many times as long, in the latest run.
fn slow_down(database: &Path, target: &str, times: u64) {
    let mut store = Store::open(database).unwrap();
    let run = store.run(None).unwrap();
    for mut trial in store.trials(&run.id).unwrap() {
        for phase in &mut trial.phases {
            // All the same within a target, so that what follows does not hang on this machine's luck.
            let own = if trial.target == target { times } else { 1 };
            phase.elapsed_return_ns = own * 1_000_000 + u64::from(trial.trial);
            phase.elapsed_durable_ns = phase.elapsed_durable_ns.map(|_| phase.elapsed_return_ns);
        }
        store.put_trial(&run.id, &trial).unwrap();
    }
}

#[test]
fn from_nothing_measured_to_the_best() {
    let sandbox = Sandbox::new();
    let database = sandbox.path().join("runs.sqlite");
    let db = ["--db", "runs.sqlite"];
    let asked = ["-w", "small-files:files=20", db[0], db[1]];
    let nothing = advise(&sandbox, 1, &asked);
    assert_eq!(nothing["ranking"], serde_json::json!([]));
    assert_eq!(nothing["next"]["command"], "fsdyno compare ext4 xfs btrfs -w small-files:files=20");

    for name in ["a", "b", "c"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    let compare = ["compare", "one=dir:a", "other=dir:b", "-n", "3", "--quiet", "--no-yardstick"];
    sandbox.run(compare.into_iter().chain(asked)).assert_code(0);
    slow_down(&database, "other", 2);
    let settled = advise(&sandbox, 0, &asked);
    assert_eq!(settled["ranking"][0]["target"], "one");
    let whole = &settled["ranking"][1]["whole"];
    assert!((whole["ratio"].as_f64().unwrap() - 0.5).abs() < 0.01, "{whole}");
    assert_eq!(settled["next"], Value::Null);
    assert_eq!(settled["workloads"][0]["runs"].as_array().unwrap().len(), 1);

    // Other parameters are another workload; a persona takes any.
    let other = advise(&sandbox, 1, &["-w", "small-files:files=30", "--db", "runs.sqlite"]);
    assert_eq!(other["ranking"], serde_json::json!([]));
    let persona = advise(&sandbox, 1, &["build-server", "--db", "runs.sqlite"]);
    assert_eq!(persona["ranking"][0]["target"], "one");
    let next = persona["next"]["command"].as_str().unwrap();
    assert_eq!(
        next,
        format!(
            "fsdyno compare one=dir:{0}/a other=dir:{0}/b -w compilebench -w package-install",
            sandbox.path().display()
        )
    );
    assert!(persona["notes"].to_string().contains("Nothing is known of compilebench"));
}

#[test]
fn an_own_command_is_advised_on_and_people_can_read_it() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    let db = ["--db", "runs.sqlite"];
    let compare = ["compare", "one=dir:a", "other=dir:b", "-n", "3", "--quiet", "--no-yardstick"];
    let command = ["--", "sh", "-c", "echo a > b"];
    sandbox.run(compare.into_iter().chain(db).chain(command)).assert_code(0);
    slow_down(&sandbox.path().join("runs.sqlite"), "one", 3);
    let finished = sandbox.run(["advise"].into_iter().chain(db).chain(command));
    finished.assert_code(0);
    assert!(finished.stdout.contains("Take other for `sh -c 'echo a > b'`"), "{}", finished.stdout);

    assert!(finished.stdout.lines().all(|line| line.chars().count() <= 80), "{}", finished.stdout);
    let unknown = sandbox.run(["advise", "mail"]);
    unknown.assert_code(2);
    assert!(unknown.stderr.contains("mail-server"), "{}", unknown.stderr);
}

#[test]
fn what_is_open_is_written_as_a_plan_and_run() {
    let sandbox = Sandbox::new();
    for name in ["a", "b"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    let db = ["--db", "runs.sqlite"];
    let asked = ["-w", "small-files:files=20", "-w", "small-files:files=21"];
    let compare = ["compare", "one=dir:a", "other=dir:b", "-n", "3", "--quiet", "--no-yardstick"];
    sandbox.run(compare.into_iter().chain(db).chain(asked[..2].to_vec())).assert_code(0);
    slow_down(&sandbox.path().join("runs.sqlite"), "other", 2);

    // The best is known, but by half of the work alone.
    let half = advise(&sandbox, 1, &[&asked[..], &db, &["--plan", "next.toml"]].concat());
    assert_eq!(half["next"]["plan"], "next.toml");
    sandbox.run(["check", "next.toml"]).assert_code(0);
    let text = std::fs::read_to_string(sandbox.path().join("next.toml")).unwrap();
    assert!(text.contains("files = 21") && !text.contains("files = 20"), "{text}");
    // As somebody might change it.
    let fixed = text.replace("trials = \"auto\"", "trials = 3");
    std::fs::write(sandbox.path().join("next.toml"), fixed).unwrap();
    let run = ["run", "next.toml", "--quiet", "--no-yardstick"];
    sandbox.run(run.into_iter().chain(db)).assert_code(0);
    slow_down(&sandbox.path().join("runs.sqlite"), "other", 2);
    let settled = advise(&sandbox, 0, &[&asked[..], &db, &["--plan", "other.toml"]].concat());
    assert_eq!(settled["next"], Value::Null);
    assert!(settled["notes"].to_string().contains("other.toml was not written"), "{settled}");
    assert!(!sandbox.path().join("other.toml").exists());

    // Nothing measured: a command, and a workload of the user's. What is there is never overwritten.
    let mine = sandbox.run(["list", "workloads", "--toml", "varmail"]).stdout;
    std::fs::write(sandbox.path().join("mine.toml"), mine).unwrap();
    for (plan, asked, holds) in [
        ("c.toml", &["--", "sh", "-c", "echo a > b"][..], "command = "),
        ("w.toml", &["-w", "mine.toml:files=99"], "mine.toml"),
    ] {
        let arguments = ["advise", "--db", "none.sqlite", "--plan", plan].into_iter();
        let finished = sandbox.run(arguments.chain(asked.iter().copied()));
        finished.assert_code(1);
        assert!(finished.stdout.contains(&format!("fsdyno run {plan}")), "{}", finished.stdout);
        sandbox.run(["check", plan]).assert_code(0);
        let text = std::fs::read_to_string(sandbox.path().join(plan)).unwrap();
        assert!(text.contains(holds) && text.contains("filesystem = \"xfs\""), "{text}");
    }
    let again = ["advise", "--db", "none.sqlite", "--plan", "c.toml", "--", "true"];
    let refused = sandbox.run(again);
    refused.assert_code(2);
    assert!(refused.stderr.contains("there already"), "{}", refused.stderr);
}
