//! Static pictures: what a disk did over time, as SVG, PNG and the frames of a film, and a run's
//! comparisons. Everything shown was computed before; this module decides only where and how.
//!
//! | module | draws |
//! |---|---|
//! | `heat` | where on the device and when |
//! | `panel` | figures over time |
//! | `margin` | head, phases, legends, bursts |
//! | [`frames`](mod@frames) | the film of the disk |
//! | [`ratios`](mod@ratios) | each target beside the first |
//! | [`words`] | the same as text for a terminal |
//! | [`bars`](mod@bars) | figures as bars, then and now |
//! | [`course`](mod@course) | what was reached sample after sample |
//! | [`series`] | every figure as CSV and JSON |

mod axis;
pub mod bars;
mod canvas;
pub mod course;
pub mod frames;
mod heat;
mod history;
mod line;
mod margin;
mod panel;
mod raster;
pub mod ratios;
pub mod series;
mod theme;
pub mod words;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use fsdyno_model::activity::Activity;
use fsdyno_model::io_graph::IoGraph;
use fsdyno_model::report_data::PhaseSpans;

pub use bars::bars_svg;
pub use course::course_svg;
pub use frames::{FrameOptions, frames};
pub use history::history_svg;
pub use raster::png;
pub use ratios::ratios_svg;

use axis::Scale;
use canvas::{Area, Canvas, Ink};
use theme::Theme;

/// One trace in a picture.
#[derive(Debug, Clone, Copy)]
pub struct PictureInput<'a> {
    /// The trace, analysed.
    pub graph: &'a IoGraph,
    /// What the machine did meanwhile.
    pub activity: Option<&'a Activity>,
    /// When phases ran, in the trace's clock.
    pub phases: &'a [PhaseSpans],
}

/// How a picture looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureOptions {
    /// Width in pixels; at least 480 is drawn.
    pub width: u32,
    /// Height in pixels; more is drawn where panels would be too small to read.
    pub height: u32,
    /// Light marks on dark paper.
    pub dark: bool,
}

impl Default for PictureOptions {
    fn default() -> PictureOptions {
        PictureOptions { width: 1200, height: 1000, dark: false }
    }
}

/// Pixels between the edge of the paper and what is drawn.
const EDGE: f64 = 20.0;
/// Pixels for the figures beside an axis.
const FIGURES: f64 = 52.0;
/// Pixels of the row above a panel that holds its name and legend.
const NAME_ROW: f64 = 22.0;
/// Pixels below the last panel for the time axis.
const TIME_ROW: f64 = 44.0;

/// What all parts of a picture share.
#[derive(Debug)]
struct Scene<'a> {
    inputs: &'a [PictureInput<'a>],
    /// What was run: workload, or workload and target.
    title: Option<&'a str>,
    theme: &'static Theme,
    /// Width of the paper.
    width: f64,
    /// Left end of the time axis.
    left: f64,
    /// Its length in pixels.
    length: f64,
    /// Its length in nanoseconds.
    duration_ns: f64,
}

impl<'a> Scene<'a> {
    fn new(inputs: &'a [PictureInput<'a>], options: &PictureOptions) -> Scene<'a> {
        let width = f64::from(options.width.clamp(480, 10_000));
        let left = EDGE + FIGURES;
        let duration = inputs.iter().map(|input| input.graph.duration_ns).max().unwrap_or(0);
        Scene {
            inputs,
            title: None,
            theme: Theme::of(options.dark),
            width,
            left,
            length: width - left - EDGE,
            duration_ns: duration.max(1) as f64,
        }
    }

    /// Place of a time after the left end of the axis.
    fn x(&self, after_ns: f64) -> f64 {
        self.left + after_ns / self.duration_ns * self.length
    }

    fn area(&self, top: f64, height: f64) -> Area {
        Area { left: self.left, top, width: self.length, height }
    }

    /// Whether several traces share the axes: then colours tell traces apart.
    fn is_overlay(&self) -> bool {
        self.inputs.len() > 1
    }

    fn time_scale(&self) -> Scale {
        axis::time(self.duration_ns)
    }

    fn time_ticks(&self) -> Vec<f64> {
        let scale = self.time_scale();
        let count = axis::room(self.length, 85.0);
        let ticks = axis::ticks_within(0.0, self.duration_ns / scale.factor, count);
        ticks.into_iter().map(|tick| tick * scale.factor).collect()
    }

    /// Paper of a panel, with the lines of the time axis and bands where phases ran.
    fn plot(&self, canvas: &mut Canvas, area: Area) {
        canvas.rect(area, self.theme.plot, 1.0);
        margin::bands(self, canvas, area);
        for tick in self.time_ticks() {
            let x = self.x(tick);
            canvas.line((x, area.top), (x, area.bottom()), self.theme.grid, 1.0);
        }
    }

    fn name(&self, canvas: &mut Canvas, top: f64, name: &str) {
        canvas.text((self.left, top + 15.0), name, Ink::new(12.0, self.theme.text).bold());
    }

    fn time_axis(&self, canvas: &mut Canvas, top: f64) {
        let scale = self.time_scale();
        for tick in self.time_ticks() {
            let text = axis::label((tick / scale.factor * 1e6).round() / 1e6);
            let ink = Ink::new(11.0, self.theme.muted).middle();
            canvas.text((self.x(tick), top + 15.0), &text, ink);
        }
        let text = format!("Time ({})", scale.unit);
        let ink = Ink::new(12.0, self.theme.text).middle();
        canvas.text((self.left + self.length / 2.0, top + 34.0), &text, ink);
    }
}

/// The I/O graph of one trace, or of several laid over each other, as SVG: offsets, throughput, IOPS,
/// seeks, latency, queue depth and processor time on one time axis. Each trace begins at its left end.
#[must_use]
pub fn svg(inputs: &[PictureInput<'_>], options: &PictureOptions) -> String {
    svg_titled(inputs, None, options)
}

/// Like [`svg`], under a title that says what was run: `compilebench on ext4`.
#[must_use]
pub fn svg_titled(
    inputs: &[PictureInput<'_>],
    title: Option<&str>,
    options: &PictureOptions,
) -> String {
    let scene = Scene { title, ..Scene::new(inputs, options) };
    let panels = panel::panels(&scene);
    let head = margin::head_height(&scene);
    let strips = margin::strips_height(&scene);
    let map = heat::Map::new(&scene);
    let map_name = map.name_height(&scene);
    let bursts = margin::burst_rows(&scene);
    let foot = TIME_ROW + margin::foot_height(&bursts) + 8.0;

    let names = NAME_ROW * panels.len() as f64 + map_name;
    let fixed = EDGE + head + strips + names + foot;
    let unit = (f64::from(options.height.min(10_000)) - fixed) / (3.2 + panels.len() as f64);
    let unit = unit.max(56.0);

    let mut canvas = Canvas::default();
    let mut top = EDGE;
    margin::head(&scene, &mut canvas, top);
    top += head;
    margin::strips(&scene, &mut canvas, top);
    top += strips;
    let area = scene.area(top + map_name, unit * 3.2);
    map.draw(&scene, &mut canvas, top, area, &bursts);
    top = area.bottom();
    for panel in &panels {
        let area = scene.area(top + NAME_ROW, unit);
        panel.draw(&scene, &mut canvas, top, area);
        top = area.bottom();
    }
    scene.time_axis(&mut canvas, top);
    margin::foot(&scene, &mut canvas, top + TIME_ROW, &bursts);
    let title = margin::title(&scene);
    canvas.finish(scene.width, top + foot, scene.theme.background, &title)
}
