//! The yardstick as a covariate of two runs: how many times as fast the new machine is at each figure, what
//! that lets expect of a phase, the bounds within which any mixture of the figures puts it, and, where the
//! yardstick scatters enough within the runs, the difference that is left at equal readings. Telling it is
//! left to [`super::differences`]; formulas and their limits stand in `docs/METHODOLOGY.md`.

use fsdyno_model::record::PhaseRecord;
use fsdyno_model::yardstick::{FIGURES, Figure, Part, Reading, Yardstick};

use super::machine::computing_share;
use super::sides::PhaseTrial;
use super::welch::Welch;
use crate::interval::{self, Interval};

/// Trials of both sides together below which nothing is regressed.
const FEWEST_TRIALS: usize = 8;
/// The sides' mean readings may lie this many standard deviations within the sides apart: beyond, a line
/// would have to be drawn out further than there are readings.
const FARTHEST: f64 = 2.0;
/// Standard deviation of the logarithm of readings within the sides below which they are all alike.
const LEAST_SPREAD: f64 = 0.02;
/// Chance of a speed told as changed on one machine where it has not, all figures together.
const CHANGED_LEVEL: f64 = 0.01;
/// Change of a speed from which on it is told.
const CHANGED_RATIO: f64 = 1.05;

/// How many times as fast the new machine is at one figure.
#[derive(Debug, Clone, Copy)]
pub struct Speed {
    /// The figure.
    pub figure: &'static Figure,
    /// Logarithm of the ratio of speeds, by medians.
    pub logarithm: f64,
    /// Chance of such a difference of the readings where there is none.
    pub p: Option<f64>,
}

impl Speed {
    /// Whether the figure changed, by more than chance explains and enough to matter.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let level = CHANGED_LEVEL / FIGURES.len() as f64;
        self.logarithm.abs() >= CHANGED_RATIO.ln() && self.p.is_some_and(|p| p <= level)
    }

    /// `computing 1.52 times`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} {:.2} times", self.figure.title, self.logarithm.exp())
    }
}

/// The figures that both sides have, from the readings beside these trials.
#[must_use]
pub fn speeds(base: &[&PhaseTrial<'_>], new: &[&PhaseTrial<'_>]) -> Vec<Speed> {
    let speed = |figure: &'static Figure| {
        let [base, new] = [base, new].map(|trials| readings(figure, trials));
        let medians = interval::median(&base).zip(interval::median(&new));
        medians.map(|(of_base, of_new)| Speed {
            figure,
            logarithm: of_base - of_new,
            p: Welch::of(&base, &new).map(|welch| welch.p()),
        })
    };
    FIGURES.iter().filter_map(speed).collect()
}

/// Logarithms of a figure, each reading once.
fn readings(figure: &Figure, trials: &[&PhaseTrial<'_>]) -> Vec<f64> {
    let mut seen: Vec<u64> = Vec::new();
    let all = trials.iter().filter_map(|trial| trial.yardstick).flat_map(Yardstick::readings);
    let new = all.filter(|reading| {
        let is_new = !seen.contains(&reading.started_unix_ns);
        seen.push(reading.started_unix_ns);
        is_new
    });
    new.filter_map(|reading| logarithm(figure, reading)).collect()
}

fn logarithm(figure: &Figure, reading: &Reading) -> Option<f64> {
    (figure.read)(reading).filter(|time| time.is_finite() && *time > 0.0).map(f64::ln)
}

/// How much of a phase goes with what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Share of its time in which it computed.
    pub computing: f64,
    /// Of its device traffic the share that was read.
    pub reading: f64,
}

impl Shares {
    /// The means over these records; `None` where the processor time of one is not known.
    #[must_use]
    pub fn of(trials: &[&PhaseTrial<'_>]) -> Option<Shares> {
        let computing: Option<Vec<f64>> =
            trials.iter().map(|it| computing_share(&it.record)).collect();
        let reading: Vec<f64> = trials.iter().filter_map(|it| reading_share(&it.record)).collect();
        Some(Shares {
            computing: interval::mean(&computing?)?,
            reading: interval::mean(&reading).unwrap_or(0.5),
        })
    }

    /// Logarithm of the speed of such a mixture, `logarithm` giving those of its parts; `None` where a part
    /// that matters is not known.
    #[must_use]
    pub fn mixed(&self, logarithm: &dyn Fn(&Figure) -> Option<f64>) -> Option<f64> {
        let mean = |names: [&str; 2]| {
            let known = FIGURES.iter().filter(|figure| names.contains(&figure.name));
            let values: Vec<f64> = known.filter_map(logarithm).collect();
            interval::mean(&values).map(f64::exp)
        };
        let processor = mean(["compute_ns", "copy_ns_per_kib"])?;
        let read = mean(["device_read_ns", "device_read_ns"])?;
        // A block device is only read.
        let write = mean(["device_write_ns", "device_flush_ns"]).unwrap_or(read);
        let device = 1.0 / (self.reading / read + (1.0 - self.reading) / write);
        Some(-(self.computing / processor + (1.0 - self.computing) / device).ln())
    }
}

fn reading_share(phase: &PhaseRecord) -> Option<f64> {
    let (read, written) = (phase.device.read_bytes?, phase.device.write_bytes?);
    let all = read.saturating_add(written);
    (all > 0).then(|| read as f64 / all as f64)
}

/// The logarithm of the least and the greatest speed: whatever mixture of these figures a phase's time is
/// made of, the machine accounts for a ratio between them. `None` without figures of processor and device.
#[must_use]
pub fn bounds(speeds: &[Speed]) -> Option<Interval> {
    let has = |part| speeds.iter().any(|speed| speed.figure.part == part);
    let values = || speeds.iter().map(|speed| speed.logarithm);
    (has(Part::Processor) && has(Part::Device)).then(|| Interval {
        low: values().fold(f64::INFINITY, f64::min),
        high: values().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// What the readings beside one trial let expect of its speed: the mean of those before and after.
#[must_use]
pub fn speed_beside(shares: Shares, trial: &PhaseTrial<'_>) -> Option<f64> {
    let mean = |figure: &Figure| {
        let both = trial.yardstick?.readings().filter_map(|reading| logarithm(figure, reading));
        interval::mean(&both.collect::<Vec<f64>>()).map(|time| -time)
    };
    shares.mixed(&mean)
}

/// The difference of two sides at equal readings: analysis of covariance with one common slope. A point is
/// the speed that the readings let expect and the value, both as logarithms of which more is better. `None`
/// with fewer than eight points or two on a side, where all readings are alike, and where those of the sides
/// lie too far apart.
#[must_use]
pub fn at_equal_readings(base: &[(f64, f64)], new: &[(f64, f64)]) -> Option<Welch> {
    let count = base.len() + new.len();
    if count < FEWEST_TRIALS || base.len() < 2 || new.len() < 2 {
        return None;
    }
    let means = |points: &[(f64, f64)]| -> Option<(f64, f64)> {
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        Some((interval::mean(&x)?, interval::mean(&y)?))
    };
    let centres = [means(base)?, means(new)?];
    let off = || {
        let sides = [(base, centres[0]), (new, centres[1])].into_iter();
        sides.flat_map(|(side, (x0, y0))| side.iter().map(move |(x, y)| (x - x0, y - y0)))
    };
    let freedom = count as f64 - 3.0;
    let squares: f64 = off().map(|(x, _)| x * x).sum();
    let spread = (squares / (count as f64 - 2.0)).sqrt();
    let apart = centres[1].0 - centres[0].0;
    if spread < LEAST_SPREAD || apart.abs() > FARTHEST * spread {
        return None;
    }
    let slope = off().map(|(x, y)| x * y).sum::<f64>() / squares;
    let rest: f64 = off().map(|(x, y)| (y - slope * x).powi(2)).sum();
    let sides = 1.0 / base.len() as f64 + 1.0 / new.len() as f64;
    Some(Welch {
        difference: centres[1].1 - centres[0].1 - slope * apart,
        standard_error: (rest / freedom * (sides + apart * apart / squares)).sqrt(),
        freedom,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws between -1 and 1, fixed.
    fn draws(count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        (0..count).map(|_| draw()).collect()
    }

    /// Points whose value goes with the reading by `slope`, around these centres.
    fn points(seed: u64, x0: f64, shift: f64, slope: f64) -> Vec<(f64, f64)> {
        let (x, noise) = (draws(20, seed), draws(20, seed + 5000));
        let each = x.into_iter().zip(noise);
        each.map(|(x, noise)| (x0 + 0.1 * x, shift + slope * (x0 + 0.1 * x) + 0.01 * noise))
            .collect()
    }

    #[test]
    fn what_goes_with_the_readings_is_taken_out() {
        // The sides differ by 8 % in what is measured, and by 3 % in the machine.
        let mut inside = 0;
        for seed in 1..=200 {
            let (base, new) = (points(seed, 0.0, 0.0, 0.8), points(seed + 1000, 0.03, 0.08, 0.8));
            let told = at_equal_readings(&base, &new).unwrap();
            assert!((told.difference - 0.08).abs() < 0.03, "{seed}: {told:?}");
            assert_eq!(told.freedom, 37.0);
            inside += usize::from(told.interval().contains(0.08));
        }
        assert!((180..=199).contains(&inside), "{inside} of 200 intervals at 95 %");
    }

    #[test]
    fn too_little_spread_or_too_far_apart_tells_nothing() {
        let near = points(1, 0.0, 0.0, 1.0);
        assert!(at_equal_readings(&near, &points(2, 0.05, 0.0, 1.0)).is_some());
        assert!(at_equal_readings(&near, &points(2, 0.7, 0.0, 1.0)).is_none(), "far apart");
        let alike: Vec<(f64, f64)> = near.iter().map(|(x, y)| (x * 0.01, *y)).collect();
        assert!(at_equal_readings(&alike, &alike).is_none(), "all readings alike");
        assert!(at_equal_readings(&near[..4], &near[..3]).is_none(), "seven trials");
        assert!(at_equal_readings(&near[..9], &near[..1]).is_none());
    }

    #[test]
    fn a_mixture_lies_within_the_bounds() {
        let speed = |index: usize, ratio: f64| Speed {
            figure: &FIGURES[index],
            logarithm: f64::ln(ratio),
            p: Some(1e-9),
        };
        let speeds = [speed(0, 2.0), speed(1, 2.0), speed(2, 4.0), speed(3, 0.5), speed(4, 0.5)];
        let of = |figure: &Figure| {
            speeds.iter().find(|it| it.figure.name == figure.name).map(|it| it.logarithm)
        };
        let ends = bounds(&speeds).unwrap();
        assert!((ends.low.exp() - 0.5).abs() < 1e-12 && (ends.high.exp() - 4.0).abs() < 1e-12);
        for (computing, reading, expected) in
            [(1.0, 0.5, 2.0), (0.0, 1.0, 4.0), (0.0, 0.0, 0.5), (0.5, 1.0, 1.0 / (0.25 + 0.125))]
        {
            let mixed = Shares { computing, reading }.mixed(&of).unwrap();
            assert!((mixed.exp() / expected - 1.0).abs() < 1e-12, "{computing} {reading}: {mixed}");
            assert!(mixed >= ends.low - 1e-12 && mixed <= ends.high + 1e-12);
        }
        assert!(bounds(&speeds[..2]).is_none(), "nothing of the device");
        assert!(speed(0, 1.06).has_changed() && !speed(0, 1.04).has_changed());
        assert_eq!(speed(2, 0.5).words(), "reading from the device 0.50 times");
    }
}
