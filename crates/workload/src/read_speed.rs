//! How fast a machine reads: the same buffer again and again from memory, and one sequential stream
//! past the cache. The workload `read-speed` and the fingerprint of every run use the same loops; what
//! is read, and what becomes of the figures, is left to them.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fsdyno_model::payload::Payload;
use fsdyno_sys::Errno;
use fsdyno_sys::buffer::AlignedBuffer;
use fsdyno_sys::calls::{Calls, CreateFlags, OpenFlags, Real};
use fsdyno_sys::clock::now_ns;

use crate::contents::PayloadBuffer;
use crate::failure::{call_failed, check_interrupt};
use crate::recorder::{Operation, Recorder};

/// Bytes of every read, as hdparm's.
pub const BUFFER_BYTES: usize = 2 << 20;
/// Bytes of the read that finds out whether a file can be read past the cache.
const ATTEMPT_BYTES: usize = 4096;
/// Nothing in it can be compressed or shared, so that no layer below saves the reading.
const INCOMPRESSIBLE: Payload =
    Payload::Realistic { compressibility_percent: 0, duplication_percent: 0 };

/// Something open that is read: a file or a block device.
#[derive(Debug)]
pub struct Source {
    /// The descriptor.
    pub file: OwnedFd,
    /// Its path, for errors.
    pub name: String,
    /// Whether reads go past the page cache (`O_DIRECT`).
    pub direct: bool,
}

impl Source {
    /// Opens `name` in `directory` to be read through the page cache.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn cached(directory: &OwnedFd, name: &CStr) -> anyhow::Result<Source> {
        let shown = name.to_string_lossy().into_owned();
        let opened = Real.open_read(directory, name);
        let file = opened.map_err(|errno| call_failed("open", shown.as_str(), errno))?;
        Ok(Source { file, name: shown, direct: false })
    }

    /// Opens `name` in `directory` to be read past the page cache, or through it where that is refused.
    ///
    /// # Errors
    /// When it cannot be opened in either way.
    pub fn uncached(directory: &OwnedFd, name: &CStr) -> anyhow::Result<Source> {
        let flags = OpenFlags { direct: true, ..OpenFlags::READ };
        // Some filesystems let it be opened so and refuse the first read.
        let attempt = Real.open_with(directory, name, flags).and_then(|file| {
            Real.read_at(&file, &mut AlignedBuffer::new(ATTEMPT_BYTES), 0)?;
            Ok(file)
        });
        let shown = || name.to_string_lossy().into_owned();
        match attempt {
            Ok(file) => Ok(Source { file, name: shown(), direct: true }),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Source::cached(directory, name),
            Err(errno) => Err(call_failed("open", shown(), errno).into()),
        }
    }

    /// As [`Source::uncached`], by path.
    ///
    /// # Errors
    /// When it cannot be opened in either way.
    pub fn uncached_at(path: &Path) -> anyhow::Result<Source> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            anyhow::bail!("{} is neither a file nor a device", path.display());
        };
        let failed = |errno| call_failed("open", parent.display().to_string(), errno);
        let directory = Real.open_root(parent).map_err(failed)?;
        Source::uncached(&directory, &CString::new(name.as_bytes())?)
    }

    /// Reads the first buffer again and again until `end_ns` of the monotonic clock; at least once.
    ///
    /// # Errors
    /// When a read fails or a signal asks to stop.
    pub fn read_again(
        &self,
        buffer: &mut AlignedBuffer,
        end_ns: u64,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        loop {
            if self.read_at(buffer, 0, recorder)? == 0 || now_ns() >= end_ns {
                return Ok(());
            }
        }
    }

    /// Reads on at the `stream`'s position until its end or `end_ns`; at least once.
    ///
    /// # Errors
    /// As [`Source::read_again`].
    pub fn read_on(
        &self,
        stream: &Stream,
        buffer: &mut AlignedBuffer,
        end_ns: u64,
        recorder: &mut Recorder,
    ) -> anyhow::Result<()> {
        loop {
            let offset = stream.next_bytes.fetch_add(BUFFER_BYTES as u64, Ordering::Relaxed);
            if offset >= stream.size_bytes
                || self.read_at(buffer, offset, recorder)? == 0
                || now_ns() >= end_ns
            {
                return Ok(());
            }
        }
    }

    fn read_at(
        &self,
        buffer: &mut AlignedBuffer,
        offset: u64,
        recorder: &mut Recorder,
    ) -> anyhow::Result<usize> {
        check_interrupt()?;
        let read = Real.read_at(&self.file, buffer, offset);
        let count = read.map_err(|errno| call_failed("read", self.name.as_str(), errno))?;
        recorder.end(Operation::Read);
        recorder.bytes += count as u64;
        recorder.read_bytes += count as u64;
        Ok(count)
    }
}

/// A file or device that several threads read once from the start to the end, each taking the next
/// buffer.
#[derive(Debug)]
pub struct Stream {
    size_bytes: u64,
    next_bytes: AtomicU64,
}

impl Stream {
    /// A stream of `size_bytes`, not read yet.
    #[must_use]
    pub fn new(size_bytes: u64) -> Stream {
        Stream { size_bytes, next_bytes: AtomicU64::new(0) }
    }
}

/// Bytes and the time that reading them took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed {
    /// Bytes read.
    pub bytes: u64,
    /// Time from before the first read until the return of the last, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Speed {
    /// MiB per second; `None` when nothing was read.
    #[must_use]
    pub fn mib_per_s(self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.bytes > 0 && self.elapsed_ns > 0).then(|| mib / (self.elapsed_ns as f64 / 1e9))
    }
}

/// Measures `source` by reading its first buffer from the cache for `limit_ns`; it is read once
/// before.
///
/// # Errors
/// When a read fails or a signal asks to stop.
pub fn cached_speed(source: &Source, limit_ns: u64) -> anyhow::Result<Speed> {
    let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
    source.read_again(&mut buffer, 0, &mut Recorder::new())?;
    timed(|recorder| source.read_again(&mut buffer, now_ns() + limit_ns, recorder))
}

/// Measures `source` by reading it once from the start, until its end or for `limit_ns`.
///
/// # Errors
/// As [`cached_speed`].
pub fn stream_speed(source: &Source, size_bytes: u64, limit_ns: u64) -> anyhow::Result<Speed> {
    let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
    let stream = Stream::new(size_bytes);
    timed(|recorder| source.read_on(&stream, &mut buffer, now_ns() + limit_ns, recorder))
}

fn timed(read: impl FnOnce(&mut Recorder) -> anyhow::Result<()>) -> anyhow::Result<Speed> {
    let mut recorder = Recorder::new();
    recorder.begin();
    let start_ns = now_ns();
    read(&mut recorder)?;
    Ok(Speed { bytes: recorder.bytes, elapsed_ns: now_ns() - start_ns })
}

/// Makes the file `name` in `directory` and writes `size_bytes` of `source`'s payload into it.
///
/// # Errors
/// When a call fails (it exists, the target is full) or a signal asks to stop.
pub fn write_file(
    directory: &OwnedFd,
    name: &CStr,
    size_bytes: u64,
    source: &mut PayloadBuffer,
    content_key: u64,
) -> anyhow::Result<()> {
    let failed = |call, errno| call_failed(call, name.to_string_lossy(), errno);
    let created = Real.create(directory, name, CreateFlags::EXCLUSIVE);
    let file = created.map_err(|errno| failed("create", errno))?;
    let mut offset = 0;
    while offset < size_bytes {
        check_interrupt()?;
        let count = source.size_bytes().min(size_bytes - offset);
        Real.write_all(&file, source.bytes(content_key, offset, count))
            .map_err(|errno| failed("write", errno))?;
        offset += count;
    }
    Ok(Real.close(file).map_err(|errno| failed("close", errno))?)
}

/// Makes the file `name` in the directory at `path` for a quick look at the disk below: incompressible,
/// past the cache where that is allowed, durable, as long as can be written in `limit_ns` and no longer
/// than `most_bytes`. Gives its size in bytes.
///
/// # Errors
/// When a call fails or a signal asks to stop.
pub fn write_trial_file(
    path: &Path,
    name: &CStr,
    most_bytes: u64,
    limit_ns: u64,
) -> anyhow::Result<u64> {
    let failed = |call, errno| {
        let below = path.join(name.to_string_lossy().as_ref());
        call_failed(call, below.display().to_string(), errno)
    };
    let directory = Real.open_root(path).map_err(|errno| failed("open", errno))?;
    let created = Real.create(&directory, name, CreateFlags::EXCLUSIVE);
    let plain = created.map_err(|errno| failed("create", errno))?;
    // Opened again instead of made so: where it is refused, a file would be left all the same.
    let flags = OpenFlags { direct: true, ..OpenFlags::WRITE };
    let direct = Real.open_with(&directory, name, flags).ok();
    let mut source = PayloadBuffer::new(INCOMPRESSIBLE, now_ns(), BUFFER_BYTES);
    let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
    let mut is_direct = direct.is_some();
    let mut size_bytes = 0;
    let end_ns = now_ns() + limit_ns;
    while size_bytes + BUFFER_BYTES as u64 <= most_bytes && (size_bytes == 0 || now_ns() < end_ns) {
        check_interrupt()?;
        buffer.copy_from_slice(source.bytes(0, size_bytes, BUFFER_BYTES as u64));
        let file = direct.as_ref().filter(|_| is_direct).unwrap_or(&plain);
        match Real.write_all_at(file, &buffer, size_bytes) {
            Ok(()) => size_bytes += BUFFER_BYTES as u64,
            Err(Errno::INVAL) if is_direct => is_direct = false,
            Err(errno) => return Err(failed("write", errno).into()),
        }
    }
    Real.fsync(&plain).map_err(|errno| failed("fsync", errno))?;
    Ok(size_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &CStr = c"file";

    fn written(size_bytes: u64) -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        let root = Real.open_root(directory.path()).unwrap();
        let mut source = PayloadBuffer::new(Payload::DEFAULT, 1, 1 << 20);
        write_file(&root, NAME, size_bytes, &mut source, 7).unwrap();
        (directory, root)
    }

    #[test]
    fn a_stream_is_read_once_by_all_its_threads() {
        for (size_bytes, jobs) in [(0, 1), (1, 2), (5 << 20, 1), ((9 << 20) + 4096, 3)] {
            let (_directory, root) = written(size_bytes);
            let source = Source::uncached(&root, NAME).unwrap();
            let stream = Stream::new(size_bytes);
            let mut recorder = Recorder::new();
            crate::jobs::run(jobs, &mut recorder, |_, recorder| {
                source.read_on(&stream, &mut AlignedBuffer::new(BUFFER_BYTES), u64::MAX, recorder)
            })
            .unwrap();
            assert_eq!((recorder.bytes, recorder.read_bytes), (size_bytes, size_bytes));
            let buffers = size_bytes.div_ceil(BUFFER_BYTES as u64);
            assert_eq!(recorder.count(Operation::Read), buffers, "{size_bytes}");
        }
    }

    #[test]
    fn reading_ends_with_the_time() {
        let (_directory, root) = written(6 << 20);
        let source = Source::cached(&root, NAME).unwrap();
        let speed = stream_speed(&source, 6 << 20, 0).unwrap();
        assert_eq!(speed.bytes, BUFFER_BYTES as u64, "one buffer at least");
        let again = cached_speed(&source, 20_000_000).unwrap();
        assert!(again.elapsed_ns >= 20_000_000 && again.bytes.is_multiple_of(BUFFER_BYTES as u64));
        assert!(again.bytes > 6 << 20, "the same buffer many times: {again:?}");
        assert!(again.mib_per_s().unwrap() > 0.0);
        assert_eq!(Speed { bytes: 0, elapsed_ns: 1 }.mib_per_s(), None);
        assert_eq!(Speed { bytes: 3 << 20, elapsed_ns: 2_000_000_000 }.mib_per_s(), Some(1.5));
    }

    #[test]
    fn a_trial_file_is_bounded_in_size_and_time() {
        let directory = tempfile::tempdir().unwrap();
        for (name, most_bytes, limit_ns, expected) in
            [(c"a", 5 << 20, u64::MAX >> 1, 4 << 20), (c"b", 64 << 20, 0, 2 << 20), (c"c", 1, 9, 0)]
        {
            let size = write_trial_file(directory.path(), name, most_bytes, limit_ns).unwrap();
            assert_eq!(size, expected);
            let path = directory.path().join(name.to_string_lossy().as_ref());
            assert_eq!(std::fs::metadata(path).unwrap().len(), expected);
        }
        let error = write_trial_file(directory.path(), c"a", 1, 0).unwrap_err().to_string();
        assert!(error.contains("EEXIST"), "{error}");
    }
}
