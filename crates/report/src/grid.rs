//! The cells of a workload's table: which phase, which target, what is written. Laying them out is
//! left to the terminal table and to markdown.

use fsdyno_model::metric::{self, Better};
use fsdyno_model::result::{RunResult, SummaryRow};
use fsdyno_model::units;

/// How the ends of the 95 % interval are written; both always are, since it is seldom symmetric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalStyle {
    /// With the digits of the value: `0.262 [0.251–0.279]`.
    Full,
    /// With a digit less after the point: `0.262 [0.25–0.28]`.
    Short,
}

/// What stands for an interval that is so wide that it tells nothing.
pub const NO_INTERVAL: &str = "[?]";
/// An interval whose ends differ by more than this factor tells nothing.
const WIDEST_INTERVAL: f64 = 100.0;

/// How a value stands in its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The best of the row.
    Best,
    /// Not told apart from the best.
    Tied,
    /// Neither, or nothing to compare with.
    None,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// How it stands.
    pub mark: Mark,
    /// The median.
    pub value: String,
    /// Tie letters: cells of a row that share one are not told apart. Empty where the marks say as much.
    pub letters: String,
    /// The interval in both styles; `None` with fewer than two trials.
    interval: Option<[String; 2]>,
    /// Trials that it is made of.
    pub n: u32,
}

impl Cell {
    /// The 95 % interval; empty when there is none.
    pub fn interval(&self, style: IntervalStyle) -> &str {
        match (&self.interval, style) {
            (None, _) => "",
            (Some([full, _]), IntervalStyle::Full) => full,
            (Some([_, short]), IntervalStyle::Short) => short,
        }
    }

    /// Whether its interval is too wide to tell anything.
    pub fn is_uncertain(&self) -> bool {
        self.interval(IntervalStyle::Full) == NO_INTERVAL
    }
}

/// One phase, or one figure of a phase.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// Which way is better.
    pub better: Option<Better>,
    /// One for each target; `None` where nothing completed.
    pub cells: Vec<Option<Cell>>,
    /// Why there is none, in words.
    pub absent: &'static str,
}

impl Row {
    /// Whether letters say more than the marks: how those compare with each other that are not the best.
    fn needs_letters(&self) -> bool {
        let cells = || self.cells.iter().flatten();
        cells().count() > 2 && cells().any(|cell| !matches!(&*cell.letters, "" | "a"))
    }

    fn drop_letters(&mut self) {
        self.cells.iter_mut().flatten().for_each(|cell| cell.letters.clear());
    }
}

/// The table of one workload, or of what explains it.
#[derive(Debug, Clone)]
pub struct Grid {
    /// What stands above the names of the rows.
    pub head: String,
    /// The phases that occurred, or the figures of one phase.
    pub rows: Vec<Row>,
}

impl Grid {
    /// The table of `workload` with one column for each target of the run. Phases whose figures
    /// explain performance are left to [`Grid::explaining`].
    pub fn of(result: &RunResult, workload: &str) -> Grid {
        let primary: Vec<&SummaryRow> = (result.summary.iter())
            .filter(|row| row.primary && row.workload == workload && !explains(row))
            .collect();
        let rows = groups(&primary, |row| &row.phase).into_iter();
        let mut rows: Vec<Row> = rows.map(|(phase, own)| row(result, phase, &own)).collect();
        if !rows.iter().any(Row::needs_letters) {
            rows.iter_mut().for_each(Row::drop_letters);
        }
        Grid { head: "phase".to_owned(), rows }
    }

    /// As [`Grid::of`], with power cuts in its last row where a target of the run was tested.
    pub fn with_power_cuts(result: &RunResult, workload: &str) -> Grid {
        let mut grid = Grid::of(result, workload);
        grid.rows.extend(power_cuts(result, &grid.rows));
        grid
    }

    /// For each phase of `workload` with figures that explain performance: a table of these, medians
    /// without intervals and marks.
    pub fn explaining(result: &RunResult, workload: &str) -> Vec<Grid> {
        let all: Vec<&SummaryRow> = (result.summary.iter())
            .filter(|row| row.workload == workload && explains(row))
            .collect();
        let grids = groups(&all, |row| &row.phase).into_iter();
        let grids = grids.map(|(phase, own)| {
            let rows = groups(&own, |row| &row.metric).into_iter();
            let rows = rows.map(|(metric, own)| row(result, metric, &own)).collect();
            Grid { head: format!("why: {phase}"), rows }
        });
        grids.collect()
    }

    /// Trials that values are made of, least and most; `None` without values.
    pub fn n_range(&self) -> Option<(u32, u32)> {
        let all = || self.rows.iter().flat_map(|row| row.cells.iter().flatten().map(|cell| cell.n));
        Some((all().min()?, all().max()?))
    }

    /// Whether its cells bear tie letters.
    pub fn has_letters(&self) -> bool {
        let mut cells = self.rows.iter().flat_map(|row| row.cells.iter().flatten());
        cells.any(|cell| !cell.letters.is_empty())
    }

    /// Whether some interval is too wide to tell anything.
    pub fn is_uncertain(&self) -> bool {
        self.rows.iter().flat_map(|row| row.cells.iter().flatten()).any(Cell::is_uncertain)
    }
}

/// Units of `grids` in which more is better, and units in which less is.
pub fn directions(grids: &[Grid]) -> (Vec<&str>, Vec<&str>) {
    let units = |better| {
        let mut units: Vec<&str> = Vec::new();
        for row in grids.iter().flat_map(|grid| &grid.rows) {
            let unit = row.unit.as_str();
            if row.better == Some(better) && !unit.is_empty() && !units.contains(&unit) {
                units.push(unit);
            }
        }
        units
    };
    (units(Better::Higher), units(Better::Lower))
}

fn explains(row: &SummaryRow) -> bool {
    metric::find(&row.metric).is_some_and(|metric| metric.explains)
}

/// The rows under each key, keys in the order in which they first occur.
fn groups<'a>(
    rows: &[&'a SummaryRow],
    key: fn(&SummaryRow) -> &String,
) -> Vec<(&'a str, Vec<&'a SummaryRow>)> {
    let mut groups: Vec<(&str, Vec<&SummaryRow>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(known, _)| known == key(row)) {
            Some((_, own)) => own.push(row),
            None => groups.push((key(row), vec![row])),
        }
    }
    groups
}

fn row(result: &RunResult, name: &str, rows: &[&SummaryRow]) -> Row {
    let most_trials = rows.iter().map(|row| row.n).max().unwrap_or(0);
    let form = NumberForm::of(rows);
    let cells = result
        .targets
        .iter()
        .map(|target| {
            let row = rows.iter().find(|row| row.target == target.label)?;
            let mark = match (rows.len(), row.best, row.tied_with_best) {
                (1, _, _) => Mark::None,
                (_, true, _) => Mark::Best,
                // With one trial everything is; the legend says so once.
                (_, _, true) if most_trials > 1 => Mark::Tied,
                _ => Mark::None,
            };
            let ends = row.ci95_low.zip(row.ci95_high).filter(|_| !explains(row));
            let interval =
                ends.map(|(low, high)| [0, 1].map(|less| form.interval(low, high, less)));
            let letters = row.letters.clone().unwrap_or_default();
            Some(Cell { mark, value: form.number(row.median, 0), letters, interval, n: row.n })
        })
        .collect();
    let first = rows.first();
    let unit = first.map_or("", |row| row.unit.as_str());
    Row {
        name: name.to_owned(),
        unit: if form.milli { format!("m{unit}") } else { unit.to_owned() },
        better: first.and_then(|row| metric::find(&row.metric)).and_then(|metric| metric.better),
        cells,
        absent: "no completed trial",
    }
}

/// The row of power cuts below `rows`; `None` where nothing was measured, or no target was tested.
fn power_cuts(result: &RunResult, rows: &[Row]) -> Option<Row> {
    let of_target = |target: usize| {
        let label = &result.targets[target].label;
        let own = result.power_cuts.iter().find(|own| own.target == *label && own.cuts > 0)?;
        // The trials of the other figures: tables say their number once.
        let trials = rows.iter().filter_map(|row| row.cells[target].as_ref()).map(|cell| cell.n);
        let broken = if own.is_broken() { "!" } else { "" };
        Some(Cell {
            mark: Mark::None,
            value: format!("{}/{}{broken}", own.kept, own.cuts),
            letters: String::new(),
            interval: None,
            n: trials.max()?,
        })
    };
    let cells: Vec<Option<Cell>> = (0..result.targets.len()).map(of_target).collect();
    let (name, unit) = ("power cuts".to_owned(), "kept".to_owned());
    cells.iter().any(Option::is_some).then_some(Row {
        name,
        unit,
        better: None,
        cells,
        absent: "not tested",
    })
}

/// How the numbers of one row are written, so that they are short and can be compared at a glance.
#[derive(Debug, Clone, Copy)]
struct NumberForm {
    /// Whether seconds are written in milliseconds.
    milli: bool,
    /// Digits after the point of what has no suffix.
    decimals: usize,
    /// From which magnitude on there is a suffix.
    suffix_from: f64,
}

impl NumberForm {
    fn of(rows: &[&SummaryRow]) -> NumberForm {
        let medians = || rows.iter().map(|row| row.median.abs()).filter(|median| *median > 0.0);
        let least = medians().fold(f64::INFINITY, f64::min);
        let greatest = medians().fold(0.0, f64::max);
        let is_time = rows.first().is_some_and(|row| row.unit == "s" || row.unit.starts_with("s/"));
        let milli = is_time && least < 1.0 && greatest < 9.9995;
        let scale = if milli { 1000.0 } else { 1.0 };
        let suffix_from = if greatest * scale >= 9999.5 { 999.5 } else { 9999.5 };
        // Numbers of things, where all are whole.
        let is_whole = rows.iter().all(|row| explains(row) && row.median.fract() == 0.0);
        let decimals = if is_whole { 0 } else { decimals(medians().map(|median| median * scale)) };
        NumberForm { milli, decimals, suffix_from }
    }

    /// A number of the row with `less` digits after the point than the row has.
    fn number(self, value: f64, less: usize) -> String {
        let value = if self.milli { value * 1000.0 } else { value };
        if value.abs() < self.suffix_from {
            return format!("{value:.*}", self.decimals.min(places(value)).saturating_sub(less));
        }
        let suffixes = [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")];
        let (scale, suffix) = suffixes
            .into_iter()
            .find(|(scale, _)| value.abs() < scale * 999.5)
            .unwrap_or((1e12, "T"));
        let scaled = value / scale;
        format!("{scaled:.*}{suffix}", places(scaled).saturating_sub(less))
    }

    fn interval(self, low: f64, high: f64, less: usize) -> String {
        if low == high || (low > 0.0 && high / low <= WIDEST_INTERVAL) {
            format!("[{}–{}]", self.number(low, less), self.number(high, less))
        } else {
            NO_INTERVAL.to_owned()
        }
    }
}

/// Digits after the point for all values of a row: three significant digits of the greatest, two of
/// the least.
fn decimals(values: impl Iterator<Item = f64>) -> usize {
    let (mut least, mut greatest) = (f64::INFINITY, 0.0f64);
    for magnitude in values {
        least = least.min(magnitude);
        greatest = greatest.max(magnitude);
    }
    if greatest == 0.0 {
        return 0;
    }
    places(greatest).max(places(least).saturating_sub(1))
}

/// Digits after the point that give three significant digits.
fn places(value: f64) -> usize {
    let text = units::significant(value);
    text.split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_follow_the_row() {
        for (values, expected) in [
            (&[128.0, 96.0, 455.0][..], 0),
            (&[1.14, 0.88, 1.02], 2),
            (&[12.3, 0.88], 2),
            (&[95.0, 128.0], 0),
            (&[], 0),
            (&[0.0123], 4),
        ] {
            assert_eq!(decimals(values.iter().copied()), expected, "{values:?}");
        }
    }

    fn row(unit: &str, median: f64) -> SummaryRow {
        SummaryRow {
            target: "ext4".to_owned(),
            workload: "w".to_owned(),
            phase: "create".to_owned(),
            metric: "m".to_owned(),
            unit: unit.to_owned(),
            primary: true,
            n: 3,
            median,
            mean: median,
            best: true,
            ..SummaryRow::default()
        }
    }

    #[test]
    fn whole_numbers_of_what_explains_are_whole() {
        let texts = |metric: &str, medians: [f64; 2]| {
            let rows = medians.map(|it| SummaryRow { metric: metric.to_owned(), ..row("", it) });
            let rows = [&rows[0], &rows[1]];
            medians.map(|median| NumberForm::of(&rows).number(median, 0))
        };
        assert_eq!(texts("free_extents", [8.0, 6.0]), ["8", "6"]);
        assert_eq!(texts("extents_per_file", [1.0, 1.5]), ["1.00", "1.50"]);
        assert_eq!(texts("throughput_mib_per_s", [8.0, 6.0]), ["8.00", "6.00"]);
    }

    #[test]
    fn numbers_are_short() {
        for (unit, median, low, high, value, full, short) in [
            ("files/s", 152_003.0, 55_210.0, 331_700.0, "152k", "[55.2k–332k]", "[55k–332k]"),
            ("files/s", 999_900.0, 12.0, 1_151.0, "1.00M", "[12–1.15k]", "[12–1.2k]"),
            ("files/s", 5572.0, 5533.0, 12_600.0, "5572", "[5533–12.6k]", "[5533–13k]"),
            ("MiB/s", 68.3, 66.94, 70.1, "68.3", "[66.9–70.1]", "[67–70]"),
            ("s/tree", 0.262, 0.251, 0.279, "262", "[251–279]", "[251–279]"),
            ("s", 0.0236, 0.02, 0.03, "23.6", "[20.0–30.0]", "[20–30]"),
            ("ratio", 76.5, 29.04, 168.5, "76.5", "[29.0–168]", "[29–168]"),
            ("s", 12.34, 12.0, 13.0, "12.3", "[12.0–13.0]", "[12–13]"),
            ("MiB/s", 142.0, 3.0, 16_012.0, "142", "[?]", "[?]"),
            ("MiB/s", 142.0, -3.0, 160.0, "142", "[?]", "[?]"),
            ("MiB/s", 0.0, 0.0, 0.0, "0", "[0–0]", "[0–0]"),
        ] {
            let row = row(unit, median);
            let form = NumberForm::of(&[&row]);
            let texts =
                (form.number(median, 0), form.interval(low, high, 0), form.interval(low, high, 1));
            assert_eq!(texts, (value.to_owned(), full.to_owned(), short.to_owned()), "{unit}");
        }
    }
}
