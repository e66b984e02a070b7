//! Whether what is there after a power cut is what was promised: a history, the moment of the cut and
//! what was found, turned into the promises that are broken. Nothing is read here.
//!
//! A promise bounds what may be found from below: it must be at least as new as the last call that made it
//! durable and was acknowledged. What had not begun bounds it from above. Between both anything is allowed
//! that was true at some time, and whatever a file holds must be its own.

mod file;
mod timeline;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::found::{FoundFile, FoundTree};
use crate::history::{FileId, History, directory_of};
use crate::promises::Promises;
use timeline::Timeline;

/// Broken promises of one cut that are told; the others are counted.
const MOST_TOLD: usize = 20;

/// Which promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// The filesystem can be mounted without help.
    Mounts,
    /// The check finds no errors after that.
    Consistent,
    /// What is there can be read.
    Readable,
    /// A name that was made durable is there.
    NameKept,
    /// A name that is gone, or was never made, is not there.
    NameGone,
    /// A rename happens whole or not at all.
    RenameAtomic,
    /// Bytes that were made durable are there, or newer ones.
    DataKept,
    /// A length that was made durable is there, or a newer one.
    SizeKept,
    /// A file that replaced another by rename has its contents.
    ReplaceWhole,
    /// No file holds another's data, or none that anybody wrote.
    OwnData,
}

impl Promise {
    /// The promise in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Promise::Mounts => "it can be mounted",
            Promise::Consistent => "the check finds no errors",
            Promise::Readable => "what is there can be read",
            Promise::NameKept => "a durable name stays",
            Promise::NameGone => "a name that is durably gone stays away",
            Promise::RenameAtomic => "a rename is atomic",
            Promise::DataKept => "durable data stay",
            Promise::SizeKept => "a durable length stays",
            Promise::ReplaceWhole => "a file that replaces another is whole",
            Promise::OwnData => "no file holds another's data",
        }
    }
}

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Which.
    pub promise: Promise,
    /// On what, and what was found instead.
    pub what: String,
    /// The operation that made the promise, as a number of its history; null where none did.
    pub operation: Option<u32>,
}

impl Broken {
    /// A broken promise.
    #[must_use]
    pub fn new(promise: Promise, what: impl Into<String>, operation: Option<u32>) -> Broken {
        Broken { promise, what: what.into(), operation }
    }
}

/// What holds for all of a run.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What records are mixed with.
    pub seed: u64,
    /// What the filesystem promises.
    pub promises: Promises,
}

/// The promises of one history that a power cut after `cut` entries of the log has broken, at most 20.
#[must_use]
pub fn judge(history: &History, found: &FoundTree, cut: u64, rules: Rules) -> Vec<Broken> {
    let timeline = Timeline::new(history, cut, rules.promises);
    let mut broken = Vec::new();
    for (directory, why) in &found.lost_directories {
        let what = format!("directory {directory}: {why}");
        broken.push(Broken::new(Promise::NameKept, what, None));
    }
    let mut known: Vec<(&str, FileId)> = Vec::new();
    let mut names: BTreeSet<&str> = timeline.names().collect();
    names.extend(found.files.keys().map(String::as_str));
    for name in names {
        if found.lost_directories.contains_key(directory_of(name)) {
            continue;
        }
        match found.files.get(name) {
            Some(Err(why)) => {
                broken.push(Broken::new(Promise::Readable, format!("{name}: {why}"), None));
            }
            Some(Ok(file)) => match look(&timeline, name, file, rules) {
                Ok(file) => known.push((name, file)),
                Err(one) => broken.push(one),
            },
            None => broken.extend(absent(&timeline, name)),
        }
    }
    if broken.is_empty() {
        broken.extend(names_of_files(&timeline, &known));
    }
    broken.truncate(MOST_TOLD);
    broken
}

/// Which file is found under `name`, where that may be and its contents are in order.
fn look(
    timeline: &Timeline<'_>,
    name: &str,
    found: &FoundFile,
    rules: Rules,
) -> Result<FileId, Broken> {
    let allowed = timeline.allowed(name);
    let mut best: Option<Broken> = None;
    for file in allowed.files.iter().rev().copied() {
        if timeline.inode(file) != Some(found.inode) {
            continue;
        }
        match file::check(timeline, name, file, found, rules) {
            Ok(()) => return Ok(file),
            Err(broken) => best = best.or(Some(broken)),
        }
    }
    Err(best.unwrap_or_else(|| misplaced(timeline, name, found)))
}

/// A name under which no file is that may be there.
fn misplaced(timeline: &Timeline<'_>, name: &str, found: &FoundFile) -> Broken {
    let allowed = timeline.allowed(name);
    let files = timeline.files_of_inode(found.inode);
    let told: Vec<String> = files.iter().map(|file| format!("file {file}")).collect();
    let told =
        if told.is_empty() { "a file that was never made".to_owned() } else { told.join(" or ") };
    let expected: Vec<String> = allowed.files.iter().map(|file| format!("file {file}")).collect();
    if allowed.files.is_empty() {
        let what = format!("{name} is there ({told}, inode {})", found.inode);
        return Broken::new(Promise::NameGone, what, allowed.promised_by);
    }
    let what = format!("{name} is {told}, inode {}, not {}", found.inode, expected.join(" or "));
    Broken::new(Promise::NameKept, what, allowed.promised_by)
}

fn absent(timeline: &Timeline<'_>, name: &str) -> Option<Broken> {
    let allowed = timeline.allowed(name);
    if allowed.may_be_absent {
        return None;
    }
    let promise = if allowed.is_replaced { Promise::RenameAtomic } else { Promise::NameKept };
    let files: Vec<String> = allowed.files.iter().map(|file| format!("file {file}")).collect();
    let what = format!("{name} is gone; it must be {}", files.join(" or "));
    Some(Broken::new(promise, what, allowed.promised_by))
}

/// Promises about several names of one file.
fn names_of_files(timeline: &Timeline<'_>, known: &[(&str, FileId)]) -> Vec<Broken> {
    // That the old name of a renamed file is there, too, is allowed until its directory is synced:
    // rename(2) warns of such a window, and only [`Promise::NameGone`] closes it.
    let mut broken = Vec::new();
    for (file, promised_by) in timeline.must_have_a_name() {
        if !known.iter().any(|(_, other)| *other == file) {
            let what = format!("file {file} has no name left, though it always had one");
            broken.push(Broken::new(Promise::RenameAtomic, what, Some(promised_by)));
        }
    }
    broken
}

#[cfg(test)]
mod tests;
