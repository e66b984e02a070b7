//! Two runs beside each other in the terminal.

use anstyle::{AnsiColor, Style};
use fsdyno_model::diff::{DiffRow, DiffSide, DiffVerdict, RunDiff};

use super::{ADJUSTED, Cells, SHOWN_DIFFERENCES, SHOWN_MOVEMENTS};
use crate::table::TableOptions;
use crate::text;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const WARN: Style = AnsiColor::Yellow.on_default();

/// Fewest columns that the name of a phase keeps.
const LEAST_PHASE: usize = 8;

/// Draws the comparison, with a newline at the end.
#[must_use]
pub fn render(diff: &RunDiff, options: TableOptions) -> String {
    let page = Page { diff, options };
    let mut sections = vec![
        page.paragraph(&side("base", &diff.base), "      ", DIM)
            + &page.paragraph(&side("new ", &diff.new), "      ", DIM),
    ];
    for (name, rows) in super::cases(diff) {
        sections.push(page.case(&name, &rows));
    }
    for (title, only) in [("only base has", &diff.only_base), ("only new has", &diff.only_new)] {
        if !only.is_empty() {
            sections.push(page.paragraph(&format!("{title}: {}", only.join(", ")), "  ", DIM));
        }
    }
    sections.push(page.differences());
    if !diff.rows.is_empty() {
        let mut legend = page.paragraph(&super::legend(diff), "", DIM);
        if super::has_adjusted(diff) {
            legend.push_str(&page.paragraph(ADJUSTED, "", DIM));
        }
        sections.push(legend);
    }
    let warnings = diff.warnings.iter().map(|warning| {
        let text = format!("warning: {}: {}", warning.message, warning.advice);
        page.paragraph(&text, "  ", WARN)
    });
    sections.push(warnings.collect());
    sections.push(page.paragraph(&diff.summary, "", BOLD));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn side(name: &str, side: &DiffSide) -> String {
    let mut text = format!("{name}  {}", side.id);
    if let Some(file) = &side.file {
        text.push_str(&format!(" ({file})"));
    }
    text.push_str(&format!(
        " · {}",
        side.started.get(..16).unwrap_or(&side.started).replace('T', " ")
    ));
    if let Some(host) = &side.hostname {
        text.push_str(&format!(" · host {host}"));
    }
    if let Some(kernel) = &side.kernel_release {
        text.push_str(&format!(" · Linux {kernel}"));
    }
    if let Some(title) = &side.title {
        text.push_str(&format!(" · {title}"));
    }
    text
}

struct Page<'a> {
    diff: &'a RunDiff,
    options: TableOptions,
}

impl Page<'_> {
    fn paragraph(&self, words: &str, indent: &str, style: Style) -> String {
        let words = super::plain(words, self.options.unicode);
        let wrapped = text::wrap(&words, self.options.width, indent);
        let lines = wrapped.lines().map(|line| self.styled(line, style) + "\n");
        lines.collect()
    }

    fn styled(&self, words: &str, style: Style) -> String {
        text::styled(words, style, self.options.color && style != Style::new())
    }

    /// The table of a target and workload, with what moved below its row.
    fn case(&self, name: &str, rows: &[&DiffRow]) -> String {
        let cells: Vec<Cells> = rows.iter().map(|row| Cells::of(self.diff, row)).collect();
        let mut columns: Vec<Vec<String>> = vec![
            column("phase", &cells, |cells| &cells.phase),
            column("unit", &cells, |cells| &cells.unit),
            column("base", &cells, |cells| &cells.base),
            column("new", &cells, |cells| &cells.new),
            column("ratio", &cells, |cells| &cells.ratio),
        ];
        type Read = fn(&Cells) -> &Option<String>;
        let of_machines: [(&str, Read); 2] =
            [("adjusted", |cells| &cells.adjusted), ("between", |cells| &cells.between)];
        for (head, read) in of_machines {
            if cells.iter().any(|cells| read(cells).is_some()) {
                let own = cells.iter().map(|it| read(it).clone().unwrap_or("–".to_owned()));
                columns.push(std::iter::once(head.to_owned()).chain(own).collect());
            }
        }
        columns.push(column("verdict", &cells, |cells| &cells.verdict));
        for column in &mut columns {
            for cell in column {
                *cell = super::plain(cell, self.options.unicode);
            }
        }
        self.fit(&mut columns);
        let mut out = self.paragraph(name, "  ", BOLD);
        for line in 0..=rows.len() {
            let row = line.checked_sub(1).map(|index| rows[index]);
            out.push_str(&self.line(&columns, line, row));
            out.extend(row.map(|row| self.moved(row)));
        }
        out
    }

    /// Makes columns narrower until a line fits: intervals go first, of adjusted ratios before others,
    /// then the ends of the names of phases.
    fn fit(&self, columns: &mut Vec<Vec<String>>) {
        let width = |columns: &[Vec<String>]| -> usize {
            columns.iter().map(|column| widest(column) + 2).sum::<usize>()
        };
        let last = columns.len() - 1;
        for index in (4..last).rev() {
            if width(columns) > self.options.width {
                for cell in &mut columns[index] {
                    if let Some((ratio, _)) = cell.split_once(" [") {
                        *cell = ratio.to_owned();
                    }
                }
            }
        }
        let over = width(columns).saturating_sub(self.options.width);
        let room = widest(&columns[0]).saturating_sub(over).max(LEAST_PHASE);
        for cell in &mut columns[0] {
            *cell = text::cut(cell, room, self.options.unicode);
        }
        // A narrow terminal has no room for units, nor for what is known roughly.
        if width(columns) > self.options.width {
            columns.remove(1);
        }
        if width(columns) > self.options.width {
            columns.retain(|column| column[0] != "between");
        }
        let is_too_wide = width(columns) > self.options.width;
        if let Some(verdicts) = columns.last_mut().filter(|_| is_too_wide) {
            for cell in verdicts {
                let end = cell.find([' ', ',']).unwrap_or(cell.len());
                cell.truncate(end);
            }
        }
        for column in columns {
            let widest = widest(column);
            let is_number = column[0] == "base" || column[0] == "new";
            for cell in column {
                *cell = text::pad(cell, widest, is_number);
            }
        }
    }

    fn line(&self, columns: &[Vec<String>], line: usize, row: Option<&DiffRow>) -> String {
        let last = columns.len() - 1;
        let verdict = match row.map(|row| (row.verdict, row.beyond_threshold)) {
            None => DIM,
            Some((DiffVerdict::Slower, true)) => BAD,
            Some((DiffVerdict::Slower, false)) => WARN,
            Some((DiffVerdict::Faster, _)) => GOOD,
            Some(_) => Style::new(),
        };
        let cells: Vec<&str> = columns[..last].iter().map(|column| column[line].as_str()).collect();
        let head = format!("  {}  ", cells.join("  "));
        let head = if row.is_none() { self.styled(&head, DIM) } else { head };
        head + &self.styled(columns[last][line].trim_end(), verdict) + "\n"
    }

    fn moved(&self, row: &DiffRow) -> String {
        let shown = row.moved.iter().take(SHOWN_MOVEMENTS);
        let mut out: String = shown
            .map(|it| self.paragraph(&format!("      {}", super::movement(it)), "        ", DIM))
            .collect();
        if let Some(more) = row.moved.len().checked_sub(SHOWN_MOVEMENTS).filter(|it| *it > 0) {
            let words = format!("      and {more} more (--json has them)");
            out.push_str(&self.paragraph(&words, "        ", DIM));
        }
        out
    }

    fn differences(&self) -> String {
        let mut out = String::new();
        for (of, own) in super::differences(self.diff) {
            let shown = own.iter().take(SHOWN_DIFFERENCES).map(|it| super::difference(it));
            let all: Vec<String> = shown.chain(super::not_shown(&own)).collect();
            out.push_str(&self.paragraph(&format!("  {of}: {}", all.join("; ")), "    ", DIM));
        }
        if out.is_empty() { out } else { self.paragraph("What differs:", "", BOLD) + &out }
    }
}

fn column(head: &str, cells: &[Cells], read: fn(&Cells) -> &String) -> Vec<String> {
    std::iter::once(head.to_owned()).chain(cells.iter().map(|cells| read(cells).clone())).collect()
}

fn widest(column: &[String]) -> usize {
    column.iter().map(|cell| text::width(cell)).max().unwrap_or(0)
}
