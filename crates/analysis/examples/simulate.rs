//! Prints the tables of simulations in `docs/METHODOLOGY.md`: what the intervals cover, how often a run that
//! ends by what it shows tells a difference where there is none, and how often it finds one that is there.
//!
//! ```text
//! cargo run --release -p fsdyno-analysis --example simulate [coverage|false|power] [RUNS]
//! ```
//!
//! Seeds are fixed: the same command prints the same tables. The records that are simulated go through the same
//! functions as those of real trials. `tests/simulations.rs` holds smaller versions to bounds.

use fsdyno_analysis::compare;
use fsdyno_analysis::interval::{self, bootstrap};
use fsdyno_analysis::stopping::{self, Decision, Looks};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{PhaseRecord, TrialRecord};
use fsdyno_model::stop::StopRule;
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::workload::WorkloadSpec;

/// Draws, by SplitMix64.
pub struct Random(pub u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// By Box and Muller; the second of the two is not used.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// What the logarithm of a time deviates by.
#[derive(Clone, Copy)]
pub enum Noise {
    /// Normal.
    Normal,
    /// One trial in ten has five times the noise.
    Disturbed,
    /// One trial in five is a fifth slower, none is faster.
    Delayed,
    /// Student's t with three degrees of freedom, of the same standard deviation.
    HeavyTails,
}

impl Noise {
    /// One draw.
    pub fn draw(self, random: &mut Random, size: f64) -> f64 {
        let normal = random.normal() * size;
        match self {
            Noise::Normal => normal,
            Noise::Disturbed => normal * if random.uniform() < 0.1 { 5.0 } else { 1.0 },
            Noise::Delayed => normal + if random.uniform() < 0.2 { 1.2f64.ln() } else { 0.0 },
            Noise::HeavyTails => {
                let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                normal / squares.sqrt()
            }
        }
    }

    /// Mean of `exp` of it; `None` where there is none.
    fn mean_of_exp(self, size: f64) -> Option<f64> {
        let plain = |size: f64| (size * size / 2.0).exp();
        match self {
            Noise::Normal => Some(plain(size)),
            Noise::Disturbed => Some(0.9 * plain(size) + 0.1 * plain(5.0 * size)),
            Noise::Delayed => Some(1.04 * plain(size)),
            Noise::HeavyTails => None,
        }
    }

    /// Median of `exp` of it; that of [`Noise::Delayed`] where its two parts lie apart, as with 5 %.
    fn median_of_exp(self, size: f64) -> f64 {
        match self {
            // Half of all is 0.625 of the part that is not slower.
            Noise::Delayed => (0.318_639 * size).exp(),
            _ => 1.0,
        }
    }
}

fn percent(count: usize, runs: usize) -> String {
    format!("{:.1} %", 100.0 * count as f64 / runs as f64)
}

/// How often intervals at 95 % hold what they are of.
fn coverage(runs: usize) {
    println!("| noise | n | median, log-t | median, BCa | mean, BCa | ratio, paired |");
    println!("|---|--:|--:|--:|--:|--:|");
    let size = 0.05;
    for (name, noise) in [
        ("log-normal", Noise::Normal),
        ("disturbed", Noise::Disturbed),
        ("delayed", Noise::Delayed),
        ("heavy tails", Noise::HeavyTails),
    ] {
        for n in [3, 5, 7, 10, 14, 20] {
            let mut random = Random(n as u64 + 100);
            let mut hits = [0usize; 4];
            for run in 0..runs {
                let logarithms: Vec<f64> = (0..n).map(|_| noise.draw(&mut random, size)).collect();
                let other: Vec<f64> = (0..n).map(|_| noise.draw(&mut random, size)).collect();
                let values: Vec<f64> = logarithms.iter().map(|value| value.exp()).collect();
                let holds = |ends: Option<interval::Interval>, value: f64| {
                    usize::from(ends.is_some_and(|ends| ends.contains(value)))
                };
                hits[0] += holds(interval::ci95_of_median(&values), noise.median_of_exp(size));
                let ratios: Vec<f64> = logarithms.iter().zip(other).map(|(a, b)| a - b).collect();
                hits[3] += holds(compare::of_log_ratios(&ratios, &Looks::ONE).ratio_ci95, 1.0);
                if run % 10 > 0 {
                    // A tenth of the runs is enough for what takes long.
                    continue;
                }
                let drawn = |indices: &[usize]| -> Vec<f64> {
                    indices.iter().map(|index| values[*index]).collect()
                };
                let median = |it: &[usize]| interval::median(&drawn(it)).unwrap_or(f64::NAN);
                hits[1] += holds(bootstrap::bca_of_any(n, 0.05, median), noise.median_of_exp(size));
                if let Some(expected) = noise.mean_of_exp(size) {
                    let mean = |it: &[usize]| interval::mean(&drawn(it)).unwrap_or(f64::NAN);
                    hits[2] += holds(bootstrap::bca_of_any(n, 0.05, mean), expected);
                }
            }
            let tenth = runs.div_ceil(10);
            let of_mean =
                noise.mean_of_exp(size).map_or("–".to_owned(), |_| percent(hits[2], tenth));
            let (log_t, ratio) = (percent(hits[0], runs), percent(hits[3], runs));
            println!(
                "| {name} | {n} | {log_t} | {} | {of_mean} | {ratio} |",
                percent(hits[1], tenth)
            );
        }
    }
}

/// A plan that stops by itself, and the names of its phases.
pub fn plan(targets: usize, metrics: usize, least: u32, most: u32) -> (Plan, Vec<&'static str>) {
    let target = |index: usize| TargetSpec {
        label: format!("t{index}"),
        ground: Ground::Directory { path: "/".into() },
    };
    let workload = WorkloadSpec {
        label: "w".to_owned(),
        kind: "w".to_owned(),
        params: Params::default(),
        definition: None,
    };
    let plan = Plan {
        trials: most,
        stop: Some(StopRule { resolution_permille: 30, min_trials: least }),
        targets: (0..targets).map(target).collect(),
        workloads: vec![workload],
        ..Plan::new(false)
    };
    (plan, ["one", "two", "three", "four"][..metrics].to_vec())
}

/// One block: every target takes `exp(noise)` seconds for each phase, the last `1 + effect` times as many.
fn block(
    plan: &Plan,
    phases: &[&'static str],
    trial: u32,
    effect: f64,
    noise: f64,
    random: &mut Random,
) -> Vec<TrialRecord> {
    let last = plan.targets.len() - 1;
    let record = |(index, target): (usize, &TargetSpec)| {
        let mut record = TrialRecord::planned(&target.label, "w", trial, trial, Outcome::Completed);
        let slower = if index == last { 1.0 + effect } else { 1.0 };
        record.phases = phases
            .iter()
            .map(|name| {
                let seconds = 100.0 * slower * (random.normal() * noise).exp();
                let elapsed_return_ns = (seconds * 1e9) as u64;
                PhaseRecord { elapsed_return_ns, ..PhaseRecord::new(name, "elapsed_s") }
            })
            .collect();
        record
    };
    plan.targets.iter().enumerate().map(record).collect()
}

/// How a run ended.
pub struct Ended {
    /// Blocks made.
    pub blocks: u32,
    /// Whether the decision was that no more are wanted.
    pub settled: bool,
    /// For each phase, whether some pair is told apart.
    pub apart: Vec<bool>,
    /// Whether the verdict over all phases names a difference.
    pub whole: bool,
}

/// Blocks until [`stopping::decide`] says that it is settled, or until their greatest number.
pub fn run(
    plan: &Plan,
    phases: &[&'static str],
    effect: f64,
    noise: f64,
    random: &mut Random,
) -> Ended {
    let looks = Looks::of(plan);
    let mut trials = Vec::new();
    let mut settled = false;
    let mut blocks = 0;
    while blocks < plan.trials && !settled {
        blocks += 1;
        trials.extend(block(plan, phases, blocks, effect, noise, random));
        if looks.is_look(blocks) {
            let decision = stopping::decide(plan, &|_| phases.to_vec(), 0, &trials);
            settled = matches!(decision, Decision::Settled { .. });
        }
    }
    let (apart, whole) = told(plan, phases, &trials);
    Ended { blocks, settled, apart, whole }
}

/// Which phases tell some pair of targets apart, and whether the whole does.
pub fn told(plan: &Plan, phases: &[&'static str], trials: &[TrialRecord]) -> (Vec<bool>, bool) {
    let looks = Looks::of(plan);
    let labels: Vec<&str> = plan.targets.iter().map(|target| target.label.as_str()).collect();
    let value = |label: &str, phase: usize| -> compare::Blocks {
        let own = trials.iter().filter(|trial| trial.target == label);
        own.map(|trial| (trial.trial, trial.phases[phase].elapsed_return_ns as f64)).collect()
    };
    let by_phase: Vec<Vec<compare::Blocks>> = (0..phases.len())
        .map(|phase| labels.iter().map(|label| value(label, phase)).collect())
        .collect();
    let any = |pairs: &fsdyno_analysis::pairs::Pairs| {
        pairs.each().any(|(a, b)| pairs.are_apart(a, b, 1.0))
    };
    let apart = by_phase.iter().map(|values| any(&compare::pairs(values, &looks))).collect();
    let whole = fsdyno_analysis::pairs::Pairs::of(labels.len(), |a, b| {
        let blocks = by_phase[0][a].keys();
        let mean = |block: &u32| {
            let ratio = |it: &Vec<compare::Blocks>| (it[a][block] / it[b][block]).ln();
            by_phase.iter().map(ratio).sum::<f64>() / by_phase.len() as f64
        };
        compare::of_log_ratios(&blocks.map(mean).collect::<Vec<f64>>(), &looks)
    });
    (apart, any(&whole))
}

/// How often a difference is told where there is none.
fn false_differences(runs: usize) {
    println!(
        "| targets | metrics | at the end, one metric | at the end, the whole | at any of 40 looks, one metric | 5 % at each look |"
    );
    println!("|--:|--:|--:|--:|--:|--:|");
    for targets in [2, 3, 5] {
        for metrics in [1, 4] {
            let mut random = Random((targets * 10 + metrics) as u64);
            let (mut one, mut whole, mut any, mut naive) = (0, 0, 0, 0);
            for _ in 0..runs {
                let (plan, phases) = plan(targets, metrics, 3, 20);
                let ended = run(&plan, &phases, 0.0, 0.05, &mut random);
                one += usize::from(ended.apart[0]);
                whole += usize::from(ended.whole);
                let (ever, plainly) = at_any_look(targets, 40, &mut random);
                any += usize::from(ever);
                naive += usize::from(plainly);
            }
            let [one, whole, any, naive] = [one, whole, any, naive].map(|it| percent(it, runs));
            println!("| {targets} | {metrics} | {one} | {whole} | {any} | {naive} |");
        }
    }
}

/// Whether some look at one metric tells a difference where there is none: with the levels of a stop rule, and
/// with 5 % at each.
pub fn at_any_look(targets: usize, most: u32, random: &mut Random) -> (bool, bool) {
    let looks = Looks::by(StopRule { resolution_permille: 30, min_trials: 3 });
    let mut values = vec![compare::Blocks::new(); targets];
    let (mut ever, mut plainly) = (false, false);
    for blocks in 1..=most {
        for target in &mut values {
            target.insert(blocks, (random.normal() * 0.05).exp());
        }
        let any = |looks: &Looks| {
            let pairs = compare::pairs(&values, looks);
            pairs.each().any(|(a, b)| pairs.are_apart(a, b, 1.0))
        };
        ever |= any(&looks);
        plainly |= blocks >= 3 && any(&Looks::ONE);
    }
    (ever, plainly)
}

/// How often a difference is found, and after how many trials.
fn power(runs: usize) {
    println!(
        "| noise of a trial | slower by | told apart | told the same | open | trials | told apart by 5 trials |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for noise in [0.02, 0.05, 0.1] {
        for effect in [0.0, 0.03, 0.05, 0.1] {
            let mut random = Random((noise * 1000.0 + effect * 100_000.0) as u64);
            let (mut apart, mut same, mut open, mut blocks, mut fixed) = (0, 0, 0, 0u32, 0);
            for _ in 0..runs {
                let (plan, phases) = plan(2, 1, 5, 20);
                let ended = run(&plan, &phases, effect, noise, &mut random);
                blocks += ended.blocks;
                match (ended.apart[0], ended.settled) {
                    (true, _) => apart += 1,
                    (_, true) => same += 1,
                    _ => open += 1,
                }
                let mut five = Vec::new();
                for trial in 1..=5 {
                    five.extend(block(&plan, &phases, trial, effect, noise, &mut random));
                }
                let plain = Plan { stop: None, ..plan };
                fixed += usize::from(told(&plain, &phases, &five).0[0]);
            }
            let trials = f64::from(blocks) / runs as f64;
            let [apart, same, open, fixed] = [apart, same, open, fixed].map(|it| percent(it, runs));
            let (noise, effect) = (noise * 100.0, effect * 100.0);
            println!(
                "| {noise:.0} % | {effect:.0} % | {apart} | {same} | {open} | {trials:.1} | {fixed} |"
            );
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let runs = arguments.next().and_then(|runs| runs.parse().ok());
    for (name, table, own) in [
        ("coverage", coverage as fn(usize), 10_000),
        ("false", false_differences, 4_000),
        ("power", power, 2_000),
    ] {
        if what.is_empty() || what == name {
            table(runs.unwrap_or(own));
            println!();
        }
    }
}
