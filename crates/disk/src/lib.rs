//! Disks as models: each request is given a time at which it is done, in a simulation that has no clock
//! of its own and does no I/O. Who carries the requests, keeps the data and waits is elsewhere: a server
//! on a host, or one in a guest whose clock is virtual.
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | requests, completions, what a mechanism can do |
//! | [`disk`] | one disk as its users see it |
//! | [`model`] | the figures of a disk as a text, read strictly |
//! | [`shipped`] | the models that are part of the program |
//! | [`hdd`] | disks that rotate |
//! | [`ssd`] | flash disks with a controller |
//! | [`card`] | SD cards and eMMC |
//! | [`smr`] | shingled disks |
//! | [`volume`] | volumes of a cloud |
//! | [`array`](mod@array) | several disks as one |
//! | [`ram`] | no timing |
//! | [`probe`] | probes as fio makes them, in the model's time |
//! | [`fit`] | models out of measurements |
//! | [`figure`] | the figures by which disks are known |
#![forbid(unsafe_code)]

pub mod array;
pub mod card;
pub mod disk;
mod fields;
pub mod figure;
pub mod fit;
pub mod hdd;
pub mod model;
mod parts;
mod pending;
pub mod probe;
pub mod ram;
pub mod request;
pub mod shipped;
pub mod smr;
pub mod ssd;
pub mod volume;

pub use disk::Disk;
pub use model::Model;
pub use request::{Completion, Op, Request};
