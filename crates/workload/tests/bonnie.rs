//! The workload `bonnie` through the phase runner: in a directory, on a loop image with ext4, on
//! filesystems that are too small, and with a byte flipped behind its back.

mod support;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use fsdyno_model::cold::Cold;
use fsdyno_model::record::PhaseRecord;
use fsdyno_model::wire::{self, Message, Spec, Task};
use fsdyno_workload::{catalog, runner};
use support::{Answers, SmallFilesystem, measure, spec};

const IO: [&str; 6] = ["write-char", "write-block", "rewrite", "read-char", "read-block", "seeks"];
const SMALL: [&str; 6] = [
    "create-sequential",
    "stat-sequential",
    "delete-sequential",
    "create-random",
    "stat-random",
    "delete-random",
];
const MIB: u64 = 1 << 20;

fn names(answers: &Answers) -> Vec<&str> {
    answers.phases().iter().map(|phase| phase.name.as_str()).collect()
}

fn operations(phase: &PhaseRecord) -> BTreeMap<&str, u64> {
    phase.operations.iter().map(|(name, count)| (name.as_str(), *count)).collect()
}

fn entries(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

/// Parameters that leave the page cache alone.
fn with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[("size", "4MiB"), ("cold", "none")], more].concat()
}

#[test]
fn phases_come_in_order_with_the_calls_of_the_original() {
    for mode in ["original", "corrected"] {
        let directory = tempfile::tempdir().unwrap();
        let params = with(&[("mode", mode), ("per_char", "20KiB"), ("max", "5000"), ("dirs", "3")]);
        let answers = measure(directory.path(), "bonnie", &params).expect_finished();
        assert_eq!(names(&answers), [IO, SMALL].concat());
        // The large file twice, all of it the first time, and all small files of both orders.
        let (files, bytes) = answers.verified().unwrap();
        assert!(files == 2 + 2 * 1024 && bytes > 4 * MIB, "{files} {bytes}");
        let original = mode == "original";
        let synced = |mut calls: BTreeMap<&'static str, u64>, files: u64| {
            calls.insert("close", files);
            if original {
                calls.insert("fsync", files);
            }
            calls
        };
        let calls = |name: &str| operations(answers.phase(name));
        // Three chunks of single bytes, 512 chunks.
        assert_eq!(calls("write-char"), synced(BTreeMap::from([("write", 3)]), 1));
        assert_eq!(calls("write-block"), synced(BTreeMap::from([("write", 512)]), 1));
        let rewrite = BTreeMap::from([("read", 512), ("seek", 512), ("write", 512)]);
        assert_eq!(calls("rewrite"), synced(rewrite, 1));
        assert_eq!(calls("read-char"), synced(BTreeMap::from([("read", 3)]), 1));
        assert_eq!(calls("read-block"), synced(BTreeMap::from([("read", 512)]), 1));
        let seeks = calls("seeks");
        assert_eq!((seeks["read"], seeks["close"]), (1024, 5));
        assert!((60..150).contains(&seeks["write"]), "{seeks:?}");
        assert_eq!(seeks.get("fsync").copied(), original.then_some(5));

        let traffic = |name: &str| (answers.phase(name).bytes, answers.phase(name).read_bytes);
        assert_eq!(traffic("write-char"), (20 << 10, 0));
        assert_eq!(traffic("write-block"), (4 * MIB, 0));
        assert_eq!(traffic("rewrite"), (8 * MIB, 4 * MIB));
        assert_eq!(traffic("read-char"), (20 << 10, 20 << 10));
        assert_eq!(traffic("read-block"), (4 * MIB, 4 * MIB));

        for order in ["sequential", "random"] {
            let create = answers.phase(&format!("create-{order}"));
            let stat = answers.phase(&format!("stat-{order}"));
            let delete = answers.phase(&format!("delete-{order}"));
            assert_eq!([create.files, stat.files, delete.files], [Some(1024); 3]);
            assert_eq!(operations(create)["create"], 1024);
            assert_eq!(operations(stat)["stat"], 1024);
            assert_eq!((operations(delete)["unlink"], operations(delete)["rmdir"]), (1024, 4));
            // Evenly between 0 and 5000 bytes; the standard deviation is 46 KB.
            assert!((2_300_000..2_820_000).contains(&create.bytes), "{}", create.bytes);
            assert_eq!((create.bytes, stat.bytes), (stat.read_bytes, create.bytes));
        }
        for phase in answers.phases() {
            let writes = !phase.name.contains("read") && !phase.name.contains("stat");
            assert_eq!(phase.elapsed_durable_ns.is_some(), writes && !original, "{}", phase.name);
            assert_eq!(phase.cold, None, "{}", phase.name);
        }
        let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, if original { &[][..] } else { &["smaller-than-memory"] });
        assert_eq!(answers.manifest().unwrap().files, []);
        assert_eq!(entries(directory.path()), 0);
    }
}

#[test]
fn the_figures_of_the_original_and_the_true_ones_are_stored() {
    let directory = tempfile::tempdir().unwrap();
    let answers = measure(directory.path(), "bonnie", &with(&[])).expect_finished();
    for phase in answers.phases() {
        let elapsed_ns = phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns) as f64;
        let own_ns = phase.cpu.app_user_ns.unwrap() + phase.cpu.app_system_ns.unwrap();
        let shown = phase.values["original_cpu_percent"];
        let true_percent = 100.0 * own_ns as f64 / elapsed_ns;
        if phase.name == "seeks" {
            assert!(shown >= 0.0, "{shown}");
            assert!((phase.values["seeks_per_s"] * elapsed_ns / 1024e9 - 1.0).abs() < 1e-9);
        } else {
            assert!((shown - true_percent).abs() < 1e-9, "{shown} {true_percent}");
        }
        // There are no kernel threads to be watched here: not known is not zero.
        assert!(!phase.values.contains_key("true_cpu_percent"));
        let longest_ns = phase.values["max_latency_ns"];
        assert!(longest_ns > 0.0 && longest_ns <= elapsed_ns, "{}", phase.name);
    }
    let rewrite = answers.phase("rewrite");
    let elapsed_ns = rewrite.elapsed_durable_ns.unwrap() as f64;
    assert!((rewrite.values["rewrite_mib_per_s"] * elapsed_ns / 4e9 - 1.0).abs() < 1e-9);
}

#[test]
fn phases_that_are_not_asked_for_are_left_out() {
    for (params, expected) in [
        (&[("size", "0"), ("per_char", "all")][..], SMALL.to_vec()),
        (&[("files", "0"), ("per_char", "0"), ("seeks", "0")], vec![IO[1], IO[2], IO[4]]),
        (&[("files", "0"), ("per_char", "all"), ("size", "1MiB"), ("seekers", "1")], IO.to_vec()),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let params = [&[("cold", "none"), ("size", "2MiB")], params].concat();
        let answers = measure(directory.path(), "bonnie", &params).expect_finished();
        assert_eq!(names(&answers), expected);
        if params.contains(&("size", "1MiB")) {
            assert_eq!(answers.phase("read-char").bytes, MIB);
        }
    }
}

#[test]
fn odd_chunks_every_payload_and_links_work_and_verify() {
    for params in [
        &[("chunk", "256"), ("payload", "original")][..],
        &[("chunk", "1MiB"), ("payload", "original"), ("max", "link"), ("dirs", "7")],
        &[("chunk", "512"), ("max", "symlink"), ("dirs", "7")],
        &[("max", "20000"), ("min", "20000"), ("mode", "original")],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = measure(directory.path(), "bonnie", &with(params)).expect_finished();
        let create = operations(answers.phase("create-random"));
        if params.iter().any(|(_, value)| value.ends_with("link")) {
            assert_eq!((create["create"], create["link"]), (1, 1023));
            assert_eq!(answers.phase("stat-random").bytes, 0);
        } else {
            assert_eq!((create["create"], create.get("link")), (1024, None));
        }
        assert_eq!(entries(directory.path()), 0);
    }
}

#[test]
fn caches_are_emptied_before_every_phase_that_reads() {
    let directory = tempfile::tempdir().unwrap();
    let answers = measure(directory.path(), "bonnie", &[("size", "1MiB")]).expect_finished();
    // The tests may not drop the caches of the machine: said once, and noted in every record.
    let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
    assert_eq!(codes, ["caches-not-dropped"]);
    for phase in answers.phases() {
        let reads = ["rewrite", "read-", "seeks", "stat-", "create-sequential"];
        let asked = reads.iter().any(|name| phase.name.starts_with(name));
        assert_eq!(phase.cold, asked.then_some(Cold::None), "{}", phase.name);
    }
}

#[test]
fn the_rule_on_the_size_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let small = |mode, ram, cold| {
        let params =
            [("size", "1MiB"), ("files", "0"), ("mode", mode), ("ram", ram), ("cold", cold)];
        measure(directory.path(), "bonnie", &params)
    };
    let refused = small("original", "8MiB", "auto");
    let (stage, error) = refused.failure().unwrap();
    assert_eq!((stage, refused.exit_code), ("prepare", runner::EXIT_FAILED));
    assert!(error.contains("ram=0") && error.contains("size=16MiB"), "{error}");
    small("original", "0", "auto").expect_finished();
    let warned = small("corrected", "8MiB", "none").expect_finished();
    assert_eq!(warned.warnings()[0].code, "smaller-than-memory");
    // As under --quick, which switches the rule off.
    let warned = small("corrected", "0", "none").expect_finished();
    assert_eq!(warned.warnings()[0].code, "smaller-than-memory");
    assert!(
        small("corrected", "8MiB", "drop-caches")
            .expect_finished()
            .warnings()
            .iter()
            .all(|it| it.code != "smaller-than-memory")
    );
}

#[test]
fn what_is_on_the_target_at_once_is_known_before() {
    let workload = catalog::find("bonnie").unwrap();
    let peak = |params: &[(&str, &str)]| {
        let spec = spec(Path::new("/"), "bonnie", params);
        workload.peak_bytes(&spec.params).unwrap().unwrap()
    };
    for (params, least) in [
        (&[("size", "3MiB"), ("files", "0")][..], 3 * MIB),
        (&[("size", "0"), ("files", "2"), ("max", "1")], 8 * MIB),
        (&[("size", "3MiB"), ("files", "2"), ("max", "5000"), ("dirs", "9")], 19 * MIB),
        (&[("size", "0"), ("files", "16"), ("max", "symlink")], 16 * 64 * 1024),
    ] {
        let bytes = peak(params);
        assert!((least..least + MIB).contains(&bytes), "{params:?}: {bytes}");
    }
}

#[test]
fn a_full_filesystem_fails_the_phase_and_names_the_file() {
    for (size, params, stage, path) in [
        ("3m", &[("size", "4MiB"), ("per_char", "0")][..], "write-block", "Bonnie.large"),
        ("1m", &[("size", "4MiB"), ("per_char", "all")], "write-char", "Bonnie.large"),
        (
            "2m",
            &[("size", "0"), ("max", "8192"), ("min", "8192")],
            "create-sequential",
            "Bonnie.files/0000",
        ),
    ] {
        let Some(filesystem) = SmallFilesystem::mount(size) else { return };
        let params = [&[("cold", "none")], params].concat();
        let answers = measure(&filesystem.path(), "bonnie", &params);
        let (failed, error) = answers.failure().unwrap();
        assert_eq!((failed, answers.exit_code), (stage, runner::EXIT_FAILED));
        assert!(error.starts_with(&format!("write {path}")), "{error}");
        assert!(error.contains("ENOSPC") && error.contains("--size"), "{error}");
        assert!(answers.phases().is_empty());
    }
}

#[test]
fn a_directory_that_is_in_use_is_refused() {
    for (name, stage) in [("Bonnie.large", "prepare"), ("Bonnie.files", "verify")] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(name), "theirs").unwrap();
        let answers = measure(directory.path(), "bonnie", &with(&[]));
        let (failed, error) = answers.failure().unwrap();
        assert_eq!(failed, stage);
        assert!(error.contains(name) && error.contains("EEXIST"), "{error}");
    }
}

/// Flips one byte of a file as soon as a phase is told of.
struct Flipping<'a> {
    output: &'a mut Vec<u8>,
    phase: &'static str,
    path: PathBuf,
    offset: u64,
}

impl Write for Flipping<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let told = format!("\"name\":\"{}\"", self.phase);
        if bytes.windows(told.len()).any(|window| window == told.as_bytes()) {
            let mut path = self.path.clone();
            while path.is_dir() {
                path = std::fs::read_dir(&path)?.next().expect("it holds files")?.path();
            }
            let file = std::fs::File::options().read(true).write(true).open(path)?;
            let mut byte = [0];
            file.read_exact_at(&mut byte, self.offset)?;
            file.write_all_at(&[byte[0] ^ 1], self.offset)?;
        }
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn one_flipped_byte_is_found() {
    for (phase, path, params, told) in [
        ("read-block", "Bonnie.large", &[][..], "Bonnie.large: differs at byte 777777"),
        ("write-block", "Bonnie.large", &[], "Bonnie.large: differs at byte 777777"),
        ("write-block", "Bonnie.large", &[("payload", "original")], "differs at byte 777777"),
        (
            "stat-random",
            "Bonnie.files",
            &[("max", "5000"), ("min", "5000")],
            "differs at byte 4321",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let params = [&[("size", "2MiB"), ("cold", "none"), ("seeks", "1024")], params].concat();
        let task = Task::Measure(spec(directory.path(), "bonnie", &params));
        let mut input = Vec::new();
        wire::write_frame(&mut input, &Spec { version: wire::VERSION, task }).unwrap();
        let mut output = Vec::new();
        let path = directory.path().join(path);
        let offset = if told.ends_with("4321") { 4321 } else { 777_777 };
        let flipping = Flipping { output: &mut output, phase, path, offset };
        let exit_code = runner::serve(input.as_slice(), flipping);
        let mut stream = output.as_slice();
        let messages: Vec<Message> =
            std::iter::from_fn(|| wire::read_frame(&mut stream).unwrap()).collect();
        let answers = Answers { exit_code, messages };
        let (stage, error) = answers.failure().unwrap_or_else(|| panic!("{phase}: not found"));
        assert_eq!(stage, "verify");
        assert!(error.contains("contents differ") && error.contains(told), "{error}");
    }
}

/// A loop image with ext4, unmounted when dropped; `None`, with the reason printed, where none can be
/// made.
struct LoopExt4 {
    directory: tempfile::TempDir,
}

impl LoopExt4 {
    fn mount() -> Option<LoopExt4> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        let point = directory.path().join("mounted");
        std::fs::create_dir(&point).unwrap();
        std::fs::File::create(&image).unwrap().set_len(96 * MIB).unwrap();
        for command in [
            Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image),
            Command::new("mount").args(["-o", "loop"]).args([&image, &point]),
        ] {
            match command.output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    println!("skipped: {}", String::from_utf8_lossy(&output.stderr).trim());
                    return None;
                }
                Err(error) => {
                    println!("skipped: {command:?} cannot be run: {error}");
                    return None;
                }
            }
        }
        Some(LoopExt4 { directory })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }
}

impl Drop for LoopExt4 {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).output();
    }
}

/// Bytes that this thread made the kernel read from devices, and how often anyone dropped the caches.
fn bytes_from_devices() -> (u64, u64) {
    let number = |path: &str, name: &str| -> u64 {
        let text = std::fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    };
    let dropped = number("/proc/vmstat", "drop_pagecache ");
    (number("/proc/thread-self/io", "read_bytes: "), dropped)
}

#[test]
fn direct_io_goes_to_the_device() {
    let Some(filesystem) = LoopExt4::mount() else { return };
    let root = filesystem.path().join("work");
    for (mode, chunk, direct, expected) in [
        // Rewrite and read-block, 4 MiB each, and what single bytes and comparing make the kernel read.
        ("corrected", "8KiB", "true", 8 * MIB..18 * MIB),
        ("corrected", "4KiB", "true", 8 * MIB..18 * MIB),
        // Only the write is direct: what the rewrite reads is cached from then on.
        ("original", "8KiB", "true", 4 * MIB..5 * MIB),
        ("original", "8KiB", "false", 0..MIB),
    ] {
        std::fs::create_dir(&root).unwrap();
        let params = with(&[("mode", mode), ("chunk", chunk), ("direct", direct), ("files", "0")]);
        let (before, drops_before) = bytes_from_devices();
        let answers = measure(&root, "bonnie", &params).expect_finished();
        let (after, drops) = bytes_from_devices();
        let read = after - before;
        assert!(read >= expected.start, "{mode} {chunk} {direct}: {read}");
        // Another program that drops the caches makes more be read.
        let undisturbed = drops == drops_before;
        assert!(read < expected.end || !undisturbed, "{mode} {chunk} {direct}: {read}");
        assert_eq!(names(&answers).len(), 6);
        assert_eq!(entries(&root), 0);
        std::fs::remove_dir(&root).unwrap();
    }
}
