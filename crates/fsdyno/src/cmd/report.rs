//! `fsdyno report`: the results of runs as a page, a picture or a file for other programs.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fsdyno_model::report_data::ReportData;
use fsdyno_report::exports::tables::{self, Table};
use fsdyno_report::exports::{self, ExportFormat, ExportOptions, Picture};
use fsdyno_report::originals::{self, OriginalFormat};

use super::output::{self, StoreArgs};
use crate::run::progress::say;
use crate::store::{Store, StoredRun};
use crate::{bad_input, report_data};

/// Form when neither `--format` nor the name of a file tells.
const DEFAULT_FORMAT: &str = "html";

/// Arguments of `fsdyno report`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Runs, or the beginnings of their identifiers [default: the latest]
    #[arg(value_name = "RUN")]
    runs: Vec<String>,

    /// File to write; `-`: standard output [default: standard output for forms that are text,
    /// fsdyno-RUN.EXTENSION in this directory for pages, pictures and Parquet]
    #[arg(long, short, value_name = "FILE|-")]
    output: Option<PathBuf>,

    /// Form [default: by the extension of FILE, else html]
    #[arg(long, value_enum)]
    format: Option<Form>,

    /// Table that csv and parquet hold
    #[arg(long, value_name = "TABLE", value_parser = table_parser(), default_value = tables::ALL[0].name)]
    table: &'static Table,

    /// What a picture (svg, png) shows; io makes a file for each traced trial, with
    /// -WORKLOAD-TARGET in its name
    #[arg(long, value_enum, value_name = "WHAT")]
    what: Option<What>,

    /// Print neither progress nor the names of the files
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    store: StoreArgs,
}

const AFTER_HELP: &str = "\
Examples:

  fsdyno report                              a page of the latest run
  fsdyno report 20260102 -o journals.html
  fsdyno report -o results.parquet           one row for each figure of each trial
  fsdyno report RUN RUN -o latency.csv --table latency
  fsdyno report --format png --what io       the I/O graph of each traced trial
  fsdyno report --format prometheus -o /var/lib/prometheus/node-exporter/fsdyno.prom

docs/EXPORTS.md describes the tables and reads them with pandas and DuckDB.";

fn table_parser() -> impl TypedValueParser<Value = &'static Table> {
    let values = tables::ALL.iter().map(|table| PossibleValue::new(table.name).help(table.doc));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
        .map(|name| tables::find(&name).expect("it is one of the names"))
}

/// Forms of a report: those of the list, and those of the classic tools.
#[derive(Debug, Clone, Copy)]
enum Form {
    Export(&'static ExportFormat),
    Original(&'static OriginalFormat),
}

impl ValueEnum for Form {
    fn value_variants<'a>() -> &'a [Form] {
        static ALL: LazyLock<Vec<Form>> = LazyLock::new(|| {
            let exports = exports::ALL.iter().copied().map(Form::Export);
            exports.chain(originals::ALL.iter().copied().map(Form::Original)).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(match self {
            Form::Export(format) => format.doc,
            Form::Original(format) => format.doc,
        }))
    }
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Form::Export(format) => format.name,
            Form::Original(format) => format.name,
        }
    }

    const fn is_text(self) -> bool {
        match self {
            Form::Export(format) => format.is_text,
            Form::Original(_) => true,
        }
    }

    const fn holds_several(self) -> bool {
        match self {
            Form::Export(format) => format.holds_several,
            Form::Original(_) => false,
        }
    }
}

/// What a picture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Every target beside the first one, with intervals
    Ratios,
    /// What the disk did over time
    Io,
}

/// What to do for block traces.
const HOW_TO_TRACE: &str = "trials on images and devices are traced with --trace explain, as root";

/// Where one file goes.
enum Destination {
    StandardOutput,
    File(PathBuf),
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input; when there is no such run; those of the database and of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let form = self.form()?;
        self.check(form)?;
        let store = Store::open_existing(&self.store.path()?)?;
        let mut runs: Vec<StoredRun> = Vec::new();
        for id in &self.runs {
            let run = store.run(Some(id))?;
            // Named twice, it is still one run.
            if runs.iter().all(|known| known.id != run.id) {
                runs.push(run);
            }
        }
        if self.runs.is_empty() {
            runs.push(store.run(None)?);
        }
        let together = if form.holds_several() { runs.len() } else { 1 };
        if runs.len() > together && self.output.is_some() {
            return Err(bad_input(format!(
                "{} holds one run, and {} are named: leave --output out for a file of each, or name one",
                form.name(),
                runs.len()
            )));
        }
        let is_one_of_several = runs.len() > together;
        for runs in runs.chunks(together) {
            let destination = self.destination(form, &runs[0].id, is_one_of_several);
            destination.check()?;
            self.write(&store, runs, form, &destination)?;
        }
        Ok(true)
    }

    fn form(&self) -> anyhow::Result<Form> {
        if let Some(form) = self.format {
            return Ok(form);
        }
        let default = exports::find(DEFAULT_FORMAT).unwrap_or(exports::ALL[0]);
        match &self.output {
            Some(path) if path != Path::new("-") => {
                let format =
                    exports::by_extension(path).with_context(|| path.display().to_string());
                format.map(Form::Export).map_err(|error| {
                    let known: Vec<String> = exports::ALL
                        .iter()
                        .flat_map(|format| format.extensions)
                        .map(|extension| format!(".{extension}"))
                        .collect();
                    bad_input(format!(
                        "--output {error}: its extension tells no form; give --format, or one of {}",
                        known.join(" ")
                    ))
                })
            }
            _ => Ok(Form::Export(default)),
        }
    }

    /// What can be told before anything is read.
    fn check(&self, form: Form) -> anyhow::Result<()> {
        let has_tables = matches!(form, Form::Export(format) if format.has_tables);
        if !has_tables && !std::ptr::eq(self.table, tables::ALL[0]) {
            return Err(bad_input(format!(
                "--table {} goes with csv and parquet, not with {}",
                self.table.name,
                form.name()
            )));
        }
        let is_picture = matches!(form, Form::Export(format) if format.is_picture);
        if !is_picture && self.what.is_some() {
            return Err(bad_input(format!(
                "--what goes with svg and png, not with {}",
                form.name()
            )));
        }
        let to_terminal = self.output.as_deref() == Some(Path::new("-"))
            && !form.is_text()
            && io::stdout().is_terminal();
        if to_terminal {
            let name = form.name();
            return Err(bad_input(format!("{name} is no text for a terminal: name a file")));
        }
        Ok(())
    }

    /// Of several files, each goes to one of its own.
    fn destination(&self, form: Form, run_id: &str, is_one_of_several: bool) -> Destination {
        match (&self.output, form) {
            (Some(path), _) if path == Path::new("-") => Destination::StandardOutput,
            (Some(path), _) => Destination::File(path.clone()),
            (None, Form::Export(format)) if format.is_file || is_one_of_several => {
                let name = format!("fsdyno-{run_id}.{}", format.extensions[0]);
                Destination::File(PathBuf::from(name))
            }
            (None, Form::Original(format)) if is_one_of_several => {
                Destination::File(PathBuf::from(format!("fsdyno-{run_id}.{}.txt", format.name)))
            }
            (None, _) => Destination::StandardOutput,
        }
    }

    fn write(
        &self,
        store: &Store,
        runs: &[StoredRun],
        form: Form,
        destination: &Destination,
    ) -> anyhow::Result<()> {
        match form {
            Form::Original(format) => {
                let text = runs.iter().map(|run| original(store, run, format));
                let text = text.collect::<anyhow::Result<String>>()?;
                self.put(destination, |output| output.write_all(text.as_bytes()))
            }
            Form::Export(format) => {
                let picture = match self.what {
                    Some(What::Io) => Picture::Io,
                    _ => Picture::Ratios,
                };
                let options = ExportOptions { table: self.table, picture };
                let needs = (format.needs)(&options);
                let data: Vec<ReportData> = runs
                    .iter()
                    .map(|run| report_data::collect(store, run, needs, self.quiet))
                    .collect::<anyhow::Result<_>>()?;
                if format.is_picture && picture == Picture::Io {
                    return data.into_iter().try_for_each(|run| {
                        self.write_io_pictures(run, format, &options, destination)
                    });
                }
                tell_unreadable(&data);
                if format.has_tables && needs.graphs {
                    data.iter().for_each(tell_untraced);
                }
                self.put(destination, |output| (format.write)(&data, &options, output))
            }
        }
    }

    /// A file for each trial that was traced.
    fn write_io_pictures(
        &self,
        mut run: ReportData,
        format: &'static ExportFormat,
        options: &ExportOptions,
        destination: &Destination,
    ) -> anyhow::Result<()> {
        tell_unreadable(std::slice::from_ref(&run));
        let mut timelines = std::mem::take(&mut run.timelines);
        timelines.retain(|timeline| timeline.graph.is_some());
        if timelines.is_empty() {
            let id = &run.result.run.id;
            return Err(bad_input(match is_traced(&run) {
                true => {
                    format!("run {id} has no block trace to draw: none of its files can be read")
                }
                false => format!("run {id} has no block trace to draw: {HOW_TO_TRACE}"),
            }));
        }
        let several = timelines.len() > 1;
        if several && matches!(destination, Destination::StandardOutput) {
            return Err(bad_input(format!(
                "run {} has {} traced trials, a picture of each: name a file",
                run.result.run.id,
                timelines.len()
            )));
        }
        let mut names: Vec<String> = Vec::new();
        for timeline in timelines {
            let mut name =
                format!("{}-{}", file_name(&timeline.workload), file_name(&timeline.target));
            if names.contains(&name) {
                name = format!("{name}-{}", names.len() + 1);
            }
            run.timelines = vec![timeline];
            let data = std::slice::from_ref(&run);
            let own = destination.beside(&name, several);
            self.put(&own, |output| (format.write)(data, options, output))?;
            names.push(name);
        }
        Ok(())
    }
}

impl Destination {
    /// What can be told before anything is read.
    fn check(&self) -> anyhow::Result<()> {
        let Destination::File(path) = self else { return Ok(()) };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent {
            Some(parent) if !parent.is_dir() => Err(bad_input(format!(
                "cannot write {}: there is no directory {} (make it, or name another file with --output)",
                path.display(),
                parent.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Where a picture goes that is one of a run, whether it is the only one or not. What is no
    /// regular file, such as a pipe, is kept for one that is.
    fn beside(&self, name: &str, several: bool) -> Destination {
        match self {
            Destination::StandardOutput => Destination::StandardOutput,
            Destination::File(path) if !several && is_special(path) => {
                Destination::File(path.clone())
            }
            Destination::File(path) => {
                let mut file = path.file_stem().unwrap_or_default().to_owned();
                file.push(format!("-{name}"));
                if let Some(extension) = path.extension() {
                    file.push(".");
                    file.push(extension);
                }
                Destination::File(path.with_file_name(file))
            }
        }
    }
}

/// A label as part of the name of a file.
fn file_name(label: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '=' | '+');
    label.chars().map(|c| if keep(c) { c } else { '-' }).take(80).collect()
}

/// What a page says among its warnings is said at once too.
fn tell_unreadable(data: &[ReportData]) {
    for warning in data.iter().flat_map(|run| &run.result.run.warnings) {
        let told = [
            report_data::TRACE_UNREADABLE,
            report_data::TRACE_INCOMPLETE,
            report_data::ACTIVITY_UNREADABLE,
        ];
        if told.contains(&warning.code.as_str()) {
            say(&format!("fsdyno: {}; {}", warning.message, warning.advice));
        }
    }
}

/// Whether a trial of the run was traced, whatever became of the trace.
fn is_traced(run: &ReportData) -> bool {
    run.result.trials.iter().any(|trial| trial.trace.is_some())
}

/// An empty table is no surprise to those who read this.
fn tell_untraced(run: &ReportData) {
    if !is_traced(run) {
        say(&format!("fsdyno: nothing was traced in run {}: {HOW_TO_TRACE}", run.result.run.id));
    }
}

fn original(
    store: &Store,
    run: &StoredRun,
    format: &'static OriginalFormat,
) -> anyhow::Result<String> {
    let shown = output::original(format, run, &store.trials(&run.id)?)?;
    if let Some(remark) = shown.remark {
        say(remark);
    }
    Ok(shown.text)
}

impl Args {
    /// Writes to where it goes; says which file was written.
    fn put(
        &self,
        destination: &Destination,
        write: impl FnOnce(exports::Output<'_>) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        match destination {
            Destination::StandardOutput => {
                let mut output = BufWriter::new(io::stdout());
                let written = write(&mut output).and_then(|()| output.flush());
                written.context("cannot write to standard output")
            }
            Destination::File(path) => {
                replace(path, write).with_context(|| {
                    format!("cannot write {} (name another file with --output)", path.display())
                })?;
                if self.quiet { Ok(()) } else { output::print(&path.display().to_string()) }
            }
        }
    }
}

/// Whether it is a pipe, a terminal or the like.
fn is_special(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
}

/// Writes a file whole or not at all: whoever reads it meanwhile, such as the textfile collector, sees
/// the one before. What is no regular file is written as it is.
fn replace(
    path: &Path,
    write: impl FnOnce(exports::Output<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_special = is_special(&path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let fresh = if is_special { path.clone() } else { path.with_file_name(name) };
    let written = File::create(&fresh).and_then(|file| {
        let mut output = BufWriter::new(file);
        write(&mut output)?;
        output.flush()
    });
    if is_special {
        return written;
    }
    written.and_then(|()| std::fs::rename(&fresh, &path)).inspect_err(|_| {
        // The error that is told is the one that counts.
        let _ = std::fs::remove_file(&fresh);
    })
}
