//! `fsdyno advise`: which target for whose work, by what has been measured. Statistics are left to `analysis`,
//! how it looks to `report`.

mod next;

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsdyno_analysis::advise::{Evidence, Part, Standings, advise};
use fsdyno_analysis::power_cuts::of_targets;
use fsdyno_analysis::series::WorkloadOrder;
use fsdyno_analysis::stopping::Looks;
use fsdyno_model::SCHEMA_VERSION;
use fsdyno_model::advice::{Advice, AdvisedWorkload, NextRun};
use fsdyno_model::audit::Fairness;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::power_cuts::PowerCutTest;
use fsdyno_model::record::TrialRecord;
use fsdyno_model::target::TargetSpec;
use fsdyno_model::words::{counted, listed};
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_report::advice as report;
use fsdyno_report::note;
use fsdyno_workload::command_line::CommandLine;

use self::next::Upcoming;
use super::output::{self, StoreArgs};
use crate::persona;
use crate::store::{Store, StoredRun};
use crate::{bad_inputs, catalogue};

/// Runs that are looked at when nothing is said.
const DEFAULT_RUNS: usize = 50;

const AFTER_HELP: &str = "\
Personas are sets of workloads with weights: build-server, mail-server, web-cache, desktop, database,
backup, media. In place of one, name your own workloads (-w) or your own command (behind --).

Only trials that the results database holds count, of the machine of the latest of them; two targets are
compared in the newest run that has both. docs/METHODOLOGY.md says how the whole is made.

  fsdyno advise mail-server
  fsdyno advise -w sqlite -w mine.toml
  fsdyno advise -- make -j2
  fsdyno advise mail-server --plan next.toml     what is open, as a plan: fsdyno run next.toml

Exit codes: 0 the best is known, 1 it is not yet, 2 bad input.";

/// Arguments of `fsdyno advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Whose work
    #[arg(value_name = "PERSONA", required_unless_present_any = ["workload", "command"])]
    persona: Option<String>,

    /// Workload NAME[:key=value,...] in place of a persona; may be given several times, each counts the same
    #[arg(long, short, value_name = "NAME|FILE.toml[:k=v,...]", conflicts_with = "persona")]
    workload: Vec<String>,

    /// Command line in place of a persona
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["persona", "workload"])]
    command: Vec<String>,

    /// Look at the latest N runs
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RUNS)]
    last: usize,

    /// Write the plan that would settle what is open to FILE, for fsdyno run
    #[arg(long, value_name = "FILE.toml")]
    plan: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// A workload that is asked for, and which of a run's are that one.
struct Wanted {
    spec: String,
    weight: u32,
    why: String,
    is: Box<dyn Fn(&WorkloadSpec) -> bool>,
}

/// The question.
struct Question {
    who: String,
    work: Option<String>,
    wanted: Vec<Wanted>,
}

/// A stored run that answers part of it.
struct Source {
    run: StoredRun,
    trials: Vec<TrialRecord>,
}

impl Args {
    /// Does it; the value says whether the best is known.
    ///
    /// # Errors
    /// Bad input; those of the database and of the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        let question = self.question()?;
        let path = self.store.path()?;
        let (sources, mut notes, tests) = match path.exists() {
            true => {
                let store = Store::open_existing(&path)?;
                let (sources, notes) = sources(&store, &question, self.last)?;
                (sources, notes, store.power_cuts()?)
            }
            false => (Vec::new(), Vec::new(), Vec::new()),
        };
        let standings = standings(&question, &sources);
        notes.extend(remarks(&question, &sources, &standings)?);
        notes.extend(power_cuts(&sources, &standings, &tests));
        let upcoming = Upcoming::of(&question, &sources, &standings);
        let next = upcoming.map(|it| self.next(&it)).transpose()?;
        if let Some(path) = self.plan.as_ref().filter(|_| next.is_none()) {
            notes.push(format!("Nothing is open: {} was not written.", path.display()));
        }
        let total: u32 = question.wanted.iter().map(|wanted| wanted.weight).sum();
        let of_workload = |(wanted, runs): (&Wanted, &Vec<String>)| AdvisedWorkload {
            spec: wanted.spec.clone(),
            share: f64::from(wanted.weight) / f64::from(total),
            why: wanted.why.clone(),
            runs: runs.clone(),
        };
        let advice = Advice {
            schema_version: SCHEMA_VERSION,
            workloads: question.wanted.iter().zip(&standings.runs).map(of_workload).collect(),
            who: question.who,
            work: question.work,
            ranking: standings.ranking,
            is_settled: next.is_none(),
            words: standings.words,
            notes,
            next,
        };
        let text = match self.json {
            true => report::json(&advice)?,
            false => report::render(&advice, output::table_options()),
        };
        output::print(&text)?;
        Ok(advice.is_settled)
    }

    /// The command that would settle what is open, and the plan where one is asked for.
    fn next(&self, upcoming: &Upcoming<'_>) -> anyhow::Result<NextRun> {
        if let Some(path) = &self.plan {
            upcoming.write_plan(path, &self.command)?;
        }
        Ok(NextRun {
            command: upcoming.command(&self.command),
            plan: self.plan.as_ref().map(|path| path.display().to_string()),
            block_s: upcoming.block_s(),
        })
    }

    fn question(&self) -> anyhow::Result<Question> {
        if let Some(name) = &self.persona {
            let persona = persona::find(name)?;
            let wanted = |part: fsdyno_model::persona::Part| {
                let kind = part.spec.split(':').next().unwrap_or_default().to_owned();
                let is = Box::new(move |own: &WorkloadSpec| own.kind == kind);
                Wanted { spec: part.spec, weight: part.weight, why: part.why, is }
            };
            let wanted = persona.parts.into_iter().map(wanted).collect();
            return Ok(Question { who: persona.title, work: Some(persona.work), wanted });
        }
        let mut wanted = Vec::new();
        for text in &self.workload {
            wanted.push(named(text)?);
        }
        if !self.command.is_empty() {
            let line = CommandLine::text_of(&self.command);
            let spec = line.clone();
            let is = move |own: &WorkloadSpec| {
                own.kind == "command" && own.params.text("command") == line
            };
            wanted.push(Wanted { spec, weight: 1, why: String::new(), is: Box::new(is) });
        }
        let specs: Vec<&str> = wanted.iter().map(|wanted| wanted.spec.as_str()).collect();
        Ok(Question { who: format!("`{}`", listed(&specs)), work: None, wanted })
    }
}

/// A workload as users name it, in full or in its `--quick` size.
fn named(text: &str) -> anyhow::Result<Wanted> {
    let read = |quick| {
        catalogue::with_names(|names| WorkloadSpec::parse(text, quick, names))
            .map_err(|errors| bad_inputs(&errors))
    };
    let asked = [read(false)?, read(true)?];
    let is = move |own: &WorkloadSpec| {
        asked.iter().any(|asked| {
            (&own.kind, &own.params, &own.definition)
                == (&asked.kind, &asked.params, &asked.definition)
        })
    };
    Ok(Wanted { spec: text.to_owned(), weight: 1, why: String::new(), is: Box::new(is) })
}

/// The runs that have one of the workloads, newest first, of the machine of the newest of them; and what is
/// to be said about them.
fn sources(
    store: &Store,
    question: &Question,
    last: usize,
) -> anyhow::Result<(Vec<Source>, Vec<String>)> {
    let mut sources: Vec<Source> = Vec::new();
    let (mut elsewhere, mut kernels) = (0, Vec::new());
    for line in store.runs()?.into_iter().rev().take(last) {
        let run = store.run(Some(&line.id))?;
        let is_wanted = |own: &WorkloadSpec| question.wanted.iter().any(|wanted| (wanted.is)(own));
        if !run.plan.workloads.iter().any(is_wanted) {
            continue;
        }
        if sources.first().is_some_and(|newest| ground(&newest.run) != ground(&run)) {
            elsewhere += 1;
            continue;
        }
        let kernel = run.environment.kernel_release.clone().unwrap_or_default();
        if !kernels.contains(&kernel) {
            kernels.push(kernel);
        }
        let trials = store.trials(&run.id)?;
        sources.push(Source { run, trials });
    }
    let mut notes = Vec::new();
    if elsewhere > 0 {
        notes.push(format!(
            "{} left out: made on another machine, in another directory or by another clock than the latest.",
            counted(elsewhere, "run")
        ));
    }
    if kernels.len() > 1 {
        let names: Vec<&str> = kernels.iter().map(String::as_str).collect();
        notes.push(format!("The runs are of different kernels: {}.", listed(&names)));
    }
    Ok((sources, notes))
}

/// What must be alike for two runs to speak of the same machine.
fn ground(run: &StoredRun) -> impl PartialEq + use<> {
    let environment = &run.environment;
    (
        environment.hostname.clone(),
        environment.measured,
        environment.cpu_model.clone(),
        environment.image_directory.clone(),
    )
}

fn standings(question: &Question, sources: &[Source]) -> Standings {
    let parts: Vec<Part<'_>> = question
        .wanted
        .iter()
        .map(|wanted| Part { spec: &wanted.spec, weight: f64::from(wanted.weight) })
        .collect();
    let mut evidence = Vec::new();
    for source in sources {
        let plan = &source.run.plan;
        for (part, wanted) in question.wanted.iter().enumerate() {
            evidence.extend(plan.workloads.iter().filter(|own| (wanted.is)(own)).map(|own| {
                Evidence {
                    run: &source.run.id,
                    part,
                    workload: WorkloadOrder {
                        label: &own.label,
                        phases: catalogue::phase_order(own),
                    },
                    targets: plan.targets.iter().map(|target| target.label.as_str()).collect(),
                    trials: &source.trials,
                    looks: Looks::of(plan),
                }
            }));
        }
    }
    advise(&question.who, &parts, &evidence)
}

/// What speaks against relying on the advice: the audit, trials that failed, quick runs, gaps.
fn remarks(
    question: &Question,
    sources: &[Source],
    standings: &Standings,
) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    let used = |source: &&Source| standings.runs.iter().flatten().any(|id| *id == source.run.id);
    for source in sources.iter().filter(used) {
        let run = &source.run;
        let id = &run.id;
        if run.plan.quick {
            notes.push(format!("Run {id} was a quick one: a first impression."));
        }
        let result = output::result_of_trials(run, source.trials.clone());
        for own in &result.audit.workloads {
            if own.fairness == Some(Fairness::NotComparable) {
                notes.push(format!("Run {id}, {}: {}", own.workload, own.text));
            }
        }
        notes.extend(failures(question, source));
    }
    let missing: Vec<&str> = (question.wanted.iter().zip(&standings.runs))
        .filter(|(_, runs)| runs.is_empty())
        .map(|(wanted, _)| wanted.spec.as_str())
        .collect();
    if !missing.is_empty() && !standings.ranking.is_empty() {
        notes.push(format!("Nothing is known of {}: the whole is without it.", listed(&missing)));
    }
    Ok(notes)
}

/// What is known of the ranked targets when the power fails: which broke promises, which kept them, which
/// were not tested.
fn power_cuts(sources: &[Source], standings: &Standings, tests: &[PowerCutTest]) -> Vec<String> {
    let Some(newest) = sources.first() else { return Vec::new() };
    let targets = || sources.iter().flat_map(|source| &source.run.plan.targets);
    let ranked: Vec<TargetSpec> = (standings.ranking.iter())
        .filter_map(|own| targets().find(|target| target.label == own.target).cloned())
        .collect();
    let kernel = newest.run.environment.kernel_release.as_deref();
    let of_targets = of_targets(&ranked, kernel, tests);
    let tested = of_targets.iter().filter(|own| own.cuts > 0);
    let mut notes: Vec<String> =
        tested.map(|own| format!("{} {}.", own.target, note::sentence(own))).collect();
    let untested = note::untested(of_targets.iter());
    notes.extend(untested.map(|words| format!("Power cuts: {words}.")));
    notes
}

/// Targets of a run some of whose trials did not complete, with the first reason.
fn failures(question: &Question, source: &Source) -> Vec<String> {
    let plan = &source.run.plan;
    let is_wanted = |label: &str| {
        let own = plan.workloads.iter().find(|own| own.label == label);
        own.is_some_and(|own| question.wanted.iter().any(|wanted| (wanted.is)(own)))
    };
    let mut failed: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for trial in source.trials.iter().filter(|trial| is_wanted(&trial.workload)) {
        if matches!(trial.outcome, Outcome::Failed { .. } | Outcome::TimedOut { .. }) {
            let entry = failed.entry(&trial.target);
            entry.or_insert_with(|| (0, trial.outcome.sentence())).0 += 1;
        }
    }
    let told = |(target, (count, reason)): (&str, (usize, String))| {
        format!(
            "Run {}: {} of {target} did not complete; the first {reason}",
            source.run.id,
            counted(count, "trial")
        )
    };
    failed.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_persona() {
        let words: Vec<&str> =
            AFTER_HELP.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
        assert!(persona::ALL.iter().all(|(name, _)| words.contains(name)));
    }
}
