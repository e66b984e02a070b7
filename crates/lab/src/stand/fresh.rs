//! The filesystem that was made for one trial: its devices, where it is mounted, what the kernel knows of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsdyno_model::target::FreshSpec;
use fsdyno_sys::block::DeviceNumber;
use fsdyno_sys::mount;

use super::journal_size_bytes;
use crate::command::{self, CommandError};
use crate::device::Device;
use crate::device::image::Contents;
use crate::filesystem::{self, FilesystemDef, Members};
use crate::workspace::Workspace;
use crate::{arguments, guard};

/// A filesystem made for this trial.
#[derive(Debug)]
pub(super) struct Fresh {
    pub definition: &'static FilesystemDef,
    pub spec: FreshSpec,
    pub device: Device,
    pub journal: Option<Device>,
    pub mkfs_command: Option<String>,
    pub mount_point: PathBuf,
    pub mounted: bool,
    /// Whether the kernel knows of it besides a mount; see [`FilesystemDef::attach`].
    pub attached: bool,
}

impl Fresh {
    pub fn members(&self) -> Members<'_> {
        Members {
            device: self.device.path(),
            others: self.device.others(),
            journal: self.journal.as_ref().map(Device::path),
        }
    }

    /// Has the kernel know of it; does nothing where it does.
    pub fn attach(&mut self, limit: Duration) -> Result<(), CommandError> {
        if !self.attached
            && let Some(spec) = (self.definition.attach)(self.members())
        {
            command::run_checked(&spec, limit)?;
            self.attached = true;
        }
        Ok(())
    }

    /// Has the kernel forget it; does nothing where it knows nothing.
    pub fn detach(&mut self, limit: Duration) -> Result<(), CommandError> {
        if self.attached
            && let Some(spec) = (self.definition.detach)(self.members())
        {
            command::run_checked(&spec, limit)?;
            self.attached = false;
        }
        Ok(())
    }

    pub fn numbers(&self) -> Vec<DeviceNumber> {
        std::iter::once(&self.device).chain(&self.journal).flat_map(Device::numbers).collect()
    }

    pub fn options(&self, more: &str) -> String {
        let own = (self.definition.mount_options)(self.members());
        let given = [self.spec.mount.as_str(), more].map(str::to_owned);
        let all: Vec<String> =
            own.into_iter().chain(given).filter(|text| !text.is_empty()).collect();
        all.join(",")
    }
}

/// Makes the devices of a target ready, and the place where it will be mounted.
pub(super) fn provision(
    workspace: &Workspace,
    spec: &FreshSpec,
    directory: &Path,
    default_size_bytes: u64,
    contents: Option<Contents<'_>>,
) -> Result<Fresh, String> {
    let definition = filesystem::by_name(&spec.filesystem)
        .ok_or_else(|| format!("`{}` is no filesystem of the catalogue", spec.filesystem))?;
    arguments::check(definition, &spec.mkfs, &spec.mount)?;
    guard::check_distinct(spec)?;
    let mount_point = directory.join("mount");
    fs::create_dir(&mount_point)
        .map_err(|error| format!("make {}: {error}", mount_point.display()))?;
    let mkfs_command = contents.and_then(|(snapshot, _)| snapshot.about.mkfs_command.clone());
    let size_bytes = default_size_bytes;
    let mut device =
        Device::provision(workspace, &spec.device, directory, "device", size_bytes, contents)?;
    let journal = spec.journal.as_ref().map(|journal| {
        let size = journal_size_bytes(default_size_bytes);
        Device::provision(workspace, journal, directory, "journal", size, None)
    });
    let journal = journal.transpose().inspect_err(|_| drop(device.release(workspace)))?;
    let spec = spec.clone();
    Ok(Fresh {
        definition,
        spec,
        device,
        journal,
        mkfs_command,
        mount_point,
        mounted: false,
        attached: false,
    })
}

/// Mounts it with one option more.
pub(super) fn mount(fresh: &mut Fresh, more: &str) -> Result<(), String> {
    if fresh.mounted {
        return Err(format!("{} is already mounted", fresh.mount_point.display()));
    }
    let source = (fresh.definition.mount_source)(fresh.members());
    mount::mount(fresh.definition.info.name, &source, &fresh.mount_point, &fresh.options(more))
        .map_err(|error| error.to_string())?;
    fresh.mounted = true;
    Ok(())
}
