//! Where the disk under a target is reached, for measuring the machine itself: a directory of the run's
//! on it, or the block device.

use std::path::{Path, PathBuf};

use fsdyno_lab::workspace::Workspace;
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{DeviceSpec, Ground, TargetSpec};

/// What a disk is reached through.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A file in this directory of the run's.
    Below(PathBuf),
    /// The block device itself, which is only read.
    Device(PathBuf),
}

/// The disk that `target` lies on, by the name that the user knows it by, a journal elsewhere left out;
/// `None` where it is not there.
pub(super) fn of_target(
    plan: &Plan,
    workspace: &Workspace,
    target: &TargetSpec,
) -> Option<(String, Result<Place, String>)> {
    match &target.ground {
        Ground::Directory { path } => {
            path.is_dir().then(|| (shown(path), workspace.directory_below(path).map(Place::Below)))
        }
        Ground::Fresh(fresh) => match fresh.leaves().next()? {
            DeviceSpec::LoopImage { .. } | DeviceSpec::Emulated { .. } => {
                let images = workspace.directory().to_owned();
                Some((shown(&super::image_directory(plan)), Ok(Place::Below(images))))
            }
            DeviceSpec::Block { path } => {
                path.exists().then(|| (shown(path), Ok(Place::Device(path.clone()))))
            }
            // What it is made of comes first.
            DeviceSpec::Array(_) => None,
        },
    }
}

/// The name of a place.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
