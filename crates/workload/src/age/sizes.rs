//! Drawing sizes of files from the named distributions. Where each comes from is stated beside its name
//! ([`FileSizes::source`]).

use std::f64::consts::TAU;

use fsdyno_model::age::FileSizes;

use crate::rng::{Draw, Xoshiro};

/// Draws after which a size that is too large is cut to the largest allowed.
const TRIES: u32 = 64;

/// Lognormal body: mean and standard deviation of the logarithm, and its share of the files.
const AGRAWAL_MU: f64 = 9.48;
const AGRAWAL_SIGMA: f64 = 2.46;
const AGRAWAL_BODY: f64 = 0.999_94;
/// Pareto tail: shape, and least size in bytes.
const AGRAWAL_SHAPE: f64 = 0.91;
const AGRAWAL_TAIL_BYTES: f64 = (512_u64 << 20) as f64;
/// Gamma: shape, and mean in bytes.
const MAIL_SHAPE: f64 = 1.5;
const MAIL_MEAN_BYTES: f64 = 16_384.0;

/// Draws one size in bytes, 1 to `max_bytes`; larger ones are drawn again, so that the distribution is
/// cut off there.
pub fn draw(sizes: FileSizes, max_bytes: u64, rng: &mut Xoshiro) -> u64 {
    for _ in 0..TRIES {
        let bytes = match sizes {
            FileSizes::Agrawal => agrawal(rng),
            FileSizes::Mail => gamma(MAIL_SHAPE, rng) * (MAIL_MEAN_BYTES / MAIL_SHAPE),
            FileSizes::Postmark => rng.randint(500, 10_000) as f64,
            FileSizes::Uniform => rng.randint(4 << 10, 1 << 20) as f64,
        };
        if bytes <= max_bytes as f64 {
            return (bytes as u64).max(1);
        }
    }
    max_bytes.max(1)
}

fn agrawal(rng: &mut Xoshiro) -> f64 {
    if unit(rng) < AGRAWAL_BODY {
        (AGRAWAL_MU + AGRAWAL_SIGMA * normal(rng)).exp()
    } else {
        AGRAWAL_TAIL_BYTES / unit(rng).powf(1.0 / AGRAWAL_SHAPE)
    }
}

/// Uniform over (0, 1].
fn unit(rng: &mut Xoshiro) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Standard normal, by the method of Box and Muller (1958).
fn normal(rng: &mut Xoshiro) -> f64 {
    let radius = (-2.0 * unit(rng).ln()).sqrt();
    radius * (TAU * unit(rng)).cos()
}

/// Gamma with a shape of at least 1 and the scale 1, by the method of Marsaglia and Tsang (2000).
fn gamma(shape: f64, rng: &mut Xoshiro) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && unit(rng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(sizes: FileSizes, max_bytes: u64) -> Vec<u64> {
        let mut rng = Xoshiro::new(7);
        let mut all: Vec<u64> = (0..200_000).map(|_| draw(sizes, max_bytes, &mut rng)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn sizes_have_the_stated_medians_and_means() {
        for (sizes, median, mean) in [
            // e^9.48; the mean of a lognormal is e^(μ + σ²/2), too heavy a tail for a sample.
            (FileSizes::Agrawal, 13_095.0, None),
            (FileSizes::Mail, 12_921.0, Some(16_384.0)),
            (FileSizes::Postmark, 5_250.0, Some(5_250.0)),
            (FileSizes::Uniform, 526_336.0, Some(526_336.0)),
        ] {
            let all = drawn(sizes, u64::MAX);
            let found = all[all.len() / 2] as f64;
            assert!((found / median - 1.0).abs() < 0.03, "{sizes:?}: median {found}");
            if let Some(mean) = mean {
                let found = all.iter().sum::<u64>() as f64 / all.len() as f64;
                assert!((found / mean - 1.0).abs() < 0.02, "{sizes:?}: mean {found}");
            }
        }
    }

    #[test]
    fn the_tail_is_as_heavy_as_stated() {
        let all = drawn(FileSizes::Agrawal, u64::MAX);
        let tail = all.iter().filter(|size| **size as f64 >= AGRAWAL_TAIL_BYTES).count();
        // The body reaches there too: with a chance of 1.3e-5.
        assert!((3..40).contains(&tail), "{tail}");
    }

    #[test]
    fn sizes_stay_within_the_largest() {
        for sizes in FileSizes::ALL {
            for max_bytes in [1, 100, 4096, 1 << 20] {
                let all = drawn(sizes, max_bytes);
                assert!(all.iter().all(|size| (1..=max_bytes).contains(size)), "{sizes:?}");
            }
        }
    }

    #[test]
    fn draws_are_frozen() {
        let mut rng = Xoshiro::new(42);
        let first: Vec<u64> =
            FileSizes::ALL.iter().map(|sizes| draw(*sizes, 1 << 30, &mut rng)).collect();
        assert_eq!(first, FROZEN);
    }

    const FROZEN: [u64; 4] = [3046, 17_997, 7333, 891_913];
}
