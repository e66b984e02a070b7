//! Tables and exports of results, and the documentation of the catalogues.
//!
//! Every number here was computed before, by the analysis; this crate decides how it looks.
//!
//! | module | makes |
//! |---|---|
//! | [`advice`] | which target for whose work |
//! | [`audit`] | the fairness audit, checklists and the documentation of its rules |
//! | [`table`] | the table in the terminal |
//! | [`markdown`] | the same as GitHub markdown |
//! | [`json`] | the result document |
//! | [`schema`] | the JSON Schema of the result document |
//! | [`originals`] | the output formats of the classic tools |
//! | [`exports`] | the other forms of a result: files for people and for programs |
//! | [`io_picture`] | pictures of traces and of comparisons: SVG, PNG, films, text |
//! | [`page`] | the report as one HTML file |
//! | [`mod@diff`] | two runs beside each other |
//! | [`gallery`] | published comparisons that were run again, a page each |
//! | [`history`] | one figure over many runs |
//! | [`noise`] | how noisy a machine is |
//! | [`rows`] | rows of any shape as text |
//! | [`list`] | documentation of workloads, filesystems and metrics |
#![forbid(unsafe_code)]

pub mod advice;
pub mod audit;
pub mod diff;
pub mod exports;
pub mod gallery;
mod grid;
pub mod history;
pub mod io_picture;
pub mod json;
pub mod list;

pub mod markdown;
pub mod noise;
pub mod note;
pub mod originals;
pub mod page;
pub mod rows;
pub mod schema;
pub mod table;
mod text;
pub mod then_and_now;

#[cfg(test)]
mod fixture;
