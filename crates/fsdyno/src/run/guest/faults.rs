//! A disk that goes wrong in a guest: what its filesystem did, or what became of the guest.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use fsdyno_durability::reaction::Reaction;
use fsdyno_guest::machine::Event;
use fsdyno_model::guest::{DiskFaultErrand, Message, Task};
use fsdyno_sys::process;

use super::states::Started;
use super::{Guests, TICK, trial};

/// How long a fault may take, from the guest's start on: an emulated one takes a minute at most.
const LIMIT: Duration = Duration::from_secs(300);

impl Guests {
    /// Tries a fault in a guest made for it, with its files in the new directory `directory`.
    ///
    /// # Errors
    /// The guest could not be started, or something failed before the fault; the user interrupts.
    pub fn react(
        &self,
        target_index: usize,
        errand: DiskFaultErrand,
        directory: &Path,
    ) -> anyhow::Result<Reaction> {
        let made = fs::DirBuilder::new().mode(0o700).create(directory);
        made.with_context(|| format!("make {}", directory.display()))?;
        let (spec, fault) = (self.spec_of(target_index), errand.fault.clone());
        let task = Task::DiskFault(Box::new(errand));
        let begun = self.start(target_index, spec, directory, task).map_err(anyhow::Error::msg)?;
        let Started { mut machine, .. } = begun;
        let (started, silence) = (Instant::now(), trial::silence(false));
        let mut has_begun = false;
        loop {
            match machine.next(TICK) {
                Event::Said(Message::Reaction { json }) => {
                    machine.finish();
                    return serde_json::from_str(&json).context("the answer of the guest");
                }
                Event::Said(Message::Failed { error }) | Event::Garbled(error) => {
                    anyhow::bail!(error);
                }
                Event::Said(Message::Hello { .. }) => has_begun = true,
                Event::Closed if has_begun => return Ok(Reaction::lost(&fault, machine.death())),
                Event::Closed => anyhow::bail!(machine.death()),
                Event::Said(_) | Event::Nothing => {}
            }
            if process::interrupted() {
                anyhow::bail!("interrupted");
            }
            if machine.silence() > silence {
                let state = trial::end_hanging(&mut machine, silence);
                return Ok(Reaction::lost(&fault, state));
            }
            if started.elapsed() > LIMIT {
                machine.kill();
                let limit = LIMIT.as_secs();
                let state = format!("a program waits for ever: no end within {limit} s");
                return Ok(Reaction::lost(&fault, state));
            }
        }
    }
}
