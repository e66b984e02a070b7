//! The table in the terminal: phases down, targets across, the verdict last.
//!
//! It uses no more than the given width: intervals have fewer digits and columns stand closer where
//! that makes targets fit; long labels are cut and explained below; more targets than fit become
//! several blocks. Marks are characters, so that they survive without colour.

use std::ops::Range;

use anstyle::{AnsiColor, Style};
use fsdyno_model::place::Clock;
use fsdyno_model::result::RunResult;
use fsdyno_model::then_and_now::ThenAndNow;
use fsdyno_model::words::counted;
use fsdyno_model::workload::WorkloadSpec;

use crate::grid::{self, Cell, Grid, IntervalStyle, Mark, Row};
use crate::note;
use crate::text;
use crate::then_and_now;

/// How the table is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to use escape sequences for bold and colour.
    pub color: bool,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Spaces between columns.
const GAP: &str = "  ";
/// Forms of a table, the best first: digits of the intervals, and spaces before a target, where the
/// column of the mark follows, so that one is enough.
const STYLES: [(IntervalStyle, &str); 3] =
    [(IntervalStyle::Full, GAP), (IntervalStyle::Full, " "), (IntervalStyle::Short, " ")];
/// Labels are cut to no fewer columns than this while another layout is left to try.
const LABEL_LEAST: usize = 10;
/// Labels longer than this are always cut.
const LABEL_MOST: usize = 40;

/// Draws the whole result, with a newline at the end.
#[must_use]
pub fn render(result: &RunResult, options: TableOptions) -> String {
    let page = Page { result, options };
    let title = result.run.title.iter().map(|title| page.paragraph(title, "", BOLD));
    let headline = page.paragraph(&note::headline(result), "  ", DIM);
    let mut sections = vec![title.collect::<String>() + &headline];
    let mut grids: Vec<Grid> = Vec::new();
    let mut has_why = false;
    let mut cut_any = vec![false; result.targets.len()];
    let left_out = note::left_out(result);
    for workload in &result.workloads {
        if let Some(left_out) = left_out.iter().find(|it| it.holds(&workload.label)) {
            if left_out.begins_with(&workload.label) {
                sections.push(page.paragraph(&left_out.line(), "  ", Style::new()));
            }
            continue;
        }
        let tables = Tables::of(result, &workload.label);
        sections.push(page.workload(workload, &tables, &mut cut_any));
        has_why |= !tables.explaining.is_empty();
        if !tables.main.rows.is_empty() {
            grids.push(tables.main);
        }
    }
    let mut notes: String = page.labels_cut(&cut_any);
    if !grids.is_empty() {
        notes.push_str(&page.paragraph(&page.legend(&grids), "", DIM));
    }
    if has_why {
        notes.push_str(&page.paragraph(note::WHY, "", DIM));
    }
    let ages = note::ages(result).into_iter();
    let machine = note::machine(result);
    let cuts = note::power_cuts(result).into_iter();
    let general =
        cuts.chain(ages).chain(machine).chain(note::harness(result)).chain(note::traces(result));
    notes.extend(general.map(|note| page.paragraph(&note, "", DIM)));
    sections.push(notes);
    sections.push(page.warnings());
    let then_and_now = result.then_and_now.as_ref();
    sections.extend(then_and_now.map(|it| page.then_and_now(it)));
    sections.push(page.verdicts());
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

/// The tables of one workload.
struct Tables {
    main: Grid,
    explaining: Vec<Grid>,
}

impl Tables {
    fn of(result: &RunResult, workload: &str) -> Tables {
        Tables {
            main: Grid::with_power_cuts(result, workload),
            explaining: Grid::explaining(result, workload),
        }
    }
}

/// The widths of one target's column.
#[derive(Debug, Clone, Copy)]
struct ColumnWidths {
    value: usize,
    interval: usize,
    letters: usize,
}

impl ColumnWidths {
    /// Mark, value, interval and letters with the spaces before them.
    fn content(self) -> usize {
        let parts = [self.interval, self.letters].into_iter().filter(|width| *width > 0);
        1 + self.value + parts.map(|width| 1 + width).sum::<usize>()
    }
}

/// How a grid is laid out.
struct Layout {
    style: IntervalStyle,
    /// Spaces before each target.
    gap: &'static str,
    /// Targets of each block with the columns that a label may take there.
    blocks: Vec<(Range<usize>, usize)>,
    columns: Vec<ColumnWidths>,
}

struct Page<'a> {
    result: &'a RunResult,
    options: TableOptions,
}

impl Page<'_> {
    fn plain(&self, text: &str) -> String {
        text::plain(text, self.options.unicode)
    }

    fn styled(&self, text: &str, style: Style) -> String {
        if style == Style::new() {
            return text.to_owned();
        }
        text::styled(text, style, self.options.color)
    }

    /// Wrapped text, every line in `style`, with a newline at the end.
    fn paragraph(&self, text: &str, indent: &str, style: Style) -> String {
        let wrapped = text::wrap(&self.plain(text), self.options.width, indent);
        let lines: Vec<String> = wrapped.lines().map(|line| self.styled(line, style)).collect();
        lines.join("\n") + "\n"
    }

    /// The heading of a workload, its tables and what is to be said of it alone.
    fn workload(&self, workload: &WorkloadSpec, tables: &Tables, cut_any: &mut [bool]) -> String {
        let mut section = self.paragraph(&note::heading(self.result, workload), "  ", BOLD);
        let grids = std::iter::once(&tables.main).chain(&tables.explaining);
        let grids: Vec<&Grid> = grids.filter(|grid| !grid.rows.is_empty()).collect();
        if grids.is_empty() {
            section.push_str("\nNo trial completed.\n");
        }
        for grid in grids {
            section.push_str(&self.blocks(grid, &self.layout(grid), cut_any));
        }
        let memory = note::from_memory(self.result, &workload.label);
        let incomplete = note::incomplete(self.result, &workload.label);
        let notes: Vec<String> = memory.into_iter().chain(incomplete).collect();
        if !notes.is_empty() {
            section.push('\n');
            section.extend(notes.iter().map(|note| self.paragraph(note, "  ", Style::new())));
        }
        section
    }

    /// Columns of what stands before the targets.
    fn stub_width(&self, grid: &Grid) -> usize {
        let widest = |read: fn(&Row) -> &str| {
            grid.rows.iter().map(|row| text::width(&self.plain(read(row)))).max().unwrap_or(0)
        };
        let name = widest(|row| &row.name).max(text::width(&grid.head));
        let unit = widest(|row| &row.unit).max("unit".len());
        name + GAP.len() + unit + trials_width(grid).map_or(0, |width| GAP.len() + width)
    }

    fn columns(&self, grid: &Grid, style: IntervalStyle) -> Vec<ColumnWidths> {
        let of_target = |target: usize| {
            let cells = || grid.rows.iter().filter_map(move |row| row.cells[target].as_ref());
            ColumnWidths {
                value: cells().map(|cell| cell.value.len()).max().unwrap_or(1),
                interval: cells()
                    .map(|cell| text::width(&self.plain(cell.interval(style))))
                    .max()
                    .unwrap_or(0),
                letters: cells().map(|cell| cell.letters.len()).max().unwrap_or(0),
            }
        };
        (0..self.result.targets.len()).map(of_target).collect()
    }

    /// The label of a target in at most `limit` columns; a letter leads one that is cut.
    fn label(&self, target: usize, limit: usize) -> String {
        let label = self.plain(&self.result.targets[target].label);
        if text::width(&label) <= limit {
            return label;
        }
        text::cut(&format!("{} {label}", letter(target)), limit, self.options.unicode)
    }

    fn column_width(&self, column: ColumnWidths, target: usize, limit: usize) -> usize {
        column.content().max(1 + text::width(&self.label(target, limit)))
    }

    /// The widest label limit at which `targets`, each after `gap` spaces, fit beside a stub of this
    /// width.
    fn limit(
        &self,
        stub: usize,
        gap: usize,
        columns: &[ColumnWidths],
        targets: Range<usize>,
    ) -> Option<usize> {
        (LABEL_LEAST..=LABEL_MOST).rev().find(|limit| {
            let width = |target| gap + self.column_width(columns[target], target, *limit);
            stub + targets.clone().map(width).sum::<usize>() <= self.options.width
        })
    }

    /// The layout with the fewest blocks; of those, the one with letters, the most digits and room.
    fn layout(&self, grid: &Grid) -> Layout {
        let count = self.result.targets.len();
        let stub = self.stub_width(grid);
        let with = STYLES.map(|(style, gap)| (style, gap, self.columns(grid, style)));
        let without = with.clone().map(|(style, gap, mut columns)| {
            columns.iter_mut().for_each(|column| column.letters = 0);
            (style, gap, columns)
        });
        let styles: Vec<_> = with.into_iter().chain(without).collect();
        for block_count in 1..=count {
            for (style, gap, columns) in &styles {
                let ranges = even_ranges(count, block_count);
                let limits: Option<Vec<usize>> = ranges
                    .iter()
                    .map(|range| self.limit(stub, gap.len(), columns, range.clone()))
                    .collect();
                if let Some(limits) = limits {
                    let blocks = ranges.into_iter().zip(limits).collect();
                    return Layout { style: *style, gap, blocks, columns: columns.clone() };
                }
            }
        }
        // Nothing fits: what is narrowest.
        let (style, gap, columns) = &styles[styles.len() - 1];
        let blocks = even_ranges(count, count).into_iter().map(|range| (range, LABEL_LEAST));
        Layout { style: *style, gap, blocks: blocks.collect(), columns: columns.clone() }
    }

    fn blocks(&self, grid: &Grid, layout: &Layout, cut_any: &mut [bool]) -> String {
        let mut text = String::new();
        for (targets, limit) in &layout.blocks {
            text.push('\n');
            text.push_str(&self.block(grid, layout, targets.clone(), *limit));
            for target in targets.clone() {
                let label = self.plain(&self.result.targets[target].label);
                cut_any[target] |= text::width(&label) > *limit;
            }
        }
        text
    }

    fn block(&self, grid: &Grid, layout: &Layout, targets: Range<usize>, limit: usize) -> String {
        let stub = self.stub_width(grid);
        let width_of = |target| self.column_width(layout.columns[target], target, limit);
        let mut head = self.stub(grid, &grid.head, "unit", "n");
        for target in targets.clone() {
            let label = format!(" {}", self.label(target, limit));
            head.push_str(layout.gap);
            head.push_str(&text::pad(&label, width_of(target), false));
        }
        let total =
            stub + targets.clone().map(|target| layout.gap.len() + width_of(target)).sum::<usize>();
        let mut block = self.styled(head.trim_end(), BOLD) + "\n";
        block.push_str(&self.styled(&self.plain("─").repeat(total), DIM));
        block.push('\n');
        for row in &grid.rows {
            let mut line =
                self.stub(grid, &self.plain(&row.name), &self.plain(&row.unit), &trials(row));
            for target in targets.clone() {
                line.push_str(layout.gap);
                line.push_str(&self.cell(
                    row.cells[target].as_ref(),
                    layout.columns[target],
                    layout.style,
                    width_of(target),
                ));
            }
            block.push_str(line.trim_end());
            block.push('\n');
        }
        block
    }

    fn stub(&self, grid: &Grid, name: &str, unit: &str, trials: &str) -> String {
        let trials_width = trials_width(grid);
        let unit_end = self.stub_width(grid) - trials_width.map_or(0, |width| GAP.len() + width);
        let name_width = grid
            .rows
            .iter()
            .map(|row| text::width(&self.plain(&row.name)))
            .max()
            .unwrap_or(0)
            .max(text::width(&grid.head));
        let mut stub = text::pad(name, name_width, false);
        stub.push_str(GAP);
        stub.push_str(&text::pad(unit, unit_end - name_width - GAP.len(), false));
        if let Some(width) = trials_width {
            stub.push_str(GAP);
            stub.push_str(&text::pad(trials, width, true));
        }
        stub
    }

    fn cell(
        &self,
        cell: Option<&Cell>,
        column: ColumnWidths,
        style: IntervalStyle,
        width: usize,
    ) -> String {
        let Some(cell) = cell else {
            let dash = text::pad(&self.plain("–"), 1 + column.value, true);
            return text::pad(&dash, width, false);
        };
        let mark = match cell.mark {
            Mark::Best => "*",
            Mark::Tied => "~",
            Mark::None => " ",
        };
        let value = text::pad(&format!("{mark}{}", cell.value), 1 + column.value, true);
        let interval = self.plain(cell.interval(style));
        let interval = text::pad(&interval, column.interval, true);
        let mut plain = if interval.is_empty() { value } else { format!("{value} {interval}") };
        if column.letters > 0 {
            plain.push_str(&format!(" {}", cell.letters));
        }
        let spaces = " ".repeat(width.saturating_sub(text::width(&plain)));
        let style = if cell.mark == Mark::Best { BOLD } else { Style::new() };
        self.styled(&plain, style) + &spaces
    }

    fn labels_cut(&self, cut_any: &[bool]) -> String {
        let cut = cut_any.iter().enumerate().filter(|(_, cut)| **cut);
        cut.map(|(target, _)| {
            let label = &self.result.targets[target].label;
            self.paragraph(&format!("{} = {label}", letter(target)), "    ", Style::new())
        })
        .collect()
    }

    /// What the marks and numbers of all tables mean.
    fn legend(&self, grids: &[Grid]) -> String {
        let n = || grids.iter().filter_map(Grid::n_range);
        let least = n().map(|(least, _)| least).min().unwrap_or(0);
        let most = n().map(|(_, most)| most).max().unwrap_or(0);
        let rows = || grids.iter().flat_map(|grid| &grid.rows);
        let compared = rows().any(|row| row.cells.iter().flatten().count() > 1);
        let mut sentences = Vec::new();
        let is_virtual = self.result.run.environment.measured.clock == Clock::Virtual;
        if is_virtual && most == 1 {
            sentences.extend(compared.then(|| "* best of its row.".to_owned()));
        } else if compared && most > 1 {
            sentences.push("* best of its row, ~ not told apart from the best (paired by trial, at 5 % for the row).".to_owned());
        } else if compared {
            sentences
                .push("* best of its row by a single trial, which tells nothing apart.".to_owned());
        }
        sentences.push(if is_virtual && most == 1 {
            note::EXACT.to_owned()
        } else if most == 1 && self.result.run.trials > 1 {
            "One completed trial each, so there are no intervals.".to_owned()
        } else if most == 1 {
            "One trial each, so there are no intervals.".to_owned()
        } else if grids.iter().any(|grid| trials_width(grid).is_some()) {
            "Median of n trials [95 % interval].".to_owned()
        } else if least == most {
            let trials = text::unbroken(&counted(most as usize, "trial"));
            format!("Median of {trials} [95 % interval].")
        } else {
            "Median of the completed trials [95 % interval].".to_owned()
        });
        let shows_letters =
            |grid: &Grid| self.layout(grid).columns.iter().any(|column| column.letters > 0);
        if grids.iter().any(shows_letters) {
            sentences.push(note::LETTERS.to_owned());
        }
        if grids.iter().any(Grid::is_uncertain) {
            sentences.push(note::UNCERTAIN.to_owned());
        }
        let (higher, lower) = grid::directions(grids);
        sentences.extend(note::directions(&higher, &lower));
        let seed = text::unbroken(&format!("seed {}", self.result.run.seed));
        sentences.push(format!("Order of the trials: random, {seed}."));
        sentences.join(" ")
    }

    fn then_and_now(&self, it: &ThenAndNow) -> String {
        let section = then_and_now::section(it, self.options.width, self.options.unicode);
        match section.split_once('\n') {
            Some((title, rest)) => format!("{}\n{rest}", self.styled(title, BOLD)),
            None => section,
        }
    }

    fn warnings(&self) -> String {
        note::warnings(self.result)
            .iter()
            .map(|warning| {
                let text = self.paragraph(&format!("warning: {warning}"), "  ", Style::new());
                match text.strip_prefix("warning:") {
                    Some(rest) => self.styled("warning:", WARN) + rest,
                    None => text,
                }
            })
            .collect()
    }

    fn verdicts(&self) -> String {
        note::verdicts(self.result)
            .into_iter()
            .map(|(lead, words)| {
                let lead = self.plain(&lead);
                let text = self.paragraph(&format!("{lead} {words}"), "", Style::new());
                match text.strip_prefix(&lead) {
                    Some(rest) => self.styled(&lead, BOLD) + rest,
                    None => text,
                }
            })
            .collect::<Vec<String>>()
            .join("\n")
    }
}

/// `count` targets in `blocks` runs whose lengths differ by at most one.
fn even_ranges(count: usize, blocks: usize) -> Vec<Range<usize>> {
    (0..blocks).map(|block| count * block / blocks..count * (block + 1) / blocks).collect()
}

/// Columns of the number of trials; `None` when each target has the same in all rows, which the
/// legend and the notes tell.
fn trials_width(grid: &Grid) -> Option<usize> {
    let varies = |target: usize| {
        let mut n = grid.rows.iter().filter_map(|row| row.cells[target].as_ref()).map(|c| c.n);
        n.next().is_some_and(|first| n.any(|other| other != first))
    };
    let targets = grid.rows.first().map_or(0, |row| row.cells.len());
    (0..targets)
        .any(varies)
        .then(|| grid.rows.iter().map(|row| trials(row).len()).max().unwrap_or(1))
}

/// `3`, or `2-3` when targets differ.
fn trials(row: &Row) -> String {
    let n = || row.cells.iter().flatten().map(|cell| cell.n);
    match (n().min(), n().max()) {
        (Some(least), Some(most)) if least == most => most.to_string(),
        (Some(least), Some(most)) => format!("{least}-{most}"),
        _ => String::new(),
    }
}

/// `A`, `B`, …; numbers from the 27th target on.
fn letter(target: usize) -> String {
    u8::try_from(target)
        .ok()
        .filter(|target| *target < 26)
        .map_or_else(|| (target + 1).to_string(), |target| char::from(b'A' + target).to_string())
}

#[cfg(test)]
mod tests;
