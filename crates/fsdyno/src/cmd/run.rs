//! `fsdyno run`: a plan from a file, or the rest of an interrupted run.

use std::path::PathBuf;

use super::output::{self, FormatArgs, RunningArgs, StoreArgs};
use crate::store::Store;
use crate::{bad_input, plan_file, run};

/// Arguments of `fsdyno run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan to run; with --resume it may be left out
    #[arg(value_name = "PLAN.toml", required_unless_present = "resume")]
    plan: Option<PathBuf>,

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
    /// Does it.
    ///
    /// # Errors
    /// Bad input; the database; something that could not be removed.
    pub fn execute(self) -> anyhow::Result<bool> {
        let mut plan = self.plan.as_deref().map(plan_file::read).transpose()?;
        if let (Some(plan), Some(trace)) = (&mut plan, self.running.trace.trace) {
            plan.trace = trace;
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
