//! The workload `sqlite` through the phase runner in a temporary directory: its modes, its counts, and
//! what it says of a database that is not whole or has no room.

mod support;

use std::path::Path;

use fsdyno_model::param::Params;
use fsdyno_workload::catalog;
use fsdyno_workload::recorder::Recorder;
use fsdyno_workload::runner::EXIT_FAILED;
use fsdyno_workload::sqlite::database::{self, FILE};
use fsdyno_workload::sqlite::orders::{Client, Done};
use fsdyno_workload::sqlite::records;
use fsdyno_workload::sqlite::settings::Settings;
use fsdyno_workload::sqlite::{order_checks, order_loading, run};
use support::{SmallFilesystem, measure};

const PHASES: [&str; 6] = ["load", "point-reads", "updates", "scan", "mixed", "integrity"];

fn settings(params: &[(&str, &str)]) -> Settings {
    let info = catalog::find("sqlite").unwrap().info();
    let mut values = Params::defaults(info.params, true);
    for (name, value) in params {
        values.set(info.params, name, value).unwrap();
    }
    Settings::new(&values, 42).unwrap()
}

/// Names of the files in a directory, sorted.
fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_mode_is_in_force_and_leaves_its_traces() {
    // The version of the format, which a write-ahead log makes 2, and the file that remains.
    for (journal, synchronous, page, jobs, format, remains) in [
        ("delete", "full", "4096", "1", 1, vec![FILE]),
        ("truncate", "normal", "512", "2", 1, vec![FILE, "database.sqlite-journal"]),
        ("wal", "normal", "65536", "1", 2, vec![FILE]),
        ("wal", "full", "1024", "3", 2, vec![FILE]),
        ("delete", "off", "8192", "2", 1, vec![FILE]),
    ] {
        let label = format!("{journal} {synchronous} {page} {jobs}");
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("journal", journal),
            ("synchronous", synchronous),
            ("page_size", page),
            ("numjobs", jobs),
            ("checkpoint", "50"),
        ];
        let answers = measure(directory.path(), "sqlite", &params).expect_finished();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, PHASES, "{label}");
        assert_eq!(files(directory.path()), remains, "{label}");
        let bytes = std::fs::read(directory.path().join(FILE)).unwrap();
        assert_eq!((bytes[18], bytes[19]), (format, format), "{label}");
        let size = match u16::from_be_bytes([bytes[16], bytes[17]]) {
            1 => 65536,
            size => u32::from(size),
        };
        assert_eq!(size.to_string(), page, "{label}");
        assert_counts(&answers, jobs.parse().unwrap());
        // A database on a tmpfs, for which the estimate must do, has the same size.
        let peak = settings(&params).peak_bytes();
        assert!(peak > bytes.len() as u64, "{label}: {peak} {}", bytes.len());
        assert!(peak < 4 * bytes.len() as u64 + (16 << 20), "{label}: {peak} {}", bytes.len());
    }
}

fn assert_counts(answers: &support::Answers, jobs: u64) {
    let count = |phase: &str, name: &str| {
        answers.phase(phase).operations.get(name).copied().unwrap_or_default()
    };
    // 10000 items, a warehouse with 10 districts, 3000 customers and the stock of all items.
    assert_eq!(count("load", "update"), 5000 + 10_000 + 1 + 10 + 3000 + 10_000);
    assert_eq!(count("load", "commit"), 5 + 1 + 1);
    assert_eq!((count("point-reads", "query"), count("point-reads", "open")), (1000, jobs));
    assert_eq!((count("updates", "update"), count("updates", "commit")), (40 * 5, 40));
    assert_eq!(count("scan", "query"), 5040);
    assert_eq!((count("mixed", "commit"), count("mixed", "lock")), (60, 60));
    for (phase, transactions) in [("updates", 40.0), ("mixed", 60.0)] {
        let values = &answers.phase(phase).values;
        assert_eq!(values["transactions"], transactions);
        let latency = ["task_p50_ms", "task_p99_ms", "task_p999_ms", "task_max_ms"];
        let latency = latency.map(|name| values[name]);
        assert!(latency.is_sorted() && latency[0] > 0.0, "{latency:?}");
        assert!(answers.phase(phase).latency.contains_key("task"));
    }
    assert_eq!(answers.phase("scan").read_bytes, 5040 * 500);
    let (files, bytes) = answers.verified().unwrap();
    assert_eq!((files, bytes > 1_000_000), (1, true));
}

/// How often a process asks for durability, by journal mode: the filesystem is asked as often as
/// documented.
#[test]
fn commits_ask_for_durability_as_often_as_the_mode_says() {
    let calls = |journal: &str, synchronous: &str| -> Option<u64> {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(&[("journal", journal), ("synchronous", synchronous)]);
        let mut recorder = Recorder::new();
        let connection = database::open(directory.path(), &settings).unwrap();
        let mut expected = records::load(&connection, &settings, &mut recorder, |_| {}).unwrap();
        let log = directory.path().join("trace");
        let pid = std::process::id().to_string();
        let mut tracer = std::process::Command::new("strace")
            .args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-p", &pid, "-o"])
            .arg(&log)
            .spawn()
            .ok()?;
        let traced = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while traced().contains("TracerPid:\t0\n") {
            if tracer.try_wait().unwrap().is_some() || std::time::Instant::now() > deadline {
                let _ = tracer.kill();
                let _ = tracer.wait();
                return None;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        records::update(&connection, &settings, &mut expected, &mut recorder, |_| {}).unwrap();
        let tracer_pid = tracer.id().to_string();
        std::process::Command::new("kill").args(["-INT", &tracer_pid]).status().unwrap();
        tracer.wait().unwrap();
        // Other tests run in other threads.
        let thread = thread.file_name().unwrap().to_str().unwrap().to_owned();
        let lines = std::fs::read_to_string(&log).unwrap();
        let own = |line: &&str| line.split_whitespace().next() == Some(&thread);
        Some(lines.lines().filter(own).filter(|line| line.contains("sync(")).count() as u64)
    };
    let Some(delete) = calls("delete", "full") else {
        println!("skipped: strace is not installed or may not trace");
        return;
    };
    let count = |journal, synchronous| calls(journal, synchronous).unwrap();
    // 40 transactions; a rollback journal, its directory, the database and the directory again.
    assert!((40 * 3..=40 * 5).contains(&delete), "{delete}");
    assert!((40..60).contains(&count("wal", "full")));
    assert!(count("wal", "normal") < 20);
    assert_eq!(count("delete", "off"), 0);
}

/// A database with loaded records and an order entry after some transactions, closed.
fn database(directory: &Path, settings: &Settings) -> (records::Expected, Done) {
    let mut recorder = Recorder::new();
    let connection = database::open(directory, settings).unwrap();
    let mut expected = records::load(&connection, settings, &mut recorder, |_| {}).unwrap();
    records::update(&connection, settings, &mut expected, &mut recorder, |_| {}).unwrap();
    order_loading::load(&connection, settings, &mut recorder).unwrap();
    let mut client = Client::new(&connection, settings.warehouses, 1).unwrap();
    let done = client.run(200, &mut recorder, |_| {}).unwrap();
    drop(client);
    database::close(connection, settings, true, &mut recorder).unwrap();
    (expected, done)
}

#[test]
fn damage_is_found() {
    let settings = settings(&[("synchronous", "off")]);
    let directory = tempfile::tempdir().unwrap();
    let (expected, done) = database(directory.path(), &settings);
    assert!(done.orders > 50 && done.payments > 50 && done.delivered > 0, "{done:?}");
    let path = directory.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    let look = || {
        let connection = database::open(directory.path(), &settings)?;
        run::integrity(&connection)?;
        let record = records::compare(&connection, &settings, &expected)?;
        anyhow::ensure!(record.mismatches.is_empty(), "{:?}", record.mismatches);
        let faults = order_checks::faults(&connection, done)?;
        anyhow::ensure!(faults.is_empty(), "{faults:?}");
        anyhow::Ok(())
    };
    look().unwrap();
    // In the contents of a row that is compared: all bytes of the body of the first one.
    let mut body = vec![0; 500];
    let source = fsdyno_workload::payload::PayloadSource::new(settings.payload, 42);
    let place = (0..100).find_map(|version| {
        source.fill(records::row_key(1, version), 0, &mut body);
        whole.windows(500).position(|window| window == body)
    });
    let mut damaged = whole.clone();
    damaged[place.unwrap() + 77] ^= 4;
    std::fs::write(&path, &damaged).unwrap();
    let text = look().unwrap_err().to_string();
    assert!(text.contains("row 1 holds other contents"), "{text}");
    // In the header of a page of the tree.
    damaged.clone_from(&whole);
    damaged[4096 * 20] ^= 0xff;
    std::fs::write(&path, &damaged).unwrap();
    let text = look().unwrap_err().to_string();
    assert!(text.contains("integrity_check on database.sqlite"), "{text}");
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(look().unwrap_err().to_string().contains("check the device"));
    std::fs::write(&path, b"no database at all, but long enough to be read as one").unwrap();
    assert!(look().is_err());
}

#[test]
fn lost_and_half_transactions_are_found() {
    let settings = settings(&[("synchronous", "off")]);
    for (statement, expected) in [
        ("DELETE FROM history WHERE id = 1", "the history"),
        ("UPDATE district SET next_order = next_order + 1 WHERE id = 3", "numbers"),
        ("DELETE FROM order_line WHERE id = (SELECT max(id) FROM order_line)", "lines"),
        ("UPDATE stock SET sold = sold - 1 WHERE id = 5", "stock"),
        ("UPDATE customer SET balance = balance + 1 WHERE id = 0", "balance"),
        ("UPDATE warehouse SET received = 0", "received"),
        ("DELETE FROM new_order", "open orders"),
        ("UPDATE record SET version = version + 1 WHERE id = 1", "row 1 was changed"),
        ("DELETE FROM record WHERE id = 5040", "holds 5039 rows"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (rows, done) = database(directory.path(), &settings);
        let connection = database::open(directory.path(), &settings).unwrap();
        connection.execute_batch(statement).unwrap();
        run::integrity(&connection).unwrap();
        let mut faults = records::compare(&connection, &settings, &rows).unwrap().mismatches;
        faults.extend(order_checks::faults(&connection, done).unwrap());
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{statement}: {faults:?}");
    }
}

#[test]
fn a_full_filesystem_is_told_with_the_statement() {
    for (journal, size, rows) in [("delete", "4m", "20000"), ("wal", "4m", "20000")] {
        let Some(filesystem) = SmallFilesystem::mount(size) else { return };
        let params = [("journal", journal), ("rows", rows)];
        let answers = measure(&filesystem.path(), "sqlite", &params);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!((stage, answers.exit_code), ("load", EXIT_FAILED), "{error}");
        for word in [" on ", FILE, "ENOSPC", "--size"] {
            assert!(error.contains(word), "{journal}: {error}");
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_database() {
    let contents = |seed: u64| {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { seed, ..settings(&[("synchronous", "off")]) };
        database(directory.path(), &settings);
        std::fs::read(directory.path().join(FILE)).unwrap()
    };
    let first = contents(1);
    assert!(first == contents(1), "one seed, two databases");
    assert!(first != contents(2), "two seeds, one database");
}
