//! The workload `postgres` through the phase runner in a temporary directory: its phases and settings,
//! damage that its check finds, a filesystem that is full. What is not installed is skipped.

mod support;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use fsdyno_model::param::Params;
use fsdyno_workload::catalog;
use fsdyno_workload::failure::Unavailable;
use fsdyno_workload::postgres::bench;
use fsdyno_workload::postgres::cluster::{Cluster, DIRECTORY};
use fsdyno_workload::postgres::programs::{AUTO, locate};
use fsdyno_workload::postgres::settings::Settings;
use fsdyno_workload::runner::EXIT_FAILED;
use support::{SmallFilesystem, measure};

fn is_installed() -> bool {
    locate(AUTO).inspect_err(|error| println!("skipped: {error}")).is_ok()
}

fn settings(params: &[(&str, &str)]) -> Settings {
    let info = catalog::find("postgres").unwrap().info();
    let mut values = Params::defaults(info.params, true);
    for (name, value) in params {
        values.set(info.params, name, value).unwrap();
    }
    Settings::new(&values).unwrap()
}

/// Processes that work in a data directory below `root`, by their current directory.
fn servers(root: &Path) -> Vec<u32> {
    let root = root.canonicalize().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let below = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&root))
    };
    numbers.filter(below).collect()
}

/// What is left of scratch directories of this process.
fn scratch_directories() -> Vec<PathBuf> {
    let prefix = format!("fsdyno-postgres-{}-", std::process::id());
    let entries = [std::env::temp_dir(), "/var/tmp".into()].into_iter().flat_map(|place| {
        std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path())
    });
    entries.filter(|path| path.to_string_lossy().contains(&prefix)).collect()
}

#[test]
fn all_phases_run_and_leave_no_process() {
    if !is_installed() {
        return;
    }
    for params in [
        vec![],
        vec![
            ("synchronous_commit", "off"),
            ("transactions", "0"),
            ("runtime", "1"),
            ("clients", "2"),
            ("jobs", "1"),
            ("sync", "false"),
        ],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let answers = measure(directory.path(), "postgres", &params).expect_finished();
        let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["initdb", "load", "tpcb", "select-only"]);
        for name in ["tpcb", "select-only"] {
            let phase = answers.phase(name);
            let count = phase.values["transactions"];
            if params.is_empty() {
                assert_eq!(count, 4.0 * 25.0);
            }
            assert!(phase.values["task_p50_ms"] <= phase.values["task_max_ms"]);
            assert!(phase.latency.contains_key("task") && phase.operations.is_empty());
            let sample = &phase.samples[0];
            assert!(sample.app_user_ns.unwrap() + sample.app_system_ns.unwrap() > 1_000_000);
            if let Some(durable_ns) = phase.elapsed_durable_ns {
                assert!(phase.elapsed_return_ns < durable_ns);
            }
            if params.len() > 3 {
                assert!(phase.elapsed_return_ns > 900_000_000);
                assert_eq!(phase.elapsed_durable_ns, None);
            }
        }
        let (files, bytes) = answers.verified().unwrap();
        assert!(files > 500 && bytes > 20 << 20, "{files} {bytes}");
        let codes: Vec<&str> = answers.warnings().iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, ["caches-not-dropped"]);
        assert_eq!(servers(directory.path()), Vec::<u32>::new());
        let control = directory.path().join(DIRECTORY).join("global/pg_control");
        assert!(
            control.exists() && !directory.path().join(DIRECTORY).join("postmaster.pid").exists()
        );
        let size = used_bytes(directory.path());
        let peak = settings(&params).peak_bytes();
        assert!(peak > size && peak < 8 * size, "{peak} {size}");
    }
}

fn used_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        found if found.is_dir() => used_bytes(&entry.path()),
        found => found.len(),
    };
    entries.map(size).sum()
}

#[test]
fn settings_are_in_force_and_damage_is_found() {
    if !is_installed() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&[("synchronous_commit", "local"), ("shared_buffers", "3MiB")]);
    let cluster = Cluster::new(directory.path(), &settings).unwrap();
    cluster.initialize().unwrap();
    let server = cluster.start().unwrap();
    for (name, value) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "local"),
        ("shared_buffers", "3MB"),
        ("max_wal_size", "128MB"),
        ("checkpoint_timeout", "5min"),
        ("listen_addresses", ""),
        ("data_checksums", "on"),
        ("lc_collate", "C"),
        ("server_encoding", "UTF8"),
    ] {
        // The locale is a property of the database since PostgreSQL 16.
        let query = match name {
            "lc_collate" => {
                "SELECT datcollate FROM pg_database WHERE datname = 'postgres'".to_owned()
            }
            name => format!("SHOW {name}"),
        };
        assert_eq!(cluster.ask(&query).unwrap(), [value], "{name}");
    }
    bench::load(&cluster, &settings).unwrap();
    assert!(!servers(directory.path()).is_empty());
    let table = cluster.ask("SELECT pg_relation_filepath('pgbench_accounts')").unwrap().remove(0);
    let index = cluster.ask("SELECT pg_relation_filepath('pgbench_accounts_pkey')").unwrap();
    let structure = cluster.check_structure().unwrap();
    server.stop().unwrap();
    assert_eq!(servers(directory.path()), Vec::<u32>::new());
    let data = directory.path().join(DIRECTORY);
    if cluster.check_pages().unwrap().is_none() {
        println!("skipped: pg_checksums is not installed");
        return;
    }
    // In a page of a table and in one of an index: first the bit, then back.
    for path in [&table, &index[0]] {
        let file = std::fs::File::options().read(true).write(true).open(data.join(path)).unwrap();
        let position = 3 * 8192 + 4321;
        let mut byte = [0];
        file.read_exact_at(&mut byte, position).unwrap();
        file.write_all_at(&[byte[0] ^ 1], position).unwrap();
        let error = cluster.check_pages().unwrap_err().to_string();
        assert!(error.contains("pg_checksums") && error.contains("block 3"), "{error}");
        if structure {
            let server = cluster.start().unwrap();
            let error = cluster.check_structure().unwrap_err().to_string();
            assert!(error.contains("verification failed"), "{error}");
            server.stop().unwrap();
        }
        file.write_all_at(&byte, position).unwrap();
        cluster.check_pages().unwrap();
    }
    // One that is not stopped in good order is ended all the same; the next one recovers.
    drop(cluster.start().unwrap());
    assert_eq!(servers(directory.path()), Vec::<u32>::new());
    cluster.start().unwrap().stop().unwrap();
    drop(cluster);
    assert!(scratch_directories().len() <= 2, "those of other tests: {:?}", scratch_directories());
}

#[test]
fn a_full_filesystem_is_told_and_no_server_stays() {
    if !is_installed() {
        return;
    }
    for (size, stage) in [("20m", "initdb"), ("80m", "load")] {
        let Some(filesystem) = SmallFilesystem::mount(size) else { return };
        let params = [("scale", "5")];
        let answers = measure(&filesystem.path(), "postgres", &params);
        let (failed, error) = answers.failure().unwrap();
        assert_eq!((failed, answers.exit_code), (stage, EXIT_FAILED), "{error}");
        assert!(error.contains("ENOSPC") && error.contains("--size"), "{error}");
        assert_eq!(servers(&filesystem.path()), Vec::<u32>::new());
    }
}

#[test]
fn what_is_missing_skips_and_what_is_wrong_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let error =
        Cluster::new(directory.path(), &settings(&[("programs", "/no/place")])).unwrap_err();
    assert!(error.is::<Unavailable>() && error.to_string().contains("/no/place"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let info = catalog::find("postgres").unwrap();
    for (pairs, expected) in [
        (vec![("jobs", "5"), ("clients", "4")], "fewer jobs"),
        (vec![("transactions", "0"), ("runtime", "0")], "would do nothing"),
    ] {
        let mut values = Params::defaults(info.info().params, true);
        for (name, value) in pairs {
            values.set(info.info().params, name, value).unwrap();
        }
        assert!(info.check(&values).unwrap_err().contains(expected));
    }
    if is_installed() {
        let error = Cluster::new(directory.path(), &settings(&[("user", "root")])).unwrap_err();
        assert!(error.to_string().contains("refuses"), "{error}");
    }
}
