//! The calls on the files of one job of the workload `fs-mark`. When they are timed, and what follows
//! which, is left to [`super::run`].

use std::ffi::{CStr, CString};
use std::ops::Range;

use fsdyno_model::payload::Payload;
use fsdyno_sys::calls::{Calls, OpenFlags};
use fsdyno_sys::{Errno, SysError};

use super::layout::{Layout, Owner};
use super::settings::Settings;
use crate::contents::PayloadBuffer;
use crate::failure::{call_failed, name_failed};
use crate::payload::{content_key, name_hash};
use crate::recorder::{Operation, Recorder};

/// How the original opens a new file: one that has the name already is emptied.
const ORIGINAL_NEW: OpenFlags = OpenFlags { create: true, truncate: true, ..OpenFlags::READ_WRITE };
/// A file that was not there.
const NEW: OpenFlags = OpenFlags { create: true, exclusive: true, ..OpenFlags::WRITE };

/// What is written.
trait Contents {
    /// The bytes of the file of `key` from `offset` on; the recorder is told where making them took time.
    fn bytes(&mut self, key: u64, offset: u64, count: u64, recorder: &mut Recorder) -> &[u8];
}

/// The original's buffer.
struct Zeros<'a>(&'a [u8]);

impl Contents for Zeros<'_> {
    #[inline(always)]
    fn bytes(&mut self, _: u64, _: u64, count: u64, _: &mut Recorder) -> &[u8] {
        &self.0[..count as usize]
    }
}

/// Payload of stated entropy.
struct Made<'a>(&'a mut PayloadBuffer);

impl Contents for Made<'_> {
    #[inline(always)]
    fn bytes(&mut self, key: u64, offset: u64, count: u64, recorder: &mut Recorder) -> &[u8] {
        let bytes = self.0.bytes(key, offset, count);
        recorder.begin();
        bytes
    }
}

/// What a job writes from.
#[derive(Debug)]
enum Writing {
    Zeros(Vec<u8>),
    Made(PayloadBuffer),
}

/// The files of one job in one iteration.
#[derive(Debug)]
pub struct Job {
    owner: Owner,
    layout: Layout,
    size_bytes: u64,
    write_bytes: u64,
    /// Paths of the files, each as long as the layout says.
    paths: Paths,
    /// The subdirectories, or the working directory itself: the original makes the directory of every
    /// file again.
    directories: Vec<CString>,
    writing: Writing,
}

#[derive(Debug)]
struct Paths {
    arena: Vec<u8>,
    stride: usize,
}

impl Paths {
    #[inline(always)]
    fn place(&mut self, index: u64) -> &mut [u8] {
        let start = index as usize * self.stride;
        &mut self.arena[start..start + self.stride]
    }

    #[inline(always)]
    fn get(&self, index: u64) -> &CStr {
        let start = index as usize * self.stride;
        CStr::from_bytes_with_nul(&self.arena[start..start + self.stride])
            .expect("every path ends with the only NUL byte in it")
    }
}

/// The key of the contents of the file that has this number among all.
#[inline(always)]
#[must_use]
pub fn file_key(number: u64) -> u64 {
    const OWNER: u64 = name_hash(b"fs-mark");
    content_key(OWNER, number, 0)
}

impl Job {
    /// The job `job_index`; `seed` is that of the payload.
    #[must_use]
    pub fn new(settings: &Settings, job_index: u64, seed: u64) -> Job {
        let layout = settings.layout;
        let write_bytes = settings.write_bytes.min(settings.size_bytes).max(1);
        let mut directories: Vec<CString> = layout
            .directory_names()
            .map(|name| CString::new(name).expect("hexadecimal digits hold no NUL"))
            .collect();
        if directories.is_empty() {
            directories.push(c".".to_owned());
        }
        let stride = layout.stride();
        Job {
            owner: Owner { loop_index: 0, job_index },
            layout,
            size_bytes: settings.size_bytes,
            write_bytes,
            paths: Paths { arena: vec![0; settings.files as usize * stride], stride },
            directories,
            writing: match settings.payload {
                Payload::Original => Writing::Zeros(vec![0; write_bytes as usize]),
                made => Writing::Made(PayloadBuffer::new(made, seed, write_bytes as usize)),
            },
        }
    }

    /// Turns to the files of another iteration; writes their names, too, unless they are written while
    /// files are created.
    pub fn turn_to(&mut self, loop_index: u64, with_names: bool) {
        self.owner.loop_index = loop_index;
        if with_names {
            for index in 0..self.layout.files {
                self.layout.write_path(self.owner, index, self.paths.place(index));
            }
        }
    }

    /// Path and content key of a file.
    #[must_use]
    pub fn file(&self, index: u64) -> (String, u64) {
        let path = self.paths.get(index).to_string_lossy().into_owned();
        (path, file_key(self.layout.number(self.owner, index)))
    }

    /// Creates and writes files, and syncs each where `FSYNC`. With `ORIGINAL` it makes the name and the
    /// directory of each first.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    #[inline]
    pub fn create<C: Calls, const ORIGINAL: bool, const FSYNC: bool>(
        &mut self,
        (calls, root): (&C, &C::Fd),
        files: Range<u64>,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        let Job { owner, layout, size_bytes, write_bytes, paths, directories, writing } = self;
        let place = Place { owner: *owner, layout, directories };
        let sizes = (*size_bytes, *write_bytes);
        match writing {
            Writing::Zeros(bytes) => create::<_, _, ORIGINAL, FSYNC>(
                (calls, root),
                (place, paths),
                (files, sizes),
                &mut Zeros(bytes),
                recorder,
            ),
            Writing::Made(buffer) => create::<_, _, ORIGINAL, FSYNC>(
                (calls, root),
                (place, paths),
                (files, sizes),
                &mut Made(buffer),
                recorder,
            ),
        }
    }

    /// Opens, syncs and closes files; with `ORIGINAL` the three calls count as one that syncs.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    #[inline]
    pub fn sync_again<C: Calls, const ORIGINAL: bool>(
        &self,
        (calls, root): (&C, &C::Fd),
        files: impl Iterator<Item = u64>,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        for index in files {
            let path = self.paths.get(index);
            let failed = |call| move |errno: Errno| name_failed(call, "", path, errno);
            let file = calls.open_read(root, path).map_err(failed("open"))?;
            if !ORIGINAL {
                recorder.end(Operation::Open);
            }
            calls.fsync(&file).map_err(failed("fsync"))?;
            if !ORIGINAL {
                recorder.end(Operation::Fsync);
            }
            calls.close(file).map_err(failed("close"))?;
            recorder.end(if ORIGINAL { Operation::Fsync } else { Operation::Close });
        }
        Ok(())
    }

    /// Removes files.
    ///
    /// # Errors
    /// The call that failed first, with the name of its file.
    #[inline]
    pub fn unlink<C: Calls>(
        &self,
        (calls, root): (&C, &C::Fd),
        files: Range<u64>,
        recorder: &mut Recorder,
    ) -> Result<(), SysError> {
        for index in files {
            let path = self.paths.get(index);
            calls.unlink(root, path).map_err(|errno| name_failed("unlink", "", path, errno))?;
            recorder.end(Operation::Unlink);
            recorder.files += 1;
        }
        Ok(())
    }
}

/// What tells where a file lies.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: Owner,
    layout: &'a Layout,
    directories: &'a [CString],
}

#[inline]
fn create<C: Calls, S: Contents, const ORIGINAL: bool, const FSYNC: bool>(
    (calls, root): (&C, &C::Fd),
    (place, paths): (Place<'_>, &mut Paths),
    (files, (size_bytes, write_bytes)): (Range<u64>, (u64, u64)),
    contents: &mut S,
    recorder: &mut Recorder,
) -> Result<(), SysError> {
    for index in files {
        if ORIGINAL {
            name_file(calls, root, place, index, paths.place(index))?;
            recorder.begin();
        }
        let path = paths.get(index);
        let failed = |call| move |errno: Errno| name_failed(call, "", path, errno);
        let flags = if ORIGINAL { ORIGINAL_NEW } else { NEW };
        let file = calls.open_with(root, path, flags).map_err(failed("create"))?;
        recorder.end(Operation::Create);
        let key = file_key(place.layout.number(place.owner, index));
        let mut written = 0;
        while written < size_bytes {
            let count = write_bytes.min(size_bytes - written);
            let bytes = contents.bytes(key, written, count, recorder);
            calls.write_all(&file, bytes).map_err(failed("write"))?;
            recorder.end(Operation::Write);
            written += count;
        }
        if FSYNC {
            calls.fsync(&file).map_err(failed("fsync"))?;
            recorder.end(Operation::Fsync);
        }
        calls.close(file).map_err(failed("close"))?;
        recorder.end(Operation::Close);
        recorder.bytes += size_bytes;
        recorder.files += 1;
    }
    Ok(())
}

/// Writes the name of a file and makes its directory, which is there but for the first time.
#[inline]
fn name_file<C: Calls>(
    calls: &C,
    root: &C::Fd,
    place: Place<'_>,
    index: u64,
    path: &mut [u8],
) -> Result<(), SysError> {
    place.layout.write_path(place.owner, index, path);
    let directory = &place.directories[place.layout.directory(place.owner, index) as usize];
    match calls.mkdir(root, directory) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(call_failed("mkdir", directory.to_string_lossy(), errno)),
    }
}
