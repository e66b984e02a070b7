//! What happened over a span: the whole axis, or a window of it.

use fsdyno_model::io_graph::{IoClass, IoTotals};

use super::histogram::Histogram;
use super::pass::{Completion, Dispatch, is_read, is_write};

/// Precision of the latencies of a span: within 1.6 %.
const BITS: u32 = 5;

/// Sums over a span.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    totals: IoTotals,
    dispatches: u64,
    sequential: u64,
    depth_area: u128,
    span_ns: u64,
    q2c_read: Histogram<BITS>,
    q2c_write: Histogram<BITS>,
    d2c_read: Histogram<BITS>,
    d2c_write: Histogram<BITS>,
    d2c_flush: Histogram<BITS>,
}

impl Tally {
    /// A request was handed to the device.
    #[inline]
    pub fn dispatch(&mut self, dispatch: &Dispatch) {
        // A flush without data begins nowhere.
        self.dispatches += u64::from(dispatch.bytes > 0);
        self.sequential += u64::from(dispatch.is_sequential);
        self.totals.seeks += u64::from(dispatch.is_seek);
    }

    /// A request was finished.
    #[inline]
    pub fn complete(&mut self, completion: &Completion) {
        let totals = &mut self.totals;
        let bytes = completion.bytes;
        totals.errors += u64::from(completion.is_error);
        totals.flushes += u64::from(completion.is_flush);
        if is_read(completion.class) {
            totals.reads += 1;
            totals.read_bytes = totals.read_bytes.saturating_add(bytes);
            record(&mut self.d2c_read, completion.d2c_ns);
            record(&mut self.q2c_read, completion.q2c_ns);
        } else if is_write(completion.class) {
            totals.writes += 1;
            totals.write_bytes = totals.write_bytes.saturating_add(bytes);
            totals.fua_writes += u64::from(completion.is_fua);
            record(&mut self.d2c_write, completion.d2c_ns);
            record(&mut self.q2c_write, completion.q2c_ns);
        }
        match completion.class {
            IoClass::ReadMetadata | IoClass::WriteMetadata => {
                totals.metadata_bytes = totals.metadata_bytes.saturating_add(bytes);
            }
            IoClass::WriteJournal => {
                totals.journal_bytes = totals.journal_bytes.saturating_add(bytes);
            }
            IoClass::Discard => {
                totals.discards += 1;
                totals.discard_bytes = totals.discard_bytes.saturating_add(bytes);
            }
            IoClass::Flush => record(&mut self.d2c_flush, completion.d2c_ns),
            IoClass::ReadData | IoClass::WriteData => {}
        }
    }

    /// For so long the depth was this.
    #[inline]
    pub fn hold(&mut self, elapsed_ns: u64, depth: u64) {
        self.span_ns = self.span_ns.saturating_add(elapsed_ns);
        if depth == 0 {
            self.totals.idle_ns = self.totals.idle_ns.saturating_add(elapsed_ns);
            return;
        }
        self.depth_area += u128::from(depth) * u128::from(elapsed_ns);
        self.totals.queue_depth_max = self.totals.queue_depth_max.max(depth);
    }

    /// The sums.
    pub fn totals(&self) -> IoTotals {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        IoTotals {
            sequential_share: share(self.sequential, self.dispatches),
            queue_depth_mean: (self.span_ns > 0)
                .then(|| self.depth_area as f64 / self.span_ns as f64),
            q2c_read: self.q2c_read.summary(),
            q2c_write: self.q2c_write.summary(),
            d2c_read: self.d2c_read.summary(),
            d2c_write: self.d2c_write.summary(),
            d2c_flush: self.d2c_flush.summary(),
            ..self.totals.clone()
        }
    }
}

#[inline]
fn record(histogram: &mut Histogram<BITS>, latency_ns: Option<u64>) {
    if let Some(latency_ns) = latency_ns {
        histogram.record(latency_ns);
    }
}
