//! One trial from a blank device to a verified filesystem, and its record whatever happens.

mod age;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fsdyno_lab::aftermath::Aftermath;
use fsdyno_lab::disturbance::Watch;
use fsdyno_lab::memory_limit::MemoryLimit;
use fsdyno_lab::stand::aged::TIME_UP;
use fsdyno_lab::stand::{Limits, StageError, StageErrorKind, Stand};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{PhaseRecord, StageTimes, TrialRecord, Warning};
use fsdyno_model::target::Ground;
use fsdyno_model::wire::{self, Manifest, MeasureSpec, Spec, Task, VerifySpec};
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::{clock, process};

use super::capture::{self, TrialTrace};
use super::child::{self, Answer, Attendance, End};
use super::schedule::{self, Planned};
use age::Prepared;

/// What all trials of a run share.
pub struct Setting<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Where everything that the run makes lies.
    pub workspace: &'a Workspace,
    /// Memory that a workload may use, what is cached for it included; `None` for all that there is.
    pub memory_limit_bytes: Option<u64>,
    /// Whether the page cache may be dropped.
    pub may_drop_caches: bool,
    /// Where the block traces of the run are kept.
    pub trace_directory: PathBuf,
    /// Where aged images are kept from run to run, where there is such a place.
    pub aged_directory: Option<PathBuf>,
    /// Whether those of this run are kept there.
    pub keep_aged: bool,
}

/// Runs one trial; `progress` hears the stage and the share of the trial that is done.
///
/// The second value is an error of the teardown: something could not be removed, and the run must
/// not go on.
pub fn execute(
    setting: &Setting<'_>,
    planned: &Planned,
    progress: &mut dyn FnMut(&str, f64),
) -> (TrialRecord, Option<String>) {
    let begun = Outcome::Interrupted { stage: "start".to_owned() };
    let mut record = planned.record(setting.plan, begun);
    record.started_unix_ns = Some(clock::wall_ns());
    let started = clock::now_ns();
    let images = super::image_directory(setting.plan);
    let mut watch = Watch::begin(match &setting.plan.targets[planned.target_index].ground {
        Ground::Directory { path } => Some(path),
        Ground::Fresh(fresh) => fresh.device.paths().next().is_none().then_some(&*images),
    });
    let mut trial = Trial {
        setting,
        planned,
        deadline: Instant::now() + Duration::from_secs(setting.plan.trial_timeout_s),
        record,
        devices: Vec::new(),
        condition: None,
        progress,
    };
    let (ended, leftover) = trial.live();
    let Trial { mut record, devices, condition, .. } = trial;
    if ended.as_ref().is_err_and(Unfinished::is_stuck) {
        watch.forget_directory();
    }
    let aftermath = watch.aftermath(&devices, condition);
    let moved = record.phases.iter().flat_map(|it| [it.device.read_bytes, it.device.write_bytes]);
    record.warnings.extend(watch.end(&devices, moved.flatten().sum()));
    record.outcome = match ended {
        Ok(()) if aftermath.given_up.is_some() => {
            Unfinished::failed("run", aftermath.explain("")).outcome(0)
        }
        Ok(()) => Outcome::Completed,
        Err(unfinished) => unfinished.explained(&aftermath).outcome(setting.plan.trial_timeout_s),
    };
    record.elapsed_ns = Some(clock::now_ns() - started);
    (record, leftover)
}

/// A stage of the trial or a phase of its workload that did not end well.
struct Unfinished {
    stage: String,
    error: String,
    kind: UnfinishedKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnfinishedKind {
    Failed,
    TimedOut,
    Interrupted,
    Skipped,
    /// A process of it does not end, though it was killed.
    Stuck,
}

impl From<StageErrorKind> for UnfinishedKind {
    fn from(kind: StageErrorKind) -> UnfinishedKind {
        match kind {
            StageErrorKind::Failed => UnfinishedKind::Failed,
            StageErrorKind::TimedOut => UnfinishedKind::TimedOut,
            StageErrorKind::Interrupted => UnfinishedKind::Interrupted,
            StageErrorKind::Stuck => UnfinishedKind::Stuck,
        }
    }
}

impl From<StageError> for Unfinished {
    fn from(error: StageError) -> Unfinished {
        Unfinished { stage: error.stage.to_owned(), error: error.error, kind: error.kind.into() }
    }
}

impl Unfinished {
    fn failed(stage: impl Into<String>, error: impl Into<String>) -> Unfinished {
        Unfinished { stage: stage.into(), error: error.into(), kind: UnfinishedKind::Failed }
    }

    /// With what lies behind it.
    fn explained(mut self, aftermath: &Aftermath) -> Unfinished {
        if self.kind == UnfinishedKind::Failed {
            self.error = aftermath.explain(&self.error);
        }
        self
    }

    fn is_stuck(&self) -> bool {
        self.kind == UnfinishedKind::Stuck
    }

    fn outcome(self, limit_s: u64) -> Outcome {
        let Unfinished { stage, error, kind } = self;
        match kind {
            UnfinishedKind::Stuck if process::interrupted() => Outcome::Interrupted { stage },
            UnfinishedKind::Stuck => Outcome::TimedOut { stage, error },
            UnfinishedKind::Failed => Outcome::Failed { stage, error },
            UnfinishedKind::Skipped => Outcome::Skipped { reason: error },
            UnfinishedKind::Interrupted => Outcome::Interrupted { stage },
            UnfinishedKind::TimedOut => {
                let limit = fsdyno_model::units::human_duration(limit_s * 1_000_000_000);
                let error = match error.as_str() {
                    "" | TIME_UP => format!(
                        "the trial was not done within {limit} (trial_timeout in a plan, --trial-timeout)"
                    ),
                    _ => error,
                };
                Outcome::TimedOut { stage, error }
            }
        }
    }
}

struct Trial<'a, 'p> {
    setting: &'a Setting<'a>,
    planned: &'a Planned,
    deadline: Instant,
    record: TrialRecord,
    /// What the target is on.
    devices: Vec<DeviceNumber>,
    /// What became of its filesystem by itself.
    condition: Option<&'static str>,
    progress: &'p mut dyn FnMut(&str, f64),
}

impl Trial<'_, '_> {
    /// The whole life; tears down whatever happened.
    fn live(&mut self) -> (Result<(), Unfinished>, Option<String>) {
        let Prepared { mut stand, is_made } = match self.prepare() {
            Ok(prepared) => prepared,
            Err((unfinished, leftover)) => return (Err(unfinished), leftover),
        };
        self.devices = devices_of(&stand);
        let ended = self.stages(&mut stand, is_made);
        let unfinished = ended.as_ref().err();
        if self.record.facts.mount_effective.is_none()
            && !unfinished.is_some_and(Unfinished::is_stuck)
        {
            self.record.facts = stand.facts();
        }
        if !unfinished.is_some_and(Unfinished::is_stuck) {
            self.condition = stand.condition();
        }
        let (leftover, warnings) = take_down(stand, unfinished);
        self.record.warnings.extend(warnings);
        (ended, leftover)
    }

    fn limits(&self) -> Limits {
        Limits { trial_end: Some(self.deadline), ..Limits::default() }
    }

    /// All stages on a stand; `is_made` where the filesystem is on it already, aged.
    fn stages(&mut self, stand: &mut Stand<'_>, is_made: bool) -> Result<(), Unfinished> {
        if !is_made {
            self.timed("mkfs", stand, Stand::mkfs, |times| &mut times.mkfs_ns)?;
        }
        self.timed("mount", stand, Stand::mount, |times| &mut times.mount_ns)?;
        self.quiesce(stand)?;
        // While it is mounted: later the kernel has forgotten the options in force.
        self.record.facts = stand.facts();
        let manifest = self.measure(stand)?;
        self.timed("unmount", stand, Stand::unmount, |times| &mut times.unmount_ns)?;
        self.fsck(stand)?;
        match manifest {
            Some(manifest) => self.verify(stand, manifest),
            None => Ok(()),
        }
    }

    fn timed<'s>(
        &mut self,
        name: &str,
        stand: &mut Stand<'s>,
        stage: fn(&mut Stand<'s>) -> Result<(), StageError>,
        time: fn(&mut StageTimes) -> &mut Option<u64>,
    ) -> Result<(), Unfinished> {
        (self.progress)(name, 0.0);
        let begin = clock::now_ns();
        let done = stage(stand);
        *time(&mut self.record.stages) = Some(clock::now_ns() - begin);
        Ok(done?)
    }

    fn quiesce(&mut self, stand: &mut Stand<'_>) -> Result<(), Unfinished> {
        (self.progress)("quiesce", 0.0);
        let quiesced = stand.quiesce()?;
        self.record.stages.quiesce_ns = Some(quiesced.elapsed_ns);
        if let Some(unsettled) = quiesced.unsettled {
            self.record.warnings.push(Warning {
                code: "not-at-rest".to_owned(),
                message: format!("measuring began although {unsettled}"),
                advice: "stop what else uses the disk".to_owned(),
            });
        }
        Ok(())
    }

    fn measure(&mut self, stand: &mut Stand<'_>) -> Result<Option<Manifest>, Unfinished> {
        let workload = &self.setting.plan.workloads[self.planned.workload_index];
        let task = Task::Measure(MeasureSpec {
            root: stand.root().to_owned(),
            workload: workload.kind.clone(),
            params: workload.params.clone(),
            definition: workload.definition.clone(),
            seed: schedule::trial_seed(self.setting.plan, self.planned),
            may_drop_caches: self.setting.may_drop_caches,
            may_remount: stand.can_remount(),
            has_own_cache: stand.has_own_cache(),
            watch: stand.watch(),
        });
        let trace = self.begin_trace(stand);
        let begin = clock::now_ns();
        let answer = self.child("run", task, stand);
        self.record.stages.run_ns = Some(clock::now_ns() - begin);
        if let Some(trace) = trace {
            self.end_trace(trace, stand, answer.as_ref().ok().map(|answer| &answer.end));
        }
        let answer = answer?;
        self.record.phases = answer.phases;
        self.record.harness_floor_ns = answer.floor_ns;
        self.record.warnings.extend(answer.warnings);
        self.record.verify = answer.verified;
        self.record.activity = answer.activity;
        ended(answer.end, answer.last_phase)?;
        Ok(answer.manifest)
    }

    /// Begins to trace the devices of the target where that is asked for.
    fn begin_trace(&mut self, stand: &Stand<'_>) -> Option<TrialTrace> {
        let plan = self.setting.plan;
        if !self.planned.is_traced(plan) {
            return None;
        }
        let name = capture::file_name(plan, self.planned);
        match TrialTrace::begin(&self.setting.trace_directory, &name, &devices_of(stand)) {
            Ok(trace) => Some(trace),
            Err(warning) => {
                self.record.warnings.push(warning);
                None
            }
        }
    }

    /// Ends the trace once the devices are at rest, so that what the phases left to be written is in it.
    fn end_trace(&mut self, trace: TrialTrace, stand: &mut Stand<'_>, end: Option<&End>) {
        match end {
            Some(End::Interrupted) => return trace.discard(),
            // Whether they came to rest is no matter of the figures, which are taken.
            Some(End::Finished) => drop(stand.quiesce()),
            _ => {}
        }
        let (record, warning) = trace.end();
        self.record.trace = record;
        self.record.warnings.extend(warning);
    }

    fn fsck(&mut self, stand: &mut Stand<'_>) -> Result<(), Unfinished> {
        (self.progress)("fsck", 1.0);
        let begin = clock::now_ns();
        let checked = stand.fsck()?;
        let elapsed_ns = clock::now_ns() - begin;
        let Some((fsck, clean)) = checked else {
            self.record.warnings.extend(stand.unchecked());
            return Ok(());
        };
        let mut phase = PhaseRecord::new("fsck", "elapsed_s");
        phase.elapsed_return_ns = elapsed_ns;
        self.record.phases.push(phase);
        self.record.stages.fsck_ns = Some(elapsed_ns);
        let error = format!("{}: {}", fsck.command, fsck.meaning);
        self.record.fsck = Some(fsck);
        if clean { Ok(()) } else { Err(Unfinished::failed("fsck", error)) }
    }

    fn verify(&mut self, stand: &mut Stand<'_>, manifest: Manifest) -> Result<(), Unfinished> {
        (self.progress)("verify", 1.0);
        let begin = clock::now_ns();
        stand.mount_read_only()?;
        let task = Task::Verify(VerifySpec { root: stand.root().to_owned(), manifest });
        let answer = self.child("verify", task, stand)?;
        stand.unmount()?;
        self.record.stages.verify_ns = Some(clock::now_ns() - begin);
        ended(answer.end, "verify".to_owned())?;
        let Some(verified) = answer.verified else {
            return Err(Unfinished::failed("verify", "the phase runner gave no answer".to_owned()));
        };
        let wrong = verified.mismatches.len();
        let first = verified.mismatches.first().cloned().unwrap_or_default();
        // Besides what the workload compared before it removed it.
        self.record.verify.get_or_insert_default().add(verified);
        if wrong == 0 {
            return Ok(());
        }
        Err(Unfinished::failed(
            "verify",
            format!("{wrong} files have other contents than were written, first {first}"),
        ))
    }

    fn child(
        &mut self,
        stage: &'static str,
        task: Task,
        stand: &mut Stand<'_>,
    ) -> Result<Answer, Unfinished> {
        let spec = Spec { version: wire::VERSION, task };
        let mut remount = || stand.remount().map_err(|error| error.to_string());
        let is_measured = matches!(spec.task, Task::Measure(_));
        let limit_s = self.setting.plan.phase_timeout_s.filter(|_| is_measured);
        let phase_limit = limit_s.map(Duration::from_secs);
        let progress = &mut *self.progress;
        let limit = self.setting.memory_limit_bytes.filter(|_| is_measured);
        let limit = limit.map(MemoryLimit::new).transpose();
        let limit = limit.map_err(|error| Unfinished::failed(stage, error))?;
        let memory_limit = limit.as_ref();
        let attendance = Attendance { phase_limit, progress, memory_limit, remount: &mut remount };
        child::run(&spec, self.deadline, attendance)
            .map_err(|error| Unfinished::failed(stage, format!("{error:#}")))
    }
}

/// Takes the stand down, or leaves it where that would wait for ever; the value tells what is left.
fn take_down(
    mut stand: Stand<'_>,
    unfinished: Option<&Unfinished>,
) -> (Option<String>, Vec<Warning>) {
    if unfinished.is_some_and(Unfinished::is_stuck) {
        stand.abandon();
        let left = "a process that cannot be killed still uses it, so that nothing was removed; once it is gone, \
             or after a reboot, fsdyno clean removes what is left and fsdyno run --resume goes on";
        return (Some(left.to_owned()), Vec::new());
    }
    let leftover = stand.teardown().err().map(|error| error.to_string());
    (leftover, stand.warnings())
}

fn devices_of(stand: &Stand<'_>) -> Vec<DeviceNumber> {
    let numbers = stand.watch().devices.into_iter();
    numbers.map(|(major, minor)| DeviceNumber { major, minor }).collect()
}

/// The end of a runner as the end of a stage.
fn ended(end: End, last_phase: String) -> Result<(), Unfinished> {
    let (stage, error, kind) = match end {
        End::Finished => return Ok(()),
        End::Failed { stage, error } => (stage, error, UnfinishedKind::Failed),
        End::Skipped { reason } => (last_phase, reason, UnfinishedKind::Skipped),
        End::Interrupted => (last_phase, String::new(), UnfinishedKind::Interrupted),
        End::TimedOut => (last_phase, String::new(), UnfinishedKind::TimedOut),
        End::PhaseTimedOut { error } => (last_phase, error, UnfinishedKind::TimedOut),
        End::Stuck { found } => {
            let error = format!(
                "the trial was to end, and its phase runner does not, though it was killed: {found}"
            );
            (last_phase, error, UnfinishedKind::Stuck)
        }
    };
    Err(Unfinished { stage, error, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_runner_is_an_outcome() {
        let outcome = |end| ended(end, "compile".to_owned()).unwrap_err().outcome(60);
        let reason = "make is not installed".to_owned();
        let skipped = outcome(End::Skipped { reason: reason.clone() });
        assert_eq!(skipped, Outcome::Skipped { reason });
        let (stage, error) = ("extract".to_owned(), "write a: ENOSPC".to_owned());
        let failed = outcome(End::Failed { stage: stage.clone(), error: error.clone() });
        assert_eq!(failed, Outcome::Failed { stage, error });
        let interrupted = Outcome::Interrupted { stage: "compile".to_owned() };
        assert_eq!(outcome(End::Interrupted), interrupted);
        assert!(matches!(outcome(End::TimedOut), Outcome::TimedOut { stage, error }
            if stage == "compile" && error.contains("trial_timeout")));
        assert!(ended(End::Finished, String::new()).is_ok());
    }
}
