//! What is said of trials that were disturbed, and of the machine by its own readings.

use fsdyno_analysis::yardstick;
use fsdyno_model::disturbance::{self, is_disturbance};
use fsdyno_model::record::{Role, Warning};
use fsdyno_model::result::{RunResult, TrialResult};
use fsdyno_model::words::counted;
use fsdyno_model::yardstick::Part;

use super::measured;
use crate::text;

/// Trials that are named one by one.
const NAMED: usize = 8;

/// For each kind of disturbance how many of the trials whose figures count it hit, which these were, and
/// what the first of them says.
pub fn disturbed(result: &RunResult) -> Vec<String> {
    let all = measured(result).count();
    let of_kind = |code: &&'static str| {
        let hit: Vec<(&TrialResult, &Warning)> = measured(result)
            .filter_map(|trial| Some((trial, trial.warnings.iter().find(|it| it.code == **code)?)))
            .collect();
        let (_, warning) = hit.first()?;
        let message = warning.message.trim_end_matches(['.', ';', ':']);
        let first = if hit.len() == 1 { "" } else { "the first: " };
        let were = if hit.len() == 1 { "was" } else { "were" };
        Some(format!(
            "{} of {} {were} disturbed ({}), {first}{message}: {}.",
            hit.len(),
            counted(all, "trial"),
            named(result, &hit.iter().map(|(trial, _)| *trial).collect::<Vec<_>>()),
            warning.advice.trim_end_matches('.')
        ))
    };
    disturbance::CODES.iter().filter_map(of_kind).collect()
}

/// `ext4 2, 5; xfs 1`; with several workloads these too.
fn named(result: &RunResult, trials: &[&TrialResult]) -> String {
    let several = result.workloads.len() > 1;
    let mut parts: Vec<(String, Vec<String>)> = Vec::new();
    for trial in trials.iter().take(NAMED) {
        let name = if several {
            format!("{} {}", trial.target, trial.workload)
        } else {
            trial.target.clone()
        };
        match parts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, numbers)) => numbers.push(trial.trial.to_string()),
            None => parts.push((name, vec![trial.trial.to_string()])),
        }
    }
    let parts = parts.into_iter().map(|(name, numbers)| format!("{name} {}", numbers.join(", ")));
    let more = trials.len().saturating_sub(NAMED);
    let more = (more > 0).then(|| format!("{more} more"));
    parts.chain(more).collect::<Vec<_>>().join("; ")
}

/// The words for what disturbed one trial, by its codes; empty where nothing did.
pub fn marks(trial: &TrialResult) -> String {
    let own = trial.warnings.iter().filter(|warning| is_disturbance(warning));
    let codes: Vec<&str> = own.map(|warning| warning.code.as_str()).collect();
    codes.join(", ")
}

/// Whether a warning is told with the disturbances.
pub(super) fn is_told(trial: &TrialResult, warning: &Warning) -> bool {
    trial.role == Role::Measured && is_disturbance(warning)
}

/// What the machine itself was like, by the readings between trials: the median of each figure and how far
/// it scattered. `None` where it was not timed.
pub fn machine(result: &RunResult) -> Option<String> {
    let series = yardstick::series(&result.trials);
    let several = {
        let mut places: Vec<&str> = series.iter().filter_map(|it| it.place).collect();
        places.dedup();
        places.len() > 1
    };
    let mut readings = 0;
    let told: Vec<String> = (series.iter())
        .filter_map(|one| {
            let spread = one.spread()?;
            readings = readings.max(spread.n);
            let place = one.place.filter(|_| several && one.figure.part == Part::Device);
            let place = place.map_or(String::new(), |place| format!(" {place}"));
            let scatter = match spread.n {
                1 => String::new(),
                _ => format!(" ±{:.1} %", spread.deviation * 100.0),
            };
            let what = format!("{}{place} {}{scatter}", one.figure.title, time(spread.median));
            Some(text::unbroken(&what))
        })
        .collect();
    (!told.is_empty()).then(|| {
        format!(
            "The machine itself, timed {} between trials: {}.",
            counted(readings, "time"),
            told.join(", ")
        )
    })
}

/// A time of some nanoseconds and more: `1.31 ns`, `95.2 µs`.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ..1e3 => (ns, "ns"),
        1e3..1e6 => (ns / 1e3, "µs"),
        1e6..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use fsdyno_model::yardstick::{Reading, Yardstick};

    use super::*;
    use crate::fixture;

    fn with(code: &str, message: &str) -> Warning {
        let (code, message) = (code.to_owned(), message.to_owned());
        Warning { code, message, advice: "wait.".to_owned() }
    }

    #[test]
    fn disturbed_trials_are_counted_and_named() {
        let mut result = fixture::targets_with_trials(&["ext4", "xfs"], 3);
        assert!(disturbed(&result).is_empty());
        for (index, moved) in [(1, "7 GiB"), (2, "1 GiB")] {
            result.trials[index].warnings = vec![with("other-input-output", moved)];
        }
        result.trials[1].warnings.push(with("clock-stepped", "back"));
        let names: Vec<String> = [1, 2]
            .map(|it| format!("{} {}", result.trials[it].target, result.trials[it].trial))
            .into();
        let told = disturbed(&result);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("2 of 6 trials were disturbed ("), "{told:?}");
        for name in &names {
            assert!(told[0].contains(name.split(' ').next().unwrap()), "{told:?}");
        }
        assert!(told[0].ends_with("the first: 7 GiB: wait."), "{told:?}");
        assert_eq!(told[1], format!("1 of 6 trials was disturbed ({}), back: wait.", names[0]));
        assert_eq!(marks(&result.trials[1]), "other-input-output, clock-stepped");
        assert_eq!(marks(&result.trials[0]), "");
        // Told once, as disturbances.
        let warnings = crate::note::warnings(&result);
        assert_eq!(
            warnings.iter().filter(|line| line.contains("7 GiB")).count(),
            1,
            "{warnings:?}"
        );
    }

    #[test]
    fn the_machine_is_told_where_it_was_timed() {
        let mut result = fixture::targets_with_trials(&["ext4", "xfs"], 2);
        assert_eq!(machine(&result), None);
        for (trial, second) in result.trials.iter_mut().zip(0..) {
            let reading = |second: u64| Reading {
                place: "/img".to_owned(),
                started_unix_ns: second * 1_000_000_000,
                compute_ns: Some(1.312),
                device_read_ns: Some(95_210.0),
                ..Reading::default()
            };
            let (before, after) = (Some(reading(second)), Some(reading(second + 1)));
            trial.yardstick = Some(Yardstick { before, after });
        }
        let told = machine(&result).unwrap().replace(text::NO_BREAK, " ");
        assert_eq!(
            told,
            "The machine itself, timed 5 times between trials: computing 1.31 ns ±0.0 %, reading from the device 95.2 µs ±0.0 %."
        );
    }
}
