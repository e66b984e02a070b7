//! Whether a target can be measured in a guest, and whether a workload can run in one: what lies on this
//! machine cannot be reached from there. Changes nothing.

use fsdyno_guest::uml;
use fsdyno_lab::device::array;
use fsdyno_lab::readiness::{Readiness, room_for_images};
use fsdyno_lab::{arguments, filesystem, stand, tools};
use fsdyno_model::param::{ParamKind, SHIPPED};
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_model::units::human_bytes;
use fsdyno_model::workload::WorkloadSpec;

use super::kernels::KernelParts;
use super::{Parts, input, virtual_time};
use crate::catalogue;
use crate::run::image_directory;

/// Workloads that run programs of this machine, and what these are.
const OF_THE_HOST: [(&str, &str); 3] =
    [("command", "the command"), ("kernel-source", "a compiler"), ("postgres", "PostgreSQL")];

/// Whether `target` can be measured in a guest of these `parts`.
#[must_use]
pub fn readiness(target: &TargetSpec, plan: &Plan, parts: &Parts) -> Readiness {
    let answer = match &target.ground {
        Ground::Directory { .. } => Err(refuse(format!(
            "a directory of this machine cannot be reached from a guest: leave it out, or {}",
            place_option(plan)
        ))),
        Ground::Fresh(fresh) => self::fresh(fresh, plan, parts.kernels.of_target(target, plan)),
    };
    answer.err().unwrap_or(Readiness::Ready)
}

fn skip(reason: impl Into<String>) -> Readiness {
    Readiness::Skip { reason: reason.into() }
}

fn refuse(error: impl Into<String>) -> Readiness {
    Readiness::Refuse { error: error.into() }
}

fn fresh(fresh: &FreshSpec, plan: &Plan, kernel: &KernelParts) -> Result<(), Readiness> {
    let definition = filesystem::by_name(&fresh.filesystem).ok_or_else(|| {
        refuse(format!("`{}` is no filesystem of the catalogue", fresh.filesystem))
    })?;
    arguments::check(definition, &fresh.mkfs, &fresh.mount).map_err(refuse)?;
    for (device, size) in disks(fresh, plan) {
        if let DeviceSpec::Block { path } = device {
            return Err(refuse(format!(
                "{} is a device of this machine, which a guest does not get: leave out @{0}, or {}",
                path.display(),
                place_option(plan)
            )));
        }
        if let DeviceSpec::Emulated { model, .. } = device {
            if !plan.place.is_virtual() {
                let way = if plan.place.is_uml() { "take" } else { "add" };
                return Err(refuse(format!(
                    "{device} is emulated on the host, or in virtual time: leave out {}, or {way} \
                     --clock virtual",
                    place_option(plan)
                )));
            }
            if let Some(error) = virtual_time::model_error(model, size) {
                return Err(refuse(error));
            }
        }
    }
    let least = [definition.min_size_bytes, definition.min_journal_bytes];
    for ((device, default), least) in fresh.devices().zip(default_sizes(plan)).zip(least) {
        let size = device.size(default);
        if size < least {
            let (has, needs) = (human_bytes(size), human_bytes(least));
            return Err(refuse(format!("{has} are too small for it: give it at least {needs}")));
        }
    }
    let sizes = disk_sizes(fresh, plan);
    if plan.place.is_uml() && sizes.len() > uml::MAX_DISKS {
        let (most, count) = (uml::MAX_DISKS, sizes.len());
        return Err(refuse(format!(
            "User-Mode Linux has {most} disks at most, and it needs {count}: take fewer, or --in guest"
        )));
    }
    kernel.of_target(definition, fresh, plan).map_err(|error| {
        let release = &kernel.kernel.release;
        skip(if plan.place.is_uml() {
            format!("User-Mode Linux {release}: {error}; another kernel may, with --in guest")
        } else {
            format!("the guest's kernel ({release}): {error}; --kernel gives another")
        })
    })?;
    // The disks are files full of holes, but a workload may fill them. In virtual time they are memory.
    if !plan.place.is_virtual() {
        let bytes = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size));
        room_for_images(bytes, &image_directory(plan))?;
    }
    let mut needed = definition.tools.to_vec();
    for spec in fresh.devices().flat_map(DeviceSpec::arrays) {
        needed.extend(array::definition(spec.array).tools);
    }
    needed.extend(input::disk_bytes(plan).and_then(|_| input::filesystem().tools.first()));
    let missing = tools::missing(&needed);
    let Some(first) = missing.first() else { return Ok(()) };
    let advice = tools::install_advice(first.name).unwrap_or_default();
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    Err(skip(format!("{} not installed: {advice}", names.join(", "))))
}

/// The option that has trials run where they do.
fn place_option(plan: &Plan) -> String {
    format!("--in {}", plan.place.kind.word())
}

/// Sizes of a filesystem's device and of its journal's that name none.
fn default_sizes(plan: &Plan) -> [u64; 2] {
    [plan.size_bytes, stand::journal_size_bytes(plan.size_bytes)]
}

/// The disks that a target needs with their sizes: the filesystem's, then its journal's where it has one.
pub(super) fn disks<'a>(
    fresh: &'a FreshSpec,
    plan: &Plan,
) -> impl Iterator<Item = (&'a DeviceSpec, u64)> {
    let devices = fresh.devices().zip(default_sizes(plan));
    devices.flat_map(|(device, default)| device.leaf_sizes(default))
}

/// Sizes of the disks of a target's guest, in bytes: its own, then the one for what workloads read where there is
/// such a one.
pub(super) fn disk_sizes(fresh: &FreshSpec, plan: &Plan) -> Vec<u64> {
    disks(fresh, plan).map(|(_, size)| size).chain(input::disk_bytes(plan)).collect()
}

/// Why a workload cannot run in a guest; `None` where it can.
#[must_use]
pub fn workload_error(workload: &WorkloadSpec) -> Option<String> {
    let label = &workload.label;
    if let Some((_, what)) = OF_THE_HOST.iter().find(|(kind, _)| *kind == workload.kind) {
        return Some(format!(
            "{label}: {what} of this machine cannot be run in a guest: leave out --in guest"
        ));
    }
    let found = catalogue::workload(workload).ok()?;
    let definitions = found.info().params;
    let is_given = |name| workload.params.contains(name);
    let paths = definitions.iter().filter(|it| it.kind == ParamKind::Path && is_given(it.name));
    paths.into_iter().find_map(|param| {
        let value = workload.params.text(param.name);
        let is_inside = value == param.default || value.starts_with(SHIPPED);
        (!is_inside).then(|| {
            format!(
                "{label}: {}={value} is a file of this machine, which a guest does not have: leave \
                 it out, or --in guest",
                param.name
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_that_need_this_machine_are_told() {
        let error = |text: &str| {
            let parsed = catalogue::with_names(|names| WorkloadSpec::parse(text, true, names));
            workload_error(&parsed.unwrap())
        };
        assert_eq!(error("compilebench"), None);
        assert_eq!(error("dbench"), None);
        assert!(error("kernel-source").unwrap().contains("a compiler"));
        assert!(error("postgres").unwrap().contains("PostgreSQL"));
        let given = error("package-install:packages=/srv/debs").unwrap();
        assert!(given.contains("packages=/srv/debs is a file"), "{given}");
    }
}
