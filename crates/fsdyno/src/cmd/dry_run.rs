//! `fsdyno dry-run`: the order of trials, and the operations of a workload, without doing any.

use std::io::Write as _;
use std::path::PathBuf;

use fsdyno_model::plan::{DEFAULT_SEED, Plan};
use fsdyno_model::record::Role;
use fsdyno_model::workload::WorkloadSpec;

use super::output::TraceArgs;
use crate::run::progress::say;
use crate::run::{outlook, schedule};
use crate::{bad_input, bad_inputs, catalogue, plan_file};

/// Arguments of `fsdyno dry-run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan whose trials to print in their order
    #[arg(
        value_name = "PLAN.toml",
        required_unless_present = "workload",
        conflicts_with = "workload"
    )]
    plan: Option<PathBuf>,

    /// Workload whose operations to print, one a line
    #[arg(long, short, value_name = "NAME|FILE.toml[:k=v,...]")]
    workload: Option<String>,

    /// The workload with its --quick parameters
    #[arg(long, requires = "workload")]
    quick: bool,

    /// Seed of what rng=seed draws
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED, requires = "workload")]
    seed: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trace: TraceArgs,
}

/// A trial as `--json` prints it.
#[derive(serde::Serialize)]
struct Line<'a> {
    order: u32,
    target: &'a str,
    workload: &'a str,
    trial: u32,
    role: Role,
    /// Whether it is made only while a comparison is open.
    only_if_open: bool,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input; those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        match (&self.plan, &self.workload) {
            (Some(path), _) => {
                let mut plan = plan_file::read(path)?;
                plan.trace = self.trace.trace.unwrap_or(plan.trace);
                self.trials(&plan)?;
            }
            (None, Some(text)) => self.operations(text)?,
            (None, None) => return Err(bad_input("give a plan or --workload")),
        }
        Ok(true)
    }

    fn trials(&self, plan: &Plan) -> anyhow::Result<()> {
        let mut output = std::io::BufWriter::new(std::io::stdout().lock());
        let schedule = schedule::schedule(plan);
        let lines = schedule.iter().map(|planned| Line {
            order: planned.order,
            target: &plan.targets[planned.target_index].label,
            workload: &plan.workloads[planned.workload_index].label,
            trial: planned.trial,
            role: planned.role,
            only_if_open: planned.role == Role::Measured && planned.trial > plan.min_trials(),
        });
        if self.json {
            serde_json::to_writer_pretty(&mut output, &lines.collect::<Vec<_>>())?;
            writeln!(output)?;
        } else {
            for line in lines {
                write!(output, "{}\t{}\t", line.target, line.workload)?;
                match line.role {
                    Role::Measured if line.only_if_open => {
                        writeln!(output, "trial {}\tonly if open", line.trial)?;
                    }
                    Role::Measured => writeln!(output, "trial {}", line.trial)?,
                    Role::Explain => writeln!(output, "explain trial")?,
                }
            }
        }
        output.flush()?;
        say(&outlook::text(plan));
        Ok(())
    }

    fn operations(&self, text: &str) -> anyhow::Result<()> {
        let parsed = catalogue::with_names(|names| WorkloadSpec::parse(text, self.quick, names));
        let workload = parsed.map_err(|errors| bad_inputs(&errors))?;
        let operations = catalogue::workload(&workload)
            .map_err(anyhow::Error::msg)
            .and_then(|found| fsdyno_workload::catalog::dry_run(found, &workload.params, self.seed))
            .map_err(|error| bad_input(format!("{error:#}")))?;
        let mut output = std::io::BufWriter::new(std::io::stdout().lock());
        if self.json {
            serde_json::to_writer_pretty(&mut output, &operations.collect::<Vec<String>>())?;
            writeln!(output)?;
        } else {
            for operation in operations {
                writeln!(output, "{operation}")?;
            }
        }
        output.flush()?;
        Ok(())
    }
}
