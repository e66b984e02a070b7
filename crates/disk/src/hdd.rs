//! Disks that rotate: what a model of one states. Where sectors lie is in `geometry`, how the arm moves
//! in `seek`, what passes under the heads in `mechanics`, queue and caches in `drive`.

mod drive;
mod geometry;
mod mechanics;
pub mod seek;

pub use drive::Hdd;

use crate::fields::Fields;

/// What a model states. Rates are sustained ones in MB/s (10⁶ bytes), as data sheets have them: switches
/// between tracks are within.
#[derive(Debug, Clone, PartialEq)]
pub struct HddParams {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Surfaces that are written.
    pub heads: u64,
    /// Zones of equally many cylinders.
    pub zones: u64,
    /// Sustained rate at the outer edge.
    pub outer_mbs: f64,
    /// Sustained rate at the inner edge.
    pub inner_mbs: f64,
    /// Seek to the next cylinder.
    pub track_to_track_ns: u64,
    /// Mean seek between random sectors, reading.
    pub average_seek_ns: u64,
    /// Seek over the whole disk.
    pub full_stroke_ns: u64,
    /// Switch to another head of the same cylinder.
    pub head_switch_ns: u64,
    /// What a write settles longer than a read.
    pub write_settle_ns: u64,
    /// Time of the controller for each command, before anything moves.
    pub overhead_ns: u64,
    /// Rate of the interface in MB/s.
    pub interface_mbs: f64,
    /// Commands that the disk takes at once and orders by itself; 1 for none.
    pub queue_depth: usize,
    /// Memory for reading, in sectors, in equal segments.
    pub segments: usize,
    /// Sectors of one segment.
    pub segment_sectors: u64,
    /// How far a read is followed by reading ahead, in sectors.
    pub read_ahead_sectors: u64,
    /// Memory for writing, in bytes; 0 where writes go through.
    pub write_cache_bytes: u64,
    /// How long a write waits in the cache while the disk has nothing else to do.
    pub destage_delay_ns: u64,
    /// Share of the cache from which on writing back competes with reads.
    pub destage_pressure: f64,
    /// Time of the controller for a flush.
    pub flush_ns: u64,
    /// How much of its waiting a command gets credited when the next one is chosen; 0 is shortest access
    /// time first alone.
    pub aging: f64,
}

impl HddParams {
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> HddParams {
        let ms = 1e6;
        let rpm = fields.number("rpm", 1000.0, 30_000.0);
        let track_to_track_ns = fields.time("track_to_track_ms", ms, 100.0);
        let buffer = fields.size("buffer", 64 << 10, 1 << 30) / 512;
        let segments = fields.count_or("segments", 16, 1, 1024);
        let segment_sectors = (buffer / segments).max(8);
        let read_ahead = fields.size_or("read_ahead", segment_sectors * 512 / 2, 0, 1 << 30) / 512;
        if read_ahead > segment_sectors {
            fields.wrong_at("read_ahead", "read_ahead is more than a segment of the buffer holds");
        }
        let (outer, inner) =
            (fields.number("outer_mbs", 0.1, 10_000.0), fields.number("inner_mbs", 0.1, 10_000.0));
        if inner > outer {
            fields.wrong_at("inner_mbs", "inner_mbs is more than outer_mbs");
        }
        HddParams {
            rpm,
            heads: fields.count("heads", 1, 64),
            zones: fields.count_or("zones", 16, 1, 256),
            outer_mbs: outer,
            inner_mbs: inner,
            track_to_track_ns,
            average_seek_ns: fields.time("average_seek_ms", ms, 1000.0),
            full_stroke_ns: fields.time("full_stroke_ms", ms, 1000.0),
            head_switch_ns: fields.time_or(
                "head_switch_ms",
                track_to_track_ns as f64 / ms,
                ms,
                100.0,
            ),
            write_settle_ns: fields.time_or("write_settle_ms", 0.0, ms, 100.0),
            overhead_ns: fields.time_or("overhead_us", 100.0, 1e3, 1e5),
            interface_mbs: fields.number("interface_mbs", 0.1, 100_000.0),
            queue_depth: fields.count("queue_depth", 1, 1024) as usize,
            segments: segments as usize,
            segment_sectors,
            read_ahead_sectors: read_ahead,
            write_cache_bytes: fields.size("write_cache", 0, 1 << 32),
            destage_delay_ns: fields.time_or("destage_delay_ms", 0.0, ms, 1e5),
            destage_pressure: fields.number_or("destage_pressure", 0.5, 0.0, 1.0),
            flush_ns: fields.time_or("flush_us", 50.0, 1e3, 1e6),
            aging: fields.number_or("aging", 0.01, 0.0, 1.0),
        }
    }
}

#[cfg(test)]
mod tests;
