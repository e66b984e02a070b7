//! A guest that runs: QEMU or User-Mode Linux as a child that dies with this process, the errand that it is
//! given, what it says, how it ended. What its answers mean is left to the caller.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Errand, Message, Task};
use fsdyno_sys::process::{self, Signal};
use fsdyno_sys::{child, clock};

use crate::channel::Channel;
use crate::front::Front;
use crate::monitor::Monitor;
use crate::qemu::Spec;
use crate::{Result, console, virtual_time};

/// How long a guest may take to end by itself once it has said all.
const GRACE: Duration = Duration::from_secs(10);
/// Bytes for the guest's random number generator.
const ENTROPY_BYTES: usize = 64;

/// What became of waiting for a guest.
#[derive(Debug)]
pub enum Event {
    /// It said something.
    Said(Message),
    /// It said nothing meanwhile.
    Nothing,
    /// Its end of the port is closed: QEMU has ended, or is about to.
    Closed,
    /// What it said is not to be understood.
    Garbled(String),
}

/// A guest that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Machine {
    /// Name of what carries it out.
    front: &'static str,
    child: Child,
    ended: Option<ExitStatus>,
    channel: Channel,
    console: PathBuf,
    errors: PathBuf,
    heard: Instant,
    monitor: Option<Monitor>,
}

impl Machine {
    /// Starts a guest with an errand. `directory` is private to this guest and holds its disks and what is written
    /// for it. Call it from a thread that lives as long as the guest: the kernel ends it with that thread.
    ///
    /// # Errors
    /// It cannot be started, or takes in nothing.
    pub fn start(
        front: &Front,
        spec: &Spec,
        directory: &Path,
        modules: Vec<String>,
        task: Task,
    ) -> Result<Machine> {
        if !front.has_file(spec) {
            let machine =
                Machine::launch(front, spec, directory, Channel::socket()?, &[], Stdio::null())?;
            machine.tell(modules, task)?;
            return Ok(machine);
        }
        let entropy = match spec.shift {
            None => entropy()?,
            Some(_) => virtual_time::ENTROPY.to_vec(),
        };
        let errand = Errand { version: guest::VERSION, entropy, unix_ns: None, modules, task };
        if spec.shift.is_some() {
            // QEMU is given it in any case; this guest does not look there.
            virtual_time::write_errand(directory, None)?;
        }
        let own = directory.join("initramfs-and-errand");
        virtual_time::write_initramfs(&spec.initramfs, &own, &errand)?;
        let spec = Spec { initramfs: own, ..spec.clone() };
        let channel = Channel::file(directory)?;
        Machine::launch(front, &spec, directory, channel, &[], Stdio::null())
    }

    /// Sends a guest in real time its errand.
    pub(crate) fn tell(&self, modules: Vec<String>, task: Task) -> Result<()> {
        let (entropy, unix_ns) = (entropy()?, Some(clock::wall_ns()));
        self.channel.send(&Errand { version: guest::VERSION, entropy, unix_ns, modules, task });
        Ok(())
    }

    /// Starts a guest with this channel; `directory` is private to it, and QEMU gets `more` arguments, and `stdout` for
    /// what these speak of.
    pub(crate) fn launch(
        front: &Front,
        spec: &Spec,
        directory: &Path,
        (channel, its_end): (Channel, Stdio),
        more: &[&str],
        stdout: Stdio,
    ) -> Result<Machine> {
        let (console, errors) = (directory.join("console"), directory.join("errors"));
        let stderr = File::create(&errors)
            .map_err(|error| format!("create {}: {error}", errors.display()))?;
        let mut command = front.command(spec, directory, &console, (its_end, stdout), more)?;
        command.stderr(stderr);
        let child = command.spawn().map_err(|error| {
            format!("start {}: {error}", Path::new(command.get_program()).display())
        })?;
        // With it go our copies of QEMU's ends, so that their end is heard.
        drop(command);
        let (front, heard) = (front.name(), Instant::now());
        Ok(Machine { front, child, ended: None, channel, console, errors, heard, monitor: None })
    }

    /// What the guest says next, within `patience`.
    pub fn next(&mut self, patience: Duration) -> Event {
        match self.channel.messages.recv_timeout(patience) {
            Ok(Ok(message)) => {
                self.heard = Instant::now();
                Event::Said(message)
            }
            Ok(Err(error)) => Event::Garbled(error.to_string()),
            Err(RecvTimeoutError::Timeout) => {
                if self.has_ended() {
                    self.channel.writer_ended();
                }
                Event::Nothing
            }
            Err(RecvTimeoutError::Disconnected) => Event::Closed,
        }
    }

    /// Whether it has ended; what it left behind, killed from outside, ends with it.
    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                let _ = process::kill_group(self.child.id(), Signal::KILL);
            }
        }
        self.ended.is_some()
    }

    /// Leaves it the way to QEMU, which closes with it.
    pub(crate) fn keep(&mut self, monitor: Monitor) {
        self.monitor = Some(monitor);
    }

    /// For how long it has said nothing.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.heard.elapsed()
    }

    /// Waits for its end, some seconds, then kills it; says how it ended where that was not in good
    /// order.
    pub fn finish(&mut self) -> Option<String> {
        let end = Instant::now() + GRACE;
        while !self.has_ended() && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        let Some(status) = self.ended else {
            self.kill();
            return Some(format!("{} did not end", self.front));
        };
        if status.success() {
            return None;
        }
        let words = fs::read_to_string(&self.errors).unwrap_or_default();
        let how =
            child::how_ended(status.code(), std::os::unix::process::ExitStatusExt::signal(&status));
        let words = child::last_words("", &words);
        let colon = if words.is_empty() { "" } else { ": " };
        Some(format!("{}: {how}{colon}{words}", self.front))
    }

    /// Why it ended before it had said all.
    pub fn death(&mut self) -> String {
        let ended = self.finish();
        let text = console::read(&self.console);
        let last = console::last_lines(&text);
        let quoted = if last.is_empty() { String::new() } else { format!("; console: {last}") };
        match (console::verdict(&text), ended) {
            (Some(verdict), _) => verdict,
            (None, Some(ended)) => format!("{ended}{quoted}"),
            (None, None) => format!("the guest ended without an answer{quoted}"),
        }
    }

    /// What its kernel said.
    #[must_use]
    pub fn console(&self) -> &Path {
        &self.console
    }

    /// Kills it at once, with all its processes. Doing it again does nothing.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            let _ = process::kill_group(self.child.id(), Signal::KILL);
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn entropy() -> Result<Vec<u8>> {
    let mut bytes = vec![0; ENTROPY_BYTES];
    let path = "/dev/urandom";
    File::open(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| format!("read {path}: {error}"))?;
    Ok(bytes)
}
