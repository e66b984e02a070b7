//! How long each phase has run, and whether that is longer than it may.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fsdyno_workload::runner::PREPARE;

use super::End;

/// Time by phase. A phase that comes up again and again, as those of compilebench do, has all its times.
pub(super) struct PhaseBudget {
    limit: Option<Duration>,
    spent: BTreeMap<String, Duration>,
    /// The phase that was heard of last, and when.
    last: Option<(String, Instant)>,
    done: f64,
}

impl PhaseBudget {
    pub(super) fn new(limit: Option<Duration>) -> PhaseBudget {
        PhaseBudget { limit, spent: BTreeMap::new(), last: None, done: 0.0 }
    }

    /// Takes in that `phase` is running, and the share of the trial that is done.
    pub(super) fn heard(&mut self, phase: &str, done: f64) {
        self.done = done;
        if self.limit.is_none() {
            return;
        }
        let now = Instant::now();
        if let Some((last, since)) = self.last.take() {
            *self.spent.entry(last).or_default() += now.duration_since(since);
        }
        self.last = Some((phase.to_owned(), now));
    }

    /// The end of a runner whose phase has run for too long.
    pub(super) fn end(&self) -> Option<End> {
        let limit = self.limit?;
        let (phase, since) = self.last.as_ref()?;
        let spent = self.spent.get(phase).copied().unwrap_or_default() + since.elapsed();
        // What a workload makes before it measures is no phase.
        (phase != PREPARE && spent > limit).then(|| End::PhaseTimedOut { error: self.words(limit) })
    }

    fn words(&self, limit: Duration) -> String {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        format!(
            "the phase was not done within {} (phase_timeout in a plan); {:.0} % of the trial's work was done",
            fsdyno_model::units::human_duration(limit_ns),
            self.done * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_all_its_times() {
        let mut budget = PhaseBudget::new(Some(Duration::from_secs(3600)));
        for phase in [PREPARE, "create", "read", "create"] {
            budget.heard(phase, 0.25);
        }
        assert_eq!(budget.end(), None);
        *budget.spent.get_mut("create").unwrap() = Duration::from_secs(3600);
        let Some(End::PhaseTimedOut { error }) = budget.end() else { panic!("it goes on") };
        assert!(error.ends_with("25 % of the trial's work was done"), "{error}");
        budget.heard(PREPARE, 0.25);
        budget.spent.insert(PREPARE.to_owned(), Duration::from_secs(7200));
        assert_eq!(budget.end(), None);
        assert_eq!(PhaseBudget::new(None).end(), None);
    }
}
