//! The names of the fields of a plan in TOML, as errors list them.

/// Settings of `[plan]`, but for those of the place.
pub(crate) const PLAN_FIELDS: &[&str] = &[
    "title",
    "trials",
    "resolution",
    "max_trials",
    "seed",
    "max_time",
    "trial_timeout",
    "phase_timeout",
    "size",
    "dir",
    "trace",
    "yardstick",
];

/// Settings of `[plan]` that say where trials run.
pub(crate) const PLACE_FIELDS: &[&str] =
    &["where", "clock", "shift", "kernel", "accelerator", "memory", "memory_limit", "saved_state"];

/// Fields of a target.
pub(crate) const TARGET_FIELDS: &[&str] = &[
    "label",
    "filesystem",
    "directory",
    "mkfs",
    "mount",
    "device",
    "log",
    "journal",
    "age",
    "kernel",
];
