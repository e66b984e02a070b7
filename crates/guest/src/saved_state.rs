//! Guests that go on where a booted one waited: its state is saved into a file once, and each of many guests
//! takes it in instead of booting. The disks are others then, of the same sizes and as blank as those that
//! the booted guest saw.
//!
//! QEMU writes a state, and takes one in, through a socket of this program, so that it needs no shell and no
//! form of address that depends on its version. What is taken in is compared with the hash of what was
//! written; the last piece of a state that is damaged is withheld, so that no guest goes on from it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Message, Task};
use fsdyno_model::place::Accelerator;
use serde_json::json;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use crate::channel::Channel;
use crate::front::Front;
use crate::machine::{Event, Machine};
use crate::memory_file::MemoryFile;
use crate::monitor::{self, Monitor};
use crate::qemu::Spec;
use crate::{Result, memory_file};

/// Unit of reading and writing a state.
const CHUNK_BYTES: usize = 1 << 20;
/// How often it is looked whether to go on waiting.
const TICK: Duration = Duration::from_millis(50);
/// Bytes a second and milliseconds: as much as there is, since the guest does nothing meanwhile.
const MOST_BANDWIDTH: u64 = 1 << 40;
const MOST_DOWNTIME_MS: u64 = 60_000;
/// The name by which QEMU knows the socket that it writes its state to.
const NAME: &str = "state";
/// Has QEMU wait for a state.
const INCOMING: [&str; 2] = ["-incoming", "defer"];

/// What a guest is made with.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// QEMU.
    pub front: &'a Front,
    /// The machine.
    pub spec: &'a Spec,
    /// Private to this guest; holds what QEMU writes.
    pub directory: &'a Path,
    /// How long it may take until the guest speaks.
    pub patience: Duration,
    /// Asked now and then; an error ends it.
    pub keep_on: fn() -> Result<()>,
}

/// A state in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedState {
    /// What QEMU wrote.
    path: PathBuf,
    stream_bytes: u64,
    stream_hash: u64,
    /// Memory that has no part in that.
    memory: Option<MemoryFile>,
}

/// What a machine has to do with a state.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part<'a> {
    /// It boots, and its state is to be saved into this file.
    SavedInto(&'a Path),
    /// It waits for this state, to go on from there.
    GoesOnFrom(&'a SavedState),
}

/// Boots a guest that loads `modules`, in order, and finds `disks`, by its own names for them; saves its state
/// into `file` when it waits for its errand.
///
/// # Errors
/// It does not boot, or its state cannot be saved; no file is left then.
pub fn save(
    making: &Making<'_>,
    modules: Vec<String>,
    disks: Vec<PathBuf>,
    file: &Path,
) -> Result<SavedState> {
    let saved = || {
        let (mut machine, mut monitor) =
            making.launch(making.spec, Channel::socket()?, Part::SavedInto(file), &[])?;
        machine.tell(modules, Task::Wait { disks })?;
        let end = Instant::now() + making.patience;
        making.hear(&mut machine, end, |message| matches!(message, Message::Ready))?;
        write(machine, &mut monitor, making, end, file)
    };
    saved().map_err(|error| unsaved(making.spec, file, error))
}

/// Has QEMU write the state of its machine, which waits or is stopped, into `file`; then it is gone.
pub(crate) fn write(
    mut machine: Machine,
    monitor: &mut Monitor,
    making: &Making<'_>,
    end: Instant,
    file: &Path,
) -> Result<SavedState> {
    let limits = json!({ "max-bandwidth": MOST_BANDWIDTH, "downtime-limit": MOST_DOWNTIME_MS });
    monitor.ask("migrate-set-parameters", limits)?;
    let (socket, its_end) =
        UnixStream::pair().map_err(|error| format!("make a socket: {error}"))?;
    monitor.give(NAME, OwnedFd::from(its_end))?;
    monitor.ask("migrate", json!({ "uri": format!("fd:{NAME}") }))?;
    let partial = Partial(file.with_extension("partial"));
    let (stream_bytes, stream_hash) = partial.take(socket, making, end)?;
    let told = monitor.ask("query-migrate", json!({}))?;
    if told["status"] != "completed" {
        let why = told["error-desc"].as_str().unwrap_or("it does not say why");
        return Err(format!("QEMU did not save the state of a guest: {why}"));
    }
    machine.kill();
    let memory = memory_path(making.spec, file).map(|path| MemoryFile::of(&path)).transpose()?;
    fs::rename(&partial.0, file).map_err(|error| format!("make {}: {error}", file.display()))?;
    Ok(SavedState { path: file.to_owned(), stream_bytes, stream_hash, memory })
}

/// Why the state of a machine was not written into `file`; removes its memory.
pub(crate) fn unsaved(spec: &Spec, file: &Path, mut error: String) -> String {
    let directory = file.parent().unwrap_or(file);
    if fsdyno_sys::file::is_full(directory) {
        let shown = directory.display();
        error.push_str(&format!(
            "; {shown} is full: the state of a guest takes 200 MiB there, at most as much as the guest has memory: \
             make room, or choose another --dir"
        ));
    }
    if let Some(path) = memory_path(spec, file) {
        // What stays goes with the directory that it is in.
        let _ = fs::remove_file(path);
    }
    error
}

/// Where the memory of a machine lies whose state is in `file`.
fn memory_path(spec: &Spec, file: &Path) -> Option<PathBuf> {
    (spec.accelerator == Accelerator::Tcg).then(|| file.with_extension("memory"))
}

impl SavedState {
    /// XXH3 of it and of the memory beside it, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        let memory = self.memory.as_ref().map_or(0, MemoryFile::hash);
        crate::hash(&[self.stream_hash.to_le_bytes(), memory.to_le_bytes()].concat())
    }

    /// What it takes of its disk, with the memory beside it.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.stream_bytes + self.memory.as_ref().map_or(0, |memory| memory.taken_bytes)
    }

    /// This state with what QEMU wrote of it changed; where that fails, it is removed.
    pub(crate) fn amended(
        mut self,
        change: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<SavedState> {
        let failed = |error| format!("amend {}: {error}", self.path.display());
        let amended = fs::read(&self.path).map_err(failed).and_then(|mut bytes| {
            change(&mut bytes)?;
            fs::write(&self.path, &bytes).map_err(failed)?;
            Ok(xxh3_64(&bytes))
        });
        match amended {
            Ok(hash) => {
                self.stream_hash = hash;
                Ok(self)
            }
            Err(error) => {
                self.remove();
                Err(error)
            }
        }
    }

    /// Removes its files; machines that go on from it keep theirs.
    pub fn remove(&self) {
        // What stays goes with the directory that it is in.
        let _ = fs::remove_file(&self.path);
        if let Some(memory) = &self.memory {
            let _ = fs::remove_file(memory.path());
        }
    }

    /// Starts a guest that goes on from here with an errand, and waits until it has it.
    ///
    /// # Errors
    /// The state is gone or damaged, or QEMU does not take it in.
    pub fn resume(&self, making: &Making<'_>, task: Task) -> Result<Machine> {
        let feeding = self.feeding()?;
        let (mut machine, mut monitor) =
            making.launch(making.spec, Channel::socket()?, Part::GoesOnFrom(self), &[])?;
        feeding.begin(&mut monitor)?;
        machine.tell(Vec::new(), task)?;
        let end = Instant::now() + making.patience;
        let is_hello = |message: &Message| matches!(message, Message::Hello { .. });
        match making.hear(&mut machine, end, is_hello) {
            Ok(_) => {
                machine.keep(monitor);
                Ok(machine)
            }
            Err(error) => Err(feeding.why(machine, error)),
        }
    }

    /// Begins to look whether it is what was saved, beside what else is done.
    pub(crate) fn feeding(&self) -> Result<Feeding> {
        let failed = |error| format!("open {}: {error}", self.path.display());
        let mut file = File::open(&self.path).map_err(failed)?;
        let own = self.clone();
        let (sockets, awaited) = mpsc::channel::<UnixStream>();
        let thread = thread::spawn(move || {
            own.memory.as_ref().map_or(Ok(()), MemoryFile::check)?;
            // None comes where QEMU does not start.
            awaited.recv().map_or(Ok(()), |mut socket| pour(&mut file, &mut socket, &own))
        });
        Ok(Feeding { sockets, thread })
    }
}

/// A state that is being given to QEMU.
pub(crate) struct Feeding {
    sockets: Sender<UnixStream>,
    thread: JoinHandle<Result<()>>,
}

impl Feeding {
    /// Has QEMU take it in.
    pub(crate) fn begin(&self, monitor: &mut Monitor) -> Result<()> {
        let (socket, its_end) =
            UnixStream::pair().map_err(|error| format!("make a socket: {error}"))?;
        monitor.give(NAME, OwnedFd::from(its_end))?;
        monitor.ask("migrate-incoming", json!({ "uri": format!("fd:{NAME}") }))?;
        // A thread that has ended has found the state damaged, and the other end is closed then.
        let _ = self.sockets.send(socket);
        Ok(())
    }

    /// Why a machine did not go on: what it was given, or else this error.
    pub(crate) fn why(self, mut machine: Machine, error: String) -> String {
        // Also ends the thread, whose other end is gone then.
        machine.kill();
        drop(self.sockets);
        let fed = self.thread.join().unwrap_or(Ok(()));
        fed.err().unwrap_or(error)
    }
}

impl Making<'_> {
    /// Starts a machine of which QEMU tells through the monitor, with `more` arguments. What lies on the disks, and
    /// in a file of its memory, is no part of its state.
    pub(crate) fn launch(
        &self,
        spec: &Spec,
        channel: (Channel, Stdio),
        part: Part<'_>,
        more: &[&str],
    ) -> Result<(Machine, Monitor)> {
        let (mut monitor, its_end) = Monitor::pair()?;
        let bytes = spec.all_memory_bytes();
        let (incoming, of_memory) = match part {
            Part::SavedInto(file) => {
                let path = memory_path(spec, file);
                path.iter().try_for_each(|path| memory_file::create(path, bytes))?;
                (None, path.map(|path| memory_file::arguments(&path, bytes, false)))
            }
            Part::GoesOnFrom(state) => {
                let memory = state.memory.as_ref();
                let mapped = memory.map(|it| memory_file::arguments(it.path(), bytes, true));
                (Some(INCOMING), mapped)
            }
        };
        let of_memory = of_memory.iter().flatten().map(String::as_str);
        let own = monitor::ARGUMENTS.into_iter().chain(incoming.into_iter().flatten());
        let all: Vec<&str> = own.chain(more.iter().copied()).chain(of_memory).collect();
        let mut machine =
            Machine::launch(self.front, spec, self.directory, channel, &all, its_end)?;
        let ready = monitor.ask("qmp_capabilities", json!({})).and_then(|_| {
            let shared = json!([{ "capability": "x-ignore-shared", "state": true }]);
            monitor.ask("migrate-set-capabilities", json!({ "capabilities": shared }))
        });
        // A QEMU that ended at once has said why.
        ready.map_err(
            |error| if error.ends_with("it has ended") { machine.death() } else { error },
        )?;
        Ok((machine, monitor))
    }

    /// Waits until the guest has said something; gives that.
    pub(crate) fn hear(
        &self,
        machine: &mut Machine,
        end: Instant,
        is_it: impl Fn(&Message) -> bool,
    ) -> Result<Message> {
        loop {
            match machine.next(TICK) {
                Event::Said(Message::Hello { version, .. }) if version != guest::VERSION => {
                    return Err("the guest speaks another version".to_owned());
                }
                Event::Said(Message::Failed { error }) | Event::Garbled(error) => {
                    return Err(error);
                }
                Event::Said(message) if is_it(&message) => return Ok(message),
                Event::Closed => return Err(machine.death()),
                Event::Said(_) | Event::Nothing => {}
            }
            (self.keep_on)()?;
            if Instant::now() > end {
                let limit = self.patience.as_secs();
                return Err(format!("the guest did not answer within {limit} s"));
            }
        }
    }
}

/// A file that is removed unless it was renamed in time.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Under its new name it is gone from here; what stays goes with the directory that it is in.
        let _ = fs::remove_file(&self.0);
    }
}

impl Partial {
    /// Writes all that comes from QEMU, for this user alone; gives its size and hash.
    fn take(
        &self,
        mut socket: UnixStream,
        making: &Making<'_>,
        end: Instant,
    ) -> Result<(u64, u64)> {
        let failed = |what: &str, error| format!("{what} {}: {error}", self.0.display());
        let opened =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.0);
        let mut file = opened.map_err(|error| failed("create", error))?;
        socket.set_read_timeout(Some(TICK)).map_err(|error| failed("wait for", error))?;
        let (mut size_bytes, mut hasher) = (0, Xxh3Default::new());
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return Ok((size_bytes, hasher.digest())),
                Ok(count) => {
                    file.write_all(&buffer[..count]).map_err(|error| failed("write", error))?;
                    hasher.update(&buffer[..count]);
                    size_bytes += count as u64;
                }
                Err(error) if is_only_late(&error) => {}
                Err(error) => return Err(format!("read the state of a guest: {error}")),
            }
            (making.keep_on)()?;
            if Instant::now() > end {
                return Err("QEMU did not save the state of a guest in time".to_owned());
            }
        }
    }
}

fn is_only_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Writes a state to where QEMU takes it in; all but its last piece where it is not what was saved. The last
/// piece is always a whole one: a state ends with a description of some kilobytes that QEMU can do without, and
/// a guest from which only that is withheld goes on.
fn pour(from: &mut impl Read, to: &mut impl Write, state: &SavedState) -> Result<()> {
    let shown = state.path.display();
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = state.stream_bytes;
    while left > 0 {
        let odd = usize::try_from(left % CHUNK_BYTES as u64).unwrap_or(0);
        let length = if odd == 0 { CHUNK_BYTES } else { odd };
        let piece = &mut buffer[..length];
        match from.read_exact(piece) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(format!("the saved state {shown} was cut off"));
            }
            read => read.map_err(|error| format!("read {shown}: {error}"))?,
        }
        hasher.update(piece);
        left -= length as u64;
        if left == 0 && hasher.digest() != state.stream_hash {
            return Err(format!("the saved state {shown} was damaged"));
        }
        to.write_all(piece).map_err(|error| format!("QEMU did not take in {shown}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bytes: &[u8]) -> SavedState {
        SavedState {
            path: PathBuf::from("/s"),
            stream_bytes: bytes.len() as u64,
            stream_hash: xxh3_64(bytes),
            memory: None,
        }
    }

    #[test]
    fn a_state_is_given_whole_or_not_to_its_end() {
        let bytes: Vec<u8> = (0..CHUNK_BYTES * 2 + 5).map(|at| (at % 251) as u8).collect();
        let own = state(&bytes);
        let mut taken = Vec::new();
        pour(&mut bytes.as_slice(), &mut taken, &own).unwrap();
        assert_eq!(taken, bytes);
        for place in [0, CHUNK_BYTES + 1, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            let mut taken = Vec::new();
            let error = pour(&mut damaged.as_slice(), &mut taken, &own).unwrap_err();
            assert_eq!(error, "the saved state /s was damaged");
            assert_eq!(taken.len(), bytes.len() - CHUNK_BYTES, "the end must be withheld");
        }
        let cut = &bytes[..bytes.len() - 1];
        let error = pour(&mut &*cut, &mut Vec::new(), &own).unwrap_err();
        assert_eq!(error, "the saved state /s was cut off");
    }

    #[test]
    fn what_is_unfinished_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.partial");
        fs::write(&path, "x").unwrap();
        drop(Partial(path.clone()));
        assert!(!path.exists());
    }
}
