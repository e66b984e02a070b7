//! `fsdyno selftest`: verdicts put to the test on this machine. The same directory under two labels must
//! not be told apart (aa); one that is given more work by a known share must be (ab). The trials are made
//! by the very scheduler and phase runner that measure filesystems, and judged by the same statistics.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Subcommand;
use fsdyno_analysis::interval;
use fsdyno_analysis::selftest::{self, Experiment, Share};
use fsdyno_analysis::series::WorkloadOrder;
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::trace::TraceMode;
use fsdyno_model::workload::WorkloadSpec;
use serde_json::json;

use super::output;
use crate::store::Store;
use crate::{bad_input, catalogue, paths, run};

/// Share of false verdicts that is accepted.
const MOST_FALSE: f64 = 0.05;
/// How long the work of one trial takes.
const TRIAL: Duration = Duration::from_millis(200);
/// Files that are made to find out how many fit into that.
const FIRST_FILES: u64 = 2000;
/// Name of the directory in which more is done.
const SLOWED: &str = "slowed";

/// Arguments of `fsdyno selftest`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// The same target under two labels: how often is it told apart from itself?
    Aa(Common),
    /// A target with more work by a known share: how often is that found?
    Ab {
        /// More work of the second target, in percent; may be given several times
        #[arg(long, value_name = "PERCENT", default_values_t = [3, 5, 10], value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
        slowdown: Vec<u32>,

        #[command(flatten)]
        common: Common,
    },
    /// The work of one trial
    #[command(hide = true)]
    Work {
        /// Files that are made, written, closed and removed
        #[arg(long, value_name = "N")]
        files: u64,

        /// More of them where the working directory is the slowed one, in percent
        #[arg(long, value_name = "PERCENT", default_value_t = 0)]
        slowdown: u32,
    },
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Experiments, each judged as a run of its own
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    experiments: u32,

    /// Trials of each target in an experiment
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    trials: u32,

    /// Directory on the filesystem to test on [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it; false when verdicts are false more often than they may be.
    ///
    /// # Errors
    /// A directory that cannot be used; trials that did not complete; the output.
    pub fn execute(self) -> anyhow::Result<bool> {
        match self.test {
            Test::Aa(common) => common.run(&[0]),
            Test::Ab { slowdown, common } => common.run(&slowdown),
            Test::Work { files, slowdown } => work(files, slowdown).map(|()| true),
        }
    }
}

/// Makes, writes, closes and removes files in the working directory.
fn work(files: u64, slowdown: u32) -> anyhow::Result<()> {
    let here = std::env::current_dir().context("where am I?")?;
    let is_slowed = here.iter().any(|part| part == SLOWED);
    let more = if is_slowed { files * u64::from(slowdown) / 100 } else { 0 };
    let contents = [0x5a; 4096];
    for index in 0..files + more {
        let name = format!("f{}", index % 64);
        let made = std::fs::File::create(&name).and_then(|mut file| file.write_all(&contents));
        made.and_then(|()| std::fs::remove_file(&name))
            .with_context(|| format!("work on {name}"))?;
    }
    Ok(())
}

/// What came of one slowdown.
struct Outcome {
    slowdown: u32,
    experiments: Vec<Experiment>,
}

impl Outcome {
    /// How many told the targets apart: falsely where they are the same.
    fn told_apart(&self) -> Share {
        let is_told = |one: &&Experiment| {
            if self.slowdown == 0 { one.is_told_apart() } else { one.is_slower() }
        };
        let count = self.experiments.iter().filter(is_told).count();
        selftest::share(count as u64, self.experiments.len() as u64)
    }

    fn median_ratio(&self) -> Option<f64> {
        interval::median(&self.experiments.iter().map(|one| one.ratio).collect::<Vec<f64>>())
    }

    fn sentence(&self) -> String {
        let Share { count, of, low, high } = self.told_apart();
        let percent = |share: f64| format!("{:.0}", share * 100.0);
        let range = format!("95 % interval {}–{} %", percent(low), percent(high));
        let median = self
            .median_ratio()
            .map_or_else(String::new, |ratio| format!("; the median of the ratios is {ratio:.3}"));
        let share = percent(count as f64 / of.max(1) as f64);
        match self.slowdown {
            0 => format!(
                "A target was told apart from itself in {count} of {of} experiments ({share} %, {range}); {} % are accepted{median}.",
                percent(MOST_FALSE)
            ),
            slowdown => format!(
                "{slowdown} % more work was found in {count} of {of} experiments ({share} %, {range}){median}, {:.3} is the truth.",
                100.0 / (100.0 + f64::from(slowdown))
            ),
        }
    }

    fn json(&self) -> serde_json::Value {
        let Share { count, of, low, high } = self.told_apart();
        let one = |one: &Experiment| json!({ "ratio": one.ratio, "ci95_low": one.low, "ci95_high": one.high });
        json!({
            "slowdown_percent": self.slowdown,
            "told_apart": count,
            "experiments": of,
            "share_ci95_low": low,
            "share_ci95_high": high,
            "median_ratio": self.median_ratio(),
            "each": self.experiments.iter().map(one).collect::<Vec<_>>(),
        })
    }

    /// Whether more verdicts are false than chance explains at the share that is accepted.
    fn is_bad(&self) -> bool {
        self.slowdown == 0 && self.told_apart().low > MOST_FALSE
    }
}

impl Common {
    fn run(&self, slowdowns: &[u32]) -> anyhow::Result<bool> {
        let directory = self.dir.clone().unwrap_or_else(paths::default_image_directory);
        let place = place(&directory, "selftest")?;
        let files = files_of_a_trial(place.directory())?;
        let mut outcomes = Vec::new();
        for slowdown in slowdowns {
            let experiments = self.experiments(place.directory(), files, *slowdown)?;
            outcomes.push(Outcome { slowdown: *slowdown, experiments });
            if fsdyno_sys::process::interrupted() {
                break;
            }
        }
        place.close().map_err(|left| anyhow::anyhow!("cannot remove {}", left.join("; ")))?;
        if self.json {
            let each: Vec<_> = outcomes.iter().map(Outcome::json).collect();
            let whole = json!({ "trials": self.trials, "outcomes": each });
            output::print(&format!("{}\n", serde_json::to_string_pretty(&whole)?))?;
        } else {
            let lines = outcomes.iter().map(|outcome| outcome.sentence() + "\n");
            output::print(&lines.collect::<String>())?;
        }
        let is_whole = outcomes.len() == slowdowns.len();
        Ok(is_whole && !outcomes.iter().any(Outcome::is_bad))
    }

    fn experiments(
        &self,
        place: &Path,
        files: u64,
        slowdown: u32,
    ) -> anyhow::Result<Vec<Experiment>> {
        let plan = self.plan(place, files, slowdown)?;
        let mut store = Store::open(&place.join(format!("results-{slowdown}.db")))?;
        let options = run::RunOptions {
            destroy: Vec::new(),
            quiet: self.quiet,
            keep_aged: false,
            jobs: None,
            command: "fsdyno selftest".to_owned(),
        };
        let id = run::start(&plan, &options, &mut store)?;
        let trials = store.trials(&id)?;
        let workload = &plan.workloads[0];
        let order =
            WorkloadOrder { label: &workload.label, phases: catalogue::phase_order(workload) };
        let targets = [plan.targets[0].label.as_str(), plan.targets[1].label.as_str()];
        let experiments = selftest::experiments(targets, &order, &trials, self.trials);
        if experiments.is_empty() {
            let why = trials.iter().map(|trial| trial.outcome.sentence()).next();
            anyhow::bail!("no experiment completed: {}", why.unwrap_or_default());
        }
        Ok(experiments)
    }

    fn plan(&self, place: &Path, files: u64, slowdown: u32) -> anyhow::Result<Plan> {
        let mut plan = Plan::new(false);
        plan.stop = None;
        plan.trials = self.trials * self.experiments;
        plan.trace = TraceMode::None;
        // A reading would take several times as long as a trial.
        plan.yardstick = false;
        plan.directory = Some(place.to_owned());
        for label in ["plain", SLOWED] {
            let path = place.join(label);
            std::fs::create_dir_all(&path)
                .with_context(|| format!("cannot make {}", path.display()))?;
            let ground = Ground::Directory { path };
            plan.targets.push(TargetSpec { label: label.to_owned(), ground });
        }
        let program = std::env::current_exe().context("which program am I?")?;
        let line = format!(
            "'{}' selftest work --files {files} --slowdown {slowdown}",
            program.display().to_string().replace('\'', r"'\''")
        );
        let workload = catalogue::with_names(|names| {
            let info = names.workload("command")?;
            let mut params = Params::defaults(info.params, false);
            for (name, value) in [("command", line.as_str()), ("cold", "none")] {
                params.set(info.params, name, value)?;
            }
            Ok::<_, String>(WorkloadSpec::of(info, params))
        });
        // Its command line would be no name.
        let label = "files".to_owned();
        plan.workloads.push(WorkloadSpec { label, ..workload.map_err(bad_input)? });
        plan.finish().map_err(|errors| crate::bad_inputs(&errors))
    }
}

/// How many files take as long as a trial should.
fn files_of_a_trial(place: &Path) -> anyhow::Result<u64> {
    let program = std::env::current_exe().context("which program am I?")?;
    let mut command = std::process::Command::new(program);
    command.args(["selftest", "work", "--files"]).arg(FIRST_FILES.to_string()).current_dir(place);
    let start = Instant::now();
    let status = command.status().context("cannot run the work of a trial")?;
    anyhow::ensure!(status.success(), "the work of a trial failed in {}", place.display());
    let each = start.elapsed() / u32::try_from(FIRST_FILES).unwrap_or(u32::MAX);
    Ok(u64::try_from(TRIAL.as_nanos() / each.as_nanos().max(1)).unwrap_or(u64::MAX).max(100))
}

/// A directory of our own below `parent`, recorded as that of a run, so that it is found whatever ends us;
/// `purpose` is part of its name.
pub(super) fn place(parent: &Path, purpose: &str) -> anyhow::Result<Workspace> {
    if !parent.is_dir() {
        let shown = parent.display();
        return Err(bad_input(format!("{shown} is no directory: name one that exists (--dir)")));
    }
    let state = paths::state_directory()?;
    run::tell_leftovers(&state);
    let id = format!("{purpose}-{}", std::process::id());
    Workspace::open(&id, parent, &state, &[]).map_err(bad_input)
}
