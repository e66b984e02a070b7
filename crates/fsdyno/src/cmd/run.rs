//! `fsdyno run`: a plan from a file, a published comparison, or the rest of an interrupted run.

use std::path::PathBuf;

use fsdyno_model::place::{Clock, Where};
use fsdyno_model::plan::Plan;
use fsdyno_model::published::Scale;

use super::output::{self, FormatArgs, RunningArgs, StoreArgs};
use crate::store::{Store, StoredRun};
use crate::{bad_input, bad_inputs, plan_file, published, run};

/// Arguments of `fsdyno run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan to run; with --resume it may be left out
    #[arg(value_name = "PLAN.toml", required_unless_present_any = ["resume", "published"])]
    plan: Option<PathBuf>,

    /// Repeat a published comparison (fsdyno list plans)
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    published: Option<String>,

    /// How much of it: a check that it works, less than was published, or the published sizes
    #[arg(long, value_name = "smoke|day|full", default_value = "day", requires = "published", value_parser = output::scale())]
    scale: Scale,

    /// On this block device and by this machine's clock, instead of emulated disks in virtual time
    #[arg(long, value_name = "DEVICE", requires = "published")]
    on: Option<PathBuf>,

    /// On the disk of this machine alone, where the comparison has several [default: one after the other]
    #[arg(long, value_name = "NAME", requires = "published", conflicts_with = "on")]
    machine: Option<String>,

    /// Trials of each target and workload instead of those of the published plan
    #[arg(long, short = 'n', value_name = "N", requires = "published", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: Option<u32>,

    /// Longest time for a phase of a published comparison: beyond, its figure is N/A [default: as in the
    /// plan]
    #[arg(long, value_name = "DURATION", requires = "published", value_parser = output::seconds)]
    phase_timeout: Option<u64>,

    /// Directory of the images of a published comparison [default: /var/tmp]
    #[arg(long, value_name = "DIR", requires = "published")]
    dir: Option<PathBuf>,

    /// Go on with the latest interrupted run (of this plan, when one is given)
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    running: RunningArgs,

    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    store: StoreArgs,
}

impl Args {
    /// The plans that are named, if any: of a published comparison one for each of its machines.
    fn plans(&self) -> anyhow::Result<Vec<Plan>> {
        let mut plans = match &self.published {
            Some(name) => self.published(name)?,
            None => {
                self.plan.as_deref().map(plan_file::read).into_iter().collect::<Result<_, _>>()?
            }
        };
        for plan in &mut plans {
            plan.trace = self.running.trace.trace.unwrap_or(plan.trace);
            self.running.place.apply(plan);
            let errors = plan.place.errors();
            if !errors.is_empty() {
                return Err(bad_inputs(&errors));
            }
            plan_file::absolute_kernel(plan)?;
            plan.yardstick &= !self.running.no_yardstick;
        }
        Ok(plans)
    }

    fn published(&self, name: &str) -> anyhow::Result<Vec<Plan>> {
        let place = &self.running.place;
        // In real time a published comparison is made as on the host, wherever it then runs.
        let is_real = matches!(place.place, Some(Where::Host | Where::Uml));
        let is_host = is_real || place.clock == Some(Clock::Real);
        let is_guest = matches!(place.place, Some(Where::Guest | Where::Uml))
            || place.clock == Some(Clock::Virtual);
        if self.on.is_some() && is_guest {
            return Err(bad_input(
                "--on is a disk of this machine, which no guest has: leave out --in and --clock",
            ));
        }
        if self.machine.is_some() && is_host {
            return Err(bad_input(
                "--machine is of emulated disks in virtual time: leave out --in and --clock",
            ));
        }
        let mut plans = if self.on.is_some() || is_host {
            vec![published::on_host(name, self.scale, self.on.as_deref())?]
        } else {
            published::on_machines(name, self.scale, self.machine.as_deref())?
        };
        for plan in &mut plans {
            plan.trials = self.trials.unwrap_or(plan.trials);
            plan.phase_timeout_s = self.phase_timeout.or(plan.phase_timeout_s);
            plan.directory = self.dir.clone().or(plan.directory.take());
        }
        plans.into_iter().map(plan_file::make_ready).collect()
    }

    /// Does it.
    ///
    /// # Errors
    /// Bad input; the database; something that could not be removed.
    pub fn execute(self) -> anyhow::Result<bool> {
        let plans = self.plans()?;
        if let Some(plan) =
            plans.first().filter(|it| it.place.is_virtual() && self.published.is_some())
        {
            run::guest::parts(plan).map_err(with_other_ways)?;
        }
        run::enter_private_namespace();
        let mut store = Store::open(&self.store.path()?)?;
        let options = self.running.options();
        let (mut ids, mut rest) = (Vec::new(), &plans[..]);
        if self.resume {
            let (unfinished, after) = self.unfinished(&plans, &store)?;
            self.format_of(&unfinished.plan).check(&unfinished.plan)?;
            run::resume(&unfinished, &options, &mut store)?;
            ids.push(unfinished.id);
            rest = after;
        }
        rest.iter().try_for_each(|plan| self.format_of(plan).check(plan))?;
        for plan in rest {
            if fsdyno_sys::process::interrupted() {
                break;
            }
            ids.push(run::start(plan, &options, &mut store)?);
        }
        let mut is_success = true;
        for id in &ids {
            let format = self.format_of(&store.run(Some(id))?.plan);
            is_success &= output::present(&store, id, &format)?;
        }
        Ok(is_success)
    }

    /// How the run of a plan is printed: one of several machines that was not asked for by its name has its
    /// own file.
    fn format_of(&self, plan: &Plan) -> FormatArgs {
        let machines = plan.published.as_ref().map_or(&[][..], |it| &it.machines);
        match machines {
            [machine] if self.machine.is_none() && !machine.name.is_empty() => {
                self.format.of_part(&machine.name)
            }
            _ => self.format.clone(),
        }
    }

    /// The interrupted run to go on with, and the plans that come after it.
    fn unfinished<'a>(
        &self,
        plans: &'a [Plan],
        store: &Store,
    ) -> anyhow::Result<(StoredRun, &'a [Plan])> {
        if plans.is_empty()
            && let Some(run) = store.unfinished(None)?
        {
            return Ok((run, plans));
        }
        for (index, plan) in plans.iter().enumerate() {
            if let Some(run) = store.unfinished(Some(plan))? {
                return Ok((run, &plans[index + 1..]));
            }
        }
        let of = if plans.is_empty() { "" } else { " of this plan" };
        Err(bad_input(format!("there is no interrupted run{of} in {}", store.path().display())))
    }
}

/// What else can be done where no guest can be run.
fn with_other_ways(error: anyhow::Error) -> anyhow::Error {
    bad_input(format!(
        "{error:#}\npublished comparisons are repeated in virtual time, so that every reader gets the same figures: \
         --clock real repeats them on this machine's own disk, --on DEVICE on a disk of yours"
    ))
}
