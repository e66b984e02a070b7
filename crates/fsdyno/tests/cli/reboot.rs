//! A reboot in the middle of a run: mounts, loop devices and processes are gone, images and ledger are still
//! there, and the boot is another one. The run goes on and says so; under another kernel it does not.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Finished, Sandbox, can_format, outcomes, skip};

/// Starts a run of three trials and kills it in the second.
fn killed_run(sandbox: &Sandbox) {
    let images = sandbox.images().display().to_string();
    let place = sandbox.path().display();
    let line = format!(
        "echo >> {place}/count; if [ $(wc -l < {place}/count) = 2 ]; then echo > {place}/second; exec sleep 600; fi"
    );
    let arguments = ["compare", "ext4", "--dir", &images, "--size", "300MiB", "-n", "3"];
    let mut child = sandbox
        .command(arguments.into_iter().chain(["--quiet", "--", &line]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !sandbox.path().join("second").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the second trial did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // With the last process of its namespace the kernel undoes its mounts, and then its loop devices.
    while fsdyno_sys::loopdev::list()
        .unwrap()
        .iter()
        .any(|it| it.backing_file.starts_with(sandbox.path()))
    {
        assert!(start.elapsed() < Duration::from_secs(120), "the loop devices are still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The ledger names a process that runs, as may well be after a reboot: numbers begin anew.
fn give_ledger_a_living_owner(sandbox: &Sandbox) {
    let live = sandbox.path().join("state/fsdyno/live");
    let path = std::fs::read_dir(live).unwrap().flatten().next().unwrap().path();
    let mut ledger: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let own = fsdyno_sys::process::own_identity().unwrap();
    ledger["owner"]["pid"] = own.pid.into();
    ledger["owner"]["start_ticks"] = own.start_ticks.into();
    std::fs::write(&path, ledger.to_string()).unwrap();
}

/// The binary in a mount namespace in which the boot has another identity.
fn in_another_boot(sandbox: &Sandbox, boot_id: &Path, arguments: &[&str]) -> Finished {
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(boot_id);
    sandbox.run_within(command, arguments.iter().copied())
}

#[test]
fn a_run_goes_on_after_a_reboot_and_says_so() {
    if !can_format(&["ext4"]) {
        return;
    }
    let sandbox = Sandbox::new();
    killed_run(&sandbox);
    let left: Vec<_> = std::fs::read_dir(sandbox.images()).unwrap().collect();
    assert_eq!(left.len(), 1, "the image outlives the run: {left:?}");
    give_ledger_a_living_owner(&sandbox);
    // In this boot that very process lives: its run is not touched.
    sandbox.run(["clean"]).assert_code(0);
    assert_eq!(std::fs::read_dir(sandbox.images()).unwrap().count(), 1);
    let boot_id = sandbox.path().join("boot_id");
    std::fs::write(&boot_id, "0f0f0f0f-1111-4222-8333-444444444444\n").unwrap();
    let resumed =
        in_another_boot(&sandbox, &boot_id, &["run", "--resume", "--json", "result.json"]);
    resumed.assert_code(0);
    assert!(resumed.stderr.contains("of a run that was killed"), "{}", resumed.stderr);
    let text = std::fs::read_to_string(sandbox.path().join("result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcomes(&result), ["completed"; 3]);
    let boots = result["run"]["environment"]["boot_ids"].as_array().unwrap();
    assert_eq!((boots.len(), &boots[1]), (2, &"0f0f0f0f-1111-4222-8333-444444444444".into()));
    let warnings = result["run"]["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|it| it["code"] == "rebooted-in-between").unwrap();
    let message = told["message"].as_str().unwrap();
    assert!(message.ends_with("rebooted during the run, after 1 trial"), "{message}");
    let table = resumed.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(table.contains(message), "{}", resumed.stdout);
    sandbox.run(["report", "--output", "report.html"]).assert_code(0);
    let page = std::fs::read_to_string(sandbox.path().join("report.html")).unwrap();
    assert!(page.contains(message));
    sandbox.assert_nothing_left();
}

#[test]
fn a_run_does_not_go_on_under_another_kernel() {
    if fsdyno_sys::child::find_program("setarch").is_none() {
        return skip("setarch is not installed");
    }
    let sandbox = Sandbox::in_memory();
    std::fs::create_dir(sandbox.path().join("work")).unwrap();
    let mut child = sandbox
        .command(["compare", "dir:work", "-n", "2", "--quiet", "--", "sleep 1"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while sandbox.run(["runs", "--json"]).stdout.trim().len() < 3 {
        assert!(start.elapsed() < Duration::from_secs(60), "the run did not begin");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = sandbox.run(["show", "--json"]).json();
    // This makes uname(2) tell of a kernel 2.6.
    let mut command = Command::new("setarch");
    command.arg("--uname-2.6");
    let refused = sandbox.run_within(command, ["run", "--resume"]);
    refused.assert_code(2);
    assert!(refused.stderr.contains("the kernel was "), "{}", refused.stderr);
    assert!(refused.stderr.contains(" and is 2.6."), "{}", refused.stderr);
    assert_eq!(sandbox.run(["show", "--json"]).json()["trials"], before["trials"]);
    sandbox.run(["run", "--resume"]).assert_code(0);
    sandbox.assert_nothing_left();
}
