//! A plan: targets × workloads × trials, and its checks. The TOML form is read by `plan_toml`.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::info::Names;
use crate::ladder::Ladder;
use crate::place::{Place, UML_KERNEL_ERROR};
use crate::published::Published;
use crate::stop::StopRule;
use crate::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use crate::trace::TraceMode;
use crate::workload::{self, WorkloadSpec};

/// Least number of trials of each target and workload when nothing is said.
pub const DEFAULT_TRIALS: u32 = 5;
/// The same under `--quick`.
pub const QUICK_TRIALS: u32 = 3;
/// Size of an image when nothing is said.
pub const DEFAULT_SIZE_BYTES: u64 = 8 << 30;
/// Seed when nothing is said: the same order in every run, so that a run can be repeated.
pub const DEFAULT_SEED: u64 = 1;
/// Longest time for one trial when nothing is said.
pub const DEFAULT_TRIAL_TIMEOUT_S: u64 = 4 * 3600;
/// Smallest image: what every filesystem of the catalogue can be made on.
pub const MIN_SIZE_BYTES: u64 = 64 << 20;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Title for people.
    pub title: Option<String>,
    /// Whether a first impression was asked for instead of a measurement.
    #[serde(default)]
    pub quick: bool,
    /// Greatest number of trials of each target and workload; all of them where `stop` is null.
    pub trials: u32,
    /// When trials end before that; null: never.
    #[serde(default)]
    pub stop: Option<StopRule>,
    /// Seed of the order and of everything that is drawn.
    pub seed: u64,
    /// No trial starts after this many seconds; null for no limit.
    pub max_time_s: Option<u64>,
    /// No trial beyond the least number of `stop` starts after this many seconds; null for no such limit.
    #[serde(default)]
    pub further_time_s: Option<u64>,
    /// Longest time for one trial, in seconds.
    pub trial_timeout_s: u64,
    /// Longest time for a phase, in seconds; null for as long as the trial has.
    #[serde(default)]
    pub phase_timeout_s: Option<u64>,
    /// Size of an image whose target names none.
    pub size_bytes: u64,
    /// Directory of the images; null for the default.
    pub directory: Option<PathBuf>,
    /// Where trials run.
    #[serde(default)]
    pub place: Place,
    /// Which trials are traced.
    #[serde(default)]
    pub trace: TraceMode,
    /// Whether the machine is measured before and after each trial.
    #[serde(default = "yes")]
    pub yardstick: bool,
    /// The targets.
    pub targets: Vec<TargetSpec>,
    /// The workloads.
    pub workloads: Vec<WorkloadSpec>,
    /// Which of them are one workload under ever heavier loads.
    #[serde(default)]
    pub ladders: Vec<Ladder>,
    /// What others published of the same, where the plan repeats that.
    #[serde(default)]
    pub published: Option<Published>,
}

fn yes() -> bool {
    true
}

impl Plan {
    /// An empty plan with the defaults, but for a number of trials that is fixed.
    #[must_use]
    pub fn new(quick: bool) -> Plan {
        Plan {
            title: None,
            quick,
            trials: if quick { QUICK_TRIALS } else { DEFAULT_TRIALS },
            stop: None,
            seed: DEFAULT_SEED,
            max_time_s: None,
            further_time_s: None,
            trial_timeout_s: DEFAULT_TRIAL_TIMEOUT_S,
            phase_timeout_s: None,
            size_bytes: DEFAULT_SIZE_BYTES,
            directory: None,
            place: Place::default(),
            trace: TraceMode::default(),
            yardstick: true,
            targets: Vec::new(),
            workloads: Vec::new(),
            ladders: Vec::new(),
            published: None,
        }
    }

    /// Reads a plan from TOML, reporting every error at once.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text.
    pub fn parse(text: &str, names: &Names<'_>) -> Result<Plan, Vec<Diagnostic>> {
        crate::plan_toml::parse(text, names)
    }

    /// Numbers workload labels that occur twice and checks what concerns the plan as a whole.
    ///
    /// # Errors
    /// A sentence for each thing that is wrong.
    pub fn finish(mut self) -> Result<Plan, Vec<String>> {
        self.settle_clock();
        workload::number_labels(self.workloads.iter_mut().map(|workload| &mut workload.label));
        let mut errors = Vec::new();
        if self.targets.is_empty() {
            errors.push("there is no target: name at least one, such as ext4".to_owned());
        }
        if self.workloads.is_empty() {
            errors.push("there is no workload: name at least one, such as compilebench".to_owned());
        }
        for (index, target) in self.targets.iter().enumerate() {
            if let Err(error) = crate::target::check_label(&target.label) {
                errors.push(error);
            }
            if self.targets[..index].iter().any(|other| other.label == target.label) {
                let label = &target.label;
                errors.push(format!("two targets are labelled `{label}`: give one another label, as in other={target}"));
            }
            if let Ground::Fresh(fresh) = &target.ground
                && let Some(path) = twice(fresh)
            {
                errors.push(format!(
                    "{}: {} is named twice: the journal cannot be on the device of the filesystem itself, \
                     and a member of an array is no other",
                    target.label,
                    path.display()
                ));
            }
        }
        if self.size_bytes < MIN_SIZE_BYTES {
            errors.push(format!(
                "the size {} is too small: give at least {}",
                crate::units::exact_bytes(self.size_bytes),
                crate::units::exact_bytes(MIN_SIZE_BYTES)
            ));
        }
        errors.extend(self.place.errors());
        let own = self.targets.iter().filter(|target| target.kernel().is_some());
        errors.extend(own.filter(|_| !self.place.is_guest()).map(|target| {
            format!(
                "{}: a kernel of its own is of guests: add --in guest (where = \"guest\" in a plan)",
                target.label
            )
        }));
        let is_uml = self.place.is_uml();
        let of_kernels = self.targets.iter().filter(|target| is_uml && target.kernel().is_some());
        errors.extend(of_kernels.map(|target| format!("{}: {UML_KERNEL_ERROR}", target.label)));
        if self.place.is_guest() && self.trace == TraceMode::All {
            errors.push("what guests do is not traced: leave out --trace all".to_owned());
        }
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }

    /// What virtual time decides: a trial that would be the same if it were made again is made once, and
    /// how fast the machine is meanwhile is no matter.
    pub fn settle_clock(&mut self) {
        if !self.place.is_virtual() {
            return;
        }
        if self.stop.take().is_some() {
            (self.trials, self.further_time_s) = (1, None);
        }
        self.yardstick = false;
    }

    /// Every block device of the user's that a target or its journal is on.
    pub fn devices(&self) -> impl Iterator<Item = &Path> {
        let fresh = self.targets.iter().filter_map(|target| match &target.ground {
            Ground::Fresh(fresh) => Some(fresh),
            Ground::Directory { .. } => None,
        });
        fresh.flat_map(FreshSpec::devices).flat_map(DeviceSpec::paths)
    }

    /// Greatest number of trials whose figures count.
    #[must_use]
    pub fn trial_count(&self) -> usize {
        self.count(|workload_index| self.trials_of(workload_index))
    }

    /// Least number of trials whose figures count.
    #[must_use]
    pub fn least_trial_count(&self) -> usize {
        self.count(|_| self.min_trials())
    }

    fn count(&self, trials: impl Fn(usize) -> u32) -> usize {
        self.targets.len() * (0..self.workloads.len()).map(|it| trials(it) as usize).sum::<usize>()
    }

    /// Least number of trials of each target and workload.
    #[must_use]
    pub fn min_trials(&self) -> u32 {
        self.stop.map_or(self.trials, |rule| rule.min_trials)
    }

    /// Greatest number of trials of each target on the workload with this index. The rungs of a ladder
    /// have the least number, because what comes of one decides about the next.
    #[must_use]
    pub fn trials_of(&self, workload_index: usize) -> u32 {
        match self.ladder_of(workload_index) {
            Some(_) => self.min_trials(),
            None => self.trials,
        }
    }

    /// Indexes of the targets that get one more trial of each workload, which is traced. What lies below
    /// a directory of the user's serves others too, so that it is not traced; nor are guests.
    pub fn explained_targets(&self) -> impl Iterator<Item = usize> {
        let is_asked = self.trace == TraceMode::Explain && !self.place.is_guest();
        let targets = self.targets.iter().enumerate().filter(move |_| is_asked);
        let fresh = targets.filter(|(_, target)| matches!(target.ground, Ground::Fresh(_)));
        fresh.map(|(index, _)| index)
    }
}

/// A device of the user's that a target names twice.
fn twice(fresh: &FreshSpec) -> Option<&Path> {
    let paths: Vec<&Path> = fresh.devices().flat_map(DeviceSpec::paths).collect();
    let mut numbered = paths.iter().enumerate();
    numbered.find(|(at, path)| paths[..*at].contains(path)).map(|(_, path)| *path)
}
