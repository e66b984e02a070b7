//! How many events a second all trace passes take, on one core, and how much memory: `trace_speed EVENTS`.

use std::time::Instant;

use fsdyno_analysis::trace::{Analyzer, Options};
use fsdyno_model::trace::{Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess};

/// Events that are made before the clock starts, and then taken again and again, later each time.
const ROUND: usize = 300_000;

fn main() {
    let wanted: u64 =
        std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(10_000_000);
    let info = info();
    let mut events = round();
    let length_ns = events[events.len() - 1].time_ns + 1000;
    let mut analyzer = Analyzer::new(Options::default());
    let mut done = 0;
    let mut elapsed_s = 0.0;
    while done < wanted {
        let start = Instant::now();
        for batch in events.chunks(8192) {
            analyzer.push(batch, &info);
        }
        elapsed_s += start.elapsed().as_secs_f64();
        done += events.len() as u64;
        events.iter_mut().for_each(|event| event.time_ns += length_ns);
    }
    let start = Instant::now();
    let graph = analyzer.graph(&info);
    let graph_ms = start.elapsed().as_secs_f64() * 1e3;
    println!(
        "{{\"events\":{done},\"events_per_s\":{:.0},\"graph_ms\":{graph_ms:.1},\"cells\":{},\"peak_rss_kib\":{}}}",
        done as f64 / elapsed_s,
        graph.heat.cells.len(),
        peak_rss_kib()
    );
}

fn info() -> TraceInfo {
    let names = ["tar", "kworker/u4:1-flush-7:0", "jbd2/loop0-8", "kworker/0:1H-kblockd"];
    let process = |(pid, name): (u32, &str)| TraceProcess { pid, name: name.to_owned() };
    TraceInfo {
        devices: vec![TraceDevice {
            number: 7 << 20,
            name: "loop0".to_owned(),
            sectors: Some(1 << 24),
        }],
        processes: (10..).zip(names).map(process).collect(),
        ..TraceInfo::default()
    }
}

/// Requests of four processes, up to 32 at the device, partly sequential, partly all over it.
fn round() -> Vec<TraceEvent> {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut events = Vec::with_capacity(ROUND);
    let mut next = [0u64, 1 << 20, 1 << 21, 1 << 22];
    for index in 0..(ROUND / 3) as u64 {
        let process = random(4) as usize;
        if random(4) == 0 {
            next[process] = random(1 << 24);
        }
        let sectors = 8 << random(5);
        let sector = next[process];
        next[process] = (sector + sectors) % (1 << 24);
        let flags = Flags([1, 33, 17, 0][process]);
        let begin_ns = index * 3300;
        let latency_ns = 20_000 + random(80_000);
        let event = |time_ns, action| TraceEvent {
            time_ns,
            sector,
            sectors: sectors as u32,
            device: 7 << 20,
            process: process as u32,
            flags,
            action,
        };
        events.push(event(begin_ns, Action::Queue));
        events.push(event(begin_ns + 900, Action::Issue));
        events.push(event(begin_ns + 900 + latency_ns, Action::Complete));
    }
    events.sort_by_key(|event| event.time_ns);
    events
}

fn peak_rss_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
