//! `fsdyno guest-init` (hidden): the first process of a guest. It gets one errand over the port, does it
//! by the code that the host runs too, answers and switches the machine off. Where it is told to wait, it
//! gets that errand later, perhaps in a machine that goes on from the state of this one.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use fsdyno_disk::{Model, shipped};
use fsdyno_durability::faults::{self, Order};
use fsdyno_guest::inside;
use fsdyno_lab::emulator::find_model;
use fsdyno_lab::emulator::inside::{self as emulated, Wish};
use fsdyno_lab::workspace::Workspace;
use fsdyno_model::guest::{
    self, DiskFaultErrand, Errand, Fault, Message, ServedDisk, Task, TrialErrand,
};
use fsdyno_model::target::{DeviceSpec, Ground};
use fsdyno_model::wire;
use fsdyno_sys::{first_process, process};

use crate::bad_input;
use crate::run::schedule::Planned;
use crate::run::trial::{self, Setting};

/// Where ledgers lie in a guest, which nobody reads.
const STATE: &str = "/run/fsdyno";
/// Where a disk that goes wrong lies in a guest.
const FAULTS: &str = "/run/fsdyno-faults";

/// Arguments of `fsdyno guest-init`: none.
#[derive(Debug, clap::Args)]
pub struct Args {}

impl Args {
    /// Does it; never returns in a guest.
    ///
    /// # Errors
    /// Bad input: this is no guest.
    pub fn execute(self) -> anyhow::Result<bool> {
        if !first_process::is_first_process() {
            return Err(bad_input(
                "guest-init is the first process of a guest, which --in guest starts",
            ));
        }
        if let Err(error) = serve() {
            // The console is all that is left to say it on.
            let _ = writeln!(std::io::stderr(), "fsdyno: {error:#}");
        }
        first_process::power_off()?;
        Ok(false)
    }
}

/// The port, for all that speak on it.
#[derive(Clone)]
struct Voice {
    port: Arc<Mutex<File>>,
    is_silent: Arc<AtomicBool>,
}

impl Voice {
    fn say(&self, message: &Message) {
        if self.is_silent.load(Ordering::Relaxed) {
            return;
        }
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody is left to hear where it fails.
        let _ = wire::write_frame(&mut *port, message);
    }
}

fn serve() -> anyhow::Result<()> {
    let mut port = inside::begin().map_err(anyhow::Error::msg)?;
    let writing = port.try_clone().context("clone the port")?;
    let voice =
        Voice { port: Arc::new(Mutex::new(writing)), is_silent: Arc::new(AtomicBool::new(false)) };
    let mut errand = inside::errand(&mut port).map_err(anyhow::Error::msg)?;
    while let Task::Wait { disks } = &errand.task {
        let ready = inside::make_ready(&errand, disks);
        voice.say(&ready.map_or_else(|error| Message::Failed { error }, |()| Message::Ready));
        inside::stop().map_err(anyhow::Error::msg)?;
        errand = inside::next_errand(&mut port).map_err(anyhow::Error::msg)?;
        if let Err(error) = inside::go_on(&errand) {
            voice.say(&Message::Failed { error });
        }
    }
    voice.say(&Message::Hello { version: guest::VERSION });
    let beating = voice.clone();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(guest::HEARTBEAT_MS));
            beating.say(&Message::Heartbeat);
        }
    });
    if let Err(error) = work(errand, &voice) {
        voice.say(&Message::Failed { error: format!("{error:#}") });
    }
    Ok(())
}

fn work(errand: Errand, voice: &Voice) -> anyhow::Result<()> {
    first_process::credit_entropy(&errand.entropy)?;
    process::install_signal_handlers()?;
    inside::load(&errand.modules).map_err(anyhow::Error::msg)?;
    match errand.task {
        Task::Describe => {
            let environment = fsdyno_lab::environment::machine(env!("CARGO_PKG_VERSION"), None);
            voice.say(&Message::Environment(Box::new(environment)));
        }
        Task::Trial(errand) => {
            let mut record = run_trial(*errand, voice)?;
            if let Some(activity) = record.activity.take() {
                voice.say(&Message::Activity(Box::new(activity)));
            }
            voice.say(&Message::Record(Box::new(record)));
        }
        Task::DiskFault(errand) => {
            let json = try_fault(&errand)?;
            voice.say(&Message::Reaction { json });
        }
        Task::Wait { .. } => anyhow::bail!("an errand to wait comes before any other"),
    }
    Ok(())
}

fn run_trial(
    mut errand: TrialErrand,
    voice: &Voice,
) -> anyhow::Result<fsdyno_model::record::TrialRecord> {
    find_disks(&mut errand)?;
    let TrialErrand { plan, target_index, workload_index, trial, role, order, disks, input, fault } =
        &errand;
    anyhow::ensure!(
        *target_index < plan.targets.len() && *workload_index < plan.workloads.len(),
        "the errand names what its plan does not have"
    );
    // Its own disks, which nobody else has written to.
    let destroy: Vec<PathBuf> = plan.devices().map(Path::to_owned).collect();
    input.as_deref().map_or(Ok(()), crate::run::guest::input::make_ready)?;
    disks.iter().try_for_each(serve_disk)?;
    let images = crate::run::image_directory(plan);
    let workspace = Workspace::open("guest", &images, Path::new(STATE), &destroy)
        .map_err(anyhow::Error::msg)?;
    let setting = Setting {
        memory_limit_bytes: None,
        plan,
        workspace: &workspace,
        may_drop_caches: fsdyno_sys::caches::can_drop_caches(),
        trace_directory: images,
        aged_directory: None,
        keep_aged: false,
    };
    let planned = Planned {
        target_index: *target_index,
        workload_index: *workload_index,
        trial: *trial,
        role: *role,
        order: *order,
    };
    let mut progress = |stage: &str, done: f64| {
        voice.say(&Message::Progress { stage: stage.to_owned(), done });
        if stage == "quiesce" {
            fault.iter().for_each(|fault| do_fault(*fault, voice));
        }
    };
    let (record, leftover) = trial::execute(&setting, &planned, &mut progress);
    // The machine ends with all that is left, but why something stayed may tell of the filesystem.
    if let Some(error) = leftover {
        let _ = writeln!(std::io::stderr(), "fsdyno: teardown: {error}");
    }
    Ok(record)
}

/// Waits for the disks that the errand names; where they are memory, it then names the devices that they are.
fn find_disks(errand: &mut TrialErrand) -> anyhow::Result<()> {
    let served = errand.disks.iter().map(|disk| disk.contents.as_path());
    let all = errand.plan.devices().chain(served).chain(errand.input.as_deref());
    inside::await_disks(all).map_err(anyhow::Error::msg)?;
    if !errand.plan.place.is_virtual() {
        return Ok(());
    }
    let found = inside::found_disks().map_err(anyhow::Error::msg)?;
    for target in &mut errand.plan.targets {
        let Ground::Fresh(fresh) = &mut target.ground else { continue };
        for device in fresh.leaves_mut() {
            if let DeviceSpec::Block { path } = device {
                *path = found(path);
            }
        }
    }
    let served = errand.disks.iter_mut().map(|disk| &mut disk.contents);
    served.chain(&mut errand.input).for_each(|path| *path = found(path));
    Ok(())
}

/// Tries a fault on a disk in this machine's memory; gives the reaction as JSON.
fn try_fault(errand: &DiskFaultErrand) -> anyhow::Result<String> {
    let fault = faults::find(&errand.fault).map_err(anyhow::Error::msg)?;
    let model = find_model(&errand.model).map_err(anyhow::Error::msg)?;
    let Ground::Fresh(spec) = &errand.target.ground else {
        anyhow::bail!("a directory has no disk that goes wrong")
    };
    let directory = Path::new(FAULTS);
    std::fs::create_dir(directory).with_context(|| format!("make {FAULTS}"))?;
    let (size_bytes, model) = (errand.size_bytes, (errand.model.as_str(), &model));
    let order = Order { spec, size_bytes, model, directory };
    let reaction = faults::react(&order, fault).map_err(anyhow::Error::msg)?;
    Ok(serde_json::to_string(&reaction)?)
}

/// Serves a disk in this machine from now on.
fn serve_disk(disk: &ServedDisk) -> anyhow::Result<()> {
    let parsed = Model::parse(&disk.model, &disk.model_text, &|member| shipped::find(member));
    let model = parsed.map_err(|wrong| {
        let first = wrong.into_iter().next().map_or_else(String::new, |one| one.message);
        anyhow::anyhow!("the model {} cannot be used: {first}", disk.model)
    })?;
    let (contents, device) = (disk.contents.as_path(), disk.device.clone());
    emulated::serve(&Wish { model: &model, contents, device, size_bytes: disk.size_bytes })
        .map_err(anyhow::Error::msg)
}

fn do_fault(fault: Fault, voice: &Voice) {
    match fault {
        Fault::Panic => drop(first_process::panic_kernel()),
        Fault::Hang => {
            voice.is_silent.store(true, Ordering::Relaxed);
            loop {
                std::thread::park();
            }
        }
        Fault::Oom => {
            let mut taken: Vec<Vec<u8>> = Vec::new();
            // Written to, so that they are not only promised.
            loop {
                taken.push(vec![1; 1 << 20]);
            }
        }
    }
}
