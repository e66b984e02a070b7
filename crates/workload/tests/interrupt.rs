//! A signal ends a workload at its next operation. Alone in its file because the signal reaches the
//! whole process.

mod support;

use std::time::Duration;

use fsdyno_workload::runner::EXIT_FAILED;

#[test]
fn a_signal_ends_the_run_in_good_order() {
    let directory = tempfile::tempdir().unwrap();
    // So that the signal finds the handlers even before the runner has put them up.
    fsdyno_sys::process::install_signal_handlers().unwrap();
    let pid = std::process::id().to_string();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        assert!(
            std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success()
        );
    });
    // Far more than can be done within the time.
    let params = [("files", "5000000"), ("size", "0")];
    let answers = support::measure(directory.path(), "small-files", &params);
    killer.join().unwrap();
    assert_eq!(answers.failure(), Some(("create", "interrupted")));
    assert_eq!(answers.exit_code, EXIT_FAILED);
    assert!(answers.phases().is_empty());

    // The wish to stop stays, so that the others end at their first look.
    for (workload, params, stage) in [
        ("fs-mark", &[("sync_method", "none")][..], "create"),
        ("fs-mark", &[("mode", "original"), ("numjobs", "3")], "create"),
        ("fileio", &[("modes", "seqwr")], "seqwr"),
        ("fileio", &[("modes", "rndrw"), ("numjobs", "2")], "prepare"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = support::measure(directory.path(), workload, params);
        assert_eq!(answers.failure(), Some((stage, "interrupted")), "{workload} {params:?}");
        assert!(answers.phases().is_empty());
    }
}
