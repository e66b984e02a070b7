//! Which trials of a plan with a stop rule are made beyond the least number, and how that ended in words.
//! After each whole block the analysis decides, from the stored records alone, so that a resumed run
//! decides as the whole one would have. Trials that are not made leave no record.

use std::time::Instant;

use fsdyno_analysis::stopping::{self, Decision, Looks};
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::stop::{MAX_TRIALS, StopReason, Stopped, StoppedWorkload};

use super::outlook::{range, time_text};
use super::schedule::Planned;
use crate::catalogue;
use crate::store::Store;

/// How far one workload is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Blocks that are whole, from the first.
    pub trials: u32,
    /// Why no more are made; `None` while they are open.
    pub settled: Option<String>,
    /// What is open, at most a few; empty before the first look.
    pub open: Vec<String>,
}

/// How far the workload with this index is; `None` where the number of its trials is fixed. A block that
/// was begun tells that those before it settled nothing.
#[must_use]
pub fn standing(plan: &Plan, workload_index: usize, trials: &[TrialRecord]) -> Option<Standing> {
    let rule = plan.stop?;
    if plan.ladder_of(workload_index).is_some() {
        return None;
    }
    let label = &plan.workloads[workload_index].label;
    let is_own = |trial: &&TrialRecord| trial.role == Role::Measured && trial.workload == *label;
    let mut own: Vec<TrialRecord> = trials.iter().filter(is_own).cloned().collect();
    own.sort_by_key(|trial| (trial.trial, trial.order));
    let is_whole = |number: u32| {
        plan.targets.iter().all(|target| {
            let mut records = own.iter().filter(|it| it.trial == number);
            records.any(|it| it.target == target.label && it.outcome.is_final())
        })
    };
    let whole = (1..=plan.trials).take_while(|number| is_whole(*number)).count();
    let mut standing =
        Standing { trials: u32::try_from(whole).unwrap_or(plan.trials), ..Standing::default() };
    let looks = Looks::of(plan);
    let looked = (rule.min_trials..=standing.trials).rev().find(|number| looks.is_look(*number));
    if let Some(looked) = looked {
        own.retain(|trial| trial.trial <= looked);
        match stopping::decide(plan, &catalogue::phase_order, workload_index, &own) {
            Decision::Continue { open } => standing.open = open,
            Decision::Settled { sentence } if looked == standing.trials => {
                standing.settled = Some(sentence);
            }
            // It went on, so that it was open then.
            Decision::Settled { .. } => {}
        }
    }
    Some(standing)
}

/// What is known while a run goes on.
pub struct Stopping<'a> {
    plan: &'a Plan,
    started: Instant,
    /// By workload; `None` where the number of trials is fixed.
    standings: Vec<Option<Standing>>,
    time_is_up: bool,
}

impl<'a> Stopping<'a> {
    /// What the records `finished` tell; the time counts from now.
    #[must_use]
    pub fn new(plan: &'a Plan, finished: &[TrialRecord]) -> Stopping<'a> {
        let standings =
            (0..plan.workloads.len()).map(|index| standing(plan, index, finished)).collect();
        Stopping { plan, started: Instant::now(), standings, time_is_up: false }
    }

    /// Whether `planned` is not made; with what has not been told yet.
    pub fn leaves_out(&mut self, planned: &Planned) -> (bool, Option<String>) {
        let is_further = planned.role == Role::Measured && planned.trial > self.plan.min_trials();
        let Some(standing) = &self.standings[planned.workload_index] else {
            return (false, None);
        };
        if !is_further {
            return (false, None);
        }
        if standing.settled.is_some() || self.time_is_up {
            return (true, None);
        }
        let limits = [self.plan.max_time_s, self.plan.further_time_s];
        let limit_s = limits.into_iter().flatten().min();
        self.time_is_up = limit_s.is_some_and(|limit| self.started.elapsed().as_secs() >= limit);
        let told = self.time_is_up.then(|| {
            let workloads = told_workloads(self.plan, &self.standings);
            sentence(self.plan, StopReason::MaxTime, &workloads)
        });
        (self.time_is_up, told)
    }

    /// Looks at the records after the last trial of a block; gives what there is to tell.
    ///
    /// # Errors
    /// Those of the database.
    pub fn after_block(
        &mut self,
        planned: &Planned,
        store: &Store,
        run_id: &str,
    ) -> anyhow::Result<Option<String>> {
        let is_look = planned.role == Role::Measured && planned.trial >= self.plan.min_trials();
        let index = planned.workload_index;
        if !is_look || self.standings[index].is_none() {
            return Ok(None);
        }
        self.standings[index] = standing(self.plan, index, &store.trials(run_id)?);
        let Some(standing) = &self.standings[index] else { return Ok(None) };
        let label = &self.plan.workloads[index].label;
        Ok(match &standing.settled {
            Some(sentence) => Some(format!("{label}: settled: {sentence}")),
            None if standing.trials >= self.plan.trials => {
                let workload = told_workload(self.plan, index, standing);
                Some(sentence(self.plan, StopReason::MaxTrials, &[workload]))
            }
            None => None,
        })
    }

    /// Whether the workload of `planned` takes no more trials.
    #[must_use]
    pub fn is_settled(&self, planned: &Planned) -> bool {
        let standing = self.standings[planned.workload_index].as_ref();
        standing.is_some_and(|standing| standing.settled.is_some())
    }
}

/// How the trials of a run ended; `None` where their number is fixed.
#[must_use]
pub fn stopped(plan: &Plan, is_finished: bool, trials: &[TrialRecord]) -> Option<Stopped> {
    let rule = plan.stop?;
    let standings: Vec<Option<Standing>> =
        (0..plan.workloads.len()).map(|index| standing(plan, index, trials)).collect();
    let workloads = told_workloads(plan, &standings);
    if workloads.is_empty() {
        return None;
    }
    let why = if workloads.iter().all(|workload| workload.settled.is_some()) {
        StopReason::Settled
    } else if workloads.iter().all(|it| it.settled.is_some() || it.trials >= plan.trials) {
        StopReason::MaxTrials
    } else if is_finished {
        StopReason::MaxTime
    } else {
        StopReason::Unfinished
    };
    let sentence = sentence(plan, why, &workloads);
    Some(Stopped { why, sentence, rule, max_trials: plan.trials, workloads })
}

/// The workloads whose number of trials is not fixed.
fn told_workloads(plan: &Plan, standings: &[Option<Standing>]) -> Vec<StoppedWorkload> {
    let with_own = standings.iter().enumerate();
    with_own.filter_map(|(index, it)| Some(told_workload(plan, index, it.as_ref()?))).collect()
}

fn told_workload(plan: &Plan, workload_index: usize, standing: &Standing) -> StoppedWorkload {
    StoppedWorkload {
        workload: plan.workloads[workload_index].label.clone(),
        trials: standing.trials,
        settled: standing.settled.clone(),
        open: standing.open.clone(),
    }
}

/// How it ended, with what is open and what to try.
fn sentence(plan: &Plan, why: StopReason, workloads: &[StoppedWorkload]) -> String {
    let max = plan.trials;
    if why == StopReason::Settled {
        return settled_sentence(plan, workloads);
    }
    let open: Vec<&StoppedWorkload> = workloads.iter().filter(|it| it.settled.is_none()).collect();
    let trials = || open.iter().map(|workload| workload.trials as usize);
    let made = range(trials().min().unwrap_or_default(), trials().max().unwrap_or_default());
    let is_open = is_open(plan, &open);
    match why {
        StopReason::MaxTrials => format!(
            "After {max} trials, the greatest number, {is_open}. Try --max-trials {} (max_trials in a plan), a coarser --resolution or a quieter machine.",
            max.saturating_mul(2).min(MAX_TRIALS)
        ),
        StopReason::MaxTime => {
            let limit_s = plan.max_time_s.or(plan.further_time_s).unwrap_or_default();
            let least = match (plan.max_time_s, plan.min_trials()) {
                (Some(_), _) => String::new(),
                (None, least) => format!(" for trials beyond the first {least}"),
            };
            format!(
                "The time{least}, {}, was up after {made} of at most {max} trials, and {is_open}. Try a longer --max-time (max_time in a plan) or a coarser --resolution.",
                time_text(limit_s)
            )
        }
        StopReason::Settled | StopReason::Unfinished => format!(
            "The run is not finished: after {made} of at most {max} trials {is_open}. fsdyno run --resume goes on."
        ),
    }
}

fn settled_sentence(plan: &Plan, workloads: &[StoppedWorkload]) -> String {
    let several = plan.workloads.len() > 1;
    let each = workloads.iter().filter_map(|workload| {
        let why = workload.settled.as_ref()?;
        Some(if several { format!("{}: {why}", workload.workload) } else { why.clone() })
    });
    let each: Vec<String> = each.collect();
    format!("No more were wanted: {} (at most {}).", each.join("; "), plan.trials)
}

/// `these comparisons are open: create: xfs beside ext4`.
fn is_open(plan: &Plan, open: &[&StoppedWorkload]) -> String {
    let several = plan.workloads.len() > 1;
    let named = open.iter().flat_map(|workload| {
        workload.open.iter().map(move |comparison| match several {
            true => format!("{}, {comparison}", workload.workload),
            false => comparison.clone(),
        })
    });
    let named: Vec<String> = named.collect();
    match named.as_slice() {
        [] => "not everything is settled".to_owned(),
        all if plan.targets.len() < 2 => {
            let resolution = plan.stop.map(|rule| rule.resolution()).unwrap_or_default();
            format!("these are not known within ±{resolution}: {}", all.join("; "))
        }
        [one] => format!("this comparison is open: {one}"),
        all => format!("these comparisons are open: {}", all.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::outcome::Outcome;
    use fsdyno_model::record::PhaseRecord;
    use fsdyno_model::stop::Asked;
    use fsdyno_model::target::TargetSpec;
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;
    use crate::run::schedule::schedule;

    fn plan(max_trials: u32, workloads: &[&str]) -> Plan {
        let mut plan = Plan::new(false);
        Asked { max_trials: Some(max_trials), ..Asked::default() }.apply(&mut plan);
        catalogue::with_names(|names| {
            let targets = ["a=dir:/srv", "b=dir:/srv"];
            plan.targets.extend(targets.map(|text| TargetSpec::parse(text, names).unwrap()));
            let specs = workloads.iter().map(|it| WorkloadSpec::parse(it, false, names).unwrap());
            plan.workloads.extend(specs);
        });
        plan.finish().unwrap()
    }

    /// The first trials of `plan` in their order; `ratio` gives how many times as long `b` takes on a
    /// workload and block.
    fn records(plan: &Plan, count: usize, ratio: impl Fn(usize, u32) -> f64) -> Vec<TrialRecord> {
        let record = |planned: &Planned| {
            let mut record = planned.record(plan, Outcome::Completed);
            let mut phase = PhaseRecord::new("create", "elapsed_s");
            let ratio = ratio(planned.workload_index, planned.trial);
            let noise = 1.0 + f64::from(planned.trial * 7 % 5) / 1000.0;
            let factor = if planned.target_index == 1 { ratio } else { noise };
            phase.elapsed_return_ns = (1e9 * factor) as u64;
            record.phases.push(phase);
            record
        };
        schedule(plan)[..count].iter().map(record).collect()
    }

    /// Twice as fast in one block, half as fast in the next.
    fn swaying(_: usize, block: u32) -> f64 {
        if block.is_multiple_of(2) { 2.0 } else { 0.5 }
    }

    #[test]
    fn whoever_resumes_decides_as_the_whole_run_would_have() {
        let plan = plan(20, &["small-files"]);
        for ratio in [|_: usize, _: u32| 2.0, swaying] {
            for whole in 0..=12u32 {
                let trials = records(&plan, whole as usize * 2, ratio);
                let expected = standing(&plan, 0, &trials).unwrap();
                assert_eq!(expected.trials, whole);
                assert_eq!(expected.settled.is_some(), whole >= 5 && ratio(0, 1) == 2.0);
                // Killed within the next block, and read in any order.
                let mut more = records(&plan, whole as usize * 2 + 1, ratio);
                more.reverse();
                assert_eq!(standing(&plan, 0, &more).unwrap(), expected);
                more[0].outcome = Outcome::Interrupted { stage: "create".to_owned() };
                assert_eq!(standing(&plan, 0, &more).unwrap(), expected);
            }
        }
    }

    #[test]
    fn how_it_ended_is_told() {
        let clear = |_: usize, _: u32| 2.0;
        let (both, one) = (plan(8, &["small-files", "compilebench"]), plan(8, &["small-files"]));
        let mixed = |workload: usize, block| if workload == 0 { 3.0 } else { swaying(0, block) };
        for (plan, trials, is_finished, why, words) in [
            (
                &one,
                records(&one, 10, clear),
                true,
                StopReason::Settled,
                "No more were wanted: the only comparison shows",
            ),
            (&one, records(&one, 10, clear), false, StopReason::Settled, "(at most 8)"),
            (&one, records(&one, 16, swaying), true, StopReason::MaxTrials, "--max-trials 16"),
            (
                &one,
                records(&one, 13, swaying),
                true,
                StopReason::MaxTime,
                "The time for trials beyond the first 5, 1 h, was up after 6 of at most 8 trials, and this comparison is open: create: ",
            ),
            (&one, records(&one, 13, swaying), false, StopReason::Unfinished, "run --resume"),
            (&one, Vec::new(), false, StopReason::Unfinished, "0 of at most 8"),
            (
                &both,
                records(&both, 32, mixed),
                true,
                StopReason::MaxTrials,
                "this comparison is open: compilebench, create: ",
            ),
            (
                &both,
                records(&both, 20, clear),
                true,
                StopReason::Settled,
                "small-files: the only comparison",
            ),
        ] {
            let stopped = stopped(plan, is_finished, &trials).unwrap();
            assert_eq!(stopped.why, why, "{stopped:?}");
            assert!(stopped.sentence.contains(words), "{}", stopped.sentence);
        }
        let fixed = Plan { stop: None, ..one };
        assert_eq!(stopped(&fixed, true, &[]), None);
    }

    #[test]
    fn what_is_settled_or_too_late_is_left_out() {
        let plan = plan(8, &["small-files", "compilebench"]);
        let mixed = |workload: usize, block| if workload == 0 { 3.0 } else { swaying(0, block) };
        let left_out = |plan: &Plan, count: usize| -> Vec<(usize, u32)> {
            let mut stopping = Stopping::new(plan, &records(plan, count, mixed));
            let rest = schedule(plan).split_off(count);
            let left_out = rest.iter().filter(|planned| stopping.leaves_out(planned).0);
            left_out.map(|planned| (planned.workload_index, planned.trial)).collect()
        };
        assert_eq!(left_out(&plan, 20), [(0, 6), (0, 6), (0, 7), (0, 7), (0, 8), (0, 8)]);
        // Too little is there to decide.
        assert_eq!(left_out(&plan, 16), []);
        let late = Plan { further_time_s: Some(0), ..plan.clone() };
        let all = left_out(&late, 16);
        assert_eq!(all.len(), 12);
        assert!(all.iter().all(|(_, trial)| *trial > 5), "{all:?}");
        let mut stopping = Stopping::new(&late, &records(&late, 20, mixed));
        let told = schedule(&late)[20..].iter().filter_map(|it| stopping.leaves_out(it).1).count();
        assert_eq!(told, 1, "that time is up is told once");
    }
}
