//! All pairs of the targets of one figure: which are told apart, which are the same, and the letters that say
//! so in a table. What the figure is, is left to others.
//!
//! Pairs are corrected by Holm's method over all of them, also where only those with the best are shown:
//! which target is the best is found with the same data, and a correction for the shown pairs alone would
//! forget those that might have been shown.

use crate::compare::{self, FAMILY_ERROR, Paired};

/// All pairs of some targets.
#[derive(Debug, Clone)]
pub struct Pairs {
    count: usize,
    compared: Vec<Paired>,
    /// Holm's p that there is no difference.
    apart: Vec<Option<f64>>,
    /// Holm's p that the difference is beyond the band of sameness.
    same: Vec<Option<f64>>,
}

impl Pairs {
    /// Compares each of `count` targets with those after it.
    pub fn of(count: usize, compare: impl Fn(usize, usize) -> Paired) -> Pairs {
        let compared: Vec<Paired> = pairs(count).map(|(a, b)| compare(a, b)).collect();
        let holm = |p: fn(&Paired) -> Option<f64>| {
            compare::holm(&compared.iter().map(p).collect::<Vec<Option<f64>>>())
        };
        let (apart, same) = (holm(|pair| pair.p), holm(|pair| pair.p_same));
        Pairs { count, compared, apart, same }
    }

    /// The indices of each pair, the lesser first.
    pub fn each(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        pairs(self.count)
    }

    /// How many there are with a test.
    #[must_use]
    pub fn test_count(&self) -> usize {
        self.apart.iter().flatten().count()
    }

    /// The comparison of `a` with `b`, in the direction in which it was made: the lesser index against the
    /// greater; `None` of a target with itself.
    #[must_use]
    pub fn compared(&self, a: usize, b: usize) -> Option<&Paired> {
        self.compared.get(self.place(a, b)?)
    }

    /// Holm's p that `a` and `b` do not differ.
    #[must_use]
    pub fn p(&self, a: usize, b: usize) -> Option<f64> {
        self.apart[self.place(a, b)?]
    }

    /// Whether `a` and `b` are told apart at this share of the 5 %.
    #[must_use]
    pub fn are_apart(&self, a: usize, b: usize, share: f64) -> bool {
        self.p(a, b).is_some_and(|p| p <= FAMILY_ERROR * share)
    }

    /// Whether `a` and `b` are the same within the band, at this share of the 5 %.
    #[must_use]
    pub fn are_same(&self, a: usize, b: usize, share: f64) -> bool {
        let p = self.place(a, b).and_then(|place| self.same[place]);
        p.is_some_and(|p| p <= FAMILY_ERROR * share)
    }

    /// The letters of each of `ranked`, indices of targets, best first: those that are not told apart share
    /// one, and those that share none are told apart.
    #[must_use]
    pub fn letters(&self, ranked: &[usize]) -> Vec<String> {
        let groups = self.groups(ranked);
        let letters = |place: usize| {
            let own = groups.iter().enumerate().filter(|(_, group)| group.contains(&place));
            own.map(|(index, _)| letter(index)).collect()
        };
        (0..ranked.len()).map(letters).collect()
    }

    /// The greatest sets of which no two are told apart, as places in `ranked`.
    fn groups(&self, ranked: &[usize]) -> Vec<Vec<usize>> {
        // Each pair that is told apart splits the groups that hold both; a group within another goes.
        let mut groups: Vec<Vec<usize>> = vec![(0..ranked.len()).collect()];
        let places = || pairs(ranked.len());
        for (a, b) in places().filter(|(a, b)| self.are_apart(ranked[*a], ranked[*b], 1.0)) {
            let mut split = Vec::new();
            for group in groups {
                if group.contains(&a) && group.contains(&b) {
                    let without = |out: usize| group.iter().copied().filter(move |it| *it != out);
                    split.extend([without(b).collect::<Vec<usize>>(), without(a).collect()]);
                } else {
                    split.push(group);
                }
            }
            let holds = |of: &[usize], all: &[usize]| all.iter().all(|it| of.contains(it));
            groups = Vec::new();
            for (index, group) in split.iter().enumerate() {
                let is_within = split.iter().enumerate().any(|(other, of)| {
                    other != index && holds(of, group) && (of.len() > group.len() || other < index)
                });
                if !is_within {
                    groups.push(group.clone());
                }
            }
        }
        groups.sort();
        groups
    }

    fn place(&self, a: usize, b: usize) -> Option<usize> {
        let (a, b) = (a.min(b), a.max(b));
        // Pairs of 0 first, then those of 1, …
        (a < b && b < self.count).then(|| a * (2 * self.count - a - 1) / 2 + b - a - 1)
    }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, b)))
}

/// `a` to `z`, then `A` to `Z`, then `?`.
fn letter(index: usize) -> char {
    ('a'..='z').chain('A'..='Z').nth(index).unwrap_or('?')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_p(count: usize, p: impl Fn(usize, usize) -> f64) -> Pairs {
        Pairs::of(count, |a, b| Paired {
            p: Some(p(a, b)),
            ..compare::of_log_ratios(&[], &crate::stopping::Looks::ONE)
        })
    }

    #[test]
    fn letters_say_which_are_told_apart() {
        // Targets on a line: those two steps apart are told apart.
        let line = |count: usize, steps: usize| {
            with_p(count, move |a, b| if b - a >= steps { 1e-9 } else { 0.9 })
        };
        let letters = |pairs: &Pairs, count: usize| {
            pairs.letters(&(0..count).collect::<Vec<usize>>()).join(" ")
        };
        assert_eq!(letters(&line(3, 9), 3), "a a a");
        assert_eq!(letters(&line(3, 1), 3), "a b c");
        assert_eq!(letters(&line(3, 2), 3), "a ab b");
        assert_eq!(letters(&line(5, 2), 5), "a ab bc cd d");
        assert_eq!(letters(&line(6, 3), 6), "a ab abc bcd cd d");
        assert_eq!(line(3, 2).letters(&[2, 0]).join(" "), "a b");
        assert_eq!(line(3, 2).letters(&[]).len(), 0);
        let apart = |a: usize, b: usize| (a, b) == (0, 2) || (a, b) == (1, 3);
        assert_eq!(
            letters(&with_p(4, |a, b| if apart(a, b) { 1e-9 } else { 0.9 }), 4),
            "ab ac cd bd"
        );
    }

    proptest::proptest! {
        #[test]
        fn two_share_a_letter_exactly_if_they_are_not_told_apart(bits in 0u32..1 << 15) {
            let pairs = with_p(6, |a, b| if bits >> (a * 6 + b).rem_euclid(15) & 1 == 1 { 1e-9 } else { 1.0 });
            let letters = pairs.letters(&[0, 1, 2, 3, 4, 5]);
            for (a, b) in pairs.each() {
                let share = letters[a].chars().any(|letter| letters[b].contains(letter));
                proptest::prop_assert_eq!(share, !pairs.are_apart(a, b, 1.0), "{} {}: {:?}", a, b, letters);
            }
        }
    }

    #[test]
    fn a_target_is_not_compared_with_itself() {
        let pairs = with_p(4, |a, b| (a * 10 + b) as f64 / 1e4);
        assert_eq!(pairs.p(2, 2), None);
        assert_eq!(pairs.p(1, 4), None);
        let p: Vec<f64> =
            pairs.each().map(|(a, b)| pairs.compared(b, a).unwrap().p.unwrap()).collect();
        assert_eq!(p, [1e-4, 2e-4, 3e-4, 12e-4, 13e-4, 23e-4]);
        // Holm over all six.
        assert!((pairs.p(0, 1).unwrap() - 6e-4).abs() < 1e-12);
        assert_eq!(pairs.test_count(), 6);
    }
}
