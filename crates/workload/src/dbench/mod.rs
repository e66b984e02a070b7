//! The parts of the workload `dbench`: its load files, a load of our own, what a load is compiled to,
//! the clients that carry it out, and the phases. Definition and parameters are in
//! [`crate::catalog::dbench`].

pub mod client;
pub mod kinds;
pub mod lines;
pub mod loadfile;
pub mod office;
mod operations;
pub mod program;
pub mod run;
pub mod settings;
pub mod status;
pub mod tree;
pub mod verify;
