//! `fsdyno trace`: what a disk does, from the running kernel or from files, as text, pictures, a page, a
//! film and figures. How events are taken and read is left to the crate `trace`, what they mean to
//! `analysis`, how it looks to `report`.

mod device;
mod file;
mod live;
mod output;
mod program;
mod screen;
mod sink;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use fsdyno_model::activity::Activity;
use fsdyno_model::io_graph::IoGraph;
use fsdyno_model::units;
use fsdyno_report::io_picture::PictureOptions;
use fsdyno_sys::block::is_block_device;

use crate::{bad_input, bad_inputs};
use output::Form;

/// Arguments of `fsdyno trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Block devices to trace now, or files to read: of fsdyno (.fstrace), of blktrace (one of its files,
    /// or NAME for all of NAME.blktrace.*), a stream of the blk tracer; `-`: standard input. Several files
    /// are laid over each other
    #[arg(value_name = "DEVICE|FILE", required = true)]
    what: Vec<PathBuf>,

    /// Trace while this command runs, and give its exit code; without it, trace until Ctrl-C
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,

    /// Stop tracing after this time, such as 30 or 5m
    #[arg(long, value_name = "DURATION", conflicts_with = "command")]
    seconds: Option<String>,

    /// Watch in the terminal while it is traced
    #[arg(long)]
    live: bool,

    /// Write to FILE in the form of its extension: .svg .png .html .json .csv .txt; may be repeated
    #[arg(long, short, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Form of FILE, or of what is printed
    #[arg(long, value_enum, value_name = "FORM")]
    format: Option<Form>,

    /// Print every figure as JSON
    #[arg(long, conflicts_with_all = ["csv", "format"])]
    json: bool,

    /// Print every series as CSV, a row for each value
    #[arg(long, conflicts_with = "format")]
    csv: bool,

    /// Keep the trace in this file (.fstrace), which must not exist
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Also write it as blktrace does: BASENAME.blktrace.0 and so on
    #[arg(long, value_name = "BASENAME")]
    blktrace: Option<PathBuf>,

    /// Write a film of the disk to DIR, frame by frame as PNG
    #[arg(long, value_name = "DIR")]
    frames: Option<PathBuf>,

    /// Frames per second of the film
    #[arg(long, value_name = "N", default_value_t = 25, requires = "frames", value_parser = clap::value_parser!(u32).range(1..=120))]
    fps: u32,

    /// Length of the film in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 20, requires = "frames", value_parser = clap::value_parser!(u32).range(1..=3600))]
    film_seconds: u32,

    /// Name of the trace in pictures, one for each trace
    #[arg(long, value_name = "NAME")]
    label: Vec<String>,

    /// Size of pictures in pixels
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    size: Option<String>,

    /// Light marks on dark paper
    #[arg(long)]
    dark: bool,

    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

const AFTER_HELP: &str = "\
Examples:

  fsdyno trace /dev/sdb -- tar xf linux.tar -C /mnt    trace the disk while tar runs
  fsdyno trace --live --seconds 1m /dev/sdb            watch it for a minute
  fsdyno trace /dev/sdb -o disk.html -o disk.png --save disk.fstrace -- make
  fsdyno trace ext4.fstrace xfs.fstrace -o both.svg    two traces on one axis
  fsdyno trace sda.blktrace.0                          what blktrace wrote
  fsdyno trace disk.fstrace --frames film && ffmpeg -framerate 25 -i film/%05d.png film.mp4

docs/TRACES.md says how each figure is made.";

/// A trace, analysed.
#[derive(Debug)]
struct Traced {
    graph: IoGraph,
    /// What the machine did meanwhile; `None` of files.
    activity: Option<Activity>,
}

impl Args {
    /// Does it; the exit code of a command is given on.
    ///
    /// # Errors
    /// Bad input; where this machine cannot be traced; those of files.
    pub fn execute(self) -> anyhow::Result<bool> {
        let picture = self.check()?;
        let (traced, code) = if self.is_capture() {
            let (traced, code) = device::trace(&self)?;
            (vec![traced], code)
        } else {
            (file::read_all(&self)?, 0)
        };
        output::write(&self, &traced, &picture)?;
        if code != 0 {
            // Everything is written and nothing is left running.
            std::process::exit(code);
        }
        Ok(true)
    }

    fn is_capture(&self) -> bool {
        self.what.iter().any(|path| is_block_device(path))
    }

    /// Finds out before tracing what would otherwise be found out after it.
    fn check(&self) -> anyhow::Result<PictureOptions> {
        let mut errors = Vec::new();
        let picture = self.picture_options().unwrap_or_else(|error| {
            errors.push(error);
            PictureOptions::default()
        });
        if self.is_capture() {
            for path in self.what.iter().filter(|path| !is_block_device(path)) {
                errors.push(format!(
                    "{} is no block device: devices and files do not go together",
                    path.display()
                ));
            }
            errors.extend(self.duration().err());
        } else {
            self.check_files(&mut errors);
        }
        let (label_count, trace_count) = (self.label.len(), self.trace_count());
        if label_count > trace_count {
            errors.push(format!("--label is given {label_count} times for {trace_count} traces"));
        }
        if self.command.is_empty() && std::env::args_os().any(|word| word == "--") {
            errors.push("there is no command behind `--`".to_owned());
        }
        for path in &self.output {
            errors.extend(self.form_of(path).err());
            errors.extend(missing_directory(path));
        }
        for path in [&self.save, &self.blktrace].into_iter().flatten() {
            errors.extend(missing_directory(path));
        }
        let written: Vec<&PathBuf> = self.output.iter().chain(&self.save).collect();
        errors.extend(named_twice(&self.what, &written));
        if let Some(path) = self.save.as_ref().filter(|path| path.exists()) {
            errors.push(format!("--save {}: it exists already", path.display()));
        }
        if errors.is_empty() { Ok(picture) } else { Err(bad_inputs(&errors)) }
    }

    fn check_files(&self, errors: &mut Vec<String>) {
        for (given, name) in [
            (self.live, "--live"),
            (self.seconds.is_some(), "--seconds"),
            (!self.command.is_empty(), "a command"),
        ] {
            let first = &self.what[0];
            let fault = if first.exists() { "is none" } else { "does not exist" };
            if given {
                let first = first.display();
                errors.push(format!("{name} goes with a block device, and {first} {fault}"));
            }
        }
        let single = [
            (self.save.is_some(), "--save"),
            (self.blktrace.is_some(), "--blktrace"),
            (self.frames.is_some(), "--frames"),
        ];
        for (given, name) in single {
            if given && self.trace_count() > 1 {
                errors.push(format!("{name} takes one trace, not {}", self.trace_count()));
            }
        }
    }

    /// How many graphs there will be: devices become one. What is wrong with a path is found when it is
    /// read.
    fn trace_count(&self) -> usize {
        if self.is_capture() {
            return 1;
        }
        file::groups(&self.what).map_or(self.what.len(), |groups| groups.len())
    }

    fn picture_options(&self) -> Result<PictureOptions, String> {
        let mut options = PictureOptions { dark: self.dark, ..PictureOptions::default() };
        if let Some(text) = &self.size {
            let wrong =
                || format!("--size {text}: write for example 1600x1200, each from 200 to 10000");
            let (width, height) = text.split_once('x').ok_or_else(wrong)?;
            let pixels = |text: &str| {
                let number = text.trim().parse::<u32>().ok();
                number.filter(|pixels| (200..=10_000).contains(pixels)).ok_or_else(wrong)
            };
            (options.width, options.height) = (pixels(width)?, pixels(height)?);
        }
        Ok(options)
    }

    /// How long is traced; `None`: until something else ends it.
    fn duration(&self) -> Result<Option<Duration>, String> {
        let Some(text) = &self.seconds else { return Ok(None) };
        let parsed = match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| ()),
            Err(_) => units::parse_duration_ns(text).map(Duration::from_nanos).map_err(|_| ()),
        };
        match parsed {
            Ok(duration) if !duration.is_zero() => Ok(Some(duration)),
            _ => Err(format!("--seconds {text}: write for example 30, 1.5 or 5m")),
        }
    }

    /// The form of what goes to `path`.
    fn form_of(&self, path: &Path) -> Result<Form, String> {
        if let Some(form) = self.format {
            return Ok(form);
        }
        let extension = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
        Form::of_extension(extension).ok_or_else(|| {
            let known: Vec<&str> =
                Form::value_variants().iter().map(|form| form.extension()).collect();
            format!(
                "-o {}: the form is not known from its name; end it in one of .{} or give --format",
                path.display(),
                known.join(" .")
            )
        })
    }

    /// What the trace number `index` is called, unless the user says.
    fn label_or(&self, index: usize, name: impl FnOnce() -> String) -> String {
        self.label.get(index).cloned().unwrap_or_else(name)
    }
}

fn missing_directory(path: &Path) -> Option<String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty())?;
    (!parent.is_dir())
        .then(|| format!("{}: there is no directory {}", path.display(), parent.display()))
}

/// Name of a device or file without what all have in common: `/dev/loop0` is `loop0`, `a/ext4.fstrace` is
/// `ext4`.
fn short_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.split(".blktrace.").next().unwrap_or_default();
    let name = name.strip_suffix(".fstrace").unwrap_or(name);
    if name == "-" { "standard input".to_owned() } else { name.to_owned() }
}

/// What goes wrong with an option.
fn option_failed(option: &str, path: Option<&Path>, error: &std::io::Error) -> anyhow::Error {
    let name = path.unwrap_or(Path::new("")).display();
    match error.kind() {
        ErrorKind::AlreadyExists => bad_input(format!("{option} {name}: it exists already")),
        ErrorKind::StorageFull => anyhow::anyhow!("{option} {name}: {error}"),
        _ => bad_input(format!("{option} {name}: {error}")),
    }
}

/// Files that are named for two purposes, of which one would destroy the other.
fn named_twice(read: &[PathBuf], written: &[&PathBuf]) -> Vec<String> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut errors = Vec::new();
    for (index, path) in written.iter().enumerate() {
        let name = path.display();
        if read.iter().any(|other| real(other) == real(path)) {
            errors.push(format!("{name} is read, and cannot be written as well"));
        }
        if written[..index].iter().any(|other| real(other) == real(path)) {
            errors.push(format!("{name} would be written twice"));
        }
    }
    for (index, path) in read.iter().enumerate() {
        if read[..index].iter().any(|other| real(other) == real(path)) {
            errors.push(format!("{} is named twice", path.display()));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short() {
        for (path, name) in [
            ("/dev/loop0", "loop0"),
            ("a/b/ext4.fstrace", "ext4"),
            ("sda.blktrace.0", "sda"),
            ("trace.bin", "trace.bin"),
            ("-", "standard input"),
        ] {
            assert_eq!(short_name(Path::new(path)), name);
        }
    }
}
