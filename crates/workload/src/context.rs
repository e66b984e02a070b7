//! What a running workload is given: its directory, its parameters, the probes, the cache control and
//! the way to whoever started it and back. Frames and threads behind that are left to [`crate::runner`].

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use fsdyno_model::cold::{Cold, FROM_MEMORY_SHARE, PROVING_BYTES};
use fsdyno_model::param::Params;
use fsdyno_model::record::{PhaseRecord, VerifyRecord, Warning};
use fsdyno_model::units::human_bytes;
use fsdyno_model::wire::{self, Manifest, MeasureSpec, Message, Reply};
use fsdyno_sys::caches::{CacheLevel, drop_caches};
use fsdyno_sys::calls::{Calls, Real};

use crate::failure::call_failed;
use crate::probe::Probe;

/// Takes what a workload has to say.
pub type Say<'a> = &'a (dyn Fn(&Message) -> std::io::Result<()> + Sync);

/// How far a workload is. Written by the workload, read by another thread some times a second.
#[derive(Debug, Default)]
pub struct Progress {
    phase: Mutex<String>,
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Says that the phase `name` is running.
    pub fn enter(&self, name: &str) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase != name {
            phase.clear();
            phase.push_str(name);
        }
    }

    /// Name of the phase that is running.
    #[must_use]
    pub fn phase(&self) -> String {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says how much there is to do, in units of the workload's choice.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Says that `units` more are done.
    #[inline]
    pub fn advance(&self, units: u64) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// Share of the whole that is done, 0 … 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let total = self.total.load(Ordering::Relaxed);
        let done = self.done.load(Ordering::Relaxed).min(total);
        if total == 0 { 0.0 } else { done as f64 / total as f64 }
    }
}

/// What a running workload is given.
pub struct Context<'a> {
    /// Its parameters.
    pub params: &'a Params,
    /// Seed of everything that is drawn and not fixed by a parameter.
    pub seed: u64,
    /// What is read at the edges of samples.
    pub probe: Probe,
    /// How far it is.
    pub progress: &'a Progress,
    /// Whether the phase `fragmentation` was recorded already.
    pub(crate) surveyed: AtomicBool,
    /// `None` only while the target is not mounted.
    root: Option<OwnedFd>,
    root_path: PathBuf,
    may_drop_caches: bool,
    may_remount: bool,
    has_own_cache: bool,
    told_not_dropped: AtomicBool,
    told_not_remounted: bool,
    /// How the caches were emptied since the last sample.
    cold: Mutex<Option<Cold>>,
    /// What was compared during the run.
    verified: Mutex<VerifyRecord>,
    send: Say<'a>,
    replies: Mutex<&'a mut (dyn Read + Send)>,
}

impl<'a> Context<'a> {
    /// Opens the directory of `spec` and everything that it watches; answers come over `replies`.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn new(
        spec: &'a MeasureSpec,
        progress: &'a Progress,
        send: Say<'a>,
        replies: &'a mut (dyn Read + Send),
    ) -> anyhow::Result<Self> {
        Ok(Context {
            params: &spec.params,
            seed: spec.seed,
            probe: Probe::new(&spec.watch),
            progress,
            surveyed: AtomicBool::new(false),
            root: Some(open_root(&spec.root)?),
            root_path: spec.root.clone(),
            may_drop_caches: spec.may_drop_caches,
            may_remount: spec.may_remount,
            has_own_cache: spec.has_own_cache,
            told_not_dropped: AtomicBool::new(false),
            told_not_remounted: false,
            cold: Mutex::new(None),
            verified: Mutex::default(),
            send,
            replies: Mutex::new(replies),
        })
    }

    /// The directory that all work happens in.
    #[must_use]
    pub fn root(&self) -> &OwnedFd {
        self.root
            .as_ref()
            .expect("it is closed only while `remount` waits, which borrows all of this")
    }

    /// Its path.
    #[must_use]
    pub fn root_path(&self) -> &Path {
        &self.root_path
    }

    /// Empties the caches in the way that is asked for, so that what comes next starts cold. Where the
    /// target cannot be mounted again, as a directory of the user's cannot, the caches of the machine
    /// are dropped instead; where that is not allowed either, nothing is done. Each is said once.
    ///
    /// Nothing may be open on the target but the context's own root, and the root's `Fd` is another
    /// afterwards.
    ///
    /// # Errors
    /// When syncing or mounting fails, or whoever listens is gone.
    pub fn make_cold(&mut self, how: Cold) -> anyhow::Result<()> {
        match how {
            Cold::None => Ok(()),
            Cold::DropCaches if self.has_own_cache && self.may_remount => self.remount(),
            Cold::DropCaches => self.drop_caches().map(drop),
            Cold::Remount if self.may_remount => self.remount(),
            Cold::Remount => {
                // Where nothing was done, that was said and is all there is to say.
                if self.drop_caches()? && !std::mem::replace(&mut self.told_not_remounted, true) {
                    self.warn(Warning {
                        code: "not-remounted".to_owned(),
                        message: "caches were dropped instead of mounting the target again"
                            .to_owned(),
                        advice: "give a filesystem instead of a directory".to_owned(),
                    })?;
                }
                Ok(())
            }
        }
    }

    fn remount(&mut self) -> anyhow::Result<()> {
        self.root = None;
        self.say(&Message::Remount)?;
        let replies = self.replies.get_mut().unwrap_or_else(PoisonError::into_inner);
        let reply = wire::read_frame(replies)
            .map_err(|error| anyhow::anyhow!("answer of the controlling process: {error}"))?;
        match reply {
            Some(Reply::Remounted) => {}
            Some(Reply::Failed { error }) => anyhow::bail!("mount again: {error}"),
            None => anyhow::bail!("mount again: the controlling process is gone"),
        }
        self.root = Some(open_root(&self.root_path)?);
        self.note_cold(Cold::Remount);
        Ok(())
    }

    /// How the caches were emptied since this was asked last.
    pub(crate) fn take_cold(&self) -> Option<Cold> {
        self.cold.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note_cold(&self, how: Cold) {
        *self.cold.lock().unwrap_or_else(PoisonError::into_inner) = Some(how);
    }

    /// Makes what comes next start without anything in the page cache: syncs the target and drops
    /// the caches of the machine. Where that is not allowed, says so once and goes on. Gives whether the
    /// caches were dropped.
    ///
    /// # Errors
    /// When syncing fails, or whoever listens is gone.
    pub fn drop_caches(&self) -> anyhow::Result<bool> {
        let root = || self.root_path.display().to_string();
        Real.syncfs(self.root()).map_err(|errno| call_failed("syncfs", root(), errno))?;
        let reason = if self.may_drop_caches {
            match drop_caches(CacheLevel::All) {
                Ok(()) => {
                    self.note_cold(Cold::DropCaches);
                    return Ok(true);
                }
                Err(error) => error.to_string(),
            }
        } else {
            "dropping the page cache was not permitted".to_owned()
        };
        self.note_cold(Cold::None);
        if !self.told_not_dropped.swap(true, Ordering::Relaxed) {
            self.warn(Warning {
                code: "caches-not-dropped".to_owned(),
                message: format!(
                    "the caches were not emptied, phases that should start cold may have started \
                     warm: {reason}"
                ),
                advice: "run as root, outside of a container with a read-only /proc/sys".to_owned(),
            })?;
        }
        Ok(false)
    }

    /// Counts files that were compared with what was written, for the record of the trial.
    pub fn note_verified(&self, record: VerifyRecord) {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner).add(record);
    }

    /// Tells what was compared during the run, unless that is nothing.
    pub(crate) fn tell_verified(&self) -> anyhow::Result<()> {
        let record = self.verified.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if record.files == 0 { Ok(()) } else { self.say(&Message::Verified(record)) }
    }

    /// Hands over a finished phase. Where the device tells that it did not start as cold as it should,
    /// a reader of the numbers is told too.
    ///
    /// # Errors
    /// When whoever listens is gone.
    pub fn finish_phase(&self, record: PhaseRecord) -> anyhow::Result<()> {
        if let Some(message) = warmth(&record) {
            self.warn(Warning {
                code: "not-cold".to_owned(),
                message,
                advice: "look for another cache under the target, or take what the device did not \
                         read for compression"
                    .to_owned(),
            })?;
        }
        self.say(&Message::Phase(Box::new(record)))
    }

    /// Makes a remark that a reader of the numbers must know.
    ///
    /// # Errors
    /// When whoever listens is gone.
    pub fn warn(&self, warning: Warning) -> anyhow::Result<()> {
        self.say(&Message::Warning(warning))
    }

    /// Says which files are left, to be read back later.
    ///
    /// # Errors
    /// When whoever listens is gone.
    pub fn hand_over(&self, manifest: Manifest) -> anyhow::Result<()> {
        self.say(&Message::Manifest(manifest))
    }

    fn say(&self, message: &Message) -> anyhow::Result<()> {
        (self.send)(message)
            .map_err(|error| anyhow::anyhow!("write to the controlling process: {error}"))
    }
}

/// How a phase that should have started cold did not; `None` where nothing speaks against it.
fn warmth(record: &PhaseRecord) -> Option<String> {
    let how = record.cold.filter(|how| *how != Cold::None)?;
    let from_device = record.device.read_bytes?;
    let asked = record.read_bytes;
    if asked < PROVING_BYTES || from_device as f64 >= FROM_MEMORY_SHARE * asked as f64 {
        return None;
    }
    Some(format!(
        "{} read {} after {}, but the device only {}: most came from memory",
        record.name,
        human_bytes(asked),
        how.word(),
        human_bytes(from_device)
    ))
}

fn open_root(path: &Path) -> anyhow::Result<OwnedFd> {
    let opened = Real.open_root(path);
    Ok(opened.map_err(|errno| call_failed("open", path.display().to_string(), errno))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_was_served_from_memory_is_told() {
        const MIB: u64 = 1 << 20;
        for (cold, read_bytes, device, told) in [
            (Some(Cold::Remount), 100 * MIB, Some(100 * MIB), false),
            (Some(Cold::Remount), 100 * MIB, Some(3 * MIB), false),
            (Some(Cold::Remount), 100 * MIB, Some(MIB), true),
            (Some(Cold::DropCaches), 100 * MIB, Some(0), true),
            (Some(Cold::DropCaches), 100 * MIB, None, false),
            (Some(Cold::DropCaches), MIB / 2, Some(0), false),
            (Some(Cold::None), 100 * MIB, Some(0), false),
            (None, 100 * MIB, Some(0), false),
        ] {
            let mut record = PhaseRecord::new("read", "files_per_s");
            (record.cold, record.read_bytes, record.device.read_bytes) = (cold, read_bytes, device);
            assert_eq!(warmth(&record).is_some(), told, "{cold:?} {read_bytes} {device:?}");
        }
    }
}
