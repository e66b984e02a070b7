//! Runs a [`Definition`].

use crate::context::Context;
use crate::engine::definition::Definition;

/// Runs it: every phase that finishes is handed to the context.
///
/// # Errors
/// The call that failed, with the path; what the machine or the filesystem lacks as
/// [`crate::failure::Unavailable`].
pub fn run(context: &mut Context<'_>, definition: &Definition) -> anyhow::Result<()> {
    let _ = (context, definition);
    anyhow::bail!("the engine runs nothing yet")
}
