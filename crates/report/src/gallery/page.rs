//! The page of one published comparison, as GitHub markdown.

use fsdyno_model::audit::Judgement;
use fsdyno_model::place::Clock;
use fsdyno_model::result::{RunResult, TargetResult};
use fsdyno_model::units;
use fsdyno_model::words::counted;
use fsdyno_model::workload::WorkloadSpec;

use super::pictures::Picture;
use super::{Entry, INDEX, place, trials, worth};
use crate::markdown::{self, escape};
use crate::note;
use crate::then_and_now;

/// The page of `entry` with its pictures.
pub fn render(entry: &Entry<'_>, pictures: &[Picture]) -> String {
    let Entry { result, then_and_now: it, missed, .. } = entry;
    let title = result.run.title.as_deref().unwrap_or(&it.name);
    let mut sections = vec![
        format!("# {}\n\n[Gallery]({INDEX})\n", escape(title)),
        format!("> **{}**\n", worth(it.scale)),
        facts(entry),
    ];
    let (courses, bars): (Vec<&Picture>, Vec<&Picture>) =
        pictures.iter().partition(|picture| picture.is_course);
    sections.push(then_and_now::figures_markdown(it, &shown(&bars)));
    sections.push(bullets("## What changed", &then_and_now::findings(it)));
    if !courses.is_empty() {
        sections.push(format!("## Sample after sample\n\n{}", shown(&courses)));
    }
    sections.push(protocol(result));
    sections.push(bullets("## What is not as it was", &then_and_now::remarks(it)));
    sections.push(bullets("## What its author missed or left open", missed));
    sections.push(audit(result));
    sections.push(format!("## Everything that was measured\n\n{}", markdown::measured(result)));
    sections.retain(|section| !section.is_empty());
    sections.join("\n")
}

fn shown(pictures: &[&Picture]) -> String {
    let lines = pictures.iter().map(|it| format!("![{}]({})\n", escape(&it.title), it.file));
    lines.collect::<Vec<String>>().join("\n")
}

/// A heading and a bullet for each; nothing without any.
fn bullets(heading: &str, sentences: &[String]) -> String {
    if sentences.is_empty() {
        return String::new();
    }
    let bullets: String = sentences.iter().map(|it| format!("- {}\n", escape(it))).collect();
    format!("{heading}\n\n{bullets}")
}

/// What was published, and what was done now.
fn facts(entry: &Entry<'_>) -> String {
    let Entry { result, then_and_now: it, .. } = entry;
    let run = &result.run;
    let environment = &run.environment;
    let processors = environment.cpu_count.map(|count| counted(count as usize, "processor"));
    let model = environment.cpu_model.as_ref().map(|model| format!("({model})"));
    let whose = if environment.guest.is_some() { " for each guest" } else { "" };
    let limit = environment.memory_limit_bytes.map(units::human_bytes);
    let limit = limit.map_or(String::new(), |limit| format!(" ({limit} of it for the workload)"));
    let memory = environment.memory_bytes.map(units::human_bytes);
    let memory = memory.map(|memory| format!("{memory} of memory{whose}{limit}"));
    let machine: Vec<String> = [
        processors.map(|count| [count].into_iter().chain(model).collect::<Vec<_>>().join(" ")),
        memory,
        note::images(result),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut rows = vec![
        ("published", it.source.clone()),
        ("then", format!("{}, Linux {}, {}", it.year, it.kernel, it.hardware)),
        ("now", place(result)),
        ("on", machine.join(", ")),
        ("how", it.setting.join(" ")),
        ("scale", it.scale.to_string()),
        ("trials", trials_in_words(result)),
        ("run", format!("{}, fsdyno {}, seed {}", run.id, environment.fsdyno_version, run.seed)),
    ];
    rows.retain(|(_, words)| !words.is_empty());
    let mut table = "| | |\n|---|---|\n".to_owned();
    table.extend(rows.iter().map(|(name, words)| format!("| {name} | {} |\n", escape(words))));
    format!("{table}\nAgain: `{}`\n", run.command)
}

fn trials_in_words(result: &RunResult) -> String {
    let several = match result.run.environment.measured.clock {
        Clock::Virtual => {
            "in virtual time: made again they give the same figures, so that there are no intervals"
        }
        Clock::Real if result.run.trials < 2 => {
            "so that there are no intervals and no verdict is sure"
        }
        Clock::Real => "in random interleaved order",
    };
    format!("{} of each target and workload, {several}", trials(result))
}

fn protocol(result: &RunResult) -> String {
    let mut page = "## Protocol\n\n| target | filesystem | mkfs | mount, as asked | mount, in force |\n|---|---|---|---|---|\n".to_owned();
    page.extend(result.targets.iter().map(target));
    page.push_str("\n<details><summary>Parameters of the workloads</summary>\n\n");
    page.push_str("| workload | parameters |\n|---|---|\n");
    let left_out = note::left_out(result);
    let made = result.workloads.iter();
    let made = made.filter(|own| !left_out.iter().any(|it| it.holds(&own.label)));
    page.extend(made.map(workload));
    page.push_str("\n</details>\n");
    page
}

fn target(target: &TargetResult) -> String {
    let TargetResult { label, filesystem, mkfs, mount_requested, mount_effective, .. } = target;
    let mkfs = mkfs.join(" ");
    let in_force = mount_effective.as_deref().unwrap_or("never mounted").replace(',', ", ");
    let cells = [label, filesystem, &mkfs, mount_requested, &in_force].map(|it| escape(it));
    format!("| {} |\n", cells.join(" | "))
}

fn workload(workload: &WorkloadSpec) -> String {
    let params: Vec<String> =
        workload.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let kind = match workload.kind == workload.label {
        true => String::new(),
        false => format!("{}: ", workload.kind),
    };
    let words = escape(&format!("{kind}{}", params.join(", ")));
    format!("| {} | {words} |\n", escape(&workload.label))
}

/// The verdict of the audit on each workload, and the facts that it judged.
fn audit(result: &RunResult) -> String {
    let mut page = "## Measured alike?\n\n".to_owned();
    for own in result.audit.workloads.iter().filter(|own| !own.text.is_empty()) {
        let text = escape(own.text.trim_end());
        page.push_str(&format!("- {}: {text}\n", escape(&own.workload)));
    }
    let own = result.audit.workloads.iter().flat_map(|own| &own.rows);
    let judged = result.audit.rows.iter().chain(own).filter(|row| row.judgement != Judgement::Fine);
    let mut sentences: Vec<&str> = Vec::new();
    for row in judged.filter(|row| !row.sentence.is_empty()) {
        if !sentences.contains(&row.sentence.as_str()) {
            sentences.push(&row.sentence);
        }
    }
    if !sentences.is_empty() {
        page.push_str("\n<details><summary>What differed</summary>\n\n");
        page.extend(sentences.iter().map(|it| format!("- {}\n", escape(it))));
        page.push_str("\n</details>\n");
    }
    page
}
