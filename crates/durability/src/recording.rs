//! A recording: one run of the workload on a filesystem whose disk writes everything down, the log and
//! the history together. It is made once and replayed as often as wanted, here or elsewhere.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_disk::Model;
use fsdyno_lab::arguments;
use fsdyno_lab::command::{self, CommandSpec};
use fsdyno_lab::emulator::write_log::{LogClock, WriteLog};
use fsdyno_lab::emulator::{Emulator, Extras, Wish};
use fsdyno_lab::filesystem::{FilesystemDef, Members, by_name};
use fsdyno_model::target::FreshSpec;
use fsdyno_sys::{kernel, mount, process};
use serde::{Deserialize, Serialize};

use crate::history::{Deed, History};
use crate::promises::{Promises, documented};
use crate::workload::{self, Amount, mixes};

/// Version of the form.
const VERSION: u32 = 1;
/// Names in a recording's directory.
const ABOUT: &str = "about.json";
const LOG: &str = "log";
/// How long mkfs may take.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// What a recording is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Version of the form.
    pub version: u32,
    /// The target as it was given.
    pub target: String,
    /// Name of the filesystem.
    pub filesystem: String,
    /// Mount options, all of them.
    pub mount_options: String,
    /// How it was made.
    pub mkfs_command: String,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Model of the disk that it ran on.
    pub disk_model: String,
    /// Release of the kernel that it ran on.
    pub kernel: String,
    /// What was drawn came from it.
    pub seed: u64,
    /// The mix that was drawn from.
    #[serde(default = "first_mix")]
    pub workload: String,
    /// Entries of the log before the first operation, and at the end.
    pub range: (u64, u64),
    /// What the filesystem promises.
    pub promises: Promises,
    /// What each worker did.
    pub histories: Vec<History>,
}

/// Recordings that do not tell are of a time when there was one.
fn first_mix() -> String {
    mixes::ALL[0].name.to_owned()
}

impl About {
    /// Moments at which something was acknowledged as durable.
    #[must_use]
    pub fn marks(&self) -> Vec<u64> {
        let operations = self.histories.iter().flat_map(|history| &history.operations);
        let is_promise = |deed: &Deed| {
            matches!(deed, Deed::Fsync { .. } | Deed::SyncDirectory { .. } | Deed::Sync)
        };
        let mut marks: Vec<u64> =
            operations.filter(|it| is_promise(&it.deed)).map(|it| it.ended).collect();
        marks.sort_unstable();
        marks
    }

    /// Operations of all workers.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.histories.iter().map(|history| history.operations.len()).sum()
    }

    /// The filesystem's entry in the catalogue.
    ///
    /// # Errors
    /// A sentence where it has none.
    pub fn definition(&self) -> Result<&'static FilesystemDef, String> {
        by_name(&self.filesystem)
            .ok_or_else(|| format!("`{}` is no filesystem of the catalogue", self.filesystem))
    }
}

/// A recording on a disk.
#[derive(Debug)]
pub struct Recording {
    /// What it is of.
    pub about: About,
    /// Its log.
    pub log: WriteLog,
    directory: PathBuf,
}

impl Recording {
    /// Reads the recording in `directory`.
    ///
    /// # Errors
    /// A sentence: there is none, or one of another version.
    pub fn open(directory: &Path) -> Result<Recording, String> {
        let path = directory.join(ABOUT);
        let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let about: About = serde_json::from_slice(&text)
            .map_err(|error| format!("{} is no recording: {error}", path.display()))?;
        if about.version != VERSION {
            return Err(format!(
                "{} was written by another version: record it again",
                path.display()
            ));
        }
        let log = WriteLog::open(&directory.join(LOG))?;
        let last = log.entries().len() as u64;
        let (from, to) = about.range;
        if from > to || to > last {
            return Err(format!("{} is cut off: record it again", directory.display()));
        }
        about.definition()?;
        Ok(Recording { about, log, directory: directory.to_owned() })
    }

    /// Copies it to `directory`, which is made.
    ///
    /// # Errors
    /// A sentence where it cannot be written.
    pub fn keep(&self, directory: &Path) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("keep {}: {error}", directory.display());
        fs::create_dir_all(directory.join(LOG)).map_err(failed)?;
        for entry in fs::read_dir(self.directory.join(LOG)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let to = directory.join(LOG).join(entry.file_name());
            fs::copy(entry.path(), to).map_err(failed)?;
        }
        fs::copy(self.directory.join(ABOUT), directory.join(ABOUT)).map_err(failed)?;
        Ok(())
    }
}

/// What is to be recorded.
#[derive(Debug)]
pub struct Order<'a> {
    /// The target as it was given.
    pub target: &'a str,
    /// The filesystem.
    pub spec: &'a FreshSpec,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// The disk's model, and the name it was found by.
    pub model: (&'a str, &'a Model),
    /// The workload.
    pub amount: Amount,
    /// An empty directory of the run's own.
    pub directory: &'a Path,
}

/// Makes the filesystem, runs the workload, writes down what happened.
///
/// # Errors
/// A sentence: what failed, on what. Nothing stays mounted or attached.
pub fn record(order: &Order<'_>) -> Result<Recording, String> {
    let definition = by_name(&order.spec.filesystem)
        .ok_or_else(|| format!("`{}` is no filesystem of the catalogue", order.spec.filesystem))?;
    arguments::check(definition, &order.spec.mkfs, &order.spec.mount)?;
    let below = |name: &str| order.directory.join(name);
    let made = |path: &Path| {
        fs::create_dir(path).map_err(|error| format!("make {}: {error}", path.display()))
    };
    let (image, served, mount_point, log) =
        (below("disk"), below("served"), below("mount"), below(LOG));
    made(&served)?;
    made(&mount_point)?;
    File::create_new(&image)
        .and_then(|file| file.set_len(order.size_bytes))
        .map_err(|error| format!("make {}: {error}", image.display()))?;
    let extras = Extras { log: Some(&log), faults: None };
    let (model_name, model) = order.model;
    let (file, directory) = (image.as_path(), served.as_path());
    let wish = Wish { model_name, model, file, directory, seed: 1, lead_ns: 0, extras };
    let mut emulator = Emulator::start(&wish)?;
    let device = emulator.path().to_owned();
    let done = run(order, definition, &device, &mount_point, &log);
    // Where it went wrong it may still be mounted.
    if done.is_err() {
        let _ = mount::unmount(&mount_point).or_else(|_| mount::unmount_lazy(&mount_point));
    }
    let ended = emulator.end();
    let about = done?;
    ended?;
    let text = serde_json::to_vec(&about).map_err(|error| error.to_string())?;
    let path = below(ABOUT);
    fs::write(&path, text).map_err(|error| format!("write {}: {error}", path.display()))?;
    let _ = fs::remove_file(&image);
    Recording::open(order.directory)
}

fn run(
    order: &Order<'_>,
    definition: &'static FilesystemDef,
    device: &Path,
    mount_point: &Path,
    log: &Path,
) -> Result<About, String> {
    let members = Members { device, others: &[], journal: None };
    let commands = (definition.mkfs)(members, &order.spec.mkfs);
    for command in &commands {
        command::run_checked(command, COMMAND_LIMIT).map_err(|error| error.to_string())?;
    }
    let clock = LogClock::open(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let now = || clock.now().map_err(|error| format!("{}: {error}", log.display()));
    let mut options = (definition.mount_options)(members);
    options.extend(Some(order.spec.mount.clone()).filter(|text| !text.is_empty()));
    let options = options.join(",");
    let mounted = || {
        let source = device.display().to_string();
        mount::mount(definition.info.name, &source, mount_point, &options)
            .map_err(|error| error.to_string())
    };
    mounted()?;
    for directory in (0..order.amount.workers).flat_map(workload::directories) {
        let path = mount_point.join(directory);
        fs::create_dir(&path).map_err(|error| format!("make {}: {error}", path.display()))?;
    }
    mount::unmount_from(mount_point, device).map_err(|error| error.to_string())?;
    // What came before the first operation is on the disk, whatever was flushed.
    let from = now()?;
    mounted()?;
    let histories = work(order.amount, mount_point, &clock)?;
    mount::unmount_from(mount_point, device).map_err(|error| error.to_string())?;
    let lines: Vec<String> = commands.iter().map(CommandSpec::to_string).collect();
    Ok(About {
        version: VERSION,
        target: order.target.to_owned(),
        filesystem: definition.info.name.to_owned(),
        promises: documented(definition.info.name, &options, false),
        mount_options: options,
        mkfs_command: lines.join(" && "),
        size_bytes: order.size_bytes,
        disk_model: order.model.1.name.clone(),
        kernel: kernel::facts().release,
        seed: order.amount.seed,
        workload: order.amount.mix.name.to_owned(),
        range: (from, now()?),
        histories,
    })
}

fn work(amount: Amount, mount_point: &Path, clock: &LogClock) -> Result<Vec<History>, String> {
    let stop = process::interrupted;
    let histories = std::thread::scope(|scope| {
        let start =
            |worker| scope.spawn(move || workload::run(mount_point, worker, amount, clock, &stop));
        let workers: Vec<_> = (0..amount.workers).map(start).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<History, _>>| {
            worker.join().map_err(|_| "a worker broke off".to_owned())
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>, String>>()
    })?;
    if stop() {
        return Err("interrupted".to_owned());
    }
    histories
        .into_iter()
        .collect::<Result<Vec<History>, workload::Failed>>()
        .map_err(|failed| format!("the workload: {failed}"))
}
