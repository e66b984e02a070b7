//! Parameters of a workload: their definition, and values checked against it.
//!
//! A parameter has the same name on the command line (`--workload compilebench:trees=10`) and in a
//! plan (`trees = 10`). Every value arrives as text and is checked here once; the measured region
//! only ever sees [`Params`].

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units;

/// What values a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number within the bounds, both included.
    Count {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// A size in bytes within the bounds, both included; written with a unit if wanted.
    Bytes {
        /// Least value in bytes.
        min: u64,
        /// Greatest value in bytes.
        max: u64,
    },
    /// `true` or `false`.
    Flag,
    /// One of a list of words.
    Choice(&'static [&'static str]),
    /// Free text, which [`ParamDef::check`] may restrict.
    Text,
    /// A time span with its unit, such as `30s`; kept as text.
    Duration,
    /// A path, or the word that is the default, or [`SHIPPED`] and the name of a file of the program's.
    Path,
}

/// What a [`ParamKind::Path`] begins with that names a file which is part of the program.
pub const SHIPPED: &str = "shipped:";

/// A check of a text value; the error says what is wrong and what to try.
pub type Check = fn(&str) -> Result<(), String>;

/// Definition of one parameter.
#[derive(Debug, Clone, Copy)]
pub struct ParamDef {
    /// Name, snake_case; never renamed, because it is a key in stored results.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
    /// Value when not given, as a user would write it.
    pub default: &'static str,
    /// Value under `--quick` when not given; `None`: the same as the default.
    pub quick: Option<&'static str>,
    /// One sentence for `fsdyno list workloads`.
    pub doc: &'static str,
    /// Further check of a [`ParamKind::Text`] value.
    pub check: Option<Check>,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParamValue {
    /// A flag.
    Flag(bool),
    /// A count, or a size in bytes.
    Number(u64),
    /// A choice or free text.
    Text(String),
}

impl std::fmt::Display for ParamValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParamValue::Flag(flag) => write!(f, "{flag}"),
            ParamValue::Number(number) => write!(f, "{number}"),
            ParamValue::Text(text) => f.write_str(text),
        }
    }
}

/// All parameters of one workload, defaults filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Params(BTreeMap<String, ParamValue>);

impl ParamDef {
    /// Checks `text` against this definition.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it and what is accepted; it begins with the name.
    pub fn parse(&self, text: &str) -> Result<ParamValue, String> {
        let text = text.trim();
        let within = |value: u64, min: u64, max: u64, show: fn(u64) -> String| {
            if (min..=max).contains(&value) {
                Ok(ParamValue::Number(value))
            } else {
                if max == u64::MAX {
                    return Err(format!(
                        "{} must be at least {}, not {text}",
                        self.name,
                        show(min)
                    ));
                }
                let (min, max) = (show(min), show(max));
                Err(format!("{} must lie between {min} and {max}, not {text}", self.name))
            }
        };
        match self.kind {
            ParamKind::Count { min, max } => match text.replace('_', "").parse::<u64>() {
                Ok(value) => within(value, min, max, |n| n.to_string()),
                Err(_) => Err(format!("{} takes a whole number, not `{text}`", self.name)),
            },
            ParamKind::Bytes { min, max } => match units::parse_bytes(text) {
                Ok(value) => within(value, min, max, units::exact_bytes),
                Err(error) => Err(self.named(error.to_string())),
            },
            ParamKind::Flag => match text {
                "true" | "yes" | "on" | "1" => Ok(ParamValue::Flag(true)),
                "false" | "no" | "off" | "0" => Ok(ParamValue::Flag(false)),
                _ => Err(format!("{} is true or false, not `{text}`", self.name)),
            },
            ParamKind::Choice(words) => {
                if words.contains(&text) {
                    Ok(ParamValue::Text(text.to_owned()))
                } else {
                    Err(format!("{} is one of {}, not `{text}`", self.name, words.join(", ")))
                }
            }
            ParamKind::Duration => match units::parse_duration_ns(text) {
                Ok(_) => Ok(ParamValue::Text(text.to_owned())),
                Err(error) => Err(self.named(error.to_string())),
            },
            ParamKind::Text | ParamKind::Path => {
                if let Some(check) = self.check {
                    check(text).map_err(|error| self.named(error))?;
                }
                Ok(ParamValue::Text(text.to_owned()))
            }
        }
    }

    /// `error` with the name of the parameter before it, unless it begins with that.
    fn named(&self, error: String) -> String {
        let after = error.strip_prefix(self.name);
        let is_named = after.is_some_and(|rest| rest.starts_with([' ', ':', '=']));
        if is_named { error } else { format!("{}: {error}", self.name) }
    }

    /// The values it takes, in a few words: `1 … 1000`, `true | false`, `original | corrected`.
    #[must_use]
    pub fn range(&self) -> String {
        match self.kind {
            ParamKind::Count { min, max: u64::MAX } => format!("≥ {min}"),
            ParamKind::Count { min, max } => format!("{min} … {max}"),
            ParamKind::Bytes { min, max } => {
                format!("{} … {}", units::exact_bytes(min), units::exact_bytes(max))
            }
            ParamKind::Flag => "true | false".to_owned(),
            ParamKind::Choice(words) => words.join(" | "),
            ParamKind::Text => "text".to_owned(),
            ParamKind::Duration => "duration".to_owned(),
            ParamKind::Path => "path".to_owned(),
        }
    }
}

impl Params {
    /// The defaults of `definitions`, with those of `--quick` when `quick`.
    #[must_use]
    pub fn defaults(definitions: &[ParamDef], quick: bool) -> Params {
        let value = |def: &ParamDef| {
            let text = def.quick.filter(|_| quick).unwrap_or(def.default);
            // A catalogue test parses every default, so a wrong one cannot ship.
            def.parse(text).unwrap_or_else(|_| ParamValue::Text(text.to_owned()))
        };
        Params(definitions.iter().map(|def| (def.name.to_owned(), value(def))).collect())
    }

    /// Sets one parameter from text.
    ///
    /// # Errors
    /// A sentence: the parameter is not known (with the nearest name) or its value is refused.
    pub fn set(&mut self, defs: &[ParamDef], name: &str, text: &str) -> Result<(), String> {
        let Some(def) = defs.iter().find(|def| def.name == name) else {
            let known: Vec<&str> = defs.iter().map(|def| def.name).collect();
            return Err(unknown("parameter", name, &known));
        };
        self.0.insert(name.to_owned(), def.parse(text)?);
        Ok(())
    }

    /// Makes relative paths absolute, so that the values mean the same from any directory.
    pub fn resolve_paths(&mut self, defs: &[ParamDef], current_directory: &Path) {
        for def in defs.iter().filter(|def| def.kind == ParamKind::Path) {
            if let Some(ParamValue::Text(text)) = self.0.get_mut(def.name)
                && text != def.default
                && !text.starts_with(SHIPPED)
            {
                *text = current_directory.join(text.as_str()).to_string_lossy().into_owned();
            }
        }
    }

    /// Every name with its value, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Whether there is a parameter called `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A count or a size.
    ///
    /// # Panics
    /// When the catalogue does not define such a number: a bug, which the catalogue test finds.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(ParamValue::Number(number)) => *number,
            other => panic!("parameter {name} is not a number but {other:?}"),
        }
    }

    /// A flag.
    ///
    /// # Panics
    /// When the catalogue does not define such a flag: a bug, which the catalogue test finds.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(ParamValue::Flag(flag)) => *flag,
            other => panic!("parameter {name} is not a flag but {other:?}"),
        }
    }

    /// A choice or a text.
    ///
    /// # Panics
    /// When the catalogue does not define such a text: a bug, which the catalogue test finds.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(ParamValue::Text(text)) => text,
            other => panic!("parameter {name} is not a text but {other:?}"),
        }
    }

    /// The definitions that these values do not satisfy: values that came from another version of
    /// the program, through a stored plan or a spec.
    ///
    /// # Errors
    /// A sentence for the first parameter that is missing, unknown or of the wrong type.
    pub fn conform(&self, defs: &[ParamDef]) -> Result<(), String> {
        for def in defs {
            let Some(value) = self.0.get(def.name) else {
                return Err(format!("parameter {} is missing", def.name));
            };
            if def.parse(&value.to_string())? != *value {
                return Err(format!("parameter {} has a value of the wrong type", def.name));
            }
        }
        match self.0.keys().find(|name| !defs.iter().any(|def| def.name == name.as_str())) {
            Some(name) => Err(format!("there is no parameter {name}")),
            None => Ok(()),
        }
    }
}

/// "there is no …, did you mean …?" for a name that is not among `known`.
#[must_use]
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, candidate)) => format!("there is no {what} `{name}`; did you mean `{candidate}`?"),
        None => format!("there is no {what} `{name}`; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFS: &[ParamDef] = &[
        ParamDef {
            name: "trees",
            kind: ParamKind::Count { min: 1, max: 1000 },
            default: "10",
            quick: Some("2"),
            doc: "number of trees",
            check: None,
        },
        ParamDef {
            name: "buffer",
            kind: ParamKind::Bytes { min: 512, max: 1 << 30 },
            default: "256KiB",
            quick: None,
            doc: "bytes per write",
            check: None,
        },
        ParamDef {
            name: "mode",
            kind: ParamKind::Choice(&["original", "corrected"]),
            default: "corrected",
            quick: None,
            doc: "whose arithmetic",
            check: None,
        },
        ParamDef {
            name: "seed",
            kind: ParamKind::Text,
            default: "1",
            quick: None,
            doc: "",
            check: Some(|text| digits(text, "seed is a number")),
        },
        ParamDef {
            name: "path",
            kind: ParamKind::Text,
            default: "1",
            quick: None,
            doc: "",
            check: Some(|text| digits(text, "none of that")),
        },
    ];

    fn digits(text: &str, error: &str) -> Result<(), String> {
        text.parse::<u64>().map(drop).map_err(|_| error.to_owned())
    }

    #[test]
    fn defaults_and_quick() {
        assert_eq!(Params::defaults(DEFS, false).number("trees"), 10);
        assert_eq!(Params::defaults(DEFS, true).number("trees"), 2);
        assert_eq!(Params::defaults(DEFS, true).number("buffer"), 256 << 10);
        assert_eq!(Params::defaults(DEFS, false).conform(DEFS), Ok(()));
    }

    #[test]
    fn wrong_values_say_what_is_accepted() {
        let mut params = Params::defaults(DEFS, false);
        for (name, text, words) in [
            ("trees", "0", "between 1 and 1000"),
            ("trees", "ten", "whole number"),
            ("buffer", "1", "between 512 and 1GiB"),
            ("buffer", "abc", "buffer: `abc`"),
            ("seed", "none", "seed is a number"),
            ("path", "none", "path: none of"),
            ("mode", "classic", "original, corrected"),
            ("tree", "3", "did you mean `trees`"),
        ] {
            let error = params.set(DEFS, name, text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
