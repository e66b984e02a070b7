#![no_main]
//! Trace passes over events of any kind: times that go back, sectors beyond any device, processes and
//! devices that nobody named. Nothing panics, and what is drawn stays within the bounds that were asked for.

use fsdyno_analysis::trace::{Analyzer, Options};
use fsdyno_model::report_data::PhaseSpans;
use fsdyno_model::trace::{Action, Flags, TraceEvent, TraceInfo, TraceProcess};
use libfuzzer_sys::fuzz_target;

/// Bytes that make an event.
const EVENT_BYTES: usize = 20;

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The last byte shifts the time, so that short inputs reach far.
fn event(bytes: &[u8]) -> TraceEvent {
    let actions = [Action::Queue, Action::Issue, Action::Complete, Action::Requeue, Action::Plug];
    TraceEvent {
        time_ns: number(&bytes[0..4]) << (bytes[19] % 33),
        sector: number(&bytes[4..10]) << (bytes[18] % 17),
        sectors: number(&bytes[10..13]) as u32,
        device: u32::from(bytes[13]),
        process: number(&bytes[14..16]) as u32,
        flags: Flags(u16::from(bytes[16])),
        action: actions[usize::from(bytes[17]) % actions.len()],
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((head, rest)) = bytes.split_at_checked(EVENT_BYTES) else { return };
    let time = |at: usize| number(&head[at..at + 4]) << (head[18] % 33);
    let windows = vec![
        PhaseSpans { phase: "one".to_owned(), spans: vec![(time(0), time(4)), (time(2), time(6))] },
        PhaseSpans { phase: "two".to_owned(), spans: vec![(time(4), u64::MAX)] },
    ];
    let (bins_max, cells_max) = (u32::from(head[16]) + 2, u32::from(head[17]));
    let options = Options {
        label: String::new(),
        windows,
        start_ns: (head[19] & 1 > 0).then(|| time(8)),
        end_ns: (head[19] & 2 > 0).then(|| time(12)),
        bins_max,
        cells_max,
    };
    let names = ["tar", "kworker/u4:1-flush-7:0", "jbd2/loop0-8"];
    let process = |(pid, name): (u32, &str)| TraceProcess { pid, name: name.to_owned() };
    let info =
        TraceInfo { processes: (1..).zip(names).map(process).collect(), ..TraceInfo::default() };
    let mut analyzer = Analyzer::new(options);
    for batch in rest.chunks(64 * EVENT_BYTES) {
        let events: Vec<TraceEvent> = batch.chunks_exact(EVENT_BYTES).map(event).collect();
        analyzer.push(&events, &info);
    }
    let graph = analyzer.graph(&info);
    assert!(graph == analyzer.graph(&info), "asking twice gives the same");
    let bins_max = (bins_max as usize).next_multiple_of(2);
    for series in &graph.series {
        assert!(series.values.len() <= bins_max, "{} bins", series.values.len());
        assert!(series.values.iter().flatten().all(|value| value.is_finite() && *value >= 0.0));
    }
    for cell in &graph.heat.cells {
        assert!(cell.column < graph.heat.columns && cell.row < graph.heat.rows);
        assert!(usize::from(cell.process) < graph.heat.processes.len());
    }
});
