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
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fsdyno_model::guest::{self, Message, Task};
use serde_json::json;
use xxhash_rust::xxh3::Xxh3Default;

use crate::Result;
use crate::front::Front;
use crate::machine::{Event, Machine};
use crate::monitor::{self, Monitor};
use crate::qemu::Spec;

/// Unit of reading and writing a state.
const CHUNK_BYTES: usize = 1 << 20;
/// How often it is looked whether to go on waiting.
const TICK: Duration = Duration::from_millis(50);
/// Bytes a second and milliseconds: as much as there is, since the guest does nothing meanwhile.
const MOST_BANDWIDTH: u64 = 1 << 40;
const MOST_DOWNTIME_MS: u64 = 60_000;
/// The name by which QEMU knows the socket that it writes its state to.
pub(crate) const NAME: &str = "state";
/// Arguments that have QEMU take in a state from its standard output, which it needs for nothing else.
const INCOMING: [&str; 2] = ["-incoming", "fd:1"];

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
    path: PathBuf,
    /// Its size in bytes.
    pub size_bytes: u64,
    hash: u64,
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
    let (mut monitor, its_end) = Monitor::pair()?;
    let mut machine = making.start(&monitor::ARGUMENTS, its_end)?;
    machine.tell(modules, Task::Wait { disks })?;
    let end = Instant::now() + making.patience;
    making.hear(&mut machine, end, |message| matches!(message, Message::Ready))?;
    monitor.ask("qmp_capabilities", json!({}))?;
    let state = write(&mut monitor, making, end, file)?;
    machine.kill();
    Ok(state)
}

/// Has QEMU write the state of its machine, which waits or is stopped, into `file`.
pub(crate) fn write(
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
    let (size_bytes, hash) = partial.take(socket, making, end)?;
    let told = monitor.ask("query-migrate", json!({}))?;
    if told["status"] != "completed" {
        let why = told["error-desc"].as_str().unwrap_or("it does not say why");
        return Err(format!("QEMU did not save the state of a guest: {why}"));
    }
    fs::rename(&partial.0, file).map_err(|error| format!("make {}: {error}", file.display()))?;
    Ok(SavedState { path: file.to_owned(), size_bytes, hash })
}

impl SavedState {
    /// Its XXH3, in hexadecimal digits.
    #[must_use]
    pub fn hash(&self) -> String {
        format!("{:016x}", self.hash)
    }

    /// Starts a guest that goes on from here with an errand, and waits until it has it.
    ///
    /// # Errors
    /// The state is gone or damaged, or QEMU does not take it in.
    pub fn resume(&self, making: &Making<'_>, task: Task) -> Result<Machine> {
        let failed = |error| format!("make a socket: {error}");
        let (socket, its_end) = UnixStream::pair().map_err(failed)?;
        let mut machine = making.start(&INCOMING, Stdio::from(OwnedFd::from(its_end)))?;
        let feeding = self.feed(socket)?;
        machine.tell(Vec::new(), task)?;
        let end = Instant::now() + making.patience;
        let is_hello = |message: &Message| matches!(message, Message::Hello { .. });
        match making.hear(&mut machine, end, is_hello) {
            Ok(_) => Ok(machine),
            Err(error) => Err(why(machine, feeding, error)),
        }
    }

    /// Writes the state to where QEMU takes it in, beside what else is done.
    pub(crate) fn feed(&self, mut socket: UnixStream) -> Result<JoinHandle<Result<()>>> {
        let failed = |error| format!("open {}: {error}", self.path.display());
        let mut file = File::open(&self.path).map_err(failed)?;
        let own = self.clone();
        Ok(thread::spawn(move || pour(&mut file, &mut socket, &own)))
    }
}

/// Why a machine did not go on: what it was given, or else this error.
pub(crate) fn why(mut machine: Machine, feeding: JoinHandle<Result<()>>, error: String) -> String {
    // Also ends the feeding, whose other end is gone then.
    machine.kill();
    let fed = feeding.join().unwrap_or(Ok(()));
    fed.err().unwrap_or(error)
}

impl Making<'_> {
    fn start(&self, more: &[&str], stdout: Stdio) -> Result<Machine> {
        Machine::waiting(self.front, self.spec, self.directory, more, stdout)
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
                    file.write_all(&buffer[..count]).map_err(|error| {
                        let why = failed("write", error);
                        format!("{why}: the state of a guest takes some 100 MiB below --dir")
                    })?;
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
    let mut left = state.size_bytes;
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
        if left == 0 && hasher.digest() != state.hash {
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
        let hash = xxhash_rust::xxh3::xxh3_64(bytes);
        SavedState { path: PathBuf::from("/s"), size_bytes: bytes.len() as u64, hash }
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
