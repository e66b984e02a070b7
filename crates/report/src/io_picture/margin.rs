//! What stands around the panels: the head with totals, strips that name phases, legends, bursts and
//! what was lost.

use fsdyno_model::io_graph::{Burst, IoGraph};
use fsdyno_model::trace::SECTOR_BYTES;

use super::canvas::{Area, Canvas, Ink, fitted, text_width};
use super::words::{decimal_bytes, grouped};
use super::{EDGE, Scene};

/// Most bursts that are told.
const BURSTS: usize = 6;
/// More stretches than this have no bands behind the panels: they would flicker.
const BANDS: usize = 60;
/// Pixels of a strip of phases.
const STRIP: f64 = 17.0;
/// Pixels of a line of small text.
const LINE: f64 = 16.0;

/// A word of a legend.
#[derive(Debug)]
pub struct Item {
    pub name: String,
    /// Colour of its mark; a remark has none.
    pub color: Option<&'static str>,
}

impl Item {
    fn width(&self) -> f64 {
        text_width(&self.name, 11.0) + if self.color.is_some() { 16.0 } else { 0.0 }
    }
}

/// Pixels between the items of a legend.
const BETWEEN: f64 = 14.0;

/// Pixels of a legend in one row.
pub fn legend_width(items: &[Item]) -> f64 {
    let gaps = BETWEEN * items.len().saturating_sub(1) as f64;
    items.iter().map(Item::width).sum::<f64>() + gaps
}

/// A legend whose right end is that of the panels.
pub fn legend_right(scene: &Scene<'_>, canvas: &mut Canvas, top: f64, items: &[Item]) {
    let left = scene.left + scene.length - legend_width(items);
    legend_left(scene, canvas, (left, top), items);
}

/// A legend whose left end is given.
pub fn legend_left(
    scene: &Scene<'_>,
    canvas: &mut Canvas,
    (left, top): (f64, f64),
    items: &[Item],
) {
    let mut x = left;
    for item in items {
        let mut text = x;
        if let Some(color) = item.color {
            let mark = Area { left: x, top: top + 5.5, width: 10.0, height: 10.0 };
            canvas.round_rect(mark, color, 2.0);
            text += 16.0;
        }
        canvas.text((text, top + 15.0), &item.name, Ink::new(11.0, scene.theme.muted));
        x += item.width() + BETWEEN;
    }
}

/// What screen readers say of the picture.
pub fn title(scene: &Scene<'_>) -> String {
    let traces: Vec<String> = scene
        .inputs
        .iter()
        .map(|input| format!("{}: {}", input.graph.label, totals(input.graph)))
        .collect();
    let what = scene.title.map_or(String::new(), |title| format!(" of {title}"));
    format!("I/O graph{what}. {}", traces.join(". "))
}

/// Pixels of the head.
pub fn head_height(scene: &Scene<'_>) -> f64 {
    if scene.is_overlay() { 30.0 + LINE * scene.inputs.len() as f64 + 4.0 } else { 46.0 }
}

/// What was traced, with totals: of several traces one line each, which is the legend too.
pub fn head(scene: &Scene<'_>, canvas: &mut Canvas, top: f64) {
    let room = scene.width - 2.0 * EDGE;
    let title = match scene.inputs {
        [] => "No trace".to_owned(),
        [only] => heading(only.graph, scene.title.unwrap_or(&only.graph.label)),
        several => {
            let what = scene.title.map_or(String::new(), |title| format!("{title}: "));
            format!("{what}{} traces on one axis", several.len())
        }
    };
    let ink = Ink::new(17.0, scene.theme.text).bold();
    canvas.text((EDGE, top + 14.0), &fitted(&title, 18.5, room), ink);
    let small = Ink::new(12.0, scene.theme.muted);
    if let [only] = scene.inputs {
        canvas.text((EDGE, top + 34.0), &fitted(&totals(only.graph), 12.0, room), small);
        return;
    }
    for (index, input) in scene.inputs.iter().enumerate() {
        let y = top + 34.0 + LINE * index as f64;
        let mark = Area { left: EDGE, top: y - 10.0, width: 11.0, height: 11.0 };
        canvas.round_rect(mark, scene.theme.nth(index), 2.0);
        let label = fitted(&input.graph.label, 12.0, room / 3.0);
        let ink = Ink::new(12.0, scene.theme.text).bold();
        canvas.text((EDGE + 18.0, y), &label, ink);
        let beside = EDGE + 18.0 + text_width(&label, 13.2) + 12.0;
        let text = fitted(&totals(input.graph), 12.0, scene.width - EDGE - beside);
        canvas.text((beside, y), &text, small);
    }
}

/// The title with the devices.
fn heading(graph: &IoGraph, title: &str) -> String {
    let names: Vec<String> = graph
        .devices
        .iter()
        .map(|device| match device.sectors {
            Some(sectors) if title.contains(&device.name) => {
                decimal_bytes(sectors.saturating_mul(SECTOR_BYTES))
            }
            Some(sectors) => {
                let size = decimal_bytes(sectors.saturating_mul(SECTOR_BYTES));
                format!("{}, {size}", device.name)
            }
            None => device.name.clone(),
        })
        .collect();
    match names.len() {
        0 => title.to_owned(),
        1..=4 => format!("{title} ({})", names.join("; ")),
        count => format!("{title} ({count} devices)"),
    }
}

/// `read 1.20 GB in 34,212 requests · wrote … · 5,212 seeks · 12 flushes`.
pub fn totals(graph: &IoGraph) -> String {
    let totals = &graph.totals;
    let mut parts = Vec::new();
    for (verb, bytes, requests) in [
        ("read", totals.read_bytes, totals.reads),
        ("wrote", totals.write_bytes, totals.writes),
        ("discarded", totals.discard_bytes, totals.discards),
    ] {
        if requests > 0 {
            let noun = if requests == 1 { "request" } else { "requests" };
            parts.push(format!("{verb} {} in {} {noun}", decimal_bytes(bytes), grouped(requests)));
        }
    }
    if parts.is_empty() {
        parts.push("no requests".to_owned());
    }
    parts.push(counted(totals.seeks, "seek"));
    parts.push(counted(totals.flushes, "flush"));
    if totals.errors > 0 {
        parts.push(format!("{} failed", grouped(totals.errors)));
    }
    parts.join(" · ")
}

fn counted(count: u64, noun: &str) -> String {
    let ending = match (count, noun.ends_with("sh")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {noun}{ending}", grouped(count))
}

/// Time in which one phase ran without another in between, after the left end of the axis.
#[derive(Debug)]
struct Stretch {
    /// Index of the phase.
    phase: usize,
    from_ns: f64,
    to_ns: f64,
}

/// The stretches of the trace number `index`, in the order of time, within the axis.
fn stretches(scene: &Scene<'_>, index: usize) -> Vec<Stretch> {
    let input = &scene.inputs[index];
    let start = input.graph.start_ns as f64;
    let mut all: Vec<Stretch> = Vec::new();
    for (phase, spans) in input.phases.iter().enumerate() {
        for (from, to) in &spans.spans {
            let (from_ns, to_ns) = (*from as f64 - start, *to as f64 - start);
            if to_ns > 0.0 && from_ns < scene.duration_ns {
                let (from_ns, to_ns) = (from_ns.max(0.0), to_ns.min(scene.duration_ns));
                all.push(Stretch { phase, from_ns, to_ns });
            }
        }
    }
    all.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns));
    let mut joined: Vec<Stretch> = Vec::new();
    for next in all {
        match joined.last_mut() {
            Some(last) if last.phase == next.phase => last.to_ns = last.to_ns.max(next.to_ns),
            _ => joined.push(next),
        }
    }
    joined
}

fn with_phases(scene: &Scene<'_>) -> Vec<usize> {
    (0..scene.inputs.len()).filter(|index| !stretches(scene, *index).is_empty()).collect()
}

/// Pixels of the strips, with the legend of phases whose name fits nowhere.
pub fn strips_height(scene: &Scene<'_>) -> f64 {
    let traces = with_phases(scene);
    if traces.is_empty() {
        return 0.0;
    }
    let legend = phase_rows(scene, &unnamed(scene)).len() as f64 * LINE;
    traces.len() as f64 * (STRIP + 3.0) + legend + 4.0
}

/// A strip for each trace that has phases: when each ran.
pub fn strips(scene: &Scene<'_>, canvas: &mut Canvas, top: f64) {
    let mut y = top;
    for trace in with_phases(scene) {
        let mut drawn = f64::NEG_INFINITY;
        for stretch in stretches(scene, trace) {
            // Thousands of short ones are no more to be seen than some hundreds.
            if scene.x(stretch.to_ns) < drawn + 0.5 {
                continue;
            }
            drawn = scene.x(stretch.to_ns);
            let (left, right) = (scene.x(stretch.from_ns), scene.x(stretch.to_ns));
            let width = (right - left - 1.0).max(1.0);
            let area = Area { left, top: y, width, height: STRIP };
            canvas.rect(area, scene.theme.nth(stretch.phase), 0.38);
            let name = &scene.inputs[trace].phases[stretch.phase].phase;
            if fits(name, width) {
                let ink = Ink::new(10.5, scene.theme.text).middle();
                canvas.text((left + width / 2.0, y + 12.5), name, ink);
            }
        }
        if scene.is_overlay() {
            let mark = Area { left: EDGE, top: y + 3.0, width: 11.0, height: 11.0 };
            canvas.round_rect(mark, scene.theme.nth(trace), 2.0);
        }
        y += STRIP + 3.0;
    }
    for row in phase_rows(scene, &unnamed(scene)) {
        legend_left(scene, canvas, (scene.left, y - 4.0), &row);
        y += LINE;
    }
}

fn fits(name: &str, width: f64) -> bool {
    text_width(name, 10.5) + 6.0 <= width
}

/// Phases, by trace and index, whose name fits into none of their stretches.
fn unnamed(scene: &Scene<'_>) -> Vec<(String, usize)> {
    let mut missing: Vec<(String, usize)> = Vec::new();
    for trace in with_phases(scene) {
        let stretches = stretches(scene, trace);
        for (index, phase) in scene.inputs[trace].phases.iter().enumerate() {
            let mut own = stretches.iter().filter(|stretch| stretch.phase == index).peekable();
            let ran = own.peek().is_some();
            let named = own.any(|stretch| {
                fits(&phase.phase, scene.x(stretch.to_ns) - scene.x(stretch.from_ns) - 1.0)
            });
            let entry = (phase.phase.clone(), index);
            if ran && !named && !missing.contains(&entry) {
                missing.push(entry);
            }
        }
    }
    missing
}

fn phase_rows(scene: &Scene<'_>, phases: &[(String, usize)]) -> Vec<Vec<Item>> {
    let mut rows: Vec<Vec<Item>> = Vec::new();
    let mut used = f64::INFINITY;
    for (name, index) in phases {
        let item = Item { name: name.clone(), color: Some(scene.theme.nth(*index)) };
        let width = item.width() + BETWEEN;
        if used + width > scene.length {
            rows.push(Vec::new());
            used = 0.0;
        }
        used += width;
        if let Some(row) = rows.last_mut() {
            row.push(item);
        }
    }
    rows
}

/// Every other stretch of the only trace as a band behind a panel.
pub fn bands(scene: &Scene<'_>, canvas: &mut Canvas, area: Area) {
    if scene.inputs.len() != 1 {
        return;
    }
    let stretches = stretches(scene, 0);
    if stretches.len() > BANDS {
        return;
    }
    for stretch in stretches.iter().skip(1).step_by(2) {
        let (left, right) = (scene.x(stretch.from_ns), scene.x(stretch.to_ns));
        canvas.rect(Area { left, width: right - left, ..area }, scene.theme.axis, 0.16);
    }
}

/// A burst that is told, with the number that leads to it.
#[derive(Debug)]
pub struct BurstRow<'a> {
    number: usize,
    burst: &'a Burst,
}

/// The bursts with most seeks and bytes, in the order of time; several traces have none.
pub fn burst_rows<'a>(scene: &Scene<'a>) -> Vec<BurstRow<'a>> {
    let [input] = scene.inputs else { return Vec::new() };
    let mut chosen: Vec<&Burst> = input.graph.bursts.iter().collect();
    chosen.sort_by_key(|burst| std::cmp::Reverse((burst.seeks, burst.bytes)));
    chosen.truncate(BURSTS);
    chosen.sort_by_key(|burst| burst.from_ns);
    let numbered = chosen.into_iter().enumerate();
    numbered.map(|(index, burst)| BurstRow { number: index + 1, burst }).collect()
}

/// Bands behind the offsets where bursts are.
pub fn burst_bands(scene: &Scene<'_>, canvas: &mut Canvas, area: Area, rows: &[BurstRow<'_>]) {
    for row in rows {
        let left = scene.x(row.burst.from_ns as f64);
        let width = (scene.x(row.burst.to_ns as f64) - left).max(1.5);
        canvas.rect(Area { left, width, ..area }, scene.theme.writes(), 0.10);
    }
}

/// Numbers at the top of the offsets where bursts are.
pub fn burst_marks(scene: &Scene<'_>, canvas: &mut Canvas, area: Area, rows: &[BurstRow<'_>]) {
    let mut least = f64::NEG_INFINITY;
    for row in rows {
        let middle = f64::midpoint(row.burst.from_ns as f64, row.burst.to_ns as f64);
        let right = area.right() - 8.0;
        let x = scene.x(middle).clamp((area.left + 8.0).min(right), right).max(least);
        badge(scene, canvas, (x, area.top + 9.0), row.number);
        least = x + 16.0;
    }
}

fn badge(scene: &Scene<'_>, canvas: &mut Canvas, (x, y): (f64, f64), number: usize) {
    canvas.circle((x, y), 7.5, scene.theme.text);
    let ink = Ink::new(10.0, scene.theme.background).bold().middle();
    canvas.text((x, y + 3.6), &number.to_string(), ink);
}

/// Pixels of what stands below the time axis.
pub fn foot_height(rows: &[BurstRow<'_>]) -> f64 {
    let lines = if rows.is_empty() { 0.0 } else { rows.len() as f64 * (LINE + 2.0) };
    lines + LINE
}

/// The bursts in words, and what is missing.
pub fn foot(scene: &Scene<'_>, canvas: &mut Canvas, top: f64, rows: &[BurstRow<'_>]) {
    let mut y = top + 10.0;
    for row in rows {
        badge(scene, canvas, (EDGE + 8.0, y - 4.0), row.number);
        let text = fitted(&row.burst.text, 12.0, scene.width - 2.0 * EDGE - 26.0);
        canvas.text((EDGE + 24.0, y), &text, Ink::new(12.0, scene.theme.text));
        y += LINE + 2.0;
    }
    let lost: u64 = scene.inputs.iter().map(|input| input.graph.lost_events).sum();
    let (text, color) = if lost > 0 {
        let text = format!("{} events are missing: figures are too low", grouped(lost));
        (text, scene.theme.warning)
    } else {
        let text = "Throughput and IOPS count completed requests. A seek is a gap of more than \
                    128 sectors between requests issued one after the other.";
        (text.to_owned(), scene.theme.muted)
    };
    let text = fitted(&text, 10.5, scene.width - 2.0 * EDGE);
    canvas.text((EDGE, y), &text, Ink::new(10.5, color));
}
