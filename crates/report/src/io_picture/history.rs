//! One figure over many runs in one picture: medians with their intervals, in the order of time, with
//! the changes of level. Runs stand at equal distances: what matters is which came first.

use fsdyno_model::diff::{History, HistorySeries};

use super::canvas::{Area, Canvas, Ink, fitted, n};
use super::theme::Theme;
use super::{EDGE, axis};
use crate::history::{direction, range, started};

const WIDTH: f64 = 960.0;
const HEAD: f64 = 34.0;
const PLOT: f64 = 150.0;
const FOOT: f64 = 34.0;
const LEFT: f64 = 80.0;

/// The series one below the other, as SVG.
#[must_use]
pub fn history_svg(history: &History) -> String {
    let theme = Theme::of(false);
    let mut canvas = Canvas::default();
    let mut top = EDGE;
    for series in &history.series {
        draw(&mut canvas, theme, series, top);
        top += HEAD + PLOT + FOOT;
    }
    if history.series.is_empty() {
        let ink = Ink::new(14.0, theme.muted);
        canvas.text((EDGE, EDGE + 14.0), "No run has such a figure", ink);
        top += HEAD;
    }
    canvas.finish(WIDTH, top + EDGE, theme.background, "Figures over runs")
}

fn draw(canvas: &mut Canvas, theme: &Theme, series: &HistorySeries, top: f64) {
    let HistorySeries { target, workload, phase, metric, unit, .. } = series;
    let better = match series.higher_is_better {
        Some(true) => ", more is better",
        Some(false) => ", less is better",
        None => "",
    };
    let of = if unit.is_empty() { String::new() } else { format!(" in {unit}") };
    let title = format!("{target} · {workload} · {phase}: {metric}{of}{better}");
    let ink = Ink::new(14.0, theme.text).bold();
    canvas.text((EDGE, top + 16.0), &fitted(&title, 15.2, WIDTH - 2.0 * EDGE), ink);
    let plot = Area { left: LEFT, top: top + HEAD, width: WIDTH - LEFT - EDGE, height: PLOT };
    canvas.rect(plot, theme.plot, 1.0);
    let (low, high) = range(&series.points);
    let y =
        |value: f64| plot.bottom() - plot.height * ((value - low) / (high - low)).clamp(0.0, 1.0);
    for tick in axis::ticks_within(low, high, 4) {
        canvas.line((plot.left, y(tick)), (plot.right(), y(tick)), theme.grid, 1.0);
        let text = crate::diff::number(tick);
        canvas.text((plot.left - 6.0, y(tick) + 4.0), &text, Ink::new(11.0, theme.muted).end());
    }
    let step = plot.width / series.points.len().max(1) as f64;
    let x = |index: usize| plot.left + step * (index as f64 + 0.5);
    let mut path = String::new();
    for (index, point) in series.points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        path.push_str(&format!("{command}{} {}", n(x(index)), n(y(point.median))));
        if let (Some(low), Some(high)) = (point.low, point.high) {
            canvas.line((x(index), y(low)), (x(index), y(high)), theme.axis, 2.0);
        }
    }
    canvas.stroke(&path, theme.nth(0), 1.5, "");
    for (index, point) in series.points.iter().enumerate() {
        canvas.circle((x(index), y(point.median)), 3.0, theme.nth(0));
    }
    for change in &series.changes {
        let at = x(change.index) - step / 2.0;
        canvas.line((at, plot.top), (at, plot.bottom()), theme.warning, 1.5);
        let text = format!("{}: {:.2} ×", direction(series, change), change.ratio);
        canvas.text((at + 4.0, plot.top + 12.0), &text, Ink::new(11.0, theme.warning));
    }
    let ends = [series.points.first(), series.points.last()];
    let places = [Ink::new(11.0, theme.muted), Ink::new(11.0, theme.muted).end()];
    for ((point, ink), at) in ends.into_iter().zip(places).zip([plot.left, plot.right()]) {
        if let Some(point) = point {
            canvas.text((at, plot.bottom() + 15.0), &started(point.started_unix_ns), ink);
        }
    }
}
