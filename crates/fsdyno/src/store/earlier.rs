//! What an earlier run tells about how long a plan will take. That it was made on other targets, or that
//! the machine was busy then, is not accounted for: it is a guess for people who wait.

use fsdyno_model::plan::Plan;
use fsdyno_model::workload::WorkloadSpec;

use super::Store;

/// Runs that are looked through, from the latest back.
const LOOKED_THROUGH: u32 = 20;

/// An earlier run of the same workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Its identifier.
    pub run_id: String,
    /// Mean time of a trial of each workload of the plan that is asked about, one after the other.
    pub trial_ns: Vec<u64>,
}

impl Store {
    /// The latest run in which trials of every workload of `plan` completed, with the same parameters.
    ///
    /// # Errors
    /// Those of the database.
    pub fn earlier(&self, plan: &Plan) -> anyhow::Result<Option<Earlier>> {
        let mut statement =
            self.connection.prepare("SELECT id FROM run ORDER BY started_unix_ns DESC LIMIT ?1")?;
        let ids: Vec<String> =
            statement.query_map([LOOKED_THROUGH], |row| row.get(0))?.collect::<Result<_, _>>()?;
        for run_id in ids {
            // One that cannot be read tells nothing, and is nobody's concern here.
            let Some(run) = self.load(&run_id).ok().flatten() else { continue };
            let is_same = |a: &WorkloadSpec, b: &WorkloadSpec| {
                (&a.kind, &a.params, &a.definition) == (&b.kind, &b.params, &b.definition)
            };
            let times = plan.workloads.iter().map(|workload| {
                let own = run.plan.workloads.iter().find(|own| is_same(own, workload))?;
                self.mean_trial_ns(&run_id, &own.label).ok().flatten()
            });
            if let Some(trial_ns) = times.collect::<Option<Vec<u64>>>() {
                return Ok(Some(Earlier { run_id, trial_ns }));
            }
        }
        Ok(None)
    }

    /// Mean time of the trials of a workload that completed; `None` when none did.
    fn mean_trial_ns(&self, run_id: &str, workload: &str) -> rusqlite::Result<Option<u64>> {
        let mean: Option<f64> = self.connection.query_row(
            "SELECT avg(elapsed_ns) FROM trial WHERE run_id = ?1 AND workload = ?2 AND outcome = 'completed'",
            [run_id, workload],
            |row| row.get(0),
        )?;
        Ok(mean.map(|ns| ns.max(0.0) as u64))
    }
}
