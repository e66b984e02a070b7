//! What a disk was asked to change, in order: every write with its bytes, every flush, every discard, and
//! when each was answered. From it any moment at which power could have failed can be made again. It is
//! two files: entries of one length, and the bytes behind them. An entry is in its file before the request
//! is answered, so that the number of entries is a clock: what a caller has seen done lies before it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of one entry in its file.
const ENTRY_BYTES: usize = 32;
/// Names of the two files in the log's directory.
const ENTRIES: &str = "entries";
const BYTES: &str = "bytes";
/// An entry about something that has no bytes.
const NO_BYTES: u64 = u64::MAX;

/// What one entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Bytes were taken.
    Write {
        /// Where they begin on the disk.
        offset: u64,
        /// How many.
        bytes: u32,
        /// Where they begin in the file of bytes.
        at: u64,
    },
    /// Zeros took the place of bytes, by a discard or a request for zeros.
    Zero {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// A flush came.
    Flush,
    /// The request of that entry was answered.
    Done {
        /// Number of the entry.
        entry: u64,
    },
}

impl Entry {
    fn encode(self) -> [u8; ENTRY_BYTES] {
        let (kind, offset, bytes, at) = match self {
            Entry::Write { offset, bytes, at } => (1u64, offset, u64::from(bytes), at),
            Entry::Zero { offset, bytes } => (2, offset, bytes, NO_BYTES),
            Entry::Flush => (3, 0, 0, NO_BYTES),
            Entry::Done { entry } => (4, entry, 0, NO_BYTES),
        };
        let mut encoded = [0; ENTRY_BYTES];
        for (place, number) in encoded.chunks_exact_mut(8).zip([kind, offset, bytes, at]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        encoded
    }

    fn decode(encoded: &[u8]) -> Option<Entry> {
        let mut numbers = encoded.chunks_exact(8).map(|part| {
            let part: [u8; 8] = part.try_into().unwrap_or_default();
            u64::from_le_bytes(part)
        });
        let (kind, offset) = (numbers.next()?, numbers.next()?);
        let (bytes, at) = (numbers.next()?, numbers.next()?);
        match kind {
            1 => Some(Entry::Write { offset, bytes: u32::try_from(bytes).ok()?, at }),
            2 => Some(Entry::Zero { offset, bytes }),
            3 => Some(Entry::Flush),
            4 => Some(Entry::Done { entry: offset }),
            _ => None,
        }
    }
}

/// A log being written.
#[derive(Debug)]
pub struct LogWriter {
    entries: File,
    bytes: File,
    count: u64,
    length: u64,
}

impl LogWriter {
    /// A new log in `directory`, which is made where it is missing.
    ///
    /// # Errors
    /// Those of making the files; one that exists is not overwritten.
    pub fn create(directory: &Path) -> io::Result<LogWriter> {
        std::fs::create_dir_all(directory)?;
        let new =
            |name| OpenOptions::new().append(true).create_new(true).open(directory.join(name));
        Ok(LogWriter { entries: new(ENTRIES)?, bytes: new(BYTES)?, count: 0, length: 0 })
    }

    /// Adds a write with its bytes; gives its number.
    ///
    /// # Errors
    /// Those of writing the files.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<u64> {
        let at = self.length;
        self.bytes.write_all(data)?;
        self.length += data.len() as u64;
        self.add(Entry::Write { offset, bytes: data.len() as u32, at })
    }

    /// Adds what has no bytes; gives its number.
    ///
    /// # Errors
    /// Those of writing the file.
    pub fn add(&mut self, entry: Entry) -> io::Result<u64> {
        self.entries.write_all(&entry.encode())?;
        self.count += 1;
        Ok(self.count - 1)
    }
}

/// The clock that a log is: how many entries it has.
#[derive(Debug)]
pub struct LogClock(File);

impl LogClock {
    /// The clock of the log in `directory`.
    ///
    /// # Errors
    /// Where there is no such log.
    pub fn open(directory: &Path) -> io::Result<LogClock> {
        File::open(directory.join(ENTRIES)).map(LogClock)
    }

    /// Entries so far. What the caller has seen done lies before it.
    ///
    /// # Errors
    /// Those of looking at the file.
    pub fn now(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len() / ENTRY_BYTES as u64)
    }
}

/// A log that is read.
#[derive(Debug)]
pub struct WriteLog {
    entries: Vec<Entry>,
    bytes: File,
    path: PathBuf,
}

impl WriteLog {
    /// Reads the log in `directory`. Bytes stay in their file until they are asked for.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or it is none.
    pub fn open(directory: &Path) -> Result<WriteLog, String> {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        let encoded = std::fs::read(directory.join(ENTRIES)).map_err(failed)?;
        let bytes = File::open(directory.join(BYTES)).map_err(failed)?;
        let length = bytes.metadata().map_err(failed)?.len();
        let decoded: Option<Vec<Entry>> =
            encoded.chunks_exact(ENTRY_BYTES).map(Entry::decode).collect();
        let entries = decoded
            .ok_or_else(|| format!("{} is no write log of this version", directory.display()))?;
        let is_whole = entries.iter().enumerate().all(|(number, entry)| match entry {
            Entry::Write { bytes, at, .. } => {
                at.checked_add(u64::from(*bytes)).is_some_and(|end| end <= length)
            }
            Entry::Done { entry } => *entry < number as u64,
            _ => true,
        });
        if !is_whole {
            return Err(format!("{} is cut off: record it again", directory.display()));
        }
        Ok(WriteLog { entries, bytes, path: directory.to_owned() })
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills `buffer` with bytes of the log from `at` on.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.bytes.read_exact_at(buffer, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("log");
        let mut writer = LogWriter::create(&place).unwrap();
        let clock = LogClock::open(&place).unwrap();
        assert_eq!(writer.write(4096, b"first").unwrap(), 0);
        assert_eq!(writer.add(Entry::Done { entry: 0 }).unwrap(), 1);
        assert_eq!(clock.now().unwrap(), 2);
        writer.add(Entry::Flush).unwrap();
        writer.add(Entry::Zero { offset: 512, bytes: 1 << 40 }).unwrap();
        assert_eq!(writer.write(0, b"second").unwrap(), 4);
        let log = WriteLog::open(&place).unwrap();
        assert_eq!(
            log.entries(),
            [
                Entry::Write { offset: 4096, bytes: 5, at: 0 },
                Entry::Done { entry: 0 },
                Entry::Flush,
                Entry::Zero { offset: 512, bytes: 1 << 40 },
                Entry::Write { offset: 0, bytes: 6, at: 5 },
            ]
        );
        let mut buffer = [0; 6];
        log.read(5, &mut buffer).unwrap();
        assert_eq!(&buffer, b"second");
        assert!(LogWriter::create(&place).is_err(), "a log is not overwritten");
    }

    #[test]
    fn a_log_that_is_cut_off_or_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("log");
        let mut writer = LogWriter::create(&place).unwrap();
        writer.write(0, &[7; 512]).unwrap();
        std::fs::write(place.join(BYTES), [7; 100]).unwrap();
        assert!(WriteLog::open(&place).unwrap_err().contains("cut off"));
        std::fs::write(place.join(ENTRIES), [9; 64]).unwrap();
        assert!(WriteLog::open(&place).unwrap_err().contains("no write log"));
        assert!(WriteLog::open(directory.path()).is_err());
    }
}
