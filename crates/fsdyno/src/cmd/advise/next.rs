//! The run that would settle what is open after an advice: as a command, and as a plan.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use fsdyno_analysis::advise::Standings;
use fsdyno_model::info::Names;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::{DEFAULT_SIZE_BYTES, Plan};
use fsdyno_model::plan_text;
use fsdyno_model::record::{Role, TrialRecord};
use fsdyno_model::stop::Asked;
use fsdyno_model::target::{TargetSpec, join_mkfs};
use fsdyno_model::trace::TraceMode;
use fsdyno_model::units;
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_workload::command_line::CommandLine;

use super::{Question, Source, Wanted};
use crate::{bad_input, bad_inputs, catalogue};

/// What is compared where nothing has been measured.
const FIRST_TARGETS: [&str; 3] = ["ext4", "xfs", "btrfs"];
/// Trials that automatic trials end with.
const USUAL_TRIALS: u32 = 20;

/// What has to be run.
pub(super) struct Upcoming<'a> {
    who: &'a str,
    sources: &'a [Source],
    /// Labels of targets that were measured.
    labels: Vec<&'a str>,
    /// Filesystems that join them.
    others: Vec<&'static str>,
    parts: Vec<&'a Wanted>,
    /// More trials than automatic trials take, where those did not settle it.
    max_trials: Option<u32>,
}

impl<'a> Upcoming<'a> {
    /// The run that would settle what is open; `None` where nothing is.
    pub(super) fn of(
        question: &'a Question,
        sources: &'a [Source],
        standings: &'a Standings,
    ) -> Option<Upcoming<'a>> {
        let ranked: Vec<&str> = standings.ranking.iter().map(|own| own.target.as_str()).collect();
        let is_tied = !standings.open_targets.is_empty();
        let labels: Vec<&str> = match ranked.as_slice() {
            _ if is_tied => standings.open_targets.iter().map(String::as_str).collect(),
            [first, second, ..] if !standings.open_parts.is_empty() => vec![first, second],
            [_, _, ..] => return None,
            few => few.to_vec(),
        };
        let mut others = Vec::new();
        if ranked.len() < 2 {
            others.extend(FIRST_TARGETS.iter().filter(|name| !labels.contains(*name)));
        }
        let is_open = |part: &usize| is_tied || standings.open_parts.contains(part);
        let parts: Vec<&Wanted> =
            (0..question.wanted.len()).filter(is_open).map(|part| &question.wanted[part]).collect();
        let used = sources.iter().flat_map(|source| &source.trials).filter(|trial| counts(trial));
        let most = used.map(|trial| trial.trial).max().unwrap_or(0);
        let max_trials = (is_tied && most >= USUAL_TRIALS).then_some(2 * most);
        Some(Upcoming { who: &question.who, sources, labels, others, parts, max_trials })
    }

    /// The plan of the newest run, whose place and size the next one has too.
    fn newest(&self) -> Option<&'a Plan> {
        self.sources.first().map(|source| &source.run.plan)
    }

    /// Size of its images, where it is not the usual one.
    fn size_bytes(&self) -> Option<u64> {
        let newest = self.newest().filter(|plan| !plan.quick)?;
        Some(newest.size_bytes).filter(|size| *size != DEFAULT_SIZE_BYTES)
    }

    /// The command, quoted for a shell; `command` is what stood behind `--`.
    pub(super) fn command(&self, command: &[String]) -> String {
        let targets = self.labels.iter().map(|label| match self.target(label) {
            Some(target) => target.to_string(),
            None => (*label).to_owned(),
        });
        let mut words: Vec<String> = ["fsdyno", "compare"].map(str::to_owned).to_vec();
        words.extend(targets);
        words.extend(self.others.iter().map(|name| (*name).to_owned()));
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if let Some(newest) = self.newest() {
            if newest.place.is_virtual() {
                option("--clock", "virtual".to_owned());
            } else if newest.place.is_guest() {
                option("--in", newest.place.kind.word().to_owned());
            }
            if let Some(directory) = &newest.directory {
                option("--dir", directory.display().to_string());
            }
        }
        if let Some(size_bytes) = self.size_bytes() {
            option("--size", units::exact_bytes(size_bytes));
        }
        if let Some(trials) = self.max_trials {
            option("--max-trials", trials.to_string());
        }
        match command {
            [] => self.parts.iter().for_each(|part| option("-w", part.spec.clone())),
            command => {
                words.push("--".to_owned());
                words.extend_from_slice(command);
            }
        }
        join_mkfs(&words)
    }

    /// Writes the same as a plan to `path`, where nothing may be yet.
    ///
    /// # Errors
    /// Bad input: the file is there already, or cannot be written; a workload that cannot be read.
    pub(super) fn write_plan(&self, path: &Path, command: &[String]) -> anyhow::Result<()> {
        let text = catalogue::with_names(|names| self.plan_text(names, command))?;
        let shown = path.display();
        let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                bad_input(format!("--plan {shown}: the file is there already: name another one"))
            }
            _ => bad_input(format!("--plan {shown}: {error}")),
        })?;
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write {shown}"))
    }

    fn plan_text(&self, names: &Names<'_>, command: &[String]) -> anyhow::Result<String> {
        let mut plan = Plan::new(false);
        plan.title = Some(format!("what is open for {}", self.who));
        plan.trace = TraceMode::Explain;
        Asked { max_trials: self.max_trials, ..Asked::default() }.apply(&mut plan);
        plan.size_bytes = self.size_bytes().unwrap_or(plan.size_bytes);
        if let Some(newest) = self.newest() {
            plan.place = newest.place.clone();
            plan.directory.clone_from(&newest.directory);
        }
        plan.targets.extend(self.labels.iter().filter_map(|label| self.target(label)).cloned());
        for name in &self.others {
            plan.targets.push(TargetSpec::parse(name, names).map_err(bad_input)?);
        }
        let current = std::env::current_dir().context("cannot tell the current directory")?;
        let mut files = Vec::new();
        for part in &self.parts {
            let (mut workload, file) = self.workload(part, names, command)?;
            let info = match &file {
                Some(path) => names.workload_or_file(path).map(|(info, _)| info),
                None => names.workload(&workload.kind),
            };
            workload.params.resolve_paths(info.map_err(bad_input)?.params, &current);
            files.extend(workload.definition.clone().zip(file));
            plan.workloads.push(workload);
        }
        let plan = plan.finish().map_err(|errors| bad_inputs(&errors))?;
        let file_of = |own: &WorkloadSpec| {
            let definition = own.definition.as_ref()?;
            let (_, path) = files.iter().find(|(known, _)| known == definition)?;
            Some(current.join(path).display().to_string())
        };
        let head = "What fsdyno advise asks for: fsdyno check THIS, fsdyno run THIS.";
        let text = plan_text::write(&plan, head, names, file_of);
        match Plan::parse(&text, names) {
            Ok(read) if read == plan => Ok(text),
            Ok(_) => anyhow::bail!("the plan says something else than what was meant:\n{text}"),
            Err(errors) => {
                let errors: Vec<String> = errors.into_iter().map(|it| it.message).collect();
                anyhow::bail!("the plan cannot be read: {}\n{text}", errors.join("; "))
            }
        }
    }

    /// A workload that is asked for, and the file that defines it where one does. That of a command is as
    /// the newest run has it, with what was copied and checked there.
    fn workload(
        &self,
        part: &Wanted,
        names: &Names<'_>,
        command: &[String],
    ) -> anyhow::Result<(WorkloadSpec, Option<String>)> {
        if command.is_empty() {
            let parsed = WorkloadSpec::parse(&part.spec, false, names);
            let workload = parsed.map_err(|errors| bad_inputs(&errors))?;
            let file = part.spec.split(':').next().filter(|_| workload.definition.is_some());
            return Ok((workload, file.map(str::to_owned)));
        }
        let own = self.sources.iter().flat_map(|source| &source.run.plan.workloads);
        if let Some(known) = own.into_iter().find(|own| (part.is)(own)) {
            return Ok((known.clone(), None));
        }
        let mut workload = WorkloadSpec::defaults("command", false, names).map_err(bad_input)?;
        let info = names.workload("command").map_err(bad_input)?;
        let line = CommandLine::text_of(command);
        workload.params.set(info.params, "command", &line).map_err(bad_input)?;
        Ok((WorkloadSpec::of(info, workload.params), None))
    }

    /// The target with this label as the newest run has it.
    fn target(&self, label: &str) -> Option<&'a TargetSpec> {
        let targets = self.sources.iter().flat_map(|source| &source.run.plan.targets);
        targets.into_iter().find(|target| target.label == label)
    }

    /// Time of one trial of each target on each workload, in seconds, by those that were made.
    pub(super) fn block_s(&self) -> Option<f64> {
        if !self.others.is_empty() {
            return None;
        }
        let mut sum = 0.0;
        for part in &self.parts {
            for label in &self.labels {
                let times: Vec<u64> = (self.sources.iter())
                    .flat_map(|source| own_trials(source, part))
                    .filter(|trial| counts(trial) && trial.target == *label)
                    .filter_map(|trial| trial.elapsed_ns)
                    .collect();
                let count = u32::try_from(times.len()).ok().filter(|count| *count > 0)?;
                sum += (Duration::from_nanos(times.iter().sum()) / count).as_secs_f64();
            }
        }
        Some(sum)
    }
}

/// The trials of a run on a workload that is asked for.
fn own_trials<'a>(source: &'a Source, part: &Wanted) -> impl Iterator<Item = &'a TrialRecord> {
    let own = source.run.plan.workloads.iter().filter(|own| (part.is)(own));
    let own: Vec<&str> = own.map(|own| own.label.as_str()).collect();
    source.trials.iter().filter(move |trial| own.contains(&trial.workload.as_str()))
}

fn counts(trial: &TrialRecord) -> bool {
    trial.role == Role::Measured && trial.outcome == Outcome::Completed
}
