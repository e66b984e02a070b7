//! The words and tables of a page, ready for its templates: the question, the table of each workload,
//! figures beside charts for those who do not see them. How they look is left to the templates.

use fsdyno_model::io_graph::{IoGraph, LatencySummary};
use fsdyno_model::metric::Better;
use fsdyno_model::place::Clock;
use fsdyno_model::report_data::{Ratio, ReportData, TrialTimeline};
use fsdyno_model::result::RunResult;
use fsdyno_model::units;
use fsdyno_model::words::listed;
use fsdyno_model::workload::WorkloadSpec;

use super::chart::{self, RatioRow};
use super::{figures, timeline};
use crate::grid::{Grid, IntervalStyle, Mark};
use crate::io_picture::words::decimal_bytes;
use crate::note;

/// A table: head, rows with a head each.
pub struct Table {
    /// What it shows, in words.
    pub caption: String,
    /// Heads of the columns, that of the row heads first.
    pub head: Vec<String>,
    /// Rows: their head and their cells.
    pub rows: Vec<(String, Vec<String>)>,
}

/// A cell of the table of a workload.
pub struct ValueCell {
    /// The median; empty where nothing completed.
    pub value: String,
    /// The interval; may be empty.
    pub interval: String,
    /// Tie letters; may be empty.
    pub letters: String,
    /// `best`, `tied` or empty.
    pub class: &'static str,
    /// What a screen reader says of the mark.
    pub said: &'static str,
}

/// A row of the table of a workload.
pub struct ValueRow {
    pub name: String,
    pub unit: String,
    /// `higher is better`, for screen readers and the arrow.
    pub arrow: &'static str,
    pub direction: &'static str,
    pub cells: Vec<ValueCell>,
}

/// A table of a workload.
pub struct ValueTable {
    pub head: String,
    pub caption: String,
    pub rows: Vec<ValueRow>,
}

/// One workload of the page.
pub struct WorkloadView {
    pub index: usize,
    pub label: String,
    pub heading: String,
    pub verdict: Option<String>,
    pub tables: Vec<ValueTable>,
    pub legend: String,
    pub notes: Vec<String>,
    pub has_phase_ratios: bool,
    pub ratios: Option<Table>,
    /// How to read the chart of ratios.
    pub ratio_hint: String,
    pub has_curves: bool,
    pub durable: Option<Table>,
    pub cpu: Option<Table>,
    /// Phases with one sample in each trial.
    pub trials: Option<Table>,
    /// Phases with several.
    pub samples: Option<Table>,
    pub latency: Option<Table>,
    pub graphs: Vec<GraphView>,
}

/// One trial over time.
pub struct GraphView {
    /// Its index in the manifest.
    pub index: usize,
    pub target: String,
    pub subtitle: String,
    /// Bursts with the phase of each.
    pub bursts: Vec<(String, String)>,
    pub warnings: Vec<String>,
    pub totals: Option<Table>,
}

/// `Which is fastest for compilebench: ext4, xfs or btrfs?`
pub fn question(result: &RunResult) -> String {
    let workloads: Vec<&str> = result.workloads.iter().map(|it| it.label.as_str()).collect();
    // The rungs of a ladder are one workload.
    let mut names: Vec<&str> = Vec::new();
    for name in workloads.iter().map(|it| it.rsplit_once(" rung ").map_or(*it, |(name, _)| name)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let work = match names.len() {
        0 => "nothing".to_owned(),
        1..=3 => listed(&names),
        count => format!("{count} workloads"),
    };
    let targets: Vec<&str> = result.targets.iter().map(|it| it.label.as_str()).collect();
    match targets.as_slice() {
        [] => format!("How fast is {work}?"),
        [only] => format!("How fast is {only} at {work}?"),
        [one, other] => format!("Which is faster for {work}: {one} or {other}?"),
        [first @ .., last] if targets.len() <= 6 => {
            format!("Which is fastest for {work}: {} or {last}?", first.join(", "))
        }
        all => format!("Which of {} targets is fastest for {work}?", all.len()),
    }
}

/// The workloads of the page; those of which nothing was begun are left to the outcomes.
pub fn workloads(data: &ReportData, top: bool) -> Vec<WorkloadView> {
    let left_out = note::left_out(&data.result);
    let shown = |spec: &&WorkloadSpec| !left_out.iter().any(|it| it.holds(&spec.label));
    let specs = data.result.workloads.iter().filter(shown).enumerate();
    specs.map(|(index, spec)| workload(data, index, spec, top)).collect()
}

fn workload(data: &ReportData, index: usize, spec: &WorkloadSpec, top: bool) -> WorkloadView {
    let result = &data.result;
    let label = spec.label.as_str();
    let main = Grid::with_power_cuts(result, label);
    let explaining = Grid::explaining(result, label);
    let heading = note::heading(result, spec);
    let tables = std::iter::once(&main).chain(&explaining).filter(|grid| !grid.rows.is_empty());
    let rows = chart::ratio_rows(data, label, "all phases", true);
    let own = chart::workload(data, label);
    let has = |name: &str| own[name].as_array().is_some_and(|it| !it.is_empty());
    let verdict = result.verdicts.iter().find(|it| it.workload == label);
    let several = result.verdicts.len() > 1;
    WorkloadView {
        index,
        label: label.to_owned(),
        verdict: verdict.filter(|_| several).map(|it| note::audited(result, it)),
        tables: tables.map(|grid| value_table(grid, &heading)).collect(),
        legend: legend(result, &main),
        notes: (note::from_memory(result, label).into_iter())
            .chain(note::incomplete(result, label))
            .chain((main.rows.is_empty()).then(|| "No trial completed.".to_owned()))
            .collect(),
        has_phase_ratios: !top && rows.len() > 1,
        ratios: (!top && rows.len() > 1).then(|| ratio_table(result, &rows)),
        ratio_hint: ratio_hint(result, &rows),
        has_curves: has("curves"),
        durable: figures::durable(result, &own["durable"]),
        cpu: figures::cpu(result, &own["cpu"]),
        trials: figures::trials(result, &chart::by_trial(result, label)),
        samples: figures::samples(result, &chart::within_trials(result, label)),
        latency: latency(data, label),
        graphs: (data.timelines.iter().enumerate())
            .filter(|(_, it)| it.workload == label)
            .map(|(index, timeline)| graph(index, timeline))
            .collect(),
        heading,
    }
}

fn value_table(grid: &Grid, heading: &str) -> ValueTable {
    let rows = grid.rows.iter().map(|row| {
        let cells = row.cells.iter().map(|cell| {
            let Some(cell) = cell else {
                let said = row.absent;
                let (interval, letters) = (String::new(), String::new());
                return ValueCell { value: "–".into(), interval, letters, class: "", said };
            };
            let (class, said) = match cell.mark {
                Mark::Best => ("best", "best of the row"),
                Mark::Tied => ("tied", "not told apart from the best"),
                Mark::None => ("", ""),
            };
            let interval = cell.interval(IntervalStyle::Full).to_owned();
            let letters = cell.letters.clone();
            ValueCell { value: cell.value.clone(), interval, letters, class, said }
        });
        let (arrow, direction) = match row.better {
            Some(Better::Higher) => ("↑", "higher is better"),
            Some(Better::Lower) => ("↓", "lower is better"),
            None => ("", ""),
        };
        ValueRow {
            name: row.name.clone(),
            unit: row.unit.clone(),
            arrow,
            direction,
            cells: cells.collect(),
        }
    });
    let caption = match grid.head.strip_prefix("why: ") {
        Some(phase) => format!("{heading}: what explains it ({phase})"),
        None => format!("{heading}: median of the trials by phase and target"),
    };
    ValueTable { head: grid.head.clone(), caption, rows: rows.collect() }
}

fn legend(result: &RunResult, grid: &Grid) -> String {
    let mut sentences = Vec::new();
    let (least, most) = grid.n_range().unwrap_or((0, 0));
    let is_exact = result.run.environment.measured.clock == Clock::Virtual && most == 1;
    if result.targets.len() > 1 && is_exact {
        sentences.push("● best of its row.".to_owned());
    } else if result.targets.len() > 1 && most > 1 {
        sentences.push("● best of its row, ○ not told apart from the best (paired by trial, at 5 % for the row).".to_owned());
    } else if result.targets.len() > 1 && most == 1 {
        sentences
            .push("● best of its row by a single trial, which tells nothing apart.".to_owned());
    }
    sentences.push(match (least, most) {
        (_, 0) => String::new(),
        (_, 1) if is_exact => note::EXACT.to_owned(),
        (_, 1) => "One trial each, so there are no intervals.".to_owned(),
        (least, most) if least == most => format!("Median of {most} trials [95 % interval]."),
        _ => format!("Median of {least} to {most} trials [95 % interval]."),
    });
    if grid.has_letters() {
        sentences.push(note::LETTERS.to_owned());
    }
    if grid.is_uncertain() {
        sentences.push(note::UNCERTAIN.to_owned());
    }
    sentences.retain(|sentence| !sentence.is_empty());
    sentences.join(" ")
}

/// The figures of a chart of ratios.
pub fn ratio_table(result: &RunResult, rows: &[RatioRow]) -> Table {
    let first = result.targets.first().map_or("", |it| it.label.as_str());
    let others = result.targets.iter().skip(1).map(|it| it.label.clone());
    let cell = |ratio: &Option<Ratio>| match ratio {
        None => "–".to_owned(),
        Some(Ratio { ratio, low: Some(low), high: Some(high) }) => {
            format!("{ratio:.2} [{low:.2}–{high:.2}]")
        }
        Some(ratio) => format!("{:.2}", ratio.ratio),
    };
    Table {
        caption: format!("How many times as good as {first} [95 % interval]"),
        head: std::iter::once("phase".to_owned()).chain(others).collect(),
        rows: rows
            .iter()
            .map(|row| (row.name.clone(), row.ratios.iter().map(cell).collect()))
            .collect(),
    }
}

/// How to read a chart of ratios.
pub fn ratio_hint(result: &RunResult, rows: &[RatioRow]) -> String {
    let first = result.targets.first().map_or("", |it| it.label.as_str());
    let mut hint = format!(
        "How many times as good as {first}: right of the line is better. Point: geometric mean of the trials; line: 95 % interval."
    );
    if rows.iter().any(|row| row.name == "fsck") {
        hint.push_str(" fsck is shown, but is no part of the mean over all phases.");
    }
    hint
}

/// Percentiles that a table of latencies shows.
const PERCENTILES: [(f64, &str); 5] =
    [(50.0, "50 %"), (90.0, "90 %"), (99.0, "99 %"), (99.9, "99.9 %"), (100.0, "slowest")];

fn latency(data: &ReportData, workload: &str) -> Option<Table> {
    let own: Vec<_> = data.curves.iter().filter(|it| it.workload == workload).collect();
    let rows: Vec<(String, Vec<String>)> = (own.iter())
        .map(|curve| {
            let at = |percentile: f64| {
                let point = curve.points.iter().find(|(known, _)| *known >= percentile - 1e-9);
                point.map_or("–".to_owned(), |(_, ns)| units::human_duration(*ns))
            };
            let mut cells = vec![curve.count.to_string()];
            cells.extend(PERCENTILES.map(|(percentile, _)| at(percentile)));
            (format!("{}, {}, {}", curve.phase, curve.operation, curve.target), cells)
        })
        .collect();
    let mut head = vec!["phase, operation, target".to_owned(), "operations".to_owned()];
    head.extend(PERCENTILES.map(|(_, name)| name.to_owned()));
    let caption = "Latency by percentile, all measured trials".to_owned();
    (!rows.is_empty()).then_some(Table { caption, head, rows })
}

/// What stands beside the picture of one trial.
pub fn graph(index: usize, timeline: &TrialTimeline) -> GraphView {
    let graph = timeline.graph.as_ref();
    GraphView {
        index,
        target: match timeline.target.as_str() {
            "" => graph.map_or_else(String::new, |graph| graph.label.clone()),
            target => target.to_owned(),
        },
        subtitle: subtitle(timeline),
        bursts: (graph.iter().flat_map(|it| &it.bursts))
            .zip(timeline::burst_phases(timeline))
            .map(|(burst, phase)| match phase {
                Some(phase) => (phase, burst.text.clone()),
                None if timeline::has_phases(timeline) => {
                    ("between phases".to_owned(), burst.text.clone())
                }
                None => (String::new(), burst.text.clone()),
            })
            .collect(),
        warnings: graph.iter().flat_map(|it| it.warnings.clone()).collect(),
        totals: graph.map(totals),
    }
}

/// `trial 3, traced: 1.02 × the time of the untraced · 10,000,000 events, none lost`
fn subtitle(timeline: &TrialTimeline) -> String {
    let mut parts = Vec::new();
    if timeline.trial > 0 {
        let traced = if timeline.graph.is_some() { ", traced" } else { ", not traced" };
        parts.push(format!("trial {}{traced}", timeline.trial));
    }
    if let Some(slowdown) = timeline.slowdown {
        parts.push(format!("{slowdown:.2} × the time of the untraced trials"));
    }
    if let Some(graph) = &timeline.graph {
        let lost = match graph.lost_events {
            0 => "none lost".to_owned(),
            lost => format!("{} lost", grouped(lost)),
        };
        parts.push(format!("{} events, {lost}", grouped(graph.events)));
    }
    parts.join(" · ")
}

/// What happened on the device, phase by phase.
fn totals(graph: &IoGraph) -> Table {
    let time = |summary: &Option<LatencySummary>, read: fn(&LatencySummary) -> u64| {
        summary.as_ref().map_or("–".to_owned(), |it| units::human_duration(read(it)))
    };
    let cells = |it: &fsdyno_model::io_graph::IoTotals| {
        vec![
            decimal_bytes(it.read_bytes),
            decimal_bytes(it.write_bytes),
            decimal_bytes(it.metadata_bytes),
            decimal_bytes(it.journal_bytes),
            grouped(it.reads + it.writes),
            grouped(it.seeks),
            it.sequential_share.map_or("–".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            grouped(it.flushes),
            time(&it.d2c_read, |it| it.p50),
            time(&it.d2c_write, |it| it.p50),
            time(&it.d2c_write, |it| it.p99),
            units::human_duration(it.idle_ns),
        ]
    };
    let mut rows: Vec<(String, Vec<String>)> =
        graph.windows.iter().map(|window| (window.name.clone(), cells(&window.totals))).collect();
    rows.push(("whole trace".to_owned(), cells(&graph.totals)));
    let head = [
        "phase",
        "read",
        "written",
        "metadata",
        "journal",
        "requests",
        "seeks",
        "sequential",
        "flushes",
        "read p50",
        "write p50",
        "write p99",
        "idle",
    ];
    Table {
        caption: format!("What the device did: {}", graph.label),
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}

/// `1,912`
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
