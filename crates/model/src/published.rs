//! Comparisons that others published, as plans: their protocol, their figures as printed, and what differs
//! when they are run again. What then and now amount to is left to the analysis.
//!
//! The form is that of a plan with three additions: a table `published`, which names the machines that it was
//! measured on; `at.SCALE` in `[plan]`, `[published]` and a workload, which overrides for that scale what
//! stands beside it, and `virtual.SCALE`, which does so again in virtual time; and targets whose filesystem the catalogue does not have, which are left out.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::diagnostic::Diagnostic;
use crate::info::Names;
use crate::metric::Better;
use crate::place::Clock;
use crate::plan::Plan;
use crate::target::{DeviceSpec, Ground};
use crate::words::listed;

/// How much of the original is repeated.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Seconds for each trial: whether it works.
    Smoke,
    /// A few hours on a laptop.
    #[default]
    Day,
    /// The published sizes.
    Full,
}

impl Scale {
    /// All of them, the least first.
    pub const ALL: [Scale; 3] = [Scale::Smoke, Scale::Day, Scale::Full];

    /// As users write it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Scale::Smoke => "smoke",
            Scale::Day => "day",
            Scale::Full => "full",
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A publication and how its protocol is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Name of the plan; not written in its text.
    #[serde(default)]
    pub name: String,
    /// How much of the original this plan repeats; not written in its text.
    #[serde(default)]
    pub scale: Scale,
    /// What was published and where, in a sentence.
    pub source: String,
    /// When it was measured.
    pub year: u16,
    /// The kernel that it was measured on.
    pub kernel: String,
    /// The machine that it was measured on.
    pub hardware: String,
    /// The machines that stand for those that it was measured on; where this is a plan of one of them, that
    /// one alone, and none where it runs on other disks.
    #[serde(default, rename = "machine")]
    pub machines: Vec<Machine>,
    /// What is not as it was, and why: a sentence each.
    #[serde(default)]
    pub differences: Vec<String>,
    /// What the author missed or left open, and where the answer is looked for now: a sentence each.
    #[serde(default)]
    pub missed: Vec<String>,
    /// The figures, in the order in which they were printed.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// What stands for a machine that was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// What it is called where there are several.
    #[serde(default)]
    pub name: String,
    /// Model of its disk.
    pub disk: String,
    /// Model of the disk that journals and logs of their own lie on; null: as `disk`.
    #[serde(default)]
    pub journal_disk: Option<String>,
    /// Most that a phase wrote then, in MiB.
    pub data_mib: u64,
    /// Its memory, in MiB.
    pub memory_mib: u64,
    /// Where the publication does not tell its memory: what is assumed, and why.
    #[serde(default)]
    pub memory_assumed: Option<String>,
}

/// In the place of a phase: all phases of the workload, whose values are added.
pub const WHOLE: &str = "whole";

/// A row of a published table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What was done, as the publication calls it.
    pub operation: String,
    /// Label of the workload that does it again; may be left out where the plan has one workload.
    #[serde(default)]
    pub workload: Option<String>,
    /// Its phase, or [`WHOLE`]; null where none does it again, and `missing` says why.
    #[serde(default)]
    pub phase: Option<String>,
    /// Name of the metric that is compared; null: the one that tables show for the phase.
    #[serde(default)]
    pub metric: Option<String>,
    /// Unit of the cells: `MB/s`, `KiB/s`, `/s`, `s` or `rank`.
    pub unit: String,
    /// How much was done, where the cells are times and other scales do less.
    #[serde(default)]
    pub amount: Option<Amount>,
    /// Why no phase does it again.
    #[serde(default)]
    pub missing: Option<String>,
    /// What was printed for each target, by its label: a number, a time (`12m26s`, `1:44`) or `N/A`.
    pub cells: BTreeMap<String, String>,
}

/// How much work a published time is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// Parameter of the workload that says how much is done.
    pub parameter: String,
    /// Its value in the publication.
    pub published: u64,
}

impl Figure {
    /// Which way is better.
    #[must_use]
    pub fn better(&self) -> Better {
        match self.unit.as_str() {
            "s" | "rank" => Better::Lower,
            _ => Better::Higher,
        }
    }

    /// What was printed for `target` as a number in [`Figure::unit`]; `None` where nothing was, and where it
    /// is no number.
    #[must_use]
    pub fn value(&self, target: &str) -> Option<f64> {
        parse_cell(self.cells.get(target)?)
    }

    /// What a figure in `unit` of ours has to be multiplied by to be in the unit of the publication;
    /// `None` where they do not measure the same.
    #[must_use]
    pub fn conversion(&self, unit: &str) -> Option<f64> {
        match (unit, self.unit.as_str()) {
            ("MiB/s", "MB/s") => Some(1.048_576),
            ("MiB/s", "KiB/s") => Some(1024.0),
            ("s" | "s/tree", "s")
            | ("op/s" | "req/s" | "tx/s" | "files/s" | "seeks/s" | "task/s", "/s") => Some(1.0),
            (_, "rank") => Some(1.0),
            _ => None,
        }
    }
}

/// `28.77`, `1m49.83s`, `48s` or `1:44` (minutes, seconds) as a number; times in seconds.
fn parse_cell(text: &str) -> Option<f64> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
    if let Some((minutes, seconds)) = text.split_once(':') {
        return Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?);
    }
    let Some(time) = text.strip_suffix('s') else {
        return number(text);
    };
    match time.split_once('m') {
        Some((minutes, seconds)) => Some(number(minutes)? * 60.0 + seconds.parse::<f64>().ok()?),
        None => number(time),
    }
}

/// A quotient of data and memory that differs by more than this factor from another is another regime.
const SAME_REGIME: f64 = 1.5;

impl Published {
    /// Most that a phase wrote by the memory of its machine; `None` where no machine is named.
    #[must_use]
    pub fn data_per_memory(&self) -> Option<f64> {
        let machine = self.machines.first()?;
        Some(machine.data_mib as f64 / machine.memory_mib.max(1) as f64)
    }

    /// Whether `quotient` of data and memory is that of then, as far as caches are concerned.
    #[must_use]
    pub fn is_regime(&self, quotient: f64) -> Option<bool> {
        let then = self.data_per_memory()?;
        Some((quotient / then).max(then / quotient) <= SAME_REGIME)
    }
}

/// Puts the targets of a plan on the disk of `machine`; those that name a device keep it.
pub fn put_on(plan: &mut Plan, machine: &Machine) {
    let emulated = |device: &mut DeviceSpec, model: &str| {
        if let DeviceSpec::LoopImage { size_bytes } = *device {
            *device = DeviceSpec::Emulated { model: model.to_owned(), size_bytes };
        }
    };
    for target in &mut plan.targets {
        if let Ground::Fresh(fresh) = &mut target.ground {
            emulated(&mut fresh.device, &machine.disk);
            let journal_disk = machine.journal_disk.as_ref().unwrap_or(&machine.disk);
            fresh.journal.iter_mut().for_each(|journal| emulated(journal, journal_disk));
        }
    }
    if let Some(published) = &mut plan.published {
        published.machines = vec![machine.clone()];
    }
}

/// Reads a published plan at a scale, for this machine or, by `clock`, for guests in virtual time. Errors are
/// of the text after overriding, so that they name no line.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse(
    text: &str,
    name: &str,
    scale: Scale,
    clock: Clock,
    names: &Names<'_>,
) -> Result<Plan, String> {
    let mut root: Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
    for key in ["plan", "workload", "published"] {
        for table in tables(&mut root, key) {
            override_for(table, "at", scale, true);
            override_for(table, "virtual", scale, clock == Clock::Virtual);
        }
    }
    if clock == Clock::Virtual {
        // Another trial would do other work, and the same one the same to the bit.
        for table in tables(&mut root, "plan") {
            table.insert("where".to_owned(), Value::from("guest"));
            table.insert("clock".to_owned(), Value::from("virtual"));
            table.insert("trials".to_owned(), Value::from(1));
            // Guests have a size.
            table.remove("memory_limit");
        }
    }
    let published = root.remove("published").ok_or_else(|| format!("{name}: no [published]"))?;
    let mut published: Published =
        published.try_into().map_err(|error| format!("{name}: [published]: {error}"))?;
    published.name = name.to_owned();
    published.scale = scale;
    published.differences.extend(leave_out_unknown(&mut root, names));
    let text = toml::to_string(&root).map_err(|error| format!("{name}: {error}"))?;
    let said = |all: Vec<Diagnostic>| {
        let all: Vec<String> = all.into_iter().map(|it| it.message).collect();
        format!("{name}: {}", all.join("; "))
    };
    let plan = Plan::parse(&text, names).map_err(said)?;
    Ok(Plan { published: Some(published), ..plan })
}

/// The tables under `key`, one or several.
fn tables<'a>(root: &'a mut Table, key: &str) -> impl Iterator<Item = &'a mut Table> {
    let tables: Vec<&mut Table> = match root.get_mut(key) {
        Some(Value::Table(table)) => vec![table],
        Some(Value::Array(all)) => all.iter_mut().filter_map(Value::as_table_mut).collect(),
        _ => Vec::new(),
    };
    tables.into_iter()
}

/// Takes `key.SCALE` out of a table; where it `counts`, it overrides what stands beside it.
fn override_for(table: &mut Table, key: &str, scale: Scale, counts: bool) {
    let Some(Value::Table(mut scales)) = table.remove(key) else { return };
    if let (Some(Value::Table(own)), true) = (scales.remove(scale.word()), counts) {
        table.extend(own);
    }
}

/// Takes out the targets that the catalogue does not know; says which.
fn leave_out_unknown(root: &mut Table, names: &Names<'_>) -> Option<String> {
    let all = root.get_mut("target")?.as_array_mut()?;
    let mut left_out = Vec::new();
    all.retain(|target| {
        let filesystem = target.get("filesystem").and_then(Value::as_str);
        let is_known = filesystem.is_none_or(|name| names.filesystem(name).is_ok());
        if !is_known {
            let label = target.get("label").and_then(Value::as_str).or(filesystem);
            left_out.extend(label.map(str::to_owned));
        }
        is_known
    });
    let left_out: Vec<&str> = left_out.iter().map(String::as_str).collect();
    (!left_out.is_empty()).then(|| format!("Left out: {}.", listed(&left_out)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_as_they_were_printed() {
        for (text, expected) in [
            ("28.77", Some(28.77)),
            ("1m49.83s", Some(109.83)),
            ("204m22s", Some(12262.0)),
            ("48s", Some(48.0)),
            ("1:44", Some(104.0)),
            ("N/A", None),
            ("", None),
            ("s", None),
            ("xms", None),
            ("0", None),
            ("inf", None),
        ] {
            assert_eq!(parse_cell(text), expected, "{text}");
        }
    }

    #[test]
    fn a_scale_overrides_what_stands_beside_it() {
        let mut table: Table = "a = 1\nb = 2\nat.smoke = { b = 3, c = 4 }".parse().unwrap();
        let mut other = table.clone();
        override_for(&mut table, "at", Scale::Smoke, true);
        assert_eq!(table, "a = 1\nb = 3\nc = 4".parse().unwrap());
        override_for(&mut other.clone(), "at", Scale::Smoke, false);
        override_for(&mut other, "at", Scale::Full, true);
        assert_eq!(other, "a = 1\nb = 2".parse().unwrap());
    }
}
