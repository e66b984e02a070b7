//! What a block trace shows. One pass over the events, whatever their number; each figure is a pass of
//! its own, in a file of its own.

use std::io;

use fsdyno_model::io_graph::IoGraph;
use fsdyno_model::report_data::PhaseSpans;
use fsdyno_model::trace::{TraceEvent, TraceInfo, TraceSource};

/// What is asked of an analysis.
#[derive(Debug, Clone)]
pub struct Options {
    /// What was traced.
    pub label: String,
    /// Spans to be added up apart, such as the phases of a trial.
    pub windows: Vec<PhaseSpans>,
    /// Time of the left end of the axis; `None`: that of the first event.
    pub start_ns: Option<u64>,
    /// Time of the right end; `None`: that of the last event.
    pub end_ns: Option<u64>,
    /// Most bins of the series.
    pub bins_max: u32,
    /// Most cells of the heat map.
    pub cells_max: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            label: String::new(),
            windows: Vec::new(),
            start_ns: None,
            end_ns: None,
            bins_max: 1000,
            cells_max: 40_000,
        }
    }
}

/// An analysis that is under way.
#[derive(Debug)]
pub struct Analyzer {
    options: Options,
    events: u64,
}

impl Analyzer {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Analyzer {
        Analyzer { options, events: 0 }
    }

    /// Takes the next events; their times never go back.
    pub fn push(&mut self, events: &[TraceEvent]) {
        self.events += events.len() as u64;
    }

    /// What was seen so far; more may follow.
    #[must_use]
    pub fn graph(&self, info: &TraceInfo) -> IoGraph {
        IoGraph {
            label: self.options.label.clone(),
            events: self.events,
            devices: info.devices.clone(),
            ..IoGraph::default()
        }
    }
}

/// Reads `source` to its end.
///
/// # Errors
/// Those of the source.
pub fn analyze(source: &mut dyn TraceSource, options: Options) -> io::Result<IoGraph> {
    let mut analyzer = Analyzer::new(options);
    let mut batch = Vec::new();
    while source.next_batch(&mut batch)? {
        analyzer.push(&batch);
    }
    Ok(analyzer.graph(source.info()))
}
