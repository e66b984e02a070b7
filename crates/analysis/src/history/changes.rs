//! Change points of a series: binary segmentation (Scott and Knott 1974) with the greatest two-sample t.
//!
//! A run is one value, the mean of its logarithms: its trials share its luck, so that between runs only
//! runs count. A segment is cut where Student's t of the two parts, each of at least two runs, is
//! greatest. How great that t becomes by chance is found by drawing: the greatest t of normal values
//! depends on nothing but their number, so that 19,999 series of that number give its distribution. If
//! the cut is clear, both parts are searched in turn.
//!
//! A cut at depth `d` is accepted at 5 % / 2^d, divided by the number of series. The segments that have
//! no change but whose parent was rightly cut do not overlap, so that the chance of even one false
//! change in all series together stays at 5 %.

use std::collections::BTreeMap;

use super::draws::Draws;
use crate::compare::FAMILY_ERROR;
use crate::interval;

/// Fewest runs of a level.
const LEAST: usize = 2;
/// Series that are drawn for each number of runs.
const DRAWN: usize = 19_999;
/// Longest series whose chance is drawn for its own number; longer ones take that of this number, which
/// differs little.
const LONGEST: usize = 400;

/// A change of level, on logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value of the new level.
    pub index: usize,
    /// Mean from the change before.
    pub before: f64,
    /// Mean to the next change.
    pub after: f64,
    /// Corrected p.
    pub p: f64,
}

/// The greatest t of series without change, by their number of values, in ascending order.
#[derive(Debug, Default)]
pub struct Chance {
    drawn: BTreeMap<usize, Vec<f64>>,
}

impl Chance {
    /// Chance that the greatest t of `count` values reaches `t`.
    fn p(&mut self, count: usize, t: f64) -> f64 {
        let count = count.min(LONGEST);
        let drawn = self.drawn.entry(count).or_insert_with(|| draw(count));
        let below = drawn.partition_point(|value| *value < t);
        (drawn.len() - below + 1) as f64 / (drawn.len() + 1) as f64
    }
}

fn draw(count: usize) -> Vec<f64> {
    let mut draws = Draws::new(count as u64);
    let mut values = vec![0.0; count];
    let mut greatest: Vec<f64> = (0..DRAWN)
        .map(|_| {
            values.fill_with(|| draws.normal());
            clearest_cut(&values).map_or(0.0, |(_, t)| t)
        })
        .collect();
    greatest.sort_by(f64::total_cmp);
    greatest
}

/// Whether a series is long enough for a change to be found.
#[must_use]
pub fn can_be_tested(values: &[f64]) -> bool {
    values.len() >= 2 * LEAST
}

/// The changes in `values`, one of `series` series, in order.
pub fn changes(values: &[f64], series: usize, chance: &mut Chance) -> Vec<Change> {
    let mut cuts: Vec<(usize, f64)> = Vec::new();
    // First value, end, depth, least p that a cut within may have.
    let mut open = vec![(0, values.len(), 0i32, 0.0f64)];
    while let Some((first, end, depth, least_p)) = open.pop() {
        let segment = &values[first..end];
        let Some((place, t)) = clearest_cut(segment) else { continue };
        let correction = 2.0f64.powi(depth) * series.max(1) as f64;
        let p = (chance.p(segment.len(), t) * correction).clamp(least_p, 1.0);
        if p > FAMILY_ERROR {
            continue;
        }
        let index = first + place;
        cuts.push((index, p));
        open.push((first, index, depth + 1, p));
        open.push((index, end, depth + 1, p));
    }
    cuts.sort_by_key(|(index, _)| *index);
    let edges: Vec<usize> = std::iter::once(0)
        .chain(cuts.iter().map(|(index, _)| *index))
        .chain(std::iter::once(values.len()))
        .collect();
    let level = |first: usize, end: usize| interval::mean(&values[first..end]).unwrap_or(0.0);
    cuts.iter()
        .enumerate()
        .map(|(number, (index, p))| Change {
            index: *index,
            before: level(edges[number], *index),
            after: level(*index, edges[number + 2]),
            p: *p,
        })
        .collect()
}

/// Where the two parts differ most by Student's t with the variances pooled, and that t; `None` of too
/// few values or of equal ones.
fn clearest_cut(values: &[f64]) -> Option<(usize, f64)> {
    let count = values.len();
    if count < 2 * LEAST {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // Equal values whose mean is rounded.
    if total <= f64::EPSILON * f64::EPSILON * mean.powi(2) * count as f64 * 4.0 {
        return None;
    }
    let mut best: Option<(usize, f64)> = None;
    let mut sum = 0.0;
    for (index, value) in values.iter().enumerate().take(count - LEAST) {
        sum += value - mean;
        let place = index + 1;
        if place < LEAST {
            continue;
        }
        // Sum of squares between the parts; the rest lies within them.
        let between = sum.powi(2) * count as f64 / (place * (count - place)) as f64;
        let within = (total - between).max(total * f64::EPSILON);
        let t = (between * (count - 2) as f64 / within).sqrt();
        if best.is_none_or(|(_, known)| t > known) {
            best = Some((place, t));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(levels: &[(usize, f64)], noise: f64, seed: u64) -> Vec<f64> {
        let mut draws = Draws::new(seed);
        let values = levels.iter().flat_map(|(count, level)| vec![*level; *count]);
        values.map(|level| level + noise * draws.normal()).collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        let found = changes(values, 1, &mut Chance::default());
        found.into_iter().map(|change| change.index).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let values = steps(&[(10, 0.0), (8, 0.2), (12, 0.05)], 0.01, 3);
        assert_eq!(places(&values), [10, 18]);
        let found = changes(&values, 1, &mut Chance::default());
        assert!((found[0].before).abs() < 0.02 && (found[0].after - 0.2).abs() < 0.02);
        assert!((found[1].before - 0.2).abs() < 0.02 && (found[1].after - 0.05).abs() < 0.02);
        assert!(found.iter().all(|change| change.p <= 0.05));
    }

    #[test]
    fn short_and_equal_series_have_none() {
        for values in [&[][..], &[1.0], &[1.0, 2.0, 3.0], &[0.1; 20]] {
            assert_eq!(places(values), [] as [usize; 0], "{values:?}");
        }
        // A step without any noise is clear when there are enough values.
        assert_eq!(places(&steps(&[(4, 1.0), (4, 2.0)], 0.0, 1)), [4]);
    }

    // R, e.g.: t.test(x[1:3], x[4:7], var.equal = TRUE)$statistic
    #[test]
    fn the_statistic_is_students_t() {
        let values = [1.0, 2.0, 1.5, 4.0, 5.0, 4.5, 4.2];
        // By hand: means 1.5 and 4.425, sums of squares 0.5 and 0.5675, pooled variance 0.2135,
        // t = 2.925 / sqrt(0.2135 (1/3 + 1/4)) = 8.2884.
        let (place, t) = clearest_cut(&values).unwrap();
        assert_eq!(place, 3);
        assert!((t - 2.925 / (0.2135f64 * (1.0 / 3.0 + 0.25)).sqrt()).abs() < 1e-9, "{t}");
    }

    #[test]
    fn false_changes_stay_below_five_per_cent() {
        let mut chance = Chance::default();
        for count in [4, 8, 30] {
            let (mut alarms, all) = (0, 1000);
            for seed in 0..all {
                let values = steps(&[(count, 1.0)], 0.1, 1_000_000 + seed);
                alarms += usize::from(!changes(&values, 1, &mut chance).is_empty());
            }
            // 50 expected; 73 are exceeded in less than 0.1 % of cases.
            assert!((30..=73).contains(&alarms), "{alarms} of {all} with {count} runs");
        }
    }

    #[test]
    fn false_changes_beside_a_true_one_do_too() {
        let mut chance = Chance::default();
        let (mut alarms, all) = (0, 500);
        for seed in 0..all {
            let values = steps(&[(15, 0.0), (15, 5.0)], 0.1, 2_000_000 + seed);
            let found = changes(&values, 1, &mut chance);
            assert!(found.iter().any(|change| change.index == 15));
            alarms += usize::from(found.len() > 1);
        }
        assert!(alarms <= 43, "{alarms} of {all}");
    }

    #[test]
    fn more_series_ask_for_more() {
        let values = steps(&[(6, 0.0), (6, 0.025)], 0.01, 5);
        let mut chance = Chance::default();
        let p = |series, chance: &mut Chance| {
            changes(&values, series, chance).first().map_or(1.0, |change| change.p)
        };
        let (one, ten) = (p(1, &mut chance), p(10, &mut chance));
        assert!(ten == 1.0 || (ten / one - 10.0).abs() < 1e-9, "{one} {ten}");
    }
}
