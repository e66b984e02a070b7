//! The workload `mdtest` through the phase runner in a temporary directory.

mod support;

use fsdyno_model::param::Params;
use fsdyno_model::record::PhaseRecord;
use fsdyno_workload::catalog;
use support::{Answers, SmallFilesystem, measure};

fn names(answers: &Answers) -> Vec<&str> {
    answers.phases().iter().map(|phase| phase.name.as_str()).collect()
}

/// Items and samples of a phase.
fn counts(phase: &PhaseRecord) -> (u64, usize) {
    (phase.files.unwrap(), phase.samples.len())
}

#[test]
fn phases_and_counts_by_hand() {
    // items, branch, depth, leaves only, own trees, ranks, iterations: directories and items of all.
    for (items, branch, depth, leaves, own, ranks, iterations, directories, all) in [
        ("50", "1", "0", "false", "false", "1", "1", 1, 50),
        ("50", "2", "2", "false", "false", "1", "1", 7, 49),
        ("50", "2", "2", "true", "false", "2", "1", 7, 2 * 48),
        ("50", "2", "2", "true", "true", "3", "2", 2 * 3 * 7, 2 * 3 * 48),
        ("7", "3", "1", "false", "true", "2", "3", 3 * 2 * 4, 3 * 2 * 4),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("items", items),
            ("branch", branch),
            ("depth", depth),
            ("leaves_only", leaves),
            ("unique_directories", own),
            ("numjobs", ranks),
            ("iterations", iterations),
            ("stride", "1"),
            ("rename", "true"),
        ];
        let answers = measure(directory.path(), "mdtest", &params).expect_finished();
        assert_eq!(
            names(&answers),
            [
                "tree-creation",
                "directory-create",
                "directory-stat",
                "directory-rename",
                "directory-remove",
                "file-create",
                "file-stat",
                "file-read",
                "file-remove",
                "tree-removal",
            ]
        );
        for phase in answers.phases() {
            let is_tree = phase.name.starts_with("tree");
            let expected = if is_tree { directories } else { all };
            let samples = iterations.parse().unwrap();
            assert_eq!(counts(phase), (expected, samples), "{}: {params:?}", phase.name);
            assert!(phase.elapsed_durable_ns.is_some());
        }
        assert_eq!(answers.phase("directory-rename").operations["rename"], all);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn files_are_written_read_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let params = [
        ("items", "40"),
        ("directories", "false"),
        ("write_bytes", "300001"),
        ("read_bytes", "100"),
        ("fsync", "true"),
        ("sync", "false"),
        ("numjobs", "2"),
    ];
    let answers = measure(directory.path(), "mdtest", &params).expect_finished();
    assert_eq!(
        names(&answers),
        ["tree-creation", "file-create", "file-stat", "file-read", "file-remove", "tree-removal"]
    );
    let create = answers.phase("file-create");
    assert_eq!((create.bytes, create.operations["fsync"]), (80 * 300_001, 80));
    assert_eq!(create.operations["write"], 80 * 2);
    assert_eq!(answers.phase("file-read").read_bytes, 80 * 100);
    assert_eq!(create.elapsed_durable_ns, None);
    assert_eq!(answers.verified(), Some((80, 80 * 300_001)));
}

#[test]
fn a_stonewall_ends_creation_and_the_rest_works_on_what_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let params = [
        ("items", "300000"),
        ("directories", "false"),
        ("stonewall", "10ms"),
        ("numjobs", "2"),
        ("stride", "1"),
        ("sync", "false"),
    ];
    let answers = measure(directory.path(), "mdtest", &params).expect_finished();
    let made = answers.phase("file-create").files.unwrap();
    assert!(made > 0 && made < 600_000, "{made}");
    for phase in ["file-stat", "file-read", "file-remove"] {
        assert_eq!(answers.phase(phase).files, Some(made), "{phase}");
    }
}

#[test]
fn a_full_target_ends_the_run() {
    let Some(small) = SmallFilesystem::mount("2m") else { return };
    let params = [("write_bytes", "64KiB"), ("directories", "false")];
    let answers = measure(&small.path(), "mdtest", &params);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "file-create");
    assert!(error.contains("ENOSPC") && error.contains("file.mdtest.0."), "{error}");
}

#[test]
fn parameters_that_do_not_go_together_are_refused() {
    let workload = catalog::find("mdtest").unwrap();
    for (pairs, words) in [
        (&[("items", "5"), ("depth", "9")][..], "fewer than the 10 directories"),
        (&[("branch", "100"), ("depth", "50")], "more than 1000000 directories"),
        (&[("read_bytes", "1")], "are more than write_bytes=0"),
        (&[("files", "false"), ("directories", "false")], "nothing to do"),
        (&[("numjobs", "1024"), ("items", "20000000")], "use fewer"),
    ] {
        let mut params = Params::defaults(workload.info().params, false);
        for (name, value) in pairs {
            params.set(workload.info().params, name, value).unwrap();
        }
        let error = workload.check(&params).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}
