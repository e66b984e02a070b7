//! Running a plan: readiness, order, trials, records kept as they are made.

mod boots;
mod calibration;
mod capture;
pub mod child;
mod course;
mod crew;
pub mod difference;
mod explain;
mod fingerprint;
pub mod guest;
pub mod outlook;
mod place;
pub mod progress;
pub mod reproduce;
pub mod schedule;
pub mod stopping;
pub mod trial;
mod warning;
mod yardstick;

pub use warning::larger_images;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fsdyno_lab::memory_limit::MemoryLimit;
use fsdyno_lab::readiness::{self, Conditions, Readiness};
use fsdyno_lab::reclaim::{self, Reclaimed};
use fsdyno_lab::snapshot;
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::environment::Environment;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord, Warning};
use fsdyno_sys::{clock, process};

use crate::store::{Store, StoredRun};
use crate::{bad_input, bad_inputs, paths};
use guest::Guests;
use schedule::Planned;
use stopping::Stopping;

/// What a run needs besides its plan.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Devices that may be overwritten though something is on them.
    pub destroy: Vec<PathBuf>,
    /// No progress.
    pub quiet: bool,
    /// Keep aged images for later runs.
    pub keep_aged: bool,
    /// Trials that are made side by side in virtual time; `None` for as many as the machine can.
    pub jobs: Option<u16>,
    /// The command line that starts the run again.
    pub command: String,
}

/// Mounts made from here on are seen by this process and its children alone, and the kernel undoes
/// them when these are gone, whatever ended them. Must be called before any thread is started.
pub fn enter_private_namespace() {
    if process::is_root()
        && let Err(error) = fsdyno_sys::mount::private_namespace()
    {
        progress::say(&format!(
            "fsdyno: mounts are visible to other programs, which may disturb: {error}"
        ));
    }
}

/// Starts a new run of `plan`; gives its identifier.
///
/// # Errors
/// Bad input (a refused device); the database; something that could not be removed.
pub fn start(plan: &Plan, options: &RunOptions, store: &mut Store) -> anyhow::Result<String> {
    process::install_signal_handlers().context("cannot install signal handlers")?;
    let id = new_identifier();
    let (memory_limit_bytes, unlimited) = memory_limit(plan)?;
    let ground = Ground::prepare(&id, plan, options)?;
    let environment = Environment { memory_limit_bytes, ..ground.environment(plan, options) };
    let of_guests = ground.guests.iter().filter_map(|guests| guests.warning.clone());
    let run = StoredRun {
        id,
        started_unix_ns: clock::wall_ns(),
        finished_unix_ns: None,
        command: options.command.clone(),
        plan: plan.clone(),
        environment,
        warnings: warning::of_plan(plan).into_iter().chain(of_guests).chain(unlimited).collect(),
    };
    // That there are few trials is told with the results.
    for warning in run.warnings.iter().filter(|warning| warning.code != "few-trials") {
        progress::say(&format!("warning: {}: {}", warning.message, warning.advice));
    }
    if !options.quiet {
        progress::say(&outlook::text(plan));
        let earlier = store.earlier(plan)?.filter(|_| plan.ladders.is_empty());
        earlier.iter().for_each(|earlier| progress::say(&outlook::duration(plan, earlier)));
    }
    store.begin_run(&run)?;
    go_on(&run, &[], ground, options, store)?;
    Ok(run.id)
}

/// The limit of memory that the plan asks for, or a warning where a published comparison must do without.
///
/// # Errors
/// Bad input: memory cannot be limited here, which was asked for.
fn memory_limit(plan: &Plan) -> anyhow::Result<(Option<u64>, Option<Warning>)> {
    let Some(bytes) = plan.place.memory_limit_bytes else { return Ok((None, None)) };
    match MemoryLimit::new(bytes) {
        Ok(_) => Ok((Some(bytes), None)),
        Err(error) if plan.published.is_some() => Ok((None, Some(warning::unlimited(error)))),
        Err(error) => Err(bad_input(error)),
    }
}

/// Goes on with a run that was interrupted; trials that ended otherwise are left as they are. That the
/// machine was rebooted meanwhile is noted with the run.
///
/// # Errors
/// As [`start`]; bad input where kernel or processor have changed.
pub fn resume(run: &StoredRun, options: &RunOptions, store: &mut Store) -> anyhow::Result<()> {
    process::install_signal_handlers().context("cannot install signal handlers")?;
    let finished = store.trials(&run.id)?;
    let done = finished.iter().filter(|record| record.outcome.is_final()).count();
    let mut run = run.clone();
    let is_elsewhere = boots::go_on_here(&mut run, done)?;
    let ground = Ground::prepare(&run.id, &run.plan, options)?;
    if let Some(guests) = &ground.guests {
        boots::check_guests(&run, &guests.environment)?;
    }
    if is_elsewhere {
        store.amend_run(&run)?;
    }
    go_on(&run, &finished, ground, options, store)
}

/// What must be there before the first trial.
struct Ground {
    /// For each target.
    ready: Vec<Readiness>,
    workspace: Workspace,
    /// Where trials run in guests.
    guests: Option<Guests>,
}

impl Ground {
    /// Removes what dead runs left behind, looks at every target and makes the workspace.
    fn prepare(id: &str, plan: &Plan, options: &RunOptions) -> anyhow::Result<Ground> {
        let state = paths::state_directory()?;
        tell_leftovers(&state);
        if options.keep_aged && paths::aged_directory().is_none() {
            return Err(bad_input(
                "--keep-aged: there is no cache directory that is yours alone: set XDG_CACHE_HOME",
            ));
        }
        let jobs = crew::jobs(plan, options.jobs, &image_directory(plan))?;
        let parts = plan.place.is_guest().then(|| guest::parts(plan)).transpose()?;
        let ready = readiness_of(plan, options, parts.as_ref())?;
        let workspace = Workspace::open(id, &image_directory(plan), &state, &options.destroy)
            .map_err(anyhow::Error::msg)?;
        let mut guests = parts.map(|it| it.prepare(plan, &workspace, options.quiet)).transpose()?;
        if let Some(guests) = &mut guests {
            guests.jobs = jobs;
            if !options.quiet {
                progress::say(&guests.text());
            }
            let is_ready = |target: usize| matches!(ready[target], Readiness::Ready);
            guests.save_states(plan, &workspace, is_ready).map_err(anyhow::Error::msg)?;
        }
        Ok(Ground { ready, workspace, guests })
    }

    /// What is measured, read and timed at the start of a run.
    fn environment(&self, plan: &Plan, options: &RunOptions) -> Environment {
        if let Some(guests) = &self.guests {
            // Its programs are those of this machine.
            let tools = fsdyno_lab::environment::tool_versions();
            return Environment { tools, ..guests.environment.clone() };
        }
        let mut environment = fsdyno_lab::environment::environment(
            env!("CARGO_PKG_VERSION"),
            Some(&image_directory(plan)),
        );
        fingerprint::measure(plan, &self.workspace, &mut environment, options.quiet);
        environment
    }
}

/// Removes what dead runs left behind, and says what that was.
pub fn tell_leftovers(state_directory: &Path) {
    for leftover in reclaim_leftovers(state_directory) {
        let what = leftover.what;
        progress::say(&match leftover.error {
            None => format!("removed {what} of a run that was killed"),
            Some(error) => format!("cannot remove {what} of a run that was killed: {error}"),
        });
    }
}

/// Removes what is left of every run whose process is gone, traces that it was taking and aged images that
/// it was keeping included.
#[must_use]
pub fn reclaim_leftovers(state_directory: &Path) -> Vec<Reclaimed> {
    let traces = fsdyno_trace::capture::reclaim().into_iter().map(|(name, removed)| Reclaimed {
        what: format!("trace instance {name}"),
        error: removed.err().map(|error| error.to_string()),
    });
    let aged = paths::aged_directory().map(|directory| snapshot::sweep(&directory));
    let aged = aged.into_iter().flatten().map(|path| Reclaimed {
        what: format!("unfinished aged image {}", path.display()),
        error: None,
    });
    reclaim::reclaim(state_directory).into_iter().chain(traces).chain(aged).collect()
}

fn readiness_of(
    plan: &Plan,
    options: &RunOptions,
    parts: Option<&guest::Parts>,
) -> anyhow::Result<Vec<Readiness>> {
    let conditions =
        Conditions::of_this_process(&image_directory(plan), plan.size_bytes, &options.destroy);
    let of_target = |target| match parts {
        Some(parts) => guest::readiness::readiness(target, plan, parts),
        None => readiness::readiness(target, &conditions),
    };
    let ready: Vec<Readiness> = plan.targets.iter().map(of_target).collect();
    let mut errors: Vec<String> = Vec::new();
    if parts.is_some() {
        errors.extend(plan.workloads.iter().filter_map(guest::readiness::workload_error));
    }
    for (target, readiness) in plan.targets.iter().zip(&ready) {
        if let Readiness::Refuse { error } = readiness {
            errors.push(format!("{}: {error}", target.label));
        }
    }
    for path in &options.destroy {
        if !is_target(plan, path) {
            errors.push(format!("--destroy {}: no target is on this device", path.display()));
        }
    }
    if errors.is_empty() { Ok(ready) } else { Err(bad_inputs(&errors)) }
}

/// Whether some target of the plan, or its journal, is on the device `path`.
fn is_target(plan: &Plan, path: &Path) -> bool {
    let number = |path: &Path| fsdyno_sys::block::device_number(path).ok();
    plan.devices().any(|device| {
        device == path || number(device).is_some_and(|known| number(path) == Some(known))
    })
}

fn go_on(
    run: &StoredRun,
    finished: &[TrialRecord],
    ground: Ground,
    options: &RunOptions,
    store: &mut Store,
) -> anyhow::Result<()> {
    let plan = &run.plan;
    let is_done = |planned: &Planned| {
        finished.iter().any(|record| record.outcome.is_final() && planned.is_of(plan, record))
    };
    let mut schedule = schedule::schedule(plan);
    schedule.retain(|planned| !is_done(planned));
    let stopping = Stopping::new(plan, finished);
    schedule.retain(|planned| planned.role == Role::Explain || !stopping.is_settled(planned));
    let outcome = course::run(run, &schedule, stopping, &ground, options, store);
    let closed = ground.workspace.close();
    outcome?;
    closed.map_err(|left| {
        let left = left.join("; ");
        anyhow::anyhow!("not everything could be removed (fsdyno clean tries again): {left}")
    })?;
    if process::interrupted() {
        progress::say(
            "interrupted: everything is unmounted and removed, finished trials are kept (fsdyno run --resume goes on)",
        );
        return Ok(());
    }
    store.finish_run(&run.id, clock::wall_ns())
}

/// The directory of the images of `plan`.
#[must_use]
pub fn image_directory(plan: &Plan) -> PathBuf {
    plan.directory.clone().unwrap_or_else(paths::default_image_directory)
}

/// Time to the second, and four digits so that two runs of the same second differ.
fn new_identifier() -> String {
    let now = jiff::Timestamp::now();
    let noise = clock::now_ns() ^ (u64::from(std::process::id()) << 20);
    let digits = (noise ^ (noise >> 17)) & 0xffff;
    format!("{}-{digits:04x}", now.strftime("%Y%m%d-%H%M%S"))
}
