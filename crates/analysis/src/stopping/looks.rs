//! The level that each look at a run with a stop rule may use. What is decided at a look is left to the
//! module above; ADR 0013 says why it is done in this way.
//!
//! After `n` blocks `(n − 2)/(n + 4)` of the 5 % has been spent, whatever follows. What one look may spend
//! is therefore known, and the level at which its t test spends just that follows from the joint distribution
//! of the statistics, which for normal noise depends neither on its size nor on the unit. `levels.txt` holds
//! it for several first looks and totals; `examples/levels.rs` computes it by numerical integration. Several
//! totals, because a correction for many comparisons asks for levels that keep less than 5 %: the step from
//! a p to the total at which its look would tell gives a p that counts all looks, which any correction takes
//! as it takes others.

use std::sync::OnceLock;

use fsdyno_model::plan::Plan;
use fsdyno_model::stop::StopRule;

use crate::compare::FAMILY_ERROR;
use crate::interval::Interval;

/// Blocks before which nothing is told of a run with a stop rule.
const FEWEST_BLOCKS: u32 = 3;

/// The error level that each look at the data may use, so that all looks together stay at 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looks {
    rule: Option<StopRule>,
    /// Greatest number of blocks.
    trials: u32,
    /// Whether a trial that is made again gives the same figures, so that one is all there is to know.
    is_exact: bool,
}

impl Looks {
    /// One look, at 5 % whatever the number of blocks: that of a run without a stop rule.
    pub const ONE: Looks = Looks { rule: None, trials: 0, is_exact: false };

    /// Those of `plan`: without a stop rule one look, at 5 % whatever the number of blocks.
    #[must_use]
    pub fn of(plan: &Plan) -> Looks {
        let is_exact = plan.place.is_virtual();
        Looks { rule: plan.stop, trials: plan.trials, is_exact }
    }

    /// Those of trials that end by `rule`.
    #[must_use]
    pub fn by(rule: StopRule) -> Looks {
        Looks { rule: Some(rule), trials: u32::MAX, is_exact: false }
    }

    /// Whether a single block decides: its figures are in virtual time, and the same whenever it is made. Of
    /// several, each draws its own work, so that they scatter as any do.
    #[must_use]
    pub fn is_exact(&self, blocks: usize) -> bool {
        self.is_exact && blocks == 1
    }

    /// Whether there are several: trials ended by what they showed.
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.rule.is_some()
    }

    /// Whether the data are looked at after so many blocks.
    #[must_use]
    pub fn is_look(&self, blocks: u32) -> bool {
        match self.rule {
            Some(_) => blocks >= self.first(),
            None => blocks == self.trials,
        }
    }

    /// Blocks before the first look.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.rule.map_or(self.trials, |rule| rule.min_trials.max(FEWEST_BLOCKS))
    }

    /// Level of the interval told after so many blocks: 0.05 without a stop rule, less with one; 0 before
    /// the first look, when no interval is told.
    #[must_use]
    pub fn alpha(&self, blocks: usize) -> f64 {
        self.alpha_of(FAMILY_ERROR, blocks)
    }

    /// Level of the interval told after so many blocks, where all looks together may mislead with the chance
    /// `total`; 0 before the first look.
    #[must_use]
    pub fn alpha_of(&self, total: f64, blocks: usize) -> f64 {
        if self.rule.is_none() {
            return total;
        }
        let Some(line) = self.line(blocks) else { return 0.0 };
        let place = |pair: &[(f64, f64)]| total.ln() >= pair[0].0;
        let pair = line.windows(2).find(|pair| place(pair)).unwrap_or(&line[line.len() - 2..]);
        along(total.ln(), pair[0], pair[1]).exp().min(total)
    }

    /// The p that counts all looks: the least chance, over all of them, at which the look after so many
    /// blocks would have told what `p` tells. `None` where `p` is, and before the first look. Never less
    /// than the least total of the table, 10⁻⁶.
    #[must_use]
    pub fn p(&self, p: Option<f64>, blocks: usize) -> Option<f64> {
        if self.rule.is_none() {
            return p;
        }
        let (line, p) = (self.line(blocks)?, p?);
        let least = line[line.len() - 1];
        if p <= least.1.exp() {
            return Some(least.0.exp());
        }
        let swapped = |(total, level): (f64, f64)| (level, total);
        let pair = line.windows(2).find(|pair| p.ln() >= pair[1].1)?;
        Some(along(p.ln(), swapped(pair[0]), swapped(pair[1])).exp().clamp(p, 1.0))
    }

    /// The logarithms of totals, falling, with those of the level after so many blocks; `None` before the first
    /// look.
    fn line(&self, blocks: usize) -> Option<Vec<(f64, f64)>> {
        let first = self.first();
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        if blocks < first {
            return None;
        }
        let table = table();
        // What looks before the first one would have spent is not made use of where the table has no such
        // first look.
        let start = table.lines.iter().map(|line| line.first).filter(|it| *it <= first).max()?;
        let mut before: Option<&Line> = None;
        for line in table.lines.iter().filter(|line| line.first == start) {
            if line.blocks >= blocks {
                let before = before.unwrap_or(line);
                let level = |(one, other): (&f64, &f64)| {
                    let ends = [before, line].map(|it| f64::from(it.blocks).ln());
                    along(f64::from(blocks).ln(), (ends[0], *one), (ends[1], *other))
                };
                let levels = before.levels.iter().zip(&line.levels).map(level);
                return Some(table.totals.iter().copied().zip(levels).collect());
            }
            before = Some(line);
        }
        // Beyond the table: what this look may spend, as if no other shared it.
        let share = spent(blocks) - spent(blocks - 1);
        Some(table.totals.iter().map(|total| (*total, total + share.ln())).collect())
    }

    /// The band of sameness as logarithms of ratios; `None` without a stop rule.
    #[must_use]
    pub fn band(&self) -> Option<Interval> {
        let half = f64::from(self.rule?.resolution_permille) / 1000.0;
        Some(Interval { low: (-half).ln_1p(), high: half.ln_1p() })
    }
}

/// Share of the whole that is spent after so many blocks.
fn spent(blocks: u32) -> f64 {
    (f64::from(blocks) - 2.0) / (f64::from(blocks) + 4.0)
}

/// The value at `x` on the line through two points.
fn along(x: f64, (x0, y0): (f64, f64), (x1, y1): (f64, f64)) -> f64 {
    if x0 == x1 { y0 } else { y0 + (y1 - y0) * (x - x0) / (x1 - x0) }
}

struct Table {
    /// Logarithms, falling.
    totals: Vec<f64>,
    lines: Vec<Line>,
}

struct Line {
    first: u32,
    blocks: u32,
    /// Logarithms, one for each total.
    levels: Vec<f64>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = Table { totals: Vec::new(), lines: Vec::new() };
        for line in include_str!("levels.txt").lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_ascii_whitespace();
            let head = words.next().unwrap_or_default();
            if head == "totals" {
                table.totals = logarithms(words);
            } else if let (Ok(first), Some(Ok(blocks))) =
                (head.parse(), words.next().map(str::parse))
            {
                table.lines.push(Line { first, blocks, levels: logarithms(words) });
            }
        }
        table
    })
}

fn logarithms<'a>(words: impl Iterator<Item = &'a str>) -> Vec<f64> {
    words.filter_map(|word| word.parse::<f64>().ok()).map(f64::ln).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(min_trials: u32) -> Looks {
        Looks::by(StopRule { resolution_permille: 30, min_trials })
    }

    #[test]
    fn one_look_has_the_whole_level() {
        let plan = Plan { stop: None, trials: 5, ..Plan::new(false) };
        let looks = Looks::of(&plan);
        assert_eq!((1..9).filter(|n| looks.is_look(*n)).collect::<Vec<_>>(), [5]);
        assert!([2, 5, 99].iter().all(|n| looks.alpha(*n) == FAMILY_ERROR));
        assert_eq!(looks.p(Some(0.03), 4), Some(0.03));
        assert_eq!(looks.band(), None);
    }

    #[test]
    fn the_table_is_read_whole() {
        let table = table();
        assert!((table.totals.len(), table.lines.len()) == (11, 138), "{}", table.lines.len());
        assert!(table.lines.iter().all(|line| line.levels.len() == 11));
        // A first look spends all that was saved until then: 3/9 of 5 % after five blocks.
        assert!((looks(5).alpha(5) / (0.05 / 3.0) - 1.0).abs() < 1e-4);
        assert!((looks(3).alpha(3) / (0.05 / 7.0) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn levels_share_the_whole() {
        for min_trials in [2, 3, 5, 7, 10, 40] {
            let looks = looks(min_trials);
            let first = looks.first();
            assert!((0..first).all(|n| looks.alpha(n as usize) == 0.0 && !looks.is_look(n)));
            assert!(looks.is_look(first));
            assert_eq!(looks.p(Some(1e-9), 2), None);
            let mut union = 0.0;
            for n in first..300 {
                let (alpha, blocks) = (looks.alpha(n as usize), n as usize);
                assert!(alpha > 0.0 && alpha < FAMILY_ERROR, "{n}: {alpha}");
                // No look gets less than its increment, which a union bound would give it.
                assert!(alpha >= 0.99 * FAMILY_ERROR * (spent(n) - spent(n - 1)), "{n}: {alpha}");
                assert!((looks.p(Some(alpha), blocks).unwrap() / FAMILY_ERROR - 1.0).abs() < 1e-6);
                let (tight, least) = (looks.alpha_of(0.003, blocks), looks.p(Some(1e-12), blocks));
                assert!(tight < alpha * 0.07, "{n}: {tight} {alpha}");
                assert!((least.unwrap() / 1e-6 - 1.0).abs() < 1e-6, "{least:?}");
                assert!(looks.p(Some(0.4), blocks).unwrap() >= 0.4);
                union += alpha;
            }
            assert!(union > FAMILY_ERROR, "{union}");
        }
    }

    #[test]
    fn between_two_lines_levels_are_between() {
        let looks = looks(3);
        let [low, middle, high] = [20, 23, 25].map(|n| looks.alpha(n));
        assert!(low > middle && middle > high, "{low} {middle} {high}");
        assert_eq!(looks.p(None, 23), None);
    }
}
