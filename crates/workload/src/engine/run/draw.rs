//! Random numbers of the shapes that a definition names: sizes, places, arrivals, choices by weight.
//! The generator is [`crate::rng::Xoshiro`]; that the shapes are made here keeps a seed's meaning from
//! release to release. What is drawn for is left to the planner.

use std::f64::consts::TAU;

use crate::engine::definition::Distribution;
use crate::rng::{Draw, Xoshiro};

/// A number of 0 … 1, 1 excluded.
#[inline]
pub fn unit(rng: &mut Xoshiro) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The time to the next of events that occur at random, `rate` of them a second on average, in
/// nanoseconds.
#[must_use]
pub fn exponential_ns(rng: &mut Xoshiro, rate: f64) -> f64 {
    -(1.0 - unit(rng)).ln() / rate * 1e9
}

/// Normally distributed with mean 0 and deviation 1 (Box and Muller, 1958).
fn normal(rng: &mut Xoshiro) -> f64 {
    let radius = (-2.0 * (1.0 - unit(rng)).ln()).sqrt();
    radius * (TAU * unit(rng)).cos()
}

/// Gamma distributed with mean `shape` (Marsaglia and Tsang, 2000).
fn gamma(rng: &mut Xoshiro, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = (1.0 - unit(rng)).powf(1.0 / shape);
        return gamma(rng, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 {
            let u = 1.0 - unit(rng);
            if u.ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

/// Ranks 1 … `count` by Zipf's law, by rejection-inversion (Hörmann and Derflinger, 1996).
#[derive(Debug, Clone, Copy, Default)]
pub struct Zipf {
    count: u64,
    theta: f64,
    /// Integral of the density up to 1.5 less the probability of rank 1, and up to `count` + 0.5.
    from: f64,
    to: f64,
    accepted: f64,
}

impl Zipf {
    /// Over `count` ranks (1 at least) with the exponent `theta`.
    #[must_use]
    pub fn new(count: u64, theta: f64) -> Zipf {
        let count = count.max(1);
        let mut zipf = Zipf { count, theta, ..Zipf::default() };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.to = zipf.integral(count as f64 + 0.5);
        zipf.accepted = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-theta));
        zipf
    }

    /// The same over `count` ranks; costs nothing where that is what it was.
    #[inline]
    pub fn resize(&mut self, count: u64, theta: f64) {
        if count.max(1) != self.count || theta != self.theta {
            *self = Zipf::new(count, theta);
        }
    }

    /// A rank, 1 … `count`.
    #[must_use]
    pub fn draw(&self, rng: &mut Xoshiro) -> u64 {
        loop {
            let u = self.to + unit(rng) * (self.from - self.to);
            let x = self.inverse(u);
            let rank = x.round().clamp(1.0, self.count as f64);
            if rank - x <= self.accepted || u >= self.integral(rank + 0.5) - rank.powf(-self.theta)
            {
                return rank as u64;
            }
        }
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { y.exp() } else { (1.0 + y * power).max(0.0).powf(1.0 / power) }
    }
}

/// Draws indices by weight.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Sums of the weights up to each, the last 1.
    sums: Vec<f64>,
}

impl Weights {
    /// For these weights.
    ///
    /// # Errors
    /// A sentence: none, or one that is no positive number.
    pub fn new(weights: impl IntoIterator<Item = f64>) -> Result<Weights, String> {
        let mut sums = Vec::new();
        let mut sum = 0.0;
        for weight in weights {
            if !(weight.is_finite() && weight > 0.0) {
                return Err(format!("weight {weight} is no positive number"));
            }
            sum += weight;
            sums.push(sum);
        }
        if sums.is_empty() {
            return Err("there is nothing to choose from".to_owned());
        }
        sums.iter_mut().for_each(|part| *part /= sum);
        Ok(Weights { sums })
    }

    /// An index; nothing is drawn where there is but one.
    #[inline]
    #[must_use]
    pub fn draw(&self, rng: &mut Xoshiro) -> usize {
        let last = self.sums.len() - 1;
        if last == 0 {
            return 0;
        }
        let u = unit(rng);
        self.sums.partition_point(|sum| *sum <= u).min(last)
    }
}

/// Draws numbers of bytes.
#[derive(Debug, Clone)]
pub enum Sizes {
    /// Always the same.
    Fixed(u64),
    /// Least and greatest.
    Uniform(u64, u64),
    /// Mean and deviation of the logarithm, bound.
    Lognormal(f64, f64, u64),
    /// Shape, scale, bound.
    Gamma(f64, f64, u64),
    /// Factor of the rank.
    Zipf(u64, Zipf),
    /// Values with their weights.
    Empirical(Vec<u64>, Weights),
}

impl Sizes {
    /// Draws from `distribution`.
    ///
    /// # Errors
    /// A sentence on what cannot be drawn from.
    pub fn new(distribution: &Distribution) -> Result<Sizes, String> {
        let positive = |name: &str, value: f64| {
            let fine = value.is_finite() && value > 0.0;
            if fine { Ok(()) } else { Err(format!("{name} {value} is no positive number")) }
        };
        Ok(match distribution {
            Distribution::Fixed(bytes) => Sizes::Fixed(*bytes),
            Distribution::Uniform { min, max } if min > max => {
                return Err(format!("the least size, {min}, exceeds the greatest, {max}"));
            }
            // The span of a draw is less than 2^64.
            Distribution::Uniform { min, max } => Sizes::Uniform(*min, (*max).min(u64::MAX - 1)),
            Distribution::Lognormal { median, sigma, max } => {
                positive("median", *median)?;
                positive("sigma", *sigma)?;
                Sizes::Lognormal(median.ln(), *sigma, *max)
            }
            Distribution::Gamma { mean, shape, max } => {
                positive("mean", *mean)?;
                positive("shape", *shape)?;
                Sizes::Gamma(*shape, mean / shape, *max)
            }
            Distribution::Zipf { min, max, theta } => {
                if !theta.is_finite() || *theta < 0.0 || *min == 0 || min > max {
                    return Err(format!("no Zipf distribution: {min} … {max} with theta {theta}"));
                }
                Sizes::Zipf(*min, Zipf::new(max / min, *theta))
            }
            Distribution::Empirical(values) => Sizes::Empirical(
                values.iter().map(|(bytes, _)| *bytes).collect(),
                Weights::new(values.iter().map(|(_, weight)| *weight))?,
            ),
        })
    }

    /// A number of bytes.
    #[inline]
    #[must_use]
    pub fn draw(&self, rng: &mut Xoshiro) -> u64 {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Uniform(min, max) => min + rng.below(max - min + 1),
            Sizes::Lognormal(mu, sigma, max) => {
                ((mu + sigma * normal(rng)).exp().round() as u64).min(*max)
            }
            Sizes::Gamma(shape, scale, max) => {
                ((gamma(rng, *shape) * scale).round() as u64).min(*max)
            }
            Sizes::Zipf(min, zipf) => min * zipf.draw(rng),
            Sizes::Empirical(values, weights) => values[weights.draw(rng)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    fn mean(mut draw: impl FnMut(&mut Xoshiro) -> f64) -> f64 {
        let mut rng = Xoshiro::new(9);
        (0..DRAWS).map(|_| draw(&mut rng)).sum::<f64>() / f64::from(DRAWS)
    }

    #[test]
    fn distributions_have_their_means() {
        const MAX: u64 = u64::MAX;
        let harmonic = |theta: f64, count: u32| -> f64 {
            (1..=count).map(|rank| f64::from(rank).powf(-theta)).sum()
        };
        // E(rank) = H(theta - 1) / H(theta).
        let zipf_mean = |theta: f64| 4096.0 * harmonic(theta - 1.0, 256) / harmonic(theta, 256);
        let zipf = |theta| Distribution::Zipf { min: 4096, max: 1 << 20, theta };
        for (distribution, expected) in [
            (Distribution::Fixed(77), 77.0),
            (Distribution::Uniform { min: 1, max: 16384 }, 8192.5),
            (
                Distribution::Lognormal { median: 4096.0, sigma: 1.0, max: MAX },
                4096.0 * 0.5f64.exp(),
            ),
            (Distribution::Gamma { mean: 131_072.0, shape: 1.5, max: MAX }, 131_072.0),
            (Distribution::Gamma { mean: 16_384.0, shape: 0.5, max: MAX }, 16_384.0),
            (zipf(0.0), 4096.0 * 128.5),
            (zipf(0.9), zipf_mean(0.9)),
            (zipf(1.0), zipf_mean(1.0)),
            (zipf(1.5), zipf_mean(1.5)),
            (Distribution::Empirical(vec![(10, 1.0), (100, 3.0)]), 77.5),
        ] {
            let sizes = Sizes::new(&distribution).unwrap();
            let found = mean(|rng| sizes.draw(rng) as f64);
            assert!((found / expected - 1.0).abs() < 0.02, "{found} for {distribution:?}");
        }
        let found = mean(|rng| exponential_ns(rng, 250.0));
        assert!((found / 4e6 - 1.0).abs() < 0.02, "{found}");
    }

    #[test]
    fn bounds_are_kept() {
        let mut rng = Xoshiro::new(1);
        for (distribution, low, high) in [
            (Distribution::Uniform { min: 5, max: 7 }, 5, 7),
            (Distribution::Uniform { min: 5, max: 5 }, 5, 5),
            (Distribution::Lognormal { median: 100.0, sigma: 2.0, max: 1000 }, 0, 1000),
            (Distribution::Gamma { mean: 100.0, shape: 0.3, max: 1000 }, 0, 1000),
            (Distribution::Zipf { min: 10, max: 99, theta: 1.1 }, 10, 90),
            (Distribution::Zipf { min: 10, max: 10, theta: 1.1 }, 10, 10),
        ] {
            let sizes = Sizes::new(&distribution).unwrap();
            for _ in 0..10_000 {
                let drawn = sizes.draw(&mut rng);
                assert!((low..=high).contains(&drawn), "{drawn} of {distribution:?}");
            }
        }
    }

    #[test]
    fn ranks_occur_by_the_law() {
        let zipf = Zipf::new(1000, 1.1);
        let mut rng = Xoshiro::new(3);
        let mut counts = vec![0u32; 1001];
        (0..DRAWS).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        let whole: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-1.1)).sum();
        for rank in [1u32, 2, 3, 10, 100] {
            let expected = f64::from(rank).powf(-1.1) / whole * f64::from(DRAWS);
            let found = f64::from(counts[rank as usize]);
            assert!((found - expected).abs() < 6.0 * expected.sqrt(), "{rank}: {found} {expected}");
        }
        assert_eq!(counts[0], 0);
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        for distribution in [
            Distribution::Uniform { min: 2, max: 1 },
            Distribution::Lognormal { median: 0.0, sigma: 1.0, max: 9 },
            Distribution::Gamma { mean: 1.0, shape: f64::NAN, max: 9 },
            Distribution::Zipf { min: 0, max: 9, theta: 1.0 },
            Distribution::Zipf { min: 1, max: 9, theta: -1.0 },
            Distribution::Empirical(vec![]),
            Distribution::Empirical(vec![(1, 0.0)]),
        ] {
            assert!(Sizes::new(&distribution).is_err(), "{distribution:?}");
        }
        assert!(Weights::new([1.0, f64::INFINITY]).is_err());
    }
}
