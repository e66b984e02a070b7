//! The bench under the workload: devices, filesystems, the life of a trial around its phases, and the
//! facts read back. What runs on a filesystem is left to others; nothing here knows a workload.
//!
//! | module | holds |
//! |---|---|
//! | [`filesystem`] | the catalogue: one file for each filesystem |
//! | [`device`] | loop images and block devices, made fresh for each trial |
//! | [`disk_probe`] | a disk that is there, asked directly |
//! | [`emulator`] | emulated disks: a server of its own and a loop device on what it serves |
//! | [`stand`] | one trial's life: provision, mkfs, mount, quiesce, unmount, fsck, teardown |
//! | [`snapshot`] | images of aged filesystems that are kept |
//! | [`quiesce`] | waiting until filesystem and device are at rest |
//! | [`workspace`] | everything that a run makes lies in one marked, recorded place |
//! | [`reclaim`] | removing what a killed run left |
//! | [`guard`] | which devices are refused |
//! | [`arguments`] | which words of the user's for mkfs and mount are refused |
//! | [`readiness`] | whether a target can be measured here, asked before anything starts |
//! | [`command`] | external programs: bounded in time and output, dying with us |
//! | [`tools`] | where programs are, their versions, which package brings them |
//! | [`environment`] | the machine, for the record |
//! | [`disturbance`] | what bent the figures of a trial from outside |
//! | [`kernel_log`] | what the kernel said meanwhile |
//! | [`aftermath`] | what lies behind the failure of a trial |
//! | [`doctor`] | what this machine can do, and what mends each gap |
//! | [`devices`] | the block devices, and whether they would be accepted |
#![forbid(unsafe_code)]

pub mod aftermath;
pub mod arguments;
pub mod command;
pub mod device;
pub mod devices;
pub mod disk_probe;
pub mod disturbance;
pub mod doctor;
pub mod emulator;
pub mod environment;
pub mod filesystem;
pub mod guard;
pub mod kernel_log;
pub mod memory_limit;
pub mod quiesce;
pub mod readiness;
pub mod reclaim;
pub mod snapshot;
pub mod stand;
pub mod tools;
pub mod workspace;
