//! The course of a run: its trials in their order, one after the other, or side by side where that changes
//! nothing. What is left out, what is stored and what is told of each.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_lab::readiness::Readiness;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::yardstick::Yardstick;
use fsdyno_sys::process;

use super::calibration::Calibration;
use super::crew::{Crew, Told};
use super::explain::Explain;
use super::guest::{Guests, Proof};
use super::progress::{Bounds, Progress, Step};
use super::schedule::Planned;
use super::stopping::Stopping;
use super::yardstick::Readings;
use super::{Ground, RunOptions, trial};
use crate::paths;
use crate::store::{Store, StoredRun};

/// The trials of a run, as far as they have come.
struct Course<'a> {
    run: &'a StoredRun,
    schedule: &'a [Planned],
    ground: &'a Ground,
    store: &'a mut Store,
    progress: Progress,
    choice: Choice<'a>,
    started: Instant,
}

/// Makes the trials of `schedule`, until the end or an interruption.
///
/// # Errors
/// The database; a target that could not be taken down.
pub fn run(
    run: &StoredRun,
    schedule: &[Planned],
    stopping: Stopping<'_>,
    ground: &Ground,
    options: &RunOptions,
    store: &mut Store,
) -> anyhow::Result<()> {
    let plan = &run.plan;
    let side_by_side = ground.guests.as_ref().filter(|guests| guests.jobs > 1);
    let jobs = side_by_side.map_or(1, |guests| guests.jobs);
    let steps: Vec<Step> = schedule.iter().map(|planned| step(plan, planned)).collect();
    let setting = setting(run, ground, options, store);
    let consoles = store.console_directory(&run.id);
    let explain = Explain::new(plan, schedule);
    let mut course = Course {
        run,
        schedule,
        ground,
        store,
        progress: Progress::new(&steps, bounds(plan), jobs, options.quiet),
        choice: Choice { run, stopping, calibration: Calibration::new(run), explain },
        started: Instant::now(),
    };
    if let Some(reason) = &course.choice.explain.unavailable {
        course.progress.say(&format!("nothing is traced: {reason}"));
    }
    let made = match side_by_side {
        Some(guests) => course.side_by_side(&setting, guests, &consoles),
        None => {
            let readings = Readings::new(plan, &ground.workspace, options.quiet);
            course.one_by_one(&setting, &consoles, readings)
        }
    };
    course.progress.finish();
    made
}

fn setting<'a>(
    run: &'a StoredRun,
    ground: &'a Ground,
    options: &RunOptions,
    store: &Store,
) -> trial::Setting<'a> {
    trial::Setting {
        plan: &run.plan,
        workspace: &ground.workspace,
        memory_limit_bytes: run.environment.memory_limit_bytes,
        may_drop_caches: fsdyno_sys::caches::can_drop_caches(),
        trace_directory: store.trace_directory(&run.id),
        aged_directory: paths::aged_directory(),
        keep_aged: options.keep_aged,
    }
}

impl Course<'_> {
    fn one_by_one(
        &mut self,
        setting: &trial::Setting<'_>,
        consoles: &Path,
        mut readings: Readings<'_>,
    ) -> anyhow::Result<()> {
        let plan = &self.run.plan;
        for (index, planned) in self.schedule.iter().enumerate() {
            let next = self.schedule.get(index + 1);
            let Some(is_made) = self.is_made(planned)? else { continue };
            if is_made {
                let step = step(plan, planned);
                self.progress.begin(&planned.name(plan), step);
                let mut tell = |stage: &str, done| self.progress.at(step, stage, done);
                let guests = self.ground.guests.as_ref().map(|guests| (guests, consoles));
                let among =
                    Among { setting, run_id: &self.run.id, store: self.store, next, guests };
                let (record, leftover) = one_trial(among, planned, &mut readings, &mut tell)?;
                self.progress.end(step, &record.outcome);
                taken_down(&record, leftover)?;
            }
            if process::interrupted() {
                break;
            }
            if next.is_none_or(|next| !next.is_of_block(planned)) {
                self.choice.after_block(planned, next, self.store, &mut self.progress)?;
            }
        }
        Ok(())
    }

    /// Trials in virtual time, whose number is fixed. Where something fails, those that are being made are made to
    /// their ends.
    fn side_by_side(
        &mut self,
        setting: &trial::Setting<'_>,
        guests: &Guests,
        consoles: &Path,
    ) -> anyhow::Result<()> {
        let plan = &self.run.plan;
        let schedule = self.schedule;
        thread::scope(|scope| {
            let mut crew = Crew::new(scope, setting, guests, consoles);
            let mut due = schedule.iter().enumerate().peekable();
            let mut result = Ok(());
            loop {
                while result.is_ok()
                    && !process::interrupted()
                    && crew.has_room(false)
                    && let Some((index, planned)) =
                        due.next_if(|(_, planned)| may_start(plan, planned, crew.running()))
                {
                    match self.is_made(planned) {
                        Ok(Some(true)) => {
                            self.progress.begin(&planned.name(plan), step(plan, planned));
                            crew.start(index, planned, None);
                        }
                        Ok(_) => {}
                        Err(error) => result = Err(error),
                    }
                }
                match crew.next() {
                    None => return result,
                    Some(Told::At { index, stage, done }) => {
                        self.progress.at(step(plan, &schedule[index]), &stage, done);
                    }
                    Some(Told::Ended { index, record, leftover }) => {
                        self.progress.end(step(plan, &schedule[index]), &record.outcome);
                        let stored = self.store.put_trial(&self.run.id, &record);
                        let ended = stored.and_then(|()| taken_down(&record, leftover));
                        result = result.and(ended);
                    }
                }
            }
        })
    }

    /// Whether a trial is to be made; `None` where it is left out without ado. A trial that is not made has its
    /// record stored.
    fn is_made(&mut self, planned: &Planned) -> anyhow::Result<Option<bool>> {
        let plan = &self.run.plan;
        let step = step(plan, planned);
        if let Some(left_out) = self.choice.left_out(planned, self.store)? {
            left_out.news.iter().for_each(|line| self.progress.say(line));
            let record = left_out.record;
            record.map_or(Ok(()), |record| self.store.put_trial(&self.run.id, &record))?;
            self.progress.leave_out(step);
            return Ok(None);
        }
        let ready = &self.ground.ready[planned.target_index];
        let Some(outcome) = not_started(plan, ready, self.started) else { return Ok(Some(true)) };
        let record = planned.record(plan, outcome);
        self.progress.begin(&planned.name(plan), step);
        self.store.put_trial(&self.run.id, &record)?;
        self.progress.end(step, &record.outcome);
        Ok(Some(false))
    }
}

/// Whether a trial may start beside those that are `running`: a heavier rung of a ladder is made only where the
/// lighter ones left something open.
fn may_start<'a>(
    plan: &Plan,
    planned: &Planned,
    mut running: impl Iterator<Item = &'a Planned>,
) -> bool {
    let is_free = !matches!(plan.ladder_of(planned.workload_index), Some((_, 1..)));
    is_free || running.all(|other| other.is_of_block(planned))
}

/// That nothing of the target is left.
pub(super) fn taken_down(record: &TrialRecord, leftover: Option<String>) -> anyhow::Result<()> {
    let Some(error) = leftover else { return Ok(()) };
    anyhow::bail!(
        "{} could not be taken down, so that no further trial was started: {error}",
        record.target
    )
}

/// What a trial is made among.
struct Among<'a> {
    setting: &'a trial::Setting<'a>,
    run_id: &'a str,
    store: &'a mut Store,
    /// What follows it in the order.
    next: Option<&'a Planned>,
    /// The guests that trials run in, and where their consoles are kept.
    guests: Option<(&'a Guests, &'a Path)>,
}

/// Makes a trial with the yardstick on both sides. Its record is stored before the second reading, which is
/// put into it afterwards: whatever happens meanwhile costs the reading alone.
fn one_trial(
    among: Among<'_>,
    planned: &Planned,
    readings: &mut Readings<'_>,
    tell: &mut dyn FnMut(&str, f64),
) -> anyhow::Result<(TrialRecord, Option<String>)> {
    let Among { setting, run_id, store, next, guests } = among;
    let is_read = readings.are_of(planned);
    let before = is_read.then(|| {
        tell("yardstick", 0.0);
        readings.before(planned)
    });
    let (mut record, leftover) = match guests {
        Some((guests, consoles)) => {
            guests.execute(setting, planned, consoles, Proof::AnotherTrial, tell)
        }
        None => trial::execute(setting, planned, tell),
    };
    record.yardstick = before.map(|before| Yardstick { before, after: None });
    store.put_trial(run_id, &record)?;
    if is_read && leftover.is_none() && !process::interrupted() {
        tell("yardstick", 1.0);
        if let Some(yardstick) = &mut record.yardstick {
            yardstick.after = readings.after(planned, next);
        }
        store.amend_trial(run_id, &record)?;
    }
    Ok((record, leftover))
}

/// Which trials are made.
struct Choice<'a> {
    run: &'a StoredRun,
    stopping: Stopping<'a>,
    calibration: Calibration<'a>,
    explain: Explain,
}

/// A trial that is not made.
struct LeftOut {
    /// Its record; `None` where it leaves none.
    record: Option<TrialRecord>,
    /// What has not been told yet.
    news: Option<String>,
}

impl Choice<'_> {
    /// Whether `planned` is not made.
    fn left_out(&mut self, planned: &Planned, store: &Store) -> anyhow::Result<Option<LeftOut>> {
        let (is_left_out, news) = self.stopping.leaves_out(planned);
        if is_left_out {
            return Ok(Some(LeftOut { record: None, news }));
        }
        if let Some(left_out) = self.calibration.left_out(planned, store)? {
            let (record, news) = (Some(left_out.record), left_out.news);
            return Ok(Some(LeftOut { record, news }));
        }
        let plan = &self.run.plan;
        let reason = self.explain.skip_reason(plan, planned, store, &self.run.id)?;
        let record = reason.map(|reason| planned.record(plan, Outcome::Skipped { reason }));
        Ok(record.map(|record| LeftOut { record: Some(record), news: None }))
    }

    /// Looks at what there is after the last trial of a block.
    fn after_block(
        &mut self,
        planned: &Planned,
        next: Option<&Planned>,
        store: &Store,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let news = self.stopping.after_block(planned, store, &self.run.id)?;
        if self.stopping.is_settled(planned) {
            let targets = self.run.plan.targets.len();
            let first = planned.workload_index * targets;
            progress.settle(first..first + targets);
        }
        news.iter().for_each(|line| progress.say(line));
        if planned.trial == 1 && next.is_some_and(|next| next.trial == 2) {
            progress.tell_after_first_block();
        }
        Ok(())
    }
}

/// What progress knows of a trial.
pub(super) fn step(plan: &Plan, planned: &Planned) -> Step {
    Step {
        case: planned.workload_index * plan.targets.len() + planned.target_index,
        block: planned.trial,
        only_if_open: planned.role == Role::Measured && planned.trial > plan.min_trials(),
    }
}

/// What ends the trials of `plan` before the last; `None` where their number is fixed.
fn bounds(plan: &Plan) -> Option<Bounds> {
    let rule = plan.stop?;
    let limit_s = plan.max_time_s.into_iter().chain(plan.further_time_s).min();
    Some(Bounds {
        min_blocks: rule.min_trials,
        max_blocks: plan.trials,
        further_time: limit_s.map(Duration::from_secs),
    })
}

/// Why a trial is not even started.
fn not_started(plan: &Plan, ready: &Readiness, started: Instant) -> Option<Outcome> {
    if let Readiness::Skip { reason } = ready {
        return Some(Outcome::Skipped { reason: reason.clone() });
    }
    let limit_s = plan.max_time_s.filter(|limit_s| started.elapsed().as_secs() >= *limit_s)?;
    let limit = fsdyno_model::units::human_duration(limit_s * 1_000_000_000);
    Some(Outcome::Skipped { reason: format!("the run had used up its {limit} (max_time)") })
}
