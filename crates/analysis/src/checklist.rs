//! The published checklists for filesystem benchmarks, answered item by item from the records of a run.
//! Nobody has to fill them in, and an answer that looks bad is shown like any other.

use std::collections::BTreeSet;

use fsdyno_model::audit::Answer;
use fsdyno_model::cold::{Cold, PROVING_BYTES};
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::Role;
use fsdyno_model::result::{PhaseResult, RunResult, TrialResult};
use fsdyno_model::units;

use crate::interval;

/// Traeger, Zadok, Joukov, Wright: A Nine Year Study of File System and Storage Benchmarking, ACM
/// Transactions on Storage 4(2), 2008.
const TRAEGER: &str = "Traeger and others 2008";
/// Tarasov, Bhanage, Zadok, Seltzer: Benchmarking File System Benchmarking: It *IS* Rocket Science,
/// HotOS 2011.
const TARASOV: &str = "Tarasov and others 2011";

/// One question of a checklist.
struct Item {
    question: &'static str,
    source: &'static str,
    answer: fn(&RunResult) -> String,
}

const fn item(
    question: &'static str,
    source: &'static str,
    answer: fn(&RunResult) -> String,
) -> Item {
    Item { question, source, answer }
}

/// Every question, in the order in which they are shown.
static ITEMS: &[Item] = &[
    item("What is compared, and with which work?", TRAEGER, purpose),
    item("Why this workload?", TRAEGER, why_workload),
    item("Were the targets measured under the same conditions?", TRAEGER, conditions),
    item("How many runs?", TRAEGER, runs),
    item("Who decided how many?", TRAEGER, stopping),
    item("In which order?", TRAEGER, order),
    item("Which spread?", TRAEGER, spread),
    item("Was each run long enough?", TRAEGER, length),
    item("What was cold, what warm?", TRAEGER, cold),
    item("Did the work fit into memory?", TARASOV, memory),
    item("Was what was written on the device when the clock stopped?", TRAEGER, durable),
    item("What state were the filesystems in?", TRAEGER, state),
    item("Which configuration of the filesystems?", TRAEGER, configuration),
    item("Which device, and where on it?", TRAEGER, device),
    item("Which machine and software?", TRAEGER, machine),
    item("What was in the files?", TARASOV, contents),
    item("What else ran on the machine?", TRAEGER, others),
    item("Is there more than one number?", TARASOV, distributions),
    item(
        "Which dimension does each phase measure: device, cache, metadata, processor?",
        TARASOV,
        dimensions,
    ),
    item("Were the results right?", TRAEGER, correctness),
    item("What does measuring itself cost?", TRAEGER, overhead),
    item("What went wrong?", TRAEGER, failures),
    item("Can it be repeated?", TRAEGER, repeat),
];

/// The answers to every question.
#[must_use]
pub fn answers(result: &RunResult) -> Vec<Answer> {
    let answers = ITEMS.iter().map(|item| Answer {
        question: item.question.to_owned(),
        source: item.source.to_owned(),
        answer: (item.answer)(result),
    });
    answers.collect()
}

const UNKNOWN: &str = "The records do not tell.";

fn completed(result: &RunResult) -> impl Iterator<Item = &TrialResult> {
    result
        .trials
        .iter()
        .filter(|trial| trial.role == Role::Measured && trial.outcome == Outcome::Completed)
}

/// The phases of the workloads, without fsck.
fn phases(result: &RunResult) -> impl Iterator<Item = (&TrialResult, &PhaseResult)> {
    let own = completed(result).flat_map(|trial| trial.phases.iter().map(move |it| (trial, it)));
    own.filter(|(_, phase)| phase.name != crate::series::FSCK)
}

fn listed(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    words.join("; ")
}

fn purpose(result: &RunResult) -> String {
    let labels: Vec<&str> = result.targets.iter().map(|target| target.label.as_str()).collect();
    let work: Vec<&str> = result.workloads.iter().map(|own| own.label.as_str()).collect();
    let title = result.run.title.as_ref().map_or_else(String::new, |title| format!("{title}: "));
    format!("{title}{} under {}.", labels.join(", "), work.join(", "))
}

fn why_workload(result: &RunResult) -> String {
    let kinds: BTreeSet<&str> = result.workloads.iter().map(|own| own.kind.as_str()).collect();
    let told: Vec<String> =
        kinds.iter().map(|kind| format!("fsdyno list workloads {kind}")).collect();
    format!(
        "What each models, what it times and where it misleads is printed by: {}. Whether that is the work in question is for whoever asked.",
        told.join(", ")
    )
}

fn conditions(result: &RunResult) -> String {
    let several = result.audit.workloads.len() > 1;
    let told =
        result.audit.workloads.iter().filter(|own| !own.text.is_empty()).map(|own| match several {
            true => format!("{}: {}", own.workload, own.text),
            false => own.text.clone(),
        });
    match listed(told) {
        text if text.is_empty() => "Nothing was compared.".to_owned(),
        text => text,
    }
}

fn runs(result: &RunResult) -> String {
    let mut counts = Vec::new();
    for workload in &result.workloads {
        for target in &result.targets {
            let own = completed(result)
                .filter(|it| it.target == target.label && it.workload == workload.label);
            counts.push(own.count());
        }
    }
    let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    match (least, most) {
        (Some(least), Some(most)) if least == most => {
            format!("{most} completed of each target and workload, each on a target made anew.")
        }
        (Some(least), Some(most)) => {
            format!(
                "Between {least} and {most} completed of each target and workload; {} were planned at most.",
                result.run.trials
            )
        }
        _ => UNKNOWN.to_owned(),
    }
}

fn stopping(result: &RunResult) -> String {
    match &result.run.stopped {
        None => "The number was fixed before the first trial.".to_owned(),
        Some(stopped) => format!(
            "A rule that was fixed before the first trial, with intervals that hold for looking at the figures meanwhile. {}",
            stopped.sentence
        ),
    }
}

fn order(result: &RunResult) -> String {
    format!(
        "In blocks of one trial of every target, at random within a block (seed {}), so that a drift of the machine meets all targets.",
        result.run.seed
    )
}

fn spread(result: &RunResult) -> String {
    let rows = result.summary.iter().filter(|row| row.primary && row.median > 0.0);
    let mut widths: Vec<(f64, String)> = rows
        .filter_map(|row| {
            let half = (row.ci95_high? - row.ci95_low?) / 2.0 / row.median * 100.0;
            let place = format!("{} on {}", row.phase, row.target);
            half.is_finite().then_some((half, place))
        })
        .collect();
    widths.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (Some((most, place)), Some((median, _))) = (widths.last(), widths.get(widths.len() / 2))
    else {
        return "Unknown: there are too few trials for an interval.".to_owned();
    };
    let share = |half: f64| match half > 100.0 {
        true => "more than ±100 %".to_owned(),
        false => format!("±{half:.1} %"),
    };
    format!(
        "95 % intervals of the medians are {} in the middle of all phases and {} at worst ({place}); each is shown beside its median.",
        share(*median),
        share(*most)
    )
}

fn length(result: &RunResult) -> String {
    let shortest = phases(result)
        .map(|(trial, phase)| {
            (phase.elapsed_durable_ns.unwrap_or(phase.elapsed_return_ns), trial, phase)
        })
        .min_by_key(|(elapsed, ..)| *elapsed);
    let Some((elapsed_ns, trial, phase)) = shortest else { return UNKNOWN.to_owned() };
    let elapsed = units::human_duration(elapsed_ns);
    let advice = match elapsed_ns < 1_000_000_000 {
        true => " That is short: timers, caches and single requests weigh much.",
        false => "",
    };
    format!("The shortest phase took {elapsed} ({} on {}).{advice}", phase.name, trial.target)
}

fn cold(result: &RunResult) -> String {
    let mut told: Vec<String> = Vec::new();
    for (_, phase) in phases(result) {
        let way = match phase.cold {
            Some(Cold::Remount) => "after mounting again",
            Some(Cold::DropCaches) => "after dropping caches",
            Some(Cold::None) | None => continue,
        };
        let line = format!("{} {way}", phase.name);
        if !told.contains(&line) {
            told.push(line);
        }
    }
    let proof = phases(result).filter(|(_, phase)| phase.read_bytes >= PROVING_BYTES);
    let shares: Vec<f64> = proof
        .filter_map(|(_, phase)| Some(phase.device.read_bytes? as f64 / phase.read_bytes as f64))
        .collect();
    let proven = match interval::median(&shares) {
        Some(share) => format!(
            " Phases that read took {share:.2} bytes from the device for each byte, in the median."
        ),
        None => String::new(),
    };
    match told.is_empty() {
        true => format!(
            "Nothing was emptied between phases: what was read may come from memory.{proven}"
        ),
        false => {
            format!("Cold: {}. All others follow on what was before.{proven}", told.join(", "))
        }
    }
}

fn memory(result: &RunResult) -> String {
    let most = phases(result).map(|(_, phase)| phase.bytes).max().filter(|bytes| *bytes > 0);
    let (Some(most), Some(memory)) = (most, result.run.environment.usable_memory_bytes()) else {
        return UNKNOWN.to_owned();
    };
    let (most_shown, memory_shown) = (units::human_bytes(most), units::human_bytes(memory));
    let held = match most > memory {
        true => "cannot hold it",
        false => {
            "can hold it, so that only the time until durable and reads that are proven cold tell of the device"
        }
    };
    format!("A phase worked on at most {most_shown}; memory, {memory_shown}, {held}.")
}

fn durable(result: &RunResult) -> String {
    let all = phases(result).count();
    let with = phases(result).filter(|(_, phase)| phase.elapsed_durable_ns.is_some()).count();
    match (all, with) {
        (0, _) => UNKNOWN.to_owned(),
        (all, with) if all == with => {
            "Yes: every phase is timed until it returned and until all was on the device."
                .to_owned()
        }
        (all, with) => {
            format!("In {with} of {all} phases; the others ask for nothing to be made durable.")
        }
    }
}

/// What the audit has for a rule.
fn audited(result: &RunResult, rule: &str) -> Option<String> {
    let row = result.audit.rows.iter().find(|row| row.rule == rule)?;
    Some(format!("{}: {}", row.title, row.grouped()))
}

fn audited_all(result: &RunResult, rules: &[&str]) -> String {
    match listed(rules.iter().filter_map(|rule| audited(result, rule))) {
        text if text.is_empty() => UNKNOWN.to_owned(),
        text => format!("{text}."),
    }
}

fn state(result: &RunResult) -> String {
    audited_all(result, &["made", "age", "free-space", "lazy-initialisation"])
}

fn configuration(result: &RunResult) -> String {
    let told = result.targets.iter().filter_map(|target| {
        let mounted = target.mount_effective.as_ref()?;
        let made = target.mkfs_command.as_ref().map_or_else(String::new, |it| format!("{it}, "));
        Some(format!("{}: {made}mounted {mounted}", target.label))
    });
    match listed(told) {
        text if text.is_empty() => UNKNOWN.to_owned(),
        text => format!("{text}. What the superblock says is listed with each target."),
    }
}

fn device(result: &RunResult) -> String {
    audited_all(result, &["device", "device-size", "write-cache", "scheduler", "rotational"])
}

fn machine(result: &RunResult) -> String {
    let found = &result.run.environment;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let memory = found.memory_text();
    let count = found.cpu_count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    format!(
        "Linux {} on {}, {count} × {}, memory {memory}, fsdyno {}; versions of the tools are in the result document.",
        text(&found.kernel_release),
        text(&found.distribution),
        text(&found.cpu_model),
        found.fsdyno_version
    )
}

fn contents(result: &RunResult) -> String {
    let told = result.workloads.iter().map(|own| {
        let payload = own.params.iter().find(|(name, _)| *name == "payload");
        let payload = payload.map_or_else(|| "data of its own".to_owned(), |it| it.1.to_string());
        format!("{}: {payload}", own.label)
    });
    listed(told) + "."
}

fn others(result: &RunResult) -> String {
    let shares: Vec<f64> = phases(result)
        .filter_map(|(_, phase)| {
            let busy = phase.cpu.system_busy_ns.filter(|busy| *busy > 0)?;
            let other = phase.cpu.groups_ns.get("other").copied().unwrap_or(0);
            (!phase.cpu.groups_ns.is_empty()).then(|| other as f64 / busy as f64 * 100.0)
        })
        .collect();
    match interval::median(&shares) {
        Some(share) => format!(
            "Other processes took {share:.1} % of the busy processor time in the median of the phases, {:.1} % at most.",
            shares.iter().copied().fold(0.0, f64::max).min(100.0)
        ),
        None => UNKNOWN.to_owned(),
    }
}

fn distributions(result: &RunResult) -> String {
    let kinds = phases(result).map(|(_, phase)| phase.latency_ns.len()).sum::<usize>();
    let samples = phases(result).map(|(_, phase)| phase.samples.len()).sum::<usize>();
    format!(
        "Yes: {kinds} latency histograms and {samples} samples over time are kept, besides a figure for each phase; one figure over all phases is given as a geometric mean of ratios, never as a sum."
    )
}

fn dimensions(result: &RunResult) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut told = Vec::new();
    for (_, phase) in phases(result) {
        if seen.contains(&phase.name.as_str()) {
            continue;
        }
        seen.push(&phase.name);
        let own = || phases(result).filter(|(_, it)| it.name == phase.name).map(|(_, it)| it);
        let median = |read: &dyn Fn(&PhaseResult) -> Option<f64>| {
            interval::median(&own().filter_map(read).collect::<Vec<f64>>())
        };
        let device = median(&|it| Some((it.device.read_bytes? + it.device.write_bytes?) as f64));
        let cpu = median(&|it| {
            let elapsed = it.elapsed_durable_ns.unwrap_or(it.elapsed_return_ns).max(1);
            let own = it.cpu.app_user_ns? + it.cpu.app_system_ns?;
            Some(own as f64 / elapsed as f64 * 100.0)
        });
        let device =
            device.map_or_else(|| "unknown".to_owned(), |it| units::human_bytes(it as u64));
        let cpu = cpu.map_or_else(|| "?".to_owned(), |it| format!("{it:.0}"));
        told.push(format!("{} {device} on the device, {cpu} % of a processor", phase.name));
    }
    match told.is_empty() {
        true => UNKNOWN.to_owned(),
        false => format!("Medians over all targets: {}.", told.join("; ")),
    }
}

fn correctness(result: &RunResult) -> String {
    let all = completed(result).count();
    let clean = completed(result).filter(|trial| trial.fsck.is_some()).count();
    let verified = completed(result).filter(|trial| trial.verify.is_some()).count();
    format!(
        "Of {all} completed trials fsck found {clean} clean (directories are not checked), and contents were read back and compared in {verified}."
    )
}

fn overhead(result: &RunResult) -> String {
    let floor = crate::assemble::harness_floor_ns(&result.trials);
    let floor = floor.map_or_else(
        || "The cost of the harness was not measured.".to_owned(),
        |ns| format!("The harness takes {} per operation.", units::human_duration(ns as u64)),
    );
    let traced = completed(result).filter(|trial| trial.trace.is_some()).count();
    match traced {
        0 => format!("{floor} No measured trial was traced."),
        count => format!("{floor} {count} measured trials were traced, which slows them down."),
    }
}

fn failures(result: &RunResult) -> String {
    let measured = result.trials.iter().filter(|trial| trial.role == Role::Measured);
    let failed = measured.filter(|trial| trial.outcome != Outcome::Completed).count();
    let of_trials = result.trials.iter().map(|trial| trial.warnings.len()).sum::<usize>();
    let warnings = result.run.warnings.len() + of_trials;
    format!(
        "{failed} planned trials did not complete, and warnings number {warnings}; both are listed with the results."
    )
}

fn repeat(result: &RunResult) -> String {
    format!("Yes, with fsdyno {}: {}", result.run.environment.fsdyno_version, result.run.command)
}

#[cfg(test)]
mod tests {
    use fsdyno_model::environment::Environment;
    use fsdyno_model::param::Params;
    use fsdyno_model::plan::Plan;
    use fsdyno_model::result::RunInfo;
    use fsdyno_model::target::{Ground, TargetSpec};
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;
    use crate::fixture;

    fn result(trials: u32) -> RunResult {
        let mut plan = Plan::new(false);
        let ground = |path: &str| Ground::Directory { path: path.into() };
        plan.targets = ["a", "b"]
            .map(|label| TargetSpec { label: label.to_owned(), ground: ground(label) })
            .to_vec();
        plan.workloads = vec![WorkloadSpec {
            definition: None,
            label: fixture::WORKLOAD.to_owned(),
            kind: "compilebench".to_owned(),
            params: Params::default(),
        }];
        let mut records = Vec::new();
        for number in 1..=trials {
            for label in ["a", "b"] {
                let seconds = 2.0 + f64::from(number) / 10.0;
                let mut record =
                    fixture::trial(label, number, &[("create", seconds), ("fsck", 0.1)]);
                record.phases[0].cold = Some(Cold::DropCaches);
                records.push(record);
            }
        }
        let run = RunInfo {
            id: "1".to_owned(),
            title: None,
            started: String::new(),
            finished: None,
            command: "fsdyno compare a b".to_owned(),
            trials,
            stopped: None,
            seed: 7,
            size_bytes: 1,
            environment: Environment::default(),
            warnings: Vec::new(),
        };
        crate::assemble(run, &plan, &|_| vec!["create"], &records)
    }

    #[test]
    fn every_question_has_an_answer() {
        for trials in [0, 1, 3] {
            for answer in answers(&result(trials)) {
                assert!(answer.question.ends_with('?') && !answer.answer.is_empty(), "{answer:?}");
                assert!(answer.source.ends_with(['8', '1']), "{answer:?}");
            }
        }
    }

    #[test]
    fn answers_are_those_of_the_records() {
        let result = result(3);
        let answer = |question: &str| {
            let all = answers(&result);
            let found = all.iter().find(|it| it.question.starts_with(question));
            found.unwrap_or_else(|| panic!("no {question}")).answer.clone()
        };
        assert!(answer("How many runs").starts_with("3 completed of each"));
        assert!(answer("In which order").contains("seed 7"));
        assert!(answer("Which spread").contains('±'), "{}", answer("Which spread"));
        assert!(
            answer("Was each run").starts_with("The shortest phase took 2.1"),
            "fsck counts not"
        );
        assert!(answer("What was cold").starts_with("Cold: create after dropping caches."));
        assert!(answer("Can it be").ends_with("fsdyno compare a b"));
        assert!(
            answer("Were the targets").starts_with("Comparable"),
            "{}",
            answer("Were the targets")
        );
    }
}
