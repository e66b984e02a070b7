//! `fsdyno reproduce`: makes a run in virtual time again and says whether its figures are identical.

use super::output::{self, StoreArgs};
use crate::run::reproduce::{self, Reproduction};
use crate::run::{self, RunOptions};
use crate::store::Store;

const AFTER_HELP: &str = "\
The run may be from another machine: fsdyno merge puts its database into yours. Kernel, QEMU and
initial file system must be the same for figures to be identical; which of them differs is told.

Exit codes: 0 every record is identical, 1 some differ, 2 bad input. See docs/VIRTUAL-TIME.md.";

/// Arguments of `fsdyno reproduce`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Run in virtual time, or the beginning of its identifier [default: the latest]
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// Trials that are made side by side [default: as many as the machine has processors and memory for]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: StoreArgs,
}

impl Args {
    /// Does it; the value is whether everything is identical.
    ///
    /// # Errors
    /// Bad input: no such run, or one in real time; no guest can be run here.
    pub fn execute(self) -> anyhow::Result<bool> {
        run::enter_private_namespace();
        let store = Store::open_existing(&self.store.path()?)?;
        let stored = store.run(self.run.as_deref())?;
        let recorded = store.trials(&stored.id)?;
        let options = RunOptions {
            destroy: Vec::new(),
            quiet: self.quiet,
            keep_aged: false,
            jobs: self.jobs,
            command: String::new(),
        };
        let Some(made) = reproduce::reproduce(&stored, &recorded, &options)? else {
            return Ok(false);
        };
        if self.json {
            output::print(&serde_json::to_string_pretty(&made)?)?;
        } else {
            output::print(&text(&made))?;
        }
        Ok(made.trials.iter().all(|trial| trial.differs.is_none()))
    }
}

fn text(made: &Reproduction) -> String {
    let mut lines: Vec<String> = Vec::new();
    for trial in &made.trials {
        let name = format!("{} {} trial {}", trial.target, trial.workload, trial.trial);
        lines.push(match &trial.differs {
            None if trial.guests > 1 => {
                let other = trial.guest_differed.as_ref().map(|how| format!(": {how}"));
                format!(
                    "{name}: identical, after {} guests{}",
                    trial.guests,
                    other.unwrap_or_default()
                )
            }
            None => format!("{name}: identical"),
            Some(change) => format!("{name}: differs, first in {change}"),
        });
    }
    let changed = made.changed.iter().map(|change| format!("{change}: the figures depend on it"));
    lines.extend(changed);
    let same = made.trials.iter().filter(|trial| trial.differs.is_none()).count();
    let all = made.trials.len();
    lines.push(if same == all {
        "Every record is identical.".to_owned()
    } else {
        format!("{same} of {all} records are identical.")
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::difference::Change;
    use crate::run::reproduce::Trial;

    #[test]
    fn it_says_identical_or_the_first_phase() {
        let trial = |differs| Trial {
            target: "ext4".to_owned(),
            workload: "postmark".to_owned(),
            trial: 1,
            guests: 1,
            guest_differed: None,
            differs,
        };
        let mut same = Reproduction { changed: Vec::new(), trials: vec![trial(None)] };
        assert_eq!(text(&same), "ext4 postmark trial 1: identical\nEvery record is identical.");
        same.trials[0].guests = 3;
        assert!(text(&same).starts_with("ext4 postmark trial 1: identical, after 3 guests\n"));
        same.trials[0].guest_differed = Some("another did not".to_owned());
        assert!(text(&same).contains("after 3 guests: another did not\n"));
        let change = |of: &str, name: &str| Change {
            of: of.to_owned(),
            name: name.to_owned(),
            was: "1".to_owned(),
            is: "2".to_owned(),
        };
        let other = Reproduction {
            changed: vec![change("the guest", "kernel_hash")],
            trials: vec![trial(None), trial(Some(change("create", "elapsed_return_ns")))],
        };
        let text = text(&other);
        assert!(text.contains("first in create: elapsed_return_ns was 1, is 2"), "{text}");
        assert!(text.contains("kernel_hash was 1, is 2: the figures depend on it"), "{text}");
        assert!(text.ends_with("1 of 2 records are identical."), "{text}");
    }
}
