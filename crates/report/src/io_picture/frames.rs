//! The film of a disk, frame by frame: the device as a field of blocks, first sector at the top left,
//! in which requests light up and fade, above the throughput with a line at the moment shown.

use fsdyno_model::io_graph::{IoClass, IoGraph};
use fsdyno_model::units::human_duration;
use resvg::tiny_skia::{Color, Paint, Pixmap, Rect, Transform};

use super::canvas::{Area, Canvas, Ink, fitted};
use super::line::{self, Join};
use super::margin::{self, Item};
use super::theme::{Theme, rgb};
use super::words::decimal_bytes;
use super::{EDGE, PictureInput, PictureOptions, Scene, raster};

/// How a film is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameOptions {
    /// Number of frames; the trace is spread over them evenly.
    pub count: u32,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Light marks on dark paper.
    pub dark: bool,
}

impl Default for FrameOptions {
    fn default() -> FrameOptions {
        FrameOptions { count: 300, width: 960, height: 640, dark: true }
    }
}

/// What is left of a mark's light one frame later.
const FADE: f32 = 0.8;
/// Height of the panel of throughput, in pixels.
const STRIP: f64 = 90.0;
/// Height of the head, in pixels.
const HEAD: f64 = 74.0;
/// Pixels between blocks.
const GAP: f64 = 1.5;

/// Light of one block.
#[derive(Debug, Clone, Copy, Default)]
struct Glow {
    class: Option<IoClass>,
    light: f32,
    touched: bool,
}

/// The frames of a film, each a PNG.
#[derive(Debug)]
pub struct Frames<'a> {
    graph: &'a IoGraph,
    options: FrameOptions,
    theme: &'static Theme,
    /// What is the same in all frames; `None` where it cannot be drawn.
    paper: Option<Pixmap>,
    field: Area,
    strip: Area,
    columns: usize,
    lines: usize,
    glows: Vec<Glow>,
    next: u32,
    /// First cell that has not been shown.
    cell: usize,
    most_ln: f32,
}

/// The film of `graph`: PNG files one after the other, none where the size cannot be drawn.
#[must_use]
pub fn frames(graph: &IoGraph, options: FrameOptions) -> Frames<'_> {
    let options = FrameOptions {
        width: options.width.clamp(480, 4096),
        height: options.height.clamp(360, 4096),
        ..options
    };
    let theme = Theme::of(options.dark);
    let (width, height) = (f64::from(options.width), f64::from(options.height));
    let inside = width - 2.0 * EDGE;
    let strip = Area { left: EDGE, top: height - EDGE - STRIP, width: inside, height: STRIP };
    let field = Area { left: EDGE, top: HEAD, width: inside, height: strip.top - HEAD - 14.0 };
    let rows = (graph.heat.rows as usize).max(1);
    // Blocks about as high as wide.
    let columns =
        ((rows as f64 * field.width / field.height).sqrt().ceil() as usize).clamp(1, rows);
    let most = graph.heat.cells.iter().map(|cell| cell.requests).max().unwrap_or(1);
    let mut frames = Frames {
        graph,
        options,
        theme,
        paper: None,
        field,
        strip,
        columns,
        lines: rows.div_ceil(columns),
        glows: vec![Glow::default(); rows],
        next: 0,
        cell: 0,
        most_ln: (most as f32 + 1.0).ln(),
    };
    frames.paper = frames.draw_paper();
    frames
}

impl Iterator for Frames<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.next >= self.options.count {
            return None;
        }
        let mut frame = self.paper.clone()?;
        self.next += 1;
        let share = f64::from(self.next) / f64::from(self.options.count);
        let until_ns = share * self.graph.duration_ns as f64;
        self.light(until_ns);
        for row in 0..self.glows.len() {
            self.draw_block(&mut frame, row);
        }
        let moment = self.moment(share);
        if let Some(tree) = raster::tree(&moment) {
            resvg::render(&tree, Transform::identity(), &mut frame.as_mut());
        }
        Some(raster::encode_pixmap(&frame))
    }
}

impl Frames<'_> {
    /// Lets the light fade, and adds what happened up to `until_ns`.
    fn light(&mut self, until_ns: f64) {
        for glow in &mut self.glows {
            glow.light *= FADE;
        }
        let heat = &self.graph.heat;
        while let Some(cell) = heat.cells.get(self.cell) {
            if f64::from(cell.column) * heat.column_ns as f64 >= until_ns {
                break;
            }
            self.cell += 1;
            let Some(glow) = self.glows.get_mut(cell.row as usize) else { continue };
            let strength = 0.45 + 0.55 * (cell.requests as f32 + 1.0).ln() / self.most_ln;
            if strength >= glow.light * 0.9 {
                *glow = Glow { class: Some(cell.class), light: strength.min(1.0), touched: true };
            }
        }
    }

    fn draw_block(&self, frame: &mut Pixmap, row: usize) {
        let glow = self.glows[row];
        let ground = rgb(if glow.touched { self.theme.axis } else { self.theme.grid });
        let color = glow.class.map_or(ground, |class| rgb(self.theme.class(class)));
        let mix = |index: usize| {
            let (from, to) = (f32::from(ground[index]), f32::from(color[index]));
            (from + (to - from) * glow.light.clamp(0.0, 1.0)) as u8
        };
        let width = self.field.width / self.columns as f64;
        let height = self.field.height / self.lines as f64;
        let left = self.field.left + (row % self.columns) as f64 * width;
        let top = self.field.top + (row / self.columns) as f64 * height;
        let gap = if width.min(height) > 5.0 { GAP } else { 0.0 };
        let (w, h) = ((width - gap) as f32, (height - gap) as f32);
        let Some(rect) = Rect::from_xywh(left as f32, top as f32, w, h) else { return };
        let mut paint = Paint::default();
        paint.set_color(Color::from_rgba8(mix(0), mix(1), mix(2), 255));
        frame.fill_rect(rect, &paint, Transform::identity(), None);
    }

    /// Head, legend and throughput.
    fn draw_paper(&self) -> Option<Pixmap> {
        let (theme, graph) = (self.theme, self.graph);
        let input = [PictureInput { graph, activity: None, phases: &[] }];
        let (width, height) = (self.options.width, self.options.height);
        let dark = self.options.dark;
        let mut scene = Scene::new(&input, &PictureOptions { width, height, dark });
        (scene.left, scene.length) = (self.strip.left, self.strip.width);
        let mut canvas = Canvas::default();
        let title = fitted(&graph.label, 17.6, self.field.width * 0.6);
        canvas.text((EDGE, 34.0), &title, Ink::new(16.0, theme.text).bold());
        let is_seen = |class: &IoClass| graph.heat.cells.iter().any(|cell| cell.class == *class);
        let items = IoClass::ALL
            .into_iter()
            .filter(is_seen)
            .map(|class| Item { name: class.title().to_owned(), color: Some(theme.class(class)) });
        margin::legend_left(&scene, &mut canvas, (EDGE, 46.0), &items.collect::<Vec<_>>());
        canvas.rect(self.strip, theme.plot, 1.0);
        let series = [("read_bytes_per_s", theme.reads()), ("write_bytes_per_s", theme.writes())];
        let lines = series.map(|(name, color)| {
            (line::points(graph, &[name], Join::Mean, scene.length, scene.duration_ns), color)
        });
        let values = lines.iter().flat_map(|(points, _)| points.iter().filter_map(|point| point.1));
        let most = values.fold(1.0, f64::max);
        let place = |value: f64| self.strip.bottom() - value / most * (STRIP - 16.0);
        for (points, color) in &lines {
            let at = |(time, value): &(f64, Option<f64>)| (scene.x(*time), value.map(place));
            let points: Vec<_> = points.iter().map(at).collect();
            canvas.fill(&line::fill_path(&points, self.strip.bottom()), color, 0.25);
            canvas.stroke(&line::stroke_path(&points), color, 1.2, "");
        }
        let most = format!("up to {}/s", decimal_bytes(most as u64));
        let at = (self.strip.left + 6.0, self.strip.top + 13.0);
        canvas.text(at, &most, Ink::new(10.0, theme.muted));
        let svg = canvas.finish(f64::from(width), f64::from(height), theme.background, "");
        let tree = raster::tree(&svg)?;
        let mut paper = Pixmap::new(width, height)?;
        resvg::render(&tree, Transform::identity(), &mut paper.as_mut());
        Some(paper)
    }

    /// The time shown and what went on then.
    fn moment(&self, share: f64) -> String {
        let mut canvas = Canvas::default();
        let x = self.strip.left + share * self.strip.width;
        let (top, bottom) = ((x, self.strip.top), (x, self.strip.bottom()));
        canvas.line(top, bottom, self.theme.text, 1.5);
        let duration = self.graph.duration_ns;
        let now = human_duration((share * duration as f64) as u64);
        let now = format!("{now} of {}", human_duration(duration));
        let right = self.field.right();
        canvas.text((right, 34.0), &now, Ink::new(15.0, self.theme.text).bold().end());
        let rate = |name: &str| {
            let values = &self.graph.series(name)?.values;
            let bin = (share * values.len() as f64) as usize;
            *values.get(bin.min(values.len().checked_sub(1)?))?
        };
        let words = |name: &str| decimal_bytes(rate(name).unwrap_or(0.0) as u64);
        let text = format!(
            "reads {}/s · writes {}/s",
            words("read_bytes_per_s"),
            words("write_bytes_per_s")
        );
        canvas.text((right, 61.0), &text, Ink::new(11.0, self.theme.muted).end());
        let (width, height) = (f64::from(self.options.width), f64::from(self.options.height));
        canvas.finish(width, height, "none", "")
    }
}
