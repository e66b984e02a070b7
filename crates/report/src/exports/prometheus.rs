//! The summary in the text exposition format of Prometheus, for the textfile collector of node_exporter:
//! gauges in base units, one for each metric, labelled with workload, target and phase.
//!
//! The identifier of the run is a label of `fsdyno_run_info` alone: as a label of every figure it would
//! begin a new series with each run, where a graph over many runs is wanted.

use std::fmt::Write as _;
use std::io;

use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::record::Role;
use fsdyno_model::report_data::ReportData;
use fsdyno_model::result::{RunResult, SummaryRow};

use super::{ExportFormat, ExportOptions, Output, document_only, shortest};

/// Its entry in the list.
pub static FORMAT: ExportFormat = ExportFormat {
    name: "prometheus",
    doc: "The summary as Prometheus reads it, for the textfile collector of node_exporter",
    extensions: &["prom"],
    is_text: true,
    is_file: false,
    is_picture: false,
    holds_several: false,
    has_tables: false,
    needs: document_only,
    write,
};

/// Endings of our names, what Prometheus calls that quantity, and by what a figure is multiplied. The
/// first that fits counts.
const UNITS: &[(&str, &str, f64)] = &[
    ("_mib_per_s", "_bytes_per_second", 1_048_576.0),
    ("_mib", "_bytes", 1_048_576.0),
    ("_per_s", "_per_second", 1.0),
    ("_ns", "_seconds", 1e-9),
    ("_s", "_seconds", 1.0),
    ("_percent", "_ratio", 0.01),
];

fn write(runs: &[ReportData], _: &ExportOptions, output: Output<'_>) -> io::Result<()> {
    let mut text = String::new();
    for run in runs {
        about_run(&mut text, &run.result);
        for metric in metric::ALL {
            let is_row = |row: &&SummaryRow| row.metric == metric.name;
            let rows: Vec<&SummaryRow> = run.result.summary.iter().filter(is_row).collect();
            if !rows.is_empty() {
                about_metric(&mut text, metric, &rows);
            }
        }
    }
    output.write_all(text.as_bytes())
}

fn about_run(text: &mut String, result: &RunResult) {
    let run = &result.run;
    head(text, "fsdyno_run_info", "The run that these figures are of.");
    let labels = [
        ("run", run.id.as_str()),
        ("title", run.title.as_deref().unwrap_or_default()),
        ("kernel", run.environment.kernel_release.as_deref().unwrap_or_default()),
    ];
    line(text, "fsdyno_run_info", &labels, 1.0);
    for (name, doc, time) in [
        ("fsdyno_run_start_timestamp_seconds", "When the run began.", Some(&run.started)),
        ("fsdyno_run_end_timestamp_seconds", "When the run ended.", run.finished.as_ref()),
    ] {
        let time = time.and_then(|time| time.parse::<jiff::Timestamp>().ok());
        if let Some(time) = time {
            head(text, name, doc);
            line(text, name, &[], time.as_millisecond() as f64 / 1e3);
        }
    }
    let name = "fsdyno_trials";
    head(text, name, "Measured trials that were planned, by outcome.");
    for workload in &result.workloads {
        for target in &result.targets {
            let own = || {
                result.trials.iter().filter(|trial| {
                    trial.workload == workload.label
                        && trial.target == target.label
                        && trial.role == Role::Measured
                })
            };
            let mut outcomes: Vec<&str> = own().map(|trial| trial.outcome.word()).collect();
            // 0 tells more than nothing does: an alert wants to see it rise.
            outcomes.extend(["completed", "failed"]);
            outcomes.sort_unstable();
            outcomes.dedup();
            for outcome in outcomes {
                let count = own().filter(|trial| trial.outcome.word() == outcome).count();
                let labels = [
                    ("workload", workload.label.as_str()),
                    ("target", target.label.as_str()),
                    ("outcome", outcome),
                ];
                line(text, name, &labels, count as f64);
            }
        }
    }
}

fn about_metric(text: &mut String, metric: &Metric, rows: &[&SummaryRow]) {
    let (name, factor) = base_unit(metric.name);
    let better = match metric.better {
        Some(Better::Higher) => ", more is better",
        Some(Better::Lower) => ", less is better",
        None => "",
    };
    for (suffix, what, read) in [
        ("", "Median over the completed trials", (|row| Some(row.median)) as Read),
        ("_ci95_low", "Low end of the 95 % interval", |row| row.ci95_low),
        ("_ci95_high", "High end of the 95 % interval", |row| row.ci95_high),
    ] {
        let name = format!("{name}{suffix}");
        if rows.iter().all(|row| read(row).is_none()) {
            continue;
        }
        head(text, &name, &format!("{what}{better}: {}.", metric.doc));
        for row in rows {
            let Some(value) = read(row).filter(|value| value.is_finite()) else { continue };
            let labels =
                [("workload", &*row.workload), ("target", &*row.target), ("phase", &*row.phase)];
            line(text, &name, &labels, value * factor);
        }
    }
}

/// One figure of a row of the summary.
type Read = fn(&SummaryRow) -> Option<f64>;

/// The name of a metric in base units, and by what its figures are multiplied.
fn base_unit(metric: &str) -> (String, f64) {
    UNITS
        .iter()
        .find_map(|(ending, base, factor)| {
            Some((format!("fsdyno_{}{base}", metric.strip_suffix(ending)?), *factor))
        })
        .unwrap_or_else(|| (format!("fsdyno_{metric}"), 1.0))
}

fn head(text: &mut String, name: &str, doc: &str) {
    let doc = doc.replace('\\', "\\\\").replace('\n', "\\n");
    text.push_str(&format!("# HELP {name} {doc}\n# TYPE {name} gauge\n"));
}

fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    text.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let before = if index == 0 { '{' } else { ',' };
        write!(text, "{before}{label}=\"{value}\"").expect("text takes text");
    }
    if !labels.is_empty() {
        text.push('}');
    }
    writeln!(text, " {}", shortest(value)).expect("text takes text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exports::tables::fixture;

    fn written(run: ReportData) -> String {
        let mut bytes = Vec::new();
        write(&[run], &ExportOptions::default(), &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn names_are_in_base_units() {
        for (ours, name, factor) in [
            ("throughput_mib_per_s", "fsdyno_throughput_bytes_per_second", 1_048_576.0),
            ("elapsed_s", "fsdyno_elapsed_seconds", 1.0),
            ("files_per_s", "fsdyno_files_per_second", 1.0),
            ("device_write_mib", "fsdyno_device_write_bytes", 1_048_576.0),
            ("max_latency_ns", "fsdyno_max_latency_seconds", 1e-9),
            ("true_cpu_percent", "fsdyno_true_cpu_ratio", 0.01),
            ("device_flushes", "fsdyno_device_flushes", 1.0),
        ] {
            assert_eq!(base_unit(ours), (name.to_owned(), factor));
        }
        let mut names: Vec<String> =
            metric::ALL.iter().map(|metric| base_unit(metric.name).0).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), metric::ALL.len());
    }

    #[test]
    fn labels_are_escaped_and_figures_read_back() {
        let mut run = fixture::run();
        run.result.run.title = Some("a\nb".to_owned());
        let row = run.result.summary.iter().find(|row| row.metric == "elapsed_s").unwrap().clone();
        let text = written(run);
        assert!(text.contains("title=\"a\\nb\""), "{text}");
        assert!(text.contains("target=\"ext4:\\\"a,b\\\"\\\\\""), "{text}");
        let start = format!(
            "fsdyno_elapsed_seconds{{workload=\"compilebench\",target=\"ext4:\\\"a,b\\\"\\\\\",phase=\"{}\"}} ",
            row.phase
        );
        let line = text.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
        assert_eq!(line.parse(), Ok(row.median));
        assert!(text.contains("fsdyno_run_start_timestamp_seconds 1767323045\n"), "{text}");
        assert!(text.contains("outcome=\"failed\"} 0\n"));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn every_name_has_its_head_once_and_before_its_lines() {
        let text = written(fixture::run());
        let mut typed: Vec<&str> = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.strip_suffix(" gauge").unwrap();
                assert!(!typed.contains(&name), "{name} twice");
                typed.push(name);
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(typed.last(), Some(&name), "{line}");
            }
        }
        assert!(typed.len() > 10);
    }
}
