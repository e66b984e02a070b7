//! Trials in guests: what is chosen and made once for a run, and whether it works. One trial is in
//! `trial`, what it starts from in `states`, what keeps a target out of a guest in `readiness`, which kernel
//! each target has in `kernels`, and what its workload reads in `input`.

mod faults;
pub mod input;
mod kernels;
pub mod readiness;
mod states;
mod stopped;
mod trial;
mod virtual_time;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fsdyno_guest::front::Front;
use fsdyno_guest::machine::{Event, Machine};
use fsdyno_guest::qemu::{self, Spec};
use fsdyno_guest::{accelerator, hash, uml};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::environment::Environment;
use fsdyno_model::guest::{self, GuestFacts, GuestKernel, Message, Task};
use fsdyno_model::place::{Accelerator, Clock, Measured, Where};
use fsdyno_model::plan::Plan;
use fsdyno_model::record::{TrialRecord, Warning};
use fsdyno_model::target::TargetSpec;
use fsdyno_sys::process;

use self::kernels::{KernelParts, Kernels};
use self::states::States;
use self::stopped::Stopped;
use super::progress;
use crate::{bad_input, paths};

/// How long a guest may take to answer at first: emulated on a busy machine, and accelerated.
const BOOT_PATIENCE: Duration = Duration::from_secs(120);
const KVM_PATIENCE: Duration = Duration::from_secs(20);
/// Longest time that passes without a word.
const SILENT: Duration = Duration::from_secs(2);
/// How often an interruption is looked for.
const TICK: Duration = Duration::from_millis(50);

/// What a run's guests are made of, looked at before anything is made.
pub struct Parts {
    front: Front,
    kernels: Kernels,
    cache: Option<PathBuf>,
    /// Drivers that all targets need besides their own.
    helpers: &'static [&'static str],
}

/// What the guests of a run share.
pub struct Guests {
    front: Front,
    /// One for each kernel, without disks.
    specs: Vec<Spec>,
    measured: Measured,
    quiet: bool,
    /// For each target the index of its kernel.
    kernel_of: Vec<usize>,
    /// Modules of the kernel for each target, by their paths in the guest.
    modules: Vec<Vec<String>>,
    /// Releases of the kernels, as guests with them told.
    releases: Vec<String>,
    states: States,
    /// The same in virtual time.
    stopped: Stopped,
    /// Whether guests in virtual time record the same here, once two have been made for one trial.
    are_exact: OnceLock<bool>,
    /// Whether these two are being made.
    is_checking: AtomicBool,
    /// How many trials are made at a time.
    pub jobs: usize,
    /// What the guests are, as they told.
    pub environment: Environment,
    /// What the run has to tell of them.
    pub warning: Option<Warning>,
}

/// What shows that the record of a guest in virtual time is right.
pub enum Proof<'a> {
    /// The record of another run, which is the same.
    Record(&'a TrialRecord),
    /// That of a second guest beside it.
    SecondGuest(Check<'a>),
    /// That two guests have recorded the same of another trial of the run.
    AnotherTrial,
}

/// Lasts as long as two guests are made at once to see whether they record the same here.
pub struct Check<'a>(&'a AtomicBool);

impl Drop for Check<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Finds QEMU or User-Mode Linux, the kernels and their modules.
///
/// # Errors
/// Bad input: what is missing, and what to install.
pub fn parts(plan: &Plan) -> anyhow::Result<Parts> {
    let failed = |error: String| bad_input(format!("no guest can be run: {error}"));
    let front = if plan.place.is_uml() {
        uml::find().map(Front::Uml).map_err(failed)?
    } else {
        qemu::find().map(Front::Qemu).map_err(failed)?
    };
    let cache = paths::guest_directory();
    let unpacked = cache.clone().unwrap_or_else(|| super::image_directory(plan));
    let kernels = Kernels::of(plan, &front, &unpacked).map_err(failed)?;
    Ok(Parts { front, kernels, cache, helpers: &[] })
}

/// The same for guests whose disks go wrong: those that serve such disks to themselves.
///
/// # Errors
/// As [`parts`].
pub fn parts_for_faults(plan: &Plan) -> anyhow::Result<Parts> {
    Ok(Parts { helpers: &["fuse", "loop"], ..parts(plan)? })
}

impl Parts {
    /// Makes what all guests share and boots one of each kernel to see that it works and what it is.
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
        let mut guests = Guests {
            specs: Vec::new(),
            front: self.front.clone(),
            measured: Measured::default(),
            quiet,
            kernel_of: plan.targets.iter().map(|it| self.kernels.index_of(it, plan)).collect(),
            modules: vec![Vec::new(); plan.targets.len()],
            releases: Vec::new(),
            states: States::default(),
            stopped: Stopped::default(),
            are_exact: OnceLock::new(),
            is_checking: AtomicBool::new(false),
            jobs: 1,
            environment: Environment::default(),
            warning: None,
        };
        let mut kernels = Vec::new();
        for (index, parts) in self.kernels.all.iter().enumerate() {
            let bootable = match &self.front {
                Front::Qemu(_) => parts.kernel.bootable(&cache).map_err(failed)?,
                Front::Uml(uml) => uml.bootable().map_err(failed)?,
            };
            let archive = guests
                .make_initramfs((index, parts), self.helpers, plan, workspace)
                .map_err(failed)?;
            let path = initramfs_path(workspace, index);
            guests.specs.push(Spec {
                kernel: bootable.path.clone(),
                initramfs: path,
                accelerator: guests.measured.accelerator.unwrap_or(Accelerator::Tcg),
                memory_bytes: plan.place.memory_bytes + initramfs_memory_bytes(&archive),
                shift: plan.place.virtual_shift(),
                disks: Vec::new(),
            });
            let identity = format!("{} {}", bootable.hash, guests.front_version());
            let directory = workspace.directory();
            let (environment, boot_ns) = match &self.front {
                Front::Qemu(_) => guests.find_accelerator(plan, &cache, &identity, directory)?,
                Front::Uml(_) => guests.first_of_uml(directory).map_err(failed)?,
            };
            guests.releases.push(environment.kernel_release.clone().unwrap_or_default());
            kernels.push(GuestKernel {
                release: environment.kernel_release.clone(),
                version: environment.kernel_version.clone(),
                image: parts.kernel.image.display().to_string(),
                hash: bootable.hash,
                initramfs_hash: hash(&archive),
                initramfs_bytes: archive.len() as u64,
                boot_ns,
            });
            guests.take_in(environment);
        }
        let facts = guests.facts(kernels);
        let environment = &mut guests.environment;
        // By its host's name a run is known, and its host's boot is what a reboot ends; what is measured is
        // the guest.
        environment.hostname = Some(fsdyno_sys::kernel::facts().hostname);
        environment.boot_ids = fsdyno_sys::kernel::boot_id().into_iter().collect();
        environment.measured = guests.measured;
        environment.guest = Some(facts);
        Ok(guests)
    }
}

/// Memory in which the initial file system lies, whole MiB in bytes: a guest has it besides, so that as much is left to
/// its trial whatever the programs of the filesystems take.
fn initramfs_memory_bytes(archive: &[u8]) -> u64 {
    (archive.len() as u64).next_multiple_of(1 << 20)
}

/// Where the initial file system of a kernel lies.
fn initramfs_path(workspace: &Workspace, kernel: usize) -> PathBuf {
    workspace.directory().join(format!("initramfs-{kernel}"))
}

impl Guests {
    /// Makes the initial file system of a kernel, for the targets that have it.
    fn make_initramfs(
        &mut self,
        (kernel, parts): (usize, &KernelParts),
        helpers: &[&str],
        plan: &Plan,
        workspace: &Workspace,
    ) -> Result<Vec<u8>, String> {
        let indexes: Vec<usize> =
            (0..plan.targets.len()).filter(|target| self.kernel_of[*target] == kernel).collect();
        let targets: Vec<&TargetSpec> = indexes.iter().map(|index| &plan.targets[*index]).collect();
        let (archive, modules) = parts.initramfs(&targets, plan, helpers)?;
        for (index, modules) in indexes.into_iter().zip(modules) {
            self.modules[index] = modules;
        }
        let path = initramfs_path(workspace, kernel);
        fs::write(&path, &archive).map_err(|error| format!("write {}: {error}", path.display()))?;
        Ok(archive)
    }

    /// Adds what a guest of one more kernel told: all but the kernel is the same.
    fn take_in(&mut self, told: Environment) {
        if self.specs.len() == 1 {
            self.environment = told;
            return;
        }
        for (all, own) in [
            (&mut self.environment.kernel_release, told.kernel_release),
            (&mut self.environment.kernel_version, told.kernel_version),
        ] {
            if let (Some(all), Some(own)) = (all, own) {
                all.push_str(&format!(", {own}"));
            }
        }
    }

    /// The guest of a target, without disks.
    fn spec_of(&self, target_index: usize) -> &Spec {
        &self.specs[self.kernel_of[target_index]]
    }

    /// Whether the next trial has to show if guests in virtual time record the same here.
    pub fn needs_check(&self) -> bool {
        self.jobs > 1 && self.are_exact.get().is_none() && !self.is_checking.load(Ordering::Acquire)
    }

    /// What shows that the next trial's record is right: where that is not known, it is the one that shows it.
    pub fn proof(&self) -> Proof<'_> {
        if self.needs_check() && !self.is_checking.swap(true, Ordering::AcqRel) {
            Proof::SecondGuest(Check(&self.is_checking))
        } else {
            Proof::AnotherTrial
        }
    }

    /// Release of a target's kernel.
    fn release_of(&self, target_index: usize) -> &str {
        &self.releases[self.kernel_of[target_index]]
    }

    fn facts(&self, kernels: Vec<GuestKernel>) -> GuestFacts {
        let host = fsdyno_sys::kernel::facts();
        let mut facts = BTreeMap::from([("kernel_release".to_owned(), host.release)]);
        facts.insert("cpu_count".to_owned(), fsdyno_sys::kernel::cpu_count().to_string());
        if let Some(model) = fsdyno_sys::kernel::cpu_model() {
            facts.insert("cpu_model".to_owned(), model);
        }
        if let Some(bytes) = fsdyno_sys::kernel::memory_bytes() {
            facts.insert("memory_bytes".to_owned(), bytes.to_string());
        }
        let spec = self.specs.first();
        match &self.front {
            Front::Qemu(qemu) => GuestFacts {
                qemu_version: Some(qemu.version.clone()),
                qemu_flags: spec.map(Spec::flags).unwrap_or_default(),
                uml_arguments: Vec::new(),
                saved_states: Vec::new(),
                kernels,
                host: facts,
            },
            Front::Uml(uml) => {
                facts.insert("pinned_to_cpu".to_owned(), uml.cpu.to_string());
                GuestFacts {
                    qemu_version: None,
                    qemu_flags: Vec::new(),
                    uml_arguments: spec
                        .map(|spec| uml.arguments(spec.memory_bytes))
                        .unwrap_or_default(),
                    saved_states: Vec::new(),
                    kernels,
                    host: facts,
                }
            }
        }
    }

    /// Version of QEMU; User-Mode Linux is its kernel.
    fn front_version(&self) -> &str {
        match &self.front {
            Front::Qemu(qemu) => &qemu.version,
            Front::Uml(uml) => &uml.release,
        }
    }

    /// `guests: Linux 6.1.0-18-amd64 under QEMU 7.2.22 (tcg), ready after 1.4 s`, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let release = self.environment.kernel_release.as_deref().unwrap_or("of some release");
        let accelerator = self.measured.accelerator.unwrap_or(Accelerator::Tcg).word();
        let kernels = self.environment.guest.iter().flat_map(|facts| &facts.kernels);
        let boot_ns = kernels.map(|kernel| kernel.boot_ns).max().unwrap_or(0);
        let at_a_time = match self.jobs {
            1 => String::new(),
            jobs => format!(", {jobs} trials at a time"),
        };
        let ready = format!("ready after {:.1} s{at_a_time}", boot_ns as f64 / 1e9);
        match &self.front {
            Front::Qemu(qemu) => format!(
                "guests: Linux {release} under QEMU {} ({accelerator}{}), {ready}",
                qemu.version,
                if self.measured.clock == Clock::Virtual { ", virtual time" } else { "" },
            ),
            Front::Uml(uml) => {
                format!("guests: User-Mode Linux {release} on processor {}, {ready}", uml.cpu)
            }
        }
    }

    /// Starts a first guest of User-Mode Linux; gives what it is and how long that took, in nanoseconds.
    fn first_of_uml(&mut self, directory: &Path) -> Result<(Environment, u64), String> {
        let begun = Instant::now();
        let environment = self.describe(directory, BOOT_PATIENCE)?;
        self.measured = Measured { place: Where::Uml, ..Measured::default() };
        Ok((environment, u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Tries accelerators until a guest of the last kernel answers; gives what it is and how long that took,
    /// in nanoseconds. Once one works, all kernels have it.
    fn find_accelerator(
        &mut self,
        plan: &Plan,
        cache: &Path,
        identity: &str,
        directory: &Path,
    ) -> anyhow::Result<(Environment, u64)> {
        // Only what is emulated can be counted.
        let counted = plan.place.is_virtual().then_some(Accelerator::Tcg);
        let wanted = self.measured.accelerator.or(plan.place.accelerator).or(counted);
        let candidates = accelerator::candidates(wanted, cache, identity);
        let last = candidates.len() - 1;
        for (index, candidate) in candidates.into_iter().enumerate() {
            if let Some(spec) = self.specs.last_mut() {
                spec.accelerator = candidate;
            }
            let patience = match candidate {
                Accelerator::Kvm => KVM_PATIENCE,
                Accelerator::Tcg => BOOT_PATIENCE,
            };
            let begun = Instant::now();
            match self.describe(directory, patience) {
                Ok(environment) => {
                    let (place, accelerator) = (Where::Guest, Some(candidate));
                    let (clock, shift) = (plan.place.clock, plan.place.virtual_shift());
                    self.measured = Measured { place, accelerator, clock, shift };
                    let boot_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                    return Ok((environment, boot_ns));
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

    /// Boots a guest of the last kernel that only tells what it is.
    fn describe(&self, directory: &Path, patience: Duration) -> Result<Environment, String> {
        let spec = self.specs.last().ok_or("there is no kernel")?;
        let mut machine = Machine::start(&self.front, spec, directory, Vec::new(), Task::Describe)?;
        let begun = Instant::now();
        let mut is_told = self.quiet;
        loop {
            if !is_told && begun.elapsed() > SILENT {
                let front = match &self.front {
                    Front::Qemu(_) => spec.accelerator.word(),
                    Front::Uml(_) => self.front.name(),
                };
                progress::say(&format!("waiting for the first guest ({front})"));
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
