//! What a pass hears. All of it is inlined into the one loop over the events.

use fsdyno_model::io_graph::IoClass;

use super::requests::Who;

/// A request was handed to the device (or the next best that the trace has: queued, completed).
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispatch {
    /// Bin of the axis.
    pub bin: usize,
    /// Number of the device in the order of appearance.
    pub device: u8,
    /// First sector.
    pub sector: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What it is for.
    pub class: IoClass,
    /// Who is behind it.
    pub who: Who,
    /// Whether it begins far from the end of the one before.
    pub is_seek: bool,
    /// Whether it begins where the one before ended.
    pub is_sequential: bool,
}

/// A request was finished.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    /// Bin of the axis.
    pub bin: usize,
    /// Its bytes.
    pub bytes: u64,
    /// What it is for.
    pub class: IoClass,
    /// Whether the write cache was emptied before it, or by it.
    pub is_flush: bool,
    /// Whether it went past the write cache.
    pub is_fua: bool,
    /// Whether it failed.
    pub is_error: bool,
    /// From queue to completion.
    pub q2c_ns: Option<u64>,
    /// From issue to completion.
    pub d2c_ns: Option<u64>,
}

/// A pass that keeps something for each bin of the axis.
pub(super) trait Pass {
    /// A request was handed to the device.
    #[inline]
    fn dispatch(&mut self, _dispatch: &Dispatch) {}

    /// A request was finished.
    #[inline]
    fn complete(&mut self, _completion: &Completion) {}

    /// Two neighbouring bins become one.
    fn fold(&mut self) {}
}

/// Whether data of this class come from the device.
#[inline]
pub(super) fn is_read(class: IoClass) -> bool {
    matches!(class, IoClass::ReadData | IoClass::ReadMetadata)
}

/// Whether data of this class go to the device.
#[inline]
pub(super) fn is_write(class: IoClass) -> bool {
    matches!(class, IoClass::WriteData | IoClass::WriteMetadata | IoClass::WriteJournal)
}
