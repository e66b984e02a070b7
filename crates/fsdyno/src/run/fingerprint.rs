//! The fingerprint of the machine: how fast it reads from memory, and from each disk that the targets
//! of a plan lie on. Taken once, before the first trial; nothing is written to a block device. The loops
//! are those of the workload `read-speed`.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::path::Path;

use anyhow::Context as _;
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::environment::Environment;
use fsdyno_model::payload::Payload;
use fsdyno_model::plan::Plan;
use fsdyno_sys::caches::{self, CacheLevel};
use fsdyno_sys::calls::{Calls as _, Real};
use fsdyno_sys::{Errno, SysError};
use fsdyno_workload::contents::PayloadBuffer;
use fsdyno_workload::read_speed::{self, Source};

use super::place::{self, Place};
use super::progress;

const FILE: &CStr = c"read-speed";
/// Most bytes of the file that is made and read.
const FILE_BYTES: u64 = 128 << 20;
/// The same where there is less room: a share of what is free.
const FREE_SHARE: u64 = 8;
const MS: u64 = 1_000_000;
/// Longest time of the whole that passes without a word.
const SILENT_NS: u64 = 2_000 * MS;

/// How long each part may take, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    cached: u64,
    /// Making the file of one ground, and reading it: each so long.
    ground: u64,
}

impl Limits {
    fn of(plan: &Plan, ground_count: usize) -> Limits {
        if plan.quick {
            let parts = 2 * ground_count.max(1) as u64;
            return Limits { cached: 50 * MS, ground: 200 * MS / parts };
        }
        Limits { cached: 400 * MS, ground: 450 * MS }
    }
}

/// Measures and notes in `environment`. What cannot be measured is null there; why is told on standard
/// error, unless there is just no room.
pub fn measure(plan: &Plan, workspace: &Workspace, environment: &mut Environment, quiet: bool) {
    let grounds = grounds(plan, workspace);
    let limits = Limits::of(plan, grounds.len());
    let longest_ns = limits.cached + 2 * limits.ground * grounds.len() as u64;
    if longest_ns > SILENT_NS && !quiet {
        progress::say(&format!("measuring the read speed of {} places", grounds.len()));
    }
    environment.cached_read_mib_per_s =
        known("memory", cached(workspace.directory(), limits.cached), quiet);
    for (name, place) in grounds {
        let measured = place.map_err(anyhow::Error::msg).and_then(|place| match place {
            Place::Below(directory) => file(&directory, limits.ground),
            Place::Device(path) => device(&path, limits.ground),
        });
        environment.device_read_mib_per_s.insert(name.clone(), known(&name, measured, quiet));
    }
}

/// A figure, or what is against it, told.
fn known(what: &str, measured: anyhow::Result<Option<f64>>, quiet: bool) -> Option<f64> {
    measured.unwrap_or_else(|error| {
        let full = error.downcast_ref::<SysError>().is_some_and(SysError::is_no_space);
        if !full && !quiet && !fsdyno_sys::process::interrupted() {
            progress::say(&format!("the read speed of {what} is unknown: {error:#}"));
        }
        None
    })
}

/// Every disk that the plan's targets lie on, by the name that the user knows it by.
fn grounds(plan: &Plan, workspace: &Workspace) -> BTreeMap<String, Result<Place, String>> {
    let of_targets = plan.targets.iter().filter_map(|it| place::of_target(plan, workspace, it));
    let mut grounds: BTreeMap<_, _> = of_targets.collect();
    // Those of journals too.
    for path in plan.devices().filter(|path| path.exists()) {
        grounds.insert(place::shown(path), Ok(Place::Device(path.to_owned())));
    }
    grounds
}

/// Reading from memory, by a short file in `directory`, written into the cache as the workload does it.
fn cached(directory: &Path, limit_ns: u64) -> anyhow::Result<Option<f64>> {
    let root = open(directory)?;
    let mut payload = PayloadBuffer::new(Payload::DEFAULT, 0, read_speed::BUFFER_BYTES);
    let size_bytes = payload.size_bytes();
    let measured = read_speed::write_file(&root, FILE, size_bytes, &mut payload, 0)
        .and_then(|()| read_speed::cached_speed(&Source::cached(&root, FILE)?, limit_ns));
    remove(directory)?;
    Ok(measured?.mib_per_s())
}

/// Reading from the disk that holds `directory`.
fn file(directory: &Path, limit_ns: u64) -> anyhow::Result<Option<f64>> {
    let free_bytes = fsdyno_sys::file::free_space(directory)?.available;
    let most_bytes = FILE_BYTES.min(free_bytes / FREE_SHARE);
    let read = |size_bytes| {
        let source = Source::uncached(&open(directory)?, FILE)?;
        if !source.direct {
            caches::drop_caches(CacheLevel::Pages)
                .context("it cannot be read past the cache, and that cannot be emptied")?;
        }
        Ok(read_speed::stream_speed(&source, size_bytes, limit_ns)?.mib_per_s())
    };
    // A run that is killed in between leaves the file in a directory of its ledger.
    let measured =
        read_speed::write_trial_file(directory, FILE, most_bytes, limit_ns).and_then(read);
    remove(directory)?;
    measured
}

/// Reading from the start of a block device.
fn device(path: &Path, limit_ns: u64) -> anyhow::Result<Option<f64>> {
    let source = Source::uncached_at(&path.canonicalize()?)?;
    anyhow::ensure!(source.direct, "it cannot be read past the cache (O_DIRECT)");
    let size_bytes = fsdyno_sys::block::size_bytes(path)?;
    Ok(read_speed::stream_speed(&source, size_bytes, limit_ns)?.mib_per_s())
}

/// Removes the file, if there is one.
fn remove(directory: &Path) -> anyhow::Result<()> {
    match Real.unlink(&open(directory)?, FILE) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(SysError::at_path("unlink", directory, errno).into()),
    }
}

fn open(directory: &Path) -> anyhow::Result<std::os::fd::OwnedFd> {
    let opened = Real.open_root(directory);
    Ok(opened.map_err(|errno| SysError::at_path("open", directory, errno))?)
}

#[cfg(test)]
mod tests {
    use fsdyno_model::target::{Ground, TargetSpec};

    use super::*;

    fn plan(quick: bool, targets: &[Ground]) -> Plan {
        let mut plan = Plan::new(quick);
        plan.targets = targets
            .iter()
            .map(|ground| TargetSpec { label: String::new(), ground: ground.clone() })
            .collect();
        plan
    }

    #[test]
    fn a_first_impression_takes_little_time() {
        for ground_count in [0, 1, 3, 10] {
            let quick = Limits::of(&plan(true, &[]), ground_count);
            assert!(quick.cached + 2 * quick.ground * ground_count as u64 <= 300 * MS);
        }
        let whole = Limits::of(&plan(false, &[]), 3);
        assert!(whole.cached <= 500 * MS && 2 * whole.ground <= 1000 * MS);
    }

    #[test]
    fn every_ground_is_measured_once_and_nothing_is_left() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let own = directory.path().join("own");
        std::fs::create_dir(&own).unwrap();
        let absent = directory.path().join("absent");
        let here = Ground::Directory { path: own.clone() };
        let grounds = [here.clone(), Ground::Directory { path: absent }, here];
        let plan = plan(true, &grounds);
        let images = directory.path().join("images");
        let state = directory.path().join("state");
        let workspace = Workspace::open("r1", &images, &state, &[]).unwrap();
        let mut environment = Environment::default();
        measure(&plan, &workspace, &mut environment, true);
        assert!(environment.cached_read_mib_per_s.unwrap() > 0.0);
        let measured: Vec<_> = environment.device_read_mib_per_s.into_iter().collect();
        let [(name, Some(speed))] = measured.as_slice() else { panic!("{measured:?}") };
        assert_eq!((name.as_str(), *speed > 0.0), (own.to_str().unwrap(), true));
        for place in [workspace.directory(), &workspace.directory_below(&own).unwrap()] {
            assert!(!place.join("read-speed").exists());
        }
        workspace.close().unwrap();
    }
}
