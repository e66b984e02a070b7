//! Which of the trials that are only traced are not made: where this machine cannot trace, and where
//! there is nothing to explain.

use std::collections::BTreeSet;

use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::Role;

use super::schedule::Planned;
use crate::store::Store;

/// What is known of the traced trials of a run.
pub struct Explain {
    /// Why nothing can be traced here; `None` where it can, or where nothing is to be traced.
    pub unavailable: Option<String>,
    /// Targets and workloads of which a trial completed; found out when the first traced trial comes up.
    completed: Option<BTreeSet<(String, String)>>,
}

impl Explain {
    /// Finds out whether this machine can trace, where `schedule` asks for that.
    pub fn new(plan: &Plan, schedule: &[Planned]) -> Explain {
        let is_asked = schedule.iter().any(|planned| planned.is_traced(plan));
        let unavailable = is_asked.then(fsdyno_trace::capture::unavailable).flatten();
        Explain { unavailable, completed: None }
    }

    /// Why `planned` is not made, where it is only there to be traced.
    ///
    /// # Errors
    /// Those of the database.
    pub fn skip_reason(
        &mut self,
        plan: &Plan,
        planned: &Planned,
        store: &Store,
        run_id: &str,
    ) -> anyhow::Result<Option<String>> {
        if planned.role != Role::Explain {
            return Ok(None);
        }
        if let Some(reason) = &self.unavailable {
            return Ok(Some(reason.clone()));
        }
        if self.completed.is_none() {
            let trials = store.trials(run_id)?.into_iter();
            let counting = trials.filter(|trial| trial.role == Role::Measured);
            let completed = counting.filter(|trial| trial.outcome == Outcome::Completed);
            self.completed = Some(completed.map(|it| (it.target, it.workload)).collect());
        }
        let case = (
            plan.targets[planned.target_index].label.clone(),
            plan.workloads[planned.workload_index].label.clone(),
        );
        let is_known = self.completed.as_ref().is_some_and(|completed| completed.contains(&case));
        Ok((!is_known).then(|| "no trial completed that it could explain".to_owned()))
    }
}
