//! `fsdyno faults`: what each filesystem does when its disk goes wrong, as a table.

use fsdyno_durability::faults::{self, Fault, Order, Reaction};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::units;
use fsdyno_report::list;
use fsdyno_sys::process;
use serde_json::json;

use super::durability::target::Wanted;
use super::output;
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
    #[arg(long, value_name = "FAULT", value_delimiter = ',', value_parser = fault)]
    fault: Vec<&'static Fault>,

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

fn fault(name: &str) -> Result<&'static Fault, String> {
    faults::ALL.iter().find(|fault| fault.name == name).ok_or_else(|| {
        let names: Vec<&str> = faults::ALL.iter().map(|fault| fault.name).collect();
        format!("no such fault; there are {}", fsdyno_model::words::listed(&names))
    })
}

impl Args {
    /// Does it. What a filesystem does is told, and is no failure.
    ///
    /// # Errors
    /// Bad input: a target that cannot be tried; whatever could not be done.
    pub fn execute(self) -> anyhow::Result<bool> {
        if !process::may_mount() {
            return Err(bad_input("faults need root, to mount what they hit: run it with sudo"));
        }
        let parent = self.dir.clone().unwrap_or_else(paths::default_image_directory);
        let wanted: Vec<Wanted> =
            self.targets.iter().map(|text| Wanted::new(text, &parent)).collect::<Result<_, _>>()?;
        run::enter_private_namespace();
        process::install_signal_handlers()?;
        let state = paths::state_directory()?;
        run::tell_leftovers(&state);
        let id = format!("faults-{}", std::process::id());
        let workspace = Workspace::open(&id, &parent, &state, &[]).map_err(bad_input)?;
        let reactions = self.react(&wanted, &workspace);
        let closed = workspace.close().map_err(|errors| anyhow::anyhow!(errors.join("; ")));
        let reactions = reactions?;
        closed?;
        if self.json {
            let one = |(wanted, reactions): (&Wanted, &Vec<Reaction>)| {
                let told = |reaction: &Reaction| json!({ "silent": reaction.is_silent(), "reaction": reaction });
                let reactions: Vec<_> = reactions.iter().map(told).collect();
                json!({ "target": wanted.text, "reactions": reactions })
            };
            let all: Vec<_> = wanted.iter().zip(&reactions).map(one).collect();
            output::print(&serde_json::to_string_pretty(&json!({ "targets": all }))?)?;
            return Ok(true);
        }
        for (wanted, reactions) in wanted.iter().zip(&reactions) {
            output::print(&table(&wanted.text, reactions))?;
        }
        Ok(true)
    }

    fn react(
        &self,
        wanted: &[Wanted],
        workspace: &Workspace,
    ) -> anyhow::Result<Vec<Vec<Reaction>>> {
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
                std::fs::create_dir(&directory)?;
                let order = Order {
                    spec: &wanted.spec,
                    size_bytes: wanted.size_bytes,
                    model: (&wanted.model_name, &wanted.model),
                    directory: &directory,
                };
                let reaction = faults::react(&order, fault);
                reactions.push(reaction.map_err(|error| {
                    anyhow::anyhow!("{}, {}: {error}", wanted.text, fault.name)
                })?);
                // Images of many faults would fill the disk.
                let _ = std::fs::remove_file(directory.join("disk"));
            }
            all.push(reactions);
        }
        Ok(all)
    }
}

fn table(target: &str, reactions: &[Reaction]) -> String {
    let row = |reaction: &Reaction| {
        let silent = if reaction.is_silent() { "SILENT: " } else { "" };
        vec![
            reaction.fault.to_owned(),
            reaction.state.clone(),
            format!("{silent}{}; then {}", told(reaction), afterwards(reaction)),
        ]
    };
    let rows: Vec<Vec<String>> = reactions.iter().map(row).collect();
    let head = ["FAULT", "FILESYSTEM", "THE PROGRAM IS TOLD; THEN, WITH A DISK THAT IS WELL"];
    format!("{target}\n{}\n", list::columns(&head, &rows, output::table_options().width))
}

fn told(reaction: &Reaction) -> String {
    let step = |step: &faults::Step| {
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
