//! "What exactly was run": every parameter, what was read back, where it ran, the commands that repeat
//! it, and how every trial ended. How it looks is left to the templates.

use fsdyno_model::environment::Environment;
use fsdyno_model::guest::GuestFacts;
use fsdyno_model::record::Role;
use fsdyno_model::result::{RunInfo, RunResult, TargetResult, TrialResult};
use fsdyno_model::units;

use super::chart;
use super::view::{Table, grouped};
use crate::note;

/// Names and values.
pub type Pairs = Vec<(String, String)>;

/// A list of names and values under a heading.
pub struct Facts {
    pub heading: String,
    pub pairs: Pairs,
}

/// The section.
pub struct Exact {
    /// Commands to repeat the run, one a line.
    pub commands: Vec<String>,
    pub run: Pairs,
    pub environment: Vec<Facts>,
    pub targets: Vec<Facts>,
    pub workloads: Vec<Facts>,
    /// Where the bytes of reading phases came from.
    pub cold: Option<Table>,
    pub harness: Option<String>,
    /// What aging did.
    pub aged: Option<String>,
    pub warnings: Vec<String>,
    pub trials: Table,
    /// What the trials that did not complete said, whole.
    pub failures: Pairs,
}

/// All of it.
pub fn exact(result: &RunResult) -> Exact {
    Exact {
        commands: commands(result),
        run: run(result),
        environment: environment(&result.run.environment),
        targets: result.targets.iter().map(target).collect(),
        workloads: result
            .workloads
            .iter()
            .map(|spec| {
                let own = spec.params.iter();
                let params = own.map(|(name, value)| (name.to_owned(), value.to_string()));
                let kind = std::iter::once(("workload".to_owned(), spec.kind.clone()));
                Facts { heading: spec.label.clone(), pairs: kind.chain(params).collect() }
            })
            .collect(),
        cold: cold(result),
        harness: note::harness(result),
        aged: note::ages(result),
        warnings: note::warnings(result),
        trials: trials(result),
        failures: (result.trials.iter())
            .filter(|trial| trial.outcome != fsdyno_model::outcome::Outcome::Completed)
            .map(|trial| (name(trial), trial.outcome.sentence()))
            .collect(),
    }
}

/// The run as it was started, and the page of it: the newest run is the one that was just repeated.
fn commands(result: &RunResult) -> Vec<String> {
    let command = &result.run.command;
    let store = store(command).map_or(String::new(), |path| format!(" --db {path}"));
    vec![command.clone(), format!("fsdyno report -o report.html{store}")]
}

/// The value of `--db` in a command, quoted as it is there.
fn store(command: &str) -> Option<&str> {
    let rest = command.split_once(" --db")?.1;
    let rest = rest.strip_prefix([' ', '='])?.trim_start();
    let length = match rest.chars().next()? {
        quote @ ('\'' | '"') => rest[1..].find(quote)? + 2,
        _ => rest.find(' ').unwrap_or(rest.len()),
    };
    Some(&rest[..length])
}

fn pair(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

fn run(result: &RunResult) -> Pairs {
    let run = &result.run;
    vec![
        pair("run", run.id.as_str()),
        pair("started", run.started.as_str()),
        pair("finished", run.finished.as_deref().unwrap_or("not finished")),
        pair("trials of each target and workload", trials_of_each(run)),
        pair("order of the trials", format!("random, seed {}", run.seed)),
        pair(
            "size of an image",
            format!("{} ({} bytes)", units::human_bytes(run.size_bytes), grouped(run.size_bytes)),
        ),
        pair("fsdyno", run.environment.fsdyno_version.as_str()),
    ]
}

fn environment(environment: &Environment) -> Vec<Facts> {
    let unknown = || "unknown".to_owned();
    let text = |value: &Option<String>| value.clone().unwrap_or_else(unknown);
    let speed = |speed: &Option<f64>| speed.map_or_else(unknown, |it| format!("{it:.0} MiB/s"));
    let mut machine = vec![
        pair("host", text(&environment.hostname)),
        pair("distribution", text(&environment.distribution)),
        pair("kernel", text(&environment.kernel_release)),
        pair("kernel build", text(&environment.kernel_version)),
        pair("kernel command line", text(&environment.kernel_cmdline)),
        pair("processor", text(&environment.cpu_model)),
        pair("processors", environment.cpu_count.map_or_else(unknown, |it| it.to_string())),
        pair("frequency governor", text(&environment.cpu_governor)),
        pair("memory", environment.memory_text()),
        pair("root", if environment.root { "yes" } else { "no" }),
        pair("images in", text(&environment.image_directory)),
        pair("on", text(&environment.image_filesystem)),
        pair("reads from memory", speed(&environment.cached_read_mib_per_s)),
    ];
    machine.extend(
        environment
            .device_read_mib_per_s
            .iter()
            .map(|(ground, measured)| (format!("sequential reads from {ground}"), speed(measured))),
    );
    machine.extend(environment.guest.as_ref().map(|guest| pair("guests", guests(guest))));
    let facts = |heading: &str, pairs: Pairs| Facts { heading: heading.to_owned(), pairs };
    let named = |map: &std::collections::BTreeMap<String, Option<String>>| {
        map.iter().map(|(name, value)| (name.clone(), text(value))).collect::<Pairs>()
    };
    let mut all = vec![facts("Machine", machine)];
    all.push(facts("Versions of tools", named(&environment.tools)));
    all.push(facts("Settings of the kernel", named(&environment.sysctl)));
    all.retain(|facts| !facts.pairs.is_empty());
    all
}

/// `QEMU 7.2.22; each trial starts from a saved state of a booted guest`.
fn guests(guest: &GuestFacts) -> String {
    let start = if guest.saved_states.is_empty() {
        "the guest of each trial boots"
    } else {
        "each trial starts from a saved state of a booted guest"
    };
    match &guest.qemu_version {
        Some(version) => format!("QEMU {version}; {start}"),
        None => format!("User-Mode Linux; {start}"),
    }
}

fn target(target: &TargetResult) -> Facts {
    let mut pairs = vec![pair("target", target.spec.as_str())];
    if let Some(command) = &target.mkfs_command {
        pairs.push(pair("mkfs command", command.as_str()));
    }
    let asked = if target.mount_requested.is_empty() { "none" } else { &target.mount_requested };
    pairs.push(pair("mount options asked for", asked));
    pairs.push(pair(
        "mount options in force",
        target.mount_effective.as_deref().unwrap_or("not read back"),
    ));
    pairs.push(pair("device", target.device.as_str()));
    pairs.extend(target.journal.iter().map(|journal| pair("journal", journal.as_str())));
    let read_back = target.mkfs_effective.iter();
    pairs.extend(read_back.map(|(name, value)| (format!("superblock: {name}"), value.clone())));
    let facts = target.device_facts.iter();
    pairs.extend(facts.map(|(name, value)| (format!("device: {name}"), value.clone())));
    Facts { heading: target.label.clone(), pairs }
}

/// For each phase that reads: how caches were emptied, and what the device gave for each byte read.
fn cold(result: &RunResult) -> Option<Table> {
    let mut rows = Vec::new();
    for workload in &result.workloads {
        for phase in chart::phases(result, &workload.label) {
            let share = |target: &str| {
                result.summary.iter().find(|row| {
                    row.metric == "device_read_share"
                        && row.workload == workload.label
                        && row.phase == phase
                        && row.target == target
                })
            };
            let shares: Vec<_> = result.targets.iter().map(|it| share(&it.label)).collect();
            if shares.iter().all(Option::is_none) {
                continue;
            }
            let how = result
                .trials
                .iter()
                .filter(|trial| trial.workload == workload.label)
                .flat_map(|trial| &trial.phases)
                .find_map(|it| it.cold.filter(|_| it.name == phase))
                .map_or("not asked for", |cold| cold.word());
            let mut cells = vec![how.to_owned()];
            cells.extend(shares.iter().map(|row| {
                row.map_or("–".to_owned(), |row| format!("{:.1} %", row.median * 100.0))
            }));
            rows.push((format!("{}, {phase}", workload.label), cells));
        }
    }
    let mut head = vec!["phase".to_owned(), "caches emptied by".to_owned()];
    head.extend(result.targets.iter().map(|it| it.label.clone()));
    let caption = "Cache proof: bytes read from the device for each byte that the application read (median). Near 100 % the phase was cold; near 0 % it was served from memory.";
    (!rows.is_empty()).then(|| Table { caption: caption.to_owned(), head, rows })
}

fn name(trial: &TrialResult) -> String {
    let role = if trial.role == Role::Explain { ", explain trial" } else { "" };
    format!("{}, {}, trial {}{role}", trial.target, trial.workload, trial.trial)
}

/// `5`, or `7 at most, of 20, until settled within 3 %`.
fn trials_of_each(run: &RunInfo) -> String {
    let Some(stopped) = &run.stopped else { return run.trials.to_string() };
    let resolution = stopped.rule.resolution();
    let (made, max) = (run.trials, stopped.max_trials);
    format!("automatic: {made} of at most {max}, until settled or the same within {resolution}")
}

fn trials(result: &RunResult) -> Table {
    let row = |trial: &TrialResult| {
        let time = |ns: Option<u64>| ns.map_or("–".to_owned(), units::human_duration);
        let fsck = trial.fsck.as_ref().map_or("–".to_owned(), |fsck| fsck.meaning.clone());
        let verify =
            trial.verify.as_ref().map_or("–".to_owned(), |it| match it.mismatches.len() {
                0 => format!("{} files right", grouped(it.files)),
                wrong => format!("{wrong} of {} files differ", grouped(it.files)),
            });
        let trace = trial.trace.as_ref().map_or("–".to_owned(), |it| match it.lost_events {
            0 => format!("{} events", grouped(it.events)),
            lost => format!("{} events, {} lost", grouped(it.events), grouped(lost)),
        });
        let cells = vec![
            trial.target.clone(),
            trial.workload.clone(),
            trial.trial.to_string(),
            if trial.role == Role::Explain { "explain" } else { "measured" }.to_owned(),
            trial.outcome.word().replace('_', " "),
            time(trial.elapsed_ns),
            time(trial.stages.quiesce_ns),
            fsck,
            verify,
            trace,
            match note::marks(trial) {
                none if none.is_empty() => "–".to_owned(),
                marks => marks,
            },
        ];
        ((trial.order + 1).to_string(), cells)
    };
    let head = [
        "order",
        "target",
        "workload",
        "trial",
        "role",
        "outcome",
        "duration",
        "quiesce",
        "fsck",
        "contents",
        "trace",
        "disturbed by",
    ];
    Table {
        caption: "Outcome of every trial, in the order of execution".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: result.trials.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_a_command_is_found() {
        for (command, store_of) in [
            ("fsdyno run a --db /x/y.db -t ext4", Some("/x/y.db")),
            ("fsdyno run a --db=z", Some("z")),
            ("fsdyno run --db 'a b' c", Some("'a b'")),
            ("fsdyno run --dbx a", None),
            ("fsdyno run --db", None),
            ("fsdyno run", None),
        ] {
            assert_eq!(store(command), store_of, "{command}");
        }
    }
}
