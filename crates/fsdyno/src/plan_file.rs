//! Plans from files: read, checked against the catalogues, every error drawn with its place.

use std::path::Path;

use anyhow::Context as _;
use fsdyno_disk::shipped;
use fsdyno_model::diagnostic::Diagnostic;
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{DeviceSpec, Ground};

use crate::cmd::use_color;
use crate::{bad_input, bad_inputs, catalogue, disk_model, snippet};

/// Reads a plan and checks it against the catalogues.
///
/// # Errors
/// Bad input: every error of the plan, drawn with its place.
pub fn read(path: &Path) -> anyhow::Result<Plan> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| bad_input(format!("cannot read the plan {}: {error}", path.display())))?;
    let parsed = catalogue::with_names(|names| Plan::parse(&text, names));
    let color = use_color(fsdyno_sys::process::stderr_is_terminal());
    let draw = |diagnostics: &[_]| {
        let drawn = snippet::render(&path.display().to_string(), &text, diagnostics, color);
        bad_input(format!("the plan cannot be run\n{drawn}"))
    };
    let plan = parsed.map_err(|diagnostics| draw(&diagnostics))?;
    let plan = make_ready(plan)?;
    let errors = workload_errors(&plan);
    if errors.is_empty() {
        return Ok(plan);
    }
    let diagnostics: Vec<_> =
        errors.into_iter().map(|message| Diagnostic { message, span: None }).collect();
    Err(draw(&diagnostics))
}

/// What the workloads of a plan say of their parameters taken together.
#[must_use]
pub fn workload_errors(plan: &Plan) -> Vec<String> {
    let check = |workload: &fsdyno_model::workload::WorkloadSpec| {
        let found = catalogue::workload(workload).ok()?;
        found.check(&workload.params).err().map(|error| format!("{}: {error}", workload.label))
    };
    plan.workloads.iter().filter_map(check).collect()
}

/// Makes the paths of the guests' kernels absolute.
///
/// # Errors
/// When the current directory cannot be told.
pub fn absolute_kernel(plan: &mut Plan) -> anyhow::Result<()> {
    let current = std::env::current_dir().context("cannot tell the current directory")?;
    plan.place.kernel = plan.place.kernel.take().map(|kernel| kernel.absolute(&current));
    for target in &mut plan.targets {
        if let Ground::Fresh(fresh) = &mut target.ground {
            fresh.kernel = fresh.kernel.take().map(|kernel| kernel.absolute(&current));
        }
    }
    Ok(())
}

/// Looks at the model of an emulated disk; the path of a file becomes absolute.
fn settle_model(device: &mut DeviceSpec, current: &Path) -> anyhow::Result<()> {
    if let DeviceSpec::Emulated { model, .. } = device {
        disk_model::find(model).map_err(bad_input)?;
        if shipped::is_file(model) {
            *model = current.join(&*model).display().to_string();
        }
    }
    Ok(())
}

/// Makes a plan ready to be run: every path absolute, so that a run can be resumed from any directory,
/// and in the place of every workload that is to be calibrated its rungs.
///
/// # Errors
/// When the current directory cannot be told; bad input: too few trials or targets for a calibration.
pub fn make_ready(mut plan: Plan) -> anyhow::Result<Plan> {
    let current = std::env::current_dir().context("cannot tell the current directory")?;
    plan.directory = plan.directory.map(|path| current.join(path));
    absolute_kernel(&mut plan)?;
    for target in &mut plan.targets {
        match &mut target.ground {
            Ground::Directory { path } => *path = current.join(&path),
            Ground::Fresh(fresh) => {
                for device in fresh.leaves_mut() {
                    settle_model(device, &current)?;
                }
            }
        }
    }
    for workload in &mut plan.workloads {
        if let Ok(def) = catalogue::workload(workload) {
            workload.params.resolve_paths(def.info().params, &current);
        }
    }
    plan.expand(catalogue::climb).map_err(|errors| bad_inputs(&errors))
}

#[cfg(test)]
mod tests {
    use fsdyno_model::plan_text;
    use fsdyno_model::published::Scale;

    use super::*;
    use crate::published;

    /// Every kind of field.
    const ALL_FIELDS: &str = r#"
[plan]
title = "of \"all\" kinds"
trials = "auto"
resolution = "2.5%"
max_trials = 40
seed = 7
size = "3GiB"
dir = "/srv/images"
max_time = "90m"
trial_timeout = "2h"
phase_timeout = "20m"
trace = "none"
yardstick = false
where = "guest"
kernel = "6.12"
accelerator = "tcg"
memory = "2GiB"
saved_state = false

[[target]]
label = "old one"
filesystem = "ext3"
mkfs = ["-I", "256", "-L", "a b"]
mount = "data=writeback,barrier=1"
device = { raid1 = ["4GiB", "4GiB"], bitmap = true }
age = "churn(utilisation=80%,age=3)"
journal = true

[[target]]
filesystem = "xfs"
log = "loop:1GiB"
kernel = "6.1"

[[target]]
directory = "/mnt/nfs"

[[workload]]
kind = "compilebench"
trees = 10
payload = "original"

[[workload]]
kind = "command"
command = "sh -c 'echo \"a\" > b'"
"#;

    fn assert_read_back(plan: Plan) {
        let plan = Plan { published: None, ..plan };
        catalogue::with_names(|names| {
            let text = plan_text::write(&plan, "head", names, |_| None);
            let read = Plan::parse(&text, names);
            assert_eq!(read.as_ref(), Ok(&plan), "{text}");
        });
    }

    #[test]
    fn plans_that_are_written_read_back() {
        for scale in Scale::ALL {
            for (_, plan, _) in published::plans(scale).unwrap() {
                assert_read_back(plan);
            }
        }
        let read = |text: &str| catalogue::with_names(|names| Plan::parse(text, names)).unwrap();
        assert_read_back(read(ALL_FIELDS));
        let virtual_time = "accelerator = \"tcg\"\nclock = \"virtual\"\nshift = 2";
        let text = ALL_FIELDS.replace("accelerator = \"tcg\"", virtual_time);
        assert_read_back(read(&text));
        let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans");
        let mut count = 0;
        for entry in std::fs::read_dir(plans).unwrap().flatten() {
            if entry.path().extension().is_some_and(|it| it == "toml") {
                assert_read_back(read(&std::fs::read_to_string(entry.path()).unwrap()));
                count += 1;
            }
        }
        assert!(count > 2, "{count}");
    }
}
