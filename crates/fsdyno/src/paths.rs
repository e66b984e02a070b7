//! Where results and state live: the XDG base directories, with the usual defaults.

use std::path::PathBuf;

use anyhow::Context as _;
use fsdyno_sys::home;

/// The results database when `--db` names none.
///
/// # Errors
/// When there is no home directory that is the user's own.
pub fn default_database() -> anyhow::Result<PathBuf> {
    let directory = home::default_data_directory();
    let directory = directory.context(
        "there is no home directory that is yours alone: set XDG_DATA_HOME or give --db FILE",
    )?;
    Ok(directory.join("results.sqlite"))
}

/// What is known of runs that are under way: needed to clean up after a crash.
///
/// # Errors
/// When there is no home directory that is the user's own.
pub fn state_directory() -> anyhow::Result<PathBuf> {
    home::default_state_directory()
        .context("there is no home directory that is yours alone: set XDG_STATE_HOME")
}

/// Where aged images are kept from run to run; `None` without a cache directory that is the user's own.
#[must_use]
pub fn aged_directory() -> Option<PathBuf> {
    Some(home::default_cache_directory()?.join("aged"))
}

/// Where kernels for guests are kept; `None` without a cache directory that is the user's own.
#[must_use]
pub fn guest_directory() -> Option<PathBuf> {
    Some(home::default_cache_directory()?.join("guest"))
}

/// The directory of images when neither the command line nor the plan names one. Not `/tmp`, which
/// is often in memory.
#[must_use]
pub fn default_image_directory() -> PathBuf {
    PathBuf::from("/var/tmp")
}
