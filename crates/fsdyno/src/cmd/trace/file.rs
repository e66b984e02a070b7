//! Reading traces from files, with how far that is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_analysis::trace::Options;
use fsdyno_model::trace::TraceSource;
use fsdyno_trace::{EventSink as _, open};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::sink::{Files, Shared, Tee};
use super::{Args, Traced, short_name};
use crate::bad_input;

/// Reads every file that was named.
///
/// # Errors
/// Bad input: a file that cannot be opened or is no trace.
pub fn read_all(args: &Args) -> anyhow::Result<Vec<Traced>> {
    // All are opened before the first is read: what is wrong with the last is said at once.
    let mut sources = Vec::new();
    for files in groups(&args.what).map_err(bad_input)? {
        let first = files[0].clone();
        let source = match files.as_slice() {
            [one] => open::open(one),
            several => open::open_files(several),
        };
        let source = source.map_err(|error| unreadable(&first, &error))?;
        sources.push((first, source));
    }
    let mut traced = Vec::new();
    for (index, (path, mut source)) in sources.into_iter().enumerate() {
        let label = args.label_or(index, || short_name(&path));
        let files = Files::create(args)?;
        let progress = Progress::new(&path, args.quiet);
        let graph = read(source.as_mut(), label, files, &progress);
        progress.finish();
        let graph = graph.map_err(|error| unreadable(&path, &error))?;
        traced.push(Traced { graph, activity: None });
    }
    Ok(traced)
}

/// The files of each trace: those that blktrace wrote for the processors of one machine are one, as a
/// shell gives them for `sda.blktrace.*`.
///
/// # Errors
/// A sentence that names the first path which is no file.
pub fn groups(paths: &[PathBuf]) -> Result<Vec<Vec<PathBuf>>, String> {
    // One by one first, so that the error has the path.
    for path in paths {
        open::group(std::slice::from_ref(path)).map_err(|error| named(path, &error))?;
    }
    open::group(paths).map_err(|error| error.to_string())
}

fn unreadable(path: &Path, error: &io::Error) -> anyhow::Error {
    bad_input(named(path, error))
}

fn named(path: &Path, error: &io::Error) -> String {
    let text = error.to_string();
    let name = path.display().to_string();
    // Some errors name the file themselves.
    if text.contains(&name) { text } else { format!("{name}: {text}") }
}

fn read(
    source: &mut dyn TraceSource,
    label: String,
    files: Files,
    progress: &Progress,
) -> io::Result<fsdyno_model::io_graph::IoGraph> {
    let shared = Shared::new(Options { label, ..Options::default() });
    let mut tee = Tee::new(shared.clone(), files);
    let mut batch = Vec::new();
    let mut events = 0;
    while source.next_batch(&mut batch)? {
        tee.take(&batch, source.info())?;
        events += batch.len() as u64;
        progress.at(events);
    }
    tee.finish(source.info())?;
    Ok(shared.graph())
}

/// How far the reading of one trace is, told on a terminal.
struct Progress {
    bar: Option<ProgressBar>,
    /// Bytes that this process had read before.
    before: u64,
}

impl Progress {
    fn new(path: &Path, quiet: bool) -> Progress {
        let terminal = fsdyno_sys::process::stderr_is_terminal();
        let size = size_of(path);
        let bar = (terminal && !quiet).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(8);
            let bar = ProgressBar::with_draw_target(size, target);
            let template = match size {
                Some(_) => "{bar:16} {bytes} of {total_bytes}, {eta} left · {wide_msg}",
                None => "{spinner} {elapsed} · {wide_msg}",
            };
            let style = ProgressStyle::with_template(template).expect("the template is a literal");
            bar.set_style(style.progress_chars("━╸┄"));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Progress { bar, before: bytes_read().unwrap_or(0) }
    }

    fn at(&self, events: u64) {
        let Some(bar) = &self.bar else { return };
        if let Some(read) = bytes_read() {
            bar.set_position(read.saturating_sub(self.before));
        }
        bar.set_message(format!("{} events", fsdyno_report::io_picture::words::grouped(events)));
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Bytes that this process has read, from whatever: a trace is all that it reads meanwhile.
fn bytes_read() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("rchar: "))?.trim().parse().ok()
}

/// Bytes of all files of the trace; `None` where that cannot be known.
fn size_of(path: &Path) -> Option<u64> {
    let name = path.to_str()?;
    let base = name.split(".blktrace.").next()?;
    let parts: Vec<PathBuf> =
        (0..4096).map(|cpu| PathBuf::from(format!("{base}.blktrace.{cpu}"))).collect();
    let sizes = parts.iter().map_while(|part| std::fs::metadata(part).ok());
    let sum: u64 = sizes.map(|metadata| metadata.len()).sum();
    let own = || std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    if sum > 0 { Some(sum) } else { own().map(|metadata| metadata.len()) }
}
