//! What a stand does for aged filesystems: a directory for the files that age it, a copy of the image
//! that is kept, and a stand that begins with such a copy. Who ages it and when is left to the caller.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_model::age::AgeRecord;
use fsdyno_model::target::{DeviceSpec, FreshSpec, TargetSpec};

use super::{Base, Fresh, Limits, StageError, StageErrorKind, Stand};
use crate::command::{self, CommandSpec};
use crate::device::Device;
use crate::snapshot::{self, Snapshot, Source};
use crate::workspace::Workspace;

/// Name of the directory in which the files lie that age a filesystem, beside the workload's.
pub const DIRECTORY: &str = "aged";
/// How long `btrfs device scan --forget` may take.
const FORGET_LIMIT: Duration = Duration::from_secs(30);
const INTERRUPTED: &str = "interrupted";
/// Error of a stage for which a trial has no time left.
pub const TIME_UP: &str = "the time for the trial was up";

/// Whether copies of such a filesystem can be kept: it is in one image. A block device of the user's is
/// aged anew each time, and so is a filesystem whose journal is on another device, since the one
/// names the other.
#[must_use]
pub fn can_be_kept(fresh: &FreshSpec) -> bool {
    matches!(fresh.device, DeviceSpec::LoopImage { .. }) && fresh.journal.is_none()
}

impl<'w> Stand<'w> {
    /// As [`Stand::provision`], but with a copy of an aged filesystem on the device: there is nothing to
    /// make on it.
    ///
    /// # Errors
    /// Stage `provision`. Where the snapshot itself was at fault it is gone then.
    pub fn provision_aged(
        workspace: &'w Workspace,
        target: &TargetSpec,
        default_size_bytes: u64,
        limits: &Limits,
        snapshot: &Snapshot,
    ) -> Result<Stand<'w>, StageError> {
        Stand::provision_with(workspace, target, default_size_bytes, limits, Some(snapshot))
    }

    /// Makes the directory for the files that age the filesystem, which must be mounted.
    ///
    /// # Errors
    /// Stage `age`.
    pub fn age_root(&self) -> Result<PathBuf, StageError> {
        let Base::Fresh(fresh) = &self.base else {
            let error = fsdyno_model::age::DIRECTORY_ERROR;
            return Err(StageError::failed("age", error));
        };
        let root = fresh.mount_point.join(DIRECTORY);
        let made = fs::DirBuilder::new().mode(0o755).create(&root);
        made.map_err(|error| {
            StageError::failed("age", format!("make {}: {error}", root.display()))
        })?;
        Ok(root)
    }

    /// Keeps a copy of the unmounted filesystem below `parent`; `reserve_bytes` are left free there.
    ///
    /// # Errors
    /// Stage `age`: no room, or it cannot be written; nothing is left behind then.
    pub fn keep_aged(
        &self,
        parent: &Path,
        identity: &str,
        aged: &AgeRecord,
        reserve_bytes: u64,
    ) -> Result<Snapshot, StageError> {
        let failed = |error: String| stopped(&self.limits, "age", error);
        let (image, fresh) = match &self.base {
            Base::Fresh(fresh) if !fresh.mounted => match &fresh.device {
                Device::Image(image) => (image, fresh),
                Device::Block(_) | Device::Emulated(_) | Device::Array(_) => {
                    return Err(failed("it is in no image of its own".to_owned()));
                }
            },
            _ => return Err(failed("it is still mounted".to_owned())),
        };
        // What tools wrote to the device may lie in its cache.
        let synced = File::open(image.path()).and_then(|device| device.sync_all());
        synced.map_err(|error| failed(format!("fsync {}: {error}", image.path().display())))?;
        let source = Source {
            image: image.file(),
            identity,
            mkfs_command: fresh.mkfs_command.clone(),
            aged: aged.clone(),
        };
        snapshot::save(parent, &source, reserve_bytes, &|| keep_on(&self.limits)).map_err(failed)
    }
}

/// Fails once a signal asked to stop or the trial has no time left.
pub(super) fn keep_on(limits: &Limits) -> Result<(), String> {
    if fsdyno_sys::process::interrupted() {
        return Err(INTERRUPTED.to_owned());
    }
    match limits.trial_end {
        Some(end) if Instant::now() >= end => Err(TIME_UP.to_owned()),
        _ => Ok(()),
    }
}

/// The error of a stage, with the kind that [`keep_on`] says now.
pub(super) fn stopped(limits: &Limits, stage: &'static str, error: String) -> StageError {
    let kind = match keep_on(limits) {
        Ok(()) => StageErrorKind::Failed,
        Err(why) if why == INTERRUPTED => StageErrorKind::Interrupted,
        Err(_) => StageErrorKind::TimedOut,
    };
    StageError { stage, error, kind }
}

/// Has the kernel forget an unmounted btrfs that was aged: before Linux 6.3 it remembers each that it
/// has seen, and refuses a copy with the same identity and an older generation.
pub(super) fn forget(fresh: &Fresh) {
    if fresh.mounted || fresh.spec.age.is_none() || fresh.definition.info.name != "btrfs" {
        return;
    }
    let device = fresh.device.path().display().to_string();
    let spec = CommandSpec::new("btrfs", &["device", "scan", "--forget", &device]);
    // Newer kernels have nothing to forget and say so by an error.
    let _ = command::run(&spec, FORGET_LIMIT);
}
