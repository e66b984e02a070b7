//! What was reached sample after sample, a small panel for each phase: whether a filesystem slows down while
//! it is being filled.

use super::bars::Lead;
use super::canvas::{Area, Canvas, Ink, fitted};
use super::line::stroke_path;
use super::theme::Theme;
use super::{EDGE, axis};

/// Pixels of the paper from left to right.
const WIDTH: f64 = 1100.0;
/// Panels beside each other.
const COLUMNS: usize = 2;
/// Pixels of a panel from top to bottom, of its name and of the figures below it.
const HEIGHT: f64 = 130.0;
const NAME: f64 = 24.0;
const FOOT: f64 = 36.0;
/// Pixels for the figures at its left.
const FIGURES: f64 = 56.0;
/// With more samples than this a line bears no points.
const POINTED: usize = 40;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct CourseLine {
    /// Index of the target.
    pub target: usize,
    /// By sample; `None` where it has no figure.
    pub values: Vec<Option<f64>>,
}

/// One phase.
#[derive(Debug, Clone, PartialEq)]
pub struct CoursePanel {
    /// What stands above.
    pub name: String,
    /// What a sample is.
    pub by: String,
    /// A line for each trial of each target.
    pub lines: Vec<CourseLine>,
}

/// A picture of phases.
#[derive(Debug, Clone, PartialEq)]
pub struct CourseChart {
    /// What stands above.
    pub title: String,
    /// How to read it.
    pub words: String,
    /// Names of the targets.
    pub targets: Vec<String>,
    /// The phases.
    pub panels: Vec<CoursePanel>,
}

/// The picture as SVG, as high as its panels need.
#[must_use]
pub fn course_svg(chart: &CourseChart) -> String {
    let theme = Theme::of(false);
    let mut canvas = Canvas::default();
    let lead = Lead { title: &chart.title, words: &chart.words, targets: &chart.targets };
    let top = lead.draw(&mut canvas, theme, WIDTH);
    let width = (WIDTH - EDGE) / COLUMNS as f64;
    for (index, panel) in chart.panels.iter().enumerate() {
        let (row, column) = ((index / COLUMNS) as f64, (index % COLUMNS) as f64);
        let area = Area {
            left: EDGE + width * column + FIGURES,
            top: top + row * (NAME + HEIGHT + FOOT) + NAME,
            width: width - FIGURES - EDGE,
            height: HEIGHT,
        };
        draw(&mut canvas, theme, panel, area);
    }
    let rows = chart.panels.len().div_ceil(COLUMNS) as f64;
    let height = top + rows * (NAME + HEIGHT + FOOT) + EDGE;
    canvas.finish(WIDTH, height, theme.background, &chart.title)
}

fn draw(canvas: &mut Canvas, theme: &Theme, panel: &CoursePanel, area: Area) {
    let ink = Ink::new(13.0, theme.text).bold();
    let name = fitted(&panel.name, 14.0, area.width);
    canvas.text((area.left, area.top - 8.0), &name, ink);
    canvas.rect(area, theme.plot, 1.0);
    let values = panel.lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let ticks = axis::ticks_up(values.fold(0.0, f64::max), 4);
    let most = ticks.last().copied().unwrap_or(1.0);
    let y = |value: f64| area.bottom() - area.height * (value / most).clamp(0.0, 1.0);
    for tick in ticks {
        canvas.line((area.left, y(tick)), (area.right(), y(tick)), theme.grid, 1.0);
        let ink = Ink::new(11.0, theme.muted).end();
        canvas.text((area.left - 6.0, y(tick) + 4.0), &axis::label(tick), ink);
    }
    let samples = panel.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let step = area.width / samples.max(1) as f64;
    let x = |index: usize| area.left + step * (index as f64 + 0.5);
    let numbered = samples.saturating_sub(1) as f64;
    for tick in axis::ticks_within(0.0, numbered, axis::room(area.width, 60.0)) {
        // Whole samples only.
        if tick.fract().abs() < 1e-9 {
            let ink = Ink::new(11.0, theme.muted).middle();
            let text = axis::label(tick);
            canvas.text((x(tick as usize), area.bottom() + 14.0), &text, ink);
        }
    }
    let ink = Ink::new(11.0, theme.muted).end();
    canvas.text((area.right(), area.bottom() + 28.0), &panel.by, ink);
    for line in &panel.lines {
        let color = theme.nth(line.target);
        let points: Vec<(f64, Option<f64>)> = (line.values.iter().enumerate())
            .map(|(index, value)| (x(index), value.map(y)))
            .collect();
        canvas.stroke(&stroke_path(&points), color, 1.5, "");
        for (x, y) in points.into_iter().filter(|_| samples <= POINTED) {
            if let Some(y) = y {
                canvas.circle((x, y), 2.5, color);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_is_a_point_and_gaps_interrupt() {
        let values = vec![Some(10.0), None, Some(5.0)];
        let panel = CoursePanel {
            name: "create, MiB/s".to_owned(),
            by: "kernel".to_owned(),
            lines: vec![CourseLine { target: 0, values }],
        };
        let svg = course_svg(&CourseChart {
            title: "trees".to_owned(),
            words: String::new(),
            targets: vec!["ext3".to_owned()],
            panels: vec![panel],
        });
        assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
        assert!(svg.contains("kernel") && svg.contains(">10<"), "{svg}");
    }
}
