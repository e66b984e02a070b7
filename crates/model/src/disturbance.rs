//! What may disturb a trial from outside: the codes of the warnings that mark it. Noticing it is left to
//! `lab`, and what shows only beside the other trials of a run to `analysis`.

use crate::record::Warning;

/// The list of codes.
pub static CODES: &[&str] = &[
    "other-input-output",
    "processor-stolen",
    "processor-throttled",
    "clock-stepped",
    "host-disk-nearly-full",
    "kernel-complained",
    "out-of-memory",
    "emulator-late",
    "emulator-died",
    YARDSTICK_OUTLIER,
];

/// The yardstick beside a trial is far from those beside the others.
pub const YARDSTICK_OUTLIER: &str = "yardstick-outlier";

/// Whether a trial with this warning was disturbed.
#[must_use]
pub fn is_disturbance(warning: &Warning) -> bool {
    CODES.contains(&warning.code.as_str())
}
