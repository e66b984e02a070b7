//! Advice from stored results: how targets rank for somebody's work, how sure that is, and what is still to
//! be measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report_data::Ratio;

/// The document of `fsdyno advise --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Version of the format, see [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Whose work: `a mail server`, or the workloads that were named.
    pub who: String,
    /// What it asks of a filesystem; null for named workloads.
    pub work: Option<String>,
    /// The workloads that stand for it, in the order in which they were given.
    pub workloads: Vec<AdvisedWorkload>,
    /// Targets, best first.
    pub ranking: Vec<Ranked>,
    /// Whether no target needs to be measured again to name the best.
    pub is_settled: bool,
    /// The advice, a sentence each.
    pub words: Vec<String>,
    /// What speaks against relying on it: findings of the audit, failures, gaps.
    pub notes: Vec<String>,
    /// The command that would settle what is open; null where nothing is.
    pub next: Option<NextRun>,
}

/// One workload and where its figures come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdvisedWorkload {
    /// As `--workload` takes it.
    pub spec: String,
    /// Share of the whole, 0 to 1.
    pub share: f64,
    /// What of the work it stands for.
    pub why: String,
    /// Identifiers of the runs that its figures are from, newest first; empty where it was not measured.
    pub runs: Vec<String>,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranked {
    /// Its label.
    pub target: String,
    /// How many times as good as the first target, on the whole; null where no trial of both is common.
    pub whole: Option<Ratio>,
    /// Whether it is not told apart from the first target.
    pub is_tied: bool,
    /// The same by workload, in the order of the workloads.
    pub parts: Vec<Option<Ratio>>,
}

/// What is to be run next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextRun {
    /// The command, quoted for a shell.
    pub command: String,
    /// The file to which it was written as a plan; null where that was not asked for.
    #[serde(default)]
    pub plan: Option<String>,
    /// Time of one trial of each of its targets, by earlier ones, in seconds; null where none is known.
    pub block_s: Option<f64>,
}
