//! The kernels of a run's guests: which of them each target has, and the initial file system of each, made
//! of what the targets that have it need.

use std::collections::BTreeSet;
use std::path::Path;

use fsdyno_guest::front::Front;
use fsdyno_guest::initramfs::{self, Contents};
use fsdyno_guest::kernel::{self, Kernel};
use fsdyno_guest::modules::{Module, Modules};
use fsdyno_guest::virtual_time;
use fsdyno_lab::device::array::{self, ArrayDef};
use fsdyno_lab::filesystem::{self, FilesystemDef};
use fsdyno_model::kernel::KernelChoice;
use fsdyno_model::plan::Plan;
use fsdyno_model::target::{DeviceSpec, FreshSpec, Ground, TargetSpec};

use super::input;

/// Drivers that every guest needs: its port is behind them.
const PORT_DRIVERS: [&str; 2] = ["virtio_pci", "virtio_console"];
/// Drivers of the disks of a guest in real time.
const DISK_DRIVERS: [&str; 1] = ["virtio_blk"];
/// Driver of a disk that is served in a guest.
const SERVED_DISK_DRIVER: &str = "nbd";

/// The drivers without which a guest for `plan` has no port or no disk.
fn boot_drivers(plan: &Plan) -> impl Iterator<Item = &'static str> {
    let (of_port, of_disks) = if plan.place.is_uml() {
        // Its own drivers are always in it.
        (&[][..], &[][..])
    } else if plan.place.is_virtual() {
        (&PORT_DRIVERS[..], &virtual_time::DRIVERS[..])
    } else {
        (&PORT_DRIVERS[..], &DISK_DRIVERS[..])
    };
    of_port.iter().chain(of_disks).copied()
}

/// A kernel with what is known of its modules.
pub(super) struct KernelParts {
    pub kernel: Kernel,
    pub modules: Modules,
}

/// The kernels of a plan.
pub struct Kernels {
    /// Each once, in the order of the targets.
    pub(super) all: Vec<KernelParts>,
    /// What was asked for, with its place among them.
    chosen: Vec<(Option<KernelChoice>, usize)>,
}

impl Kernels {
    /// Finds the kernel of every target, unpacking packages into `unpacked`.
    ///
    /// # Errors
    /// There is no such kernel, or it cannot be a guest's.
    pub fn of(plan: &Plan, front: &Front, unpacked: &Path) -> Result<Kernels, String> {
        let mut found = Kernels { all: Vec::new(), chosen: Vec::new() };
        for target in &plan.targets {
            let choice = choice(target, plan);
            if found.chosen.iter().any(|(known, _)| *known == choice) {
                continue;
            }
            let kernel = match front {
                Front::Qemu(_) => kernel::choose(choice.as_ref(), unpacked)?,
                Front::Uml(uml) => uml.kernel(),
            };
            let known = found.all.iter().position(|known| known.kernel == kernel);
            let index = match known {
                Some(index) => index,
                None => {
                    found.all.push(KernelParts::of(kernel, plan)?);
                    found.all.len() - 1
                }
            };
            found.chosen.push((choice, index));
        }
        Ok(found)
    }

    /// Index of the kernel of a target.
    pub(super) fn index_of(&self, target: &TargetSpec, plan: &Plan) -> usize {
        let choice = choice(target, plan);
        let known = self.chosen.iter().find(|(known, _)| *known == choice);
        known.map_or(0, |(_, index)| *index)
    }

    /// The kernel of a target.
    pub(super) fn of_target(&self, target: &TargetSpec, plan: &Plan) -> &KernelParts {
        &self.all[self.index_of(target, plan)]
    }
}

/// The kernel that is asked for, for a target.
fn choice(target: &TargetSpec, plan: &Plan) -> Option<KernelChoice> {
    target.kernel().or(plan.place.kernel.as_ref()).cloned()
}

impl KernelParts {
    fn of(kernel: Kernel, plan: &Plan) -> Result<KernelParts, String> {
        let modules = Modules::of(&kernel.modules)?;
        for driver in boot_drivers(plan) {
            modules.of_driver(&[driver]).map_err(|error| {
                format!("the kernel {} cannot be a guest's: {error}", kernel.release)
            })?;
        }
        Ok(KernelParts { kernel, modules })
    }

    /// The modules that a target of `plan` needs, in order.
    ///
    /// # Errors
    /// The kernel does not have one.
    pub fn of_target(
        &self,
        definition: &FilesystemDef,
        fresh: &FreshSpec,
        plan: &Plan,
    ) -> Result<Vec<Module>, String> {
        let mut modules = self.modules.of_driver(definition.drivers)?;
        if input::disk_bytes(plan).is_some() {
            modules.extend(self.modules.of_driver(input::filesystem().drivers)?);
        }
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

    /// The initial file system for `targets`, and the modules that each of them loads, those of the drivers
    /// `helpers` among them.
    ///
    /// # Errors
    /// The kernel does not have a helper; a file cannot be read.
    pub fn initramfs(
        &self,
        targets: &[&TargetSpec],
        plan: &Plan,
        helpers: &[&str],
    ) -> Result<(Vec<u8>, Vec<Vec<String>>), String> {
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
        for target in targets {
            let known = definition_of(target);
            let modules = known.map(|(definition, fresh)| self.of_target(definition, fresh, plan));
            let mut modules = modules.and_then(Result::ok).unwrap_or_default();
            for helper in helpers {
                modules.extend(self.modules.of_driver(&[helper])?);
            }
            of_targets.push(modules.iter().map(initramfs::module_path).collect());
            contents.modules.extend(modules);
            let mut names = known.map_or(Vec::new(), |(definition, _)| definition.tools.to_vec());
            names.extend(arrays_of(target).iter().flat_map(|array| array.tools));
            names.extend(input::disk_bytes(plan).and_then(|_| input::filesystem().tools.first()));
            tools.extend(names.iter().filter_map(|tool| fsdyno_lab::tools::find(tool.name)));
        }
        contents.tools = tools.into_iter().collect();
        Ok((initramfs::build(&contents)?, of_targets))
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
