//! The workload `postmark` through the phase runner in a temporary directory, and its sequence beside
//! that of the original program.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fsdyno_model::record::PhaseRecord;
use fsdyno_workload::catalog;
use fsdyno_workload::postmark::counts::Counts;
use fsdyno_workload::postmark::sequence::{Op, Sequence, SequenceConfig};
use fsdyno_workload::runner::EXIT_FAILED;
use support::{SmallFilesystem, measure, spec};

/// Counts by their name in the report: created, alone, mixed, read, appended, deleted, alone, mixed.
type Told = Vec<u64>;

/// What PostMark itself reports for `config`; `None` where it ended without a report.
fn told_by_original(config: &SequenceConfig) -> Option<(Told, Vec<String>)> {
    // In memory where that can be had: it makes and deletes many files.
    let memory = Some(Path::new("/dev/shm")).filter(|path| path.is_dir());
    let directory = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let bias = |bias: Option<u32>| bias.map_or_else(|| "-1".to_owned(), |bias| bias.to_string());
    let SequenceConfig { seed, number, transactions, subdirectories, size_low, size_high, .. } =
        *config;
    let commands = format!(
        "set location {}\nset seed {seed}\nset number {number}\nset transactions {transactions}\n\
         set subdirectories {subdirectories}\nset size {size_low} {size_high}\n\
         set bias read {}\nset bias create {}\nrun\nquit\n",
        directory.path().display(),
        bias(config.bias_read),
        bias(config.bias_create),
    );
    let file = directory.path().join("commands");
    std::fs::write(&file, commands).unwrap();
    let output = Command::new("postmark").arg(&file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let report = text.split_once("\nFiles:\n")?.1;
    let (files, data) = report.split_once("\nData:\n").unwrap();
    let number = |line: &str| line.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    let bytes = data.lines().filter_map(|line| line.trim().split_once(" ("));
    Some((files.lines().map(number).collect(), bytes.map(|(bytes, _)| bytes.to_owned()).collect()))
}

fn told_by_us(config: &SequenceConfig) -> Option<(Told, Vec<String>)> {
    let mut sequence = Sequence::new(*config);
    let ops: Vec<Op> = sequence.by_ref().collect();
    if sequence.ended_early() {
        return None;
    }
    let counts: Counts = ops.iter().collect();
    let scaled = |bytes: f32| match bytes {
        bytes if bytes > 1_048_576.0 => format!("{:.2} megabytes", bytes / 1_048_576.0),
        bytes if bytes > 0.0 => format!("{:.2} kilobytes", bytes / 1024.0),
        _ => "0.000000 bytes".to_owned(),
    };
    let told = vec![
        counts.created_alone + counts.created_mixed,
        counts.created_alone,
        counts.created_mixed,
        counts.read,
        counts.appended,
        counts.deleted_alone + counts.deleted_mixed,
        counts.deleted_alone,
        counts.deleted_mixed,
    ];
    let bytes = vec![
        format!("{} read", scaled(counts.read_bytes_float)),
        format!("{} written", scaled(counts.written_bytes_float)),
    ];
    Some((told, bytes))
}

/// Many combinations, from the usual to the odd: tables that are full, files of one size or one byte,
/// transactions that run out of files, halves that are off.
fn combinations() -> Vec<SequenceConfig> {
    let usual = SequenceConfig {
        seed: 42,
        number: 500,
        transactions: 500,
        subdirectories: 0,
        size_low: 500,
        size_high: 10_000,
        bias_read: Some(5),
        bias_create: Some(5),
    };
    let mut all = Vec::new();
    for (index, seed) in [1, 4711, 2_147_483_647].into_iter().enumerate() {
        let index = index as u32;
        for (number, transactions) in [(1, 50), (3, 400), (500, 1500), (1000, 5000)] {
            let subdirectories = [0, 1, 2, 10, 333][(index + number) as usize % 5];
            all.push(SequenceConfig { seed, number, transactions, subdirectories, ..usual });
        }
        for (size_low, size_high) in [(1, 1), (1, 100), (1000, 1000), (5120, 60_000)] {
            all.push(SequenceConfig { seed, size_low, size_high, ..usual });
        }
        for (read, create) in [
            (None, Some(5)),
            (Some(5), None),
            (Some(0), Some(10)),
            (Some(10), Some(7)),
            (Some(3), Some(8)),
            (Some(7), Some(2)),
        ] {
            for (number, transactions) in [(5, 300), (60, 1000)] {
                let (bias_read, bias_create) = (read, create);
                all.push(SequenceConfig {
                    seed,
                    number,
                    transactions,
                    bias_read,
                    bias_create,
                    subdirectories: index,
                    ..usual
                });
            }
        }
    }
    all
}

#[test]
fn the_sequence_is_that_of_the_original_program() {
    if let Err(error) = Command::new("postmark").arg("/dev/null").output() {
        println!("skipped: postmark 1.53 is not installed: {error}");
        return;
    }
    let mut without_report = 0;
    let all = combinations();
    for config in &all {
        let told = told_by_original(config);
        without_report += usize::from(told.is_none());
        assert_eq!(told_by_us(config), told, "{config:?}");
    }
    assert!(
        without_report > 0 && without_report < all.len() / 2,
        "{without_report} of {}",
        all.len()
    );
}

fn operations(phase: &PhaseRecord) -> BTreeMap<&str, u64> {
    phase.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn both_modes_do_the_same_operations() {
    for (mode, payload) in [("original", "original"), ("corrected", "realistic")] {
        let directory = tempfile::tempdir().unwrap();
        let answers =
            measure(directory.path(), "postmark", &[("mode", mode), ("payload", payload)])
                .expect_finished();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["create", "transactions", "delete"]);
        let (create, mixed, delete) =
            (answers.phase("create"), answers.phase("transactions"), answers.phase("delete"));
        assert_eq!((create.files, delete.files), (Some(500), Some(528)));
        for (name, count) in [
            ("transactions", 500.0),
            ("created_files", 264.0),
            ("read_files", 243.0),
            ("appended_files", 257.0),
            ("deleted_files", 236.0),
        ] {
            assert_eq!(mixed.values[name], count, "{mode}: {name}");
        }
        assert_eq!(mixed.read_bytes, 1_430_770);
        assert_eq!(create.bytes + mixed.bytes - mixed.read_bytes, 4_662_068);
        let counted = mixed.values.get("counted_written_bytes");
        assert_eq!(counted, (mode == "original").then_some(&4_662_068.0));
        let calls = operations(mixed);
        assert_eq!((calls["create"], calls["open"], calls["unlink"]), (264, 243 + 257, 236));
        assert_eq!(calls["close"], 264 + 243 + 257);
        assert_eq!(operations(delete), BTreeMap::from([("unlink", 528)]));
        for phase in answers.phases() {
            assert_eq!(phase.elapsed_durable_ns.is_some(), mode == "corrected");
            assert_eq!(phase.samples.len(), 1);
        }
        assert!(answers.warnings().is_empty());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn calls_have_the_size_of_the_buffer_or_of_the_block() {
    let writes = |buffered: &str| {
        let directory = tempfile::tempdir().unwrap();
        let params = [("buffered", buffered), ("size_low", "10000"), ("transactions", "10")];
        let answers = measure(directory.path(), "postmark", &params).expect_finished();
        operations(answers.phase("create"))["write"]
    };
    assert_eq!(writes("true"), 500 * 3);
    assert_eq!(writes("false"), 500 * 20);
}

#[test]
fn pools_work_at_the_same_time_in_their_own_directories() {
    for mode in ["original", "corrected"] {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("numjobs", "3"),
            ("subdirectories", "4"),
            ("mode", mode),
            ("payload", "original"),
            ("cold", "drop-caches"),
            ("buffered", "false"),
        ];
        let answers = measure(directory.path(), "postmark", &params).expect_finished();
        let mixed = answers.phase("transactions");
        assert_eq!(answers.phase("create").files, Some(1500));
        assert_eq!(mixed.values["transactions"], 1500.0);
        let config = SequenceConfig {
            seed: 42,
            number: 500,
            transactions: 500,
            subdirectories: 4,
            size_low: 500,
            size_high: 10_000,
            bias_read: Some(5),
            bias_create: Some(5),
        };
        let mut expected = Counts::default();
        for seed in 42..45 {
            let ops: Vec<Op> = Sequence::new(SequenceConfig { seed, ..config }).collect();
            expected.merge(&ops.iter().collect());
        }
        assert_eq!(mixed.values["read_files"], expected.read as f64);
        assert_eq!(mixed.read_bytes, expected.read_bytes);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, ["caches-not-dropped"]);
    }
}

#[test]
fn transactions_without_files_end_early() {
    let params = |mode| [("number", "3"), ("transactions", "400"), ("mode", mode)];
    let directory = tempfile::tempdir().unwrap();
    let answers = measure(directory.path(), "postmark", &params("original"));
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("transactions", EXIT_FAILED));
    assert!(error.starts_with("out of files! after ") && error.contains("of 400"), "{error}");

    let directory = tempfile::tempdir().unwrap();
    let answers = measure(directory.path(), "postmark", &params("corrected")).expect_finished();
    let [warning] = answers.warnings()[..] else { panic!("{:?}", answers.warnings()) };
    assert_eq!(warning.code, "out-of-files");
    let done = answers.phase("transactions").values["transactions"];
    assert!(done < 400.0 && warning.message.contains(&format!("after {done} of 400")));
    assert_eq!(answers.phase("delete").files, Some(0));
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    for (size, failing) in [("1m", "create"), ("4m", "transactions")] {
        let Some(filesystem) = SmallFilesystem::mount(size) else { return };
        let params = [("subdirectories", "2"), ("transactions", "5000"), ("bias_create", "8")];
        let answers = measure(&filesystem.path(), "postmark", &params);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!((stage, answers.exit_code), (failing, EXIT_FAILED));
        assert!(error.starts_with("write s") && error.contains("ENOSPC"), "{error}");
        assert!(error.contains("--size"), "{error}");
        let finished: Vec<&str> = answers.phases().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(finished, if failing == "create" { &[][..] } else { &["create"] });
    }
}

#[test]
fn what_is_on_the_target_at_once_is_known_before() {
    let params =
        [("number", "300"), ("transactions", "2000"), ("bias_create", "7"), ("numjobs", "2")];
    let workload = catalog::find("postmark").unwrap();
    let values = spec(Path::new("/"), "postmark", &params).params;
    let peak = workload.peak_bytes(&values).unwrap().unwrap();
    for (bytes, is_enough) in [(peak, true), (peak * 9 / 10, false)] {
        let Some(filesystem) = SmallFilesystem::mount(&bytes.to_string()) else { return };
        let answers = measure(&filesystem.path(), "postmark", &params);
        assert_eq!(
            answers.failure().is_none(),
            is_enough,
            "{bytes} bytes: {:?}",
            answers.failure()
        );
    }
}
