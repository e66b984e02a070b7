//! Panels with figures over time: which there are, and how one is drawn.

use fsdyno_model::activity::{Activity, Reading};

use super::canvas::{Anchor, Area, Canvas, Ink};
use super::line::{self, Join, Line, Points};
use super::margin::{self, Item};
use super::{PictureInput, Scene, axis};

/// Pixels that the name of a panel takes at most.
const NAME_WIDTH: f64 = 240.0;

/// How values are laid out from bottom to top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// From zero.
    Linear,
    /// By powers of ten.
    Logarithmic,
    /// From zero, each line on top of the one before.
    Stacked,
}

/// A unit of the vertical axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    BytesPerSecond,
    PerSecond,
    Time,
    Count,
}

/// One panel.
#[derive(Debug)]
pub struct Panel {
    name: String,
    layout: Layout,
    measure: Measure,
    lines: Vec<Line>,
}

/// Name and series of one line; the series are added up.
type Part = (&'static str, &'static [&'static str]);

/// A panel to be made of series.
struct Wanted<'a> {
    name: &'static str,
    measure: Measure,
    /// The lines of the only trace, with their colours.
    parts: &'a [(Part, &'static str)],
    /// The line of each of several traces.
    whole: Part,
}

/// The vertical axis of a panel.
struct Axis {
    /// Name of the panel, with the unit.
    name: String,
    /// Values with their texts.
    ticks: Vec<(f64, String)>,
    /// Pixels of a value.
    place: Box<dyn Fn(f64) -> f64>,
}

/// The panels for which there are figures.
pub fn panels(scene: &Scene<'_>) -> Vec<Panel> {
    let theme = scene.theme;
    let journal = theme.class(fsdyno_model::io_graph::IoClass::WriteJournal);
    let metadata = theme.class(fsdyno_model::io_graph::IoClass::WriteMetadata);
    let flushes = theme.class(fsdyno_model::io_graph::IoClass::Flush);
    let (reads, writes) = (theme.reads(), theme.writes());
    let all = [
        Wanted {
            name: "Throughput",
            measure: Measure::BytesPerSecond,
            parts: &[
                (("reads", &["read_bytes_per_s"]), reads),
                (("writes", &["write_bytes_per_s"]), writes),
                (("of it metadata", &["metadata_bytes_per_s"]), metadata),
                (("of it journal", &["journal_bytes_per_s"]), journal),
            ],
            whole: ("", &["read_bytes_per_s", "write_bytes_per_s"]),
        },
        Wanted {
            name: "IOPS",
            measure: Measure::PerSecond,
            parts: &[
                (("reads", &["read_iops"]), reads),
                (("writes", &["write_iops"]), writes),
                (("flushes", &["flushes_per_s"]), flushes),
            ],
            whole: ("", &["read_iops", "write_iops"]),
        },
        Wanted {
            name: "Seeks",
            measure: Measure::PerSecond,
            parts: &[(("", &["seeks_per_s"]), theme.text)],
            whole: ("", &["seeks_per_s"]),
        },
        Wanted {
            name: "Requests at the device",
            measure: Measure::Count,
            parts: &[(("", &["queue_depth"]), theme.text)],
            whole: ("", &["queue_depth"]),
        },
    ];
    let mut panels: Vec<Panel> = all
        .into_iter()
        .map(|wanted| Panel {
            name: wanted.name.to_owned(),
            layout: Layout::Linear,
            measure: wanted.measure,
            lines: lines(scene, wanted.parts, wanted.whole),
        })
        .collect();
    panels.insert(3, latency(scene));
    panels.extend(processors(scene));
    panels.retain(|panel| panel.lines.iter().any(|line| line.values().next().is_some()));
    panels
}

/// A line for each part of the only trace; of several traces, one line each.
fn lines(scene: &Scene<'_>, parts: &[(Part, &'static str)], whole: Part) -> Vec<Line> {
    let line = |input: &PictureInput<'_>, (name, series): Part, color| Line {
        name: name.to_owned(),
        color,
        dashed: false,
        points: line::points(input.graph, series, Join::Mean, scene.length, scene.duration_ns),
    };
    if scene.is_overlay() {
        let traces = scene.inputs.iter().enumerate();
        return traces.map(|(index, input)| line(input, whole, scene.theme.nth(index))).collect();
    }
    let parts = parts.iter().enumerate();
    let lines = scene.inputs.iter().flat_map(|input| {
        parts.clone().map(move |(index, (part, color))| (index, line(input, *part, color)))
    });
    // The first ones say that there was nothing; the others are shown only where there is something.
    lines.filter(|(index, line)| *index < 2 || line.is_seen()).map(|(_, line)| line).collect()
}

fn latency(scene: &Scene<'_>) -> Panel {
    let mut lines = Vec::new();
    for (index, input) in scene.inputs.iter().enumerate() {
        let trace = scene.theme.nth(index);
        let median = if scene.is_overlay() { trace } else { scene.theme.reads() };
        let tail = if scene.is_overlay() { trace } else { scene.theme.writes() };
        let dashed = scene.is_overlay();
        for (name, series, join, color, dashed) in [
            ("median", "d2c_ns_p50", Join::Mean, median, false),
            ("99th percentile", "d2c_ns_p99", Join::Most, tail, dashed),
        ] {
            let points =
                line::points(input.graph, &[series], join, scene.length, scene.duration_ns);
            lines.push(Line { name: name.to_owned(), color, dashed, points });
        }
    }
    lines.retain(Line::is_seen);
    Panel {
        name: "Latency, issue to completion".to_owned(),
        layout: Layout::Logarithmic,
        measure: Measure::Time,
        lines,
    }
}

fn processors(scene: &Scene<'_>) -> Option<Panel> {
    let with_activity = || {
        let inputs = scene.inputs.iter().enumerate();
        inputs.filter_map(|(index, input)| Some((index, input, input.activity?)))
    };
    let (_, _, first) = with_activity().next()?;
    let mut lines = Vec::new();
    for (index, input, activity) in with_activity() {
        let groups = busy(scene, input, activity);
        if scene.is_overlay() {
            let mut sum: Points = Vec::new();
            for group in &groups {
                sum.resize_with(group.points.len(), || (0.0, None));
                for (total, (time, value)) in sum.iter_mut().zip(&group.points) {
                    total.0 = *time;
                    total.1 = match (total.1, *value) {
                        (Some(a), Some(b)) => Some(a + b),
                        (a, b) => a.or(b),
                    };
                }
            }
            let color = scene.theme.nth(index);
            lines.push(Line { name: String::new(), color, dashed: false, points: sum });
        } else {
            lines.extend(groups.into_iter().filter(Line::is_seen));
        }
    }
    let name = match first.processors {
        0 => "Processors busy".to_owned(),
        count => format!("Processors busy, of {count}"),
    };
    let layout = if scene.is_overlay() { Layout::Linear } else { Layout::Stacked };
    Some(Panel { name, layout, measure: Measure::Count, lines })
}

/// How many processors each group keeps busy.
fn busy(scene: &Scene<'_>, input: &PictureInput<'_>, activity: &Activity) -> Vec<Line> {
    let start = input.graph.start_ns;
    let end = start.saturating_add(input.graph.duration_ns);
    let spans: Vec<(usize, u64, u64)> = activity
        .times_ns
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| pair[1] > pair[0] && pair[0] >= start && pair[1] <= end)
        .map(|(index, pair)| (index + 1, pair[0], pair[1]))
        .collect();
    let together = (spans.len() as f64 * 2.5 / scene.length).ceil().max(1.0) as usize;
    let series = activity.series.iter().filter(|series| {
        let idle = ["idle", "iowait"].iter().any(|word| series.name.contains(word));
        series.kind == "cpu" && series.reading == Reading::Delta && !idle
    });
    let lines = series.enumerate().map(|(index, series)| {
        let points = spans.chunks(together).map(|chunk| {
            let (from, to) = (chunk[0].1, chunk[chunk.len() - 1].2);
            let values = chunk.iter().filter_map(|(at, ..)| *series.values.get(*at)?);
            let sum = values.reduce(|sum, value| sum + value);
            let middle = (from - start) as f64 + (to - from) as f64 / 2.0;
            (middle, sum.map(|sum| sum / (to - from) as f64))
        });
        Line {
            name: crate::page::group_title(&series.title).to_owned(),
            color: scene.theme.nth(index),
            dashed: false,
            points: points.collect(),
        }
    });
    lines.collect()
}

impl Panel {
    /// Draws it: its name at `top`, its plot in `area`.
    pub fn draw(&self, scene: &Scene<'_>, canvas: &mut Canvas, top: f64, area: Area) {
        scene.plot(canvas, area);
        let Axis { name, ticks, place } = self.axis(area);
        scene.name(canvas, top, &name);
        margin::legend_right(scene, canvas, top, &self.legend(scene));
        for (value, text) in &ticks {
            let y = place(*value);
            canvas.line((area.left, y), (area.right(), y), scene.theme.grid, 1.0);
            let ink = Ink { anchor: Anchor::End, ..Ink::new(11.0, scene.theme.muted) };
            canvas.text((area.left - 7.0, y + 4.0), text, ink);
        }
        let to_pixels = |points: &Points| -> Points {
            points.iter().map(|(time, value)| (scene.x(*time), value.map(&place))).collect()
        };
        canvas.clipped(area, |canvas| {
            if self.layout == Layout::Stacked {
                self.draw_stack(canvas, area, &to_pixels);
                return;
            }
            for line in &self.lines {
                let points = to_pixels(&line.points);
                if self.layout == Layout::Linear && !scene.is_overlay() {
                    canvas.fill(&line::fill_path(&points, area.bottom()), line.color, 0.16);
                }
                let dashes = if line.dashed { "4 3" } else { "" };
                canvas.stroke(&line::stroke_path(&points), line.color, 1.4, dashes);
            }
        });
        let bottom = (area.left, area.bottom());
        canvas.line(bottom, (area.right(), area.bottom()), scene.theme.axis, 1.0);
    }

    fn draw_stack(&self, canvas: &mut Canvas, area: Area, to_pixels: &dyn Fn(&Points) -> Points) {
        let mut sum: Points = Vec::new();
        let mut layers = Vec::new();
        for line in &self.lines {
            sum.resize_with(line.points.len(), || (0.0, None));
            for (total, (time, value)) in sum.iter_mut().zip(&line.points) {
                *total = (*time, Some(total.1.unwrap_or(0.0) + value.unwrap_or(0.0)));
            }
            layers.push((to_pixels(&sum), line.color));
        }
        // From the top down, so that each covers what is below it.
        for (points, color) in layers.iter().rev() {
            canvas.fill(&line::fill_path(points, area.bottom()), color, 1.0);
        }
    }

    fn legend(&self, scene: &Scene<'_>) -> Vec<Item> {
        if scene.is_overlay() {
            let dashed = self.lines.iter().any(|line| line.dashed);
            let words = if dashed { "median; dashed: 99th percentile" } else { "" };
            return vec![Item { name: words.to_owned(), color: None }];
        }
        let mut named: Vec<&Line> =
            self.lines.iter().filter(|line| !line.name.is_empty()).collect();
        let items = |lines: &[&Line]| -> Vec<Item> {
            let item = |line: &&Line| Item { name: line.name.clone(), color: Some(line.color) };
            lines.iter().map(item).collect()
        };
        // Beside the name of the panel there is not room for all: those that are seen least are left out.
        while named.len() > 1 && margin::legend_width(&items(&named)) > scene.length - NAME_WIDTH {
            let seen = |line: &Line| line.values().map(f64::abs).sum::<f64>();
            let least = (0..named.len())
                .min_by(|a, b| seen(named[*a]).total_cmp(&seen(named[*b])))
                .expect("there are at least two");
            named.remove(least);
        }
        items(&named)
    }

    /// The name with its unit, ticks with their texts, and the place of a value.
    fn axis(&self, area: Area) -> Axis {
        if self.layout == Layout::Logarithmic {
            let values = || self.lines.iter().flat_map(Line::values).filter(|value| *value > 0.0);
            let low = values().fold(f64::INFINITY, f64::min).max(1.0) * 0.8;
            let high = (values().fold(0.0, f64::max) * 1.25).max(low * 4.0);
            let ticks = axis::ticks_log(low, high, axis::room(area.height, 22.0));
            let ticks = ticks.into_iter().map(|tick| (tick, axis::time_label(tick))).collect();
            let place = move |value: f64| {
                let share = (value.max(low) / low).ln() / (high / low).ln();
                area.bottom() - share * area.height
            };
            return Axis { name: self.name.clone(), ticks, place: Box::new(place) };
        }
        let most = match self.layout {
            Layout::Stacked => stacked_most(&self.lines),
            _ => self.lines.iter().map(Line::most).fold(0.0, f64::max),
        };
        let (name, factor) = match self.measure {
            Measure::BytesPerSecond => {
                let scale = axis::bytes(most.max(1.0));
                (format!("{} ({}/s)", self.name, scale.unit), scale.factor)
            }
            Measure::PerSecond => (format!("{} (per second)", self.name), 1.0),
            Measure::Time | Measure::Count => (self.name.clone(), 1.0),
        };
        let ticks = axis::ticks_up(most / factor, axis::room(area.height, 26.0).min(5));
        let top = ticks.last().copied().unwrap_or(1.0) * factor;
        let ticks = ticks.into_iter().map(|tick| (tick * factor, axis::label(tick))).collect();
        // A line at the very top would be cut in half.
        let place = move |value: f64| area.bottom() - value / top * (area.height - 2.0);
        Axis { name, ticks, place: Box::new(place) }
    }
}

fn stacked_most(lines: &[Line]) -> f64 {
    let count = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let sum =
        |index: usize| -> f64 { lines.iter().filter_map(|line| line.points.get(index)?.1).sum() };
    (0..count).map(sum).fold(0.0, f64::max)
}
