//! The workload `command` through the phase runner, in a temporary directory. One test at a time: each
//! takes every child of this process for something that a command left behind.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_workload::runner::EXIT_FAILED;
use support::{Answers, SmallFilesystem};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn measure(root: &Path, params: &[(&str, &str)]) -> Answers {
    support::measure(root, "command", params)
}

fn codes(answers: &Answers) -> Vec<&str> {
    let mut codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
    codes.sort_unstable();
    codes
}

fn read(root: &Path, name: &str) -> String {
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn a_command_is_timed_where_it_should_run() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let line = "pwd > where; echo $FSDYNO_TRIAL_SEED $HOME > env; sleep 0.05; i=0; \
                while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let answers = measure(&root, &[("command", line), ("fragmentation", "true")]).expect_finished();
    assert_eq!(read(&root, "where").trim(), root.display().to_string());
    let home = std::env::var("HOME").unwrap_or_default();
    assert_eq!(read(&root, "env").trim(), format!("42 {home}").trim());
    let phase = answers.phase("command");
    assert_eq!((phase.primary_metric.as_str(), phase.files), ("elapsed_s", None));
    assert!(phase.elapsed_return_ns >= 50_000_000);
    assert!(phase.elapsed_durable_ns >= Some(phase.elapsed_return_ns));
    assert_eq!(phase.samples[0].elapsed_return_ns, phase.elapsed_return_ns);
    // The shell's own time, not the runner's alone.
    assert!(phase.cpu.app_user_ns.unwrap() + phase.cpu.app_system_ns.unwrap() > 1_000_000);
    assert!(answers.warnings().is_empty(), "{:?}", answers.warnings());
    let answers = measure(&root, &[("command", "true"), ("sync", "false")]).expect_finished();
    assert_eq!(answers.phase("command").elapsed_durable_ns, None);
}

#[test]
fn words_are_not_seen_by_a_shell() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let params = [("command", "touch 'a b' '$HOME' \"it's\"")];
    measure(directory.path(), &params).expect_finished();
    let mut names: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["$HOME", "a b", "it's"]);
}

#[test]
fn failures_name_the_stage_and_the_last_words() {
    let _alone = alone();
    for (params, stage, words) in [
        (
            &[("command", "echo noise; echo 'no rule' >&2; exit 3")][..],
            "command",
            &["exit code 3: no rule", "--copy"][..],
        ),
        (&[("command", "sh -c 'kill -9 $$'")], "command", &["ended by signal 9"]),
        (&[("command", "no-such-program-x")], "prepare", &["no-such-program-x is not found"]),
        (&[("command", "./x")], "prepare", &["there is no ./x", "--copy"]),
        (
            &[("command", "true && no-such-x"), ("prepare", "true"), ("cold", "none")],
            "command",
            &["exit code 127", "not found"],
        ),
        (&[("command", "make 'x")], "prepare", &["a quote that is not closed"]),
        (&[("command", "true"), ("prepare", "echo bad; exit 1")], "prepare", &["exit code 1: bad"]),
        (&[("command", "true"), ("check", "echo 1 differs; false")], "check", &["1 differs"]),
        (
            &[("command", "true"), ("copy", "/no/such/place")],
            "prepare",
            &["/no/such/place is no directory"],
        ),
        (
            &[("command", "true | true"), ("shell", "no-such-shell")],
            "prepare",
            &["shell: no-such-shell"],
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = measure(directory.path(), params);
        let (failed, error) = answers.failure().unwrap_or_else(|| panic!("{params:?}"));
        assert_eq!((failed, answers.exit_code), (stage, EXIT_FAILED), "{error}");
        assert!(words.iter().all(|words| error.contains(words)), "{error}");
        assert_eq!(answers.phases().len(), usize::from(stage == "check"));
    }
}

#[test]
fn lines_run_in_order_and_cleanup_whatever_happens() {
    let _alone = alone();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("log"), "copy\n").unwrap();
    let copy = source.path().display().to_string();
    for (command, ended) in [("echo command >> log", true), ("echo command >> log; exit 1", false)]
    {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("command", command),
            ("copy", copy.as_str()),
            ("prepare", "echo prepare >> log"),
            ("check", "echo check >> log"),
            ("cleanup", "echo cleanup >> log; echo no >&2; exit 1"),
            ("cold", "none"),
        ];
        let answers = measure(directory.path(), &params);
        assert_eq!(answers.failure().is_none(), ended);
        let checked = if ended { "check\n" } else { "" };
        let expected = format!("copy\nprepare\ncommand\n{checked}cleanup\n");
        assert_eq!(read(directory.path(), "log"), expected);
        assert_eq!(codes(&answers), ["cleanup-failed"]);
        assert!(answers.warnings()[0].message.ends_with("exit code 1: no"));
    }
    assert_eq!(read(source.path(), "log"), "copy\n", "the original is never written to");
}

#[test]
fn a_copy_keeps_times_modes_and_links() {
    let _alone = alone();
    let source = tempfile::tempdir().unwrap();
    let place = |name: &str| source.path().join(name);
    std::fs::create_dir_all(place("src/deep")).unwrap();
    std::fs::create_dir(place("fsdyno-run")).unwrap();
    std::fs::write(place("fsdyno-run/.fsdyno-workspace"), "").unwrap();
    std::fs::write(place("fsdyno-run/image"), "large").unwrap();
    std::fs::write(place("src/main.c"), vec![7; 300_000]).unwrap();
    std::fs::write(place("src/deep/run.sh"), "#!/bin/sh\necho ran > out\n").unwrap();
    std::fs::set_permissions(place("src/deep/run.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    std::fs::hard_link(place("src/main.c"), place("other.c")).unwrap();
    std::os::unix::fs::symlink("src/main.c", place("link.c")).unwrap();
    std::os::unix::fs::symlink("/no/where", place("dangling")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(place("pipe")).status().unwrap();
    assert!(pipe.success());
    for name in ["src/main.c", "src/deep", "src"] {
        let file = std::fs::File::open(place(name)).unwrap();
        let long_ago = std::time::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        file.set_modified(long_ago).unwrap();
    }

    let directory = tempfile::tempdir().unwrap();
    let copy = source.path().display().to_string();
    let params = [("command", "src/deep/run.sh"), ("copy", copy.as_str()), ("cold", "none")];
    let answers = measure(directory.path(), &params).expect_finished();
    assert_eq!(codes(&answers), ["not-copied"]);
    let root = directory.path();
    assert_eq!(read(root, "out"), "ran\n");
    let found = |root: &Path, name: &str| std::fs::symlink_metadata(root.join(name)).unwrap();
    for name in ["src", "src/main.c", "src/deep", "src/deep/run.sh", "link.c", "dangling"] {
        let (from, to) = (found(source.path(), name), found(root, name));
        assert_eq!((from.mode(), from.uid()), (to.mode(), to.uid()), "{name}");
        assert_eq!((from.mtime(), from.mtime_nsec()), (to.mtime(), to.mtime_nsec()), "{name}");
    }
    assert_eq!(std::fs::read(root.join("src/main.c")).unwrap(), vec![7; 300_000]);
    assert_eq!(found(root, "other.c").ino(), found(root, "src/main.c").ino());
    assert_eq!(std::fs::read_link(root.join("dangling")).unwrap(), Path::new("/no/where"));
    assert!(!root.join("fsdyno-run").exists() && !root.join("pipe").exists());

    let workload = fsdyno_workload::catalog::find("command").unwrap();
    let spec = support::spec(root, "command", &params);
    let peak = workload.peak_bytes(&spec.params).unwrap().unwrap();
    assert!((300_000..400_000).contains(&peak), "{peak}");
}

#[test]
fn what_is_left_running_is_told_and_ended() {
    let _alone = alone();
    for (command, name) in [
        ("sleep 611 &", "sleep"),
        ("setsid sleep 612 >/dev/null 2>&1 </dev/null & sleep 0.2", "sleep"),
        ("(cd /; exec setsid sleep 613 >/dev/null 2>&1 </dev/null) & sleep 0.2; exit 1", "sleep"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let started = Instant::now();
        let answers = measure(directory.path(), &[("command", command)]);
        assert!(started.elapsed() < Duration::from_secs(60));
        assert!(fsdyno_sys::orphans::living().is_empty());
        let warnings = answers.warnings();
        if command.ends_with("exit 1") {
            // The failure is what is told.
            assert_eq!(answers.failure().unwrap().0, "command");
            continue;
        }
        assert_eq!(codes(&answers), ["left-running"], "{command}");
        assert!(warnings[0].message.ends_with(&format!(": {name}")), "{}", warnings[0].message);
        // The quarter of a second in which such a process may end by itself is not the command's.
        let phase = answers.phase("command");
        assert!(phase.elapsed_durable_ns.unwrap() >= phase.elapsed_return_ns);
        if command.starts_with("sleep") {
            assert!(phase.elapsed_durable_ns.unwrap() - phase.elapsed_return_ns > 200_000_000);
        }
    }
}

#[test]
fn a_service_of_prepare_lives_until_cleanup() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let params = [
        ("command", "kill -0 $(cat pid)"),
        ("prepare", "setsid sh -c 'echo $$ > pid; exec sleep 614' >/dev/null 2>&1 & sleep 0.3"),
        ("check", "kill -0 $(cat pid)"),
        ("cleanup", "kill $(cat pid)"),
        ("cold", "none"),
    ];
    let answers = measure(directory.path(), &params).expect_finished();
    assert!(answers.warnings().is_empty(), "{:?}", answers.warnings());
    let forgotten = [params[0], params[1], params[4]];
    let answers = measure(directory.path(), &forgotten).expect_finished();
    assert_eq!(codes(&answers), ["left-running"]);
}

#[test]
fn jobs_run_at_the_same_time_each_in_its_own_place() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    // Each waits for the other: one after the other would never end.
    let line = "touch here; other=../job-$((1 - FSDYNO_JOB))/here; \
                while [ ! -e $other ]; do sleep 0.01; done";
    let answers =
        measure(directory.path(), &[("command", line), ("numjobs", "2")]).expect_finished();
    assert!(directory.path().join("job-1/here").exists());
    assert_eq!(answers.phase("command").samples[0].subject, "2 jobs");
}

#[test]
fn a_full_target_is_told_with_the_words_of_the_program() {
    let _alone = alone();
    let Some(filesystem) = SmallFilesystem::mount("2m") else { return };
    let answers =
        measure(&filesystem.path(), &[("command", "dd if=/dev/zero of=f bs=64k count=99")]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("command", EXIT_FAILED));
    for words in ["dd if=/dev/zero", "No space left on device", "--size"] {
        assert!(error.contains(words), "{error}");
    }
    std::fs::remove_file(filesystem.path().join("f")).unwrap();
    let source = tempfile::tempdir().unwrap();
    std::fs::write(source.path().join("large"), vec![1; 4 << 20]).unwrap();
    let copy = source.path().display().to_string();
    let answers = measure(&filesystem.path(), &[("command", "true"), ("copy", &copy)]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "copy");
    assert!(error.starts_with("write large: ENOSPC") && error.contains("--size"), "{error}");
}

#[test]
fn the_target_can_be_taken_down_whatever_the_command_left() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("work");
    std::fs::create_dir(&root).unwrap();
    let line = if fsdyno_sys::process::is_root() {
        "mkdir -p a/b m; touch a/b/f m/outside; chmod 0 a/b a; \
         mount -t tmpfs fsdyno-test m 2>/dev/null && touch m/inside; \
         touch i; chattr +i i 2>/dev/null; true"
    } else {
        "mkdir -p a/b; touch a/b/f; chmod 0 a/b a"
    };
    let answers = measure(&root, &[("command", line)]).expect_finished();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(root.to_str().unwrap()), "{mounts}");
    if codes(&answers) == ["left-mounted"] {
        assert!(answers.warnings()[0].message.ends_with(": m"), "{:?}", answers.warnings());
        assert!(!root.join("m/inside").exists() && root.join("m/outside").exists());
    } else {
        println!("skipped: nothing can be mounted here");
    }
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_dry_run_tells_the_steps() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().display().to_string();
    let params = [
        ("command", "make -j2"),
        ("copy", copy.as_str()),
        ("prepare", "make clean"),
        ("check", "test -x a"),
    ];
    let spec = support::spec(Path::new("/"), "command", &params);
    let steps: Vec<String> = fsdyno_workload::catalog::dry_run(
        fsdyno_workload::catalog::find("command").unwrap(),
        &spec.params,
        1,
    )
    .unwrap()
    .collect();
    assert_eq!(steps[0], format!("copy {copy} (4.00 KiB)"));
    assert_eq!(
        steps[1..],
        ["prepare make clean", "cold remount", "command make -j2", "check test -x a"]
    );
}
