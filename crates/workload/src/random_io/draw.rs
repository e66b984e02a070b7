//! What is drawn for each operation of `random-io`: the block, read or write, and the time at which it is
//! due. Each is a type of its own, so that the loops are made for one choice and ask no option.

use super::settings::{Mix, Settings};
use crate::payload::{GOLDEN, mix};
use crate::rng::Xoshiro;

/// Which block is next.
pub trait Place {
    /// Its index.
    fn next(&mut self) -> u64;
}

/// Whether a block is read or written.
pub trait Direction {
    /// Whether both occur.
    const IS_MIXED: bool;
    /// True for a read.
    fn is_read(&mut self) -> bool;
}

/// When an operation is due.
pub trait Pace {
    /// Whether operations begin at set times, even if those before have not ended.
    const IS_OPEN: bool;
    /// When the next one is due, in nanoseconds from the start; the same until [`Pace::advance`].
    fn due_ns(&self) -> u64;
    /// Sets the time for the one after it.
    fn advance(&mut self);
}

/// One block after the other, beginning anew at the end.
#[derive(Debug)]
pub struct Sequential {
    next: u64,
    blocks: u64,
}

impl Place for Sequential {
    #[inline]
    fn next(&mut self) -> u64 {
        let block = self.next;
        self.next = if block + 1 == self.blocks { 0 } else { block + 1 };
        block
    }
}

/// Any block, all alike; one may come again before all came.
#[derive(Debug)]
pub struct Random {
    rng: Xoshiro,
    blocks: u64,
}

impl Place for Random {
    #[inline]
    fn next(&mut self) -> u64 {
        scaled(self.rng.next_u64(), self.blocks)
    }
}

/// A number below `bound`; uneven by less than a part in 2^64 / `bound`, and quick for that.
#[inline]
fn scaled(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// All are read.
#[derive(Debug)]
pub struct Reads;

impl Direction for Reads {
    const IS_MIXED: bool = false;
    #[inline]
    fn is_read(&mut self) -> bool {
        true
    }
}

/// All are written.
#[derive(Debug)]
pub struct Writes;

impl Direction for Writes {
    const IS_MIXED: bool = false;
    #[inline]
    fn is_read(&mut self) -> bool {
        false
    }
}

/// Drawn for each.
#[derive(Debug)]
pub struct Mixed {
    rng: Xoshiro,
    read_percent: u64,
}

impl Direction for Mixed {
    const IS_MIXED: bool = true;
    #[inline]
    fn is_read(&mut self) -> bool {
        scaled(self.rng.next_u64(), 100) < self.read_percent
    }
}

/// The next begins when one has ended.
#[derive(Debug)]
pub struct Closed;

impl Pace for Closed {
    const IS_OPEN: bool = false;
    #[inline]
    fn due_ns(&self) -> u64 {
        0
    }
    #[inline]
    fn advance(&mut self) {}
}

/// Evenly spaced times.
#[derive(Debug)]
pub struct Even {
    count: u64,
    rate_per_s: u64,
}

impl Pace for Even {
    const IS_OPEN: bool = true;
    #[inline]
    fn due_ns(&self) -> u64 {
        // From the start each time, so that no rounding adds up.
        (u128::from(self.count) * 1_000_000_000 / u128::from(self.rate_per_s)) as u64
    }
    #[inline]
    fn advance(&mut self) {
        self.count += 1;
    }
}

/// The times of a Poisson process.
#[derive(Debug)]
pub struct Poisson {
    rng: Xoshiro,
    due_ns: f64,
    mean_ns: f64,
}

impl Poisson {
    fn new(rng: Xoshiro, rate_per_s: u64) -> Poisson {
        let mut poisson = Poisson { rng, due_ns: 0.0, mean_ns: 1e9 / rate_per_s as f64 };
        poisson.advance();
        poisson
    }
}

impl Pace for Poisson {
    const IS_OPEN: bool = true;
    #[inline]
    fn due_ns(&self) -> u64 {
        self.due_ns as u64
    }
    #[inline]
    fn advance(&mut self) {
        // 2^-53 … 1, never 0.
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        self.due_ns -= uniform.ln() * self.mean_ns;
    }
}

/// Takes what was chosen.
pub trait Choices: Sized {
    /// What comes out.
    type Output;
    /// Goes on with it.
    fn with<P: Place, D: Direction, A: Pace>(self, place: P, direction: D, pace: A)
    -> Self::Output;
}

/// Hands the choices that `settings` ask for to `taker`; what is drawn depends on seed and job.
pub fn choose<T: Choices>(settings: &Settings, job_index: usize, seed: u64, taker: T) -> T::Output {
    let rng = rng(seed, job_index, 0);
    if settings.random {
        choose_direction(settings, job_index, seed, Random { rng, blocks: settings.blocks }, taker)
    } else {
        // Jobs that share a file begin at places of their own.
        let share = if settings.shared_file { settings.numjobs as u64 } else { 1 };
        let next = (job_index as u64 % share) * settings.blocks / share;
        choose_direction(
            settings,
            job_index,
            seed,
            Sequential { next, blocks: settings.blocks },
            taker,
        )
    }
}

fn choose_direction<T: Choices>(
    settings: &Settings,
    job_index: usize,
    seed: u64,
    place: impl Place,
    taker: T,
) -> T::Output {
    match settings.mix {
        Mix::Read => choose_pace(settings, job_index, seed, place, Reads, taker),
        Mix::Write => choose_pace(settings, job_index, seed, place, Writes, taker),
        Mix::Mixed { read_percent } => {
            let mixed = Mixed { rng: rng(seed, job_index, 1), read_percent };
            choose_pace(settings, job_index, seed, place, mixed, taker)
        }
    }
}

fn choose_pace<T: Choices>(
    settings: &Settings,
    job_index: usize,
    seed: u64,
    place: impl Place,
    direction: impl Direction,
    taker: T,
) -> T::Output {
    match settings.rate_per_s {
        None => taker.with(place, direction, Closed),
        Some(rate_per_s) if settings.poisson => {
            taker.with(place, direction, Poisson::new(rng(seed, job_index, 2), rate_per_s))
        }
        Some(rate_per_s) => taker.with(place, direction, Even { count: 0, rate_per_s }),
    }
}

/// A generator of its own for each job and kind of draw.
fn rng(seed: u64, job_index: usize, kind: u64) -> Xoshiro {
    Xoshiro::new(mix(seed.wrapping_add((3 * job_index as u64 + kind + 1).wrapping_mul(GOLDEN))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_covers_all_blocks_and_begins_anew() {
        let mut place = Sequential { next: 3, blocks: 5 };
        let drawn: Vec<u64> = (0..11).map(|_| place.next()).collect();
        assert_eq!(drawn, [3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3]);
    }

    #[test]
    fn random_blocks_are_even() {
        let mut place = Random { rng: rng(1, 0, 0), blocks: 10 };
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[place.next() as usize] += 1);
        // 10000 expected; the standard deviation is 95.
        assert!(counts.iter().all(|count| (9500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn directions_keep_their_share_and_jobs_differ() {
        for read_percent in [0, 1, 30, 99, 100] {
            let mut mixed = Mixed { rng: rng(5, 1, 1), read_percent };
            let reads = (0..100_000).filter(|_| mixed.is_read()).count() as f64 / 1000.0;
            assert!((reads - read_percent as f64).abs() < 0.7, "{reads} of {read_percent}");
        }
        let first = |seed, job| Random { rng: rng(seed, job, 0), blocks: 1 << 40 }.next();
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
    }

    #[test]
    fn times_are_set_at_the_rate() {
        let mut even = Even { count: 0, rate_per_s: 3 };
        let times: Vec<u64> = (0..4)
            .map(|_| {
                let due = even.due_ns();
                even.advance();
                due
            })
            .collect();
        assert_eq!(times, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        let mut poisson = Poisson::new(rng(1, 0, 2), 1000);
        let (mut before, mut gaps) = (0, Vec::new());
        for _ in 0..100_000 {
            gaps.push((poisson.due_ns() - before) as f64);
            before = poisson.due_ns();
            poisson.advance();
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        // Of an exponential distribution the standard deviation is the mean.
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{variance}");
    }
}
