//! The pictures of a page: bars of what was published and what was measured, and what was reached sample
//! after sample where a trial has several.

use fsdyno_model::metric::Better;
use fsdyno_model::result::{RunResult, SummaryRow};
use fsdyno_model::then_and_now::{Row, ThenAndNow};
use fsdyno_model::units;

use super::{Entry, slug};
use crate::grid::{Grid, IntervalStyle};
use crate::io_picture::bars::{Bar, BarChart, BarGroup, BarRow, bars_svg};
use crate::io_picture::course::{CourseChart, CourseLine, CoursePanel, course_svg};
use crate::note;
use crate::page::chart::{self, Reached};

/// How bars are read.
const BARS: &str = "Longer is faster; 100 % is the fastest of its row. Lines: 95 % intervals of the median, where there are some.";
/// How bars then and now are read.
const THEN_AND_NOW: &str =
    "Longer is faster; 100 % is the fastest of its row then, and now. Ranks are only written.";

/// One picture.
pub struct Picture {
    /// Name of its file.
    pub file: String,
    /// What it shows, for those who do not see it.
    pub title: String,
    /// Whether it shows samples within trials.
    pub is_course: bool,
    /// The picture.
    pub svg: String,
}

/// The pictures of an entry, that of then and now first where there is one.
pub fn of(entry: &Entry<'_>) -> Vec<Picture> {
    let Entry { result, then_and_now, key: name, .. } = entry;
    let mut pictures = Vec::new();
    if let Some(chart) = then_and_now_bars(result, then_and_now) {
        let file = format!("{name}.svg");
        let title = chart.title.clone();
        pictures.push(Picture { file, title, is_course: false, svg: bars_svg(&chart) });
    }
    // Where only ranks were published, what was measured is drawn instead.
    let has_bars = !pictures.is_empty();
    let is_repeated = |label: &str| {
        has_bars && then_and_now.rows.iter().any(|row| row.workload.as_deref() == Some(label))
    };
    for workload in &result.workloads {
        let (label, slug) = (&workload.label, slug(&workload.label));
        let rows = measured_rows(result, label);
        if !is_repeated(label) && !rows.is_empty() {
            let title = format!("{}: {}", name, note::heading(result, workload));
            let chart = BarChart {
                title: title.clone(),
                words: BARS.to_owned(),
                panels: vec!["measured".to_owned()],
                targets: labels(result),
                groups: vec![BarGroup { name: String::new(), rows }],
            };
            let (file, svg) = (format!("{name}-{slug}.svg"), bars_svg(&chart));
            pictures.push(Picture { file, title, is_course: false, svg });
        }
        let panels: Vec<CoursePanel> =
            chart::within_trials(result, label).iter().filter_map(panel).collect();
        if !panels.is_empty() {
            let title = format!("{name}: {label}, sample after sample");
            let chart = CourseChart {
                title: title.clone(),
                words: "A line for each trial. MiB/s: higher is faster; ms: lower is faster."
                    .to_owned(),
                targets: labels(result),
                panels,
            };
            let file = format!("{name}-{slug}-course.svg");
            pictures.push(Picture { file, title, is_course: true, svg: course_svg(&chart) });
        }
    }
    pictures
}

fn labels(result: &RunResult) -> Vec<String> {
    result.targets.iter().map(|target| target.label.clone()).collect()
}

/// Every row that was done again; `None` where there is none, or ranks alone.
fn then_and_now_bars(result: &RunResult, it: &ThenAndNow) -> Option<BarChart> {
    let mut targets = labels(result);
    let repeated = || it.rows.iter().filter(|row| row.phase.is_some());
    for cell in repeated().flat_map(|row| &row.cells) {
        if !targets.contains(&cell.target) {
            targets.push(cell.target.clone());
        }
    }
    targets
        .retain(|label| repeated().any(|row| row.cells.iter().any(|cell| cell.target == *label)));
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in repeated() {
        // Rows without a figure now tell no workload where there is but one.
        let only = result.workloads.first().filter(|_| result.workloads.len() == 1);
        let name = row.workload.clone().or_else(|| Some(only?.label.clone()));
        let name = name.unwrap_or_default();
        let own = then_and_now_row(row, &targets);
        match groups.last_mut().filter(|group| group.name == name) {
            Some(group) => group.rows.push(own),
            None => groups.push(BarGroup { name, rows: vec![own] }),
        }
    }
    let mut bars = groups.iter().flat_map(|group| &group.rows).flat_map(|row| &row.cells).flatten();
    if !bars.any(|bar| bar.as_ref().is_some_and(|bar| bar.share.is_some())) {
        return None;
    }
    let panels = vec![format!("{}, as published", it.year), format!("now, scale {}", it.scale)];
    let title = result.run.title.clone().unwrap_or_else(|| it.name.clone());
    Some(BarChart { title, words: THEN_AND_NOW.to_owned(), panels, targets, groups })
}

fn then_and_now_row(row: &Row, targets: &[String]) -> BarRow {
    let is_rank = row.unit == "rank";
    let better = if row.unit == "s" { Better::Lower } else { Better::Higher };
    let cell = |label: &String| row.cells.iter().find(|cell| cell.target == *label);
    let values = |read: fn(&fsdyno_model::then_and_now::Cell) -> Option<f64>| {
        targets.iter().map(|it| cell(it).and_then(read)).collect::<Vec<Option<f64>>>()
    };
    let then = values(|cell| cell.published_value);
    let now = values(|cell| cell.measured);
    let share = |all: &[Option<f64>], target: usize| {
        let own = all[target]?;
        fastest(all, better).filter(|_| !is_rank).map(|best| beside(own, best, better))
    };
    let then_bar = |(target, label): (usize, &String)| {
        let text = cell(label)?.published.clone();
        Some(Bar { share: share(&then, target), ends: None, text })
    };
    let now_bar = |target: usize| {
        let text = units::significant(now[target]?);
        Some(Bar { share: share(&now, target), ends: None, text })
    };
    BarRow {
        name: format!("{}, {}", row.operation, row.unit),
        cells: vec![
            targets.iter().enumerate().map(then_bar).collect(),
            (0..targets.len()).map(now_bar).collect(),
        ],
    }
}

fn fastest(values: &[Option<f64>], better: Better) -> Option<f64> {
    let known = values.iter().flatten().copied().filter(|value| *value > 0.0);
    known.reduce(if better == Better::Lower { f64::min } else { f64::max })
}

/// How fast `value` is beside the fastest.
fn beside(value: f64, best: f64, better: Better) -> f64 {
    let share = if better == Better::Lower { best / value } else { value / best };
    if share.is_finite() { share.max(0.0) } else { 0.0 }
}

/// The phases of a workload as tables have them.
fn measured_rows(result: &RunResult, label: &str) -> Vec<BarRow> {
    let grid = Grid::of(result, label);
    let row = |row: &crate::grid::Row| {
        let own = |target: &str| {
            result.summary.iter().find(|it: &&SummaryRow| {
                it.primary && it.workload == label && it.phase == row.name && it.target == target
            })
        };
        let summaries: Vec<Option<&SummaryRow>> =
            result.targets.iter().map(|target| own(&target.label)).collect();
        let medians: Vec<Option<f64>> = summaries.iter().map(|it| it.map(|it| it.median)).collect();
        let better = row.better.unwrap_or(Better::Higher);
        let best = fastest(&medians, better);
        let bar = |(summary, cell): (&Option<&SummaryRow>, &Option<crate::grid::Cell>)| {
            let (summary, cell) = ((*summary)?, cell.as_ref()?);
            let share = |value: f64| best.map(|best| beside(value, best, better));
            let ends = summary.ci95_low.zip(summary.ci95_high);
            let ends = ends.and_then(|(low, high)| Some((share(low)?, share(high)?)));
            let ends = ends.map(|(a, b)| (a.min(b), a.max(b)));
            let written = [cell.value.as_str(), cell.interval(IntervalStyle::Full)];
            Some(Bar {
                share: share(summary.median),
                ends: ends.filter(|_| !cell.is_uncertain()),
                text: written.join(" ").trim().to_owned(),
            })
        };
        BarRow {
            name: format!("{}, {}", row.name, row.unit),
            cells: vec![summaries.iter().zip(&row.cells).map(bar).collect()],
        }
    };
    grid.rows.iter().map(row).collect()
}

/// A phase with several samples; `None` where no trial has more than one with a figure.
fn panel(reached: &Reached) -> Option<CoursePanel> {
    let line =
        |it: &chart::ReachedLine| CourseLine { target: it.target, values: it.values.clone() };
    let lines: Vec<CourseLine> = reached.lines.iter().map(line).collect();
    let is_course = lines.iter().any(|line| line.values.iter().flatten().count() > 1);
    is_course.then(|| CoursePanel {
        name: format!("{}, {}", reached.phase, reached.unit),
        by: format!("{}, from 0", reached.by),
        lines,
    })
}
