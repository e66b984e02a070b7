//! Parameters in place of values: `"$name"`, `"$name * 2"`, `"$name / $other"`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use fsdyno_model::param::{ParamDef, ParamKind, ParamValue, Params, unknown};
use fsdyno_model::units;

/// The value of a parameter, or what a text has in a place where a parameter may stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    /// A count or a size.
    Number {
        /// Rounded down.
        floor: u64,
        /// As it is.
        exact: f64,
    },
    /// `true` or `false`.
    Flag(bool),
    /// A duration in nanoseconds.
    Duration(u64),
    /// Anything else.
    Text(String),
}

impl Scalar {
    /// A whole number.
    pub(super) fn whole(number: u64) -> Scalar {
        Scalar::Number { floor: number, exact: number as f64 }
    }

    fn of(is_duration: bool, value: &ParamValue) -> Scalar {
        match value {
            ParamValue::Flag(flag) => Scalar::Flag(*flag),
            ParamValue::Number(number) => Scalar::whole(*number),
            ParamValue::Text(text) => match units::parse_duration_ns(text) {
                Ok(nanoseconds) if is_duration => Scalar::Duration(nanoseconds),
                _ => Scalar::Text(text.clone()),
            },
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Number { floor, .. } => write!(f, "{floor}"),
            Scalar::Flag(flag) => write!(f, "{flag}"),
            Scalar::Duration(nanoseconds) => f.write_str(&units::human_duration(*nanoseconds)),
            Scalar::Text(text) => write!(f, "`{text}`"),
        }
    }
}

/// The parameters that a text may name, with the values that they have in this reading.
#[derive(Debug, Default)]
pub(super) struct Scope {
    values: BTreeMap<String, Scalar>,
    /// Parameters whose declaration is wrong.
    broken: BTreeSet<String>,
    used: RefCell<BTreeSet<String>>,
}

impl Scope {
    /// The values of `params`.
    pub(super) fn of(defs: &[ParamDef], params: &Params) -> Scope {
        let is_duration =
            |name: &str| defs.iter().any(|def| def.name == name && def.kind == ParamKind::Duration);
        let mut scope = Scope::default();
        for (name, value) in params.iter() {
            scope.add(name, is_duration(name), value);
        }
        scope
    }

    /// Adds a parameter.
    pub(super) fn add(&mut self, name: &str, is_duration: bool, value: &ParamValue) {
        self.values.insert(name.to_owned(), Scalar::of(is_duration, value));
    }

    /// Adds a parameter that has no value, since its declaration is wrong.
    pub(super) fn add_broken(&mut self, name: &str) {
        self.broken.insert(name.to_owned());
    }

    /// The value of a parameter, none where there is no such.
    pub(super) fn get(&self, name: &str) -> Option<&Scalar> {
        self.values.get(name)
    }

    /// Whether the parameter was asked for by name.
    pub(super) fn is_used(&self, name: &str) -> bool {
        self.used.borrow().contains(name)
    }

    /// What `expression`, which begins with `$`, stands for.
    ///
    /// # Errors
    /// A sentence: no such parameter, no such form, or no such number; nothing where the fault is in the
    /// declaration of the parameter.
    pub(super) fn evaluate(&self, expression: &str) -> Result<Scalar, String> {
        let Some(at) = expression.find(['*', '/']) else {
            return self.operand(expression.trim()).cloned();
        };
        let (left, right) = (expression[..at].trim(), expression[at + 1..].trim());
        let is_product = expression.as_bytes()[at] == b'*';
        let left = self.operand(left)?.clone();
        let factor = match right.strip_prefix('$') {
            Some(_) => match self.operand(right)? {
                Scalar::Number { floor, .. } => *floor,
                other => return Err(format!("`{expression}`: {right} is {other}, not a number")),
            },
            None => right.replace('_', "").parse::<u64>().map_err(|_| form(expression))?,
        };
        if factor == 0 && !is_product {
            return Err(format!("`{expression}` divides by 0"));
        }
        let apply = |number: u64| match is_product {
            true => number
                .checked_mul(factor)
                .ok_or_else(|| format!("`{expression}` is more than can be counted")),
            false => Ok(number / factor),
        };
        match left {
            Scalar::Number { floor, exact } => {
                let by = factor as f64;
                let exact = if is_product { exact * by } else { exact / by };
                Ok(Scalar::Number { floor: apply(floor)?, exact })
            }
            Scalar::Duration(nanoseconds) => apply(nanoseconds).map(Scalar::Duration),
            other => {
                Err(format!("`{expression}`: {other} is no number that could be calculated with"))
            }
        }
    }

    /// The parameter that `text` names.
    fn operand(&self, text: &str) -> Result<&Scalar, String> {
        let name = text.strip_prefix('$').ok_or_else(|| form(text))?;
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if !is_name(name) {
            return Err(form(text));
        }
        self.used.borrow_mut().insert(name.to_owned());
        self.values.get(name).ok_or_else(|| {
            if self.broken.contains(name) {
                return String::new();
            }
            let known: Vec<&str> = self.values.keys().map(String::as_str).collect();
            unknown("parameter", name, &known)
        })
    }
}

fn form(text: &str) -> String {
    format!(
        "`{text}` is not a parameter: write \"$name\", \"$name * 2\" or \"$name / 10\", with one \
         operator and a whole number"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        let mut scope = Scope::default();
        scope.add("files", false, &ParamValue::Number(1005));
        scope.add("jobs", false, &ParamValue::Number(4));
        scope.add("none", false, &ParamValue::Number(0));
        scope.add("runtime", true, &ParamValue::Text("3s".to_owned()));
        scope.add("mode", false, &ParamValue::Text("fast".to_owned()));
        scope.add("sync", false, &ParamValue::Flag(true));
        scope
    }

    #[test]
    fn expressions_are_calculated() {
        for (text, number) in [
            ("$files", 1005),
            ("$files*2", 2010),
            ("$files / 10", 100),
            ("$files / $jobs", 251),
            ("$files * 1_000", 1_005_000),
        ] {
            let Ok(Scalar::Number { floor, .. }) = scope().evaluate(text) else { panic!("{text}") };
            assert_eq!(floor, number, "{text}");
        }
        let tenth = scope().evaluate("$files / 1000").unwrap();
        assert_eq!(tenth, Scalar::Number { floor: 1, exact: 1.005 });
        assert_eq!(scope().evaluate("$runtime / 2"), Ok(Scalar::Duration(1_500_000_000)));
        assert_eq!(scope().evaluate("$mode"), Ok(Scalar::Text("fast".to_owned())));
        assert_eq!(scope().evaluate("$sync"), Ok(Scalar::Flag(true)));
    }

    #[test]
    fn what_cannot_be_calculated_is_answered() {
        for (text, words) in [
            ("$", "is not a parameter"),
            ("$file", "did you mean `files`"),
            ("$files + 1", "is not a parameter"),
            ("$files * 2 * 2", "one operator"),
            ("$files * x", "one operator"),
            ("$files / 0", "divides by 0"),
            ("$files / $none", "divides by 0"),
            ("$files * 99999999999999999", "more than can be counted"),
            ("$files * $mode", "not a number"),
            ("$mode * 2", "no number"),
            ("$sync / 2", "no number"),
        ] {
            let error = scope().evaluate(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_was_asked_for_is_known() {
        let scope = scope();
        assert!(!scope.is_used("jobs"));
        let _ = scope.evaluate("$files / $jobs");
        assert!(scope.is_used("jobs") && scope.is_used("files") && !scope.is_used("mode"));
    }
}
