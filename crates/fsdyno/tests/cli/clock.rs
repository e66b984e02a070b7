//! A clock that is set during a trial: forward, back, and both. No time that is measured changes by it, and
//! the trial is marked.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fsdyno_sys::clock::{now_ns, wall_ns};
use rustix::time::{ClockId, Timespec, clock_settime};
use serde_json::Value;

use crate::sandbox::{Sandbox, outcomes, skip};

/// How far the clock is set.
const STEP: Duration = Duration::from_secs(1);

/// Sets the wall clock, and sets it right in the end whatever happens.
struct WallClock {
    /// What wall time is ahead of monotonic time by.
    offset_ns: u64,
}

impl WallClock {
    fn new() -> WallClock {
        WallClock { offset_ns: wall_ns() - now_ns() }
    }

    /// Sets it ahead of the true time; false where that is not allowed.
    fn set(&self, ahead: i64) -> bool {
        let wall_ns = (now_ns() + self.offset_ns).wrapping_add_signed(ahead);
        let (seconds, rest) = (wall_ns / 1_000_000_000, wall_ns % 1_000_000_000);
        let time = Timespec { tv_sec: seconds as i64, tv_nsec: rest as i64 };
        clock_settime(ClockId::Realtime, time).is_ok()
    }
}

impl Drop for WallClock {
    fn drop(&mut self) {
        self.set(0);
    }
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} did not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_clock_that_is_set_changes_no_time_and_marks_the_trial() {
    let clock = WallClock::new();
    if !clock.set(0) {
        return skip("the clock cannot be set here");
    }
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("work")).unwrap();
    let place = sandbox.path().display();
    // Each trial says when it is under way, waits, and writes down how long it took by another clock.
    let line = format!(
        "n=$(ls {place} | grep -c begun); a=$(cut -d' ' -f1 /proc/uptime); echo > {place}/begun-$n; \
         while [ ! -e {place}/set-$n ]; do sleep 0.05; done; \
         b=$(cut -d' ' -f1 /proc/uptime); echo $a $b > {place}/took-$n"
    );
    let arguments = ["compare", "dir:work", "-n", "4", "--quiet", "--json", "result.json"];
    let mut child = sandbox
        .command(arguments.into_iter().chain(["--", &line]))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let step = STEP.as_nanos() as i64;
    // Left alone; set forward; set back to the truth, in the next trial; set forward and back in one.
    for (trial, settings) in [(0, &[][..]), (1, &[step][..]), (2, &[0][..]), (3, &[step, 0][..])] {
        wait_for(&sandbox.path().join(format!("begun-{trial}")));
        for ahead in settings {
            std::thread::sleep(Duration::from_millis(50));
            assert!(clock.set(*ahead));
        }
        std::fs::write(sandbox.path().join(format!("set-{trial}")), "").unwrap();
    }
    let ended = child.wait().unwrap();
    drop(clock);
    assert!(ended.success(), "{ended}");
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcomes(&result), ["completed"; 4]);
    for (index, way) in
        [None, Some("forward by"), Some("back by"), Some("in all")].iter().enumerate()
    {
        let trial = &result["trials"][index];
        let warnings = trial["warnings"].as_array().unwrap().iter();
        let told: Vec<&str> = warnings
            .filter(|it| it["code"] == "clock-stepped")
            .map(|it| it["message"].as_str().unwrap())
            .collect();
        assert_eq!(told.len(), usize::from(way.is_some()), "{index}: {told:?}");
        assert!(way.is_none_or(|way| told[0].contains(way)), "{index}: {told:?}");
        assert_true_time(&sandbox, trial, index);
    }
}

/// The phase took no less than the command inside of it, and not so much more as the clock was set by.
fn assert_true_time(sandbox: &Sandbox, trial: &Value, index: usize) {
    let text = std::fs::read_to_string(sandbox.path().join(format!("took-{index}"))).unwrap();
    let times: Vec<f64> = text.split_whitespace().map(|time| time.parse().unwrap()).collect();
    // Both ends are cut to hundredths of a second.
    let inside_ns = (times[1] - times[0] - 0.02) * 1e9;
    let elapsed_ns = trial["phases"][0]["elapsed_return_ns"].as_f64().unwrap();
    assert!(elapsed_ns >= inside_ns, "trial {index}: {elapsed_ns} {inside_ns}");
    let most_ns = inside_ns + 0.9 * STEP.as_nanos() as f64;
    assert!(elapsed_ns < most_ns, "trial {index}: {elapsed_ns} {inside_ns}");
    assert!(trial["elapsed_ns"].as_f64().unwrap() >= elapsed_ns);
}
