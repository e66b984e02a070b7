//! Trials in guests: what is chosen and made once for a run, and whether it works. One trial is in
//! `trial`, what keeps a target out of a guest in `readiness`.

pub mod readiness;
mod trial;
mod virtual_time;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_guest::initramfs::{self, Contents};
use fsdyno_guest::kernel::{self, Bootable, Kernel};
use fsdyno_guest::machine::{Event, Machine};
use fsdyno_guest::modules::{Module, Modules};
use fsdyno_guest::qemu::{self, Qemu, Spec};
use fsdyno_guest::{accelerator, hash, virtual_time as of_virtual_time};
use fsdyno_lab::device::array::{self, ArrayDef};
use fsdyno_lab::filesystem::{self, FilesystemDef};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::environment::Environment;
use fsdyno_model::guest::{self, GuestFacts, Message, Task};
use fsdyno_model::place::{Accelerator, Measured, Where};
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};
use fsdyno_sys::process;

use super::progress;
use crate::{bad_input, paths};

/// Drivers that every guest needs: its port is behind them.
const PORT_DRIVERS: [&str; 2] = ["virtio_pci", "virtio_console"];
/// Drivers of the disks of a guest in real time.
const DISK_DRIVERS: [&str; 1] = ["virtio_blk"];
/// Driver of a disk that is served in a guest.
const SERVED_DISK_DRIVER: &str = "nbd";
/// How long a guest may take to answer at first: emulated on a busy machine, and accelerated.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);
const KVM_PATIENCE: Duration = Duration::from_secs(20);
/// Longest time that passes without a word.
const SILENT: Duration = Duration::from_secs(2);
/// How often an interruption is looked for.
const TICK: Duration = Duration::from_millis(50);

/// What a run's guests are made of, looked at before anything is made.
pub struct Parts {
    qemu: Qemu,
    kernel: Kernel,
    modules: Modules,
    cache: Option<PathBuf>,
}

/// What the guests of a run share.
pub struct Guests {
    qemu: Qemu,
    /// Without disks.
    spec: Spec,
    measured: Measured,
    quiet: bool,
    /// Modules of the kernel for each target, by their paths in the guest.
    modules: Vec<Vec<String>>,
    /// What the guests are, as one of them told.
    pub environment: Environment,
}

/// Finds QEMU, a kernel and its modules.
///
/// # Errors
/// Bad input: what is missing, and what to install.
pub fn parts(plan: &Plan) -> anyhow::Result<Parts> {
    let failed = |error: String| bad_input(format!("no guest can be run: {error}"));
    let qemu = qemu::find().map_err(failed)?;
    let cache = paths::guest_directory();
    let unpacked = cache.clone().unwrap_or_else(|| super::image_directory(plan));
    let kernel = kernel::choose(plan.place.kernel.as_deref(), &unpacked).map_err(failed)?;
    let modules = Modules::of(&kernel.modules).map_err(failed)?;
    for driver in boot_drivers(plan) {
        modules.of_driver(&[driver]).map_err(|error| {
            let release = &kernel.release;
            failed(format!("the kernel {release} cannot be a guest's: {error}"))
        })?;
    }
    Ok(Parts { qemu, kernel, modules, cache })
}

/// The drivers without which a guest for `plan` has no port or no disk.
fn boot_drivers(plan: &Plan) -> impl Iterator<Item = &'static str> {
    let is_virtual = plan.place.is_virtual();
    let of_disks = if is_virtual { &of_virtual_time::DRIVERS[..] } else { &DISK_DRIVERS };
    PORT_DRIVERS.iter().chain(of_disks).copied()
}

impl Parts {
    /// Release of the kernel.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.kernel.release
    }

    /// The modules that a target needs, in order.
    ///
    /// # Errors
    /// The kernel does not have one.
    fn of_target(
        &self,
        definition: &FilesystemDef,
        fresh: &FreshSpec,
    ) -> Result<Vec<Module>, String> {
        let mut modules = self.modules.of_driver(definition.drivers)?;
        if fresh.leaves().any(|device| matches!(device, DeviceSpec::Emulated { .. })) {
            modules.extend(self.modules.of_driver(&[SERVED_DISK_DRIVER])?);
        }
        for spec in fresh.devices().flat_map(DeviceSpec::arrays) {
            modules.extend(self.of_array(array::definition(spec.array))?);
        }
        Ok(modules)
    }

    /// The modules that a kind of array needs, in order, and those that help it as far as there are such.
    ///
    /// # Errors
    /// The kernel does not have it.
    fn of_array(&self, definition: &ArrayDef) -> Result<Vec<Module>, String> {
        let mut modules = Vec::new();
        for helper in definition.helpers {
            modules.extend(self.modules.of_driver(&[helper]).unwrap_or_default());
        }
        for driver in definition.drivers {
            modules.extend(self.modules.of_driver(&[driver])?);
        }
        Ok(modules)
    }

    /// Makes what all guests share and boots one to see that it works and what it is.
    ///
    /// # Errors
    /// A file cannot be made; no guest answers.
    pub fn prepare(
        self,
        plan: &Plan,
        workspace: &Workspace,
        quiet: bool,
    ) -> anyhow::Result<Guests> {
        let failed = |error: String| anyhow::anyhow!("no guest can be run: {error}");
        let cache = self.cache.clone().unwrap_or_else(|| workspace.directory().to_owned());
        let bootable = self.kernel.bootable(&cache).map_err(failed)?;
        let (archive, modules) = self.initramfs(plan).map_err(failed)?;
        let path = workspace.directory().join("initramfs");
        fs::write(&path, &archive)
            .map_err(|error| failed(format!("write {}: {error}", path.display())))?;
        let mut guests = Guests {
            spec: Spec {
                kernel: bootable.path.clone(),
                initramfs: path,
                accelerator: Accelerator::Tcg,
                memory_bytes: plan.place.memory_bytes,
                shift: plan.place.virtual_shift(),
                disks: Vec::new(),
            },
            qemu: self.qemu.clone(),
            measured: Measured::default(),
            quiet,
            modules,
            environment: Environment::default(),
        };
        let identity = format!("{} {}", bootable.hash, guests.qemu.version);
        let boot_ns = guests.find_accelerator(plan, &cache, &identity, workspace.directory())?;
        let facts = self.facts(&guests, &bootable, &archive, boot_ns);
        let environment = &mut guests.environment;
        // By its host's name a run is known, and its host's boot is what a reboot ends; what is measured is
        // the guest.
        environment.hostname = Some(fsdyno_sys::kernel::facts().hostname);
        environment.boot_ids = fsdyno_sys::kernel::boot_id().into_iter().collect();
        environment.measured = guests.measured;
        environment.guest = Some(facts);
        Ok(guests)
    }

    /// The initial file system for all targets of `plan`, and the modules that each of them loads.
    fn initramfs(&self, plan: &Plan) -> Result<(Vec<u8>, Vec<Vec<String>>), String> {
        let program = std::env::current_exe()
            .map_err(|error| format!("cannot tell where this program lies: {error}"))?;
        let mut contents = Contents { program, ..Contents::default() };
        for driver in boot_drivers(plan) {
            for module in self.modules.of_driver(&[driver])? {
                if !contents.boot_modules.contains(&module) {
                    contents.boot_modules.push(module);
                }
            }
        }
        let mut tools = BTreeSet::new();
        let mut of_targets = Vec::new();
        for target in &plan.targets {
            let known = definition_of(target);
            let modules = known.map(|(definition, fresh)| self.of_target(definition, fresh));
            let modules = modules.and_then(Result::ok).unwrap_or_default();
            of_targets.push(modules.iter().map(initramfs::module_path).collect());
            contents.modules.extend(modules);
            let mut names = known.map_or(Vec::new(), |(definition, _)| definition.tools.to_vec());
            names.extend(arrays_of(target).iter().flat_map(|array| array.tools));
            tools.extend(names.iter().filter_map(|tool| fsdyno_lab::tools::find(tool.name)));
        }
        contents.tools = tools.into_iter().collect();
        Ok((initramfs::build(&contents)?, of_targets))
    }

    fn facts(
        &self,
        guests: &Guests,
        kernel: &Bootable,
        archive: &[u8],
        boot_ns: u64,
    ) -> GuestFacts {
        let host = fsdyno_sys::kernel::facts();
        let mut facts = BTreeMap::from([("kernel_release".to_owned(), host.release)]);
        facts.insert("cpu_count".to_owned(), fsdyno_sys::kernel::cpu_count().to_string());
        if let Some(model) = fsdyno_sys::kernel::cpu_model() {
            facts.insert("cpu_model".to_owned(), model);
        }
        if let Some(bytes) = fsdyno_sys::kernel::memory_bytes() {
            facts.insert("memory_bytes".to_owned(), bytes.to_string());
        }
        GuestFacts {
            qemu_version: guests.qemu.version.clone(),
            qemu_flags: guests.spec.flags(),
            kernel_image: self.kernel.image.display().to_string(),
            kernel_hash: kernel.hash.clone(),
            initramfs_hash: hash(archive),
            initramfs_bytes: archive.len() as u64,
            boot_ns,
            host: facts,
        }
    }
}

/// The filesystem of a target, and what is asked of it; `None` for a directory.
fn definition_of(target: &TargetSpec) -> Option<(&'static FilesystemDef, &FreshSpec)> {
    match &target.ground {
        Ground::Fresh(fresh) => Some((filesystem::by_name(&fresh.filesystem)?, fresh)),
        Ground::Directory { .. } => None,
    }
}

/// The kinds of arrays under a target.
fn arrays_of(target: &TargetSpec) -> Vec<&'static ArrayDef> {
    let Ground::Fresh(fresh) = &target.ground else { return Vec::new() };
    let arrays = fresh.devices().flat_map(DeviceSpec::arrays);
    arrays.map(|spec| array::definition(spec.array)).collect()
}

impl Guests {
    /// `Linux 6.1.0-18-amd64 under QEMU 7.2.22 (tcg), ready after 1.4 s`, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let release = self.environment.kernel_release.as_deref().unwrap_or("of some release");
        let accelerator = self.spec.accelerator.word();
        let boot_ns = self.environment.guest.as_ref().map_or(0, |facts| facts.boot_ns);
        format!(
            "guests: Linux {release} under QEMU {} ({accelerator}{}), ready after {:.1} s",
            self.qemu.version,
            if self.spec.shift.is_some() { ", virtual time" } else { "" },
            boot_ns as f64 / 1e9
        )
    }

    /// Tries accelerators until a guest answers; gives how long that took, in nanoseconds.
    fn find_accelerator(
        &mut self,
        plan: &Plan,
        cache: &Path,
        identity: &str,
        directory: &Path,
    ) -> anyhow::Result<u64> {
        // Only what is emulated can be counted.
        let wanted = plan.place.accelerator.or(plan.place.is_virtual().then_some(Accelerator::Tcg));
        let candidates = accelerator::candidates(wanted, cache, identity);
        let last = candidates.len() - 1;
        for (index, candidate) in candidates.into_iter().enumerate() {
            self.spec.accelerator = candidate;
            let patience = match candidate {
                Accelerator::Kvm => KVM_PATIENCE,
                Accelerator::Tcg => BOOT_PATIENCE,
            };
            let begun = Instant::now();
            match self.describe(directory, patience) {
                Ok(environment) => {
                    self.environment = environment;
                    let (place, accelerator) = (Where::Guest, Some(candidate));
                    let (clock, shift) = (plan.place.clock, plan.place.virtual_shift());
                    self.measured = Measured { place, accelerator, clock, shift };
                    return Ok(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
                }
                Err(error) if index < last && !process::interrupted() => {
                    accelerator::remember_failure(cache, identity, &error);
                    progress::say(&format!(
                        "guests are emulated: {} does not work here: {error}",
                        candidate.word()
                    ));
                }
                Err(error) => anyhow::bail!("no guest can be run: {error}"),
            }
        }
        anyhow::bail!("no guest can be run: there is no accelerator")
    }

    /// Boots a guest that only tells what it is.
    fn describe(&self, directory: &Path, patience: Duration) -> Result<Environment, String> {
        let mut machine =
            Machine::start(&self.qemu, &self.spec, directory, Vec::new(), Task::Describe)?;
        let begun = Instant::now();
        let mut is_told = self.quiet;
        loop {
            if !is_told && begun.elapsed() > SILENT {
                let accelerator = self.spec.accelerator.word();
                progress::say(&format!("waiting for the first guest ({accelerator})"));
                is_told = true;
            }
            match machine.next(TICK) {
                Event::Said(Message::Environment(environment)) => {
                    machine.finish();
                    return Ok(*environment);
                }
                Event::Said(Message::Hello { version, .. }) if version != guest::VERSION => {
                    return Err("the guest speaks another version".to_owned());
                }
                Event::Said(Message::Failed { error }) | Event::Garbled(error) => {
                    return Err(error);
                }
                Event::Closed => return Err(machine.death()),
                Event::Said(_) | Event::Nothing => {}
            }
            if process::interrupted() {
                return Err("interrupted".to_owned());
            }
            if begun.elapsed() > patience {
                let limit = patience.as_secs();
                return Err(format!("the guest did not answer within {limit} s"));
            }
        }
    }
}
