//! Options that several verbs share, and the presentation of a run: table, JSON or another format.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use fsdyno_analysis::power_cuts;
use fsdyno_model::audit::{Fairness, WorkloadAudit};
use fsdyno_model::kernel::KernelChoice;
use fsdyno_model::outcome::{NOT_STARTED, Outcome};
use fsdyno_model::place::{Accelerator, Clock, Where, parse_shift};
use fsdyno_model::plan::Plan;
use fsdyno_model::published::Scale;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::result::{RunInfo, RunResult, TrialResult};
use fsdyno_model::stop::StopReason;
use fsdyno_model::trace::TraceMode;
use fsdyno_model::units;
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_report::originals::{self, OriginalFormat, Setting};
use fsdyno_report::table::TableOptions;

use crate::run::progress::say;
use crate::run::{RunOptions, schedule, stopping};
use crate::store::{Store, StoredRun};
use crate::{bad_input, catalogue, paths};

/// Where results are kept.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// Results database [default: fsdyno/results.sqlite in the XDG data directory]
    #[arg(long, value_name = "FILE", env = "FSDYNO_DB")]
    pub db: Option<PathBuf>,
}

impl StoreArgs {
    /// The database's path.
    ///
    /// # Errors
    /// When there is no home directory and no `--db`.
    pub fn path(&self) -> anyhow::Result<PathBuf> {
        self.db.clone().map_or_else(paths::default_database, Ok)
    }
}

/// How results are printed.
#[derive(Debug, Clone, Args)]
pub struct FormatArgs {
    /// Also write the whole result as JSON to FILE; `-`: to standard output, instead of the table
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,

    /// Form of what is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Exit with code 1 where the audit finds targets not comparable
    #[arg(long)]
    pub strict: bool,
}

/// Forms of a result.
#[derive(Debug, Clone, Copy)]
pub enum Format {
    /// A table for the terminal.
    Table,
    /// Tables in Markdown.
    Markdown,
    /// As a classic tool prints it, trial by trial.
    Original(&'static OriginalFormat),
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        static ALL: LazyLock<Vec<Format>> = LazyLock::new(|| {
            let classic = originals::ALL.iter().copied().map(Format::Original);
            [Format::Table, Format::Markdown].into_iter().chain(classic).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Format::Table => PossibleValue::new("table").help("A table for the terminal"),
            Format::Markdown => PossibleValue::new("markdown").help("Tables in Markdown"),
            Format::Original(format) => PossibleValue::new(format.name).help(format.doc),
        })
    }
}

/// Options of the verbs that run trials.
#[derive(Debug, Clone, Args)]
pub struct RunningArgs {
    /// Overwrite this block device although something is on it; must be named as a target too
    #[arg(long, value_name = "DEVICE")]
    pub destroy: Vec<PathBuf>,

    /// No progress
    #[arg(long, short)]
    pub quiet: bool,

    /// Trials in virtual time that are made side by side, which changes no figure [default: as many as the
    /// machine has processors and memory for]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,

    /// Keep aged images for later runs, in the cache directory (fsdyno clean --aged removes them)
    #[arg(long, env = "FSDYNO_KEEP_AGED", value_parser = clap::builder::FalseyValueParser::new())]
    pub keep_aged: bool,

    /// Do not time processor and device before and after each trial
    #[arg(long, env = "FSDYNO_NO_YARDSTICK", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_yardstick: bool,

    #[command(flatten)]
    pub trace: TraceArgs,

    #[command(flatten)]
    pub place: PlaceArgs,
}

/// Where trials run.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// Run trials on this machine; or in virtual machines that are made for each of them, which takes
    /// QEMU and no root; or under User-Mode Linux, which is faster than emulation
    /// [default: as in the plan, or host]
    #[arg(long = "in", value_name = "host|guest|uml", value_parser = Where::parse)]
    pub place: Option<Where>,

    /// Time trials by this machine's clock, or in guests by instructions that are counted: virtual time
    /// is the same in every run; implies --in guest [default: as in the plan, or real]
    #[arg(long, value_name = "real|virtual", value_parser = Clock::parse)]
    pub clock: Option<Clock>,

    /// An instruction takes 2 to this power nanoseconds of virtual time [default: 0]
    #[arg(long, value_name = "N", value_parser = parse_shift)]
    pub shift: Option<u8>,

    /// Kernel of the guests whose target names none: a version (6.12), of which the newest is taken that
    /// fsdyno kernel list shows; a kernel image; a .deb or .rpm, which is unpacked and not installed
    /// [default: the newest that is installed]
    #[arg(long, value_name = "VERSION|FILE", value_parser = KernelChoice::parse)]
    pub kernel: Option<KernelChoice>,

    /// What carries out the guests' instructions [default: kvm where it works]
    #[arg(long, value_name = "kvm|tcg", value_parser = Accelerator::parse)]
    pub accelerator: Option<Accelerator>,

    /// Memory of a guest, besides what its initial file system takes [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub guest_memory: Option<u64>,

    /// Memory that a workload on this machine may use, files that the kernel caches for it included, by a
    /// control group; needs root
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub memory_limit: Option<u64>,

    /// Boot the guest of each trial, instead of starting those of several trials from a saved state of
    /// a booted one
    #[arg(long)]
    pub no_saved_state: bool,
}

/// Reads a limit in seconds.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn seconds(text: &str) -> Result<u64, String> {
    let seconds = units::parse_duration_ns(text).map_err(|error| error.to_string())?;
    match seconds.div_ceil(1_000_000_000) {
        0 => Err("a limit of no time lets nothing run".to_owned()),
        seconds => Ok(seconds),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    units::parse_bytes(text).map_err(|error| error.to_string())
}

impl PlaceArgs {
    /// Puts what was given into a plan.
    pub fn apply(&self, plan: &mut Plan) {
        let place = &mut plan.place;
        place.clock = self.clock.unwrap_or(place.clock);
        place.shift = self.shift.unwrap_or(place.shift);
        let implied = if self.clock == Some(Clock::Virtual) { Where::Guest } else { place.kind };
        place.kind = self.place.unwrap_or(implied);
        place.kernel = self.kernel.clone().or(place.kernel.take());
        place.accelerator = self.accelerator.or(place.accelerator);
        place.memory_bytes = self.guest_memory.unwrap_or(place.memory_bytes);
        place.memory_limit_bytes = self.memory_limit.or(place.memory_limit_bytes);
        place.saved_state &= !self.no_saved_state;
        plan.settle_clock();
    }
}

/// Which trials are traced.
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// Block traces: of one more trial of each target and workload, of all trials, or of none
    /// [default: as in the plan, or explain]
    #[arg(long, value_name = "explain|all|none", env = "FSDYNO_TRACE", value_parser = trace_mode())]
    pub trace: Option<TraceMode>,
}

/// Reads the scale of a published comparison.
pub fn scale() -> impl TypedValueParser<Value = Scale> {
    PossibleValuesParser::new(Scale::ALL.map(Scale::word))
        .map(|word| Scale::ALL.into_iter().find(|it| it.word() == word).unwrap_or_default())
}

fn trace_mode() -> impl TypedValueParser<Value = TraceMode> {
    PossibleValuesParser::new(TraceMode::WORDS)
        .map(|word| TraceMode::parse(&word).expect("it is one of the words"))
}

impl RunningArgs {
    /// What a run needs besides its plan.
    #[must_use]
    pub fn options(&self) -> RunOptions {
        let RunningArgs { quiet, keep_aged, jobs, .. } = *self;
        let destroy = self.destroy.clone();
        RunOptions { destroy, quiet, keep_aged, jobs, command: command_line() }
    }
}

/// The command line of this process, quoted for a shell.
fn command_line() -> String {
    let words: Vec<String> = std::env::args_os()
        .enumerate()
        .map(|(index, word)| {
            let word = word.to_string_lossy();
            // The program by its name: its path says nothing on another machine.
            if index == 0 { "fsdyno".to_owned() } else { word.into_owned() }
        })
        .collect();
    fsdyno_model::target::join_mkfs(&words)
}

/// The whole result of a run from its records, with what is known of power cuts of its targets.
///
/// # Errors
/// Those of the database.
pub fn result_of(store: &Store, run: &StoredRun) -> anyhow::Result<RunResult> {
    let mut result = result_of_trials(run, store.trials(&run.id)?);
    let kernel = run.environment.kernel_release.as_deref();
    let of_targets = power_cuts::of_targets(&run.plan.targets, kernel, &store.power_cuts()?);
    if of_targets.iter().any(|own| own.cuts > 0 || !own.other_kernels.is_empty()) {
        result.power_cuts = of_targets;
    }
    Ok(result)
}

/// The whole result of a run from `records`, which are all that there are of it.
#[must_use]
pub fn result_of_trials(run: &StoredRun, records: Vec<TrialRecord>) -> RunResult {
    let stopped = stopping::stopped(&run.plan, run.finished_unix_ns.is_some(), &records);
    let measured = records.iter().filter(|record| record.role == Role::Measured);
    let most = measured.map(|record| record.trial).max().unwrap_or_default();
    let trials = with_missing(&run.plan, records);
    let info = RunInfo {
        id: run.id.clone(),
        title: run.plan.title.clone(),
        started: rfc3339(run.started_unix_ns),
        finished: run.finished_unix_ns.map(rfc3339),
        command: run.command.clone(),
        trials: run.plan.stop.map_or(run.plan.trials, |rule| most.max(rule.min_trials)),
        stopped,
        seed: run.plan.seed,
        size_bytes: run.plan.size_bytes,
        environment: run.environment.clone(),
        warnings: run.warnings.clone(),
    };
    fsdyno_analysis::assemble::assemble(info, &run.plan, &catalogue::phase_order, &trials)
}

/// Every planned trial appears, those that were never started as interrupted. Those that are made only
/// while a comparison is open are no gap.
fn with_missing(plan: &Plan, mut trials: Vec<TrialRecord>) -> Vec<TrialRecord> {
    let is_due = |planned: &schedule::Planned| {
        planned.role == Role::Explain || planned.trial <= plan.min_trials()
    };
    for planned in schedule::schedule(plan).into_iter().filter(is_due) {
        if !trials.iter().any(|record| planned.is_of(plan, record)) {
            let outcome = Outcome::Interrupted { stage: NOT_STARTED.to_owned() };
            trials.push(planned.record(plan, outcome));
        }
    }
    trials.sort_by_key(|record| record.order);
    trials
}

impl FormatArgs {
    /// Finds out before a run what would otherwise be found out after it.
    ///
    /// # Errors
    /// Bad input: a file that cannot be written, a format that does not go with the plan.
    pub fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        if let Some(path) = self.json_file() {
            let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
            opened.map_err(|error| bad_input(format!("--json {}: {error}", path.display())))?;
        } else if self.json.is_some() && !matches!(self.format, Format::Table) {
            return Err(bad_input("--json - and --format are two forms for one output: give one"));
        }
        match self.format {
            Format::Original(format) if !has_workload(plan, format) => Err(wrong_workload(format)),
            _ => Ok(()),
        }
    }

    /// The same for a run that is one of several: `result.json` becomes `result-laptop.json`.
    #[must_use]
    pub fn of_part(&self, part: &str) -> FormatArgs {
        let mut own = self.clone();
        if let Some(path) = self.json_file() {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let end = path.extension().map(|end| format!(".{}", end.to_string_lossy()));
            let name = format!("{stem}-{part}{}", end.unwrap_or_default());
            own.json = Some(path.with_file_name(name));
        }
        own
    }

    fn json_file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Prints a run as asked; says whether every trial completed.
///
/// # Errors
/// Those of the database and of the output.
pub fn present(store: &Store, id: &str, format: &FormatArgs) -> anyhow::Result<bool> {
    let run = store.run(Some(id))?;
    let result = result_of(store, &run)?;
    let records = if run.plan.ladders.is_empty() { Vec::new() } else { store.trials(id)? };
    // Rungs that a calibration did not need are no gap.
    let left_out = fsdyno_analysis::calibration::left_out(&run.plan, &records);
    let stopped = result.run.stopped.as_ref();
    let is_unfinished = stopped.is_some_and(|stopped| stopped.why == StopReason::Unfinished);
    let is_complete = |trial: &TrialResult| match &trial.outcome {
        Outcome::Completed => true,
        // Nothing is measured less where nothing could be traced.
        Outcome::Skipped { .. } if trial.role == Role::Explain => true,
        _ => left_out.contains(trial.workload.as_str()),
    };
    let complete = !is_unfinished && result.trials.iter().all(is_complete);
    let success = complete && !(format.strict && is_unfair(&result));
    if format.json.is_some() && format.json_file().is_none() {
        print(&fsdyno_report::json::render(&result)?)?;
        return Ok(success);
    }
    match format.format {
        Format::Table => print(&fsdyno_report::table::render(&result, table_options()))?,
        Format::Markdown => print(&fsdyno_report::markdown::render(&result))?,
        Format::Original(format) => {
            let shown = original(format, &run, &store.trials(id)?)?;
            print(&shown.text)?;
            if let Some(remark) = shown.remark {
                say(remark);
            }
        }
    }
    if let Some(path) = format.json_file() {
        let json = fsdyno_report::json::render(&result)?;
        std::fs::write(path, json).with_context(|| {
            format!("cannot write {} (fsdyno show --json has it)", path.display())
        })?;
    }
    Ok(success)
}

/// Whether some verdict compares what is not comparable; says so.
pub(super) fn is_unfair(result: &RunResult) -> bool {
    let unfair = |own: &&WorkloadAudit| own.fairness == Some(Fairness::NotComparable);
    for own in result.audit.workloads.iter().filter(unfair) {
        say(&format!("--strict: {}: {}", own.workload, own.text));
    }
    result.audit.is_unfair()
}

fn has_workload(plan: &Plan, format: &OriginalFormat) -> bool {
    plan.workloads.iter().any(|workload| is_built_in(workload, format))
}

/// Whether it is the workload of the catalogue whose output the format is, not one of the user's that is
/// called the same.
fn is_built_in(workload: &WorkloadSpec, format: &OriginalFormat) -> bool {
    workload.kind == format.workload && workload.definition.is_none()
}

fn wrong_workload(format: &OriginalFormat) -> anyhow::Error {
    bad_input(format!("--format {} needs the workload {}", format.name, format.workload))
}

/// The trials of one kind of workload as the classic tool prints them.
pub(super) struct Original {
    pub(super) text: String,
    /// What is to be said beside it, since it holds for all of them.
    pub(super) remark: Option<&'static str>,
}

/// Rungs of a ladder that were left out have no trials.
pub(super) fn original(
    format: &OriginalFormat,
    run: &StoredRun,
    trials: &[TrialRecord],
) -> anyhow::Result<Original> {
    if !has_workload(&run.plan, format) {
        return Err(wrong_workload(format));
    }
    let own: Vec<&WorkloadSpec> =
        run.plan.workloads.iter().filter(|workload| is_built_in(workload, format)).collect();
    let left_out = fsdyno_analysis::calibration::left_out(&run.plan, trials);
    let mut shown = Original { text: String::new(), remark: None };
    let mut remarks = Vec::new();
    let counting = trials.iter().filter(|trial| trial.role == Role::Measured);
    for trial in counting.filter(|trial| !left_out.contains(trial.workload.as_str())) {
        let Some(workload) = own.iter().find(|workload| workload.label == trial.workload) else {
            continue;
        };
        let host = run.environment.hostname.as_deref().unwrap_or("localhost");
        let setting = Setting { params: &workload.params, host };
        if format.headed {
            // Told only where it tells something.
            let label = if own.len() > 1 { format!(" {}", workload.label) } else { String::new() };
            let (target, outcome) = (&trial.target, trial.outcome.word());
            let heading = format!("# {target}{label} trial {} {outcome}\n", trial.trial);
            shown.text.push_str(&heading);
        }
        shown.text.push_str(&(format.render)(trial, &setting));
        if format.headed {
            shown.text.push('\n');
        }
        remarks.push((format.remark)(trial, &setting));
    }
    if remarks.iter().all(Option::is_some) {
        shown.remark = remarks.into_iter().flatten().next();
    }
    Ok(shown)
}

/// Width and ornaments for standard output as it is.
#[must_use]
pub fn table_options() -> TableOptions {
    let terminal = std::io::stdout().is_terminal();
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|name| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some(value.to_ascii_lowercase().replace('-', "").contains("utf8"))
    });
    TableOptions {
        width: fsdyno_sys::process::terminal_width().filter(|_| terminal).unwrap_or(80).max(40),
        color: use_color(terminal),
        unicode: utf8.unwrap_or(false) || !terminal,
    }
}

/// Whether to colour an output that is a terminal or not (<https://no-color.org>).
#[must_use]
pub fn use_color(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes text to standard output, with a line feed at the end.
///
/// # Errors
/// Those of the output; a closed pipe is one of them.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    let line_feed = if text.ends_with('\n') { "" } else { "\n" };
    let written = write!(output, "{text}{line_feed}").and_then(|()| output.flush());
    written.context("cannot write to standard output")
}

/// A time as RFC 3339, to the millisecond.
#[must_use]
pub fn rfc3339(unix_ns: u64) -> String {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    use fsdyno_model::environment::Environment;
    use fsdyno_model::ladder::Ladder;

    use super::*;

    /// A run with workloads of these labels and kinds on one target.
    fn run(workloads: &[(&str, &str)]) -> StoredRun {
        let mut plan = Plan::new(false);
        plan.trials = 1;
        plan.workloads = catalogue::with_names(|names| {
            let spec = |(label, kind): &(&str, &str)| WorkloadSpec {
                label: (*label).to_owned(),
                ..WorkloadSpec::parse(kind, false, names).unwrap()
            };
            workloads.iter().map(spec).collect()
        });
        StoredRun {
            id: "1".to_owned(),
            started_unix_ns: 0,
            finished_unix_ns: None,
            command: String::new(),
            plan,
            environment: Environment::default(),
            warnings: Vec::new(),
        }
    }

    fn headings(run: &StoredRun) -> Vec<String> {
        let trials: Vec<TrialRecord> = (0..)
            .zip(&run.plan.workloads)
            .map(|(order, workload)| {
                TrialRecord::planned("ext4", &workload.label, 1, order, Outcome::Completed)
            })
            .collect();
        let format = originals::find("postmark").unwrap();
        let shown = original(format, run, &trials).unwrap();
        assert_eq!(shown.remark, None);
        shown.text.lines().filter(|line| line.starts_with("# ")).map(str::to_owned).collect()
    }

    #[test]
    fn headings_name_the_workload_where_there_are_several_of_a_kind() {
        let one = run(&[("postmark", "postmark"), ("small-files", "small-files")]);
        assert_eq!(headings(&one), ["# ext4 trial 1 completed"]);
        let two = run(&[("postmark", "postmark"), ("postmark-2", "postmark")]);
        assert_eq!(
            headings(&two),
            ["# ext4 postmark trial 1 completed", "# ext4 postmark-2 trial 1 completed"]
        );
        assert!(original(originals::find("compilebench").unwrap(), &two, &[]).is_err());
    }

    #[test]
    fn rungs_that_were_left_out_are_not_printed() {
        let mut rungs = run(&[("postmark rung 1", "postmark"), ("postmark rung 2", "postmark")]);
        rungs.plan.ladders.push(Ladder {
            label: "postmark".to_owned(),
            first_index: 0,
            rung_count: 2,
            phase: "transactions".to_owned(),
            budget_s: 60,
        });
        // No target is planned, so that fewer than two are compared: the first rung is the last.
        assert_eq!(headings(&rungs), ["# ext4 postmark rung 1 trial 1 completed"]);
    }
}
