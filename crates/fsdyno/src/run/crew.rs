//! Trials in virtual time side by side: each in a guest and a thread of its own. The time of a guest is the count
//! of its own work, so that what else the machine does changes no record. In real time trials would disturb each
//! other, and are made one after the other.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use fsdyno_model::plan::Plan;
use fsdyno_model::record::TrialRecord;
use fsdyno_sys::{file, kernel};

use super::guest::{Guests, Proof, input};
use super::schedule::Planned;
use super::trial::Setting;
use crate::bad_input;

/// What QEMU takes besides the memory of its guest, in bytes: the code that it has translated above all.
const QEMU_BYTES: u64 = 512 << 20;
/// How often it is looked whether one has ended without a word.
const LOOK: Duration = Duration::from_secs(1);

/// How many trials of `plan` are made side by side where that many were asked for: as many as the machine has
/// processors, memory and room for disks where none were.
///
/// # Errors
/// Bad input: several were asked for in real time.
pub fn jobs(plan: &Plan, asked: Option<u16>, images: &Path) -> anyhow::Result<usize> {
    match asked {
        Some(count) if count > 1 && !plan.place.is_virtual() => Err(bad_input(
            "--jobs: trials in real time disturb each other, and are made one after the other: leave it \
             out, or --clock virtual",
        )),
        Some(count) => Ok(usize::from(count.max(1))),
        None if !plan.place.is_virtual() => Ok(1),
        None => {
            let room = file::free_space(images).map(|space| space.available);
            let memory = kernel::available_memory_bytes();
            Ok(fitting(plan, kernel::cpu_count(), memory, room.ok()))
        }
    }
}

/// As many guests as `processors`, as many of their memories as half of the available memory, and as many of
/// their disks and states as half of the free room, in bytes; at least one.
fn fitting(plan: &Plan, processors: usize, memory: Option<u64>, room: Option<u64>) -> usize {
    let most = |available: Option<u64>, of_one: u64| {
        let count = available.map_or(u64::MAX, |bytes| bytes / 2 / of_one.max(1));
        usize::try_from(count).unwrap_or(usize::MAX)
    };
    let memories = most(memory, plan.place.memory_bytes.saturating_add(QEMU_BYTES));
    let disks = plan.size_bytes.saturating_add(input::disk_bytes(plan).unwrap_or(0));
    // The state that it goes on from holds at most all its memory.
    let files = disks.saturating_add(plan.place.memory_bytes);
    processors.min(memories).min(most(room, files)).max(1)
}

/// What a member of the crew tells, of the trial with that index in the order.
pub enum Told {
    /// It is in a stage, that share of it done.
    At { index: usize, stage: String, done: f64 },
    /// It has ended; with what could not be removed.
    Ended { index: usize, record: Box<TrialRecord>, leftover: Option<String> },
}

/// A trial that is being made.
struct Running<'scope, 'env> {
    index: usize,
    planned: &'env Planned,
    /// How many guests it takes at a time.
    guests: usize,
    thread: ScopedJoinHandle<'scope, ()>,
}

/// Trials that are being made.
pub struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    setting: &'env Setting<'env>,
    guests: &'env Guests,
    consoles: &'env Path,
    running: Vec<Running<'scope, 'env>>,
    sender: Sender<Told>,
    receiver: Receiver<Told>,
}

impl<'scope, 'env> Crew<'scope, 'env> {
    /// One that makes as many trials at a time as these guests have jobs.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        setting: &'env Setting<'env>,
        guests: &'env Guests,
        consoles: &'env Path,
    ) -> Crew<'scope, 'env> {
        let (sender, receiver) = mpsc::channel();
        Crew { scope, setting, guests, consoles, running: Vec::new(), sender, receiver }
    }

    /// Whether one more may be made now, one of which the record `is_expected` or another.
    pub fn has_room(&self, is_expected: bool) -> bool {
        let taken: usize = self.running.iter().map(|running| running.guests).sum();
        taken == 0 || taken + self.guests_of(is_expected) <= self.guests.jobs
    }

    /// The first trial of a run is made by two at once.
    fn guests_of(&self, is_expected: bool) -> usize {
        if !is_expected && self.guests.needs_check() { 2 } else { 1 }
    }

    /// Those that are being made.
    pub fn running(&self) -> impl Iterator<Item = &'env Planned> {
        self.running.iter().map(|running| running.planned)
    }

    /// Starts the trial with this index in the order; as [`Guests::execute`].
    pub fn start(
        &mut self,
        index: usize,
        planned: &'env Planned,
        expected: Option<&'env TrialRecord>,
    ) {
        let (setting, guests, consoles) = (self.setting, self.guests, self.consoles);
        let sender = self.sender.clone();
        // Begun here, in the order of the trials, whichever thread is the first.
        let proof = expected.map_or_else(|| guests.proof(), Proof::Record);
        let count = if matches!(proof, Proof::SecondGuest(_)) { 2 } else { 1 };
        let thread = self.scope.spawn(move || {
            // Nobody listens any more where the run has failed.
            let mut tell = |stage: &str, done| {
                let _ = sender.send(Told::At { index, stage: stage.to_owned(), done });
            };
            let (record, leftover) = guests.execute(setting, planned, consoles, proof, &mut tell);
            let _ = sender.send(Told::Ended { index, record: Box::new(record), leftover });
        });
        self.running.push(Running { index, planned, guests: count, thread });
    }

    /// Waits for what one of them tells; `None` where none is being made, or one has panicked.
    pub fn next(&mut self) -> Option<Told> {
        while !self.running.is_empty() {
            let is_over = self.running.iter().any(|running| running.thread.is_finished());
            match self.receiver.recv_timeout(LOOK) {
                Ok(told) => {
                    if let Told::Ended { index, .. } = &told {
                        self.running.retain(|running| running.index != *index);
                    }
                    return Some(told);
                }
                // Over before, and still not a word of it.
                Err(RecvTimeoutError::Timeout) if is_over => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_model::place::{Clock, Place, Where};

    const GIB: u64 = 1 << 30;

    fn plan(clock: Clock) -> Plan {
        let place = Place { kind: Where::Guest, clock, memory_bytes: GIB / 2, ..Place::default() };
        Plan { place, size_bytes: 4 * GIB, ..Plan::new(true) }
    }

    #[test]
    fn as_many_as_fit_and_at_least_one() {
        let plan = plan(Clock::Virtual);
        assert_eq!(fitting(&plan, 4, Some(64 * GIB), Some(900 * GIB)), 4);
        assert_eq!(fitting(&plan, 4, Some(4 * GIB), Some(900 * GIB)), 2);
        assert_eq!(fitting(&plan, 4, Some(64 * GIB), Some(28 * GIB)), 3);
        assert_eq!(fitting(&plan, 4, Some(0), Some(0)), 1);
        assert_eq!(fitting(&plan, 4, None, None), 4);
    }

    #[test]
    fn real_time_knows_one_job() {
        let images = Path::new("/");
        assert_eq!(jobs(&plan(Clock::Real), None, images).unwrap(), 1);
        assert_eq!(jobs(&plan(Clock::Real), Some(1), images).unwrap(), 1);
        let error = jobs(&plan(Clock::Real), Some(2), images).unwrap_err().to_string();
        assert!(error.contains("--clock virtual"), "{error}");
        assert_eq!(jobs(&plan(Clock::Virtual), Some(3), images).unwrap(), 3);
    }
}
