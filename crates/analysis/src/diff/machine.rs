//! Whether two runs are of different machines, and what their speeds then let expect: those of the
//! yardstick ([`super::covariate`]), or where a run has none the read speeds before its first trial. Telling
//! it is left to [`super::differences`].
//!
//! The model is simple and stated: of the time that a phase took in the base, the share in which the
//! application and the filesystem's threads computed goes with the speed of processor and memory, and the
//! rest with that of the device. It explains a faster disk or an older processor roughly, not exactly; so both
//! ratios are told, and the raw one decides unless the user asks for the other.

use fsdyno_model::diff::AdjustedBy;
use fsdyno_model::environment::Environment;
use fsdyno_model::record::PhaseRecord;
use fsdyno_model::result::{RunResult, TargetResult};
use fsdyno_model::yardstick::Figure;

use super::covariate::{self, Shares, Speed};
use super::sides::{Case, Matching, PhaseTrial};
use crate::interval::Interval;

/// Share by which the memory of one machine may seem different: kernels keep more or less for
/// themselves.
const SAME_MEMORY: f64 = 0.05;

/// What is different about the machines.
#[derive(Debug, Clone)]
pub struct Machines {
    /// What differs, with both values: `host name (a, b)`; the kernel is not among them.
    pub differing: Vec<String>,
    /// The releases of the kernels where they differ.
    pub kernels: Option<[String; 2]>,
    /// Memory reads of the new machine to those of the base; `None` where one was not measured.
    memory: Option<f64>,
    environments: [Environment; 2],
    /// The speeds by the yardstick, over all that both runs have.
    speeds: Vec<Speed>,
}

impl Machines {
    /// Compares the machines of two runs.
    #[must_use]
    pub fn of(base: &RunResult, new: &RunResult, matching: &Matching<'_>) -> Machines {
        let [a, b] = [base, new].map(|result| &result.run.environment);
        let mut differing = Vec::new();
        let mut compare = |name: &str, base: Option<String>, new: Option<String>| {
            if let (Some(base), Some(new)) = (base, new)
                && base != new
            {
                differing.push(format!("{name} ({base}, {new})"));
            }
        };
        compare("host name", a.hostname.clone(), b.hostname.clone());
        compare("processor", a.cpu_model.clone(), b.cpu_model.clone());
        let count = |environment: &Environment| environment.cpu_count.map(|it| it.to_string());
        compare("processors", count(a), count(b));
        if let (Some(base), Some(new)) = (a.usable_memory_bytes(), b.usable_memory_bytes())
            && (base as f64 / new as f64).ln().abs() > SAME_MEMORY
        {
            let text = |bytes| Some(fsdyno_model::units::human_bytes(bytes));
            compare("memory", text(base), text(new));
        }
        for [base, new] in &matching.targets {
            for name in ["model", "backing_source", "source"] {
                let fact = |target: &TargetResult| target.device_facts.get(name).cloned();
                compare(&format!("disk of {}", new.label), fact(base), fact(new));
            }
        }
        let mut seen: Vec<String> = Vec::new();
        differing.retain(|text| {
            let what = text.split_once(" (").map_or("", |(_, values)| values).to_owned();
            let is_new = !seen.contains(&what);
            seen.push(what);
            is_new
        });
        let kernels = a.kernel_release.clone().zip(b.kernel_release.clone());
        let speed = |environment: &Environment| environment.cached_read_mib_per_s;
        Machines {
            differing,
            kernels: kernels.filter(|(base, new)| base != new).map(|(base, new)| [base, new]),
            memory: ratio(speed(a), speed(b)),
            environments: [a.clone(), b.clone()],
            speeds: speeds(matching),
        }
    }

    /// Whether the runs are of different machines; another kernel alone makes none.
    #[must_use]
    pub fn are_different(&self) -> bool {
        !self.differing.is_empty()
    }

    /// What the yardstick says of the new machine beside that of the base, in words; empty where a run has
    /// none.
    #[must_use]
    pub fn speeds(&self) -> String {
        let words: Vec<String> = self.speeds.iter().map(Speed::words).collect();
        words.join(", ")
    }

    /// The same of what has changed on one machine, by more than chance explains.
    #[must_use]
    pub fn changed(&self) -> String {
        let changed = self.speeds.iter().filter(|speed| speed.has_changed());
        changed.map(Speed::words).collect::<Vec<String>>().join(", ")
    }

    /// What the machines let expect of a phase, of which `base` and `new` are the trials; `None` on one
    /// machine that is as it was, or where something was not measured.
    #[must_use]
    pub fn expected(
        &self,
        case: &Case<'_>,
        base: &[&PhaseTrial<'_>],
        new: &[&PhaseTrial<'_>],
    ) -> Option<Expected> {
        let speeds = covariate::speeds(base, new);
        if !self.are_different() && !speeds.iter().any(Speed::has_changed) {
            return None;
        }
        let shares = Shares::of(base)?;
        let of_figure = |figure: &Figure| {
            speeds.iter().find(|speed| speed.figure.name == figure.name).map(|it| it.logarithm)
        };
        let bounds = covariate::bounds(&speeds);
        if let Some(logarithm) = shares.mixed(&of_figure) {
            return Some(Expected { logarithm, by: AdjustedBy::Yardstick, shares, bounds });
        }
        let device = ratio(
            device_read(&self.environments[0], case.targets[0]),
            device_read(&self.environments[1], case.targets[1]),
        )?;
        let logarithm = expected(shares.computing, self.memory?, device);
        let is_other = self.are_different();
        is_other.then_some(Expected { logarithm, by: AdjustedBy::ReadSpeed, shares, bounds })
    }
}

/// The speeds over all trials that both runs have.
fn speeds(matching: &Matching<'_>) -> Vec<Speed> {
    let [base, new] = [0, 1].map(|side| {
        let cases = matching.cases.iter().map(|case| case.all_trials());
        cases.flat_map(|mut sides| std::mem::take(&mut sides[side])).collect::<Vec<_>>()
    });
    covariate::speeds(&base, &new)
}

/// What the machines let expect of a phase.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Logarithm of how many times as good the new machine should be.
    pub logarithm: f64,
    /// By what that is known.
    pub by: AdjustedBy,
    /// What the phase's time was made of in the base.
    pub shares: Shares,
    /// Between which logarithms it lies whatever the time is made of.
    pub bounds: Option<Interval>,
}

/// Logarithm of the speed that is expected where `share` of the time goes with `memory` and the rest
/// with `device`, both being ratios of speeds.
fn expected(share: f64, memory: f64, device: f64) -> f64 {
    -(share / memory + (1.0 - share) / device).ln()
}

fn ratio(base: Option<f64>, new: Option<f64>) -> Option<f64> {
    let ratio = new? / base?;
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

/// Share of a phase's time in which the application and the filesystem's threads computed.
pub(super) fn computing_share(phase: &PhaseRecord) -> Option<f64> {
    let elapsed_ns = phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns);
    let cpu = &phase.cpu;
    let busy_ns = cpu.app_user_ns? + cpu.app_system_ns? + cpu.filesystem_ns.unwrap_or(0);
    (elapsed_ns > 0).then(|| (busy_ns as f64 / elapsed_ns as f64).min(1.0))
}

/// How fast the device under a target was read before the first trial, in MiB per second.
fn device_read(environment: &Environment, target: &TargetResult) -> Option<f64> {
    let speeds = &environment.device_read_mib_per_s;
    let names = [
        Some(target.device.as_str()),
        target.device_facts.get("path").map(String::as_str),
        environment.image_directory.as_deref(),
    ];
    let named = names.into_iter().flatten().find_map(|name| speeds.get(name));
    let only = speeds.values().next().filter(|_| speeds.len() == 1);
    *named.or(only)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_lies_between_memory_and_device() {
        let near = |actual: f64, expected: f64| {
            assert!((actual.exp() / expected - 1.0).abs() < 1e-12, "{} {expected}", actual.exp());
        };
        near(expected(1.0, 2.0, 9.0), 2.0);
        near(expected(0.0, 2.0, 9.0), 9.0);
        // Half of the time twice as fast, half of it four times: 1 / (0.25 + 0.125).
        near(expected(0.5, 2.0, 4.0), 1.0 / 0.375);
        near(expected(0.5, 1.0, 1.0), 1.0);
    }

    #[test]
    fn speeds_that_were_not_measured_have_no_ratio() {
        assert_eq!(ratio(None, Some(1.0)), None);
        assert_eq!(ratio(Some(0.0), Some(1.0)), None);
        assert_eq!(ratio(Some(2.0), Some(1.0)), Some(0.5));
    }
}
