//! Devices put together: made anew for each trial of members that are fresh, taken apart before these
//! go. How each kind is made, and what the kernel says of it, is in a file of its own.
//!
//! Every array has a name that begins with that of its run, so that after a crash it can be told from
//! others' ([`crate::reclaim`]).

mod crypt;
mod facts;
mod left;
mod lvm;
mod mapper;
mod md;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_model::record::Warning;
use fsdyno_model::target::{ArrayKind, ArraySpec, DeviceSpec};
use fsdyno_sys::block::{self as sys_block, DeviceNumber};

use super::Device;
use crate::command::{self, CommandError, CommandSpec, Finished};
use crate::tools::{Package, ToolDef};
use crate::workspace::Workspace;

pub use facts::add_kernel_facts;
pub use left::take_apart;

/// How long one program may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long an array may be held by somebody who only looks at it, once nothing is on it any more.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// mdadm.
const MDADM: Package = Package { debian: "mdadm", fedora: "mdadm", arch: "mdadm" };
/// LVM.
const LVM2: Package = Package { debian: "lvm2", fedora: "lvm2", arch: "lvm2" };
/// The device mapper's own program.
const DMSETUP: Package =
    Package { debian: "dmsetup", fedora: "device-mapper", arch: "device-mapper" };

/// Makes and stops arrays of md.
pub const MDADM_TOOL: ToolDef = ToolDef { name: "mdadm", package: MDADM, version_arg: "--version" };
/// Makes and removes volumes.
pub const LVM_TOOL: ToolDef = ToolDef { name: "lvm", package: LVM2, version_arg: "version" };
/// Reads the tables of the device mapper, and removes what is left.
pub const DMSETUP_TOOL: ToolDef =
    ToolDef { name: "dmsetup", package: DMSETUP, version_arg: "version" };

/// Tools of all kinds, each once.
pub static TOOLS: [ToolDef; 3] = [MDADM_TOOL, LVM_TOOL, DMSETUP_TOOL];

/// One kind of array.
#[derive(Debug)]
pub struct ArrayDef {
    /// Its kind.
    pub kind: ArrayKind,
    /// Modules of the kernel that it needs, all of them.
    pub drivers: &'static [&'static str],
    /// Modules that make it faster or are part of it in some kernels.
    pub helpers: &'static [&'static str],
    /// Programs that make and read it.
    pub tools: &'static [ToolDef],
    /// Makes it and gives the path of the device.
    make: fn(&Wish<'_>) -> Result<PathBuf, String>,
    /// Takes it apart; a success where it is gone.
    stop: fn(&Wish<'_>, &Path) -> Result<(), String>,
}

/// What an array is made of.
struct Wish<'a> {
    spec: &'a ArraySpec,
    /// Unique on this machine while the run lives.
    name: &'a str,
    members: &'a [&'a Path],
}

/// Every kind.
static DEFS: [ArrayDef; 7] = [
    md::RAID0,
    md::RAID1,
    md::RAID10,
    lvm::STRIPE,
    lvm::MIRROR,
    crypt::DEF,
    // The filesystem does it.
    ArrayDef {
        kind: ArrayKind::Pool,
        drivers: &[],
        helpers: &[],
        tools: &[],
        make: |wish| {
            let first = wish.members.first().ok_or("a pool has no members")?;
            Ok((*first).to_owned())
        },
        stop: |_, _| Ok(()),
    },
];

/// The entry of a kind.
#[must_use]
pub fn definition(kind: ArrayKind) -> &'static ArrayDef {
    let found = DEFS.iter().find(|def| def.kind == kind);
    found.expect("every kind has its entry: a test walks them")
}

/// An array in a trial.
#[derive(Debug)]
pub struct ArrayDevice {
    spec: ArraySpec,
    name: String,
    members: Vec<Device>,
    path: PathBuf,
    number: DeviceNumber,
    /// Other devices that the filesystem gets: those of a pool.
    others: Vec<PathBuf>,
    is_stopped: bool,
}

impl ArrayDevice {
    /// Makes the members fresh, and the array of them. `name` begins the names of images and ends that of
    /// the array.
    ///
    /// # Errors
    /// A sentence; nothing is left behind then.
    pub fn create(
        workspace: &Workspace,
        spec: &ArraySpec,
        directory: &Path,
        name: &str,
        size_bytes: u64,
    ) -> Result<ArrayDevice, String> {
        let share = DeviceSpec::member_size(spec, size_bytes);
        let mut members: Vec<Device> = Vec::new();
        let mut made = Ok(PathBuf::new());
        for (index, member) in (1..).zip(&spec.members) {
            let name = format!("{name}{index}");
            match Device::provision(workspace, member, directory, &name, share, None) {
                Ok(device) => members.push(device),
                Err(error) => {
                    made = Err(error);
                    break;
                }
            }
        }
        let array_name = format!("{}{}", workspace.array_prefix(), short(name));
        if made.is_ok() {
            made = make(workspace, spec, &array_name, &mut members);
        }
        let number = made.and_then(|path| {
            let number = sys_block::device_number(&path).map_err(|error| error.to_string());
            number.map(|number| (path, number))
        });
        match number {
            Ok((path, number)) => {
                let others: Vec<PathBuf> = match spec.array {
                    ArrayKind::Pool => {
                        members.iter().skip(1).map(|it| it.path().to_owned()).collect()
                    }
                    _ => Vec::new(),
                };
                let (spec, is_stopped) = (spec.clone(), false);
                Ok(ArrayDevice {
                    spec,
                    name: array_name,
                    members,
                    path,
                    number,
                    others,
                    is_stopped,
                })
            }
            Err(error) => {
                for member in members.iter_mut().rev() {
                    let _ = member.release(workspace);
                }
                Err(error)
            }
        }
    }

    /// The path of the whole; of a pool that of its first member.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of the whole; of a pool that of its first member.
    #[must_use]
    pub fn number(&self) -> DeviceNumber {
        self.number
    }

    /// The devices that a filesystem gets besides that.
    #[must_use]
    pub fn others(&self) -> &[PathBuf] {
        &self.others
    }

    /// The numbers of all that a filesystem gets.
    #[must_use]
    pub fn numbers(&self) -> Vec<DeviceNumber> {
        let others = self.others.iter().filter_map(|path| sys_block::device_number(path).ok());
        std::iter::once(self.number).chain(others).collect()
    }

    /// As [`Device::formatted`], of every member.
    ///
    /// # Errors
    /// A sentence.
    pub fn formatted(&mut self, workspace: &Workspace) -> Result<(), String> {
        self.members.iter_mut().try_for_each(|member| member.formatted(workspace))
    }

    /// As [`Device::refill`], of every member.
    ///
    /// # Errors
    /// A sentence.
    pub fn refill(&self) -> Result<(), String> {
        self.members.iter().try_for_each(Device::refill)
    }

    /// Takes it apart and releases the members. Doing it again does nothing.
    ///
    /// # Errors
    /// A sentence that names what is left; the members are left with it then.
    pub fn release(&mut self, workspace: &Workspace) -> Result<(), String> {
        if !self.is_stopped {
            let paths: Vec<&Path> = self.members.iter().map(Device::path).collect();
            let wish = Wish { spec: &self.spec, name: &self.name, members: &paths };
            (definition(self.spec.array).stop)(&wish, &self.path)?;
            self.is_stopped = true;
        }
        let released = self.members.iter_mut().map(|member| member.release(workspace));
        let errors: Vec<String> = released.filter_map(Result::err).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// What of its members made the figures of a trial doubtful.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.members.iter().flat_map(Device::warnings).collect()
    }

    /// Adds what the kernel says of the whole, and of its members what tells them apart.
    pub fn add_facts(&self, facts: &mut BTreeMap<String, String>) {
        facts.insert("kind".to_owned(), "array".to_owned());
        facts.insert("array".to_owned(), self.spec.array.word().to_owned());
        facts.insert("array_members".to_owned(), self.members.len().to_string());
        add_kernel_facts(self.number, facts);
        let members: Vec<BTreeMap<String, String>> =
            self.members.iter().map(Device::facts).collect();
        facts::add_members(&members, facts);
        if self.spec.array == ArrayKind::Pool {
            let sizes = members.iter().filter_map(|it| it.get("size_bytes")?.parse::<u64>().ok());
            facts.insert("size_bytes".to_owned(), sizes.sum::<u64>().to_string());
        }
    }
}

/// Makes the array on its members, whose contents are recorded then. What was half made is taken apart.
fn make(
    workspace: &Workspace,
    spec: &ArraySpec,
    name: &str,
    members: &mut [Device],
) -> Result<PathBuf, String> {
    let definition = definition(spec.array);
    let made = {
        let paths: Vec<&Path> = members.iter().map(Device::path).collect();
        let wish = Wish { spec, name, members: &paths };
        let made = (definition.make)(&wish);
        if made.is_err() {
            let _ = (definition.stop)(&wish, Path::new(""));
        }
        made
    };
    let path = made?;
    // What lies on a device of the user's now is ours, and is known as such after a crash.
    for member in members.iter_mut() {
        member.formatted(workspace)?;
    }
    Ok(path)
}

/// `d12` of `device12`: names of arrays have little room.
fn short(name: &str) -> String {
    let number = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    format!("{}{number}", name.chars().next().unwrap_or('d'))
}

/// Runs a program that must succeed.
fn run(spec: &CommandSpec) -> Result<Finished, String> {
    command::run_checked(spec, LIMIT).map_err(|error| error.to_string())
}

/// Runs a program until it succeeds, for some seconds: who only looks at a device holds it for a moment
/// too. An interruption of the run does not keep it from taking down what it made.
fn insist(spec: &CommandSpec) -> Result<(), String> {
    let end = Instant::now() + STOP_PATIENCE;
    loop {
        match command::take_down(spec, LIMIT) {
            Ok(()) => return Ok(()),
            Err(CommandError::Failed { .. }) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_entry() {
        for kind in ArrayKind::ALL {
            let found = definition(kind);
            assert_eq!(found.drivers.is_empty(), found.tools.is_empty(), "{kind:?}");
            assert!(found.tools.iter().all(|tool| TOOLS.contains(tool)), "{kind:?}");
        }
        assert_eq!((short("device"), short("journal12")), ("d".to_owned(), "j12".to_owned()));
    }
}
