//! `fsdyno disk list` and `fsdyno disk show`.

use fsdyno_disk::{Model, shipped};
use fsdyno_model::units;
use fsdyno_report::list;

use crate::cmd::output;
use crate::{bad_input, disk_model};

/// Arguments of `fsdyno disk list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    /// Does it.
    ///
    /// # Errors
    /// Those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let models: Result<Vec<Model>, String> =
            shipped::ALL.iter().map(|(name, _)| shipped::find(name)).collect();
        let models = models.map_err(anyhow::Error::msg)?;
        if self.json {
            let rows: Vec<_> = models.iter().map(about).collect();
            output::print(&serde_json::to_string_pretty(&rows)?)?;
            return Ok(true);
        }
        let row = |model: &Model| {
            vec![
                model.name.clone(),
                model.kind.name().to_owned(),
                units::human_bytes(model.capacity_bytes),
                model.title.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = models.iter().map(row).collect();
        let head = ["MODEL", "KIND", "SIZE", "WHAT IT IS"];
        output::print(&list::columns(&head, &rows, output::table_options().width))?;
        Ok(true)
    }
}

/// What is known of a model, for programs.
pub(super) fn about(model: &Model) -> serde_json::Value {
    serde_json::json!({
        "name": model.name,
        "kind": model.kind.name(),
        "title": model.title,
        "capacity_bytes": model.capacity_bytes,
        "rotational": model.is_rotational(),
        "volatile_bytes": model.volatile_bytes(),
        "sources": model.sources,
    })
}

/// Arguments of `fsdyno disk show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// A model of the list, or a file
    #[arg(value_name = "MODEL")]
    model: String,
}

impl ShowArgs {
    /// Does it.
    ///
    /// # Errors
    /// Bad input: no such model.
    pub fn execute(self) -> anyhow::Result<bool> {
        let model = disk_model::find(&self.model).map_err(bad_input)?;
        match shipped::text(&self.model) {
            Ok(text) => output::print(text.trim_end())?,
            Err(_) => output::print(&serde_json::to_string_pretty(&about(&model))?)?,
        }
        Ok(true)
    }
}
