//! Our own form of a trace, `.fstrace`: columns, coded as differences, compressed chunk by chunk. It is
//! written while a trace is taken and read once from front to back, both in bounded memory. What happens
//! to the events before and after is left to others.
//!
//! Whole numbers of fixed size have their least byte first; `varint` is that of `varint.rs`.
//!
//! ```text
//! file    = "fstrace\n", version u32 = 1, 0 u32, chunk..., trailer, end
//! chunk   = header with kind "CHNK", payload          at most 32768 events
//! trailer = header with kind "TAIL", payload          of a trace that was finished
//! end     = offset of the trailer u64, "fstrend\n"
//! header  = kind, events u32, bytes of the payload u32, bytes as stored u32,
//!           XXH3 of the payload as stored u64, XXH3 of the header up to here u64
//! ```
//! Payloads are compressed by zstd. Each begins with what became known since the one before: processes,
//! devices, events lost so far, wall time. A chunk goes on with its columns (`columns.rs`), the trailer
//! with the number of events, the times of the first and the last, and the warnings.

mod columns;
mod frame;
mod known;
mod reader;
mod varint;
mod writer;

pub use reader::{Reader, Summary};
pub use writer::Writer;

pub(crate) use frame::is_ours;

/// Extension of its files.
pub const EXTENSION: &str = "fstrace";

/// Events of a chunk at most.
const CHUNK_EVENTS: usize = 32_768;
/// Bytes of a payload at most.
const PAYLOAD_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests;
