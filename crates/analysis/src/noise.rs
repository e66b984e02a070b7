//! How noisy a machine is, from a short run of two equal targets; and what that means for comparisons. The
//! run is made by others. Formulas stand in `docs/METHODOLOGY.md`.

pub mod needed;

use fsdyno_model::SCHEMA_VERSION;
use fsdyno_model::disturbance::is_disturbance;
use fsdyno_model::metric;
use fsdyno_model::noise::{Noise, NoiseDifference, NoiseFigure, NoiseNeeded};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::Warning;
use fsdyno_model::result::{RunResult, TrialResult};
use fsdyno_model::yardstick::Part;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::diff::welch;
use crate::interval::{self, Interval};
use crate::series::FSCK;
use crate::yardstick;

/// Differences that are asked about, in per cent.
const DIFFERENCES: [f64; 3] = [1.0, 3.0, 10.0];
/// Fewest blocks that tell a scatter.
const FEWEST_BLOCKS: usize = 3;
/// Fewest values whose course tells anything.
const FEWEST_IN_TIME: usize = 8;
/// Coefficient of variation from which on the processor is called noisy.
const NOISY_PROCESSOR: f64 = 0.03;
/// The same of the device, whose single operations scatter more.
const NOISY_DEVICE: f64 = 0.2;
/// Scatter within a block from which on comparisons are called noisy.
const NOISY_BLOCKS: f64 = 0.1;

/// Computes it from a run of two equal targets on one workload, of which each trial took `trial_s` seconds,
/// what lies between trials included.
#[must_use]
pub fn noise(result: &RunResult, trial_s: f64) -> Noise {
    let completed: Vec<&TrialResult> =
        result.trials.iter().filter(|trial| trial.outcome == Outcome::Completed).collect();
    let mut figures: Vec<NoiseFigure> = (yardstick::series(&result.trials).iter())
        .map(|one| {
            let points: Vec<(f64, f64)> =
                one.values.iter().map(|(time, value)| (*time as f64, *value)).collect();
            figure((one.figure.name, one.figure.title), "ns", false, &points)
        })
        .collect();
    let phases = phases(result);
    let mut needed = Vec::new();
    for (phase, primary) in &phases {
        let Some(metric) = metric::find(primary) else { continue };
        let value = |trial: &TrialResult| {
            let own = trial.phases.iter().find(|it| it.name == *phase)?;
            (metric.read)(&own.record()).filter(|value| value.is_finite() && *value > 0.0)
        };
        let points: Vec<(f64, f64)> = completed
            .iter()
            .filter_map(|trial| Some((f64::from(trial.order), value(trial)?)))
            .collect();
        figures.push(figure((phase, phase), metric.unit, true, &points));
        let ratios = pairs(&completed).filter_map(|[a, b]| Some((value(a)? / value(b)?).ln()));
        let ratios: Vec<f64> = ratios.collect();
        let scatter = welch::variance(&ratios).filter(|_| ratios.len() >= FEWEST_BLOCKS);
        let blocks = ratios.len();
        needed.extend(scatter.map(|variance| need(phase, variance.sqrt(), blocks, trial_s)));
    }
    let environment = &result.run.environment;
    let target = result.targets.first();
    let mut told = Noise {
        schema_version: SCHEMA_VERSION,
        hostname: environment.hostname.clone(),
        target: target.map_or(String::new(), |it| it.filesystem.clone()),
        directory: environment.image_directory.clone().unwrap_or_default(),
        blocks: u32::try_from(pairs(&completed).count()).unwrap_or(u32::MAX),
        trials: u32::try_from(completed.len()).unwrap_or(u32::MAX),
        trial_s,
        figures,
        needed,
        warnings: disturbances(result),
    };
    told.warnings.extend(advice(&told, environment.cpu_governor.as_deref()));
    told
}

/// The phases of the workload with the metrics that tables show, in the order in which they run.
fn phases(result: &RunResult) -> Vec<(String, String)> {
    let mut phases: Vec<(String, String)> = Vec::new();
    for phase in result.trials.iter().flat_map(|trial| &trial.phases) {
        if phase.name != FSCK && phases.iter().all(|(known, _)| *known != phase.name) {
            phases.push((phase.name.clone(), phase.primary_metric.clone()));
        }
    }
    phases
}

/// The two trials of each block in which both completed, by label.
fn pairs<'a>(completed: &'a [&'a TrialResult]) -> impl Iterator<Item = [&'a TrialResult; 2]> {
    completed.iter().flat_map(move |a| {
        let is_other = |b: &&&TrialResult| b.trial == a.trial && b.target > a.target;
        completed.iter().filter(is_other).map(|b| [*a, *b])
    })
}

fn figure(
    (name, title): (&str, &str),
    unit: &str,
    is_phase: bool,
    points: &[(f64, f64)],
) -> NoiseFigure {
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let mean = interval::mean(&values).filter(|mean| *mean > 0.0);
    let drift = yardstick::drift_of(points);
    NoiseFigure {
        name: name.to_owned(),
        title: title.to_owned(),
        is_phase,
        unit: unit.to_owned(),
        n: u32::try_from(values.len()).unwrap_or(u32::MAX),
        median: interval::median(&values).unwrap_or_default(),
        variation: welch::variance(&values).zip(mean).map(|(squares, mean)| squares.sqrt() / mean),
        autocorrelation: autocorrelation(&values),
        drift: drift.map(|drift| drift.ratio),
        drift_p: drift.map(|drift| drift.p),
    }
}

/// Correlation of each value's logarithm with that of the next; `None` with fewer than eight values or
/// without scatter.
fn autocorrelation(values: &[f64]) -> Option<f64> {
    if values.len() < FEWEST_IN_TIME || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = interval::mean(&logarithms)?;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = logarithms.windows(2).map(|it| (it[0] - mean) * (it[1] - mean)).sum();
    (squares > 0.0).then(|| products / squares)
}

/// The 95 % interval of a standard deviation that is told from `n` normal values.
fn of_deviation(deviation: f64, n: usize) -> Option<Interval> {
    let freedom = n.checked_sub(1)? as f64;
    let squares = ChiSquared::new(freedom).ok()?;
    let end = |p: f64| deviation * (freedom / squares.inverse_cdf(p)).sqrt();
    Some(Interval { low: end(0.975), high: end(0.025) })
}

fn need(phase: &str, deviation: f64, blocks: usize, trial_s: f64) -> NoiseNeeded {
    let differences = DIFFERENCES.map(|percent| {
        let trials_auto = needed::auto(percent / 100.0, deviation);
        NoiseDifference {
            percent,
            trials_auto,
            trials_fixed: needed::fixed(percent / 100.0, deviation),
            auto_s: trials_auto.map(|trials| f64::from(trials) * 2.0 * trial_s),
        }
    });
    let ends = of_deviation(deviation, blocks);
    NoiseNeeded {
        phase: phase.to_owned(),
        deviation,
        deviation_low: ends.map(|ends| ends.low),
        deviation_high: ends.map(|ends| ends.high),
        differences: differences.to_vec(),
    }
}

/// What disturbed, each kind once, with the number of trials.
fn disturbances(result: &RunResult) -> Vec<Warning> {
    let mut all: Vec<(Warning, usize)> = Vec::new();
    for trial in &result.trials {
        for warning in trial.warnings.iter().filter(|it| is_disturbance(it)) {
            match all.iter_mut().find(|(known, _)| known.code == warning.code) {
                Some((_, count)) => *count += 1,
                None => all.push((warning.clone(), 1)),
            }
        }
    }
    let trials = result.trials.iter().filter(|it| it.outcome == Outcome::Completed).count();
    let of_trials = all.into_iter().map(|(warning, count)| {
        let message = format!("in {count} of {trials} trials; the first: {}", warning.message);
        Warning { message, ..warning }
    });
    let drift = result.run.warnings.iter().filter(|warning| warning.code == "machine-drifted");
    of_trials.chain(drift.cloned()).collect()
}

/// What would make it better, from the figures.
fn advice(told: &Noise, governor: Option<&str>) -> Vec<Warning> {
    let mut all = Vec::new();
    let mut advise = |code: &str, message: String, advice: &str| {
        all.push(Warning { code: code.to_owned(), message, advice: advice.to_owned() });
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if let Some(governor) = governor.filter(|it| *it != "performance") {
        advise(
            "frequency-governor",
            format!("the processor's frequency is set by the governor {governor}"),
            "cpupower frequency-set -g performance",
        );
    }
    for (part, limit, code, advice) in [
        (
            Part::Processor,
            NOISY_PROCESSOR,
            "processor-noisy",
            "stop what else computes; on a shared host expect no better",
        ),
        (
            Part::Device,
            NOISY_DEVICE,
            "device-noisy",
            "stop what else uses the disk, or measure on a disk that nothing else uses",
        ),
    ] {
        let of_part = fsdyno_model::yardstick::FIGURES.iter().filter(|it| it.part == part);
        let names: Vec<&str> = of_part.map(|figure| figure.name).collect();
        let own = told.figures.iter().filter(|it| names.contains(&it.name.as_str()));
        let variations = own.filter_map(|it| Some((it.variation?, &it.title)));
        let worst = variations.max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((variation, title)) = worst.filter(|(variation, _)| *variation >= limit) {
            let message =
                format!("{title} varies by {} from reading to reading", percent(variation));
            advise(code, message, advice);
        }
    }
    let worst = told.needed.iter().max_by(|a, b| a.deviation.total_cmp(&b.deviation));
    if let Some(worst) = worst.filter(|worst| worst.deviation >= NOISY_BLOCKS) {
        advise(
            "comparisons-noisy",
            format!(
                "two equal targets differ by {} in {} within one block",
                percent(worst.deviation),
                worst.phase
            ),
            "longer workloads scatter less than this short one; where they do not, take more trials",
        );
    }
    all
}

#[cfg(test)]
mod tests;
