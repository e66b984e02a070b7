//! Walking a TOML tree by hand, so that one reading tells every error with its place instead of the
//! first alone. What the keys mean is left to the readers of plans and of workloads.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::Diagnostic;
use crate::param;
use crate::units;

/// A value with its place.
pub type Value<'a> = Spanned<DeValue<'a>>;

/// What is wrong so far, and how single values are read. Each method that returns `None` has noted why.
#[derive(Debug, Default)]
pub struct TomlReader {
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl TomlReader {
    /// The tree of `text`, as much of it as can be understood, and a reader that holds the errors of
    /// syntax.
    #[must_use]
    pub fn parse(text: &str) -> (Spanned<DeTable<'_>>, TomlReader) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let diagnostics = errors
            .into_iter()
            .map(|error| Diagnostic { message: error.message().to_owned(), span: error.span() })
            .collect();
        (root, TomlReader { diagnostics })
    }

    /// All that is wrong, in the order of the text.
    #[must_use]
    pub fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|one| one.span.as_ref().map_or(0, |span| span.start));
        self.diagnostics
    }

    /// Notes what is wrong with the text at `span`.
    pub fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::at(span, message));
    }

    /// Keeps the value of a check, or its error with the place.
    pub fn keep<T>(&mut self, span: Range<usize>, checked: Result<T, String>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(span, message);
                None
            }
        }
    }

    /// The tables of an array of tables, each with its place.
    pub fn tables<'a>(
        &mut self,
        value: &'a Value<'a>,
        name: &str,
    ) -> Vec<(Range<usize>, &'a DeTable<'a>)> {
        let Some(array) = value.get_ref().as_array() else {
            self.wrong(
                value.span(),
                format!("write [[{name}]], twice bracketed, once for each {name}"),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in array.iter() {
            match item.get_ref().as_table() {
                Some(table) => tables.push((item.span(), table)),
                None => self.wrong(item.span(), format!("a {name} is a table")),
            }
        }
        tables
    }

    /// Notes each key of `table` that is not among `known`; `what` is what such a key would be, such as
    /// `setting of [plan]`.
    pub fn refuse_unknown(&mut self, table: &DeTable<'_>, what: &str, known: &[&str]) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                self.wrong(key.span(), param::unknown(what, name, known));
            }
        }
    }

    /// A string.
    pub fn text(&mut self, value: &Value<'_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(value.span(), format!("expected a string, found {}", kind_of(value)));
        }
        text
    }

    /// A whole number within the bounds, both included.
    pub fn count(&mut self, value: &Value<'_>, min: u64, max: u64) -> Option<u64> {
        let parsed = integer(value);
        if parsed.is_none_or(|number| !(min..=max).contains(&number)) {
            self.wrong(value.span(), format!("expected a whole number from {min} to {max}"));
            return None;
        }
        parsed
    }

    /// `true` or `false`; anything else is wrong.
    pub fn flag(&mut self, value: &Value<'_>) -> Option<bool> {
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong(value.span(), format!("expected true or false, found {}", kind_of(value)));
        }
        flag
    }

    /// A size in bytes, with a unit or as a plain number.
    pub fn size(&mut self, value: &Value<'_>) -> Option<u64> {
        let text = scalar(value).unwrap_or_default();
        self.keep(value.span(), units::parse_bytes(&text).map_err(|error| error.to_string()))
    }
}

/// A whole number that is not negative and fits; none for anything else.
#[must_use]
pub fn integer(value: &Value<'_>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    u64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
}

/// A string, number or flag as the text that the command line would have.
#[must_use]
pub fn scalar(value: &Value<'_>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(integer) if integer.radix() == 10 => Some(integer.as_str().to_owned()),
        DeValue::Integer(_) => integer(value).map(|number| number.to_string()),
        DeValue::Float(float) => Some(float.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// What a value is, in words.
#[must_use]
pub fn kind_of(value: &Value<'_>) -> &'static str {
    match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
