//! Tables and exports of results, and the documentation of the catalogues.
//!
//! Every number here was computed before, by the analysis; this crate decides how it looks.
//!
//! | module | makes |
//! |---|---|
//! | [`table`] | the table in the terminal |
//! | [`markdown`] | the same as GitHub markdown |
//! | [`json`] | the result document |
//! | [`schema`] | the JSON Schema of the result document |
//! | [`originals`] | the output formats of the classic tools |
//! | [`list`] | documentation of workloads, filesystems and metrics |
#![forbid(unsafe_code)]

mod grid;
pub mod json;
pub mod list;

pub mod markdown;
mod note;
pub mod originals;
pub mod schema;
pub mod table;
mod text;

#[cfg(test)]
mod fixture;
