//! `fsdyno check`: all errors of a plan, or of a workload of the user's, at once.

use std::path::PathBuf;

use fsdyno_report::list::{self, ListFormat};

use super::output;
use crate::run::outlook;
use crate::{bad_input, plan_file, workload_file};

/// Arguments of `fsdyno check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan, or workload in TOML, to check
    #[arg(value_name = "FILE.toml")]
    plan: PathBuf,

    /// Print what is understood, defaults filled in, as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: every error of the file, drawn with its place.
    pub fn execute(self) -> anyhow::Result<bool> {
        if workload_file::is_workload(&self.plan) {
            self.workload()?;
            return Ok(true);
        }
        let plan = plan_file::read(&self.plan)?;
        if self.json {
            output::print(&serde_json::to_string_pretty(&plan)?)?;
        } else {
            let (extent, ending) = (outlook::extent(&plan), outlook::ending(&plan));
            let text = format!("{}: good: {extent}\n{ending}", self.plan.display());
            output::print(text.trim_end())?;
        }
        Ok(true)
    }

    fn workload(&self) -> anyhow::Result<()> {
        let path = self.plan.display().to_string();
        let info = workload_file::load(&path).map_err(bad_input)?.info;
        if self.json {
            return output::print(&list::workload(info, ListFormat::Json));
        }
        let phases: Vec<&str> = info.phases.iter().map(|phase| phase.name).collect();
        output::print(&format!(
            "{path}: good: the workload {} with the phases {}",
            info.name,
            phases.join(", ")
        ))
    }
}
