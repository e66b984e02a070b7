//! Tracing devices of this machine, while a program runs or until somebody says stop.

use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use fsdyno_analysis::trace::Options;
use fsdyno_model::wire::Watch;
use fsdyno_report::io_picture::words::grouped;
use fsdyno_sys::block::{DeviceNumber, device_number};
use fsdyno_sys::clock::now_ns;
use fsdyno_sys::{caches, process};
use fsdyno_trace::capture::{self, BUFFER_BYTES, Capture, CaptureOptions};
use fsdyno_workload::probe::Probe;

use super::program::{Program, exit_code};
use super::sink::{Files, Shared, Tee};
use super::{Args, Traced, live, short_name};
use crate::bad_input;
use crate::run::progress::say;

/// Time between two looks at whether it is over.
const STEP: Duration = Duration::from_millis(20);

/// Traces the devices that `args` name; gives what was seen, and the exit code of the command.
///
/// # Errors
/// Bad input; why this machine cannot be traced.
pub fn trace(args: &Args) -> anyhow::Result<(Traced, i32)> {
    let devices = numbers(&args.what)?;
    let duration = args.duration().map_err(bad_input)?;
    if let Some(reason) = capture::unavailable() {
        bail!("cannot trace {}: {reason}", names(args));
    }
    if args.live && !process::stdout_is_terminal() {
        return Err(bad_input("--live needs a terminal on standard output"));
    }
    process::install_signal_handlers()?;
    let files = Files::create(args)?;
    let start_ns = now_ns();
    let label = args.label_or(0, || label(args));
    let shared = Shared::new(Options {
        label: label.clone(),
        start_ns: Some(start_ns),
        ..Options::default()
    });
    let tee = Tee::new(shared.clone(), files);
    let watch = devices.iter().map(|device| (device.major, device.minor));
    let mut probe = Probe::new(&Watch { devices: watch.collect(), filesystem_threads: Vec::new() });
    let options = CaptureOptions { devices, buffer_bytes: BUFFER_BYTES };
    let capture = Capture::start(&options, Box::new(tee))
        .with_context(|| format!("cannot trace {}", names(args)))?;
    let waited = wait(args, duration, &shared, &label);
    if !args.command.is_empty() {
        // What it left in the page cache belongs to it.
        caches::sync_all();
    }
    // Whatever happened, the kernel must be left as it was.
    let end_ns = now_ns();
    let captured = capture.stop();
    shared.end_at(end_ns);
    let activity = probe.finish();
    let code = waited?;
    let captured = captured.context(match (&args.save, &args.blktrace) {
        (None, None) => "the trace could not be read to its end",
        _ => "the trace could not be read, or not be written to its file, to its end",
    })?;
    if captured.events == 0 && !args.quiet {
        say(&format!("no request reached {} while it was traced", names(args)));
    }
    Ok((Traced { graph: shared.graph(), activity }, code))
}

fn numbers(paths: &[std::path::PathBuf]) -> anyhow::Result<Vec<DeviceNumber>> {
    let number = |path: &std::path::PathBuf| {
        device_number(path).map_err(|error| bad_input(error.to_string()))
    };
    paths.iter().map(number).collect()
}

fn names(args: &Args) -> String {
    let names: Vec<String> = args.what.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// `dd on loop0`.
fn label(args: &Args) -> String {
    let devices: Vec<String> = args.what.iter().map(|path| short_name(path)).collect();
    let devices = devices.join(", ");
    match args.command.first() {
        Some(program) => format!("{} on {devices}", short_name(Path::new(program))),
        None => devices,
    }
}

/// Waits for the end; gives the exit code.
fn wait(
    args: &Args,
    duration: Option<Duration>,
    shared: &Shared,
    label: &str,
) -> anyhow::Result<i32> {
    let mut program = match args.command.as_slice() {
        [] => None,
        words => Some(Program::start(words, args.live)?),
    };
    let deadline = duration.map(|duration| Instant::now() + duration);
    let mut view = if args.live {
        Some(live::View::start(shared.clone(), label.to_owned())?)
    } else {
        if program.is_none() && !args.quiet {
            say(&format!("tracing {}: Ctrl-C ends", names(args)));
        }
        None
    };
    let mut stopped = false;
    let status: Option<ExitStatus> = loop {
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        stopped |= over || process::interrupted();
        match &mut program {
            Some(program) => {
                if let Some(status) = program.ended()? {
                    break Some(status);
                }
                if stopped {
                    program.end();
                }
            }
            None if stopped => break None,
            None => {}
        }
        match &mut view {
            Some(view) => stopped |= view.step(STEP)?,
            None => std::thread::sleep(STEP),
        }
    };
    drop(view);
    if let Some(program) = &program {
        program.tell();
    }
    if args.live && !args.quiet {
        say(&format!("{} events", grouped(shared.graph().events)));
    }
    Ok(status.map_or(0, exit_code))
}
