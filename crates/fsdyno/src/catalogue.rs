//! The catalogues of the other crates as one set of names, for plans, targets and documentation.

use crate::workload_file;
use fsdyno_model::info::{FilesystemInfo, Names, WorkloadInfo};
use fsdyno_model::ladder::Climb;
use fsdyno_model::param::ParamValue;
use fsdyno_model::units;
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_workload::catalog::Workload;

/// Phase whose figure decides a calibration, where a workload has it; else its first does.
const DECISIVE_PHASE: &str = "transactions";
/// Seconds of a calibration where a workload has no parameter for them.
const DEFAULT_BUDGET_S: u64 = 600;

/// The catalogue of workloads, documentation only.
#[must_use]
pub fn workloads() -> Vec<&'static WorkloadInfo> {
    fsdyno_workload::catalog::infos()
}

/// The catalogue of filesystems, documentation only.
#[must_use]
pub fn filesystems() -> Vec<&'static FilesystemInfo> {
    fsdyno_lab::filesystem::ALL.iter().map(|def| &def.info).collect()
}

/// Calls `work` with the names that plans, targets and workloads may use.
pub fn with_names<T>(work: impl FnOnce(&Names<'_>) -> T) -> T {
    let (workloads, filesystems) = (workloads(), filesystems());
    work(&Names {
        workloads: &workloads,
        filesystems: &filesystems,
        load_workload: workload_file::load,
    })
}

/// The workload of a plan: that of the catalogue, or the one that the plan itself defines.
///
/// # Errors
/// A sentence: no such workload, or what is wrong with the definition.
pub fn workload(spec: &WorkloadSpec) -> Result<Workload, String> {
    fsdyno_workload::catalog::resolve(&spec.kind, spec.definition.as_deref())
}

/// Phases of a workload in the order in which tables show them, fsck last.
#[must_use]
pub fn phase_order(spec: &WorkloadSpec) -> Vec<&'static str> {
    let found = workload(spec);
    let phases = found.map_or(&[][..], |found| found.info().phases);
    phases.iter().map(|phase| phase.name).chain(["fsck"]).collect()
}

/// The loads of a workload that asks to be calibrated (`calibrate=true`).
#[must_use]
pub fn climb(spec: &WorkloadSpec) -> Option<Climb> {
    climb_of(workload(spec).ok()?, spec)
}

fn climb_of(found: Workload, spec: &WorkloadSpec) -> Option<Climb> {
    let value = |name: &str| spec.params.iter().find(|(own, _)| *own == name).map(|(_, v)| v);
    if value("calibrate") != Some(&ParamValue::Flag(true)) {
        return None;
    }
    let rungs = (found.rungs()?)(&spec.params);
    let phases = || found.info().phases.iter().map(|phase| phase.name);
    let phase = phases().find(|name| *name == DECISIVE_PHASE).or_else(|| phases().next())?;
    let budget_s = match value("calibrate_budget") {
        Some(ParamValue::Number(seconds)) => *seconds,
        Some(ParamValue::Text(text)) => {
            units::parse_duration_ns(text).map_or(DEFAULT_BUDGET_S, |ns| ns.div_ceil(1_000_000_000))
        }
        _ => DEFAULT_BUDGET_S,
    };
    Some(Climb { rungs, phase: phase.to_owned(), budget_s })
}
