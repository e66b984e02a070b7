//! Tables beside the charts of a workload: the figures that its bars, points and lines show, for those
//! who do not see them. Which figures there are is decided by `chart`.

use fsdyno_model::result::RunResult;
use fsdyno_model::units;
use serde_json::Value;

use super::chart::{self, Reached};
use super::view::Table;

/// More trials than this are summed up in a table of one row for each target.
const TRIALS: usize = 12;

/// Times until return and until durable, from the rows of the chart.
pub fn durable(result: &RunResult, rows: &Value) -> Option<Table> {
    let cell = |cell: &Value| match (cell[0].as_f64(), cell[1].as_f64()) {
        (Some(returned), Some(durable)) => {
            format!("{} → {}", seconds(returned), seconds(durable))
        }
        _ => "–".to_owned(),
    };
    let mut head = vec!["phase".to_owned()];
    head.extend(result.targets.iter().map(|it| it.label.clone()));
    let rows = rows.as_array()?.iter().map(|row| {
        let cells = row["cells"].as_array().into_iter().flatten().map(cell).collect();
        (row["name"].as_str().unwrap_or_default().to_owned(), cells)
    });
    table("Time until the last operation returned → until everything was on the device", head, rows)
}

/// Processor time of each group by phase and target, from the rows of the chart.
pub fn cpu(result: &RunResult, rows: &Value) -> Option<Table> {
    let rows = rows.as_array()?;
    let cells = || rows.iter().flat_map(|row| row["cells"].as_array().into_iter().flatten());
    let groups: Vec<_> = (chart::CPU_GROUPS.iter())
        .filter(|(group, _)| cells().any(|cell| cell.get(*group).is_some()))
        .collect();
    let mut head = vec!["phase, target".to_owned()];
    head.extend(groups.iter().map(|(_, title)| (*title).to_owned()));
    head.push("together".to_owned());
    let row = |name: &str, target: &str, cell: &Value| {
        let own = cell.as_object()?;
        let mut cells: Vec<String> = (groups.iter())
            .map(|(group, _)| cell[*group].as_f64().map_or("–".to_owned(), seconds))
            .collect();
        cells.push(seconds(own.values().filter_map(Value::as_f64).sum()));
        Some((format!("{name}, {target}"), cells))
    };
    let all = rows.iter().flat_map(|it| {
        let name = it["name"].as_str().unwrap_or_default();
        let cells = it["cells"].as_array().into_iter().flatten();
        result
            .targets
            .iter()
            .zip(cells)
            .map(move |(target, cell)| (name, target.label.as_str(), cell))
    });
    let all = all.filter_map(|(name, target, cell)| row(name, target, cell));
    table("Processor time by whose work it was, mean of the trials", head, all)
}

/// The value of each trial; of very many trials, what they reached at least and at most.
pub fn trials(result: &RunResult, all: &[Reached]) -> Option<Table> {
    let count = result.run.trials as usize;
    let mut head = vec!["phase, target".to_owned()];
    match count {
        0..=TRIALS => head.extend((1..=count).map(|trial| format!("trial {trial}"))),
        _ => head.extend(["trials", "least", "median", "most"].map(str::to_owned)),
    }
    let rows = all.iter().flat_map(|it| it.lines.iter().map(move |line| (it, line)));
    let rows = rows.map(|(it, line)| {
        let target = &result.targets[line.target].label;
        let cells = match count {
            0..=TRIALS => line.values.iter().map(|value| shown(*value, it.unit)).collect(),
            _ => summary(&line.values, it.unit),
        };
        (format!("{}, {target}", it.phase), cells)
    });
    table("Duration of each trial", head, rows)
}

/// Of the samples of each trial: how many, the first and last tenth, the least and the most.
pub fn samples(result: &RunResult, all: &[Reached]) -> Option<Table> {
    let head =
        ["phase, target, trial", "samples", "least", "median", "most", "first tenth", "last tenth"];
    let rows = all.iter().flat_map(|it| it.lines.iter().map(move |line| (it, line)));
    let rows = rows.map(|(it, line)| {
        let target = &result.targets[line.target].label;
        let mut cells = summary(&line.values, it.unit);
        let tenth = line.values.len().div_ceil(10);
        let last = line.values.len() - tenth;
        cells.push(shown(mean(&line.values[..tenth]), it.unit));
        cells.push(shown(mean(&line.values[last..]), it.unit));
        (format!("{}, {target}, trial {}", it.phase, line.trial), cells)
    });
    let caption =
        "Samples of each trial in the order of execution; means of the first and the last tenth";
    table(caption, head.map(str::to_owned).to_vec(), rows)
}

fn table(
    caption: &str,
    head: Vec<String>,
    rows: impl Iterator<Item = (String, Vec<String>)>,
) -> Option<Table> {
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| Table { caption: caption.to_owned(), head, rows })
}

fn seconds(seconds: f64) -> String {
    units::human_duration((seconds * 1e9).round() as u64)
}

fn shown(value: Option<f64>, unit: &str) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if unit == "ms" => seconds(value / 1e3),
        Some(value) => format!("{} {unit}", units::significant(value)),
    }
}

fn mean(values: &[Option<f64>]) -> Option<f64> {
    let known = values.iter().flatten();
    let count = known.clone().count();
    (count > 0).then(|| known.sum::<f64>() / count as f64)
}

/// How many, the least, the median and the most.
fn summary(values: &[Option<f64>], unit: &str) -> Vec<String> {
    let mut known: Vec<f64> = values.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    let count = known.len();
    let median = (count > 0).then(|| f64::midpoint(known[(count - 1) / 2], known[count / 2]));
    vec![
        count.to_string(),
        shown(known.first().copied(), unit),
        shown(median, unit),
        shown(known.last().copied(), unit),
    ]
}
