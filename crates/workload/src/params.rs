//! Parameters that several workloads have, so that each means the same everywhere. What only one
//! workload knows is in its own file.

use fsdyno_model::cold::Cold;
use fsdyno_model::param::{ParamDef, ParamKind};
use fsdyno_model::payload::Payload;

/// What is written into files.
pub const PAYLOAD: ParamDef = ParamDef {
    name: "payload",
    kind: ParamKind::Text,
    default: "realistic:compressibility=50%,duplication=0%",
    quick: None,
    doc: "what is written: `original` (what the classic tool wrote; elsewhere the letter a) or \
          `realistic:compressibility=P%,duplication=P%`",
    check: Some(Payload::check),
};

/// Whether phases end with syncfs.
pub const SYNC: ParamDef = ParamDef {
    name: "sync",
    kind: ParamKind::Flag,
    default: "true",
    quick: None,
    doc: "whether each phase ends with syncfs on the target, so that time until durable is known",
    check: None,
};

/// Whose rules and arithmetic.
pub const MODE: ParamDef = ParamDef {
    name: "mode",
    kind: ParamKind::Choice(&["original", "corrected"]),
    default: "corrected",
    quick: None,
    doc: "the original's rules and arithmetic with their defects, or without them",
    check: None,
};

/// Whether the phase `fragmentation` follows.
pub const FRAGMENTATION: ParamDef = ParamDef {
    name: "fragmentation",
    kind: ParamKind::Flag,
    default: "false",
    quick: None,
    doc: "whether the extents of all files and of the free space are counted when most is on the target",
    check: None,
};

/// How caches are emptied before the phases that should start cold.
#[must_use]
pub const fn cold(default: &'static str, doc: &'static str) -> ParamDef {
    ParamDef {
        name: "cold",
        kind: ParamKind::Choice(Cold::WORDS),
        default,
        quick: None,
        doc,
        check: None,
    }
}

/// How many do the same at a time.
#[must_use]
pub const fn numjobs(doc: &'static str) -> ParamDef {
    let kind = ParamKind::Count { min: 1, max: 1024 };
    ParamDef { name: "numjobs", kind, default: "1", quick: None, doc, check: None }
}
