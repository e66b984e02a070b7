//! What came of power cuts, as text and as JSON.

use fsdyno_durability::cut::DiskRules;
use fsdyno_durability::history::{Deed, FileId, History, Names};
use fsdyno_durability::oracle::Broken;
use fsdyno_durability::replay::BrokenCut;
use fsdyno_lab::emulator::write_log::Entry;
use fsdyno_model::target::join_mkfs;
use fsdyno_model::units;
use fsdyno_model::words::counted;
use fsdyno_report::list;
use serde_json::{Value, json};

use super::Tried;
use crate::cmd::output;

/// Calls on a file that are told before a broken promise.
const CALLS_TOLD: usize = 12;

/// Where else the figures are.
pub(super) const BESIDE: &str = "
Kept in the results database: runs of the same target on this kernel show it beside speed (fsdyno show).
";

/// The table, and for each target the first promise that it broke.
pub(super) fn page(tried: &[Tried], rules: DiskRules, promises: &[&str]) -> String {
    let row = |one: &Tried| {
        let about = &one.recording.about;
        vec![
            about.target.clone(),
            counted(about.operations(), "call"),
            format!("{:.0}", per_minute(one)),
            verdict(one),
        ]
    };
    let rows: Vec<Vec<String>> = tried.iter().map(row).collect();
    let head = ["TARGET", "RECORDED", "CUTS/MIN", "PROMISES"];
    let mut text = list::columns(&head, &rows, output::table_options().width);
    let disk = if rules.ignores_flushes { "a disk that ignores flushes" } else { "a disk" };
    let workload = tried.first().map_or("", |one| &one.recording.about.workload);
    text.push_str(&format!(
        "\nPower failed under the workload {workload}, on {disk} with blocks of {} and a cache of {}.\n",
        units::exact_bytes(rules.block_bytes),
        units::exact_bytes(rules.cache_bytes)
    ));
    for one in tried {
        if let Some(first) = one.outcome.broken.first() {
            text.push_str(&finding(one, first, rules, promises));
        } else if let Some(kept) = &one.kept_in {
            let again = format!("\nkept in {}\n", kept.display());
            text.push_str(&again);
        }
    }
    text
}

fn per_minute(one: &Tried) -> f64 {
    one.outcome.cuts as f64 / one.elapsed.as_secs_f64().max(1e-3) * 60.0
}

fn verdict(one: &Tried) -> String {
    let (kept, cuts) = (one.outcome.kept, one.outcome.cuts);
    match one.outcome.broken.first().and_then(|first| first.broken.first()) {
        None => format!("kept all promises in {kept} of {cuts} power cuts"),
        Some(first) => format!(
            "broke promises in {} of {cuts} power cuts, first: {}",
            cuts - kept,
            first.promise.words()
        ),
    }
}

/// The first broken promise with what led to it.
fn finding(one: &Tried, found: &BrokenCut, rules: DiskRules, promises: &[&str]) -> String {
    let about = &one.recording.about;
    let mut text = format!(
        "\n{}: cut {}, after entry {} of {} in the log; {}\n",
        about.target,
        found.cut.number,
        found.cut.at,
        about.range.1,
        found.cut.kept.words()
    );
    for broken in found.broken.iter().take(3) {
        text.push_str(&format!("  broken: {}: {}\n", broken.promise.words(), broken.what));
    }
    if let (Some(worker), Some(first)) = (found.worker, found.broken.first())
        && let Some(history) = about.histories.get(worker)
    {
        text.push_str(&calls(history, first, found.cut.at));
    }
    if let Some(again) = again(one, found, rules, promises) {
        text.push_str(&format!("  again: {again}\n"));
    }
    text
}

/// The command that shows a finding again; `None` where its recording was not kept.
pub(super) fn again(
    one: &Tried,
    found: &BrokenCut,
    rules: DiskRules,
    promises: &[&str],
) -> Option<String> {
    let kept = one.kept_in.as_ref()?;
    let mut words = vec!["fsdyno".to_owned(), "durability".to_owned()];
    words.extend(["--replay".to_owned(), kept.display().to_string()]);
    words.extend(["--only".to_owned(), found.cut.number.to_string()]);
    words.extend(["--block".to_owned(), units::exact_bytes(rules.block_bytes)]);
    words.extend(["--cache".to_owned(), units::exact_bytes(rules.cache_bytes)]);
    words.extend(rules.ignores_flushes.then(|| "--ignore-flushes".to_owned()));
    words.extend(promises.iter().map(|word| (*word).to_owned()));
    Some(join_mkfs(&words))
}

/// The call that made a promise, with the moment at which it was acknowledged.
pub(super) fn promising_call(history: &History, broken: &Broken) -> Option<String> {
    let number = broken.operation?;
    let promise = history.operations.get((number as usize).checked_sub(1)?)?;
    Some(format!("call {number}: {}, acknowledged at entry {}", promise.deed, promise.ended))
}

/// The promise and the calls on its file around it.
fn calls(history: &History, broken: &Broken, cut: u64) -> String {
    let mut text = String::new();
    if let Some(call) = promising_call(history, broken) {
        text.push_str(&format!("  promised by {call}\n"));
    }
    let files = files_in(&broken.what);
    let mut names = Names::new();
    let mut lines = Vec::new();
    for (number, operation) in (1..).zip(&history.operations) {
        if operation.began >= cut {
            break;
        }
        let before = files_of(&operation.deed, &names);
        operation.deed.apply(&mut names);
        let after = files_of(&operation.deed, &names);
        let is_promise = broken.operation == Some(number);
        if is_promise || before.iter().chain(&after).any(|file| files.contains(file)) {
            let state = if operation.ended <= cut { "" } else { " (under way)" };
            lines.push(format!("    call {number}: {}{state}\n", operation.deed));
        }
    }
    if !lines.is_empty() {
        let skipped = lines.len().saturating_sub(CALLS_TOLD);
        text.push_str("  what was done to it:\n");
        if skipped > 0 {
            text.push_str(&format!("    ({} before)\n", counted(skipped, "call")));
        }
        text.extend(lines.into_iter().skip(skipped));
    }
    text
}

/// The files that a sentence names.
fn files_in(text: &str) -> Vec<FileId> {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == "file");
    pairs.filter_map(|pair| pair[1].parse().ok()).collect()
}

/// The files that a call is about, by the names at that time.
fn files_of(deed: &Deed, names: &Names) -> Vec<FileId> {
    let by_name = |name: &String| names.get(name).copied();
    match deed {
        Deed::Create { file, .. }
        | Deed::Write { file, .. }
        | Deed::Truncate { file, .. }
        | Deed::Fsync { file, .. } => vec![*file],
        Deed::Rename { from, to } | Deed::Link { from, to } => {
            [from, to].into_iter().filter_map(by_name).collect()
        }
        Deed::Unlink { name } => by_name(name).into_iter().collect(),
        Deed::SyncDirectory { .. } | Deed::Sync => Vec::new(),
    }
}

/// Everything, for programs.
pub(super) fn json(tried: &[Tried], rules: DiskRules) -> Value {
    let one = |one: &Tried| {
        let about = &one.recording.about;
        let entries = one.recording.log.entries();
        let count = |is: fn(&Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
        json!({
            "target": about.target,
            "filesystem": about.filesystem,
            "mount_options": about.mount_options,
            "mkfs_command": about.mkfs_command,
            "size_bytes": about.size_bytes,
            "disk_model": about.disk_model,
            "kernel": about.kernel,
            "seed": about.seed,
            "workload": about.workload,
            "promises": about.promises,
            "calls": about.operations(),
            "log": {
                "entries": entries.len(),
                "first_cut": about.range.0,
                "last_cut": about.range.1,
                "writes": count(|entry| matches!(entry, Entry::Write { .. })),
                "flushes": count(|entry| matches!(entry, Entry::Flush)),
            },
            "cuts": one.outcome.cuts,
            "kept": one.outcome.kept,
            "broken": one.outcome.broken,
            "elapsed_s": one.elapsed.as_secs_f64(),
            "cuts_per_minute": per_minute(one),
            "recording": one.kept_in,
        })
    };
    json!({ "disk": rules, "targets": tried.iter().map(one).collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_sentences() {
        assert_eq!(files_in("w0a/f3 (file 5) holds at byte 16 bytes of file 7 from"), [5, 7]);
        assert_eq!(files_in("file"), [] as [FileId; 0]);
    }
}
