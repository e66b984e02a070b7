//! What fs_mark 3.3 prints for one run: lines of comment, the names of the columns and one row for each
//! iteration, in its widths. The form with the times of the calls is [`super::fs_mark_verbose`].
//!
//! A row tells the sum of the jobs' rates, as the original sums those of its processes, in a trial in
//! `original` mode; in others the rate of all files until the last call returned.

use fsdyno_model::param::Params;
use fsdyno_model::record::{PhaseRecord, TrialRecord};

use super::{OriginalFormat, Setting};

/// The entry in the list.
pub static FORMAT: OriginalFormat = OriginalFormat {
    name: "fs-mark",
    workload: "fs-mark",
    doc: "the table of fs_mark 3.3",
    headed: true,
    render: |trial, setting| render(trial, setting, false),
    remark: |_, _: &Setting<'_>| None,
};

/// Calls whose times a row can tell, by their word in the names of figures.
const CALLS: [&str; 6] = ["create", "write", "fsync", "sync", "close", "unlink"];

/// What the original says of its seven methods.
const METHODS: [(&str, &str); 7] = [
    ("none", "NO SYNC: Test does not issue sync() or fsync() calls."),
    ("fsync", "INBAND FSYNC: fsync() per file in write loop."),
    (
        "sync-first",
        "SYSTEM SYNC/SINGLE FSYNC: Issue sync() after main write loop and 1 file fsync() per subdirectory.",
    ),
    (
        "post-reverse",
        "POST REVERSE: Reopen and fsync() each file in reverse order after main write loop.",
    ),
    (
        "sync-post-reverse",
        "SYNC POST REVERSE: Issue sync() and then reopen and fsync() each file in reverse order after main write loop.",
    ),
    ("post", "POST: Reopen and fsync() each file in order after main write loop."),
    (
        "sync-post",
        "SYNC POST: Issue sync() and then reopen and fsync() each file in order after main write loop.",
    ),
];

/// The output of one trial; `verbose` adds the times of the calls. A trial whose files were not all
/// created has no rows.
pub(super) fn render(trial: &TrialRecord, setting: &Setting<'_>, verbose: bool) -> String {
    let params = setting.params;
    let mut text = head(params, verbose);
    text.push_str(&titles(verbose));
    let Some(create) = trial.phases.iter().find(|phase| phase.name == "create") else {
        return text;
    };
    for iteration in 1..=create.samples.len() {
        text.push_str(&row(create, params, iteration, verbose));
    }
    text
}

fn head(params: &Params, verbose: bool) -> String {
    let number = |name| params.number(name);
    let (size, bs) = (number("size"), number("bs"));
    let (length, random) = (number("name_length"), number("name_random"));
    let (directories, per_directory) = (number("directories"), number("per_directory"));
    let (index, method) = method(params.text("sync_method"));
    let mut command = format!(
        "fs_mark  -S  {index}  -n  {}  -s  {size}  -w  {bs}  -t  {}  -L  {}  -p  {length}  -r  {random}",
        number("files"),
        number("numjobs"),
        number("loops"),
    );
    let layout = if directories < 2 {
        "no subdirectories used".to_owned()
    } else {
        command.push_str(&format!("  -D  {directories}"));
        let (how, what) = if per_directory > 0 {
            command.push_str(&format!("  -N  {per_directory}"));
            ("Round Robin", format!("{per_directory} files per subdirectory"))
        } else {
            ("Hash", "a hash of the file".to_owned())
        };
        format!("{how} between directories across {directories} subdirectories with {what}.")
    };
    if params.text("keep") == "true" {
        command.push_str("  -k");
    }
    if verbose {
        command.push_str("  -v");
    }
    let times =
        if verbose { "#\tAll system call times are reported in microseconds.\n" } else { "" };
    format!(
        "\n#  {command} \n\
         #\tVersion 3.3, {} thread(s)\n\
         #\tSync method: {method}\n\
         #\tDirectories:  {layout}\n\
         #\tFile names: {length} bytes long, ({} initial bytes of time stamp with {random} random bytes at end of name)\n\
         #\tFiles info: size {size} bytes, written with an IO size of {bs} bytes per write\n\
         #\tApp overhead is time in microseconds spent in the test not doing file writing related system calls.\n\
         {times}\n",
        number("numjobs"),
        length.saturating_sub(random),
    )
}

/// Number and text of a method, which is given by its word or its number.
fn method(word: &str) -> (usize, &'static str) {
    let is_asked =
        |(index, (name, _)): &(usize, &(&str, &str))| *name == word || index.to_string() == word;
    let found = METHODS.iter().enumerate().find(is_asked);
    found.map_or((1, METHODS[1].1), |(index, (_, text))| (index, *text))
}

fn titles(verbose: bool) -> String {
    let mut text = format!(
        "{:>6} {:>12} {:>12} {:>12} {:>16}",
        "FSUse%", "Count", "Size", "Files/sec", "App Overhead"
    );
    if verbose {
        for name in ["CREAT", "WRITE", "FSYNC", "SYNC", "CLOSE", "UNLINK"] {
            text.push_str(&format!(" {:>26}", format!("{name} (Min/Avg/Max)")));
        }
    }
    text + "\n"
}

fn row(create: &PhaseRecord, params: &Params, iteration: usize, verbose: bool) -> String {
    let value = |name: &str| {
        create.values.get(&format!("iteration_{iteration}_{name}")).copied().unwrap_or(f64::NAN)
    };
    let rate = if params.text("mode") == "original" {
        value("files_per_s")
    } else {
        let files = params.number("files") * params.number("numjobs");
        let elapsed_ns = create.samples[iteration - 1].elapsed_return_ns;
        files as f64 / elapsed_ns as f64 * 1e9
    };
    let mut text = format!(
        "{:>6} {:>12} {:>12} {rate:>12.1} {:>16}",
        value("used_percent") as u64,
        value("count") as u64,
        params.number("size"),
        value("app_overhead_us") as u64,
    );
    if verbose {
        for name in CALLS {
            for word in ["min", "mean", "max"] {
                text.push_str(&format!(" {:>8}", value(&format!("{name}_{word}_us")) as u64));
            }
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::param::{ParamDef, ParamKind};
    use fsdyno_model::record::Sample;

    use super::*;

    const fn text(name: &'static str, default: &'static str) -> ParamDef {
        ParamDef { name, kind: ParamKind::Text, default, quick: None, doc: "", check: None }
    }

    const fn number(name: &'static str, default: &'static str) -> ParamDef {
        let kind = ParamKind::Count { min: 0, max: 100_000 };
        ParamDef { name, kind, default, quick: None, doc: "", check: None }
    }

    const DEFS: &[ParamDef] = &[
        text("sync_method", "1"),
        text("mode", "original"),
        text("keep", "auto"),
        number("files", "5"),
        number("size", "20000"),
        number("bs", "16384"),
        number("numjobs", "2"),
        number("loops", "3"),
        number("name_length", "40"),
        number("name_random", "24"),
        number("directories", "1"),
        number("per_directory", "0"),
    ];

    fn params(pairs: &[(&str, &str)]) -> Params {
        let mut params = Params::defaults(DEFS, false);
        for (name, value) in pairs {
            params.set(DEFS, name, value).unwrap();
        }
        params
    }

    /// Three iterations of ten files, each 10 ms long.
    fn trial() -> TrialRecord {
        let mut create = PhaseRecord::new("create", "files_per_s");
        for iteration in 1..=3u32 {
            create.samples.push(Sample {
                subject: format!("iteration {iteration}"),
                started_ns: None,
                elapsed_return_ns: 10_000_000,
                elapsed_durable_ns: None,
                operations: 40,
                bytes: 200_000,
                app_user_ns: None,
                app_system_ns: None,
            });
            let mut figures = vec![
                ("used_percent".to_owned(), 88.0),
                ("count".to_owned(), f64::from(10 * iteration)),
                ("files_per_s".to_owned(), 5135.04),
                ("app_overhead_us".to_owned(), 76.9),
            ];
            for (name, number) in CALLS.iter().zip(1..) {
                for (word, factor) in [("min", 1.0), ("mean", 10.5), ("max", 100.0)] {
                    figures.push((format!("{name}_{word}_us"), f64::from(number) * factor));
                }
            }
            let named = figures
                .into_iter()
                .map(|(name, value)| (format!("iteration_{iteration}_{name}"), value));
            create.values.extend(named);
        }
        let mut trial = TrialRecord::planned("ext4", "fs-mark", 1, 0, Outcome::Completed);
        trial.phases = vec![create];
        trial
    }

    fn rendered(params: &Params, verbose: bool) -> String {
        render(&trial(), &Setting { params, host: "bench" }, verbose)
    }

    /// What the original printed for the same parameters, its clock left out.
    const PLAIN: &str = "
#  fs_mark  -S  1  -n  5  -s  20000  -w  16384  -t  2  -L  3  -p  40  -r  24 
#\tVersion 3.3, 2 thread(s)
#\tSync method: INBAND FSYNC: fsync() per file in write loop.
#\tDirectories:  no subdirectories used
#\tFile names: 40 bytes long, (16 initial bytes of time stamp with 24 random bytes at end of name)
#\tFiles info: size 20000 bytes, written with an IO size of 16384 bytes per write
#\tApp overhead is time in microseconds spent in the test not doing file writing related system calls.

FSUse%        Count         Size    Files/sec     App Overhead
    88           10        20000       5135.0               76
    88           20        20000       5135.0               76
    88           30        20000       5135.0               76
";

    #[test]
    fn the_table_is_that_of_the_original() {
        assert_eq!(rendered(&params(&[]), false), PLAIN);
        // All ten files for the time of the slowest job.
        let corrected = rendered(&params(&[("mode", "corrected")]), false);
        assert_eq!(corrected, PLAIN.replace("5135.0", "1000.0"));
        let verbose = rendered(&params(&[]), true);
        let last = "    88           30        20000       5135.0               76        \
                    1       10      100        2       21      200        3       31      300        \
                    4       42      400        5       52      500        6       63      600";
        assert_eq!(verbose.lines().last().unwrap(), last);
    }

    #[test]
    fn a_trial_that_ended_early_has_no_rows() {
        let mut failed = trial();
        failed.phases.clear();
        let params = params(&[]);
        let shown = render(&failed, &Setting { params: &params, host: "bench" }, false);
        assert!(PLAIN.starts_with(&shown) && shown.ends_with("App Overhead\n"), "{shown}");
    }

    /// Comments and the column titles as they are, rows with `N` for each number and its width kept.
    fn shape(printed: &str) -> Vec<String> {
        let masked = |line: &str| {
            if !line.starts_with(' ') {
                return line.to_owned();
            }
            let cells = line.split_whitespace().count();
            format!("row of {cells} cells, {} with a fraction", line.matches('.').count())
        };
        let is_comparable = |line: &&str| !line.starts_with("#  ") && !line.contains("Version");
        printed.lines().filter(is_comparable).map(masked).collect()
    }

    #[test]
    fn the_installed_original_prints_the_same() {
        let directory = std::env::temp_dir().join(format!("fsdyno-fsm-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        for index in 0..METHODS.len() {
            for verbose in [false, true] {
                let number = index.to_string();
                let mut arguments =
                    vec!["-d", "d", "-l", "log", "-n", "5", "-s", "20000", "-t", "2", "-L", "3"];
                arguments.extend(["-S", number.as_str(), "-D", "4", "-N", "2"]);
                if verbose {
                    arguments.push("-v");
                }
                let outcome =
                    Command::new("fs_mark").args(&arguments).current_dir(&directory).output();
                let Ok(output) = outcome else {
                    println!("skipped: fs_mark 3.3 is not installed: {outcome:?}");
                    std::fs::remove_dir_all(&directory).unwrap();
                    return;
                };
                let printed = String::from_utf8(output.stdout).unwrap();
                let asked = [
                    ("sync_method", number.as_str()),
                    ("directories", "4"),
                    ("per_directory", "2"),
                ];
                let ours = rendered(&params(&asked), verbose);
                assert_eq!(shape(&ours), shape(&printed), "-S {index}, verbose: {verbose}");
                assert!(Path::new(&directory).join("d").exists());
            }
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
