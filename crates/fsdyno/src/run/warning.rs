//! Remarks about a plan as a whole, told before it runs and kept with its results.

use fsdyno_lab::environment;
use fsdyno_model::age::AgeSpec;
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
    if plan.trials < FEW_TRIALS && !plan.place.is_virtual() {
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
    warnings.extend(plan.place.is_guest().then(|| in_guest(plan)));
    let has_image = plan.targets.iter().any(|target| image_size(target, plan).is_some());
    if has_image {
        let directory = super::image_directory(plan);
        // What lies under the images of a guest in virtual time is in none of its figures.
        let counts = |it: &Warning| !plan.place.is_virtual() || it.code == environment::UNUSABLE;
        warnings.extend(environment::image_directory_warning(&directory).filter(counts));
    }
    warnings.extend(plan.targets.iter().filter_map(|target| too_small(target, plan)));
    warnings
}

/// A comparison whose machine had less memory runs with all that there is here.
pub fn unlimited(error: String) -> Warning {
    Warning {
        code: "memory-not-limited".to_owned(),
        message: error,
        advice: "take what is read for what a cache holds, or run it in guests, which have a size"
            .to_owned(),
    }
}

/// What figures from guests are worth.
fn in_guest(plan: &Plan) -> Warning {
    let warning = |code: &str, message: String, advice: &str| Warning {
        code: code.to_owned(),
        message,
        advice: advice.to_owned(),
    };
    if plan.place.is_uml() {
        let message = "measured in User-Mode Linux on one processor, whose disks are files of this machine: times \
                       are those of its kernel, and flushes take as long as the disk under --dir";
        let advice = "compare them with those of User-Mode Linux alone (docs/GUESTS.md)";
        return warning("in-uml", message.to_owned(), advice);
    }
    if !plan.place.is_virtual() {
        let message = "measured in guests, whose disks are files in this machine's cache: times are those of \
                       the guests";
        let advice = "compare them with those of other guests alone (docs/GUESTS.md)";
        return warning("in-guest", message.to_owned(), advice);
    }
    let instruction_ns = 1_u64 << plan.place.shift;
    warning(
        "virtual-time",
        format!(
            "virtual time counts instructions, {instruction_ns} ns each, on one processor without caches: it \
             ranks and finds changes, and is no machine's speed"
        ),
        "compare it with virtual time alone (docs/VIRTUAL-TIME.md)",
    )
}

/// A device that cannot hold what a workload has on it at its fullest, unless it is compressed.
fn too_small(target: &TargetSpec, plan: &Plan) -> Option<Warning> {
    let used_percent = used_percent(target);
    let device_bytes = device_size(target, plan)?;
    let size_bytes = device_bytes - device_bytes / 100 * used_percent;
    let (workload, peak_bytes) = largest_workload(plan)?;
    if peak_bytes <= size_bytes {
        return None;
    }
    let (label, peak) = (&target.label, units::human_bytes(peak_bytes));
    let left = units::human_bytes(size_bytes);
    let enough = |peak_bytes| enough(peak_bytes, used_percent);
    Some(Warning {
        code: "device-too-small".to_owned(),
        message: match used_percent {
            0 => format!("{workload} holds up to {peak}, {label} has {left}"),
            used => format!(
                "{workload} holds up to {peak}, {label} has {left} left once {used} % are in use"
            ),
        },
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
    let used = plan.targets.iter().map(used_percent).max().unwrap_or_default();
    let left_bytes = plan.size_bytes - plan.size_bytes / 100 * used;
    let (_, peak_bytes) = largest_workload(plan).filter(|(_, peak)| *peak > left_bytes)?;
    let wanted = enough(peak_bytes, used);
    let space = fsdyno_sys::file::free_space(&super::image_directory(plan)).ok()?;
    (wanted < space.available / 10 * 9).then_some(wanted)
}

/// Share of a target that aging leaves in use, in percent, as far as the age says so.
fn used_percent(target: &TargetSpec) -> u64 {
    match &target.ground {
        Ground::Fresh(fresh) => {
            fresh.age.as_ref().and_then(AgeSpec::utilisation_percent).unwrap_or_default().into()
        }
        Ground::Directory { .. } => 0,
    }
}

/// A size with room for the filesystem's own, a quarter more, and for what is in use already; in whole
/// GiB.
fn enough(peak_bytes: u64, used_percent: u64) -> u64 {
    let with_own = peak_bytes.saturating_add(peak_bytes / 4);
    let whole = u128::from(with_own) * 100 / u128::from(100 - used_percent.min(99));
    u64::try_from(whole.next_multiple_of(1 << 30)).unwrap_or(u64::MAX)
}

fn image_size(target: &TargetSpec, plan: &Plan) -> Option<u64> {
    match &target.ground {
        Ground::Fresh(fresh) => {
            let is_image = fresh.device.paths().next().is_none();
            is_image.then(|| fresh.device.size(plan.size_bytes))
        }
        Ground::Directory { .. } => None,
    }
}

fn device_size(target: &TargetSpec, plan: &Plan) -> Option<u64> {
    match &target.ground {
        Ground::Fresh(fresh) => match &fresh.device {
            DeviceSpec::Block { path } => fsdyno_sys::block::size_bytes(path).ok(),
            _ => image_size(target, plan),
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
    fn what_aging_leaves_in_use_does_not_count() {
        let mut plan = Plan::new(false);
        plan.size_bytes = 1 << 30;
        crate::catalogue::with_names(|names| {
            let text = "small-files:files=100,size=3MiB";
            plan.workloads.push(WorkloadSpec::parse(text, false, names).unwrap());
            let targets = ["ext4", "ext4~churn(utilisation=90%)"];
            plan.targets.extend(targets.map(|text| TargetSpec::parse(text, names).unwrap()));
        });
        assert_eq!(too_small(&plan.targets[0], &plan), None);
        let warning = too_small(&plan.targets[1], &plan).unwrap();
        assert!(warning.message.ends_with("left once 90 % are in use"), "{}", warning.message);
        assert!(warning.advice.contains("--size 4GiB"), "{}", warning.advice);
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
        assert_eq!(enough(u64::MAX, 0), u64::MAX);
    }
}
