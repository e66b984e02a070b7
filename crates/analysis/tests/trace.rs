//! Trace passes from outside: small traces with answers worked out by hand, and sums that must agree
//! whatever the trace. Single passes are tested where they are.

use fsdyno_analysis::trace::{Analyzer, Options};
use fsdyno_model::io_graph::{IoClass, IoGraph};
use fsdyno_model::report_data::PhaseSpans;
use fsdyno_model::trace::{Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess};

const DEVICE: u32 = 7 << 20;
const MS: u64 = 1_000_000;
const NAMES: [&str; 4] = ["tar", "kworker/u4:1-flush-7:0", "jbd2/loop0-8", "xfsaild/loop0"];

fn info() -> TraceInfo {
    let process = |(pid, name): (u32, &str)| TraceProcess { pid, name: name.to_owned() };
    TraceInfo {
        devices: vec![TraceDevice { number: DEVICE, name: "loop0".to_owned(), sectors: None }],
        processes: (1..).zip(NAMES).map(process).collect(),
        ..TraceInfo::default()
    }
}

fn event(
    time_ns: u64,
    action: Action,
    flags: Flags,
    sector: u64,
    sectors: u32,
    process: u32,
) -> TraceEvent {
    TraceEvent { time_ns, sector, sectors, device: DEVICE, process, flags, action }
}

/// Queued at a time, issued 1 ms later, done 2 ms after that.
fn request(at_ns: u64, flags: Flags, sector: u64, sectors: u32, process: u32) -> [TraceEvent; 3] {
    [(0, Action::Queue), (MS, Action::Issue), (3 * MS, Action::Complete)]
        .map(|(after, action)| event(at_ns + after, action, flags, sector, sectors, process))
}

fn graph(events: &[TraceEvent], options: Options) -> IoGraph {
    let mut analyzer = Analyzer::new(options);
    analyzer.push(events, &info());
    analyzer.graph(&info())
}

/// Many requests of four processes over `seconds`, one every 5 ms, in the order of time.
fn long_trace(seconds: u64) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    for index in 0..seconds * 200 {
        let (at_ns, process) = (index * 5 * MS, (index % 4) as u32);
        let write = if index % 3 == 0 { Flags::default() } else { Flags::WRITE };
        let flags = if index % 5 == 0 { write.with(Flags::METADATA) } else { write };
        events.extend(request(at_ns, flags, index * 7919 % 1_000_000, 8 << (index % 4), process));
    }
    events
}

#[test]
fn what_a_log_is_emptied_to_is_no_journal() {
    let metadata = Flags::WRITE.with(Flags::METADATA);
    let mut events = Vec::new();
    for (at, flags, process) in
        [(0, Flags::WRITE, 2), (10, metadata, 3), (20, metadata, 1), (30, Flags::WRITE, 0)]
    {
        events.extend(request(at * MS, flags, at * 1000, 8, process));
    }
    let graph = graph(&events, Options::default());
    let bytes = |class| graph.classes.iter().find(|row| row.class == class).map(|row| row.bytes);
    assert_eq!(bytes(IoClass::WriteJournal), Some(4096));
    assert_eq!(bytes(IoClass::WriteMetadata), Some(8192));
    assert_eq!(bytes(IoClass::WriteData), Some(4096));
    assert_eq!((graph.totals.journal_bytes, graph.totals.metadata_bytes), (4096, 8192));
}

#[test]
fn flushes_without_data_are_not_among_sequential_or_other_requests() {
    let flush = Flags::WRITE.with(Flags::FLUSH);
    let mut events = Vec::new();
    for (at, flags, sector, sectors) in
        [(0, Flags::WRITE, 100, 8), (10, flush, 0, 0), (20, Flags::WRITE, 108, 8)]
    {
        events.extend(request(at * MS, flags, sector, sectors, 0));
    }
    let totals = graph(&events, Options::default()).totals;
    assert_eq!(totals.sequential_share, Some(0.5));
    assert_eq!((totals.seeks, totals.flushes, totals.writes), (0, 1, 2));
    assert_eq!(totals.d2c_flush.unwrap().max, 2 * MS);
}

/// The last event lies just behind the edge of a bin; its rate must not be that of a nanosecond.
#[test]
fn a_sliver_at_the_right_end_is_no_spike() {
    for bins_max in [10, 100, 1000] {
        let steady = long_trace(4);
        let first = graph(&steady, Options { bins_max, ..Options::default() });
        let edge_ns = first.duration_ns.next_multiple_of(first.bin_ns);
        for after_ns in [0, 1, 1000] {
            let mut events = steady.clone();
            let end_ns = events[0].time_ns + edge_ns + after_ns;
            events.push(event(end_ns, Action::Issue, Flags::WRITE, 0, 8, 0));
            events.push(event(end_ns, Action::Complete, Flags::WRITE, 0, 8, 0));
            let graph = graph(&events, Options { bins_max, ..Options::default() });
            let values = &graph.series("write_iops").unwrap().values;
            let last = values.last().unwrap().unwrap();
            assert!(last <= 2e9 / graph.bin_ns as f64, "{bins_max} {after_ns}: {last}");
        }
    }
}

#[test]
fn sums_agree() {
    let events = long_trace(30);
    let graph = graph(&events, Options { bins_max: 200, cells_max: 2000, ..Options::default() });
    let issued: u64 =
        events.iter().filter(|event| event.action == Action::Issue).map(TraceEvent::bytes).sum();
    let totals = &graph.totals;
    let sum = |of: fn(&fsdyno_model::io_graph::ProcessIo) -> u64| -> u64 {
        graph.processes.iter().map(of).sum()
    };
    assert_eq!(totals.read_bytes + totals.write_bytes, issued);
    assert_eq!(graph.heat.cells.iter().map(|cell| cell.bytes).sum::<u64>(), issued);
    assert_eq!(graph.classes.iter().map(|row| row.bytes).sum::<u64>(), issued);
    assert_eq!(sum(|row| row.read_bytes + row.write_bytes), issued);
    assert_eq!(sum(|row| row.reads + row.writes), 6000);
    assert_eq!(sum(|row| row.seeks), totals.seeks);
    assert_eq!(graph.sizes.iter().map(|row| row.reads + row.writes).sum::<u64>(), 6000);
    assert!(graph.heat.cells.len() <= 2000 && graph.series[0].values.len() <= 200);
    // Two of five milliseconds a request is at the device.
    assert!((totals.queue_depth_mean.unwrap() - 0.4).abs() < 0.001, "{totals:?}");
    assert_eq!((totals.queue_depth_max, totals.d2c_read.unwrap().max), (1, 2 * MS));
    assert_eq!(
        (totals.q2c_write.unwrap().max, totals.idle_ns),
        (3 * MS, graph.duration_ns - 12_000 * MS)
    );
}

#[test]
fn short_windows_by_the_thousand_add_up_to_the_whole() {
    let events = long_trace(20);
    let end_ns = events.last().unwrap().time_ns + 1;
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    for begin_ns in (0..end_ns).step_by(3_333_333) {
        let spans = if begin_ns % 2 == 0 { &mut even } else { &mut odd };
        spans.push((begin_ns, (begin_ns + 3_333_333).min(end_ns)));
    }
    let window = |phase: &str, spans| PhaseSpans { phase: phase.to_owned(), spans };
    let windows = vec![window("even", even), window("odd", odd)];
    let graph = graph(&events, Options { windows, ..Options::default() });
    let [even, odd] = &graph.windows[..] else { panic!("two windows") };
    let (even, odd, whole) = (&even.totals, &odd.totals, &graph.totals);
    assert!(even.reads > 0 && odd.reads > 0);
    assert_eq!(even.reads + odd.reads, whole.reads);
    assert_eq!(even.write_bytes + odd.write_bytes, whole.write_bytes);
    assert_eq!(even.seeks + odd.seeks, whole.seeks);
    assert_eq!(even.metadata_bytes + odd.metadata_bytes, whole.metadata_bytes);
    assert_eq!(even.idle_ns + odd.idle_ns, whole.idle_ns);
    let count = |of: &Option<fsdyno_model::io_graph::LatencySummary>| of.map_or(0, |all| all.count);
    assert_eq!(count(&even.d2c_write) + count(&odd.d2c_write), count(&whole.d2c_write));
}

#[test]
fn folding_gives_what_wide_bins_give_at_once() {
    // The same events on an axis that was folded eight times, and on one of which the first event lies
    // far enough from the last to have been folded before.
    let events = long_trace(10);
    let narrow = graph(&events, Options { bins_max: 64, ..Options::default() });
    let mut analyzer = Analyzer::new(Options { bins_max: 1 << 14, ..Options::default() });
    events.iter().for_each(|event| analyzer.push(std::slice::from_ref(event), &info()));
    let wide = analyzer.graph(&info());
    let factor = (narrow.bin_ns / wide.bin_ns) as usize;
    assert!(factor > 1);
    for name in ["read_iops", "write_bytes_per_s", "seeks_per_s"] {
        let narrow = &narrow.series(name).unwrap().values;
        let wide = &wide.series(name).unwrap().values;
        // The last is cut by the end.
        for (bin, values) in wide.chunks_exact(factor).enumerate() {
            let mean = values.iter().flatten().sum::<f64>() / factor as f64;
            let folded = narrow[bin].unwrap();
            assert!(
                (mean - folded).abs() <= 1e-9 * folded.max(1.0),
                "{name} {bin} {mean} {folded}"
            );
        }
    }
    assert_eq!(narrow.totals, wide.totals);
}

#[test]
fn a_burst_at_the_end_of_time_is_told() {
    let mut events = vec![event(0, Action::Issue, Flags::WRITE, 0, 8, 0)];
    for index in 0..40 {
        events.push(event(u64::MAX, Action::Issue, Flags::WRITE, index * 1000, 8, 1));
        events.push(event(u64::MAX, Action::Complete, Flags::WRITE, index * 1000, 8, 1));
    }
    let graph = graph(&events, Options::default());
    let [burst] = &graph.bursts[..] else { panic!("one burst: {:?}", graph.bursts) };
    assert_eq!((burst.process.as_str(), burst.requests), ("kworker/flush", 40));
    assert!(burst.from_ns < burst.to_ns && burst.to_ns > u64::MAX / 2, "{burst:?}");
}
