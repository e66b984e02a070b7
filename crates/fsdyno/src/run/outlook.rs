//! What a plan will do, in words: how many trials, and what ends them. How long they take is not known
//! before some have run.

use fsdyno_model::plan::Plan;
use fsdyno_model::units;
use fsdyno_model::words::counted;
use fsdyno_model::yardstick::reading_ns;

use crate::store::earlier::Earlier;

/// `2 targets × 1 workload × 5 to 20 trials = 10 to 40 trials, and 2 traced`.
#[must_use]
pub fn extent(plan: &Plan) -> String {
    let (targets, workloads) = (plan.targets.len(), plan.workloads.len());
    let traced = match plan.explained_targets().count() * workloads {
        0 => String::new(),
        count => format!(", and {count} traced"),
    };
    let each = trials(plan.min_trials() as usize, plan.trials as usize);
    let all = trials(plan.least_trial_count(), plan.trial_count());
    let (targets, workloads) = (counted(targets, "target"), counted(workloads, "workload"));
    format!("{targets} × {workloads} × {each} = {all}{traced}")
}

/// What ends the trials, in sentences; empty where their number is fixed and no time is set.
#[must_use]
pub fn ending(plan: &Plan) -> String {
    let mut sentences = Vec::new();
    if let Some(rule) = plan.stop.filter(|rule| rule.min_trials < plan.trials) {
        let resolution = rule.resolution();
        let settled = match plan.targets.len() {
            0 | 1 => format!("its figures are known within ±{resolution}"),
            _ => {
                format!("its comparisons are settled: told apart, or the same within ±{resolution}")
            }
        };
        sentences.push(format!("The trials of a workload end once {settled}."));
        if let Some(limit_s) = plan.further_time_s {
            let (least, limit) = (rule.min_trials, time_text(limit_s));
            sentences.push(format!("After {limit} none beyond the first {least} starts."));
        }
    }
    if let Some(limit_s) = plan.max_time_s {
        sentences.push(format!("After {} no trial starts.", time_text(limit_s)));
    }
    if plan.stop.is_some() && !plan.ladders.is_empty() {
        sentences.push(format!(
            "A calibration needs a fixed number of trials: each load gets {}.",
            plan.min_trials()
        ));
    }
    sentences.join(" ")
}

/// What the yardstick takes, in a sentence; empty where it is not read.
fn between(plan: &Plan) -> String {
    if !plan.yardstick {
        return String::new();
    }
    let time = units::human_duration(reading_ns(plan.quick));
    format!(
        "Between trials the machine itself is timed, about {time} each (not with --no-yardstick)."
    )
}

/// All in a line.
#[must_use]
pub fn text(plan: &Plan) -> String {
    let sentences = [format!("{}.", extent(plan)), ending(plan), between(plan)];
    let sentences: Vec<String> = sentences.into_iter().filter(|it| !it.is_empty()).collect();
    sentences.join(" ")
}

/// How long all will take, going by an earlier run.
#[must_use]
pub fn duration(plan: &Plan, earlier: &Earlier) -> String {
    let targets = plan.targets.len() as u64;
    let read_ns = if plan.yardstick { reading_ns(plan.quick) } else { 0 };
    let time = |trials: &dyn Fn(usize) -> u32| -> u64 {
        let each = earlier.trial_ns.iter().enumerate();
        let measured = each.map(|(index, ns)| {
            let ns = ns.saturating_add(read_ns);
            ns.saturating_mul(targets * u64::from(trials(index)))
        });
        let explained = plan.explained_targets().count() as u64;
        let traced = earlier.trial_ns.iter().map(|ns| ns.saturating_mul(explained));
        measured.chain(traced).fold(0, u64::saturating_add)
    };
    let (mut least_ns, mut most_ns) =
        (time(&|_| plan.min_trials()), time(&|index| plan.trials_of(index)));
    let limit_ns = |limit_s: u64| limit_s.saturating_mul(1_000_000_000);
    if let Some(limit_s) = plan.further_time_s {
        most_ns = most_ns.min(limit_ns(limit_s)).max(least_ns);
    }
    if let Some(limit_s) = plan.max_time_s {
        (least_ns, most_ns) = (least_ns.min(limit_ns(limit_s)), most_ns.min(limit_ns(limit_s)));
    }
    let (least, most) = (units::human_duration(least_ns), units::human_duration(most_ns));
    let time = if least == most { least } else { format!("{least} to {most}") };
    format!("Going by run {}, that takes about {time}.", earlier.run_id)
}

/// A time limit as users write it: `90 s`, `10 min`, `1 h`, `1 h 30 min`.
#[must_use]
pub fn time_text(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    match (hours, minutes, seconds % 60) {
        (0, _, 1..) | (0, 0, 0) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (hours, 0, 0) => format!("{hours} h"),
        (hours, minutes, 0) => format!("{hours} h {minutes} min"),
        (_, _, 1..) => format!("{seconds} s"),
    }
}

/// `5 to 20 trials`, `1 trial`.
fn trials(least: usize, most: usize) -> String {
    if least == most { counted(most, "trial") } else { format!("{} trials", range(least, most)) }
}

/// `5 to 20`, or `5` where both are the same.
pub(super) fn range(least: usize, most: usize) -> String {
    if least == most { most.to_string() } else { format!("{least} to {most}") }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::stop::{Asked, Trials};
    use fsdyno_model::target::TargetSpec;
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;

    fn plan(asked: Asked, workload: &str) -> Plan {
        let mut plan = Plan::new(false);
        asked.apply(&mut plan);
        crate::catalogue::with_names(|names| {
            let targets = ["a=dir:/srv", "b=dir:/srv"];
            plan.targets.extend(targets.map(|text| TargetSpec::parse(text, names).unwrap()));
            plan.workloads.push(WorkloadSpec::parse(workload, false, names).unwrap());
        });
        plan.expand(crate::catalogue::climb).unwrap()
    }

    #[test]
    fn what_will_happen_is_told() {
        let auto = plan(Asked::default(), "small-files");
        assert_eq!(extent(&auto), "2 targets × 1 workload × 5 to 20 trials = 10 to 40 trials");
        let told = ending(&auto);
        for words in ["the same within ±3 %", "After 1 h none beyond the first 5 starts."] {
            assert!(told.contains(words), "{told}");
        }
        let fixed = Asked { trials: Some(Trials::Fixed(3)), ..Asked::default() };
        let fixed = plan(fixed, "small-files");
        assert_eq!(extent(&fixed), "2 targets × 1 workload × 3 trials = 6 trials");
        assert_eq!(ending(&fixed), "");
        let told = "2 targets × 1 workload × 3 trials = 6 trials. Between trials the machine itself is timed, about 1.00 s each (not with --no-yardstick).";
        assert_eq!(text(&fixed), told);
        let bound = Plan { max_time_s: Some(5400), ..fixed };
        assert_eq!(ending(&bound), "After 1 h 30 min no trial starts.");
        let few = plan(Asked { max_trials: Some(4), ..Asked::default() }, "small-files");
        assert_eq!(extent(&few), "2 targets × 1 workload × 4 trials = 8 trials");
        assert_eq!(ending(&few), "");
    }

    #[test]
    fn an_earlier_run_tells_how_long_it_may_take() {
        let earlier = Earlier { run_id: "1".to_owned(), trial_ns: vec![60_000_000_000] };
        let timed = plan(Asked::default(), "small-files");
        let told = |plan: &Plan| duration(plan, &earlier);
        assert_eq!(told(&timed), "Going by run 1, that takes about 10m 10s to 40m 40s.");
        let auto = Plan { yardstick: false, ..timed };
        assert_eq!(told(&auto), "Going by run 1, that takes about 10m 00s to 40m 00s.");
        let bound = Plan { further_time_s: Some(1200), ..auto.clone() };
        assert_eq!(told(&bound), "Going by run 1, that takes about 10m 00s to 20m 00s.");
        let bound = Plan { max_time_s: Some(300), ..auto.clone() };
        assert_eq!(told(&bound), "Going by run 1, that takes about 5m 00s.");
        let fixed = Plan { stop: None, trials: 3, ..auto };
        assert_eq!(told(&fixed), "Going by run 1, that takes about 6m 00s.");
    }

    #[test]
    fn a_calibration_says_its_number_of_trials() {
        let plan = plan(Asked::default(), "postmark:calibrate=true");
        assert_eq!(plan.trial_count(), plan.least_trial_count());
        assert!(ending(&plan).contains("each load gets 5."), "{}", ending(&plan));
    }

    #[test]
    fn limits_read_as_they_are_written() {
        for (seconds, text) in [
            (0, "0 s"),
            (90, "90 s"),
            (600, "10 min"),
            (3600, "1 h"),
            (5400, "1 h 30 min"),
            (3601, "3601 s"),
        ] {
            assert_eq!(time_text(seconds), text);
        }
    }
}
