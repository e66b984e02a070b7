//! What is not the same about two runs: plan, options, what was in force, the machine. Comparing their
//! figures is left to [`crate::diff`].

use std::collections::{BTreeMap, BTreeSet};

use fsdyno_model::diff::Difference;
use fsdyno_model::disturbance::is_disturbance;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{Role, Warning};
use fsdyno_model::result::{RunResult, TargetResult, TrialResult};
use fsdyno_model::workload::WorkloadSpec;

use super::machine::Machines;
use super::sides::Matching;

/// Facts of a device that are another in every trial.
const PASSING_FACTS: [&str; 8] = [
    "directory",
    "image",
    "image_allocated_bytes",
    "image_position_bytes",
    "path",
    "number",
    "filesystem_free_bytes",
    "filesystem_available_bytes",
];

/// The properties of something, by name.
type Properties = BTreeMap<String, String>;

/// Everything that differs, by what it belongs to.
#[must_use]
pub fn differences(base: &RunResult, new: &RunResult, matching: &Matching<'_>) -> Vec<Difference> {
    let mut found = compared("plan", &plan(base), &plan(new));
    found.extend(compared("machine", &machine(base), &machine(new)));
    for [own, other] in &matching.targets {
        let of = format!("target {}", other.label);
        found.extend(compared(&of, &target(own), &target(other)));
    }
    for workload in &new.workloads {
        let Some(known) = base.workloads.iter().find(|known| known.label == workload.label) else {
            continue;
        };
        let of = format!("workload {}", workload.label);
        found.extend(compared(&of, &work(known), &work(workload)));
    }
    found
}

fn compared(of: &str, base: &Properties, new: &Properties) -> Vec<Difference> {
    let names: BTreeSet<&String> = base.keys().chain(new.keys()).collect();
    names
        .into_iter()
        .filter(|name| base.get(*name) != new.get(*name))
        .map(|name| Difference {
            of: of.to_owned(),
            name: name.clone(),
            base: base.get(name).cloned(),
            new: new.get(name).cloned(),
        })
        .collect()
}

fn plan(result: &RunResult) -> Properties {
    let run = &result.run;
    Properties::from([
        ("trials".to_owned(), run.trials.to_string()),
        ("seed".to_owned(), run.seed.to_string()),
        ("size_bytes".to_owned(), run.size_bytes.to_string()),
    ])
}

fn machine(result: &RunResult) -> Properties {
    let environment = &result.run.environment;
    let mut all = Properties::new();
    let mut add = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("fsdyno_version", Some(environment.fsdyno_version.clone()));
    add("hostname", environment.hostname.clone());
    add("kernel_release", environment.kernel_release.clone());
    add("kernel_version", environment.kernel_version.clone());
    add("kernel_cmdline", environment.kernel_cmdline.clone());
    add("distribution", environment.distribution.clone());
    add("cpu_model", environment.cpu_model.clone());
    add("cpu_count", environment.cpu_count.map(|count| count.to_string()));
    add("cpu_governor", environment.cpu_governor.clone());
    add("memory_bytes", environment.memory_bytes.map(|bytes| bytes.to_string()));
    add("memory_limit_bytes", environment.memory_limit_bytes.map(|bytes| bytes.to_string()));
    add("root", Some(environment.root.to_string()));
    add("image_directory", environment.image_directory.clone());
    add("image_filesystem", environment.image_filesystem.clone());
    for (name, version) in &environment.tools {
        add(&format!("tool {name}"), version.clone());
    }
    for (name, value) in &environment.sysctl {
        add(name, value.clone());
    }
    all
}

fn target(target: &TargetResult) -> Properties {
    let mut all = Properties::new();
    let mut add = |name: &str, value: Option<String>| {
        all.extend(value.map(|value| (name.to_owned(), value)));
    };
    let spec = target.spec.strip_prefix(&format!("{}=", target.label)).unwrap_or(&target.spec);
    add("spec", Some(spec.to_owned()));
    add("mkfs_command", target.mkfs_command.as_deref().map(without_numbers));
    add("mount_effective", target.mount_effective.clone());
    add("journal", target.journal.clone());
    for (name, value) in &target.mkfs_effective {
        add(&format!("mkfs {name}"), Some(value.clone()));
    }
    for (name, value) in &target.device_facts {
        // Those of a journal on another device are named after it.
        if !PASSING_FACTS.contains(&name.strip_prefix("journal.").unwrap_or(name)) {
            add(&format!("device {name}"), Some(value.clone()));
        }
    }
    all
}

/// A command without the numbers of loop devices, which are others in every trial.
fn without_numbers(command: &str) -> String {
    let words = command.split(' ').map(|word| match word.find("/dev/loop") {
        Some(at) => {
            let (head, number) = word.split_at(at + "/dev/loop".len());
            let rest = number.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{head}N{rest}")
        }
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn work(workload: &WorkloadSpec) -> Properties {
    let mut all: Properties =
        workload.params.iter().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
    all.insert("kind".to_owned(), workload.kind.clone());
    if let Some(definition) = &workload.definition {
        all.insert("definition".to_owned(), definition.clone());
    }
    all
}

/// What must be known to read the figures.
#[must_use]
pub fn warnings(
    base: &RunResult,
    new: &RunResult,
    matching: &Matching<'_>,
    machines: &Machines,
) -> Vec<Warning> {
    let mut warnings = of_machines(machines);
    let mut warn = |code: &str, message: String, advice: &str| {
        let (code, advice) = (code.to_owned(), advice.to_owned());
        warnings.push(Warning { code, message, advice });
    };
    let version = |result: &RunResult| result.run.environment.fsdyno_version.clone();
    if version(base) != version(new) {
        warn(
            "other-version",
            format!("the runs were made by fsdyno {} and {}", version(base), version(new)),
            "see Methodology in the changelog for what makes figures incomparable",
        );
    }
    let changed: Vec<&str> = new
        .workloads
        .iter()
        .filter(|workload| {
            base.workloads
                .iter()
                .any(|known| known.label == workload.label && work(known) != work(workload))
        })
        .map(|workload| workload.label.as_str())
        .collect();
    if !changed.is_empty() {
        warn(
            "other-work",
            format!("the work itself differs: {}", changed.join(", ")),
            "see its parameters among the differences",
        );
    }
    // Two targets of one run may well be compared.
    let is_itself = matching.targets.iter().any(|[own, other]| own.label == other.label);
    if base.run.id == new.run.id && is_itself {
        warn(
            "same-run",
            format!("both sides are run {}", new.run.id),
            "name two runs, such as latest~1 and latest",
        );
    }
    for (side, result) in [base, new].into_iter().enumerate() {
        warnings.extend(of_side(result, matching, side));
    }
    warnings
}

/// What must be known of one of the two runs: the base (0) or the new one (1).
fn of_side(result: &RunResult, matching: &Matching<'_>, side: usize) -> Vec<Warning> {
    let (name, id) = (["base", "new run"][side], &result.run.id);
    let warning = |code: &str, message: String, advice: &str| Warning {
        code: code.to_owned(),
        message,
        advice: advice.to_owned(),
    };
    let labels: Vec<&str> = matching.targets.iter().map(|it| it[side].label.as_str()).collect();
    let disturbed = disturbed(result, &labels).map(|disturbed| {
        warning(
            "trials-disturbed",
            format!("trials of the {name} ({id}) were disturbed: {disturbed}"),
            "fsdyno show tells what it was; where figures are close, measure again",
        )
    });
    let unfinished = result.run.finished.is_none().then(|| {
        warning(
            "unfinished",
            format!("the {name} ({id}) is not finished"),
            "finish it with fsdyno run --resume",
        )
    });
    disturbed.into_iter().chain(unfinished).collect()
}

/// Disturbances of the trials that are compared, each with the number of trials that it marks; `None` where
/// there are none.
fn disturbed(result: &RunResult, labels: &[&str]) -> Option<String> {
    let is_compared = |trial: &&TrialResult| {
        trial.role == Role::Measured
            && trial.outcome == Outcome::Completed
            && labels.contains(&trial.target.as_str())
    };
    let (mut all, mut marked) = (0, 0);
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for trial in result.trials.iter().filter(is_compared) {
        all += 1;
        let own = trial.warnings.iter().filter(|it| is_disturbance(it));
        let own: BTreeSet<&str> = own.map(|it| it.code.as_str()).collect();
        marked += usize::from(!own.is_empty());
        own.into_iter().for_each(|code| *codes.entry(code).or_default() += 1);
    }
    let codes: Vec<String> =
        codes.into_iter().map(|(code, count)| format!("{code} ({count})")).collect();
    (marked > 0).then(|| format!("{marked} of {all}, by {}", codes.join(", ")))
}

/// What is to be known of the machines.
fn of_machines(machines: &Machines) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, advice: &str| {
        let (code, advice) = (code.to_owned(), advice.to_owned());
        warnings.push(Warning { code, message, advice });
    };
    let (speeds, changed) = (machines.speeds(), machines.changed());
    if machines.are_different() {
        let speeds = if speeds.is_empty() {
            String::new()
        } else {
            format!("; the speeds of the new one: {speeds}")
        };
        warn(
            "other-machine",
            format!(
                "the runs are of different machines: {}{speeds}",
                machines.differing.join(", ")
            ),
            "the ratio of the machines is in every figure; run both on one machine, or read the adjusted ratios as a hint: they take out what the figures that were timed account for, and no cache, queue or kernel",
        );
    } else if !changed.is_empty() {
        warn(
            "machine-changed",
            format!("the machine is not as it was; its speeds now: {changed}"),
            "see what changed (frequency, other work, the disk's age or fill); the adjusted ratios take out what the figures that were timed account for, as a hint",
        );
    }
    if let Some([of_base, of_new]) = &machines.kernels {
        warn(
            "other-kernel",
            format!("the runs have different kernels: {of_base}, {of_new}"),
            "what differs may be the kernel's doing",
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_loop_devices_do_not_count() {
        for (command, expected) in [
            ("mkfs.ext4 -F -q /dev/loop12", "mkfs.ext4 -F -q /dev/loopN"),
            (
                "mkfs.xfs -l logdev=/dev/loop3,size=9 /dev/loop0p1",
                "mkfs.xfs -l logdev=/dev/loopN,size=9 /dev/loopNp1",
            ),
            ("mkfs.ext4 /dev/sda", "mkfs.ext4 /dev/sda"),
        ] {
            assert_eq!(without_numbers(command), expected);
        }
    }
}
