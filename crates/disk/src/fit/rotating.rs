//! Turn and arm of a disk that rotates, from the times of reads.

use super::{Far, Figures, Zone};

/// Shortest and longest turn that is looked for, in nanoseconds: 17,000 and 3300 revolutions a minute.
const TURNS_NS: (f64, f64) = (3.5e6, 18.2e6);
/// Steps between them.
const STEPS: u32 = 30_000;
/// How well times must fall together; times at random reach 0.2 to 0.35.
const LEAST_SHARE: f64 = 0.5;
/// Speeds that disks are sold with, in revolutions a minute.
const SOLD_RPM: [f64; 9] =
    [3600.0, 4200.0, 4500.0, 5400.0, 5900.0, 7200.0, 10_000.0, 10_500.0, 15_000.0];
/// A speed that is this near to one of them is that one.
const SOLD_WITHIN: f64 = 0.01;
/// A random read of a disk that rotates takes at least this, in nanoseconds.
const SLOW_NS: u64 = 1_500_000;

/// Whether random reads take so long that something may turn.
pub(super) fn is_slow(random_ns: &[u64]) -> bool {
    Figures::median(random_ns) >= SLOW_NS
}

/// The longest turn at which the moments of each place fall together, and how well they do; `None` where
/// none do.
pub(super) fn turn(places: &[Vec<f64>]) -> (Option<f64>, f64) {
    let (least, greatest) = TURNS_NS;
    let step = (greatest - least) / f64::from(STEPS);
    let shares: Vec<(f64, f64)> = (0..=STEPS)
        .map(|index| least + step * f64::from(index))
        .map(|turn_ns| (turn_ns, together(places, turn_ns)))
        .collect();
    let best = shares.iter().map(|it| it.1).fold(0.0, f64::max);
    if best < LEAST_SHARE {
        return (None, best);
    }
    // Half a turn falls together as well as a whole one.
    let near = shares.iter().rposition(|it| it.1 >= 0.8 * best);
    let top = near.map(|last| {
        let from = last.saturating_sub(200);
        let peak = shares[from..=last].iter().max_by(|a, b| a.1.total_cmp(&b.1));
        peak.map_or(0.0, |it| it.0)
    });
    (top, best)
}

/// Length of the mean of the moments as angles, averaged over places.
fn together(places: &[Vec<f64>], turn_ns: f64) -> f64 {
    let of_place = |moments: &Vec<f64>| {
        let first = moments.first().copied().unwrap_or(0.0);
        let angles =
            moments.iter().map(|at| ((at - first) / turn_ns).fract() * std::f64::consts::TAU);
        let (sine, cosine) =
            angles.fold((0.0, 0.0), |sum, it| (sum.0 + it.sin(), sum.1 + it.cos()));
        f64::hypot(sine, cosine) / moments.len().max(1) as f64
    };
    places.iter().map(of_place).sum::<f64>() / places.len().max(1) as f64
}

/// Revolutions a minute: as sold, where it is near that.
#[must_use]
pub fn rpm(turn_ns: f64) -> f64 {
    let found = 60e9 / turn_ns;
    let sold = SOLD_RPM.into_iter().find(|sold| (found / sold - 1.0).abs() <= SOLD_WITHIN);
    sold.unwrap_or_else(|| found.round())
}

/// What the fastest of `times_ns`, which grow, would have taken without waiting for an angle: of `n` times with
/// an even wait within a turn the `k`th is expected `k/(n+1)` of the turn later.
#[must_use]
pub fn least_ns(times_ns: &[u64], turn_ns: f64) -> f64 {
    let count = times_ns.len() as f64;
    let few = times_ns.len().clamp(1, 4).min(times_ns.len());
    let each = (1..).zip(&times_ns[..few]);
    let sum: f64 =
        each.map(|(k, time)| *time as f64 - f64::from(k) * turn_ns / (count + 1.0)).sum();
    (sum / few.max(1) as f64).max(0.0)
}

/// Where a place is between the outer and the inner edge, 0 to 1, and the rates there.
///
/// As much passes in a turn as the rate says, so that cylinders of slow places hold less: the share of the
/// radius that is covered is the integral of one over the rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Radius {
    /// Share of the bytes, share of the cylinders, at each zone.
    points: Vec<(f64, f64)>,
    /// Rate at the outer and inner edge in MB/s, by a straight line over the cylinders.
    pub edges_mbs: (f64, f64),
}

impl Radius {
    /// From the rates of zones, of which there are two or more.
    #[must_use]
    pub fn of(zones: &[Zone]) -> Radius {
        let mut points = vec![(zones.first().map_or(0.0, |zone| zone.place), 0.0)];
        for two in zones.windows(2) {
            let slowness = (1.0 / two[0].rate_mbs + 1.0 / two[1].rate_mbs) / 2.0;
            let before = points.last().map_or(0.0, |it| it.1);
            points.push((two[1].place, before + (two[1].place - two[0].place) * slowness));
        }
        let all = points.last().map_or(1.0, |it| it.1).max(f64::MIN_POSITIVE);
        points.iter_mut().for_each(|point| point.1 /= all);
        let (count, mut sums) = (zones.len().max(1) as f64, [0.0; 4]);
        for (point, zone) in points.iter().zip(zones) {
            let (x, y) = (point.1, zone.rate_mbs);
            for (sum, value) in sums.iter_mut().zip([x, y, x * x, x * y]) {
                *sum += value;
            }
        }
        let [x, y, xx, xy] = sums;
        let spread = count * xx - x * x;
        let slope = if spread > 0.0 { ((count * xy - x * y) / spread).min(0.0) } else { 0.0 };
        let outer = (y - slope * x) / count;
        Radius { points, edges_mbs: (outer, (outer + slope).max(outer / 10.0)) }
    }

    /// Share of the cylinders before a share of the bytes.
    #[must_use]
    pub fn at(&self, place: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < place);
        let after = after.clamp(1, self.points.len().max(2) - 1);
        let (Some(low), Some(high)) = (self.points.get(after - 1), self.points.get(after)) else {
            return place;
        };
        low.1 + (high.1 - low.1) * (place - low.0) / (high.0 - low.0).max(f64::MIN_POSITIVE)
    }
}

/// The arm: time over a share of the cylinders, `constant + root·√x + linear·x`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arm {
    constant: f64,
    root: f64,
    linear: f64,
}

/// Times of a data sheet, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeekTimes {
    /// To the next track.
    pub track_to_track: f64,
    /// Mean over random places.
    pub average: f64,
    /// From edge to edge.
    pub full_stroke: f64,
}

/// Places by which a mean over random ones is made.
const GRID: u32 = 200;

impl Arm {
    /// The curve nearest to what was found over each distance, `fixed_ns` being what every read takes.
    #[must_use]
    pub fn of(far: &[Far], radius: &Radius, size_bytes: u64, turn_ns: f64, fixed_ns: f64) -> Arm {
        let share = |offset: u64| radius.at(offset as f64 / size_bytes as f64);
        let mut points: Vec<(f64, f64)> = far
            .iter()
            .map(|own| {
                let moved = own.pairs.iter().map(|(from, to)| (share(*from) - share(*to)).abs());
                let mean = moved.sum::<f64>() / own.pairs.len().max(1) as f64;
                (mean, (least_ns(&own.times_ns, turn_ns) - fixed_ns).max(0.0))
            })
            .collect();
        // No way is longer than one that is farther: what says so was late.
        let mut farther = f64::INFINITY;
        for (_, time) in points.iter_mut().rev() {
            farther = farther.min(*time);
            *time = farther;
        }
        // A curve that falls is none: what would make it fall is left out.
        let both = solve(&points, true, true);
        match both {
            arm if arm.root >= 0.0 && arm.linear >= 0.0 => arm,
            arm if arm.root < 0.0 => solve(&points, false, true).not_falling(),
            _ => solve(&points, true, false).not_falling(),
        }
    }

    fn not_falling(self) -> Arm {
        let mean = self.time(0.3);
        match self.root < 0.0 || self.linear < 0.0 {
            true => Arm { constant: mean, root: 0.0, linear: 0.0 },
            false => self,
        }
    }

    /// Time over a share of the cylinders.
    #[must_use]
    pub fn time(self, share: f64) -> f64 {
        (self.constant + self.root * share.sqrt() + self.linear * share).max(0.0)
    }

    /// As data sheets have it. A curve is given a little of both shapes, so that one goes through its times.
    #[must_use]
    pub fn seek_times(self, radius: &Radius, cylinders: f64) -> SeekTimes {
        let track_to_track = self.time(1.0 / cylinders.max(2.0)).max(50e3);
        let full_stroke = self.time(1.0).max(track_to_track * 1.2);
        let rise = full_stroke - track_to_track;
        let (mut mean, mut roots, mut shares) = (0.0, 0.0, 0.0);
        for from in 0..GRID {
            for to in 0..GRID {
                let place = |index: u32| radius.at((f64::from(index) + 0.5) / f64::from(GRID));
                let share = (place(from) - place(to)).abs();
                mean += self.time(share).max(track_to_track);
                roots += share.sqrt();
                shares += share;
            }
        }
        let all = f64::from(GRID * GRID);
        // Between the straight line and the root alone lies what a curve of both can be.
        let (line, root) =
            (track_to_track + rise * shares / all, track_to_track + rise * roots / all);
        let room = (root - line) * 0.03;
        let average = (mean / all).clamp(line + room, root - room);
        SeekTimes { track_to_track, average, full_stroke }
    }
}

/// Least squares of the relative errors, over the shapes that are wanted.
fn solve(points: &[(f64, f64)], with_root: bool, with_linear: bool) -> Arm {
    let mut shapes: Vec<fn(f64) -> f64> = vec![|_| 1.0];
    if with_root {
        shapes.push(f64::sqrt);
    }
    if with_linear {
        shapes.push(|share| share);
    }
    let count = shapes.len();
    let mut matrix = vec![vec![0.0; count + 1]; count];
    for (share, time) in points {
        let weight = 1.0 / time.max(3e5).powi(2);
        for (row, shape) in matrix.iter_mut().zip(&shapes) {
            for (cell, other) in row.iter_mut().zip(&shapes) {
                *cell += weight * shape(*share) * other(*share);
            }
            row[count] += weight * shape(*share) * time;
        }
    }
    let found = eliminated(matrix);
    let mut rest = found.iter().skip(1).copied();
    let root = if with_root { rest.next().unwrap_or(0.0) } else { 0.0 };
    let linear = if with_linear { rest.next().unwrap_or(0.0) } else { 0.0 };
    Arm { constant: found.first().copied().unwrap_or(0.0), root, linear }
}

/// Gauss and Jordan; zeros where the equations have no single answer.
fn eliminated(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let count = matrix.len();
    for column in 0..count {
        let best = (column..count)
            .max_by(|a, b| matrix[*a][column].abs().total_cmp(&matrix[*b][column].abs()));
        matrix.swap(column, best.unwrap_or(column));
        let pivot = matrix[column].clone();
        if pivot[column].abs() < f64::MIN_POSITIVE {
            return vec![0.0; count];
        }
        for (index, row) in matrix.iter_mut().enumerate() {
            if index != column {
                let factor = row[column] / pivot[column];
                row.iter_mut().zip(&pivot).for_each(|(cell, own)| *cell -= factor * own);
            }
        }
    }
    (0..count).map(|index| matrix[index][count] / matrix[index][index]).collect()
}
