//! The summary that compilebench itself prints, byte for byte in its form, from a trial in
//! `original` mode: parsers of its output depend on every word, "intial" included.
//!
//! `MB/s` is MiB/s there, and the mean over the runs of a kind is not weighted. The times are ours,
//! in nanoseconds, where those of the original have steps of 10 ms.

use fsdyno_analysis::interval;
use fsdyno_model::metric;
use fsdyno_model::record::{PhaseRecord, Sample, TrialRecord};

use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "compilebench",
    workload: "compilebench",
    doc: "the summary lines of compilebench 0.6",
    headed: true,
    render: |trial, _: &Setting<'_>| render(trial),
    remark: |_, _: &Setting<'_>| None,
};

/// What a line tells.
#[derive(Clone, Copy)]
enum Figure {
    Throughput,
    Seconds,
}

use Figure::{Seconds, Throughput};

/// Phases with the original's name for them, in its order.
const LINES: &[(&str, &str, Figure)] = &[
    ("initial-create", "intial create", Throughput),
    ("create", "create", Throughput),
    ("patch", "patch", Throughput),
    ("compile", "compile", Throughput),
    ("clean", "clean", Throughput),
    ("read", "read tree", Throughput),
    ("read-compiled", "read compiled tree", Throughput),
    ("delete", "delete tree", Seconds),
    ("delete-compiled", "delete compiled tree", Seconds),
    ("stat", "stat tree", Seconds),
    ("stat-compiled", "stat compiled tree", Seconds),
];

/// Length of the rule below the first line.
const RULE: usize = 74;

/// The summary of one trial, with a newline at the end. A figure that the record does not tell is
/// `nan`, as the original's language would print it.
#[must_use]
pub fn render(trial: &TrialRecord) -> String {
    let mut text = format!("run complete:\n{}\n", "=".repeat(RULE));
    for (phase, tag, figure) in LINES {
        let record = trial.phases.iter().find(|record| record.name == *phase);
        match record.filter(|record| !record.samples.is_empty()) {
            Some(record) => text.push_str(&line(record, tag, *figure)),
            None => text.push_str(&format!("no runs for {tag}\n")),
        }
    }
    text
}

fn line(record: &PhaseRecord, tag: &str, figure: Figure) -> String {
    let (name, unit) = match figure {
        Throughput => ("sample_mean_throughput_mib_per_s", "MB/s"),
        Seconds => ("sample_mean_elapsed_s", "seconds"),
    };
    let average = metric::find(name).and_then(|metric| (metric.read)(record));
    let runs = record.samples.len();
    let user = mean_seconds(&record.samples, |sample| sample.app_user_ns);
    let system = mean_seconds(&record.samples, |sample| sample.app_system_ns);
    let average = number(average);
    format!("{tag} total runs {runs} avg {average} {unit} (user {user}s sys {system}s)\n")
}

fn mean_seconds(samples: &[Sample], read: fn(&Sample) -> Option<u64>) -> String {
    let seconds: Vec<f64> =
        samples.iter().filter_map(read).map(|nanoseconds| nanoseconds as f64 / 1e9).collect();
    number(interval::mean(&seconds))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "nan".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use fsdyno_model::outcome::Outcome;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn sample(elapsed_ms: u64, bytes: u64, user_ms: u64, system_ms: u64) -> Sample {
        Sample {
            subject: "kernel-0".to_owned(),
            started_ns: None,
            elapsed_return_ns: elapsed_ms * 500_000,
            elapsed_durable_ns: Some(elapsed_ms * 1_000_000),
            operations: 1,
            bytes,
            app_user_ns: Some(user_ms * 1_000_000),
            app_system_ns: Some(system_ms * 1_000_000),
        }
    }

    fn phase(name: &str, samples: Vec<Sample>) -> PhaseRecord {
        PhaseRecord { samples, ..PhaseRecord::new(name, "elapsed_s") }
    }

    fn trial(phases: Vec<PhaseRecord>) -> TrialRecord {
        let mut trial = TrialRecord::planned("ext4", "compilebench", 1, 0, Outcome::Completed);
        trial.phases = phases;
        trial
    }

    #[test]
    fn every_kind_of_line() {
        // Initial creates are not made durable within their time.
        let mut initial =
            vec![sample(10_000, 222 * MIB, 460, 690), sample(5_000, 222 * MIB, 462, 692)];
        for sample in &mut initial {
            sample.elapsed_return_ns = sample.elapsed_durable_ns.take().unwrap();
        }
        let phases = vec![
            phase("stat", vec![sample(610, 0, 290, 280); 7]),
            phase("initial-create", initial),
            phase("read-compiled", vec![sample(10_000, 903 * MIB, 980, 2_840)]),
            phase("delete-compiled", vec![sample(1_140, 0, 220, 470); 10]),
            phase("create", Vec::new()),
        ];
        assert_eq!(
            render(&trial(phases)),
            "\
run complete:
==========================================================================
intial create total runs 2 avg 33.30 MB/s (user 0.46s sys 0.69s)
no runs for create
no runs for patch
no runs for compile
no runs for clean
no runs for read tree
read compiled tree total runs 1 avg 90.30 MB/s (user 0.98s sys 2.84s)
no runs for delete tree
delete compiled tree total runs 10 avg 1.14 seconds (user 0.22s sys 0.47s)
stat tree total runs 7 avg 0.61 seconds (user 0.29s sys 0.28s)
no runs for stat compiled tree
"
        );
    }

    #[test]
    fn every_tag() {
        let phases =
            LINES.iter().map(|(name, _, _)| phase(name, vec![sample(1_000, MIB, 0, 10)])).collect();
        let text = render(&trial(phases));
        let tags: Vec<&str> = text
            .lines()
            .skip(2)
            .map(|line| line.split_once(" total runs 1 avg 1.00 ").unwrap())
            .map(|(tag, rest)| {
                assert!(
                    ["MB/s (user 0.00s sys 0.01s)", "seconds (user 0.00s sys 0.01s)"]
                        .contains(&rest)
                );
                tag
            })
            .collect();
        assert_eq!(tags.len(), 11);
        assert_eq!(
            (tags[0], tags[6], tags[10]),
            ("intial create", "read compiled tree", "stat compiled tree")
        );
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let mut unknown = sample(1_000, MIB, 0, 0);
        (unknown.app_user_ns, unknown.app_system_ns) = (None, None);
        let text = render(&trial(vec![phase("patch", vec![unknown])]));
        assert!(text.contains("patch total runs 1 avg 1.00 MB/s (user nans sys nans)\n"), "{text}");
    }
}
