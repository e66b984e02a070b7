//! How noisy a machine is, and how many trials it will need: what `fsdyno doctor --noise --json` writes.
//! Measured by a short run, computed by `analysis`, drawn by `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Warning;

/// The noise of one machine in one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Noise {
    /// Version of this document.
    pub schema_version: u32,
    /// Host name.
    pub hostname: Option<String>,
    /// What was measured, under two labels.
    pub target: String,
    /// Where it lies.
    pub directory: String,
    /// Blocks of two trials in which both completed.
    pub blocks: u32,
    /// Trials that were made.
    pub trials: u32,
    /// Mean time of a trial, what lies between two of them included, in seconds.
    pub trial_s: f64,
    /// Each figure of the machine itself and of the workload.
    pub figures: Vec<NoiseFigure>,
    /// What the noise means for comparisons, phase by phase.
    pub needed: Vec<NoiseNeeded>,
    /// What disturbed, and what would make it better.
    pub warnings: Vec<Warning>,
}

/// How much one figure varied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseFigure {
    /// Name of the figure of the yardstick, or of the phase.
    pub name: String,
    /// For people.
    pub title: String,
    /// Whether it is a phase of the workload; else it is of the machine itself.
    pub is_phase: bool,
    /// Unit of the median.
    pub unit: String,
    /// Values.
    pub n: u32,
    /// Their median.
    pub median: f64,
    /// Coefficient of variation: standard deviation over mean; 0.05 is 5 %. Null with fewer than two values.
    pub variation: Option<f64>,
    /// Correlation of each value with the next one, in the order of time; null with fewer than eight values.
    pub autocorrelation: Option<f64>,
    /// Value at the end to that at the beginning, along the trend; null with fewer than eight values.
    pub drift: Option<f64>,
    /// Chance of such a trend where there is none.
    pub drift_p: Option<f64>,
}

/// How many trials of each target one phase needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseNeeded {
    /// Name of the phase.
    pub phase: String,
    /// Standard deviation of the logarithm of the ratio of two equal targets within a block.
    pub deviation: f64,
    /// Low end of its 95 % interval.
    pub deviation_low: Option<f64>,
    /// High end of its 95 % interval.
    pub deviation_high: Option<f64>,
    /// For each difference.
    pub differences: Vec<NoiseDifference>,
}

/// How many trials tell a difference apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NoiseDifference {
    /// The difference in per cent.
    pub percent: f64,
    /// Greatest number of automatic trials with which four of five runs tell it; null: more than 1,000.
    pub trials_auto: Option<u32>,
    /// Fixed number of trials with which four of five runs tell it; null: more than 100,000.
    pub trials_fixed: Option<u32>,
    /// Time that two targets take at most for `trials_auto`, if a trial takes as long as here, in seconds.
    pub auto_s: Option<f64>,
}
