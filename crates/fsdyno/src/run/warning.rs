//! Remarks about a plan as a whole, told before it runs and kept with its results.

use fsdyno_model::plan::Plan;
use fsdyno_model::record::Warning;
use fsdyno_model::target::{DeviceSpec, Ground, TargetSpec};
use fsdyno_model::units;

/// Trials below which an interval says little.
const FEW_TRIALS: u32 = 3;

/// Everything about `plan` that a reader of its results must know.
#[must_use]
pub fn of_plan(plan: &Plan) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if plan.trials < FEW_TRIALS {
        let message = match plan.trials {
            1 => "one trial says nothing about noise".to_owned(),
            trials => format!("with {trials} trials the intervals say little"),
        };
        warnings.push(Warning {
            code: "few-trials".to_owned(),
            message,
            advice: "use --trials 5".to_owned(),
        });
    }
    let has_image = plan.targets.iter().any(|target| image_size(target, plan).is_some());
    if has_image {
        let directory = super::image_directory(plan);
        warnings.extend(fsdyno_lab::environment::image_directory_warning(&directory));
    }
    warnings.extend(plan.targets.iter().filter_map(|target| too_small(target, plan)));
    warnings
}

/// A device that cannot hold what a workload has on it at its fullest, unless it is compressed.
fn too_small(target: &TargetSpec, plan: &Plan) -> Option<Warning> {
    let size_bytes = device_size(target, plan)?;
    let (workload, peak_bytes) = largest_workload(plan)?;
    if peak_bytes <= size_bytes {
        return None;
    }
    let (label, peak) = (&target.label, units::human_bytes(peak_bytes));
    Some(Warning {
        code: "device-too-small".to_owned(),
        message: format!(
            "{workload} holds up to {peak}, {label} has {}",
            units::human_bytes(size_bytes)
        ),
        advice: match (&target.ground, image_size(target, plan)) {
            (_, Some(_)) => {
                format!(
                    "use --size {} or a smaller workload",
                    units::exact_bytes(enough(peak_bytes))
                )
            }
            (Ground::Directory { .. }, _) => "make room there or use a smaller workload".to_owned(),
            _ => "use a larger device or a smaller workload".to_owned(),
        },
    })
}

/// The workload that holds most at once, and how many bytes that is.
fn largest_workload(plan: &Plan) -> Option<(&str, u64)> {
    let peaks = plan.workloads.iter().filter_map(|workload| {
        let def = crate::catalogue::workload(workload).ok()?;
        Some((workload.label.as_str(), def.peak_bytes(&workload.params).ok()??))
    });
    peaks.max_by_key(|(_, peak_bytes)| *peak_bytes)
}

/// The size of image that the workloads of `plan` need, where that is more than its own and the disk
/// has it to spare.
#[must_use]
pub fn larger_images(plan: &Plan) -> Option<u64> {
    let (_, peak_bytes) = largest_workload(plan).filter(|(_, peak)| *peak > plan.size_bytes)?;
    let wanted = enough(peak_bytes);
    let space = fsdyno_sys::file::free_space(&super::image_directory(plan)).ok()?;
    (wanted < space.available / 10 * 9).then_some(wanted)
}

/// A size with room for the filesystem's own: a quarter more, in whole GiB.
fn enough(peak_bytes: u64) -> u64 {
    let gibibytes = peak_bytes.saturating_add(peak_bytes / 4).div_ceil(1 << 30);
    gibibytes.saturating_mul(1 << 30)
}

fn image_size(target: &TargetSpec, plan: &Plan) -> Option<u64> {
    match &target.ground {
        Ground::Fresh(fresh) => match fresh.device {
            DeviceSpec::LoopImage { size_bytes } => Some(size_bytes.unwrap_or(plan.size_bytes)),
            DeviceSpec::Block { .. } => None,
        },
        Ground::Directory { .. } => None,
    }
}

fn device_size(target: &TargetSpec, plan: &Plan) -> Option<u64> {
    match &target.ground {
        Ground::Fresh(fresh) => match &fresh.device {
            DeviceSpec::Block { path } => fsdyno_sys::block::size_bytes(path).ok(),
            DeviceSpec::LoopImage { .. } => image_size(target, plan),
        },
        Ground::Directory { path } => {
            fsdyno_sys::file::free_space(path).ok().map(|space| space.available)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::workload::WorkloadSpec;

    #[test]
    fn advice_on_too_little_room_fits_the_target() {
        let directory = tempfile::tempdir().unwrap();
        let mut plan = Plan::new(false);
        plan.size_bytes = 1 << 30;
        let text = "small-files:files=99999999,size=100GiB";
        crate::catalogue::with_names(|names| {
            plan.workloads.push(WorkloadSpec::parse(text, false, names).unwrap());
        });
        let directory = format!("dir:{}", directory.path().display());
        for (target, advises_size) in [(directory.as_str(), false), ("ext4", true)] {
            let target =
                crate::catalogue::with_names(|names| TargetSpec::parse(target, names).unwrap());
            let warning = too_small(&target, &plan).unwrap();
            assert_eq!(warning.code, "device-too-small");
            assert_eq!(warning.advice.contains("--size"), advises_size, "{}", warning.advice);
        }
    }

    #[test]
    fn images_grow_with_the_workload_where_the_disk_has_room() {
        let directory = tempfile::tempdir().unwrap();
        let grown = |text: &str| {
            let mut plan = Plan::new(false);
            plan.directory = Some(directory.path().to_owned());
            plan.size_bytes = 1 << 30;
            crate::catalogue::with_names(|names| {
                plan.workloads.push(WorkloadSpec::parse(text, false, names).unwrap());
            });
            larger_images(&plan)
        };
        assert_eq!(grown("small-files:files=10"), None);
        let available = fsdyno_sys::file::free_space(directory.path()).unwrap().available;
        if available > 4 << 30 {
            assert_eq!(grown("small-files:files=20,size=64MiB"), Some(2 << 30));
        }
        // No disk has so much.
        assert_eq!(grown("small-files:files=99999999,size=100GiB"), None);
        assert_eq!(enough(u64::MAX), u64::MAX);
    }
}
