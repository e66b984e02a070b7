//! Saved states of machines in virtual time. Such a machine has itself stopped at an instruction of its own, so
//! that its state is always that of this instruction, whenever the host comes to save it.
//!
//! One thing depends on the host. Once the processor stands still, QEMU moves the clock on to the next event
//! (`-icount sleep=off`), unless its other thread has stopped the whole machine before. So what was saved has its
//! clock set back to the count of instructions, which is where it was: before, it never moved on by itself.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Errand, Message, Task};
use serde_json::json;

use crate::channel::Channel;
use crate::machine::Machine;
use crate::monitor::Monitor;
use crate::qemu::Spec;
use crate::saved_state::{self, Making, Part, SavedState};
use crate::{Result, virtual_time};

/// How often QEMU is asked whether it has taken a state in.
const TICK: Duration = Duration::from_millis(5);
/// How QEMU announces what a clock that counts instructions is made of: a name, its length before it and a version
/// after it. Then come how far the clock was moved on besides, in nanoseconds, and the count, each of 8 bytes
/// (`icount_vmstate_timers` in `softmmu/cpu-timers.c`).
const CLOCK: &[u8] = b"\x0ctimer/icount\0\0\0\x01";
/// A processor that stands still has its clock moved on to the next event at most, which is a kernel's tick; what is
/// more than that came about otherwise.
const MOST_MOVE_NS: u64 = 20_000_000;
/// Has a machine wait that a word to its device for panics stops.
const PAUSE: [&str; 2] = ["-action", "panic=pause"];

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
        let end = Instant::now() + making.patience;
        making.hear(&mut machine, end, |message| matches!(message, Message::Ready))?;
        monitor.hear_of("STOP")?;
        saved_state::write(machine, &mut monitor, making, end, file)?.amended(set_clock_back)
    };
    saved().map_err(|error| saved_state::unsaved(making.spec, file, error))
}

/// Takes out of a state what its clock was moved on while its processor stood still.
fn set_clock_back(state: &mut [u8]) -> Result<()> {
    let starts = state.windows(CLOCK.len()).enumerate().filter(|(_, window)| *window == CLOCK);
    let starts: Vec<usize> = starts.map(|(start, _)| start + CLOCK.len()).collect();
    let moved = match starts[..] {
        [start] => state.get_mut(start..).and_then(<[u8]>::first_chunk_mut::<8>),
        _ => None,
    };
    let moved = moved
        .ok_or("the state of the guest does not tell its clock: this QEMU writes it otherwise")?;
    let moved_ns = u64::from_be_bytes(*moved);
    if moved_ns > MOST_MOVE_NS {
        return Err(format!(
            "the guest's clock was moved on by {moved_ns} ns before its state was saved"
        ));
    }
    *moved = [0; 8];
    Ok(())
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
) -> Result<Machine> {
    virtual_time::write_errand(making.directory, Some(&errand(modules, task)))?;
    let feeding = state.feeding()?;
    let channel = Channel::file(making.directory)?;
    let (mut machine, mut monitor) =
        making.launch(making.spec, channel, Part::GoesOnFrom(state), &[])?;
    feeding.begin(&mut monitor)?;
    match go_on(&mut machine, &mut monitor, making) {
        Ok(()) => {
            machine.keep(monitor);
            Ok(machine)
        }
        Err(error) => Err(feeding.why(machine, error)),
    }
}

/// Waits until the state has been taken in, and has the machine go on.
fn go_on(machine: &mut Machine, monitor: &mut Monitor, making: &Making<'_>) -> Result<()> {
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
    making.hear(machine, end, is_hello).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(moved_ns: u64) -> Vec<u8> {
        let count = 721_500_522_u64.to_be_bytes();
        [b"\x05".as_slice(), CLOCK, &moved_ns.to_be_bytes(), &count, b"\x04\0"].concat()
    }

    #[test]
    fn a_clock_that_moved_on_is_as_one_that_did_not() {
        for moved_ns in [0, 1_675_942, MOST_MOVE_NS] {
            let mut moved = state(moved_ns);
            set_clock_back(&mut moved).unwrap();
            assert_eq!(moved, state(0));
        }
    }

    #[test]
    fn another_clock_is_an_error() {
        let error = set_clock_back(&mut state(MOST_MOVE_NS + 1)).unwrap_err();
        assert!(error.contains("20000001 ns"), "{error}");
        let error = set_clock_back(&mut state(u64::MAX)).unwrap_err();
        assert!(error.contains("was moved on"), "{error}");
        let (whole, cut) = (state(5), CLOCK.len() + 8);
        for odd in [[whole.clone(), whole.clone()].concat(), Vec::new(), whole[..cut].to_vec()] {
            let error = set_clock_back(&mut odd.clone()).unwrap_err();
            assert!(error.contains("does not tell its clock"), "{error}");
        }
    }
}
