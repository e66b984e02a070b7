//! Trials whose device fails under them: the kernel's words are attached, nothing is left behind, and
//! the others are not touched.

use serde_json::Value;

use crate::sandbox::{Sandbox, can_format, outcomes, own_warnings};

/// A disk that goes away while it is used: the file behind the loop device is cut to nothing in the
/// second of three trials.
#[test]
fn a_device_that_goes_away_costs_one_trial() {
    if !can_format(&["ext4"]) {
        return;
    }
    let _log = crate::sandbox::kernel_log();
    let sandbox = Sandbox::new();
    let images = sandbox.images().display().to_string();
    let line = format!(
        "mkdir d && echo > d/f && sync && echo >> '{path}/count'; \
         if [ $(wc -l < '{path}/count') = 2 ]; then \
         find '{images}' -type f -size +100M -exec truncate -s 0 '{{}}' ';'; \
         echo 3 > /proc/sys/vm/drop_caches; fi; cat d/f",
        path = sandbox.path().display(),
    );
    let arguments = [
        "compare",
        "ext4",
        "--dir",
        &images,
        "--size",
        "1GiB",
        "-n",
        "3",
        "--trace",
        "none",
        "--json",
        "result.json",
        "--",
        &line,
    ];
    let finished = sandbox.run(arguments);
    finished.assert_code(1);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcomes(&result), ["completed", "failed", "completed"], "{}", finished.stderr);
    let trials = result["trials"].as_array().unwrap();
    let warnings = own_warnings(&trials[1]);
    let told = warnings.iter().find(|one| one["code"] == "kernel-complained");
    let message = told.unwrap_or_else(|| panic!("{warnings:?}"))["message"].as_str().unwrap();
    assert!(message.contains("error") && message.contains("loop"), "{message}");
    for other in [&trials[0], &trials[2]] {
        assert_eq!(own_warnings(other), Vec::<&Value>::new());
    }
    sandbox.assert_nothing_left();
}
