//! A plan as the TOML that [`Plan::parse`] reads: what has its default is left out.

use std::fmt::Write as _;

use toml::Value;

use crate::device::DeviceSpec;
use crate::info::Names;
use crate::param::{ParamValue, Params};
use crate::place::{DEFAULT_MEMORY_BYTES, Place};
use crate::plan::{DEFAULT_SEED, DEFAULT_SIZE_BYTES, DEFAULT_TRIAL_TIMEOUT_S, Plan};
use crate::stop::{DEFAULT_MAX_TRIALS, DEFAULT_RESOLUTION_PERMILLE};
use crate::target::{FreshSpec, Ground, TargetSpec};
use crate::trace::TraceMode;
use crate::units;
use crate::workload::WorkloadSpec;

/// Writes `plan` with `head` as a comment above it. `file_of` names the file of a workload that a file of the
/// user's defines. Ladders and what others published have no place in it.
#[must_use]
pub fn write(
    plan: &Plan,
    head: &str,
    names: &Names<'_>,
    file_of: impl Fn(&WorkloadSpec) -> Option<String>,
) -> String {
    let mut text: String = head.lines().map(|line| format!("# {line}\n")).collect();
    text.push_str(&settings(plan));
    plan.targets.iter().for_each(|it| text.push_str(&target(it)));
    for workload in &plan.workloads {
        text.push_str(&workload_table(workload, names, file_of(workload)));
    }
    text
}

fn field(text: &mut String, name: &str, value: impl Into<Value>) {
    let _ = writeln!(text, "{name} = {}", value.into());
}

fn settings(plan: &Plan) -> String {
    let mut text = "[plan]\n".to_owned();
    if let Some(title) = &plan.title {
        field(&mut text, "title", title.as_str());
    }
    match plan.stop {
        None => field(&mut text, "trials", i64::from(plan.trials)),
        Some(rule) => {
            field(&mut text, "trials", "auto");
            if rule.resolution_permille != DEFAULT_RESOLUTION_PERMILLE {
                field(&mut text, "resolution", rule.resolution().replace(' ', ""));
            }
            if plan.trials != DEFAULT_MAX_TRIALS {
                field(&mut text, "max_trials", i64::from(plan.trials));
            }
        }
    }
    if plan.seed != DEFAULT_SEED {
        field(&mut text, "seed", i64::try_from(plan.seed).unwrap_or(i64::MAX));
    }
    if plan.size_bytes != DEFAULT_SIZE_BYTES {
        field(&mut text, "size", units::exact_bytes(plan.size_bytes));
    }
    if let Some(directory) = &plan.directory {
        field(&mut text, "dir", directory.display().to_string());
    }
    if let Some(seconds) = plan.max_time_s {
        field(&mut text, "max_time", format!("{seconds}s"));
    }
    if plan.trial_timeout_s != DEFAULT_TRIAL_TIMEOUT_S {
        field(&mut text, "trial_timeout", format!("{}s", plan.trial_timeout_s));
    }
    if let Some(seconds) = plan.phase_timeout_s {
        field(&mut text, "phase_timeout", format!("{seconds}s"));
    }
    if plan.trace != TraceMode::Explain {
        field(&mut text, "trace", plan.trace.word());
    }
    // Virtual time leaves it out by itself.
    if !plan.yardstick && !plan.place.is_virtual() {
        field(&mut text, "yardstick", false);
    }
    place(&mut text, &plan.place);
    text
}

fn place(text: &mut String, place: &Place) {
    if let Some(bytes) = place.memory_limit_bytes {
        field(text, "memory_limit", units::exact_bytes(bytes));
    }
    if !place.is_guest() {
        return;
    }
    field(text, "where", place.kind.word());
    if place.is_virtual() {
        field(text, "clock", "virtual");
        field(text, "shift", i64::from(place.shift));
    }
    if let Some(kernel) = &place.kernel {
        field(text, "kernel", kernel.to_string());
    }
    if let Some(accelerator) = place.accelerator {
        field(text, "accelerator", accelerator.word());
    }
    if place.memory_bytes != DEFAULT_MEMORY_BYTES {
        field(text, "memory", units::exact_bytes(place.memory_bytes));
    }
    if !place.saved_state {
        field(text, "saved_state", false);
    }
}

fn target(target: &TargetSpec) -> String {
    let mut text = "\n[[target]]\n".to_owned();
    if target.label != target.unlabelled() {
        field(&mut text, "label", target.label.as_str());
    }
    match &target.ground {
        Ground::Directory { path } => field(&mut text, "directory", path.display().to_string()),
        Ground::Fresh(fresh) => filesystem(&mut text, fresh),
    }
    text
}

fn filesystem(text: &mut String, fresh: &FreshSpec) {
    let image = DeviceSpec::LoopImage { size_bytes: None };
    field(text, "filesystem", fresh.filesystem.as_str());
    if !fresh.mkfs.is_empty() {
        field(text, "mkfs", fresh.mkfs.clone());
    }
    if !fresh.mount.is_empty() {
        field(text, "mount", fresh.mount.as_str());
    }
    if fresh.device != image {
        field(text, "device", fresh.device.to_string());
    }
    if let Some(journal) = &fresh.journal {
        let keyword = if fresh.filesystem == "xfs" { "log" } else { "journal" };
        match *journal == image {
            true => field(text, keyword, true),
            false => field(text, keyword, journal.to_string()),
        }
    }
    if let Some(age) = &fresh.age {
        field(text, "age", age.to_string());
    }
    if let Some(kernel) = &fresh.kernel {
        field(text, "kernel", kernel.to_string());
    }
}

fn workload_table(workload: &WorkloadSpec, names: &Names<'_>, file: Option<String>) -> String {
    let mut text = "\n[[workload]]\n".to_owned();
    let info = match &file {
        Some(path) => names.workload_or_file(path).map(|(info, _)| info),
        None => names.workload(&workload.kind),
    };
    match file {
        Some(path) => field(&mut text, "file", path),
        None => field(&mut text, "kind", workload.kind.as_str()),
    }
    let usual = info.as_ref().map(|info| Params::defaults(info.params, false)).unwrap_or_default();
    let label = info.map(|info| WorkloadSpec::of(info, workload.params.clone()).label);
    if label.as_ref() != Ok(&workload.label) {
        field(&mut text, "label", workload.label.as_str());
    }
    for (name, value) in workload.params.iter() {
        if usual.iter().any(|known| known == (name, value)) {
            continue;
        }
        match value {
            ParamValue::Flag(flag) => field(&mut text, name, *flag),
            // What is more than TOML's whole numbers hold is a text to it.
            ParamValue::Number(number) => match i64::try_from(*number) {
                Ok(number) => field(&mut text, name, number),
                Err(_) => field(&mut text, name, number.to_string()),
            },
            ParamValue::Text(words) => field(&mut text, name, words.as_str()),
        }
    }
    text
}
