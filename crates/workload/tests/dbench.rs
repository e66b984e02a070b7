//! The workload `dbench` through the phase runner in a temporary directory: the generated load, small
//! loads whose final tree is known, and the load that comes with dbench where it is installed.

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsdyno_workload::catalog;
use fsdyno_workload::dbench::kinds::Kind;
use fsdyno_workload::dbench::lines::{Line, Op, Statement};
use fsdyno_workload::dbench::loadfile;
use fsdyno_workload::dbench::office::office_load;
use fsdyno_workload::dbench::program::{Options, compile};
use fsdyno_workload::dbench::status::Expected;
use support::{SmallFilesystem, measure};

const CLIENT_TXT: &str = "/usr/share/dbench/client.txt";

/// Operations by kind, and bytes written and read.
fn counted(lines: &[Line]) -> (BTreeMap<&'static str, u64>, (u64, u64)) {
    let mut counts = BTreeMap::new();
    let mut bytes = (0, 0);
    for line in lines {
        let Statement::Op { op, expected, .. } = &line.statement else { continue };
        *counts.entry(Kind::ALL[op.kind() as usize].1).or_default() += 1;
        match op {
            Op::WriteX { done, .. } => bytes.0 += done,
            Op::ReadX { done, .. } => bytes.1 += done,
            Op::NtCreateX { .. } if *expected == Expected::NotFound => {
                *counts.entry("absent opens").or_default() += 1;
            }
            Op::QueryPath { .. } if *expected == Expected::NotFound => {
                *counts.entry("absent paths").or_default() += 1;
            }
            _ => {}
        }
    }
    (counts, bytes)
}

#[test]
fn the_load_of_dbench_is_read_whole() {
    if !Path::new(CLIENT_TXT).exists() {
        println!("skipped: {CLIENT_TXT} does not exist: dbench is not installed");
        return;
    }
    let lines = loadfile::read(Path::new(CLIENT_TXT)).unwrap();
    assert_eq!(lines.len(), 458_344);
    let (counts, bytes) = counted(&lines);
    for (name, count) in [
        ("ReadX", 124_199),
        ("NTCreateX", 79_230),
        ("Qpathinfo", 71_814),
        ("Close", 58_200),
        ("WriteX", 39_502),
        ("Find", 27_765),
        ("Unlink", 16_000),
        ("Qfsinfo", 13_168),
        ("Qfileinfo", 12_585),
        ("Sfileinfo", 6454),
        ("Flush", 5553),
        ("Rename", 3355),
        ("LockX", 258),
        ("UnlockX", 258),
        ("Deltree", 2),
        ("Mkdir", 1),
        ("absent opens", 21_030),
        ("absent paths", 24_385),
    ] {
        assert_eq!(counts[name], count, "{name}");
    }
    let mib = |bytes: u64| (bytes as f64 / 1_048_576.0 * 10.0).round() / 10.0;
    assert_eq!((mib(bytes.0), mib(bytes.1)), (968.9, 1403.9));
    let program = compile("client.txt", &lines, Options::default()).unwrap();
    assert!(program.slot_count < 100 && program.is_verifiable);
    // What the original says of each line is what the calls do, but for a few.
    // In memory where that can be had: it flushes often.
    let memory = Some(Path::new("/dev/shm")).filter(|path| path.is_dir());
    let directory = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let params = [("loadfile", CLIENT_TXT), ("passes", "1"), ("payload", "original")];
    let answers = measure(directory.path(), "dbench", &params).expect_finished();
    let values = &answers.phase("run").values;
    assert_eq!(values["readx_count"], 124_199.0);
    assert_eq!(values["status_mismatches"], 0.0, "{:?}", answers.warnings());
}

#[test]
fn the_shipped_load_has_the_proportions_of_the_original() {
    for seed in [1, 2, 77] {
        let lines = office_load(100_000, seed);
        let (counts, bytes) = counted(&lines);
        let total = lines.len() as f64;
        for (name, of_1000) in [
            ("ReadX", 271.0),
            ("NTCreateX", 173.0),
            ("Qpathinfo", 157.0),
            ("Close", 127.0),
            ("WriteX", 86.0),
            ("Find", 61.0),
            ("Unlink", 35.0),
            ("Qfsinfo", 29.0),
            ("Qfileinfo", 27.0),
            ("Sfileinfo", 14.0),
            ("Flush", 12.0),
            ("Rename", 7.3),
            ("LockX", 0.56),
            ("absent opens", 46.0),
            ("absent paths", 53.0),
        ] {
            let found = counts[name] as f64 / total * 1000.0;
            // A tenth, and three standard deviations of what is rare.
            let slack = of_1000 * 0.1 + 3.0 * (of_1000 / 100.0f64).sqrt() / 10.0f64.sqrt();
            assert!((found - of_1000).abs() < slack, "{seed}: {name} {found} of {of_1000}");
        }
        let (written, read) =
            (bytes.0 as f64 / counts["WriteX"] as f64, bytes.1 as f64 / counts["ReadX"] as f64);
        assert!((20_000.0..32_000.0).contains(&written), "{written}");
        assert!((9_000.0..15_000.0).contains(&read), "{read}");
    }
    assert_eq!(office_load(5000, 3), office_load(5000, 3));
    assert_ne!(office_load(5000, 3), office_load(5000, 4));
}

/// A load file in a directory of its own, beside the working directory.
fn load(text: &str) -> (tempfile::TempDir, PathBuf, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("load.txt");
    std::fs::write(&file, text).unwrap();
    let work = directory.path().join("work");
    std::fs::create_dir(&work).unwrap();
    (directory, work, file.display().to_string())
}

/// Every path below a directory with its size; directories have none.
fn tree(root: &Path) -> BTreeMap<String, Option<u64>> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let facts = path.symlink_metadata().unwrap();
            found.insert(name, facts.is_file().then_some(facts.len()));
            if facts.is_dir() {
                left.push(path);
            }
        }
    }
    found
}

const SMALL: &str = "\
Deltree \"\\clients\\client1\" NT_STATUS_OK
Mkdir \"\\clients\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX \"\\clients\\client1\\a\" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX \"\\clients\\client1\\a\" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 4096 1000 1000 NT_STATUS_OK
REPEAT 4
WriteX 2 +1000 1000 1000 NT_STATUS_OK
ReadX 2 0 65536 9096 NT_STATUS_OK
ReadX 2 9000 100 100 NT_STATUS_END_OF_FILE
LockX 2 10 1 NT_STATUS_OK
UnlockX 2 10 1 NT_STATUS_OK
QUERY_FILE_INFORMATION 2 258 NT_STATUS_OK
SET_FILE_INFORMATION 2 1004 NT_STATUS_OK
Flush 2 NT_STATUS_OK
Close 2 NT_STATUS_OK
Flush 2 ERROR
FIND_FIRST \"\\clients\\client1\\*.X\" 260 10 0 NT_STATUS_NO_SUCH_FILE
FIND_FIRST \"\\clients\\client1\\*\" 260 10 3 NT_STATUS_OK
QUERY_FS_INFORMATION 259 NT_STATUS_OK
Rename \"\\clients\\client1\\a\" \"\\clients\\client1\\b\" NT_STATUS_OK
QUERY_PATH_INFORMATION \"\\clients\\client1\\a\" 1004 0xC0000034
QUERY_PATH_INFORMATION \"\\clients\\client1\\b\" 1004 SUCCESS
LOOP 3
RANDOMSTRING 1 \"\\clients\\client1\\r[abcdefgh][01234567]\"
LOOP 2
NTCreateX $1 0x40 0x3 7 *
WriteX 7 0 10 10 *
Close 7 *
ENDLOOP
ENDLOOP
NTCreateX \"\\clients\\client1\\gone\" 0x40 0x5 8 NT_STATUS_OK
Close 8 NT_STATUS_OK
Unlink \"\\clients\\client1\\gone\" 0x6 NT_STATUS_OK
Mkdir \"\\clients\\client1\\d\" NT_STATUS_OK
Mkdir \"\\clients\\client1\\e\" NT_STATUS_OK
Rmdir \"\\clients\\client1\\e\" NT_STATUS_OK
Rmdir \"\\clients\" NT_STATUS_DIRECTORY_NOT_EMPTY
SETSP 5
SLEEP 100
0.001 NTCreateX \"\\clients\\client1\\d\" 0x0 0x1 9 NT_STATUS_OK
";

#[test]
fn the_final_tree_of_a_small_load_is_known() {
    for (mode, payload, more) in [
        ("original", "original", ("sync_io", "true")),
        ("corrected", "realistic", ("fsync", "true")),
        ("corrected", "realistic", ("sync_directories", "true")),
        ("corrected", "original", ("resolve", "false")),
    ] {
        let (_directory, work, file) = load(SMALL);
        let params = [
            ("loadfile", file.as_str()),
            ("clients", "3"),
            ("passes", "2"),
            ("mode", mode),
            ("payload", payload),
            ("strict", "true"),
            ("cleanup", "false"),
            more,
        ];
        let answers = measure(&work, "dbench", &params).expect_finished();
        let found = tree(&work);
        for client in 0..3 {
            let own = format!("clients/client{client}");
            assert_eq!(found[&own], None);
            assert_eq!(found[&format!("{own}/b")], Some(9096));
            assert_eq!(found[&format!("{own}/d")], None);
            let drawn = found.keys().filter(|name| name.starts_with(&format!("{own}/r"))).count();
            assert!((1..=3).contains(&drawn), "{found:?}");
            assert!(!found.contains_key(&format!("{own}/gone")));
            assert!(!found.contains_key(&format!("{own}/e")));
        }
        let run = answers.phase("run");
        // Two passes of three clients.
        assert_eq!(run.values["writex_count"], 6.0 * 11.0);
        assert_eq!(run.read_bytes, 6 * (9096 + 96));
        assert_eq!(run.bytes - run.read_bytes, 6 * (5000 + 60));
        assert_eq!((run.values["passes"], run.values["fairness"]), (6.0, 1.0));
        assert_eq!(run.values["status_mismatches"], 0.0);
        let resolves = more != ("resolve", "false");
        let lists = run.operations["list"];
        assert_eq!(lists > 6 * 3, resolves, "{lists}");
        let fsyncs = run.operations["fsync"];
        let expected = if more.0 == "fsync" { 6 * (1 + 11) } else { 6 };
        assert!(fsyncs == expected || more.0 == "sync_directories" && fsyncs > 60, "{fsyncs}");
        assert!(answers.verified().unwrap().0 >= 3 * 2);
    }
}

#[test]
fn other_endings_than_expected_are_counted_and_told() {
    let text = "\
Mkdir \"\\d\" NT_STATUS_OK
Unlink \"\\d\\absent\" 0 NT_STATUS_OK
NTCreateX \"\\d\\f\" 0x40 0x2 1 NT_STATUS_OBJECT_NAME_NOT_FOUND
ReadX 1 0 10 10 NT_STATUS_OK
";
    let (_directory, work, file) = load(text);
    let params = [("loadfile", file.as_str()), ("passes", "1")];
    let answers = measure(&work, "dbench", &params).expect_finished();
    assert_eq!(answers.phase("run").values["status_mismatches"], 3.0);
    let warnings = answers.warnings();
    assert_eq!(warnings[0].code, "status-mismatches");
    for told in [
        "3 operations ended otherwise",
        "line 2: Unlink failed with ENOENT",
        "line 3: NTCreateX succeeded, NT_STATUS_OBJECT_NAME_NOT_FOUND is expected",
        "line 4: ReadX found its handle not open",
    ] {
        assert!(warnings[0].message.contains(told), "{}", warnings[0].message);
    }
    assert!(tree(&work).is_empty(), "cleaned up");
    let (_directory, work, _) = load(text);
    let params = [("loadfile", file.as_str()), ("passes", "1"), ("strict", "true")];
    let answers = measure(&work, "dbench", &params);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "run");
    assert!(error.contains("client 0, line 2: Unlink failed with ENOENT"), "{error}");
}

#[test]
fn the_shipped_load_runs_for_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let params = [("clients", "2"), ("runtime", "400ms"), ("warmup", "100ms")];
    let answers = measure(directory.path(), "dbench", &params).expect_finished();
    let run = answers.phase("run");
    assert!(run.elapsed_return_ns >= 300_000_000, "{}", run.elapsed_return_ns);
    assert_eq!(run.values["status_mismatches"], 0.0, "{:?}", answers.warnings());
    assert!(run.values["fairness"] > 0.5 && run.values["dbench_mb_per_s"] > 0.0);
    assert!(answers.phase("cleanup").files > Some(48));
    assert!(tree(directory.path()).is_empty());
    // No faster than asked for: 1 MB in the first second would be far less than without a limit.
    let params = [("targetrate", "1000000"), ("runtime", "600ms"), ("warmup", "100ms")];
    let answers = measure(directory.path(), "dbench", &params).expect_finished();
    let run = answers.phase("run");
    assert!(run.bytes <= 600_000 + 70_000, "{}", run.bytes);
}

#[test]
fn clients_wait_for_each_other() {
    let text = "WAITSP 0 1\nSETSP 1\nQUERY_FS_INFORMATION 1 NT_STATUS_OK\n";
    let (_directory, work, file) = load(text);
    // Client 0 waits for itself: only the end of the time ends that. A warm-up would end it first.
    let file_param = ("loadfile", file.as_str());
    let params = [file_param, ("clients", "2"), ("runtime", "50ms"), ("warmup", "0s")];
    let answers = measure(&work, "dbench", &params).expect_finished();
    assert!(answers.phase("run").operations.is_empty());
    let params = [("loadfile", file.as_str()), ("clients", "1"), ("passes", "1")];
    let text = "SETSP 1\nWAITSP 0 1\nQUERY_FS_INFORMATION 1 NT_STATUS_OK\nWAITSP 3 1\n";
    std::fs::write(&file, text).unwrap();
    let error = measure(&work, "dbench", &params);
    assert!(error.failure().unwrap().1.contains("waits for a client that is not there"));
}

#[test]
fn a_full_target_ends_the_run() {
    let Some(small) = SmallFilesystem::mount("4m") else { return };
    let answers = measure(&small.path(), "dbench", &[]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!(stage, "warmup");
    assert!(error.contains("WriteX (client 0, line ") && error.contains("ENOSPC"), "{error}");
}

#[test]
fn loads_that_are_wrong_are_refused_before_anything_is_done() {
    let (_directory, _work, file) = load("Close 1 NT_STATUS_OK\nFly 1 2 3\n");
    let workload = catalog::find("dbench").unwrap();
    let mut params = fsdyno_model::param::Params::defaults(workload.info().params, true);
    params.set(workload.info().params, "loadfile", &file).unwrap();
    let error = workload.check(&params).unwrap_err();
    assert!(error.contains(&format!("{file}:2: there is no operation `Fly`")), "{error}");
    params.set(workload.info().params, "loadfile", "/nowhere/at/all").unwrap();
    assert!(workload.check(&params).unwrap_err().contains("/nowhere/at/all"));
    params.set(workload.info().params, "loadfile", "shipped").unwrap();
    params.set(workload.info().params, "warmup", "5s").unwrap();
    assert!(workload.check(&params).unwrap_err().contains("warmup must be shorter"));
}
