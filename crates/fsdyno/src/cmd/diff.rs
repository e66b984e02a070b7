//! `fsdyno diff`: two runs beside each other, of the results database or of result documents. What is
//! computed is left to `analysis`, how it looks to `report`.

use std::path::Path;

use anyhow::Context as _;
use fsdyno_analysis::diff::{DiffOptions, Side, TracedPhase, diff};
use fsdyno_model::SCHEMA_VERSION;
use fsdyno_model::diff::{DiffVerdict, RunDiff};
use fsdyno_model::place;
use fsdyno_model::result::RunResult;
use fsdyno_report::exports::tables::{Needs, Timelines};

use super::output::{self, StoreArgs};
use crate::store::{Store, StoredRun};
use crate::{bad_input, report_data};

const AFTER_HELP: &str = "\
BASE and NEW are runs of the results database, by the beginning of their identifiers, `latest` or
`latest~1` (the one before it), or files that --json wrote, from this machine or another one:

  fsdyno diff latest~1 latest
  fsdyno diff baseline.json latest --threshold 5% --markdown > comment.md
  fsdyno diff 20260101 20260102 --pair ext4 ext4:noatime

Targets are matched by label, then by what they are; workloads by label.

Exit codes: 0 nothing is slower, 1 something is slower beyond the threshold, 2 bad input. See
docs/DIFF.md.";

/// Arguments of `fsdyno diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Run or result document to compare with
    #[arg(value_name = "BASE")]
    base: String,

    /// Run or result document that is judged
    #[arg(value_name = "NEW", default_value = "latest")]
    new: String,

    /// Differences up to this count as the same
    #[arg(long, value_name = "PERCENT", default_value = "3%", value_parser = threshold)]
    threshold: f64,

    /// Compare this target of BASE with that one of NEW, by their labels; may be given several times
    #[arg(long, num_args = 2, value_names = ["BASE", "NEW"], action = clap::ArgAction::Append)]
    pair: Vec<String>,

    /// Judge the ratios that are adjusted for the speeds of two machines, or of one that changed
    #[arg(long)]
    adjusted: bool,

    /// Do not read block traces for what moved
    #[arg(long)]
    no_traces: bool,

    /// Print markdown, for a comment on a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// A share from `5%`.
fn threshold(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    let percent: Option<f64> = number.and_then(|number| number.parse().ok());
    match percent {
        Some(percent) if (0.01..=100.0).contains(&percent) => Ok(percent / 100.0),
        Some(_) => Err("it must lie between 0.01% and 100%".to_owned()),
        None => Err("write per cent, such as 5%".to_owned()),
    }
}

impl Args {
    /// Does it; the value is whether nothing is slower beyond the threshold.
    ///
    /// # Errors
    /// Bad input, which all is that keeps two runs from being compared; those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let (told, result) = self.compare().map_err(|error| bad_input(format!("{error:#}")))?;
        let text = match (self.json, self.markdown) {
            (true, _) => fsdyno_report::diff::json(&told)?,
            (_, true) => fsdyno_report::diff::markdown(&told),
            _ => fsdyno_report::diff::table(&told, output::table_options()),
        };
        output::print(&text)?;
        Ok(result)
    }

    fn compare(&self) -> anyhow::Result<(RunDiff, bool)> {
        let base = self.load(&self.base)?;
        let new = self.load(&self.new)?;
        let kind = |loaded: &Loaded| loaded.result.run.environment.measured;
        let name = |loaded: &Loaded| format!("run {}", loaded.result.run.id);
        let sides = ((&*name(&base), kind(&base)), (&*name(&new), kind(&new)));
        if let Some(refusal) = place::refusal(sides.0, sides.1) {
            anyhow::bail!(refusal);
        }
        let options = DiffOptions {
            threshold: self.threshold,
            adjusted: self.adjusted,
            pairs: self.pairs(&base.result, &new.result)?,
        };
        let mut told = diff(base.side(&[]), new.side(&[]), &options);
        let decided = [DiffVerdict::Faster, DiffVerdict::Slower];
        if !self.no_traces && told.rows.iter().any(|row| decided.contains(&row.verdict)) {
            let (of_base, of_new) = (base.traced()?, new.traced()?);
            if !of_base.is_empty() && !of_new.is_empty() {
                told = diff(base.side(&of_base), new.side(&of_new), &options);
            }
        }
        let is_fine = !told.is_slower;
        Ok((told, is_fine))
    }

    /// The pairs that were named; each label must be there.
    fn pairs(&self, base: &RunResult, new: &RunResult) -> anyhow::Result<Vec<(String, String)>> {
        let check = |result: &RunResult, label: &str| {
            let known: Vec<&str> = result.targets.iter().map(|it| it.label.as_str()).collect();
            if known.contains(&label) {
                return Ok(());
            }
            let known = known.join(", ");
            anyhow::bail!("--pair: run {} has no target {label}, only {known}", result.run.id)
        };
        let mut pairs = Vec::new();
        for pair in self.pair.chunks(2) {
            if let [of_base, of_new] = pair {
                check(base, of_base)?;
                check(new, of_new)?;
                pairs.push((of_base.clone(), of_new.clone()));
            }
        }
        Ok(pairs)
    }

    fn load(&self, name: &str) -> anyhow::Result<Loaded> {
        let path = Path::new(name);
        let is_file = path.extension().is_some_and(|it| it == "json") || name.contains('/');
        if is_file || path.is_file() {
            let result = read_document(path)?;
            return Ok(Loaded { result, file: Some(name.to_owned()), stored: None });
        }
        let store = Store::open_existing(&self.store.path()?)?;
        let run = store.run(Some(name))?;
        let result = output::result_of(&store, &run)?;
        Ok(Loaded { result, file: None, stored: Some((store, run)) })
    }
}

/// One of the two runs.
struct Loaded {
    result: RunResult,
    file: Option<String>,
    stored: Option<(Store, StoredRun)>,
}

impl Loaded {
    fn side<'a>(&'a self, traced: &'a [TracedPhase]) -> Side<'a> {
        Side { result: &self.result, file: self.file.as_deref(), traced }
    }

    /// What the block traces beside the database say; nothing where there are none.
    fn traced(&self) -> anyhow::Result<Vec<TracedPhase>> {
        let Some((store, run)) = &self.stored else { return Ok(Vec::new()) };
        if self.result.trials.iter().all(|trial| trial.trace.is_none()) {
            return Ok(Vec::new());
        }
        let needs = Needs { timelines: Timelines::Shown, graphs: true, activity: false };
        let data = report_data::collect(store, run, needs, false)?;
        let mut traced = Vec::new();
        for timeline in data.timelines {
            let windows = timeline.graph.map_or(Vec::new(), |graph| graph.windows);
            traced.extend(windows.into_iter().map(|window| TracedPhase {
                target: timeline.target.clone(),
                workload: timeline.workload.clone(),
                phase: window.name,
                totals: window.totals,
            }));
        }
        Ok(traced)
    }
}

/// Reads what `--json` wrote.
///
/// # Errors
/// When it cannot be read, or is of another version.
pub(super) fn read_document(path: &Path) -> anyhow::Result<RunResult> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .with_context(|| format!("{shown} is no result document (fsdyno show --json makes one)"))?;
    match value.get("schema_version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(version) => anyhow::bail!(
            "{shown} has schema version {version}, this fsdyno knows {SCHEMA_VERSION}: use the fsdyno that wrote it"
        ),
        None => anyhow::bail!(
            "{shown} is no result document: it has no schema_version (fsdyno show --json makes one)"
        ),
    }
    serde_json::from_value(value)
        .with_context(|| format!("{shown} is no result document (fsdyno show --json makes one)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_per_cent() {
        assert_eq!(threshold("5%"), Ok(0.05));
        assert_eq!(threshold("2.5 %"), Ok(0.025));
        for text in ["5", "", "%", "-1%", "0%", "500%", "NaN%"] {
            assert!(threshold(text).is_err(), "{text}");
        }
    }
}
