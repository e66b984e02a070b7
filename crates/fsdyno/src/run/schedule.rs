//! The order of trials: seeded random blocks, so that a drift of the machine hits all targets alike.
//!
//! A block holds one trial of every target on one workload; blocks follow each other trial by
//! trial. The heavier rungs of a ladder come after that, all trials of the second, then all of the third,
//! since each is tried only if the one before told too little. Where trials end once the comparisons are
//! settled, the order holds all that may be made; which of them are not is left to `stopping`. Trials that are only traced come last, so
//! that they change nothing for those whose figures count. The order is a pure function of the plan:
//! resuming a run computes it again.

use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::target::Ground;
use fsdyno_model::trace::TraceMode;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256StarStar;

/// A trial in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Index of the target in the plan.
    pub target_index: usize,
    /// Index of the workload in the plan.
    pub workload_index: usize,
    /// Number of the trial, from 1.
    pub trial: u32,
    /// What it is for.
    pub role: Role,
    /// Place in the order, from 0.
    pub order: u32,
}

impl Planned {
    /// Its record while it has not begun.
    #[must_use]
    pub fn record(&self, plan: &Plan, outcome: Outcome) -> TrialRecord {
        let target = &plan.targets[self.target_index].label;
        let workload = &plan.workloads[self.workload_index].label;
        let record = TrialRecord::planned(target, workload, self.trial, self.order, outcome);
        TrialRecord { role: self.role, ..record }
    }

    /// Whether `record` is of this trial.
    #[must_use]
    pub fn is_of(&self, plan: &Plan, record: &TrialRecord) -> bool {
        record.trial == self.trial
            && record.role == self.role
            && record.target == plan.targets[self.target_index].label
            && record.workload == plan.workloads[self.workload_index].label
    }

    /// Whether it is of the same block as another.
    #[must_use]
    pub fn is_of_block(&self, other: &Planned) -> bool {
        (self.workload_index, self.trial, self.role)
            == (other.workload_index, other.trial, other.role)
    }

    /// Whether its devices are to be traced.
    #[must_use]
    pub fn is_traced(&self, plan: &Plan) -> bool {
        let is_asked = plan.trace == TraceMode::All || self.role == Role::Explain;
        is_asked && matches!(plan.targets[self.target_index].ground, Ground::Fresh(_))
    }

    /// `ext4 compilebench trial 3`, for people.
    #[must_use]
    pub fn name(&self, plan: &Plan) -> String {
        let target = &plan.targets[self.target_index].label;
        let workload = &plan.workloads[self.workload_index].label;
        match self.role {
            Role::Measured => format!("{target} {workload} trial {}", self.trial),
            Role::Explain => format!("{target} {workload} explain trial"),
        }
    }
}

/// All trials of `plan` in the order of execution.
#[must_use]
pub fn schedule(plan: &Plan) -> Vec<Planned> {
    let mut random = Xoshiro256StarStar::seed_from_u64(plan.seed);
    let explained: Vec<usize> = plan.explained_targets().collect();
    let explain_count = explained.len() * plan.workloads.len();
    let mut planned = Vec::with_capacity(plan.trial_count() + explain_count);
    let rung_of = |workload_index| plan.ladder_of(workload_index).map_or(0, |(_, rung)| rung);
    let round_count = plan.ladders.iter().map(|ladder| ladder.rung_count).max().unwrap_or(1);
    for round in 0..round_count {
        let workloads: Vec<usize> =
            (0..plan.workloads.len()).filter(|workload| rung_of(*workload) == round).collect();
        for trial in 1..=plan.trials {
            let due = workloads.iter().filter(|workload| trial <= plan.trials_of(**workload));
            for workload_index in due {
                block(plan, *workload_index, trial, &mut random, &mut planned);
            }
        }
    }
    for workload_index in 0..plan.workloads.len() {
        for target_index in explained.iter().copied() {
            let (trial, role) = (plan.trials.saturating_add(1), Role::Explain);
            let order = order_after(&planned);
            planned.push(Planned { target_index, workload_index, trial, role, order });
        }
    }
    planned
}

fn order_after(planned: &[Planned]) -> u32 {
    u32::try_from(planned.len()).expect("a plan has fewer than 2^32 trials")
}

/// One trial of every target on one workload, in an order that is drawn.
fn block(
    plan: &Plan,
    workload_index: usize,
    trial: u32,
    random: &mut Xoshiro256StarStar,
    planned: &mut Vec<Planned>,
) {
    let mut block: Vec<usize> = (0..plan.targets.len()).collect();
    // Fisher and Yates; our own loop, because the order must not change with the library.
    for end in (1..block.len()).rev() {
        let word: u64 = random.random();
        let pick = (u128::from(word) * (end as u128 + 1)) >> 64;
        block.swap(end, usize::try_from(pick).expect("below the block's length"));
    }
    for target_index in block {
        let (role, order) = (Role::Measured, order_after(planned));
        planned.push(Planned { target_index, workload_index, trial, role, order });
    }
}

/// Seed of one trial: the same for all targets of a block, so that all do the same work.
#[must_use]
pub fn trial_seed(plan: &Plan, planned: &Planned) -> u64 {
    // SplitMix64's finalizer over the seed and the block.
    let mut z = plan
        .seed
        .wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(planned.trial)))
        .wrapping_add((planned.workload_index as u64) << 32);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::ladder::Climb;
    use fsdyno_model::param::Params;
    use fsdyno_model::stop::StopRule;
    use fsdyno_model::target::{DeviceSpec, FreshSpec, TargetSpec};
    use fsdyno_model::workload::WorkloadSpec;

    fn plan(targets: usize, workloads: usize, trials: u32, seed: u64) -> Plan {
        let mut plan = Plan::new(false);
        plan.trials = trials;
        plan.seed = seed;
        for index in 0..targets {
            let ground = Ground::Directory { path: format!("/t{index}").into() };
            plan.targets.push(TargetSpec { label: format!("t{index}"), ground });
        }
        for index in 0..workloads {
            let (label, kind) = (format!("w{index}"), "w".to_owned());
            plan.workloads.push(WorkloadSpec {
                label,
                kind,
                params: Params::default(),
                definition: None,
            });
        }
        plan
    }

    #[test]
    fn every_block_holds_each_target_once() {
        for seed in 0..50 {
            let plan = plan(4, 2, 5, seed);
            let planned = schedule(&plan);
            assert_eq!(planned.len(), plan.trial_count());
            for (index, block) in planned.chunks(4).enumerate() {
                let mut targets: Vec<usize> = block.iter().map(|one| one.target_index).collect();
                targets.sort_unstable();
                assert_eq!(targets, [0, 1, 2, 3]);
                assert!(block.iter().all(|one| one.trial as usize == index / 2 + 1));
                assert!(block.iter().all(|one| one.workload_index == index % 2));
            }
        }
    }

    #[test]
    fn the_order_is_a_function_of_the_seed() {
        let order = |seed| -> Vec<usize> {
            schedule(&plan(3, 1, 3, seed)).iter().map(|one| one.target_index).collect()
        };
        // Frozen: a change here makes stored runs impossible to resume.
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(order(1), GOLDEN);
    }

    #[test]
    fn the_first_blocks_are_the_same_whatever_the_greatest_number_is() {
        let fixed = schedule(&plan(3, 2, 5, 9));
        for most in [5, 6, 20, 500] {
            let mut auto = plan(3, 2, most, 9);
            auto.stop = Some(StopRule { resolution_permille: 30, min_trials: 5 });
            assert_eq!(schedule(&auto)[..fixed.len()], fixed);
            assert_eq!(schedule(&auto).len(), most as usize * 6);
        }
    }

    #[test]
    fn rungs_get_the_least_number_of_trials() {
        let mut plan = plan(2, 2, 9, 5);
        plan.stop = Some(StopRule { resolution_permille: 30, min_trials: 4 });
        let rungs = vec![Params::default(); 3];
        let climb = || Climb { rungs: rungs.clone(), phase: "create".to_owned(), budget_s: 1 };
        plan = plan.expand(|spec| (spec.label == "w1").then(climb)).unwrap();
        let planned = schedule(&plan);
        let count = |label: &str| {
            let own = planned.iter().filter(|it| plan.workloads[it.workload_index].label == label);
            own.count()
        };
        let counts = ["w0", "w1 rung 1", "w1 rung 2", "w1 rung 3"].map(count);
        assert_eq!(counts, [18, 8, 8, 8]);
        assert_eq!((planned.len(), plan.trial_count()), (42, 42));
        assert_eq!(plan.least_trial_count(), 32);
    }

    const GOLDEN: [usize; 9] = [0, 1, 2, 2, 0, 1, 1, 0, 2];

    #[test]
    fn rungs_follow_each_other() {
        let mut plan = plan(2, 3, 2, 5);
        let rungs = vec![Params::default(); 3];
        let climb = || Climb { rungs: rungs.clone(), phase: "create".to_owned(), budget_s: 1 };
        plan.trials = 3;
        plan = plan.expand(|spec| (spec.label == "w1").then(climb)).unwrap();
        let labels: Vec<&str> = schedule(&plan)
            .chunks(2)
            .map(|block| {
                assert_eq!(block[0].workload_index, block[1].workload_index);
                plan.workloads[block[0].workload_index].label.as_str()
            })
            .collect();
        let first = ["w0", "w1 rung 1", "w2"];
        assert_eq!(labels[..9], [first, first, first].concat());
        assert_eq!(labels[9..12], ["w1 rung 2"; 3]);
        assert_eq!(labels[12..], ["w1 rung 3"; 3]);
        assert!(schedule(&plan).iter().enumerate().all(|(at, one)| one.order as usize == at));
    }

    #[test]
    fn what_is_only_traced_comes_last_and_changes_no_order() {
        let mut plan = plan(3, 2, 4, 11);
        plan.targets[1].ground = Ground::Fresh(FreshSpec {
            filesystem: "ext4".to_owned(),
            mkfs: Vec::new(),
            mount: String::new(),
            device: DeviceSpec::LoopImage { size_bytes: None },
            journal: None,
            age: None,
            kernel: None,
        });
        let untraced = schedule(&plan);
        for (mode, extra) in [(TraceMode::None, 0), (TraceMode::All, 0), (TraceMode::Explain, 2)] {
            plan.trace = mode;
            let planned = schedule(&plan);
            assert_eq!(planned[..untraced.len()], untraced);
            assert_eq!(planned.len(), untraced.len() + extra);
            for (workload_index, one) in planned[untraced.len()..].iter().enumerate() {
                // Directories serve others too.
                let is = (one.target_index, one.workload_index, one.trial, one.role);
                assert_eq!(is, (1, workload_index, 5, Role::Explain));
            }
            assert!(planned.iter().enumerate().all(|(at, one)| one.order as usize == at));
            let traced = planned.iter().filter(|one| one.is_traced(&plan)).count();
            assert_eq!(traced, if mode == TraceMode::All { 8 } else { extra });
        }
    }

    #[test]
    fn first_places_are_spread() {
        let mut first = [0u32; 3];
        for seed in 0..3000 {
            first[schedule(&plan(3, 1, 1, seed))[0].target_index] += 1;
        }
        assert!(first.iter().all(|count| (850..1150).contains(count)), "{first:?}");
    }

    #[test]
    fn a_block_shares_its_seed() {
        let plan = plan(3, 2, 2, 7);
        let planned = schedule(&plan);
        let seeds: Vec<u64> = planned.iter().map(|one| trial_seed(&plan, one)).collect();
        assert!(seeds[..3].iter().all(|seed| *seed == seeds[0]));
        assert_ne!(seeds[0], seeds[3]);
        assert_ne!(seeds[0], seeds[6]);
    }
}
