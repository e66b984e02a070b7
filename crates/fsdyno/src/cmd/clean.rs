//! `fsdyno clean`: removes what killed runs left behind; where that is asked for, archives that workloads
//! keep, aged images and block traces; and nothing else.

use std::path::{Path, PathBuf};

use fsdyno_lab::reclaim::Reclaimed;
use fsdyno_lab::snapshot;
use fsdyno_model::units;
use fsdyno_trace::stored::EXTENSION;
use fsdyno_workload::web_cache::store;

use super::output::{self, StoreArgs};
use crate::store::Store;
use crate::{paths, run};

/// Arguments of `fsdyno clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also remove the archives that workloads made and keep for the next run
    #[arg(long)]
    cache: bool,

    /// Also remove the block traces of all runs; their figures stay
    #[arg(long)]
    traces: bool,

    /// Also remove the aged images that --keep-aged kept for later runs
    #[arg(long)]
    aged: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: StoreArgs,
}

impl Args {
    /// Does it; false when something could not be removed.
    ///
    /// # Errors
    /// Those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let mut removed = run::reclaim_leftovers(&paths::state_directory()?);
        if self.cache {
            removed.extend(kept_archives()?);
        }
        if self.aged {
            removed.extend(aged_images());
        }
        if self.traces {
            removed.extend(stored_traces(&Store::traces_beside(&self.store.path()?)));
        }
        let complete = removed.iter().all(|one| one.error.is_none());
        if self.json {
            output::print(&serde_json::to_string_pretty(&removed)?)?;
            return Ok(complete);
        }
        if removed.is_empty() {
            output::print("nothing to remove")?;
            let kept = store::cache_directory().map(|directory| store::kept(&directory));
            if kept.is_ok_and(|kept| !kept.is_empty()) {
                output::print(
                    "archives are kept for the next run of web-cache: --cache removes them",
                )?;
            }
            let aged = paths::aged_directory().map(|directory| snapshot::kept(&directory));
            if aged.is_some_and(|kept| !kept.is_empty()) {
                output::print("aged images are kept for later runs: --aged removes them")?;
            }
            let traces = Store::traces_beside(&self.store.path()?);
            if !self.traces && !entries(&traces).is_empty() {
                output::print(&format!(
                    "block traces are kept in {}: --traces removes them",
                    traces.display()
                ))?;
            }
        }
        for one in &removed {
            match &one.error {
                None => output::print(&format!("removed {}", one.what))?,
                Some(error) => output::print(&format!("cannot remove {}: {error}", one.what))?,
            }
        }
        Ok(complete)
    }
}

fn kept_archives() -> anyhow::Result<Vec<Reclaimed>> {
    let archives = store::kept(&store::cache_directory()?);
    Ok(archives
        .into_iter()
        .map(|(path, size_bytes)| Reclaimed {
            what: format!("{} ({})", path.display(), units::human_bytes(size_bytes)),
            error: std::fs::remove_file(&path).err().map(|error| error.to_string()),
        })
        .collect())
}

fn aged_images() -> Vec<Reclaimed> {
    let kept = paths::aged_directory().map(|directory| snapshot::kept(&directory));
    kept.into_iter()
        .flatten()
        .map(|(path, size_bytes)| Reclaimed {
            what: format!("aged image {} ({})", path.display(), units::human_bytes(size_bytes)),
            error: snapshot::remove(&path).err(),
        })
        .collect()
}

/// Removes the traces below `directory`, run by run, and the directories that are empty then.
fn stored_traces(directory: &Path) -> Vec<Reclaimed> {
    let mut removed = Vec::new();
    for run in entries(directory) {
        let traces = entries(&run).into_iter();
        let traces = traces.filter(|path| path.extension().is_some_and(|it| it == EXTENSION));
        let (mut count, mut bytes) = (0, 0);
        for path in traces {
            let size_bytes = std::fs::symlink_metadata(&path).map_or(0, |found| found.len());
            match std::fs::remove_file(&path) {
                Ok(()) => (count, bytes) = (count + 1, bytes + size_bytes),
                Err(error) => removed.push(Reclaimed {
                    what: path.display().to_string(),
                    error: Some(error.to_string()),
                }),
            }
        }
        if count > 0 {
            let (traces, size) = (if count == 1 { "trace" } else { "traces" }, bytes);
            let what = format!(
                "{count} {traces} in {} ({}, {size} bytes)",
                run.display(),
                units::human_bytes(size)
            );
            removed.push(Reclaimed { what, error: None });
        }
        // What else is there is another's.
        let _ = std::fs::remove_dir(&run);
    }
    let _ = std::fs::remove_dir(directory);
    removed
}

/// What lies in a directory; nothing where it is none, or a symbolic link.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let is_directory = std::fs::symlink_metadata(directory).is_ok_and(|found| found.is_dir());
    let found = is_directory.then(|| std::fs::read_dir(directory).ok()).flatten();
    let mut paths: Vec<PathBuf> =
        found.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
