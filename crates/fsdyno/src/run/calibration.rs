//! Which rungs of a ladder are left out, decided when the first of their trials comes up. Every one of
//! their trials is recorded as skipped, with the reason. The decision is the analysis's, from the stored
//! records alone, so that a resumed run decides as the whole one would have.

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{Role, TrialRecord};

use super::schedule::Planned;
use crate::store::{Store, StoredRun};

/// What was decided so far.
pub struct Calibration<'a> {
    run: &'a StoredRun,
    /// By the index of the workload: why it is left out; `None` where it is not.
    reasons: BTreeMap<usize, Option<String>>,
    /// Labels of the ladders of which it was told.
    told: BTreeSet<&'a str>,
}

/// A trial that is not made.
pub struct LeftOut {
    /// Its record.
    pub record: TrialRecord,
    /// What has not been told yet.
    pub news: Option<String>,
}

impl<'a> Calibration<'a> {
    /// Nothing decided yet.
    pub fn new(run: &'a StoredRun) -> Calibration<'a> {
        Calibration { run, reasons: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// The record of `planned` where its rung is left out.
    ///
    /// # Errors
    /// Those of the database.
    pub fn left_out(
        &mut self,
        planned: &Planned,
        store: &Store,
    ) -> anyhow::Result<Option<LeftOut>> {
        let plan = &self.run.plan;
        let Some((ladder, rung_index @ 1..)) = plan.ladder_of(planned.workload_index) else {
            return Ok(None);
        };
        if !self.reasons.contains_key(&planned.workload_index) {
            let trials = store.trials(&self.run.id)?;
            let reason =
                fsdyno_analysis::calibration::skip_reason(plan, ladder, rung_index, &trials);
            self.reasons.insert(planned.workload_index, reason);
        }
        let Some(reason) = &self.reasons[&planned.workload_index] else {
            return Ok(None);
        };
        let workload = &plan.workloads[planned.workload_index].label;
        let record = planned.record(plan, Outcome::Skipped { reason: reason.clone() });
        // If one is left out, so are all that are heavier, for the same reason.
        let is_new = planned.role == Role::Measured && self.told.insert(&ladder.label);
        let news = is_new.then(|| format!("{workload} and heavier: skipped: {reason}"));
        Ok(Some(LeftOut { record, news }))
    }
}
