//! What is made of traces: text in the terminal, and files in every form.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;
use fsdyno_model::io_graph::IoGraph;
use fsdyno_model::record::Role;
use fsdyno_model::report_data::TrialTimeline;
use fsdyno_report::io_picture::words::{self, TextOptions};
use fsdyno_report::io_picture::{self, FrameOptions, PictureInput, PictureOptions, series};
use fsdyno_report::page;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Args, Traced};
use crate::bad_input;
use crate::cmd::output::{print, table_options};
use crate::run::progress::say;

/// Forms of what is made of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A summary for the terminal
    Text,
    /// A picture that can be scaled
    Svg,
    /// A picture of pixels
    Png,
    /// A page to explore, one file
    Html,
    /// Every figure
    Json,
    /// Every series, a row for each value
    Csv,
}

impl Form {
    pub fn extension(self) -> &'static str {
        match self {
            Form::Text => "txt",
            Form::Svg => "svg",
            Form::Png => "png",
            Form::Html => "html",
            Form::Json => "json",
            Form::Csv => "csv",
        }
    }

    pub fn of_extension(extension: &str) -> Option<Form> {
        let known = Form::value_variants().iter().copied();
        known.into_iter().find(|form| form.extension().eq_ignore_ascii_case(extension))
    }
}

/// Writes everything that was asked for; without a wish, the summary is printed.
///
/// # Errors
/// Those of files and of standard output.
pub fn write(args: &Args, traced: &[Traced], picture: &PictureOptions) -> anyhow::Result<()> {
    for path in &args.output {
        let form = args.form_of(path).map_err(bad_input)?;
        let bytes = render(form, traced, picture)?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        told(args, path);
    }
    for path in [&args.save, &args.blktrace].into_iter().flatten() {
        told(args, path);
    }
    if let (Some(directory), [only]) = (&args.frames, traced) {
        write_frames(args, &only.graph, directory)?;
    }
    let printed = match (args.json, args.csv, args.format) {
        (true, ..) => Form::Json,
        (_, true, _) => Form::Csv,
        (_, _, Some(form)) if args.output.is_empty() => form,
        _ if args.output.is_empty() => Form::Text,
        _ => return Ok(()),
    };
    let bytes = render(printed, traced, picture)?;
    if printed == Form::Png {
        let mut stdout = std::io::stdout();
        if stdout.is_terminal() {
            return Err(bad_input("a PNG does not go to a terminal: give -o FILE.png"));
        }
        return Ok(stdout.write_all(&bytes)?);
    }
    print(&String::from_utf8_lossy(&bytes))
}

fn told(args: &Args, path: &Path) {
    if !args.quiet {
        say(&format!("wrote {}", path.display()));
    }
}

fn render(form: Form, traced: &[Traced], picture: &PictureOptions) -> anyhow::Result<Vec<u8>> {
    let graphs: Vec<&IoGraph> = traced.iter().map(|one| &one.graph).collect();
    let svg = || {
        let inputs = traced.iter().map(|one| PictureInput {
            graph: &one.graph,
            activity: one.activity.as_ref(),
            phases: &[],
        });
        io_picture::svg(&inputs.collect::<Vec<_>>(), picture)
    };
    Ok(match form {
        Form::Text => summary(&graphs).into_bytes(),
        Form::Svg => svg().into_bytes(),
        Form::Png => {
            let png = io_picture::png(&svg());
            anyhow::ensure!(!png.is_empty(), "the picture is too large: give a smaller --size");
            png
        }
        Form::Html => page(traced).into_bytes(),
        Form::Json => series::json(&graphs)?.into_bytes(),
        Form::Csv => series::csv(&graphs)?.into_bytes(),
    })
}

fn summary(graphs: &[&IoGraph]) -> String {
    let table = table_options();
    let options = TextOptions {
        width: table.width,
        color: table.color,
        unicode: table.unicode,
        charts: std::io::stdout().is_terminal(),
    };
    let texts: Vec<String> = graphs.iter().map(|graph| words::summary(graph, &options)).collect();
    texts.join("\n")
}

fn page(traced: &[Traced]) -> String {
    let timelines: Vec<TrialTimeline> = traced
        .iter()
        .map(|one| TrialTimeline {
            target: one.graph.label.clone(),
            workload: String::new(),
            trial: 0,
            role: Role::Explain,
            phases: Vec::new(),
            graph: Some(one.graph.clone()),
            activity: one.activity.clone(),
            slowdown: None,
        })
        .collect();
    let labels: Vec<&str> = traced.iter().map(|one| one.graph.label.as_str()).collect();
    page::trace_page(&labels.join(", "), &timelines)
}

/// Writes the film, a file for each frame: `00001.png` and so on.
fn write_frames(args: &Args, graph: &IoGraph, directory: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write to {}", directory.display());
    std::fs::create_dir_all(directory).with_context(failed)?;
    let mut options = FrameOptions {
        count: args.fps.saturating_mul(args.film_seconds),
        dark: args.dark,
        ..FrameOptions::default()
    };
    if args.size.is_some() {
        let picture = args.picture_options().map_err(bad_input)?;
        (options.width, options.height) = (picture.width, picture.height);
    }
    let shows = fsdyno_sys::process::stderr_is_terminal() && !args.quiet;
    let target =
        if shows { ProgressDrawTarget::stderr_with_hz(8) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(u64::from(options.count)), target);
    let style = ProgressStyle::with_template("{bar:16} frame {pos} of {len}, {eta} left");
    bar.set_style(style.expect("the template is a literal").progress_chars("━╸┄"));
    let mut count = 0;
    for frame in io_picture::frames(graph, options) {
        count += 1;
        std::fs::write(directory.join(format!("{count:05}.png")), frame).with_context(failed)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if !args.quiet {
        say(&format!("wrote {count} frames to {}", directory.display()));
    }
    Ok(())
}
