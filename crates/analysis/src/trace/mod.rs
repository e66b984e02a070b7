//! What a block trace shows. One pass over the events, whatever their number, in bounded memory; each
//! figure is a pass of its own, in a file of its own. How each is defined is told in `docs/TRACES.md`.
//!
//! | module | holds |
//! |---|---|
//! | `requests` | requests put together from their events |
//! | `names` | who is behind them |
//! | `bins` | the axis of time, which folds as the trace grows |
//! | `pass` | what a pass hears |
//! | `flow`, `classes`, `seeks`, `depth`, `latency`, `sizes`, `processes`, `heat` | the passes |
//! | `tally`, `windows` | sums over the whole and over each phase |
//! | `bursts` | what stands out, in words |

mod bins;
mod bursts;
mod classes;
mod depth;
mod flow;
mod heat;
mod histogram;
mod latency;
mod names;
mod pass;
mod processes;
mod requests;
mod seeks;
mod series;
mod sizes;
mod tally;
#[cfg(test)]
mod tests;
mod windows;

use std::io;

use fsdyno_model::io_graph::{IoClass, IoGraph};
use fsdyno_model::report_data::PhaseSpans;
use fsdyno_model::trace::{Action, Flags, TraceEvent, TraceInfo, TraceSource};

use bins::Axis;
use pass::{Completion, Dispatch, Pass};
use requests::{Requests, Who, class_of};

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

/// Events that are looked at before it is decided which of them are the dispatches.
const UNDECIDED_MAX: usize = 1 << 16;
/// Devices that are told apart; more lie on the last.
const DEVICES_MAX: usize = 64;

/// All passes that keep something for each bin.
#[derive(Debug, Clone)]
struct Passes {
    flow: flow::Flow,
    classes: classes::Classes,
    seeks: seeks::Seeks,
    latency: latency::Latency,
    sizes: sizes::Sizes,
    processes: processes::Processes,
    heat: heat::Heat,
}

impl Passes {
    /// The one list of passes.
    #[inline]
    fn each(&mut self, mut hear: impl FnMut(&mut dyn Pass)) {
        hear(&mut self.flow);
        hear(&mut self.classes);
        hear(&mut self.seeks);
        hear(&mut self.latency);
        hear(&mut self.sizes);
        hear(&mut self.processes);
        hear(&mut self.heat);
    }
}

/// An analysis that is under way.
#[derive(Debug, Clone)]
pub struct Analyzer {
    options: Options,
    events: u64,
    /// Which action counts as the dispatch; `None` until enough was seen.
    dispatches: Option<Action>,
    undecided: Vec<TraceEvent>,
    axis: Axis,
    start_ns: Option<u64>,
    /// Time of the last event.
    now_ns: u64,
    names: names::Names,
    devices: Vec<u32>,
    requests: Requests,
    heads: seeks::Heads,
    depth: depth::Depth,
    passes: Passes,
    whole: tally::Tally,
    windows: windows::Windows,
    /// Events whose time went back; they take that of the one before.
    backwards: u64,
}

impl Analyzer {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(options: Options) -> Analyzer {
        Analyzer {
            events: 0,
            dispatches: None,
            undecided: Vec::new(),
            axis: Axis::new(options.bins_max),
            start_ns: options.start_ns,
            now_ns: options.start_ns.unwrap_or(0),
            names: names::Names::default(),
            devices: Vec::new(),
            requests: Requests::default(),
            heads: seeks::Heads::default(),
            depth: depth::Depth::default(),
            passes: Passes {
                flow: flow::Flow::default(),
                classes: classes::Classes::default(),
                seeks: seeks::Seeks::default(),
                latency: latency::Latency::default(),
                sizes: sizes::Sizes::default(),
                processes: processes::Processes::default(),
                heat: heat::Heat::new(options.cells_max),
            },
            whole: tally::Tally::default(),
            windows: windows::Windows::new(&options.windows),
            backwards: 0,
            options,
        }
    }

    /// Takes the next events, in the order of their time; `info` has the processes that they name.
    pub fn push(&mut self, events: &[TraceEvent], info: &TraceInfo) {
        self.names.learn(info);
        if self.devices.is_empty() {
            self.devices = info.devices.iter().map(|device| device.number).collect();
            self.devices.truncate(DEVICES_MAX);
        }
        if self.dispatches.is_some() {
            events.iter().for_each(|event| self.hear(event));
            return;
        }
        self.undecided.extend_from_slice(events);
        let is_clear = events.iter().any(|event| event.action == Action::Issue);
        if is_clear || self.undecided.len() >= UNDECIDED_MAX {
            self.decide();
        }
    }

    /// Traces without issues (of drivers that take bios) are read off their queueing, and those without
    /// that, off completions.
    fn decide(&mut self) {
        let seen = |action| self.undecided.iter().any(|event| event.action == action);
        let ranked = [Action::Issue, Action::Queue];
        self.dispatches =
            ranked.into_iter().find(|action| seen(*action)).or(Some(Action::Complete));
        let first = self.undecided.iter().map(|event| event.time_ns).min();
        self.start_ns = self.start_ns.or(first);
        self.now_ns = self.now_ns.max(self.start_ns.unwrap_or(0));
        for event in std::mem::take(&mut self.undecided) {
            self.hear(&event);
        }
    }

    #[inline]
    fn device(&mut self, number: u32) -> u8 {
        let found = self.devices.iter().position(|known| *known == number);
        let index = found.unwrap_or_else(|| {
            if self.devices.len() < DEVICES_MAX {
                self.devices.push(number);
            }
            self.devices.len() - 1
        });
        index as u8
    }

    #[inline]
    fn hear(&mut self, event: &TraceEvent) {
        self.events += 1;
        let start_ns = self.start_ns.unwrap_or(0);
        let is_outside = event.time_ns < start_ns
            || self.options.end_ns.is_some_and(|end_ns| event.time_ns > end_ns);
        let time_ns = event.time_ns.max(self.now_ns);
        // Before the axis begins every event is early, and none goes back.
        self.backwards += u64::from(event.time_ns < self.now_ns && !is_outside);
        if !is_outside {
            self.advance(start_ns, time_ns);
        }
        let device = self.device(event.device);
        let who = self.names.who(event.process);
        let dispatches = self.dispatches == Some(event.action);
        match event.action {
            Action::Queue => {
                self.requests.queue(device, event, who);
                if dispatches && !is_outside {
                    let class = class_of(event.flags, event.sectors, who);
                    self.dispatch(device, event, class, who);
                }
            }
            Action::Issue => {
                let issued = self.requests.issue(device, event, who);
                if !is_outside {
                    self.dispatch(device, event, issued.class, issued.who);
                }
            }
            Action::Complete => self.complete(device, event, who, is_outside, dispatches),
            Action::Requeue => self.requests.requeue(device, event),
            _ => {}
        }
    }

    /// Time goes on; the depth was the same since the last event.
    #[inline]
    fn advance(&mut self, start_ns: u64, time_ns: u64) {
        while self.axis.is_beyond(self.axis.bin(time_ns - start_ns)) {
            self.axis.shift += 1;
            self.passes.each(|pass| pass.fold());
            self.depth.fold();
        }
        let before_ns = self.now_ns.max(start_ns);
        let depth = self.requests.depth();
        self.depth.hold(&self.axis, before_ns - start_ns, time_ns - start_ns, depth);
        self.whole.hold(time_ns - before_ns, depth);
        self.windows.hold(before_ns, time_ns, depth);
        self.now_ns = time_ns;
    }

    #[inline]
    fn bin(&self) -> usize {
        self.axis.bin(self.now_ns - self.start_ns.unwrap_or(0)).min(self.axis.limit - 1)
    }

    #[inline]
    fn dispatch(&mut self, device: u8, event: &TraceEvent, class: IoClass, who: Who) {
        // A flush without data moves no head, wherever its sector says that it is.
        let (is_seek, is_sequential) = if event.sectors == 0 {
            (false, false)
        } else {
            self.heads.move_to(device, event.sector, event.sectors)
        };
        let sector = if event.sectors == 0 { 0 } else { event.sector };
        let (bin, bytes) = (self.bin(), event.bytes());
        let dispatch = Dispatch { bin, device, sector, bytes, class, who, is_seek, is_sequential };
        self.passes.seeks.dispatch(&dispatch);
        self.passes.sizes.dispatch(&dispatch);
        self.passes.processes.dispatch(&dispatch);
        self.passes.heat.dispatch(&dispatch);
        self.whole.dispatch(&dispatch);
        self.windows.dispatch(&dispatch);
    }

    #[inline]
    fn complete(
        &mut self,
        device: u8,
        event: &TraceEvent,
        own: Who,
        is_outside: bool,
        dispatches: bool,
    ) {
        let issued = self.requests.complete(device, event);
        let (who, queued_ns) = match issued {
            Some(issued) => (issued.who, issued.queued_ns),
            None => match self.requests.complete_queued(device, event) {
                Some((queued_ns, who)) => (who, Some(queued_ns)),
                // Who was interrupted has nothing to do with it.
                None => (Who { is_journal: false, ..own }, None),
            },
        };
        if is_outside {
            return;
        }
        let class =
            issued.map_or_else(|| class_of(event.flags, event.sectors, who), |issued| issued.class);
        let since = |then_ns: u64| self.now_ns.saturating_sub(then_ns);
        let completion = Completion {
            bin: self.bin(),
            bytes: event.bytes(),
            class,
            is_flush: event.flags.contains(Flags::FLUSH) || class == IoClass::Flush,
            is_fua: event.flags.contains(Flags::FUA),
            is_error: event.flags.contains(Flags::ERROR),
            q2c_ns: queued_ns.map(since),
            d2c_ns: issued.map(|issued| since(issued.issued_ns)),
        };
        self.passes.flow.complete(&completion);
        self.passes.classes.complete(&completion);
        self.passes.latency.complete(&completion);
        self.whole.complete(&completion);
        self.windows.complete(&completion);
        if dispatches {
            self.dispatch(device, event, class, who);
        }
    }

    /// The axis ends at `end_ns`, which lies behind all events: nothing happened in between.
    pub fn end_at(&mut self, end_ns: u64) {
        self.options.end_ns = Some(end_ns);
    }

    /// What was seen so far; more may follow.
    #[must_use]
    pub fn graph(&self, info: &TraceInfo) -> IoGraph {
        if self.dispatches.is_none() && !self.undecided.is_empty() {
            let mut decided = self.clone();
            decided.decide();
            return decided.graph(info);
        }
        // The time from the last event to the right end belongs to the axis.
        let end_ns = self.options.end_ns.filter(|end_ns| *end_ns > self.now_ns);
        if let (Some(start_ns), Some(end_ns)) = (self.start_ns, end_ns) {
            let mut ended = self.clone();
            ended.advance(start_ns, end_ns);
            return ended.drawn(info);
        }
        self.drawn(info)
    }

    fn drawn(&self, info: &TraceInfo) -> IoGraph {
        let start_ns = self.start_ns.unwrap_or(0);
        let duration_ns = self.now_ns.saturating_sub(start_ns);
        let heat = self.passes.heat.map(&self.axis, &self.names, &info.devices);
        let seeks = self.passes.seeks.bins.values();
        let mut warnings = info.warnings.clone();
        if self.backwards > 0 {
            let count = self.backwards;
            warnings
                .push(format!("the time of {count} events went back; it was taken as standing"));
        }
        if self.requests.lost > 0 {
            let count = self.requests.lost;
            warnings.push(format!("the end of {count} requests is missing"));
        }
        IoGraph {
            label: self.options.label.clone(),
            start_ns,
            duration_ns,
            devices: info.devices.clone(),
            events: self.events,
            lost_events: info.lost_events,
            bin_ns: self.axis.bin_ns(),
            series: series::all(&self.passes, &self.depth, &self.axis, duration_ns),
            totals: self.whole.totals(),
            windows: self.windows.totals(),
            bursts: bursts::find(&heat, seeks, self.axis.bin_ns(), duration_ns),
            heat,
            sizes: self.passes.sizes.table(),
            processes: self.passes.processes.table(&self.names),
            classes: self.passes.classes.table(),
            warnings,
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
        analyzer.push(&batch, source.info());
    }
    Ok(analyzer.graph(source.info()))
}
