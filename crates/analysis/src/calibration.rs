//! Calibration: whether a rung of a ladder tells the targets apart, whether a heavier one is to be
//! tried, and what came of it in words. What the rungs are is known to the workload.
//!
//! A rung tells two targets apart as a phase does: the paired t over the blocks, with Holm's correction
//! over all pairs of the rung. Whoever looks after every rung looks several times, so that each look
//! gets its share of the 5 %: the chance of even one false difference holds for the ladder as a whole.

use std::collections::BTreeSet;

use fsdyno_model::ladder::Ladder;
use fsdyno_model::metric::{self, Better};
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::units;

use crate::compare::{self, Blocks, FAMILY_ERROR};
use crate::interval;
use crate::series::{Series, WorkloadOrder};
use crate::stopping::Looks;

/// Why a search went no further than a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Its trials are not all there.
    Unfinished,
    /// It told every pair of targets apart.
    ToldApart,
    /// Fewer than two targets completed enough trials of it.
    TooFew,
    /// It is the last.
    Top,
    /// The time is spent.
    Budget,
}

/// Why the rung with this index of `ladder` is not tried, given the trials of the rungs before it;
/// `None` when it is.
#[must_use]
pub fn skip_reason(
    plan: &Plan,
    ladder: &Ladder,
    rung_index: usize,
    trials: &[TrialRecord],
) -> Option<String> {
    let search = Search { plan, ladder, trials };
    (0..rung_index).find_map(|before| {
        let number = before + 1;
        match search.end(before)? {
            End::Unfinished | End::Top => None,
            End::ToldApart => Some(format!("rung {number} told all targets apart")),
            End::TooFew => Some(format!("fewer than two targets completed rung {number}")),
            End::Budget => Some(format!(
                "the budget of {} was spent after rung {number} (calibrate_budget)",
                budget(ladder)
            )),
        }
    })
}

/// Labels of the rungs that were left out because of those before them: not to have run is their right
/// end.
#[must_use]
pub fn left_out<'a>(plan: &'a Plan, trials: &[TrialRecord]) -> BTreeSet<&'a str> {
    let behind = |ladder: &'a Ladder| {
        let rungs = tried_count(plan, ladder, trials)..ladder.rung_count;
        rungs.filter_map(|rung| plan.workloads.get(ladder.workload_index(rung)))
    };
    plan.ladders.iter().flat_map(behind).map(|workload| workload.label.as_str()).collect()
}

/// How many rungs, from the first, were tried or are still to be; those behind were left out.
#[must_use]
pub fn tried_count(plan: &Plan, ladder: &Ladder, trials: &[TrialRecord]) -> usize {
    Search { plan, ladder, trials }.last().0 + 1
}

/// Whether the search ended with targets that it did not tell apart, or has not ended. What the last
/// rung says over all its phases would then read as if it had.
#[must_use]
pub fn is_undecided(plan: &Plan, ladder: &Ladder, trials: &[TrialRecord]) -> bool {
    let end = Search { plan, ladder, trials }.last().1;
    matches!(end, End::Unfinished | End::Top | End::Budget)
}

/// The parameters in which rungs differ, with the values that the rung with this index has:
/// `number=8000, transactions=8000`. Empty where nothing differs.
#[must_use]
pub fn load(rungs: &[&Params], rung_index: usize) -> String {
    let value_of = |rung: usize, name: &str| {
        rungs.get(rung)?.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    };
    let names = rungs.first().into_iter().flat_map(|first| first.iter().map(|(name, _)| name));
    let differs =
        |name: &&str| (1..rungs.len()).any(|rung| value_of(rung, name) != value_of(0, name));
    let told: Vec<String> = names
        .filter(differs)
        .filter_map(|name| Some(format!("{name}={}", value_of(rung_index, name)?)))
        .collect();
    told.join(", ")
}

/// What came of the search, in a few sentences.
#[must_use]
pub fn verdict(plan: &Plan, ladder: &Ladder, trials: &[TrialRecord]) -> String {
    let search = Search { plan, ladder, trials };
    let (last, end) = search.last();
    let standing = search.standing(last);
    let load = search.load(last);
    let tied = standing.tied_text();
    let text = match end {
        End::Unfinished => format!("The search is not finished; it is at {load}."),
        End::ToldApart if last == 0 => {
            format!("The first load told all targets apart: {load}: {}.", standing.ranking)
        }
        End::ToldApart => format!(
            "The first load ({}) could not tell them all apart; {load} did: {}.",
            search.params(0),
            standing.ranking
        ),
        End::TooFew => format!(
            "Fewer than two targets completed {load}, so that no heavier load was tried{}.",
            match last {
                0 => String::new(),
                _ => format!(
                    "; {} did not tell {} apart",
                    search.load(last - 1),
                    search.standing(last - 1).tied_text()
                ),
            }
        ),
        End::Top => format!("Even {load} did not tell {tied} apart: {}.", standing.ranking),
        End::Budget => format!(
            "The budget of {} was spent after {load}, which did not tell {tied} apart: {}. Give more (calibrate_budget) for heavier loads.",
            budget(ladder),
            standing.ranking
        ),
    };
    if matches!(end, End::Unfinished | End::TooFew) {
        return text;
    }
    let rungs = ladder.rung_count;
    format!("{text} (In {}, every pair, at 5 % for all {rungs} rungs together.)", ladder.phase)
}

fn budget(ladder: &Ladder) -> String {
    units::human_duration(ladder.budget_s.saturating_mul(1_000_000_000))
}

struct Search<'a> {
    plan: &'a Plan,
    ladder: &'a Ladder,
    trials: &'a [TrialRecord],
}

/// What a rung says of the targets.
struct Standing {
    /// Targets with enough trials to be compared.
    compared: usize,
    /// Pairs of these that it did not tell apart.
    tied: Vec<(String, String)>,
    /// The targets with their medians, best first.
    ranking: String,
}

impl Standing {
    /// `ext4 and xfs`, or `ext4 and xfs, nor xfs and btrfs`.
    fn tied_text(&self) -> String {
        let pairs: Vec<String> = self.tied.iter().map(|(a, b)| format!("{a} and {b}")).collect();
        pairs.join(", nor ")
    }
}

impl<'a> Search<'a> {
    /// The last rung that was tried, or is, and why it is the last.
    fn last(&self) -> (usize, End) {
        let ends = (0..self.ladder.rung_count).find_map(|rung| Some((rung, self.end(rung)?)));
        ends.unwrap_or((self.ladder.rung_count.saturating_sub(1), End::Top))
    }

    /// Why no rung after this one is tried; `None` when the next is.
    fn end(&self, rung_index: usize) -> Option<End> {
        let label = self.label(rung_index);
        let own = || self.measured().filter(|trial| trial.workload == label);
        let trials = self.plan.trials_of(self.ladder.workload_index(rung_index));
        let planned = self.plan.targets.len() * trials as usize;
        if own().filter(|trial| trial.outcome.is_final()).count() < planned {
            return Some(End::Unfinished);
        }
        let standing = self.standing(rung_index);
        if standing.compared < 2 {
            Some(End::TooFew)
        } else if standing.tied.is_empty() {
            Some(End::ToldApart)
        } else if rung_index + 1 >= self.ladder.rung_count {
            Some(End::Top)
        } else if self.spent_ns(rung_index) >= self.ladder.budget_s.saturating_mul(1_000_000_000) {
            Some(End::Budget)
        } else {
            None
        }
    }

    /// Time of all trials up to this rung.
    fn spent_ns(&self, rung_index: usize) -> u64 {
        let labels: BTreeSet<&str> = (0..=rung_index).map(|rung| self.label(rung)).collect();
        let own = self.measured().filter(|trial| labels.contains(trial.workload.as_str()));
        own.filter_map(|trial| trial.elapsed_ns).sum()
    }

    fn measured(&self) -> impl Iterator<Item = &'a TrialRecord> {
        self.trials.iter().filter(|trial| trial.role == Role::Measured)
    }

    fn label(&self, rung_index: usize) -> &'a str {
        let workload = self.plan.workloads.get(self.ladder.workload_index(rung_index));
        workload.map_or("", |workload| workload.label.as_str())
    }

    fn standing(&self, rung_index: usize) -> Standing {
        let labels: Vec<&str> = self.plan.targets.iter().map(|it| it.label.as_str()).collect();
        let order = WorkloadOrder { label: self.label(rung_index), phases: Vec::new() };
        let series = Series::collect(&labels, &order, self.trials);
        let phase = series.phases.iter().find(|phase| **phase == self.ladder.phase).copied();
        let metric = phase.and_then(|phase| metric::find(series.primary_metric(phase)?));
        let (Some(phase), Some(metric)) = (phase, metric) else {
            return Standing { compared: 0, tied: Vec::new(), ranking: String::new() };
        };
        let looks = Looks::of(self.plan);
        let mut measured: Vec<(&str, Blocks)> = (labels.iter().enumerate())
            .map(|(target, label)| (*label, series.blocks(phase, target, metric)))
            .filter(|(_, blocks)| blocks.len() >= 2 || looks.is_exact(blocks.len()))
            .collect();
        let median = |blocks: &Blocks| {
            interval::median(&blocks.values().copied().collect::<Vec<f64>>()).unwrap_or(f64::NAN)
        };
        measured.sort_by(|(_, a), (_, b)| match metric.better {
            Some(Better::Lower) => median(a).total_cmp(&median(b)),
            _ => median(b).total_cmp(&median(a)),
        });
        let ranking: Vec<String> = measured
            .iter()
            .map(|(label, blocks)| {
                let value = units::significant(median(blocks));
                format!("{label} {value} {}", metric.unit).trim_end().to_owned()
            })
            .collect();
        Standing {
            compared: measured.len(),
            tied: self.tied(&measured),
            ranking: ranking.join(", "),
        }
    }

    /// The pairs that are not told apart.
    fn tied(&self, measured: &[(&str, Blocks)]) -> Vec<(String, String)> {
        let pairs: Vec<(usize, usize)> = (0..measured.len())
            .flat_map(|a| (a + 1..measured.len()).map(move |b| (a, b)))
            .collect();
        let looks = Looks::of(self.plan);
        let p: Vec<Option<f64>> = pairs
            .iter()
            .map(|(a, b)| compare::paired(&measured[*a].1, &measured[*b].1, &looks).p)
            .collect();
        let share = FAMILY_ERROR / self.ladder.rung_count.max(1) as f64;
        let apart = compare::holm(&p).into_iter().map(|p| p.is_some_and(|p| p <= share));
        let name = |index: usize| measured[index].0.to_owned();
        let tied = pairs.iter().zip(apart).filter(|(_, apart)| !apart);
        tied.map(|((a, b), _)| (name(*a), name(*b))).collect()
    }

    /// `rung 3 (number=8000, transactions=8000)`.
    fn load(&self, rung_index: usize) -> String {
        format!("rung {} ({})", rung_index + 1, self.params(rung_index))
    }

    /// The parameters in which the rungs differ, as this one has them.
    fn params(&self, rung_index: usize) -> String {
        let workloads = self.plan.workloads.iter().skip(self.ladder.first_index);
        let rungs: Vec<&Params> =
            workloads.take(self.ladder.rung_count).map(|workload| &workload.params).collect();
        load(&rungs, rung_index)
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::ladder::Climb;
    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::param::{ParamDef, ParamKind, Params};
    use fsdyno_model::target::{Ground, TargetSpec};
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;
    use crate::fixture;

    const fn number(name: &'static str) -> ParamDef {
        let kind = ParamKind::Count { min: 0, max: u64::MAX };
        ParamDef { name, kind, default: "1", quick: None, doc: "", check: None }
    }

    const PARAMS: &[ParamDef] = &[number("number"), number("numjobs")];

    /// Three rungs for targets `a`, `b` …, three trials, ten minutes.
    fn plan(target_count: usize) -> Plan {
        let target = |index: usize| TargetSpec {
            label: char::from(b'a' + index as u8).to_string(),
            ground: Ground::Directory { path: "/".into() },
        };
        let (label, kind) = ("postmark".to_owned(), "postmark".to_owned());
        let rungs = ["500", "2000", "8000"].map(|files| {
            let mut params = Params::defaults(PARAMS, false);
            params.set(PARAMS, "number", files).unwrap();
            params
        });
        let plan = Plan {
            trials: 3,
            targets: (0..target_count).map(target).collect(),
            workloads: vec![WorkloadSpec {
                label,
                kind,
                params: Params::default(),
                definition: None,
            }],
            ..Plan::new(false)
        };
        let (rungs, phase) = (rungs.to_vec(), "transactions".to_owned());
        plan.expand(|_| Some(Climb { rungs: rungs.clone(), phase: phase.clone(), budget_s: 600 }))
            .unwrap()
    }

    /// Three trials of each target on a rung, which take about so many seconds.
    fn rung(number: usize, seconds: &[f64]) -> Vec<TrialRecord> {
        let mut trials = Vec::new();
        for trial in 1..=3 {
            for (index, seconds) in seconds.iter().enumerate() {
                // Within one per cent, and never the same for two targets.
                let noise = 1.0 + f64::from((trial * 7 + index as u32 * 3) % 5) / 500.0;
                let target = char::from(b'a' + index as u8).to_string();
                let phases = [("create", 1.0), ("transactions", seconds * noise)];
                let mut record = fixture::trial(&target, trial, &phases);
                record.workload = format!("postmark rung {number}");
                record.elapsed_ns = Some(20_000_000_000);
                trials.push(record);
            }
        }
        trials
    }

    fn reasons(plan: &Plan, trials: &[TrialRecord]) -> Vec<Option<String>> {
        (0..3).map(|rung| skip_reason(plan, &plan.ladders[0], rung, trials)).collect()
    }

    #[test]
    fn the_search_ends_where_targets_are_told_apart() {
        let plan = plan(2);
        let mut trials = rung(1, &[1.0, 1.0]);
        assert_eq!(reasons(&plan, &trials)[..2], [None, None]);
        trials.extend(rung(2, &[1.0, 1.5]));
        let told = Some("rung 2 told all targets apart".to_owned());
        assert_eq!(reasons(&plan, &trials), [None, None, told]);
        assert_eq!(tried_count(&plan, &plan.ladders[0], &trials), 2);
        assert_eq!(left_out(&plan, &trials), BTreeSet::from(["postmark rung 3"]));
        assert!(!is_undecided(&plan, &plan.ladders[0], &trials));
        let words = verdict(&plan, &plan.ladders[0], &trials);
        assert!(
            words.starts_with("The first load (number=500) could not tell them all apart; rung 2 (number=2000) did: a 1.00 s, b 1.5"),
            "{words}"
        );
        assert!(words.contains("at 5 % for all 3 rungs together"), "{words}");
        let words = verdict(&plan, &plan.ladders[0], &rung(1, &[2.0, 1.0]));
        assert!(
            words.starts_with("The first load told all targets apart: rung 1 (number=500): b 1.0"),
            "{words}"
        );
    }

    #[test]
    fn every_pair_counts() {
        let plan = plan(3);
        let trials = rung(1, &[1.0, 1.5, 1.5]);
        assert_eq!(reasons(&plan, &trials)[1], None, "b and c are alike");
        let told = reasons(&plan, &rung(1, &[1.0, 1.5, 3.0]))[1].clone();
        assert_eq!(told.as_deref(), Some("rung 1 told all targets apart"));
    }

    #[test]
    fn the_same_target_twice_ends_at_the_top_or_with_the_budget() {
        let mut plan = plan(2);
        let mut trials = Vec::new();
        for number in 1..=3 {
            assert_eq!(reasons(&plan, &trials)[number - 1], None);
            trials.extend(rung(number, &[1.0, 1.0]));
        }
        let words = verdict(&plan, &plan.ladders[0], &trials);
        assert!(
            words.starts_with("Even rung 3 (number=8000) did not tell a and b apart: "),
            "{words}"
        );
        assert_eq!(tried_count(&plan, &plan.ladders[0], &trials), 3);
        assert!(is_undecided(&plan, &plan.ladders[0], &trials));

        // Each rung takes 6 × 20 s.
        plan.ladders[0].budget_s = 121;
        trials.truncate(12);
        // The time of trials that are only traced counts in no budget, nor do their figures.
        let mut traced = rung(1, &[1.0, 9.0]);
        for trial in &mut traced {
            (trial.trial, trial.role) = (4, Role::Explain);
        }
        plan.ladders[0].budget_s = 600;
        let untraced = reasons(&plan, &trials);
        trials.extend(traced);
        assert_eq!(reasons(&plan, &trials), untraced);
        plan.ladders[0].budget_s = 121;
        let reason = reasons(&plan, &trials);
        assert_eq!(reason[..2], [None, None]);
        let budget = "the budget of 2m 01s was spent after rung 2 (calibrate_budget)";
        assert_eq!(reason[2].as_deref(), Some(budget));
        let words = verdict(&plan, &plan.ladders[0], &trials);
        assert!(
            words.contains("after rung 2 (number=2000), which did not tell a and b"),
            "{words}"
        );
        assert!(is_undecided(&plan, &plan.ladders[0], &trials));
    }

    #[test]
    fn a_rung_that_too_few_complete_is_the_last() {
        let plan = plan(2);
        let mut trials = rung(1, &[1.0, 1.0]);
        trials.extend(rung(2, &[1.0, 2.0]));
        for trial in trials.iter_mut().filter(|it| it.workload.ends_with('2') && it.target == "b") {
            let (stage, error) = ("create".to_owned(), "full".to_owned());
            trial.outcome = Outcome::Failed { stage, error };
        }
        let reason = reasons(&plan, &trials)[2].clone();
        assert_eq!(reason.as_deref(), Some("fewer than two targets completed rung 2"));
        let words = verdict(&plan, &plan.ladders[0], &trials);
        assert!(words.contains("; rung 1 (number=500) did not tell a and b apart."), "{words}");
    }

    #[test]
    fn a_search_that_is_not_finished_says_so() {
        let plan = plan(2);
        let mut trials = rung(1, &[1.0, 1.5]);
        trials.pop();
        assert_eq!(reasons(&plan, &trials), [None, None, None]);
        let words = verdict(&plan, &plan.ladders[0], &trials);
        assert_eq!(words, "The search is not finished; it is at rung 1 (number=500).");
    }
}
