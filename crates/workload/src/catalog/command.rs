//! The workload `command`: its definition, its parameters, and the course of one trial around a command
//! line of the user's. What its text means, its files and what it leaves behind are in
//! [`crate::command_line`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use fsdyno_model::cold::Cold;
use fsdyno_model::info::{PhaseInfo, WorkloadDoc, WorkloadInfo};
use fsdyno_model::param::{ParamDef, Params};
use fsdyno_model::record::{PhaseRecord, Warning};
use fsdyno_model::units::human_bytes;
use fsdyno_sys::orphans::{self, Buried};
use fsdyno_sys::process::{ProcessIdentity, interrupted};
use fsdyno_sys::{file, mount};

use super::{DryRun, WorkloadDef};
use crate::command_line::{
    CommandLine, Copied, Grounds, copy_tree, make_removable, mounts_below, tree_bytes,
    unmount_below,
};
use crate::context::Context;
use crate::failure::Interrupted;
use crate::params::{FRAGMENTATION, SYNC, cold, free_text, numjobs, path};
use crate::phase::{Durability, PhaseTally};
use crate::program::{Finished, Program};
use crate::{fragmentation, jobs};

const PHASE: &str = "command";
const METRIC: &str = "elapsed_s";
/// Value of the parameters that name nothing.
const NONE: &str = "none";
/// Below this share of its size a filesystem is called full, one in so many.
const FULL_SHARE: u64 = 200;

const fn line(name: &'static str, doc: &'static str) -> ParamDef {
    free_text(name, NONE, doc)
}

const PARAMS: &[ParamDef] = &[
    free_text(
        "command",
        "seq 2000 | split -l 1 -a 3",
        "the command line, as one would type it into a shell; the default is an example that makes \
         2000 small files",
    ),
    path(
        "copy",
        NONE,
        "`none`, or a directory whose contents are copied into the working directory first",
    ),
    line("prepare", "`none`, or a line for the shell that is run before the command"),
    line(
        "check",
        "`none`, or a line for the shell that is run after the command; the trial fails with it",
    ),
    line("cleanup", "`none`, or a line for the shell that is run last, whatever happened"),
    cold(
        "remount",
        "how the caches are emptied after copy and prepare; with neither, a remount is left out",
    ),
    free_text("shell", "sh", "the shell for lines"),
    numjobs("copies of the command that run at the same time, each in a subdirectory of its own"),
    SYNC,
    FRAGMENTATION,
];

/// The catalogue entry.
pub static DEF: WorkloadDef = WorkloadDef {
    info: WorkloadInfo {
        name: "command",
        summary: "any command line of yours, run in an empty or copied directory on the target",
        doc: WorkloadDoc {
            timed: "From the start of the program until it ends (time to return), and on until \
                    syncfs on the target has returned (time until durable) unless sync=false. \
                    Processor time is that of the program and of all that it started and waited for.",
            not_timed: "Copying the directory, the lines prepare, check and cleanup, emptying the \
                        caches before the command.",
            models: "Your own work: a build, an unpacking, a test suite, a database load.",
            read_it_as: "How much of the whole run time the filesystem decides. A program that \
                         computes most of the time hides even large differences: compare the \
                         processor time with the run time, and the bytes on the device.",
            caveats: "Only what is below the working directory is on the target: the program itself, \
                      its libraries and whatever it reads by another path come from where they are, \
                      and temporary files go to TMPDIR or /tmp unless the command says otherwise \
                      (`TMPDIR=$PWD make`). What the command wrote is verified by nobody but the line \
                      check. Standard input is empty; output is kept for error messages alone. The \
                      variable FSDYNO_TRIAL_SEED differs from trial to trial. Processes that the \
                      command leaves running are ended and told; waiting for them may add \
                      some tenths of a second to the time until durable. Copies keep contents, modes, times and links, no extended \
                      attributes.",
        },
        differences: &[],
        params: PARAMS,
        phases: &[
            PhaseInfo { name: PHASE, doc: "runs the command line once" },
            fragmentation::PHASE,
        ],
    },
    check,
    peak_bytes,
    input_bytes: None,
    run,
    rungs: None,
    dry_run: Some(dry_run),
};

/// What the parameters ask for.
struct Settings<'a> {
    command: CommandLine,
    copy: Option<&'a Path>,
    prepare: Option<&'a str>,
    check: Option<&'a str>,
    cleanup: Option<&'a str>,
    cold: Cold,
    shell: &'a str,
    job_count: u64,
}

impl<'a> Settings<'a> {
    fn of(params: &'a Params) -> Result<Settings<'a>, String> {
        let given = |name| Some(params.text(name)).filter(|text| !matches!(*text, NONE | ""));
        Ok(Settings {
            command: CommandLine::parse(params.text("command"))?,
            copy: given("copy").map(Path::new),
            prepare: given("prepare"),
            check: given("check"),
            cleanup: given("cleanup"),
            cold: Cold::parse(params.text("cold"))?,
            shell: params.text("shell"),
            job_count: params.number("numjobs"),
        })
    }

    /// The directory of each job.
    fn places(&self, root: &Path) -> Vec<PathBuf> {
        match self.job_count {
            1 => vec![root.to_owned()],
            count => (0..count).map(|index| root.join(format!("job-{index}"))).collect(),
        }
    }
}

fn check(params: &Params) -> Result<(), String> {
    let settings = Settings::of(params)?;
    if let Some(copy) = settings.copy
        && !copy.is_dir()
    {
        return Err(format!("copy: {} is no directory that can be read", copy.display()));
    }
    let current = std::env::current_dir().unwrap_or_default();
    let grounds =
        Grounds { copy: settings.copy, is_prepared: settings.prepare.is_some(), current: &current };
    settings.command.look_for_program(grounds)?;
    let nowhere = Grounds { copy: None, is_prepared: false, ..grounds };
    CommandLine::Words(vec![settings.shell.to_owned()])
        .look_for_program(nowhere)
        .map_err(|error| format!("shell: {error}"))
}

/// What is copied is known; what the command writes is not.
fn peak_bytes(params: &Params) -> anyhow::Result<Option<u64>> {
    let settings = Settings::of(params).map_err(anyhow::Error::msg)?;
    Ok(settings.copy.map(|copy| tree_bytes(copy).saturating_mul(settings.job_count)))
}

fn dry_run(params: &Params, _seed: u64) -> anyhow::Result<DryRun> {
    check(params).map_err(anyhow::Error::msg)?;
    let settings = Settings::of(params).map_err(anyhow::Error::msg)?;
    let mut steps = Vec::new();
    if let Some(copy) = settings.copy {
        steps.push(format!("copy {} ({})", copy.display(), human_bytes(tree_bytes(copy))));
    }
    let mut step = |name: &str, line: Option<&str>| {
        steps.extend(line.map(|line| format!("{name} {line}")));
    };
    step("prepare", settings.prepare);
    step("cold", needs_cold(&settings).then_some(settings.cold.word()));
    step(PHASE, Some(params.text("command")));
    step("check", settings.check);
    step("cleanup", settings.cleanup);
    Ok(Box::new(steps.into_iter()))
}

/// A filesystem that was made a moment ago is cold.
fn needs_cold(settings: &Settings<'_>) -> bool {
    let is_used = settings.copy.is_some() || settings.prepare.is_some();
    match settings.cold {
        Cold::Remount => is_used,
        Cold::DropCaches => true,
        Cold::None => false,
    }
}

fn run(context: &mut Context<'_>) -> anyhow::Result<()> {
    let params = context.params;
    check(params).map_err(anyhow::Error::msg)?;
    let settings = Settings::of(params).map_err(anyhow::Error::msg)?;
    orphans::adopt()?;
    let mounted = mounts_below(context.root_path())?;
    let places = settings.places(context.root_path());
    let outcome = prepare(context, &settings, &places)
        .and_then(|()| measure_and_check(context, &settings, &places));
    let cleaned = clean_up(context, &settings, &places);
    let tidied = tidy(context, &mounted);
    outcome.and(cleaned).and(tidied)
}

/// Everything before the clock starts.
fn prepare(
    context: &mut Context<'_>,
    settings: &Settings<'_>,
    places: &[PathBuf],
) -> anyhow::Result<()> {
    if settings.copy.is_some() {
        context.progress.enter("copy");
    }
    for place in places {
        if settings.job_count > 1 {
            std::fs::create_dir(place).with_context(|| format!("mkdir {}", place.display()))?;
        }
        if let Some(copy) = settings.copy {
            let copied = copy_tree(copy, place)?;
            tell_left_out(context, copy, &copied)?;
        }
    }
    if let Some(line) = settings.prepare {
        context.progress.enter("prepare");
        run_lines(context, settings, places, line)?;
    }
    if !needs_cold(settings) {
        return Ok(());
    }
    context.make_cold(settings.cold).map_err(|error| {
        let running: Vec<String> = orphans::living().into_iter().map(|it| it.name).collect();
        if running.is_empty() {
            return error;
        }
        let running = running.join(", ");
        anyhow!("{error:#} (what prepare started still runs: {running}: use cold=drop-caches)")
    })
}

fn tell_left_out(context: &Context<'_>, copy: &Path, copied: &Copied) -> anyhow::Result<()> {
    if copied.left_out == 0 {
        return Ok(());
    }
    let (count, copy) = (copied.left_out, copy.display());
    context.warn(Warning {
        code: "not-copied".to_owned(),
        message: format!("{count} sockets, pipes and devices in {copy} were not copied"),
        advice: "make them in the line prepare where the command needs them".to_owned(),
    })
}

fn measure_and_check(
    context: &mut Context<'_>,
    settings: &Settings<'_>,
    places: &[PathBuf],
) -> anyhow::Result<()> {
    let served: Vec<ProcessIdentity> =
        orphans::living().into_iter().map(|orphan| orphan.identity).collect();
    let programs: Vec<Program> = places
        .iter()
        .enumerate()
        .map(|(index, place)| {
            let program = settings.command.program(settings.shell);
            with_environment(context, program, place).env("FSDYNO_JOB", index.to_string())
        })
        .collect();
    let outcome = measure(context, settings, &programs);
    let mut left = orphans::end(&served);
    let measured = outcome.map_err(|error| explain(context, settings, error))?;
    if measured.was_left {
        let buried = measured.buried.into_iter().chain(left.buried.drain(..));
        left.ended.extend(buried.filter(|one| one.killed).map(|one| one.name));
    }
    tell_left_running(context, "the command", left)?;
    context.finish_phase(measured.record)?;
    if let Some(line) = settings.check {
        context.progress.enter("check");
        run_lines(context, settings, places, line)?;
    }
    fragmentation::survey(context)
}

/// A command that has succeeded.
struct Measured {
    record: PhaseRecord,
    /// Whether what it left running in its own process group was killed.
    was_left: bool,
    /// What it started and did not wait for, and what ended nevertheless.
    buried: Vec<Buried>,
}

fn measure(
    context: &Context<'_>,
    settings: &Settings<'_>,
    programs: &[Program],
) -> anyhow::Result<Measured> {
    let durability =
        if context.params.flag("sync") { Durability::Target } else { Durability::None };
    let finished: Vec<std::sync::OnceLock<Finished>> =
        programs.iter().map(|_| std::sync::OnceLock::new()).collect();
    let mut buried = Vec::new();
    let mut tally = PhaseTally::new(PHASE, METRIC);
    tally.measure(context, &subject(settings), durability, |recorder| {
        jobs::run(programs.len(), recorder, |job_index, _| {
            let ended = programs[job_index].run()?;
            // Each job has a cell of its own.
            let _ = finished[job_index].set(ended);
            Ok(())
        })?;
        // Only what was waited for counts as processor time of the application.
        buried = orphans::bury();
        Ok(())
    })?;
    let finished: Vec<&Finished> = finished.iter().filter_map(std::sync::OnceLock::get).collect();
    let mut record = tally.into_record();
    record.files = None;
    let elapsed = finished.iter().map(|one| one.elapsed).max().unwrap_or(Duration::ZERO);
    set_elapsed(&mut record, elapsed);
    let was_left = finished.iter().any(|one| one.left_running);
    Ok(Measured { record, was_left, buried })
}

/// What the sample is called.
fn subject(settings: &Settings<'_>) -> String {
    match settings.job_count {
        1 => PHASE.to_owned(),
        count => format!("{count} jobs"),
    }
}

/// The time to return ends with the program; waiting for its output and for what it left running
/// comes after.
fn set_elapsed(record: &mut PhaseRecord, elapsed: Duration) {
    let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
    for sample in &mut record.samples {
        sample.elapsed_return_ns = sample.elapsed_return_ns.min(elapsed_ns);
    }
    record.elapsed_return_ns = record.elapsed_return_ns.min(elapsed_ns);
}

/// Adds what helps to the error of a command.
fn explain(context: &Context<'_>, settings: &Settings<'_>, error: anyhow::Error) -> anyhow::Error {
    if error.is::<Interrupted>() {
        return error;
    }
    let text = format!("{error:#}");
    let is_full = file::free_space(context.root_path())
        .is_ok_and(|space| space.free < space.total / FULL_SHARE);
    if is_full || text.contains("No space left on device") {
        return anyhow!("{text} (the target is full: make it larger, --size)");
    }
    if settings.copy.is_none() && settings.prepare.is_none() {
        return anyhow!(
            "{text} (it ran in an empty directory on the target: --copy DIR takes files along, --prepare makes some)"
        );
    }
    error
}

/// Runs `line` in every place, one after the other.
fn run_lines(
    context: &Context<'_>,
    settings: &Settings<'_>,
    places: &[PathBuf],
    line: &str,
) -> anyhow::Result<()> {
    let command = CommandLine::Shell(line.to_owned());
    for place in places {
        with_environment(context, command.program(settings.shell), place).run()?;
    }
    Ok(())
}

fn with_environment(context: &Context<'_>, program: Program, place: &Path) -> Program {
    program
        .current_dir(place)
        .env("PWD", place.display().to_string())
        .env("FSDYNO_TRIAL_SEED", context.seed.to_string())
}

/// The line `cleanup`, then the end of everything that still runs.
fn clean_up(
    context: &Context<'_>,
    settings: &Settings<'_>,
    places: &[PathBuf],
) -> anyhow::Result<()> {
    let mut outcome = Ok(());
    if let Some(line) = settings.cleanup.filter(|_| !interrupted()) {
        let cleaned = places
            .iter()
            .filter(|place| place.is_dir())
            .try_for_each(|place| run_lines(context, settings, std::slice::from_ref(place), line));
        if let Err(error) = cleaned {
            outcome = context.warn(Warning {
                code: "cleanup-failed".to_owned(),
                message: format!("cleanup: {error:#}"),
                advice: "look at the line cleanup".to_owned(),
            });
        }
    }
    let left = orphans::end(&[]);
    outcome.and(tell_left_running(context, "prepare, check or cleanup", left))
}

fn tell_left_running(
    context: &Context<'_>,
    who: &str,
    left: orphans::Ending,
) -> anyhow::Result<()> {
    let mut ended = left.ended;
    ended.sort_unstable();
    ended.dedup();
    if !ended.is_empty() {
        context.warn(Warning {
            code: "left-running".to_owned(),
            message: format!("processes that {who} left running were ended: {}", ended.join(", ")),
            advice: "let the command wait for what it starts".to_owned(),
        })?;
    }
    if !left.left.is_empty() {
        bail!("processes that {who} left running cannot be ended: {}", left.left.join(", "));
    }
    Ok(())
}

/// Takes away what would keep the target from being taken down.
fn tidy(context: &Context<'_>, mounted_before: &[u64]) -> anyhow::Result<()> {
    let root = context.root_path();
    let undone = unmount_below(root, mounted_before)?;
    if !undone.is_empty() {
        context.warn(Warning {
            code: "left-mounted".to_owned(),
            message: format!(
                "mounts that the command left on the target were undone: {}",
                undone.join(", ")
            ),
            advice: "unmount them in the command or in the line cleanup".to_owned(),
        })?;
    }
    // A filesystem of our own goes away as a whole.
    let is_own = mount::mount_containing(root)?
        .is_some_and(|mounted| root.parent() == Some(mounted.mount_point.as_path()));
    if !is_own {
        make_removable(root);
    }
    Ok(())
}
