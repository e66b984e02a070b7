//! The operations of the workload `fs-mark`; the definition and the parameters are in
//! [`crate::catalog::fs_mark`].
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | the parameters, read |
//! | [`layout`] | names of files and directories: pure |
//! | [`files`] | the calls on files, in one job |
//! | [`rows`] | the figures of one iteration as fs_mark adds them up |
//! | [`run`] | the phases |

pub mod files;
pub mod layout;
pub mod rows;
pub mod run;
pub mod settings;
