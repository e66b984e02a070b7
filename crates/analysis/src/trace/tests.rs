//! Passes driven together: hand-computed answers, identities, and anything at all.

use fsdyno_model::trace::{TraceDevice, TraceProcess};
use proptest::prelude::*;

use super::*;

const DEVICE: u32 = 7 << 20;
const MS: u64 = 1_000_000;
const READ: Flags = Flags(0);
const WRITE: Flags = Flags::WRITE;
const META: Flags = Flags(Flags::WRITE.0 | Flags::METADATA.0);
const FLUSH: Flags = Flags(Flags::WRITE.0 | Flags::FLUSH.0);

fn info() -> TraceInfo {
    let process = |pid, name: &str| TraceProcess { pid, name: name.to_owned() };
    TraceInfo {
        devices: vec![TraceDevice { number: DEVICE, name: "loop0".to_owned(), sectors: None }],
        processes: vec![
            process(10, "tar"),
            process(11, "kworker/u4:1-flush-7:0"),
            process(12, "kworker/u4:2-flush-7:0"),
            process(13, "jbd2/loop0-8"),
        ],
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

/// Queued by `process`, issued 1 ms and completed 3 ms later.
fn request(at_ms: u64, flags: Flags, sector: u64, sectors: u32, process: u32) -> [TraceEvent; 3] {
    let at = |ms: u64, action, process| event(ms * MS, action, flags, sector, sectors, process);
    [
        at(at_ms, Action::Queue, process),
        at(at_ms + 1, Action::Issue, process),
        at(at_ms + 3, Action::Complete, 0),
    ]
}

fn graph(mut events: Vec<TraceEvent>, options: Options) -> IoGraph {
    events.sort_by_key(|event| event.time_ns);
    let mut analyzer = Analyzer::new(options);
    analyzer.push(&events, &info());
    analyzer.graph(&info())
}

#[test]
fn a_small_trace_by_hand() {
    let events = [
        request(0, READ, 1000, 8, 0),
        request(10, READ, 1008, 8, 0),
        request(20, META, 5000, 16, 1),
        request(30, WRITE, 5016, 8, 2),
        request(40, WRITE, 9000, 8, 3),
        request(50, FLUSH, 0, 0, 3),
    ]
    .concat();
    let graph = graph(events, Options::default());
    let totals = &graph.totals;
    assert_eq!((graph.start_ns, graph.duration_ns, graph.events), (0, 53 * MS, 18));
    assert_eq!((totals.reads, totals.read_bytes), (2, 8192));
    assert_eq!((totals.writes, totals.write_bytes), (3, 16384));
    assert_eq!((totals.flushes, totals.metadata_bytes, totals.journal_bytes), (1, 8192, 4096));
    assert_eq!(totals.seeks, 2, "to 5000 and to 9000");
    assert_eq!(totals.sequential_share, Some(2.0 / 5.0));
    assert_eq!(totals.queue_depth_max, 1);
    assert_eq!(totals.idle_ns, (53 - 12) * MS);
    assert_eq!(totals.queue_depth_mean, Some(12.0 / 53.0));
    let (d2c, q2c) = (totals.d2c_read.unwrap(), totals.q2c_read.unwrap());
    assert_eq!((d2c.count, d2c.max, d2c.mean), (2, 2 * MS, 2 * MS));
    assert_eq!((q2c.max, totals.d2c_flush.unwrap().max), (3 * MS, 2 * MS));
    let names: Vec<&str> = graph.processes.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["kworker/flush", "tar", "jbd2"]);
    let flusher = &graph.processes[0];
    assert_eq!((flusher.writes, flusher.write_bytes, flusher.metadata_bytes), (2, 12288, 8192));
    assert_eq!((flusher.seeks, graph.processes[2].seeks), (1, 1));
    let classes: Vec<(u64, u64)> =
        graph.classes.iter().map(|row| (row.requests, row.bytes)).collect();
    assert_eq!(classes, [(2, 8192), (0, 0), (1, 4096), (1, 8192), (1, 4096), (0, 0), (1, 0)]);
    let sizes: Vec<(u64, u64, u64)> =
        (graph.sizes.iter()).map(|size| (size.from_bytes, size.reads, size.writes)).collect();
    assert_eq!(sizes, [(4096, 2, 2), (8192, 0, 1)]);
}

#[test]
fn windows_that_part_the_time_add_up_to_the_whole() {
    let events: Vec<TraceEvent> = (0..200)
        .flat_map(|n| request(n * 7, if n % 3 == 0 { META } else { READ }, n * 977 % 5000, 8, 0))
        .collect();
    let spans = |spans: &[(u64, u64)]| PhaseSpans {
        phase: "p".to_owned(),
        spans: spans.iter().map(|(from, to)| (from * MS, to * MS)).collect(),
    };
    let windows = vec![spans(&[(0, 300), (500, 700)]), spans(&[(300, 500), (700, 100_000)])];
    let graph = graph(events, Options { windows, ..Options::default() });
    let sum = |of: fn(&fsdyno_model::io_graph::IoTotals) -> u64| -> u64 {
        graph.windows.iter().map(|window| of(&window.totals)).sum()
    };
    let whole = &graph.totals;
    assert_eq!(sum(|it| it.reads), whole.reads);
    assert_eq!(sum(|it| it.write_bytes), whole.write_bytes);
    assert_eq!(sum(|it| it.seeks), whole.seeks);
    assert_eq!(sum(|it| it.idle_ns), whole.idle_ns);
    assert!(graph.windows.iter().all(|window| window.totals.reads > 0));
}

#[test]
fn traces_without_issues_are_read_off_what_they_have() {
    let all: Vec<TraceEvent> =
        (0..20).flat_map(|n| request(n * 5, WRITE, n * 1000, 8, 0)).collect();
    for (actions, seeks) in [
        (vec![Action::Queue, Action::Complete], 19),
        (vec![Action::Complete], 19),
        (vec![Action::Queue], 19),
        (vec![Action::Plug], 0),
    ] {
        let is_kept = |event: &&TraceEvent| actions.contains(&event.action);
        let graph = graph(all.iter().filter(is_kept).copied().collect(), Options::default());
        assert_eq!(graph.totals.seeks, seeks, "{actions:?}");
        let has_completions = actions.contains(&Action::Complete);
        assert_eq!(graph.totals.writes, if has_completions { 20 } else { 0 });
        let latency = graph.totals.q2c_write.map(|summary| summary.max);
        assert_eq!(latency, (actions.len() == 2).then_some(3 * MS), "{actions:?}");
    }
}

#[test]
fn an_axis_that_is_given_is_kept() {
    let events: Vec<TraceEvent> =
        (0..20).flat_map(|n| request(n * 5, WRITE, n * 8, 8, 0)).collect();
    let options = Options { start_ns: Some(50 * MS), end_ns: Some(200 * MS), ..Options::default() };
    let graph = graph(events, options);
    assert_eq!((graph.start_ns, graph.duration_ns), (50 * MS, 150 * MS));
    assert_eq!(graph.totals.writes, 10);
    // Issued before the axis begins, and so at the device when it does.
    let bins = graph.series("queue_depth").unwrap().values.len();
    assert_eq!(bins as u64, 150 * MS / graph.bin_ns + 1);
    assert!(graph.warnings.is_empty(), "{:?}", graph.warnings);
}

#[test]
fn a_flush_that_seeks_is_told_in_words() {
    let mut events: Vec<TraceEvent> =
        (0..1000).flat_map(|n| request(n * 10, WRITE, n * 8, 8, 0)).collect();
    events.extend((0..400).flat_map(|n| request(5000 + n / 10, META, 1_000_000 + n * 5000, 8, 1)));
    let graph = graph(events, Options::default());
    let burst = graph.bursts.iter().find(|burst| burst.process == "kworker/flush").unwrap();
    assert_eq!(
        (burst.class, burst.requests, burst.bytes),
        (IoClass::WriteMetadata, 400, 400 * 4096)
    );
    assert!(burst.from_ns <= 5001 * MS && burst.to_ns >= 5040 * MS, "{burst:?}");
    assert!(burst.text.starts_with("at 5."), "{}", burst.text);
    let text = "s kworker/flush wrote 1.6 MB of metadata in 400 seeks";
    assert!(burst.text.contains(text), "{}", burst.text);
    // Steady work stands nowhere out.
    assert!(graph.bursts.iter().all(|burst| burst.process != "tar"), "{:?}", graph.bursts);
}

/// All that must be equal whatever came.
fn check_identities(graph: &IoGraph) {
    let totals = &graph.totals;
    let of = |class: IoClass| graph.classes[class as usize];
    let bytes = |classes: &[IoClass]| classes.iter().map(|class| of(*class).bytes).sum::<u64>();
    assert_eq!(bytes(&[IoClass::ReadData, IoClass::ReadMetadata]), totals.read_bytes);
    let writes = [IoClass::WriteData, IoClass::WriteMetadata, IoClass::WriteJournal];
    assert_eq!(bytes(&writes), totals.write_bytes);
    let cells: u64 = graph.heat.cells.iter().map(|cell| cell.bytes).sum();
    let discards: u64 = (graph.heat.cells.iter())
        .filter(|cell| cell.class == IoClass::Discard)
        .map(|cell| cell.bytes)
        .sum();
    let issued: u64 = graph.processes.iter().map(|row| row.read_bytes + row.write_bytes).sum();
    assert_eq!(cells - discards, issued);
    let seeks: u64 = graph.processes.iter().map(|row| row.seeks).sum();
    assert_eq!(seeks, totals.seeks);
    let count = graph.series[0].values.len();
    assert!(graph.series.iter().all(|series| series.values.len() == count));
    assert!(graph.heat.cells.iter().all(|cell| {
        cell.column < graph.heat.columns
            && cell.row < graph.heat.rows
            && usize::from(cell.process) < graph.heat.processes.len()
    }));
    let integral: f64 = (graph.series("read_bytes_per_s").unwrap().values.iter().enumerate())
        .map(|(bin, rate)| {
            let begin_ns = bin as u64 * graph.bin_ns;
            let held_ns = graph.duration_ns.saturating_sub(begin_ns).min(graph.bin_ns);
            // A rate is over half a bin at least.
            let length_ns = held_ns.max(graph.bin_ns / 2);
            rate.unwrap() * length_ns as f64 / 1e9
        })
        .sum();
    let off = (integral - totals.read_bytes as f64).abs();
    assert!(off <= totals.read_bytes as f64 * 1e-9 + 1e-3, "{integral} {}", totals.read_bytes);
}

#[test]
fn a_long_trace_keeps_its_sums_and_its_bounds() {
    let options = Options { bins_max: 100, cells_max: 500, ..Options::default() };
    let mut analyzer = Analyzer::new(options);
    for part in 0..200u64 {
        let events: Vec<TraceEvent> = (0..50)
            .flat_map(|n| {
                let at = part * 1000 + n * 17;
                request(at, READ, (at * 7919) % (1 << 30), 8, (n % 4) as u32)
            })
            .collect();
        let mut events = events;
        events.sort_by_key(|event| event.time_ns);
        analyzer.push(&events, &info());
    }
    let graph = analyzer.graph(&info());
    check_identities(&graph);
    assert_eq!(graph.totals.reads, 200 * 50);
    assert!(graph.heat.cells.len() <= 500 && graph.series[0].values.len() <= 100);
    assert_eq!(graph, analyzer.graph(&info()), "asking twice gives the same");
}

prop_compose! {
    fn any_event()(
        time_ns in prop_oneof![0..1u64 << 34, any::<u64>()],
        sector in prop_oneof![0..5000u64, any::<u64>()],
        sectors in prop_oneof![0..64u32, any::<u32>()],
        process in prop_oneof![0..6u32, any::<u32>()],
        flags in 0..256u16,
        device in 0..100u32,
        action in 0..5usize,
    ) -> TraceEvent {
        let actions =
            [Action::Queue, Action::Issue, Action::Complete, Action::Requeue, Action::Plug];
        TraceEvent {
            time_ns, sector, sectors, process, device,
            flags: Flags(flags), action: actions[action],
        }
    }
}

proptest! {
    #[test]
    fn anything_is_drawn(
        events in proptest::collection::vec(any_event(), 0..200),
        start_ns in proptest::option::of(0..1u64 << 34),
        end_ns in proptest::option::of(any::<u64>()),
        cells_max in 0..100u32,
    ) {
        let spans = vec![(5, 1 << 33), (1 << 32, u64::MAX)];
        let windows = vec![PhaseSpans { phase: "all".to_owned(), spans }];
        let options = Options { windows, start_ns, end_ns, cells_max, ..Options::default() };
        let mut analyzer = Analyzer::new(options);
        for events in events.chunks(7) {
            analyzer.push(events, &info());
        }
        check_identities(&analyzer.graph(&info()));
    }
}
