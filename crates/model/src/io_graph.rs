//! What a block trace shows: series over time, totals, who did what, where on the device. Computed by
//! the trace passes of `analysis`, drawn by `report`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::trace::TraceDevice;

/// What a request is for. The order is that of legends and of stacks.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum IoClass {
    /// Contents of files are read.
    ReadData,
    /// Metadata are read.
    ReadMetadata,
    /// Contents of files are written.
    WriteData,
    /// Metadata are written to their place.
    WriteMetadata,
    /// The journal or log is written.
    WriteJournal,
    /// Sectors are given up.
    Discard,
    /// The write cache is emptied; no data.
    Flush,
}

impl IoClass {
    /// All, in order.
    pub const ALL: [IoClass; 7] = [
        IoClass::ReadData,
        IoClass::ReadMetadata,
        IoClass::WriteData,
        IoClass::WriteMetadata,
        IoClass::WriteJournal,
        IoClass::Discard,
        IoClass::Flush,
    ];

    /// For legends.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            IoClass::ReadData => "read data",
            IoClass::ReadMetadata => "read metadata",
            IoClass::WriteData => "write data",
            IoClass::WriteMetadata => "write metadata",
            IoClass::WriteJournal => "write journal",
            IoClass::Discard => "discard",
            IoClass::Flush => "flush",
        }
    }
}

/// One traced span, analysed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoGraph {
    /// What was traced: label of the target, name of the file.
    pub label: String,
    /// Time of the left end of the axis, in the trace's clock.
    pub start_ns: u64,
    /// Length of the axis.
    pub duration_ns: u64,
    /// The devices. Offsets of several are stacked in this order.
    pub devices: Vec<TraceDevice>,
    /// Events read.
    pub events: u64,
    /// Events that are missing.
    pub lost_events: u64,
    /// Length of one bin of the series.
    pub bin_ns: u64,
    /// The series; all have the same number of bins.
    pub series: Vec<IoSeries>,
    /// Over the whole axis.
    pub totals: IoTotals,
    /// Over each window that was asked for (a phase), in the order asked.
    pub windows: Vec<WindowTotals>,
    /// Where and when.
    pub heat: HeatMap,
    /// Sizes of the requests issued, by powers of two.
    pub sizes: Vec<SizeCount>,
    /// Who issued how much, most bytes first; the kernel's workers are named by their work
    /// (`kworker/flush`).
    pub processes: Vec<ProcessIo>,
    /// By what it is for, in the order of [`IoClass::ALL`].
    pub classes: Vec<ClassIo>,
    /// Intervals that stand out, in the order of time.
    pub bursts: Vec<Burst>,
    /// What was odd in the trace.
    pub warnings: Vec<String>,
}

impl IoGraph {
    /// The series called `name`.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&IoSeries> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// One figure over time. Names: `read_bytes_per_s`, `write_bytes_per_s`, `read_iops`, `write_iops`,
/// `flushes_per_s`, `seeks_per_s`, `queue_depth`, `d2c_ns_p50`, `d2c_ns_p99`, `q2c_ns_p50`,
/// `q2c_ns_p99`, `metadata_bytes_per_s`, `journal_bytes_per_s`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoSeries {
    /// Its name, unit last.
    pub name: String,
    /// For people: `Reads`.
    pub title: String,
    /// `B/s`, `1/s`, `ns` or empty.
    pub unit: String,
    /// A value for each bin; null where there was nothing to measure, which is not 0.
    pub values: Vec<Option<f64>>,
}

/// Percentiles of a time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Requests.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// What happened over a span. Requests and bytes are those completed, as seekwatcher counts them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoTotals {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discard requests.
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Flushes of the write cache, those before a write included.
    pub flushes: u64,
    /// Writes that are on the medium when they are finished.
    pub fua_writes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of metadata read and written, journal not included.
    pub metadata_bytes: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Requests issued more than 128 sectors from the end of the one before.
    pub seeks: u64,
    /// Share of requests that begin where one before them ended; null without requests.
    pub sequential_share: Option<f64>,
    /// Mean number of requests at the device, over the time of the span.
    pub queue_depth_mean: Option<f64>,
    /// Most requests at the device.
    pub queue_depth_max: u64,
    /// Time with no request at the device.
    pub idle_ns: u64,
    /// From queue to completion: reads.
    pub q2c_read: Option<LatencySummary>,
    /// From queue to completion: writes.
    pub q2c_write: Option<LatencySummary>,
    /// From issue to completion: reads.
    pub d2c_read: Option<LatencySummary>,
    /// From issue to completion: writes.
    pub d2c_write: Option<LatencySummary>,
    /// From issue to completion: flushes without data.
    pub d2c_flush: Option<LatencySummary>,
}

/// Spans of time with one name, and what happened in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowTotals {
    /// Name of the phase.
    pub name: String,
    /// Its spans in the trace's clock: start and end.
    pub spans: Vec<(u64, u64)>,
    /// What happened in them.
    pub totals: IoTotals,
}

/// Requests issued, by time and place: only cells that hold something, sorted by column, row, class and
/// process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeatMap {
    /// Length of a column in nanoseconds; the first begins at the start of the axis.
    pub column_ns: u64,
    /// Columns.
    pub columns: u32,
    /// Height of a row in sectors; the first begins at sector 0 of the first device.
    pub row_sectors: u64,
    /// Rows.
    pub rows: u32,
    /// Names that [`HeatCell::process`] is an index of; the last may be `others`.
    pub processes: Vec<String>,
    /// The cells.
    pub cells: Vec<HeatCell>,
}

/// One cell of a [`HeatMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeatCell {
    /// Column.
    pub column: u32,
    /// Row, from sector 0 up.
    pub row: u32,
    /// What for.
    pub class: IoClass,
    /// Who, an index of [`HeatMap::processes`].
    pub process: u8,
    /// Requests.
    pub requests: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// Requests of one size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeCount {
    /// Smallest size of the class in bytes, a power of two; 0 for requests without data.
    pub from_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// What one process issued.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessIo {
    /// Name.
    pub name: String,
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes of metadata among them, journal included.
    pub metadata_bytes: u64,
    /// Of its requests, those issued more than 128 sectors from the end of the one before.
    pub seeks: u64,
}

/// What one class amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassIo {
    /// The class.
    pub class: IoClass,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
}

/// An interval that stands out: many seeks, or much traffic by somebody who is otherwise quiet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Burst {
    /// Begin, from the left end of the axis.
    pub from_ns: u64,
    /// End, from the left end of the axis.
    pub to_ns: u64,
    /// Who issued most of it.
    pub process: String,
    /// What it mostly is.
    pub class: IoClass,
    /// Bytes of that process and class in the interval.
    pub bytes: u64,
    /// Requests of that process and class in the interval.
    pub requests: u64,
    /// Seeks in the interval.
    pub seeks: u64,
    /// `at 250 s kworker/flush wrote 38 MB of metadata in 1,912 seeks`.
    pub text: String,
}
