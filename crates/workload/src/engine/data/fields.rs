//! Values of a text: each read with the parameters filled in, each error noted with its place.

use std::ops::Range;
use std::time::Duration;

use fsdyno_model::toml_reader::{TomlReader, Value, integer, kind_of};
use fsdyno_model::units;
use toml::de::{DeTable, DeValue};

use super::substitution::{Scalar, Scope};
use crate::engine::definition::Distribution;

/// Greatest size that can be written, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 44;
/// Where a distribution that is not bounded by its text is cut off: so many times its mean or median.
const TAIL: f64 = 64.0;

/// Reads a text with one set of values of its parameters.
pub(super) struct Reader<'s> {
    pub(super) toml: TomlReader,
    pub(super) scope: &'s Scope,
    /// Values that are not known because of a fault elsewhere, which is told there.
    told: usize,
}

/// A value with its parameter filled in, and where it came from.
struct Resolved {
    scalar: Scalar,
    expression: Option<String>,
}

/// A table whose keys are all known.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    pub(super) span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Fields<'a> {
    /// The value of `key`, where it is given.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table.get(key)
    }

    /// Where `key` is written, or else the whole table.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        let found = self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key);
        found.map_or_else(|| self.span.clone(), |(name, _)| name.span())
    }

    /// Whether `key` is given.
    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

impl<'s> Reader<'s> {
    /// A reader that goes on after what `toml` has found.
    pub(super) fn new(toml: TomlReader, scope: &'s Scope) -> Reader<'s> {
        Reader { toml, scope, told: 0 }
    }

    /// Number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.toml.diagnostics.len() + self.told
    }

    /// Notes what is wrong with the text at `span`.
    pub(super) fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.toml.wrong(span, message);
    }

    /// The fields of a table; those that are not among `known` are noted.
    pub(super) fn fields<'a>(
        &mut self,
        (span, table): (Range<usize>, &'a DeTable<'a>),
        what: &str,
        known: &[&str],
    ) -> Fields<'a> {
        self.toml.refuse_unknown(table, what, known);
        Fields { span, table }
    }

    /// The value of a key that must be there.
    pub(super) fn required<'a>(
        &mut self,
        fields: &Fields<'a>,
        key: &str,
        example: &str,
    ) -> Option<&'a Value<'a>> {
        let value = fields.get(key);
        if value.is_none() {
            self.wrong(fields.span.clone(), format!("`{key}` is missing: add {example}"));
        }
        value
    }

    fn resolve(&mut self, value: &Value<'_>) -> Option<Resolved> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Boolean(flag) => {
                return Some(Resolved { scalar: Scalar::Flag(*flag), expression: None });
            }
            DeValue::Integer(whole) => {
                let fallback = || Scalar::Text(whole.as_str().to_owned());
                let scalar = integer(value).map_or_else(fallback, Scalar::whole);
                return Some(Resolved { scalar, expression: None });
            }
            DeValue::Float(float) => {
                let scalar = Scalar::Text(float.as_str().replace('_', ""));
                return Some(Resolved { scalar, expression: None });
            }
            _ => {
                self.wrong(value.span(), format!("expected one value, found {}", kind_of(value)));
                return None;
            }
        };
        if !text.starts_with('$') {
            return Some(Resolved { scalar: Scalar::Text(text.to_owned()), expression: None });
        }
        let scalar = match self.scope.evaluate(text) {
            Err(told) if told.is_empty() => {
                self.told += 1;
                return None;
            }
            evaluated => self.toml.keep(value.span(), evaluated)?,
        };
        Some(Resolved { scalar, expression: Some(text.to_owned()) })
    }

    /// Notes that a value is not what is expected.
    fn expected(&mut self, value: &Value<'_>, resolved: &Resolved, expected: &str) {
        let message = match (&resolved.expression, &resolved.scalar) {
            (Some(expression), scalar) => {
                format!("expected {expected}, but `{expression}` is {scalar}")
            }
            (None, Scalar::Number { floor, .. }) => format!("expected {expected}, found {floor}"),
            (None, Scalar::Text(text)) if value.get_ref().as_str().is_none() => {
                format!("expected {expected}, found {text}")
            }
            (None, _) => format!("expected {expected}, found {}", kind_of(value)),
        };
        self.wrong(value.span(), message);
    }

    /// A whole number within the bounds, both included.
    pub(super) fn count(&mut self, value: &Value<'_>, min: u64, max: u64) -> Option<u64> {
        let resolved = self.resolve(value)?;
        match resolved.scalar {
            Scalar::Number { floor, .. } if (min..=max).contains(&floor) => Some(floor),
            _ => {
                let expected = match max {
                    u64::MAX => format!("a whole number of at least {min}"),
                    _ => format!("a whole number from {min} to {max}"),
                };
                self.expected(value, &resolved, &expected);
                None
            }
        }
    }

    /// A size in bytes within the bounds, both included.
    pub(super) fn bytes(&mut self, value: &Value<'_>, min: u64, max: u64) -> Option<u64> {
        let resolved = self.resolve(value)?;
        let bytes = match &resolved.scalar {
            Scalar::Number { floor, .. } => *floor,
            Scalar::Text(text) if value.get_ref().as_float().is_none() => {
                let parsed = units::parse_bytes(text).map_err(|error| error.to_string());
                self.toml.keep(value.span(), parsed)?
            }
            _ => {
                self.expected(value, &resolved, "a size such as \"16KiB\"");
                return None;
            }
        };
        if (min..=max).contains(&bytes) {
            return Some(bytes);
        }
        let (min, max) = (units::exact_bytes(min), units::exact_bytes(max));
        let found = units::exact_bytes(bytes);
        let message = match &resolved.expression {
            Some(expression) => {
                format!("expected a size from {min} to {max}, but `{expression}` is {found}")
            }
            None => format!("expected a size from {min} to {max}, found {found}"),
        };
        self.wrong(value.span(), message);
        None
    }

    /// A number that need not be whole, within the bounds; `above` says whether the least is left out.
    pub(super) fn number(&mut self, value: &Value<'_>, bounds: Bounds) -> Option<f64> {
        let resolved = self.resolve(value)?;
        let number = match &resolved.scalar {
            Scalar::Number { exact, .. } => Some(*exact),
            Scalar::Text(text) => text
                .parse::<f64>()
                .ok()
                .filter(|_| resolved.expression.is_some() || value.get_ref().as_str().is_none()),
            _ => None,
        };
        let Bounds { min, max, above } = bounds;
        let fits = |number: &f64| {
            number.is_finite() && *number <= max && (*number > min || (!above && *number == min))
        };
        if let Some(number) = number.filter(fits) {
            return Some(number);
        }
        let expected = match above {
            true => format!("a number greater than {min} and at most {max}"),
            false => format!("a number from {min} to {max}"),
        };
        self.expected(value, &resolved, &expected);
        None
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, value: &Value<'_>) -> Option<bool> {
        let resolved = self.resolve(value)?;
        if let Scalar::Flag(flag) = resolved.scalar {
            return Some(flag);
        }
        self.expected(value, &resolved, "true or false");
        None
    }

    /// A time span that is not nothing.
    pub(super) fn duration(&mut self, value: &Value<'_>) -> Option<Duration> {
        let resolved = self.resolve(value)?;
        let nanoseconds = match &resolved.scalar {
            Scalar::Duration(nanoseconds) => *nanoseconds,
            Scalar::Text(text) if value.get_ref().as_float().is_none() => {
                let parsed = units::parse_duration_ns(text).map_err(|error| error.to_string());
                self.toml.keep(value.span(), parsed)?
            }
            _ => {
                self.expected(value, &resolved, "a duration such as \"30s\"");
                return None;
            }
        };
        if nanoseconds == 0 {
            self.expected(value, &resolved, "a duration longer than nothing");
            return None;
        }
        Some(Duration::from_nanos(nanoseconds))
    }

    /// A word or other text.
    pub(super) fn text(&mut self, value: &Value<'_>) -> Option<String> {
        let resolved = self.resolve(value)?;
        match resolved.scalar {
            Scalar::Text(ref text)
                if resolved.expression.is_some() || value.get_ref().as_str().is_some() =>
            {
                Some(text.clone())
            }
            _ => {
                self.expected(value, &resolved, "a string");
                None
            }
        }
    }

    /// A name that is part of records or paths, lower-case words joined by `-`; no parameter.
    pub(super) fn name(&mut self, value: &Value<'_>) -> Option<String> {
        let text = self.toml.text(value)?;
        if is_kebab_case(&text) && text.len() <= 64 {
            return Some(text);
        }
        let message = format!(
            "`{}` is not a name: use lower-case letters and digits in words joined by `-`, such as \
             `small-files`, at most 64 in all",
            text.escape_debug()
        );
        self.wrong(value.span(), message);
        None
    }

    /// The flag `key`, or else `otherwise`.
    pub(super) fn flag_or(&mut self, fields: &Fields<'_>, key: &str, otherwise: bool) -> bool {
        fields.get(key).and_then(|value| self.flag(value)).unwrap_or(otherwise)
    }

    /// How a number of bytes is drawn: a size, or a table with the one key that names the distribution.
    pub(super) fn distribution(&mut self, value: &Value<'_>) -> Option<Distribution> {
        let Some(table) = value.get_ref().as_table() else {
            return self.bytes(value, 0, MAX_BYTES).map(Distribution::Fixed);
        };
        let known = ["uniform", "lognormal", "gamma", "zipf", "empirical"];
        let fields = self.fields((value.span(), table), "distribution", &known);
        let mut given = known.iter().filter(|key| fields.has(key));
        let (Some(name), None) = (given.next(), given.next()) else {
            if table.iter().all(|(key, _)| known.contains(&key.get_ref().as_ref())) {
                let message = format!("a distribution is one of {}", known.join(", "));
                self.wrong(value.span(), message);
            }
            return None;
        };
        let value = fields.get(name)?;
        if *name == "empirical" {
            return self.empirical(value);
        }
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(value.span(), format!("expected a table, found {}", kind_of(value)));
            return None;
        };
        let at = (value.span(), table);
        match *name {
            "uniform" => {
                let fields = self.fields(at, "property of uniform", &["min", "max"]);
                let (min, max) = self.bounds(&fields, 0)?;
                Some(Distribution::Uniform { min, max })
            }
            "zipf" => {
                let fields = self.fields(at, "property of zipf", &["min", "max", "theta"]);
                let theta = self.required(&fields, "theta", "theta = 1.0");
                let theta = theta.and_then(|value| self.number(value, Bounds::above(0.0, 10.0)));
                let (min, max) = self.bounds(&fields, 1)?;
                Some(Distribution::Zipf { min, max, theta: theta? })
            }
            "gamma" => {
                let fields = self.fields(at, "property of gamma", &["mean", "shape", "max"]);
                let (mean, max) = self.centre(&fields, "mean")?;
                let shape = match fields.get("shape") {
                    Some(value) => self.number(value, Bounds::above(0.0, 1000.0))?,
                    None => 1.5,
                };
                Some(Distribution::Gamma { mean, shape, max })
            }
            _ => {
                let fields = self.fields(at, "property of lognormal", &["median", "sigma", "max"]);
                let sigma = self.required(&fields, "sigma", "sigma = 1.0");
                let sigma = sigma.and_then(|value| self.number(value, Bounds::above(0.0, 10.0)));
                let (median, max) = self.centre(&fields, "median")?;
                Some(Distribution::Lognormal { median, sigma: sigma?, max })
            }
        }
    }

    /// `min` and `max`, in order.
    fn bounds(&mut self, fields: &Fields<'_>, least: u64) -> Option<(u64, u64)> {
        let max = self.required(fields, "max", "max = \"64KiB\"");
        let max = max.and_then(|value| self.bytes(value, 1, MAX_BYTES));
        let min = match fields.get("min") {
            Some(value) => self.bytes(value, least, MAX_BYTES),
            None => Some(least),
        };
        let (min, max) = (min?, max?);
        if min > max {
            let (min, max) = (units::exact_bytes(min), units::exact_bytes(max));
            self.wrong(fields.span_of("min"), format!("min {min} is more than max {max}"));
            return None;
        }
        Some((min, max))
    }

    /// The mean or median `key`, and where the distribution is cut off.
    fn centre(&mut self, fields: &Fields<'_>, key: &str) -> Option<(f64, u64)> {
        let centre = self.required(fields, key, &format!("{key} = \"16KiB\""));
        let centre = centre.and_then(|value| self.bytes(value, 1, MAX_BYTES));
        let max = match fields.get("max") {
            Some(value) => Some(self.bytes(value, 1, MAX_BYTES)?),
            None => None,
        };
        let centre = centre?;
        let max = max.unwrap_or_else(|| ((centre as f64 * TAIL) as u64).min(MAX_BYTES));
        if centre > max {
            let (centre, max) = (units::exact_bytes(centre), units::exact_bytes(max));
            self.wrong(fields.span_of("max"), format!("{key} {centre} is more than max {max}"));
            return None;
        }
        Some((centre as f64, max))
    }

    fn empirical(&mut self, value: &Value<'_>) -> Option<Distribution> {
        let form =
            "expected pairs of a size and its weight, such as [[\"4KiB\", 3], [\"1MiB\", 1]]";
        let items = value.get_ref().as_array().filter(|items| !items.is_empty());
        let Some(items) = items else {
            self.wrong(value.span(), form);
            return None;
        };
        let mut pairs = Vec::new();
        let before = self.errors();
        for item in items.iter() {
            let pair: Vec<&Value<'_>> =
                item.get_ref().as_array().map(|pair| pair.iter().collect()).unwrap_or_default();
            let [size, weight] = pair[..] else {
                self.wrong(item.span(), form);
                continue;
            };
            let size = self.bytes(size, 0, MAX_BYTES);
            let weight = self.number(weight, Bounds::above(0.0, 1e12));
            pairs.extend(size.zip(weight));
        }
        (self.errors() == before).then_some(Distribution::Empirical(pairs))
    }
}

/// The numbers that are accepted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    min: f64,
    max: f64,
    above: bool,
}

impl Bounds {
    /// From `min` to `max`, both included.
    pub(super) fn within(min: f64, max: f64) -> Bounds {
        Bounds { min, max, above: false }
    }

    /// Greater than `min`, and at most `max`.
    pub(super) fn above(min: f64, max: f64) -> Bounds {
        Bounds { min, max, above: true }
    }
}

/// Whether `name` is made of lower-case words and numbers joined by `-`.
fn is_kebab_case(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    name.split('-').all(is_word)
}
