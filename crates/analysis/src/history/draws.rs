//! Random numbers that are the same every time: what is drawn must not make two looks at the same runs
//! differ. SplitMix64 (Steele, Lea and Flood 2014), and normal numbers by Box and Muller (1958).

/// A sequence of random numbers.
#[derive(Debug, Clone)]
pub struct Draws {
    state: u64,
    spare: Option<f64>,
}

impl Draws {
    /// The sequence with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Draws {
        Draws { state: seed, spare: None }
    }

    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly between 0 and 1, never either.
    fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A normal number of mean 0 and variance 1.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first outputs of the reference implementation for the seed 1234567.
    #[test]
    fn bits_are_those_of_the_reference() {
        let mut draws = Draws::new(1_234_567);
        let bits: Vec<u64> = (0..3).map(|_| draws.bits()).collect();
        assert_eq!(
            bits,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn normal_numbers_have_mean_variance_and_tails() {
        let mut draws = Draws::new(1);
        let values: Vec<f64> = (0..100_000).map(|_| draws.normal()).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let beyond = values.iter().filter(|value| value.abs() > 1.959_964).count() as f64 / count;
        assert!(mean.abs() < 0.012 && (variance - 1.0).abs() < 0.018, "{mean} {variance}");
        assert!((beyond - 0.05).abs() < 0.003, "{beyond}");
    }
}
