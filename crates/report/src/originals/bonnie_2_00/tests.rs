//! Both formats of bonnie++ against output of the real program, against published tables, and through
//! the programs that Debian ships with it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::{ParamDef, ParamKind};
use fsdyno_model::record::Sample;

use super::*;
use crate::originals::bonnie_1_03;

/// Output of bonnie++ 2.00a: the table, then the line of CSV.
const REAL: &[&str] = &[
    "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
box              2G   24k  16  194m  25 74.4m  19   23k  16  207m  23  8154 126
Latency              2089ms   54943us   60252us    1614ms   22449us   17476us
Version 2.00a       ------Sequential Create------ --------Random Create--------
box                 -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
              files  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
                 30 30720  20 30720  20 30720  17 30720  20 30720  24 30720  21
Latency             34011us   63654us   22541us   20202us    6640us    4634us
1.98,2.00a,box,1,1795272648,2G,,8192,5,24,16,198571,25,76160,19,23,16,211789,23,8154,126,30,,,,,6863,20,11392,20,13297,17,7578,20,32642,24,17917,21,2089ms,54943us,60252us,1614ms,22449us,17476us,34011us,63654us,22541us,20202us,6640us,4634us
",
    "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
a-mac 300M:4k::2000   29k  18  100m  21 44.3m  20   27k  16 75.3m  13  2771  17
Latency               197ms   11425us   40716us     262ms   10793us    5027us
Version 2.00a       ------Sequential Create------ --------Random Create--------
a-machine-with-a-lo -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
files:max:min        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
         1:100:50/3 +++++ +++ +++++ +++ +++++ +++ +++++ +++ +++++ +++ +++++ +++
Latency              4911us   11674us    4475us    5627us    5003us    4524us
1.98,2.00a,a-machine-with-a-long-name,1,1795276451,300M,,2000,3,29,18,102484,21,45327,20,27,16,77110,13,2771,17,1,100,50,,3,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,197ms,11425us,40716us,262ms,10793us,5027us,4911us,11674us,4475us,5627us,5003us,4524us
",
    // Without single bytes and small files, seeks with a decimal, rates in every unit.
    "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
h                4G            253m  63  2.0g  82            5.7g  89  9621  98
Latency                         279ms   12058us              6651us   28114us

1.98,2.00a,h,1,1795283938,4G,,8192,5,,,258744,63,2057438,82,,,5928864,89,9621,98,,,,,,,,,,,,,,,,,,,279ms,12058us,,6651us,28114us,,,,,,
",
    "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
slow       1M:::300           1689k   0 1123k   0           +++++ +++ 219.1   1
Latency                         150ms     150ms               150ms     150ms

1.98,2.00a,slow,1,1795280066,1M,,300,2,,,1689,0,1123,0,,,+++++,+++,219.1,1,,,,,,,,,,,,,,,,,,,150ms,150ms,,150ms,150ms,,,,,,
",
    "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
slow  16M:256k::300           +++++ +++ 26.1m   2           +++++ +++ 193.3   8
Latency                        3891us   10369us              3342us   13463us

1.98,2.00a,slow,1,1795280027,16M,,300,2,,,+++++,+++,26686,2,,,+++++,+++,193.3,8,,,,,,,,,,,,,,,,,,,3891us,10369us,,3342us,13463us,,,,,,
",
    "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
h         1000M:512            518m  99  338m  99            892m  99 +++++ +++
Latency                        6753us     252us              1931us    6165us

1.98,2.00a,h,1,1795283285,1000M,,8192,5,,,530393,99,346399,99,,,913469,99,+++++,+++,,,,,,,,,,,,,,,,,,,6753us,252us,,1931us,6165us,,,,,,
",
    // Without the large file.
    "\
Version 2.00a       ------Sequential Create------ --------Random Create--------
box                 -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
files:max            /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
             2:link  2048   2 +++++ +++  2048   2  2048   2 +++++ +++  2048   2
Latency              3537us   11948us   11723us    3350us    2526us    7096us
1.98,2.00a,box,1,1795263653,,,,,,,,,,,,,,,,,2,link,,,,2972,2,+++++,+++,2627,2,2993,2,+++++,+++,2968,2,,,,,,,3537us,11948us,11723us,3350us,2526us,7096us
",
    "\
Version 2.00a       ------Sequential Create------ --------Random Create--------
h                   -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
              files  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
                4/3 +++++ +++ +++++ +++ +++++ +++ +++++ +++ +++++ +++ +++++ +++
Latency              7849us     208us    4279us    4081us      96us     959us
1.98,2.00a,h,1,1795278778,,,,,,,,,,,,,,,,,4,,,,3,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,+++++,+++,,,,,,,7849us,208us,4279us,4081us,96us,959us
",
    "\
Version 2.00a       ------Sequential Create------ --------Random Create--------
slow                -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
files:max            /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
         2:300000:0 +++++ +++ +++++ +++  1024   0 +++++ +++ +++++ +++ +++++ +++
Latency               416us     426us      100s     113us      75us    3041us
1.98,2.00a,slow,1,1795280071,,,,,,,,,,,,,,,,,2,300000,,,,+++++,+++,+++++,+++,10,0,+++++,+++,+++++,+++,+++++,+++,,,,,,,416us,426us,100s,113us,75us,3041us
",
];

fn cell_of(fields: &[&str]) -> Cell {
    match fields[0] {
        "" => Cell::Blank,
        "+++++" => Cell::TooShort,
        rate => Cell::Rate {
            per_second: rate.parse().unwrap(),
            cpu_percent: Some(fields[1].parse().unwrap()),
        },
    }
}

fn nanoseconds_of(text: &str) -> Option<u64> {
    let units = [("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let (number, unit) =
        units.iter().find_map(|(suffix, ns)| Some((text.strip_suffix(suffix)?, ns)))?;
    Some(number.parse::<u64>().unwrap() * unit)
}

fn bytes_of(text: &str) -> u64 {
    let units = [("k", 1 << 10), ("m", MIB), ("M", MIB), ("G", MIB << 10), ("", 1)];
    let (number, unit) =
        units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit))).unwrap();
    number.parse::<u64>().unwrap() * unit
}

/// The figures in a line of CSV of the real program; the size of chunks, which is not in it, from the
/// table beside it.
fn sheet_of(table: &str, csv: &str) -> Sheet {
    let fields: Vec<&str> = csv.split(',').collect();
    assert_eq!(fields.len(), 50);
    let number = |index: usize| fields[index].parse().ok();
    let label = table.lines().nth(3).unwrap().split_whitespace().nth(1).unwrap();
    let chunk = label.split(':').nth(1).filter(|chunk| !chunk.is_empty() && !fields[5].is_empty());
    let columns = |index: usize| if index < 6 { 9 + 2 * index } else { 26 + 2 * (index - 6) };
    Sheet {
        name: fields[2].to_owned(),
        size_mib: (!fields[5].is_empty()).then(|| bytes_of(fields[5]) / MIB),
        chunk_bytes: chunk.map_or(8192, bytes_of),
        seeks: number(7).unwrap_or(8192),
        seekers: number(8).unwrap_or(0),
        files: number(21),
        max: fields[22].to_owned(),
        min_bytes: number(23).unwrap_or(0),
        // A defect of the original: the right place is 24.
        dirs: number(25).unwrap_or(1),
        cells: std::array::from_fn(|index| cell_of(&fields[columns(index)..])),
        latency_ns: std::array::from_fn(|index| nanoseconds_of(fields[38 + index])),
    }
}

/// Real output without the defects that are not repeated: rates instead of the number of files.
fn corrected(table: &str, sheet: &Sheet) -> String {
    let mut text = table.to_owned();
    for cell in &sheet.cells[FILES] {
        if let Cell::Rate { per_second, .. } = cell {
            let count =
                if table.contains(" 1024   0") { 1024 } else { sheet.files.unwrap() * 1024 };
            text =
                text.replacen(&format!(" {count:>5} "), &format!(" {:>5} ", whole(*per_second)), 1);
        }
    }
    text
}

#[test]
fn real_output_is_made_again_from_its_figures() {
    for real in REAL {
        let csv_start = real.find("1.98,").unwrap();
        let (real_table, real_csv) = (&real[..csv_start], real[csv_start..].trim_end());
        let sheet = sheet_of(real_table, real_csv);
        let expected = corrected(real_table, &sheet);
        if sheet.cells[FILES].iter().all(|cell| !matches!(cell, Cell::Rate { .. })) {
            assert_eq!(expected, real_table, "nothing to correct");
        }
        assert_eq!(table(&sheet), expected);
        let mut fields: Vec<String> = real_csv.split(',').map(str::to_owned).collect();
        // The seed; the chunk where it is another; the directories where they belong.
        fields[4].clear();
        fields[6] = if sheet.size_mib.is_some() { sheet.chunk() } else { String::new() };
        fields.swap(24, 25);
        assert_eq!(csv(&sheet), fields.join(","));
    }
}

const fn def(name: &'static str, kind: ParamKind, default: &'static str) -> ParamDef {
    ParamDef { name, kind, default, quick: None, doc: "", check: None }
}

const COUNT: ParamKind = ParamKind::Count { min: 0, max: u64::MAX };
const BYTES: ParamKind = ParamKind::Bytes { min: 0, max: u64::MAX };
/// The parameters of the workload that the formats read.
const DEFS: &[ParamDef] = &[
    def("size", ParamKind::Text, "auto"),
    def("chunk", BYTES, "8KiB"),
    def("files", COUNT, "16"),
    def("max", ParamKind::Text, "0"),
    def("min", BYTES, "0"),
    def("dirs", COUNT, "1"),
    def("seekers", COUNT, "5"),
    def("seeks", COUNT, "8192"),
];

fn params(pairs: &[(&str, &str)]) -> Params {
    let mut params = Params::defaults(DEFS, false);
    pairs.iter().for_each(|(name, value)| params.set(DEFS, name, value).unwrap());
    params
}

/// A phase that shows `rate` and `percent`, with traffic of `amount`: KiB, seeks or files.
fn phase(column: usize, amount: f64, rate: f64, percent: f64) -> PhaseRecord {
    let name = PHASES[column];
    let mut record = PhaseRecord::new(name, "throughput_mib_per_s");
    record.elapsed_return_ns = (amount / rate * 1e9) as u64;
    record.values.insert("original_cpu_percent".to_owned(), percent);
    record.values.insert("max_latency_ns".to_owned(), 1_234_999.0 * (column + 1) as f64);
    match name {
        "seeks" => drop(record.operations.insert("read".to_owned(), amount as u64)),
        "rewrite" => {
            record.bytes = (2048.0 * amount) as u64;
            record.read_bytes = (1024.0 * amount) as u64;
        }
        _ if column < 5 => record.bytes = (1024.0 * amount) as u64,
        _ => record.files = Some(amount as u64),
    }
    record.samples = Vec::<Sample>::new();
    record
}

/// The published run of 2008: bonnie++ 1.03 on 16 GiB, the reads of small files too short to be shown.
fn published() -> TrialRecord {
    const GIB: f64 = 1_048_576.0;
    let files = 16384.0;
    let mut trial = TrialRecord::planned("xfs", "bonnie", 1, 0, Outcome::Completed);
    trial.phases = vec![
        phase(1, 16.0 * GIB, 50572.5, 10.9),
        phase(2, 16.0 * GIB, 23739.5, 4.9),
        phase(4, 16.0 * GIB, 52512.5, 6.1),
        phase(5, 8192.0, 431.6, 1.0001),
        phase(6, files, 4095.5, 19.0001),
        phase(7, files, 100_000.0, 50.0),
        phase(8, files, 3404.5, 14.0001),
        phase(9, files, 1819.5, 8.0001),
        phase(10, files, 100_000.0, 99.0),
        phase(11, files, 1397.5, 6.0001),
    ];
    trial
}

fn rendered(format: &OriginalFormat, trial: &TrialRecord, pairs: &[(&str, &str)]) -> String {
    (format.render)(trial, &Setting { params: &params(pairs), host: "bench" })
}

#[test]
fn a_published_table_in_the_form_of_1_03() {
    assert_eq!(
        rendered(&bonnie_1_03::FORMAT, &published(), &[]),
        "\
Version 1.03e       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Machine        Size K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP
xfs             16G           50572  10 23739   4           52512   6 431.6   1
                    ------Sequential Create------ --------Random Create--------
                    -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
              files  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
                 16  4095  19 +++++ +++  3404  14  1819   8 +++++ +++  1397   6
xfs,16G,,,50572,10,23739,4,,,52512,6,431.6,1,16,4095,19,+++++,+++,3404,14,1819,8,+++++,+++,1397,6
"
    );
}

#[test]
fn a_run_without_any_rate_has_a_remark() {
    let remark = |format: &OriginalFormat, trial: &TrialRecord| {
        (format.remark)(trial, &Setting { params: &params(&[]), host: "bench" })
    };
    let mut trial = published();
    for format in [&FORMAT, &bonnie_1_03::FORMAT] {
        assert_eq!(remark(format, &trial), None);
    }
    for phase in &mut trial.phases {
        (phase.elapsed_return_ns, phase.elapsed_durable_ns) = (SHORTEST_NS - 1, None);
    }
    for format in [&FORMAT, &bonnie_1_03::FORMAT] {
        assert!(remark(format, &trial).unwrap().contains("use a larger size"));
        assert!(rendered(format, &trial, &[]).contains("+++++ +++"));
    }
    trial.phases.clear();
    assert_eq!(remark(&FORMAT, &trial), None);
}

#[test]
fn the_same_in_the_form_of_2_00() {
    let text = rendered(&FORMAT, &published(), &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[3],
        "xfs             16G           49.4m  10 23.2m   4           51.3m   6 431.6   1"
    );
    assert_eq!(
        lines[4],
        "Latency                        2469us    3704us              6174us    7409us"
    );
    assert_eq!(
        lines[8],
        "                 16  4095  19 +++++ +++  3404  14  1819   8 +++++ +++  1397   6"
    );
    assert_eq!(
        lines[10],
        "1.98,2.00a,xfs,1,,16G,,8192,5,,,50572,10,23739,4,,,52512,6,431.6,1,16,,,,,4095,19,+++++,+++,\
         3404,14,1819,8,+++++,+++,1397,6,,2469us,3704us,,6174us,7409us,8644us,9879us,11114us,12349us,\
         13584us,14819us"
    );
}

#[test]
fn labels_of_1_03_with_everything_and_without_one_half() {
    let all = &[("chunk", "4KiB"), ("max", "1000"), ("min", "10"), ("dirs", "7"), ("files", "2")];
    let mut trial = published();
    trial.target = "ext3:data=writeback,barrier=1".to_owned();
    let text = rendered(&bonnie_1_03::FORMAT, &trial, all);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("Machine   Size:chnk K/sec %CP"), "{text}");
    assert!(lines[3].starts_with("ext3:data=wr 16G:4k           50572  10 "), "{text}");
    assert!(lines[6].starts_with("files:max:min        /sec %CP"), "{text}");
    assert!(lines[7].starts_with("        2:1000:10/7  4095  19 +++++ +++"), "{text}");
    assert!(lines[8].starts_with("ext3:data=writeback;barrier=1,16G:4k,,,50572,10,"), "{text}");
    assert_eq!(lines[8].split(',').count(), 27);

    let mut small = trial.clone();
    small.phases.drain(..4);
    let text = rendered(&bonnie_1_03::FORMAT, &small, &[("max", "symlink")]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("Version 1.03e       {}", FILES_HEAD.trim_end()));
    assert_eq!(lines[1], format!("ext3:data=writeback {}", FILES_SUBHEAD.trim_end()));
    assert!(
        lines[2].starts_with("files:max            /sec")
            && lines[3].starts_with("         16:symlink  4095")
    );
    assert!(
        lines[4].starts_with("ext3:data=writeback;barrier=1,,,,,,,,,,,,,,16:symlink,4095,19,"),
        "{text}"
    );
    assert_eq!(lines[4].split(',').count(), 27);

    let mut large = trial;
    large.phases.truncate(4);
    let text = rendered(&bonnie_1_03::FORMAT, &large, &[]);
    assert_eq!(text.lines().count(), 5);
    assert!(text.ends_with(",52512,6,431.6,1,,,,,,,,,,,,,\n"), "{text}");
}

#[test]
fn what_is_not_known_is_blank() {
    let mut trial = published();
    trial.phases.truncate(1);
    trial.phases[0].values.clear();
    let text = rendered(&FORMAT, &trial, &[]);
    let label = "xfs             16G ";
    assert!(text.contains(&format!("{label}          49.4m    {}\n", " ".repeat(40))), "{text}");
    let line = text.lines().last().unwrap();
    assert!(line.starts_with("1.98,2.00a,xfs,1,,16G,,8192,5,,,50572,,,"), "{line}");
    assert!(line.ends_with(&",".repeat(38)) && line.split(',').count() == 50, "{line}");
    trial.phases.clear();
    let text = rendered(&FORMAT, &trial, &[]);
    assert_eq!(text.lines().last().unwrap().split(',').count(), 50);
    assert_eq!(rendered(&bonnie_1_03::FORMAT, &trial, &[]), format!("xfs{}\n", ",".repeat(26)));
}

#[test]
fn the_time_until_durable_counts_where_it_is_known() {
    let mut trial = published();
    let write = &mut trial.phases[0];
    write.elapsed_durable_ns = Some(write.elapsed_return_ns * 2);
    assert!(rendered(&bonnie_1_03::FORMAT, &trial, &[]).contains("xfs,16G,,,25286,10,"));
    trial.phases[0].elapsed_durable_ns = Some(499_999_999);
    assert!(rendered(&bonnie_1_03::FORMAT, &trial, &[]).contains("xfs,16G,,,+++++,+++,"));
}

/// The output of one of the programs that come with bonnie++, fed with `input`; `None`, with the reason
/// printed, where it is not installed.
fn piped(program: &str, input: &str) -> Option<String> {
    let child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: {program} cannot be run: {error}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Text of the cells of a page, each after a bar.
fn cells_of(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').unwrap_or((part, ""));
        if tag.starts_with("td") {
            text.push('|');
        }
        text.push_str(rest);
    }
    text
}

#[test]
fn the_csv_is_understood_by_the_programs_that_come_with_bonnie() {
    let all = &[("chunk", "4KiB"), ("max", "1000"), ("min", "10"), ("dirs", "7")];
    let text = rendered(&FORMAT, &published(), all);
    let line = format!("{}\n", text.lines().last().unwrap());
    if let Some(html) = piped("bon_csv2html", &line) {
        let cells = cells_of(&html);
        // In MiB/s there, cut off; the rates of small files as they are.
        for row in [
            "|xfs|16G|4k|",
            "|49|10|23|4|",
            "|51|6|431.6|1|16|1000|10|7|",
            "|4095|19|+++++|+++|3404|14|1819|8|+++++|+++|1397|6",
            "|Latency|",
            "|2469us|3704us|",
            "|14819us",
        ] {
            assert!(cells.contains(row), "{row} is missing in {cells}");
        }
    }
    if let Some(again) = piped("bon_csv2txt", &line) {
        let row =
            "xfs   16G:4k:8192:5           49.4m  10 23.2m   4           51.3m   6 431.6   1\n";
        assert!(again.contains(row), "{again}");
        let row =
            "xfs    16:1000:10/7  4095  19 +++++ +++  3404  14  1819   8 +++++ +++  1397   6\n";
        assert!(again.contains(row), "{again}");
        assert!(again.contains("Latency                        2469us    3704us"), "{again}");
    }
}
