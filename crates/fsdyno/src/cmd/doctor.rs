//! `fsdyno doctor`: what this machine can do, and what would mend each gap.

use std::path::PathBuf;

use fsdyno_lab::doctor::{self, Check, Status};

use super::output;
use crate::paths;

/// Arguments of `fsdyno doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of the images [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it; false when something is missing.
    ///
    /// # Errors
    /// Those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let directory = self.dir.clone().unwrap_or_else(paths::default_image_directory);
        let mut checks = doctor::checks(&directory);
        checks.push(block_traces());
        let complete = checks.iter().all(|check| check.status != Status::Missing);
        if self.json {
            output::print(&serde_json::to_string_pretty(&checks)?)?;
            return Ok(complete);
        }
        let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for check in &checks {
            let status = match check.status {
                Status::Ok => "ok     ",
                Status::Warn => "warning",
                Status::Missing => "MISSING",
            };
            text.push_str(&format!("{status}  {:width$}  {}\n", check.name, check.detail));
            if let Some(mend) = &check.mend {
                text.push_str(&format!("{:9}{:width$}  -> {mend}\n", "", ""));
            }
        }
        output::print(&text)?;
        Ok(complete)
    }
}

/// Without them everything is measured and less explained.
fn block_traces() -> Check {
    let unavailable = fsdyno_trace::capture::unavailable();
    let (status, mend) = match unavailable {
        None => (Status::Ok, None),
        Some(_) => (Status::Warn, Some("--trace none measures without them".to_owned())),
    };
    let detail = unavailable.unwrap_or_else(|| "can be taken, through tracefs".to_owned());
    Check { name: "block traces".to_owned(), status, detail, mend }
}
