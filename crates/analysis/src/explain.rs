//! What a trial that is only traced says beside those whose figures count: how much slower it was. The
//! trace itself is left to the trace passes.

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::Role;
use fsdyno_model::result::TrialResult;

use crate::interval;
use crate::series::FSCK;

/// Time of the traced trial of `target` and `workload` over the median of those whose figures count: 1.02
/// took two per cent longer. It is the time of all phases but fsck, each until its data were on the device.
/// `None` where one of the two is missing.
#[must_use]
pub fn slowdown(trials: &[TrialResult], target: &str, workload: &str) -> Option<f64> {
    let traced = elapsed_ns(traced(trials, target, workload)?) as f64;
    let own = trials.iter().filter(|trial| trial.target == target && trial.workload == workload);
    let counting = own.filter(|trial| trial.role == Role::Measured && trial.trace.is_none());
    let untraced: Vec<f64> = counting
        .filter(|trial| trial.outcome == Outcome::Completed)
        .map(|trial| elapsed_ns(trial) as f64)
        .collect();
    let ratio = traced / interval::median(&untraced)?;
    ratio.is_finite().then_some(ratio)
}

/// The trial of `target` and `workload` that is only traced, where it completed with a trace.
#[must_use]
pub fn traced<'a>(
    trials: &'a [TrialResult],
    target: &str,
    workload: &str,
) -> Option<&'a TrialResult> {
    trials.iter().find(|trial| {
        trial.role == Role::Explain
            && trial.target == target
            && trial.workload == workload
            && trial.outcome == Outcome::Completed
            && trial.trace.is_some()
    })
}

fn elapsed_ns(trial: &TrialResult) -> u64 {
    let phases = trial.phases.iter().filter(|phase| phase.name != FSCK);
    phases.map(|phase| phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns)).sum()
}

#[cfg(test)]
mod tests {
    use fsdyno_model::record::TrialRecord;
    use fsdyno_model::trace::TraceRecord;

    use super::*;
    use crate::{assemble, fixture};

    /// A trial whose two phases took these seconds, the second until durable.
    fn trial(number: u32, seconds: [f64; 2]) -> TrialRecord {
        let phases = [("create", seconds[0]), ("stat", 1.0), ("fsck", 100.0)];
        let mut record = fixture::trial("ext4", number, &phases);
        record.phases[1].elapsed_durable_ns = Some((seconds[1] * 1e9) as u64);
        record
    }

    fn results(records: Vec<TrialRecord>) -> Vec<TrialResult> {
        records.iter().map(assemble::trial_result).collect()
    }

    fn explaining(seconds: [f64; 2]) -> TrialRecord {
        let file = "0003-ext4-w.fstrace".to_owned();
        let trace = TraceRecord { file, file_bytes: 1, events: 1, lost_events: 0 };
        let record = trial(4, seconds);
        TrialRecord { role: Role::Explain, trace: Some(trace), ..record }
    }

    #[test]
    fn the_slowdown_is_told_beside_the_median() {
        let measured = || vec![trial(1, [1.0, 2.0]), trial(2, [2.0, 2.0]), trial(3, [9.0, 9.0])];
        let told = |trials: Vec<TrialRecord>| slowdown(&results(trials), "ext4", fixture::WORKLOAD);
        let mut trials = measured();
        assert_eq!(told(trials.clone()), None);
        trials.push(explaining([2.0, 2.2]));
        assert!((told(trials.clone()).unwrap() - 1.05).abs() < 1e-9);
        // Trials that failed or were traced too are no yardstick.
        trials[0].outcome = Outcome::Interrupted { stage: "create".to_owned() };
        trials[1].trace = trials[3].trace.clone();
        assert!((told(trials.clone()).unwrap() - 4.2 / 18.0).abs() < 1e-9);
        trials[3].outcome = Outcome::Interrupted { stage: "create".to_owned() };
        assert_eq!(told(trials), None);
        assert_eq!(told(vec![explaining([1.0, 1.0])]), None);
    }
}
