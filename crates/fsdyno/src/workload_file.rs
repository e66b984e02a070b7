//! Workloads from files: read and checked, every error drawn with its place.

use std::path::Path;

use fsdyno_model::info::LoadedWorkload;
use fsdyno_model::toml_reader::TomlReader;
use fsdyno_workload::engine::data::DataWorkload;

use crate::cmd::use_color;
use crate::snippet;

/// Reads the workload that the file `path` defines.
///
/// # Errors
/// The file cannot be read; what is wrong with it, drawn with its place.
pub fn load(path: &str) -> Result<LoadedWorkload, String> {
    let definition = std::fs::read_to_string(Path::new(path))
        .map_err(|error| format!("cannot read the workload {path}: {error}"))?;
    let loaded = DataWorkload::load(&definition).map_err(|diagnostics| {
        let color = use_color(fsdyno_sys::process::stderr_is_terminal());
        let drawn = snippet::render(path, &definition, &diagnostics, color);
        format!("the workload {path} cannot be run\n{drawn}")
    })?;
    Ok(LoadedWorkload { info: &loaded.info, definition })
}

/// Whether the file `path` is a workload and no plan, by the tables that it has.
#[must_use]
pub fn is_workload(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let (root, _) = TomlReader::parse(&text);
    let has = |name: &str| root.get_ref().contains_key(name);
    (has("phase") || has("fileset") || has("params")) && !has("target") && !has("workload")
}
