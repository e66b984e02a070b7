//! The parts of the workload `mdtest`: the tree with the names of all items, and the phases. Definition
//! and parameters are in [`crate::catalog::mdtest`].

pub mod names;
pub mod run;
pub mod work;
