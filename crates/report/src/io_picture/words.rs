//! A trace as text for a terminal: totals, latency, small charts of characters, who issued what, what
//! it was for, and bursts in words.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use fsdyno_model::io_graph::{IoGraph, LatencySummary};
use fsdyno_model::trace::SECTOR_BYTES;
use fsdyno_model::units::{human_duration, significant};

use super::axis;
use crate::text;

/// How the text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to use escape sequences for bold and colour.
    pub color: bool,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
    /// Whether figures over time are drawn with characters, which needs `unicode`.
    pub charts: bool,
}

const BOLD: Style = Style::new().bold();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Most processes and bursts that are listed.
const ROWS: usize = 8;
/// From empty to full.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `1234567` as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in decimal units, three significant digits: `1.20 GB`.
#[must_use]
pub fn decimal_bytes(bytes: u64) -> String {
    let scale = axis::bytes(bytes as f64 * 1.0005);
    if scale.factor <= 1.0 {
        return format!("{bytes} B");
    }
    format!("{} {}", significant(bytes as f64 / scale.factor), scale.unit)
}

/// The summary of one trace, with a newline at the end.
#[must_use]
pub fn summary(graph: &IoGraph, options: &TextOptions) -> String {
    let page = Page { graph, options };
    let mut sections = vec![page.head(), page.totals(), page.facts()];
    if options.charts && options.unicode {
        sections.push(page.charts());
    }
    sections.extend([page.processes(), page.classes(), page.bursts(), page.warnings()]);
    sections.retain(|section| !section.is_empty());
    text::plain(&sections.join("\n"), options.unicode)
}

struct Page<'a> {
    graph: &'a IoGraph,
    options: &'a TextOptions,
}

impl Page<'_> {
    fn head(&self) -> String {
        let graph = self.graph;
        let sizes: Vec<String> = graph
            .devices
            .iter()
            .map(|device| match device.sectors {
                Some(count) => {
                    format!(
                        "{} of {}",
                        device.name,
                        decimal_bytes(count.saturating_mul(SECTOR_BYTES))
                    )
                }
                None => device.name.clone(),
            })
            .collect();
        let devices = match sizes.len() {
            0..=3 => sizes.join(", "),
            count => format!("{count} devices"),
        };
        let parts = [
            devices,
            format!("{} traced", human_duration(graph.duration_ns)),
            format!("{} events", grouped(graph.events)),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let label = text::cut(&graph.label, self.options.width, self.options.unicode);
        let label = text::styled(&label, BOLD, self.options.color);
        format!("{label}\n{}\n", self.wrapped(&parts.join(" · "), "  "))
    }

    fn totals(&self) -> String {
        let totals = &self.graph.totals;
        let seconds = (self.graph.duration_ns as f64 / 1e9).max(1e-9);
        let mut rows = vec![
            ["".to_owned(), "requests".to_owned(), "bytes".to_owned()].to_vec(),
            ["reads".to_owned(), grouped(totals.reads), decimal_bytes(totals.read_bytes)].to_vec(),
            ["writes".to_owned(), grouped(totals.writes), decimal_bytes(totals.write_bytes)]
                .to_vec(),
        ];
        rows[0].extend(["per second", "median", "p99", "longest"].map(str::to_owned));
        let figures =
            [(totals.read_bytes, &totals.d2c_read), (totals.write_bytes, &totals.d2c_write)];
        for (row, (bytes, latency)) in rows[1..].iter_mut().zip(figures) {
            row.push(decimal_bytes((bytes as f64 / seconds) as u64));
            row.extend(latency_cells(latency.as_ref()));
        }
        if totals.flushes > 0 {
            let mut row = vec!["flushes".to_owned(), grouped(totals.flushes)];
            row.extend([String::new(), String::new()]);
            row.extend(latency_cells(totals.d2c_flush.as_ref()));
            rows.push(row);
        }
        if totals.discards > 0 {
            let bytes = decimal_bytes(totals.discard_bytes);
            rows.push(vec!["discards".to_owned(), grouped(totals.discards), bytes]);
        }
        self.table(&rows)
    }

    fn facts(&self) -> String {
        let (graph, totals) = (self.graph, &self.graph.totals);
        let seconds = (graph.duration_ns as f64 / 1e9).max(1e-9);
        let per_second = significant(totals.seeks as f64 / seconds);
        let mut parts = vec![format!("{} seeks ({per_second} per second)", grouped(totals.seeks))];
        if let Some(share) = totals.sequential_share {
            parts.push(format!("{:.0} % sequential", share * 100.0));
        }
        if let Some(mean) = totals.queue_depth_mean {
            let most = totals.queue_depth_max;
            parts.push(format!("queue depth {} on average, {most} at most", significant(mean)));
        }
        if graph.duration_ns > 0 {
            let idle = totals.idle_ns as f64 / graph.duration_ns as f64 * 100.0;
            parts.push(format!("idle {idle:.0} % of the time"));
        }
        if totals.metadata_bytes + totals.journal_bytes > 0 {
            let (metadata, journal) = (totals.metadata_bytes, totals.journal_bytes);
            parts.push(format!("metadata {}", decimal_bytes(metadata)));
            parts.push(format!("journal {}", decimal_bytes(journal)));
        }
        for (count, words) in [(totals.fua_writes, "FUA writes"), (totals.errors, "failed")] {
            if count > 0 {
                parts.push(format!("{} {words}", grouped(count)));
            }
        }
        format!("{}\n", self.wrapped(&parts.join(" · "), "  "))
    }

    fn charts(&self) -> String {
        let mut text = String::new();
        let width = self.options.width.clamp(40, 160) - 36;
        for (names, title, unit) in [
            (&["read_bytes_per_s"][..], "reads", "B/s"),
            (&["write_bytes_per_s"], "writes", "B/s"),
            (&["read_iops", "write_iops"], "IOPS", ""),
            (&["seeks_per_s"], "seeks per second", ""),
            (&["queue_depth"], "queue depth", ""),
            (&["d2c_ns_p99"], "latency p99", "ns"),
        ] {
            let values = sampled(self.graph, names, width);
            let most = values.iter().flatten().copied().fold(0.0, f64::max);
            if most <= 0.0 {
                continue;
            }
            let peak = match unit {
                "B/s" => format!("{}/s", decimal_bytes(most as u64)),
                "ns" => human_duration(most as u64),
                _ => significant(most),
            };
            let title = text::pad(title, 16, false);
            let line = sparkline(&values, most);
            let _ = writeln!(text, "  {title} {line} {peak}");
        }
        if text.is_empty() {
            return text;
        }
        let end = human_duration(self.graph.duration_ns);
        self.heading(&format!("Over {end} (at the right the highest)")) + &text
    }

    fn processes(&self) -> String {
        let mut rows = vec![
            ["", "read", "written", "metadata", "requests", "seeks"].map(str::to_owned).to_vec(),
        ];
        for process in self.graph.processes.iter().take(ROWS) {
            let name = text::cut(&process.name, 24, self.options.unicode);
            rows.push(vec![
                name,
                decimal_bytes(process.read_bytes),
                decimal_bytes(process.write_bytes),
                decimal_bytes(process.metadata_bytes),
                grouped(process.reads + process.writes),
                grouped(process.seeks),
            ]);
        }
        let more = self.graph.processes.len().saturating_sub(ROWS);
        if rows.len() == 1 {
            return String::new();
        }
        let more = if more > 0 { format!("  and {more} more\n") } else { String::new() };
        self.heading("Who issued it") + &self.table(&rows) + &more
    }

    fn classes(&self) -> String {
        let mut rows = vec![["", "requests", "bytes", "share"].map(str::to_owned).to_vec()];
        let bytes: u64 = self.graph.classes.iter().map(|class| class.bytes).sum();
        for class in self.graph.classes.iter().filter(|class| class.requests > 0) {
            let share = class.bytes as f64 / bytes.max(1) as f64 * 100.0;
            rows.push(vec![
                class.class.title().to_owned(),
                grouped(class.requests),
                decimal_bytes(class.bytes),
                format!("{share:.1} %"),
            ]);
        }
        if rows.len() == 1 {
            return String::new();
        }
        self.heading("What it is for") + &self.table(&rows)
    }

    fn bursts(&self) -> String {
        let bursts = &self.graph.bursts;
        if bursts.is_empty() {
            return String::new();
        }
        let mut text = self.heading("What stands out");
        for burst in bursts.iter().take(ROWS) {
            let _ = writeln!(text, "{}", self.wrapped(&burst.text, "    "));
        }
        let more = bursts.len().saturating_sub(ROWS);
        if more > 0 {
            let _ = writeln!(text, "  and {more} more");
        }
        text
    }

    fn warnings(&self) -> String {
        let mut warnings = self.graph.warnings.clone();
        if self.graph.lost_events > 0 {
            let lost = grouped(self.graph.lost_events);
            warnings.insert(0, format!("{lost} events are missing: figures are too low"));
        }
        let lines = warnings.iter().map(|warning| {
            let line = text::wrap(&format!("warning: {warning}"), self.options.width, "  ");
            text::styled(&line, WARN, self.options.color) + "\n"
        });
        lines.collect()
    }

    fn heading(&self, words: &str) -> String {
        text::styled(words, BOLD, self.options.color) + "\n"
    }

    fn wrapped(&self, words: &str, indent: &str) -> String {
        text::wrap(&format!("  {words}"), self.options.width, indent)
    }

    /// Columns, the first at the left, the others at the right; columns that do not fit are left out.
    fn table(&self, rows: &[Vec<String>]) -> String {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| text::width(cell)).max()
        };
        let widths: Vec<usize> = (0..columns).filter_map(width_of).collect();
        let mut text = String::new();
        for row in rows {
            let mut line = String::new();
            let mut used = 0;
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                used += 2 + width;
                if used > self.options.width {
                    break;
                }
                line.push_str("  ");
                line.push_str(&text::pad(cell, *width, column > 0));
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

fn latency_cells(latency: Option<&LatencySummary>) -> Vec<String> {
    match latency {
        Some(latency) => [latency.p50, latency.p99, latency.max].map(human_duration).to_vec(),
        None => Vec::new(),
    }
}

/// The sum of series in `count` equal parts of the axis, the mean of each.
#[must_use]
pub fn sampled(graph: &IoGraph, names: &[&str], count: usize) -> Vec<Option<f64>> {
    let series: Vec<_> = names.iter().filter_map(|name| graph.series(name)).collect();
    let bins = series.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let count = count.min(bins);
    let sum = |bin: usize| {
        let values = series.iter().filter_map(|series| *series.values.get(bin)?);
        values.reduce(|sum, value| sum + value)
    };
    let part = |index: usize| {
        let bins = index * bins / count..(index + 1) * bins / count;
        let values: Vec<f64> = bins.filter_map(sum).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    (0..count).map(part).collect()
}

/// A character for each value, up to `most`; absent ones are spaces.
#[must_use]
pub fn sparkline(values: &[Option<f64>], most: f64) -> String {
    let step = |value: f64| {
        let share = (value / most.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        STEPS[((share * 7.99) as usize).min(7)]
    };
    values.iter().map(|value| value.map_or(' ', step)).collect()
}
