//! The engine that runs workloads which are data: what exists on a target afterwards is what it believes
//! to exist, with one job and with several; when phases and groups end; what is recorded.

mod build;
mod ends;
mod model;
mod plans;
#[path = "../support/mod.rs"]
mod support;
mod tree;
mod trees;
mod uring;
