//! The objects of a cache: how many, how large, under which names. A pure function of the parameters,
//! on every machine the same; which bytes they hold is left to [`super::generate`].
//!
//! Names are those of the UFS store of squid: the file number N is kept as eight hexadecimal digits in
//! the directory L1/L2, with L1 = N / l2 / l2 mod `l1` and L2 = N / l2 mod `l2`, two digits each, so
//! that `l2` files fill a directory before the next is begun.
//!
//! Sizes are lognormal with a median of 4 KiB and a mean of about 13 kB, and at most 4 MiB: squid plans
//! its cache for objects of 13 KB on average (`store_avg_object_size`) and in its days of UFS kept
//! none above 4 MB (`maximum_object_size`).

use crate::payload::{GOLDEN, content_key, mix, name_hash};

/// Binary logarithm of the median size in bytes.
const MEDIAN_LOG2: f64 = 12.0;
/// Standard deviation of the binary logarithm of the size: 1.535 / ln 2.
const DEVIATION_LOG2: f64 = 2.2145;
/// Bounds of the size of an object; a stored object is never empty, it begins with its own metadata.
const SIZES: std::ops::RangeInclusive<u64> = 64..=4 << 20;
/// Uniform draws that add up to one that is nearly normal.
const DRAWS: u64 = 12;

/// Which objects there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheModel {
    /// Bytes of all objects together; the last object is cut so that it is exactly this.
    pub size_bytes: u64,
    /// Directories at the first level, 1 … 256.
    pub l1: u64,
    /// Directories in each of these, and files in each directory, 1 … 256.
    pub l2: u64,
    /// What the sizes and contents are drawn from.
    pub seed: u64,
}

/// One object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object {
    /// File number, from 0 on.
    pub number: u64,
    /// Bytes.
    pub size_bytes: u64,
}

/// A directory, by the numbers of both levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Directory {
    /// At the first level.
    pub first: u64,
    /// At the second level.
    pub second: u64,
}

impl CacheModel {
    /// The objects in the order of their numbers.
    pub fn objects(self) -> impl Iterator<Item = Object> {
        let mut left_bytes = self.size_bytes;
        (0..).map_while(move |number| {
            let size_bytes = self.drawn_size_bytes(number).min(left_bytes);
            left_bytes -= size_bytes;
            (size_bytes > 0).then_some(Object { number, size_bytes })
        })
    }

    /// The directory of the object `number`.
    #[must_use]
    pub fn directory(self, number: u64) -> Directory {
        Directory {
            first: number / self.l2 / self.l2 % self.l1,
            second: number / self.l2 % self.l2,
        }
    }

    /// Name of the object `number` below the top of the cache.
    #[must_use]
    pub fn path(self, number: u64) -> String {
        let Directory { first, second } = self.directory(number);
        format!("{first:02X}/{second:02X}/{number:08X}")
    }

    /// Upper estimate of what files and directories take, each rounded up to `block_bytes`.
    #[must_use]
    pub fn rounded_bytes(self, block_bytes: u64, entry_bytes: u64) -> u64 {
        let mut objects = 0u64;
        let mut bytes = 0u64;
        for object in self.objects() {
            objects += 1;
            bytes += object.size_bytes.next_multiple_of(block_bytes);
        }
        let directories = objects.div_ceil(self.l2).min(self.l1 * self.l2);
        let entries = objects.div_ceil(directories.max(1)).max(self.l2) * entry_bytes;
        bytes + (directories + self.l1) * entries.next_multiple_of(block_bytes)
    }

    fn drawn_size_bytes(self, number: u64) -> u64 {
        let key =
            mix(mix(self.seed.wrapping_add(GOLDEN)).wrapping_add(number.wrapping_mul(GOLDEN)));
        // No logarithm or cosine of a library, which would differ from one machine to the next.
        let sum: u64 = (0..DRAWS / 2)
            .map(|draw| mix(key.wrapping_add(draw.wrapping_mul(GOLDEN))))
            .map(|word| (word >> 32) + (word & 0xffff_ffff))
            .sum();
        let normal = sum as f64 / (1u64 << 32) as f64 - DRAWS as f64 / 2.0;
        let size = power_of_two(MEDIAN_LOG2 + DEVIATION_LOG2 * normal) as u64;
        size.clamp(*SIZES.start(), *SIZES.end())
    }
}

/// The key of the contents of the object `number`.
#[must_use]
pub fn object_key(number: u64) -> u64 {
    const OWNER: u64 = name_hash(b"web-cache");
    content_key(OWNER, number, 0)
}

/// 2 to the power of `exponent`, −1000 … 1000, from additions and multiplications alone, which are
/// exact to the last bit everywhere.
fn power_of_two(exponent: f64) -> f64 {
    let whole = exponent.floor();
    let x = (exponent - whole) * std::f64::consts::LN_2;
    let (mut term, mut sum) = (1.0, 1.0);
    for index in 1..=16u32 {
        term *= x / f64::from(index);
        sum += term;
    }
    sum * f64::from_bits(((whole as i64 + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: CacheModel = CacheModel { size_bytes: 1 << 30, l1: 16, l2: 256, seed: 1 };

    #[test]
    fn powers_are_those_of_the_library() {
        for exponent in [-20.5, -1.0, -0.001, 0.0, 0.5, 0.999, 1.0, 12.0, 21.75, 40.3] {
            let (own, library) = (power_of_two(exponent), exponent.exp2());
            assert!((own / library - 1.0).abs() < 1e-14, "{exponent}: {own} {library}");
        }
    }

    #[test]
    fn sizes_have_the_stated_distribution() {
        let mut sizes: Vec<u64> = MODEL.objects().map(|object| object.size_bytes).collect();
        assert_eq!(sizes.iter().sum::<u64>(), MODEL.size_bytes);
        let mean = MODEL.size_bytes / sizes.len() as u64;
        assert!((12_600..13_600).contains(&mean), "{mean}");
        sizes.sort_unstable();
        let median = sizes[sizes.len() / 2];
        assert!((3_990..4_200).contains(&median), "{median}");
        // A lognormal of this deviation has 84.1 % below 4096 · e^1.535.
        let share = sizes.partition_point(|size| *size < 19_010) as f64 / sizes.len() as f64;
        assert!((share - 0.841).abs() < 0.005, "{share}");
        assert!(sizes[sizes.len() - 1] > 500_000 && sizes[sizes.len() - 1] <= 4 << 20);
    }

    #[test]
    fn sizes_never_change() {
        let first: Vec<u64> = MODEL.objects().take(6).map(|object| object.size_bytes).collect();
        assert_eq!(first, [4739, 19_197, 4773, 961, 25_242, 12_565]);
        assert_eq!(MODEL.objects().count(), 82_337);
    }

    #[test]
    fn names_are_those_of_squid() {
        for (number, expected) in [
            (0, "00/00/00000000"),
            (255, "00/00/000000FF"),
            (256, "00/01/00000100"),
            (65_535, "00/FF/0000FFFF"),
            (65_536, "01/00/00010000"),
            (1_048_576, "00/00/00100000"),
        ] {
            assert_eq!(MODEL.path(number), expected);
        }
    }

    #[test]
    fn the_sum_is_exact_and_the_estimate_above_it() {
        for size_bytes in [1, 63, 64, 5000, 16 << 20] {
            for (l1, l2) in [(16, 256), (1, 1), (2, 3)] {
                let model = CacheModel { size_bytes, l1, l2, seed: 7 };
                let sum: u64 = model.objects().map(|object| object.size_bytes).sum();
                assert_eq!(sum, size_bytes);
                assert!(model.rounded_bytes(4096, 40) > size_bytes);
            }
        }
        assert_eq!(CacheModel { size_bytes: 0, ..MODEL }.objects().count(), 0);
    }
}
