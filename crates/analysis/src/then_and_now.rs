//! Published figures beside those of a run: cells, the ratio of every pair of targets then and now, and
//! how far the orders agree (Kendall, A New Measure of Rank Correlation, Biometrika 1938). What was
//! published comes with the plan; on what it was repeated is told by `setting`.

mod setting;

use fsdyno_model::environment::Environment;
use fsdyno_model::metric::{self, Better, Metric};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::param::ParamValue;
use fsdyno_model::plan::Plan;
use fsdyno_model::published::{Figure, Published, WHOLE};
use fsdyno_model::record::{TrialRecord, Warning};
use fsdyno_model::then_and_now::{Cell, Pair, Row, ThenAndNow};
use fsdyno_model::units;
use fsdyno_model::words::counted;

use crate::compare::{self, Blocks};
use crate::interval;
use crate::series::{FSCK, Series, WorkloadOrder};
use crate::stopping::Looks;

/// Pairs whose order has changed that are told by name.
const NAMED: usize = 6;
/// Code of the remark that a trial counts whose time was up.
const TIMED_OUT: &str = "timed-out";

/// Puts both beside each other; `None` where the plan repeats nothing published. `trials` are those whose
/// figures count, made in `environment`.
#[must_use]
pub fn then_and_now(
    plan: &Plan,
    orders: &[WorkloadOrder<'_>],
    trials: &[TrialRecord],
    environment: &Environment,
) -> Option<ThenAndNow> {
    let published = plan.published.as_ref()?;
    let setting = setting::words(plan, published, trials, environment);
    let trials = &with_timed_out(trials)[..];
    let labels: Vec<&str> = plan.targets.iter().map(|target| target.label.as_str()).collect();
    let looks = Looks::of(plan);
    let (mut rows, mut pairs) = (Vec::new(), Vec::new());
    for figure in &published.figures {
        let again = Again::of(plan, figure, &labels, orders, trials);
        let mut row = row(figure, &labels, again.as_ref());
        tell_unmeasured(&mut row, plan, trials);
        rows.push(row);
        if let Some(again) = &again {
            pairs.extend(again.pairs(figure, &labels, &looks));
        }
    }
    let words = words(published, &pairs);
    Some(ThenAndNow {
        name: published.name.clone(),
        scale: published.scale,
        source: published.source.clone(),
        year: published.year,
        kernel: published.kernel.clone(),
        hardware: published.hardware.clone(),
        machine: setting::machine(plan, published),
        setting,
        differences: published.differences.clone(),
        tau: tau(&pairs),
        rows,
        pairs,
        words,
    })
}

/// The phases that a trial had done before its time was up are whole: as then, they count, and those that it
/// had not are `N/A`.
fn with_timed_out(trials: &[TrialRecord]) -> Vec<TrialRecord> {
    let mut all = trials.to_vec();
    for trial in &mut all {
        if matches!(trial.outcome, Outcome::TimedOut { .. }) {
            let outcome = std::mem::replace(&mut trial.outcome, Outcome::Completed);
            // Where the phase that was not done is told.
            trial.warnings = vec![Warning {
                code: TIMED_OUT.to_owned(),
                message: outcome.sentence(),
                advice: String::new(),
            }];
        }
    }
    all
}

/// Says why a cell of a row that has its phase has no figure: how the last trial that was to give it ended.
fn tell_unmeasured(row: &mut Row, plan: &Plan, trials: &[TrialRecord]) {
    if row.phase.is_none() {
        return;
    }
    let workload = row.workload.as_deref().or(plan.workloads.first().map(|it| it.label.as_str()));
    for cell in row.cells.iter_mut().filter(|cell| cell.measured.is_none()) {
        let own =
            |it: &&TrialRecord| it.target == cell.target && Some(it.workload.as_str()) == workload;
        let Some(last) = trials.iter().rfind(own) else { continue };
        cell.not_measured = match &last.outcome {
            Outcome::Completed => {
                let own = last.warnings.iter().find(|warning| warning.code == TIMED_OUT);
                own.map(|warning| warning.message.clone())
            }
            other => Some(other.sentence()),
        };
    }
}

/// The measured values of a figure, in its unit and for its amount of work.
struct Again<'a> {
    workload: &'a str,
    metric: &'static Metric,
    /// By target.
    values: Vec<Blocks>,
}

impl<'a> Again<'a> {
    fn of(
        plan: &'a Plan,
        figure: &Figure,
        labels: &[&str],
        orders: &[WorkloadOrder<'_>],
        trials: &[TrialRecord],
    ) -> Option<Again<'a>> {
        let phase = figure.phase.as_deref()?;
        let is_own = |label: &str| figure.workload.as_deref().is_none_or(|own| own == label);
        let workload = plan.workloads.iter().find(|workload| is_own(&workload.label))?;
        let order = orders.iter().find(|order| order.label == workload.label)?;
        let series = Series::collect(labels, order, trials);
        let phases = phases_of(&series, phase);
        let metric = figure.metric.as_deref().or_else(|| series.primary_metric(phases.first()?));
        let metric = metric::find(metric?)?;
        let more = match &figure.amount {
            None => 1.0,
            Some(amount) => {
                let own = workload.params.iter().find(|(name, _)| *name == amount.parameter);
                let done = match own?.1 {
                    ParamValue::Number(done) => *done,
                    ParamValue::Text(text) => units::parse_bytes(text).ok()?,
                    ParamValue::Flag(_) => return None,
                };
                amount.published as f64 / done.max(1) as f64
            }
        };
        let factor = figure.conversion(metric.unit)? * more;
        let scaled = |target: usize| {
            let blocks = added(phases.iter().map(|phase| series.blocks(phase, target, metric)));
            blocks.into_iter().map(|(block, value)| (block, value * factor)).collect()
        };
        let values = (0..labels.len()).map(scaled).collect();
        Some(Again { workload: &workload.label, metric, values })
    }

    fn median(&self, target: usize) -> Option<f64> {
        interval::median(&self.values[target].values().copied().collect::<Vec<f64>>())
    }

    /// Place of `target` among `others`, the best first, from 1.
    fn rank(&self, target: usize, others: &[usize]) -> Option<f64> {
        let own = self.median(target)?;
        let is_better = |other: f64| match self.metric.better {
            Some(Better::Lower) => other < own,
            _ => other > own,
        };
        let medians = others.iter().filter_map(|other| self.median(*other));
        Some(1.0 + medians.filter(|other| is_better(*other)).count() as f64)
    }

    fn pairs(&self, figure: &Figure, labels: &[&str], looks: &Looks) -> Vec<Pair> {
        let mut pairs = Vec::new();
        for (a, own) in labels.iter().enumerate() {
            for (b, other) in labels.iter().enumerate().skip(a + 1) {
                let Some((then_a, then_b)) = figure.value(own).zip(figure.value(other)) else {
                    continue;
                };
                let (fast, slow) = match self.metric.better {
                    Some(Better::Lower) => (b, a),
                    _ => (a, b),
                };
                let paired = compare::paired(&self.values[fast], &self.values[slow], looks);
                let Some(now) = paired.ratio else { continue };
                let then = match figure.better() {
                    Better::Lower => then_b / then_a,
                    Better::Higher => then_a / then_b,
                };
                // In virtual time a single trial decides: another would give the same.
                let exact = looks.is_exact(paired.blocks).then_some(now);
                pairs.push(Pair {
                    operation: figure.operation.clone(),
                    workload: self.workload.to_owned(),
                    a: (*own).to_owned(),
                    b: (*other).to_owned(),
                    then,
                    now,
                    now_low: exact.or(paired.ratio_ci95.map(|it| it.low)),
                    now_high: exact.or(paired.ratio_ci95.map(|it| it.high)),
                });
            }
        }
        pairs
    }
}

/// The phase of this name, or all that the workload itself has.
fn phases_of<'a>(series: &Series<'a>, name: &str) -> Vec<&'a str> {
    let is_own = |phase: &&&str| match name {
        WHOLE => **phase != FSCK,
        name => **phase == name,
    };
    series.phases.iter().filter(is_own).copied().collect()
}

/// The sum in each block in which all have a value.
fn added(parts: impl Iterator<Item = Blocks>) -> Blocks {
    let sum = |sum: Blocks, part: Blocks| {
        sum.into_iter().filter_map(|(block, own)| Some((block, own + part.get(&block)?))).collect()
    };
    parts.reduce(sum).unwrap_or_default()
}

fn row(figure: &Figure, labels: &[&str], again: Option<&Again<'_>>) -> Row {
    let of_run = labels.iter().filter(|label| figure.cells.contains_key(**label)).copied();
    let published: Vec<usize> =
        (0..labels.len()).filter(|place| figure.cells.contains_key(labels[*place])).collect();
    let alone = figure.cells.keys().map(String::as_str).filter(|label| !labels.contains(label));
    let cells = of_run.chain(alone).map(|label| {
        let place = labels.iter().position(|known| *known == label);
        let measured = place.zip(again).and_then(|(place, again)| match figure.unit.as_str() {
            "rank" => again.rank(place, &published),
            _ => again.median(place),
        });
        let published_value = figure.value(label);
        let ratio = published_value.zip(measured).filter(|_| figure.unit != "rank");
        let ratio = ratio.map(|(then, now)| match figure.better() {
            Better::Lower => then / now,
            Better::Higher => now / then,
        });
        Cell {
            target: label.to_owned(),
            published: figure.cells[label].clone(),
            published_value,
            measured,
            not_measured: None,
            ratio: ratio.filter(|ratio| ratio.is_finite()),
        }
    });
    Row {
        operation: figure.operation.clone(),
        workload: again.map(|again| again.workload.to_owned()).or(figure.workload.clone()),
        phase: figure.phase.clone(),
        unit: figure.unit.clone(),
        missing: figure.missing.clone(),
        cells: cells.collect(),
    }
}

/// Kendall's tau over the pairs of all rows: those in the same order less those in the other, of all.
/// Pairs that are equal then or now count as neither.
fn tau(pairs: &[Pair]) -> Option<f64> {
    let sign = |ratio: f64| f64::from(i8::from(ratio > 1.0) - i8::from(ratio < 1.0));
    let sum: f64 = pairs.iter().map(|pair| sign(pair.then) * sign(pair.now)).sum();
    (!pairs.is_empty()).then(|| sum / pairs.len() as f64)
}

fn words(published: &Published, pairs: &[Pair]) -> Vec<String> {
    if pairs.is_empty() {
        return vec!["No pair of targets has figures then and now.".to_owned()];
    }
    let agreeing = pairs.iter().filter(|pair| pair.agrees() == Some(true)).count();
    let turned: Vec<&Pair> = pairs.iter().filter(|pair| pair.agrees() == Some(false)).collect();
    let open = pairs.len() - agreeing - turned.len();
    let of = counted(pairs.len(), "pair");
    let mut words = vec![format!(
        "Of {of} of targets, {agreeing} are in the order of {}, {} in the other, and {open} are not told apart now or were not then.",
        published.year,
        turned.len()
    )];
    let mut farthest = turned;
    let change = |pair: &Pair| (pair.now / pair.then).ln().abs();
    farthest.sort_by(|a, b| change(b).total_cmp(&change(a)));
    let is_rank = |pair: &Pair| {
        let mut own = published.figures.iter().filter(|it| it.operation == pair.operation);
        own.any(|figure| figure.unit == "rank")
    };
    words.extend(farthest.into_iter().take(NAMED).map(|pair| {
        let Pair { operation, workload, a, b, then, .. } = pair;
        let then = match is_rank(pair) {
            true if *then > 1.0 => "ahead then".to_owned(),
            true => "behind then".to_owned(),
            false => format!("{then:.2} then"),
        };
        format!("{a}/{b}, {workload}, {operation}: {then}, {} now.", pair.now_text())
    }));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(then: f64, now: f64, ends: Option<(f64, f64)>) -> Pair {
        Pair {
            operation: "create".to_owned(),
            workload: "w".to_owned(),
            a: "xfs".to_owned(),
            b: "ext3".to_owned(),
            then,
            now,
            now_low: ends.map(|ends| ends.0),
            now_high: ends.map(|ends| ends.1),
        }
    }

    #[test]
    fn what_timed_out_is_not_available_and_what_was_done_counts() {
        let mut late = crate::fixture::trial("ext3", 1, &[("create", 2.0)]);
        late.outcome = Outcome::TimedOut { stage: "tar".to_owned(), error: "43 %".to_owned() };
        let mut skipped = crate::fixture::trial("jfs", 1, &[]);
        skipped.outcome = Outcome::Skipped { reason: "no jfs".to_owned() };
        let trials = with_timed_out(&[late, skipped]);
        assert_eq!(trials[0].outcome, Outcome::Completed);
        let cell = |target: &str, measured| Cell {
            target: target.to_owned(),
            published: "1".to_owned(),
            published_value: Some(1.0),
            measured,
            not_measured: None,
            ratio: None,
        };
        let mut row = Row {
            operation: "read".to_owned(),
            workload: Some(crate::fixture::WORKLOAD.to_owned()),
            phase: Some("tar".to_owned()),
            unit: "s".to_owned(),
            missing: None,
            cells: vec![cell("ext3", None), cell("jfs", None), cell("ext3", Some(2.0))],
        };
        tell_unmeasured(&mut row, &Plan::new(false), &trials);
        let told: Vec<_> = row.cells.iter().map(|cell| cell.not_measured.as_deref()).collect();
        assert_eq!(told, [Some("timed out in tar: 43 %"), Some("skipped: no jfs"), None]);
    }

    #[test]
    fn phases_of_a_whole_are_added_without_fsck() {
        let trials = [
            crate::fixture::trial("ext4", 1, &[("create", 2.0), ("read", 3.0), ("fsck", 9.0)]),
            crate::fixture::trial("ext4", 2, &[("create", 4.0)]),
        ];
        let order =
            WorkloadOrder { label: crate::fixture::WORKLOAD, phases: vec!["create", "read"] };
        let series = Series::collect(&["ext4"], &order, &trials);
        let metric = metric::find("elapsed_s").unwrap();
        let of = |name: &str| {
            let phases = phases_of(&series, name);
            added(phases.iter().map(|phase| series.blocks(phase, 0, metric)))
        };
        assert_eq!(of(WHOLE), Blocks::from([(1, 5.0)]));
        assert_eq!(of("create"), Blocks::from([(1, 2.0), (2, 4.0)]));
        assert_eq!(of("write"), Blocks::new());
    }

    #[test]
    fn orders_agree_or_do_not() {
        let same = pair(1.26, 1.1, Some((1.05, 1.2)));
        let other = pair(1.26, 0.84, Some((0.79, 0.9)));
        let open = pair(1.26, 0.95, Some((0.8, 1.1)));
        let single = pair(1.26, 0.5, None);
        let equal = pair(1.0, 0.5, Some((0.4, 0.6)));
        let told = [&same, &other, &open, &single, &equal].map(Pair::agrees);
        assert_eq!(told, [Some(true), Some(false), None, None, None]);
        assert_eq!(tau(&[same.clone(), same.clone(), same.clone()]), Some(1.0));
        assert_eq!(tau(&[same, other, equal, single]), Some(-0.25));
        assert_eq!(tau(&[]), None);
    }
}
