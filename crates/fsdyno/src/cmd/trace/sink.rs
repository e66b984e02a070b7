//! Where events go: into the analysis, which a live view reads meanwhile, and into files.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsdyno_analysis::trace::{Analyzer, Options};
use fsdyno_model::io_graph::IoGraph;
use fsdyno_model::trace::{TraceEvent, TraceInfo};
use fsdyno_trace::{EventSink, blktrace, stored};

use super::{Args, option_failed};

/// An analysis that several threads see.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    analyzer: Analyzer,
    info: TraceInfo,
}

impl Shared {
    pub fn new(options: Options) -> Shared {
        let state = State { analyzer: Analyzer::new(options), info: TraceInfo::default() };
        Shared(Arc::new(Mutex::new(state)))
    }

    /// What was seen so far.
    pub fn graph(&self) -> IoGraph {
        let state = self.lock();
        state.analyzer.graph(&state.info)
    }

    /// The device was watched until then.
    pub fn end_at(&self, end_ns: u64) {
        self.lock().analyzer.end_at(end_ns);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes events for the analysis and for the files that were asked for.
#[derive(Debug)]
pub struct Tee {
    shared: Shared,
    files: Files,
}

/// The files that were asked for.
#[derive(Debug)]
pub struct Files {
    stored: Option<stored::Writer>,
    blktrace: Option<blktrace::Writer>,
}

impl Files {
    /// Makes them.
    ///
    /// # Errors
    /// Bad input: they exist already or cannot be made.
    pub fn create(args: &Args) -> anyhow::Result<Files> {
        let stored = args.save.as_deref().map(stored::Writer::create).transpose();
        let stored =
            stored.map_err(|error| option_failed("--save", args.save.as_deref(), &error))?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let blktrace = args.blktrace.as_deref();
        let blktrace = blktrace.map(|path| blktrace::Writer::create(path, processors)).transpose();
        let blktrace = blktrace
            .map_err(|error| option_failed("--blktrace", args.blktrace.as_deref(), &error))?;
        Ok(Files { stored, blktrace })
    }

    fn each(&mut self) -> impl Iterator<Item = &mut dyn EventSink> {
        let stored = self.stored.as_mut().map(|writer| writer as &mut dyn EventSink);
        let blktrace = self.blktrace.as_mut().map(|writer| writer as &mut dyn EventSink);
        stored.into_iter().chain(blktrace)
    }
}

impl Tee {
    pub fn new(shared: Shared, files: Files) -> Tee {
        Tee { shared, files }
    }
}

impl EventSink for Tee {
    fn take(&mut self, events: &[TraceEvent], info: &TraceInfo) -> io::Result<()> {
        {
            let mut state = self.shared.lock();
            state.analyzer.push(events, info);
            // It only grows, and seldom does.
            let known = (state.info.processes.len(), state.info.devices.len());
            if known != (info.processes.len(), info.devices.len()) {
                state.info.clone_from(info);
            }
        }
        self.files.each().try_for_each(|file| file.take(events, info))
    }

    fn finish(&mut self, info: &TraceInfo) -> io::Result<()> {
        self.shared.lock().info.clone_from(info);
        self.files.each().try_for_each(|file| file.finish(info))
    }
}
