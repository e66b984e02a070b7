//! Advice from runs whose truth is known.

use super::*;
use crate::fixture;
use crate::history::draws::Draws;

const PARTS: [Part<'static>; 2] =
    [Part { spec: "varmail", weight: 3.0 }, Part { spec: "postmark", weight: 1.0 }];

/// Completed trials of one run: for each target the seconds of each trial.
fn run(targets: &[(&str, &[f64])]) -> Vec<TrialRecord> {
    let of_target = |(target, seconds): &(&str, &[f64])| {
        let trial =
            |(index, s): (usize, &f64)| fixture::trial(target, index as u32 + 1, &[("create", *s)]);
        seconds.iter().enumerate().map(trial).collect::<Vec<TrialRecord>>()
    };
    targets.iter().flat_map(of_target).collect()
}

fn evidence<'a>(run: &'a str, part: usize, trials: &'a [TrialRecord]) -> Evidence<'a> {
    let mut targets: Vec<&str> = Vec::new();
    for trial in trials {
        if !targets.contains(&trial.target.as_str()) {
            targets.push(&trial.target);
        }
    }
    let workload = WorkloadOrder { label: fixture::WORKLOAD, phases: vec!["create"] };
    Evidence { run, part, workload, targets, trials, looks: Looks::ONE }
}

fn order(standings: &Standings) -> Vec<&str> {
    standings.ranking.iter().map(|ranked| ranked.target.as_str()).collect()
}

#[test]
fn weights_decide_and_exceptions_are_told() {
    let varmail = run(&[("ext4", &[1.0, 1.01, 0.99]), ("xfs", &[2.0, 2.01, 2.0])]);
    let postmark = run(&[("ext4", &[2.0, 2.0, 2.02]), ("xfs", &[1.0, 1.01, 1.0])]);
    let all = [evidence("b", 0, &varmail), evidence("a", 1, &postmark)];
    let advised = advise("a mail server", &PARTS, &all);
    assert_eq!(order(&advised), ["ext4", "xfs"]);
    // Three quarters of ln 1/2 and a quarter of ln 2: 2^(-1/2).
    let whole = advised.ranking[1].whole.unwrap();
    assert!((whole.ratio - 0.5f64.sqrt()).abs() < 0.01, "{whole:?}");
    assert!(whole.low.unwrap() < whole.ratio && whole.ratio < whole.high.unwrap());
    assert!(!advised.ranking[1].is_tied);
    assert_eq!(
        advised.words,
        [
            "Take ext4 for a mail server: it came out 1.42 × as good as xfs (1.39–1.44).",
            "In postmark xfs was better: if that matters most to you, look there.",
        ]
    );
    assert_eq!((advised.open_targets.len(), advised.open_parts.len()), (0, 0));
    assert_eq!(advised.runs, [["b"], ["a"]]);
}

#[test]
fn the_newest_run_with_both_counts() {
    let newest = run(&[("xfs", &[1.0, 1.0]), ("btrfs", &[3.0, 3.0])]);
    let middle = run(&[("ext4", &[1.0, 1.0]), ("xfs", &[2.0, 2.0])]);
    let oldest = run(&[("ext4", &[9.0, 9.0]), ("xfs", &[1.0, 1.0])]);
    let all = [evidence("c", 0, &newest), evidence("b", 0, &middle), evidence("a", 0, &oldest)];
    let advised = advise("you", &PARTS, &all);
    assert_eq!(order(&advised), ["ext4", "xfs", "btrfs"]);
    // ext4 and btrfs never met: nothing is made up about them.
    assert_eq!(advised.ranking[2].whole, None);
    assert!(advised.ranking[2].is_tied);
    assert_eq!(advised.open_parts, [1]);
    assert_eq!(advised.runs, [vec!["b", "c"], vec![]]);
}

#[test]
fn what_is_open_is_named() {
    let close = run(&[("ext4", &[1.0, 1.3, 0.9]), ("xfs", &[1.1, 1.0, 1.2])]);
    let advised = advise("you", &PARTS[..1], &[evidence("a", 0, &close)]);
    assert_eq!(advised.open_targets, ["ext4", "xfs"]);
    assert!(advised.words[0].contains("not told apart yet"), "{:?}", advised.words);
    let same = run(&[("ext4", &[1.0, 1.001, 1.0]), ("xfs", &[1.001, 1.0, 1.0])]);
    let advised = advise("you", &PARTS[..1], &[evidence("a", 0, &same)]);
    assert!(advised.words[0].contains("the same for you, within 3 %"), "{:?}", advised.words);
    assert!(advised.open_targets.is_empty());
    let single = run(&[("ext4", &[1.0]), ("xfs", &[9.0])]);
    let advised = advise("you", &PARTS[..1], &[evidence("a", 0, &single)]);
    assert!(advised.ranking[1].is_tied, "one trial tells nothing");
    let alone = run(&[("ext4", &[1.0, 1.0])]);
    let advised = advise("you", &PARTS[..1], &[evidence("a", 0, &alone)]);
    assert!(advised.words[0].starts_with("Only ext4"), "{:?}", advised.words);
    let nothing = advise("you", &PARTS, &[]);
    assert_eq!((nothing.ranking.len(), nothing.open_parts.len()), (0, 2));
}

/// Intervals of the whole cover the truth in 95 % of drawn cases, whichever the weights, and no target is told
/// apart from its equals more often than in 5 %.
#[test]
fn intervals_of_the_whole_cover_the_truth() {
    let mut draws = Draws::new(1);
    let mut noisy = |scale: f64, trials: usize| -> Vec<f64> {
        (0..trials).map(|_| (scale * draws.normal()).exp()).collect()
    };
    let (mut covered, mut apart, cases) = (0, 0, 2000);
    for _ in 0..cases {
        let (a, b, c) = (noisy(0.1, 5), noisy(0.1, 5), noisy(0.1, 5));
        let varmail = run(&[("a", &a), ("b", &b), ("c", &c)]);
        let (a, b, c) = (noisy(0.3, 3), noisy(0.3, 3), noisy(0.3, 3));
        let postmark = run(&[("a", &a), ("b", &b), ("c", &c)]);
        let all = [evidence("2", 0, &varmail), evidence("1", 1, &postmark)];
        let advised = advise("you", &PARTS, &all);
        apart += u32::from(advised.ranking[1..].iter().any(|ranked| !ranked.is_tied));
        let of_a_and_b = [evidence("2", 0, &varmail), evidence("1", 1, &postmark)]
            .map(|own| Evidence { targets: vec!["a", "b"], ..own });
        let whole = advise("you", &PARTS, &of_a_and_b).ranking[1].whole.unwrap();
        covered += u32::from(whole.low.unwrap() <= 1.0 && whole.high.unwrap() >= 1.0);
    }
    assert!(f64::from(covered) / f64::from(cases) >= 0.94, "{covered} of {cases}");
    assert!(f64::from(apart) / f64::from(cases) <= 0.06, "{apart} of {cases}");
}
