//! The decompressed bytes of an archive as one stream that knows its place. Where there is a second
//! processor, a thread of its own reads and decompresses ahead, a bounded number of chunks, as
//! `tar -z` has it done by a second process. What the bytes mean is left to [`super::entries`].

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use super::{Archive, Compression};

/// Bytes of one chunk: small enough that it is still in the cache of the processor when it is written.
const CHUNK_BYTES: usize = 128 << 10;
/// Chunks on the way between the two threads, full or empty.
const CHUNKS: usize = 16;
/// Bytes of compressed input that are read at a time.
const INPUT_BYTES: usize = 128 << 10;

/// What the stream and its reader both know.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Decompressed bytes given out so far.
    pub(super) offset_bytes: Cell<u64>,
    /// How many more may be given out; beyond that reading fails. For the parts of an archive whose
    /// length it states itself and which are held in memory.
    pub(super) allowed_bytes: Cell<u64>,
    /// Whether the end was read.
    pub(super) at_end: Cell<bool>,
}

/// The stream.
pub(super) struct Stream {
    source: Source,
    meter: Rc<Meter>,
}

enum Source {
    Direct(Box<dyn Read + Send>),
    Ahead(Ahead),
}

/// The receiving end of the thread that reads ahead.
struct Ahead {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    /// Bytes of the chunk that were given out.
    used: usize,
}

impl Stream {
    /// Opens the bytes of `archive`. The thread that reads ahead, if there is one, ends when the stream
    /// is dropped, and `scope` waits for it.
    pub(super) fn start<'scope>(
        archive: &Archive,
        scope: &'scope Scope<'scope, '_>,
    ) -> io::Result<Stream> {
        let decoder = decoder(archive)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let source = if processors > 1 {
            Source::Ahead(read_ahead(decoder, scope)?)
        } else {
            Source::Direct(Box::new(BufReader::with_capacity(CHUNK_BYTES, decoder)))
        };
        let meter = Rc::new(Meter::default());
        meter.allowed_bytes.set(u64::MAX);
        Ok(Stream { source, meter })
    }

    pub(super) fn meter(&self) -> Rc<Meter> {
        Rc::clone(&self.meter)
    }
}

fn decoder(archive: &Archive) -> io::Result<Box<dyn Read + Send>> {
    let file = File::open(archive.path())?;
    if archive.compression() == Compression::None {
        return Ok(Box::new(file));
    }
    let input = BufReader::with_capacity(INPUT_BYTES, file);
    Ok(match archive.compression() {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(input)?),
        Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(input)),
    })
}

fn read_ahead<'scope>(
    mut decoder: Box<dyn Read + Send>,
    scope: &'scope Scope<'scope, '_>,
) -> io::Result<Ahead> {
    let (give, full) = sync_channel(CHUNKS);
    let (empty, take) = sync_channel(CHUNKS);
    for _ in 0..CHUNKS {
        empty.send(vec![0; CHUNK_BYTES]).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
    }
    let name = "archive-reader".to_owned();
    std::thread::Builder::new().name(name).spawn_scoped(scope, move || {
        // Both ends of the channels are closed when nobody reads any more.
        while let Ok(mut chunk) = take.recv() {
            chunk.resize(CHUNK_BYTES, 0);
            let outcome = fill(&mut decoder, &mut chunk);
            let (count, error) = match outcome {
                Ok(count) => (count, None),
                Err((count, error)) => (count, Some(error)),
            };
            let is_last = count < CHUNK_BYTES;
            chunk.truncate(count);
            if give.send(Ok(chunk)).is_err() {
                return;
            }
            if let Some(error) = error {
                // Whoever reads no more does not need to know.
                let _ = give.send(Err(error));
                return;
            }
            if is_last {
                return;
            }
        }
    })?;
    Ok(Ahead { full, empty, chunk: Vec::new(), used: 0 })
}

/// Fills `buffer` as far as the input goes; with an error come the bytes before it.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, (usize, io::Error)> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((filled, error)),
        }
    }
    Ok(filled)
}

impl Ahead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.chunk.len() {
            let used = std::mem::take(&mut self.chunk);
            self.used = 0;
            if used.capacity() != 0 {
                // Fails only when the other side has finished and needs no more.
                let _ = self.empty.try_send(used);
            }
            match self.full.recv() {
                Ok(Ok(chunk)) => self.chunk = chunk,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(0),
            }
        }
        let rest = &self.chunk[self.used..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Ok(count)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let allowed = self.meter.allowed_bytes.get();
        if allowed == 0 {
            return Err(io::Error::other("the names and attributes of one entry are too long"));
        }
        let room = buffer.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let count = match &mut self.source {
            Source::Direct(decoder) => decoder.read(&mut buffer[..room])?,
            Source::Ahead(ahead) => ahead.read(&mut buffer[..room])?,
        };
        self.meter.at_end.set(count == 0);
        self.meter.offset_bytes.set(self.meter.offset_bytes.get() + count as u64);
        self.meter.allowed_bytes.set(allowed - count as u64);
        Ok(count)
    }
}
