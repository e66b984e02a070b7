//! `fsdyno compare`: a plan from the command line, run at once.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use fsdyno_model::age::{self, AgeSpec};
use fsdyno_model::cold::Cold;
use fsdyno_model::info::Names;
use fsdyno_model::param::Params;
use fsdyno_model::plan::Plan;
use fsdyno_model::stop::{self, Asked, Trials};
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::trace::TraceMode;
use fsdyno_model::units;
use fsdyno_model::workload::WorkloadSpec;
use fsdyno_workload::command_line::CommandLine;

use super::durability;
use super::output::{self, FormatArgs, RunningArgs, StoreArgs};
use crate::store::Store;
use crate::{bad_inputs, catalogue, plan_file, run};

/// Size of an image under `--quick`.
const QUICK_SIZE_BYTES: u64 = 2 << 30;

/// The targets' grammar, for the help.
const TARGET_HELP: &str = "\
COMMAND is any program with its arguments, timed instead of a built-in workload; one argument with
spaces is a line for the shell. It runs in an empty directory on the target:

  fsdyno compare ext4 btrfs --copy . -- make -j2
  fsdyno compare ext4 xfs --copy ~/src --prepare 'make clean' --check 'test -x prog' -- make
  fsdyno compare ext4 btrfs -- 'tar xf /srv/linux.tar.xz && sync'

TARGET is [LABEL=]FS[+log|+journal][/MKFS OPTIONS][:MOUNT OPTIONS][~AGE][@DEVICE][@kernel=KERNEL], or
[LABEL=]dir:PATH for a directory on whatever is mounted there (needs no root). Without @DEVICE a
fresh loop image is made for each trial; @disk:MODEL[:SIZE] is one that takes the time of another disk
(fsdyno disk list), and @raid0, @raid1, @raid10, @lvm-stripe, @lvm-mirror, @crypt or @pool (btrfs,
bcachefs) put devices together, as in @raid0(4GiB,/dev/sdb,chunk=64KiB) (docs/ARRAYS.md). AGE is what is done to the filesystem before the workload:
churn[(utilisation=80%,age=3,sizes=agrawal|mail|postmark|uniform,fanout=16,appended=25%)] or
compilebench[(trees=10,rounds=30)]. KERNEL is that of its guests (--in guest): a version that fsdyno
kernel list shows, an image, a .deb or an .rpm. Examples:

  fsdyno compare ext4 xfs btrfs
  fsdyno compare old=ext3:data=writeback,barrier=1 new=ext4
  fsdyno compare \"xfs/-d agcount=1 -l size=128m:logbsize=256k\" xfs+log
  fsdyno compare btrfs btrfs:compress=zstd@/dev/sdb --destroy /dev/sdb
  fsdyno compare ext4 ext4~churn 'ext4~churn(utilisation=95%,age=5)' -w small-files
  fsdyno compare ext4@disk:hdd-7200-2007 xfs@disk:hdd-7200-2007
  fsdyno compare ext4@raid1 xfs@raid1 'btrfs/-d raid1 -m raid1@pool' --in guest
  fsdyno compare ext4@kernel=6.1 ext4@kernel=6.12 --in guest
  fsdyno compare dir:/home dir:/mnt/nfs --workload compilebench:trees=10,runs=30

Exit codes: 0 every trial completed, 1 some did not, or targets are not comparable under
--strict (fsdyno show --audit says why), 2 bad input.";

/// Arguments of `fsdyno compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = TARGET_HELP)]
pub struct Args {
    /// What to compare; see below
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,

    /// Command line to run on every target instead of a built-in workload; see below
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,

    /// Workload NAME[:key=value,...]; may be given several times [default: compilebench,
    /// or COMMAND alone]
    #[arg(long, short, value_name = "NAME|FILE.toml[:k=v,...]")]
    workload: Vec<String>,

    /// Trials of each target and workload; auto: until every comparison is settled, 5 to 20 (3 to 5
    /// with --quick) [default: auto]
    #[arg(long, short = 'n', value_name = "N|auto", value_parser = Trials::parse)]
    trials: Option<Trials>,

    /// With automatic trials: targets within this of each other count as the same [default: 3%]
    #[arg(long, value_name = "PERCENT", value_parser = stop::parse_resolution)]
    resolution: Option<u32>,

    /// With automatic trials: no more of each target and workload than this [default: 20; 5 with
    /// --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_trials: Option<u32>,

    /// Size of an image [default: 8GiB, 2GiB with --quick, more where a workload needs it]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,

    /// Directory of the images, on the disk to be measured [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Seed of the order of trials, of payloads and of what rng=seed draws [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Age of every target that names none, such as churn or 'churn(utilisation=90%)'; see below
    #[arg(long, value_name = "AGE")]
    age: Option<String>,

    /// Short workloads and few trials: a first impression, not a measurement
    #[arg(long)]
    quick: bool,

    /// Start no trial after this time, such as 30m [default with automatic trials: none beyond the
    /// least number after 1h, 10m with --quick]
    #[arg(long, value_name = "DURATION")]
    max_time: Option<String>,

    /// Longest time for one trial [default: 4h]
    #[arg(long, value_name = "DURATION")]
    trial_timeout: Option<String>,

    /// Then cut the power under each target that often, and show whether it kept its promises beside its
    /// speed
    #[arg(long, value_name = "CUTS", num_args = 0..=1, require_equals = true, default_missing_value = "200", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    durability: Option<u64>,

    #[command(flatten)]
    running: RunningArgs,

    #[command(flatten)]
    format: FormatArgs,

    #[command(flatten)]
    store: StoreArgs,

    // Last: its heading holds for all that follows.
    #[command(flatten)]
    beside: Box<CommandArgs>,
}

/// What is done around a command, none of it timed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options for COMMAND (none of this is timed)")]
struct CommandArgs {
    /// Copy the contents of DIR to where the command will run
    #[arg(long, value_name = "DIR", requires = "command")]
    copy: Option<PathBuf>,

    /// Shell line to run there before the command
    #[arg(long, value_name = "LINE", requires = "command")]
    prepare: Option<String>,

    /// How caches are emptied after that [default: remount]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(Cold::WORDS), requires = "command")]
    cold: Option<String>,

    /// Shell line to run after the command; the trial fails with it
    #[arg(long, value_name = "LINE", requires = "command")]
    check: Option<String>,

    /// Shell line to run last, whatever happened
    #[arg(long, value_name = "LINE", requires = "command")]
    cleanup: Option<String>,
}

impl CommandArgs {
    /// The workload that runs `command`.
    fn workload(
        &self,
        command: &[String],
        quick: bool,
        names: &Names<'_>,
    ) -> Result<WorkloadSpec, Vec<String>> {
        let info = names.workload("command").map_err(|error| vec![error])?;
        let mut params = Params::defaults(info.params, quick);
        let copy = self.copy.as_ref().map(|path| path.display().to_string());
        let given = [
            ("command", Some(CommandLine::text_of(command))),
            ("copy", copy),
            ("prepare", self.prepare.clone()),
            ("cold", self.cold.clone()),
            ("check", self.check.clone()),
            ("cleanup", self.cleanup.clone()),
        ];
        let mut errors = Vec::new();
        for (name, value) in given {
            let Some(value) = value else { continue };
            errors.extend(params.set(info.params, name, &value).err());
        }
        if errors.is_empty() { Ok(WorkloadSpec::of(info, params)) } else { Err(errors) }
    }
}

impl Args {
    /// Does it.
    ///
    /// # Errors
    /// Bad input; the database; something that could not be removed.
    pub fn execute(self) -> anyhow::Result<bool> {
        let plan = self.plan().map_err(|errors| bad_inputs(&errors))?;
        let mut plan = plan_file::make_ready(plan)?;
        if self.size.is_none()
            && let Some(size_bytes) = run::larger_images(&plan)
        {
            plan.size_bytes = size_bytes;
        }
        self.format.check(&plan)?;
        if self.durability.is_some() {
            durability::check_beside(&plan)?;
        }
        run::enter_private_namespace();
        let mut store = Store::open(&self.store.path()?)?;
        let options = self.running.options();
        let id = run::start(&plan, &options, &mut store)?;
        let is_kept = match self.durability {
            Some(cuts) => durability::cut_beside(&plan, cuts, options.quiet, store.path())?,
            None => true,
        };
        Ok(output::present(&store, &id, &self.format)? && is_kept)
    }

    /// Puts the number of trials into a plan; gives what contradicts itself.
    fn trials_of(&self, plan: &mut Plan) -> Vec<String> {
        let (resolution_permille, max_trials) = (self.resolution, self.max_trials);
        let asked = Asked { trials: self.trials, resolution_permille, max_trials };
        asked.apply(plan);
        let Some(number) = asked.fixed() else { return Vec::new() };
        let given =
            [("--resolution", self.resolution.is_some()), ("--max-trials", max_trials.is_some())];
        let contradicting = given.into_iter().filter(|(_, is_given)| *is_given);
        let fixed = format!("--trials {number}");
        contradicting.map(|(option, _)| stop::contradiction(option, &fixed)).collect()
    }

    fn plan(&self) -> Result<Plan, Vec<String>> {
        let mut plan = Plan::new(self.quick);
        let mut errors = Vec::new();
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.directory.clone_from(&self.dir);
        plan.trace = self.running.trace.trace.unwrap_or(TraceMode::Explain);
        plan.yardstick = !self.running.no_yardstick;
        self.running.place.apply(&mut plan);
        if self.quick {
            plan.size_bytes = QUICK_SIZE_BYTES;
        }
        if let Some(text) = &self.size {
            keep(&mut errors, &mut plan.size_bytes, "--size", units::parse_bytes(text));
        }
        if let Some(text) = &self.max_time {
            let mut limit_s = 0;
            keep(&mut errors, &mut limit_s, "--max-time", seconds(text));
            plan.max_time_s = Some(limit_s);
        }
        errors.extend(self.trials_of(&mut plan));
        if let Some(text) = &self.trial_timeout {
            keep(&mut errors, &mut plan.trial_timeout_s, "--trial-timeout", seconds(text));
        }
        let default = ["compilebench".to_owned()];
        let is_default = self.workload.is_empty() && self.command.is_empty();
        let workloads = if is_default { &default[..] } else { &self.workload };
        catalogue::with_names(|names| {
            for text in &self.targets {
                match TargetSpec::parse(text, names) {
                    Ok(target) => plan.targets.push(target),
                    Err(error) => errors.push(error + misplaced_command(text)),
                }
            }
            for text in workloads {
                if text == "command" {
                    errors
                        .push("--workload command: put the command itself behind `--`".to_owned());
                    continue;
                }
                match WorkloadSpec::parse(text, self.quick, names) {
                    Ok(workload) => plan.workloads.push(workload),
                    Err(more) => errors.extend(more),
                }
            }
            if !self.command.is_empty() {
                match self.beside.workload(&self.command, self.quick, names) {
                    Ok(workload) => plan.workloads.push(workload),
                    Err(more) => errors.extend(more),
                }
            }
        });
        if self.command.is_empty() && std::env::args_os().any(|word| word == "--") {
            errors.push("there is no command behind `--`".to_owned());
        }
        if let Some(text) = &self.age {
            errors.extend(age_all(&mut plan.targets, text));
        }
        errors.extend(plan_file::workload_errors(&plan));
        if errors.is_empty() { plan.finish() } else { Err(errors) }
    }
}

/// Gives every target that names no age the one of `--age`; a target without a label of its own is then
/// labelled with it. Gives what is wrong.
fn age_all(targets: &mut [TargetSpec], text: &str) -> Vec<String> {
    let age = match AgeSpec::parse(text) {
        Ok(age) => age,
        Err(error) => return vec![format!("--age: {error}")],
    };
    let mut errors = Vec::new();
    for target in targets {
        let has_own_label = target.label != target.unlabelled();
        match &mut target.ground {
            Ground::Directory { .. } => {
                errors.push(format!("--age: {}: {}", target.label, age::DIRECTORY_ERROR));
            }
            Ground::Fresh(fresh) if fresh.age.is_none() => {
                fresh.age = Some(age.clone());
                if !has_own_label {
                    target.label = target.unlabelled();
                }
            }
            Ground::Fresh(_) => {}
        }
    }
    errors
}

/// What to add to the error of a target that is the name of a program.
fn misplaced_command(text: &str) -> &'static str {
    match fsdyno_sys::child::find_program(text) {
        Some(_) => " (a command to run goes behind `--`)",
        None => "",
    }
}

fn seconds(text: &str) -> Result<u64, units::UnitError> {
    units::parse_duration_ns(text).map(|ns| ns.div_ceil(1_000_000_000).max(1))
}

fn keep(
    errors: &mut Vec<String>,
    place: &mut u64,
    name: &str,
    parsed: Result<u64, units::UnitError>,
) {
    match parsed {
        Ok(value) => *place = value,
        Err(error) => errors.push(format!("{name}: {error}")),
    }
}
