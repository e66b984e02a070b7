//! A run in one picture: every target beside the first, over all phases and phase by phase, with
//! intervals.

use fsdyno_model::report_data::{Comparison, Ratio, ReportData};

use super::canvas::{Area, Canvas, Ink, fitted, n, text_width};
use super::theme::Theme;
use super::{EDGE, PictureOptions, axis};

/// Pixels of one target's line.
const LINE: f64 = 15.0;
/// Pixels between rows.
const BETWEEN: f64 = 7.0;
/// Pixels of a workload's name.
const HEADING: f64 = 30.0;
/// Pixels at the right for figures.
const FIGURES: f64 = 150.0;
/// Ratios beyond this are drawn at the edge.
const FARTHEST: f64 = 100.0;
/// Name of the row over all phases.
const OVERALL: &str = "all phases";

/// One row: a phase, or all of them.
struct Row<'a> {
    name: &'a str,
    /// A ratio for each compared target of the run.
    ratios: Vec<Option<Ratio>>,
}

/// One workload.
struct Block<'a> {
    workload: &'a str,
    baseline: &'a str,
    rows: Vec<Row<'a>>,
}

struct Chart<'a> {
    theme: &'static Theme,
    targets: Vec<&'a str>,
    blocks: Vec<Block<'a>>,
    width: f64,
    plot: Area,
    low: f64,
    high: f64,
}

/// The comparisons of a run as SVG: for each workload the geometric mean over its phases, then the
/// phases. It is as high as its rows need; the height asked for is the least.
#[must_use]
pub fn ratios_svg(data: &ReportData, options: &PictureOptions) -> String {
    let chart = Chart::new(&data.comparisons, options);
    let title = data.result.run.title.clone().unwrap_or_else(|| chart.title());
    let mut canvas = Canvas::default();
    chart.head(&mut canvas, &title);
    let bottom = chart.body(&mut canvas);
    let height = (bottom + EDGE).max(f64::from(options.height.min(10_000)));
    canvas.finish(chart.width, height, chart.theme.background, &title)
}

impl<'a> Chart<'a> {
    fn new(comparisons: &'a [Comparison], options: &PictureOptions) -> Chart<'a> {
        let mut targets: Vec<&str> = Vec::new();
        for comparison in comparisons {
            if !targets.contains(&comparison.target.as_str()) {
                targets.push(&comparison.target);
            }
        }
        let blocks = blocks(comparisons, &targets);
        let names = blocks.iter().flat_map(|block| block.rows.iter().map(|row| row.name));
        let label = names.map(|name| text_width(name, 12.0)).fold(80.0, f64::max) + 14.0;
        let width = f64::from(options.width.clamp(480, 10_000));
        let left = EDGE + label.min(width / 3.0);
        let top = 62.0 + if targets.is_empty() { 0.0 } else { 20.0 };
        let plot = Area { left, top, width: width - left - EDGE - FIGURES, height: 0.0 };
        let (low, high) = range(&blocks);
        Chart { theme: Theme::of(options.dark), targets, blocks, width, plot, low, high }
    }

    fn title(&self) -> String {
        match self.blocks.first() {
            Some(block) => format!("Each target beside {}", block.baseline),
            None => "Nothing to compare".to_owned(),
        }
    }

    /// What must be known to read it, besides the scale: what lies beyond it, what is in no mean.
    fn remarks(&self) -> String {
        let rows = || self.blocks.iter().flat_map(|block| &block.rows);
        let mut words = String::new();
        if rows().flat_map(|row| row.ratios.iter().flatten()).any(|it| self.is_beyond(it)) {
            words.push_str(" Arrows: go on beyond the chart.");
        }
        if rows().any(|row| row.name == "fsck") {
            words.push_str(" fsck is in no mean.");
        }
        words
    }

    fn is_beyond(&self, ratio: &Ratio) -> bool {
        matches!((ratio.low, ratio.high), (Some(low), Some(high)) if low < self.low || high > self.high)
    }

    fn head(&self, canvas: &mut Canvas, title: &str) {
        let room = self.width - 2.0 * EDGE;
        let ink = Ink::new(17.0, self.theme.text).bold();
        canvas.text((EDGE, 34.0), &fitted(title, 18.5, room), ink);
        let words = match self.blocks.first() {
            Some(block) => format!(
                "How many times as good as {}: right of 1 is better. Bars: 95 % intervals. \
                 Hollow: not told apart.{}",
                block.baseline,
                self.remarks()
            ),
            None => "A comparison takes at least two targets with completed trials.".to_owned(),
        };
        canvas.text((EDGE, 54.0), &fitted(&words, 12.0, room), Ink::new(12.0, self.theme.muted));
        let mut x = EDGE;
        for (index, target) in self.targets.iter().enumerate() {
            let mark = Area { left: x, top: 65.0, width: 11.0, height: 11.0 };
            canvas.round_rect(mark, self.color(index), 2.0);
            let name = fitted(target, 12.0, 260.0);
            canvas.text((x + 17.0, 75.0), &name, Ink::new(12.0, self.theme.text));
            x += 17.0 + text_width(&name, 12.0) + 18.0;
        }
    }

    fn color(&self, target: usize) -> &'static str {
        self.theme.nth(target)
    }

    /// Draws the workloads one below the other; gives the place below them.
    fn body(&self, canvas: &mut Canvas) -> f64 {
        let mut y = self.plot.top;
        for block in &self.blocks {
            let ink = Ink::new(13.0, self.theme.text).bold();
            canvas.text((EDGE, y + 20.0), &fitted(block.workload, 14.0, self.width - 40.0), ink);
            y += HEADING;
            let row_height = LINE * self.targets.len() as f64 + BETWEEN;
            let area = Area { top: y, height: row_height * block.rows.len() as f64, ..self.plot };
            self.scale(canvas, area);
            for (index, row) in block.rows.iter().enumerate() {
                self.row(canvas, area, y, (index, row));
                y += row_height;
            }
            y += 28.0;
        }
        y
    }

    fn x(&self, ratio: f64) -> f64 {
        let share = (ratio.clamp(self.low, self.high) / self.low).ln();
        self.plot.left + share / (self.high / self.low).ln() * self.plot.width
    }

    fn scale(&self, canvas: &mut Canvas, area: Area) {
        canvas.rect(area, self.theme.plot, 1.0);
        let count = axis::room(area.width, 70.0);
        let ticks = if self.high / self.low < 4.0 {
            axis::ticks_within(self.low, self.high, count)
        } else {
            axis::ticks_log(self.low, self.high, count)
        };
        for tick in ticks {
            let x = self.x(tick);
            canvas.line((x, area.top), (x, area.bottom()), self.theme.grid, 1.0);
            let text = format!("{} ×", axis::label((tick * 1e6).round() / 1e6));
            let ink = Ink::new(11.0, self.theme.muted).middle();
            canvas.text((x, area.bottom() + 15.0), &text, ink);
        }
        let x = self.x(1.0);
        canvas.line((x, area.top), (x, area.bottom()), self.theme.text, 1.5);
    }

    fn row(&self, canvas: &mut Canvas, area: Area, top: f64, (index, row): (usize, &Row<'_>)) {
        let height = LINE * self.targets.len() as f64 + BETWEEN;
        let is_overall = index == 0;
        if index % 2 == 1 {
            canvas.rect(Area { top, height, ..area }, self.theme.axis, 0.12);
        }
        let ink = Ink::new(12.0, self.theme.text);
        let ink = if is_overall { ink.bold() } else { ink };
        let name = fitted(row.name, 13.0, area.left - EDGE - 4.0);
        canvas.text((area.left - 10.0, top + height / 2.0 + 4.0), &name, ink.end());
        for (target, ratio) in row.ratios.iter().enumerate() {
            let y = top + BETWEEN / 2.0 + LINE * (target as f64 + 0.5);
            let Some(ratio) = ratio.filter(|ratio| ratio.ratio > 0.0) else {
                let ink = Ink::new(11.0, self.theme.muted);
                canvas.text((area.right() + 10.0, y + 4.0), "–", ink);
                continue;
            };
            self.mark(canvas, y, (ratio, self.color(target)), is_overall);
            let ink = Ink::new(11.0, self.theme.text);
            let ink = if is_overall { ink.bold() } else { ink };
            canvas.text((area.right() + 10.0, y + 4.0), &figures(&ratio), ink);
        }
    }

    fn mark(&self, canvas: &mut Canvas, y: f64, (ratio, color): (Ratio, &str), is_overall: bool) {
        let radius = if is_overall { 5.5 } else { 4.0 };
        if let (Some(low), Some(high)) = (ratio.low, ratio.high) {
            let (from, to) = (self.x(low), self.x(high));
            canvas.line((from, y), (to, y), color, if is_overall { 2.5 } else { 1.6 });
            let ends = [(from, low < self.low, -1.0), (to, high > self.high, 1.0)];
            for (end, is_beyond, way) in ends {
                if is_beyond {
                    let back = end - way * 6.0;
                    let (above, below) = (y - 4.0, y + 4.0);
                    let head = format!("M{} {}", n(end), n(y));
                    let path = format!("{head}L{0} {1}L{0} {2}Z", n(back), n(above), n(below));
                    canvas.fill(&path, color, 1.0);
                } else {
                    canvas.line((end, y - 3.0), (end, y + 3.0), color, 1.6);
                }
            }
        }
        let x = self.x(ratio.ratio);
        canvas.circle((x, y), radius, color);
        if !tells(&ratio) {
            canvas.circle((x, y), radius - 1.6, self.theme.plot);
        }
    }
}

/// Whether the interval leaves out 1; without one nothing is told.
fn tells(ratio: &Ratio) -> bool {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => low > 1.0 || high < 1.0,
        _ => false,
    }
}

fn figures(ratio: &Ratio) -> String {
    let figure = fsdyno_model::units::significant;
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            format!("{} × [{} – {}]", figure(ratio.ratio), figure(low), figure(high))
        }
        _ => format!("{} ×", figure(ratio.ratio)),
    }
}

fn blocks<'a>(comparisons: &'a [Comparison], targets: &[&str]) -> Vec<Block<'a>> {
    let mut blocks: Vec<Block<'a>> = Vec::new();
    for comparison in comparisons {
        let target = targets.iter().position(|target| *target == comparison.target);
        let Some(target) = target else { continue };
        let at = blocks.iter().position(|block| block.workload == comparison.workload);
        let at = at.unwrap_or_else(|| {
            let (workload, baseline) = (&comparison.workload, &comparison.baseline);
            blocks.push(Block { workload, baseline, rows: Vec::new() });
            blocks.len() - 1
        });
        let block = &mut blocks[at];
        let phases = comparison.phases.iter().map(|phase| (phase.phase.as_str(), phase.ratio));
        for (name, ratio) in std::iter::once((OVERALL, comparison.overall)).chain(phases) {
            let row = block.rows.iter().position(|row| row.name == name);
            let row = row.unwrap_or_else(|| {
                block.rows.push(Row { name, ratios: vec![None; targets.len()] });
                block.rows.len() - 1
            });
            block.rows[row].ratios[target] = ratio;
        }
    }
    blocks
}

/// Smallest and largest figure, with 1 between them and some room.
fn range(blocks: &[Block<'_>]) -> (f64, f64) {
    let (mut low, mut high): (f64, f64) = (0.9, 1.1);
    let rows = blocks.iter().flat_map(|block| &block.rows);
    for ratio in rows.flat_map(|row| row.ratios.iter().flatten()) {
        for value in [Some(ratio.ratio), ratio.low, ratio.high].into_iter().flatten() {
            if value.is_finite() && value > 0.0 {
                low = low.min(value);
                high = high.max(value);
            }
        }
    }
    (low.max(1.0 / FARTHEST) / 1.06, high.min(FARTHEST) * 1.06)
}
