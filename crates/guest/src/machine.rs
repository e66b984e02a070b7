//! A guest that runs: QEMU as a child that dies with this process, the errand that it is given, what it
//! says, how it ended. What its answers mean is left to the caller.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Errand, Message, Task};
use fsdyno_model::wire;
use fsdyno_sys::{child, process};

use crate::qemu::{Qemu, Spec};
use crate::{Result, console};

/// How long QEMU may take to end by itself once its guest has said all.
const GRACE: Duration = Duration::from_secs(10);
/// How long QEMU may leave the errand lying.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
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
    child: Child,
    ended: Option<ExitStatus>,
    messages: Receiver<std::io::Result<Message>>,
    /// Kept open: a guest that reads from a closed port finds its end.
    _port: UnixStream,
    console: PathBuf,
    errors: PathBuf,
    heard: Instant,
}

impl Machine {
    /// Starts a guest with an errand. `directory` is private to this guest and holds what QEMU writes. Call
    /// it from a thread that lives as long as the guest: the kernel kills QEMU with that thread.
    ///
    /// # Errors
    /// QEMU cannot be started, or takes in nothing.
    pub fn start(
        qemu: &Qemu,
        spec: &Spec,
        directory: &Path,
        modules: Vec<String>,
        task: Task,
    ) -> Result<Machine> {
        let (console, errors) = (directory.join("console"), directory.join("qemu"));
        let (port, its_port) =
            UnixStream::pair().map_err(|error| format!("make a socket: {error}"))?;
        let stderr = File::create(&errors)
            .map_err(|error| format!("create {}: {error}", errors.display()))?;
        let mut command = Command::new(&qemu.path);
        command.args(spec.arguments(&console)).current_dir("/");
        command.stdin(Stdio::from(OwnedFd::from(its_port))).stdout(Stdio::null()).stderr(stderr);
        process::own_process_group(process::die_with_parent(&mut command));
        let child =
            command.spawn().map_err(|error| format!("start {}: {error}", qemu.path.display()))?;
        // With it goes our copy of QEMU's end of the port, so that its end is heard.
        drop(command);
        let cloned = port.try_clone().map_err(|error| format!("clone a socket: {error}"))?;
        let machine = Machine {
            child,
            ended: None,
            messages: listen(cloned),
            _port: port,
            console,
            errors,
            heard: Instant::now(),
        };
        let errand = Errand { version: guest::VERSION, entropy: entropy()?, modules, task };
        let _ = machine._port.set_write_timeout(Some(WRITE_PATIENCE));
        // A QEMU that ended at once is noticed by its end, which tells more.
        let _ = wire::write_frame(&mut &machine._port, &errand);
        Ok(machine)
    }

    /// What the guest says next, within `patience`.
    pub fn next(&mut self, patience: Duration) -> Event {
        match self.messages.recv_timeout(patience) {
            Ok(Ok(message)) => {
                self.heard = Instant::now();
                Event::Said(message)
            }
            Ok(Err(error)) => Event::Garbled(error.to_string()),
            Err(RecvTimeoutError::Timeout) => Event::Nothing,
            Err(RecvTimeoutError::Disconnected) => Event::Closed,
        }
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
        while self.ended.is_none() && Instant::now() < end {
            match self.child.try_wait() {
                Ok(Some(status)) => self.ended = Some(status),
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
        let Some(status) = self.ended else {
            self.kill();
            return Some("QEMU did not end".to_owned());
        };
        if status.success() {
            return None;
        }
        let words = fs::read_to_string(&self.errors).unwrap_or_default();
        let how =
            child::how_ended(status.code(), std::os::unix::process::ExitStatusExt::signal(&status));
        let words = child::last_words("", &words);
        Some(format!("QEMU: {how}{}{words}", if words.is_empty() { "" } else { ": " }))
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

    /// Kills it at once. Doing it again does nothing.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
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

fn listen(mut port: UnixStream) -> Receiver<std::io::Result<Message>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let read = wire::read_frame::<Message>(&mut port);
            let is_last = !matches!(read, Ok(Some(_)));
            // A frame that was cut off is the guest's end, about which its console knows more.
            let cut = |error: &std::io::Error| {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset
                )
            };
            let heard = match read {
                Ok(Some(message)) => sender.send(Ok(message)),
                Err(error) if !cut(&error) => sender.send(Err(error)),
                _ => Ok(()),
            };
            if is_last || heard.is_err() {
                return;
            }
        }
    });
    receiver
}

fn entropy() -> Result<Vec<u8>> {
    let mut bytes = vec![0; ENTROPY_BYTES];
    let path = "/dev/urandom";
    File::open(path)
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes))
        .map_err(|error| format!("read {path}: {error}"))?;
    Ok(bytes)
}
