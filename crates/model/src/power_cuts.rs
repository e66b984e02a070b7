//! Power cuts of a target: a test as the results database keeps it, and what all tests together say of a
//! target of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::DeviceSpec;
use crate::target::{FreshSpec, Ground, TargetSpec};

/// What a filesystem was held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldTo {
    /// fsync(2), and what it documents of calls that were acknowledged: the usual.
    Documented,
    /// fsync(2) alone.
    Manual,
    /// The usual, and what it documents of a rename without `fsync`.
    UnsyncedRename,
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenPromise {
    /// The promise in words.
    pub promise: String,
    /// On what, and what was found instead.
    pub what: String,
    /// The call that made the promise; null where none did.
    pub call: Option<String>,
    /// Number of the cut in its recording.
    pub cut: u64,
    /// Directory in which the recording was kept.
    pub recording: Option<String>,
    /// The command that shows it again; null where no recording was kept.
    pub again: Option<String>,
}

/// Power cuts of one recording, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerCutTest {
    /// Version of fsdyno.
    pub fsdyno_version: String,
    /// The target as it was given.
    pub target: String,
    /// The filesystem with its options.
    pub spec: FreshSpec,
    /// Release of the kernel.
    pub kernel: String,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Model of the disk.
    pub disk_model: String,
    /// Bytes that the disk wrote whole or not at all.
    pub block_bytes: u64,
    /// Bytes that its cache held.
    pub cache_bytes: u64,
    /// Whether it answered flushes and did nothing.
    pub ignores_flushes: bool,
    /// What the filesystem was held to.
    pub held_to: HeldTo,
    /// Whether it was checked after each cut, where there is a program for that.
    pub checked: bool,
    /// What was drawn came from it.
    pub seed: u64,
    /// What the workload did, by its name; empty in tests of a time when there was one.
    #[serde(default)]
    pub workload: String,
    /// Calls of all workers.
    pub calls: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Those after which every promise was kept.
    pub kept: u64,
    /// When it ended, RFC 3339.
    pub finished: String,
    /// The first promise that was broken; null where all were kept.
    pub first_broken: Option<BrokenPromise>,
}

/// What tests of power cuts say of one target of a run, on the kernel of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPowerCuts {
    /// Label of the target.
    pub target: String,
    /// Power cuts of all tests together; 0 where there is no test.
    pub cuts: u64,
    /// Those after which every promise was kept.
    pub kept: u64,
    /// Number of tests.
    pub tests: u32,
    /// When the last test ended, or the last that broke a promise where one did, RFC 3339; null without tests.
    pub finished: Option<String>,
    /// The first promise that was broken in that test; null where all were kept.
    pub first_broken: Option<BrokenPromise>,
    /// Other kernels on which it was tested.
    pub other_kernels: Vec<String>,
    /// The command that tests it.
    pub command: String,
}

impl TargetPowerCuts {
    /// Whether a promise was broken.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.kept < self.cuts
    }
}

/// The target without what power cuts do not ask for: label, device, age and kernel. `None` of what power is
/// not cut under: directories, arrays, journals on another disk.
#[must_use]
pub fn stripped(target: &TargetSpec) -> Option<TargetSpec> {
    let Ground::Fresh(spec) = &target.ground else { return None };
    if spec.journal.is_some() || matches!(spec.device, DeviceSpec::Array(_)) {
        return None;
    }
    let device = DeviceSpec::LoopImage { size_bytes: None };
    let spec = FreshSpec { device, age: None, kernel: None, ..spec.clone() };
    Some(TargetSpec { label: String::new(), ground: Ground::Fresh(spec) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_asked_for_is_left_out() {
        let target = TargetSpec {
            label: "mine".to_owned(),
            ground: Ground::Fresh(FreshSpec {
                filesystem: "ext4".to_owned(),
                mkfs: vec!["-I".to_owned(), "256".to_owned()],
                mount: "barrier=0".to_owned(),
                device: DeviceSpec::Block { path: "/dev/sdb".into() },
                journal: None,
                age: None,
                kernel: None,
            }),
        };
        assert_eq!(stripped(&target).unwrap().to_string(), "ext4/-I 256:barrier=0");
        let ground = Ground::Directory { path: "/srv".into() };
        assert_eq!(stripped(&TargetSpec { ground, ..target }), None);
    }
}
