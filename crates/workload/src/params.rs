//! Constructors for parameters of each kind, and parameters that several workloads have, so that each
//! means the same everywhere. What only one workload knows is in its own file.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::{Check, ParamDef, ParamKind};
use fsdyno_model::payload::Payload;

/// What is written into files.
pub const PAYLOAD: ParamDef = text(
    "payload",
    ("realistic:compressibility=50%,duplication=0%", None),
    Payload::check,
    "what is written: `original` (what the classic tool wrote; elsewhere the letter a) or \
     `realistic:compressibility=P%,duplication=P%`",
);

/// Whether phases end with syncfs.
pub const SYNC: ParamDef = flag(
    "sync",
    "true",
    "whether each phase ends with syncfs on the target, so that time until durable is known",
);

/// Whose rules and arithmetic.
pub const MODE: ParamDef = choice(
    "mode",
    &["original", "corrected"],
    "corrected",
    "the original's rules and arithmetic with their defects, or without them",
);

/// Whether the phase `fragmentation` follows.
pub const FRAGMENTATION: ParamDef = flag(
    "fragmentation",
    "false",
    "whether the extents of all files and of the free space are counted when most is on the target",
);

/// How caches are emptied before the phases that should start cold.
#[must_use]
pub const fn cold(default: &'static str, doc: &'static str) -> ParamDef {
    choice("cold", Cold::WORDS, default, doc)
}

/// How many do the same at a time.
#[must_use]
pub const fn numjobs(doc: &'static str) -> ParamDef {
    count("numjobs", (1, 1024), ("1", None), doc)
}

/// A whole number within the bounds, both included, with its default and that of `--quick`.
#[must_use]
pub const fn count(
    name: &'static str,
    (min, max): (u64, u64),
    (default, quick): (&'static str, Option<&'static str>),
    doc: &'static str,
) -> ParamDef {
    ParamDef { name, kind: ParamKind::Count { min, max }, default, quick, doc, check: None }
}

/// A size in bytes within the bounds, both included, with its default and that of `--quick`.
#[must_use]
pub const fn bytes(
    name: &'static str,
    (min, max): (u64, u64),
    (default, quick): (&'static str, Option<&'static str>),
    doc: &'static str,
) -> ParamDef {
    ParamDef { name, kind: ParamKind::Bytes { min, max }, default, quick, doc, check: None }
}

/// `true` or `false`.
#[must_use]
pub const fn flag(name: &'static str, default: &'static str, doc: &'static str) -> ParamDef {
    ParamDef { name, kind: ParamKind::Flag, default, quick: None, doc, check: None }
}

/// One of `words`.
#[must_use]
pub const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    doc: &'static str,
) -> ParamDef {
    ParamDef { name, kind: ParamKind::Choice(words), default, quick: None, doc, check: None }
}

/// A text that `check` accepts, with its default and that of `--quick`.
#[must_use]
pub const fn text(
    name: &'static str,
    (default, quick): (&'static str, Option<&'static str>),
    check: Check,
    doc: &'static str,
) -> ParamDef {
    ParamDef { name, kind: ParamKind::Text, default, quick, doc, check: Some(check) }
}

/// Any text.
#[must_use]
pub const fn free_text(name: &'static str, default: &'static str, doc: &'static str) -> ParamDef {
    ParamDef { name, kind: ParamKind::Text, default, quick: None, doc, check: None }
}

/// A path, or the word that is the default.
#[must_use]
pub const fn path(name: &'static str, default: &'static str, doc: &'static str) -> ParamDef {
    ParamDef { name, kind: ParamKind::Path, default, quick: None, doc, check: None }
}
