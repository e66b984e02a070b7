//! Gives an open descriptor to another process, over a socket that both have. What it is for, the bytes
//! beside it say.

use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Room for the header of one control message and one descriptor (CMSG_SPACE(3) of an `int` is 24 bytes on
/// 64-bit Linux), aligned as headers must be.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends `bytes`, of which there must be some, and with the first of them `descriptor`. The receiver has a
/// descriptor of its own then.
///
/// # Errors
/// The system call's; `InvalidInput` without bytes, `WriteZero` where the socket takes no more.
pub fn send_with(socket: &UnixStream, bytes: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    if bytes.is_empty() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut control = Control([0; 32]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let length = size_of::<libc::c_int>() as libc::c_uint;
    // SAFETY: all zeros are a valid `msghdr`: null pointers and lengths of nothing.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    // SAFETY: it computes a length from a length and reads nothing.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as _;
    // SAFETY: the header lies at the start of `control`, which is aligned for it and has room for it and one
    // descriptor behind it, as the length that was set says.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(length) as _;
        let place: *mut libc::c_int = libc::CMSG_DATA(header).cast();
        place.write_unaligned(descriptor.as_raw_fd());
    }
    let sent = loop {
        // SAFETY: `message` points to `part` and `control`, which live until the call returns; it reads them
        // alone, although `iov_base` would let it write.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(sent) => break sent,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    // The descriptor went with what was taken first.
    io::Write::write_all(&mut &*socket, &bytes[sent..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    #[test]
    fn bytes_arrive_and_nothing_is_sent_without_them() {
        let (here, there) = UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send_with(&here, b"one", file.as_fd()).unwrap();
        let mut heard = [0; 3];
        io::Read::read_exact(&mut &there, &mut heard).unwrap();
        assert_eq!(&heard, b"one");
        let error = send_with(&here, b"", file.as_fd()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    /// The end that was given away stays open until the message is gone, and its end is heard then.
    #[test]
    fn the_descriptor_travels() {
        let (here, there) = UnixStream::pair().unwrap();
        let (given, kept) = UnixStream::pair().unwrap();
        send_with(&here, b"x", given.as_fd()).unwrap();
        drop(given);
        io::Write::write_all(&mut &kept, b"still open").unwrap();
        drop(there);
        let mut rest = Vec::new();
        let ended = io::Read::read_to_end(&mut &kept, &mut rest);
        // Closed with bytes unread, which is told as a reset.
        assert!(ended.is_err() || rest.is_empty());
    }
}
