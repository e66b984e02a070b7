//! The operations of the workload `million-files`: a directory of very many files that is listed, and
//! whose files are then worked on in one of three orders. What the operations mean and how they are
//! timed is in [`crate::catalog::million_files`].
//!
//! | module | holds |
//! |---|---|
//! | [`name`] | names of files: a function of the index and back |
//! | [`stage`] | which operations a run consists of |
//! | [`order`] | the files of a directory in the order in which they are to be worked on |
//! | [`place`] | where a file and a directory lie on the device |
//! | [`rank`] | how closely two orders match |
//! | [`layout`] | why orders differ: figures of the phase `layout` |
//! | [`visit`] | the calls on each file |
//! | [`run`] | a whole run |
//!
//! Memory is flat: whatever is kept for each file takes at most [`BYTES_PER_FILE`].

pub mod layout;
pub mod name;
pub mod order;
pub mod place;
pub mod rank;
pub mod run;
pub mod stage;
pub mod visit;

/// Most bytes that are kept for one file at any time.
pub const BYTES_PER_FILE: usize = 24;
