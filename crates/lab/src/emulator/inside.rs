//! An emulated disk inside a guest whose time is virtual: a block device of the guest's kernel (NBD) that
//! asks a thread of the guest's first process, which has the model say when each request is done, and does
//! it on memory that keeps its contents.
//!
//! Everything is inside the guest's own time: a sleep costs the host little, and ends at its nanosecond. So
//! this server neither spins nor can be late, and it takes nobody's word for how long the way through the
//! kernel is: that costs instructions, as the way to a real disk does.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fsdyno_disk::{Completion, Disk, Model, Op, Request};
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::error::SysError;
use fsdyno_sys::nbd::{self, Ask, DiskTraits, Received};
use fsdyno_sys::{Errno, clock, fuse};
use rustix::fs::OFlags;

/// How long the kernel may take to know the disk's size.
const SIZE_PATIENCE: Duration = Duration::from_secs(30);
/// One seed for all trials: their disks stand at the same angle and draw alike.
const SEED: u64 = 1;

/// What is to be served.
#[derive(Debug)]
pub struct Wish<'a> {
    /// The model.
    pub model: &'a Model,
    /// The device with the contents.
    pub contents: &'a Path,
    /// The block device that asks.
    pub device: PathBuf,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// Serves a disk from now on until the machine ends.
///
/// # Errors
/// A sentence: the contents cannot be opened, the kernel lacks the device, the model is not of that size.
pub fn serve(wish: &Wish<'_>) -> Result<(), String> {
    let disk = Disk::new(wish.model, wish.size_bytes, SEED)?;
    let contents = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(wish.contents)
        .map_err(|error| format!("open {}: {error}", wish.contents.display()))?;
    let traits = DiskTraits {
        size_bytes: wish.size_bytes,
        is_rotational: wish.model.is_rotational(),
        takes_discards: wish.model.takes_discards(),
    };
    let connection = nbd::attach(&wish.device, traits).map_err(|error| error.to_string())?;
    let server = Server {
        connection,
        contents,
        disk,
        waiting: Vec::new(),
        free: Vec::new(),
        buffers: Vec::new(),
        done: Vec::new(),
        begin_ns: clock::now_ns(),
    };
    std::thread::spawn(move || {
        fuse::prepare_server();
        if let Err(error) = server.run() {
            // The console is all that is left to say it on; who waits for the disk gets an error.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("fsdyno: the emulated disk: {error}\n").as_bytes(),
            );
        }
    });
    await_size(&wish.device, wish.size_bytes)?;
    tell_rotation(&wish.device, traits.is_rotational)
}

/// Has the kernel take the disk for one that rotates, or not: kernels before 6.12 take no word of NBD for it,
/// and filesystems lay out their data by it.
fn tell_rotation(device: &Path, is_rotational: bool) -> Result<(), String> {
    let name = device.file_name().unwrap_or_default();
    let file = Path::new("/sys/block").join(name).join("queue/rotational");
    let flag = if is_rotational { "1\n" } else { "0\n" };
    fs::write(&file, flag).map_err(|error| format!("write {}: {error}", file.display()))
}

fn await_size(device: &Path, size_bytes: u64) -> Result<(), String> {
    let name = device.file_name().unwrap_or_default();
    let file = Path::new("/sys/block").join(name).join("size");
    let end = Instant::now() + SIZE_PATIENCE;
    let is_known = || {
        let sectors = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        sectors == Some(size_bytes / 512)
    };
    while !is_known() {
        if Instant::now() > end {
            return Err(format!("{}: the kernel does not take its size", device.display()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A request that is done and not answered yet.
struct Waiting {
    cookie: u64,
    errno: Option<Errno>,
    /// What was read.
    data: Option<(AlignedBuffer, usize)>,
}

struct Server {
    connection: nbd::Server,
    contents: File,
    disk: Disk,
    /// Requests under way, by the number that the model knows them by; free places are used again.
    waiting: Vec<Option<Waiting>>,
    free: Vec<usize>,
    buffers: Vec<AlignedBuffer>,
    done: Vec<Completion>,
    begin_ns: u64,
}

impl Server {
    fn now_ns(&self) -> u64 {
        clock::now_ns() - self.begin_ns
    }

    fn run(mut self) -> Result<(), SysError> {
        loop {
            let now_ns = self.now_ns();
            self.disk.advance(now_ns, &mut self.done);
            self.answer()?;
            let left_ns =
                self.disk.next_event_ns().map(|at_ns| at_ns.saturating_sub(self.now_ns()));
            if left_ns == Some(0) || !self.connection.wait(left_ns) {
                continue;
            }
            match self.connection.receive()? {
                Received::Asked(request) => self.take(request)?,
                Received::Ended => return Ok(()),
            }
        }
    }

    /// Does to the contents what is asked, and gives the request to the model.
    fn take(&mut self, request: nbd::Request) -> Result<(), SysError> {
        let nbd::Request { cookie, ask, offset, bytes } = request;
        let arrival_ns = self.now_ns();
        let length = bytes as usize;
        let mut buffer = None;
        if let Ask::Write { .. } | Ask::Read = ask {
            buffer = Some(self.buffer(length));
        }
        if let (Ask::Write { .. }, Some(buffer)) = (ask, &mut buffer) {
            self.connection.fill(&mut buffer[..length])?;
        }
        let end = offset.checked_add(u64::from(bytes));
        if end.is_none_or(|end| end > self.disk.size_bytes()) {
            self.buffers.extend(buffer);
            return self.connection.reply(cookie, Some(Errno::INVAL), &[]);
        }
        let (op, fua) = match ask {
            Ask::Read => (Op::Read, false),
            Ask::Write { fua } => (Op::Write, fua),
            Ask::Flush => (Op::Flush, false),
            Ask::Discard => (Op::Discard, false),
        };
        let touched = match (&mut buffer, op) {
            (Some(buffer), Op::Read) => self.contents.read_exact_at(&mut buffer[..length], offset),
            (Some(buffer), _) => self.contents.write_all_at(&buffer[..length], offset),
            // What is forgotten may be read as it was.
            (None, _) => Ok(()),
        };
        let errno = touched.err().map(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let data = match op {
            Op::Read => buffer.map(|buffer| (buffer, length)),
            _ => {
                self.buffers.extend(buffer);
                None
            }
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() - 1
        });
        self.waiting[place] = Some(Waiting { cookie, errno, data });
        let (id, bytes) = (place as u64, if op == Op::Flush { 0 } else { u64::from(bytes) });
        let request = Request { id, op, sector: offset / 512, bytes, fua, arrival_ns };
        self.disk.submit(request, &mut self.done);
        Ok(())
    }

    /// A buffer of at least `length` bytes.
    fn buffer(&mut self, length: usize) -> AlignedBuffer {
        match self.buffers.iter().position(|buffer| buffer.len() >= length) {
            Some(index) => self.buffers.swap_remove(index),
            None => AlignedBuffer::new(length.next_power_of_two()),
        }
    }

    fn answer(&mut self) -> Result<(), SysError> {
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            let place = completion.id as usize;
            let Some(waiting) = self.waiting[place].take() else { continue };
            self.free.push(place);
            let data = waiting.data.as_ref().map_or(&[][..], |(buffer, length)| &buffer[..*length]);
            self.connection.reply(waiting.cookie, waiting.errno, data)?;
            self.buffers.extend(waiting.data.map(|(buffer, _)| buffer));
        }
        self.done = done;
        Ok(())
    }
}
