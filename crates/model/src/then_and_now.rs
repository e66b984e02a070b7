//! Published figures beside those of a run: what the analysis makes of a plan that repeats a publication.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::published::Scale;

/// A publication and a run beside each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThenAndNow {
    /// Name of the published plan.
    pub name: String,
    /// How much of it was repeated.
    pub scale: Scale,
    /// What was published and where.
    pub source: String,
    /// When it was measured.
    pub year: u16,
    /// The kernel then.
    pub kernel: String,
    /// The machine then.
    pub hardware: String,
    /// Which of the machines of then is emulated, where the publication has several; null elsewhere.
    #[serde(default)]
    pub machine: Option<String>,
    /// On what it was repeated, and how much data there was for how much memory, then and now.
    #[serde(default)]
    pub setting: Vec<String>,
    /// What is not as it was, and why.
    pub differences: Vec<String>,
    /// Every published row.
    pub rows: Vec<Row>,
    /// Every pair of targets of every row that has both figures of both.
    pub pairs: Vec<Pair>,
    /// Kendall's tau of the orders then and now, over all pairs; null without pairs.
    pub tau: Option<f64>,
    /// What changed and what did not, a sentence each.
    pub words: Vec<String>,
}

/// One published row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// What was done, as the publication calls it.
    pub operation: String,
    /// Label of the workload that did it again.
    pub workload: Option<String>,
    /// Its phase; null where none does it again.
    pub phase: Option<String>,
    /// Unit of all figures of the row.
    pub unit: String,
    /// Why no phase does it again.
    pub missing: Option<String>,
    /// One for each target of the run that was published, then those published alone.
    pub cells: Vec<Cell>,
}

/// One figure then and now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Label of the target.
    pub target: String,
    /// What was printed then.
    pub published: String,
    /// The same as a number; null where it is none.
    pub published_value: Option<f64>,
    /// Median of the trials that did the phase to its end, in the unit of the row, for the published amount of
    /// work; where ranks were published, the rank of the median. Null where no trial did.
    pub measured: Option<f64>,
    /// Why there is no measured figure, where a trial that was to give one did not: how it ended.
    #[serde(default)]
    pub not_measured: Option<String>,
    /// How many times as fast as then; null where either is missing, and for ranks.
    pub ratio: Option<f64>,
}

/// Two targets in one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// What was done.
    pub operation: String,
    /// Label of the workload that did it again.
    pub workload: String,
    /// Label of one target.
    pub a: String,
    /// Label of the other.
    pub b: String,
    /// How many times as fast `a` was as `b`; of ranks the quotient tells the order alone.
    pub then: f64,
    /// The same now, paired by trial.
    pub now: f64,
    /// Low end of its 95 % interval; null with a single trial, but in virtual time, where that is exact.
    pub now_low: Option<f64>,
    /// High end of the same.
    pub now_high: Option<f64>,
}

impl Pair {
    /// The ratio now with its interval, where there is one: `0.84 [0.79–0.90]`.
    #[must_use]
    pub fn now_text(&self) -> String {
        let ends = self.now_low.zip(self.now_high).filter(|(low, high)| low < high);
        let ends = ends.map_or(String::new(), |(low, high)| format!(" [{low:.2}–{high:.2}]"));
        format!("{:.2}{ends}", self.now)
    }

    /// Whether the order is that of then; `None` where it is not told apart now, or was not then.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        let (low, high) = self.now_low.zip(self.now_high)?;
        if self.then == 1.0 || (low <= 1.0 && high >= 1.0) {
            return None;
        }
        Some((self.then > 1.0) == (self.now > 1.0))
    }
}
