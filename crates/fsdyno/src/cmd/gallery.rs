//! `fsdyno gallery`: pages of the published comparisons that were run again, from small results stored beside
//! them. What is stored is decided by [`crate::gallery`], how pages look by `report`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fsdyno_model::result::RunResult;
use fsdyno_model::words::counted;
use fsdyno_report::gallery::GalleryFile;

use super::diff::read_document;
use super::output::{self, StoreArgs};
use crate::run::progress::say;
use crate::store::Store;
use crate::{bad_input, gallery};

const AFTER_HELP: &str = "\
Examples:

  fsdyno run --published btrfs-wiki-2007-create --scale day
  fsdyno gallery latest                      store that run, and make all pages
  fsdyno gallery result.json -o pages        from a document that --json wrote, elsewhere
  fsdyno gallery                             make all pages of what is stored
  fsdyno gallery --check                     are they fresh? exit code 1 where not";

/// Arguments of `fsdyno gallery`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Runs of published plans, or files that --json wrote, to be stored in the place of earlier ones of the
    /// same plan
    #[arg(value_name = "RUN|RESULT.json")]
    results: Vec<String>,

    /// Directory of the pages; results are in the directory `results` within it
    #[arg(long, short, value_name = "DIR", default_value = "docs/gallery")]
    output: PathBuf,

    /// Write nothing: say which files are not those that would be made
    #[arg(long, conflicts_with = "results")]
    check: bool,

    #[command(flatten)]
    store: StoreArgs,
}

impl Args {
    /// Does it; the value is false where `--check` found a file that is not fresh.
    ///
    /// # Errors
    /// Bad input; a file that cannot be read or written.
    pub fn execute(self) -> anyhow::Result<bool> {
        for name in &self.results {
            self.keep(name)?;
        }
        let results = self.stored()?;
        let files = gallery::files(&results)?;
        let leftovers = gallery::leftovers(&self.output, &files)?;
        if self.check {
            return self.tell_stale(&files, &leftovers);
        }
        for file in &files {
            write(&self.output.join(&file.name), &file.text)?;
        }
        for name in leftovers {
            let path = self.output.join(name);
            std::fs::remove_file(&path)
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
        let count = results.len();
        output::print(&format!(
            "{}, {} in {}\n",
            counted(count, "result"),
            counted(files.len(), "file"),
            self.output.display()
        ))?;
        Ok(true)
    }

    /// Stores a run or a document.
    fn keep(&self, name: &str) -> anyhow::Result<()> {
        let path = Path::new(name);
        let result = if path.extension().is_some_and(|it| it == "json") || name.contains('/') {
            read_document(path).map_err(|error| bad_input(format!("{error:#}")))?
        } else {
            let store = Store::open_existing(&self.store.path()?)?;
            output::result_of(&store, &store.run(Some(name))?)?
        };
        let (key, result) = gallery::reduced(result)?;
        write(&gallery::path_of(&self.output, &key), &gallery::text_of(&result)?)
    }

    /// The results that are stored, in the order of the plans.
    fn stored(&self) -> anyhow::Result<Vec<RunResult>> {
        let mut results = Vec::new();
        for key in gallery::stored(&self.output)? {
            let path = gallery::path_of(&self.output, &key);
            let result = read_document(&path).map_err(|error| bad_input(format!("{error:#}")))?;
            if result.then_and_now.as_ref().map(gallery::key).as_ref() != Some(&key) {
                return Err(bad_input(format!(
                    "{} is not the result of what it is named after: fsdyno gallery RESULT.json stores one",
                    path.display()
                )));
            }
            results.push(result);
        }
        if results.is_empty() {
            let directory = self.output.join(gallery::RESULTS);
            return Err(bad_input(format!(
                "there is no result of a published plan in {}: fsdyno run --published NAME makes one, fsdyno gallery latest stores it",
                directory.display()
            )));
        }
        Ok(results)
    }

    fn tell_stale(&self, files: &[GalleryFile], leftovers: &[String]) -> anyhow::Result<bool> {
        let mut is_fresh = true;
        for file in files {
            let path = self.output.join(&file.name);
            let text = std::fs::read_to_string(&path).ok();
            if text.as_ref() != Some(&file.text) {
                let state = if text.is_none() { "missing" } else { "stale" };
                say(&format!("{} is {state}: fsdyno gallery makes it", path.display()));
                is_fresh = false;
            }
        }
        for name in leftovers {
            let path = self.output.join(name);
            say(&format!("{} is of no stored result: fsdyno gallery removes it", path.display()));
            is_fresh = false;
        }
        Ok(is_fresh)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make the directory {}", parent.display()))?;
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
