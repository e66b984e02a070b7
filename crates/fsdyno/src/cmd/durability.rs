//! `fsdyno durability`: what is left of a filesystem's promises when the power fails. A workload runs once
//! on a disk that writes everything down; from that, power cuts are made again, mounted and judged. What
//! came of it is kept in the results database, and stands beside the speed of the same target.

mod beside;
mod stored;
pub(super) mod target;
mod text;

pub(super) use beside::{check as check_beside, cut as cut_beside};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_durability::cut::DiskRules;
use fsdyno_durability::promises;
use fsdyno_durability::recording::{self, Recording};
use fsdyno_durability::replay::{self, Outcome};
use fsdyno_durability::workload::mixes::{self, Mix};
use fsdyno_durability::workload::{Amount, MOST_WORKERS};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::target::{FreshSpec, TargetSpec};
use fsdyno_model::units;
use fsdyno_sys::process;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::output::{self, StoreArgs};
use crate::run::progress::say;
use crate::store::Store;
use crate::{bad_input, catalogue, paths, run};
use target::Wanted;

/// How often progress is told where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Arguments of `fsdyno durability`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub struct Args {
    /// Filesystems, each with its options as for compare: ext4, ext4:barrier=0, xfs@loop:512MiB
    #[arg(value_name = "TARGET", required_unless_present = "replay", conflicts_with = "replay")]
    targets: Vec<String>,

    /// Power cuts of each target
    #[arg(long, short = 'n', value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    cuts: u64,

    /// Look at the cut with this number alone
    #[arg(long, value_name = "NUMBER", conflicts_with = "cuts")]
    only: Option<u64>,

    /// What is done, and promised
    #[arg(long, short, value_name = "NAME", default_value = mixes::ALL[0].name, value_parser = parse_mix)]
    workload: &'static Mix,

    /// Calls that each worker makes
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    operations: u32,

    /// Workers, each in directories of its own
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_WORKERS)))]
    workers: u32,

    /// What is drawn comes from this number
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,

    /// Bytes that the disk writes whole or not at all
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = units::parse_bytes)]
    block: u64,

    /// Bytes that the disk's cache holds; older writes are on the disk though nobody flushed
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::parse_bytes)]
    cache: u64,

    /// A disk that answers flushes and does nothing
    #[arg(long)]
    ignore_flushes: bool,

    /// Hold every filesystem to fsync(2) alone, not to what it documents besides
    #[arg(long)]
    manual_only: bool,

    /// Hold ext4 to what it documents of a file that takes another's place by rename without an fsync
    #[arg(long, conflicts_with = "manual_only")]
    unsynced_rename: bool,

    /// Mount and read only: leave the check of the filesystem out
    #[arg(long)]
    no_fsck: bool,

    /// Keep the recording in this directory, which must not exist yet; one with a broken promise is kept
    /// anyway
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    keep: Option<PathBuf>,

    /// Replay a recording that was kept
    #[arg(long, value_name = "DIR")]
    replay: Option<PathBuf>,

    /// Cuts that are looked at beside each other [default: one for each processor, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,

    /// Directory for the recording [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// What came of one target.
#[derive(Debug)]
struct Tried {
    /// The target; `None` of a recording that was kept.
    spec: Option<FreshSpec>,
    recording: Recording,
    outcome: Outcome,
    elapsed: Duration,
    /// Where the recording is kept.
    kept_in: Option<PathBuf>,
}

impl Args {
    /// Does it; false when a promise was broken.
    ///
    /// # Errors
    /// Bad input: a target that cannot be tried, a directory; whatever could not be done.
    pub fn execute(self) -> anyhow::Result<bool> {
        let (tried, is_stored) = self.make()?;
        let text = match self.json {
            true => serde_json::to_string_pretty(&text::json(&tried, self.rules()))?,
            false => {
                let page = text::page(&tried, self.rules(), &self.promise_words());
                let where_else = if is_stored { text::BESIDE } else { "" };
                page + where_else
            }
        };
        output::print(&text)?;
        Ok(is_kept(&tried))
    }

    /// Makes the cuts and stores what came of them; also whether anything was stored.
    fn make(&self) -> anyhow::Result<(Vec<Tried>, bool)> {
        if !process::may_mount() {
            return Err(bad_input(
                "power cuts need root, to mount what they leave: run it with sudo",
            ));
        }
        self.check()?;
        let parent = self.dir.clone().unwrap_or_else(paths::default_image_directory);
        self.targets.iter().try_for_each(|text| promises_something(text))?;
        let wanted: Vec<Wanted> =
            self.targets.iter().map(|text| Wanted::new(text, &parent)).collect::<Result<_, _>>()?;
        // What cannot be kept is told before anything is made.
        let is_stored = self.replay.is_none() && self.only.is_none();
        let mut store = match is_stored {
            true => Some(Store::open(&self.store.path()?)?),
            false => None,
        };
        run::enter_private_namespace();
        process::install_signal_handlers()?;
        let state = paths::state_directory()?;
        run::tell_leftovers(&state);
        let id = format!("durability-{}", std::process::id());
        let workspace = Workspace::open(&id, &parent, &state, &[]).map_err(bad_input)?;
        let tried = self.try_all(&wanted, workspace.directory());
        let closed = workspace.close().map_err(|errors| anyhow::anyhow!(errors.join("; ")));
        let tried = tried?;
        closed?;
        if let Some(store) = &mut store {
            tried.iter().try_for_each(|one| self.put(store, one))?;
        }
        Ok((tried, is_stored))
    }

    fn check(&self) -> anyhow::Result<()> {
        if !self.block.is_power_of_two() || !(512..=1 << 20).contains(&self.block) {
            return Err(bad_input("--block must be a power of two from 512 bytes to 1 MiB"));
        }
        if let Some(directory) = self.keep.as_ref().filter(|path| path.exists()) {
            let shown = directory.display();
            return Err(bad_input(format!("--keep {shown} exists: name a directory to be made")));
        }
        if self.keep.is_some() && self.targets.len() > 1 {
            return Err(bad_input("--keep takes one target: name each directory for itself"));
        }
        Ok(())
    }

    /// The words that say which promises count.
    fn promise_words(&self) -> Vec<&'static str> {
        let words =
            [("--manual-only", self.manual_only), ("--unsynced-rename", self.unsynced_rename)];
        words.into_iter().filter(|(_, given)| *given).map(|(word, _)| word).collect()
    }

    fn rules(&self) -> DiskRules {
        DiskRules {
            block_bytes: self.block,
            cache_bytes: self.cache,
            ignores_flushes: self.ignore_flushes,
        }
    }

    fn try_all(&self, wanted: &[Wanted], directory: &Path) -> anyhow::Result<Vec<Tried>> {
        if let Some(kept) = &self.replay {
            let recording = Recording::open(kept).map_err(bad_input)?;
            return Ok(vec![self.replay(recording, None, directory, Some(kept.clone()))?]);
        }
        let mut tried = Vec::new();
        for (number, wanted) in wanted.iter().enumerate() {
            let place = directory.join(format!("recording-{number}"));
            std::fs::create_dir(&place)?;
            let order = recording::Order {
                target: &wanted.text,
                spec: &wanted.spec,
                size_bytes: wanted.size_bytes,
                model: (&wanted.model_name, &wanted.model),
                amount: Amount {
                    mix: self.workload,
                    seed: self.seed,
                    workers: self.workers,
                    operations: self.operations,
                },
                directory: &place,
            };
            if !self.quiet {
                say(&format!("recording {}", wanted.text));
            }
            let recording = recording::record(&order)
                .map_err(|error| anyhow::anyhow!("{}: {error}", wanted.text))?;
            tried.push(self.replay(recording, Some(wanted.spec.clone()), directory, None)?);
        }
        Ok(tried)
    }

    fn replay(
        &self,
        mut recording: Recording,
        spec: Option<FreshSpec>,
        directory: &Path,
        kept_in: Option<PathBuf>,
    ) -> anyhow::Result<Tried> {
        let about = &mut recording.about;
        about.promises = match self.manual_only {
            true => promises::MANUAL,
            false => {
                promises::documented(&about.filesystem, &about.mount_options, self.unsynced_rename)
            }
        };
        let numbers = self.only.map_or(0..self.cuts, |number| number..number + 1);
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let order = replay::Order {
            numbers,
            rules: self.rules(),
            check: !self.no_fsck,
            threads: self.jobs.map_or(processors, |jobs| jobs as usize),
            directory: directory.to_owned(),
        };
        let progress = Progress::new(&recording.about.target, &order, self.quiet);
        let started = Instant::now();
        let outcome = replay::run(&recording, &order, &|done, broken| progress.tell(done, broken));
        progress.end();
        let target = &recording.about.target;
        let outcome = outcome.map_err(|error| anyhow::anyhow!("{target}: {error}"))?;
        let kept_in = match (kept_in, &self.keep) {
            (Some(kept), _) => Some(kept),
            (None, Some(wanted)) => Some(keep(&recording, wanted)?),
            (None, None) if !outcome.broken.is_empty() => {
                Some(keep(&recording, &place_for_findings()?)?)
            }
            (None, None) => None,
        };
        Ok(Tried { spec, recording, outcome, elapsed: started.elapsed(), kept_in })
    }
}

/// The workloads, a line each.
fn mix_lines() -> String {
    mixes::ALL.iter().map(|mix| format!("\n  {:9} {}", mix.name, mix.doc)).collect()
}

fn after_help() -> String {
    format!("Workloads:{}\n\ndocs/DURABILITY.md says what is promised.", mix_lines())
}

fn parse_mix(name: &str) -> Result<&'static Mix, String> {
    mixes::by_name(name)
        .ok_or_else(|| format!("workloads whose promises are known are:{}", mix_lines()))
}

/// Refuses filesystems that promise nothing, whether this machine has them or not.
fn promises_something(text: &str) -> anyhow::Result<()> {
    let target = catalogue::with_names(|names| TargetSpec::parse(text, names));
    let target = target.map_err(bad_input)?;
    match promises::no_promise(target.filesystem()) {
        Some(why) => Err(bad_input(format!("{text}: {why}"))),
        None => Ok(()),
    }
}

/// Whether every target kept every promise.
fn is_kept(tried: &[Tried]) -> bool {
    tried.iter().all(|one| one.outcome.broken.is_empty())
}

fn keep(recording: &Recording, directory: &Path) -> anyhow::Result<PathBuf> {
    recording.keep(directory).map_err(anyhow::Error::msg)?;
    Ok(directory.to_owned())
}

/// A directory beside the results for a recording with a broken promise.
fn place_for_findings() -> anyhow::Result<PathBuf> {
    let parent = paths::default_database()?.with_file_name("power-cuts");
    let name = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string();
    let mut place = parent.join(&name);
    let mut number = 1;
    while place.exists() {
        number += 1;
        place = parent.join(format!("{name}-{number}"));
    }
    Ok(place)
}

/// How far it is: a bar with the time left on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    target: String,
    total: u64,
    started: Instant,
    told: std::sync::Mutex<Instant>,
}

impl Progress {
    fn new(target: &str, order: &replay::Order, quiet: bool) -> Progress {
        let total = order.numbers.end - order.numbers.start;
        let bar = (!quiet && process::stderr_is_terminal()).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(8);
            let bar = ProgressBar::with_draw_target(Some(total), target);
            let style = ProgressStyle::with_template("{bar:16} {pos}/{len} {wide_msg} {eta} left");
            bar.set_style(style.expect("the template is a literal").progress_chars("━╸┄"));
            bar
        });
        let now = Instant::now();
        let told = std::sync::Mutex::new(now);
        Progress { bar, quiet, target: target.to_owned(), total, started: now, told }
    }

    fn tell(&self, done: u64, broken: u64) {
        let broken =
            if broken == 0 { String::new() } else { format!(", {broken} broke a promise") };
        if let Some(bar) = &self.bar {
            bar.set_message(format!("power cuts of {}{broken}", self.target));
            bar.set_position(done);
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.quiet || told.elapsed() < TELL_EVERY {
            return;
        }
        *told = Instant::now();
        let left = self.started.elapsed().as_secs_f64() / done.max(1) as f64
            * self.total.saturating_sub(done) as f64;
        let left = units::human_duration((left.max(1.0) * 1e9) as u64);
        say(&format!("{}: {done} of {} power cuts{broken}, {left} left", self.target, self.total));
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
