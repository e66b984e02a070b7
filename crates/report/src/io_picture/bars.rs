//! Figures as bars, each beside the best of its row: in one panel, or in two beside each other for then and
//! now. Which figures, and how long each bar is, is the caller's.

use super::canvas::{Area, Canvas, Ink, fitted, text_width};
use super::theme::Theme;
use super::{EDGE, axis};

/// Pixels of the paper from left to right.
const WIDTH: f64 = 1100.0;
/// Pixels of one target's bar with its room.
const LINE: f64 = 14.0;
/// Pixels of a bar.
const THICK: f64 = 9.0;
/// Pixels between rows.
const BETWEEN: f64 = 9.0;
/// Pixels of the line that names panels or groups.
const HEADING: f64 = 26.0;
/// Bars and whiskers that are longer than this many times the best are cut.
const FARTHEST: f64 = 1.5;

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// How fast beside the best of its row and panel, 0 to 1; `None` for what is only written.
    pub share: Option<f64>,
    /// Its interval, likewise; `None` without one.
    pub ends: Option<(f64, f64)>,
    /// The figure as it is written.
    pub text: String,
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct BarRow {
    /// What stands at the left.
    pub name: String,
    /// By panel, then by target; `None` where there is no figure.
    pub cells: Vec<Vec<Option<Bar>>>,
}

/// Operations under a heading; without one where it is empty.
#[derive(Debug, Clone, PartialEq)]
pub struct BarGroup {
    /// The heading.
    pub name: String,
    /// Its rows.
    pub rows: Vec<BarRow>,
}

/// A picture of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// What stands above.
    pub title: String,
    /// How to read it.
    pub words: String,
    /// Names of the panels, from left to right.
    pub panels: Vec<String>,
    /// Names of the targets, in the order of their bars.
    pub targets: Vec<String>,
    /// What is drawn, from top to bottom.
    pub groups: Vec<BarGroup>,
}

/// The picture as SVG, as high as its rows need.
#[must_use]
pub fn bars_svg(chart: &BarChart) -> String {
    let theme = Theme::of(false);
    let mut canvas = Canvas::default();
    let lead = Lead { title: &chart.title, words: &chart.words, targets: &chart.targets };
    let mut y = lead.draw(&mut canvas, theme, WIDTH);
    let layout = Layout::of(chart);
    for group in &chart.groups {
        let ink = Ink::new(13.0, theme.text).bold();
        canvas.text((EDGE, y + 17.0), &fitted(&group.name, 14.0, layout.left - EDGE - 8.0), ink);
        for (panel, name) in chart.panels.iter().enumerate() {
            let area = layout.panel(panel);
            let ink = Ink::new(12.0, theme.muted);
            canvas.text((area.left, y + 17.0), &fitted(name, 12.0, area.width), ink);
        }
        y += HEADING;
        let height = layout.row_height() * group.rows.len() as f64;
        for panel in 0..chart.panels.len() {
            layout.scale(&mut canvas, theme, panel, (y, height));
        }
        for (index, row) in group.rows.iter().enumerate() {
            layout.row(&mut canvas, theme, row, (y, index));
            y += layout.row_height();
        }
        y += 30.0;
    }
    canvas.finish(WIDTH, y + EDGE - 14.0, theme.background, &chart.title)
}

/// Title, words and the names of the targets in their colours.
pub(super) struct Lead<'a> {
    pub title: &'a str,
    pub words: &'a str,
    pub targets: &'a [String],
}

impl Lead<'_> {
    /// Draws it; gives the place below.
    pub(super) fn draw(&self, canvas: &mut Canvas, theme: &Theme, width: f64) -> f64 {
        let room = width - 2.0 * EDGE;
        let ink = Ink::new(17.0, theme.text).bold();
        canvas.text((EDGE, 34.0), &fitted(self.title, 18.5, room), ink);
        let words = fitted(self.words, 12.0, room);
        canvas.text((EDGE, 54.0), &words, Ink::new(12.0, theme.muted));
        let (mut x, mut y) = (EDGE, 66.0);
        for (index, target) in self.targets.iter().enumerate() {
            let name = fitted(target, 12.0, 260.0);
            let needed = 17.0 + text_width(&name, 12.0);
            if x > EDGE && x + needed > width - EDGE {
                (x, y) = (EDGE, y + 18.0);
            }
            let mark = Area { left: x, top: y, width: 11.0, height: 11.0 };
            canvas.round_rect(mark, theme.nth(index), 2.0);
            canvas.text((x + 17.0, y + 10.0), &name, Ink::new(12.0, theme.text));
            x += needed + 18.0;
        }
        y + 24.0
    }
}

/// Where things stand.
struct Layout {
    left: f64,
    panel_width: f64,
    figures: f64,
    targets: usize,
    /// By panel: the length of the axis, in bests.
    most: Vec<f64>,
}

impl Layout {
    fn of(chart: &BarChart) -> Layout {
        let rows = || chart.groups.iter().flat_map(|group| &group.rows);
        let bars = |panel: usize| {
            rows().filter_map(move |row| row.cells.get(panel)).flatten().filter_map(Option::as_ref)
        };
        let names = rows().map(|row| text_width(&row.name, 12.0) + 14.0);
        let headings = chart.groups.iter().map(|group| text_width(&group.name, 14.0) + 12.0);
        let label = names.chain(headings).fold(104.0, f64::max);
        let left = EDGE + label.min(WIDTH / 4.0);
        let all = (0..chart.panels.len()).flat_map(bars);
        let figures = all.map(|bar| text_width(&bar.text, 11.0)).fold(30.0, f64::max) + 12.0;
        let panel_width = (WIDTH - EDGE - left) / chart.panels.len().max(1) as f64;
        let longest = |panel: usize| {
            let ends = bars(panel).filter_map(|bar| bar.ends).map(|(_, high)| high);
            ends.fold(1.0, f64::max).min(FARTHEST)
        };
        let most = (0..chart.panels.len()).map(longest).collect();
        let figures = figures.min(panel_width / 2.0);
        Layout { left, panel_width, figures, targets: chart.targets.len(), most }
    }

    fn row_height(&self) -> f64 {
        LINE * self.targets as f64 + BETWEEN
    }

    /// Where the bars of a panel lie, without its place from top to bottom.
    fn panel(&self, panel: usize) -> Area {
        let left = self.left + self.panel_width * panel as f64;
        let width = (self.panel_width - self.figures - 8.0).max(20.0);
        Area { left, top: 0.0, width, height: 0.0 }
    }

    fn x(&self, panel: usize, share: f64) -> f64 {
        let area = self.panel(panel);
        area.left + area.width * (share / self.most[panel]).clamp(0.0, 1.0)
    }

    fn scale(&self, canvas: &mut Canvas, theme: &Theme, panel: usize, (top, height): (f64, f64)) {
        let area = Area { top, height, ..self.panel(panel) };
        canvas.rect(area, theme.plot, 1.0);
        for share in axis::ticks_within(0.0, self.most[panel], 4) {
            let x = self.x(panel, share);
            canvas.line((x, area.top), (x, area.bottom()), theme.grid, 1.0);
            let text = format!("{:.0} %", share * 100.0);
            let ink = Ink::new(10.0, theme.muted).middle();
            canvas.text((x, area.bottom() + 13.0), &text, ink);
        }
    }

    fn row(&self, canvas: &mut Canvas, theme: &Theme, row: &BarRow, (top, index): (f64, usize)) {
        let height = self.row_height();
        if index % 2 == 1 {
            let area = Area { left: EDGE, top, width: WIDTH - 2.0 * EDGE, height };
            canvas.rect(area, theme.axis, 0.1);
        }
        let name = fitted(&row.name, 12.0, self.left - EDGE - 10.0);
        let ink = Ink::new(12.0, theme.text).end();
        canvas.text((self.left - 10.0, top + height / 2.0 + 4.0), &name, ink);
        for (panel, cells) in row.cells.iter().enumerate() {
            for (target, cell) in cells.iter().enumerate() {
                let y = top + BETWEEN / 2.0 + LINE * (target as f64 + 0.5);
                let x = self.panel(panel).right() + 8.0;
                let Some(bar) = cell else {
                    canvas.text((x, y + 4.0), "–", Ink::new(11.0, theme.muted));
                    continue;
                };
                self.bar(canvas, theme, bar, (panel, target, y));
                let text = fitted(&bar.text, 11.0, self.figures);
                canvas.text((x, y + 4.0), &text, Ink::new(11.0, theme.text));
            }
        }
    }

    fn bar(
        &self,
        canvas: &mut Canvas,
        theme: &Theme,
        bar: &Bar,
        (panel, target, y): (usize, usize, f64),
    ) {
        let Some(share) = bar.share else { return };
        let left = self.panel(panel).left;
        let width = (self.x(panel, share) - left).max(1.0);
        let area = Area { left, top: y - THICK / 2.0, width, height: THICK };
        canvas.rect(area, theme.nth(target), 1.0);
        if let Some((low, high)) = bar.ends {
            let (from, to) = (self.x(panel, low), self.x(panel, high));
            canvas.line((from, y), (to, y), theme.text, 1.0);
            for end in [from, to] {
                canvas.line((end, y - 3.0), (end, y + 3.0), theme.text, 1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_longer_than_names_is_whole() {
        let row = BarRow { name: "s".to_owned(), cells: vec![vec![None], vec![None]] };
        let chart = BarChart {
            title: String::new(),
            words: String::new(),
            panels: vec!["then".to_owned(), "now".to_owned()],
            targets: vec!["ext4".to_owned()],
            groups: vec![BarGroup { name: "postmark, second rung".to_owned(), rows: vec![row] }],
        };
        let svg = bars_svg(&chart);
        assert!(svg.contains("postmark, second rung"), "{svg}");
    }

    #[test]
    fn bars_are_as_long_as_their_share() {
        let bar = |share, ends| Some(Bar { share, ends, text: "9 <s>".to_owned() });
        let row = BarRow {
            name: "create".to_owned(),
            cells: vec![
                vec![bar(Some(1.0), Some((0.9, 1.0))), bar(Some(0.5), None)],
                vec![bar(None, None), None],
            ],
        };
        let chart = BarChart {
            title: "then & now".to_owned(),
            words: String::new(),
            panels: vec!["then".to_owned(), "now".to_owned()],
            targets: vec!["ext4".to_owned(), "xfs".to_owned()],
            groups: vec![BarGroup { name: String::new(), rows: vec![row] }],
        };
        let svg = bars_svg(&chart);
        let widths: Vec<f64> = svg
            .lines()
            .filter(|line| line.contains(&format!("height=\"{THICK}\"")))
            .filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(widths.len(), 2, "{svg}");
        assert!((widths[0] / widths[1] - 2.0).abs() < 0.01, "{widths:?}");
        assert!(svg.contains("9 &lt;s&gt;") && svg.contains("then &amp; now"), "{svg}");
    }
}
