//! Tests of [`crate::noise`] with noise that was planted.

use fsdyno_model::environment::Environment;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::TrialRecord;
use fsdyno_model::result::RunInfo;
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_model::yardstick::{Reading, Yardstick};

use super::*;
use crate::fixture;

fn result(trials: &[TrialRecord], governor: &str) -> RunResult {
    let target = |label: &str| TargetSpec {
        label: label.to_owned(),
        ground: Ground::Directory { path: "/srv".into() },
    };
    let mut plan = Plan::new(false);
    plan.targets = ["a", "b"].map(target).into();
    plan.workloads = vec![WorkloadSpec {
        definition: None,
        label: fixture::WORKLOAD.to_owned(),
        kind: fixture::WORKLOAD.to_owned(),
        params: fsdyno_model::param::Params::default(),
    }];
    let info = RunInfo {
        id: "1".to_owned(),
        title: None,
        started: String::new(),
        finished: Some(String::new()),
        command: String::new(),
        trials: 3,
        stopped: None,
        seed: 1,
        size_bytes: 1,
        environment: Environment {
            cpu_governor: Some(governor.to_owned()),
            ..Environment::default()
        },
        warnings: Vec::new(),
    };
    crate::assemble(info, &plan, &|_| vec!["create"], trials)
}

/// Trials whose blocks differ by `of_blocks` and whose two targets scatter by `within`, both with plain
/// patterns of which the standard deviations are known.
fn trials(blocks: u32, of_blocks: f64, within: f64) -> Vec<TrialRecord> {
    let one = |block: u32| {
        let level = of_blocks * (f64::from(block) / f64::from(blocks) - 0.5);
        let sign = if block.is_multiple_of(2) { 1.0 } else { -1.0 };
        let of = |label: &str, place: u32, logarithm: f64| {
            let mut record = fixture::trial(label, block, &[("create", f64::exp(logarithm))]);
            record.order = 2 * block + place;
            let reading = |second: u64| Reading {
                started_unix_ns: second * 1_000_000_000,
                compute_ns: Some(1.0 + 0.05 * (second % 2) as f64),
                ..Reading::default()
            };
            let order = u64::from(record.order);
            record.yardstick =
                Some(Yardstick { before: Some(reading(order)), after: Some(reading(order + 1)) });
            record
        };
        [of("a", 0, level + sign * within / 2.0), of("b", 1, level - sign * within / 2.0)]
    };
    (1..=blocks).flat_map(one).collect()
}

#[test]
fn what_blocks_share_is_no_noise_of_comparisons() {
    let told = noise(&result(&trials(10, 1.0, 0.02), "performance"), 2.0);
    assert_eq!((told.blocks, told.trials), (10, 20));
    let create = told.figures.iter().find(|it| it.name == "create").unwrap();
    assert!(create.is_phase && create.n == 20 && create.unit == "s", "{create:?}");
    assert!(create.variation.unwrap() > 0.25, "the blocks differ much: {create:?}");
    assert!(create.autocorrelation.unwrap() > 0.6, "{create:?}");
    assert!(create.drift.unwrap() > 2.0 && create.drift_p.unwrap() < 1e-4, "{create:?}");
    let [needed] = told.needed.as_slice() else { panic!("{:?}", told.needed) };
    // Ratios of ±2 % in turns: 2 % √(10/9).
    assert!((needed.deviation / 0.02 / (10.0f64 / 9.0).sqrt() - 1.0).abs() < 1e-6, "{needed:?}");
    // Tables of chi square have 2.700 and 19.023 for nine degrees: 0.688 to 1.826 times.
    let ends =
        [needed.deviation_low, needed.deviation_high].map(|it| it.unwrap() / needed.deviation);
    assert!((ends[0] - 0.688).abs() < 1e-3 && (ends[1] - 1.826).abs() < 1e-3, "{ends:?}");
    let percents: Vec<f64> = needed.differences.iter().map(|it| it.percent).collect();
    assert_eq!(percents, [1.0, 3.0, 10.0]);
    let numbers: Vec<u32> = needed.differences.iter().filter_map(|it| it.trials_auto).collect();
    assert!(numbers[0] > 40 && numbers[0] < 80 && numbers[2] == 5, "{numbers:?}");
    let time = needed.differences[0].auto_s.unwrap();
    assert_eq!(time, f64::from(numbers[0]) * 4.0);
}

#[test]
fn what_is_noisy_is_told_with_advice() {
    let codes = |trials: &[TrialRecord], governor: &str| {
        let told = noise(&result(trials, governor), 2.0);
        told.warnings.into_iter().map(|it| it.code).collect::<Vec<String>>()
    };
    // Computing varies by ±2.5 %, which is 2.5 % about.
    assert!(codes(&trials(10, 0.0, 0.02), "performance").is_empty());
    let noisy = codes(&trials(10, 0.0, 0.2), "powersave");
    assert_eq!(noisy, ["frequency-governor", "comparisons-noisy"]);
    let mut busy = trials(10, 0.0, 0.02);
    let all = busy.iter_mut().filter_map(|it| it.yardstick.as_mut());
    for reading in all.flat_map(|it| it.before.iter_mut().chain(&mut it.after)) {
        if reading.started_unix_ns.is_multiple_of(2_000_000_000) {
            reading.compute_ns = Some(1.2);
        }
    }
    busy[3].warnings.push(Warning {
        code: "processor-stolen".to_owned(),
        message: "others".to_owned(),
        advice: "wait".to_owned(),
    });
    let told = noise(&result(&busy, "performance"), 2.0).warnings;
    let stolen = told.iter().find(|it| it.code == "processor-stolen").unwrap();
    assert_eq!(stolen.message, "in 1 of 20 trials; the first: others");
    assert!(told.iter().any(|it| it.code == "processor-noisy"), "{told:?}");
}

#[test]
fn too_few_blocks_promise_nothing() {
    let told = noise(&result(&trials(2, 0.0, 0.02), "performance"), 2.0);
    assert!(told.needed.is_empty() && told.blocks == 2);
    let empty = noise(&result(&[], "performance"), 0.0);
    assert!(empty.figures.is_empty() && empty.needed.is_empty());
}
