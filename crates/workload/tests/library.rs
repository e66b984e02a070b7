//! The workloads that ship as texts: facts that were checked by hand against what they reproduce, and a
//! quick run of each through the phase runner in a temporary directory.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use fsdyno_model::param::Params;
use fsdyno_workload::catalog::{self, Workload};
use fsdyno_workload::engine::definition::{
    Definition, Distribution, Group, Op, Step, Task, Tree, Usage,
};
use support::{measure, verify};

const SHIPPED: [&str; 7] =
    ["boot", "fileserver", "many-clients", "oltp", "varmail", "webproxy", "webserver"];

/// A shipped workload with its default parameters, or its quick ones, and some others.
fn definition(name: &str, quick: bool, params: &[(&str, &str)]) -> Definition {
    let Workload::Data(data) = catalog::find(name).unwrap() else { panic!("{name} is no text") };
    let mut values = Params::defaults(data.info.params, quick);
    for (name, value) in params {
        values.set(data.info.params, name, value).unwrap();
    }
    data.definition(&values).unwrap()
}

fn group<'d>(definition: &'d Definition, phase: &str, name: &str) -> &'d Group {
    let phase = definition.phases.iter().find(|other| other.name == phase).unwrap();
    phase.groups.iter().find(|group| group.name == name).unwrap()
}

/// Operations of one round.
fn count(steps: &[Step]) -> u64 {
    let operations = steps.iter().map(|step| match step {
        Step::Do(_) => 1,
        Step::Repeat { count: times, steps } => times * count(steps),
    });
    operations.sum()
}

fn operations(steps: &[Step]) -> Vec<&Op> {
    let nested = steps.iter().flat_map(|step| match step {
        Step::Do(op) => vec![op],
        Step::Repeat { steps, .. } => operations(steps),
    });
    nested.collect()
}

#[test]
fn personalities_are_those_of_filebench() {
    // Name, group, threads, files, share that exists, mean size, operations of one round.
    for (name, group_name, threads, files, share, mean, round) in [
        ("fileserver", "user", 50, 10_000, 0.8, 131_072.0, 11),
        ("varmail", "server", 16, 1000, 0.8, 16_384.0, 13),
        ("webserver", "server", 100, 1000, 1.0, 16_384.0, 31),
        ("webproxy", "cache", 100, 10_000, 0.8, 16_384.0, 19),
    ] {
        let definition = definition(name, false, &[]);
        let [phase] = &definition.phases[..] else { panic!("{name}: one phase") };
        assert_eq!(phase.end.runtime, Some(Duration::from_secs(60)), "{name}");
        assert_eq!(phase.cold, None, "{name}: starts with what was just made");
        let group = group(&definition, "run", group_name);
        let [task] = &group.tasks[..] else { panic!("{name}: one task") };
        assert_eq!((group.jobs, count(&task.steps)), (threads, round), "{name}");
        let fileset = &definition.filesets[0];
        assert_eq!((fileset.entries, fileset.preallocated), (files, share), "{name}");
        match fileset.size {
            Distribution::Gamma { mean: found, shape, .. } => {
                assert_eq!((found, shape), (mean, 1.5), "{name}");
            }
            Distribution::Fixed(size) => {
                assert_eq!((name, size as f64), ("webproxy", mean));
            }
            ref other => panic!("{name}: {other:?}"),
        }
        let width = if matches!(name, "fileserver" | "webserver") { 20 } else { 1_000_000 };
        assert_eq!(fileset.tree, Tree::Width(width), "{name}");
    }
}

#[test]
fn a_mail_is_made_durable_twice_in_each_round() {
    let definition = definition("varmail", false, &[("append_size", "4KiB")]);
    let steps = &group(&definition, "run", "server").tasks[0].steps;
    let all = operations(steps);
    let fsyncs = all.iter().filter(|op| matches!(op, Op::Fsync { .. })).count();
    let appends: Vec<&Distribution> = all
        .iter()
        .filter_map(|op| match op {
            Op::Append { bytes, .. } => Some(bytes),
            _ => None,
        })
        .collect();
    assert_eq!(fsyncs, 2);
    assert_eq!(appends, [&Distribution::Uniform { min: 1, max: 4096 }; 2]);
}

#[test]
fn database_writers_keep_pace_with_the_shadows() {
    let definition = definition("oltp", false, &[]);
    let jobs = |name: &str| group(&definition, "run", name).jobs;
    assert_eq!((jobs("shadow"), jobs("database-writer"), jobs("log-writer")), (200, 10, 1));
    let taken = |task: &Task, semaphore: &str| {
        let index = definition.semaphores.iter().position(|name| name == semaphore).unwrap();
        let counts = operations(&task.steps).into_iter().filter_map(move |op| match op {
            Op::Wait { semaphore, count } if *semaphore == index => Some(*count),
            _ => None,
        });
        counts.sum::<u64>()
    };
    let writer = &group(&definition, "run", "database-writer").tasks[0];
    let written: u64 =
        writer.steps.iter().map(|step| count(std::slice::from_ref(step))).max().unwrap();
    // A hundred writes, each with its fdatasync, for a thousand reads that were told to ten writers.
    assert_eq!((written, taken(writer, "writer")), (200, 1000));
    assert_eq!(taken(&group(&definition, "run", "log-writer").tasks[0], "log"), 3200);
    for task in &group(&definition, "run", "shadow").tasks {
        assert_eq!((taken(task, "log-room"), taken(task, "writer-room")), (1, 10));
    }
    assert_eq!(group(&definition, "run", "shadow").begin.len(), 10, "ten open files");
    let bytes: u64 = definition
        .filesets
        .iter()
        .map(|fileset| match fileset.size {
            Distribution::Fixed(size) => fileset.entries * size,
            _ => 0,
        })
        .sum();
    assert_eq!(bytes, 11 * (10 << 20));
}

#[test]
fn clients_do_the_same_alone_and_under_load() {
    let definition = definition("many-clients", false, &[("clients", "3"), ("writers", "5")]);
    let [alone, loaded] = &definition.phases[..] else { panic!("two phases") };
    assert_eq!((alone.baseline, loaded.baseline), (None, Some(0)));
    let front: Vec<&Group> = loaded.groups.iter().filter(|group| !group.background).collect();
    assert_eq!((alone.groups.len(), front.len(), loaded.groups.len()), (3, 3, 6));
    for (alone, loaded) in alone.groups.iter().zip(front) {
        assert_eq!((&alone.name, &alone.tasks), (&loaded.name, &loaded.tasks));
        assert_eq!((alone.jobs, alone.rate_per_s, alone.even), (3, loaded.rate_per_s, false));
        assert!(alone.rate_per_s.is_some(), "open loop");
    }
    assert_eq!(group(&definition, "loaded", "background-writer").jobs, 5);
}

#[test]
fn lists_of_a_boot_are_what_their_heads_say() {
    for (name, reads, stats, appends, files, read_mb) in
        [("shipped:boot", 2915, 430, 16, 1303, 246), ("shipped:boot-quick", 736, 163, 1, 654, 40)]
    {
        let definition = definition("boot", false, &[("list", name)]);
        let list = definition.filesets[0].list.as_deref().unwrap();
        let mut counts = (0, 0, 0);
        let mut read_bytes = 0;
        let mut sizes = BTreeMap::new();
        for line in list {
            sizes.insert(line.path.as_str(), line.size_bytes);
            match line.usage {
                Usage::Read { count_bytes, .. } => {
                    counts.0 += 1;
                    read_bytes += count_bytes;
                }
                Usage::Stat => counts.1 += 1,
                Usage::AppendDurably { .. } => counts.2 += 1,
            }
        }
        assert_eq!((counts, sizes.len()), ((reads, stats, appends), files), "{name}");
        assert_eq!(read_bytes / 1_000_000, read_mb, "{name}");
        let roots = ["bin", "boot", "etc", "lib", "sbin", "usr", "var"];
        for path in sizes.keys() {
            assert!(roots.contains(&path.split('/').next().unwrap()), "{path}");
        }
    }
}

#[test]
fn quick_runs_end_with_contents_that_are_verified() {
    for name in SHIPPED {
        let directory = tempfile::tempdir().unwrap();
        let answers = measure(directory.path(), name, &[("cold", "none")]).expect_finished();
        let info = catalog::find(name).unwrap().info();
        for phase in info.phases.iter().filter(|phase| phase.name != "fragmentation") {
            let record = answers.phase(phase.name);
            let tasks = record.values.get("tasks").copied().unwrap_or_default();
            // A round of the writers may be longer than the whole run on a slow disk.
            assert!(tasks > 0.0 || phase.name.ends_with("-writers") || phase.name == "log-writer");
        }
        let manifest = answers.manifest().unwrap();
        assert!(!manifest.files.is_empty(), "{name}");
        let verified = verify(directory.path(), manifest);
        assert_eq!(verified.files, manifest.files.len() as u64, "{name}");
        assert_eq!(verified.mismatches, Vec::<String>::new(), "{name}");
        if name == "many-clients" {
            let slowdown = answers.phase("loaded").values.get("slowdown");
            assert!(slowdown.is_some_and(|slowdown| *slowdown > 0.0), "{slowdown:?}");
            assert!(answers.phase("loaded-append").values.contains_key("slowdown"));
            let background = answers.phase("background-files");
            assert_eq!(background.primary_metric, "throughput_mib_per_s");
        }
    }
}
