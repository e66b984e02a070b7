//! The head of a text: what the workload is called, its documentation and its parameters. Nothing here
//! depends on the value of a parameter.

use std::ops::Range;

use fsdyno_model::cold::Cold;
use fsdyno_model::param::{ParamDef, ParamKind, ParamValue, unknown};
use fsdyno_model::toml_reader::{Value, kind_of, scalar};
use fsdyno_model::units;

use super::fields::{Fields, Reader};
use super::substitution::Scope;
use crate::params;

/// Parameters that every workload of this form has.
const SHARED: [&str; 4] = ["payload", "sync", "cold", "fragmentation"];
const KINDS: &[&str] = &["count", "bytes", "flag", "choice", "text", "path", "duration"];
/// Names that mean something else where a workload is written in a plan.
const RESERVED: [&str; 5] = ["kind", "file", "label", "command", "calibrate"];
/// What `cold` does.
const COLD_DOC: &str = "how the caches are emptied before the phases that start cold";

/// A parameter that the text declares.
pub(super) struct Param {
    pub(super) name: String,
    pub(super) name_span: Range<usize>,
    pub(super) kind: Kind,
    pub(super) default: String,
    pub(super) quick: Option<String>,
    pub(super) doc: String,
}

/// As [`ParamKind`], owned.
pub(super) enum Kind {
    /// A list of words.
    Choice(Vec<String>),
    /// Anything else.
    Plain(ParamKind),
}

/// What a text says of itself.
#[derive(Default)]
pub(super) struct Head {
    pub(super) name: String,
    pub(super) summary: String,
    /// Timed, not timed, models, read it as, caveats.
    pub(super) doc: [String; 5],
    pub(super) params: Vec<Param>,
    /// Names of those whose declaration is wrong.
    pub(super) broken: Vec<String>,
    pub(super) cold_default: Option<Cold>,
}

/// The keys of the five points.
pub(super) const POINTS: [&str; 5] = ["timed", "not_timed", "models", "read_it_as", "caveats"];

impl Head {
    /// The parameters that every workload has, `cold` with the default of this one.
    pub(super) fn shared(&self) -> [ParamDef; 4] {
        let cold = self.cold_default.unwrap_or(Cold::DropCaches);
        [params::PAYLOAD, params::SYNC, params::cold(cold.word(), COLD_DOC), params::FRAGMENTATION]
    }

    /// The values of all parameters when nothing is said.
    pub(super) fn scope(&self, quick: bool) -> Scope {
        let mut scope = Scope::default();
        self.broken.iter().for_each(|name| scope.add_broken(name));
        for def in self.shared() {
            if let Ok(value) = def.parse(def.default) {
                scope.add(def.name, false, &value);
            }
        }
        for param in &self.params {
            let text = param.quick.as_ref().filter(|_| quick).unwrap_or(&param.default);
            if let Ok(value) = param.kind.parse("", text) {
                let is_duration = matches!(param.kind, Kind::Plain(ParamKind::Duration));
                scope.add(&param.name, is_duration, &value);
            }
        }
        scope
    }
}

impl Kind {
    /// Checks a value; `key` begins the error.
    fn parse(&self, key: &'static str, text: &str) -> Result<ParamValue, String> {
        match self {
            Kind::Choice(words) if words.iter().any(|word| word == text) => {
                Ok(ParamValue::Text(text.to_owned()))
            }
            Kind::Choice(words) => {
                Err(format!("{key} is one of {}, not `{text}`", words.join(", ")))
            }
            Kind::Plain(kind) => {
                let kind = *kind;
                let def =
                    ParamDef { name: key, kind, default: "", quick: None, doc: "", check: None };
                def.parse(text)
            }
        }
    }
}

impl Reader<'_> {
    /// Reads the head.
    pub(super) fn head(&mut self, root: &Fields<'_>) -> Head {
        let mut head = Head::default();
        if let Some(value) = self.required(root, "name", "name = \"my-workload\"") {
            head.name = self.name(value).unwrap_or_default();
        }
        if let Some(value) = self.required(root, "summary", "summary = \"one line\"") {
            head.summary = self.line(value);
        }
        for (text, key) in head.doc.iter_mut().zip(POINTS) {
            *text = root.get(key).map_or_else(|| "not told".to_owned(), |value| self.line(value));
        }
        if let Some(value) = root.get("cold_default") {
            let word = self.toml.text(value);
            head.cold_default = word.and_then(|it| self.toml.keep(value.span(), Cold::parse(&it)));
        }
        if let Some(value) = root.get("params") {
            self.params(value, &mut head);
        }
        head
    }

    /// Text that is shown, on one line.
    pub(super) fn line(&mut self, value: &Value<'_>) -> String {
        let text = self.toml.text(value).unwrap_or_default();
        let printable = |c: char| if c.is_control() { ' ' } else { c };
        let text: String = text.chars().map(printable).collect();
        let text = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        if text.is_empty() && value.get_ref().as_str().is_some() {
            self.wrong(value.span(), "nothing is said here");
        }
        text
    }

    fn params(&mut self, value: &Value<'_>, head: &mut Head) {
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value.span(), "write [params.NAME], once for each parameter");
            return;
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let is_snake_case = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            if SHARED.contains(&name) {
                let message = format!("every workload has the parameter `{name}` already");
                self.wrong(key.span(), message);
            } else if RESERVED.contains(&name) {
                let message =
                    format!("`{name}` has a meaning of its own in plans: take another name");
                self.wrong(key.span(), message);
            } else if !is_snake_case || name.len() > 64 {
                let message = "a parameter has a name of lower-case letters, digits and `_`, such \
                               as `file_size`";
                self.wrong(key.span(), message);
            }
            let Some(table) = value.get_ref().as_table() else {
                self.wrong(value.span(), format!("expected a table, found {}", kind_of(value)));
                continue;
            };
            let known = ["kind", "default", "quick", "min", "max", "choices", "doc"];
            let fields = self.fields((key.span(), table), "property of a parameter", &known);
            match self.param(name, &fields) {
                Some(param) => head.params.push(param),
                None => head.broken.push(name.to_owned()),
            }
        }
        head.params.sort_by_key(|param| param.name_span.start);
    }

    fn param(&mut self, name: &str, fields: &Fields<'_>) -> Option<Param> {
        let kind = self.required(fields, "kind", "kind = \"count\"");
        let kind = kind.and_then(|value| self.kind(value, fields));
        let doc = match self.required(fields, "doc", "doc = \"what it is\"") {
            Some(value) => self.line(value),
            None => String::new(),
        };
        let default = self.required(fields, "default", "the value when nothing is said");
        let kind = kind?;
        let default = self.value_of(&kind, "default", default?)?;
        let quick = match fields.get("quick") {
            Some(value) => Some(self.value_of(&kind, "quick", value)?),
            None => None,
        };
        let (name, name_span) = (name.to_owned(), fields.span.clone());
        Some(Param { name, name_span, kind, default, quick, doc })
    }

    /// The text of a default, checked.
    fn value_of(&mut self, kind: &Kind, key: &'static str, value: &Value<'_>) -> Option<String> {
        let Some(text) = scalar(value) else {
            self.wrong(value.span(), format!("expected one value, found {}", kind_of(value)));
            return None;
        };
        self.toml.keep(value.span(), kind.parse(key, &text))?;
        Some(text)
    }

    fn kind(&mut self, value: &Value<'_>, fields: &Fields<'_>) -> Option<Kind> {
        let word = self.toml.text(value)?;
        let is_number = ["count", "bytes"].contains(&word.as_str());
        for key in ["min", "max"] {
            if fields.has(key) && !is_number {
                self.wrong(fields.span_of(key), format!("`{key}` is for kind count or bytes"));
            }
        }
        if fields.has("choices") && word != "choice" {
            self.wrong(fields.span_of("choices"), "`choices` are for kind = \"choice\"");
        }
        Some(match word.as_str() {
            "count" => {
                let (min, max) = self.number_bounds(fields)?;
                Kind::Plain(ParamKind::Count { min, max })
            }
            "bytes" => {
                let (min, max) = self.number_bounds(fields)?;
                Kind::Plain(ParamKind::Bytes { min, max })
            }
            "flag" => Kind::Plain(ParamKind::Flag),
            "choice" => Kind::Choice(self.choices(fields)?),
            "text" => Kind::Plain(ParamKind::Text),
            "path" => Kind::Plain(ParamKind::Path),
            "duration" => Kind::Plain(ParamKind::Duration),
            other => {
                self.wrong(value.span(), unknown("kind of parameter", other, KINDS));
                return None;
            }
        })
    }

    fn choices(&mut self, fields: &Fields<'_>) -> Option<Vec<String>> {
        let value = self.required(fields, "choices", "choices = [\"one\", \"other\"]")?;
        let words = value.get_ref().as_array().filter(|words| !words.is_empty());
        let Some(words) = words else {
            self.wrong(value.span(), "expected a list of words");
            return None;
        };
        words.iter().map(|word| self.toml.text(word)).collect()
    }

    /// `min` and `max` of a parameter that is a number.
    fn number_bounds(&mut self, fields: &Fields<'_>) -> Option<(u64, u64)> {
        let mut bound = |key: &str, otherwise: u64| match fields.get(key) {
            Some(value) => {
                let text = scalar(value).unwrap_or_default();
                let parsed = units::parse_bytes(&text).map_err(|error| error.to_string());
                self.toml.keep(value.span(), parsed)
            }
            None => Some(otherwise),
        };
        let (min, max) = (bound("min", 0), bound("max", u64::MAX));
        let (min, max) = (min?, max?);
        if min > max {
            self.wrong(fields.span_of("min"), format!("min {min} is more than max {max}"));
            return None;
        }
        Some((min, max))
    }
}
