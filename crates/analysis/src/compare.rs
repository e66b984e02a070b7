//! Targets against the best of them, paired by block.
//!
//! A block holds every target once, close together in time, so what slows a whole block (a busy
//! neighbour, a warm disk) is the same for all in it. Targets are therefore compared by the ratio
//! within each block where both completed, never by whether their intervals overlap. The test is the
//! paired t on the logarithms of the ratios, and Holm's step-down method over all pairs of targets holds the
//! chance of even one false difference among the targets of a phase at 5 %, whichever of them came out best.
//! Where trials end by what they show, the levels are those of [`crate::stopping`].

use std::collections::BTreeMap;

use fsdyno_model::metric::Better;

use crate::interval::{self, Interval};
use crate::pairs::Pairs;
use crate::stopping::Looks;

/// The value of each block, by the number of the block.
pub type Blocks = BTreeMap<u32, f64>;

/// Chance of even one false difference that is accepted.
pub const FAMILY_ERROR: f64 = 0.05;

/// One target against another.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// Number of blocks in which both have a value.
    pub blocks: usize,
    /// Geometric mean of the ratios to the other; `None` without blocks or when a value is not
    /// positive.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; `None` with fewer than two blocks, and before the first look.
    pub ratio_ci95: Option<Interval>,
    /// Two-sided p that there is no difference, counting all looks; `None` with fewer than two blocks, and
    /// before the first look.
    pub p: Option<f64>,
    /// The same that the difference is beyond the band of sameness; `None` without a stop rule, too.
    pub p_same: Option<f64>,
    /// Hedges' g of the logarithms: their mean in units of their standard deviation, corrected for the few;
    /// `None` with fewer than three blocks or without scatter.
    pub hedges_g: Option<f64>,
}

/// Compares `values` with `reference` over the blocks that both have.
///
/// When a value is zero or negative there are no ratios, and p is that of the plain differences.
/// Differences without any scatter are told apart with p = 0, equal values have p = 1.
#[must_use]
pub fn paired(values: &Blocks, reference: &Blocks, looks: &Looks) -> Paired {
    let pairs: Vec<(f64, f64)> = values
        .iter()
        .filter_map(|(block, value)| reference.get(block).map(|other| (*value, *other)))
        .collect();
    if pairs.iter().any(|(value, other)| *value <= 0.0 || *other <= 0.0) {
        let differences: Vec<f64> = pairs.iter().map(|(value, other)| value - other).collect();
        let p = exact_p(&differences, looks)
            .or_else(|| looks.p(interval::p_of_zero_mean(&differences), pairs.len()));
        let are_equal = differences.iter().all(|difference| *difference == 0.0);
        let p_same = looks.band().filter(|_| are_equal).and(looks.p(Some(0.0), pairs.len()));
        let (ratio, ratio_ci95, hedges_g) = (None, None, None);
        return Paired { blocks: pairs.len(), ratio, ratio_ci95, p, p_same, hedges_g };
    }
    let logarithms: Vec<f64> = pairs.iter().map(|(value, other)| (value / other).ln()).collect();
    of_log_ratios(&logarithms, looks)
}

/// The comparison that the logarithms of the ratios of each block amount to.
#[must_use]
pub fn of_log_ratios(logarithms: &[f64], looks: &Looks) -> Paired {
    let blocks = logarithms.len();
    let ends = interval::t_interval(logarithms, looks.alpha(blocks));
    let p_same = looks.band().and_then(|band| interval::p_of_mean_outside(logarithms, band));
    Paired {
        blocks,
        ratio: interval::mean(logarithms).map(f64::exp),
        ratio_ci95: ends.map(|ends| ends.map(f64::exp)),
        p: exact_p(logarithms, looks)
            .or_else(|| looks.p(interval::p_of_zero_mean(logarithms), blocks)),
        p_same: looks.p(p_same, blocks),
        hedges_g: interval::hedges_g(logarithms),
    }
}

/// Where one block decides: 1 where there is no difference and else 0; `None` elsewhere.
fn exact_p(differences: &[f64], looks: &Looks) -> Option<f64> {
    let difference = differences.first().filter(|_| looks.is_exact(differences.len()))?;
    Some(if *difference == 0.0 { 1.0 } else { 0.0 })
}

/// Holm's adjustment: `p` such that those at or below [`FAMILY_ERROR`] may all be called different
/// with that chance of even one error. A `None` is no test and stays `None`.
#[must_use]
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut tests: Vec<(usize, f64)> =
        p.iter().enumerate().filter_map(|(index, p)| p.map(|p| (index, p))).collect();
    tests.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; p.len()];
    let mut greatest = 0.0f64;
    for (rank, (index, p)) in tests.iter().enumerate() {
        greatest = greatest.max(p * (tests.len() - rank) as f64).min(1.0);
        adjusted[*index] = Some(greatest);
    }
    adjusted
}

/// Whether an adjusted p tells two targets apart; without a test nothing does.
#[must_use]
pub fn told_apart(adjusted_p: Option<f64>) -> bool {
    adjusted_p.is_some_and(|p| p <= FAMILY_ERROR)
}

/// How a target stands among the targets of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether no other target has a better median.
    pub best: bool,
    /// Whether it is not the best but cannot be told apart from it. With fewer than two common
    /// blocks nothing can be told apart.
    pub tied_with_best: bool,
}

/// The target with the best median; the first of equals. `None` without values, and where neither way is
/// better.
#[must_use]
pub fn best(targets: &[Blocks], better: Option<Better>) -> Option<usize> {
    ranked(targets, better).first().copied()
}

/// The targets that have values, best median first, equals in the order in which they were given; none where
/// neither way is better.
#[must_use]
pub fn ranked(targets: &[Blocks], better: Option<Better>) -> Vec<usize> {
    let Some(better) = better else { return Vec::new() };
    let mut medians: Vec<(usize, f64)> =
        targets.iter().enumerate().filter_map(|(index, it)| Some((index, median(it)?))).collect();
    medians.sort_by(|(_, a), (_, b)| match better {
        Better::Higher => b.total_cmp(a),
        Better::Lower => a.total_cmp(b),
    });
    medians.into_iter().map(|(index, _)| index).collect()
}

fn median(blocks: &Blocks) -> Option<f64> {
    interval::median(&blocks.values().copied().collect::<Vec<f64>>())
}

/// All pairs of `targets`.
#[must_use]
pub fn pairs(targets: &[Blocks], looks: &Looks) -> Pairs {
    Pairs::of(targets.len(), |a, b| paired(&targets[a], &targets[b], looks))
}

/// How each of `targets` stands, given all their `pairs`; one without values is neither best nor tied, and
/// where neither way is better no target is.
#[must_use]
pub fn standings(targets: &[Blocks], pairs: &Pairs, better: Option<Better>) -> Vec<Standing> {
    let none = Standing { best: false, tied_with_best: false };
    let Some(reference) = best(targets, better) else { return vec![none; targets.len()] };
    let best = median(&targets[reference]);
    let standing = |(index, blocks): (usize, &Blocks)| {
        let (own, is_best) = (median(blocks), median(blocks) == best);
        let is_tied = own.is_some() && !is_best && !pairs.are_apart(index, reference, 1.0);
        Standing { best: is_best, tied_with_best: is_tied }
    };
    targets.iter().enumerate().map(standing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(values: &[f64]) -> Blocks {
        (1..).zip(values.iter().copied()).collect()
    }

    const A: &[f64] = &[120.0, 118.0, 125.0, 121.0, 119.0];
    const B: &[f64] = &[110.0, 112.0, 111.0, 109.0, 113.0];
    const C: &[f64] = &[121.0, 116.0, 126.0, 118.0, 121.0];

    // Literals from SciPy 1.17.1: r = scipy.stats.ttest_rel(numpy.log(y), numpy.log(a));
    //   r.pvalue, numpy.exp(numpy.log(y / a).mean()), numpy.exp(r.confidence_interval(.95))
    #[test]
    fn pairs_agree_with_scipy() {
        for (values, p, ratio, low, high) in [
            (
                B,
                0.003_645_631_294_592_420_6,
                0.920_505_962_581_639,
                0.886_468_597_818_421_9,
                0.955_850_245_833_423_9,
            ),
            (
                C,
                0.830_456_287_955_923_3,
                0.998_148_450_328_626_6,
                0.975_923_782_511_105_7,
                1.020_879_239_493_378_3,
            ),
        ] {
            let paired = paired(&blocks(values), &blocks(A), &Looks::ONE);
            let ends = paired.ratio_ci95.unwrap();
            for (actual, expected) in [
                (paired.p.unwrap(), p),
                (paired.ratio.unwrap(), ratio),
                (ends.low, low),
                (ends.high, high),
            ] {
                assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} {expected}");
            }
        }
    }

    // SciPy: ttest_rel([0, 3, 1, 2], [5, 9, 4, 9]).pvalue
    #[test]
    fn a_zero_leads_to_plain_differences() {
        let paired =
            paired(&blocks(&[0.0, 3.0, 1.0, 2.0]), &blocks(&[5.0, 9.0, 4.0, 9.0]), &Looks::ONE);
        assert!((paired.p.unwrap() / 0.008_656_533_573_244_85 - 1.0).abs() < 1e-9);
        assert_eq!(paired.ratio, None);
    }

    #[test]
    fn only_common_blocks_count() {
        let mut short = blocks(B);
        short.remove(&2);
        assert_eq!(paired(&short, &blocks(A), &Looks::ONE).blocks, 4);
        let apart = paired(&Blocks::from([(1, 2.0)]), &Blocks::from([(2, 2.0)]), &Looks::ONE);
        assert_eq!((apart.blocks, apart.ratio, apart.ratio_ci95, apart.p), (0, None, None, None));
    }

    #[test]
    fn holm_steps_down() {
        let close = |a: &[Option<f64>], b: &[Option<f64>]| {
            a.iter().zip(b).all(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() < 1e-12,
                (a, b) => a == b,
            })
        };
        let adjusted = holm(&[Some(0.04), None, Some(0.01), Some(0.03)]);
        assert!(close(&adjusted, &[Some(0.06), None, Some(0.03), Some(0.06)]), "{adjusted:?}");
        assert_eq!(holm(&[Some(0.9), Some(0.8)]), [Some(1.0), Some(1.0)]);
        assert_eq!(holm(&[]), []);
    }

    #[test]
    fn standing_follows_the_direction() {
        let flags = |targets: &[&[f64]], better| -> Vec<(bool, bool)> {
            let targets: Vec<Blocks> = targets.iter().map(|values| blocks(values)).collect();
            let standings = standings(&targets, &pairs(&targets, &Looks::ONE), better);
            standings.iter().map(|s| (s.best, s.tied_with_best)).collect()
        };
        let (best, tied, apart) = ((true, false), (false, true), (false, false));
        assert_eq!(flags(&[A, B, C], Some(Better::Higher)), [tied, apart, best]);
        assert_eq!(flags(&[A, B, C], Some(Better::Lower)), [apart, best, apart]);
        assert_eq!(flags(&[A, B, C], None), [apart; 3]);
        assert_eq!(flags(&[A, &[], C], Some(Better::Lower)), [best, apart, tied]);
        assert_eq!(flags(&[A], Some(Better::Lower)), [best]);
        assert_eq!(flags(&[], Some(Better::Lower)), []);
        // One block each: nothing is told apart.
        assert_eq!(flags(&[&[1.0], &[9.0]], Some(Better::Higher)), [tied, best]);
        // Unless it is in virtual time.
        let mut plan = fsdyno_model::plan::Plan::new(false);
        plan.place.clock = fsdyno_model::place::Clock::Virtual;
        let exact = |values: [f64; 3]| {
            let targets = values.map(|value| blocks(&[value]));
            let looks = Looks::of(&plan);
            let standings = standings(&targets, &pairs(&targets, &looks), Some(Better::Lower));
            standings.iter().map(|s| (s.best, s.tied_with_best)).collect::<Vec<_>>()
        };
        assert_eq!(exact([1.0, 1.0, 1.000_001]), [best, best, apart]);
        assert_eq!(exact([0.0, 0.0, 0.5]), [best, best, apart]);
        // No scatter: equal is equal and different is different.
        assert_eq!(flags(&[&[2.0; 3], &[2.0; 3]], Some(Better::Higher)), [best, best]);
        assert_eq!(flags(&[&[0.0; 3], &[0.0; 3]], Some(Better::Lower)), [best, best]);
        assert_eq!(flags(&[&[2.0; 3], &[2.1; 3]], Some(Better::Higher)), [apart, best]);
    }
}
