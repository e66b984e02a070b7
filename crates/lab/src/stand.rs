//! One trial's life around its phases, stage by stage: provision, mkfs, mount, quiesce, unmount, fsck,
//! teardown. Each stage says what failed; teardown undoes whatever was reached, in reverse, and may be
//! called any number of times. What runs on the stand is the caller's business. What is done for aged
//! filesystems is in [`aged`].
//!
//! Call all of it from one thread that lives as long as the stand: the kernel kills mkfs and fsck with
//! the thread that started them.

pub mod aged;
mod condition;
mod facts;
mod fresh;

use std::fmt;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_model::outcome::Outcome;
use fsdyno_model::record::{FsckRecord, TargetFacts, Warning};
use fsdyno_model::target::{Ground, TargetSpec};
use fsdyno_model::wire::Watch;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::mount;

use crate::arguments;
use crate::command::{self, CommandError, CommandSpec};
use crate::device::{self, Device};
use crate::filesystem::{self, Fsck, MemberNames, Verdict};
use crate::quiesce::{self, Patience, QuiesceError, Quiesced};
use crate::snapshot::{KeepOn, Snapshot};
use crate::workspace::Workspace;
pub use condition::given_up;
use fresh::Fresh;

/// Share of the filesystem's device that its journal gets where no size is given, and the bounds.
const JOURNAL_SHARE: u64 = 8;
const JOURNAL_MIN_BYTES: u64 = 64 << 20;
const JOURNAL_MAX_BYTES: u64 = 1 << 30;

/// How long each thing may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// One external program.
    pub command: Duration,
    /// Coming to rest.
    pub quiesce: Patience,
    /// The end of the whole trial, where it has one.
    pub trial_end: Option<Instant>,
}

impl Default for Limits {
    /// An hour for a program, idle means 500 ms, two minutes for coming to rest, no end of the trial.
    fn default() -> Limits {
        Limits {
            command: Duration::from_secs(3600),
            quiesce: Patience { idle: Duration::from_millis(500), limit: Duration::from_secs(120) },
            trial_end: None,
        }
    }
}

/// How a stage went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageErrorKind {
    /// Something failed.
    Failed,
    /// A signal asked us to stop.
    Interrupted,
    /// It took longer than allowed.
    TimedOut,
    /// A program was killed and does not end: the device is still in use, and nothing may be taken down.
    Stuck,
}

/// A stage that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageError {
    /// `provision`, `mkfs`, `mount`, `quiesce`, `unmount`, `fsck`, `teardown`.
    pub stage: &'static str,
    /// What failed, on what, and what to try.
    pub error: String,
    /// How.
    pub kind: StageErrorKind,
}

impl StageError {
    fn failed(stage: &'static str, error: impl fmt::Display) -> StageError {
        StageError { stage, error: error.to_string(), kind: StageErrorKind::Failed }
    }

    /// `limit` is what the program was given.
    fn of_command(
        stage: &'static str,
        error: &CommandError,
        limit: Duration,
        limits: &Limits,
    ) -> StageError {
        let kind = match error {
            CommandError::Interrupted { .. } => StageErrorKind::Interrupted,
            CommandError::TimedOut { .. } => StageErrorKind::TimedOut,
            CommandError::Stuck { .. } => StageErrorKind::Stuck,
            _ => StageErrorKind::Failed,
        };
        let mut error = error.to_string();
        if kind == StageErrorKind::TimedOut && limit < limits.command {
            error.push_str(
                "; the limit is what the trial had left (trial_timeout in a plan, --trial-timeout)",
            );
        }
        StageError { stage, error, kind }
    }

    /// The outcome of a trial that ends with it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let (stage, error) = (self.stage.to_owned(), self.error.clone());
        match self.kind {
            StageErrorKind::Failed => Outcome::Failed { stage, error },
            StageErrorKind::Interrupted => Outcome::Interrupted { stage },
            StageErrorKind::TimedOut | StageErrorKind::Stuck => Outcome::TimedOut { stage, error },
        }
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.error)
    }
}

impl std::error::Error for StageError {}

#[derive(Debug)]
enum Base {
    Fresh(Box<Fresh>),
    /// The run's own directory below one of the user's.
    Directory(PathBuf),
}

/// One target, made ready for one trial.
#[derive(Debug)]
pub struct Stand<'w> {
    workspace: &'w Workspace,
    limits: Limits,
    base: Base,
    /// The trial's directory in the workspace; holds images and mount point.
    directory: PathBuf,
    /// Where the workload runs; `None` until mounted once.
    root: Option<PathBuf>,
    torn_down: bool,
}

impl<'w> Stand<'w> {
    /// Makes the devices ready. For a directory of the user's: a directory of our own below it.
    ///
    /// # Errors
    /// Stage `provision`; nothing is left behind then.
    pub fn provision(
        workspace: &'w Workspace,
        target: &TargetSpec,
        default_size_bytes: u64,
        limits: &Limits,
    ) -> Result<Stand<'w>, StageError> {
        Stand::provision_with(workspace, target, default_size_bytes, limits, None)
    }

    fn provision_with(
        workspace: &'w Workspace,
        target: &TargetSpec,
        default_size_bytes: u64,
        limits: &Limits,
        snapshot: Option<&Snapshot>,
    ) -> Result<Stand<'w>, StageError> {
        let failed = |error: String| aged::stopped(limits, "provision", error);
        let keep_on = || aged::keep_on(limits);
        keep_on().map_err(failed)?;
        let parent = match &target.ground {
            Ground::Fresh(_) => workspace.directory().to_owned(),
            Ground::Directory { path } => workspace.directory_below(path).map_err(failed)?,
        };
        let directory = make_trial_directory(&parent).map_err(failed)?;
        let contents = snapshot.map(|snapshot| (snapshot, &keep_on as KeepOn<'_>));
        let base = match &target.ground {
            Ground::Directory { .. } => Ok(Base::Directory(directory.clone())),
            Ground::Fresh(fresh) => {
                fresh::provision(workspace, fresh, &directory, default_size_bytes, contents)
                    .map(|fresh| Base::Fresh(Box::new(fresh)))
            }
        };
        let base = base.map_err(failed).inspect_err(|_| {
            let _ = fs::remove_dir_all(&directory);
        })?;
        let limits = *limits;
        Ok(Stand { workspace, limits, base, directory, root: None, torn_down: false })
    }

    /// Makes the filesystem. Nothing to do for a directory.
    ///
    /// # Errors
    /// Stage `mkfs`, with the command line and the last words of mkfs.
    pub fn mkfs(&mut self) -> Result<(), StageError> {
        let limit = self.time_left("mkfs")?;
        let Base::Fresh(fresh) = &mut self.base else { return Ok(()) };
        arguments::check(fresh.definition, &fresh.spec.mkfs, &fresh.spec.mount)
            .map_err(|error| StageError::failed("mkfs", error))?;
        let commands = (fresh.definition.mkfs)(fresh.members(), &fresh.spec.mkfs);
        let lines: Vec<String> = commands.iter().map(CommandSpec::to_string).collect();
        fresh.mkfs_command = Some(lines.join(" && "));
        for command in &commands {
            command::run_checked(command, limit)
                .map_err(|error| StageError::of_command("mkfs", &error, limit, &self.limits))?;
        }
        fresh.attached = (fresh.definition.detach)(fresh.members()).is_some();
        fresh
            .detach(limit)
            .map_err(|error| StageError::of_command("mkfs", &error, limit, &self.limits))?;
        for device in std::iter::once(&mut fresh.device).chain(&mut fresh.journal) {
            device.formatted(self.workspace).map_err(|error| StageError::failed("mkfs", error))?;
        }
        Ok(())
    }

    /// Mounts the filesystem and makes the directory in which the workload runs.
    ///
    /// # Errors
    /// Stage `mount`, with the kernel's explanation.
    pub fn mount(&mut self) -> Result<(), StageError> {
        let limit = self.time_left("mount")?;
        self.mount_with("", limit)?;
        let root = match &self.base {
            Base::Fresh(fresh) => fresh.mount_point.join("fsdyno"),
            Base::Directory(directory) => directory.join("work"),
        };
        let made = fs::DirBuilder::new().mode(0o755).create(&root);
        match made {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                let text = format!("make {}: {error}", root.display());
                return Err(StageError::failed("mount", text));
            }
            _ => self.root = Some(root),
        }
        Ok(())
    }

    /// Mounts the filesystem again without the right to write, to read back what is on it.
    ///
    /// # Errors
    /// Stage `mount`.
    pub fn mount_read_only(&mut self) -> Result<(), StageError> {
        self.mount_with("ro", self.limits.command)
    }

    /// Mounts it with one option more; `limit` is what a program may take for it.
    fn mount_with(&mut self, more: &str, limit: Duration) -> Result<(), StageError> {
        let Base::Fresh(fresh) = &mut self.base else { return Ok(()) };
        fresh
            .attach(limit)
            .map_err(|error| StageError::of_command("mount", &error, limit, &self.limits))?;
        fresh::mount(fresh, more).map_err(|error| StageError::failed("mount", error))
    }

    /// Whether [`Stand::remount`] does anything: a directory of the user's stays mounted.
    #[must_use]
    pub fn can_remount(&self) -> bool {
        matches!(self.base, Base::Fresh(_))
    }

    /// Whether its filesystem has a cache besides the kernel's.
    #[must_use]
    pub fn has_own_cache(&self) -> bool {
        matches!(&self.base, Base::Fresh(fresh) if fresh.definition.has_own_cache)
    }

    /// Unmounts and mounts again: everything that was cached of it is gone.
    ///
    /// # Errors
    /// Stage `unmount` or `mount`.
    pub fn remount(&mut self) -> Result<(), StageError> {
        self.unmount()?;
        self.mount()
    }

    /// Waits until filesystem and devices are at rest. A directory of the user's is only synced: others
    /// may work beside it.
    ///
    /// # Errors
    /// Stage `quiesce`; that it did not come to rest in time is not one, see [`Quiesced::unsettled`].
    pub fn quiesce(&mut self) -> Result<Quiesced, StageError> {
        let mut patience = self.limits.quiesce;
        patience.limit = patience.limit.min(self.time_left("quiesce")?);
        let result = match &self.base {
            Base::Fresh(fresh) => {
                let unrest = || (fresh.definition.unrest)(fresh.members());
                let mut devices = std::iter::once(&fresh.device).chain(&fresh.journal);
                let refill = || devices.try_for_each(Device::refill);
                let numbers = fresh.numbers();
                quiesce::quiesce(&fresh.mount_point, &numbers, unrest, refill, patience)
            }
            Base::Directory(directory) => {
                quiesce::quiesce(directory, &[], || None, || Ok(()), patience)
            }
        };
        result.map_err(|error| match error {
            QuiesceError::Failed(error) => StageError::failed("quiesce", error),
            QuiesceError::Interrupted => StageError {
                stage: "quiesce",
                error: "interrupted".to_owned(),
                kind: StageErrorKind::Interrupted,
            },
        })
    }

    /// The directory in which the workload runs, empty at first.
    ///
    /// # Panics
    /// Where it was never mounted: a mistake of the caller's.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.as_deref().expect("the stand must be mounted before a workload runs on it")
    }

    /// What the phase runner should watch.
    #[must_use]
    pub fn watch(&self) -> Watch {
        let (numbers, journal, definition) = match &self.base {
            Base::Fresh(fresh) => {
                let journal = fresh.journal.as_ref().map(Device::number);
                (fresh.numbers(), journal, Some(fresh.definition))
            }
            Base::Directory(directory) => {
                let mounted = mount::mount_containing(directory).ok().flatten();
                let number = mounted.as_ref().and_then(facts::device_under);
                let definition = mounted.and_then(|mounted| filesystem::by_name(&mounted.fs_type));
                (number.into_iter().collect(), None, definition)
            }
        };
        let names = MemberNames {
            device: numbers
                .first()
                .and_then(|number| device::kernel_name(*number))
                .unwrap_or_default(),
            journal: journal.and_then(device::kernel_name),
            numbers: numbers.iter().map(DeviceNumber::to_string).collect(),
        };
        Watch {
            devices: numbers.iter().map(|number| (number.major, number.minor)).collect(),
            filesystem_threads: definition
                .map(|definition| (definition.kernel_threads)(&names))
                .unwrap_or_default(),
        }
    }

    /// What is really in force. Ask while it is mounted. What cannot be read back is absent.
    #[must_use]
    pub fn facts(&self) -> TargetFacts {
        match &self.base {
            Base::Fresh(fresh) => facts::of_fresh(fresh, self.limits.command),
            Base::Directory(directory) => facts::of_directory(directory),
        }
    }

    /// Unmounts. Nothing to do for a directory, or where nothing is mounted.
    ///
    /// # Errors
    /// Stage `unmount`, where somebody still uses it.
    pub fn unmount(&mut self) -> Result<(), StageError> {
        if let Base::Fresh(fresh) = &mut self.base
            && fresh.mounted
        {
            let failed = |error| StageError::failed("unmount", error);
            mount::unmount(&fresh.mount_point).map_err(failed)?;
            fresh.mounted = false;
            let limit = self.limits.command;
            fresh
                .detach(limit)
                .map_err(|error| StageError::of_command("unmount", &error, limit, &self.limits))?;
            mount::await_release(fresh.device.path()).map_err(failed)?;
        }
        Ok(())
    }

    /// What of its devices made the figures of a trial doubtful; to be asked after the teardown.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        let Base::Fresh(fresh) = &self.base else { return Vec::new() };
        std::iter::once(&fresh.device).chain(&fresh.journal).flat_map(Device::warnings).collect()
    }

    /// Checks the unmounted filesystem without writing; the flag tells whether it is clean. `None` for
    /// a directory, and for a filesystem that no program checks.
    ///
    /// # Errors
    /// Stage `fsck`, where the check itself could not be done.
    pub fn fsck(&mut self) -> Result<Option<(FsckRecord, bool)>, StageError> {
        let limit = self.time_left("fsck")?;
        let Base::Fresh(fresh) = &self.base else { return Ok(None) };
        if fresh.mounted {
            return Err(StageError::failed("fsck", "the filesystem is still mounted"));
        }
        let Fsck::Program { command, meaning } = fresh.definition.fsck else { return Ok(None) };
        let spec = command(fresh.members());
        let finished = command::run(&spec, limit)
            .map_err(|error| StageError::of_command("fsck", &error, limit, &self.limits))?;
        let (verdict, meaning) = match finished.exit_code {
            Some(code) => meaning(code),
            None => (Verdict::Operational, "ended by a signal"),
        };
        if verdict == Verdict::Operational {
            let error = command::failure(&spec, &finished);
            return Err(StageError::failed("fsck", format!("{error} ({meaning})")));
        }
        let clean = verdict == Verdict::Clean;
        let words = if clean { String::new() } else { format!(": {}", finished.last_words()) };
        let meaning = format!("{meaning}{words}");
        let record =
            FsckRecord { command: spec.to_string(), exit_code: finished.exit_code, meaning };
        Ok(Some((record, clean)))
    }

    /// That no program checks its filesystem, where that is so.
    #[must_use]
    pub fn unchecked(&self) -> Option<Warning> {
        let Base::Fresh(fresh) = &self.base else { return None };
        let Fsck::Missing(why) = fresh.definition.fsck else { return None };
        Some(Warning {
            code: "no-fsck".to_owned(),
            message: format!("{} was not checked: {why}", fresh.definition.info.name),
            advice: "what the workload left is read back after the trial, and a loss is a failure"
                .to_owned(),
        })
    }

    /// Unmounts, detaches, deletes. Doing it again does nothing.
    ///
    /// # Errors
    /// Stage `teardown`, with all that is left; it goes on past each.
    pub fn teardown(&mut self) -> Result<(), StageError> {
        if self.torn_down {
            return Ok(());
        }
        let mut errors = Vec::new();
        if let Base::Fresh(fresh) = &mut self.base {
            if fresh.mounted {
                let unmounted = mount::unmount(&fresh.mount_point)
                    .or_else(|error| mount::unmount_lazy(&fresh.mount_point).map_err(|_| error));
                match unmounted {
                    Ok(()) => fresh.mounted = false,
                    Err(error) => errors.push(error.to_string()),
                }
            }
            if !fresh.mounted {
                errors.extend(fresh.detach(self.limits.command).err().map(|it| it.to_string()));
            }
            aged::forget(fresh);
            for device in std::iter::once(&mut fresh.device).chain(&mut fresh.journal) {
                errors.extend(device.release(self.workspace).err());
            }
        }
        let mounted = matches!(&self.base, Base::Fresh(fresh) if fresh.mounted);
        // Never while something is mounted there: it would delete its files.
        if !mounted {
            match fs::remove_dir_all(&self.directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    errors.push(format!("remove {}: {error}", self.directory.display()));
                }
                _ => {}
            }
        }
        if errors.is_empty() {
            self.torn_down = true;
            Ok(())
        } else {
            Err(StageError::failed("teardown", errors.join("; ")))
        }
    }

    /// Leaves everything as it is, for `fsdyno clean`: where a program cannot be ended, whoever unmounts or
    /// removes what it uses waits as long as it does. The ledger stays, and the workspace removes nothing.
    pub fn abandon(self) {
        self.workspace.abandon();
        // Its end would take it down.
        std::mem::forget(self);
    }

    /// The time that a stage may take.
    fn time_left(&self, stage: &'static str) -> Result<Duration, StageError> {
        let Some(end) = self.limits.trial_end else { return Ok(self.limits.command) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let error = aged::TIME_UP.to_owned();
            return Err(StageError { stage, error, kind: StageErrorKind::TimedOut });
        }
        Ok(left.min(self.limits.command))
    }
}

impl Drop for Stand<'_> {
    fn drop(&mut self) {
        // Whoever wants to know calls `teardown`; what is left stays in the ledger.
        let _ = self.teardown();
    }
}

/// Size of a journal image whose target names none, for a filesystem of `size_bytes`.
#[must_use]
pub fn journal_size_bytes(size_bytes: u64) -> u64 {
    let share = (size_bytes / JOURNAL_SHARE).clamp(JOURNAL_MIN_BYTES, JOURNAL_MAX_BYTES);
    share - share % (1 << 20)
}

/// The next free number below `parent`.
fn make_trial_directory(parent: &Path) -> Result<PathBuf, String> {
    for number in 1u32.. {
        let path = parent.join(format!("trial-{number}"));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("make {}: {error}", path.display())),
        }
    }
    Err(format!("{} is full of trials", parent.display()))
}
