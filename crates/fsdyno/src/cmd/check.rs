//! `fsdyno check`: all errors of a plan at once.

use std::path::PathBuf;

use super::output;
use crate::plan_file;

/// Arguments of `fsdyno check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan to check
    #[arg(value_name = "PLAN.toml")]
    plan: PathBuf,

    /// Print the plan as it is understood, defaults filled in, as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: every error of the plan, drawn with its place.
    pub fn execute(self) -> anyhow::Result<bool> {
        let plan = plan_file::read(&self.plan)?;
        if self.json {
            output::print(&serde_json::to_string_pretty(&plan)?)?;
        } else {
            let (targets, workloads) = (plan.targets.len(), plan.workloads.len());
            let (trials, all) = (plan.trials, plan.trial_count());
            let traced = match plan.explained_targets().count() * workloads {
                0 => String::new(),
                count => format!(", and {count} traced"),
            };
            output::print(&format!(
                "{}: good: {targets} targets × {workloads} workloads × {trials} trials = {all} trials{traced}",
                self.plan.display()
            ))?;
        }
        Ok(true)
    }
}
