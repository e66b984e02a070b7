//! When the yardstick is read: before the first trial and after each, so that every trial whose figures
//! count has a reading on both sides. One reading between two trials serves both; where they lie on
//! different disks, both disks are read. What is worked is in `workload`, what is concluded in `analysis`.

use std::collections::BTreeMap;

use fsdyno_lab::workspace::Workspace;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::Role;
use fsdyno_model::yardstick::{Reading, reading_ns};
use fsdyno_sys::{SysError, clock, file, process};
use fsdyno_workload::yardstick::{self, DeviceTimes};

use super::place::{self, Place};
use super::progress;
use super::schedule::Planned;

/// Kinds of work that share the time of a reading.
const KINDS: u64 = 5;
/// Longest time for making the file, in nanoseconds.
const MAKING_NS: u64 = 5_000_000_000;
/// The file takes no more than this share of what is free.
const FREE_SHARE: u64 = 8;

/// The readings of a run.
pub struct Readings<'a> {
    plan: &'a Plan,
    workspace: &'a Workspace,
    quiet: bool,
    /// What has been taken since the last trial, by place.
    fresh: BTreeMap<String, Reading>,
    /// Places whose file is made, or cannot be measured.
    known: BTreeMap<String, bool>,
}

impl<'a> Readings<'a> {
    /// None yet.
    #[must_use]
    pub fn new(plan: &'a Plan, workspace: &'a Workspace, quiet: bool) -> Readings<'a> {
        let (fresh, known) = (BTreeMap::new(), BTreeMap::new());
        Readings { plan, workspace, quiet, fresh, known }
    }

    /// Whether a trial has readings: those that only explain have none.
    #[must_use]
    pub fn are_of(&self, planned: &Planned) -> bool {
        self.plan.yardstick && planned.role == Role::Measured
    }

    /// The reading before a trial: the one after the trial before, where that is of the same place.
    pub fn before(&mut self, planned: &Planned) -> Option<Reading> {
        let (name, _) = self.place(planned)?;
        if !self.fresh.contains_key(&name) {
            self.take([Some(planned), None]);
        }
        self.fresh.get(&name).cloned()
    }

    /// The reading after a trial; `next` is what follows.
    pub fn after(&mut self, planned: &Planned, next: Option<&Planned>) -> Option<Reading> {
        let (name, _) = self.place(planned)?;
        self.fresh.clear();
        let next = next.filter(|next| self.are_of(next));
        self.take([Some(planned), next]);
        self.fresh.get(&name).cloned()
    }

    fn place(&self, planned: &Planned) -> Option<(String, Result<Place, String>)> {
        let target = &self.plan.targets[planned.target_index];
        place::of_target(self.plan, self.workspace, target)
    }

    /// Reads processor and memory once, and the disks of these trials.
    fn take(&mut self, trials: [Option<&Planned>; 2]) {
        let limit_ns = reading_ns(self.plan.quick) / KINDS;
        let places: BTreeMap<String, Result<Place, String>> =
            trials.into_iter().flatten().filter_map(|planned| self.place(planned)).collect();
        let started_unix_ns = clock::wall_ns();
        let start_ns = clock::now_ns();
        let compute_ns = yardstick::compute_ns(limit_ns).ok();
        let copy_ns_per_kib = yardstick::copy_ns_per_kib(limit_ns).ok();
        let processor_ns = clock::now_ns() - start_ns;
        for (name, place) in places {
            let start_ns = clock::now_ns();
            let times = self.device(&name, place, limit_ns);
            let elapsed_ns = processor_ns + (clock::now_ns() - start_ns);
            if process::interrupted() {
                // What was cut short is no reading.
                return;
            }
            let reading = Reading {
                place: name.clone(),
                started_unix_ns,
                elapsed_ns,
                compute_ns,
                copy_ns_per_kib,
                device_read_ns: times.map(|times| times.read_ns),
                device_write_ns: times.and_then(|times| times.write_ns),
                device_flush_ns: times.and_then(|times| times.flush_ns),
            };
            self.fresh.insert(name, reading);
        }
    }

    /// Times a disk; that it cannot be done is told once.
    fn device(
        &mut self,
        name: &str,
        place: Result<Place, String>,
        limit_ns: u64,
    ) -> Option<DeviceTimes> {
        if self.known.get(name) == Some(&false) {
            return None;
        }
        let is_new = !self.known.contains_key(name);
        let times = place.map_err(anyhow::Error::msg).and_then(|place| match place {
            Place::Below(directory) => {
                if is_new {
                    let free_bytes = file::free_space(&directory)?.available;
                    anyhow::ensure!(
                        yardstick::FILE_BYTES <= free_bytes / FREE_SHARE,
                        "too little is free there"
                    );
                    yardstick::make_file(&directory, MAKING_NS)?;
                }
                yardstick::file_times(&directory, limit_ns)
            }
            Place::Device(path) => yardstick::device_times(&path, limit_ns),
        });
        self.known.insert(name.to_owned(), times.is_ok());
        times.map_err(|error| self.tell(name, &error)).ok()
    }

    fn tell(&self, name: &str, error: &anyhow::Error) {
        let is_full = error.downcast_ref::<SysError>().is_some_and(SysError::is_no_space);
        if !is_full && !self.quiet && !process::interrupted() {
            progress::say(&format!(
                "the device under {name} is not timed between trials: {error:#}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::target::{Ground, TargetSpec};

    use super::*;

    #[test]
    fn one_reading_serves_two_trials_and_two_disks_are_both_read() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut plan = Plan::new(true);
        for name in ["one", "two"] {
            let path = directory.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let ground = Ground::Directory { path };
            plan.targets.push(TargetSpec { label: name.to_owned(), ground });
        }
        let (images, state) = (directory.path().join("images"), directory.path().join("state"));
        let workspace = Workspace::open("r1", &images, &state, &[]).unwrap();
        let planned = |target_index, role| Planned {
            target_index,
            workload_index: 0,
            trial: 1,
            role,
            order: 0,
        };
        let (one, two) = (planned(0, Role::Measured), planned(1, Role::Measured));
        let mut readings = Readings::new(&plan, &workspace, true);
        let first = readings.before(&one).unwrap();
        assert!(first.compute_ns.unwrap() > 0.0 && first.copy_ns_per_kib.unwrap() > 0.0);
        assert!(first.place.ends_with("/one") && first.elapsed_ns > 0, "{first:?}");
        let after = readings.after(&one, Some(&two)).unwrap();
        assert!(after.started_unix_ns > first.started_unix_ns);
        let before = readings.before(&two).unwrap();
        assert!(before.place.ends_with("/two"));
        assert_eq!(before.started_unix_ns, after.started_unix_ns, "the same reading");
        assert_eq!(before.compute_ns, after.compute_ns);
        // What follows is of the same disk: nothing is read again.
        let after = readings.after(&two, Some(&two));
        assert_eq!(readings.before(&two), after);
        assert!(!readings.are_of(&planned(0, Role::Explain)));
        workspace.close().unwrap();
        assert!(!directory.path().join("one/fsdyno-r1").exists(), "its file is removed");
    }
}
