//! Layouts of FUSE messages, and the answers that are the same for every file: names, attributes,
//! opening, listing. Numbers are in the machine's own order.

use std::os::unix::ffi::OsStrExt;

use super::{Ask, FILE_NODE, MAX_BACKGROUND, MAX_BYTES, ServedFile};

const ROOT_NODE: u64 = 1;
/// Seconds for which names and attributes hold: for ever.
const VALID_S: u64 = 1 << 30;
const PAGE_BYTES: usize = 4096;

/// Version of the protocol that is spoken.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;

const ASYNC_READ: u32 = 1 << 0;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

const OPEN_DIRECT_IO: u32 = 1 << 0;
const OPEN_NOFLUSH: u32 = 1 << 5;
const OPEN_PARALLEL_WRITES: u32 = 1 << 6;

const PUNCH_HOLE: u32 = 0x2;
const ZERO_RANGE: u32 = 0x10;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const FSYNCDIR: u32 = 30;
const ACCESS: u32 = 34;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;
const FALLOCATE: u32 = 43;

/// A message being taken apart.
#[derive(Clone, Copy)]
pub(super) struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_ne_bytes)
    }
}

/// What every request begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct InHeader {
    opcode: u32,
    pub(super) unique: u64,
    node: u64,
}

impl InHeader {
    const BYTES: usize = 40;

    pub(super) fn split(message: &[u8]) -> Option<(InHeader, Reader<'_>)> {
        let (head, body) = message.split_at_checked(Self::BYTES)?;
        let mut head = Reader(head);
        let (_, opcode) = (head.u32()?, head.u32()?);
        let (unique, node) = (head.u64()?, head.u64()?);
        Some((InHeader { opcode, unique, node }, Reader(body)))
    }
}

/// `struct fuse_out_header`.
pub(super) fn out_header(unique: u64, error: i32, body_bytes: usize) -> [u8; 16] {
    let mut header = [0; 16];
    let length = u32::try_from(body_bytes + 16).unwrap_or(u32::MAX);
    header[..4].copy_from_slice(&length.to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// What is asked of the file's contents, where that is what it is about.
pub(super) fn ask<'b>(header: &InHeader, body: Reader<'b>) -> Option<Ask<'b>> {
    let mut body = body;
    match header.opcode {
        READ => {
            let (_, offset, bytes) = (body.u64()?, body.u64()?, body.u32()?);
            Some(Ask::Read { offset, bytes: bytes.min(MAX_BYTES as u32) })
        }
        WRITE => {
            let (_, offset, bytes) = (body.u64()?, body.u64()?, body.u32()?);
            let _rest: [u8; 20] = body.bytes()?;
            Some(Ask::Write { offset, data: body.0.get(..bytes as usize)? })
        }
        FSYNC => Some(Ask::Fsync),
        FALLOCATE => {
            let (_, offset, bytes, mode) = (body.u64()?, body.u64()?, body.u64()?, body.u32()?);
            match mode {
                mode if mode & PUNCH_HOLE != 0 => Some(Ask::Discard { offset, bytes }),
                mode if mode & ZERO_RANGE != 0 => Some(Ask::Zero { offset, bytes }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// An answer that needs no disk.
pub(super) enum Answer {
    /// The request wants none.
    None,
    /// A negative error number.
    Error(i32),
    /// What follows the header.
    Body(Vec<u8>),
}

/// Answers everything that is not about the file's contents.
pub(super) fn answer(header: &InHeader, body: Reader<'_>, file: &ServedFile) -> Answer {
    match header.opcode {
        INIT => init(body),
        LOOKUP => lookup(header, body, file),
        GETATTR | SETATTR => match attributes(header.node, file) {
            Some(attributes) => {
                let mut reply = Vec::with_capacity(104);
                push_u64(&mut reply, VALID_S);
                push_u64(&mut reply, 0);
                reply.extend(attributes);
                Answer::Body(reply)
            }
            None => Answer::Error(-libc::ENOENT),
        },
        OPEN | OPENDIR => {
            let flags = match header.opcode {
                OPEN => OPEN_DIRECT_IO | OPEN_NOFLUSH | OPEN_PARALLEL_WRITES,
                _ => 0,
            };
            let mut reply = vec![0; 16];
            reply[8..12].copy_from_slice(&u32::to_ne_bytes(flags));
            Answer::Body(reply)
        }
        READDIR => list(body, file),
        STATFS => statfs(file),
        RELEASE | RELEASEDIR | FLUSH | FSYNCDIR | ACCESS | DESTROY => Answer::Body(Vec::new()),
        FORGET | BATCH_FORGET | INTERRUPT => Answer::None,
        FALLOCATE => Answer::Error(-libc::EOPNOTSUPP),
        _ => Answer::Error(-libc::ENOSYS),
    }
}

fn push_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_ne_bytes());
}

fn push_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_ne_bytes());
}

fn init(body: Reader<'_>) -> Answer {
    let mut body = body;
    let (Some(major), Some(minor)) = (body.u32(), body.u32()) else {
        return Answer::Error(-libc::EPROTO);
    };
    if (major, minor) < (MAJOR, MINOR) {
        return Answer::Error(-libc::EPROTO);
    }
    let (Some(read_ahead), Some(offered)) = (body.u32(), body.u32()) else {
        return Answer::Error(-libc::EPROTO);
    };
    let mut reply = Vec::with_capacity(64);
    push_u32(&mut reply, MAJOR);
    push_u32(&mut reply, MINOR);
    push_u32(&mut reply, read_ahead);
    push_u32(&mut reply, offered & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES));
    reply.extend(MAX_BACKGROUND.to_ne_bytes());
    reply.extend((MAX_BACKGROUND / 4 * 3).to_ne_bytes());
    push_u32(&mut reply, MAX_BYTES as u32);
    push_u32(&mut reply, 1);
    reply.extend(((MAX_BYTES / PAGE_BYTES) as u16).to_ne_bytes());
    reply.resize(64, 0);
    Answer::Body(reply)
}

fn lookup(header: &InHeader, body: Reader<'_>, file: &ServedFile) -> Answer {
    let name = body.0.split(|byte| *byte == 0).next().unwrap_or_default();
    if header.node != ROOT_NODE || name != file.name.as_bytes() {
        return Answer::Error(-libc::ENOENT);
    }
    let mut reply = Vec::with_capacity(128);
    push_u64(&mut reply, FILE_NODE);
    push_u64(&mut reply, 0);
    push_u64(&mut reply, VALID_S);
    push_u64(&mut reply, VALID_S);
    push_u64(&mut reply, 0);
    reply.extend(attributes(FILE_NODE, file).unwrap_or_default());
    Answer::Body(reply)
}

/// `struct fuse_attr`.
fn attributes(node: u64, file: &ServedFile) -> Option<Vec<u8>> {
    let (mode, size, links) = match node {
        ROOT_NODE => (libc::S_IFDIR | 0o700, 0, 2),
        FILE_NODE => (libc::S_IFREG | 0o600, file.size_bytes, 1),
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(88);
    for number in [node, size, size.div_ceil(512), 0, 0, 0] {
        push_u64(&mut bytes, number);
    }
    // Parts of seconds, mode, links, owner, group, device, block size, flags.
    for number in [0, 0, 0, mode, links, 0, 0, 0, PAGE_BYTES as u32, 0] {
        push_u32(&mut bytes, number);
    }
    Some(bytes)
}

fn list(body: Reader<'_>, file: &ServedFile) -> Answer {
    let mut body = body;
    let _ = body.u64();
    let from = body.u64().unwrap_or(0);
    let mut reply = Vec::new();
    if from == 0 {
        let name = file.name.as_bytes();
        push_u64(&mut reply, FILE_NODE);
        push_u64(&mut reply, 1);
        push_u32(&mut reply, name.len() as u32);
        push_u32(&mut reply, libc::S_IFREG >> 12);
        reply.extend(name);
        reply.resize(reply.len().next_multiple_of(8), 0);
    }
    Answer::Body(reply)
}

fn statfs(file: &ServedFile) -> Answer {
    let mut reply = Vec::with_capacity(80);
    for number in [file.size_bytes / PAGE_BYTES as u64, 0, 0, 1, 0] {
        push_u64(&mut reply, number);
    }
    for number in [PAGE_BYTES as u32, 255, PAGE_BYTES as u32] {
        push_u32(&mut reply, number);
    }
    reply.resize(80, 0);
    Answer::Body(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ServedFile {
        ServedFile { name: "disk".into(), size_bytes: 1 << 30 }
    }

    fn message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_u32(&mut bytes, (40 + body.len()) as u32);
        push_u32(&mut bytes, opcode);
        push_u64(&mut bytes, 7);
        push_u64(&mut bytes, node);
        bytes.resize(40, 0);
        bytes.extend(body);
        bytes
    }

    fn body_of(opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        let message = message(opcode, node, body);
        let (header, body) = InHeader::split(&message).unwrap();
        match answer(&header, body, &file()) {
            Answer::Body(body) => Ok(body),
            Answer::Error(error) => Err(error),
            Answer::None => Err(0),
        }
    }

    #[test]
    fn answers_have_the_lengths_of_the_protocol() {
        assert_eq!(body_of(LOOKUP, 1, b"disk\0").map(|it| it.len()), Ok(128));
        assert_eq!(body_of(LOOKUP, 1, b"other\0"), Err(-libc::ENOENT));
        assert_eq!(body_of(GETATTR, 2, &[]).map(|it| it.len()), Ok(104));
        assert_eq!(body_of(STATFS, 1, &[]).map(|it| it.len()), Ok(80));
        assert_eq!(body_of(OPEN, 2, &[]).map(|it| it.len()), Ok(16));
        assert_eq!(body_of(9999, 2, &[]), Err(-libc::ENOSYS));
        let mut hello = Vec::new();
        [7, 45, 0, u32::MAX].iter().for_each(|number| push_u32(&mut hello, *number));
        assert_eq!(body_of(INIT, 0, &hello).map(|it| it.len()), Ok(64));
        assert_eq!(body_of(INIT, 0, &[7, 0, 0, 0]), Err(-libc::EPROTO));
    }

    #[test]
    fn contents_are_asked_for_and_torn_messages_do_no_harm() {
        let mut write = Vec::new();
        [0, 8192].iter().for_each(|number| push_u64(&mut write, *number));
        [4, 0, 0, 0, 0, 0].iter().for_each(|number| push_u32(&mut write, *number));
        write.extend(b"abcd");
        let whole = message(WRITE, 2, &write);
        let (header, body) = InHeader::split(&whole).unwrap();
        assert_eq!(ask(&header, body), Some(Ask::Write { offset: 8192, data: b"abcd" }));
        for length in 0..whole.len() {
            if let Some((header, body)) = InHeader::split(&whole[..length]) {
                assert_eq!(ask(&header, body), None, "{length}");
            }
        }
    }
}
