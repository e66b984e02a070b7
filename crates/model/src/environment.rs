//! Where a run was measured: facts read from the system, null where it does not tell.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::guest::GuestFacts;
use crate::place::Measured;
use crate::units::human_bytes;

/// The machine and its software, read once at the start of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Version of fsdyno.
    pub fsdyno_version: String,
    /// Host name.
    pub hostname: Option<String>,
    /// Release of the kernel, as `uname -r`; where targets have kernels of their own all of them, with commas.
    pub kernel_release: Option<String>,
    /// Build of the kernel, as `uname -v`.
    pub kernel_version: Option<String>,
    /// The kernel's command line.
    pub kernel_cmdline: Option<String>,
    /// Distribution, from os-release.
    pub distribution: Option<String>,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Number of processors online.
    pub cpu_count: Option<u32>,
    /// Frequency governor of the first processor.
    pub cpu_governor: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// What of it the workloads on the host could use, what the kernel cached for them included, in bytes;
    /// null for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit_bytes: Option<u64>,
    /// Whether the effective user is root.
    pub root: bool,
    /// Directory of the images.
    pub image_directory: Option<String>,
    /// Filesystem under the images, with its source and options.
    pub image_filesystem: Option<String>,
    /// Reading 2 MiB again and again from the page cache, in MiB (1024 × 1024 bytes) per second, as
    /// `hdparm -T`; null where it was not measured.
    #[serde(default)]
    pub cached_read_mib_per_s: Option<f64>,
    /// Reading sequentially past the page cache, in MiB per second, as `hdparm -t --direct`, before the
    /// first trial: by block device, or by the directory in which a file was made for it; null where it
    /// could not be measured.
    #[serde(default)]
    pub device_read_mib_per_s: BTreeMap<String, Option<f64>>,
    /// Versions of the tools that were used, by name.
    #[serde(default)]
    pub tools: BTreeMap<String, Option<String>>,
    /// Identities of the boots in which its trials were made, in their order: more than one where it was
    /// resumed after a reboot.
    #[serde(default)]
    pub boot_ids: Vec<String>,
    /// Settings of the kernel that matter for writing (`vm.dirty_ratio`, …), by name.
    #[serde(default)]
    pub sysctl: BTreeMap<String, Option<String>>,
    /// Where the trials ran; kernel, processors and memory above are those of that place.
    #[serde(default)]
    pub measured: Measured,
    /// The guest; null on the host.
    #[serde(default)]
    pub guest: Option<GuestFacts>,
}

impl Environment {
    /// Memory that a workload could use, in bytes: that of the machine, less the initial file system that lies in a
    /// guest's, or the limit that was set.
    #[must_use]
    pub fn usable_memory_bytes(&self) -> Option<u64> {
        let kernels = self.guest.iter().flat_map(|guest| &guest.kernels);
        let held = kernels.map(|kernel| kernel.initramfs_bytes).max().unwrap_or(0);
        let own = self.memory_bytes.map(|bytes| bytes.saturating_sub(held));
        own.into_iter().chain(self.memory_limit_bytes).min()
    }

    /// `16.0 GiB`, `16.0 GiB, 512 MiB of it for the workload`, or `unknown`.
    #[must_use]
    pub fn memory_text(&self) -> String {
        let all = self.memory_bytes.map_or_else(|| "unknown".to_owned(), human_bytes);
        match self.memory_limit_bytes {
            Some(limit) => format!("{all}, {} of it for the workload", human_bytes(limit)),
            None => all,
        }
    }
}
