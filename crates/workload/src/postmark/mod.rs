//! The operations of the workload `postmark`; the definition and the parameters are in
//! [`crate::catalog::postmark`].
//!
//! | module | holds |
//! |---|---|
//! | [`sequence`] | what is done, draw for draw as PostMark 1.53: pure |
//! | [`places`] | which places of its table of files are free |
//! | [`counts`] | what has been done, in whole numbers and as the original counts |
//! | [`pieces`] | how many bytes each call moves |
//! | [`files`] | the calls on files |
//! | [`settings`] | the parameters, read |
//! | [`run`] | the phases |
//! | [`verify`] | whether files hold what was written |

pub mod counts;
pub mod files;
pub mod pieces;
pub mod places;
pub mod run;
pub mod sequence;
pub mod settings;
pub mod verify;
