//! When trials end: after a fixed number, or once the comparisons are settled. Whether they are is
//! decided by the analysis.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{DEFAULT_TRIALS, Plan, QUICK_TRIALS};

/// Half width of the band of sameness when nothing is said, in thousandths.
pub const DEFAULT_RESOLUTION_PERMILLE: u32 = 30;
/// Widest band of sameness, in thousandths: beyond it, "the same" says nothing.
pub const MAX_RESOLUTION_PERMILLE: u32 = 500;
/// Most trials of each target and workload.
pub const MAX_TRIALS: u32 = 10_000;
/// Greatest number of automatic trials when nothing is said.
pub const DEFAULT_MAX_TRIALS: u32 = 20;
/// The same under `--quick`.
pub const QUICK_MAX_TRIALS: u32 = 5;
/// Seconds after which no trial beyond the least number starts when nothing is said.
pub const DEFAULT_FURTHER_TIME_S: u64 = 3600;
/// The same under `--quick`.
pub const QUICK_FURTHER_TIME_S: u64 = 600;

/// When trials end before their greatest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StopRule {
    /// Half width, in thousandths (30 = 3 %), of the band around 1 within which two targets count as the
    /// same.
    pub resolution_permille: u32,
    /// Trials before the first look.
    pub min_trials: u32,
}

impl StopRule {
    /// The band's half width as users write it: `3 %`, `2.5 %`.
    #[must_use]
    pub fn resolution(&self) -> String {
        let (whole, tenth) = (self.resolution_permille / 10, self.resolution_permille % 10);
        if tenth == 0 { format!("{whole} %") } else { format!("{whole}.{tenth} %") }
    }
}

/// What `--trials` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trials {
    /// Until the comparisons are settled.
    Auto,
    /// So many.
    Fixed(u32),
}

impl Trials {
    /// Reads `auto` or a number.
    ///
    /// # Errors
    /// A sentence when it is neither.
    pub fn parse(text: &str) -> Result<Trials, String> {
        if text == "auto" {
            return Ok(Trials::Auto);
        }
        let number = text.parse().ok().filter(|number| (1..=MAX_TRIALS).contains(number));
        number.map(Trials::Fixed).ok_or_else(|| {
            format!(
                "`{text}` is no number of trials: write auto or a number from 1 to {MAX_TRIALS}"
            )
        })
    }
}

impl fmt::Display for Trials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trials::Auto => f.write_str("auto"),
            Trials::Fixed(number) => write!(f, "{number}"),
        }
    }
}

/// What is said of the number of trials; what is not said has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Their number.
    pub trials: Option<Trials>,
    /// The band of sameness; only with [`Trials::Auto`].
    pub resolution_permille: Option<u32>,
    /// The greatest number; only with [`Trials::Auto`].
    pub max_trials: Option<u32>,
}

impl Asked {
    /// The number that is fixed, with which nothing else can be said.
    #[must_use]
    pub fn fixed(&self) -> Option<u32> {
        match self.trials {
            Some(Trials::Fixed(number)) => Some(number),
            Some(Trials::Auto) | None => None,
        }
    }

    /// Puts it into a plan whose `quick` and `max_time_s` stand already.
    pub fn apply(self, plan: &mut Plan) {
        if let Some(number) = self.fixed() {
            (plan.trials, plan.stop, plan.further_time_s) = (number, None, None);
            return;
        }
        let (least, most, further_time_s) = if plan.quick {
            (QUICK_TRIALS, QUICK_MAX_TRIALS, QUICK_FURTHER_TIME_S)
        } else {
            (DEFAULT_TRIALS, DEFAULT_MAX_TRIALS, DEFAULT_FURTHER_TIME_S)
        };
        plan.trials = self.max_trials.unwrap_or(most);
        plan.stop = Some(StopRule {
            resolution_permille: self.resolution_permille.unwrap_or(DEFAULT_RESOLUTION_PERMILLE),
            min_trials: least.min(plan.trials),
        });
        plan.further_time_s = plan.max_time_s.is_none().then_some(further_time_s);
    }
}

/// Why a fixed number of trials and `setting`, which is of `auto` alone, contradict each other; both as
/// they are written where they stand.
#[must_use]
pub fn contradiction(setting: &str, fixed: &str) -> String {
    format!(
        "{setting} says when automatic trials end, but {fixed} fixes their number: leave one of the two out"
    )
}

/// Reads the half width of the band of sameness, such as `3%` or `2.5%`, in thousandths.
///
/// # Errors
/// A sentence when it is no percentage, finer than a tenth of a percent, or out of bounds.
pub fn parse_resolution(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is no resolution: write a percentage such as 3% or 2.5%");
    let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Err(wrong());
    }
    let fraction = fraction.trim_end_matches('0');
    let tenths = match fraction.len() {
        0 => 0,
        1 => u32::from(fraction.as_bytes()[0] - b'0'),
        _ => return Err(format!("the resolution {text} is finer than a tenth of a percent")),
    };
    let permille = whole.parse::<u32>().ok().and_then(|it| it.checked_mul(10)?.checked_add(tenths));
    permille.filter(|permille| (1..=MAX_RESOLUTION_PERMILLE).contains(permille)).ok_or_else(|| {
        let most = MAX_RESOLUTION_PERMILLE / 10;
        format!("the resolution {text} is out of bounds: write one from 0.1% to {most}%")
    })
}

/// Why no further trials were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// Every comparison was settled.
    Settled,
    /// The greatest number of trials was made, and a comparison is open.
    MaxTrials,
    /// The time was up, and a comparison is open.
    MaxTime,
    /// The run is not finished.
    Unfinished,
}

/// How the trials of a run with a [`StopRule`] ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    /// Why no further trials were made.
    pub why: StopReason,
    /// The same in words, with what is open and what to try.
    pub sentence: String,
    /// The rule.
    pub rule: StopRule,
    /// Greatest number of trials of each target and workload that would have been made.
    pub max_trials: u32,
    /// Each workload, in the order in which they were given.
    pub workloads: Vec<StoppedWorkload>,
}

/// How the trials of one workload ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoppedWorkload {
    /// Its label.
    pub workload: String,
    /// Trials made of each target, those of the last block that is whole.
    pub trials: u32,
    /// Why more trials were not wanted; null while a comparison is open.
    pub settled: Option<String>,
    /// The comparisons that are not, at most a few.
    pub open: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_percentages() {
        for (text, permille) in
            [("3%", 30), ("2.5%", 25), ("2.50 %", 25), ("0.1%", 1), ("50%", 500), (" 10%", 100)]
        {
            assert_eq!(parse_resolution(text), Ok(permille), "{text}");
        }
        for (text, words) in [
            ("3", "write a percentage"),
            ("", "write a percentage"),
            ("%", "write a percentage"),
            ("-3%", "write a percentage"),
            (".5%", "write a percentage"),
            ("3.%", "write a percentage"),
            ("three%", "write a percentage"),
            ("2.55%", "finer than"),
            ("0%", "out of bounds"),
            ("51%", "out of bounds"),
            ("99999999999999%", "out of bounds"),
        ] {
            let error = parse_resolution(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let told =
            |resolution_permille| StopRule { resolution_permille, min_trials: 5 }.resolution();
        assert_eq!((told(30), told(25)), ("3 %".to_owned(), "2.5 %".to_owned()));
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let applied = |quick, max_time_s, asked: Asked| {
            let mut plan = Plan { max_time_s, ..Plan::new(quick) };
            asked.apply(&mut plan);
            let rule = plan.stop.map(|rule| (rule.min_trials, rule.resolution_permille));
            (rule, plan.trials, plan.further_time_s)
        };
        let nothing = Asked::default();
        assert_eq!(applied(false, None, nothing), (Some((5, 30)), 20, Some(3600)));
        assert_eq!(applied(true, None, nothing), (Some((3, 30)), 5, Some(600)));
        // A bound that is asked for holds alone.
        assert_eq!(applied(false, Some(60), nothing), (Some((5, 30)), 20, None));
        let few = Asked { max_trials: Some(2), resolution_permille: Some(100), ..nothing };
        assert_eq!(applied(false, None, few), (Some((2, 100)), 2, Some(3600)));
        let fixed = Asked { trials: Some(Trials::Fixed(7)), ..nothing };
        assert_eq!(applied(false, None, fixed), (None, 7, None));
    }

    #[test]
    fn trials_are_auto_or_a_number() {
        assert_eq!(Trials::parse("auto"), Ok(Trials::Auto));
        assert_eq!(Trials::parse("7"), Ok(Trials::Fixed(7)));
        for text in ["0", "10001", "Auto", "", "-1", "3.5"] {
            assert!(Trials::parse(text).unwrap_err().contains("auto or a number"), "{text}");
        }
        for text in ["auto", "12"] {
            assert_eq!(Trials::parse(text).unwrap().to_string(), text);
        }
    }
}
