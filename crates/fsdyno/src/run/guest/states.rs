//! Saved states of booted guests: one for each set of kernel, modules and disks that the targets of a run
//! need, made before its first trial, so that all its trials start alike. They lie in the run's workspace and
//! go with it.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsdyno_guest::machine::Machine;
use fsdyno_guest::qemu::Spec;
use fsdyno_guest::saved_state::{self, Making, SavedState};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::guest::{SavedStateFacts, Task};
use fsdyno_model::place::{Accelerator, Where};
use fsdyno_model::plan::Plan;
use fsdyno_model::record::Warning;
use fsdyno_model::target::Ground;
use fsdyno_model::units::{human_bytes, human_duration};
use fsdyno_sys::{file, process};

use super::{BOOT_PATIENCE, Guests, KVM_PATIENCE, readiness, trial};
use crate::run::progress;

/// Where a run has fewer trials of a target, making a state takes longer than it saves.
const LEAST_TRIALS: u32 = 2;
/// What all states of a run may take together.
const MOST_BYTES: u64 = 8 << 30;
/// What was done with a state of no use.
pub(super) const MADE_ANEW: &str = "it was made anew";
/// What is left free besides.
const MARGIN_BYTES: u64 = 64 << 20;

/// The states of a run; none where each guest boots.
#[derive(Default)]
pub(super) struct States {
    kinds: Vec<Kind>,
    /// For each target the index of its kind.
    of_target: Vec<Option<usize>>,
    directory: PathBuf,
}

/// What decides which state a guest may go on from.
struct Kind {
    spec: Spec,
    modules: Vec<String>,
    disk_sizes: Vec<u64>,
    /// `None` until it is made.
    state: Mutex<Option<SavedState>>,
}

impl Kind {
    fn state(&self) -> MutexGuard<'_, Option<SavedState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest that has its errand, or is about to get it.
pub(super) struct Started {
    pub machine: Machine,
    /// What became of the state where it should have gone on from one and did not at once.
    pub warning: Option<Warning>,
    /// How it began, for the record.
    pub start: &'static str,
    /// When it began, booting or with what was saved.
    pub since: Instant,
}

impl Started {
    pub(super) fn booted(machine: Machine, since: Instant) -> Started {
        Started { machine, warning: None, start: "boot", since }
    }
}

/// Whether the guests of `plan` are to start from states.
fn is_wanted(plan: &Plan) -> bool {
    let trials = (0..plan.workloads.len()).map(|workload| plan.trials_of(workload)).sum::<u32>();
    plan.place.kind == Where::Guest
        && !plan.place.is_virtual()
        && plan.place.saved_state
        && trials >= LEAST_TRIALS
}

impl Guests {
    /// Makes the states from which the trials of the targets start that are `ready`. Where one cannot be made,
    /// there is none, and a warning: trials that boot are not put beside others that do not.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn save_states(
        &mut self,
        plan: &Plan,
        workspace: &Workspace,
        is_ready: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        if !is_wanted(plan) {
            return Ok(());
        }
        let begun = Instant::now();
        self.states = self.kinds(plan, workspace.directory(), is_ready);
        let count = self.states.kinds.len();
        if count > 1 && !self.quiet {
            progress::say(&format!("saving the states of {count} booted guests"));
        }
        match self.save_all(plan) {
            Ok(facts) if facts.is_empty() => {}
            Ok(facts) => {
                if !self.quiet {
                    progress::say(&news(&facts, begun.elapsed()));
                }
                if let Some(guest) = &mut self.environment.guest {
                    guest.saved_states = facts;
                }
            }
            Err(error) => {
                let kinds = std::mem::take(&mut self.states.kinds);
                self.states.of_target.clear();
                kinds.iter().filter_map(|kind| kind.state().take()).for_each(|it| it.remove());
                if process::interrupted() {
                    return Err(error);
                }
                self.warning = Some(Warning {
                    code: "guests-booted".to_owned(),
                    message: format!("no state of a booted guest could be saved: {error}"),
                    advice: "the guest of each trial boots, which takes longer; --no-saved-state has it do so without a word"
                        .to_owned(),
                });
            }
        }
        Ok(())
    }

    fn kinds(&self, plan: &Plan, parent: &Path, is_ready: impl Fn(usize) -> bool) -> States {
        let directory = parent.to_owned();
        let mut states = States { directory, ..States::default() };
        for (index, target) in plan.targets.iter().enumerate() {
            let fresh = match &target.ground {
                Ground::Fresh(fresh) if is_ready(index) => fresh,
                _ => {
                    states.of_target.push(None);
                    continue;
                }
            };
            let disk_sizes = readiness::disk_sizes(fresh, plan);
            let (spec, modules) = (self.spec_of(index), &self.modules[index]);
            let is_same = |kind: &Kind| {
                kind.spec == *spec && kind.modules == *modules && kind.disk_sizes == disk_sizes
            };
            let known = states.kinds.iter().position(is_same);
            states.of_target.push(Some(known.unwrap_or(states.kinds.len())));
            if known.is_none() {
                let (spec, modules) = (spec.clone(), modules.clone());
                let state = Mutex::new(None);
                states.kinds.push(Kind { spec, modules, disk_sizes, state });
            }
        }
        states
    }

    fn save_all(&self, plan: &Plan) -> Result<Vec<SavedStateFacts>, String> {
        let mut all: Vec<SavedStateFacts> = Vec::new();
        for index in 0..self.states.kinds.len() {
            let taken: u64 = all.iter().map(|facts| facts.size_bytes).sum();
            if taken > MOST_BYTES {
                let limit = human_bytes(MOST_BYTES);
                return Err(format!("the states of this run would take more than {limit}"));
            }
            let begun = Instant::now();
            let state = self.save(index)?;
            let targets = plan.targets.iter().zip(&self.states.of_target);
            let own = targets.filter(|(_, kind)| **kind == Some(index));
            all.push(SavedStateFacts {
                targets: own.map(|(target, _)| target.label.clone()).collect(),
                size_bytes: state.size_bytes(),
                hash: state.hash(),
                made_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
            });
        }
        Ok(all)
    }

    /// Makes the state of a kind, in the place of one that is there.
    fn save(&self, index: usize) -> Result<SavedState, String> {
        let kind = &self.states.kinds[index];
        let directory = &self.states.directory;
        let space = file::free_space(directory).map_err(|error| error.to_string())?;
        let disks: u64 = kind.disk_sizes.iter().sum();
        // At most all memory, which never happens; and the disks of trials still need their room.
        let wanted = kind.spec.memory_bytes.saturating_add(disks).saturating_add(MARGIN_BYTES);
        if space.available < wanted {
            return Err(format!(
                "{} has {} free and would need {}",
                directory.display(),
                human_bytes(space.available),
                human_bytes(wanted)
            ));
        }
        let own = Own::make(directory.join("waiting-guest"))?;
        let disks = trial::make_images(&kind.disk_sizes, &own.0)?;
        let inside = (0..disks.len()).map(trial::virtio_disk).collect();
        let spec = Spec { disks, ..kind.spec.clone() };
        let making = self.making(&spec, &own.0);
        let file = self.states.file(index);
        let state = saved_state::save(&making, kind.modules.clone(), inside, &file)?;
        *kind.state() = Some(state.clone());
        Ok(state)
    }

    pub(super) fn making<'a>(&'a self, spec: &'a Spec, directory: &'a Path) -> Making<'a> {
        let patience = match spec.accelerator {
            Accelerator::Kvm => KVM_PATIENCE,
            Accelerator::Tcg => BOOT_PATIENCE,
        };
        let keep_on =
            || if process::interrupted() { Err("interrupted".to_owned()) } else { Ok(()) };
        Making { front: &self.front, spec, directory, patience, keep_on }
    }

    /// Starts the guest of a trial: from the state of its kind where there is one. A state that is of no use is
    /// made anew once; then the guest boots.
    pub(super) fn start(
        &self,
        target_index: usize,
        spec: &Spec,
        directory: &Path,
        task: Task,
    ) -> Result<Started, String> {
        let since = Instant::now();
        let boot = |task| {
            let modules = self.modules[target_index].clone();
            Machine::start(&self.front, spec, directory, modules, task)
        };
        let Some(index) = self.states.of_target.get(target_index).copied().flatten() else {
            return boot(task).map(|machine| Started::booted(machine, since));
        };
        let making = self.making(spec, directory);
        let resume = |task| {
            let state = self.states.kinds[index].state().clone();
            state.ok_or("there is no saved state")?.resume(&making, task)
        };
        let first = match resume(task.clone()) {
            Ok(machine) => {
                return Ok(Started { machine, warning: None, start: "saved state", since });
            }
            Err(error) if process::interrupted() => return Err(error),
            Err(error) => error,
        };
        let again = self.save(index).and_then(|_| resume(task.clone()));
        let (machine, start, second) = match again {
            Ok(machine) => (machine, "saved state", MADE_ANEW.to_owned()),
            Err(error) if process::interrupted() => return Err(error),
            Err(error) => (boot(task)?, "boot", format!("the guest booted instead: {error}")),
        };
        Ok(Started { machine, warning: Some(state_lost(&first, &second)), start, since })
    }
}

/// The warning of a trial whose guest could not go on from its state by this `error`, and what was done then.
pub(super) fn state_lost(error: &str, then: &str) -> Warning {
    Warning {
        code: "saved-state-lost".to_owned(),
        message: format!("the guest could not go on from its saved state: {error}; {then}"),
        advice:
            "look whether something else writes below --dir; the figures of this trial are whole"
                .to_owned(),
    }
}

impl States {
    fn file(&self, index: usize) -> PathBuf {
        self.directory.join(format!("guest-state-{index}"))
    }
}

/// `trials start from 2 saved states of booted guests (241 MiB, made in 4.1 s)`.
fn news(facts: &[SavedStateFacts], elapsed: Duration) -> String {
    let size_bytes = facts.iter().map(|facts| facts.size_bytes).sum();
    let states = match facts.len() {
        1 => "the saved state of a booted guest".to_owned(),
        count => format!("{count} saved states of booted guests"),
    };
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    let (size, time) = (human_bytes(size_bytes), human_duration(elapsed_ns));
    format!("trials start from {states} ({size}, made in {time})")
}

/// A directory for this user alone that goes with its owner.
pub(super) struct Own(PathBuf);

impl Own {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn make(path: PathBuf) -> Result<Own, String> {
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("make {}: {error}", path.display()))?;
        Ok(Own(path))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // What stays goes with the workspace.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::place::{Clock, Place};
    use fsdyno_model::workload::WorkloadSpec;

    #[test]
    fn states_are_for_several_trials_in_real_time() {
        let workload = crate::catalogue::with_names(|names| {
            WorkloadSpec::parse("small-files", true, names).unwrap()
        });
        let place = Place { kind: Where::Guest, ..Place::default() };
        let plan = |place: &Place, trials| {
            let workloads = vec![workload.clone()];
            Plan { place: place.clone(), trials, workloads, ..Plan::new(true) }
        };
        assert!(is_wanted(&plan(&place, 2)));
        assert!(!is_wanted(&plan(&place, 1)));
        assert!(!is_wanted(&plan(&Place::default(), 2)));
        assert!(!is_wanted(&plan(&Place { saved_state: false, ..place.clone() }, 2)));
        assert!(!is_wanted(&plan(&Place { clock: Clock::Virtual, ..place }, 2)));
    }

    #[test]
    fn what_is_saved_is_told() {
        let facts = SavedStateFacts { size_bytes: 100 << 20, ..SavedStateFacts::default() };
        let one = news(std::slice::from_ref(&facts), Duration::from_secs(2));
        assert!(one.starts_with("trials start from the saved state of a booted guest (100"));
        let two = news(&[facts.clone(), facts], Duration::from_secs(2));
        assert!(two.contains("2 saved states") && two.contains("200"), "{two}");
    }
}
