//! The fields of a model's tables: each read with its bounds, each error noted with its place.

use std::ops::Range;

use fsdyno_model::param;
use fsdyno_model::toml_reader::{TomlReader, Value, kind_of, scalar};
use toml::de::DeTable;

/// Reads one table. What cannot be used is noted and replaced by something that can be counted with, so
/// that one reading tells every error; whoever reads looks for errors at the end.
pub(crate) struct Fields<'r, 'a> {
    pub(crate) toml: &'r mut TomlReader,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    name: &'static str,
    known: Vec<&'static str>,
}

impl<'r, 'a> Fields<'r, 'a> {
    /// The fields of `table`, which is called `[name]` and stands at `span`.
    pub(crate) fn new(
        toml: &'r mut TomlReader,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        name: &'static str,
    ) -> Fields<'r, 'a> {
        Fields { toml, table, span, name, known: Vec::new() }
    }

    /// The value of `key`, where it is given.
    pub(crate) fn optional(&mut self, key: &'static str) -> Option<&'a Value<'a>> {
        self.known.push(key);
        self.table.get(key)
    }

    fn required(&mut self, key: &'static str) -> Option<&'a Value<'a>> {
        let value = self.optional(key);
        if value.is_none() {
            self.wrong(format!("[{}] needs `{key}`", self.name));
        }
        value
    }

    /// Notes what is wrong with the whole table.
    pub(crate) fn wrong(&mut self, message: impl Into<String>) {
        self.toml.wrong(self.span.clone(), message);
    }

    /// Notes what is wrong with the value of `key`, or with the table where it is not given.
    pub(crate) fn wrong_at(&mut self, key: &str, message: impl Into<String>) {
        let span = self.table.get(key).map_or_else(|| self.span.clone(), Value::span);
        self.toml.wrong(span, message);
    }

    fn read_number(&mut self, value: &Value<'_>, min: f64, max: f64) -> f64 {
        let number = match kind_of(value) {
            "a whole number" | "a number with a point" => scalar(value),
            _ => None,
        };
        let number = number.and_then(|text| text.replace('_', "").parse::<f64>().ok());
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => number,
            None => {
                self.toml.wrong(value.span(), format!("expected a number from {min} to {max}"));
                min
            }
        }
    }

    /// A number that must be there.
    pub(crate) fn number(&mut self, key: &'static str, min: f64, max: f64) -> f64 {
        match self.required(key) {
            Some(value) => self.read_number(value, min, max),
            None => min,
        }
    }

    /// A number that may be left out.
    pub(crate) fn number_or(&mut self, key: &'static str, default: f64, min: f64, max: f64) -> f64 {
        match self.optional(key) {
            Some(value) => self.read_number(value, min, max),
            None => default,
        }
    }

    /// A time in `scale` nanoseconds, such as 1e6 for a key in milliseconds, that must be there.
    pub(crate) fn time(&mut self, key: &'static str, scale: f64, max: f64) -> u64 {
        (self.number(key, 0.0, max) * scale).round() as u64
    }

    /// A time in `scale` nanoseconds that may be left out.
    pub(crate) fn time_or(&mut self, key: &'static str, default: f64, scale: f64, max: f64) -> u64 {
        (self.number_or(key, default, 0.0, max) * scale).round() as u64
    }

    /// A whole number that must be there.
    pub(crate) fn count(&mut self, key: &'static str, min: u64, max: u64) -> u64 {
        let value = self.required(key);
        value.and_then(|value| self.toml.count(value, min, max)).unwrap_or(min)
    }

    /// A whole number that may be left out.
    pub(crate) fn count_or(&mut self, key: &'static str, default: u64, min: u64, max: u64) -> u64 {
        match self.optional(key) {
            Some(value) => self.toml.count(value, min, max).unwrap_or(default),
            None => default,
        }
    }

    fn read_size(&mut self, value: &Value<'_>, min: u64, max: u64) -> u64 {
        let Some(size) = self.toml.size(value) else { return min };
        if !(min..=max).contains(&size) {
            let (min, max) = (param_size(min), param_size(max));
            self.toml.wrong(value.span(), format!("expected a size from {min} to {max}"));
        }
        size.clamp(min, max)
    }

    /// A size in bytes that must be there.
    pub(crate) fn size(&mut self, key: &'static str, min: u64, max: u64) -> u64 {
        match self.required(key) {
            Some(value) => self.read_size(value, min, max),
            None => min,
        }
    }

    /// A size in bytes that may be left out.
    pub(crate) fn size_or(&mut self, key: &'static str, default: u64, min: u64, max: u64) -> u64 {
        match self.optional(key) {
            Some(value) => self.read_size(value, min, max),
            None => default,
        }
    }

    /// A flag that may be left out.
    pub(crate) fn flag_or(&mut self, key: &'static str, default: bool) -> bool {
        let Some(value) = self.optional(key) else { return default };
        value.get_ref().as_bool().unwrap_or_else(|| {
            let found = kind_of(value);
            self.toml.wrong(value.span(), format!("expected true or false, found {found}"));
            default
        })
    }

    /// A text that must be there.
    pub(crate) fn text(&mut self, key: &'static str) -> String {
        let value = self.required(key);
        value.and_then(|value| self.toml.text(value)).unwrap_or_default()
    }

    /// One of `words`; the first where it is left out.
    pub(crate) fn choice(&mut self, key: &'static str, words: &[&'static str]) -> &'static str {
        let Some(value) = self.optional(key) else { return words[0] };
        let Some(text) = self.toml.text(value) else { return words[0] };
        let found = words.iter().find(|word| **word == text);
        found.copied().unwrap_or_else(|| {
            self.toml
                .wrong(value.span(), param::unknown(&format!("{key} of a disk"), &text, words));
            words[0]
        })
    }

    /// A list of texts that must be there and hold at least one.
    pub(crate) fn texts(&mut self, key: &'static str) -> Vec<String> {
        let Some(value) = self.required(key) else { return Vec::new() };
        let list = value.get_ref().as_array().map(|list| list.iter().collect::<Vec<_>>());
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            self.toml.wrong(value.span(), "expected a list of texts, at least one");
            return Vec::new();
        };
        list.into_iter().filter_map(|text| self.toml.text(text)).collect()
    }

    /// A list of pairs of numbers that must be there; empty where it cannot be used.
    pub(crate) fn number_pairs(&mut self, key: &'static str) -> Vec<(f64, f64)> {
        let Some(value) = self.required(key) else { return Vec::new() };
        let pair = |item: &Value<'a>| {
            let pair = item.get_ref().as_array()?;
            let number = |index: usize| scalar(pair.get(index)?)?.parse::<f64>().ok();
            if pair.len() == 2 { Some((number(0)?, number(1)?)) } else { None }
        };
        let list = value.get_ref().as_array();
        let pairs = list.and_then(|list| list.iter().map(pair).collect::<Option<Vec<_>>>());
        pairs.unwrap_or_else(|| {
            self.toml.wrong(value.span(), "expected a list of pairs of numbers");
            Vec::new()
        })
    }

    /// Whether `key` is given.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Notes every key that was not asked for.
    pub(crate) fn finish(self) {
        let what = format!("field of [{}]", self.name);
        self.toml.refuse_unknown(self.table, &what, &self.known);
    }
}

fn param_size(bytes: u64) -> String {
    fsdyno_model::units::exact_bytes(bytes)
}
