//! The results behind the gallery: small documents of runs of published plans, stored beside their pages.
//! How pages look is left to `report`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fsdyno_model::metric;
use fsdyno_model::published::Scale;
use fsdyno_model::record::Role;
use fsdyno_model::result::{PhaseResult, RunResult, TrialResult};
use fsdyno_model::target::{join_mkfs, split_mkfs};
use fsdyno_model::then_and_now::ThenAndNow;
use fsdyno_report::gallery::{self, Entry, GalleryFile, Known};
use serde::Serialize;

use crate::{bad_input, published};

/// Directory of the results, within that of the gallery.
pub const RESULTS: &str = "results";

/// What the files of a result are called.
#[must_use]
pub fn key(it: &ThenAndNow) -> String {
    let machine = it.machine.as_deref().map(gallery::slug).filter(|slug| !slug.is_empty());
    machine.map_or_else(|| it.name.clone(), |machine| format!("{}-{machine}", it.name))
}

/// Options whose values are files and directories of one machine.
const LOCAL: [&str; 3] = ["--db", "--dir", "--json"];

/// Where the result with this key is stored.
#[must_use]
pub fn path_of(directory: &Path, key: &str) -> PathBuf {
    directory.join(RESULTS).join(format!("{key}.json"))
}

/// The keys of the results that are stored, in the order of the plans.
///
/// # Errors
/// When the directory cannot be read.
pub fn stored(directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut keys: Vec<String> = names(&directory.join(RESULTS))?
        .iter()
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .collect();
    let place = |key: &String| published::ALL.iter().rposition(|(plan, _)| key.starts_with(plan));
    keys.sort_by_key(|key| (place(key), key.clone()));
    Ok(keys)
}

/// Names of the files in a directory, sorted; none where there is no such directory.
fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let told = || format!("cannot read {}", directory.display());
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(told),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.with_context(told)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// What is stored of `result`, and its key: the same document without what no page shows and no comparison
/// of two runs needs (histograms, groups of processor time, traces, traced trials, metrics that tables leave
/// out), and without what tells more of the machine than figures depend on (its name, its kernel's command
/// line, files of its user).
///
/// # Errors
/// Bad input: it is no run of a published plan.
pub fn reduced(mut result: RunResult) -> anyhow::Result<(String, RunResult)> {
    let Some(it) = &result.then_and_now else {
        return Err(bad_input(format!(
            "run {} repeats nothing that was published (fsdyno run --published NAME does)",
            result.run.id
        )));
    };
    published::text(&it.name)?;
    let key = key(it);
    result.run.command = portable(&result.run.command);
    let environment = &mut result.run.environment;
    environment.hostname = None;
    environment.kernel_cmdline = None;
    environment.boot_ids.clear();
    for kernel in environment.guest.iter_mut().flat_map(|guest| &mut guest.kernels) {
        let image = Path::new(&kernel.image).file_name();
        kernel.image = image.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    }
    result.trials.retain(|trial| trial.role == Role::Measured);
    result.trials.iter_mut().for_each(reduce_trial);
    result.summary.retain(|row| {
        row.primary || metric::find(&row.metric).is_some_and(|metric| metric.explains)
    });
    Ok((key, result))
}

/// A command line without the options that name files of its user's.
fn portable(command: &str) -> String {
    let Ok(words) = split_mkfs(command) else { return command.to_owned() };
    let mut kept: Vec<String> = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let option = word.split('=').next().unwrap_or_default();
        if LOCAL.contains(&option) {
            // The value is a word of its own.
            if option == word {
                words.next();
            }
        } else {
            kept.push(word);
        }
    }
    join_mkfs(&kept)
}

fn reduce_trial(trial: &mut TrialResult) {
    trial.trace = None;
    trial.phases.iter_mut().for_each(reduce_phase);
}

fn reduce_phase(phase: &mut PhaseResult) {
    phase.latency_ns.clear();
    phase.cpu.groups_ns.clear();
    for sample in &mut phase.samples {
        sample.started_ns = None;
        sample.app_user_ns = None;
        sample.app_system_ns = None;
    }
}

/// A document with a line for each target, workload, trial, row and verdict, so that two versions of it can
/// be compared line by line.
///
/// # Errors
/// Only when a value cannot be written as JSON, which no type of the document holds.
pub fn text_of(result: &RunResult) -> serde_json::Result<String> {
    // Named one by one, so that none is forgotten.
    let RunResult {
        schema_version,
        run,
        targets,
        workloads,
        trials,
        summary,
        verdicts,
        audit,
        then_and_now,
        power_cuts,
    } = result;
    let fields = [
        ("schema_version", serde_json::to_string(schema_version)?),
        ("run", serde_json::to_string(run)?),
        ("targets", lines(targets)?),
        ("workloads", lines(workloads)?),
        ("trials", lines(trials)?),
        ("summary", lines(summary)?),
        ("verdicts", lines(verdicts)?),
        ("audit", serde_json::to_string(audit)?),
        ("then_and_now", serde_json::to_string(then_and_now)?),
        ("power_cuts", lines(power_cuts)?),
    ];
    let fields = fields.map(|(name, value)| format!("\"{name}\":{value}"));
    Ok(format!("{{\n{}\n}}\n", fields.join(",\n")))
}

fn lines<T: Serialize>(all: &[T]) -> serde_json::Result<String> {
    let lines =
        all.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<String>>>()?;
    Ok(format!("[\n{}\n]", lines.join(",\n")))
}

/// The files of the gallery of `results`.
///
/// # Errors
/// None that the published plans of this program have.
pub fn files(results: &[RunResult]) -> anyhow::Result<Vec<GalleryFile>> {
    let plans = published::plans(Scale::default())?;
    let titles: Vec<(&str, String)> = plans
        .iter()
        .map(|(name, plan, _)| (*name, plan.title.clone().unwrap_or_else(|| (*name).to_owned())))
        .collect();
    let known: Vec<Known<'_>> = titles.iter().map(|(name, title)| Known { name, title }).collect();
    let mut entries = Vec::new();
    for (name, _, published) in &plans {
        entries.extend(results.iter().filter_map(|result| {
            let then_and_now = result.then_and_now.as_ref().filter(|it| it.name == *name)?;
            let key = key(then_and_now);
            Some(Entry { key, result, then_and_now, missed: &published.missed })
        }));
    }
    Ok(gallery::files(&known, &entries))
}

/// Pages and pictures in `directory` that belong to a published plan and that `files` does not have.
///
/// # Errors
/// When the directory cannot be read.
pub fn leftovers(directory: &Path, files: &[GalleryFile]) -> anyhow::Result<Vec<String>> {
    let is_ours = |name: &String| {
        published::ALL.iter().any(|(plan, _)| name.starts_with(plan))
            && (name.ends_with(".md") || name.ends_with(".svg"))
    };
    let is_made = |name: &String| files.iter().any(|file| file.name == *name);
    Ok(names(directory)?.into_iter().filter(|name| is_ours(name) && !is_made(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_kept_without_files_of_their_user() {
        for (given, kept) in [
            ("fsdyno run --published x --scale day", "fsdyno run --published x --scale day"),
            (
                "fsdyno run --db 'a b' --published x --dir=/srv -n 3 --json -",
                "fsdyno run --published x -n 3",
            ),
            ("fsdyno run --json", "fsdyno run"),
        ] {
            assert_eq!(portable(given), kept);
        }
    }
}
