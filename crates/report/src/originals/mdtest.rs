//! The summary that mdtest of ior 4 prints: the rates of each operation over the iterations.

use fsdyno_model::record::{PhaseRecord, Sample, TrialRecord};

use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "mdtest",
    workload: "mdtest",
    doc: "the summary of rates of mdtest (ior 4)",
    headed: true,
    render,
    remark: |_, _: &Setting<'_>| None,
};

/// Phases with the names of their rows, in mdtest's order.
const ROWS: [(&str, &str); 10] = [
    ("directory-create", "Directory creation"),
    ("directory-stat", "Directory stat"),
    ("directory-rename", "Directory rename"),
    ("directory-remove", "Directory removal"),
    ("file-create", "File creation"),
    ("file-stat", "File stat"),
    ("file-read", "File read"),
    ("file-remove", "File removal"),
    ("tree-creation", "Tree creation"),
    ("tree-removal", "Tree removal"),
];

/// The summary of one trial; phases that were not carried out have no row.
fn render(trial: &TrialRecord, _: &Setting<'_>) -> String {
    let iterations = trial.phases.first().map_or(0, |phase| phase.samples.len());
    let mut text = format!("\nSUMMARY rate (in ops/sec): (of {iterations} iterations)\n");
    let columns = ["Max", "Min", "Mean", "Std Dev"];
    text.push_str(&heading("Operation", columns));
    text.push_str(&heading("---------", columns.map(|column| &"-------"[..column.len()])));
    for (name, label) in ROWS {
        let Some(phase) = trial.phases.iter().find(|phase| phase.name == name) else { continue };
        let [most, least, mean, deviation] = summary(&rates(phase));
        text.push_str(&format!(
            "   {label:<22} {most:>14.3} {least:>14.3} {mean:>14.3} {deviation:>14.3}\n"
        ));
    }
    text
}

/// The line of the names of the columns, which do not stand above the ends of their numbers.
fn heading(label: &str, [most, least, mean, deviation]: [&str; 4]) -> String {
    format!("   {label:<22}{most:>11}{least:>15}{mean:>15}{deviation:>15}\n")
}

/// Items per second of each sample: until durable where that was asked for, as with -Y. Every sample of
/// a phase works on as many items, but for files with a stonewall, whose kinds of calls tell.
fn rates(phase: &PhaseRecord) -> Vec<f64> {
    let operations: u64 = phase.samples.iter().map(|sample| sample.operations).sum();
    let per_operation = phase.files.unwrap_or(0) as f64 / operations.max(1) as f64;
    let rate = |sample: &Sample| {
        let elapsed_ns = sample.elapsed_durable_ns.unwrap_or(sample.elapsed_return_ns);
        sample.operations as f64 * per_operation / (elapsed_ns.max(1) as f64 / 1e9)
    };
    phase.samples.iter().map(rate).collect()
}

/// Most, least, mean, and the standard deviation of a sample; 0 where there is one value only.
fn summary(rates: &[f64]) -> [f64; 4] {
    if rates.is_empty() {
        return [0.0; 4];
    }
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    let deviation = if rates.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
    let most = rates.iter().copied().fold(0.0, f64::max);
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    [most, least, mean, deviation]
}

#[cfg(test)]
mod tests {
    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::param::Params;

    use super::*;

    fn phase(name: &str, files: u64, elapsed_ms: &[u64]) -> PhaseRecord {
        let mut phase = PhaseRecord::new(name, "files_per_s");
        phase.files = Some(files);
        phase.samples = elapsed_ms
            .iter()
            .map(|ms| Sample {
                subject: String::new(),
                started_ns: None,
                elapsed_return_ns: 1,
                elapsed_durable_ns: Some(ms * 1_000_000),
                operations: 2 * files / elapsed_ms.len() as u64,
                bytes: 0,
                app_user_ns: None,
                app_system_ns: None,
            })
            .collect();
        phase
    }

    #[test]
    fn the_block() {
        let mut trial = TrialRecord::planned("ext4", "mdtest", 1, 0, Outcome::Completed);
        trial.phases = vec![
            phase("tree-creation", 2, &[10, 20]),
            phase("file-create", 2000, &[100, 200]),
            phase("tree-removal", 2, &[1, 1]),
        ];
        let setting = Setting { params: &Params::default(), host: "host" };
        assert_eq!(
            render(&trial, &setting),
            "
SUMMARY rate (in ops/sec): (of 2 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   File creation               10000.000       5000.000       7500.000       3535.534
   Tree creation                 100.000         50.000         75.000         35.355
   Tree removal                 1000.000       1000.000       1000.000          0.000
"
        );
    }
}
