//! Small simulations with fixed seeds, held to bounds that chance passes once in a thousand times: what
//! `examples/simulate.rs` tabulates with many more runs.

use fsdyno_analysis::interval;
use fsdyno_analysis::stopping::Looks;
use fsdyno_model::plan::Plan;

#[path = "../examples/simulate.rs"]
#[allow(dead_code)]
mod simulate;

use simulate::{Noise, Random};

/// Most successes of `runs` that a share of this size gives but once in a thousand times.
fn most(runs: usize, share: f64) -> usize {
    let runs = runs as f64;
    (runs * share + 3.1 * (runs * share * (1.0 - share)).sqrt()).ceil() as usize
}

#[test]
fn intervals_cover_what_they_claim() {
    let runs = 1500;
    for (noise, least) in
        [(Noise::Normal, 0.95), (Noise::HeavyTails, 0.95), (Noise::Disturbed, 0.95)]
    {
        for n in [3, 5, 10] {
            let mut random = Random(n as u64);
            let misses = (0..runs)
                .filter(|_| {
                    let value = |_| noise.draw(&mut random, 0.05).exp();
                    let values: Vec<f64> = (0..n).map(value).collect();
                    !interval::ci95_of_median(&values).unwrap().contains(1.0)
                })
                .count();
            assert!(misses <= most(runs, 1.0 - least), "n = {n}: {misses} of {runs}");
        }
    }
}

#[test]
fn looking_again_and_again_does_not_mislead() {
    for targets in [2, 3] {
        let runs = 500;
        let mut random = Random(targets as u64);
        let (mut misled, mut plainly) = (0, 0);
        for _ in 0..runs {
            let (ever, at_5_percent) = simulate::at_any_look(targets, 30, &mut random);
            misled += usize::from(ever);
            plainly += usize::from(at_5_percent);
        }
        assert!(misled <= most(runs, 0.05), "{targets} targets: {misled} of {runs}");
        // What happens to those who do not count their looks.
        assert!(plainly > runs / 5, "{targets} targets: {plainly} of {runs}");
    }
}

#[test]
fn runs_that_stop_by_themselves_do_not_mislead() {
    for (targets, metrics) in [(2, 1), (3, 4)] {
        let runs = 250;
        let mut random = Random(7);
        let (mut one, mut whole) = (0, 0);
        for _ in 0..runs {
            let (plan, phases) = simulate::plan(targets, metrics, 3, 12);
            let ended = simulate::run(&plan, &phases, 0.0, 0.03, &mut random);
            one += usize::from(ended.apart[0]);
            whole += usize::from(ended.whole);
        }
        let most = most(runs, 0.05);
        assert!(one <= most && whole <= most, "{targets} × {metrics}: {one}, {whole}");
    }
}

#[test]
fn what_differs_by_the_resolution_is_not_called_the_same() {
    let runs = 300;
    let mut random = Random(11);
    let same = (0..runs)
        .filter(|_| {
            let (plan, phases) = simulate::plan(2, 1, 3, 20);
            let ended = simulate::run(&plan, &phases, 0.0301, 0.01, &mut random);
            ended.settled && !ended.apart[0]
        })
        .count();
    assert!(same <= most(runs, 0.025), "{same} of {runs}");
}

#[test]
fn what_is_plain_is_found_soon() {
    let runs = 100;
    let mut random = Random(13);
    let (mut blocks, mut found, mut same) = (0, 0, 0);
    for _ in 0..runs {
        let (plan, phases) = simulate::plan(2, 1, 5, 20);
        let ended = simulate::run(&plan, &phases, 0.1, 0.02, &mut random);
        blocks += ended.blocks;
        found += usize::from(ended.apart[0] && ended.settled);
        let ended = simulate::run(&plan, &phases, 0.0, 0.005, &mut random);
        same += usize::from(ended.settled && !ended.apart[0]);
    }
    assert!(found >= 99, "{found} of {runs}");
    assert!(blocks < 6 * runs, "{blocks} blocks");
    assert!(same >= 90, "{same} of {runs}");
}

#[test]
fn a_run_without_a_rule_keeps_its_level() {
    let (plan, _) = simulate::plan(2, 1, 5, 20);
    assert!(Looks::of(&plan).alpha(5) < 0.02);
    assert_eq!(Looks::of(&Plan { stop: None, ..plan }).alpha(5), 0.05);
}
