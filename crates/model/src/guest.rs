//! What a guest is told and what it answers: frames of [`crate::wire`] over one port. A guest gets one
//! [`Errand`], does it and powers itself off. One whose errand is to wait gets another: in between its state
//! may be saved, and what goes on from there is another guest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::environment::Environment;
use crate::plan::Plan;
use crate::record::{Role, TrialRecord};
use crate::target::TargetSpec;

/// Version of what is said over the port.
pub const VERSION: u32 = 5;
/// Name of the port.
pub const PORT: &str = "fsdyno.trial";
/// Word of the kernel's command line, and so of the first process's environment, that names the serial line
/// which is the port where there is no virtio.
pub const LINE_VARIABLE: &str = "FSDYNO_PORT";
/// Word of the same kind, with any value, for a machine whose processor is never to be idle.
pub const NEVER_IDLE_VARIABLE: &str = "FSDYNO_NEVER_IDLE";
/// How often a guest says that it is alive, in milliseconds.
pub const HEARTBEAT_MS: u64 = 500;

/// What a guest has to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Errand {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// Bytes for the guest's random number generator, which has no source of its own.
    pub entropy: Vec<u8>,
    /// The date, in nanoseconds since 1970, for a guest that goes on from a saved state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_ns: Option<u64>,
    /// Modules of the kernel to load, in this order, by their paths in the guest.
    pub modules: Vec<String>,
    /// The work.
    pub task: Task,
}

/// The work of a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Say what the guest is.
    Describe,
    /// Say that the guest is ready, and wait for another errand.
    Wait {
        /// Disks that are to be there by then.
        disks: Vec<PathBuf>,
    },
    /// Run one trial.
    Trial(Box<TrialErrand>),
    /// Try what a filesystem does when its disk goes wrong.
    DiskFault(Box<DiskFaultErrand>),
}

/// A fault of a disk for a guest, which makes the disk in its own memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiskFaultErrand {
    /// The filesystem, and what is asked of it.
    pub target: TargetSpec,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Name of a shipped model of a disk.
    pub model: String,
    /// Name of the fault.
    pub fault: String,
}

/// One trial for a guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialErrand {
    /// The plan, whose target is on the guest's own devices.
    pub plan: Plan,
    /// Index of the target in the plan.
    pub target_index: usize,
    /// Index of the workload in the plan.
    pub workload_index: usize,
    /// Number of the trial, from 1.
    pub trial: u32,
    /// What it is for.
    pub role: Role,
    /// Place in the order of execution, from 0.
    pub order: u32,
    /// Disks that are served in the guest at the times of models.
    pub disks: Vec<ServedDisk>,
    /// A disk for what the workload makes and reads, none of the target's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PathBuf>,
    /// Something bad that the guest does to itself when the workload begins, to see what becomes of it.
    pub fault: Option<Fault>,
}

/// A disk that is served in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedDisk {
    /// The device with its contents.
    pub contents: PathBuf,
    /// The device that is served.
    pub device: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Name of its model.
    pub model: String,
    /// Text of its model.
    pub model_text: String,
}

/// Something bad that a guest does to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Its kernel panics.
    Panic,
    /// It says nothing any more.
    Hang,
    /// It takes memory until there is none.
    Oom,
}

impl Fault {
    /// Reads `panic`, `hang` or `oom`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Fault> {
        match text {
            "panic" => Some(Fault::Panic),
            "hang" => Some(Fault::Hang),
            "oom" => Some(Fault::Oom),
            _ => None,
        }
    }
}

/// What a guest says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// First of all.
    Hello {
        /// [`VERSION`] of the guest.
        version: u32,
    },
    /// It waits for an errand.
    Ready,
    /// It is alive.
    Heartbeat,
    /// How far the trial is.
    Progress {
        /// Stage of the trial, or phase of the workload.
        stage: String,
        /// Share of the workload that is done, 0 … 1.
        done: f64,
    },
    /// What the guest is.
    Environment(Box<Environment>),
    /// What the guest did while the workload ran; right before the record.
    Activity(Box<Activity>),
    /// The trial, whole but for what the machine did meanwhile.
    Record(Box<TrialRecord>),
    /// What a filesystem did when its disk went wrong.
    Reaction {
        /// A reaction, as the crate `durability` has it, in JSON.
        json: String,
    },
    /// The errand could not be done.
    Failed {
        /// What failed, on what, and what to try.
        error: String,
    },
}

/// What a trial in virtual time depends on, and what it came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualTime {
    /// XXH3 of the errand that the guest got, in hexadecimal digits: target, workload, settings and seed.
    pub errand_hash: String,
    /// XXH3 of all that the guest recorded, in hexadecimal digits: every time, histogram and count.
    pub record_hash: String,
    /// Guests that were made for it: of the first trial of a run 2, to see that they record the same; of the others
    /// 1, or as many as it took until two had recorded the same, where those of the first had not.
    #[serde(default)]
    pub guests: u32,
    /// Time of the trial in nanoseconds of virtual time.
    pub virtual_ns: u64,
    /// Time from the start of its guest to the end of the trial on the host's clock, in nanoseconds. No figure of the
    /// trial depends on it.
    pub wall_ns: u64,
}

/// A kernel of guests as the result keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestKernel {
    /// Its release, as `uname -r`.
    pub release: Option<String>,
    /// Its build, as `uname -v`.
    pub version: Option<String>,
    /// The image; of User-Mode Linux its program.
    pub image: String,
    /// XXH3 of the image, in hexadecimal digits.
    pub hash: String,
    /// XXH3 of the initial file system, in hexadecimal digits.
    pub initramfs_hash: String,
    /// Size of the initial file system in bytes.
    pub initramfs_bytes: u64,
    /// From the start of QEMU, or of User-Mode Linux, until a guest answered, at the start of the run, in nanoseconds.
    pub boot_ns: u64,
}

/// A saved state of a booted guest as the result keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SavedStateFacts {
    /// Labels of the targets whose trials started from it.
    pub targets: Vec<String>,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// XXH3 of it, in hexadecimal digits.
    pub hash: String,
    /// How long it took to boot the guest and save its state, in nanoseconds.
    pub made_ns: u64,
}

/// A guest as the result keeps it: what its figures depend on besides the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestFacts {
    /// Version of QEMU; null in User-Mode Linux.
    pub qemu_version: Option<String>,
    /// Flags of QEMU, without the paths of a trial.
    pub qemu_flags: Vec<String>,
    /// Saved states of booted guests that the trials started from, one for each set of modules and disks;
    /// empty where each trial's guest booted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub saved_states: Vec<SavedStateFacts>,
    /// Arguments of User-Mode Linux, without the names of a trial's disks; none with QEMU.
    #[serde(default)]
    pub uml_arguments: Vec<String>,
    /// The kernels, each once, in the order of the targets that have them.
    #[serde(default)]
    pub kernels: Vec<GuestKernel>,
    /// Facts of the host, which is not measured: its kernel, processors and memory.
    pub host: BTreeMap<String, String>,
}
