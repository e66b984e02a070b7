//! Texts as a whole: what they come to with their parameters, and what is wrong with them.

use super::*;
use crate::engine::definition::*;

const SMALL: &str = r#"
name = "small"
summary = "a small workload of one phase"
cold_default = "none"

[params.files]
kind = "count"
default = 100
quick = 10
min = 1
doc = "number of files"

[params.time]
kind = "duration"
default = "2s"
doc = "how long"

[[fileset]]
name = "files"
entries = "$files * 2"
preallocated = "$files / 400"
size = { gamma = { mean = "16KiB", shape = 1.5 } }
width = 20

[[phase]]
name = "run"
doc = "works"
metric = "tasks_per_s"
runtime = "$time / 2"
cold = "$cold"

[[phase.group]]
name = "user"
jobs = 2
tasks = [
  { weight = 3, steps = [
    { op = "create", fileset = "files" },
    { op = "write", whole = true, block = "64KiB" },
    { op = "fsync" },
    { op = "close" },
  ] },
  { steps = [{ repeat = 2, steps = [{ op = "stat", fileset = "files", pick = { zipf = 0.9 } }] }] },
]
"#;

fn values(workload: &DataWorkload, quick: bool, pairs: &[(&str, &str)]) -> Params {
    let mut params = Params::defaults(workload.info.params, quick);
    for (name, value) in pairs {
        params.set(workload.info.params, name, value).unwrap();
    }
    params
}

#[test]
fn parameters_fill_a_definition() {
    let workload = DataWorkload::parse(SMALL).unwrap_or_else(|errors| panic!("{errors:?}"));
    let names: Vec<&str> = workload.info.params.iter().map(|param| param.name).collect();
    assert_eq!(names, ["files", "time", "payload", "sync", "cold", "fragmentation"]);
    let phases: Vec<&str> = workload.info.phases.iter().map(|phase| phase.name).collect();
    assert_eq!(phases, ["run", "fragmentation"]);

    let definition = workload.definition(&values(&workload, false, &[])).unwrap();
    assert_eq!(definition.filesets[0].entries, 200);
    assert_eq!(definition.filesets[0].preallocated, 0.25);
    assert_eq!(definition.filesets[0].tree, Tree::Width(20));
    let gamma = Distribution::Gamma { mean: 16384.0, shape: 1.5, max: 1 << 20 };
    assert_eq!(definition.filesets[0].size, gamma);
    let phase = &definition.phases[0];
    assert_eq!(phase.end.runtime, Some(std::time::Duration::from_secs(1)));
    assert_eq!((phase.cold, phase.sync), (None, true));
    assert_eq!(phase.groups[0].tasks[0].weight, 3.0);
    assert_eq!(phase.groups[0].tasks[0].steps.len(), 4);
    let zipf = Step::Do(Op::Stat { fileset: 0, pick: Pick::Zipf(0.9) });
    assert_eq!(phase.groups[0].tasks[1].steps, [Step::Repeat { count: 2, steps: vec![zipf] }]);

    let quick = workload.definition(&values(&workload, true, &[("sync", "false")])).unwrap();
    assert_eq!((quick.filesets[0].entries, quick.phases[0].sync), (20, false));
    let peak = workload.peak_bytes(&values(&workload, false, &[])).unwrap().unwrap();
    assert!((200 * (16 << 10)..200 * (48 << 10)).contains(&peak), "{peak}");
}

/// The message of the only fault of a text, with the text that it points at.
fn fault(text: &str) -> (String, String) {
    let errors = check(text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let span = errors[0].span.clone().unwrap();
    (errors[0].message.clone(), text[span].to_owned())
}

#[test]
fn distributions_are_read() {
    let read = |size: &str| {
        let text = SMALL.replace("{ gamma = { mean = \"16KiB\", shape = 1.5 } }", size);
        let workload = DataWorkload::parse(&text).map_err(|errors| errors[0].message.clone())?;
        let definition = workload.definition(&values(&workload, false, &[])).unwrap();
        Ok::<_, String>(definition.filesets[0].size.clone())
    };
    for (text, expected) in [
        ("4096", Distribution::Fixed(4096)),
        ("\"$files * 10\"", Distribution::Fixed(1000)),
        ("{ uniform = { max = \"1k\" } }", Distribution::Uniform { min: 0, max: 1024 }),
        (
            "{ lognormal = { median = \"$files\", sigma = 2, max = 3000 } }",
            Distribution::Lognormal { median: 100.0, sigma: 2.0, max: 3000 },
        ),
        (
            "{ zipf = { min = 512, max = \"1MiB\", theta = 1.1 } }",
            Distribution::Zipf { min: 512, max: 1 << 20, theta: 1.1 },
        ),
        (
            "{ empirical = [[\"4k\", 3], [0, 0.5]] }",
            Distribution::Empirical(vec![(4096, 3.0), (0, 0.5)]),
        ),
    ] {
        assert_eq!(read(text), Ok(expected), "{text}");
    }
    for (text, words) in [
        ("{ }", "one of uniform"),
        ("{ uniform = 5 }", "expected a table"),
        ("{ uniform = { min = 1 } }", "`max` is missing"),
        ("{ zipf = { min = 0, max = 5, theta = 1 } }", "from 1 to 16TiB, found 0"),
        ("{ zipf = { min = 1, max = 5, theta = 0 } }", "greater than 0"),
        ("{ gamma = { mean = \"1MiB\", max = \"1k\" } }", "is more than max"),
        ("{ lognormal = { median = 9 } }", "`sigma` is missing"),
        ("{ empirical = [] }", "pairs"),
        ("{ empirical = [[1, 2, 3]] }", "pairs"),
        ("1.5", "expected a size"),
        ("true", "expected a size"),
        ("[1]", "found a list"),
        ("-1", "expected a size"),
    ] {
        let error = read(text).unwrap_err();
        assert!(
            error.contains(words) || words == "expected a size" && error.contains("size"),
            "{text}: {error}"
        );
    }
}

#[test]
fn means_and_deviations_are_those_of_draws() {
    let close = |size: Distribution, mean: f64, deviation: f64| {
        let (m, d) = estimate::moments(&size);
        assert!((m - mean).abs() <= mean * 1e-3 + 1e-6, "{size:?}: mean {m}");
        assert!((d - deviation).abs() <= deviation * 1e-3 + 1e-6, "{size:?}: deviation {d}");
    };
    close(Distribution::Fixed(7), 7.0, 0.0);
    close(Distribution::Uniform { min: 0, max: 12 }, 6.0, 12f64.sqrt());
    close(Distribution::Gamma { mean: 100.0, shape: 4.0, max: 1 << 40 }, 100.0, 50.0);
    close(Distribution::Empirical(vec![(0, 1.0), (10, 1.0)]), 5.0, 5.0);
    // Ranks 1 and 2 with the weights 1 and 1/2.
    close(
        Distribution::Zipf { min: 10, max: 20, theta: 1.0 },
        40.0 / 3.0,
        10.0 * 2f64.sqrt() / 3.0,
    );
    // A sum in parts is the same as one by one.
    let (theta, ranks) = (0.9, 50_000u64);
    let sum = |power: f64| (1..=ranks).map(|rank| (rank as f64).powf(power)).sum::<f64>();
    let mean = sum(1.0 - theta) / sum(-theta);
    let deviation = (sum(2.0 - theta) / sum(-theta) - mean * mean).sqrt();
    close(Distribution::Zipf { min: 1, max: ranks, theta }, mean, deviation);
    let lognormal = Distribution::Lognormal { median: 100.0, sigma: 1.0, max: 1 << 40 };
    close(lognormal, 100.0 * 0.5f64.exp(), 100.0 * 0.5f64.exp() * (1f64.exp() - 1.0).sqrt());
}

#[test]
fn faults_point_at_their_place() {
    for (part, instead, words, place) in [
        ("default = 100", "default = true", "whole number", "true"),
        ("default = 100", "default = 0", "must be at least 1", "0"),
        ("entries = \"$files * 2\"", "entries = 5\npreallocated = \"$files / 4\"", "", ""),
        ("mean = \"16KiB\"", "mean = \"16KIB\"", "not a unit of size", "\"16KIB\""),
        ("runtime = \"$time / 2\"", "runtime = \"$files\"", "expected a duration", "\"$files\""),
        ("width = 20", "width = 20\ndepth = 1", "either a width", "width"),
        ("quick = 10", "quick = 200_000_000", "with the values of --quick", "\"$files * 2\""),
        ("$files / 400", "$files / 40", "but `$files / 40` is 2", "\"$files / 40\""),
        ("[params.time]", "[params.kind]", "meaning of its own", "kind"),
    ] {
        assert!(SMALL.contains(part), "{part}");
        if words.is_empty() {
            continue;
        }
        let text = SMALL.replace(part, instead);
        let text =
            text.replace("$time", if part.contains("params.time") { "$kind" } else { "$time" });
        let errors = check(&text).unwrap_err();
        let found = errors.iter().any(|one| {
            one.message.contains(words) && one.span.clone().is_some_and(|span| text[span] == *place)
        });
        assert!(found, "{instead}: {errors:?}");
    }
    let unused = SMALL.replace("runtime = \"$time / 2\"", "runtime = \"2s\"");
    let (message, place) = fault(&unused);
    assert!(message.contains("nothing uses the parameter `time`"), "{message}");
    assert_eq!(place, "time");
}

#[test]
fn what_the_target_holds_is_estimated() {
    let peak = |text: &str| {
        let workload = DataWorkload::parse(text).unwrap_or_else(|errors| panic!("{errors:?}"));
        workload.peak_bytes(&values(&workload, false, &[])).unwrap()
    };
    let fixed = SMALL.replace("{ gamma = { mean = \"16KiB\", shape = 1.5 } }", "\"16KiB\"");
    let files = 200 * (16 << 10);
    assert!((files..files * 5 / 4).contains(&peak(&fixed).unwrap()), "{:?}", peak(&fixed));
    // What only time ends may append without end, unless something removes the files.
    let append = "{ op = \"write\", whole = true, block = \"64KiB\" }";
    let grown = fixed.replace(append, "{ op = \"append\", bytes = \"1MiB\" }");
    assert_eq!(peak(&grown), None);
    let counted = grown.replace("runtime = \"$time / 2\"", "runtime = \"$time\"\ntasks = 10");
    let bytes = peak(&counted).unwrap();
    assert!((10 << 20..(20 << 20) + files).contains(&bytes), "{bytes}");
    let removed = grown.replace("{ op = \"fsync\" },", "{ op = \"unlink\", fileset = \"files\" },");
    assert!(peak(&removed).unwrap() >= 200 << 20);
}

#[test]
fn steps_that_are_not_wanted_are_left_out() {
    let text = SMALL.replace("{ op = \"fsync\" },", "{ op = \"fsync\", when = \"$sync\" },");
    let workload = DataWorkload::parse(&text).unwrap_or_else(|errors| panic!("{errors:?}"));
    for (sync, steps) in [("true", 4), ("false", 3)] {
        let definition = workload.definition(&values(&workload, false, &[("sync", sync)])).unwrap();
        assert_eq!(definition.phases[0].groups[0].tasks[0].steps.len(), steps);
    }
}

#[test]
fn a_text_is_kept_once() {
    let first = DataWorkload::load(SMALL).unwrap();
    assert!(std::ptr::eq(first, DataWorkload::load(SMALL).unwrap()));
    let other = SMALL.replace("small workload", "smaller workload");
    assert!(!std::ptr::eq(first, DataWorkload::load(&other).unwrap()));
}

#[test]
fn broken_toml_is_located() {
    let errors = check("name = \n[[phase]\nname = 3\n").unwrap_err();
    assert!(errors.len() >= 2 && errors[0].span.is_some(), "{errors:?}");
    let errors = check("").unwrap_err();
    let missing = ["name", "summary", "phase"];
    assert!(missing.iter().zip(&errors).all(|(key, one)| one.message.contains(key)), "{errors:?}");
    assert_eq!(errors.len(), missing.len());
}

#[test]
fn blocks_are_not_nested_without_end() {
    let block = |depth: usize| {
        let stat = "{ op = \"stat\", fileset = \"files\" }";
        let open = "{ repeat = 2, steps = [".repeat(depth);
        SMALL.replace("{ op = \"fsync\" }", &format!("{open}{stat}{}", "] }".repeat(depth)))
    };
    assert_eq!(check(&block(8)), Ok(()));
    assert!(check(&block(9)).unwrap_err()[0].message.contains("more than 8 deep"));
    assert!(!check(&block(2000)).unwrap_err().is_empty());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(400))]
    #[test]
    fn no_text_panics(text in "(\\[\\[(phase|fileset|phase.group)\\]\\]\n|\\[params.[a-z]{1,2}\\]\n|(name|entries|size|steps|tasks|kind|default|op|rate) = [\"$0-9a-z\\[\\]{}.*/ -]{0,12}\n|.{0,12}\n){0,12}") {
        let _ = check(&text);
    }

    #[test]
    fn no_change_of_a_good_text_panics(
        start in 0..SMALL.len(),
        length in 0usize..12,
        instead in "[\"$0-9a-z=\\[\\]{}.*/ \n-]{0,8}",
    ) {
        let end = (start + length).min(SMALL.len());
        if SMALL.is_char_boundary(start) && SMALL.is_char_boundary(end) {
            let text = format!("{}{instead}{}", &SMALL[..start], &SMALL[end..]);
            if let Err(errors) = check(&text) {
                proptest::prop_assert!(!errors.is_empty());
                for one in errors {
                    proptest::prop_assert!(one.span.is_none_or(|span| text.get(span).is_some()));
                }
            }
        }
    }
}
