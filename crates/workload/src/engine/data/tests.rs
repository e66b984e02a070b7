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
