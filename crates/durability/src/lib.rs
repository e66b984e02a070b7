//! Durability: what a filesystem has promised, and what is left of it after the power failed or the disk
//! went wrong.
//!
//! A workload of its own runs once on a disk that writes everything down. From that log any moment at
//! which power could have failed is made again as an image: what was flushed is there, what was not is
//! there, lost or torn. Each image is mounted, read, checked, and judged by what had been acknowledged.
//!
//! | module | holds |
//! |---|---|
//! | [`content`] | contents that say what they are |
//! | [`history`] | what was done, when, and what was acknowledged |
//! | [`workload`] | doing it |
//! | [`promises`] | what POSIX and each filesystem promise |
//! | [`recording`] | a history and the log of writes beside it |
//! | [`cut`] | moments at which power fails, and what the disk keeps then |
//! | [`image`] | the disk as it is after a cut, in memory |
//! | [`found`] | what is there |
//! | [`oracle`] | whether that is what was promised |
//! | [`replay`] | many cuts, one after the other and beside each other |
//! | [`faults`] | disks that go wrong under a mounted filesystem |
#![forbid(unsafe_code)]

pub mod content;
pub mod cut;
pub mod faults;
pub mod found;
pub mod history;
pub mod image;
pub mod oracle;
pub mod promises;
pub mod reaction;
pub mod recording;
pub mod replay;
pub mod workload;
