//! `fsdyno list`: the catalogues, for people, for the documentation and for programs.

use clap::ValueEnum;
use fsdyno_model::metric;
use fsdyno_model::published::Scale;
use fsdyno_report::audit;
use fsdyno_report::list::{self, ListFormat};
use fsdyno_report::then_and_now;
use fsdyno_workload::catalog;

use super::output;
use crate::{bad_input, catalogue, published};

/// Arguments of `fsdyno list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to list
    #[arg(value_enum, default_value_t = What::Workloads)]
    what: What,

    /// One workload in full, of the catalogue or of a file: what it times, its parameters; or one plan
    #[arg(value_name = "NAME|FILE.toml")]
    name: Option<String>,

    /// Print the text that defines a workload or a plan, as a starting point for one of your own
    #[arg(long, requires = "name", conflicts_with_all = ["markdown", "json"])]
    toml: bool,

    /// Print Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// What can be run
    Workloads,
    /// What can be made
    Filesystems,
    /// Block devices, and whether fsdyno would use them
    Devices,
    /// What is measured
    Metrics,
    /// Published comparisons that can be repeated (fsdyno run --published NAME)
    Plans,
    /// What is compared before a verdict, and how it is judged
    Audit,
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: no such entry; those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        if self.name.is_some() && !matches!(self.what, What::Workloads | What::Plans) {
            return Err(bad_input(
                "only a workload or a plan can be shown alone: fsdyno list workloads NAME",
            ));
        }
        if self.what == What::Devices && self.markdown {
            return Err(bad_input("devices are listed as text or with --json"));
        }
        let form = match (self.markdown, self.json) {
            (true, _) => ListFormat::Markdown,
            (false, true) => ListFormat::Json,
            (false, false) => ListFormat::Text { width: output::table_options().width },
        };
        let text = match (self.what, &self.name) {
            (What::Workloads, None) => list::workloads(&catalogue::workloads(), form),
            (What::Workloads, Some(name)) if self.toml => text_of(name)?,
            (What::Workloads, Some(name)) => {
                let found = catalogue::with_names(|names| names.workload_or_file(name));
                list::workload(found.map_err(bad_input)?.0, form)
            }
            (What::Filesystems, _) => list::filesystems(&catalogue::filesystems(), form),
            (What::Metrics, _) => list::metrics(metric::ALL, form),
            (What::Audit, _) => audit::rules_page(form),
            (What::Plans, Some(name)) => published::text(name)?.to_owned(),
            (What::Plans, None) => plans(form)?,
            (What::Devices, _) => return self.devices(),
        };
        output::print(&text)?;
        Ok(true)
    }

    fn devices(&self) -> anyhow::Result<bool> {
        let devices = fsdyno_lab::devices::list().map_err(anyhow::Error::msg)?;
        if self.json {
            output::print(&serde_json::to_string_pretty(&devices)?)?;
            return Ok(true);
        }
        let rows: Vec<Vec<String>> = devices
            .iter()
            .map(|device| {
                vec![
                    device.path.display().to_string(),
                    fsdyno_model::units::human_bytes(device.size_bytes),
                    device.model.clone().unwrap_or_default(),
                    match &device.reason {
                        Some(reason) if !device.accepted => format!("refused: {reason}"),
                        _ => "accepted".to_owned(),
                    },
                ]
            })
            .collect();
        let head = ["DEVICE", "SIZE", "MODEL", "FSDYNO"];
        output::print(&list::columns(&head, &rows, output::table_options().width))?;
        Ok(true)
    }
}

/// The published comparisons.
fn plans(form: ListFormat) -> anyhow::Result<String> {
    let entries = published::plans(Scale::Day)?;
    let entries: Vec<then_and_now::PlanEntry<'_>> = entries
        .iter()
        .map(|(name, plan, published)| then_and_now::PlanEntry { name, plan, published })
        .collect();
    Ok(then_and_now::plans(&entries, form))
}

/// The text that defines a workload.
fn text_of(name: &str) -> anyhow::Result<String> {
    let found = catalogue::with_names(|names| names.workload_or_file(name));
    let (info, definition) = found.map_err(bad_input)?;
    if let Some(text) = definition {
        return Ok(text);
    }
    if let Some(text) = catalog::find(info.name).map_err(bad_input)?.text() {
        return Ok(text.to_owned());
    }
    let printable: Vec<&str> = catalog::all()
        .iter()
        .filter(|workload| workload.text().is_some())
        .map(|workload| workload.info().name)
        .collect();
    let others = match printable.is_empty() {
        true => "no workload of the catalogue is".to_owned(),
        false => format!("those that are: {}", printable.join(", ")),
    };
    Err(bad_input(format!("{name} is code, it is not defined by a text; {others}")))
}
