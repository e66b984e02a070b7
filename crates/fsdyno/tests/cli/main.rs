//! End-to-end tests through the real binary, one module for each topic.

mod calibration;
mod catalogue;
mod clean;
mod cold;
mod command;
mod compare_directory;
mod dataset;
mod documents;
mod dry_run;
mod filesystems;
mod fingerprint;
mod flip;
mod full_disk;
mod interruption;
mod kill;
mod memory;
mod plan_errors;
mod project;
mod query;
mod refusal;
mod report;
mod sandbox;
mod servers;
mod tidy;
mod trace;
mod trace_verb;
