//! The gallery: a page for each published comparison that was run again, with its pictures, and an index.
//! Everything is made of result documents and of the published plans, so that anyone can make it again and
//! compare. Reading and storing them is left to the caller.

mod index;
mod page;
mod pictures;

use fsdyno_model::published::Scale;
use fsdyno_model::result::RunResult;
use fsdyno_model::then_and_now::ThenAndNow;

/// Name of the index.
pub const INDEX: &str = "README.md";

/// One published comparison that was run again.
pub struct Entry<'a> {
    /// What its files are called: the name of its plan, with that of the machine where a plan has several.
    pub key: String,
    /// What came out.
    pub result: &'a RunResult,
    /// The part of it that is beside the publication.
    pub then_and_now: &'a ThenAndNow,
    /// What the author missed or left open, a sentence each.
    pub missed: &'a [String],
}

/// A published comparison.
pub struct Known<'a> {
    /// Its name.
    pub name: &'a str,
    /// Title of its plan.
    pub title: &'a str,
}

/// One file of the gallery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GalleryFile {
    /// Its name, within the directory of the gallery.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// All files: the index, a page for each entry, and their pictures. `known` are all published comparisons,
/// in their order; those without an entry are listed as not run.
#[must_use]
pub fn files(known: &[Known<'_>], entries: &[Entry<'_>]) -> Vec<GalleryFile> {
    let mut files = Vec::new();
    let mut told = Vec::new();
    for entry in entries {
        let pictures = pictures::of(entry);
        let name = page_name(&entry.key);
        files.push(GalleryFile { name, text: page::render(entry, &pictures) });
        told.push((entry, pictures.first().map(|picture| picture.file.clone())));
        files.extend(pictures.into_iter().map(|it| GalleryFile { name: it.file, text: it.svg }));
    }
    files.insert(0, GalleryFile { name: INDEX.to_owned(), text: index::render(known, &told) });
    files
}

fn page_name(key: &str) -> String {
    format!("{key}.md")
}

/// Words as a part of a file's name: `16 KiB` as `16-kib`.
#[must_use]
pub fn slug(words: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = words.chars().map(plain).collect();
    let words: Vec<&str> = words.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// What figures at a scale are good for.
fn worth(scale: Scale) -> &'static str {
    match scale {
        Scale::Smoke => {
            "Scale smoke: seconds for each trial. Its figures show that the plan works; they are no measurement of any filesystem."
        }
        Scale::Day => {
            "Scale day: less was done than was published, so that effects of size and of age are smaller."
        }
        Scale::Full => "Scale full: the published sizes.",
    }
}

/// Where a run was made and by whose clock, in a few words.
fn place(result: &RunResult) -> String {
    let kernel = result.run.environment.kernel_release.as_deref().unwrap_or("not known");
    format!("Linux {kernel}, {}", result.run.environment.measured)
}

/// Trials of each target and workload that completed, least and most: `3`, `1 to 3`.
fn trials(result: &RunResult) -> String {
    let primary = result.summary.iter().filter(|row| row.primary);
    let counts: Vec<u32> = primary.map(|row| row.n).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests;
