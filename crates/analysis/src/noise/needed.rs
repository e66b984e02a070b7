//! How many trials tell a difference apart, given the scatter of the ratio within blocks: for a fixed
//! number by the t test, for automatic trials by simulating their rule. Measuring the scatter is left to
//! the module above.

use statrs::distribution::{ContinuousCDF, StudentsT};

use fsdyno_model::plan::DEFAULT_TRIALS;
use fsdyno_model::stop::StopRule;

use crate::compare::FAMILY_ERROR;
use crate::stopping::Looks;

/// Share of runs that shall tell the difference.
const POWER: f64 = 0.8;
/// Most automatic trials that are looked at.
const MOST_AUTO: u32 = 1000;
/// Most trials of a fixed number.
const MOST_FIXED: u32 = 100_000;
/// Runs that are simulated.
const RUNS: usize = 1000;
/// Seed of what is drawn.
const SEED: u64 = 1;

/// Least fixed number of trials of each target with which four of five runs tell apart two targets of which
/// one is slower by the share `difference`, `deviation` being the standard deviation of the logarithm of
/// their ratio within a block. `None` when it is more than 100,000.
#[must_use]
pub fn fixed(difference: f64, deviation: f64) -> Option<u32> {
    let shift = difference.ln_1p();
    let is_enough = |n: u32| {
        let Ok(t) = StudentsT::new(0.0, 1.0, f64::from(n) - 1.0) else { return false };
        let standard_error = deviation / f64::from(n).sqrt();
        let quantiles = t.inverse_cdf(1.0 - FAMILY_ERROR / 2.0) + t.inverse_cdf(POWER);
        quantiles * standard_error <= shift
    };
    let (mut low, mut high) = (2, MOST_FIXED);
    if !is_enough(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if is_enough(middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}

/// Least `--max-trials` with which four of five runs of automatic trials tell the same apart, the resolution
/// being finer than the difference: the rule of [`Looks`], simulated with normal noise from a fixed seed.
/// `None` when it is more than 1,000.
#[must_use]
pub fn auto(difference: f64, deviation: f64) -> Option<u32> {
    // Looking often costs trials and saves none of the greatest number.
    fixed(difference, deviation).filter(|trials| *trials <= MOST_AUTO)?;
    let limits = limits();
    let shift = difference.ln_1p();
    let mut draws = Draws(SEED);
    let mut ends: Vec<u32> =
        (0..RUNS).map(|_| end(&limits, shift, deviation, &mut draws)).collect();
    ends.sort_unstable();
    let most = ends[(POWER * RUNS as f64).ceil() as usize - 1];
    (most <= MOST_AUTO).then_some(most)
}

/// Least |t| that tells a difference, by number of blocks; infinite before the first look.
fn limits() -> Vec<f64> {
    let rule = StopRule { resolution_permille: 0, min_trials: DEFAULT_TRIALS };
    let looks = Looks::by(rule);
    let limit = |blocks: u32| {
        if !looks.is_look(blocks) {
            return f64::INFINITY;
        }
        let level = looks.alpha(blocks as usize);
        let t = StudentsT::new(0.0, 1.0, f64::from(blocks) - 1.0);
        t.map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - level / 2.0))
    };
    (0..=MOST_AUTO).map(limit).collect()
}

/// The blocks after which one simulated run tells the difference, the right way; more than the most where
/// it does not.
fn end(limits: &[f64], shift: f64, deviation: f64, draws: &mut Draws) -> u32 {
    let (mut mean, mut squares) = (0.0, 0.0);
    for blocks in 1..=MOST_AUTO {
        let value = shift + deviation * draws.normal();
        let n = f64::from(blocks);
        let off = value - mean;
        mean += off / n;
        squares += off * (value - mean);
        let limit = limits[blocks as usize];
        let standard_error = (squares / (n - 1.0).max(1.0) / n).sqrt();
        if mean > 0.0 && limit.is_finite() && mean >= limit * standard_error {
            return blocks;
        }
    }
    MOST_AUTO + 1
}

/// Normal draws: SplitMix64, and the polar form of Box and Muller without its second half.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scatter of the ratio of two trials of which each has this noise.
    fn of_two(noise: f64) -> f64 {
        noise * std::f64::consts::SQRT_2
    }

    // The power tables of docs/METHODOLOGY.md, which were made by another simulation: with 20 blocks at most,
    // noise of 2 % and 3 % more work, 92.8 % are told apart; of 5 % and 5 %, 56.9 %; of 5 % and 10 %, 99.5 %.
    #[test]
    fn the_simulated_rule_has_the_power_of_the_table() {
        let limits = limits();
        for (noise, difference, expected) in
            [(0.02, 0.03, 0.928), (0.05, 0.05, 0.569), (0.05, 0.1, 0.995)]
        {
            let mut draws = Draws(7);
            let told = (0..RUNS)
                .filter(|_| end(&limits, f64::ln_1p(difference), of_two(noise), &mut draws) <= 20)
                .count();
            let share = told as f64 / RUNS as f64;
            assert!((share - expected).abs() < 0.05, "{noise} {difference}: {share}");
        }
    }

    #[test]
    fn planted_noise_gives_the_numbers_that_it_takes() {
        // With normal quantiles (1.96 + 0.84)² (σ/δ)²; t asks for two more or so.
        for (difference, deviation, normal) in
            [(0.01, 0.05, 198.0), (0.03, 0.05, 22.5), (0.1, 0.1, 8.6)]
        {
            let n = f64::from(fixed(difference, deviation).unwrap());
            assert!(n >= normal - 1.0 && n <= normal + 4.0, "{difference} {deviation}: {n}");
            // The looks have spent most of the 5 % by then: the later, the more they ask for.
            let looked = f64::from(auto(difference, deviation).unwrap());
            assert!(looked > n && looked < 4.5 * n, "{difference} {deviation}: {looked} {n}");
        }
        // Quiet enough: the first look tells.
        assert_eq!(auto(0.1, 0.001), Some(DEFAULT_TRIALS));
        assert_eq!(fixed(0.1, 0.0), Some(2));
        assert_eq!(auto(0.01, 0.5), None);
        assert_eq!(fixed(0.0001, 0.5), None);
        assert!(auto(0.03, 0.05) > auto(0.1, 0.05) && auto(0.03, 0.1) > auto(0.03, 0.05));
    }
}
