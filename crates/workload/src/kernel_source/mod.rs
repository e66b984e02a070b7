//! The parts of the workload `kernel-source`: the archive and the sample that it is compared with
//! afterwards, the build, and the removal of a tree. Its definition and its phases are in
//! [`crate::catalog::kernel_source`].

pub mod build;
pub mod remove;
pub mod source;
