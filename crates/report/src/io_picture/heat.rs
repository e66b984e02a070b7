//! Where on the device and when: a raster in which each request leaves a mark.

use fsdyno_model::io_graph::{IoClass, IoGraph};
use fsdyno_model::trace::SECTOR_BYTES;

use super::canvas::{Area, Canvas, Ink, fitted};
use super::margin::{self, Item};
use super::{Scene, axis, raster, theme};

/// Pixels of the raster for a pixel of the picture.
const DENSITY: f64 = 2.0;
/// Least size of a mark, in pixels of the raster.
const LEAST: f64 = 3.0;
/// Faintest mark: one request must be seen.
const FAINT: f64 = 0.4;

/// The map of a picture.
#[derive(Debug)]
pub struct Map {
    /// First byte that is shown.
    low: f64,
    /// Last byte that is shown.
    high: f64,
    legend: Vec<Item>,
}

impl Map {
    /// What there is to be drawn.
    pub fn new(scene: &Scene<'_>) -> Map {
        let (low, high) = extent(scene);
        let legend = if scene.is_overlay() {
            Vec::new()
        } else {
            let is_seen = |class: &IoClass| {
                let mut cells = scene.inputs.iter().flat_map(|input| &input.graph.heat.cells);
                cells.any(|cell| cell.class == *class)
            };
            let classes = IoClass::ALL.into_iter().filter(is_seen);
            let item = |class: IoClass| Item {
                name: class.title().to_owned(),
                color: Some(scene.theme.class(class)),
            };
            classes.map(item).collect()
        };
        Map { low, high, legend }
    }

    /// Pixels of the rows above it: its name and the legend, which may not fit beside each other.
    pub fn name_height(&self, scene: &Scene<'_>) -> f64 {
        super::NAME_ROW * if self.legend_is_below(scene) { 2.0 } else { 1.0 }
    }

    fn legend_is_below(&self, scene: &Scene<'_>) -> bool {
        margin::legend_width(&self.legend) > scene.length - 240.0
    }

    /// Draws it: its name at `top`, its plot in `area`.
    pub fn draw(
        &self,
        scene: &Scene<'_>,
        canvas: &mut Canvas,
        top: f64,
        area: Area,
        bursts: &[margin::BurstRow<'_>],
    ) {
        scene.plot(canvas, area);
        let scale = axis::bytes(self.high);
        scene.name(canvas, top, &format!("Offset on the device ({})", scale.unit));
        let legend_top = if self.legend_is_below(scene) { top + super::NAME_ROW } else { top };
        margin::legend_right(scene, canvas, legend_top, &self.legend);
        let place = |byte: f64| {
            area.bottom() - (byte - self.low) / (self.high - self.low).max(1.0) * area.height
        };
        let count = axis::room(area.height, 40.0);
        for tick in axis::ticks_within(self.low / scale.factor, self.high / scale.factor, count) {
            let y = place(tick * scale.factor);
            canvas.line((area.left, y), (area.right(), y), scene.theme.grid, 1.0);
            let ink = Ink::new(11.0, scene.theme.muted).end();
            canvas.text((area.left - 7.0, y + 4.0), &axis::label(tick), ink);
        }
        margin::burst_bands(scene, canvas, area, bursts);
        if let Some(png) = self.raster(scene, area) {
            canvas.image(area, &png);
        }
        self.devices(scene, canvas, area, place);
        margin::burst_marks(scene, canvas, area, bursts);
        let bottom = (area.left, area.bottom());
        canvas.line(bottom, (area.right(), area.bottom()), scene.theme.axis, 1.0);
    }

    /// Where each of several devices begins.
    fn devices(
        &self,
        scene: &Scene<'_>,
        canvas: &mut Canvas,
        area: Area,
        place: impl Fn(f64) -> f64,
    ) {
        let [input] = scene.inputs else { return };
        let devices = &input.graph.devices;
        if devices.len() < 2 {
            return;
        }
        let mut first = 0.0;
        for device in devices {
            let y = place(first);
            if y > area.top + 12.0 && y <= area.bottom() + 0.5 {
                canvas.line((area.left, y), (area.right(), y), scene.theme.axis, 1.0);
                let text = fitted(&device.name, 10.0, 200.0);
                canvas.text((area.left + 4.0, y - 4.0), &text, Ink::new(10.0, scene.theme.muted));
            }
            first += device.sectors.unwrap_or(0) as f64 * SECTOR_BYTES as f64;
        }
    }

    /// The marks as a PNG that fills `area`; `None` where there are none.
    fn raster(&self, scene: &Scene<'_>, area: Area) -> Option<Vec<u8>> {
        let width = (area.width * DENSITY).round().max(1.0) as usize;
        let height = (area.height * DENSITY).round().max(1.0) as usize;
        let mut pixels = vec![0; width * height * 4];
        for (index, input) in scene.inputs.iter().enumerate() {
            let trace = theme::rgb(scene.theme.nth(index));
            let color = |class: IoClass| {
                if scene.is_overlay() { trace } else { theme::rgb(scene.theme.class(class)) }
            };
            let stretch = input.graph.duration_ns as f64 / scene.duration_ns;
            self.marks(input.graph, stretch, (width, height), &mut pixels, color);
        }
        let seen = pixels.chunks_exact(4).any(|pixel| pixel[3] > 0);
        seen.then(|| raster::encode(width, height, &pixels))
    }

    fn marks(
        &self,
        graph: &IoGraph,
        stretch: f64,
        (width, height): (usize, usize),
        pixels: &mut [u8],
        color: impl Fn(IoClass) -> [u8; 3],
    ) {
        let heat = &graph.heat;
        let most = heat.cells.iter().map(|cell| cell.requests).max().unwrap_or(1).max(1);
        let axis_ns = (graph.duration_ns as f64).max(1.0);
        let column = heat.column_ns as f64 / axis_ns * stretch * width as f64;
        let row_bytes = heat.row_sectors as f64 * SECTOR_BYTES as f64;
        let span = (self.high - self.low).max(1.0);
        let row = row_bytes / span * height as f64;
        let origin = height as f64 + self.low / span * height as f64;
        let mut cells: Vec<_> = heat.cells.iter().collect();
        // The busiest last, so that a mark is not hidden by a fainter one beside it.
        cells.sort_by_key(|cell| cell.requests);
        for cell in cells {
            let strength = (f64::from(cell.requests) + 1.0).ln() / (f64::from(most) + 1.0).ln();
            // Steps, which compress better than a continuum and look the same.
            let strength = FAINT + (1.0 - FAINT) * (strength * 10.0).round() / 10.0;
            let [red, green, blue] = color(cell.class);
            let ink = [red, green, blue, (strength * 255.0) as u8];
            let (left, right) = stretched(f64::from(cell.column) * column, column);
            let (top, bottom) = stretched(origin - f64::from(cell.row + 1) * row, row);
            for y in clamp(top, height)..clamp(bottom, height) {
                for x in clamp(left, width)..clamp(right, width) {
                    pixels[(y * width + x) * 4..][..4].copy_from_slice(&ink);
                }
            }
        }
    }
}

/// From and to of a mark that begins at `from` and is `size` long, but at least [`LEAST`].
fn stretched(from: f64, size: f64) -> (f64, f64) {
    let more = (LEAST - size).max(0.0) / 2.0;
    ((from - more).round(), (from + size + more).round())
}

fn clamp(value: f64, limit: usize) -> usize {
    (value.max(0.0) as usize).min(limit)
}

/// The bytes that were touched, in whole ticks; from the first byte of the device unless all of them
/// are far from it.
fn extent(scene: &Scene<'_>) -> (f64, f64) {
    let mut low = f64::INFINITY;
    let mut high: f64 = 0.0;
    for input in scene.inputs {
        let heat = &input.graph.heat;
        let row_bytes = heat.row_sectors as f64 * SECTOR_BYTES as f64;
        for cell in &heat.cells {
            low = low.min(f64::from(cell.row) * row_bytes);
            high = high.max(f64::from(cell.row + 1) * row_bytes);
        }
    }
    if high <= 0.0 {
        return (0.0, 1.0);
    }
    if low < high * 0.5 {
        return (0.0, high * 1.01);
    }
    let margin = (high - low) * 0.03;
    (low - margin, high + margin)
}
