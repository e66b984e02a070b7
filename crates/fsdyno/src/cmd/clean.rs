//! `fsdyno clean`: removes what killed runs left behind, archives that workloads keep where that is
//! asked for, and nothing else.

use fsdyno_lab::reclaim::{self, Reclaimed};
use fsdyno_model::units;
use fsdyno_workload::web_cache::store;

use super::output;
use crate::paths;

/// Arguments of `fsdyno clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also remove the archives that workloads made and keep for the next run
    #[arg(long)]
    cache: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it; false when something could not be removed.
    ///
    /// # Errors
    /// Those of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let mut removed = reclaim::reclaim(&paths::state_directory()?);
        if self.cache {
            removed.extend(kept_archives()?);
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
