//! The workload `bonnie`: what it does, apart from its definition in [`crate::catalog::bonnie`].
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | the parameters, read and checked against each other and against the memory |
//! | [`memory`] | how much memory there is to cache files in |
//! | [`contents`] | what each chunk of the large file holds after each phase |
//! | [`large_file`] | the loops on the large file, but for the seeks |
//! | [`seeks`] | the random seeks, several at a time |
//! | [`names`] | the names of the small files |
//! | [`small_files`] | the loops on the small files |
//! | [`longest`] | the longest iteration of a loop, which the original calls latency |
//! | [`run`] | the phases, what is timed and what lies between them |

pub mod contents;
pub mod large_file;
pub mod longest;
pub mod memory;
pub mod names;
pub mod run;
pub mod seeks;
pub mod settings;
pub mod small_files;
