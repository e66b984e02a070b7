//! Network block devices whose other end is in this machine: a device of the kernel that asks over a
//! socket, and the questions as they come. When they are answered, and from what, is left to the caller.
//!
//! Source: include/uapi/linux/nbd.h of Linux, and the NBD protocol (github.com/NetworkBlockDevice/nbd,
//! doc/proto.md), transmission phase with simple replies.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, opcode};

use crate::error::{Result, SysError};

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Bytes of a request without its data.
const REQUEST_BYTES: usize = 28;
const FLAG_HAS_FLAGS: usize = 1 << 0;
const FLAG_SEND_FLUSH: usize = 1 << 2;
const FLAG_SEND_FUA: usize = 1 << 3;
const FLAG_ROTATIONAL: usize = 1 << 4;
const FLAG_SEND_TRIM: usize = 1 << 5;
/// The flag of a request that a write is to be durable at once.
const COMMAND_FUA: u16 = 1 << 0;
/// Bytes of a block, the unit of the size that the kernel is told.
const BLOCK_BYTES: usize = 512;
/// More bytes at once are no request of the kernel's.
const MAX_BYTES: u32 = 64 << 20;

const SET_SOCK: Opcode = opcode::none(0xab, 0);
const SET_BLKSIZE: Opcode = opcode::none(0xab, 1);
const DO_IT: Opcode = opcode::none(0xab, 3);
const SET_SIZE_BLOCKS: Opcode = opcode::none(0xab, 7);
const SET_FLAGS: Opcode = opcode::none(0xab, 10);

/// What the kernel is told of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskTraits {
    /// Size in bytes, a multiple of 512.
    pub size_bytes: u64,
    /// Whether it rotates.
    pub is_rotational: bool,
    /// Whether it takes discards.
    pub takes_discards: bool,
}

/// What the kernel asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Give bytes.
    Read,
    /// Take bytes; with `fua` they are to be durable at once.
    Write {
        /// Durable before it is answered.
        fua: bool,
    },
    /// Make durable what was taken before.
    Flush,
    /// Forget bytes.
    Discard,
}

/// A request of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Name by which it is answered.
    pub cookie: u64,
    /// What is asked.
    pub ask: Ask,
    /// Where, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub bytes: u32,
}

/// What there was to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A request; the data of a write follow it.
    Asked(Request),
    /// The kernel is done with the device.
    Ended,
}

/// The server's end of a device.
#[derive(Debug)]
pub struct Server {
    socket: UnixStream,
}

/// Makes the block device `device` (`/dev/nbd0`) ask a server, whose end is returned. A thread of this
/// process is the device's until it is disconnected.
///
/// # Errors
/// The device is not there or in use; there are no more descriptors.
pub fn attach(device: &Path, traits: DiskTraits) -> Result<Server> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        .map_err(|error| SysError::from_io("open", device, &error))?;
    let (own, its) =
        UnixStream::pair().map_err(|error| SysError::from_io("socketpair for", device, &error))?;
    let mut flags = FLAG_HAS_FLAGS | FLAG_SEND_FLUSH | FLAG_SEND_FUA;
    flags |= if traits.is_rotational { FLAG_ROTATIONAL } else { 0 };
    flags |= if traits.takes_discards { FLAG_SEND_TRIM } else { 0 };
    let blocks = usize::try_from(traits.size_bytes).unwrap_or(usize::MAX) / BLOCK_BYTES;
    set::<SET_BLKSIZE>(&file, device, BLOCK_BYTES)?;
    set::<SET_SIZE_BLOCKS>(&file, device, blocks)?;
    set::<SET_FLAGS>(&file, device, flags)?;
    let descriptor = usize::try_from(its.as_raw_fd()).unwrap_or(usize::MAX);
    set::<SET_SOCK>(&file, device, descriptor)?;
    let path = device.to_owned();
    std::thread::spawn(move || {
        // It returns when the device is disconnected; why is no matter then.
        let _ = set::<DO_IT>(&file, &path, 0);
        drop(its);
    });
    Ok(Server { socket: own })
}

fn set<const CODE: Opcode>(file: &File, device: &Path, value: usize) -> Result<()> {
    // SAFETY: the calls of NBD that are listed above take a number and touch no memory of this process.
    let done = unsafe { ioctl::ioctl(file, ioctl::IntegerSetter::<CODE>::new_usize(value)) };
    done.map_err(|errno| SysError::at_path("ioctl NBD", device, errno))
}

impl Server {
    /// Waits until something comes, at most `timeout_ns`, or for ever; says whether it did.
    pub fn wait(&self, timeout_ns: Option<u64>) -> bool {
        let timeout = timeout_ns.map(|timeout_ns| Timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        });
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        // A signal only ends the waiting early.
        poll(&mut polled, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// The next request; to be called when there is one.
    ///
    /// # Errors
    /// The kernel's end is closed in the middle of one, or says what is no request.
    pub fn receive(&mut self) -> Result<Received> {
        let mut header = [0; REQUEST_BYTES];
        match self.socket.read(&mut header) {
            Ok(0) => return Ok(Received::Ended),
            Ok(count) => self.fill(&mut header[count..])?,
            Err(error) => return Err(failed("read", &error)),
        }
        parse(&header).ok_or_else(|| SysError::new("read", "a request of NBD", Errno::BADMSG))
    }

    /// The data that follow a write.
    ///
    /// # Errors
    /// As [`Server::receive`].
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.socket.read_exact(buffer).map_err(|error| failed("read", &error))
    }

    /// Answers a request: the data of a read, nothing for others, or an error.
    ///
    /// # Errors
    /// The kernel's end is closed.
    pub fn reply(&mut self, cookie: u64, errno: Option<Errno>, data: &[u8]) -> Result<()> {
        let mut header = [0; 16];
        header[..4].copy_from_slice(&REPLY_MAGIC.to_be_bytes());
        let error = errno.map_or(0, |errno| errno.raw_os_error().unsigned_abs());
        header[4..8].copy_from_slice(&error.to_be_bytes());
        header[8..].copy_from_slice(&cookie.to_be_bytes());
        let data = if errno.is_some() { &[] } else { data };
        let mut parts = [IoSlice::new(&header), IoSlice::new(data)];
        let mut left = &mut parts[..];
        while left.iter().any(|part| !part.is_empty()) {
            match self.socket.write_vectored(left) {
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed("write", &error)),
            }
        }
        Ok(())
    }
}

fn failed(call: &'static str, error: &std::io::Error) -> SysError {
    SysError::from_io(call, Path::new("the socket of a block device"), error)
}

/// The request in a header; `None` where it is none.
fn parse(header: &[u8; REQUEST_BYTES]) -> Option<Received> {
    let number = |range: std::ops::Range<usize>| {
        header[range].iter().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte))
    };
    if number(0..4) != u64::from(REQUEST_MAGIC) {
        return None;
    }
    let flags = number(4..6) as u16;
    let (cookie, offset) = (number(8..16), number(16..24));
    let bytes = u32::try_from(number(24..28)).ok().filter(|bytes| *bytes <= MAX_BYTES);
    let ask = match number(6..8) {
        0 => Ask::Read,
        1 => Ask::Write { fua: flags & COMMAND_FUA != 0 },
        2 => return Some(Received::Ended),
        3 => Ask::Flush,
        4 => {
            return Some(Received::Asked(Request {
                cookie,
                ask: Ask::Discard,
                offset,
                bytes: number(24..28) as u32,
            }));
        }
        _ => return None,
    };
    Some(Received::Asked(Request { cookie, ask, offset, bytes: bytes? }))
}

/// The path of the device with this number.
#[must_use]
pub fn device_path(number: usize) -> PathBuf {
    PathBuf::from(format!("/dev/nbd{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u16, flags: u16, bytes: u32) -> [u8; REQUEST_BYTES] {
        let mut header = [0; REQUEST_BYTES];
        header[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        header[4..6].copy_from_slice(&flags.to_be_bytes());
        header[6..8].copy_from_slice(&kind.to_be_bytes());
        header[8..16].copy_from_slice(&7_u64.to_be_bytes());
        header[16..24].copy_from_slice(&4096_u64.to_be_bytes());
        header[24..].copy_from_slice(&bytes.to_be_bytes());
        header
    }

    #[test]
    fn requests_are_read() {
        let asked =
            |ask, bytes| Some(Received::Asked(Request { cookie: 7, ask, offset: 4096, bytes }));
        assert_eq!(parse(&header(0, 0, 512)), asked(Ask::Read, 512));
        assert_eq!(parse(&header(1, 1, 512)), asked(Ask::Write { fua: true }, 512));
        assert_eq!(parse(&header(1, 0, 512)), asked(Ask::Write { fua: false }, 512));
        assert_eq!(parse(&header(3, 0, 0)), asked(Ask::Flush, 0));
        assert_eq!(parse(&header(4, 0, 1 << 31)), asked(Ask::Discard, 1 << 31));
        assert_eq!(parse(&header(2, 0, 0)), Some(Received::Ended));
        assert_eq!(parse(&header(9, 0, 0)), None);
        assert_eq!(parse(&header(0, 0, u32::MAX)), None);
        assert_eq!(parse(&[0; REQUEST_BYTES]), None);
    }

    #[test]
    fn a_conversation_is_held() {
        let (own, mut kernel) = UnixStream::pair().unwrap();
        let mut server = Server { socket: own };
        assert!(!server.wait(Some(0)));
        kernel.write_all(&header(1, 0, 4)).unwrap();
        kernel.write_all(b"data").unwrap();
        assert!(server.wait(None));
        let Received::Asked(request) = server.receive().unwrap() else { panic!("it ended") };
        let mut data = [0; 4];
        server.fill(&mut data).unwrap();
        assert_eq!((request.bytes, &data), (4, b"data"));
        server.reply(7, None, b"back").unwrap();
        server.reply(8, Some(Errno::IO), b"lost").unwrap();
        let mut answer = [0; 36];
        kernel.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..4], REPLY_MAGIC.to_be_bytes());
        assert_eq!((&answer[8..16], &answer[16..20]), (&7_u64.to_be_bytes()[..], &b"back"[..]));
        assert_eq!(answer[24..28], [0, 0, 0, 5]);
        drop(kernel);
        assert_eq!(server.receive().unwrap(), Received::Ended);
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let traits = DiskTraits { size_bytes: 512, is_rotational: false, takes_discards: false };
        assert!(attach(Path::new("/dev/null"), traits).is_err());
        assert!(attach(Path::new("/no/such"), traits).is_err());
    }
}
