//! `fsdyno show`: the results of a run that is in the database.

use fsdyno_report::audit;

use super::output::{self, Format, FormatArgs, StoreArgs};
use crate::bad_input;
use crate::store::{Store, StoredRun};

/// Arguments of `fsdyno show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run, or the beginning of its identifier [default: the latest]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,

    /// Form of what is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Print what was compared before the verdict: facts of kernel, superblocks and trials
    #[arg(long, conflicts_with = "json")]
    audit: bool,

    /// Print published checklists for filesystem benchmarks, answered from the records
    #[arg(long, conflicts_with_all = ["json", "audit"])]
    checklist: bool,

    /// Exit with code 1 where the audit finds targets not comparable
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    store: StoreArgs,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// When there is no such run; those of the database and of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let store = Store::open_existing(&self.store.path()?)?;
        let run = store.run(self.run.as_deref())?;
        if self.audit || self.checklist {
            return self.facts(&store, &run);
        }
        let json = self.json.then(|| "-".into());
        output::present(
            &store,
            &run.id,
            &FormatArgs { json, format: self.format, strict: self.strict },
        )
    }

    /// The audit or the checklists.
    fn facts(&self, store: &Store, run: &StoredRun) -> anyhow::Result<bool> {
        let result = output::result_of(store, run)?;
        let width = output::table_options().width;
        let page = match (self.format, self.audit) {
            (Format::Table, true) => audit::audit_text(&result, width),
            (Format::Table, false) => audit::checklist_text(&result, width),
            (Format::Markdown, true) => audit::audit_markdown(&result),
            (Format::Markdown, false) => audit::checklist_markdown(&result),
            (Format::Original(format), _) => {
                return Err(bad_input(format!("--format {} has no audit", format.name)));
            }
        };
        output::print(&page)?;
        Ok(!(self.strict && output::is_unfair(&result)))
    }
}
