//! Workloads from files: read and checked, every error drawn with its place.

use std::path::Path;

use fsdyno_model::info::LoadedWorkload;
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
