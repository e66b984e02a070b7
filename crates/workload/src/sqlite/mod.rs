//! The parts of the workload `sqlite`: an embedded SQLite whose file lies on the target. Parameters
//! and phases are documented in [`crate::catalog::sqlite`].
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | the parameters, read and checked |
//! | [`database`] | connections: their settings, read back, and how SQLite's errors are told |
//! | [`records`] | one large table: load, reads by key, updates, scan, comparison |
//! | [`orders`] | the mix of transactions: tables of an order entry and what is done to them |
//! | [`order_loading`] | those tables made and filled |
//! | [`order_checks`] | what must be true of those tables at any time |
//! | [`run`] | the phases |

pub mod database;
pub mod order_checks;
pub mod order_loading;
pub mod orders;
pub mod records;
pub mod run;
pub mod settings;
