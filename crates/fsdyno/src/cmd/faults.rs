//! `fsdyno faults`: what each filesystem does when its disk goes wrong, as a table.

use std::path::Path;

use anyhow::Context as _;
use fsdyno_disk::shipped;
use fsdyno_durability::faults::{self, Fault, Order};
use fsdyno_durability::reaction::{Reaction, Step};
use fsdyno_lab::readiness::Readiness;
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::guest::DiskFaultErrand;
use fsdyno_model::kernel::KernelChoice;
use fsdyno_model::place::{Accelerator, Where};
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{DeviceSpec, Ground, TargetSpec};
use fsdyno_model::units;
use fsdyno_report::list;
use fsdyno_sys::process;
use serde_json::json;

use super::durability::target::Wanted;
use super::output;
use crate::run::guest;
use crate::run::progress::say;
use crate::{bad_input, paths, run};

/// A step that took longer than this is told with its time, in seconds.
const LONG_S: f64 = 0.25;

/// Arguments of `fsdyno faults`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filesystems, each with its options as for compare
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,

    /// These faults alone; may be given several times
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = faults::find)]
    fault: Vec<&'static Fault>,

    /// Where disks go wrong: on this machine, or in guests, which may panic and need no root
    #[arg(long = "in", value_name = "host|guest", default_value = "host", value_parser = Where::parse)]
    place: Where,

    /// Kernel of the guests: a version that is there, a kernel image, or a package with one
    /// [default: the newest that is installed]
    #[arg(long, value_name = "VERSION|FILE", value_parser = KernelChoice::parse)]
    kernel: Option<KernelChoice>,

    /// What carries out the guests' instructions [default: kvm where it works]
    #[arg(long, value_name = "kvm|tcg", value_parser = Accelerator::parse)]
    accelerator: Option<Accelerator>,

    /// Directory for the images [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    dir: Option<std::path::PathBuf>,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Does it. What a filesystem does is told, and is no failure.
    ///
    /// # Errors
    /// Bad input: a target that cannot be tried; whatever could not be done.
    pub fn execute(self) -> anyhow::Result<bool> {
        let parent = self.dir.clone().unwrap_or_else(paths::default_image_directory);
        let found = match self.place {
            Where::Host => self.on_this_machine(&parent)?,
            Where::Guest => self.in_guests(&parent)?,
            Where::Uml => {
                return Err(bad_input(
                    "faults are not tried under User-Mode Linux: take --in guest",
                ));
            }
        };
        if self.json {
            let one = |(target, reactions): &(String, Vec<Reaction>)| {
                let told = |reaction: &Reaction| json!({ "silent": reaction.is_silent(), "reaction": reaction });
                let reactions: Vec<_> = reactions.iter().map(told).collect();
                json!({ "target": target, "reactions": reactions })
            };
            let all: Vec<_> = found.iter().map(one).collect();
            output::print(&serde_json::to_string_pretty(&json!({ "targets": all }))?)?;
            return Ok(true);
        }
        for (target, reactions) in &found {
            output::print(&table(target, reactions))?;
        }
        Ok(true)
    }

    fn on_this_machine(&self, parent: &Path) -> anyhow::Result<Vec<(String, Vec<Reaction>)>> {
        if self.kernel.is_some() || self.accelerator.is_some() {
            return Err(bad_input("a kernel and an accelerator are of guests: add --in guest"));
        }
        if !process::may_mount() {
            return Err(bad_input(
                "faults need root, to mount what they hit: run it with sudo, or add --in guest",
            ));
        }
        let wanted: Vec<Wanted> =
            self.targets.iter().map(|text| Wanted::new(text, parent)).collect::<Result<_, _>>()?;
        run::enter_private_namespace();
        let workspace = workspace(parent)?;
        let reactions = self.all(&wanted, &workspace, &mut |number, fault, directory| {
            let wanted = &wanted[number];
            let order = Order {
                spec: &wanted.spec,
                size_bytes: wanted.size_bytes,
                model: (&wanted.model_name, &wanted.model),
                directory,
            };
            std::fs::create_dir(directory)?;
            faults::react(&order, fault).map_err(anyhow::Error::msg)
        });
        closed(workspace, reactions)
    }

    fn in_guests(&self, parent: &Path) -> anyhow::Result<Vec<(String, Vec<Reaction>)>> {
        let wanted: Vec<Wanted> =
            self.targets.iter().map(|text| Wanted::read(text)).collect::<Result<_, _>>()?;
        let mut plan = Plan { directory: Some(parent.to_owned()), trials: 1, ..Plan::new(false) };
        plan.place.kind = Where::Guest;
        (plan.place.kernel, plan.place.accelerator) = (self.kernel.clone(), self.accelerator);
        plan.targets = wanted.iter().map(bare).collect();
        let parts = guest::parts_for_faults(&plan)?;
        for (wanted, target) in wanted.iter().zip(&plan.targets) {
            let why = match guest::readiness::readiness(target, &plan, &parts) {
                Readiness::Ready if shipped::is_file(&wanted.model_name) => {
                    "a guest has no models but those that are shipped".to_owned()
                }
                Readiness::Ready => continue,
                Readiness::Skip { reason: why } | Readiness::Refuse { error: why } => why,
            };
            return Err(bad_input(format!("{}: {why}", wanted.text)));
        }
        let workspace = workspace(parent)?;
        let guests = parts.prepare(&plan, &workspace, self.quiet);
        let reactions = guests.and_then(|guests| {
            if !self.quiet {
                say(&guests.text());
            }
            self.all(&wanted, &workspace, &mut |number, fault, directory| {
                let errand = DiskFaultErrand {
                    target: plan.targets[number].clone(),
                    size_bytes: wanted[number].size_bytes,
                    model: wanted[number].model_name.clone(),
                    fault: fault.name.to_owned(),
                };
                guests.react(number, errand, directory)
            })
        });
        closed(workspace, reactions)
    }

    /// What `one` finds for each target and fault, given a path for a directory of its own.
    fn all(
        &self,
        wanted: &[Wanted],
        workspace: &Workspace,
        one: &mut dyn FnMut(usize, &'static Fault, &Path) -> anyhow::Result<Reaction>,
    ) -> anyhow::Result<Vec<(String, Vec<Reaction>)>> {
        let chosen = |fault: &&Fault| {
            self.fault.is_empty() || self.fault.iter().any(|one| one.name == fault.name)
        };
        let mut all = Vec::new();
        for (number, wanted) in wanted.iter().enumerate() {
            let mut reactions = Vec::new();
            for fault in faults::ALL.iter().filter(chosen) {
                if process::interrupted() {
                    anyhow::bail!("interrupted");
                }
                if !self.quiet {
                    say(&format!("{}: {}", wanted.text, fault.summary));
                }
                let directory = workspace.directory().join(format!("{number}-{}", fault.name));
                let reaction = one(number, fault, &directory);
                reactions
                    .push(reaction.with_context(|| format!("{}, {}", wanted.text, fault.name))?);
                // Images of many faults would fill the disk.
                let _ = std::fs::remove_file(directory.join("disk"));
            }
            all.push((wanted.text.clone(), reactions));
        }
        Ok(all)
    }
}

/// A place for what is made, after what dead runs left behind is removed.
fn workspace(parent: &Path) -> anyhow::Result<Workspace> {
    process::install_signal_handlers()?;
    let state = paths::state_directory()?;
    run::tell_leftovers(&state);
    let id = format!("faults-{}", std::process::id());
    Workspace::open(&id, parent, &state, &[]).map_err(bad_input)
}

/// What was found, once everything that was made is gone.
fn closed<T>(workspace: Workspace, found: anyhow::Result<T>) -> anyhow::Result<T> {
    let closed = workspace.close().map_err(|errors| anyhow::anyhow!(errors.join("; ")));
    let found = found?;
    closed?;
    Ok(found)
}

/// The target on a disk that a guest makes itself.
fn bare(wanted: &Wanted) -> TargetSpec {
    let mut target = wanted.target.clone();
    if let Ground::Fresh(fresh) = &mut target.ground {
        fresh.device = DeviceSpec::LoopImage { size_bytes: Some(wanted.size_bytes) };
    }
    target
}

fn table(target: &str, reactions: &[Reaction]) -> String {
    let row = |reaction: &Reaction| {
        let silent = if reaction.is_silent() { "SILENT: " } else { "" };
        let (state, words) = match reaction.is_machine_lost {
            true => ("the guest ended".to_owned(), reaction.state.clone()),
            false => {
                let words = format!("{silent}{}; then {}", told(reaction), afterwards(reaction));
                (reaction.state.clone(), words)
            }
        };
        vec![reaction.fault.clone(), state, words]
    };
    let rows: Vec<Vec<String>> = reactions.iter().map(row).collect();
    let head = ["FAULT", "FILESYSTEM", "THE PROGRAM IS TOLD; THEN, WITH A DISK THAT IS WELL"];
    format!("{target}\n{}\n", list::columns(&head, &rows, output::table_options().width))
}

fn told(reaction: &Reaction) -> String {
    let step = |step: &Step| {
        let time = if step.elapsed_s < LONG_S {
            String::new()
        } else {
            format!(" after {}", units::human_duration((step.elapsed_s * 1e9) as u64))
        };
        format!("{}: {}{time}", step.what, step.told)
    };
    reaction.steps.iter().map(step).collect::<Vec<String>>().join(", ")
}

fn afterwards(reaction: &Reaction) -> String {
    let after = &reaction.after;
    let mut words = Vec::new();
    if after.mount_error.is_some() {
        words.push("it cannot be mounted".to_owned());
    }
    words.extend(after.file.as_deref().map(|held| match held {
        "written" => "the file is as written last".to_owned(),
        "before" => "the file is as before".to_owned(),
        "mixed" => "the file is partly as before".to_owned(),
        "wrong" => "the file holds what nobody wrote".to_owned(),
        error => format!("the file cannot be read: {error}"),
    }));
    words.push(match &after.check {
        None => "no errors are found".to_owned(),
        Some(found) => format!("the check finds: {found}"),
    });
    words.join(", ")
}
