//! Power cuts of the targets of a run that measures speed: `--durability` of other verbs.

use clap::{Args as _, Command, FromArgMatches as _};
use fsdyno_durability::promises;
use fsdyno_model::plan::Plan;
use fsdyno_model::power_cuts::stripped;
use fsdyno_model::words::listed;
use fsdyno_sys::process;

use super::{Args, is_kept, text};
use crate::bad_input;
use crate::run::progress::say;

/// The targets of `plan` under which power can be cut, as they are written; those alike once.
fn targets(plan: &Plan) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for target in plan.targets.iter().filter_map(stripped) {
        let text = target.unlabelled();
        if promises::no_promise(target.filesystem()).is_none() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// Looks whether power can be cut under targets of `plan`, before anything is measured.
///
/// # Errors
/// Bad input: what is against it.
pub(in crate::cmd) fn check(plan: &Plan) -> anyhow::Result<()> {
    if plan.place.is_guest() {
        return Err(bad_input(format!(
            "--durability cuts power under this machine's kernel, and guests have their own: leave --in {} out",
            plan.place.kind.word()
        )));
    }
    if !process::may_mount() {
        return Err(bad_input("--durability needs root, to mount what power cuts leave"));
    }
    if targets(plan).is_empty() {
        return Err(bad_input(
            "--durability: none of the targets is a filesystem with a journal or log that is made on one device",
        ));
    }
    let left_out: Vec<&str> = (plan.targets.iter())
        .filter(|target| {
            let is_cut = |it: fsdyno_model::target::TargetSpec| {
                promises::no_promise(it.filesystem()).is_none()
            };
            !stripped(target).is_some_and(is_cut)
        })
        .map(|target| target.label.as_str())
        .collect();
    if !left_out.is_empty() {
        say(&format!("--durability: power is not cut under {}", listed(&left_out)));
    }
    Ok(())
}

/// Makes `cuts` power cuts of each target of `plan` and stores what came of them in `database`; false when a
/// promise was broken.
///
/// # Errors
/// As [`Args::execute`].
pub(in crate::cmd) fn cut(
    plan: &Plan,
    cuts: u64,
    quiet: bool,
    database: &std::path::Path,
) -> anyhow::Result<bool> {
    if process::interrupted() {
        return Ok(true);
    }
    let mut words = vec!["durability".to_owned(), "--cuts".to_owned(), cuts.to_string()];
    words.extend(["--db".to_owned(), database.display().to_string()]);
    if let Some(directory) = &plan.directory {
        words.extend(["--dir".to_owned(), directory.display().to_string()]);
    }
    words.extend(quiet.then(|| "--quiet".to_owned()));
    words.extend(targets(plan));
    // As if it had been typed, with the defaults of the verb.
    let matches = Args::augment_args(Command::new("durability")).try_get_matches_from(words)?;
    let args = Args::from_arg_matches(&matches)?;
    let (tried, _) = args.make()?;
    let is_kept = is_kept(&tried);
    if !quiet && !is_kept {
        say(&text::page(&tried, args.rules(), &[]));
    }
    Ok(is_kept)
}
