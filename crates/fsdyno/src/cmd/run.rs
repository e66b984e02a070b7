//! `fsdyno run`: a plan from a file, a published comparison, or the rest of an interrupted run.

use std::path::PathBuf;

use fsdyno_model::plan::Plan;
use fsdyno_model::published::Scale;

use super::output::{self, FormatArgs, RunningArgs, StoreArgs};
use crate::store::Store;
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

    /// On this block device instead of images
    #[arg(long, value_name = "DEVICE", requires = "published")]
    on: Option<PathBuf>,

    /// Trials of each target and workload instead of those of the published plan
    #[arg(long, short = 'n', value_name = "N", requires = "published", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: Option<u32>,

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
    /// The plan that is named, if one is.
    fn plan(&self) -> anyhow::Result<Option<Plan>> {
        let Some(name) = &self.published else {
            return self.plan.as_deref().map(plan_file::read).transpose();
        };
        let mut plan = published::plan(name, self.scale, self.on.as_deref())?;
        plan.trials = self.trials.unwrap_or(plan.trials);
        if let Some(directory) = &self.dir {
            plan.directory = Some(directory.clone());
        }
        plan_file::make_ready(plan).map(Some)
    }

    /// Does it.
    ///
    /// # Errors
    /// Bad input; the database; something that could not be removed.
    pub fn execute(self) -> anyhow::Result<bool> {
        let mut plan = self.plan()?;
        if let Some(plan) = &mut plan {
            plan.trace = self.running.trace.trace.unwrap_or(plan.trace);
            self.running.place.apply(plan);
            let errors = plan.place.errors();
            if !errors.is_empty() {
                return Err(bad_inputs(&errors));
            }
            plan_file::absolute_kernel(plan)?;
        }
        if let Some(plan) = plan.as_mut().filter(|_| self.running.no_yardstick) {
            plan.yardstick = false;
        }
        run::enter_private_namespace();
        let mut store = Store::open(&self.store.path()?)?;
        let options = self.running.options();
        let id = match (&plan, self.resume) {
            (Some(plan), false) => {
                self.format.check(plan)?;
                run::start(plan, &options, &mut store)?
            }
            (plan, _) => {
                let unfinished = store.unfinished(plan.as_ref())?.ok_or_else(|| {
                    let of = if plan.is_some() { " of this plan" } else { "" };
                    bad_input(format!(
                        "there is no interrupted run{of} in {}",
                        store.path().display()
                    ))
                })?;
                self.format.check(&unfinished.plan)?;
                run::resume(&unfinished, &options, &mut store)?;
                unfinished.id
            }
        };
        output::present(&store, &id, &self.format)
    }
}
