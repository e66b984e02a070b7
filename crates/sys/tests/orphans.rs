//! What programs leave running is adopted, named and ended. Alone in its process: whatever is a child
//! of it is taken for an orphan.

use std::process::Command;
use std::time::{Duration, Instant};

use fsdyno_sys::orphans;
use fsdyno_sys::process::is_alive;

fn shell(script: &str) {
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
}

fn wait_for(count: usize) -> Vec<orphans::Orphan> {
    let start = Instant::now();
    loop {
        let mut living = orphans::living();
        // Between fork and exec a process has its parent's name.
        living.retain(|orphan| orphan.name == "sleep");
        if living.len() == count {
            return living;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{living:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_left_running_is_named_and_ended() {
    orphans::adopt().unwrap();
    assert_eq!(orphans::living(), []);
    assert_eq!(orphans::bury(), []);
    assert_eq!(orphans::end(&[]), orphans::Ending::default());

    shell("sleep 601 & (cd /; setsid sleep 602 >/dev/null 2>&1 </dev/null &)");
    let living = wait_for(2);
    // One is spared, then it is ended as well.
    let (spared, other) = (living[0].identity, living[1].identity);
    let ending = orphans::end(&[spared]);
    assert_eq!(ending.ended, ["sleep"]);
    assert!(is_alive(&spared) && !is_alive(&other) && ending.left.is_empty());
    assert_eq!(orphans::end(&[]).ended, ["sleep"]);
    assert!(!is_alive(&spared));

    // One that does not listen is killed, with what it had started.
    shell("setsid sh -c \"trap '' TERM; sleep 603; sleep 604\" & sleep 0.2");
    let ending = orphans::end(&[]);
    assert!(ending.left.is_empty() && !ending.ended.is_empty(), "{ending:?}");
    assert_eq!(orphans::living(), []);

    // What others killed is not taken for what was ended here.
    shell("sleep 606 & kill -9 $!");
    let ending = orphans::end(&[]);
    assert!(ending.ended.is_empty(), "{ending:?}");
    assert!(ending.buried.iter().any(|one| one.killed), "{ending:?}");

    // What has ended by itself, or was killed, is buried under its name.
    shell("sleep 0.01 & sleep 605 & kill -9 $!; exit 0");
    let start = Instant::now();
    let mut buried = Vec::new();
    while buried.len() < 2 {
        buried.extend(orphans::bury());
        assert!(start.elapsed() < Duration::from_secs(60), "{buried:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    buried.sort_by_key(|one| one.killed);
    let told: Vec<(&str, bool)> = buried.iter().map(|one| (&*one.name, one.killed)).collect();
    assert_eq!(told[0], ("sleep", false));
    assert!(told[1].1, "{told:?}");
}
