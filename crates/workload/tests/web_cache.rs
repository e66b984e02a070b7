//! The workload `web-cache` through the phase runner. The archives are made in temporary directories
//! and given by path: the user's cache directory is left alone.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fsdyno_model::payload::Payload;
use fsdyno_model::record::PhaseRecord;
use fsdyno_sys::calls::{Calls, Real};
use fsdyno_workload::archive::{Archive, ExtractOptions, extract};
use fsdyno_workload::catalog;
use fsdyno_workload::contents::verify_now;
use fsdyno_workload::recorder::Recorder;
use fsdyno_workload::runner::EXIT_FAILED;
use fsdyno_workload::web_cache::model::CacheModel;
use fsdyno_workload::web_cache::{generate, store, verify};
use support::{Answers, SmallFilesystem, measure};

const MODEL: CacheModel = CacheModel { size_bytes: 3 << 20, l1: 2, l2: 16, seed: 1 };

/// An archive of [`MODEL`] and an empty directory.
struct Cell {
    scratch: tempfile::TempDir,
    archive: Archive,
}

impl Cell {
    fn new() -> Cell {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("root")).unwrap();
        let kept = scratch.path().join("kept");
        let archive = store::obtain(&kept, MODEL, Payload::DEFAULT, |_| {}).unwrap();
        Cell { scratch, archive }
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    fn measure(&self, archive: &Path, params: &[(&str, &str)]) -> Answers {
        let mut all = vec![("archive", archive.to_str().unwrap()), ("cold", "none")];
        all.extend_from_slice(params);
        measure(&self.root(), "web-cache", &all)
    }
}

fn count(phase: &PhaseRecord, operation: &str) -> u64 {
    phase.operations.get(operation).copied().unwrap_or_default()
}

#[test]
fn both_phases_count_what_the_archive_holds() {
    let cell = Cell::new();
    let files = MODEL.objects().count() as u64;
    let (outer, inner) = (2.min(files.div_ceil(256)), files.div_ceil(16).min(32));
    for params in [&[][..], &[("sync", "false")], &[("fragmentation", "true")]] {
        let answers = cell.measure(cell.archive.path(), params).expect_finished();
        let (extracted, removed) = (answers.phase("extract"), answers.phase("remove"));
        assert_eq!((extracted.files, removed.files), (Some(files), Some(files)));
        assert_eq!(extracted.bytes, MODEL.size_bytes);
        assert_eq!(answers.verified(), Some((files, MODEL.size_bytes)));
        for (operation, expected) in
            [("create", files), ("write", extracted.operations["write"]), ("mkdir", outer + inner)]
        {
            assert_eq!(count(extracted, operation), expected, "{operation}");
        }
        assert_eq!(count(extracted, "close"), files + count(extracted, "open"));
        assert_eq!((count(removed, "unlink"), count(removed, "rmdir")), (files, outer + inner + 1));
        for phase in [extracted, removed] {
            assert_eq!(phase.primary_metric, "elapsed_s");
            assert_eq!(phase.elapsed_durable_ns.is_some(), params != [("sync", "false")]);
        }
        assert!(answers.warnings().is_empty(), "{:?}", answers.warnings());
        assert_eq!(fs::read_dir(cell.root()).unwrap().count(), 0);
    }
}

#[test]
fn the_programs_do_the_same() {
    let cell = Cell::new();
    if fsdyno_sys::child::find_program("tar").is_none() {
        println!("skipped: tar is not installed");
        return;
    }
    let answers = cell.measure(cell.archive.path(), &[("tool", "tar")]).expect_finished();
    let extracted = answers.phase("extract");
    assert_eq!(extracted.bytes, MODEL.size_bytes);
    assert_eq!(extracted.files, Some(MODEL.objects().count() as u64));
    assert!(extracted.operations.is_empty());
    assert!(extracted.cpu.app_system_ns > Some(0), "processor time of the program counts");
    assert_eq!(fs::read_dir(cell.root()).unwrap().count(), 0);
}

#[test]
fn a_compressed_archive_of_the_user_is_extracted_and_compared() {
    let cell = Cell::new();
    let plain = fs::read(cell.archive.path()).unwrap();
    // Nothing in the name tells what it is.
    let given = cell.scratch.path().join("given.txt");
    fs::write(&given, zstd::encode_all(plain.as_slice(), 1).unwrap()).unwrap();
    let answers = cell.measure(&given, &[]).expect_finished();
    assert_eq!(answers.phase("extract").bytes, MODEL.size_bytes);
    // Cut short: the phase that was running is told, with the place.
    fs::write(&given, &plain[..plain.len() / 2]).unwrap();
    fs::remove_dir_all(cell.root()).unwrap();
    fs::create_dir(cell.root()).unwrap();
    let answers = cell.measure(&given, &[]);
    let (stage, error) = answers.failure().unwrap();
    assert_eq!((answers.exit_code, stage), (EXIT_FAILED, "extract"));
    assert!(error.contains("damaged or cut short at byte"), "{error}");
}

#[test]
fn what_is_no_archive_is_told_before_a_run() {
    let cell = Cell::new();
    let text = cell.scratch.path().join("text");
    fs::write(&text, "not an archive").unwrap();
    let workload = catalog::find("web-cache").unwrap();
    for (path, words) in
        [(text.as_path(), "is no archive"), (Path::new("/no/such"), "open /no/such")]
    {
        let spec = support::spec(&cell.root(), "web-cache", &[("archive", path.to_str().unwrap())]);
        let error = workload.check(&spec.params).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn the_peak_is_above_what_is_really_taken() {
    let cell = Cell::new();
    let params = [("archive", cell.archive.path().to_str().unwrap())];
    let given = support::spec(&cell.root(), "web-cache", &params).params;
    let generated =
        support::spec(&cell.root(), "web-cache", &[("size", "3MiB"), ("l1", "2"), ("l2", "16")]);
    let workload = catalog::find("web-cache").unwrap();
    let taken: u64 = MODEL.objects().map(|object| object.size_bytes.next_multiple_of(4096)).sum();
    for params in [given, generated.params] {
        let peak = workload.peak_bytes(&params).unwrap().unwrap();
        assert!(peak > taken && peak < taken + taken / 2, "{peak} for {taken}");
    }
}

#[test]
fn a_full_target_is_told_with_phase_and_path() {
    let Some(small) = SmallFilesystem::mount("2m") else { return };
    let cell = Cell::new();
    let archive = cell.archive.path().to_str().unwrap();
    for (tool, words) in [("builtin", "ENOSPC"), ("tar", "No space left on device")] {
        if fsdyno_sys::child::find_program(tool).is_none() && tool != "builtin" {
            println!("skipped: {tool} is not installed");
            continue;
        }
        let params = [("archive", archive), ("cold", "none"), ("tool", tool)];
        let answers = measure(&small.path(), "web-cache", &params);
        let (stage, error) = answers.failure().unwrap();
        assert_eq!(stage, "extract");
        assert!(error.contains(words) && error.contains("/00000"), "{error}");
        fs::remove_dir_all(small.path().join("cache")).unwrap();
    }
}

#[test]
fn one_flipped_byte_is_found() {
    let cell = Cell::new();
    let top = cell.root().join("cache");
    fs::create_dir(&top).unwrap();
    let root = Real.open_root(&top).unwrap();
    let mut recorder = Recorder::new();
    let options = ExtractOptions::default();
    let made = extract(&Real, &root, &cell.archive, options, &mut recorder, |_| {}).unwrap();
    let generated = || {
        let sample = verify::generated(MODEL, Payload::DEFAULT, "cache", 5);
        assert_eq!(sample.files.len(), MODEL.objects().count(), "all of so few");
        verify_now(&cell.root(), sample)
    };
    let given = || verify::against_archive(&root, &cell.archive, made.files, 5);
    generated().unwrap();
    given().unwrap();
    let victim = top.join(MODEL.path(37));
    let mut bytes = fs::read(&victim).unwrap();
    bytes[20] ^= 1;
    fs::write(&victim, bytes).unwrap();
    for error in [generated().unwrap_err(), given().unwrap_err()] {
        assert!(error.to_string().contains(&MODEL.path(37)), "{error}");
        assert!(error.to_string().contains("contents differ"), "{error}");
    }
    fs::remove_file(&victim).unwrap();
    let error = given().unwrap_err().to_string();
    assert!(error.contains("ENOENT"), "{error}");
}

#[test]
fn entries_that_replace_others_are_compared_with_what_they_replaced_them_by() {
    let cell = Cell::new();
    let path = cell.scratch.path().join("twice.tar");
    let mut builder = tar::Builder::new(fs::File::create(&path).unwrap());
    for contents in ["first", "second"] {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(0o640);
        builder.append_data(&mut header, "same", contents.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap();
    let archive = Archive::open(&path).unwrap();
    let root = Real.open_root(&cell.root()).unwrap();
    let mut recorder = Recorder::new();
    extract(&Real, &root, &archive, ExtractOptions::default(), &mut recorder, |_| {}).unwrap();
    verify::against_archive(&root, &archive, 2, 1).unwrap();
    let facts = fs::metadata(cell.root().join("same")).unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o640);
}

#[test]
fn a_cache_directory_without_room_is_told() {
    let Some(small) = SmallFilesystem::mount("1m") else { return };
    let error = store::obtain(&small.path(), MODEL, Payload::DEFAULT, |_| {}).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("has no room for the generated archive of"), "{text}");
    assert!(text.contains("XDG_CACHE_HOME"), "{text}");
    assert_eq!(store::kept(&small.path()), []);
    assert!(generate::archive_size_bytes(MODEL) > 1 << 20);
}
