//! The workload `small-files` through the phase runner, in a temporary directory.

mod support;

use fsdyno_model::wire::Message;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{SmallFilesystem, measure, spec};

fn operations(phase: &fsdyno_model::record::PhaseRecord) -> Vec<(&str, u64)> {
    phase.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

#[test]
fn phases_come_in_order_with_exact_counts() {
    for (directories, size, writes, reads) in
        [("1", "4KiB", 1, 2), ("7", "700KiB", 3, 4), ("1", "0", 0, 1)]
    {
        let directory = tempfile::tempdir().unwrap();
        let params = [("files", "300"), ("size", size), ("directories", directories)];
        let answers = measure(directory.path(), "small-files", &params).expect_finished();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["create", "stat", "read", "delete"]);
        let is_floor = |message: &Message| matches!(message, Message::Floor { ns_per_operation } if *ns_per_operation > 0.0);
        assert!(answers.messages.iter().any(is_floor), "{:?}", answers.messages);

        let mut created = vec![("close", 300), ("create", 300), ("write", 300 * writes)];
        created.retain(|(_, count)| *count > 0);
        assert_eq!(operations(answers.phase("create")), created);
        assert_eq!(operations(answers.phase("stat")), [("stat", 300)]);
        let read = [("close", 300), ("open", 300), ("read", 300 * reads)];
        assert_eq!(operations(answers.phase("read")), read);
        assert_eq!(operations(answers.phase("delete")), [("unlink", 300)]);
        for phase in answers.phases() {
            assert_eq!(phase.files, Some(300));
            assert_eq!(phase.latency.len(), phase.operations.len());
            assert!(phase.elapsed_durable_ns >= Some(phase.elapsed_return_ns));
            let [sample] = phase.samples.as_slice() else { panic!("{phase:?}") };
            assert_eq!((sample.operations, sample.bytes), (phase.operation_count(), phase.bytes));
            assert!(phase.cpu.app_user_ns.is_some() && phase.cpu.filesystem_ns.is_none());
            assert_eq!(phase.device, fsdyno_model::record::DeviceRecord::default());
        }
        assert_eq!(answers.verified(), Some((300, answers.phase("create").bytes)));
        let left = std::fs::read_dir(directory.path()).unwrap();
        assert!(left.flatten().all(|entry| entry.file_type().unwrap().is_dir()));
        let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, ["caches-not-dropped"], "said once");
    }
}

#[test]
fn where_caches_cannot_be_emptied_one_warning_says_that_nothing_was_done() {
    let directory = tempfile::tempdir().unwrap();
    // These tests may neither mount again nor drop the caches.
    let params = [("files", "10"), ("cold", "remount")];
    let answers = measure(directory.path(), "small-files", &params).expect_finished();
    let [warning] = answers.warnings()[..] else { panic!("{:?}", answers.warnings()) };
    assert_eq!(warning.code, "caches-not-dropped");
    assert!(warning.message.starts_with("the caches were not emptied"), "{}", warning.message);
}

#[test]
fn without_sync_nothing_is_called_durable() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("files", "10"), ("sync", "false"), ("cold", "none"), ("payload", "original")];
    let answers = measure(directory.path(), "small-files", &params).expect_finished();
    assert!(answers.phases().iter().all(|phase| phase.elapsed_durable_ns.is_none()));
    assert!(answers.warnings().is_empty());
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    let Some(filesystem) = SmallFilesystem::mount("2m") else { return };
    let answers = measure(&filesystem.path(), "small-files", &[("files", "1000")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("create", EXIT_FAILED));
    assert!(error.starts_with("write f0000") && error.contains("ENOSPC"), "{error}");
    assert!(error.contains("--size"), "{error}");
    assert!(answers.phases().is_empty());
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("f00000003"), "theirs").unwrap();
    let answers = measure(directory.path(), "small-files", &[("files", "10")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "create");
    assert!(error.starts_with("create f00000003: EEXIST"), "{error}");
}

#[test]
fn specifications_that_do_not_fit_fail_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let mut unknown = spec(directory.path(), "small-files", &[]);
    unknown.workload = "smallfiles".to_owned();
    let mut absent = spec(directory.path(), "small-files", &[]);
    absent.root = directory.path().join("absent");
    let foreign = fsdyno_model::wire::MeasureSpec {
        workload: "small-files".to_owned(),
        definition: None,
        params: fsdyno_model::param::Params::default(),
        ..absent.clone()
    };
    let crossed = spec(directory.path(), "small-files", &[("files", "5"), ("directories", "6")]);
    for (spec, words) in [
        (unknown, "did you mean `small-files`"),
        (absent, "ENOENT"),
        (foreign, "parameter files is missing"),
        (crossed, "use fewer directories"),
    ] {
        let answers = support::serve(fsdyno_model::wire::Task::Measure(spec));
        let (stage, error) = answers.failure().unwrap();
        assert_eq!((stage, answers.exit_code), ("prepare", EXIT_FAILED));
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn what_is_on_the_target_at_once_is_known_before() {
    let peak = |params: &[(&str, &str)]| {
        let workload = fsdyno_workload::catalog::find("small-files").unwrap();
        let spec = spec(std::path::Path::new("/"), "small-files", params);
        workload.peak_bytes(&spec.params).unwrap().unwrap()
    };
    for (files, size, directories, file_bytes) in [
        ("300", "1", "1", 300 * 4096),
        ("300", "4KiB", "1", 300 * 4096),
        ("300", "5000", "7", 300 * 8192),
        ("1", "0", "1", 0),
    ] {
        let bytes = peak(&[("files", files), ("size", size), ("directories", directories)]);
        let directories: u64 = directories.parse().unwrap();
        let low = file_bytes + directories * 4096;
        assert!((low..=low + 16384).contains(&bytes), "{files} of {size}: {bytes}");
    }
    // 10^8 files of nearly 2^37 bytes are still counted.
    assert!(peak(&[("files", "99999999"), ("size", "128GiB")]) > 1 << 63);
}
