//! Statistics over records: pure functions of values, no operating system.
//!
//! The trial is the unit of statistics, never the operation: whatever happens within one trial
//! shares its luck. What the numbers look like on a page is left to the report.
//!
//! | module | holds |
//! |---|---|
//! | [`interval`] | median, mean and the 95 % interval of one target |
//! | [`interval::bootstrap`] | intervals by drawing the trials again, from ten trials on |
//! | [`checklist`] | published checklists, answered from the records |
//! | [`compare`] | targets against the best of them, paired by block |
//! | [`pairs`] | all pairs of targets of one figure, and tie letters |
//! | [`stopping`] | when a run may end, and the level that each look at it may use |
//! | [`noise`] | how noisy a machine is, and how many trials that takes |
//! | [`selftest`] | how often verdicts are false, from a run whose truth is known |
//! | [`series`] | the values of completed trials by phase, target and block |
//! | [`summary`] | the rows of the summary |
//! | [`verdict`] | what the numbers say, in words |
//! | [`mod@audit`] | whether targets were measured under the same conditions |
//! | [`calibration`] | whether a load tells targets apart, and whether to try a heavier one |
//! | [`explain`] | what a traced trial says beside those whose figures count |
//! | [`yardstick`] | what the machine was like meanwhile, by its own readings |
//! | [`percentile`] | latency histograms into percentiles |
//! | [`ratio`] | every target beside the first one |
//! | [`mod@then_and_now`] | published figures beside those of a run |
//! | [`power_cuts`] | what tests of power cuts say of a target |
//! | [`curve`] | latency by percentile, for drawing |
//! | [`mod@advise`] | how targets rank for somebody's work, over many runs |
//! | [`mod@diff`] | two runs beside each other |
//! | [`mod@history`] | one figure over many runs |
//! | [`mod@assemble`] | the whole result document |
#![forbid(unsafe_code)]

pub mod advise;
pub mod assemble;
pub mod audit;
pub mod calibration;
pub mod checklist;
pub mod compare;
mod contest;
pub mod curve;
pub mod diff;
pub mod explain;
pub mod history;
pub mod interval;
pub mod noise;
pub mod pairs;
pub mod percentile;
pub mod power_cuts;
pub mod ratio;
pub mod selftest;
pub mod series;
pub mod stopping;
pub mod summary;
pub mod then_and_now;
pub mod trace;
pub mod verdict;
pub mod yardstick;

#[cfg(test)]
mod fixture;

pub use assemble::assemble;
