//! Models of disks by name or from files: read and checked, every error drawn with its place.

use fsdyno_disk::{Model, shipped};

use crate::cmd::use_color;
use crate::snippet;

/// The model that `name` says: a shipped one, or the file of that path where it has a slash or ends in
/// `.toml`.
///
/// # Errors
/// The nearest name; the file cannot be read; what is wrong with it, drawn with its place.
pub fn find(name: &str) -> Result<Model, String> {
    if !shipped::is_file(name) {
        return shipped::find(name);
    }
    let text = std::fs::read_to_string(name)
        .map_err(|error| format!("cannot read the model {name}: {error}"))?;
    let parsed = Model::parse(shipped::stem(name), &text, &|member| shipped::find(member));
    parsed.map_err(|diagnostics| {
        let color = use_color(fsdyno_sys::process::stderr_is_terminal());
        let drawn = snippet::render(name, &text, &diagnostics, color);
        format!("the model {name} cannot be used\n{drawn}")
    })
}
