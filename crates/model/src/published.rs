//! Comparisons that others published, as plans: their protocol, their figures as printed, and what differs
//! when they are run again. What then and now amount to is left to the analysis.
//!
//! The form is that of a plan with three additions: a table `published`; `at.SCALE` in `[plan]` and in a
//! workload, which overrides for that scale what stands beside it; and targets whose filesystem the
//! catalogue does not have, which are left out.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::diagnostic::Diagnostic;
use crate::info::Names;
use crate::metric::Better;
use crate::plan::Plan;
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
    /// What is not as it was, and why: a sentence each.
    #[serde(default)]
    pub differences: Vec<String>,
    /// The figures, in the order in which they were printed.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A row of a published table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What was done, as the publication calls it.
    pub operation: String,
    /// Label of the workload that does it again; may be left out where the plan has one workload.
    #[serde(default)]
    pub workload: Option<String>,
    /// Its phase; null where none does it again, and `missing` says why.
    #[serde(default)]
    pub phase: Option<String>,
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
            ("s" | "s/tree", "s") | ("op/s" | "req/s" | "files/s" | "seeks/s" | "task/s", "/s") => {
                Some(1.0)
            }
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

/// Reads a published plan at a scale. Errors are of the text after overriding, so that they name no line.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse(text: &str, name: &str, scale: Scale, names: &Names<'_>) -> Result<Plan, String> {
    let mut root: Table = text.parse().map_err(|error| format!("{name}: {error}"))?;
    let published = root.remove("published").ok_or_else(|| format!("{name}: no [published]"))?;
    let mut published: Published =
        published.try_into().map_err(|error| format!("{name}: [published]: {error}"))?;
    published.name = name.to_owned();
    published.scale = scale;
    for key in ["plan", "workload"] {
        tables(&mut root, key).for_each(|table| override_for(table, scale));
    }
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

fn override_for(table: &mut Table, scale: Scale) {
    let Some(Value::Table(mut scales)) = table.remove("at") else { return };
    if let Some(Value::Table(own)) = scales.remove(scale.word()) {
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
        override_for(&mut table, Scale::Smoke);
        assert_eq!(table, "a = 1\nb = 3\nc = 4".parse().unwrap());
        override_for(&mut other, Scale::Full);
        assert_eq!(other, "a = 1\nb = 2".parse().unwrap());
    }
}
