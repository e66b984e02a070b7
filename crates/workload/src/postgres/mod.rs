//! The parts of the workload `postgres`: a database server of the machine's own, with its files on the
//! target. Parameters and phases are documented in [`crate::catalog::postgres`].
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | the parameters, read and checked |
//! | [`programs`] | where PostgreSQL is installed |
//! | [`account`] | as whom it runs: it refuses to be root |
//! | [`scratch`] | a directory beside the target, for the socket and for logs |
//! | [`cluster`] | the data directory: made, served, checked |
//! | [`server`] | the server as a process, which never outlives this one |
//! | [`mod@bench`] | pgbench, and what it tells |
//! | [`run`] | the phases |

pub mod account;
pub mod bench;
pub mod cluster;
pub mod programs;
pub mod run;
pub mod scratch;
pub mod server;
pub mod settings;
