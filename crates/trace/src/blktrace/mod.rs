//! The files of blktrace(8): one for each processor, records of 48 bytes with what belongs to them; and
//! the stream of the kernel's `blk` tracer with its option `bin`, which has the same records. What they
//! mean is left to the trace passes of `analysis`.
//!
//! Where the layout comes from: `include/uapi/linux/blktrace_api.h` of Linux.

mod merge;
mod record;
mod stream;
mod writer;

pub use merge::Reader;
pub use writer::Writer;

pub(crate) use record::Layout;

#[cfg(test)]
mod tests;
