//! What the packages of a base system look like, as distributions: how many files of which kind a
//! package has, how large they are, how deep they lie. What is drawn from them is in [`super::model`].
//!
//! The figures were counted on a Debian 12 system, over its 70 packages of priority required, important
//! or standard: 7240 files, 936 symbolic links and 913 directories with 129 MiB. The 900 files of the
//! one package of time zones are left out. Quantiles are interpolated linearly, which makes the rare
//! large files larger than they are; the last of some rows is therefore cut so that the mean is right.

use crate::rng::Draw;

/// Shares below which the quantiles of a [`Quantiles`] lie, in percent.
const SHARES: [u64; 9] = [0, 10, 25, 50, 75, 90, 95, 99, 100];
/// Draws tell apart this many steps of a percent.
const STEPS: u64 = 1000;

/// A distribution by its quantiles at 0, 10, 25, 50, 75, 90, 95, 99 and 100 %.
#[derive(Debug, Clone, Copy)]
pub struct Quantiles(pub [u64; 9]);

impl Quantiles {
    /// One value; whole numbers only, so that it is the same on every machine.
    pub fn draw(&self, rng: &mut impl Draw) -> u64 {
        let place = rng.below(100 * STEPS + 1);
        let upper = SHARES.iter().position(|share| share * STEPS >= place).unwrap_or(8).max(1);
        let (low, high) = (SHARES[upper - 1] * STEPS, SHARES[upper] * STEPS);
        let (from, to) = (self.0[upper - 1], self.0[upper]);
        from + (to - from) * (place - low) / (high - low)
    }
}

/// Where the files of a kind lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `usr/share/doc/PACKAGE`.
    Documentation,
    /// `usr/share/man`, half of them in a directory for each language.
    Manual,
    /// `usr/share/locale/LANGUAGE/LC_MESSAGES`.
    Translation,
    /// `usr/bin` and `usr/sbin`.
    Program,
    /// `usr/share/PACKAGE`.
    Data,
    /// `usr/lib`.
    Library,
    /// `etc`.
    Configuration,
}

/// Files of one kind.
#[derive(Debug, Clone, Copy)]
pub struct FileClass {
    /// Where they lie.
    pub place: Place,
    /// How many packages have any, in percent.
    pub packages_percent: u64,
    /// How many such a package has, links included.
    pub count: Quantiles,
    /// Size of a file in bytes.
    pub size_bytes: Quantiles,
    /// How many are symbolic links, in percent.
    pub links_percent: u64,
}

/// All kinds.
pub const CLASSES: [FileClass; 7] = [
    FileClass {
        place: Place::Documentation,
        packages_percent: 100,
        count: Quantiles([2, 3, 4, 5, 8, 15, 17, 57, 57]),
        size_bytes: Quantiles([2, 304, 1150, 3021, 9477, 28_505, 75_525, 238_533, 438_702]),
        links_percent: 0,
    },
    FileClass {
        place: Place::Manual,
        packages_percent: 89,
        count: Quantiles([1, 1, 1, 5, 27, 105, 156, 264, 264]),
        size_bytes: Quantiles([37, 787, 1200, 1956, 3243, 6403, 10_718, 24_263, 97_471]),
        links_percent: 16,
    },
    FileClass {
        place: Place::Translation,
        packages_percent: 29,
        count: Quantiles([6, 23, 37, 39, 43, 78, 82, 82, 82]),
        size_bytes: Quantiles([
            392, 3228, 9059, 22_488, 62_409, 135_386, 184_164, 370_975, 483_282,
        ]),
        links_percent: 5,
    },
    FileClass {
        place: Place::Program,
        packages_percent: 79,
        count: Quantiles([1, 1, 2, 4, 9, 18, 34, 105, 105]),
        size_bytes: Quantiles([
            29, 4186, 18_744, 43_888, 72_400, 147_056, 207_168, 982_880, 2_900_000,
        ]),
        links_percent: 10,
    },
    FileClass {
        place: Place::Data,
        packages_percent: 79,
        count: Quantiles([1, 1, 1, 2, 5, 68, 124, 595, 595]),
        size_bytes: Quantiles([10, 455, 1226, 2537, 4752, 10_419, 25_057, 160_909, 1_400_000]),
        links_percent: 1,
    },
    FileClass {
        place: Place::Library,
        packages_percent: 41,
        count: Quantiles([1, 1, 1, 2, 8, 44, 305, 611, 611]),
        size_bytes: Quantiles([23, 499, 567, 964, 5491, 18_784, 31_232, 281_096, 600_000]),
        links_percent: 8,
    },
    FileClass {
        place: Place::Configuration,
        packages_percent: 44,
        count: Quantiles([1, 1, 1, 2, 5, 7, 9, 11, 11]),
        size_bytes: Quantiles([6, 83, 144, 911, 2355, 4942, 11_873, 12_813, 20_000]),
        links_percent: 4,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Xoshiro;

    #[test]
    fn draws_follow_the_quantiles() {
        let mut rng = Xoshiro::new(3);
        for class in CLASSES {
            let quantiles = class.size_bytes;
            let mut drawn: Vec<u64> = (0..20_000).map(|_| quantiles.draw(&mut rng)).collect();
            drawn.sort_unstable();
            for (share, quantile) in SHARES.into_iter().zip(quantiles.0) {
                let below = drawn.partition_point(|size| *size < quantile) as f64 / 200.0;
                assert!((below - share as f64).abs() < 1.5, "{quantile}: {below} % for {share} %");
            }
            assert!(drawn[0] >= quantiles.0[0] && drawn[drawn.len() - 1] <= quantiles.0[8]);
        }
    }

    #[test]
    fn means_are_those_that_were_counted() {
        let counted = [15_055, 3273, 50_372, 87_399, 15_178, 12_132, 2681];
        let mut rng = Xoshiro::new(5);
        for (class, counted) in CLASSES.into_iter().zip(counted) {
            let sum: u64 = (0..50_000).map(|_| class.size_bytes.draw(&mut rng)).sum();
            let ratio = sum as f64 / 50_000.0 / f64::from(counted);
            assert!((0.75..1.25).contains(&ratio), "{:?}: {ratio}", class.place);
        }
    }
}
