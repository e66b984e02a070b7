//! The yardstick: a small, fixed piece of work for the processor and the device under a target, timed
//! before and after each trial. What differs in it from reading to reading is the machine and not a
//! filesystem. How it is worked and what is concluded from it is left to others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The readings on both sides of a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Yardstick {
    /// Before it began.
    pub before: Option<Reading>,
    /// After it had ended; that of the next trial before it began, where nothing came in between.
    pub after: Option<Reading>,
}

impl Yardstick {
    /// Both, the earlier first, as far as they were taken.
    pub fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.before.iter().chain(&self.after)
    }
}

/// One reading: medians of many short pieces, so that one stall does not show. Null is what could not be
/// measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Where the device was reached: a directory in which a file was made for it, or a block device.
    pub place: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_unix_ns: u64,
    /// How long all of it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// One step of a chain of integer operations on one processor, in nanoseconds.
    pub compute_ns: Option<f64>,
    /// Copying 1 KiB from memory to memory, in nanoseconds.
    pub copy_ns_per_kib: Option<f64>,
    /// Reading 4 KiB at a place drawn at random, past the page cache, in nanoseconds.
    pub device_read_ns: Option<f64>,
    /// Writing 4 KiB at a place drawn at random, past the page cache, in nanoseconds; null on a block device,
    /// which is only read.
    pub device_write_ns: Option<f64>,
    /// Writing 4 KiB and making it durable (`fdatasync`), in nanoseconds; null on a block device.
    pub device_flush_ns: Option<f64>,
}

/// What a figure of the yardstick is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The processor and its memory.
    Processor,
    /// The device under the target.
    Device,
}

/// One figure of a reading: a time, less being better.
#[derive(Debug)]
pub struct Figure {
    /// Name in documents.
    pub name: &'static str,
    /// What it times, for people.
    pub title: &'static str,
    /// What it is about.
    pub part: Part,
    /// Reads it off.
    pub read: fn(&Reading) -> Option<f64>,
}

/// The list.
pub static FIGURES: [Figure; 5] = [
    Figure {
        name: "compute_ns",
        title: "computing",
        part: Part::Processor,
        read: |reading| reading.compute_ns,
    },
    Figure {
        name: "copy_ns_per_kib",
        title: "copying memory",
        part: Part::Processor,
        read: |reading| reading.copy_ns_per_kib,
    },
    Figure {
        name: "device_read_ns",
        title: "reading from the device",
        part: Part::Device,
        read: |reading| reading.device_read_ns,
    },
    Figure {
        name: "device_write_ns",
        title: "writing to the device",
        part: Part::Device,
        read: |reading| reading.device_write_ns,
    },
    Figure {
        name: "device_flush_ns",
        title: "flushing the device",
        part: Part::Device,
        read: |reading| reading.device_flush_ns,
    },
];

/// How long a reading takes at most, about, in nanoseconds.
#[must_use]
pub const fn reading_ns(quick: bool) -> u64 {
    if quick { 250_000_000 } else { 1_000_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_a_field_of_a_reading() {
        let reading = Reading {
            compute_ns: Some(1.0),
            copy_ns_per_kib: Some(2.0),
            device_read_ns: Some(3.0),
            device_write_ns: Some(4.0),
            device_flush_ns: Some(5.0),
            ..Reading::default()
        };
        let json = serde_json::to_value(&reading).unwrap();
        for (figure, value) in FIGURES.iter().zip(1..) {
            assert_eq!((figure.read)(&reading), Some(f64::from(value)), "{}", figure.name);
            assert_eq!(json[figure.name], f64::from(value), "{}", figure.name);
        }
    }
}
