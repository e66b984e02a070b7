//! Workloads as data: what a TOML file describes is done by one engine. The form of such a file is
//! explained in `docs/WORKLOADS.md`; the shipped ones are in `workloads/`.
//!
//! ```text
//! text ─parse→ DataWorkload ─definition(params)→ Definition ─run→ phase records
//! ```

pub mod data;
pub mod definition;
pub mod run;
