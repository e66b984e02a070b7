//! The workload `fs-mark`: which calls each method of syncing makes in both modes, names and directories,
//! iterations, figures as fs_mark adds them up, and what stops it.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fsdyno_model::record::PhaseRecord;
use fsdyno_workload::catalog;
use fsdyno_workload::runner::EXIT_FAILED;

use support::{SmallFilesystem, measure, spec, verify};

const FILES: u64 = 20;

fn calls(phase: &PhaseRecord) -> BTreeMap<&str, u64> {
    phase.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

/// Paths of all files below `directory`, with what lies in them.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            let below = files(&entry.path());
            found.extend(below.into_iter().map(|(path, bytes)| (format!("{name}/{path}"), bytes)));
        } else {
            found.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// For one job that makes 20 files: `sync`, and how often a file is synced while it is open or after it
/// was opened again.
const METHODS: &[(&str, &str, u64, u64, u64)] = &[
    ("0", "none", 0, 0, 0),
    ("1", "fsync", 0, FILES, 0),
    ("2", "sync-first", 1, 0, 1),
    ("3", "post-reverse", 0, 0, FILES),
    ("4", "sync-post-reverse", 1, 0, FILES),
    ("5", "post", 0, 0, FILES),
    ("6", "sync-post", 1, 0, FILES),
];

#[test]
fn each_method_makes_its_calls() {
    for (number, word, sync, before_close, again) in METHODS {
        for (mode, method, jobs) in
            [("original", number, 1), ("corrected", word, 1), ("corrected", number, 3)]
        {
            let directory = tempfile::tempdir().unwrap();
            let jobs_text = jobs.to_string();
            let params = [
                ("files", "20"),
                ("size", "20000"),
                ("mode", mode),
                ("sync_method", method),
                ("numjobs", &jobs_text),
            ];
            let answers = measure(directory.path(), "fs-mark", &params).expect_finished();
            // In the original mode three calls count as one fsync.
            let alone = if mode == "original" { 0 } else { *again };
            let mut expected = BTreeMap::from([
                ("create", jobs * FILES),
                ("write", jobs * 2 * FILES),
                ("close", jobs * (FILES + alone)),
                ("open", jobs * alone),
                ("fsync", jobs * (before_close + again)),
                ("sync", jobs * sync),
            ]);
            expected.retain(|_, count| *count > 0);
            let create = answers.phase("create");
            assert_eq!(calls(create), expected, "{mode} {method} {jobs}");
            assert_eq!((create.files, create.bytes), (Some(jobs * FILES), jobs * FILES * 20_000));
            assert_eq!(create.elapsed_durable_ns.is_some(), mode == "corrected");
            assert_eq!(calls(answers.phase("unlink")), BTreeMap::from([("unlink", jobs * FILES)]));
            assert_eq!(answers.verified(), Some((jobs * FILES, jobs * FILES * 20_000)));
            assert!(files(directory.path()).is_empty());
        }
    }
}

#[test]
fn names_have_the_length_that_is_asked_for_and_are_unique() {
    for (mode, length, random, directories, per_directory) in [
        ("corrected", "40", "24", "1", "0"),
        ("original", "12", "12", "1", "0"),
        ("original", "17", "0", "5", "0"),
        ("corrected", "128", "0", "300", "7"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("mode", mode),
            ("size", "100"),
            ("sync_method", "none"),
            ("numjobs", "3"),
            ("loops", "2"),
            ("name_length", length),
            ("name_random", random),
            ("directories", directories),
            ("per_directory", per_directory),
        ];
        let answers = measure(directory.path(), "fs-mark", &params).expect_finished();
        assert_eq!(answers.phases().len(), 1, "several iterations keep their files");
        let found = files(directory.path());
        assert_eq!(found.len(), 1200, "{length} {random}");
        let names: BTreeSet<&str> =
            found.keys().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert!(names.iter().all(|name| name.len().to_string() == length), "{names:?}");
        let nested = found.keys().filter(|path| path.contains('/')).count();
        assert_eq!(nested, if directories == "1" { 0 } else { 1200 });
        // Another run has the same names.
        let again = tempfile::tempdir().unwrap();
        measure(again.path(), "fs-mark", &params).expect_finished();
        assert!(found == files(again.path()));
    }
}

#[test]
fn directories_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let params = [
        ("files", "7"),
        ("directories", "3"),
        ("per_directory", "2"),
        ("loops", "2"),
        ("size", "0"),
    ];
    measure(directory.path(), "fs-mark", &params).expect_finished();
    let found = files(directory.path());
    let inside = |name: &str| found.keys().filter(|path| path.starts_with(name)).count();
    // 0 0 1 1 2 2 0, then 1 1 2 2 0 0 1.
    assert_eq!(["00/", "01/", "02/"].map(inside), [5, 5, 4]);
}

#[test]
fn iterations_fill_the_target_and_each_has_its_row() {
    for (keep, left, removed) in [("auto", 60, 0), ("false", 0, 60), ("true", 60, 0)] {
        let directory = tempfile::tempdir().unwrap();
        let params = [("files", "10"), ("numjobs", "2"), ("loops", "3"), ("keep", keep)];
        let answers = measure(directory.path(), "fs-mark", &params).expect_finished();
        assert_eq!(files(directory.path()).len(), left, "{keep}");
        let create = answers.phase("create");
        let subjects: Vec<&str> = create.samples.iter().map(|it| it.subject.as_str()).collect();
        assert_eq!(subjects, ["iteration 1", "iteration 2", "iteration 3"]);
        for iteration in 1..=3 {
            let value = |name: &str| create.values[&format!("iteration_{iteration}_{name}")];
            assert_eq!(value("count"), f64::from(20 * iteration));
            assert!(value("files_per_s") > 0.0 && value("app_overhead_us") > 0.0);
            assert!((0.0..=100.0).contains(&value("used_percent")));
            for call in ["create", "write", "fsync", "close"] {
                let times = ["min", "mean", "max"].map(|word| value(&format!("{call}_{word}_us")));
                assert!(times[0] > 0.0 && times.is_sorted(), "{call}: {times:?}");
            }
            assert_eq!(value("unlink_mean_us") > 0.0, removed > 0);
        }
        assert!(create.values["jobs_files_per_s"] > 0.0);
        if removed > 0 {
            assert_eq!(answers.phase("unlink").samples.len(), 3);
            assert_eq!(answers.phase("unlink").files, Some(removed));
            assert!(answers.manifest().unwrap().files.is_empty());
        } else {
            let manifest = answers.manifest().unwrap();
            assert_eq!(manifest.files.len(), left);
            assert_eq!(verify(directory.path(), manifest).mismatches, Vec::<String>::new());
        }
    }
}

#[test]
fn a_flipped_byte_in_what_is_left_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("files", "10"), ("keep", "true"), ("size", "5000"), ("bs", "1000")];
    let answers = measure(directory.path(), "fs-mark", &params).expect_finished();
    let manifest = answers.manifest().unwrap();
    let path = directory.path().join(&manifest.files[3].path);
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 5000);
    bytes[4321] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let found = verify(directory.path(), manifest).mismatches;
    assert_eq!(found, [format!("{}: differs at byte 4321", manifest.files[3].path)]);
}

#[test]
fn the_payload_of_the_original_is_zeros() {
    for mode in ["original", "corrected"] {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("files", "5"),
            ("size", "40000"),
            ("payload", "original"),
            ("keep", "true"),
            ("mode", mode),
        ];
        let answers = measure(directory.path(), "fs-mark", &params).expect_finished();
        assert_eq!(answers.verified(), Some((5, 200_000)));
        let found = files(directory.path());
        assert!(found.values().all(|bytes| *bytes == vec![0; 40_000]) && found.len() == 5);
    }
}

#[test]
fn the_rate_of_jobs_is_a_sum() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("numjobs", "4"), ("sync_method", "0"), ("files", "500"), ("size", "1000")];
    let answers = measure(directory.path(), "fs-mark", &params).expect_finished();
    let create = answers.phase("create");
    let all = 2000.0 / (create.elapsed_return_ns as f64 / 1e9);
    // No job takes longer than all of them together.
    assert!(create.values["jobs_files_per_s"] >= all);
    // One is a sum of rates, the other goes by way of the time: rounded differently.
    let ratio = create.values["jobs_files_per_s"] / create.values["iteration_1_files_per_s"];
    assert!((ratio - 1.0).abs() < 1e-12, "{ratio}");
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    for mode in ["original", "corrected"] {
        let Some(filesystem) = SmallFilesystem::mount("1m") else { return };
        let answers = measure(&filesystem.path(), "fs-mark", &[("mode", mode), ("numjobs", "2")]);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!((stage, answers.exit_code), ("create", EXIT_FAILED));
        assert!(error.starts_with("write 4000") && error.contains("ENOSPC"), "{error}");
        assert!(answers.phases().is_empty());
    }
}

#[test]
fn what_is_on_the_target_at_once_is_known_before() {
    let params = [
        ("files", "300"),
        ("numjobs", "2"),
        ("loops", "3"),
        ("size", "5000"),
        ("directories", "4"),
        ("sync_method", "none"),
    ];
    let values = spec(Path::new("/"), "fs-mark", &params).params;
    let peak = catalog::find("fs-mark").unwrap().peak_bytes(&values).unwrap().unwrap();
    for (bytes, is_enough) in [(peak, true), (peak * 8 / 10, false)] {
        let Some(filesystem) = SmallFilesystem::mount(&bytes.to_string()) else { return };
        let answers = measure(&filesystem.path(), "fs-mark", &params);
        assert_eq!(answers.failure().is_none(), is_enough, "{:?}", answers.failure());
    }
}

#[test]
fn a_file_that_is_there_already_is_an_error_unless_the_rules_are_those_of_the_original() {
    for (mode, is_error) in [("original", false), ("corrected", true)] {
        let directory = tempfile::tempdir().unwrap();
        let params = [("files", "3"), ("keep", "true"), ("mode", mode)];
        measure(directory.path(), "fs-mark", &params).expect_finished();
        let answers = measure(directory.path(), "fs-mark", &params);
        assert_eq!(answers.failure().is_some(), is_error, "{:?}", answers.failure());
    }
}
