//! What the machine did while a trial ran, sampled ten times a second: processor time by group, memory,
//! pressure, traffic of the devices. How it is sampled is left to the phase runner.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the values of a series are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// A state at the moment of sampling.
    Gauge,
    /// What was added since the sample before.
    Delta,
}

/// One figure over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActivitySeries {
    /// Name, unit last: `cpu_journal_ns`, `memory_dirty_bytes`, `device_write_bytes`.
    pub name: String,
    /// What it belongs to: `cpu`, `idle`, `memory`, `vmstat`, `pressure`, `device`, `check`.
    pub kind: String,
    /// For people: `journal`.
    pub title: String,
    /// How to read the values.
    pub reading: Reading,
    /// A value for each time; null where it could not be read.
    pub values: Vec<Option<f64>>,
}

/// All series of one trial on one time axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Number of processors, which is how much processor time a second has.
    pub processors: u32,
    /// Moments of sampling, `CLOCK_MONOTONIC` in nanoseconds, ascending. They are those of the clock
    /// that block traces and `started_ns` of samples use.
    pub times_ns: Vec<u64>,
    /// The series.
    pub series: Vec<ActivitySeries>,
}

impl Activity {
    /// The series called `name`.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&ActivitySeries> {
        self.series.iter().find(|series| series.name == name)
    }
}
