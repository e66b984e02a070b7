//! What the fuzz targets share: a small catalogue with one entry of each shape that
//! the parsers of `fsdyno-model` tell apart. The real catalogues belong to other crates.
#![forbid(unsafe_code)]

use fsdyno_model::info::{FilesystemInfo, Names, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, ParamKind};

/// A catalogue of three filesystems and one workload with a parameter of each kind.
pub const NAMES: Names<'static> = Names {
    load_workload: fsdyno_model::info::no_files,
    workloads: &[&WORKLOAD],
    filesystems: &[
        &FilesystemInfo { name: "ext4", summary: "journal", external_journal: Some("journal") },
        &FilesystemInfo { name: "xfs", summary: "log", external_journal: Some("log") },
        &FilesystemInfo { name: "btrfs", summary: "neither", external_journal: None },
    ],
};

static WORKLOAD: WorkloadInfo = WorkloadInfo {
    name: "compilebench",
    summary: "a parameter of each kind",
    doc: WorkloadDoc { timed: "", not_timed: "", models: "", read_it_as: "", caveats: "" },
    differences: &[],
    params: &[
        param("trees", ParamKind::Count { min: 1, max: 1_000 }, "10"),
        param("buffer", ParamKind::Bytes { min: 1, max: 1 << 30 }, "256KiB"),
        param("sync", ParamKind::Flag, "true"),
        param("mode", ParamKind::Choice(&["original", "corrected"]), "corrected"),
        param("datasets", ParamKind::Path, "builtin"),
    ],
    phases: &[],
};

const fn param(name: &'static str, kind: ParamKind, default: &'static str) -> ParamDef {
    ParamDef { name, kind, default, quick: None, doc: "", check: None }
}
