//! The workload `random-io` through the phase runner in temporary directories.

mod support;

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_model::param::Params;
use fsdyno_model::payload::Payload;
use fsdyno_model::record::PhaseRecord;
use fsdyno_sys::ring::{Ring, RingSettings};
use fsdyno_workload::catalog;
use fsdyno_workload::payload::PayloadSource;
use fsdyno_workload::random_io::files::{self, Written, key};
use fsdyno_workload::random_io::settings::Settings;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{Answers, SmallFilesystem, measure, spec, verify};

const SEED: u64 = 42;

fn has_io_uring() -> bool {
    match Ring::new(RingSettings { depth: 1, buffer_bytes: 1, registered: false }) {
        Ok(_) => true,
        Err(error) => {
            println!("skipped: {error}");
            false
        }
    }
}

/// Engines that can be had, with further parameters.
fn engines() -> Vec<Vec<(&'static str, &'static str)>> {
    let mut engines = vec![vec![("engine", "psync")]];
    if has_io_uring() {
        engines.push(vec![("engine", "io_uring")]);
        engines.push(vec![("engine", "io_uring"), ("iodepth", "16")]);
        engines.push(vec![("engine", "io_uring"), ("iodepth", "16"), ("registered", "true")]);
    }
    engines
}

fn run(root: &Path, parts: &[&[(&str, &str)]]) -> Answers {
    measure(root, "random-io", &parts.concat())
}

fn only_phase(answers: &Answers) -> &PhaseRecord {
    let phases = answers.phases();
    let [phase] = phases[..] else { panic!("{phases:?}") };
    phase
}

/// For each block of a file whether it holds what the load wrote (true) or what the layout did.
fn written_blocks(root: &Path, file_index: usize, block_bytes: usize) -> Vec<bool> {
    let source = PayloadSource::new(Payload::DEFAULT, SEED);
    let found = std::fs::read(root.join(format!("file{file_index}"))).unwrap();
    let mut scratch = vec![0; block_bytes];
    let blocks = found.chunks(block_bytes).enumerate();
    blocks
        .map(|(block, bytes)| {
            let offset = (block * block_bytes) as u64;
            let mut holds = |version| {
                source.verify(key(file_index, version), offset, bytes, &mut scratch).is_ok()
            };
            let is_new = holds(files::VERSION_WRITTEN);
            assert!(is_new || holds(files::VERSION_LAID_OUT), "block {block} holds neither");
            is_new
        })
        .collect()
}

#[test]
fn every_mode_moves_the_bytes_it_should_with_every_engine() {
    let mut same = Vec::new();
    for engine in engines() {
        for (rw, phase, reads, all) in [
            ("read", "read", Some(1024), true),
            ("randread", "read", Some(1024), false),
            ("write", "write", Some(0), true),
            ("randwrite", "write", Some(0), false),
            ("rw", "mixed", None, true),
            ("randrw", "mixed", None, false),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let params = [("size", "4MiB"), ("rw", rw), ("runtime", "none"), ("rwmixread", "30")];
            let answers = run(directory.path(), &[&params, &engine]).expect_finished();
            let record = only_phase(&answers);
            assert_eq!(record.name, phase, "{rw}");
            let count = |name: &str| record.operations.get(name).copied().unwrap_or(0);
            let (read, write) = (count("read"), count("write"));
            assert_eq!((read + write, record.operation_count()), (1024, 1024), "{rw} {engine:?}");
            assert_eq!((record.bytes, record.read_bytes), (4 << 20, read * 4096));
            assert_eq!((record.values["tasks"], record.files), (1024.0, Some(1)));
            match reads {
                Some(reads) => assert_eq!(read, reads),
                None => assert!((230..390).contains(&read), "{read}"),
            }
            assert!(record.values["task_p50_ms"] <= record.values["task_max_ms"]);
            let written = written_blocks(directory.path(), 0, 4096);
            let blocks = written.iter().filter(|block| **block).count() as u64;
            // Of n blocks drawn n times 63 % occur.
            match (write, all) {
                (1024, false) => assert!((600..700).contains(&blocks), "{blocks}"),
                (write, true) => assert_eq!(blocks, write),
                (write, false) => assert!(blocks <= write),
            }
            assert_eq!(answers.verified(), Some((1, 4 << 20)));
            let left = answers.manifest().unwrap().files.len();
            assert_eq!(left, usize::from(write == 0), "{rw}");
            same.push((rw, written));
        }
    }
    // The engines do the same to the same blocks.
    let mut distinct: Vec<_> = same.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 6, "one outcome of each mode, whatever the engine");
}

#[test]
fn jobs_have_files_of_their_own_or_share_one() {
    for engine in engines() {
        for (shared, files, blocks) in [("false", 3, 3 * 256), ("true", 1, 256)] {
            let directory = tempfile::tempdir().unwrap();
            let params = [
                ("size", "1MiB"),
                ("rw", "write"),
                ("runtime", "none"),
                ("numjobs", "3"),
                ("shared_file", shared),
                ("operations", if shared == "true" { "86" } else { "256" }),
            ];
            let answers = run(directory.path(), &[&params, &engine]).expect_finished();
            let written: usize = (0..files)
                .flat_map(|index| written_blocks(directory.path(), index, 4096))
                .filter(|block| *block)
                .count();
            assert_eq!(written, blocks, "{engine:?} shared={shared}");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), files);
            assert_eq!(answers.verified().unwrap().0, files as u64);
        }
    }
}

#[test]
fn syncs_and_odd_sizes_are_counted() {
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let params = [
            ("size", "100000"),
            ("bs", "3000"),
            ("rw", "randwrite"),
            ("runtime", "none"),
            ("operations", "100"),
            ("fsync", "10"),
            ("fdatasync", "5"),
            ("ramp", "5ms"),
        ];
        let answers = run(directory.path(), &[&params, &engine]).expect_finished();
        let record = only_phase(&answers);
        let expected = [("fdatasync", 10), ("fsync", 10), ("write", 100)];
        let expected: Vec<(String, u64)> =
            expected.map(|(name, count)| (name.to_owned(), count)).into();
        assert_eq!(record.operations.clone().into_iter().collect::<Vec<_>>(), expected);
        assert_eq!((record.bytes, record.values["tasks"]), (300_000, 100.0));
        assert_eq!(std::fs::metadata(directory.path().join("file0")).unwrap().len(), 99_000);
    }
}

#[test]
fn operations_begin_at_their_times() {
    for engine in engines() {
        for arrivals in ["even", "poisson"] {
            let directory = tempfile::tempdir().unwrap();
            let params = [
                ("size", "1MiB"),
                ("rw", "randread"),
                ("runtime", "300ms"),
                ("rate", "1000"),
                ("arrivals", arrivals),
            ];
            let answers = run(directory.path(), &[&params, &engine]).expect_finished();
            let record = only_phase(&answers);
            let tasks = record.values["tasks"];
            // A machine under load may end late, but what was due is done all the same.
            assert!((220.0..=380.0).contains(&tasks), "{arrivals}: {tasks}");
            assert!(record.elapsed_return_ns >= 299_000_000);
            assert!(record.latency.contains_key("task"));
        }
    }
}

#[test]
fn direct_io_moves_the_same_bytes_or_is_skipped() {
    let memory = tempfile::tempdir_in("/dev/shm").ok();
    for engine in engines() {
        for directory in [
            tempfile::tempdir().ok(),
            memory.as_ref().and_then(|_| tempfile::tempdir_in("/dev/shm").ok()),
        ]
        .into_iter()
        .flatten()
        {
            let params =
                [("size", "1MiB"), ("rw", "write"), ("direct", "true"), ("runtime", "none")];
            let answers = run(directory.path(), &[&params, &engine]);
            if answers.failure().is_some() || answers.phases().is_empty() {
                let told = format!("{:?}", answers.messages);
                assert!(told.contains("takes no direct I/O in blocks of 4096 bytes"), "{told}");
                println!("skipped: no direct I/O in {}", directory.path().display());
                continue;
            }
            let written = written_blocks(directory.path(), 0, 4096);
            assert_eq!(written, vec![true; 256]);
        }
    }
}

#[test]
fn a_flipped_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("size", "1MiB"), ("rw", "randread"), ("runtime", "none")];
    let answers = run(directory.path(), &[&params]).expect_finished();
    let manifest = answers.manifest().unwrap();
    assert!(verify(directory.path(), manifest).mismatches.is_empty());
    let path = directory.path().join("file0");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 777_777).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 777_777).unwrap();
    assert_eq!(verify(directory.path(), manifest).mismatches, ["file0: differs at byte 777777"]);
    // What the run itself compares at its end, told that one block was written that was not.
    let values = spec(directory.path(), "random-io", &params).params;
    let settings = Settings::new(&values).unwrap();
    let root = std::fs::File::open(directory.path()).unwrap().into();
    let source = PayloadSource::new(settings.payload, SEED);
    let compare = |written: &Written| {
        files::verify(&root, &settings, &source, std::slice::from_ref(written), SEED)
    };
    let error = compare(&Written::new(settings.blocks)).unwrap_err().to_string();
    assert!(error.contains("file0: differs at byte 777777"), "{error}");
    file.write_all_at(&byte, 777_777).unwrap();
    assert_eq!(compare(&Written::new(settings.blocks)).unwrap().bytes, 1 << 20);
    let mut lost = Written::new(settings.blocks);
    lost.note(5);
    let error = compare(&lost).unwrap_err().to_string();
    assert!(error.contains("file0: differs at byte 20480"), "{error}");
}

#[test]
fn a_full_filesystem_fails_the_layout_and_names_the_file() {
    let Some(filesystem) = SmallFilesystem::mount("3m") else { return };
    let params = [("size", "2MiB"), ("numjobs", "2")];
    let answers = run(&filesystem.path(), &[&params]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((stage, answers.exit_code), ("layout", EXIT_FAILED));
    assert!(error.starts_with("write file1: ENOSPC") && error.contains("--size"), "{error}");
}

#[test]
fn what_is_on_the_target_at_once_is_known_before() {
    let params = [("size", "1000000"), ("numjobs", "2"), ("runtime", "10ms")];
    let values = spec(Path::new("/"), "random-io", &params).params;
    let workload = catalog::find("random-io").unwrap();
    let peak = workload.peak_bytes(&values).unwrap().unwrap();
    for (bytes, is_enough) in [(peak, true), (peak * 9 / 10, false)] {
        let Some(filesystem) = SmallFilesystem::mount(&bytes.to_string()) else { return };
        let answers = run(&filesystem.path(), &[&params]);
        assert_eq!(answers.failure().is_none(), is_enough, "{bytes}: {:?}", answers.failure());
    }
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    let info = catalog::find("random-io").unwrap().info();
    let workload = catalog::find("random-io").unwrap();
    let mut seen = BTreeSet::new();
    for (params, told) in [
        (&[("iodepth", "2")][..], "iodepth=2 takes engine=io_uring"),
        (&[("registered", "true")], "takes engine=io_uring"),
        (&[("size", "4KiB"), ("bs", "8KiB")], "holds no block"),
        (&[("direct", "true"), ("bs", "1000")], "multiple of 512"),
        (
            &[("engine", "io_uring"), ("iodepth", "64"), ("bs", "64MiB"), ("size", "1GiB")],
            "iodepth",
        ),
    ] {
        let mut values = Params::defaults(info.params, true);
        for (name, value) in params {
            values.set(info.params, name, value).unwrap();
        }
        let error = workload.check(&values).unwrap_err();
        assert!(error.contains(told) && seen.insert(error.clone()), "{error}");
    }
    let mut values = Params::defaults(info.params, true);
    for wrong in ["fast", "0s", "-1s"] {
        assert!(values.set(info.params, "runtime", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_long_pause_between_operations_ends_with_the_runtime() {
    for engine in engines() {
        let directory = tempfile::tempdir().unwrap();
        let params = [("size", "64KiB"), ("rw", "read"), ("runtime", "150ms"), ("rate", "1")];
        let start = Instant::now();
        let answers = run(directory.path(), &[&params, &engine]).expect_finished();
        assert_eq!(only_phase(&answers).values["tasks"], 1.0);
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
}
