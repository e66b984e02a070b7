//! How the errand reaches a guest and its words this program: a socket that is QEMU's standard input, or a
//! file that QEMU writes and this program reads as it grows.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use fsdyno_model::guest::{Errand, Message};
use fsdyno_model::wire;

use crate::Result;

/// Name of the file that a guest's words are written to.
pub const SAID: &str = "said";
/// How long QEMU may leave the errand lying.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
/// How often a file is looked at for more.
const TICK: Duration = Duration::from_millis(10);

/// What a guest says, and the way to it.
#[derive(Debug)]
pub struct Channel {
    /// What it says, until its end is closed.
    pub messages: Receiver<std::io::Result<Message>>,
    /// Kept open: a guest that reads from a closed port finds its end.
    port: Option<UnixStream>,
    /// Set when nobody writes to the file any more.
    is_ended: Arc<AtomicBool>,
}

impl Channel {
    /// A pair of sockets; the second value is QEMU's standard input.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn socket() -> Result<(Channel, Stdio)> {
        let failed = |error| format!("make a socket: {error}");
        let (port, its_port) = UnixStream::pair().map_err(failed)?;
        let heard = port.try_clone().map_err(failed)?;
        let is_ended = Arc::new(AtomicBool::new(false));
        let channel = Channel { messages: listen(heard), port: Some(port), is_ended };
        Ok((channel, Stdio::from(OwnedFd::from(its_port))))
    }

    /// The file [`SAID`] in `directory`; the errand takes another way.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn file(directory: &Path) -> Result<(Channel, Stdio)> {
        let path = directory.join(SAID);
        let failed = |error| format!("make {}: {error}", path.display());
        File::create(&path).map_err(failed)?;
        let file = File::open(&path).map_err(failed)?;
        let is_ended = Arc::new(AtomicBool::new(false));
        let tail = Tail { file, is_ended: Arc::clone(&is_ended) };
        Ok((Channel { messages: listen(tail), port: None, is_ended }, Stdio::null()))
    }

    /// Sends the errand where the way is a socket.
    pub fn send(&self, errand: &Errand) {
        let Some(port) = &self.port else { return };
        let _ = port.set_write_timeout(Some(WRITE_PATIENCE));
        // A QEMU that ended at once is noticed by its end, which tells more.
        let _ = wire::write_frame(&mut &*port, errand);
    }

    /// To be called once QEMU has ended: what is read then is all.
    pub fn writer_ended(&self) {
        self.is_ended.store(true, Ordering::Release);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.writer_ended();
    }
}

/// A file that grows, read to the end that it has once its writer has ended.
struct Tail {
    file: File,
    is_ended: Arc<AtomicBool>,
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            // Asked before: what was written until then is found by the reading that follows.
            let is_ended = self.is_ended.load(Ordering::Acquire);
            let count = self.file.read(buffer)?;
            if count > 0 || is_ended || buffer.is_empty() {
                return Ok(count);
            }
            thread::sleep(TICK);
        }
    }
}

fn listen(mut port: impl Read + Send + 'static) -> Receiver<std::io::Result<Message>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::sync::mpsc::RecvTimeoutError;

    #[test]
    fn a_file_is_read_as_it_grows_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let (channel, _) = Channel::file(directory.path()).unwrap();
        let mut file = File::options().append(true).open(directory.path().join(SAID)).unwrap();
        let mut frame = Vec::new();
        wire::write_frame(&mut frame, &Message::Heartbeat).unwrap();
        let patience = Duration::from_secs(30);
        let (first, second) = frame.split_at(2);
        file.write_all(first).unwrap();
        let nothing = channel.messages.recv_timeout(Duration::from_millis(50));
        assert!(matches!(nothing, Err(RecvTimeoutError::Timeout)));
        file.write_all(second).unwrap();
        let told = channel.messages.recv_timeout(patience).unwrap().unwrap();
        assert_eq!(told, Message::Heartbeat);
        file.write_all(&frame).unwrap();
        file.write_all(first).unwrap();
        channel.writer_ended();
        assert!(channel.messages.recv_timeout(patience).is_ok());
        let end = channel.messages.recv_timeout(patience);
        assert!(matches!(end, Err(RecvTimeoutError::Disconnected)), "{end:?}");
    }

    #[test]
    fn a_closed_socket_is_an_end() {
        let (channel, its_end) = Channel::socket().unwrap();
        drop(its_end);
        let end = channel.messages.recv_timeout(Duration::from_secs(30));
        assert!(matches!(end, Err(RecvTimeoutError::Disconnected)));
    }
}
