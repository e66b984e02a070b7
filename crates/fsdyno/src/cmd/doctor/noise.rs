//! `fsdyno doctor --noise`: a short run of two targets that are alike, on a fresh image where that may be
//! made and else in two directories, and what its scatter means. The trials are made by the very scheduler
//! that measures filesystems; figures are left to `analysis`, looks to `report`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;
use fsdyno_analysis::noise;
use fsdyno_model::noise::Noise;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::trace::TraceMode;
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_sys::process;

use crate::cmd::output;
use crate::cmd::selftest;
use crate::store::Store;
use crate::{bad_input, catalogue, run};

/// Blocks of two trials: about half a minute.
const BLOCKS: u32 = 8;
/// The same for a first impression.
const QUICK_BLOCKS: u32 = 3;
/// No trial starts after so many seconds.
const LONGEST_S: u64 = 60;
/// Size of the image.
const IMAGE_BYTES: u64 = 512 << 20;
/// Name of the filesystem that is made where one may be made.
const FILESYSTEM: &str = "ext4";
/// The work of a trial, and for a first impression.
const WORK: &str = "small-files:files=4000";
const QUICK_WORK: &str = "small-files:files=400";

/// Measures the noise in `directory`, with progress unless `quiet`.
///
/// # Errors
/// A directory that cannot be used; trials that did not complete.
pub(super) fn measure(directory: &Path, quick: bool, quiet: bool) -> anyhow::Result<Noise> {
    run::enter_private_namespace();
    let place = selftest::place(directory, "noise")?;
    let plan = plan(place.directory(), quick)?;
    let mut store = Store::open(&place.directory().join("results.sqlite"))?;
    let options = run::RunOptions {
        destroy: Vec::new(),
        quiet,
        keep_aged: false,
        jobs: None,
        command: "fsdyno doctor --noise".to_owned(),
    };
    let started = Instant::now();
    let id = run::start(&plan, &options, &mut store)?;
    let elapsed_s = started.elapsed().as_secs_f64();
    anyhow::ensure!(!process::interrupted(), "interrupted before the noise was known");
    let mut result = output::result_of(&store, &store.run(Some(&id))?)?;
    let completed = result.trials.iter().filter(|it| it.outcome == Outcome::Completed).count();
    if completed == 0 {
        let why = result.trials.first().map(|trial| trial.outcome.sentence());
        anyhow::bail!("no trial completed: {}", why.unwrap_or_default());
    }
    // Its images lay in a directory that is gone by now.
    result.run.environment.image_directory = Some(directory.display().to_string());
    Ok(noise::noise(&result, elapsed_s / completed as f64))
}

/// Two labels of the same target.
fn plan(place: &Path, quick: bool) -> anyhow::Result<Plan> {
    let mut plan = Plan::new(quick);
    plan.trials = if quick { QUICK_BLOCKS } else { BLOCKS };
    plan.max_time_s = Some(LONGEST_S);
    plan.size_bytes = IMAGE_BYTES;
    plan.trace = TraceMode::None;
    plan.directory = Some(place.to_owned());
    let may_format = process::may_mount() && fsdyno_lab::tools::is_installed("mkfs.ext4");
    let work = if quick { QUICK_WORK } else { WORK };
    for label in ["one", "other"] {
        plan.targets.push(target(place, label, may_format)?);
    }
    let workload = catalogue::with_names(|names| WorkloadSpec::parse(work, quick, names));
    plan.workloads.push(workload.map_err(|errors| crate::bad_inputs(&errors))?);
    plan.finish().map_err(|errors| crate::bad_inputs(&errors))
}

fn target(place: &Path, label: &str, may_format: bool) -> anyhow::Result<TargetSpec> {
    if may_format {
        let text = format!("{label}={FILESYSTEM}");
        return catalogue::with_names(|names| TargetSpec::parse(&text, names)).map_err(bad_input);
    }
    let path: PathBuf = place.join(label);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(TargetSpec { label: label.to_owned(), ground: Ground::Directory { path } })
}
