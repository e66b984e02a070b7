//! What is told of transactions of a database: their number and how long they took. How a transaction
//! is made is left to the workloads.

use crate::phase::PhaseTally;
use crate::recorder::Operation;

const NS_PER_MS: f64 = 1e6;

/// Stores number and latency of the transactions that were recorded as [`Operation::Task`].
pub fn tell(tally: &mut PhaseTally) {
    let count = tally.recorder().count(Operation::Task) as f64;
    tally.value("transactions", count);
    for (metric, quantile) in
        [("task_p50_ms", 0.5), ("task_p99_ms", 0.99), ("task_p999_ms", 0.999), ("task_max_ms", 1.0)]
    {
        if let Some(latency_ns) = tally.recorder().quantile_ns(Operation::Task, quantile) {
            tally.value(metric, latency_ns as f64 / NS_PER_MS);
        }
    }
}
