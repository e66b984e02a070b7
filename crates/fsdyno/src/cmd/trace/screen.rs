//! One picture of the live view: offsets over time in braille, figures over time, who issues how much.

use std::time::Duration;

use fsdyno_model::io_graph::{IoClass, IoGraph, IoTotals};
use fsdyno_model::trace::SECTOR_BYTES;
use fsdyno_model::units::{human_duration, significant};
use fsdyno_report::io_picture::words::{decimal_bytes, grouped, sampled, sparkline};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::canvas::{Canvas, Points};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

/// Columns of the table of processes.
const PROCESSES: u16 = 46;
/// Columns beside a small chart: its name and its figure.
const BESIDE: usize = 36;

/// What is shown.
#[derive(Debug)]
pub struct Shown<'a> {
    pub label: &'a str,
    pub elapsed: Duration,
    pub graph: &'a IoGraph,
    pub now: Now,
}

/// Figures since the last picture, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Now {
    read_bytes: f64,
    write_bytes: f64,
    requests: f64,
    seeks: f64,
}

impl Now {
    /// From totals at two moments.
    pub fn between(before: &IoTotals, after: &IoTotals, time: Duration) -> Now {
        let seconds = time.as_secs_f64().max(1e-3);
        let rate =
            |read: fn(&IoTotals) -> u64| read(after).saturating_sub(read(before)) as f64 / seconds;
        Now {
            read_bytes: rate(|totals| totals.read_bytes),
            write_bytes: rate(|totals| totals.write_bytes),
            requests: rate(|totals| totals.reads + totals.writes + totals.discards),
            seeks: rate(|totals| totals.seeks),
        }
    }
}

/// Draws it all.
pub fn draw(frame: &mut Frame<'_>, shown: &Shown<'_>) {
    let rows = [Constraint::Length(1), Constraint::Min(4), Constraint::Length(7)];
    let [head, middle, charts] = Layout::vertical(rows).areas(frame.area());
    draw_head(frame, head, shown);
    if middle.width > PROCESSES * 2 {
        let columns = [Constraint::Min(20), Constraint::Length(PROCESSES)];
        let [map, processes] = Layout::horizontal(columns).areas(middle);
        draw_map(frame, map, shown.graph);
        draw_processes(frame, processes, shown.graph);
    } else {
        draw_map(frame, middle, shown.graph);
    }
    draw_charts(frame, charts, shown);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, shown: &Shown<'_>) {
    let graph = shown.graph;
    let mut spans = vec![
        Span::from(format!(" {} ", shown.label)).bold(),
        Span::from(format!(
            "{} · {} events · {} read · {} written · ",
            whole_seconds(shown.elapsed),
            grouped(graph.events),
            decimal_bytes(graph.totals.read_bytes),
            decimal_bytes(graph.totals.write_bytes),
        )),
    ];
    if graph.lost_events > 0 {
        spans.push(Span::from(format!("{} lost · ", grouped(graph.lost_events))).red());
    }
    spans.push(Span::from("q ends").dim());
    frame.render_widget(Line::from(spans), area);
}

/// Tenths would only flicker.
fn whole_seconds(time: Duration) -> String {
    let text = human_duration(time.as_secs().max(1) * 1_000_000_000);
    text.replace(".00 s", " s").replace(".0 s", " s")
}

/// Colours that terminals of 16 colours have too, apart for every kind of colour vision.
fn color(class: IoClass) -> Color {
    match class {
        IoClass::ReadData => Color::Blue,
        IoClass::ReadMetadata => Color::Cyan,
        IoClass::WriteData => Color::Red,
        IoClass::WriteMetadata => Color::Yellow,
        IoClass::WriteJournal => Color::Magenta,
        IoClass::Discard => Color::DarkGray,
        IoClass::Flush => Color::Green,
    }
}

fn draw_map(frame: &mut Frame<'_>, area: Rect, graph: &IoGraph) {
    let heat = &graph.heat;
    let touched = heat.cells.iter().map(|cell| cell.row + 1).max().unwrap_or(1);
    let bytes = u64::from(touched).saturating_mul(heat.row_sectors).saturating_mul(SECTOR_BYTES);
    let mut title = vec![Span::from(format!(" offset 0 to {} ", decimal_bytes(bytes)))];
    for class in IoClass::ALL {
        if heat.cells.iter().any(|cell| cell.class == class) {
            title.push(Span::styled("■ ", Style::new().fg(color(class))));
            title.push(Span::from(format!("{} ", class.title())));
        }
    }
    let columns = (graph.duration_ns as f64 / heat.column_ns.max(1) as f64).max(1.0);
    // The rarest last: braille has one colour for eight points.
    let mut classes: Vec<(IoClass, Vec<(f64, f64)>)> = IoClass::ALL
        .into_iter()
        .map(|class| {
            let cells = heat.cells.iter().filter(|cell| cell.class == class);
            let point = |column: u32, row: u32| (f64::from(column), f64::from(row));
            (class, cells.map(|cell| point(cell.column, cell.row)).collect())
        })
        .collect();
    classes.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
    let canvas = Canvas::default()
        .block(Block::bordered().title(Line::from(title)))
        .marker(Marker::Braille)
        .x_bounds([0.0, columns])
        .y_bounds([0.0, f64::from(touched)])
        .paint(|context| {
            for (class, points) in &classes {
                context.draw(&Points { coords: points, color: color(*class) });
                context.layer();
            }
        });
    frame.render_widget(canvas, area);
}

fn draw_processes(frame: &mut Frame<'_>, area: Rect, graph: &IoGraph) {
    let head = Row::new(["", "read", "written", "seeks"]).dim();
    let rows = graph.processes.iter().take(usize::from(area.height)).map(|process| {
        Row::new([
            Cell::from(process.name.clone()),
            Cell::from(Line::from(decimal_bytes(process.read_bytes)).right_aligned()),
            Cell::from(Line::from(decimal_bytes(process.write_bytes)).right_aligned()),
            Cell::from(Line::from(grouped(process.seeks)).right_aligned()),
        ])
    });
    let widths =
        [Constraint::Min(14), Constraint::Length(9), Constraint::Length(9), Constraint::Length(8)];
    let table =
        Table::new(rows, widths).header(head).block(Block::bordered().title(" who issued it "));
    frame.render_widget(table, area);
}

/// One small chart.
struct Chart {
    title: &'static str,
    names: &'static [&'static str],
    color: Color,
    /// The figure of this moment; the last one of the series where that is as good.
    current: Option<f64>,
    is_bytes: bool,
}

fn draw_charts(frame: &mut Frame<'_>, area: Rect, shown: &Shown<'_>) {
    let (graph, now) = (shown.graph, &shown.now);
    let block = Block::bordered().title(" since the start: now and highest at the right ");
    let inside = block.inner(area);
    let width = usize::from(inside.width).saturating_sub(BESIDE);
    let chart =
        |title, names, color, current, is_bytes| Chart { title, names, color, current, is_bytes };
    let charts = [
        chart("reads", &["read_bytes_per_s"][..], Color::Blue, Some(now.read_bytes), true),
        chart("writes", &["write_bytes_per_s"], Color::Red, Some(now.write_bytes), true),
        chart("IOPS", &["read_iops", "write_iops"], Color::Green, Some(now.requests), false),
        chart("seeks/s", &["seeks_per_s"], Color::Yellow, Some(now.seeks), false),
        chart("queue depth", &["queue_depth"], Color::Magenta, None, false),
    ];
    let lines = charts.map(|Chart { title, names, color, current, is_bytes }| {
        let values = sampled(graph, names, width);
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        let last = values.iter().rev().flatten().next().copied().unwrap_or(0.0);
        let figure = |value: f64| {
            if is_bytes { format!("{}/s", decimal_bytes(value as u64)) } else { significant(value) }
        };
        let (current, peak) = (figure(current.unwrap_or(last)), figure(most));
        let chart = sparkline(&values, most);
        Line::from(vec![
            Span::from(format!("{title:<12}")),
            Span::styled(format!("{chart:<width$}"), Style::new().fg(color)),
            Span::from(format!("{current:>12}")).bold(),
            Span::from(format!("{peak:>12}")).dim(),
        ])
    });
    frame.render_widget(Paragraph::new(lines.to_vec()).block(block), area);
}

#[cfg(test)]
mod tests {
    use fsdyno_model::io_graph::{HeatCell, HeatMap, IoSeries, ProcessIo};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn graph() -> IoGraph {
        let cell = |column, class| HeatCell {
            column,
            row: column,
            class,
            process: 0,
            requests: 1,
            bytes: 4096,
        };
        IoGraph {
            duration_ns: 10_000,
            bin_ns: 1_000,
            events: 12_345,
            totals: IoTotals { read_bytes: 1_500_000, ..IoTotals::default() },
            series: vec![IoSeries {
                name: "read_bytes_per_s".to_owned(),
                title: "Reads".to_owned(),
                unit: "B/s".to_owned(),
                values: (0..10).map(|value| Some(f64::from(value) * 1e6)).collect(),
            }],
            heat: HeatMap {
                column_ns: 1_000,
                columns: 10,
                row_sectors: 2048,
                rows: 10,
                processes: Vec::new(),
                cells: (0..10)
                    .map(|c| cell(c, if c < 5 { IoClass::ReadData } else { IoClass::WriteData }))
                    .collect(),
            },
            processes: vec![ProcessIo {
                name: "kworker/flush".to_owned(),
                write_bytes: 7_000_000,
                ..ProcessIo::default()
            }],
            ..IoGraph::default()
        }
    }

    fn drawn(width: u16, height: u16) -> (String, Vec<Color>) {
        let graph = graph();
        let before = IoTotals::default();
        let now = Now::between(&before, &graph.totals, Duration::from_millis(500));
        let elapsed = Duration::from_secs(12);
        let shown = Shown { label: "dd on loop0", elapsed, graph: &graph, now };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &shown)).unwrap();
        let buffer = terminal.backend().buffer();
        let braille = |symbol: &str| symbol.chars().all(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
        let marks = buffer.content().iter().filter(|cell| braille(cell.symbol()));
        let colors = marks.map(|cell| cell.fg).collect();
        let text: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        (text.concat(), colors)
    }

    #[test]
    fn everything_is_on_the_screen() {
        let (text, colors) = drawn(140, 30);
        for words in [
            "dd on loop0",
            "12 s · 12,345 events · 1.50 MB read",
            "offset 0 to 10.5 MB",
            "■ read data ■ write data",
            "kworker/flush",
            "7.00 MB",
            "3.00 MB/s",
            "9.00 MB/s",
            "q ends",
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        assert!(colors.contains(&Color::Blue) && colors.contains(&Color::Red), "{colors:?}");
    }

    #[test]
    fn small_terminals_are_enough() {
        for (width, height) in [(80, 24), (40, 12), (10, 4), (1, 1)] {
            drawn(width, height);
        }
        assert!(drawn(80, 24).0.contains("queue depth"));
    }
}
