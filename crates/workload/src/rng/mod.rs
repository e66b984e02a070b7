//! Random draws that decide what a workload does: which generator, from which seed, and the draws
//! themselves. The bytes inside files are not drawn here: they belong to the payload.
//!
//! | text | generator | for |
//! |---|---|---|
//! | `cpython-N` | [`Cpython`], `random.Random(N)` of CPython 3.11 | the sequences of classic tools |
//! | `xoshiro-N` | [`Xoshiro`], xoshiro256** | everything else |
//! | `seed` | the same with the seed of the trial | sequences that differ from trial to trial |

mod cpython;
mod mt19937;
mod xoshiro;

use std::fmt;

pub use cpython::Cpython;
pub use mt19937::Mt19937;
pub use xoshiro::Xoshiro;

/// The draws that workloads make. The same seed gives the same draws on every machine and in every release.
pub trait Draw {
    /// A number drawn uniformly from `0..bound`; 0 without a draw if `bound` is 0.
    fn below(&mut self, bound: u64) -> u64;

    /// A number drawn uniformly from `low..=high`.
    ///
    /// # Panics
    /// If `low > high`, or the span is all of `u64`: the bounds are constants of a workload, never input.
    fn randint(&mut self, low: u64, high: u64) -> u64 {
        assert!(low <= high, "randint from {low} to {high}");
        let span = (high - low).checked_add(1).expect("a span under 2^64");
        low + self.below(span)
    }

    /// The index of one item chosen uniformly from `len` items.
    ///
    /// # Panics
    /// If `len` is 0: there is nothing to choose.
    fn choice_index(&mut self, len: usize) -> usize {
        assert!(len > 0, "choice from nothing");
        self.below(len as u64) as usize
    }

    /// Puts the items into a random order: from the last place down, each swaps with one at or before it.
    fn shuffle<T>(&mut self, items: &mut [T])
    where
        Self: Sized,
    {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Which generator and which seed, as it is written in a plan: `cpython-555`, `xoshiro-42`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RngSpec {
    /// `random.Random(seed)` of CPython 3.11.
    Cpython(u64),
    /// xoshiro256** seeded from one integer.
    Xoshiro(u64),
}

impl RngSpec {
    /// The generator and seed of compilebench 0.6.
    pub const COMPILEBENCH: RngSpec = RngSpec::Cpython(555);

    /// The text for xoshiro256** with the seed of the trial.
    pub const OF_TRIAL: &str = "seed";

    /// Reads `cpython-N`, `xoshiro-N` or `seed`, which is xoshiro with the seed of the trial.
    ///
    /// # Errors
    /// A text that names no generator or no seed.
    pub fn parse(text: &str, trial_seed: u64) -> Result<RngSpec, RngSpecError> {
        if text == RngSpec::OF_TRIAL {
            return Ok(RngSpec::Xoshiro(trial_seed));
        }
        let (name, digits) = text.split_once('-').unwrap_or_default();
        let spec: fn(u64) -> RngSpec = match name {
            "cpython" => RngSpec::Cpython,
            "xoshiro" => RngSpec::Xoshiro,
            _ => return Err(RngSpecError::Generator { text: text.to_owned() }),
        };
        match digits.parse() {
            // `parse` alone would accept a sign.
            Ok(seed) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(spec(seed)),
            _ => Err(RngSpecError::Seed { text: text.to_owned() }),
        }
    }

    /// A fresh generator at the start of its sequence.
    #[must_use]
    pub fn generator(self) -> Generator {
        match self {
            RngSpec::Cpython(seed) => Generator::Cpython(Box::new(Cpython::new(seed))),
            RngSpec::Xoshiro(seed) => Generator::Xoshiro(Xoshiro::new(seed)),
        }
    }
}

impl fmt::Display for RngSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RngSpec::Cpython(seed) => write!(out, "cpython-{seed}"),
            RngSpec::Xoshiro(seed) => write!(out, "xoshiro-{seed}"),
        }
    }
}

/// A text that names no generator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RngSpecError {
    /// The part before the dash is no generator, or there is no dash.
    #[error(
        "cannot read rng {text:?}: no such generator; write cpython-N or xoshiro-N, for example cpython-555, or seed for that of the trial"
    )]
    Generator {
        /// The text as given.
        text: String,
    },
    /// The part after the dash is no seed.
    #[error("cannot read the seed of rng {text:?}: write digits only, from 0 to {max}", max = u64::MAX)]
    Seed {
        /// The text as given.
        text: String,
    },
}

/// One of the generators, in the middle of its sequence.
#[derive(Debug, Clone)]
pub enum Generator {
    /// See [`Cpython`]; boxed, for its state is 2.5 kB.
    Cpython(Box<Cpython>),
    /// See [`Xoshiro`].
    Xoshiro(Xoshiro),
}

impl Draw for Generator {
    fn below(&mut self, bound: u64) -> u64 {
        match self {
            Generator::Cpython(generator) => generator.below(bound),
            Generator::Xoshiro(generator) => generator.below(bound),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_are_read_and_written_back() {
        for text in ["cpython-555", "cpython-0", "xoshiro-18446744073709551615"] {
            assert_eq!(RngSpec::parse(text, 7).unwrap().to_string(), text);
        }
        assert_eq!(RngSpec::parse("seed", 7), Ok(RngSpec::Xoshiro(7)));
        for (text, fragment) in [
            ("", "no such generator"),
            ("cpython", "no such generator"),
            ("seed-5", "no such generator"),
            ("Seed", "no such generator"),
            ("python-5", "no such generator"),
            ("Cpython-5", "no such generator"),
            ("cpython-", "the seed"),
            ("cpython--5", "the seed"),
            ("xoshiro-+5", "the seed"),
            ("xoshiro-5 ", "the seed"),
            ("cpython-18446744073709551616", "the seed"),
        ] {
            let error = RngSpec::parse(text, 7).unwrap_err().to_string();
            assert!(error.contains(fragment) && error.contains(&format!("{text:?}")), "{error}");
        }
    }

    proptest! {
        #[test]
        fn draws_stay_in_bounds(seed: u64, bound in 1_u64.., modern: bool) {
            let spec = if modern { RngSpec::Xoshiro(seed) } else { RngSpec::Cpython(seed) };
            let mut generator = spec.generator();
            for _ in 0..8 {
                prop_assert!(generator.below(bound) < bound);
                let drawn = generator.randint(bound - 1, bound);
                prop_assert!(drawn == bound - 1 || drawn == bound);
            }
        }

        #[test]
        fn draws_are_uniform(seed: u64, bound in 1_u64..40, modern: bool) {
            let spec = if modern { RngSpec::Xoshiro(seed) } else { RngSpec::Cpython(seed) };
            let mut generator = spec.generator();
            let expected = 2000.0;
            let mut counts = vec![0_u64; bound as usize];
            for _ in 0..bound * 2000 {
                counts[generator.below(bound) as usize] += 1;
            }
            // Seven standard deviations of a binomial count.
            for count in counts {
                prop_assert!((count as f64 - expected).abs() <= 7.0 * expected.sqrt(), "{count}");
            }
        }

        #[test]
        fn a_shuffle_is_a_permutation(seed: u64, len in 0_usize..200) {
            let mut items: Vec<usize> = (0..len).collect();
            RngSpec::Cpython(seed).generator().shuffle(&mut items);
            items.sort_unstable();
            prop_assert!(items.into_iter().eq(0..len));
        }
    }
}
