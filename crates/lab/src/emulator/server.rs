//! The server of an emulated disk: takes requests from the kernel, has the model say when each is done,
//! and answers at that time. One thread, so that the model sees one order; it sleeps until shortly before
//! the next completion and spins the rest.

use std::path::Path;

use fsdyno_disk::{Completion, Disk, Model, Op, Request};
use fsdyno_sys::clock;
use fsdyno_sys::error::SysError;
use fsdyno_sys::fuse::{self, Ask, Connection, Received, ServedFile};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::faults::{self, Effect, Faults};
use super::store::Store;
use super::write_log::{Entry, LogWriter};

/// Time before a completion at which sleeping would be too coarse.
const SPIN_NS: u64 = 60_000;
/// How often the server says that it lives, and the longest that it sleeps.
const BEAT_NS: u64 = 1_000_000_000;
/// A completion counts as late when it is later than this, and by more than this share of its time.
const LATE_NS: u64 = 200_000;
const LATE_SHARE: u64 = 20;

/// What a server is to do.
#[derive(Debug)]
pub struct Service<'a> {
    /// The model.
    pub model: &'a Model,
    /// The contents.
    pub store: Store,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
    /// Where it is mounted.
    pub directory: &'a Path,
    /// Name of the file there.
    pub name: &'a str,
    /// What the mount table shows as the device.
    pub source: &'a str,
    /// What is drawn comes from it.
    pub seed: u64,
    /// What the way through the kernel takes, both directions together: answers leave so much earlier.
    pub lead_ns: u64,
    /// Where every change is written down.
    pub log: Option<LogWriter>,
    /// Which requests go wrong.
    pub faults: Option<Faults>,
}

/// What a server did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Requests answered.
    pub requests: u64,
    /// Of these, those answered too late because the host was busy.
    pub late: u64,
    /// The greatest time by which an answer was late, in nanoseconds.
    pub latest_ns: u64,
    /// Time of all requests together by the model, in nanoseconds.
    pub modelled_ns: u64,
    /// What the model counted, by name.
    pub counters: std::collections::BTreeMap<String, u64>,
}

/// What an answer will say.
#[derive(Debug)]
enum Reply {
    Data(Vec<u8>),
    Written(u32),
    Done,
    Error(Errno),
}

#[derive(Debug)]
struct Waiting {
    unique: u64,
    arrival_ns: u64,
    /// How much later than the model says it is answered.
    hold_ns: u64,
    reply: Reply,
    /// Its entry in the log.
    entry: Option<u64>,
}

/// Serves until the filesystem is unmounted. `beat` is called once it is mounted and then about once a
/// second.
///
/// # Errors
/// A sentence: it cannot be mounted, or the connection broke.
pub fn serve(service: Service<'_>, beat: &mut dyn FnMut()) -> Result<Report, String> {
    let disk = Disk::new(service.model, service.size_bytes, service.seed)?;
    let file = ServedFile { name: service.name.into(), size_bytes: service.size_bytes };
    let connection = Connection::mount(service.directory, service.source, file)
        .map_err(|error| error.to_string())?;
    fuse::prepare_server();
    let mut server = Server {
        takes_discards: service.model.takes_discards(),
        disk,
        store: service.store,
        waiting: Vec::new(),
        free: Vec::new(),
        buffers: Vec::new(),
        done: Vec::new(),
        held: Vec::new(),
        begin_ns: clock::now_ns(),
        half_lead_ns: service.lead_ns / 2,
        log: service.log,
        faults: service.faults,
        report: Report::default(),
    };
    server.run(connection, beat).map_err(|error| error.to_string())?;
    server.report.counters = server.disk.counters();
    Ok(server.report)
}

/// The answer to what was not done.
fn done_with(ask: Ask<'_>) -> Reply {
    match ask {
        Ask::Write { data, .. } => Reply::Written(data.len() as u32),
        _ => Reply::Done,
    }
}

struct Server {
    takes_discards: bool,
    disk: Disk,
    store: Store,
    /// Requests under way, by the number that the model knows them by; free places are used again.
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    buffers: Vec<Vec<u8>>,
    done: Vec<Completion>,
    /// Answers that a fault holds back, with the time of each.
    held: Vec<(u64, Waiting)>,
    begin_ns: u64,
    half_lead_ns: u64,
    log: Option<LogWriter>,
    faults: Option<Faults>,
    report: Report,
}

impl Server {
    /// The model's time of answers: ahead of the clock by half the way.
    fn now_ns(&self) -> u64 {
        clock::now_ns() - self.begin_ns + self.half_lead_ns
    }

    fn run(&mut self, mut connection: Connection, beat: &mut dyn FnMut()) -> Result<(), SysError> {
        let mut last_beat_ns = 0;
        beat();
        loop {
            let now_ns = self.now_ns();
            if now_ns - last_beat_ns > BEAT_NS {
                last_beat_ns = now_ns;
                beat();
            }
            self.disk.advance(now_ns, &mut self.done);
            self.answer(&connection)?;
            self.let_go(now_ns, &connection)?;
            match connection.receive()? {
                Received::Asked { unique, ask } => {
                    let refused = self.take(unique, ask);
                    if let Some(errno) = refused {
                        connection.reply_error(unique, errno)?;
                    }
                }
                Received::Answered => {}
                Received::Ended => return Ok(()),
                Received::Nothing => {
                    let held_ns = self.held.iter().map(|(due_ns, _)| *due_ns).min();
                    let next_ns = self.disk.next_event_ns().into_iter().chain(held_ns).min();
                    let next_ns = next_ns.unwrap_or(u64::MAX);
                    let left_ns = next_ns.saturating_sub(self.now_ns());
                    if left_ns > SPIN_NS {
                        connection.wait((left_ns - SPIN_NS).min(BEAT_NS));
                    }
                }
            }
        }
    }

    /// Gives a request to the model and does to the contents what it asks; an error where that is not
    /// what this disk can do.
    fn take(&mut self, unique: u64, ask: Ask<'_>) -> Option<Errno> {
        let arrival_ns = self.now_ns().saturating_sub(2 * self.half_lead_ns);
        let size = self.disk.size_bytes();
        let (op, offset, bytes) = match ask {
            Ask::Read { offset, bytes } => (Op::Read, offset, u64::from(bytes)),
            Ask::Write { offset, data } => (Op::Write, offset, data.len() as u64),
            Ask::Fsync => (Op::Flush, 0, 0),
            Ask::Discard { offset, bytes } if self.takes_discards => (Op::Discard, offset, bytes),
            Ask::Zero { offset, bytes } if self.takes_discards => (Op::Discard, offset, bytes),
            Ask::Discard { .. } | Ask::Zero { .. } => return Some(Errno::OPNOTSUPP),
        };
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Some(Errno::INVAL);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        let (id, sector, fua) = (place as u64, offset / 512, false);
        let request = Request { id, op, sector, bytes, fua, arrival_ns };
        self.disk.submit(request, &mut self.done);
        let effect = self.faults.as_mut().and_then(|faults| faults.effect(&ask));
        let touched = match effect {
            Some(Effect::Fail) => Ok((Reply::Error(Errno::IO), None)),
            Some(Effect::Lose) if !matches!(ask, Ask::Read { .. }) => Ok((done_with(ask), None)),
            _ => self.touch(ask).and_then(|reply| Ok((reply, self.note(ask)?))),
        };
        let (mut reply, entry) = touched.unwrap_or_else(|error| {
            (Reply::Error(Errno::from_io_error(&error).unwrap_or(Errno::IO)), None)
        });
        if let (Some(Effect::Flip), Reply::Data(buffer)) = (effect, &mut reply) {
            faults::flip(buffer);
        }
        let hold_ns = if let Some(Effect::Delay(ns)) = effect { ns } else { 0 };
        self.waiting[place] = Some(Waiting { unique, arrival_ns, hold_ns, reply, entry });
        None
    }

    /// Writes down what was changed; gives its number there.
    fn note(&mut self, ask: Ask<'_>) -> std::io::Result<Option<u64>> {
        let Some(log) = &mut self.log else { return Ok(None) };
        match ask {
            Ask::Read { .. } => return Ok(None),
            Ask::Write { offset, data } => log.write(offset, data),
            Ask::Fsync => log.add(Entry::Flush),
            Ask::Discard { offset, bytes } | Ask::Zero { offset, bytes } => {
                log.add(Entry::Zero { offset, bytes })
            }
        }
        .map(Some)
    }

    fn touch(&mut self, ask: Ask<'_>) -> std::io::Result<Reply> {
        Ok(match ask {
            Ask::Read { offset, bytes } => {
                let mut buffer = self.buffers.pop().unwrap_or_default();
                buffer.resize(bytes as usize, 0);
                self.store.read(offset, &mut buffer)?;
                Reply::Data(buffer)
            }
            Ask::Write { offset, data } => {
                self.store.write(offset, data, false)?;
                Reply::Written(data.len() as u32)
            }
            Ask::Fsync => {
                self.store.flush()?;
                Reply::Done
            }
            Ask::Discard { offset, bytes } | Ask::Zero { offset, bytes } => {
                self.store.clear(offset, bytes, matches!(ask, Ask::Zero { .. }))?;
                Reply::Done
            }
        })
    }

    fn answer(&mut self, connection: &Connection) -> Result<(), SysError> {
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            let place = completion.id as usize;
            let Some(waiting) = self.waiting[place].take() else { continue };
            self.free.push(place);
            if waiting.hold_ns > 0 {
                self.held.push((completion.at_ns + waiting.hold_ns, waiting));
                continue;
            }
            let arrival_ns = waiting.arrival_ns;
            self.reply(waiting, connection)?;
            self.account(completion.at_ns, arrival_ns);
        }
        self.done = done;
        Ok(())
    }

    /// Gives the answers that were held back until now.
    fn let_go(&mut self, now_ns: u64, connection: &Connection) -> Result<(), SysError> {
        while let Some(at) = self.held.iter().position(|(due_ns, _)| *due_ns <= now_ns) {
            let (_, waiting) = self.held.swap_remove(at);
            self.reply(waiting, connection)?;
        }
        Ok(())
    }

    fn reply(&mut self, waiting: Waiting, connection: &Connection) -> Result<(), SysError> {
        let unique = waiting.unique;
        if let (Some(entry), Some(log)) = (waiting.entry, &mut self.log) {
            // A log that cannot be written is not the disk's fault; its reader finds it cut off.
            let _ = log.add(Entry::Done { entry });
        }
        match waiting.reply {
            Reply::Data(buffer) => {
                connection.reply_data(unique, &buffer)?;
                self.buffers.push(buffer);
            }
            Reply::Written(bytes) => connection.reply_written(unique, bytes)?,
            Reply::Done => connection.reply_done(unique)?,
            Reply::Error(errno) => connection.reply_error(unique, errno)?,
        }
        Ok(())
    }

    fn account(&mut self, due_ns: u64, arrival_ns: u64) {
        let late_ns = self.now_ns().saturating_sub(due_ns);
        let modelled_ns = due_ns.saturating_sub(arrival_ns);
        self.report.requests += 1;
        self.report.modelled_ns += modelled_ns;
        self.report.latest_ns = self.report.latest_ns.max(late_ns);
        if late_ns > LATE_NS.max(modelled_ns / LATE_SHARE) {
            self.report.late += 1;
        }
    }
}
