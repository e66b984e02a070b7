//! When phases and groups end, how they fail, and what is recorded of them.

use std::time::{Duration, Instant};

use fsdyno_model::wire::Task as WireTask;
use fsdyno_sys::calls::Real;
use fsdyno_workload::engine::definition::*;
use fsdyno_workload::engine::run::conduct::JobOutcome;
use fsdyno_workload::engine::run::world::World;
use fsdyno_workload::recorder::Operation;

use crate::build::*;
use crate::model::Model;
use crate::support;

const MINUTE: Duration = Duration::from_secs(60);

fn stat(pick: Pick) -> Op {
    Op::Stat { fileset: 0, pick }
}

fn one_phase(end: End, groups: Vec<Group>) -> Definition {
    let files = fileset("files", 100, 1.0, Distribution::Fixed(0));
    definition(vec![files], vec![phase("run", end, groups)])
}

/// What the jobs of the only phase did on a filesystem in memory.
fn outcomes(definition: &Definition, model: &Model) -> anyhow::Result<Vec<JobOutcome>> {
    let world = World::new(definition, SEED).unwrap();
    Ok(run(&world, model, "/".as_ref())?.remove(0))
}

fn error_of(definition: &Definition) -> String {
    format!("{:#}", outcomes(definition, &Model::default()).unwrap_err())
}

fn done(outcome: &JobOutcome) -> u64 {
    outcome.recorder.count(Operation::Task)
}

fn p999_ms(outcome: &JobOutcome, operation: Operation) -> f64 {
    outcome.recorder.quantile_ns(operation, 0.999).unwrap() as f64 / 1e6
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_one_hides() {
    let stalling = || Model::stalling(2000, Duration::from_millis(200));
    let mut open = group("open", 1, steps([stat(Pick::Random)]));
    open.rate_per_s = Some(2000.0);
    for even in [true, false] {
        open.even = even;
        let definition = one_phase(tasks(4000), vec![open.clone()]);
        let of = outcomes(&definition, &stalling()).unwrap();
        assert_eq!(done(&of[0]), 4000);
        // 400 tasks were to begin during the stall, and most of them were late by a good part of it.
        let p999 = p999_ms(&of[0], Operation::Task);
        assert!(p999 >= 150.0, "{p999} ms");
        assert!(of[0].recorder.quantile_ns(Operation::Task, 0.95).unwrap() > 40_000_000);
    }
    let closed = group("closed", 1, steps([stat(Pick::Random)]));
    let of = outcomes(&one_phase(tasks(4000), vec![closed]), &stalling()).unwrap();
    let p999 = p999_ms(&of[0], Operation::Task);
    assert!(p999 < 150.0, "one slow task of 4000 is no p99.9: {p999} ms");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let mut user = group("user", 2, steps([stat(Pick::Random)]));
    user.rate_per_s = Some(500.0);
    let start = Instant::now();
    let of = outcomes(&one_phase(tasks(200), vec![user]), &Model::default()).unwrap();
    assert_eq!(of.iter().map(done).sum::<u64>(), 200);
    // The last of about 100 tasks of each job begins 0.2 s after the first, never sooner.
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
}

#[test]
fn the_background_ends_with_the_foreground() {
    let mut noise = group("noise", 2, steps([stat(Pick::Random)]));
    noise.background = true;
    let mut asleep = group("asleep", 1, steps([Op::Sleep { duration: MINUTE }]));
    asleep.background = true;
    let mut waiting = group("waiting", 1, steps([Op::Wait { semaphore: 0, count: 1 }]));
    waiting.background = true;
    let mut late = group("late", 1, steps([stat(Pick::Random)]));
    (late.background, late.rate_per_s) = (true, Some(0.01));
    let mut thinking = group("thinking", 1, steps([stat(Pick::Random)]));
    (thinking.background, thinking.think) = (true, MINUTE);
    let front = group("front", 2, steps([stat(Pick::Once)]));
    let start = Instant::now();
    let groups = vec![noise, asleep, waiting, late, thinking, front];
    let of = outcomes(&one_phase(USED_UP, groups), &Model::default()).unwrap();
    assert!(start.elapsed() < MINUTE / 2, "{:?}", start.elapsed());
    let of_front = of.iter().filter(|job| job.group == 5);
    assert_eq!(of_front.map(done).sum::<u64>(), 100, "each entry once");
}

#[test]
fn a_phase_ends_by_time_or_by_tasks() {
    for jobs in [1, 3] {
        let user = || group("user", jobs, steps([stat(Pick::Random)]));
        let of = outcomes(&one_phase(millis(50), vec![user()]), &Model::default()).unwrap();
        assert!(of.iter().all(|job| done(job) > 0));
        let of = outcomes(&one_phase(tasks(1000), vec![user()]), &Model::default()).unwrap();
        assert_eq!(of.iter().map(done).sum::<u64>(), 1000);
        let sleepers = group("user", jobs, steps([Op::Sleep { duration: MINUTE }]));
        let start = Instant::now();
        let of = outcomes(&one_phase(millis(20), vec![sleepers]), &Model::default()).unwrap();
        assert!(start.elapsed() < MINUTE / 2 && of.len() == jobs as usize);
    }
}

#[test]
fn semaphores_hand_work_over_and_never_hang() {
    let wait = |count| Op::Wait { semaphore: 0, count };
    let post = |count| Op::Post { semaphore: 0, count };
    let mut writer = group("writer", 3, steps([wait(5), stat(Pick::Random)]));
    writer.background = true;
    let reader = group("reader", 2, steps([stat(Pick::Random), post(1)]));
    let groups = vec![writer.clone(), reader];
    let of = outcomes(&one_phase(tasks(1000), groups), &Model::default()).unwrap();
    let written: u64 = of.iter().filter(|job| job.group == 0).map(done).sum();
    assert!(written <= 200, "{written}");
    // Nobody posts: all wait, and that is an error.
    writer.background = false;
    let error = error_of(&one_phase(tasks(10), vec![writer.clone()]));
    assert!(error.contains("every job waits for a semaphore"), "{error}");
    // Whoever posted has ended.
    let few = group("few", 1, steps([stat(Pick::Once), post(1)]));
    let error = error_of(&one_phase(tasks(1_000_000), vec![writer.clone(), few]));
    assert!(error.contains("every job waits for a semaphore"), "{error}");
    // The time is over while all wait: they are stuck before.
    let mut idle = group("idle", 1, steps([Op::Sleep { duration: MINUTE }]));
    idle.background = true;
    let start = Instant::now();
    outcomes(&one_phase(millis(30), vec![writer, idle]), &Model::default()).unwrap();
    assert!(start.elapsed() < MINUTE / 2);
}

#[test]
fn the_error_of_one_job_ends_all() {
    let endless = group("endless", 2, steps([stat(Pick::Random)]));
    let waiting = group("waiting", 2, steps([Op::Wait { semaphore: 0, count: 1 }]));
    let asleep = group("asleep", 1, steps([Op::Sleep { duration: MINUTE }]));
    let read = Op::Read {
        slot: 3,
        access: Access::Sequential,
        amount: Amount::Whole { block_bytes: 4096 },
    };
    let failing = group("failing", 1, steps([read]));
    let start = Instant::now();
    let error = error_of(&one_phase(millis(60_000), vec![endless, waiting, asleep, failing]));
    assert!(error.contains("slot 3, in which no file is open"), "{error}");
    assert!(start.elapsed() < MINUTE / 2);
}

#[test]
fn whoever_finds_nothing_for_long_says_so() {
    let create = Op::Create { fileset: 0, pick: Pick::Random, slot: 0, direct: false };
    let definition = one_phase(tasks(10), vec![group("user", 1, steps([create]))]);
    let error = error_of(&definition);
    assert!(error.contains("group user: create has found nothing to work on"), "{error}");
}

#[test]
fn what_cannot_run_is_refused_before_it_begins() {
    let check = |definition: &Definition| {
        fsdyno_workload::engine::run::check(definition).expect_err("it cannot run")
    };
    let user = |op: Op| group("user", 1, steps([op]));
    let random = || stat(Pick::Random);
    let mut background = user(random());
    background.background = true;
    let mut weightless = user(random());
    weightless.tasks[0].weight = 0.0;
    let mut none = user(random());
    none.jobs = 0;
    for (definition, words) in [
        (one_phase(USED_UP, vec![user(random())]), "never used up"),
        (one_phase(tasks(1), vec![background]), "no background"),
        (one_phase(tasks(1), vec![weightless]), "weight 0"),
        (one_phase(tasks(1), vec![none]), "no jobs"),
        (one_phase(tasks(1), vec![user(stat(Pick::Index(100)))]), "no entry 100"),
        (one_phase(tasks(1), vec![user(Op::Replay { fileset: 0 })]), "no list"),
        (one_phase(tasks(1), vec![user(Op::Fsync { slot: 16 })]), "slots are 0 … 15"),
        (one_phase(tasks(1), vec![user(Op::Stat { fileset: 7, pick: Pick::Random })]), "fileset"),
        (one_phase(tasks(1), vec![user(Op::Mkdir { fileset: 0, pick: Pick::Random })]), "File"),
        (one_phase(tasks(1), vec![user(Op::Post { semaphore: 1, count: 1 })]), "semaphore"),
    ] {
        let error = check(&definition);
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_list_is_replayed_once() {
    let usages = [
        Usage::Read { offset_bytes: 1000, count_bytes: 5000 },
        Usage::Stat,
        Usage::AppendDurably { count_bytes: 300 },
        Usage::Read { offset_bytes: 9000, count_bytes: 1 << 20 },
        Usage::AppendDurably { count_bytes: 0 },
    ];
    let list = (0..500).map(|index: usize| ListedFile {
        path: format!("usr/lib{}/f{}", index % 7, index % 100),
        size_bytes: 10_000,
        usage: usages[index % usages.len()],
    });
    let mut files = fileset("files", 0, 1.0, Distribution::Fixed(0));
    files.list = Some(list.collect());
    let user = group("user", 2, steps([Op::Replay { fileset: 0 }]));
    let definition = definition(vec![files], vec![phase("boot", USED_UP, vec![user])]);
    let directory = tempfile::tempdir().unwrap();
    let world = World::new(&definition, SEED).unwrap();
    let of = run(&world, &Real, directory.path()).unwrap().remove(0);
    let count = |operation| of.iter().map(|job| job.recorder.count(operation)).sum::<u64>();
    assert_eq!(count(Operation::Task), 500);
    assert_eq!((count(Operation::Stat), count(Operation::Fsync)), (100, 200));
    assert_eq!((count(Operation::Open), count(Operation::Close)), (400, 400));
    let compared = crate::tree::assert_believed(&world, &crate::tree::found(directory.path()));
    assert!(compared >= 100, "{compared}");
}

#[test]
fn errors_name_the_call_and_the_path() {
    let create = Op::Create { fileset: 0, pick: Pick::Once, slot: 0, direct: false };
    let write = Op::Write {
        slot: 0,
        access: Access::Sequential,
        amount: Amount::Whole { block_bytes: 4096 },
    };
    let files = fileset("files", 100, 0.0, Distribution::Fixed(100_000));
    let work = steps([create, write, Op::Close { slot: 0 }]);
    let definition =
        definition(vec![files], vec![phase("run", USED_UP, vec![group("user", 2, work)])]);
    let world = World::new(&definition, SEED).unwrap();
    let model = Model::with_room(20);
    let error = run(&world, &model, "/".as_ref()).unwrap_err().to_string();
    assert!(error.starts_with("create files/f000000") && error.contains("ENOSPC"), "{error}");
    let Some(small) = support::SmallFilesystem::mount("1m") else { return };
    let world = World::new(&definition, SEED).unwrap();
    let error = run(&world, &Real, &small.path()).unwrap_err().to_string();
    assert!(error.starts_with("write files/f000000") && error.contains("ENOSPC"), "{error}");
    assert!(error.contains("--size"), "{error}");
}

#[test]
fn what_a_filesystem_cannot_do_skips_the_trial() {
    let reflink = Op::Reflink { fileset: 0, pick: Pick::Random, into: 1 };
    let filesets = vec![
        fileset("files", 10, 1.0, Distribution::Fixed(100)),
        fileset("copies", 10, 0.0, Distribution::Fixed(0)),
    ];
    let definition = definition(
        filesets,
        vec![phase("run", tasks(3), vec![group("user", 1, steps([reflink]))])],
    );
    let world = World::new(&definition, SEED).unwrap();
    let error = run(&world, &Model::default(), "/".as_ref()).unwrap_err();
    assert!(error.is::<fsdyno_workload::failure::Unavailable>(), "{error:#}");
    let text = error.to_string();
    assert!(text.contains("cannot reflink") && text.contains("files/f000000"), "{text}");
}

const TWO_RECORDS: &str = r#"
name = "two-records"
summary = "a foreground alone and beside a background that has a record of its own"
cold_default = "none"
semaphores = ["beside"]

[[fileset]]
name = "files"
entries = 200
preallocated = 1.0
size = "8KiB"

[[phase]]
name = "alone"
doc = "the foreground by itself"
metric = "task_p99_ms"
tasks = 300

[[phase.group]]
name = "front"
jobs = 2
steps = [
  { op = "open", fileset = "files" },
  { op = "read", whole = true, block = "1MiB" },
  { op = "close" },
]

[[phase]]
name = "loaded"
doc = "the same beside others"
metric = "slowdown"
tasks = 300
baseline = "alone"

# Each waits for one of the background, which else might not begin before the end on a machine that is loaded.
[[phase.group]]
name = "front"
jobs = 2
steps = [
  { op = "wait", semaphore = "beside" },
  { op = "open", fileset = "files" },
  { op = "read", whole = true, block = "1MiB" },
  { op = "close" },
]

[[phase.group]]
name = "noise"
jobs = 3
background = true
record_as = "background"
steps = [
  { op = "open", fileset = "files", write = true },
  { op = "append", bytes = 100 },
  { op = "close" },
  { op = "post", semaphore = "beside" },
]
"#;

#[test]
fn records_tell_of_tasks_fairness_and_slowdown() {
    let directory = tempfile::tempdir().unwrap();
    let mut spec = support::spec(directory.path(), "small-files", &[]);
    let info = match fsdyno_workload::engine::data::DataWorkload::load(TWO_RECORDS) {
        Ok(workload) => &workload.info,
        Err(errors) => panic!("{errors:?}"),
    };
    spec.workload = "two-records".to_owned();
    spec.definition = Some(TWO_RECORDS.to_owned());
    spec.params = fsdyno_model::param::Params::defaults(info.params, true);
    let answers = support::serve(WireTask::Measure(spec)).expect_finished();
    let names: Vec<&str> = answers.phases().iter().map(|phase| phase.name.as_str()).collect();
    assert_eq!(names, ["alone", "loaded", "background"]);
    let (alone, loaded) = (answers.phase("alone"), answers.phase("loaded"));
    let background = answers.phase("background");
    for record in [alone, loaded] {
        assert_eq!(record.values["tasks"], 300.0);
        // The end cuts off the tasks that are under way, one for each job, after some of their calls.
        assert!((300..=310).contains(&record.operations["read"]), "{:?}", record.operations);
        assert!(record.bytes >= 300 * 8192 && record.read_bytes == record.bytes);
        assert!(!record.operations.contains_key("write"), "{:?}", record.operations);
        let ordered = ["task_p50_ms", "task_p99_ms", "task_p999_ms", "task_max_ms"];
        assert!(ordered.windows(2).all(|two| record.values[two[0]] <= record.values[two[1]]));
        assert!((0.5..=1.0).contains(&record.values["fairness"]));
    }
    assert!(alone.cpu.app_user_ns.is_some() && background.cpu.app_user_ns.is_none());
    assert!(loaded.values["slowdown"] > 0.0 && !alone.values.contains_key("slowdown"));
    assert_eq!(background.elapsed_return_ns, loaded.elapsed_return_ns);
    assert!((1.0 / 3.0..=1.0).contains(&background.values["fairness"]));
    // The end of the phase cuts a task of each job off.
    let cut = background.operations["write"] as f64 - background.values["tasks"];
    assert!((0.0..=3.0).contains(&cut), "{cut}");
    let manifest = answers.manifest().unwrap();
    assert_eq!(manifest.files.len(), 200);
    let read_back = support::verify(directory.path(), manifest);
    assert_eq!((read_back.files, read_back.mismatches.len()), (200, 0));
}
