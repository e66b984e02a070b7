//! Prints `src/stopping/levels.txt`: at which level each look may be told, so that all looks together
//! keep a total. What the table is for is said in `src/stopping/looks.rs`.
//!
//! ```text
//! cargo run --release -p fsdyno-analysis --example levels > crates/analysis/src/stopping/levels.txt
//! ```
//!
//! Numerical integration, no simulation. Of normally distributed values whose mean is zero, let t be the
//! statistic after n values. Given t, those after fewer values depend neither on the scale nor on what
//! follows, and with an angle θ whose density is proportional to cos^(n−3) θ the one before is
//! `√((n − 2)/n) · (t − sin θ)/cos θ`. So the chance that no look before n crossed its bound, given t, is an
//! integral over θ of that chance one look earlier. The bound of look n is where the tail of t, weighted with
//! this chance, is what the look may spend.

use std::f64::consts::PI;

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::gamma::ln_gamma;

/// First looks of the table.
const FIRST: [u32; 6] = [3, 4, 5, 6, 8, 10];
/// Totals of the table.
const TOTALS: [f64; 11] = [0.5, 0.2, 0.1, 0.05, 0.025, 0.01, 0.005, 0.002, 0.001, 1e-4, 1e-6];
/// Numbers of blocks after the twelfth that have a line; those between are interpolated.
const LATER: [u32; 16] = [14, 16, 18, 20, 25, 30, 35, 40, 50, 60, 70, 80, 100, 120, 160, 200];
/// Terms of the series that holds a chance as a function of t.
const TERMS: usize = 40;
const NODES: usize = 64;

/// Share of the total that is spent after so many blocks.
fn spent(blocks: u32) -> f64 {
    (f64::from(blocks) - 2.0) / (f64::from(blocks) + 4.0)
}

/// Nodes and weights of the rule of Gauss and Legendre on (−1, 1), by Newton's method.
fn gauss() -> Vec<(f64, f64)> {
    let n = NODES as f64;
    let node = |index: usize| {
        let mut x = (PI * (index as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..50 {
            let (mut before, mut value) = (1.0, x);
            for degree in 2..=NODES {
                let k = degree as f64;
                (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-15 {
                break;
            }
        }
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..NODES).map(node).collect()
}

fn integral(nodes: &[(f64, f64)], low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (centre, half) = (f64::midpoint(low, high), (high - low) / 2.0);
    nodes.iter().map(|(x, weight)| weight * f(centre + half * x)).sum::<f64>() * half
}

/// The chance that no look so far crossed its bound, given t after the last of them; zero beyond `bound`.
struct Survival {
    bound: f64,
    /// Chebyshev coefficients in 2 (t/bound)² − 1.
    terms: Vec<f64>,
}

impl Survival {
    fn first(bound: f64) -> Survival {
        Survival { bound, terms: vec![1.0] }
    }

    fn fit(bound: f64, f: impl Fn(f64) -> f64) -> Survival {
        let angle = |index: usize| PI * (index as f64 + 0.5) / TERMS as f64;
        let values: Vec<f64> =
            (0..TERMS).map(|i| f(bound * f64::midpoint(angle(i).cos(), 1.0).sqrt())).collect();
        let term = |order: usize| {
            let sum: f64 =
                values.iter().enumerate().map(|(i, v)| v * (order as f64 * angle(i)).cos()).sum();
            sum * if order == 0 { 1.0 } else { 2.0 } / TERMS as f64
        };
        Survival { bound, terms: (0..TERMS).map(term).collect() }
    }

    fn at(&self, t: f64) -> f64 {
        let x = 2.0 * (t / self.bound).powi(2) - 1.0;
        let (mut one, mut two) = (0.0, 0.0);
        for term in self.terms[1..].iter().rev() {
            (one, two) = (2.0 * x * one - two + term, one);
        }
        x * one - two + self.terms[0]
    }

    /// The chance that none of these looks crossed, given t after n values, one more than before.
    fn given(&self, nodes: &[(f64, f64)], n: u32, t: f64) -> f64 {
        let n = f64::from(n);
        let bound = self.bound * (n / (n - 2.0)).sqrt();
        let greatest = bound.hypot(1.0);
        if t >= greatest {
            return 0.0;
        }
        let (offset, reach) = ((1.0 / bound).atan(), (t / greatest).acos());
        let edge = (7.0 / (n - 2.0).sqrt()).min(PI / 2.0);
        let low = (offset - reach).max(reach - offset - PI).max(-edge);
        let high = (offset + reach).min(PI - offset - reach).min(edge);
        if low >= high {
            return 0.0;
        }
        let norm = (ln_gamma((n - 2.0) / 2.0) - ln_gamma((n - 1.0) / 2.0)).exp() * PI.sqrt();
        integral(nodes, low, high, |angle| {
            let before = ((n - 2.0) / n).sqrt() * (t - angle.sin()) / angle.cos();
            angle.cos().powf(n - 3.0) * self.at(before)
        }) / norm
    }

    fn greatest(&self, n: u32) -> f64 {
        (self.bound * (f64::from(n) / (f64::from(n) - 2.0)).sqrt()).hypot(1.0)
    }
}

/// Density of Student's t after n values.
fn density(n: u32, t: f64) -> f64 {
    let nu = f64::from(n) - 1.0;
    let norm = ln_gamma((nu + 1.0) / 2.0) - ln_gamma(nu / 2.0) - 0.5 * (nu * PI).ln();
    (norm - (nu + 1.0) / 2.0 * (t * t / nu).ln_1p()).exp()
}

fn students_t(n: u32) -> StudentsT {
    StudentsT::new(0.0, 1.0, f64::from(n) - 1.0).expect("there are two values and more")
}

/// The levels of the looks from `first` to `last` that together keep `total`.
fn levels(nodes: &[(f64, f64)], first: u32, last: u32, total: f64) -> Vec<f64> {
    let mut level = total * spent(first);
    let mut levels = vec![level];
    let bound = students_t(first).inverse_cdf(1.0 - level / 2.0);
    let mut before = Survival::first(bound);
    for n in first + 1..=last {
        let share = total * (spent(n) - spent(n - 1));
        let greatest = before.greatest(n);
        // Two tails. Over the logarithm of t, and over a root of it where the chance falls to zero.
        let crossed = |bound: f64| {
            let span = (greatest / bound).ln();
            2.0 * integral(nodes, 0.0, 1.0, |v| {
                let t = greatest * (-span * v * v).exp();
                density(n, t) * before.given(nodes, n, t) * t * 2.0 * span * v
            })
        };
        let (mut low, mut high) = (0.05, greatest);
        for _ in 0..60 {
            let middle = (low * high).sqrt();
            if crossed(middle) > share {
                low = middle
            } else {
                high = middle
            }
            if high / low < 1.0 + 1e-9 {
                break;
            }
        }
        level = 2.0 * students_t(n).sf(high);
        levels.push(level);
        before = Survival::fit(high, |t| before.given(nodes, n, t));
    }
    levels
}

fn main() {
    let nodes = gauss();
    println!("# Levels of repeated looks at a t test; made by examples/levels.rs.");
    println!("# first look, blocks, then the level for each of these totals:");
    let totals: Vec<String> = TOTALS.iter().map(|total| format!("{total:e}")).collect();
    println!("totals {}", totals.join(" "));
    let last = LATER[LATER.len() - 1];
    for first in FIRST {
        let columns: Vec<Vec<f64>> =
            TOTALS.iter().map(|total| levels(&nodes, first, last, *total)).collect();
        for n in (first..=12).chain(LATER) {
            let line: Vec<String> = columns
                .iter()
                .map(|column| format!("{:.4e}", column[(n - first) as usize]))
                .collect();
            println!("{first} {n} {}", line.join(" "));
        }
    }
}
