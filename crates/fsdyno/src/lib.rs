//! Scheduling, store, resume and the command line of fsdyno. Domain logic lives in the other
//! crates; this one only joins them.
//!
//! | module | holds |
//! |---|---|
//! | [`cmd`] | one file per verb |
//! | [`run`] | the order of trials, one trial, the phase runner seen from its parent |
//! | [`store`] | the results database |
//! | [`report_data`] | all that a report shows of a run |
//! | [`catalogue`] | the names that plans and targets may use |
//! | [`paths`] | where results and state live |
//! | [`plan_file`] | plans read from files |
//! | [`persona`] | whose work a filesystem is chosen for |
//! | [`published`] | published comparisons that come with the program |
//! | [`gallery`] | results of published comparisons, stored for pages |
//! | [`disk_model`] | models of disks by name or from files |
//! | [`snippet`] | errors of a text drawn with their place |
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod cmd;
pub mod disk_model;
pub mod gallery;
pub mod paths;
pub mod persona;
pub mod plan_file;
pub mod published;
pub mod report_data;
pub mod run;
pub mod snippet;
pub mod store;
pub mod workload_file;

/// Bad input: a plan, a target or an option that cannot be used. The command exits with 2.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// A [`BadInput`] as an error.
pub fn bad_input(text: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(BadInput(text.into()))
}

/// Several of them, each on a line of its own.
pub fn bad_inputs(errors: &[String]) -> anyhow::Error {
    bad_input(errors.join("\nfsdyno: "))
}
