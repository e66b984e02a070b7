//! What dbench 4.00 prints at the end of a run: the table of operations and the line of the throughput.
//! Its lines of each second are left out.

use fsdyno_model::param::Params;
use fsdyno_model::record::{PhaseRecord, TrialRecord};

use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "dbench",
    workload: "dbench",
    doc: "the table of operations and the throughput of dbench 4",
    headed: true,
    render,
    remark: |_, _: &Setting<'_>| None,
};

/// Names in the table with the words in the names of the values.
const KINDS: [&str; 17] = [
    "NTCreateX",
    "Close",
    "Rename",
    "Unlink",
    "Deltree",
    "Rmdir",
    "Mkdir",
    "Qpathinfo",
    "Qfileinfo",
    "Qfsinfo",
    "Sfileinfo",
    "Find",
    "WriteX",
    "ReadX",
    "LockX",
    "UnlockX",
    "Flush",
];

/// The output of one trial; nothing where its run did not end, as the original prints nothing then.
fn render(trial: &TrialRecord, setting: &Setting<'_>) -> String {
    let Some(run) = trial.phases.iter().find(|phase| phase.name == "run") else {
        return String::new();
    };
    let value = |name: &str| run.values.get(name).copied();
    let mut text = "\n Operation      Count    AvgLat    MaxLat\n \
                    ----------------------------------------\n"
        .to_owned();
    for name in KINDS {
        let figure = |what: &str| value(&format!("{}_{what}", name.to_ascii_lowercase()));
        if let (Some(count), Some(mean), Some(longest)) =
            (figure("count"), figure("avg_ms"), figure("max_ms"))
        {
            text.push_str(&format!(" {name:<12} {count:>7} {mean:>9.3} {longest:>9.3}\n"));
        }
    }
    text.push_str(&last_line(run, setting.params));
    text
}

fn last_line(run: &PhaseRecord, params: &Params) -> String {
    let number = |name: &str| run.values.get(name).copied().unwrap_or(f64::NAN);
    let is_set = |name: &str| params.contains(name) && params.flag(name);
    format!(
        "\nThroughput {} MB/sec{}{}  {clients} clients  {clients} procs  max_latency={:.3} ms\n",
        significant(number("dbench_mb_per_s")),
        if is_set("sync_io") { " (sync open)" } else { "" },
        if is_set("sync_directories") { " (sync dirs)" } else { "" },
        number("max_latency_ms"),
        clients = number("clients"),
    )
}

/// Six significant digits without zeros at the end, as C's `%g` prints numbers of this size.
fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "nan".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = format!("{value:.5e}")
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse::<i32>().ok())
        .unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let text = format!("{value:.5e}");
        let (digits, _) = text.split_once('e').unwrap_or((&text, ""));
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let text = format!("{value:.*}", (5 - exponent) as usize);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::outcome::Outcome;

    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        for (value, text) in [
            (45.016_123, "45.0161"),
            (300.413, "300.413"),
            (1234.5, "1234.5"),
            (2000.0, "2000"),
            (0.000_123_456_7, "0.000123457"),
            (0.0, "0"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_012, "1.2e-05"),
            (999_999.6, "1e+06"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn the_table_and_the_last_line() {
        let mut run = PhaseRecord::new("run", "throughput_mib_per_s");
        for (name, value) in [
            ("ntcreatex_count", 2673.0),
            ("ntcreatex_avg_ms", 0.2558),
            ("ntcreatex_max_ms", 6.502),
            ("flush_count", 220.0),
            ("flush_avg_ms", 0.039),
            ("flush_max_ms", 0.265),
            ("dbench_mb_per_s", 45.0161),
            ("clients", 4.0),
            ("max_latency_ms", 29.9071),
        ] {
            run.values.insert(name.to_owned(), value);
        }
        let mut trial = TrialRecord::planned("ext4", "dbench", 1, 0, Outcome::Completed);
        let setting = Setting { params: &Params::default(), host: "host" };
        assert_eq!(render(&trial, &setting), "");
        trial.phases.push(run);
        assert_eq!(
            render(&trial, &setting),
            "
 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX       2673     0.256     6.502
 Flush            220     0.039     0.265

Throughput 45.0161 MB/sec  4 clients  4 procs  max_latency=29.907 ms
"
        );
    }
}
