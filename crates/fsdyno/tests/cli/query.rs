//! `fsdyno query` on a run that the test itself made: what it answers, in every form, and that it changes
//! nothing.

use crate::report::with_run;

#[test]
fn computed_tables_agree_with_the_document() {
    let (sandbox, _) = with_run();
    let document = sandbox.run(["report", "--format", "json"]).json();
    let sql =
        "SELECT target, phase, metric, n, median, ci95_low, is_best FROM summary WHERE is_primary";
    let found = sandbox.run(["query", "--json", sql]);
    found.assert_code(0);
    let expected: Vec<serde_json::Value> = document["summary"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["primary"] == true)
        .map(|row| {
            serde_json::json!({
                "target": row["target"], "phase": row["phase"], "metric": row["metric"], "n": row["n"],
                "median": row["median"], "ci95_low": row["ci95_low"],
                "is_best": u8::from(row["best"] == true),
            })
        })
        .collect();
    assert!(expected.len() >= 8);
    assert_eq!(found.json(), serde_json::Value::from(expected));

    // The same rows as in the file.
    let rows = sandbox.run(["query", "--csv", "SELECT * FROM Results"]);
    rows.assert_code(0);
    let file = sandbox.run(["report", "--format", "csv"]).stdout;
    assert_eq!(rows.stdout.lines().count(), file.lines().count());
    assert_eq!(rows.stdout.lines().next(), file.lines().next());
}

#[test]
fn views_have_run_workload_target_and_trial_in_every_row() {
    let (sandbox, id) = with_run();
    for (view, rows) in [("trials", 6), ("phases", 6), ("operations", 6), ("samples", 6)] {
        let sql = format!(
            "SELECT DISTINCT run, workload, target, trial, role, outcome FROM {view} WHERE run IS NOT NULL"
        );
        let found = sandbox.run(["query", "--json", &sql]);
        found.assert_code(0);
        let found = found.json();
        let list = found.as_array().unwrap();
        assert_eq!(list.len(), rows, "{view}");
        for row in list {
            assert_eq!((&row["run"], &row["role"]), (&id.clone().into(), &"measured".into()));
            assert_eq!(row["outcome"], "completed");
        }
    }
    let warnings =
        sandbox.run(["query", "--json", "SELECT run, target, code, advice FROM warnings"]);
    warnings.assert_code(0);
    // Sentences are broken where they are printed, not before.
    let help = sandbox.run(["query", "--help"]);
    help.assert_code(0);
    assert!(help.stdout.contains("samples, warnings and yardstick with run"), "{}", help.stdout);
    assert!(!help.stdout.contains("phases,\noperations"), "{}", help.stdout);
    let listed = sandbox.run(["query"]);
    listed.assert_code(0);
    for name in ["results", "summary", "warnings", "phase_value", "elapsed_durable_ns", "computed"]
    {
        assert!(listed.stdout.contains(name), "{name}: {}", listed.stdout);
    }
}

#[test]
fn values_have_a_form_each() {
    let (sandbox, _) = with_run();
    let sql = "SELECT 1 AS one, 0.5 AS half, NULL AS absent, x'0102' AS bytes, 'a,\"b' AS words";
    let json = sandbox.run(["query", "--json", sql]).json();
    let expected = serde_json::json!([
        {"one": 1, "half": 0.5, "absent": null, "bytes": "<2 bytes>", "words": "a,\"b"}
    ]);
    assert_eq!(json, expected);
    let csv = sandbox.run(["query", "--csv", sql]);
    assert_eq!(csv.stdout, "one,half,absent,bytes,words\n1,0.5,,<2 bytes>,\"a,\"\"b\"\n");
    let table = sandbox.run(["query", sql]);
    assert_eq!(
        table.stdout,
        "one  half  absent  bytes      words\n  1   0.5          <2 bytes>  a,\"b\n"
    );
}

#[test]
fn nothing_can_be_changed() {
    let (sandbox, _) = with_run();
    let count =
        "SELECT (SELECT count(*) FROM trial) AS trials, (SELECT count(*) FROM sample) AS samples";
    let before = sandbox.run(["query", "--json", count]).json();
    let own = sandbox.path().join("own.sqlite").display().to_string();
    for (sql, word) in [
        ("DELETE FROM trial".to_owned(), "only read"),
        ("DELETE FROM trial RETURNING id".to_owned(), "only read"),
        ("UPDATE run SET command = 'x'".to_owned(), "only read"),
        ("DROP TABLE sample".to_owned(), "only read"),
        ("CREATE TABLE own (a)".to_owned(), "only read"),
        ("CREATE TEMP TABLE own (a)".to_owned(), "only read"),
        ("PRAGMA user_version = 77".to_owned(), "read"),
        ("PRAGMA query_only = 0".to_owned(), "read"),
        ("PRAGMA journal_mode = DELETE".to_owned(), "only read"),
        (format!("ATTACH '{own}' AS own"), "read"),
        (format!("VACUUM INTO '{own}'"), "only read"),
        ("SELECT load_extension('x')".to_owned(), "not authorized"),
        ("SELECT 1; DELETE FROM trial".to_owned(), "one statement"),
        ("SELEC 1".to_owned(), "near \"SELEC\": syntax error"),
        ("SELECT absent FROM trial".to_owned(), "no such column: absent"),
        ("SELECT abs(-9223372036854775807 - 1)".to_owned(), "integer overflow"),
        (String::new(), "SELECT"),
    ] {
        let refused = sandbox.run(["query", &sql]);
        assert_eq!(refused.code, Some(2), "{sql}: {refused:?}");
        assert!(refused.stderr.contains(word), "{sql}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{sql}");
    }
    assert!(!std::path::Path::new(&own).exists());
    assert_eq!(sandbox.run(["query", "--json", count]).json(), before);
    sandbox.run(["query", "--csv", "--json", "SELECT 1"]).assert_code(2);
}

#[test]
fn without_results_there_is_nothing_to_ask() {
    let sandbox = crate::sandbox::Sandbox::in_memory();
    let finished = sandbox.run(["query", "SELECT 1"]);
    finished.assert_code(1);
    assert!(finished.stderr.contains("no results yet"), "{}", finished.stderr);
    assert!(!sandbox.path().join("data").exists());
}
