//! One figure over many runs: a table with a chart in its lines for the terminal, JSON, and a picture.
//! Figures and change points are the analysis's.

use anstyle::{AnsiColor, Style};
use fsdyno_model::diff::{ChangePoint, History, HistoryPoint, HistorySeries};

use crate::diff::{number, plain, values};
use crate::io_picture::history_svg;
use crate::table::TableOptions;
use crate::text;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const CHANGE: Style = AnsiColor::Yellow.on_default();

/// Fewest columns of a chart; with fewer there is none.
const LEAST_CHART: usize = 12;
/// Most columns of a chart.
const MOST_CHART: usize = 48;
/// How far beyond the medians a chart goes, as a share of their range.
const MARGIN: f64 = 0.3;
/// Least range of a chart, as a share of its greatest value: noise must not look like a mountain.
const LEAST_RANGE: f64 = 0.05;

/// The document as JSON, indented, with a newline at the end.
///
/// # Errors
/// Only when a value cannot be written as JSON, which no type of the document holds.
pub fn json(history: &History) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(history)? + "\n")
}

/// The series as a picture, one below the other.
#[must_use]
pub fn svg(history: &History) -> String {
    history_svg(history)
}

/// Draws the series, with a newline at the end.
#[must_use]
pub fn table(history: &History, options: TableOptions) -> String {
    let mut sections: Vec<String> =
        history.series.iter().map(|series| Page { options }.series(series)).collect();
    let changes: usize = history.series.iter().map(|series| series.changes.len()).sum();
    let most = history.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let words = match (changes, most) {
        (_, 0..=3) => "A change of level can be found in four runs or more.".to_owned(),
        (0, _) => "No change of level that is clearer than chance.".to_owned(),
        (1, _) => "1 change of level, at 5 % for all series together.".to_owned(),
        _ => format!("{changes} changes of level, at 5 % for all series together."),
    };
    sections.push(Page { options }.paragraph(&words, "", BOLD));
    sections.join("\n")
}

/// What a change means: `slower`, `faster`, or only that it is more or less.
pub(crate) fn direction(series: &HistorySeries, change: &ChangePoint) -> &'static str {
    match (series.higher_is_better, change.ratio > 1.0) {
        (Some(true), true) | (Some(false), false) => "better",
        (Some(true), false) | (Some(false), true) => "worse",
        (None, true) => "more",
        (None, false) => "less",
    }
}

/// What is drawn: the range of the medians with a margin.
pub(crate) fn range(points: &[HistoryPoint]) -> (f64, f64) {
    let medians = || points.iter().map(|point| point.median);
    let (low, high) =
        (medians().fold(f64::INFINITY, f64::min), medians().fold(f64::NEG_INFINITY, f64::max));
    let least = LEAST_RANGE * high.abs().max(low.abs());
    let span = (high - low).max(least).max(f64::MIN_POSITIVE);
    let middle = f64::midpoint(low, high);
    let half = span * (0.5 + MARGIN);
    (middle - half, middle + half)
}

struct Page {
    options: TableOptions,
}

impl Page {
    fn paragraph(&self, words: &str, indent: &str, style: Style) -> String {
        let words = plain(words, self.options.unicode);
        let wrapped = text::wrap(&words, self.options.width, indent);
        wrapped.lines().map(|line| self.styled(line, style) + "\n").collect()
    }

    fn styled(&self, words: &str, style: Style) -> String {
        text::styled(words, style, self.options.color && style != Style::new())
    }

    fn series(&self, series: &HistorySeries) -> String {
        let medians: Vec<Option<f64>> = series.points.iter().map(|it| Some(it.median)).collect();
        let greatest = medians.iter().flatten().fold(0.0f64, |a, b| a.max(*b));
        // The unit of the greatest is that of all.
        let (_, unit) = values(&series.unit, [Some(greatest), None]);
        let scale = if unit == series.unit { 1.0 } else { factor(&series.unit, greatest) };
        let better = match series.higher_is_better {
            Some(true) => ", more is better",
            Some(false) => ", less is better",
            None => "",
        };
        let unit = if unit.is_empty() { unit } else { format!(" in {unit}") };
        let HistorySeries { target, workload, phase, metric, .. } = series;
        let title = format!("{target} · {workload} · {phase}: {metric}{unit}{better}");
        let mut lines: Vec<[String; 5]> =
            vec![["run", "started (UTC)", "n", "median", "interval"].map(str::to_owned)];
        for point in &series.points {
            let interval = point.low.zip(point.high).map_or(String::new(), |(low, high)| {
                format!("[{}–{}]", number(low * scale), number(high * scale))
            });
            lines.push([
                point.run.clone(),
                started(point.started_unix_ns),
                point.n.to_string(),
                number(point.median * scale),
                interval,
            ]);
        }
        for cell in lines.iter_mut().flatten() {
            *cell = plain(cell, self.options.unicode);
        }
        self.paragraph(&title, "  ", BOLD) + &self.lines(series, &lines, scale)
    }

    fn lines(&self, series: &HistorySeries, lines: &[[String; 5]], scale: f64) -> String {
        let mut shown: Vec<usize> = vec![0, 1, 2, 3, 4];
        let widths: Vec<usize> = (0..5)
            .map(|column| lines.iter().map(|line| text::width(&line[column])).max().unwrap_or(0))
            .collect();
        let taken =
            |shown: &[usize]| 2 + shown.iter().map(|column| widths[*column] + 2).sum::<usize>();
        // Where it is narrow, the chart is worth more than the interval, and that more than the start.
        for column in [1, 4] {
            if taken(&shown) + LEAST_CHART > self.options.width {
                shown.retain(|own| *own != column);
            }
        }
        let room = self.options.width.saturating_sub(taken(&shown)).min(MOST_CHART);
        let range = range(&series.points);
        let mut out = String::new();
        for (index, line) in lines.iter().enumerate() {
            let cells: Vec<String> = shown
                .iter()
                .map(|column| text::pad(&line[*column], widths[*column], matches!(column, 2 | 3)))
                .collect();
            let head = format!("  {}  ", cells.join("  "));
            let Some(point) = index.checked_sub(1) else {
                out.push_str(&self.styled(head.trim_end(), DIM));
                out.push('\n');
                continue;
            };
            if let Some(change) = series.changes.iter().find(|change| change.index == point) {
                out.push_str(&self.change(series, change, scale));
            }
            let chart = if room >= LEAST_CHART {
                self.bar(&series.points[point], range, room)
            } else {
                String::new()
            };
            out.push_str((head + &chart).trim_end());
            out.push('\n');
        }
        out
    }

    fn change(&self, series: &HistorySeries, change: &ChangePoint, scale: f64) -> String {
        let direction = direction(series, change);
        let words = format!(
            "  ── {}: {} → {} ({:.2} ×, p = {}) ──",
            direction,
            number(change.before * scale),
            number(change.after * scale),
            change.ratio,
            fsdyno_model::units::significant(change.p)
        );
        let style = match direction {
            "better" => GOOD,
            "worse" => BAD,
            _ => CHANGE,
        };
        self.paragraph(&words, "     ", style)
    }

    /// The interval as a line with the median on it.
    fn bar(&self, point: &HistoryPoint, (low, high): (f64, f64), room: usize) -> String {
        let place = |value: f64| {
            let share = ((value - low) / (high - low)).clamp(0.0, 1.0);
            (share * (room - 1) as f64).round() as usize
        };
        let median = place(point.median);
        let (from, to) = (
            place(point.low.unwrap_or(point.median)).min(median),
            place(point.high.unwrap_or(point.median)).max(median),
        );
        let (dot, dash) = if self.options.unicode { ('●', '─') } else { ('o', '-') };
        (0..=to)
            .map(|column| match column {
                column if column == median => dot,
                column if column >= from => dash,
                _ => ' ',
            })
            .collect()
    }
}

/// What [`values`] multiplies values of this unit by.
fn factor(unit: &str, greatest: f64) -> f64 {
    match unit {
        "ns" if greatest >= 1e6 => 1e-6,
        "ns" => 1e-3,
        _ => 1e3,
    }
}

/// A time to the minute.
pub(crate) fn started(unix_ns: u64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let point = |(number, median): (u64, f64)| HistoryPoint {
            run: format!("2026010{number}-000000-0001"),
            started_unix_ns: (1_767_225_600 + 86_400 * (number - 1)) * 1_000_000_000,
            hostname: None,
            n: 3,
            median,
            low: Some(median * 0.98),
            high: Some(median * 1.02),
        };
        let medians = [0.100, 0.101, 0.099, 0.1, 0.131, 0.13, 0.132];
        History {
            schema_version: 1,
            series: vec![HistorySeries {
                target: "ext4".to_owned(),
                workload: "small-files".to_owned(),
                phase: "create".to_owned(),
                metric: "elapsed_s".to_owned(),
                unit: "s".to_owned(),
                higher_is_better: Some(false),
                points: (1..).zip(medians).map(point).collect(),
                changes: vec![ChangePoint {
                    index: 4,
                    run: "20260105-000000-0001".to_owned(),
                    before: 0.1,
                    after: 0.131,
                    ratio: 1.31,
                    p: 0.0013,
                }],
            }],
        }
    }

    fn drawn(width: usize, unicode: bool) -> String {
        table(&history(), TableOptions { width, color: false, unicode })
    }

    #[test]
    fn a_series_is_a_table_with_a_chart() {
        insta::assert_snapshot!(drawn(100, true));
    }

    #[test]
    fn narrow_terminals_have_plain_tables() {
        insta::assert_snapshot!(drawn(60, false));
    }

    #[test]
    fn lines_fit_the_terminal() {
        for width in [40, 60, 80, 120] {
            for line in drawn(width, true).lines() {
                assert!(text::width(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn the_picture_marks_the_change() {
        let picture = svg(&history());
        assert!(picture.starts_with("<svg") && picture.contains("worse: 1.31 ×"), "{picture}");
        assert_eq!(picture.matches("<circle").count(), 7);
        assert!(svg(&History { schema_version: 1, series: Vec::new() }).starts_with("<svg"));
    }

    #[test]
    fn equal_values_have_a_range() {
        let mut history = history();
        for point in &mut history.series[0].points {
            point.median = 0.0;
        }
        let (low, high) = range(&history.series[0].points);
        assert!(low < high);
        assert!(drawn(80, true).contains('●'));
    }
}
