//! The operations of the workload `fileio`; the definition and the parameters are in
//! [`crate::catalog::fileio`].
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | the parameters, read |
//! | [`requests`] | which block is read or written next: pure |
//! | [`transfer`] | the calls of one job |
//! | [`run`] | the phases |

pub mod requests;
pub mod run;
pub mod settings;
pub mod transfer;
