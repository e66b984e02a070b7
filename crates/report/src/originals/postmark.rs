//! The report that PostMark 1.53 prints for one run, byte for byte in its form, progress lines
//! included.
//!
//! Its times are whole seconds of a clock that ticks, at least 1; ours, in nanoseconds until the last
//! call returned, are rounded down as if the run began at a tick. Its bytes are counted in C floats:
//! so are ours in a trial in `original` mode; other trials have exact counts.

use fsdyno_model::record::{PhaseRecord, TrialRecord};

use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "postmark",
    workload: "postmark",
    doc: "the verbose report of PostMark 1.53",
    headed: true,
    render,
    remark: |_, _: &Setting<'_>| None,
};

const NS_PER_S: u64 = 1_000_000_000;
/// Dots that tell of the progress of the transactions.
const DOTS: u64 = 10;

/// The three phases of a trial that completed.
struct Phases<'a> {
    create: &'a PhaseRecord,
    transactions: &'a PhaseRecord,
    delete: &'a PhaseRecord,
}

/// Whole seconds as the original sees them, at least 1 each.
struct Seconds {
    total: u64,
    create: u64,
    transactions: u64,
    delete: u64,
}

/// The report of one trial; of one that did not complete the lines of progress only, as the original
/// prints no report then.
fn render(trial: &TrialRecord, setting: &Setting<'_>) -> String {
    let phase = |name: &str| trial.phases.iter().find(|phase| phase.name == name);
    let (create, transactions, delete) = (phase("create"), phase("transactions"), phase("delete"));
    let has_subdirectories =
        setting.params.contains("subdirectories") && setting.params.number("subdirectories") > 1;
    let mut text = String::new();
    if has_subdirectories {
        text.push_str("Creating subdirectories...Done\n");
    }
    if create.is_some() {
        text.push_str("Creating files...Done\n");
    }
    if let Some(transactions) = transactions {
        let done = value(transactions, "transactions");
        let dots = ".".repeat(dots(done) as usize);
        text.push_str(&format!("Performing transactions{dots}Done\n"));
    }
    if let (Some(create), Some(transactions), Some(delete)) = (create, transactions, delete) {
        text.push_str("Deleting files...Done\n");
        if has_subdirectories {
            text.push_str("Deleting subdirectories...Done\n");
        }
        text.push_str(&report(&Phases { create, transactions, delete }));
    }
    text
}

/// One dot for each tenth of the transactions, the tenth rounded down.
fn dots(transactions: u64) -> u64 {
    transactions.div_ceil((transactions / DOTS).max(1))
}

fn report(phases: &Phases<'_>) -> String {
    let seconds = seconds(phases);
    let Phases { create, transactions, delete } = phases;
    let count = |name| value(transactions, name);
    let (created, deleted) = (create.files.unwrap_or(0), delete.files.unwrap_or(0));
    let (created_mixed, deleted_mixed) = (count("created_files"), count("deleted_files"));
    let (read, appended) = (count("read_files"), count("appended_files"));
    let (created_all, deleted_all) = (created + created_mixed, deleted + deleted_mixed);
    let Seconds { total, transactions: mixed_s, create: create_s, delete: delete_s } = seconds;
    let files = |label: &str, count: u64, seconds: u64| {
        format!("\t\t{label}: {count} files ({} per second)\n", count / seconds)
    };
    let kind = |count: u64, what: &str, seconds: u64| {
        format!("\t{count} {what} ({} per second)\n", count / seconds)
    };
    [
        format!("Time:\n\t{total} seconds total\n"),
        format!(
            "\t{mixed_s} seconds of transactions ({} per second)\n\nFiles:\n",
            count("transactions") / mixed_s
        ),
        kind(created_all, "created", total),
        files("Creation alone", created, create_s),
        files("Mixed with transactions", created_mixed, mixed_s),
        kind(read, "read", mixed_s),
        kind(appended, "appended", mixed_s),
        kind(deleted_all, "deleted", total),
        files("Deletion alone", deleted, delete_s),
        files("Mixed with transactions", deleted_mixed, mixed_s),
        "\nData:\n".to_owned(),
        data(phases, "read", total),
        data(phases, "written", total),
    ]
    .concat()
}

/// What the original's clock shows at the ends of the phases, when it shows 0 at the start.
fn seconds(phases: &Phases<'_>) -> Seconds {
    let mut passed_ns = 0;
    let mut shown = 0;
    let mut seconds_of = |phase: &PhaseRecord| {
        passed_ns += phase.elapsed_return_ns;
        let before = std::mem::replace(&mut shown, passed_ns / NS_PER_S);
        (shown - before).max(1)
    };
    let create = seconds_of(phases.create);
    let transactions = seconds_of(phases.transactions);
    let delete = seconds_of(phases.delete);
    Seconds { total: shown.max(1), create, transactions, delete }
}

fn data(phases: &Phases<'_>, what: &str, total_s: u64) -> String {
    let counted = phases.transactions.values.get(&format!("counted_{what}_bytes"));
    let bytes = counted.map_or_else(|| exact_bytes(phases, what) as f32, |bytes| *bytes as f32);
    let rate = bytes / total_s as f32;
    format!("\t{} {what} ({} per second)\n", scaled(bytes), scaled(rate))
}

fn exact_bytes(phases: &Phases<'_>, what: &str) -> u64 {
    let all = [phases.create, phases.transactions, phases.delete];
    all.iter()
        .map(|phase| match what {
            "read" => phase.read_bytes,
            _ => phase.bytes - phase.read_bytes,
        })
        .sum()
}

/// Units of 1024; exactly one megabyte is still told in kilobytes, and only nothing in bytes.
fn scaled(bytes: f32) -> String {
    const KILOBYTE: f32 = 1024.0;
    const MEGABYTE: f32 = KILOBYTE * KILOBYTE;
    if bytes / MEGABYTE > 1.0 {
        format!("{:.2} megabytes", bytes / MEGABYTE)
    } else if bytes > 0.0 {
        format!("{:.2} kilobytes", bytes / KILOBYTE)
    } else {
        format!("{bytes:.6} bytes")
    }
}

fn value(phase: &PhaseRecord, name: &str) -> u64 {
    phase.values.get(name).map_or(0, |value| *value as u64)
}

#[cfg(test)]
mod tests {
    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::param::{ParamDef, ParamKind, Params};

    use super::*;

    const DEFS: &[ParamDef] = &[ParamDef {
        name: "subdirectories",
        kind: ParamKind::Count { min: 0, max: 100 },
        default: "10",
        quick: None,
        doc: "",
        check: None,
    }];

    fn phase(name: &str, elapsed_s: f64, files: u64, values: &[(&str, f64)]) -> PhaseRecord {
        let mut phase = PhaseRecord::new(name, "files_per_s");
        phase.elapsed_return_ns = (elapsed_s * 1e9) as u64;
        phase.files = Some(files);
        phase.values = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        phase
    }

    /// The counts of seed 42, number=1000, transactions=5000, subdirectories=10.
    fn trial(create_s: f64, transactions_s: f64, delete_s: f64) -> TrialRecord {
        let values = [
            ("transactions", 5000.0),
            ("created_files", 2484.0),
            ("read_files", 2502.0),
            ("appended_files", 2488.0),
            ("deleted_files", 2516.0),
            ("counted_read_bytes", 16_059_103.0),
            ("counted_written_bytes", 22_758_590.0),
        ];
        let mut trial = TrialRecord::planned("ext4", "postmark", 1, 0, Outcome::Completed);
        trial.phases = vec![
            phase("create", create_s, 1000, &[]),
            phase("transactions", transactions_s, 9990, &values),
            phase("delete", delete_s, 968, &[]),
        ];
        trial
    }

    fn rendered(trial: &TrialRecord) -> String {
        let params = Params::defaults(DEFS, false);
        render(trial, &Setting { params: &params, host: "bench" })
    }

    /// What PostMark 1.53 printed when its clock was made to show 100, 107, 137 and 150 seconds.
    const SLOW: &str = "\
Creating subdirectories...Done
Creating files...Done
Performing transactions..........Done
Deleting files...Done
Deleting subdirectories...Done
Time:
\t50 seconds total
\t30 seconds of transactions (166 per second)

Files:
\t3484 created (69 per second)
\t\tCreation alone: 1000 files (142 per second)
\t\tMixed with transactions: 2484 files (82 per second)
\t2502 read (83 per second)
\t2488 appended (82 per second)
\t3484 deleted (69 per second)
\t\tDeletion alone: 968 files (74 per second)
\t\tMixed with transactions: 2516 files (83 per second)

Data:
\t15.32 megabytes read (313.65 kilobytes per second)
\t21.70 megabytes written (444.50 kilobytes per second)
";

    /// What it printed when all was done within a second.
    const FAST: &str = "\
Creating subdirectories...Done
Creating files...Done
Performing transactions..........Done
Deleting files...Done
Deleting subdirectories...Done
Time:
\t1 seconds total
\t1 seconds of transactions (5000 per second)

Files:
\t3484 created (3484 per second)
\t\tCreation alone: 1000 files (1000 per second)
\t\tMixed with transactions: 2484 files (2484 per second)
\t2502 read (2502 per second)
\t2488 appended (2488 per second)
\t3484 deleted (3484 per second)
\t\tDeletion alone: 968 files (968 per second)
\t\tMixed with transactions: 2516 files (2516 per second)

Data:
\t15.32 megabytes read (15.32 megabytes per second)
\t21.70 megabytes written (21.70 megabytes per second)
";

    #[test]
    fn the_report_is_that_of_the_original() {
        assert_eq!(rendered(&trial(7.0, 30.0, 13.0)), SLOW);
        // The clock ticks at 7, 37 and 50 seconds all the same.
        assert_eq!(rendered(&trial(7.9, 29.9, 12.9)), SLOW);
        assert_eq!(rendered(&trial(0.02, 0.3, 0.01)), FAST);
    }

    /// Numbers become N: `15.32 megabytes` is `N megabytes`.
    fn masked(text: &str) -> String {
        let is_number = |part: char| part.is_ascii_digit() || part == '.';
        let mut masked = String::new();
        for part in text.split_inclusive(|part| !is_number(part)) {
            let number = part.trim_end_matches(|last| !is_number(last));
            let has_digit = number.bytes().any(|byte| byte.is_ascii_digit());
            masked.push_str(if has_digit { "N" } else { number });
            masked.push_str(&part[number.len()..]);
        }
        masked
    }

    #[test]
    fn the_installed_original_prints_the_same() {
        let name = format!("fsdyno-postmark-report-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        let commands = directory.join("commands");
        let text = format!(
            "set location {}\nset number 1000\nset transactions 5000\nset subdirectories 10\nrun\nquit\n",
            directory.display()
        );
        std::fs::write(&commands, text).unwrap();
        let outcome = std::process::Command::new("postmark").arg(&commands).output();
        std::fs::remove_dir_all(&directory).unwrap();
        let output = match outcome {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: postmark 1.53 is not installed: {error}");
                return;
            }
        };
        let printed = String::from_utf8(output.stdout).unwrap();
        let report = &printed[printed.find("Creating subdirectories").unwrap()..];
        assert_eq!(masked(report), masked(&rendered(&trial(0.02, 0.3, 0.01))));
    }

    #[test]
    fn a_trial_that_ended_early_has_no_report() {
        let mut failed = trial(1.0, 1.0, 1.0);
        failed.phases.truncate(1);
        assert_eq!(rendered(&failed), "Creating subdirectories...Done\nCreating files...Done\n");
    }

    #[test]
    fn exact_counts_are_printed_where_there_are_no_others() {
        let mut exact = trial(0.0, 0.0, 0.0);
        exact.phases[1].values.retain(|name, _| !name.starts_with("counted"));
        exact.phases[0].bytes = 5_000_000;
        (exact.phases[1].bytes, exact.phases[1].read_bytes) = (33_817_749, 16_059_103);
        assert_eq!(rendered(&exact), FAST);
    }

    #[test]
    fn sizes_and_dots_are_written_as_the_original_does() {
        for (bytes, text) in [
            (0.0, "0.000000 bytes"),
            (1.0, "0.00 kilobytes"),
            (700.0, "0.68 kilobytes"),
            (1_048_576.0, "1024.00 kilobytes"),
            (1_048_577.0, "1.00 megabytes"),
            (1e10, "9536.74 megabytes"),
        ] {
            assert_eq!(scaled(bytes), text);
        }
        for (transactions, count) in
            [(10, 10), (15, 15), (19, 19), (20, 10), (25, 13), (5000, 10), (3, 3)]
        {
            assert_eq!(dots(transactions), count, "{transactions}");
        }
    }
}
