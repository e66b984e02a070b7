//! The workload `fileio`: which calls each mode makes under each policy of syncing, what the files hold
//! afterwards, and what stops it.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use fsdyno_model::record::PhaseRecord;
use fsdyno_workload::catalog;
use fsdyno_workload::runner::EXIT_FAILED;

use support::{Answers, SmallFilesystem, measure, spec, verify};

/// 4 files of 16 blocks each.
const FEW: [(&str, &str); 4] =
    [("file_num", "4"), ("total_size", "1MiB"), ("runtime", "1h"), ("events", "50")];

fn calls(phase: &PhaseRecord) -> BTreeMap<&str, u64> {
    phase.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

fn run(root: &Path, params: &[(&str, &str)]) -> Answers {
    measure(root, "fileio", &[&FEW[..], params].concat()).expect_finished()
}

#[test]
fn each_mode_makes_its_calls_and_leaves_what_was_written() {
    // 50 requests: in the mixed mode 30 reads and 20 writes, all files synced at the end.
    for (name, reads, writes, fsyncs) in [
        ("seqwr", 0, 50, 4),
        ("seqrewr", 0, 50, 4),
        ("seqrd", 50, 0, 0),
        ("rndrd", 50, 0, 0),
        ("rndwr", 0, 50, 4),
        ("rndrw", 30, 20, 4),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = run(directory.path(), &[("modes", name)]);
        let [phase] = answers.phases()[..] else { panic!("{name}") };
        let mut expected = BTreeMap::from([("read", reads), ("write", writes), ("fsync", fsyncs)]);
        expected.retain(|_, count| *count > 0);
        assert_eq!((phase.name.as_str(), calls(phase)), (name, expected));
        assert_eq!((phase.bytes, phase.read_bytes), (50 << 14, reads << 14));
        for (metric, count) in
            [("reads_per_s", reads), ("writes_per_s", writes), ("fsyncs_per_s", fsyncs)]
        {
            assert_eq!(phase.values.contains_key(metric), count > 0, "{name}: {metric}");
        }
        assert!(phase.values["requests_per_s"] > 0.0);
        assert!(phase.values["request_percentile_ms"] > 0.0);
        let manifest = answers.manifest().unwrap();
        assert_eq!(manifest.files.len(), 4);
        let found = verify(directory.path(), manifest);
        assert_eq!((found.bytes, found.mismatches), (1 << 20, vec![]), "{name}");
    }
}

#[test]
fn policies_of_syncing() {
    for (pairs, call, expected) in [
        (&[][..], "fsync", 4),
        (&[("fsync_freq", "10")], "fsync", 5 * 4 + 4),
        (&[("fsync_freq", "10"), ("fsync_end", "false")], "fsync", 5 * 4),
        (&[("fsync_freq", "0"), ("fsync_mode", "fdatasync")], "fdatasync", 4),
        (&[("fsync_all", "true")], "fsync", 50),
        (&[("fsync_freq", "0"), ("fsync_end", "false")], "fsync", 0),
        (&[("numjobs", "3")], "fsync", 4),
        (&[("numjobs", "3"), ("mode", "original")], "fsync", 3 * 4),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = run(directory.path(), &[&[("modes", "rndwr")], pairs].concat());
        let counts = calls(answers.phase("rndwr"));
        assert_eq!(counts["write"], 50, "{pairs:?}");
        assert_eq!(counts.get(call).copied().unwrap_or(0), expected, "{pairs:?}");
        assert_eq!(counts.len(), 1 + usize::from(expected > 0));
    }
}

#[test]
fn all_modes_follow_each_other_and_sequential_ones_end_after_a_pass() {
    for (mode, jobs, pass) in
        [("corrected", "1", 64), ("corrected", "3", 64), ("original", "2", 80)]
    {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("mode", mode),
            ("numjobs", jobs),
            ("events", "80"),
            ("fsync_freq", "0"),
            ("cold", "drop-caches"),
        ];
        let answers = run(directory.path(), &params);
        let names: Vec<&str> = answers.phases().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["seqwr", "seqrewr", "seqrd", "rndrd", "rndwr", "rndrw"]);
        for (name, call, count) in [
            ("seqwr", "write", pass),
            ("seqrewr", "write", pass),
            ("seqrd", "read", pass),
            ("rndrd", "read", 80),
            ("rndwr", "write", 80),
        ] {
            let phase = answers.phase(name);
            assert_eq!(calls(phase)[call], count, "{mode} {jobs} {name}");
            assert_eq!(phase.elapsed_durable_ns.is_some(), mode == "corrected");
        }
        let found = verify(directory.path(), answers.manifest().unwrap());
        assert_eq!(found.mismatches, Vec::<String>::new());
        let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, ["caches-not-dropped"]);
    }
}

#[test]
fn files_are_made_anew_where_a_later_mode_needs_new_ones() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("modes", "rndwr+seqwr+seqrd"), ("events", "5")];
    let answers = run(directory.path(), &params);
    assert_eq!(answers.phases().len(), 3);
    let found = verify(directory.path(), answers.manifest().unwrap());
    assert_eq!((found.bytes, found.mismatches), (1 << 20, vec![]));
}

#[test]
fn the_payload_of_the_original_is_zeros() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("payload", "original"), ("mode", "original"), ("modes", "seqwr+rndrw")];
    let answers = run(directory.path(), &params);
    assert_eq!(answers.verified(), Some((4, 1 << 20)));
    assert!(answers.manifest().unwrap().files.is_empty());
    let zeros = std::fs::read(directory.path().join("test_file.3")).unwrap();
    assert_eq!(zeros, vec![0; 1 << 18]);
}

#[test]
fn files_are_opened_with_the_flags_that_are_asked_for() {
    for flags in ["sync", "dsync", "direct"] {
        let directory = tempfile::tempdir().unwrap();
        let params = [("extra_flags", flags), ("numjobs", "2"), ("events", "20")];
        let answers = measure(directory.path(), "fileio", &[&FEW[..], &params].concat());
        if let Some((_, error)) = answers.failure() {
            assert!(flags == "direct" && error.contains("extra_flags=direct"), "{error}");
            println!("skipped: {error}");
            continue;
        }
        let found = verify(directory.path(), answers.manifest().unwrap());
        assert_eq!(found.mismatches, Vec::<String>::new(), "{flags}");
    }
}

#[test]
fn a_phase_ends_when_its_time_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("modes", "rndrd"), ("events", "0"), ("runtime", "300ms"), ("numjobs", "2")];
    let answers = run(directory.path(), &params);
    let phase = answers.phase("rndrd");
    assert!(phase.elapsed_return_ns >= 300_000_000);
    assert!(calls(phase)["read"] > 2);
}

#[test]
fn a_flipped_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let answers = run(directory.path(), &[("modes", "seqwr")]);
    let path = directory.path().join("test_file.2");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let found = verify(directory.path(), answers.manifest().unwrap()).mismatches;
    assert_eq!(found, ["test_file.2: differs at byte 100000"]);
}

#[test]
fn a_full_filesystem_fails_and_names_the_file() {
    for (modes, failing) in [("seqwr", "seqwr"), ("rndrd", "prepare")] {
        let Some(filesystem) = SmallFilesystem::mount("600k") else { return };
        let params = [&FEW[..], &[("modes", modes), ("events", "0")]].concat();
        let answers = measure(&filesystem.path(), "fileio", &params);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!((stage, answers.exit_code), (failing, EXIT_FAILED));
        assert!(error.starts_with("write test_file.2") && error.contains("ENOSPC"), "{error}");
        assert!(answers.phases().is_empty());
    }
}

#[test]
fn what_is_on_the_target_at_once_is_known_before() {
    let params = [&FEW[..], &[("file_num", "30"), ("total_size", "5MiB")]].concat();
    let values = spec(Path::new("/"), "fileio", &params).params;
    let peak = catalog::find("fileio").unwrap().peak_bytes(&values).unwrap().unwrap();
    for (bytes, is_enough) in [(peak, true), (peak * 8 / 10, false)] {
        let Some(filesystem) = SmallFilesystem::mount(&bytes.to_string()) else { return };
        let answers = measure(&filesystem.path(), "fileio", &params);
        assert_eq!(answers.failure().is_none(), is_enough, "{:?}", answers.failure());
    }
}
