//! Saved states of machines in virtual time. Such a machine has itself stopped at an instruction of its own, so
//! that its state is always that of this instruction, whenever the host comes to save it.
//!
//! One thing depends on the host. Once the processor stands still, QEMU moves the clock on to the next event
//! (`-icount sleep=off`), unless its other thread has stopped the whole machine before. It moves it once and no
//! further, so that two states are possible. That thread is asked to give way, which makes the clock move; the
//! guest says how far it went, so that a state whose clock did not move is known, and made anew.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Errand, Message, Task};
use fsdyno_sys::process;
use serde_json::json;

use crate::channel::Channel;
use crate::machine::Machine;
use crate::monitor::Monitor;
use crate::qemu::Spec;
use crate::saved_state::{self, Making, Part, SavedState};
use crate::{Result, virtual_time};

/// How often QEMU is asked whether it has taken a state in.
const TICK: Duration = Duration::from_millis(5);
/// A clock that went less far went by the instructions of stopping alone.
const LEAST_MOVE_NS: u64 = 50_000;
/// Has a machine wait that a word to its device for panics stops.
const PAUSE: [&str; 2] = ["-action", "panic=pause"];

/// A machine that has gone on, with its errand.
#[derive(Debug)]
pub struct GoingOn {
    /// The machine.
    pub machine: Machine,
    /// Whether its clock moved while it stood still.
    pub has_clock_moved: bool,
}

fn errand(modules: Vec<String>, task: Task) -> Errand {
    let entropy = virtual_time::ENTROPY.to_vec();
    Errand { version: guest::VERSION, entropy, unix_ns: None, modules, task }
}

/// Boots a machine until it finds `disks`, by its own names for them, and has itself stopped; saves its state into
/// `file`.
///
/// # Errors
/// It does not boot, or its state cannot be saved; no file is left then.
pub fn save(making: &Making<'_>, disks: Vec<PathBuf>, file: &Path) -> Result<SavedState> {
    let saved = || {
        let directory = making.directory;
        let initramfs = directory.join("initramfs-and-errand");
        let waiting = errand(Vec::new(), Task::Wait { disks });
        virtual_time::write_initramfs(&making.spec.initramfs, &initramfs, &waiting)?;
        virtual_time::write_errand(directory, None)?;
        let spec = Spec { initramfs, ..making.spec.clone() };
        let channel = Channel::file(directory)?;
        let (mut machine, mut monitor) =
            making.launch(&spec, channel, Part::SavedInto(file), &PAUSE)?;
        // Where it is of no avail, the guest tells.
        let _ = process::give_way(machine.pid(), true);
        let end = Instant::now() + making.patience;
        making.hear(&mut machine, end, |message| matches!(message, Message::Ready))?;
        monitor.hear_of("STOP")?;
        let _ = process::give_way(machine.pid(), false);
        saved_state::write(machine, &mut monitor, making, end, file)
    };
    saved().map_err(|error| saved_state::unsaved(making.spec, file, error))
}

/// Starts a machine that goes on from a state with an errand, and waits until it has it.
///
/// # Errors
/// The state is gone or damaged, or QEMU does not take it in.
pub fn resume(
    state: &SavedState,
    making: &Making<'_>,
    modules: Vec<String>,
    task: Task,
) -> Result<GoingOn> {
    virtual_time::write_errand(making.directory, Some(&errand(modules, task)))?;
    let feeding = state.feeding()?;
    let channel = Channel::file(making.directory)?;
    let (mut machine, mut monitor) =
        making.launch(making.spec, channel, Part::GoesOnFrom(state), &[])?;
    feeding.begin(&mut monitor)?;
    match go_on(&mut machine, &mut monitor, making) {
        Ok(stopped_ns) => {
            machine.keep(monitor);
            let has_clock_moved = stopped_ns.is_some_and(|ns| ns >= LEAST_MOVE_NS);
            Ok(GoingOn { machine, has_clock_moved })
        }
        Err(error) => Err(feeding.why(machine, error)),
    }
}

/// Waits until the state has been taken in, and has the machine go on; gives how far its clock went while it stood
/// still, in nanoseconds.
fn go_on(machine: &mut Machine, monitor: &mut Monitor, making: &Making<'_>) -> Result<Option<u64>> {
    let end = Instant::now() + making.patience;
    while monitor.ask("query-status", json!({}))?["status"] == "inmigrate" {
        (making.keep_on)()?;
        if Instant::now() > end {
            return Err("QEMU did not take in the state of a guest in time".to_owned());
        }
        thread::sleep(TICK);
    }
    monitor.ask("cont", json!({}))?;
    let is_hello = |message: &Message| matches!(message, Message::Hello { .. });
    match making.hear(machine, end, is_hello)? {
        Message::Hello { stopped_ns, .. } => Ok(stopped_ns),
        _ => Ok(None),
    }
}
