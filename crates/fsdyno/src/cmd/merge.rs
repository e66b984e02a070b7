//! `fsdyno merge`: the runs of other results databases in one, with their block traces.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use fsdyno_model::words::counted;

use super::output;
use crate::bad_input;
use crate::store::Store;
use crate::store::merge::{Merged, Outcome, Source};
use crate::store::merge_traces::CopiedTraces;

/// Databases that SQLite attaches at once.
const MOST_AT_ONCE: usize = 10;

const AFTER_HELP: &str = "\
Runs of several machines come together in one database. A run that INTO has already, the same in every
row, is told and left alone; one with the same identifier and other content ends the merge, and nothing is
changed. Either all runs of all databases are merged or none. FROM is only read. Block traces are copied
beside INTO.

Exit codes: 0 all is in INTO, 2 nothing was merged.";

/// Arguments of `fsdyno merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Results database that runs are brought into; it is made where it does not exist
    #[arg(value_name = "INTO")]
    into: PathBuf,

    /// Results databases that runs are taken from
    #[arg(value_name = "FROM", required = true)]
    from: Vec<PathBuf>,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input, which all is that keeps databases from being merged; those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let told = self.merge().map_err(|error| bad_input(format!("{error:#}")))?;
        output::print(&told)?;
        Ok(true)
    }

    fn merge(&self) -> anyhow::Result<String> {
        if self.from.len() > MOST_AT_ONCE {
            anyhow::bail!(
                "{} databases at once are too many: merge up to {MOST_AT_ONCE} at a time",
                self.from.len()
            );
        }
        for path in &self.from {
            if is_same_file(path, &self.into) {
                anyhow::bail!("{} is INTO and FROM at once", path.display());
            }
        }
        // All are checked before INTO is touched or made.
        let sources: Vec<Source> = self
            .from
            .iter()
            .map(|path| Source::open(path, &self.into))
            .collect::<anyhow::Result<_>>()?;
        let mut store = Store::open(&self.into)?;
        let own = Store::traces_beside(&self.into);
        let mut traces = CopiedTraces::default();
        let (outcomes, power_cuts) = store.merge(&sources, |outcomes| {
            for outcome in outcomes {
                let from = Store::traces_beside(sources[outcome.source_index].path());
                traces.copy(&from.join(&outcome.run), &own.join(&outcome.run))?;
            }
            Ok(())
        })?;
        traces.keep();
        Ok(told(&sources, &outcomes, &power_cuts, traces.count()))
    }
}

fn told(sources: &[Source], outcomes: &[Outcome], power_cuts: &[usize], traces: usize) -> String {
    let mut lines = String::new();
    for (index, source) in sources.iter().enumerate() {
        let own = || outcomes.iter().filter(|outcome| outcome.source_index == index);
        let count = |merged| own().filter(|outcome| outcome.merged == merged).count();
        let (added, known) = (count(Merged::Added), count(Merged::Known));
        lines.push_str(&format!("{}: {} added", source.path().display(), runs(added)));
        if known > 0 {
            lines.push_str(&format!(", {} known already and the same", runs(known)));
        }
        if let Some(cuts) = power_cuts.get(index).copied().filter(|cuts| *cuts > 0) {
            lines.push_str(&format!(", {} of power cuts added", counted(cuts, "test")));
        }
        if source.is_copied() {
            lines.push_str(" (of an older version: a copy was brought up to date)");
        }
        lines.push('\n');
        for outcome in own() {
            let word = match outcome.merged {
                Merged::Added => "added",
                Merged::Known => "known",
            };
            lines.push_str(&format!("  {}  {word}\n", outcome.run));
        }
    }
    match traces {
        0 => {}
        1 => lines.push_str("1 block trace copied\n"),
        traces => lines.push_str(&format!("{traces} block traces copied\n")),
    }
    lines
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}
