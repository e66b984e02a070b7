//! The disk under the results fills in the middle of a run: the run stops and says so, what is finished can
//! be read at once, and the run goes on when there is room again.

use std::path::PathBuf;

use crate::sandbox::{Sandbox, can_format, outcomes};

/// A small filesystem for the results.
struct Small {
    mount_point: PathBuf,
}

impl Small {
    fn new(sandbox: &Sandbox) -> Small {
        let mount_point = sandbox.path().join("small");
        std::fs::create_dir(&mount_point).unwrap();
        fsdyno_sys::mount::mount("tmpfs", "tmpfs", &mount_point, "size=2m").unwrap();
        Small { mount_point }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = fsdyno_sys::mount::unmount(&self.mount_point);
    }
}

#[test]
fn a_run_stops_at_a_full_results_disk_and_goes_on_later() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = Small::new(&sandbox);
    let images = sandbox.images().display().to_string();
    let (place, filler) = (sandbox.path().display(), small.mount_point.join("filler"));
    let database = small.mount_point.join("results.sqlite").display().to_string();
    // The third trial fills it to the last byte.
    let line = format!(
        "echo >> {place}/count; [ $(wc -l < {place}/count) != 3 ] || cat /dev/zero > {}; true",
        filler.display()
    );
    let arguments = ["compare", "ext4", "--dir", &images, "--size", "300MiB", "-n", "5"];
    let rest = ["--db", &database, "--quiet", "--", &line];
    let finished = sandbox.run(arguments.into_iter().chain(rest));
    finished.assert_code(1);
    for words in ["cannot write the results database", &database, "run --resume", "full"] {
        assert!(finished.stderr.contains(words), "{words}: {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    assert_eq!(std::fs::read_dir(sandbox.images()).unwrap().count(), 0);
    // While it is still full.
    let shown = sandbox.run(["show", "--json", "--db", &database]);
    shown.assert_code(1);
    let words = outcomes(&shown.json()).join(" ");
    assert_eq!(words, "completed completed interrupted interrupted interrupted");
    std::fs::remove_file(&filler).unwrap();
    let resumed = sandbox.run(["run", "--resume", "--db", &database, "--json", "-"]);
    resumed.assert_code(0);
    let result = resumed.json();
    assert_eq!(outcomes(&result), ["completed"; 5]);
    // The trial whose record did not fit was made anew, the finished ones were not.
    let before = shown.json();
    for index in [0, 1] {
        assert_eq!(result["trials"][index]["started"], before["trials"][index]["started"]);
    }
    let count = std::fs::read_to_string(sandbox.path().join("count")).unwrap();
    assert_eq!(count.lines().count(), 3 + 3);
    drop(small);
    sandbox.assert_nothing_left();
}
