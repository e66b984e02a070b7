//! `fsdyno history`: a figure over many runs of the results database, and where its level changed. What
//! is computed is left to `analysis`, how it looks to `report`.

use std::path::PathBuf;

use anyhow::Context as _;
use fsdyno_analysis::history::{HistoryFilter, HistoryRun, history};
use fsdyno_model::metric::{self, Metric};
use fsdyno_report::history as report;

use super::output::{self, StoreArgs};
use crate::bad_input;
use crate::run::progress::say;
use crate::store::Store;

/// Runs that are looked at when nothing is said.
const DEFAULT_RUNS: usize = 50;

const AFTER_HELP: &str = "\
Each line is a run: the median of its trials, the 95 % interval and a picture of both. Where the level
changed by more than chance explains a line says so; it takes at least four runs. docs/DIFF.md says
how changes are found.

  fsdyno history                                      every figure of the latest run
  fsdyno history --phase create --target ext4 --last 20
  fsdyno history --metric write_amplification --svg amplification.svg";

/// Arguments of `fsdyno history`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Metric (fsdyno list metrics) [default: the one that tables show for each phase]
    #[arg(long, value_name = "NAME", value_parser = metric_named)]
    metric: Option<&'static Metric>,

    /// Label of a target [default: all]
    #[arg(long, value_name = "LABEL")]
    target: Option<String>,

    /// Label of a workload [default: all]
    #[arg(long, short, value_name = "LABEL")]
    workload: Option<String>,

    /// Name of a phase [default: all]
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,

    /// Look at the latest N runs
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RUNS)]
    last: usize,

    /// Also draw the series into FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: StoreArgs,
}

fn metric_named(name: &str) -> Result<&'static Metric, String> {
    metric::find(name)
        .ok_or_else(|| "there is no such metric (fsdyno list metrics tells all)".to_owned())
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input; those of the database and of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let store = Store::open_existing(&self.store.path()?)?;
        let mut lines = store.runs()?;
        let first = lines.len().saturating_sub(self.last);
        let mut runs = Vec::new();
        let mut stored = Vec::new();
        for line in lines.drain(first..) {
            let environment = store.run(Some(&line.id))?.environment;
            stored.push((line, environment));
        }
        let kind = stored.last().map(|(_, environment)| environment.measured);
        let count = stored.len();
        stored.retain(|(_, environment)| Some(environment.measured) == kind);
        if let (Some(kind), left_out @ 1..) = (kind, count - stored.len()) {
            say(&format!(
                "{left_out} runs are left out: the latest was measured {kind}, these were not"
            ));
        }
        for (line, environment) in stored {
            runs.push(HistoryRun {
                hostname: environment.hostname,
                trials: store.trials(&line.id)?,
                started_unix_ns: line.started_unix_ns,
                id: line.id,
            });
        }
        let filter = HistoryFilter {
            metric: self.metric,
            target: self.target.clone(),
            workload: self.workload.clone(),
            phase: self.phase.clone(),
        };
        let found = history(&runs, &filter);
        if found.series.is_empty() {
            return Err(bad_input(format!(
                "none of the {} latest runs in {} has such a figure (fsdyno runs lists them)",
                runs.len(),
                store.path().display()
            )));
        }
        if let Some(path) = &self.svg {
            std::fs::write(path, report::svg(&found))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let text = if self.json {
            report::json(&found)?
        } else {
            report::table(&found, output::table_options())
        };
        output::print(&text)?;
        Ok(true)
    }
}
