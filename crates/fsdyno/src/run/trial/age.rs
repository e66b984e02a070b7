//! Aging a target before its workload: done once, kept as a snapshot where that can be, and every trial
//! of the target then starts from a copy of it, the first one too. What is done is the phase runner's
//! business, how a snapshot is kept [`fsdyno_lab::snapshot`]'s.

use std::path::PathBuf;

use fsdyno_lab::snapshot::{self, Snapshot};
use fsdyno_lab::stand::{Stand, aged};
use fsdyno_lab::{environment, filesystem, tools};
use fsdyno_model::age::{AgeRecord, AgeSpec};
use fsdyno_model::plan::Plan;
use fsdyno_model::record::Warning;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::wire::{AgeTask, Task};
use fsdyno_sys::{clock, kernel};

use super::{Trial, Unfinished, ended};
use crate::run::image_directory;

/// How far the utilisation that was reached may be from the one that was asked for, as a share.
const UTILISATION_TOLERANCE: f64 = 0.03;

/// A stand that is not mounted, and whether there is a filesystem on it already.
pub(super) struct Prepared<'a> {
    pub stand: Stand<'a>,
    pub is_made: bool,
}

/// What went wrong before there was a stand to go on with, and what could not be removed.
pub(super) type Lost = (Unfinished, Option<String>);

/// Where the snapshots of a run lie that it does not keep.
fn run_snapshots(setting: &super::Setting<'_>) -> PathBuf {
    setting.workspace.directory().join("aged")
}

impl<'a> Trial<'a, '_> {
    /// The stand of the trial: blank, or with the aged filesystem.
    pub(super) fn prepare(&mut self) -> Result<Prepared<'a>, Lost> {
        let target = &self.setting.plan.targets[self.planned.target_index];
        let Ground::Fresh(FreshSpec { age: Some(age), .. }) = &target.ground else {
            return Ok(Prepared { stand: self.provision(target, None)?, is_made: false });
        };
        let identity = identity(self.setting.plan, target, age);
        for parent in self.snapshot_parents(target, true) {
            if let Some(snapshot) = snapshot::find(&parent, &identity)
                && let Some(stand) = self.stand_of_snapshot(target, &snapshot, true)?
            {
                return Ok(Prepared { stand, is_made: true });
            }
        }
        let mut stand = self.provision(target, None)?;
        let aged = match self.age(&mut stand, age) {
            Ok(aged) => aged,
            Err(unfinished) => {
                if !unfinished.is_stuck() {
                    self.record.facts = stand.facts();
                }
                let (leftover, warnings) = super::take_down(stand, Some(&unfinished));
                self.record.warnings.extend(warnings);
                return Err((unfinished, leftover));
            }
        };
        self.warn_of_utilisation(age, &aged);
        self.record.aged = Some(aged.clone());
        for parent in self.snapshot_parents(target, false) {
            (self.progress)("keep-aged", 1.0);
            let reserve_bytes = reserve_bytes(self.setting.plan, target);
            match stand.keep_aged(&parent, &identity, &aged, reserve_bytes) {
                Ok(snapshot) => {
                    if let Some(error) = teardown(&mut stand) {
                        return Err((Unfinished::failed("age", error.clone()), Some(error)));
                    }
                    drop(stand);
                    if let Some(stand) = self.stand_of_snapshot(target, &snapshot, false)? {
                        return Ok(Prepared { stand, is_made: true });
                    }
                    let error = "the aged image could not be read back".to_owned();
                    return Err((Unfinished::failed("age", error), None));
                }
                Err(error) if error.kind == fsdyno_lab::stand::StageErrorKind::Failed => {
                    self.record.warnings.push(not_kept(error.error));
                }
                Err(error) => return Err((error.into(), teardown(&mut stand))),
            }
        }
        Ok(Prepared { stand, is_made: true })
    }

    fn provision(
        &mut self,
        target: &TargetSpec,
        snapshot: Option<&Snapshot>,
    ) -> Result<Stand<'a>, Lost> {
        let stage = if snapshot.is_some() { "copy-aged" } else { "provision" };
        (self.progress)(stage, 0.0);
        let begin = clock::now_ns();
        let (workspace, size_bytes) = (self.setting.workspace, self.setting.plan.size_bytes);
        let limits = self.limits();
        let provisioned = match snapshot {
            Some(snapshot) => {
                Stand::provision_aged(workspace, target, size_bytes, &limits, snapshot)
            }
            None => Stand::provision(workspace, target, size_bytes, &limits),
        };
        let elapsed_ns = clock::now_ns() - begin;
        *self.record.stages.provision_ns.get_or_insert_default() += elapsed_ns;
        provisioned.map_err(|error| (error.into(), None))
    }

    /// A stand with a copy; `None` where the snapshot was damaged, which is gone then.
    fn stand_of_snapshot(
        &mut self,
        target: &TargetSpec,
        snapshot: &Snapshot,
        is_of_before: bool,
    ) -> Result<Option<Stand<'a>>, Lost> {
        match self.provision(target, Some(snapshot)) {
            Ok(stand) => {
                let aged = snapshot.about.aged.clone();
                self.record.aged = Some(AgeRecord { from_snapshot: is_of_before, ..aged });
                Ok(Some(stand))
            }
            Err((unfinished, _)) if !snapshot.exists() => {
                self.record.warnings.push(Warning {
                    code: "aged-image-damaged".to_owned(),
                    message: unfinished.error,
                    advice: "check the disk that holds it".to_owned(),
                });
                Ok(None)
            }
            Err(lost) => Err(lost),
        }
    }

    /// Makes the filesystem, ages it, and leaves it at rest and unmounted.
    fn age(&mut self, stand: &mut Stand<'a>, age: &AgeSpec) -> Result<AgeRecord, Unfinished> {
        self.timed("mkfs", stand, Stand::mkfs, |times| &mut times.mkfs_ns)?;
        stand.mount()?;
        (self.progress)("age", 0.0);
        let begin = clock::now_ns();
        let root = stand.age_root()?;
        let seed = seed(self.setting.plan);
        let task = Task::Age(AgeTask { root, spec: age.clone(), seed });
        let answer = self.child("age", task, stand)?;
        self.record.stages.age_ns = Some(clock::now_ns() - begin);
        // Whatever it was doing: it was aging.
        ended(answer.end, "age".to_owned())?;
        let Some(aged) = answer.aged else {
            return Err(Unfinished::failed("age", "the phase runner gave no answer"));
        };
        stand.quiesce()?;
        stand.unmount()?;
        Ok(aged)
    }

    /// Where a snapshot may lie, to be looked for or to be made.
    fn snapshot_parents(&self, target: &TargetSpec, is_sought: bool) -> Vec<PathBuf> {
        let Ground::Fresh(fresh) = &target.ground else { return Vec::new() };
        if !aged::can_be_kept(fresh) {
            return Vec::new();
        }
        let setting = self.setting;
        let kept = setting.aged_directory.clone().filter(|_| is_sought || setting.keep_aged);
        let of_run =
            Some(run_snapshots(setting)).filter(|_| is_sought || has_more_trials(setting.plan));
        kept.into_iter().chain(of_run).collect()
    }

    fn warn_of_utilisation(&mut self, age: &AgeSpec, aged: &AgeRecord) {
        let Some(percent) = age.utilisation_percent() else { return };
        let wanted = f64::from(percent) / 100.0;
        if (aged.utilisation() - wanted).abs() > UTILISATION_TOLERANCE {
            self.record.warnings.push(Warning {
                code: "age-missed".to_owned(),
                message: format!(
                    "aging left {:.0} % in use instead of {percent} % (it was full {} times)",
                    100.0 * aged.utilisation(),
                    aged.times_full
                ),
                advice: "make a larger image (--size), more inodes, or age it with larger files"
                    .to_owned(),
            });
        }
    }
}

fn teardown(stand: &mut Stand<'_>) -> Option<String> {
    stand.teardown().err().map(|error| error.to_string())
}

fn not_kept(error: String) -> Warning {
    Warning {
        code: "aged-image-not-kept".to_owned(),
        message: format!("the aged image could not be kept, so that trials age anew: {error}"),
        advice: "make room there, use a smaller --size or another --dir".to_owned(),
    }
}

/// Whether a target has more than one trial.
fn has_more_trials(plan: &Plan) -> bool {
    plan.trials as usize * plan.workloads.len() + plan.explained_targets().count().min(1) > 1
}

/// Bytes that a trial of another target needs beyond what one of this target gives back.
fn reserve_bytes(plan: &Plan, target: &TargetSpec) -> u64 {
    let image_bytes = |target: &TargetSpec| match &target.ground {
        Ground::Fresh(FreshSpec { device: DeviceSpec::LoopImage { size_bytes }, .. }) => {
            size_bytes.unwrap_or(plan.size_bytes)
        }
        _ => 0,
    };
    let most = plan.targets.iter().map(image_bytes).max().unwrap_or_default();
    most - image_bytes(target)
}

/// Seed of aging: of the plan alone, so that all trials start from the same state and all targets of one
/// age are given the same files.
fn seed(plan: &Plan) -> u64 {
    plan.seed
}

/// Everything that decides what an aged image holds.
fn identity(plan: &Plan, target: &TargetSpec, age: &AgeSpec) -> String {
    let Ground::Fresh(fresh) = &target.ground else { return String::new() };
    let size_bytes = match &fresh.device {
        DeviceSpec::LoopImage { size_bytes } => size_bytes.unwrap_or(plan.size_bytes),
        // None of them is kept.
        DeviceSpec::Block { .. } | DeviceSpec::Emulated { .. } | DeviceSpec::Array(_) => 0,
    };
    let directory = image_directory(plan);
    let definition = filesystem::by_name(&fresh.filesystem);
    let tools: Vec<String> = (definition.map_or(&[][..], |definition| definition.tools).iter())
        .map(|tool| format!("{} {}", tool.name, tools::version(tool).unwrap_or_default()))
        .collect();
    [
        format!("fsdyno {}", env!("CARGO_PKG_VERSION")),
        format!("aging {}", fsdyno_workload::age::FORMAT),
        format!("kernel {}", kernel::facts().release),
        format!("filesystem {}", fresh.filesystem),
        format!("mkfs {}", fsdyno_model::target::join_mkfs(&fresh.mkfs)),
        format!("mount {}", fresh.mount),
        format!("size {size_bytes}"),
        format!("age {}", age.full()),
        format!("seed {}", seed(plan)),
        format!("images on {}", environment::image_filesystem(&directory).unwrap_or_default()),
        format!("tools {}", tools.join(", ")),
    ]
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(targets: &[&str]) -> Plan {
        let mut plan = Plan::new(false);
        crate::catalogue::with_names(|names| {
            plan.targets.extend(targets.iter().map(|it| TargetSpec::parse(it, names).unwrap()));
        });
        plan
    }

    #[test]
    fn whatever_changes_the_image_changes_its_identity() {
        let of = |target: &str, seed: u64| {
            let mut plan = plan(&[target]);
            plan.seed = seed;
            let Ground::Fresh(fresh) = &plan.targets[0].ground else { panic!("{target}") };
            identity(&plan, &plan.targets[0], fresh.age.as_ref().unwrap())
        };
        let base = of("ext4~churn", 1);
        assert_eq!(base, of("other=ext4~churn(age=3)", 1));
        for (target, seed) in [
            ("ext4~churn", 2),
            ("ext3~churn", 1),
            ("ext4~churn(age=2)", 1),
            ("ext4/-N 900~churn", 1),
            ("ext4:noatime~churn", 1),
            ("ext4~churn@loop:1GiB", 1),
        ] {
            assert_ne!(base, of(target, seed), "{target}");
        }
        assert!(!base.contains("kernel \n"), "{base}");
    }

    #[test]
    fn room_is_left_for_larger_images() {
        let plan = plan(&["ext4~churn", "xfs@loop:20GiB", "dir:/tmp"]);
        let gib = 1 << 30;
        assert_eq!(reserve_bytes(&plan, &plan.targets[0]), 12 * gib);
        assert_eq!(reserve_bytes(&plan, &plan.targets[1]), 0);
    }
}
