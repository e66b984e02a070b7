//! Whether verdicts can be trusted: one long run of two targets is cut into experiments of so many
//! trials each, every one judged as a run of its own would be. Where both targets are the same, each
//! that is told apart is false; where one does more work by a known share, each that is told apart the
//! right way has found it. Running the trials is left to the caller.

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{Role, TrialRecord};
use statrs::distribution::{Beta, ContinuousCDF};

use crate::ratio;
use crate::series::WorkloadOrder;
use crate::stopping::Looks;

/// What one experiment said of the second target beside the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Experiment {
    /// How many times as good it was.
    pub ratio: f64,
    /// Low end of the 95 % interval.
    pub low: f64,
    /// High end.
    pub high: f64,
}

impl Experiment {
    /// Whether the targets were told apart, and the second was called worse.
    #[must_use]
    pub fn is_slower(&self) -> bool {
        self.high < 1.0
    }

    /// Whether the targets were told apart.
    #[must_use]
    pub fn is_told_apart(&self) -> bool {
        self.is_slower() || self.low > 1.0
    }
}

/// The experiments of `trials_each` trials that the measured trials of two `targets` on `workload` make, in
/// the order of their blocks. Experiments in which a trial did not complete are left out.
#[must_use]
pub fn experiments(
    targets: [&str; 2],
    workload: &WorkloadOrder<'_>,
    trials: &[TrialRecord],
    trials_each: u32,
) -> Vec<Experiment> {
    let is_good =
        |trial: &&TrialRecord| trial.role == Role::Measured && trial.outcome == Outcome::Completed;
    let last = trials.iter().map(|trial| trial.trial).max().unwrap_or(0);
    let judge = |index: u32| {
        let blocks = index * trials_each + 1..=(index + 1) * trials_each;
        let own = trials.iter().filter(is_good).filter(|trial| blocks.contains(&trial.trial));
        let own: Vec<TrialRecord> = own.cloned().collect();
        if own.len() != 2 * trials_each as usize {
            return None;
        }
        let order = WorkloadOrder { label: workload.label, phases: workload.phases.clone() };
        let told = ratio::comparisons(&targets, &[order], &own, &Looks::ONE);
        let ratio = told.first()?.overall?;
        Some(Experiment { ratio: ratio.ratio, low: ratio.low?, high: ratio.high? })
    };
    (0..last / trials_each.max(1)).filter_map(judge).collect()
}

/// A share with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// How many.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// Low end of the interval of Clopper and Pearson, 0 … 1.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// `count` of `of`, with the exact interval of a binomial share (Clopper and Pearson 1934).
#[must_use]
pub fn share(count: u64, of: u64) -> Share {
    let (k, n) = (count as f64, of as f64);
    let quantile = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |b| b.inverse_cdf(p));
    let low = if count == 0 { 0.0 } else { quantile(k, n - k + 1.0, 0.025) };
    let high = if count >= of { 1.0 } else { quantile(k + 1.0, n - k, 0.975) };
    Share { count, of, low, high }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn order() -> WorkloadOrder<'static> {
        WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create"] }
    }

    /// Trials of two targets with some scatter, the second slower by `factor`.
    fn run(blocks: u32, factor: f64) -> Vec<TrialRecord> {
        let trial = |block: u32| {
            let drift = 1.0 + 0.1 * f64::from(block % 7);
            let scatter = 1.0 + 0.01 * f64::from((block * 5) % 3);
            [
                fixture::trial("a", block, &[("create", drift)]),
                fixture::trial("b", block, &[("create", drift * scatter * factor)]),
            ]
        };
        (1..=blocks).flat_map(trial).collect()
    }

    #[test]
    fn a_run_is_cut_into_experiments() {
        let trials = run(23, 1.2);
        let all = experiments(["a", "b"], &order(), &trials, 5);
        assert_eq!(all.len(), 4, "the last three blocks are no experiment");
        for one in &all {
            assert!(one.is_slower() && one.is_told_apart(), "{one:?}");
            assert!((one.ratio * 1.2 - 1.0).abs() < 0.03, "{one:?}");
        }
        assert!(experiments(["b", "a"], &order(), &trials, 5).iter().all(|one| one.low > 1.0));
        assert!(experiments(["a", "b"], &order(), &[], 5).is_empty());
    }

    #[test]
    fn what_did_not_complete_is_no_experiment() {
        let mut trials = run(10, 1.2);
        trials[3].outcome = Outcome::Interrupted { stage: "create".to_owned() };
        assert_eq!(experiments(["a", "b"], &order(), &trials, 5).len(), 1);
    }

    // SciPy 1.17.1: scipy.stats.binomtest(k, n).proportion_ci(method='exact')
    #[test]
    fn shares_agree_with_scipy() {
        for (count, of, low, high) in [
            (0, 40, 0.0, 0.088_097_303),
            (2, 40, 0.006_113_647, 0.169_196_864),
            (19, 20, 0.751_267_237, 0.998_734_911),
            (20, 20, 0.831_566_529, 1.0),
        ] {
            let share = share(count, of);
            assert!((share.low - low).abs() < 1e-8, "{share:?} {low}");
            assert!((share.high - high).abs() < 1e-8, "{share:?} {high}");
        }
    }
}
