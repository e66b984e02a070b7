//! The decision on small records with answers that are plain.

use fsdyno_model::param::Params;
use fsdyno_model::target::{Ground, TargetSpec};

use super::*;
use crate::fixture;

fn plan(targets: usize) -> Plan {
    let target = |index: usize| TargetSpec {
        label: char::from(b'a' + index as u8).to_string(),
        ground: Ground::Directory { path: "/".into() },
    };
    Plan {
        trials: 30,
        stop: Some(StopRule { resolution_permille: 30, min_trials: 3 }),
        targets: (0..targets).map(target).collect(),
        workloads: vec![WorkloadSpec {
            label: fixture::WORKLOAD.to_owned(),
            kind: "compilebench".to_owned(),
            params: Params::default(),
            definition: None,
        }],
        ..Plan::new(false)
    }
}

/// Trials of `a`, `b`, … that take these seconds in two phases, within so much of each other.
fn trials(count: u32, noise: f64, seconds: &[[f64; 2]]) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for trial in 1..=count {
        for (index, [create, read]) in seconds.iter().enumerate() {
            let own = f64::from((trial * 7 + index as u32 * 3) % 5) / 4.0;
            let noise = 1.0 + noise * own;
            let label = char::from(b'a' + index as u8).to_string();
            let phases = [("create", create * noise), ("read", read * noise)];
            trials.push(fixture::trial(&label, trial, &phases));
        }
    }
    trials
}

fn decided(plan: &Plan, trials: &[TrialRecord]) -> Decision {
    decide(plan, &|_| vec!["create", "read"], 0, trials)
}

#[track_caller]
fn assert_settled(decision: Decision, words: &str) {
    match decision {
        Decision::Settled { sentence } => assert_eq!(sentence, words),
        Decision::Continue { open } => panic!("open: {open:?}"),
    }
}

#[track_caller]
fn assert_open(decision: Decision, expected: &[&str]) {
    match decision {
        Decision::Settled { sentence } => panic!("settled: {sentence}"),
        Decision::Continue { open } => assert_eq!(open, expected),
    }
}

#[test]
fn without_a_rule_trials_end_at_their_number() {
    let plan = Plan { stop: None, trials: 5, ..plan(2) };
    assert_open(decided(&plan, &trials(5, 0.001, &[[1.0, 1.0], [2.0, 2.0]])), &[]);
}

#[test]
fn what_is_clear_is_settled_at_the_first_look() {
    let plan = plan(2);
    let clear = |count| trials(count, 0.002, &[[1.0, 1.0], [2.0, 3.0]]);
    assert_open(decided(&plan, &clear(2)), &["the first 3 trials"]);
    assert_settled(decided(&plan, &clear(3)), "all 3 comparisons show a difference after 3 trials");
    let same = trials(8, 0.002, &[[1.0, 1.0], [1.0, 1.0]]);
    assert_settled(
        decided(&plan, &same),
        "all 3 comparisons are the same within ±3 % after 8 trials",
    );
    let mixed = trials(8, 0.002, &[[1.0, 1.0], [1.5, 1.0]]);
    assert_settled(
        decided(&plan, &mixed),
        "of 3 comparisons, 2 told apart and 1 the same within ±3 % after 8 trials",
    );
}

#[test]
fn what_is_not_clear_is_named() {
    let seconds = [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]];
    assert_open(
        decided(&plan(3), &trials(4, 0.3, &seconds)),
        &[
            "over all phases: b beside a",
            "over all phases: c beside a",
            "create: a beside b",
            "2 more",
        ],
    );
    let (plan, none) = (plan(1), &[[1.0, 1.0]]);
    assert_open(decided(&plan, &trials(4, 0.3, none)), &["create", "read"]);
    assert_settled(
        decided(&plan, &trials(9, 0.01, none)),
        "both comparisons are the same within ±3 % after 9 trials",
    );
}

#[test]
fn trials_that_failed_do_not_count() {
    let plan = plan(2);
    let mut all = trials(4, 0.002, &[[1.0, 1.0], [2.0, 3.0]]);
    for trial in all.iter_mut().filter(|trial| trial.target == "b") {
        trial.outcome = Outcome::Failed { stage: "mkfs".to_owned(), error: String::new() };
    }
    let few = "fewer than two targets complete compilebench";
    assert_settled(decided(&plan, &all), few);
    assert_open(decided(&plan, &all[..4]), &["the first 3 trials"]);
    // Two common trials of four tell nothing.
    for trial in all.iter_mut().filter(|trial| trial.trial > 2) {
        trial.outcome = Outcome::Completed;
    }
    assert!(matches!(decided(&plan, &all), Decision::Continue { .. }));
}
