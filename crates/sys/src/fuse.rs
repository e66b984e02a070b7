//! The kernel's end of a filesystem in user space, as much of it as one directory with one file needs:
//! mounting, requests in, replies out, ending a connection whose server hangs. The protocol is that of
//! `include/uapi/linux/fuse.h`, version 7.31 and later. What a request means is left to the server.

mod wire;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::IoSlice;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::block::DeviceNumber;
use crate::error::{Result, SysError};
use crate::mount;
use wire::InHeader;

const DEVICE: &str = "/dev/fuse";
/// `include/uapi/linux/prctl.h`, since Linux 5.6.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
/// Greatest length of a read or write, in bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// What a request may have besides its data, in bytes.
const HEADER_ROOM: usize = 8192;
/// Requests that may be under way at once, so that the kernel does not hold back what a disk could queue.
const MAX_BACKGROUND: u16 = 512;
/// The filesystem type of such mounts in the mount table.
pub const FS_TYPE: &str = "fuse.fsdyno";
/// Node of the file; the directory's is 1.
pub(crate) const FILE_NODE: u64 = 2;

/// The file that is served.
#[derive(Debug, Clone)]
pub struct ServedFile {
    /// Its name in the directory.
    pub name: OsString,
    /// Its size in bytes, which does not change.
    pub size_bytes: u64,
}

/// What is asked of the file. Everything else is answered already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask<'b> {
    /// Bytes of it.
    Read {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u32,
    },
    /// To take bytes.
    Write {
        /// Where they begin.
        offset: u64,
        /// The bytes.
        data: &'b [u8],
    },
    /// To make durable what was written before.
    Fsync,
    /// To forget bytes, which read as zeros from then on.
    Discard {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// To write zeros.
    Zero {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
}

/// What came from the kernel.
#[derive(Debug)]
pub enum Received<'b> {
    /// Something that is to be answered by one of the replies, with this number.
    Asked {
        /// Number of the request.
        unique: u64,
        /// What is asked.
        ask: Ask<'b>,
    },
    /// Something that was answered already.
    Answered,
    /// Nothing at the moment.
    Nothing,
    /// The filesystem is unmounted, or its connection was ended.
    Ended,
}

/// A mounted filesystem from its server's side.
#[derive(Debug)]
pub struct Connection {
    device: File,
    file: ServedFile,
    buffer: Vec<u8>,
}

impl Connection {
    /// Mounts a directory with `file` in it on `directory`. `source` is what the mount table shows as the
    /// device. Nothing answers until [`Connection::receive`] is called.
    ///
    /// # Errors
    /// `ENOENT` for a kernel without FUSE, `EPERM` without root.
    pub fn mount(directory: &Path, source: &str, file: ServedFile) -> Result<Connection> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(DEVICE)
            .map_err(|error| {
                SysError::from_io("open", Path::new(DEVICE), &error)
                    .with_detail("emulated disks need FUSE; try: modprobe fuse")
            })?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,subtype=fsdyno,max_read={MAX_BYTES}",
            device.as_raw_fd()
        );
        mount::mount("fuse", source, directory, &options)?;
        Ok(Connection { device, file, buffer: vec![0; MAX_BYTES + HEADER_ROOM] })
    }

    /// Waits until something comes, at most `timeout_ns`.
    pub fn wait(&self, timeout_ns: u64) {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        // A signal or an error only ends the waiting early.
        let _ = poll(&mut [PollFd::new(&self.device, PollFlags::IN)], Some(&timeout));
    }

    /// Takes the next request without waiting for it.
    ///
    /// # Errors
    /// Where the device cannot be read.
    pub fn receive(&mut self) -> Result<Received<'_>> {
        let count = match rustix::io::read(&self.device, self.buffer.as_mut_slice()) {
            Ok(count) => count,
            // NOENT: the request was taken back by whoever had asked.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => return Ok(Received::Nothing),
            Err(Errno::NODEV) => return Ok(Received::Ended),
            Err(errno) => return Err(SysError::new("read", DEVICE, errno)),
        };
        let message = &self.buffer[..count];
        let Some((header, body)) = InHeader::split(message) else {
            return Ok(Received::Answered);
        };
        if let Some(ask) = wire::ask(&header, body) {
            return Ok(Received::Asked { unique: header.unique, ask });
        }
        match wire::answer(&header, body, &self.file) {
            wire::Answer::None => {}
            wire::Answer::Error(errno) => send(&self.device, header.unique, errno, &[])?,
            wire::Answer::Body(body) => send(&self.device, header.unique, 0, &body)?,
        }
        Ok(Received::Answered)
    }

    /// Answers a read with its bytes.
    ///
    /// # Errors
    /// Where the device cannot be written; a request that was taken back is none.
    pub fn reply_data(&self, unique: u64, data: &[u8]) -> Result<()> {
        send(&self.device, unique, 0, data)
    }

    /// Answers a write that took `bytes`.
    ///
    /// # Errors
    /// As for [`Connection::reply_data`].
    pub fn reply_written(&self, unique: u64, bytes: u32) -> Result<()> {
        let mut body = [0; 8];
        body[..4].copy_from_slice(&bytes.to_ne_bytes());
        send(&self.device, unique, 0, &body)
    }

    /// Answers what has nothing to give back.
    ///
    /// # Errors
    /// As for [`Connection::reply_data`].
    pub fn reply_done(&self, unique: u64) -> Result<()> {
        send(&self.device, unique, 0, &[])
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// As for [`Connection::reply_data`].
    pub fn reply_error(&self, unique: u64, errno: Errno) -> Result<()> {
        send(&self.device, unique, -errno.raw_os_error(), &[])
    }
}

fn send(device: &File, unique: u64, error: i32, body: &[u8]) -> Result<()> {
    let header = wire::out_header(unique, error, body.len());
    match rustix::io::writev(device, &[IoSlice::new(&header), IoSlice::new(body)]) {
        // The kernel no longer waits for it.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
        Err(errno) => Err(SysError::new("write", DEVICE, errno)),
    }
}

/// Readies this process to serve a disk: its memory stays in memory, its allocations do not wait for
/// writeback to the very disk that it serves (`PR_SET_IO_FLUSHER`), its timers are exact, and it goes
/// before ordinary processes. What is not permitted is left out.
pub fn prepare_server() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: four calls that change settings of this process and read one plain struct.
    unsafe {
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
        libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority);
    }
}

/// Ends the connection of the FUSE filesystem with this device number: whoever waits for its server gets
/// an error. Never looks at the filesystem itself, which may hang.
///
/// # Errors
/// Where the kernel's control filesystem is not mounted and cannot be, or has no such connection.
pub fn abort(device: DeviceNumber) -> Result<()> {
    let name = device.minor.to_string();
    let write = |directory: PathBuf| {
        let path = directory.join(&name).join("abort");
        fs::write(&path, "1").map_err(|error| SysError::from_io("write", &path, &error))
    };
    let first = write(PathBuf::from("/sys/fs/fuse/connections"));
    if first.is_ok() {
        return first;
    }
    let control = mount::mount_detached("fusectl")?;
    write(mount::descriptor_path(&control))
}
