//! What stands below a table: trials that did not complete, warnings, the cost of the harness.
//! One item is one paragraph; wrapping and bullets are left to the callers.

mod aged;
mod disturbed;
mod power_cuts;
mod traced;

use std::collections::BTreeMap;

use fsdyno_model::cold::{FROM_MEMORY_SHARE, PROVING_BYTES};
use fsdyno_model::environment::Environment;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{Role, Warning};
use fsdyno_model::result::{RunResult, TrialResult, Verdict};
use fsdyno_model::units;
use fsdyno_model::words::{counted, listed};
use fsdyno_model::workload::WorkloadSpec;

use crate::audit::{self, Remark};
use crate::text;

pub use aged::ages;
pub use disturbed::{machine, marks, time};
pub use power_cuts::{power_cuts, sentence, untested};
pub use traced::traces;

/// What `[?]` means.
pub const UNCERTAIN: &str = "? too few trials for an interval.";
/// What figures in virtual time are.
pub const EXACT: &str = "Virtual time, one trial each: made again it gives the same figures, so that there are no intervals, and a difference is a difference.";
/// What letters after a figure mean.
pub const LETTERS: &str = "Figures of a row that share a letter are not told apart.";
/// What the tables headed `why` hold.
pub const WHY: &str = "Why: how files and free space lie on the device (medians); `fsdyno list metrics` explains each.";
/// Lines of an error that are shown.
const BRIEF_LINES: usize = 2;
/// Columns of an error that are shown.
const BRIEF_COLUMNS: usize = 300;

/// For each target with trials of `workload` that did not complete: how many did, and why others
/// did not, each reason once.
pub fn incomplete(result: &RunResult, workload: &str) -> Vec<String> {
    let mut notes = Vec::new();
    for target in &result.targets {
        let own: Vec<_> = result
            .trials
            .iter()
            .filter(|trial| trial.role == Role::Measured)
            .filter(|trial| trial.target == target.label && trial.workload == workload)
            .collect();
        let completed = own.iter().filter(|trial| trial.outcome == Outcome::Completed).count();
        if completed == own.len() {
            continue;
        }
        let mut reasons: Vec<(String, usize)> = Vec::new();
        for trial in own.iter().filter(|trial| trial.outcome != Outcome::Completed) {
            let sentence = brief(&trial.outcome.sentence());
            match reasons.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, count)) => *count += 1,
                None => reasons.push((sentence, 1)),
            }
        }
        let only = reasons.len() == 1;
        let reasons: Vec<String> = reasons
            .into_iter()
            .map(|(sentence, count)| match count {
                1 => sentence,
                _ if only => sentence,
                _ => format!("{count} {sentence}"),
            })
            .collect();
        notes.push(format!(
            "{}: {completed} of {} completed; {}",
            target.label,
            counted(own.len(), "trial"),
            reasons.join("; ")
        ));
    }
    notes
}

/// The heading of a workload's table: its label, and for a rung of a ladder its load:
/// `postmark rung 2 (number=2000, transactions=2000)`.
pub fn heading(result: &RunResult, workload: &WorkloadSpec) -> String {
    let label = &workload.label;
    let Some((ladder, _)) = label.rsplit_once(" rung ") else {
        return label.clone();
    };
    let rungs: Vec<&WorkloadSpec> = (result.workloads.iter())
        .filter(|it| it.label.rsplit_once(" rung ").is_some_and(|(own, _)| own == ladder))
        .collect();
    let params: Vec<_> = rungs.iter().map(|rung| &rung.params).collect();
    let own = rungs.iter().position(|rung| rung.label == *label);
    match own.map(|own| fsdyno_analysis::calibration::load(&params, own)) {
        Some(load) if !load.is_empty() => format!("{label} ({load})"),
        _ => label.clone(),
    }
}

/// The phases of `workload` that were served from memory although they read: from the traffic of the
/// device, in the median of the completed trials. `None` when there is none.
pub fn from_memory(result: &RunResult, workload: &str) -> Option<String> {
    let mut phases: Vec<&str> = Vec::new();
    for row in result.summary.iter().filter(|row| row.primary && row.workload == workload) {
        if !phases.contains(&row.phase.as_str()) {
            phases.push(&row.phase);
        }
    }
    // By the targets, since these are mostly all.
    let mut found: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for phase in phases {
        let labels = result.targets.iter().map(|target| target.label.as_str());
        let targets: Vec<&str> =
            labels.filter(|target| is_from_memory(result, workload, phase, target)).collect();
        match found.iter_mut().find(|(known, _)| *known == targets) {
            _ if targets.is_empty() => {}
            Some((_, phases)) => phases.push(phase),
            None => found.push((targets, vec![phase])),
        }
    }
    let told: Vec<String> = (found.iter())
        .map(|(targets, phases)| format!("{} ({})", phases.join(", "), targets.join(", ")))
        .collect();
    (!told.is_empty())
        .then(|| format!("Read from memory, not from the device: {}.", told.join("; ")))
}

fn is_from_memory(result: &RunResult, workload: &str, phase: &str, target: &str) -> bool {
    let own = || {
        (result.trials.iter())
            .filter(|trial| trial.workload == workload && trial.target == target)
            .filter(|trial| trial.outcome == Outcome::Completed && trial.role == Role::Measured)
            .flat_map(|trial| trial.phases.iter().filter(|it| it.name == phase))
    };
    let read: Vec<f64> = own().map(|phase| phase.read_bytes as f64).collect();
    let shares: Vec<f64> = own()
        .filter(|phase| phase.read_bytes > 0)
        .filter_map(|phase| Some(phase.device.read_bytes? as f64 / phase.read_bytes as f64))
        .collect();
    let median = fsdyno_analysis::interval::median;
    median(&read).is_some_and(|bytes| bytes >= PROVING_BYTES as f64)
        && median(&shares).is_some_and(|share| share < FROM_MEMORY_SHARE)
}

/// Neighbouring workloads of which nothing was begun, for one reason.
pub struct LeftOut<'a> {
    /// Their labels.
    labels: Vec<&'a str>,
    reason: &'a str,
}

impl LeftOut<'_> {
    /// Whether `workload` is the first of them.
    pub fn begins_with(&self, workload: &str) -> bool {
        self.labels.first() == Some(&workload)
    }

    /// Whether `workload` is one of them.
    pub fn holds(&self, workload: &str) -> bool {
        self.labels.contains(&workload)
    }

    /// `postmark rungs 3–7: skipped: rung 2 told all targets apart`.
    pub fn line(&self) -> String {
        let rungs: Vec<Option<(&str, &str)>> =
            self.labels.iter().map(|label| label.rsplit_once(" rung ")).collect();
        let labels = match rungs.as_slice() {
            [Some((label, first)), .., Some((last_label, last))] if label == last_label => {
                format!("{label} rungs {first}–{last}")
            }
            _ => listed(&self.labels),
        };
        format!("{labels}: skipped: {}", brief(self.reason))
    }
}

/// The workloads of a run of several that were left out whole, in their order.
pub fn left_out(result: &RunResult) -> Vec<LeftOut<'_>> {
    let mut all: Vec<LeftOut<'_>> = Vec::new();
    let mut before = None;
    for workload in &result.workloads {
        let label = workload.label.as_str();
        let reason = reason_of_all(result, label).filter(|_| result.workloads.len() > 1);
        match (reason, all.last_mut()) {
            (Some(reason), Some(last)) if before == Some(reason) => last.labels.push(label),
            (Some(reason), _) => all.push(LeftOut { labels: vec![label], reason }),
            (None, _) => {}
        }
        before = reason;
    }
    all
}

/// Why every trial of `workload` was skipped; `None` when one was not, or reasons differ.
fn reason_of_all<'a>(result: &'a RunResult, workload: &str) -> Option<&'a str> {
    let own = measured(result).filter(|trial| trial.workload == workload);
    let mut outcomes = own.map(|trial| match &trial.outcome {
        Outcome::Skipped { reason } => Some(reason.as_str()),
        _ => None,
    });
    let first = outcomes.next()??;
    outcomes.all(|reason| reason == Some(first)).then_some(first)
}

/// The first lines of an error on one line; what tools say of their usage is left to the document.
fn brief(sentence: &str) -> String {
    let lines: Vec<&str> = sentence.lines().filter(|line| !line.trim().is_empty()).collect();
    let head = lines[..lines.len().min(BRIEF_LINES)].join(" ");
    let mut brief = String::new();
    let mut is_cut = lines.len() > BRIEF_LINES;
    for word in head.split_whitespace() {
        if text::width(&brief) + 1 + text::width(word) > BRIEF_COLUMNS {
            is_cut = true;
            break;
        }
        if !brief.is_empty() {
            brief.push(' ');
        }
        brief.push_str(word);
    }
    if brief.is_empty() {
        brief = text::cut(head.trim(), BRIEF_COLUMNS, true);
    }
    if is_cut { format!("{brief} … (--json has it whole)") } else { brief }
}

/// The trials whose figures count.
fn measured(result: &RunResult) -> impl Iterator<Item = &TrialResult> {
    result.trials.iter().filter(|trial| trial.role == Role::Measured)
}

/// Warnings of the run and of its trials, each once with the number of trials that it concerns; what
/// disturbed trials comes last, each kind once.
pub fn warnings(result: &RunResult) -> Vec<String> {
    // Of those whose figures count, and of the others.
    let mut trials: BTreeMap<&Warning, (usize, usize)> = BTreeMap::new();
    for warning in &result.run.warnings {
        trials.entry(warning).or_default();
    }
    for trial in &result.trials {
        let is_other = |warning: &&Warning| !disturbed::is_told(trial, warning);
        let mut own: Vec<&Warning> = trial.warnings.iter().filter(is_other).collect();
        own.sort();
        own.dedup();
        for warning in own {
            let (counting, traced) = trials.entry(warning).or_default();
            *(if trial.role == Role::Measured { counting } else { traced }) += 1;
        }
    }
    let all = measured(result).count();
    let others = trials.into_iter().map(|(warning, count)| {
        let where_ = match count {
            (0, 0) => String::new(),
            (0, 1) => " (explain trial)".to_owned(),
            (0, traced) => format!(" ({traced} explain trials)"),
            (count, _) => format!(" ({count} of {})", counted(all, "trial")),
        };
        let message = warning.message.trim_end_matches(['.', ';', ':']);
        match warning.advice.trim_end_matches('.') {
            "" => format!("{message}{where_}."),
            advice => format!("{message}{where_}: {advice}."),
        }
    });
    others.chain(disturbed::disturbed(result)).collect()
}

/// What the harness itself costs; `None` when no trial measured it, or when no phase counted operations
/// that it could be compared with.
pub fn harness(result: &RunResult) -> Option<String> {
    let mut phases = result.trials.iter().flat_map(|trial| &trial.phases);
    if !phases.any(|phase| phase.operations > 0) {
        return None;
    }
    let floor_ns = fsdyno_analysis::assemble::harness_floor_ns(&result.trials)?;
    let floor = units::human_duration(floor_ns.round().max(0.0) as u64);
    Some(format!(
        "The harness itself takes {floor} per operation, measured on a target that does nothing."
    ))
}

/// One line on what was run and where; its parts hold no space at which a line may break.
pub fn headline(result: &RunResult) -> String {
    let run = &result.run;
    let targets = counted(result.targets.len(), "target");
    let mut trials = counted(run.trials as usize, "trial");
    let made = run.stopped.iter().flat_map(|stopped| &stopped.workloads).map(|it| it.trials);
    if let Some(least) = made.min().filter(|least| *least < run.trials) {
        trials = format!("{least} to {trials}");
    }
    let mut parts = vec![format!("run {}", run.id), format!("{targets} × {trials}")];
    parts.extend(images(result));
    parts.push(format!("seed {}", run.seed));
    let host = run.environment.hostname.as_ref().map(|host| format!("host {host}"));
    let kernel = run.environment.kernel_release.as_ref().map(|release| format!("Linux {release}"));
    let machine: Vec<String> = host.into_iter().chain(kernel).collect();
    parts.extend((!machine.is_empty()).then(|| machine.join(", ")));
    let mut parts: Vec<String> = parts.iter().map(|part| text::unbroken(part)).collect();
    parts.extend(read_speeds(&run.environment));
    parts.join(&format!("{}· ", text::NO_BREAK))
}

/// `reads: memory 6.10 GiB/s, /var/tmp 512 MiB/s`, in which a line may break after a comma; `None` when
/// nothing was measured.
fn read_speeds(environment: &Environment) -> Option<String> {
    let speed = |what: &str, mib_per_s: f64| {
        let bytes = units::human_bytes((mib_per_s * f64::from(1 << 20)) as u64);
        text::unbroken(&format!("{what} {bytes}/s"))
    };
    let memory = environment.cached_read_mib_per_s.map(|measured| speed("memory", measured));
    let devices = environment.device_read_mib_per_s.iter();
    let devices = devices.filter_map(|(ground, measured)| Some(speed(ground, (*measured)?)));
    let speeds: Vec<String> = memory.into_iter().chain(devices).collect();
    (!speeds.is_empty()).then(|| format!("reads:{}{}", text::NO_BREAK, speeds.join(", ")))
}

/// `images of 3 GiB in /var/tmp (ext4 on /dev/vda)`; `None` when no target has an image.
pub fn images(result: &RunResult) -> Option<String> {
    let mut sizes: Vec<String> = Vec::new();
    for target in &result.targets {
        let size = match target.device.strip_prefix("loop") {
            Some("") => units::exact_bytes(result.run.size_bytes),
            Some(size) if size.starts_with(':') => size[1..].to_owned(),
            _ => continue,
        };
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let mut words = match sizes.as_slice() {
        [] => return None,
        [size] => {
            let digits = size.find(|c: char| !c.is_ascii_digit()).unwrap_or(size.len());
            let (number, unit) = size.split_at(digits);
            format!("images of {number} {}", if unit.is_empty() { "B" } else { unit })
        }
        sizes => format!("images of {}", sizes.join(" and ")),
    };
    let environment = &result.run.environment;
    if let Some(directory) = &environment.image_directory {
        words.push_str(&format!(" in {directory}"));
        if let Some(filesystem) = &environment.image_filesystem {
            // Without the mount options, which follow in parentheses.
            let filesystem = filesystem.split(" (").next().unwrap_or(filesystem);
            words.push_str(&format!(" ({filesystem})"));
        }
    }
    Some(words)
}

/// `Higher is better for MiB/s; lower for s.`; `None` without units.
pub fn directions(higher: &[&str], lower: &[&str]) -> Option<String> {
    match (higher, lower) {
        ([], []) => None,
        (higher, []) => Some(format!("Higher is better for {}.", listed(higher))),
        ([], lower) => Some(format!("Lower is better for {}.", listed(lower))),
        (higher, lower) => {
            Some(format!("Higher is better for {}; lower for {}.", listed(higher), listed(lower)))
        }
    }
}

/// The verdicts, each with its workload's label when there are several and with what the audit says of
/// it: that targets are not comparable comes first. Behind them how the trials ended where their number
/// was not fixed.
pub fn verdicts(result: &RunResult) -> Vec<(String, String)> {
    let several = result.verdicts.len() > 1;
    let verdicts = result.verdicts.iter().map(|verdict| {
        let lead =
            if several { format!("Verdict, {}:", verdict.workload) } else { "Verdict:".to_owned() };
        (lead, audited(result, verdict))
    });
    let stopped = result.run.stopped.iter();
    verdicts.chain(stopped.map(|it| ("Trials:".to_owned(), it.sentence.clone()))).collect()
}

/// A verdict with what the audit says of it.
pub fn audited(result: &RunResult, verdict: &Verdict) -> String {
    match audit::remark(result, &verdict.workload) {
        Some(Remark::Before(words)) => format!("{words} {}", verdict.text),
        Some(Remark::After(words)) => format!("{} {words}", verdict.text),
        None => verdict.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn an_error_is_shown_in_brief() {
        for (sentence, expected) in [
            ("failed in mkfs: short", "failed in mkfs: short".to_owned()),
            ("a:\n\n  one\n", "a: one".to_owned()),
            ("a:\none\nUsage: -x", "a: one … (--json has it whole)".to_owned()),
            (&"word ".repeat(99), format!("{}… (--json has it whole)", "word ".repeat(60))),
        ] {
            assert_eq!(brief(sentence), expected);
        }
        assert!(text::width(&brief(&"x".repeat(999))) < 330);
    }

    #[test]
    fn images_are_told_of_where_there_are_some() {
        let mut result = fixture::three_targets();
        result.targets[0].device = "loop:1GiB".to_owned();
        assert!(images(&result).unwrap().starts_with("images of 1GiB and 3GiB in /var/tmp"));
        for target in &mut result.targets {
            target.device = "/dev/sdz1".to_owned();
        }
        assert_eq!(images(&result), None);
    }

    #[test]
    fn phases_served_from_memory_are_named() {
        let mut result = fixture::with_explanations();
        let told = |result: &RunResult| from_memory(result, "compilebench");
        assert_eq!(
            told(&result).unwrap(),
            "Read from memory, not from the device: read (ext4, xfs, btrfs); read-compiled (ext4)."
        );
        assert_eq!(told(&fixture::three_targets()), None);
        for (index, trial) in result.trials.iter_mut().enumerate() {
            for phase in trial.phases.iter_mut().filter(|phase| phase.name.starts_with("read")) {
                // One trial of three is not the median; nothing is known; too few bytes to matter.
                match trial.target.as_str() {
                    "ext4" if index < 3 => {}
                    "ext4" => phase.device.read_bytes = Some(phase.read_bytes),
                    "xfs" => phase.device.read_bytes = None,
                    _ => phase.read_bytes = 1 << 19,
                }
            }
        }
        assert_eq!(told(&result), None);
    }

    #[test]
    fn the_harness_is_compared_with_operations_only() {
        let mut result = fixture::three_targets();
        assert!(harness(&result).is_some());
        for phase in result.trials.iter_mut().flat_map(|trial| &mut trial.phases) {
            phase.operations = 0;
        }
        assert_eq!(harness(&result), None);
    }

    #[test]
    fn a_rung_is_shown_with_its_load() {
        use fsdyno_model::param::{ParamDef, ParamKind, Params};
        const fn number(name: &'static str) -> ParamDef {
            let kind = ParamKind::Count { min: 0, max: u64::MAX };
            ParamDef { name, kind, default: "1", quick: None, doc: "", check: None }
        }
        const PARAMS: &[ParamDef] = &[number("number"), number("transactions"), number("seed")];
        let mut result = fixture::targets_with_trials(&["ext4", "xfs"], 3);
        let rung = |index: usize| {
            let mut params = Params::defaults(PARAMS, false);
            let load = ["500", "2000"][index];
            params.set(PARAMS, "number", load).unwrap();
            params.set(PARAMS, "transactions", load).unwrap();
            let label = format!("postmark rung {}", index + 1);
            WorkloadSpec { label, kind: "postmark".to_owned(), params, definition: None }
        };
        result.workloads.extend([rung(0), rung(1)]);
        let headings: Vec<String> =
            result.workloads.iter().map(|workload| heading(&result, workload)).collect();
        let expected = [
            "compilebench",
            "postmark rung 1 (number=500, transactions=500)",
            "postmark rung 2 (number=2000, transactions=2000)",
        ];
        assert_eq!(headings, expected);
        let options = crate::table::TableOptions { width: 80, color: false, unicode: true };
        let table = crate::table::render(&result, options);
        assert!(table.contains(&format!("\n{}\n", expected[2])), "{table}");
        let page = crate::markdown::render(&result);
        assert!(page.contains(&format!("### {}\n", expected[2])), "{page}");
        result.workloads.pop();
        assert_eq!(heading(&result, &result.workloads[1]), "postmark rung 1");
    }

    #[test]
    fn workloads_that_were_left_out_are_one_line() {
        let mut result = fixture::targets_with_trials(&["ext4", "xfs"], 2);
        assert!(left_out(&result).is_empty());
        let (first, trials) = (result.workloads[0].clone(), result.trials.clone());
        let mut add = |label: &str, reason: &str| {
            let label = label.to_owned();
            result.workloads.push(WorkloadSpec { label: label.clone(), ..first.clone() });
            result.trials.extend(trials.iter().cloned().map(|mut trial| {
                trial.workload.clone_from(&label);
                trial.outcome = Outcome::Skipped { reason: reason.to_owned() };
                trial
            }));
        };
        for rung in 2..=4 {
            add(&format!("postmark rung {rung}"), "rung 1 told all targets apart");
        }
        add("kernel-source", "no compiler is installed");
        let lines: Vec<String> = left_out(&result).iter().map(LeftOut::line).collect();
        assert_eq!(
            lines,
            [
                "postmark rungs 2–4: skipped: rung 1 told all targets apart",
                "kernel-source: skipped: no compiler is installed"
            ]
        );
        let left = left_out(&result);
        assert!(left[0].begins_with("postmark rung 2") && left[0].holds("postmark rung 4"));
        assert!(!left[0].begins_with("postmark rung 3") && !left[0].holds("compilebench"));
        let table = crate::table::render(
            &result,
            crate::table::TableOptions { width: 80, color: false, unicode: true },
        );
        assert_eq!(table.matches("rung 1 told all targets apart").count(), 1, "{table}");
        assert!(!table.contains("No trial completed"), "{table}");
        let page = crate::markdown::render(&result);
        assert_eq!(page.matches("rung 1 told all targets apart").count(), 1, "{page}");
    }

    #[test]
    fn read_speeds_are_told_of_where_there_are_some() {
        let mut result = fixture::three_targets();
        assert!(!headline(&result).contains("reads"));
        let environment = &mut result.run.environment;
        environment.cached_read_mib_per_s = Some(6250.0);
        environment.device_read_mib_per_s.insert("/dev/sdb".to_owned(), None);
        environment.device_read_mib_per_s.insert("/var/tmp".to_owned(), Some(512.4));
        let line = headline(&result).replace(text::NO_BREAK, "_");
        assert!(line.ends_with("_· reads:_memory_6.10_GiB/s, /var/tmp_512_MiB/s"), "{line}");
    }

    #[test]
    fn every_warning_is_a_sentence() {
        let mut result = fixture::targets_with_trials(&["ext4"], 1);
        let warning = |message: &str, advice: &str| Warning {
            code: "code".to_owned(),
            message: message.to_owned(),
            advice: advice.to_owned(),
        };
        result.run.warnings = vec![warning("few trials.", ""), warning("hot", "cool it.")];
        result.trials[0].warnings = vec![warning("was busy", "wait")];
        assert_eq!(
            warnings(&result),
            ["few trials.", "hot: cool it.", "was busy (1 of 1 trial): wait."]
        );
    }
}
