//! `fsdyno report` on runs that the test itself made: every form, read back by somebody else's reader
//! where there is one.

use fsdyno_model::trace::{Action, Flags, TraceDevice, TraceEvent, TraceInfo, TraceProcess};
use fsdyno_trace::EventSink as _;
use fsdyno_trace::stored::Writer;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use serde_json::Value;

use crate::sandbox::Sandbox;

/// A place with the results of one run on two directories; the run's identifier.
pub fn with_run() -> (Sandbox, String) {
    let sandbox = Sandbox::in_memory();
    for name in ["a", "b"] {
        std::fs::create_dir(sandbox.path().join(name)).unwrap();
    }
    let id = run(&sandbox);
    (sandbox, id)
}

/// One more run.
pub fn run(sandbox: &Sandbox) -> String {
    let arguments = [
        "compare",
        "dir:a",
        "b \"x\"=dir:b",
        "-n",
        "3",
        "-w",
        "small-files:files=40",
        "--json",
        "-",
    ];
    let finished = sandbox.run(arguments);
    finished.assert_code(0);
    finished.json()["run"]["id"].as_str().unwrap().to_owned()
}

/// The rows of the table `results` as the result document has them: target, phase, metric and value of
/// what tables show.
fn primary_values(document: &Value) -> Vec<(String, String, f64)> {
    let mut values = Vec::new();
    for trial in document["trials"].as_array().unwrap() {
        for phase in trial["phases"].as_array().unwrap() {
            let elapsed_ns = phase["elapsed_durable_ns"]
                .as_f64()
                .unwrap_or_else(|| phase["elapsed_return_ns"].as_f64().unwrap());
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            values.push((text(&trial["target"]), text(&phase["name"]), elapsed_ns / 1e9));
        }
    }
    values
}

#[test]
fn csv_and_parquet_hold_what_the_document_holds() {
    let (sandbox, id) = with_run();
    let document = sandbox.run(["report", "--format", "json"]);
    document.assert_code(0);
    let expected = primary_values(&document.json());
    assert!(expected.len() >= 24, "{expected:?}");

    let table = sandbox.run(["report", "--format", "csv"]);
    table.assert_code(0);
    let mut reader = csv::Reader::from_reader(table.stdout.as_bytes());
    let mut found = Vec::new();
    for record in reader.records() {
        let record = record.unwrap();
        assert_eq!((&record[0], &record[4], &record[5]), (&*id, "measured", "completed"));
        if &record[8] == "elapsed_s" {
            found.push((record[2].to_owned(), record[7].to_owned(), record[11].parse().unwrap()));
        }
    }
    assert_eq!(found, expected);

    let written = sandbox.run(["report", "-o", "results.parquet"]);
    written.assert_code(0);
    assert_eq!(written.stdout, "results.parquet\n");
    let file = std::fs::File::open(sandbox.path().join("results.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let mut found = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let text = |index: usize| row.get_string(index).unwrap().clone();
        if text(8) == "elapsed_s" {
            found.push((text(2), text(7), row.get_double(11).unwrap()));
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn every_table_is_written_and_several_runs_share_it() {
    let (sandbox, first) = with_run();
    let second = run(&sandbox);
    for table in ["results", "samples", "latency", "activity", "io"] {
        let arguments = ["report", &first, &second, &first, "--format", "csv", "--table", table];
        let written = sandbox.run(arguments);
        written.assert_code(0);
        let mut reader = csv::Reader::from_reader(written.stdout.as_bytes());
        assert_eq!(reader.headers().unwrap().get(0), Some("run"));
        let mut runs: Vec<String> =
            reader.records().map(|record| record.unwrap()[0].to_owned()).collect();
        runs.dedup();
        // Directories are not traced.
        let expected = if table == "io" { Vec::new() } else { vec![first.clone(), second.clone()] };
        assert_eq!(runs, expected, "{table}");
    }
    let several = sandbox.run(["report", &first, &second, "-o", "both.json"]);
    several.assert_code(0);
    let text = std::fs::read_to_string(sandbox.path().join("both.json")).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&list[0]["run"]["id"], &list[1]["run"]["id"]), (&first.into(), &second.into()));
}

#[test]
fn pages_and_pictures_go_to_files() {
    let (sandbox, first) = with_run();
    let page = format!("fsdyno-{first}.html");
    let written = sandbox.run(["report"]);
    written.assert_code(0);
    assert_eq!(written.stdout, format!("{page}\n"));
    let text = std::fs::read_to_string(sandbox.path().join(&page)).unwrap();
    assert!(text.contains("small-files") && text.trim_end().ends_with("</html>"));
    let printed = sandbox.run(["report", "-o", "-"]);
    assert_eq!(printed.stdout.trim_end(), text.trim_end());

    sandbox.run(["report", "-o", "ratios.svg"]).assert_code(0);
    sandbox.run(["report", "-o", "ratios.png"]).assert_code(0);
    let read = |name: &str| std::fs::read(sandbox.path().join(name)).unwrap();
    assert!(read("ratios.svg").starts_with(b"<svg"));
    assert!(read("ratios.png").starts_with(b"\x89PNG\r\n"));
    let io = sandbox.run(["report", "-o", "io.png", "--what", "io"]);
    io.assert_code(2);
    assert!(io.stderr.contains("no block trace to draw: trials on"), "{}", io.stderr);
    let table = sandbox.run(["report", "--format", "csv", "--table", "io"]);
    assert!(table.stderr.contains("nothing was traced in run"), "{}", table.stderr);

    // A page holds one run: each of several gets its own.
    let second = run(&sandbox);
    let both = sandbox.run(["report", &first, &second, "--format", "html"]);
    both.assert_code(0);
    assert_eq!(both.stdout, format!("fsdyno-{first}.html\nfsdyno-{second}.html\n"));
    let one_file = sandbox.run(["report", &first, &second, "-o", "both.html"]);
    one_file.assert_code(2);
    assert!(one_file.stderr.contains("--output"), "{}", one_file.stderr);
}

#[test]
fn the_form_is_told_by_the_name_of_the_file() {
    let (sandbox, _) = with_run();
    for (name, beginning) in [("x.md", "### small-files"), ("x.PROM", "# HELP fsdyno_run_info")] {
        sandbox.run(["report", "-q", "-o", name]).assert_code(0);
        let text = std::fs::read_to_string(sandbox.path().join(name)).unwrap();
        assert!(text.starts_with(beginning), "{text}");
    }
    for (arguments, word) in [
        (["-o", "results.xlsx"].as_slice(), ".parquet"),
        (&["-o", "results"], "--format"),
        (&["--format", "json", "--table", "io"], "--table"),
        (&["--format", "csv", "--what", "io"], "--what"),
        (&["--format", "postmark"], "needs the workload postmark"),
        (&["--format", "splendid"], "prometheus"),
    ] {
        let refused = sandbox.run(["report"].into_iter().chain(arguments.iter().copied()));
        refused.assert_code(2);
        assert!(refused.stderr.contains(word), "{arguments:?}: {}", refused.stderr);
    }
    let nowhere = sandbox.run(["report", "-o", "nowhere/x.csv"]);
    nowhere.assert_code(2);
    assert!(nowhere.stderr.contains("there is no directory nowhere"), "{}", nowhere.stderr);
    assert!(!sandbox.path().join("nowhere").exists());
    let left: Vec<_> = std::fs::read_dir(sandbox.path())
        .unwrap()
        .filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            path.extension().is_some_and(|extension| extension == "tmp")
        })
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_trace_that_is_gone_is_a_warning() {
    let (sandbox, id) = with_run();
    let database = sandbox.path().join("data/fsdyno/results.sqlite");
    let connection = rusqlite::Connection::open(&database).unwrap();
    let trace = r#"{"file": "gone.fstrace", "file_bytes": 1, "events": 1, "lost_events": 0}"#;
    let change = "UPDATE trial SET record = json_set(record, '$.trace', json(?1)) WHERE trial = 1";
    assert_eq!(connection.execute(change, [trace]).unwrap(), 2);
    assert!(connection.execute("UPDATE activity SET data = x'0102'", []).unwrap() >= 2);
    drop(connection);
    let written = sandbox.run(["report", "-o", "page.html"]);
    written.assert_code(0);
    assert!(
        written.stderr.contains("(gone.fstrace) is gone: it was removed"),
        "{}",
        written.stderr
    );
    assert!(!written.stderr.contains("blktrace"), "{}", written.stderr);
    let page = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(page.contains("cannot be read"), "the page of {id} does not tell");
    assert!(written.stderr.contains("what the machine did"), "{}", written.stderr);
    let table = sandbox.run(["report", "--format", "csv", "--table", "io"]);
    table.assert_code(0);
    assert_eq!(table.stdout.lines().count(), 1);
    assert!(table.stderr.contains("gone.fstrace"), "{}", table.stderr);
    assert!(!table.stderr.contains("nothing was traced"), "{}", table.stderr);
    let picture = sandbox.run(["report", "-o", "io.svg", "--what", "io"]);
    picture.assert_code(2);
    assert!(picture.stderr.contains("none of its files can be read"), "{}", picture.stderr);
}

#[test]
fn a_trace_that_was_cut_is_a_warning() {
    let (sandbox, id) = with_run();
    put_trace(&sandbox, &id, "own.fstrace", 50_000);
    let path = sandbox.path().join("data/fsdyno/results.traces").join(&id).join("own.fstrace");
    let file_bytes = path.metadata().unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // A part of the chunks is whole: their events are shown, and what is missing is told.
    file.set_len(file_bytes / 2).unwrap();
    let table = ["report", "--format", "csv", "--table", "io"];
    let cut = sandbox.run(table);
    cut.assert_code(0);
    assert!(cut.stdout.lines().count() > 100, "{}", cut.stdout);
    let told = "(own.fstrace) is damaged, ";
    assert!(cut.stderr.contains(told) && cut.stderr.contains("cut off"), "{}", cut.stderr);
    let page = sandbox.run(["report", "-o", "page.html"]);
    page.assert_code(0);
    assert!(page.stderr.contains("of its 150000 events are missing"), "{}", page.stderr);
    let text = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(text.contains("of its 150000 events are missing"));
    // Nothing of it is whole: no rows of zeros, and nothing to draw.
    file.set_len(100).unwrap();
    let nothing = sandbox.run(table);
    nothing.assert_code(0);
    assert_eq!(nothing.stdout.lines().count(), 1, "{}", nothing.stdout);
    assert!(nothing.stderr.contains("all of its 150000 events are missing"), "{}", nothing.stderr);
    sandbox.run(["report", "-o", "io.svg", "--what", "io"]).assert_code(2);
}

/// Writes a trace of `writes` writes of 4 KiB, one each millisecond, as the file of a traced trial.
fn put_trace(sandbox: &Sandbox, run: &str, file: &str, writes: u64) {
    let directory = sandbox.path().join("data/fsdyno/results.traces").join(run);
    std::fs::create_dir_all(&directory).unwrap();
    let info = TraceInfo {
        devices: vec![TraceDevice { number: 7 << 20, name: "loop0".to_owned(), sectors: None }],
        processes: vec![TraceProcess { pid: 1, name: "fsdyno".to_owned() }],
        ..TraceInfo::default()
    };
    let mut events = Vec::new();
    for index in 0..writes {
        for (action, delay_ns) in
            [(Action::Queue, 0), (Action::Issue, 1000), (Action::Complete, 90_000)]
        {
            events.push(TraceEvent {
                time_ns: 1_000_000 * index + delay_ns,
                sector: 8 * index,
                sectors: 8,
                device: 7 << 20,
                process: 0,
                flags: Flags::WRITE,
                action,
            });
        }
    }
    let mut writer = Writer::create(&directory.join(file)).unwrap();
    writer.take(&events, &info).unwrap();
    writer.finish(&info).unwrap();
    let record = serde_json::json!({
        "file": file, "file_bytes": 1, "events": events.len(), "lost_events": 0
    });
    let database = sandbox.path().join("data/fsdyno/results.sqlite");
    let connection = rusqlite::Connection::open(&database).unwrap();
    let change = "UPDATE trial SET record = json_set(record, '$.trace', json(?1)) WHERE trial = 1";
    assert_eq!(connection.execute(change, [record.to_string()]).unwrap(), 2);
}

#[test]
fn traced_trials_have_a_picture_each() {
    let (sandbox, id) = with_run();
    put_trace(&sandbox, &id, "own.fstrace", 500);
    let written = sandbox.run(["report", "-o", "io.svg", "--what", "io"]);
    written.assert_code(0);
    // Labels are parts of the names of files, without what a shell would stumble over.
    assert_eq!(written.stdout, "io-small-files-dir-a.svg\nio-small-files-b--x-.svg\n");
    for name in written.stdout.lines() {
        let text = std::fs::read_to_string(sandbox.path().join(name)).unwrap();
        assert!(text.starts_with("<svg"), "{name}");
    }
    assert_eq!(written.stderr, "");
    sandbox.run(["report", "-o", "-", "--format", "svg", "--what", "io"]).assert_code(2);
    // One trace alone is named like many, and never like the other picture of the run.
    let database = sandbox.path().join("data/fsdyno/results.sqlite");
    let connection = rusqlite::Connection::open(&database).unwrap();
    let change = "UPDATE trial SET record = json_remove(record, '$.trace') WHERE record ->> '$.target' = 'dir:a'";
    assert_eq!(connection.execute(change, []).unwrap(), 3);
    drop(connection);
    let ratios = sandbox.run(["report", "--format", "svg"]);
    assert_eq!(ratios.stdout, format!("fsdyno-{id}.svg\n"));
    let alone = sandbox.run(["report", "--format", "svg", "--what", "io"]);
    assert_eq!(alone.stdout, format!("fsdyno-{id}-small-files-b--x-.svg\n"), "{}", alone.stderr);
    let named = sandbox.run(["report", "-o", "io.png", "--what", "io"]);
    assert_eq!(named.stdout, "io-small-files-b--x-.png\n");
    let printed = sandbox.run(["report", "-o", "-", "--format", "svg", "--what", "io"]);
    assert!(printed.stdout.starts_with("<svg"), "{}", printed.stderr);
    sandbox.run(["report", "-o", "page.html"]).assert_code(0);
    let page = std::fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(!page.contains("cannot be read"));
}

/// A line of the text exposition format: name, labels, value.
type Exposed = (String, Vec<(String, String)>, f64);

/// Reads the text exposition format as the Prometheus documentation gives it: comments, names, labels
/// with escapes, values. Gives names, labels and values.
fn samples(text: &str) -> Vec<Exposed> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
    };
    assert!(text.ends_with('\n'));
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let kind = words.next().unwrap();
            assert!(matches!(kind, "HELP" | "TYPE"), "{line}");
            assert!(is_name(words.next().unwrap()), "{line}");
            let rest = words.next().unwrap();
            assert!(kind == "HELP" || rest == "gauge", "{line}");
            continue;
        }
        let (head, value) = line.rsplit_once(' ').unwrap();
        let (name, mut rest) = match head.split_once('{') {
            Some((name, rest)) => (name, rest.strip_suffix('}').unwrap()),
            None => (head, ""),
        };
        assert!(is_name(name), "{line}");
        let mut labels = Vec::new();
        while !rest.is_empty() {
            let (label, quoted) = rest.split_once("=\"").unwrap();
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let mut text = String::new();
            let mut chars = quoted.char_indices();
            let end = loop {
                match chars.next().expect("a label ends") {
                    (end, '"') => break end,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => text.push('\n'),
                        c @ ('\\' | '"') => text.push(c),
                        c => panic!("\\{c} in {line}"),
                    },
                    (_, c) => text.push(c),
                }
            };
            labels.push((label.to_owned(), text));
            rest = quoted[end + 1..].trim_start_matches(',');
        }
        samples.push((name.to_owned(), labels, value.parse().unwrap()));
    }
    samples
}

#[test]
fn prometheus_reads_the_summary() {
    let (sandbox, id) = with_run();
    let document = sandbox.run(["report", "--format", "json"]).json();
    let written = sandbox.run(["report", "--format", "prometheus"]);
    written.assert_code(0);
    let samples = samples(&written.stdout);
    assert_eq!((samples[0].0.as_str(), &samples[0].1[0].1), ("fsdyno_run_info", &id));
    let mut seen: Vec<_> = samples.iter().map(|sample| (&sample.0, &sample.1)).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), samples.len(), "a series comes twice");
    let mut compared = 0;
    for row in document["summary"].as_array().unwrap() {
        if row["metric"] != "throughput_mib_per_s" {
            continue;
        }
        let labels: Vec<(String, String)> = ["workload", "target", "phase"]
            .map(|name| (name.to_owned(), row[name].as_str().unwrap().to_owned()))
            .to_vec();
        for (suffix, key) in
            [("", "median"), ("_ci95_low", "ci95_low"), ("_ci95_high", "ci95_high")]
        {
            let name = format!("fsdyno_throughput_bytes_per_second{suffix}");
            let found = samples.iter().find(|sample| sample.0 == name && sample.1 == labels);
            // A power of two changes no digit.
            let expected = row[key].as_f64().map(|value| value * 1_048_576.0);
            assert_eq!(found.map(|sample| sample.2), expected, "{name} {labels:?}");
            compared += 1;
        }
    }
    assert!(compared >= 6);
}
