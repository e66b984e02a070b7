//! All that a report shows of a run, collected from the results database and the block traces beside
//! it. What is made of records and events is computed by `analysis`; how it looks is left to `report`.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use fsdyno_analysis::series::WorkloadOrder;
use fsdyno_analysis::stopping::Looks;
use fsdyno_analysis::{curve, explain, ratio, trace};
use fsdyno_model::io_graph::IoGraph;
use fsdyno_model::outcome::Outcome;
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{Role, TrialRecord, Warning};
use fsdyno_model::report_data::{PhaseSpans, ReportData, TrialTimeline};
use fsdyno_model::trace::{TraceEvent, TraceInfo, TraceRecord, TraceSource};
use fsdyno_model::units;
use fsdyno_report::exports::tables::{Needs, Timelines};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::catalogue;
use crate::cmd::result_of;
use crate::run::progress::say;
use crate::store::{Store, StoredRun};

/// Code of the warning of a trace that cannot be read.
pub const TRACE_UNREADABLE: &str = "trace-unreadable";
/// Code of the warning of a trace of which a part is missing.
pub const TRACE_INCOMPLETE: &str = "trace-incomplete";
/// Code of the warning of what the machine did, where that cannot be read.
pub const ACTIVITY_UNREADABLE: &str = "activity-unreadable";

/// Work that is done within this time is not talked about.
const SILENT: Duration = Duration::from_secs(2);
/// Time between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(15);

/// Collects what a report of `run` needs. What cannot be read of a trace or of
/// what the machine did is left out, and is a warning of the run.
///
/// # Errors
/// Those of the database.
pub fn collect(
    store: &Store,
    run: &StoredRun,
    needs: Needs,
    quiet: bool,
) -> anyhow::Result<ReportData> {
    let trials = store.trials(&run.id)?;
    let plan = &run.plan;
    let targets: Vec<&str> = plan.targets.iter().map(|target| target.label.as_str()).collect();
    let orders: Vec<WorkloadOrder<'_>> = plan
        .workloads
        .iter()
        .map(|spec| WorkloadOrder { label: &spec.label, phases: catalogue::phase_order(spec) })
        .collect();
    let mut data = ReportData {
        result: result_of(store, run)?,
        comparisons: ratio::comparisons(&targets, &orders, &trials, &Looks::of(plan)),
        curves: curve::curves(&targets, &orders, &trials),
        timelines: Vec::new(),
    };
    let chosen = match needs.timelines {
        Timelines::None => Vec::new(),
        Timelines::Shown => shown(plan, &trials),
        Timelines::Every => trials.iter().filter(|trial| !trial.phases.is_empty()).collect(),
    };
    let directory = store.trace_directory(&run.id);
    let mut progress = Progress::new(chosen.iter().filter(|_| needs.graphs), quiet);
    for trial in chosen {
        let order = orders.iter().find(|order| order.label == trial.workload);
        let phases = phases(trial, order.map_or(&[], |order| order.phases.as_slice()));
        let mut timeline = timeline(trial, phases);
        if trial.role == Role::Explain {
            timeline.slowdown =
                explain::slowdown(&data.result.trials, &trial.target, &trial.workload);
        }
        if needs.activity {
            match store.activity(&run.id, trial) {
                Ok(activity) => timeline.activity = activity,
                Err(error) => data.result.run.warnings.push(without_activity(trial, &error)),
            }
        }
        if let Some(record) = trial.trace.as_ref().filter(|_| needs.graphs) {
            match graph(&directory, record, &timeline, &mut progress) {
                Ok(graph) => {
                    data.result.run.warnings.extend(incomplete(trial, record, &graph));
                    timeline.graph = Some(graph).filter(|graph| graph.events > 0);
                }
                Err(error) => data.result.run.warnings.push(unreadable(trial, record, &error)),
            }
        }
        data.timelines.push(timeline);
    }
    progress.finish();
    Ok(data)
}

/// What is known of a trial before anything was read.
fn timeline(trial: &TrialRecord, phases: Vec<PhaseSpans>) -> TrialTimeline {
    TrialTimeline {
        target: trial.target.clone(),
        workload: trial.workload.clone(),
        trial: trial.trial,
        role: trial.role,
        phases,
        graph: None,
        activity: None,
        slowdown: None,
    }
}

/// Of each workload and target the trial that a report shows over time: the one that was run to be
/// traced, else one that was traced, else the first that completed.
fn shown<'a>(plan: &Plan, trials: &'a [TrialRecord]) -> Vec<&'a TrialRecord> {
    let mut shown = Vec::new();
    for workload in &plan.workloads {
        for target in &plan.targets {
            let own = || {
                trials.iter().filter(|trial| {
                    trial.workload == workload.label
                        && trial.target == target.label
                        && !trial.phases.is_empty()
                })
            };
            let completed = || own().filter(|trial| trial.outcome == Outcome::Completed);
            let best = completed()
                .find(|trial| trial.role == Role::Explain && trial.trace.is_some())
                .or_else(|| completed().find(|trial| trial.trace.is_some()))
                .or_else(|| own().find(|trial| trial.trace.is_some()))
                .or_else(|| completed().find(|trial| trial.role == Role::Measured));
            shown.extend(best);
        }
    }
    shown
}

/// When the phases of a trial ran, in the order of tables.
fn phases(trial: &TrialRecord, order: &[&'static str]) -> Vec<PhaseSpans> {
    let rank = |name: &str| order.iter().position(|known| *known == name).unwrap_or(order.len());
    let mut phases: Vec<PhaseSpans> = trial
        .phases
        .iter()
        .map(|phase| {
            let spans = phase.samples.iter().filter_map(|sample| {
                let started_ns = sample.started_ns?;
                let elapsed_ns = sample.elapsed_durable_ns.unwrap_or(sample.elapsed_return_ns);
                Some((started_ns, started_ns.saturating_add(elapsed_ns)))
            });
            PhaseSpans { phase: phase.name.clone(), spans: spans.collect() }
        })
        .filter(|phase| !phase.spans.is_empty())
        .collect();
    phases.sort_by_key(|phase| rank(&phase.phase));
    phases
}

fn graph(
    directory: &Path,
    record: &TraceRecord,
    timeline: &TrialTimeline,
    progress: &mut Progress,
) -> io::Result<IoGraph> {
    // A name that leads elsewhere was not written by us.
    if Path::new(&record.file).file_name().is_none_or(|name| name != record.file.as_str()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its name is no file's name"));
    }
    progress.begin(&format!("{} {}", timeline.target, timeline.workload));
    let path = directory.join(&record.file);
    // A file that is not there is told as such, not as one of blktrace that might lie there.
    std::fs::metadata(&path)?;
    let mut source = fsdyno_trace::open::open(&path)?;
    let mut counted = Counted { source: source.as_mut(), progress };
    let options = trace::Options {
        label: timeline.target.clone(),
        windows: timeline.phases.clone(),
        ..trace::Options::default()
    };
    trace::analyze(&mut counted, options)
}

fn without_activity(trial: &TrialRecord, error: &anyhow::Error) -> Warning {
    Warning {
        code: ACTIVITY_UNREADABLE.to_owned(),
        message: format!(
            "what the machine did in {} {} trial {} cannot be read: {error:#}",
            trial.target, trial.workload, trial.trial
        ),
        advice: "check the disk that holds the results; all other figures stand".to_owned(),
    }
}

/// A trace as warnings name it.
fn trace_of(trial: &TrialRecord, record: &TraceRecord) -> String {
    let TrialRecord { target, workload, trial, .. } = trial;
    format!("the block trace of {target} {workload} trial {trial} ({})", record.file)
}

fn unreadable(trial: &TrialRecord, record: &TraceRecord, error: &io::Error) -> Warning {
    let trace = trace_of(trial, record);
    let message = match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "{trace} is gone: it was removed, as `fsdyno clean --traces` does, or left behind when the database moved"
            )
        }
        _ => format!("{trace} cannot be read: {error}"),
    };
    Warning {
        code: TRACE_UNREADABLE.to_owned(),
        message,
        advice: "its graphs are left out, all other figures stand; traces lie in the directory beside the results database and move with it".to_owned(),
    }
}

/// The warning of a trace that has fewer events than were stored in it, as when its file was cut.
fn incomplete(trial: &TrialRecord, record: &TraceRecord, graph: &IoGraph) -> Option<Warning> {
    let missing = record.events.checked_sub(graph.events).filter(|missing| *missing > 0)?;
    let trace = trace_of(trial, record);
    let cause = graph.warnings.first().map_or(String::new(), |cause| format!(": {cause}"));
    let (code, share, advice) = if graph.events == 0 {
        (TRACE_UNREADABLE, "all".to_owned(), "its graphs are left out")
    } else {
        (TRACE_INCOMPLETE, missing.to_string(), "its graphs lack them and are too low")
    };
    Some(Warning {
        code: code.to_owned(),
        message: format!(
            "{trace} is damaged, {share} of its {} events are missing{cause}",
            record.events
        ),
        advice: format!("{advice}, all other figures stand; check the disk that holds the results"),
    })
}

/// How far the analysis of traces is, on standard error.
struct Progress {
    total_events: u64,
    done_events: u64,
    started: Instant,
    told: Instant,
    name: String,
    bar: Option<ProgressBar>,
    quiet: bool,
}

impl Progress {
    fn new<'a>(trials: impl Iterator<Item = &'a &'a TrialRecord>, quiet: bool) -> Progress {
        let traces = trials.filter_map(|trial| trial.trace.as_ref());
        let now = Instant::now();
        Progress {
            total_events: traces.map(|trace| trace.events).sum(),
            done_events: 0,
            started: now,
            told: now,
            name: String::new(),
            bar: None,
            quiet,
        }
    }

    fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    fn add(&mut self, events: u64) {
        self.done_events += events;
        let elapsed = self.started.elapsed();
        if self.quiet || elapsed < SILENT {
            return;
        }
        let left = left(elapsed, self.done_events, self.total_events);
        let left = left.map_or(String::new(), |left| format!(", about {left} left"));
        if fsdyno_sys::process::stderr_is_terminal() {
            let (total, done) = (self.total_events, self.done_events);
            let bar = self.bar.get_or_insert_with(|| bar(total));
            bar.set_position(done);
            bar.set_message(format!("analysing traces{left} · {}", self.name));
        } else if self.told == self.started || self.told.elapsed() > BETWEEN_LINES {
            self.told = Instant::now();
            let share = 100.0 * self.done_events as f64 / self.total_events.max(1) as f64;
            say(&format!("analysing traces: {:.0} %{left}", share.min(100.0)));
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(total_events: u64) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(8);
    let bar = ProgressBar::with_draw_target(Some(total_events), target);
    let style = ProgressStyle::with_template("{bar:16} {wide_msg}");
    bar.set_style(style.expect("the template is a literal").progress_chars("━╸┄"));
    bar
}

/// The time that the events that are left will take, in words.
fn left(elapsed: Duration, done: u64, total: u64) -> Option<String> {
    let events_left = total.checked_sub(done).filter(|left| *left > 0)?;
    let seconds = elapsed.as_secs_f64() * events_left as f64 / done.max(1) as f64;
    // Whole seconds: tenths would only flicker.
    let whole = seconds.ceil().max(1.0) as u64;
    Some(
        units::human_duration(whole.saturating_mul(1_000_000_000))
            .replace(".00 s", " s")
            .replace(".0 s", " s"),
    )
}

/// A trace whose events are counted as they are read.
struct Counted<'a> {
    source: &'a mut dyn TraceSource,
    progress: &'a mut Progress,
}

impl TraceSource for Counted<'_> {
    fn next_batch(&mut self, batch: &mut Vec<TraceEvent>) -> io::Result<bool> {
        let more = self.source.next_batch(batch)?;
        self.progress.add(batch.len() as u64);
        Ok(more)
    }

    fn info(&self) -> &TraceInfo {
        self.source.info()
    }
}

#[cfg(test)]
mod tests {
    use fsdyno_model::record::{PhaseRecord, Sample};
    use fsdyno_model::target::TargetSpec;
    use fsdyno_model::workload::WorkloadSpec;

    use super::*;

    fn trial(number: u32, role: Role, outcome: Outcome, traced: bool) -> TrialRecord {
        let mut trial = TrialRecord::planned("dir:/srv", "small-files", number, number, outcome);
        trial.role = role;
        trial.phases.push(PhaseRecord::new("create", "elapsed_s"));
        trial.trace = traced.then(|| TraceRecord {
            file: format!("{number}.fstrace"),
            file_bytes: 1,
            events: 1,
            lost_events: 0,
        });
        trial
    }

    #[test]
    fn the_trial_that_explains_is_shown() {
        let mut plan = Plan::new(false);
        catalogue::with_names(|names| {
            plan.targets.push(TargetSpec::parse("dir:/srv", names).unwrap());
            plan.workloads.push(WorkloadSpec::parse("small-files", false, names).unwrap());
        });
        let failed = || Outcome::Interrupted { stage: "create".to_owned() };
        let (measured, completed) = (Role::Measured, Outcome::Completed);
        let trials = [
            trial(1, measured, failed(), false),
            trial(2, measured, completed.clone(), false),
            trial(3, measured, failed(), true),
            trial(4, measured, completed.clone(), true),
            trial(5, Role::Explain, completed.clone(), false),
            trial(6, Role::Explain, completed, true),
        ];
        let number = |count: usize| shown(&plan, &trials[..count]).first().map(|trial| trial.trial);
        let expected = [None, None, Some(2), Some(3), Some(4), Some(4), Some(6)];
        assert_eq!((0..=6).map(number).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn spans_end_where_data_were_durable_and_follow_the_order_of_tables() {
        let sample = |started_ns, durable| Sample {
            subject: String::new(),
            started_ns,
            elapsed_return_ns: 5,
            elapsed_durable_ns: durable,
            operations: 1,
            bytes: 1,
            app_user_ns: None,
            app_system_ns: None,
        };
        let mut record = trial(1, Role::Measured, Outcome::Completed, false);
        record.phases.clear();
        for (name, samples) in [
            ("delete", vec![sample(Some(100), None)]),
            ("fsck", Vec::new()),
            ("create", vec![sample(Some(10), Some(7)), sample(None, None), sample(Some(30), None)]),
        ] {
            record.phases.push(PhaseRecord { samples, ..PhaseRecord::new(name, "elapsed_s") });
        }
        let found = phases(&record, &["create", "delete"]);
        let spans: Vec<_> = found.iter().map(|it| (it.phase.as_str(), it.spans.clone())).collect();
        assert_eq!(spans, [("create", vec![(10, 17), (30, 35)]), ("delete", vec![(100, 105)])]);
    }

    #[test]
    fn the_time_left_is_that_of_the_events_left() {
        let ten = Duration::from_secs(10);
        assert_eq!(left(ten, 25, 100).as_deref(), Some("30 s"));
        assert_eq!(left(ten, 100, 100), None);
        assert_eq!(left(ten, 101, 100), None);
    }

    #[test]
    fn a_trace_is_read_from_its_directory_alone() {
        let record = trial(1, Role::Explain, Outcome::Completed, true);
        let timeline = timeline(&record, Vec::new());
        for file in ["../x.fstrace", "/etc/passwd", ".."] {
            let record =
                TraceRecord { file: file.to_owned(), file_bytes: 1, events: 1, lost_events: 0 };
            let mut progress = Progress::new([].iter(), true);
            let error = graph(Path::new("/tmp"), &record, &timeline, &mut progress).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{file}");
        }
    }
}
