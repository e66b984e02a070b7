//! The workload `compilebench` through the phase runner, on a dataset small enough for a temporary
//! directory and laid out so that every list of files and every operation has something to do.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fsdyno_model::record::PhaseRecord;
use fsdyno_model::wire::{Message, Task};
use fsdyno_workload::catalog;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{Answers, SmallFilesystem, measure, serve, spec, verify};

const TREE: &[(&str, u64)] = &[
    ("Makefile", 700),
    ("fs/a.c", 5000),
    ("fs/b.c", 0),
    ("fs/sub/c.c", 9000),
    ("net/d.c", 300_000),
];
/// Changes b.c, c.c and makes e.c.
const PATCHED: &[(&str, u64)] = &[
    ("Makefile", 700),
    ("fs/a.c", 5000),
    ("fs/b.c", 1234),
    ("fs/sub/c.c", 8000),
    ("net/d.c", 300_000),
    ("net/new/e.c", 4096),
];
const OBJECTS: &[(&str, u64)] = &[("fs/a.o", 20_000), ("fs/sub/c.o", 700_000), ("vmlinux", 0)];
const PATCHED_OBJECTS: &[(&str, u64)] =
    &[("fs/a.o", 20_000), ("fs/sub/c.o", 700_001), ("vmlinux", 10), ("net/new/e.o", 5)];
const TREE_BYTES: u64 = 314_700;
const PATCH_BYTES: u64 = 1234 + 8000 + 4096;
const OBJECT_BYTES: u64 = 720_000;

fn dataset() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, lists: &[&[(&str, u64)]]| {
        let files = lists.iter().copied().flatten();
        let lines: String = files.map(|(name, size)| format!("{name} {size}\n")).collect();
        std::fs::write(directory.path().join(name), lines).unwrap();
    };
    write("dataset-unpatched", &[TREE]);
    write("dataset-patched", &[PATCHED]);
    write("dataset-unpatched-compiled", &[TREE, OBJECTS]);
    write("dataset-patched-compiled", &[PATCHED, PATCHED_OBJECTS]);
    directory
}

fn run(root: &Path, params: &[(&str, &str)]) -> Answers {
    let dataset = dataset();
    let mut all = vec![("datasets", dataset.path().to_str().unwrap())];
    all.extend_from_slice(params);
    measure(root, "compilebench", &all)
}

fn operation(phase: &PhaseRecord, name: &str) -> u64 {
    phase.operations.get(name).copied().unwrap_or(0)
}

/// Names and sizes of all files below `root`.
fn files(root: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, entry.metadata().unwrap().len());
            }
        }
    }
    found
}

#[test]
fn phases_follow_the_sequence_and_count_what_the_dataset_holds() {
    for mode in ["original", "corrected"] {
        let root = tempfile::tempdir().unwrap();
        let params = [("mode", mode), ("trees", "5"), ("runs", "80"), ("sync", "false")];
        let answers = run(root.path(), &params).expect_finished();

        // The samples are the steps of the dry run, each under its phase.
        let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let dry = dry_run(&params);
        for line in &dry {
            let (op, tree) = line.split_once(' ').unwrap();
            expected.entry(op.to_owned()).or_default().push(tree.to_owned());
        }
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for phase in answers.phases() {
            let op = phase.name.trim_end_matches("-compiled").trim_start_matches("initial-");
            let subjects = phase.samples.iter().map(|sample| sample.subject.clone());
            found.entry(op.to_owned()).or_default().extend(subjects);
        }
        for subjects in expected.values_mut().chain(found.values_mut()) {
            subjects.sort();
        }
        assert_eq!(found, expected);

        let initial = answers.phase("initial-create");
        assert_eq!((initial.bytes, initial.files), (5 * TREE_BYTES, Some(25)));
        assert_eq!(operation(initial, "create"), 25);
        assert_eq!(operation(initial, "mkdir"), 5 * 4);
        // An empty file takes no write, and 300,000 bytes take two.
        assert_eq!(operation(initial, "write"), 5 * 5);
        for phase in answers.phases() {
            assert_eq!(phase.elapsed_durable_ns, None);
            let sum = |value: fn(&fsdyno_model::record::Sample) -> u64| -> u64 {
                phase.samples.iter().map(value).sum()
            };
            assert_eq!(sum(|sample| sample.bytes), phase.bytes);
            assert_eq!(sum(|sample| sample.operations), phase.operation_count());
            assert_eq!(sum(|sample| sample.elapsed_return_ns), phase.elapsed_return_ns);
        }
        let order: Vec<&str> = catalog::find("compilebench")
            .unwrap()
            .info()
            .phases
            .iter()
            .map(|phase| phase.name)
            .filter(|name| answers.phases().iter().any(|phase| phase.name == *name))
            .collect();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, order);
        assert!(answers.warnings().is_empty(), "nothing is cold without sync");
    }
}

fn dry_run(params: &[(&str, &str)]) -> Vec<String> {
    let dataset = dataset();
    let mut all = vec![("datasets", dataset.path().to_str().unwrap())];
    all.extend_from_slice(params);
    let spec = spec(Path::new("/"), "compilebench", &all);
    catalog::dry_run(catalog::find("compilebench").unwrap(), &spec.params, 1).unwrap().collect()
}

#[test]
fn single_operations_touch_the_files_of_their_list() {
    let root = tempfile::tempdir().unwrap();
    let answers = run(root.path(), &[("trees", "1"), ("runs", "60")]).expect_finished();
    let count = |name: &str| answers.phase(name).samples.len() as u64;
    let per_sample = |name: &str, operation_name: &str| {
        let phase = answers.phase(name);
        operation(phase, operation_name) as f64 / phase.samples.len() as f64
    };
    for sample in &answers.phase("patch").samples {
        let objects = 700_001 + 10 + 5;
        assert!([PATCH_BYTES, objects].contains(&sample.bytes), "{sample:?}");
    }
    for sample in answers.phase("compile").samples.iter().chain(&answers.phase("clean").samples) {
        assert!([OBJECT_BYTES, 700_016].contains(&sample.bytes), "{sample:?}");
    }
    // Two of three files are there before, each is opened once more to be read, and the tree too.
    assert_eq!(per_sample("patch", "open"), 4.0);
    assert!(operation(answers.phase("patch"), "read") > 2 * count("patch"));
    assert_eq!(per_sample("clean", "unlink"), 3.0);
    assert_eq!(answers.phase("clean").files, Some(3 * count("clean")));
    for sample in &answers.phase("stat").samples {
        assert_eq!(sample.bytes, 0);
    }
    for phase in answers.phases() {
        assert!(phase.elapsed_durable_ns > Some(phase.elapsed_return_ns), "{}", phase.name);
    }
    let codes: BTreeSet<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, BTreeSet::from(["caches-not-dropped"]));
    assert_eq!(answers.warnings().len(), 1);
}

#[test]
fn what_is_left_is_what_the_manifest_says() {
    for mode in ["original", "corrected"] {
        for payload in ["original", "realistic:compressibility=50%,duplication=20%"] {
            let root = tempfile::tempdir().unwrap();
            let params = [
                ("mode", mode),
                ("payload", payload),
                ("trees", "4"),
                ("runs", "70"),
                ("sync", "false"),
            ];
            let answers = run(root.path(), &params).expect_finished();
            let manifest = answers.manifest().unwrap();
            let left = files(root.path());
            let listed: BTreeMap<String, u64> =
                manifest.files.iter().map(|file| (file.path.clone(), file.size_bytes)).collect();
            assert_eq!(listed, left, "fewer files than the manifest can take are all in it");
            let record = verify(root.path(), manifest);
            assert_eq!(
                (record.files, record.mismatches.len()),
                (left.len() as u64, 0),
                "{record:?}"
            );
            assert_eq!(record.bytes, left.values().sum::<u64>());

            let (victim, size) = left.iter().max_by_key(|(_, size)| **size).unwrap();
            let file = std::fs::File::options()
                .read(true)
                .write(true)
                .open(root.path().join(victim))
                .unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, size - 1).unwrap();
            file.write_all_at(&[byte[0] ^ 1], size - 1).unwrap();
            let record = verify(root.path(), manifest);
            assert_eq!(record.mismatches, [format!("{victim}: differs at byte {}", size - 1)]);
        }
    }
}

#[test]
fn the_contents_depend_on_the_seed_only() {
    let contents = |seed: u64| {
        let (root, dataset) = (tempfile::tempdir().unwrap(), dataset());
        let datasets = dataset.path().to_str().unwrap();
        let params = [("datasets", datasets), ("trees", "1"), ("runs", "0"), ("sync", "false")];
        let spec =
            fsdyno_model::wire::MeasureSpec { seed, ..spec(root.path(), "compilebench", &params) };
        serve(Task::Measure(spec)).expect_finished();
        std::fs::read(root.path().join("kernel-0/net/d.c")).unwrap()
    };
    assert_eq!(contents(1), contents(1));
    assert_ne!(contents(1), contents(2));
}

#[test]
fn the_original_keeps_its_rules() {
    let root = tempfile::tempdir().unwrap();
    let params = [("mode", "original"), ("trees", "2"), ("runs", "40"), ("payload", "original")];
    let answers = run(root.path(), &params).expect_finished();
    let initial = answers.phase("initial-create");
    assert_eq!(initial.elapsed_durable_ns, None, "the first trees are synced in no statistic");
    for phase in answers.phases() {
        let in_seconds = phase.name.contains("delete") || phase.name.contains("stat");
        let metric =
            if in_seconds { "sample_mean_elapsed_s" } else { "sample_mean_throughput_mib_per_s" };
        assert_eq!(phase.primary_metric, metric);
        if phase.name != "initial-create" {
            assert!(phase.elapsed_durable_ns.is_some(), "{}", phase.name);
        }
    }
    assert_eq!(operation(answers.phase("patch"), "read"), 0);
    assert!(operation(answers.phase("patch"), "truncate") > 0);
    let natives = std::fs::read_dir(root.path()).unwrap().flatten();
    assert!(natives.into_iter().all(|it| it.file_name().to_str().unwrap().starts_with("kernel-")));
}

#[test]
fn makej_compiles_all_reads_three_and_deletes_all() {
    for mode in ["original", "corrected"] {
        let root = tempfile::tempdir().unwrap();
        let params = [("mode", mode), ("trees", "4"), ("makej", "true")];
        let answers = run(root.path(), &params).expect_finished();
        let counts: Vec<(&str, usize)> = answers
            .phases()
            .iter()
            .map(|phase| (phase.name.as_str(), phase.samples.len()))
            .collect();
        let (initial, compiled) = (("initial-create", 4), ("compile", 4));
        assert_eq!(counts[..3], [initial, compiled, ("read-compiled", 3)], "{counts:?}");
        let deleted: usize = counts[3..].iter().map(|(_, count)| count).sum();
        assert_eq!(deleted, 4, "{counts:?}");
        assert_eq!(answers.phase("read-compiled").bytes, 3 * (TREE_BYTES + OBJECT_BYTES));
        let is_durable = answers.phase("compile").elapsed_durable_ns.is_some();
        assert_eq!(is_durable, mode == "corrected");
        assert_eq!(files(root.path()).len(), 0);
        assert!(answers.manifest().unwrap().files.is_empty());
    }
}

#[test]
fn a_full_filesystem_keeps_the_finished_phases() {
    // Three trees fit, and not all of their objects.
    let Some(filesystem) = SmallFilesystem::mount("1500k") else { return };
    let params = [("trees", "3"), ("makej", "true")];
    let answers = run(&filesystem.path(), &params);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("compile", EXIT_FAILED));
    assert!(error.contains("ENOSPC") && error.contains(" kernel-"), "{error}");
    let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["initial-create"]);
    assert!(answers.manifest().is_none());
    assert!(!answers.messages.contains(&Message::Finished));
}

#[test]
fn a_malformed_dataset_fails_with_its_line() {
    let (root, dataset) = (tempfile::tempdir().unwrap(), dataset());
    std::fs::write(dataset.path().join("dataset-patched"), "fs/a.c 1\n../b 2\n").unwrap();
    let params = [("datasets", dataset.path().to_str().unwrap())];
    let answers = measure(root.path(), "compilebench", &params);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "prepare");
    assert!(error.contains("dataset-patched:2: "), "{error}");
}

#[test]
fn what_a_run_needs_at_its_fullest_is_known_before() {
    let dataset = dataset();
    for mode in ["original", "corrected"] {
        let params = [
            ("datasets", dataset.path().to_str().unwrap()),
            ("mode", mode),
            ("trees", "4"),
            ("runs", "60"),
            ("sync", "false"),
        ];
        let workload = catalog::find("compilebench").unwrap();
        let peak = workload.peak_bytes(&spec(Path::new("/"), "compilebench", &params).params);
        let peak = peak.unwrap().unwrap();
        for (bytes, is_enough) in [(peak, true), (peak * 3 / 4, false)] {
            let Some(filesystem) = SmallFilesystem::mount(&bytes.to_string()) else { return };
            let answers = measure(&filesystem.path(), "compilebench", &params);
            assert_eq!(answers.failure().is_none(), is_enough, "mode={mode} on {bytes} bytes");
        }
    }
}

#[test]
fn faults_of_the_dataset_are_found_before_a_run() {
    let workload = catalog::find("compilebench").unwrap();
    let dataset = dataset();
    let datasets = dataset.path().to_str().unwrap();
    let check = |datasets: &str| {
        let spec = spec(Path::new("/"), "compilebench", &[("datasets", datasets)]);
        let checked = workload.check(&spec.params);
        let peak = workload.peak_bytes(&spec.params).map_err(|error| format!("{error:#}"));
        let dry = catalog::dry_run(catalog::find("compilebench").unwrap(), &spec.params, 1);
        let dry = dry.map(drop).map_err(|error| format!("{error:#}"));
        assert_eq!(checked, peak.map(drop));
        assert_eq!(checked, dry);
        checked
    };
    assert_eq!(check(datasets), Ok(()));
    assert_eq!(check("builtin"), Ok(()));
    std::fs::write(dataset.path().join("dataset-patched"), "fs/a.c 1\nfs/b.c x\n").unwrap();
    let error = check(datasets).unwrap_err();
    assert!(error.contains("dataset-patched:2: size \"x\""), "{error}");
    let error = check("/nonexistent").unwrap_err();
    assert!(error.contains("/nonexistent/dataset-unpatched"), "{error}");
    assert_eq!(error.matches("os error 2").count(), 1, "{error}");
}

#[test]
fn the_seed_decides_the_operations_only_where_asked() {
    let dataset = dataset();
    let steps = |rng: &str, seed: u64| -> Vec<String> {
        let params = [("datasets", dataset.path().to_str().unwrap()), ("rng", rng)];
        let spec = spec(Path::new("/"), "compilebench", &params);
        catalog::dry_run(catalog::find("compilebench").unwrap(), &spec.params, seed)
            .unwrap()
            .collect()
    };
    assert_eq!(steps("cpython-555", 1), steps("cpython-555", 2));
    assert_ne!(steps("seed", 1), steps("seed", 2));
    assert_eq!(steps("seed", 7), steps("xoshiro-7", 1));

    // A run takes the seed of its specification.
    let root = tempfile::tempdir().unwrap();
    let datasets = dataset.path().to_str().unwrap();
    let params = [("datasets", datasets), ("rng", "seed"), ("trees", "0"), ("runs", "1")];
    let answers = measure(root.path(), "compilebench", &params).expect_finished();
    let spec = spec(root.path(), "compilebench", &params);
    let dry = catalog::dry_run(catalog::find("compilebench").unwrap(), &spec.params, spec.seed)
        .unwrap()
        .next()
        .unwrap();
    assert_eq!(format!("create {}", answers.phase("create").samples[0].subject), dry);
}

#[test]
fn every_difference_is_told() {
    let differences = catalog::find("compilebench").unwrap().info().differences;
    assert!(differences.iter().all(|(original, ours)| original.len() > 20 && ours.len() > 20));
}
